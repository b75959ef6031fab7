"""Build a vehicle from records; switch effects on and off; complete a battery from a few of its parameters.

samara.switch_on(samara.vehicle("crazyflie_documented"), "battery", capacity=864.0, resistance=0.1)
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

from samara.core.algebra import Mat3, Vec3, diagonal
from samara.core.quantity import Scalar, Tree
from samara.core.sanitise import quote_value
from samara.core.tree import flatten, unflatten
from samara.core.units import RecordField, record_fields
from samara.physics.air.atmosphere import STANDARD_GRAVITY
from samara.physics.effect import Actuation, Effect, Role
from samara.physics.ground.contact import COMPLIANT, Contact
from samara.physics.inputs import check_mass, require_vehicle
from samara.physics.motion import gravity as gravity_effects
from samara.physics.motion.gravity import Gravity
from samara.physics.rotors import propulsion
from samara.physics.rotors.actuator import input_power
from samara.physics.rotors.battery import Ideal, Thevenin
from samara.physics.rotors.propulsion import IDEAL_BATTERY, THEVENIN_BATTERY, rotor_loads
from samara.physics.rotors.rotor import Rotor, inflow_factor, inflow_factor_signed
from samara.physics.rotors.tilt import TILT
from samara.physics.types import CALM, Structure, Vehicle
from samara.vehicles.check import (
    VehicleError,
    check_all,
    check_battery,
    check_body,
    check_contact,
    check_numbers,
    check_options,
    check_points,
    check_record,
    check_rotors,
    check_supply,
    check_vehicle,
)
from samara.vehicles.defaults import derived_surface
from samara.vehicles.effects import OPTIONS, EffectOption, effect_options, merge_options
from samara.vehicles.trim import hover

ACTUATIONS: dict[str, Actuation] = {
    actuation.name: actuation
    for actuation in (propulsion.NORMALIZED, propulsion.SPEED, propulsion.DUTY, propulsion.WRENCH)
}
GRAVITIES: dict[str, Effect] = {"uniform": gravity_effects.UNIFORM, "spherical": gravity_effects.SPHERICAL}
INFLOWS: dict[str, Callable[[Scalar, Scalar, Scalar], Scalar]] = {
    "squared": inflow_factor,
    "signed": inflow_factor_signed,
}
_ROLE_ORDER = (Role.WEIGHT, Role.THRUST, Role.MOMENTUM, Role.DRAG, Role.CONTACT, Role.ACTUATOR, Role.SUPPLY)


class ContactShape(NamedTuple):
    """The points of the body that touch the ground [m], from the centre of mass in body axes.

    `top_height` is the height at which the body lies on the ground upside down; without it only the points touch. Stiffness
    [N/m] and damping [N s/m] follow from mass, inertia and points unless set.
    """

    points: Sequence[Sequence[float]]
    top_height: float | None = None
    friction: float = 0.8
    stiffness: float | None = None
    damping: float | None = None


class Provenance(NamedTuple):
    """Description of a vehicle and, by path (`"body.mass"`), sources and relative spreads of its parameters."""

    description: str = ""
    sources: Sequence[tuple[str, str]] = ()
    spreads: Sequence[tuple[str, float]] = ()


UNDOCUMENTED = Provenance()


def build_vehicle(
    name: str,
    *,
    mass: float,
    inertia: Sequence[float] | Mat3,
    rotors: Sequence[Rotor] = (),
    actuation: str = "normalized",
    battery: Ideal | Sequence[Thevenin] | None = None,
    contact: ContactShape | None = None,
    effects: Mapping[str, object] | Sequence[str] = (),
    custom_effects: Sequence[EffectOption] = (),
    provenance: Provenance = UNDOCUMENTED,
) -> Vehicle:
    """Build and check a vehicle; SI units, body axes forward-left-up.

    Args:
        name: the vehicle's name, with which error messages begin.
        mass: total mass [kg].
        inertia: moment of inertia about the centre of mass [kg·m²]: the diagonal, or all nine entries by rows (`Mat3`).
        rotors: the rotors, in the order of the commands; empty for a body driven by a commanded wrench.
        actuation: the quantity that a command sets; a key of `ACTUATIONS`.
        battery: an ideal supply, or one or more Thévenin batteries in parallel; None for a constant supply.
        contact: the points at which the body touches the ground; None for a body without ground contact.
        effects: the tables of a vehicle file by name: `gravity` (standard gravity unless set), `inflow`, and the names in
            `samara.vehicles.effects.OPTIONS`. A value is the record of the effect, a dict of some of its fields (and of
            `model`, if the effect has several), or True for defaults:
            `effects={"gravity": {"acceleration": 1.62}, "drag": Drag(linear=d), "rotor_air": {"model": "momentum"}}`.
            A list of names switches each on with its defaults. All other effects are off.
        custom_effects: effects from outside the package, which `effects` may then name.
        provenance: description of the vehicle; sources and spreads of its parameters.

    Raises:
        VehicleError: a value is out of range, or two values contradict each other.
    """
    if not isinstance(name, str):
        raise VehicleError(f"name = {quote_value(name)}: expected a text")
    if len(inertia) not in (3, 9):
        raise VehicleError(f"{name}: body.inertia has {len(inertia)} numbers: expected 3 (diagonal) or 9 (rows)")
    inertia_B = Mat3(*inertia) if len(inertia) == 9 else diagonal(Vec3(*inertia))
    tables = effect_tables(effects)
    gravity_model, gravity = _gravity(name, tables.pop("gravity", True))
    inflow = _inflow(name, tables.pop("inflow", None))
    check_all(
        partial(check_body, name, mass, inertia_B),
        partial(_check_choice, f"{name}: actuation", actuation, tuple(ACTUATIONS)),
        partial(_check_choice, f"{name}: gravity.model", gravity_model, tuple(GRAVITIES)),
        partial(_check_choice, f"{name}: inflow.model", inflow, tuple(INFLOWS)),
        partial(check_rotors, name, actuation, rotors, battery, inflow),
        partial(check_record, f"{name}: gravity", gravity),
        partial(check_battery, name, battery),
    )

    core_effects: list[tuple[Effect, object]] = [(GRAVITIES[gravity_model], gravity)]
    core_effects.append((propulsion.ROTORS if rotors else propulsion.COMMANDED_WRENCH, ()))
    if any(rotor.inertia > 0.0 for rotor in rotors):
        core_effects.append((propulsion.ROTOR_MOMENTUM, ()))
    if any(rotor.servo != () for rotor in rotors):
        core_effects.append((TILT, ()))
    if contact and contact.points:
        core_effects.append((COMPLIANT, _contact(name, mass, inertia_B, contact)))
    if isinstance(battery, Ideal):
        core_effects.append((propulsion.IDEAL_BATTERY, battery))
    elif battery:
        core_effects.append((propulsion.THEVENIN_BATTERY, tuple(battery)))
    structure = Structure(
        name=name,
        actuation=ACTUATIONS[actuation],
        effects=tuple(effect for effect, _ in core_effects),
        inflow=INFLOWS[inflow] if inflow else None,
        description=provenance.description,
        sources=tuple(provenance.sources),
        relative_uncertainties=tuple(provenance.spreads),
        effect_options=_validate_options(name, custom_effects),
    )
    parameters = (mass, inertia_B, tuple(rotors), tuple(record for _, record in core_effects))
    vehicle = Vehicle(structure, *unflatten(parameters, (float(number) for number in flatten(parameters))))
    vehicle = _add_effects(vehicle, tables)
    check_options(name, vehicle)
    if provenance is UNDOCUMENTED:  # files are checked by `samara check` and before a flight
        check_mass(vehicle)
    return vehicle


def _gravity(name: str, value: object) -> tuple[str, Gravity]:
    """Return the model and the record of the table `gravity`."""
    if isinstance(value, Gravity):
        return "uniform", value
    table = {"model": "uniform", "acceleration": STANDARD_GRAVITY, **(value if isinstance(value, Mapping) else {})}
    if len(table) > 2 or not (value is True or isinstance(value, Mapping)):
        raise VehicleError(
            f"{name}: gravity = {quote_value(value)}: expected a Gravity or a dict of model and acceleration"
        )
    return table["model"], Gravity(table["acceleration"])


def _inflow(name: str, value: object) -> str | None:
    if value is not None and not (isinstance(value, Mapping) and list(value) == ["model"]):
        raise VehicleError(
            f"{name}: inflow = {quote_value(value)}: expected {{'model': {' or '.join(map(repr, INFLOWS))}}}"
        )
    return value["model"] if value is not None else None


def _contact(name: str, mass: float, inertia_B: Mat3, shape: ContactShape) -> Contact:
    points = tuple(Vec3(*point) for point in shape.points)
    check_points(name, points)
    surface = derived_surface(mass, inertia_B, points, shape.friction)
    if shape.stiffness is not None:
        surface = surface._replace(stiffness=shape.stiffness)
    if shape.damping is not None:
        surface = surface._replace(damping=shape.damping)
    contact = Contact(points, surface, () if shape.top_height is None else shape.top_height)
    check_contact(name, mass, inertia_B, contact)
    return contact


def _check_choice(path: str, value: str | None, choices: tuple[str, ...]) -> None:
    if value is not None and value not in choices:
        raise VehicleError(f"{path} = {quote_value(value)}: expected one of {', '.join(choices)}")


def _validate_options(name: str, options: Sequence[EffectOption]) -> tuple[EffectOption, ...]:
    try:
        merge_options(options)
    except ValueError as error:
        raise VehicleError(f"{name}: {error}") from None
    return tuple(options)


def effect_names(vehicle: Vehicle | None = None) -> tuple[str, ...]:
    """Names that `switch_on` and a scenario's `effects` accept, for any vehicle or for this one."""
    return (*(effect_options(vehicle) if vehicle else OPTIONS), "battery")


def switch_on(vehicle: Vehicle, effect: str, **parameters: Tree) -> Vehicle:
    """Return the vehicle with a battery or an effect of `OPTIONS`: `switch_on(iris, "ground_effect", body_lift=2.0)`.

    Parameters that are not passed are derived from the vehicle or take their defaults. The first model of an effect is the
    default; pass `model` for another: `switch_on(iris, "rotor_air", model="momentum")`. An effect that computes the rotor
    loads replaces an inflow model and a thrust curve.
    """
    return with_effects(vehicle, {effect: parameters})


def effect_tables(effects: Mapping[str, object] | Sequence[str]) -> dict[str, object]:
    """Convert a list of effect names to a table in which each is True; copy a table."""
    if isinstance(effects, Mapping):
        return dict(effects)
    if isinstance(effects, str) or not all(isinstance(name, str) for name in effects):
        raise VehicleError(
            f"effects = {quote_value(effects)}: expected a list of names, or a table of names with their parameters"
        )
    return dict.fromkeys(effects, True)


def with_effects(vehicle: Vehicle, effects: Mapping[str, object] | Sequence[str]) -> Vehicle:
    """Switch several effects at once; each value is a table of parameters, True, or False to switch the effect off."""
    require_vehicle(vehicle)
    tables: dict[str, object] = {}
    for name, table in effect_tables(effects).items():
        if name not in effect_names(vehicle):
            raise VehicleError(
                f"{vehicle.name}: effect {quote_value(name)}: expected one of {', '.join(effect_names(vehicle))}"
            )
        if table is False:
            vehicle = vehicle.without_effect(name) if vehicle.has(name) else vehicle
            continue
        if name == "battery":
            vehicle = vehicle.with_effect(*battery_effect(vehicle, table))
            continue
        if not (table is True or isinstance(table, Mapping)):
            raise VehicleError(
                f"{vehicle.name}: {name} = {quote_value(table)}: expected true, false or a table of numbers"
            )
        tables[name] = table
        if not effect_options(vehicle)[name].allows_inflow:
            vehicle = replace(vehicle, structure=replace(vehicle.structure, inflow=None))
            if vehicle.has("thrust_curve"):
                vehicle = vehicle.without_effect("thrust_curve")
    return check_vehicle(_add_effects(vehicle, tables))


def _add_effects(vehicle: Vehicle, tables: Mapping[str, object]) -> Vehicle:
    """Add the effects of these tables, in the order of vehicle files; None and False mean off."""
    options = effect_options(vehicle)
    for name, table in tables.items():
        if name not in options:
            raise VehicleError(f"{vehicle.name}: {name} = {quote_value(table)}: expected one of {', '.join(options)}")
    for name, option in options.items():
        table = tables.get(name)
        if table is None or table is False:
            continue
        model = next(iter(option.models))
        if isinstance(table, Mapping) and len(option.models) > 1:
            model = table.get(option.key, model)
            table = {key: value for key, value in table.items() if key != option.key}
        path = f"{vehicle.name}: {name}"
        if model not in option.models:
            raise VehicleError(
                f"{path}.{option.key} = {quote_value(model)}: expected one of {', '.join(option.models)}"
            )
        vehicle = vehicle.with_effect(option.models[model], _effect_record(path, option, table, vehicle))
    return _sort_effects(vehicle)


def _effect_record(path: str, option: EffectOption, table: object, vehicle: Vehicle) -> NamedTuple:
    """Return the record of an effect: the record passed, or one completed from some of its fields or from none (True)."""
    if table is True or isinstance(table, Mapping):
        values = _validate_fields(path, option, {} if table is True else table)
        try:
            values = dict(option.complete(vehicle, values))
        except ValueError as error:
            raise VehicleError(f"{path}: {error}") from None
        for key, field in record_fields(option.record).items():
            if key not in values and key not in option.record._field_defaults:
                expected = {1: "a number", 3: "3 numbers", 0: "a list of numbers"}[field.length]
                raise VehicleError(f"{path}.{key} is missing: expected {expected}")
        table = option.record(**values)
    if not isinstance(table, option.record):
        raise VehicleError(f"{path} = {quote_value(table)}: expected a {option.record.__name__}")
    check_record(path, table)
    return unflatten(table, (float(number) for number in flatten(table)))


def _validate_fields(path: str, option: EffectOption, table: Mapping[str, Tree]) -> dict[str, Tree]:
    """Check that every key is a field of the record or an extra key of the option; turn lists into tuples."""
    fields = {key: RecordField(1, quantity) for key, quantity in option.extra_quantities.items()} | record_fields(
        option.record
    )
    values = {}
    for key, value in table.items():
        if key not in fields and key not in option.extra_texts:
            allowed = ", ".join((*option.extra_texts, *fields))
            raise VehicleError(f"{path}.{key} = {quote_value(value)}: expected only the keys {allowed}")
        values[key] = tuple(value) if isinstance(value, list) else value
        if key in option.extra_texts:
            if not isinstance(value, (str, Path)):
                raise VehicleError(f"{path}.{key} = {quote_value(value)}: expected a text")
        else:
            is_broadcast = fields[key].length == 0 and isinstance(value, (int, float))
            check_numbers(f"{path}.{key}", values[key], fields[key].quantity, 1 if is_broadcast else fields[key].length)
            if fields[key].length == 3:
                values[key] = Vec3(*values[key])
    return values


def _sort_effects(vehicle: Vehicle) -> Vehicle:
    """Sort the effects: first by `_ROLE_ORDER`, then in the order of vehicle files; effects that no file names come last."""
    names = list(effect_options(vehicle))

    def sort_key(effect_and_parameters: tuple[Effect, Tree]) -> tuple[int, int]:
        role, name = effect_and_parameters[0].role, effect_and_parameters[0].name
        return (
            _ROLE_ORDER.index(role) if role in _ROLE_ORDER else len(_ROLE_ORDER),
            names.index(name) if name in names else len(names),
        )

    pairs = sorted(zip(vehicle.structure.effects, vehicle.parameters, strict=True), key=sort_key)
    effects, parameters = zip(*pairs, strict=True)
    return replace(vehicle, structure=replace(vehicle.structure, effects=effects), parameters=parameters)


BATTERIES: dict[str, type[Tree]] = {"ideal": Ideal, "thevenin": Thevenin}
CELL_CHARGE = (0.0, 0.1, 0.5, 0.9, 1.0)
CELL_VOLTAGE = (3.0, 3.6, 3.8, 4.1, 4.2)  # [V] of a lithium-polymer cell, by charge
MAX_ONE_CELL_MASS = 0.1  # [kg]: lighter vehicles have one cell, others four
DEFAULT_HOVER_TIME = 600.0  # [s] in hover with a full battery
HOVER_SAG = (
    0.05  # fraction of the full voltage lost in hover: three fifths ohmic, the rest with the time constant HOVER_LAG
)
HOVER_SAG_TIME_CONSTANT = 20.0  # [s]


def battery_effect(vehicle: Vehicle, battery: Tree) -> tuple[Effect, Tree]:
    """Return the battery effect and its record from True, a table of parameters, or a list of tables (in parallel)."""
    check_supply(vehicle.name, vehicle.structure.actuation.name, battery)
    tables = list(battery) if isinstance(battery, (list, tuple)) else [{} if battery is True else battery]
    if not tables or not all(isinstance(table, Mapping) for table in tables):
        raise VehicleError(
            f"{vehicle.name}: battery = {quote_value(battery)}: expected true, false, a table of numbers or a list of them"
        )
    batteries = [_battery(vehicle, f"{vehicle.name}: battery[{i}]", table) for i, table in enumerate(tables)]
    check_battery(vehicle.name, batteries)
    return (IDEAL_BATTERY, batteries[0]) if isinstance(batteries[0], Ideal) else (THEVENIN_BATTERY, tuple(batteries))


def _battery(vehicle: Vehicle, path: str, table: Mapping[str, Tree]) -> Ideal | Thevenin:
    model = table.get("model", "thevenin")
    if model not in BATTERIES:
        raise VehicleError(f"{path}.model = {quote_value(model)}: expected one of {', '.join(BATTERIES)}")
    battery_type = BATTERIES[model]
    fields = record_fields(battery_type)
    for key in table:
        if key not in (*fields, "model"):
            raise VehicleError(
                f"{path}.{key} = {quote_value(table[key])}: expected only the keys model, {', '.join(fields)}"
            )
    values = {key: tuple(value) if isinstance(value, list) else value for key, value in table.items() if key != "model"}
    missing = [key for key in fields if key not in values]
    battery: Ideal | Thevenin = battery_type(
        **({**_default_battery(vehicle, battery_type)._asdict(), **values} if missing else values)
    )
    return battery


def _default_battery(vehicle: Vehicle, battery_type: type[Tree]) -> Ideal | Thevenin:
    """Return the vehicle's first battery of this type, else a pack with which the vehicle hovers for ten minutes."""
    battery = vehicle["battery"] if vehicle.has("battery") else ()
    battery = battery if isinstance(battery, Ideal) or not battery else battery[0]
    if isinstance(battery, battery_type):
        return battery
    if vehicle.structure.actuation.name == "duty":
        fields = ", ".join(record_fields(battery_type))
        raise VehicleError(
            f"{vehicle.name}: battery: expected all of {fields}; defaults exist only for motors with a first-order lag"
        )
    cell_count = 1.0 if vehicle.mass < MAX_ONE_CELL_MASS else 4.0
    full_voltage = cell_count * CELL_VOLTAGE[-1]
    if battery_type is Ideal:
        return Ideal(full_voltage)
    bare_vehicle = vehicle.without_effect("battery") if vehicle.has("battery") else vehicle
    state, _ = hover(bare_vehicle)
    loads = rotor_loads(state, bare_vehicle, CALM)
    power = sum(
        float(input_power(speed, load.torque, rotor.motor))
        for speed, load, rotor in zip(state.rotor_speed, loads, bare_vehicle.rotors, strict=True)
    )
    current = power / full_voltage
    polarisation_resistance = 0.4 * HOVER_SAG * full_voltage / current
    return Thevenin(
        capacity=current * DEFAULT_HOVER_TIME,
        table_charge=CELL_CHARGE,
        table_voltage=tuple(cell_count * cell_voltage for cell_voltage in CELL_VOLTAGE),
        resistance=0.6 * HOVER_SAG * full_voltage / current,
        polarisation_resistance=polarisation_resistance,
        polarisation_capacitance=HOVER_SAG_TIME_CONSTANT / polarisation_resistance,
    )
