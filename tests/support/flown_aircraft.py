"""Aircraft from their parts that were identified in flight: the published ones and the X8 of 3D Robotics.

PYTHONPATH=tests python -m support.flown_aircraft    prints the table of rotors in motion of docs/evidence/own-drone-check.md
"""

from collections.abc import Iterator
from typing import NamedTuple

import samara
from samara.core.algebra import ZERO, Vec3
from samara.physics.multirotor import wrench
from samara.physics.rotors.propulsion import rotor_loads
from samara.physics.types import CALM
from samara.vehicles.parts.assemble import assemble
from samara.vehicles.parts.parts_list import parts_list
from support.published_aircraft import aircraft

# X8 by 3D Robotics: 3.5 kg with a camera, SunnySky 2216 of 800 rpm/V, 11x4.7 propellers, 4S 10 Ah; ArduPilot identified it by
# frequency sweeps (Tools/autotest/models/3DR_X8-M.json, Lag 24.94 rad/s in roll, pitch and thrust)
X8 = {
    "mass": 3.5,
    "diagonal": 0.5,
    "layout": "x8",
    "motors": "2216 800KV",
    "props": "11x4.7",
    "battery": "4S10000",
}
# of the next SunnySky motor of that size in motor_data.csv, X V3 2216 of 880 rpm/V, with as many more turns
X8_RESISTANCE = 0.089 * (880.0 / 800.0) ** 2


def flown_vehicle(name):
    """Assemble an aircraft of the list, or the X8."""
    if name.startswith("3DR X8"):
        resistance = {"resistance": X8_RESISTANCE} if "resistance" in name else {}
        return assemble(parts_list(name=name, **X8, **resistance))
    entry = next(entry for entry in aircraft() if entry["name"] == name)
    layout = {"rotors": entry["rotors"]} if "rotors" in entry else {"layout": entry["layout"]}
    parts = {key: value for key, value in entry["parts"].items() if key != "diagonal" or "rotors" not in entry}
    return assemble(parts_list(name=name, **parts, **layout))


class Flown(NamedTuple):
    """A number of an aircraft in flight, its prediction from parts, its unit, and the bound of their ratio, either way."""

    aircraft: str
    quantity: str
    flown: float
    predicted: float
    unit: str
    factor: float


def translation_rows() -> Iterator[Flown]:
    """Yield ∂f/∂v/m, ∂τ/∂v/J and ∂T/∂v about hover, and thrust across the disc over that of hover.

    X8: ArduPilot's identification. Racer: H and the moment's coefficient are those of flights to 18 m/s, T/T₀ of Agilicious'
    blade element model.
    """
    x8 = flown_vehicle("3DR X8")
    yield Flown("X8", "Xu", -0.218, slope(x8, "x").f_B.x / x8.mass, "1/s", 1.6)
    yield Flown("X8", "Zw", -1.33, slope(x8, "z").f_B.z / x8.mass, "1/s", 2.3)
    yield Flown("X8", "Mu", 4.67, -slope(x8, "x").tau_B.y / x8.inertia_B.yy, "rad/(s m)", 1.6)
    racer = flown_vehicle("Agilicious (5-inch racer)")
    yield Flown("Agilicious", "H/(Ωu)", 4.2e-5, racer["rotor_drag"].coefficient, "N s²/(rad m)", 1.2)
    state, _ = samara.hover(racer)
    hover = rotor_loads(state, racer, CALM)[0].thrust
    for speed, published in ((5.0, 1.067), (10.0, 1.221), (15.0, 1.394)):
        thrust = rotor_loads(state._replace(v_W=Vec3(speed, 0.0, 0.0)), racer, CALM)[0].thrust
        yield Flown("Agilicious", f"T/T₀ at {speed:.0f} m/s", published, thrust / hover, "", 1.05)


def slope(vehicle, axis, step=0.05):
    """∂(f, τ)/∂v along an axis about hover, by central differences"""
    state, command = samara.hover(vehicle)
    after, before = (
        wrench(state._replace(v_W=ZERO._replace(**{axis: speed})), command, vehicle, CALM) for speed in (step, -step)
    )
    return type(after)(*((a - b) * (0.5 / step) for a, b in zip(after, before, strict=True)))


def translation_table():
    """Return the table of the page."""
    lines = ["| what | flown | predicted | ratio |", "|---|---:|---:|---:|"]
    for row in translation_rows():
        what = f"{row.aircraft}, {row.quantity}{f' [{row.unit}]' if row.unit else ''}"
        lines.append(f"| {what} | {row.flown:.3g} | {row.predicted:.3g} | {row.predicted / row.flown:.2f} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(translation_table())
