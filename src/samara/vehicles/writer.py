"""Write a vehicle as a TOML file that `samara.vehicle` reads back with identical parameters."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar, get_args, get_type_hints

from samara.core.atomic_files import write_text
from samara.core.quantity import Tree
from samara.core.toml import toml_value
from samara.core.units import record_fields
from samara.physics.ground.contact import COMPLIANT
from samara.physics.inputs import require_vehicle
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
from samara.vehicles.effects import effect_option, effect_options
from samara.vehicles.loader import MOTORS, SCHEMA, parse_vehicle

Note = TypeVar("Note")
_WRITABLE_EFFECTS = (
    *GRAVITIES.values(),
    COMPLIANT,
    ROTORS,
    ROTOR_MOMENTUM,
    COMMANDED_WRENCH,
    IDEAL_BATTERY,
    THEVENIN_BATTERY,
    TILT,
)
_FIELD_KEYS = {
    "inertia_B": ("inertia",),
    "r_B": ("position", "arm", "azimuth", "height"),
    "axis_B": ("axis", "tilt"),
    "points_B": ("points",),
    "constant": ("kv",),
}


def save_vehicle(vehicle: Vehicle, path: str | Path) -> None:
    """Write a vehicle file with value, unit and source of every parameter; raise `VehicleError` for unregistered effects."""
    if Path(path).suffix != ".toml":
        raise VehicleError(f"{path}: has the ending {Path(path).suffix!r}: expected .toml, by which vehicles are found")
    write_text(path, vehicle_toml(vehicle))


def vehicle_toml(vehicle: Vehicle) -> str:
    """Return the text of a vehicle's file; raise `VehicleError` if reading it would not give the same vehicle."""
    require_vehicle(vehicle)
    for effect in vehicle.structure.effects:
        if effect not in _WRITABLE_EFFECTS and not effect_option(effect, vehicle):
            raise VehicleError(
                f"{vehicle.name}: effect {effect.name!r} is Python code; expected effects a file can name"
            )
    text = _toml(check_vehicle(vehicle))
    reread = parse_vehicle(text, vehicle.name, effects=vehicle.structure.effect_options)
    if reread != vehicle:
        names = [[effect.name for effect in version.structure.effects] for version in (vehicle, reread)]
        raise VehicleError(
            f"{vehicle.name}: effects {', '.join(names[0])} cannot be written to a file; expected {', '.join(names[1])}"
        )
    return text


def _toml(vehicle: Vehicle) -> str:
    sources, spreads = valid_sources(vehicle), valid_spreads(vehicle)

    def line(path: str, value: Tree, unit: str, *other_paths: str) -> str:
        key = path.rpartition(".")[2]
        path_sources = [sources[source_path] for source_path in (path, *other_paths) if source_path in sources]
        source = "; ".join(dict.fromkeys(path_sources)) or "set in Python, or a default"
        spread = max(
            (spreads[source_path] for source_path in (path, *other_paths) if source_path in spreads), default=0.0
        )
        spread_text = f", spread = {spread!r}" if spread else ""
        return f"{key} = {{ value = {_value(value)}, unit = {toml_value(unit)}, source = {toml_value(source)}{spread_text} }}"

    def record(path: str, values: Tree, shared: str = "") -> list[str]:
        return [
            line(f"{path}.{spec.key}", getattr(values, field), spec.quantity.unit, f"{shared}.{spec.key}")
            for field, spec in record_fields(type(values)).items()
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
        model = _registry_key(GRAVITIES, vehicle.structure.effects[vehicle.index("gravity")])
        lines += ["", "[gravity]", f"model = {toml_value(model)}", *record("gravity", vehicle["gravity"])]
    for name, option in effect_options(vehicle).items():
        if name == "body" or not vehicle.has(name):
            continue
        lines += ["", f"[{name}]"]
        if len(option.models) > 1:
            model = _registry_key(option.models, vehicle.structure.effects[vehicle.index(name)])
            lines.append(f"{option.key} = {toml_value(model)}")
        lines += record(name, vehicle[name])
    if vehicle.structure.inflow is not None:
        lines += ["", "[inflow]", f"model = {toml_value(_registry_key(INFLOWS, vehicle.structure.inflow))}"]
    if vehicle.has("contact"):
        points, top_height = [list(point) for point in vehicle["contact"].points_B], vehicle["contact"].top_height
        lines += ["", "[contact]", line("contact.points", points, "m")]
        lines.append("top_height = false" if top_height == () else line("contact.top_height", top_height, "m"))
        lines += record("contact", vehicle["contact"].surface)
    if vehicle.has("battery"):
        battery = vehicle["battery"]
        for i, supply in enumerate([battery] if isinstance(battery, Ideal) else battery):
            lines += [
                "",
                "[[battery]]",
                f"model = {toml_value(_registry_key(BATTERIES, type(supply)))}",
                *record(f"battery[{i}]", supply),
            ]
    return "\n".join([*lines, *_rotors(vehicle.rotors, line, record)]) + "\n"


def valid_sources(vehicle: Vehicle) -> dict[str, str]:
    """Return the sources of all parameters that were not replaced since the file was read."""
    return _drop_replaced(vehicle, vehicle.structure.sources)


def valid_spreads(vehicle: Vehicle) -> dict[str, float]:
    """Return the relative standard deviations of all parameters that have one and were not replaced since."""
    return _drop_replaced(vehicle, vehicle.structure.relative_uncertainties)


def _drop_replaced(vehicle: Vehicle, notes: Sequence[tuple[str, Note]]) -> dict[str, Note]:
    valid = dict(notes)
    for path in vehicle.structure.replaced_parameters:
        root, *fields = path.split(".")
        tables = ("rotor.", "rotors[", "motor.") if root == "rotors" else (root,) if vehicle.has(root) else ("body",)
        keys = [key for field in fields or [root] for key in _FIELD_KEYS.get(field, (field,))]
        for name in list(valid):
            if name.startswith(tables) and (path == "rotors" or name.rpartition(".")[2] in keys):
                del valid[name]
    return valid


def _rotors(rotors: Sequence[Rotor], line: Callable[..., str], record: Callable[..., list[str]]) -> list[str]:
    """Write a table for each rotor, after [rotor] and [motor] with the lines that all rotors share."""
    hints = get_type_hints(Rotor, include_extras=True)
    placements, blades, motors, servos = [], [], [], []
    for i, rotor in enumerate(rotors):
        path = f"rotors[{i}]"
        placements.append(
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
        model = f"model = {toml_value(_registry_key(MOTORS, type(rotor.motor)))}"
        motors.append([model, *record(f"{path}.motor", rotor.motor, "motor")])
        servos.append(record(f"{path}.servo", rotor.servo) if rotor.servo != () else [])
    is_multiple = len(rotors) > 1
    shared = [text for text in blades[0] if all(text in other_lines for other_lines in blades)] if is_multiple else []
    has_shared_motor = is_multiple and all(motor == motors[0] for motor in motors)
    lines = ["", "[rotor]", *shared] if shared else []
    lines += ["", "[motor]", *motors[0]] if has_shared_motor else []
    for placement, blade, motor, servo in zip(placements, blades, motors, servos, strict=True):
        lines += ["", "[[rotors]]", *placement, *(text for text in blade if text not in shared)]
        lines += [] if has_shared_motor else ["[rotors.motor]", *motor]
        lines += ["[rotors.servo]", *servo] if servo else []
    return lines


def _registry_key(registry: Mapping[str, object], value: object) -> str:
    for key, candidate in registry.items():
        if candidate is value:
            return key
    raise VehicleError(f"{value!r} is Python code; expected one of {', '.join(registry)}")


def _value(value: Tree) -> str:
    """Format numbers, all of them with a decimal point."""
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_value(element) for element in value) + "]"
    return repr(float(value))
