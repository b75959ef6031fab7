"""Registry of the effects that a vehicle can switch on: the optional tables of a vehicle file, their records and models.

To add an effect, append an `EffectOption` to `OPTIONS` or pass it from outside: `samara.vehicle(path, effects=[option])`.
Loader, builder, checks, writer and scenario files read this registry; an `Effect` declares its influence on planners and
trim.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from samara.core.quantity import Quantity, Tree
from samara.core.units import record_fields
from samara.physics.air import drag as drag_effects
from samara.physics.air.coaxial import COAXIAL, Coaxial
from samara.physics.air.downwash import DOWNWASH, Downwash
from samara.physics.air.drag import Damping, Drag
from samara.physics.air.ground_effect import CEILING_EFFECT, GROUND_EFFECT, Ceiling, GroundEffect, max_rotor_distance
from samara.physics.air.propwash import PROPWASH, Propwash
from samara.physics.effect import Effect, Role
from samara.physics.rotors.actuator import SecondOrder
from samara.physics.rotors.airspeed_moment import AirspeedMoment, RollingMoment, ThrustFade
from samara.physics.rotors.blade_element import RotorAir, RotorDrag, blade_coefficients
from samara.physics.rotors.flapping import Flapping
from samara.physics.rotors.imbalance import IMBALANCE, Imbalance
from samara.physics.rotors.inflow import hover_induced
from samara.physics.rotors.propulsion import SECOND_ORDER_ACTUATOR, full_voltage
from samara.physics.rotors.rotor import SEA_LEVEL_DENSITY, Rotor
from samara.physics.rotors.rotor_air_effects import (
    AIRSPEED_MOMENT,
    DYNAMIC_AIR,
    DYNAMIC_AIR_3,
    FLAPPING,
    MOMENTUM_AIR,
    ROLLING_BY_SPIN,
    ROLLING_MOMENT,
    ROTOR_DRAG,
    THRUST_FADE,
)
from samara.physics.rotors.thrust_curve import THRUST_CURVE, THRUST_SCALE, ThrustCurve, ThrustScale
from samara.physics.structure.arms import ARMS, Arms
from samara.physics.structure.slung_load import SLUNG_LOAD, SlungLoad
from samara.physics.types import Vehicle
from samara.propeller.blade import Blade, blade, blade_names
from samara.propeller.fit import FITTED_ROTORS, TERMS, RotorFit, fit_rotor, rotor_constants
from samara.vehicles.defaults import (
    ARM_FREQUENCY,
    check_actuator,
    check_arms,
    check_damping,
    check_drag,
    check_load,
    complete_arms,
    complete_slung_load,
)
from samara.vehicles.shape import BODY, Hull
from samara.vehicles.trim import hover

TYPICAL_SOLIDITY = 0.08  # two blades with a mean chord of R/8, as most propellers of 5 to 15 inch have
MAX_BLADE_PITCH = 0.6  # [rad]: steeper blades stall, and their lift is not linear in the angle of attack
_TYPICAL_PITCH = 0.5  # [rad]
_MAX_LOG_THRUST_RATIO = 0.4  # |ln(kF/kF')|: a controller tolerates this mismatch of thrust coefficients
NON_EFFECT_TABLES = (  # and keys of a vehicle file
    *("schema", "name", "actuation", "description"),
    *("gravity", "contact", "inflow", "battery", "rotor", "rotors", "motor", "payload"),
)
THRUST_FRACTION_PER_VOLT = 0.09  # of Crazyflies, whose rotor speeds are inferred from commands
EXAMPLE_FRACTION = 1e-3  # of the declared range, from its lower end: the parameters of `EffectOption.example`
IMBALANCE_FRACTION = 0.01  # fraction of the thrust at any speed: a propeller that was balanced by hand


def _pass_through(vehicle: Vehicle, values: Mapping[str, Tree]) -> Mapping[str, Tree]:
    return values


def _accept(vehicle: Vehicle) -> str | None:
    return None


class EffectOption(NamedTuple):
    """One optional table of a vehicle file: the record of its parameters, and the effect or effects that use it.

    `models` maps the value of `key` to an effect; an effect with a single model has the key "". All models have the name of the
    table.

    `complete(vehicle, values)` fills in the record's fields from the values in the file and from the vehicle without this
    effect. `check(vehicle)` returns one sentence about a contradiction, or None. `extra_texts` and `extra_quantities` are
    keys of the table that only `complete` interprets.
    """

    record: type[Tree]
    models: Mapping[str, Effect]
    key: str = "model"
    complete: Callable[[Vehicle, Mapping[str, Tree]], Mapping[str, Tree]] = _pass_through
    check: Callable[[Vehicle], str | None] = _accept
    extra_texts: tuple[str, ...] = ()
    extra_quantities: Mapping[str, Quantity] = {}

    @property
    def name(self) -> str:
        """The name of the table and of its effects."""
        return next(iter(self.models.values())).name

    @property
    def allows_inflow(self) -> bool:
        """Whether the effect is compatible with an inflow model; an effect that computes the rotor loads replaces it."""
        return all(model.loads is None for model in self.models.values())

    @property
    def has_completion(self) -> bool:
        """Whether `complete` can fill in a field that has no default."""
        return self.complete is not _pass_through

    @property
    def example(self) -> dict[str, Tree]:
        """A value within its declared range for every parameter without a default; a list for a vector."""
        values: dict[str, Tree] = {}
        for key, field in record_fields(self.record).items():
            if key not in self.record._field_defaults:
                low, high = field.quantity.low, field.quantity.high
                value = low + EXAMPLE_FRACTION * (high - low)
                values[key] = value if field.length == 1 else [value] * (field.length or 1)
        return values


def require_rotors(effect: str) -> Callable[[Vehicle], str | None]:
    """Return a check that the vehicle has rotors."""
    problem = f"{effect} is on and rotors has 0 entries: expected at least one"
    return lambda vehicle: None if vehicle.rotors else problem


def require_discs(effect: str) -> Callable[[Vehicle], str | None]:
    """Return a check that the vehicle has rotors, each with a radius."""

    def check(vehicle: Vehicle) -> str | None:
        if problem := require_rotors(effect)(vehicle):
            return problem
        for i, rotor in enumerate(vehicle.rotors):
            if not rotor.radius > 0.0:
                return f"rotors[{i}].radius = {rotor.radius} m: expected a positive number, {effect} needs it"
        return None

    return check


def check_air_conflicts(vehicle: Vehicle) -> str | None:
    """Return a sentence if two effects model the same air loads, or if an inflow model accompanies such an effect."""
    air_effects = [effect for effect in vehicle.structure.effects if effect.role is Role.ROTOR_AIR]
    conflicting = [effect.name for effect in air_effects[1:]]
    if vehicle.structure.inflow is not None and air_effects and air_effects[0].loads is not None:
        conflicting.append("inflow")
    if not conflicting:
        return None
    return f"{air_effects[0].name} is on beside {conflicting[0]}: expected one of them, both model the air loads of the rotors"


# Air loads of a rotor ----------------------------------------------------------------------------------------------


def _hover_inflow(rotor: Rotor) -> float:
    """λ_h = v_h/(ΩR), at T = kF Ω²"""
    return float(hover_induced(rotor.k_thrust, SEA_LEVEL_DENSITY, rotor.radius) / rotor.radius)


def typical_solidity(vehicle: Vehicle, lift_slope: float = 5.7) -> float:
    """σ of the shipped blade of this radius, else 0.08; raised until the pitch 3 (2 C_T/σa + λ_h/2) is at most 0.5 rad."""
    shipped = [blade_shape for blade_shape, _ in map(blade, blade_names())]
    solidities = [TYPICAL_SOLIDITY] * (not vehicle.rotors)
    for rotor in vehicle.rotors:
        matching = [
            blade_shape.solidity
            for blade_shape in shipped
            if abs(blade_shape.radius - rotor.radius) < 0.02 * rotor.radius
        ]
        solidities.append(matching[0] if matching else TYPICAL_SOLIDITY)
        inflow_pitch = 1.5 * _hover_inflow(rotor) if rotor.radius > 0.0 else math.inf
        if inflow_pitch < _TYPICAL_PITCH:
            unit_solidity_pitch = blade_coefficients(rotor, RotorAir(1.0, lift_slope)).pitch - inflow_pitch
            solidities.append(unit_solidity_pitch / (_TYPICAL_PITCH - inflow_pitch))
    return max(solidities)


def _complete_rotor_air(vehicle: Vehicle, values: Mapping[str, Tree]) -> Mapping[str, Tree]:
    """Fill in the solidity of the named blade, or a typical one."""
    fields = {key: value for key, value in values.items() if key != "blade"}
    if "solidity" in fields:
        return fields
    if "blade" in values:
        return {"solidity": blade(values["blade"])[0].solidity, **fields}
    return {"solidity": typical_solidity(vehicle, **fields), **fields}


def _complete_coaxial(vehicle: Vehicle, values: Mapping[str, Tree]) -> Mapping[str, Tree]:
    """Take the blade parameters of `rotor_air` if it is on, else typical ones."""
    if vehicle.has("rotor_air"):
        return {**vehicle["rotor_air"]._asdict(), **values}
    return {**({} if "solidity" in values else {"solidity": typical_solidity(vehicle, **values)}), **values}


def _check_rotor_air(vehicle: Vehicle) -> str | None:
    return _check_blades("rotor_air", vehicle)


def _check_coaxial(vehicle: Vehicle) -> str | None:
    return _check_blades("coaxial", vehicle)


def _check_blades(effect: str, vehicle: Vehicle) -> str | None:
    if problem := require_discs(effect)(vehicle):
        return problem
    blades = RotorAir(*vehicle[effect])
    for i, rotor in enumerate(vehicle.rotors):
        element = blade_coefficients(rotor, blades)
        if element.profile < 0.0:
            min_k_torque = rotor.k_thrust * rotor.radius * _hover_inflow(rotor)
            return (
                f"rotors[{i}].k_torque = {rotor.k_torque:.6g} N m s^2/rad^2: expected at least {min_k_torque:.6g}, the induced "
                f"torque of a disc with its k_thrust and radius {rotor.radius:g} m; {effect} needs it"
            )
        if not element.pitch <= MAX_BLADE_PITCH:
            return (
                f"{effect}.solidity = {blades.solidity:.6g}: expected blades that reach their thrust at a pitch of at most "
                f"{MAX_BLADE_PITCH:g} rad; k_thrust and radius of rotors[{i}] require {element.pitch:.3g} rad"
            )
    return None


def _check_rotor_drag(vehicle: Vehicle) -> str | None:
    if vehicle["rotor_drag"].axial != 0.0 and vehicle.structure.inflow is not None:
        return (
            f"rotor_drag.axial = {vehicle['rotor_drag'].axial:.6g} N s^2/(rad m) beside inflow: expected one of them, both "
            "model the loss of thrust in climb"
        )
    return require_rotors("rotor_drag")(vehicle)


def _complete_flapping(vehicle: Vehicle, values: Mapping[str, Tree]) -> Mapping[str, Tree]:
    """Default to two blades, each with its part of the rotor's inertia if that is known."""
    blades = values.get("blades", 2.0)
    inertia = min((rotor.inertia for rotor in vehicle.rotors), default=0.0)
    derived = {"blade_inertia": inertia / blades} if inertia > 0.0 and blades else {}
    return {"blades": blades, **derived, **values}


def _check_flapping(vehicle: Vehicle) -> str | None:
    if not vehicle.has("rotor_air"):
        return "flapping is on and rotor_air is not: expected both, flapping uses the inflow that rotor_air computes"
    if not vehicle["flapping"].hinge_offset < 1.0:
        return f"flapping.hinge_offset = {vehicle['flapping'].hinge_offset}: expected a fraction of the radius, below 1"
    return None


def _hover_speed(vehicle: Vehicle) -> float:
    """Return the mean rotor speed in hover [rad/s]; raise ValueError if the (still unchecked) vehicle cannot hover."""
    try:
        with np.errstate(all="ignore"):
            speeds = hover(vehicle)[0].rotor_speed
    except (ArithmeticError, ValueError, RuntimeError) as error:
        raise ValueError(f"the default speed is that of hover, and the vehicle has no hover: {error}") from None
    return sum(speeds) / len(speeds)


def _complete_rotor_fit(vehicle: Vehicle, values: Mapping[str, Tree]) -> Mapping[str, Tree]:
    """Fit the polynomials to the named blade, at the mean rotor speed of hover unless `speed` is set."""
    if "blade" not in values:
        return values
    if problem := require_discs("rotor_fit")(vehicle):
        raise ValueError(problem)
    speed = values["speed"] if "speed" in values else _hover_speed(vehicle)
    return _cached_fit(blade(values["blade"])[0], speed, values.get("largest"))._asdict()


@lru_cache(maxsize=64)
def _cached_fit(shape: Blade, speed: float, largest: float | None) -> RotorFit:
    """Fit the rotor at `speed` [rad/s]; cached, because a fit takes half a second and the drones of a fleet share it."""
    return fit_rotor(shape, speed * 30.0 / math.pi, largest)


def _check_rotor_fit(vehicle: Vehicle) -> str | None:
    if problem := require_discs("rotor_fit")(vehicle):
        return problem
    fit: RotorFit = vehicle["rotor_fit"]
    for field in ("thrust", "power", "in_plane"):
        if len(getattr(fit, field)) != len(TERMS):
            return f"rotor_fit.{field} has {len(getattr(fit, field))} numbers: expected {len(TERMS)}, one for each term"
    if not (fit.thrust[0] > 0.0 and fit.power[0] > 0.0):
        return (
            f"rotor_fit.thrust begins with {fit.thrust[0]}, power with {fit.power[0]}: expected positive static values"
        )
    for i, rotor in enumerate(vehicle.rotors):
        k_thrust, k_torque = rotor_constants(fit, rotor.radius)
        if not abs(math.log(k_thrust / rotor.k_thrust)) <= _MAX_LOG_THRUST_RATIO:
            return (
                f"rotors[{i}].k_thrust = {rotor.k_thrust:.6g} N s^2/rad^2: expected about {k_thrust:.6g} (and k_torque "
                f"{k_torque:.6g}), the static values of rotor_fit; controllers use k_thrust"
            )
    return None


# Thrust beyond kF Ω² -----------------------------------------------------------------------------------------------


def _complete_thrust_curve(vehicle: Vehicle, values: Mapping[str, Tree]) -> Mapping[str, Tree]:
    """Default the reference speed to the mean rotor speed of hover."""
    if "speed" in values or not vehicle.rotors:
        return values
    return {**values, "speed": _hover_speed(vehicle)}


def _check_thrust_curve(vehicle: Vehicle) -> str | None:
    if problem := require_rotors("thrust_curve")(vehicle):
        return problem
    if conflicting := [effect.name for effect in vehicle.structure.effects if effect.loads is not None]:
        return f"thrust_curve is on beside {conflicting[0]}: expected one of them, both model the thrust at a speed"
    linear = vehicle["thrust_curve"].linear
    if not abs(linear) < 1.0:
        return f"thrust_curve.linear = {linear:.6g}: expected a fraction of the thrust, below 1 in magnitude"
    return None


def _complete_thrust_scale(vehicle: Vehicle, values: Mapping[str, Tree]) -> Mapping[str, Tree]:
    """Default to 9 % of thrust per volt below the full battery's voltage."""
    defaults = {"reference": float(full_voltage(vehicle))} if vehicle.has("battery") else {}
    return {"per_volt": THRUST_FRACTION_PER_VOLT, **defaults, **values}


def _check_thrust_scale(vehicle: Vehicle) -> str | None:
    if not vehicle.has("battery"):
        return "thrust_scale is on and there is no battery: expected one, thrust_scale depends on its voltage"
    return require_rotors("thrust_scale")(vehicle)


def _check_thrust_fade(vehicle: Vehicle) -> str | None:
    conflicting = [effect.name for effect in vehicle.structure.effects if effect.loads is not None]
    conflicting += ["inflow"] if vehicle.structure.inflow is not None else []
    if conflicting:
        return (
            f"thrust_fade is on beside {conflicting[0]}: expected one of them, both model the loss of thrust in climb"
        )
    return require_rotors("thrust_fade")(vehicle)


# Ground ------------------------------------------------------------------------------------------------------------


def _complete_ground_effect(vehicle: Vehicle, values: Mapping[str, Tree]) -> Mapping[str, Tree]:
    """Default b to the distance between opposite rotors."""
    body_distance = max_rotor_distance(vehicle)
    return {**({"body_distance": body_distance} if body_distance > 0.0 else {}), **values}


# Propwash ----------------------------------------------------------------------------------------------------------


def _complete_propwash(vehicle: Vehicle, values: Mapping[str, Tree]) -> Mapping[str, Tree]:
    """Default to an arm of width R/6 under half of every disc, R/4 below it, with a plate's C_D = 1.17."""
    radii = [rotor.radius for rotor in vehicle.rotors]
    defaults = (
        {"drag_area": 1.17 * sum(r * r for r in radii) / 6.0, "distance": sum(radii) / len(radii) / 4.0}
        if radii
        else {}
    )
    return {**defaults, **values}


def _check_propwash(vehicle: Vehicle) -> str | None:
    has_rotor_loads = any(effect.loads is not None for effect in vehicle.structure.effects)
    if vehicle["propwash"].gusts > 0.0 and not has_rotor_loads:
        return (
            f"propwash.gusts = {vehicle['propwash'].gusts:g} and rotor_air is off: expected rotor_air, through which "
            "gusts act on the rotors, or gusts = 0"
        )
    return require_discs("propwash")(vehicle)


# Vibration of arms and rotors --------------------------------------------------------------------------------------


def _complete_imbalance(vehicle: Vehicle, values: Mapping[str, Tree]) -> Mapping[str, Tree]:
    """Repeat a single number for all rotors; default to a radial force of 1 % of the thrust."""
    unbalance = values.get("unbalance", tuple(IMBALANCE_FRACTION * rotor.k_thrust for rotor in vehicle.rotors))
    if isinstance(unbalance, (int, float)):
        unbalance = (unbalance,) * len(vehicle.rotors)
    return {**values, "unbalance": unbalance}


def _check_imbalance(vehicle: Vehicle) -> str | None:
    imbalance, count = vehicle["imbalance"], len(vehicle.rotors)
    if problem := require_rotors("imbalance")(vehicle):
        return problem
    if len(imbalance.unbalance) != count:
        return f"imbalance.unbalance has {len(imbalance.unbalance)} numbers: expected {count}, one for each rotor"
    if not imbalance.ripple < 1.0:
        return f"imbalance.ripple = {imbalance.ripple}: expected a fraction of the thrust, below 1"
    return None


def _check_actuator(vehicle: Vehicle) -> str | None:
    return require_rotors("actuator")(vehicle) or check_actuator(vehicle)


OPTIONS: dict[str, EffectOption] = {
    "body": EffectOption(Hull, {"": BODY}),
    "drag": EffectOption(
        Drag, {"body": drag_effects.BODY_AXES, "world": drag_effects.WORLD_AXES}, key="frame", check=check_drag
    ),
    "damping": EffectOption(Damping, {"": drag_effects.ANGULAR}, check=check_damping),
    "actuator": EffectOption(SecondOrder, {"": SECOND_ORDER_ACTUATOR}, check=_check_actuator),
    "rotor_air": EffectOption(
        RotorAir,
        {"dynamic": DYNAMIC_AIR, "dynamic_3": DYNAMIC_AIR_3, "momentum": MOMENTUM_AIR},
        complete=_complete_rotor_air,
        check=_check_rotor_air,
        extra_texts=("blade",),
    ),
    "rotor_drag": EffectOption(RotorDrag, {"": ROTOR_DRAG}, check=_check_rotor_drag),
    "rotor_fit": EffectOption(
        RotorFit,
        {"": FITTED_ROTORS},
        complete=_complete_rotor_fit,
        check=_check_rotor_fit,
        extra_texts=("blade",),
        extra_quantities={"speed": Quantity("rad/s", 1.0, 3000.0)},
    ),
    "flapping": EffectOption(Flapping, {"": FLAPPING}, complete=_complete_flapping, check=_check_flapping),
    "ground_effect": EffectOption(
        GroundEffect,
        {"": GROUND_EFFECT},
        complete=_complete_ground_effect,
        check=require_discs("ground_effect"),
    ),
    "ceiling_effect": EffectOption(Ceiling, {"": CEILING_EFFECT}, check=require_discs("ceiling_effect")),
    "downwash": EffectOption(Downwash, {"": DOWNWASH}, check=require_discs("downwash")),
    "propwash": EffectOption(Propwash, {"": PROPWASH}, complete=_complete_propwash, check=_check_propwash),
    "slung_load": EffectOption(SlungLoad, {"": SLUNG_LOAD}, complete=complete_slung_load, check=check_load),
    "arms": EffectOption(
        Arms,
        {"": ARMS},
        complete=complete_arms,
        check=check_arms,
        extra_quantities={"frequency": ARM_FREQUENCY},
    ),
    "imbalance": EffectOption(Imbalance, {"": IMBALANCE}, complete=_complete_imbalance, check=_check_imbalance),
    "airspeed_moment": EffectOption(AirspeedMoment, {"": AIRSPEED_MOMENT}, check=require_discs("airspeed_moment")),
    "thrust_curve": EffectOption(
        ThrustCurve, {"": THRUST_CURVE}, complete=_complete_thrust_curve, check=_check_thrust_curve
    ),
    "thrust_scale": EffectOption(
        ThrustScale, {"": THRUST_SCALE}, complete=_complete_thrust_scale, check=_check_thrust_scale
    ),
    "coaxial": EffectOption(Coaxial, {"": COAXIAL}, complete=_complete_coaxial, check=_check_coaxial),
    "rolling_moment": EffectOption(
        RollingMoment,
        {"uniform": ROLLING_MOMENT, "by_spin": ROLLING_BY_SPIN},
        check=require_rotors("rolling_moment"),
    ),
    "thrust_fade": EffectOption(ThrustFade, {"": THRUST_FADE}, check=_check_thrust_fade),
}
"""Options by the name of the table, which is also that of the effect; a vehicle has its effects in this order."""


def merge_options(effects: Sequence[EffectOption]) -> dict[str, EffectOption]:
    """Return `OPTIONS`, followed by effects from outside the package, by name."""
    options = dict(OPTIONS)
    for option in effects:
        if not isinstance(option, EffectOption) or not option.models:
            raise ValueError(f"effects has {option!r:.60}; expected EffectOptions, each with an effect")
        if any(model.name != option.name for model in option.models.values()):
            raise ValueError(f"effect {option.name!r} has models of other names; expected one name for all of them")
        if option.name in (*NON_EFFECT_TABLES, *options):
            raise ValueError(
                f"effect {option.name!r} already exists; expected a name that no other table of a file has"
            )
        options[option.name] = option
    return options


def effect_options(vehicle: Vehicle) -> dict[str, EffectOption]:
    """Return every optional table that a file of this vehicle may have, by name."""
    return merge_options(vehicle.structure.effect_options)


def effect_option(effect: Effect, vehicle: Vehicle) -> EffectOption | None:
    """Return the table that describes an effect of a vehicle, if there is one."""
    option = effect_options(vehicle).get(effect.name)
    return option if option is not None and effect in option.models.values() else None
