"""Build a vehicle from records, and switch its effects; a battery by a few of its parameters.

samara.switch_on(samara.vehicle("crazyflie_documented"), "battery", capacity=864.0, resistance=0.1)
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

from samara.core.algebra import Mat3, Vec3, diagonal
from samara.core.quantity import Scalar, Tree
from samara.core.sanitise import shown
from samara.core.tree import flatten, unflatten
from samara.core.units import Field, fields_of
from samara.physics.air.atmosphere import STANDARD_GRAVITY
from samara.physics.effect import Actuation, Effect, Role
from samara.physics.ground.contact import COMPLIANT, Contact
from samara.physics.motion import gravity as gravity_effects
from samara.physics.motion.gravity import Gravity
from samara.physics.rotors import propulsion
from samara.physics.rotors.actuator import drawn_power
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
from samara.vehicles.effects import OPTIONS, EffectOption, options_of, options_with
from samara.vehicles.trim import hover

ACTUATIONS: dict[str, Actuation] = {
    own.name: own for own in (propulsion.NORMALIZED, propulsion.SPEED, propulsion.DUTY, propulsion.WRENCH)
}
GRAVITIES: dict[str, Effect] = {"uniform": gravity_effects.UNIFORM, "spherical": gravity_effects.SPHERICAL}
INFLOWS: dict[str, Callable[[Scalar, Scalar, Scalar], Scalar]] = {
    "squared": inflow_factor,
    "signed": inflow_factor_signed,
}
_FIRST = (Role.WEIGHT, Role.THRUST, Role.MOMENTUM, Role.DRAG, Role.CONTACT, Role.ACTUATOR, Role.SUPPLY)


class ContactShape(NamedTuple):
    """The points of the body that touch the ground [m], from the centre of mass in body axes.

    `top` is the height at which the body lies on the ground upside down; without it only the points touch. Stiffness [N/m]
    and damping [N s/m] follow from mass, inertia and points unless set.
    """

    points: Sequence[Sequence[float]]
    top: float | None = None
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

    `inertia` is the diagonal or a full `Mat3`. `effects` are the tables of a vehicle file by name: `gravity` (standard gravity
    unless set), `inflow`, and the names in `samara.vehicles.effects.OPTIONS`. A value is the record of the effect, a
    dict of some of its fields (and of the model, where there are several), or True:
    `effects={"gravity": {"acceleration": 1.62}, "drag": Drag(linear=d), "rotor_air": {"model": "momentum"}}`.
    Effects that are not named are off. `custom_effects` adds effects from outside the package to the names.
    """
    if not isinstance(name, str):
        raise VehicleError(f"name = {shown(name)}: expected a text")
    if len(inertia) not in (3, 9):
        raise VehicleError(f"{name}: body.inertia has {len(inertia)} numbers: expected 3 (diagonal) or 9 (rows)")
    inertia_B = Mat3(*inertia) if len(inertia) == 9 else diagonal(Vec3(*inertia))
    tables = effects_by_name(effects)
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

    first: list[tuple[Effect, object]] = [(GRAVITIES[gravity_model], gravity)]
    first.append((propulsion.ROTORS if rotors else propulsion.COMMANDED_WRENCH, ()))
    if any(rotor.inertia > 0.0 for rotor in rotors):
        first.append((propulsion.ROTOR_MOMENTUM, ()))
    if any(rotor.servo != () for rotor in rotors):
        first.append((TILT, ()))
    if contact and contact.points:
        first.append((COMPLIANT, _contact(name, mass, inertia_B, contact)))
    if isinstance(battery, Ideal):
        first.append((propulsion.IDEAL_BATTERY, battery))
    elif battery:
        first.append((propulsion.THEVENIN_BATTERY, tuple(battery)))
    structure = Structure(
        name=name,
        actuation=ACTUATIONS[actuation],
        effects=tuple(effect for effect, _ in first),
        inflow=INFLOWS[inflow] if inflow else None,
        description=provenance.description,
        sources=tuple(provenance.sources),
        spreads=tuple(provenance.spreads),
        options=_checked_options(name, custom_effects),
    )
    parameters = (mass, inertia_B, tuple(rotors), tuple(record for _, record in first))
    vehicle = Vehicle(structure, *unflatten(parameters, (float(number) for number in flatten(parameters))))
    vehicle = _with_options(vehicle, tables)
    check_options(name, vehicle)
    return vehicle


def _gravity(name: str, value: object) -> tuple[str, Gravity]:
    """The model and the record of the table `gravity`"""
    if isinstance(value, Gravity):
        return "uniform", value
    table = {"model": "uniform", "acceleration": STANDARD_GRAVITY, **(value if isinstance(value, Mapping) else {})}
    if len(table) > 2 or not (value is True or isinstance(value, Mapping)):
        raise VehicleError(f"{name}: gravity = {shown(value)}: expected a Gravity or a dict of model and acceleration")
    return table["model"], Gravity(table["acceleration"])


def _inflow(name: str, value: object) -> str | None:
    if value is not None and not (isinstance(value, Mapping) and list(value) == ["model"]):
        raise VehicleError(f"{name}: inflow = {shown(value)}: expected {{'model': {' or '.join(map(repr, INFLOWS))}}}")
    return value["model"] if value is not None else None


def _contact(name: str, mass: float, inertia_B: Mat3, shape: ContactShape) -> Contact:
    points = tuple(Vec3(*point) for point in shape.points)
    check_points(name, points)
    surface = derived_surface(mass, inertia_B, points, shape.friction)
    if shape.stiffness is not None:
        surface = surface._replace(stiffness=shape.stiffness)
    if shape.damping is not None:
        surface = surface._replace(damping=shape.damping)
    contact = Contact(points, surface, () if shape.top is None else shape.top)
    check_contact(name, mass, inertia_B, contact)
    return contact


def _check_choice(where: str, value: str | None, known: tuple[str, ...]) -> None:
    if value is not None and value not in known:
        raise VehicleError(f"{where} = {shown(value)}: expected one of {', '.join(known)}")


def _checked_options(name: str, options: Sequence[EffectOption]) -> tuple[EffectOption, ...]:
    try:
        options_with(options)
    except ValueError as error:
        raise VehicleError(f"{name}: {error}") from None
    return tuple(options)


def switch_names(vehicle: Vehicle | None = None) -> tuple[str, ...]:
    """What `switch_on` and a scenario's `effects` know, of any vehicle or of this one"""
    return (*(options_of(vehicle) if vehicle else OPTIONS), "battery")


def switch_on(vehicle: Vehicle, effect: str, **numbers: Tree) -> Vehicle:
    """The vehicle with a battery or an effect of `OPTIONS`: `switch_on(iris, "ground_effect", body_lift=2.0)`

    What is not given follows from the vehicle or is the usual; of several models it is the first unless one is named:
    `switch_on(iris, "rotor_air", model="momentum")`. What has its own inflow takes the place of an inflow model and
    of a thrust curve.
    """
    return with_effects(vehicle, {effect: numbers})


def effects_by_name(effects: Mapping[str, object] | Sequence[str]) -> dict[str, object]:
    """A list of names as a table of them, each with its usual numbers; a table as it is"""
    if isinstance(effects, Mapping):
        return dict(effects)
    if isinstance(effects, str) or not all(isinstance(name, str) for name in effects):
        raise VehicleError(
            f"effects = {shown(effects)}: expected a list of names, or a table of them with their numbers"
        )
    return dict.fromkeys(effects, True)


def with_effects(vehicle: Vehicle, effects: Mapping[str, object] | Sequence[str]) -> Vehicle:
    """Switch several effects at once, as `switch_on` does: by name the parameters of each, True, or False for off"""
    tables: dict[str, object] = {}
    for name, table in effects_by_name(effects).items():
        if name not in switch_names(vehicle):
            raise VehicleError(
                f"{vehicle.name}: effect {shown(name)}: expected one of {', '.join(switch_names(vehicle))}"
            )
        if table is False:
            vehicle = vehicle.without_effect(name) if vehicle.has(name) else vehicle
            continue
        if name == "battery":
            vehicle = vehicle.with_effect(*battery_effect(vehicle, table))
            continue
        if not (table is True or isinstance(table, Mapping)):
            raise VehicleError(f"{vehicle.name}: {name} = {shown(table)}: expected true, false or a table of numbers")
        tables[name] = table
        if not options_of(vehicle)[name].inflow:
            vehicle = replace(vehicle, structure=replace(vehicle.structure, inflow=None))
            if vehicle.has("thrust_curve"):
                vehicle = vehicle.without_effect("thrust_curve")
    return check_vehicle(_with_options(vehicle, tables))


def _with_options(vehicle: Vehicle, tables: Mapping[str, object]) -> Vehicle:
    """Add the effects of these tables, in the order of files; None and False are off"""
    options = options_of(vehicle)
    for name, table in tables.items():
        if name not in options:
            raise VehicleError(f"{vehicle.name}: {name} = {shown(table)}: expected one of {', '.join(options)}")
    for name, option in options.items():
        table = tables.get(name)
        if table is None or table is False:
            continue
        model = next(iter(option.models))
        if isinstance(table, Mapping) and len(option.models) > 1:
            model = table.get(option.key, model)
            table = {key: value for key, value in table.items() if key != option.key}
        where = f"{vehicle.name}: {name}"
        if model not in option.models:
            raise VehicleError(f"{where}.{option.key} = {shown(model)}: expected one of {', '.join(option.models)}")
        vehicle = vehicle.with_effect(option.models[model], _record(where, option, table, vehicle))
    return _in_order(vehicle)


def _record(where: str, option: EffectOption, table: object, vehicle: Vehicle) -> NamedTuple:
    """The record of an effect: itself, or completed from a dict of some of its fields, or from nothing (True)"""
    if table is True or isinstance(table, Mapping):
        values = _checked(where, option, {} if table is True else table)
        try:
            values = dict(option.complete(vehicle, values))
        except ValueError as error:
            raise VehicleError(f"{where}: {error}") from None
        for key, field in fields_of(option.record).items():
            if key not in values and key not in option.record._field_defaults:
                expected = {1: "a number", 3: "3 numbers", 0: "a list of numbers"}[field.numbers]
                raise VehicleError(f"{where}.{key} is missing: expected {expected}")
        table = option.record(**values)
    if not isinstance(table, option.record):
        raise VehicleError(f"{where} = {shown(table)}: expected a {option.record.__name__}")
    check_record(where, table)
    return unflatten(table, (float(number) for number in flatten(table)))


def _checked(where: str, option: EffectOption, given: Mapping[str, Tree]) -> dict[str, Tree]:
    """What was given, each a field of the record or a key that the option has besides, with its lists as tuples."""
    known = {key: Field(1, own) for key, own in option.numbers.items()} | fields_of(option.record)
    values = {}
    for key, value in given.items():
        if key not in known and key not in option.texts:
            listed = ", ".join((*option.texts, *known))
            raise VehicleError(f"{where}.{key} = {shown(value)}: expected only the keys {listed}")
        values[key] = tuple(value) if isinstance(value, list) else value
        if key in option.texts:
            if not isinstance(value, (str, Path)):
                raise VehicleError(f"{where}.{key} = {shown(value)}: expected a text")
        else:
            one_for_all = known[key].numbers == 0 and isinstance(value, (int, float))
            check_numbers(f"{where}.{key}", values[key], known[key].quantity, 1 if one_for_all else known[key].numbers)
            if known[key].numbers == 3:
                values[key] = Vec3(*values[key])
    return values


def _in_order(vehicle: Vehicle) -> Vehicle:
    """The vehicle with its effects in order: the first roles, then as a file gives them; what no file has comes last."""
    names = list(options_of(vehicle))

    def place(pair: tuple[Effect, Tree]) -> tuple[int, int]:
        role, name = pair[0].role, pair[0].name
        return (
            _FIRST.index(role) if role in _FIRST else len(_FIRST),
            names.index(name) if name in names else len(names),
        )

    pairs = sorted(zip(vehicle.structure.effects, vehicle.parameters, strict=True), key=place)
    effects, numbers = zip(*pairs, strict=True)
    return replace(vehicle, structure=replace(vehicle.structure, effects=effects), parameters=numbers)


BATTERIES: dict[str, type[Tree]] = {"ideal": Ideal, "thevenin": Thevenin}
CELL_CHARGE = (0.0, 0.1, 0.5, 0.9, 1.0)
CELL_VOLTAGE = (3.0, 3.6, 3.8, 4.1, 4.2)  # [V] of a lithium-polymer cell, by charge
LIGHT = 0.1  # [kg]: below it one cell, else four
HOVER_TIME = 600.0  # [s] that a full one lasts
HOVER_SAG = 0.05  # of the full voltage in hover: three fifths at once, the rest within HOVER_LAG
HOVER_LAG = 20.0  # [s]


def battery_effect(vehicle: Vehicle, given: Tree) -> tuple[Effect, Tree]:
    """The effect and its record, of True, a table of numbers, or a list of tables: batteries in parallel"""
    check_supply(vehicle.name, vehicle.structure.actuation.name, given)
    tables = list(given) if isinstance(given, (list, tuple)) else [{} if given is True else given]
    if not tables or not all(isinstance(table, Mapping) for table in tables):
        raise VehicleError(
            f"{vehicle.name}: battery = {shown(given)}: expected true, false, a table of numbers or a list of them"
        )
    made = [_battery(vehicle, f"{vehicle.name}: battery[{i}]", table) for i, table in enumerate(tables)]
    check_battery(vehicle.name, made)
    return (IDEAL_BATTERY, made[0]) if isinstance(made[0], Ideal) else (THEVENIN_BATTERY, tuple(made))


def _battery(vehicle: Vehicle, where: str, given: Mapping[str, Tree]) -> Ideal | Thevenin:
    model = given.get("model", "thevenin")
    if model not in BATTERIES:
        raise VehicleError(f"{where}.model = {shown(model)}: expected one of {', '.join(BATTERIES)}")
    kind = BATTERIES[model]
    fields = fields_of(kind)
    for key in given:
        if key not in (*fields, "model"):
            raise VehicleError(
                f"{where}.{key} = {shown(given[key])}: expected only the keys model, {', '.join(fields)}"
            )
    own = {key: tuple(value) if isinstance(value, list) else value for key, value in given.items() if key != "model"}
    lacking = [key for key in fields if key not in own]
    made: Ideal | Thevenin = kind(**({**_default(vehicle, kind)._asdict(), **own} if lacking else own))
    return made


def _default(vehicle: Vehicle, kind: type[Tree]) -> Ideal | Thevenin:
    """The vehicle's own first battery of this kind, else a pack that hovers it for ten minutes"""
    present = vehicle["battery"] if vehicle.has("battery") else ()
    present = present if isinstance(present, Ideal) or not present else present[0]
    if isinstance(present, kind):
        return present
    if vehicle.structure.actuation.name == "duty":
        known = ", ".join(fields_of(kind))
        raise VehicleError(
            f"{vehicle.name}: battery: expected all of {known}; only a motor with a lag tells what fits it"
        )
    cells = 1.0 if vehicle.mass < LIGHT else 4.0
    full = cells * CELL_VOLTAGE[-1]
    if kind is Ideal:
        return Ideal(full)
    bare = vehicle.without_effect("battery") if vehicle.has("battery") else vehicle
    state, _ = hover(bare)
    loads = rotor_loads(state, bare, CALM)
    power = sum(
        float(drawn_power(speed, load.torque, rotor.motor))
        for speed, load, rotor in zip(state.rotor_speed, loads, bare.rotors, strict=True)
    )
    current = power / full
    slow = 0.4 * HOVER_SAG * full / current
    return Thevenin(
        capacity=current * HOVER_TIME,
        table_charge=CELL_CHARGE,
        table_voltage=tuple(cells * volts for volts in CELL_VOLTAGE),
        resistance=0.6 * HOVER_SAG * full / current,
        polarisation_resistance=slow,
        polarisation_capacitance=HOVER_LAG / slow,
    )
