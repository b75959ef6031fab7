"""From a vehicle to a TOML file that `samara.vehicle` reads back to the same numbers."""

from pathlib import Path
from typing import Any, get_args, get_type_hints

from samara.files import write_text
from samara.physics.battery import Ideal
from samara.physics.multirotor import Vehicle
from samara.physics.rotor import Rotor
from samara.vehicles.build import DRAG_AXES, GRAVITIES, INFLOWS, VehicleError, check_vehicle
from samara.vehicles.loader import BATTERIES, MOTORS, SCHEMA

_WRITTEN = (
    "gravity",
    "rotors",
    "commanded_wrench",
    "rotor_momentum",
    "drag",
    "damping",
    "contact",
    "actuator",
    "battery",
)


def save_vehicle(vehicle: Vehicle, path: str | Path) -> None:
    """A vehicle file with value, unit and source on every line; an effect of one's own has no such form and is refused."""
    write_text(path, vehicle_toml(vehicle))


def vehicle_toml(vehicle: Vehicle) -> str:
    """The text of a vehicle's file."""
    check_vehicle(vehicle)
    for effect in vehicle.structure.effects:
        if effect.name not in _WRITTEN:
            raise VehicleError(
                f"{vehicle.name}: effect {effect.name!r} is Python code; expected effects a file can name"
            )
    sources = dict(vehicle.structure.sources)

    def line(path: str, value: Any, unit: str) -> str:
        key = path.rpartition(".")[2]
        source = sources.get(path, "built in Python")
        return f"{key} = {{ value = {_value(value)}, unit = {_text(unit)}, source = {_text(source)} }}"

    def record(path: str, numbers: Any) -> list[str]:
        hints = get_type_hints(type(numbers), include_extras=True)
        return [
            line(f"{path}.{field}", value, get_args(hints[field])[1].unit) for field, value in numbers._asdict().items()
        ]

    lines = [
        f"schema = {SCHEMA}",
        f"name = {_text(vehicle.name)}",
        f"actuation = {_text(vehicle.structure.actuation.name)}",
    ]
    if vehicle.structure.description:
        lines.append(f"description = {_text(vehicle.structure.description)}")
    rows = [list(row) for row in vehicle.inertia_B.rows]
    lines += ["", "[body]", line("body.mass", vehicle.mass, "kg"), line("body.inertia", rows, "kg m^2")]
    for name in ("gravity", "drag", "damping", "actuator"):
        if not vehicle.has(name):
            continue
        effect = vehicle.structure.effects[vehicle.index(name)]
        lines += ["", f"[{name}]"]
        if name == "gravity":
            lines.append(f"model = {_text(_key(GRAVITIES, effect))}")
        if name == "drag":
            lines.append(f"axes = {_text(_key(DRAG_AXES, effect))}")
        lines += record(name, vehicle[name])
    if vehicle.structure.inflow is not None:
        lines += ["", "[inflow]", f"model = {_text(_key(INFLOWS, vehicle.structure.inflow))}"]
    if vehicle.has("contact"):
        points = [list(point) for point in vehicle["contact"].points_B]
        lines += ["", "[contact]", line("contact.points", points, "m"), *record("contact", vehicle["contact"].surface)]
    if vehicle.has("battery"):
        battery = vehicle["battery"]
        for i, each in enumerate([battery] if isinstance(battery, Ideal) else battery):
            lines += [
                "",
                "[[battery]]",
                f"model = {_text(_key(BATTERIES, type(each)))}",
                *record(f"battery[{i}]", each),
            ]
    for i, rotor in enumerate(vehicle.rotors):
        lines += ["", "[[rotors]]", *_rotor(f"rotors[{i}]", rotor, line)]
        lines += ["[rotors.motor]", f"model = {_text(_key(MOTORS, type(rotor.motor)))}", *record("motor", rotor.motor)]
    return "\n".join(lines) + "\n"


def _rotor(path: str, rotor: Rotor, line: Any) -> list[str]:
    hints = get_type_hints(Rotor, include_extras=True)
    return [
        line(f"{path}.position", list(rotor.r_B), "m"),
        line(f"{path}.axis", list(rotor.axis_B), "1"),
        f"spin = {_text('ccw' if rotor.spin > 0 else 'cw')}",
        *(
            line(f"rotor.{field}", getattr(rotor, field), get_args(hints[field])[1].unit)
            for field in ("k_thrust", "k_torque", "inertia", "radius")
        ),
    ]


def _key(known: dict[str, Any], value: Any) -> str:
    return next(key for key, each in known.items() if each is value)


def _value(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_value(each) for each in value) + "]"
    return repr(float(value))


def _text(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
