"""A vehicle put together from records: which effects it has, and in which order."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from samara.core.algebra import Mat3, Vec3, diagonal
from samara.core.quantity import Scalar
from samara.core.sanitise import shown
from samara.core.tree import flatten, unflatten
from samara.core.units import Field, fields_of
from samara.physics.air.drag import Damping, Drag
from samara.physics.effect import Actuation, Effect, Role
from samara.physics.ground.contact import COMPLIANT, Contact
from samara.physics.motion import gravity as gravity_effects
from samara.physics.motion.gravity import Gravity
from samara.physics.rotors import propulsion
from samara.physics.rotors.actuator import SecondOrder
from samara.physics.rotors.battery import Ideal, Thevenin
from samara.physics.rotors.rotor import Rotor, inflow_factor, inflow_factor_signed
from samara.physics.rotors.tilt import TILT
from samara.physics.types import Structure, Vehicle
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
    check_vehicle,
)
from samara.vehicles.defaults.battery import battery_effect
from samara.vehicles.defaults.ground import derived_surface
from samara.vehicles.effects import OPTIONS, EffectOption, options_of, options_with

ACTUATIONS: dict[str, Actuation] = {
    own.name: own for own in (propulsion.NORMALIZED, propulsion.SPEED, propulsion.DUTY, propulsion.WRENCH)
}
GRAVITIES: dict[str, Effect] = {"uniform": gravity_effects.UNIFORM, "spherical": gravity_effects.SPHERICAL}
INFLOWS: dict[str, Callable[[Scalar, Scalar, Scalar], Scalar]] = {
    "squared": inflow_factor,
    "signed": inflow_factor_signed,
}
STANDARD_GRAVITY = 9.80665
_FIRST = (Role.WEIGHT, Role.THRUST, Role.MOMENTUM, Role.DRAG, Role.CONTACT, Role.ACTUATOR, Role.SUPPLY)


def build_vehicle(
    name: str,
    *,
    mass: float,
    inertia: Sequence[float] | Mat3,
    rotors: Sequence[Rotor] = (),
    actuation: str = "normalized",
    gravity: float = STANDARD_GRAVITY,
    gravity_model: str = "uniform",
    drag: Drag | None = None,
    drag_axes: str = "body",
    damping: Damping | None = None,
    inflow: str | None = None,
    actuator: SecondOrder | None = None,
    battery: Ideal | Sequence[Thevenin] | None = None,
    contact_points: Sequence[Vec3] = (),
    contact_top: float | None = None,
    friction: float = 0.8,
    contact_stiffness: float | None = None,
    contact_damping: float | None = None,
    description: str = "",
    sources: Sequence[tuple[str, str]] = (),
    spreads: Sequence[tuple[str, float]] = (),
    effects: Sequence[EffectOption] = (),
    **options: Any,
) -> Vehicle:
    """A checked vehicle from its records; SI units, body axes forward-left-up. What is not given is off.

    Inertia is the diagonal or a full `Mat3`. Without a contact stiffness it follows from mass, inertia and points;
    without a `contact_top`, the height at which the body lies on the ground upside down, only the points touch. `options` are
    the effects of `samara.vehicles.effects.OPTIONS` by name, each a record, a dict of some of its fields, or True, and
    `<name>_model` where it has several: `ground_effect=True, rotor_air=RotorAir(0.1), rotor_air_model="momentum"`. With
    `effects` from outside the package those of them are known too, as `samara.vehicle` has it.
    """
    if not isinstance(name, str):
        raise VehicleError(f"name = {shown(name)}: expected a text")
    if len(inertia) not in (3, 9):
        raise VehicleError(f"{name}: body.inertia has {len(inertia)} numbers: expected 3 (diagonal) or 9 (rows)")
    inertia_B = Mat3(*inertia) if len(inertia) == 9 else diagonal(Vec3(*inertia))
    check_all(
        partial(check_body, name, mass, inertia_B),
        partial(_check_choice, f"{name}: actuation", actuation, tuple(ACTUATIONS)),
        partial(_check_choice, f"{name}: gravity.model", gravity_model, tuple(GRAVITIES)),
        partial(_check_choice, f"{name}: inflow.model", inflow, tuple(INFLOWS)),
        partial(check_rotors, name, actuation, rotors, battery, inflow),
        partial(check_record, f"{name}: gravity", Gravity(gravity)),
        partial(check_battery, name, battery),
    )

    first: list[tuple[Effect, Any]] = [(GRAVITIES[gravity_model], Gravity(gravity))]
    first.append((propulsion.ROTORS if rotors else propulsion.COMMANDED_WRENCH, ()))
    if any(rotor.inertia > 0.0 for rotor in rotors):
        first.append((propulsion.ROTOR_MOMENTUM, ()))
    if any(rotor.servo != () for rotor in rotors):
        first.append((TILT, ()))
    if contact_points:
        points = tuple(Vec3(*point) for point in contact_points)
        check_points(name, points)
        surface = derived_surface(mass, inertia_B, points, friction)
        if contact_stiffness is not None:
            surface = surface._replace(stiffness=contact_stiffness)
        if contact_damping is not None:
            surface = surface._replace(damping=contact_damping)
        contact = Contact(points, surface, () if contact_top is None else contact_top)
        check_contact(name, mass, inertia_B, contact)
        first.append((COMPLIANT, contact))
    if isinstance(battery, Ideal):
        first.append((propulsion.IDEAL_BATTERY, battery))
    elif battery:
        first.append((propulsion.THEVENIN_BATTERY, tuple(battery)))
    structure = Structure(
        name=name,
        actuation=ACTUATIONS[actuation],
        effects=tuple(effect for effect, _ in first),
        inflow=INFLOWS[inflow] if inflow else None,
        description=description,
        sources=tuple(sources),
        spreads=tuple(spreads),
        options=_outside(name, effects),
    )
    numbers = (mass, inertia_B, tuple(rotors), tuple(own for _, own in first))
    vehicle = Vehicle(structure, *unflatten(numbers, (float(number) for number in flatten(numbers))))
    options |= {"drag": drag, "drag_axes": drag_axes, "damping": damping, "actuator": actuator}
    vehicle = _with_options(vehicle, {key: value for key, value in options.items() if value is not None})
    check_options(name, vehicle)
    return vehicle


def _check_choice(where: str, value: str | None, known: tuple[str, ...]) -> None:
    if value is not None and value not in known:
        raise VehicleError(f"{where} = {shown(value)}: expected one of {', '.join(known)}")


def _outside(name: str, effects: Sequence[EffectOption]) -> tuple[EffectOption, ...]:
    try:
        options_with(effects)
    except ValueError as error:
        raise VehicleError(f"{name}: {error}") from None
    return tuple(effects)


def switch_names(vehicle: Vehicle | None = None) -> tuple[str, ...]:
    """What `switch_on` and a scenario's `effects` know, of any vehicle or of this one"""
    return (*(options_of(vehicle) if vehicle else OPTIONS), "battery")


def switch_on(vehicle: Vehicle, effect: str, **numbers: Any) -> Vehicle:
    """The vehicle with a battery or an effect of `OPTIONS`: `switch_on(iris, "ground_effect", body_lift=2.0)`

    What is not given follows from the vehicle or is the usual; of several models it is the first unless one is named:
    `switch_on(iris, "rotor_air", model="momentum")`. What has its own inflow takes the place of an inflow model and
    of a thrust curve.
    """
    return with_effects(vehicle, {effect: numbers})


def effects_by_name(effects: Mapping[str, Any] | Sequence[str]) -> dict[str, Any]:
    """A list of names as a table of them, each with its usual numbers; a table as it is"""
    if isinstance(effects, Mapping):
        return dict(effects)
    if isinstance(effects, str) or not all(isinstance(name, str) for name in effects):
        raise VehicleError(
            f"effects = {shown(effects)}: expected a list of names, or a table of them with their numbers"
        )
    return dict.fromkeys(effects, True)


def with_effects(vehicle: Vehicle, effects: Mapping[str, Any] | Sequence[str]) -> Vehicle:
    """The vehicle with several effects at once, as `switch_on` has them: by name the numbers of each, True, or False for off"""
    given: dict[str, Any] = {}
    for name, numbers in effects_by_name(effects).items():
        if name not in switch_names(vehicle):
            raise VehicleError(
                f"{vehicle.name}: effect {shown(name)}: expected one of {', '.join(switch_names(vehicle))}"
            )
        if numbers is False:
            vehicle = vehicle.without_effect(name) if vehicle.has(name) else vehicle
            continue
        if name == "battery":
            vehicle = vehicle.with_effect(*battery_effect(vehicle, numbers))
            continue
        if not (numbers is True or isinstance(numbers, Mapping)):
            raise VehicleError(f"{vehicle.name}: {name} = {shown(numbers)}: expected true, false or a table of numbers")
        own, option = {} if numbers is True else dict(numbers), options_of(vehicle)[name]
        if option.key in own and len(option.models) > 1:
            given[f"{name}_{option.key}"] = own.pop(option.key)
        given[name] = own
        if not option.inflow:
            vehicle = replace(vehicle, structure=replace(vehicle.structure, inflow=None))
            if vehicle.has("thrust_curve"):
                vehicle = vehicle.without_effect("thrust_curve")
    return check_vehicle(_with_options(vehicle, given))


def _with_options(vehicle: Vehicle, given: Mapping[str, Any]) -> Vehicle:
    """The vehicle with the effects that are given by name, in the order of files."""
    options = options_of(vehicle)
    known = [key for name, option in options.items() for key in (name, f"{name}_{option.key}")]
    for key in given:
        if key not in known:
            raise VehicleError(f"{vehicle.name}: {key} = {shown(given[key])}: expected one of {', '.join(options)}")
    for name, option in options.items():
        where = f"{vehicle.name}: {name}"
        model = given.get(f"{name}_{option.key}", next(iter(option.models)))
        if model not in option.models:
            raise VehicleError(f"{where}.{option.key} = {shown(model)}: expected one of {', '.join(option.models)}")
        if name in given:
            vehicle = vehicle.with_effect(option.models[model], _record(where, option, given[name], vehicle))
    return _in_order(vehicle)


def _record(where: str, option: EffectOption, given: Any, vehicle: Vehicle) -> Any:
    """The record of an effect: as given, or completed from a dict of some of its fields, or from nothing."""
    if given is True or isinstance(given, Mapping):
        values = _checked(where, option, {} if given is True else given)
        try:
            values = dict(option.complete(vehicle, values))
        except ValueError as error:
            raise VehicleError(f"{where}: {error}") from None
        for key, own in fields_of(option.record).items():
            if key not in values and key not in option.record._field_defaults:
                wanted = {1: "a number", 3: "3 numbers", 0: "a list of numbers"}[own.numbers]
                raise VehicleError(f"{where}.{key} is missing: expected {wanted}")
        given = option.record(**values)
    if not isinstance(given, option.record):
        raise VehicleError(f"{where} = {shown(given)}: expected a {option.record.__name__}")
    check_record(where, given)
    return unflatten(given, (float(number) for number in flatten(given)))


def _checked(where: str, option: EffectOption, given: Mapping[str, Any]) -> dict[str, Any]:
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

    def place(pair: tuple[Effect, Any]) -> tuple[int, int]:
        role, name = pair[0].role, pair[0].name
        return (
            _FIRST.index(role) if role in _FIRST else len(_FIRST),
            names.index(name) if name in names else len(names),
        )

    pairs = sorted(zip(vehicle.structure.effects, vehicle.parameters, strict=True), key=place)
    effects, numbers = zip(*pairs, strict=True)
    return replace(vehicle, structure=replace(vehicle.structure, effects=effects), parameters=numbers)
