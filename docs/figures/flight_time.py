"""Picture of the processor time of a flight by part, from the measurements of `bench/flight_parts.py`.

`PYTHONPATH=docs python -m figures.flight_time docs/images` draws the picture of the documentation.
"""

import json
import sys
from pathlib import Path

from samara.core.atomic_files import atomic_write
from samara.vehicles.shape import COLOURS
from samara.view.plot.style import samara_style

MEASURED = Path(__file__).parents[2] / "bench" / "results" / "flight_parts.json"
PARTS = ("physics", "other stages", "references", "recording", "Python")
LABELS = {
    "other stages": "controller, sensors, filter, wind, touchdown: other stages of the program",
    "Python": "Python, and functions that it calls",
}
NAMES = {
    "one Crazyflie": "one Crazyflie, geometric",
    "iris on IMU, GPS, barometer, magnetometer and Kalman filter in wind": "iris, sensors and Kalman filter",
    "one Crazyflie with iLQR": "one Crazyflie, iLQR",
    "100 in one world": "100 Crazyflies",
    "1000 in one world, downwash of all on all": "1000, downwash of all on all",
}


def draw_flight_time(path: str | Path) -> None:
    """Draw a bar per flight: the fraction of each part, and the processor time of a simulated second."""
    rows = json.loads(MEASURED.read_text(encoding="utf-8"))["rows"]
    with samara_style() as plt:
        figure, axes = plt.subplots(figsize=(10.0, 3.6), layout="constrained")
        names = [NAMES[row["row"]] for row in rows]
        totals = [sum(row[part] for part in PARTS) for row in rows]
        left = [0.0] * len(rows)
        for k, part in enumerate(PARTS):
            fractions = [100.0 * row[part] / total for row, total in zip(rows, totals, strict=True)]
            axes.barh(names, fractions, left=left, color=COLOURS[k], height=0.65, label=LABELS.get(part, part))
            left = [a + b for a, b in zip(left, fractions, strict=True)]
        for k, total in enumerate(totals):
            axes.text(101.0, k, f"{total:.3g} ms", va="center")
        axes.invert_yaxis()
        axes.set(xlim=(0.0, 112.0), xlabel="fraction of the processor time of a simulated second [%], and that time")
        axes.set_xticks(range(0, 101, 20))
        axes.grid(visible=False, axis="y")
        figure.legend(loc="outside upper center", ncols=3)
        with atomic_write(path) as unfinished:
            figure.savefig(unfinished, format="png")


if __name__ == "__main__":
    draw_flight_time(Path(sys.argv[1]) / "flight-time.png")
