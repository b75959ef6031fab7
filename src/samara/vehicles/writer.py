"""From a vehicle to a TOML file that `samara.vehicle` reads back to the same numbers."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar, get_args, get_type_hints

from samara.core.atomic_files import write_text
from samara.core.quantity import Tree
from samara.core.toml import toml_value
from samara.core.units import fields_of
from samara.physics.ground.contact import COMPLIANT
from samara.physics.rotors.battery import Ideal
from samara.physics.rotors.propulsion import (
    COMMANDED_WRENCH,
    IDEAL_BATTERY,
    ROTOR_MOMENTUM,
    ROTORS,
    THEVENIN_BATTERY,
)
from samara.physics.rotors.rotor import Rotor
from samara.physics.rotors.tilt import TILT
from samara.physics.types import Vehicle
from samara.vehicles.build import BATTERIES, GRAVITIES, INFLOWS
from samara.vehicles.check import VehicleError, check_vehicle
from samara.vehicles.effects import option_of, options_of
from samara.vehicles.loader import MOTORS, SCHEMA, parse_vehicle

Noted = TypeVar("Noted")
_WRITTEN = (
    *GRAVITIES.values(),
    COMPLIANT,
    ROTORS,
    ROTOR_MOMENTUM,
    COMMANDED_WRENCH,
    IDEAL_BATTERY,
    THEVENIN_BATTERY,
    TILT,
)
_KEYS_OF_FIELDS = {
    "inertia_B": ("inertia",),
    "r_B": ("position", "arm", "azimuth", "height"),
    "axis_B": ("axis", "tilt"),
    "points_B": ("points",),
}


def save_vehicle(vehicle: Vehicle, path: str | Path) -> None:
    """A vehicle file with value, unit and source on every line; an effect of one's own has no such form and is refused."""
    if Path(path).suffix != ".toml":
        raise VehicleError(
            f"{path}: has the ending {Path(path).suffix!r}: expected .toml, or it would not be found again"
        )
    write_text(path, vehicle_toml(vehicle))


def vehicle_toml(vehicle: Vehicle) -> str:
    """The text of a vehicle's file, or a `VehicleError` if reading it would not give the same vehicle."""
    for effect in vehicle.structure.effects:
        if effect not in _WRITTEN and not option_of(effect, vehicle):
            raise VehicleError(
                f"{vehicle.name}: effect {effect.name!r} is Python code; expected effects a file can name"
            )
    text = _toml(check_vehicle(vehicle))
    again = parse_vehicle(text, vehicle.name, effects=vehicle.structure.options)
    if again != vehicle:
        names = [[effect.name for effect in each.structure.effects] for each in (vehicle, again)]
        raise VehicleError(
            f"{vehicle.name}: effects {', '.join(names[0])} cannot be said in a file; expected {', '.join(names[1])}"
        )
    return text


def _toml(vehicle: Vehicle) -> str:
    sources, spreads = sources_still_true(vehicle), spreads_still_true(vehicle)

    def line(path: str, value: Tree, unit: str, *other_paths: str) -> str:
        key = path.rpartition(".")[2]
        found = [sources[each] for each in (path, *other_paths) if each in sources]
        source = "; ".join(dict.fromkeys(found)) or "set in Python, or a default"
        spread = max((spreads[each] for each in (path, *other_paths) if each in spreads), default=0.0)
        known = f", spread = {spread!r}" if spread else ""
        return f"{key} = {{ value = {_value(value)}, unit = {toml_value(unit)}, source = {toml_value(source)}{known} }}"

    def record(path: str, numbers: Tree, shared: str = "") -> list[str]:
        return [
            line(f"{path}.{field}", getattr(numbers, field), own.quantity.unit, f"{shared}.{field}")
            for field, own in fields_of(type(numbers)).items()
        ]

    lines = [
        f"schema = {SCHEMA}",
        f"name = {toml_value(vehicle.name)}",
        f"actuation = {toml_value(vehicle.structure.actuation.name)}",
    ]
    if vehicle.structure.description:
        lines.append(f"description = {toml_value(vehicle.structure.description)}")
    if vehicle.rotors and not vehicle.has("contact"):
        lines.append("contact = false")
    rows = [list(row) for row in vehicle.inertia_B.rows]
    lines += ["", "[body]", line("body.mass", vehicle.mass, "kg"), line("body.inertia", rows, "kg m^2")]
    if vehicle.has("body"):
        lines += record("body", vehicle["body"])
    if vehicle.has("gravity"):
        model = _key(GRAVITIES, vehicle.structure.effects[vehicle.index("gravity")])
        lines += ["", "[gravity]", f"model = {toml_value(model)}", *record("gravity", vehicle["gravity"])]
    for name, option in options_of(vehicle).items():
        if name == "body" or not vehicle.has(name):
            continue
        lines += ["", f"[{name}]"]
        if len(option.models) > 1:
            model = _key(option.models, vehicle.structure.effects[vehicle.index(name)])
            lines.append(f"{option.key} = {toml_value(model)}")
        lines += record(name, vehicle[name])
    if vehicle.structure.inflow is not None:
        lines += ["", "[inflow]", f"model = {toml_value(_key(INFLOWS, vehicle.structure.inflow))}"]
    if vehicle.has("contact"):
        points, top = [list(point) for point in vehicle["contact"].points_B], vehicle["contact"].top
        lines += ["", "[contact]", line("contact.points", points, "m")]
        lines.append("top = false" if top == () else line("contact.top", top, "m"))
        lines += record("contact", vehicle["contact"].surface)
    if vehicle.has("battery"):
        battery = vehicle["battery"]
        for i, each in enumerate([battery] if isinstance(battery, Ideal) else battery):
            lines += [
                "",
                "[[battery]]",
                f"model = {toml_value(_key(BATTERIES, type(each)))}",
                *record(f"battery[{i}]", each),
            ]
    return "\n".join([*lines, *_rotors(vehicle.rotors, line, record)]) + "\n"


def sources_still_true(vehicle: Vehicle) -> dict[str, str]:
    """The sources of all numbers but those replaced since: the document gave the old ones."""
    return _still_true(vehicle, vehicle.structure.sources)


def spreads_still_true(vehicle: Vehicle) -> dict[str, float]:
    """One standard deviation over the value, of all numbers where it is known and that were not replaced since."""
    return _still_true(vehicle, vehicle.structure.spreads)


def _still_true(vehicle: Vehicle, noted: Sequence[tuple[str, Noted]]) -> dict[str, Noted]:
    still = dict(noted)
    for path in vehicle.structure.replaced:
        head, *fields = path.split(".")
        tables = ("rotor.", "rotors[", "motor.") if head == "rotors" else (head,) if vehicle.has(head) else ("body",)
        keys = [key for field in fields or [head] for key in _KEYS_OF_FIELDS.get(field, (field,))]
        for name in list(still):
            if name.startswith(tables) and (path == "rotors" or name.rpartition(".")[2] in keys):
                del still[name]
    return still


def _rotors(rotors: Sequence[Rotor], line: Callable[..., str], record: Callable[..., list[str]]) -> list[str]:
    """A table of each, and before them in [rotor] and [motor] what all say in the same words"""
    hints = get_type_hints(Rotor, include_extras=True)
    places, blades, motors, servos = [], [], [], []
    for i, rotor in enumerate(rotors):
        path = f"rotors[{i}]"
        places.append(
            [
                line(f"{path}.position", list(rotor.r_B), "m", f"{path}.arm", f"{path}.azimuth", f"{path}.height"),
                line(f"{path}.axis", list(rotor.axis_B), "1", f"{path}.tilt"),
                f"spin = {toml_value('ccw' if rotor.spin > 0 else 'cw')}",
            ]
        )
        blades.append(
            [
                line(f"{path}.{field}", getattr(rotor, field), get_args(hints[field])[1].unit, f"rotor.{field}")
                for field in ("k_thrust", "k_torque", "inertia", "radius")
            ]
        )
        model = f"model = {toml_value(_key(MOTORS, type(rotor.motor)))}"
        motors.append([model, *record(f"{path}.motor", rotor.motor, "motor")])
        servos.append(record(f"{path}.servo", rotor.servo) if rotor.servo != () else [])
    several = len(rotors) > 1
    shared = [own for own in blades[0] if all(own in other for other in blades)] if several else []
    one_motor = several and all(own == motors[0] for own in motors)
    lines = ["", "[rotor]", *shared] if shared else []
    lines += ["", "[motor]", *motors[0]] if one_motor else []
    for place, blade, motor, servo in zip(places, blades, motors, servos, strict=True):
        lines += ["", "[[rotors]]", *place, *(own for own in blade if own not in shared)]
        lines += [] if one_motor else ["[rotors.motor]", *motor]
        lines += ["[rotors.servo]", *servo] if servo else []
    return lines


def _key(known: Mapping[str, object], value: object) -> str:
    for key, each in known.items():
        if each is value:
            return key
    raise VehicleError(f"{value!r} is Python code; expected one of {', '.join(known)}")


def _value(value: Tree) -> str:
    """Numbers, all of them with a point."""
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_value(each) for each in value) + "]"
    return repr(float(value))
