"""The racer of docs/tutorials/own-drone.md to scale: `PYTHONPATH=docs python -m figures.own_drone docs/images` draws it."""

import sys
from pathlib import Path
from typing import Any

from samara.vehicles.parts.assemble import assemble
from samara.vehicles.parts.parts_list import parts_list
from samara.view.plot.vehicle import draw_vehicle

RACER: dict[str, Any] = {
    "mass": 0.65,
    "diagonal": 0.22,
    "motors": "2207 1950KV",
    "props": "5.1x4.3x3",
    "battery": "6S1300",
}

if __name__ == "__main__":
    draw_vehicle(assemble(parts_list(name="racer", **RACER)), Path(sys.argv[1]) / "own_drone.png")
