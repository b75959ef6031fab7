"""What a vehicle may have switched on: every optional table of a vehicle file, its record, and the effects it stands for.

Another effect is one entry: at the end of `OPTIONS` here, or handed in from outside, `samara.vehicle(path, effects=[entry])`.
Loader, builder, check, writer and scenario files walk through them, and what planners and trims make of an effect it says
itself.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from samara.core.quantity import Quantity, Tree
from samara.core.units import fields_of
from samara.physics.air import drag as drag_effects
from samara.physics.air.coaxial import COAXIAL, Coaxial
from samara.physics.air.downwash import DOWNWASH, Downwash
from samara.physics.air.drag import Damping, Drag
from samara.physics.air.ground_effect import CEILING_EFFECT, GROUND_EFFECT, Ceiling, GroundEffect, opposite_rotors
from samara.physics.air.propwash import PROPWASH, Propwash
from samara.physics.effect import Effect, Role
from samara.physics.rotors.actuator import SecondOrder
from samara.physics.rotors.airspeed_moment import AirspeedMoment, RollingMoment, ThrustFade
from samara.physics.rotors.blade_element import RotorAir, RotorDrag, blade_numbers
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
    FREQUENCY,
    arms_numbers,
    check_actuator,
    check_arms,
    check_damping,
    check_drag,
    check_load,
    load_numbers,
)
from samara.vehicles.shape import BODY, Hull
from samara.vehicles.trim import hover

TYPICAL_SOLIDITY = 0.08  # two blades with a mean chord of R/8, as most propellers of 5 to 15 inch have
HIGHEST_PITCH = 0.6  # [rad]: steeper blades have stalled, and their lift is no longer a straight line
_TYPICAL_PITCH = 0.5  # [rad]
_ALIKE = 0.4  # of ln kF: thrusts that a controller may take for each other
OTHER_TABLES = (  # of a vehicle file, besides those of effects that may be switched on
    *("schema", "name", "actuation", "description"),
    *("gravity", "contact", "inflow", "battery", "rotor", "rotors", "motor", "payload"),
)
SCALE_PER_VOLT = 0.09  # of thrust: Crazyflies, whose rotor speeds are inferred from commands
EXAMPLE_FRACTION = 1e-3  # of the declared range: where the parameters of examples are
SHAKING_SHARE = 0.01  # of the thrust at any speed: a propeller that was balanced by hand


def _as_given(vehicle: Vehicle, given: Mapping[str, Tree]) -> Mapping[str, Tree]:
    return given


def _fine(vehicle: Vehicle) -> str | None:
    return None


class EffectOption(NamedTuple):
    """One optional table of a vehicle file: the record of its numbers, and the effect they are for.

    `models` are the effects it may mean, by the text of `key`, or one alone under "". All have the name of the table.

    `complete(vehicle, given)` makes the record's fields of what was given, and knows what follows from the vehicle without
    this effect. `check(vehicle)` is one sentence about what cannot be, or None. `texts` and `numbers` are further keys that
    only `complete` understands.
    """

    record: type[Tree]
    models: Mapping[str, Effect]
    key: str = "model"
    complete: Callable[[Vehicle, Mapping[str, Tree]], Mapping[str, Tree]] = _as_given
    check: Callable[[Vehicle], str | None] = _fine
    texts: tuple[str, ...] = ()
    numbers: Mapping[str, Quantity] = {}

    @property
    def name(self) -> str:
        """That of the table and of its effects."""
        return next(iter(self.models.values())).name

    @property
    def inflow(self) -> bool:
        """Whether the effect may stand beside an inflow model: one that has its own loads takes its place."""
        return all(model.loads is None for model in self.models.values())

    @property
    def completes(self) -> bool:
        """Whether a field without a default may be left to `complete`."""
        return self.complete is not _as_given

    @property
    def example(self) -> dict[str, Tree]:
        """A value within its declared range for every parameter without a default: lists for what is not one number."""
        values: dict[str, Tree] = {}
        for key, field in fields_of(self.record).items():
            if key not in self.record._field_defaults:
                low, high = field.quantity.low, field.quantity.high
                value = low + EXAMPLE_FRACTION * (high - low)
                values[key] = value if field.numbers == 1 else [value] * (field.numbers or 1)
        return values


def needs_rotors(effect: str) -> Callable[[Vehicle], str | None]:
    """A check that there are rotors."""
    wrong = f"{effect} is on and rotors has 0 entries: expected at least one"
    return lambda vehicle: None if vehicle.rotors else wrong


def needs_discs(effect: str) -> Callable[[Vehicle], str | None]:
    """A check that there are rotors, and each has a radius."""

    def check(vehicle: Vehicle) -> str | None:
        if wrong := needs_rotors(effect)(vehicle):
            return wrong
        for i, rotor in enumerate(vehicle.rotors):
            if not rotor.radius > 0.0:
                return f"rotors[{i}].radius = {rotor.radius} m: expected a positive number, {effect} needs it"
        return None

    return check


def check_rotor_air(vehicle: Vehicle) -> str | None:
    """The sentence about two effects that say the same differently, or about an inflow model beside loads of its own."""
    found = [effect for effect in vehicle.structure.effects if effect.role is Role.ROTOR_AIR]
    beside = [effect.name for effect in found[1:]]
    if vehicle.structure.inflow is not None and found and found[0].loads is not None:
        beside.append("inflow")
    if not beside:
        return None
    return (
        f"{found[0].name} is on beside {beside[0]}: expected one of them, both say what moving air does to the rotors"
    )


# A rotor's air -----------------------------------------------------------------------------------------------------


def _hover_inflow(rotor: Rotor) -> float:
    """λ_h = v_h/(ΩR), at T = kF Ω²"""
    return float(hover_induced(rotor.k_thrust, SEA_LEVEL_DENSITY, rotor.radius) / rotor.radius)


def typical_solidity(vehicle: Vehicle, lift_slope: float = 5.7) -> float:
    """σ of the shipped blade of this radius, else 0.08; or as much more as keeps the pitch 3 (2 C_T/σa + λ_h/2) at 0.5 rad"""
    shipped = [shape for shape, _ in map(blade, blade_names())]
    found = [TYPICAL_SOLIDITY] * (not vehicle.rotors)
    for rotor in vehicle.rotors:
        alike = [shape.solidity for shape in shipped if abs(shape.radius - rotor.radius) < 0.02 * rotor.radius]
        found.append(alike[0] if alike else TYPICAL_SOLIDITY)
        least = 1.5 * _hover_inflow(rotor) if rotor.radius > 0.0 else math.inf
        if least < _TYPICAL_PITCH:
            turned = blade_numbers(rotor, RotorAir(1.0, lift_slope)).pitch - least
            found.append(turned / (_TYPICAL_PITCH - least))
    return max(found)


def _air_numbers(vehicle: Vehicle, given: Mapping[str, Tree]) -> Mapping[str, Tree]:
    """The solidity of the blade that is named, or a typical one"""
    rest = {key: value for key, value in given.items() if key != "blade"}
    if "solidity" in rest:
        return rest
    if "blade" in given:
        return {"solidity": blade(given["blade"])[0].solidity, **rest}
    return {"solidity": typical_solidity(vehicle, **rest), **rest}


def _coaxial_numbers(vehicle: Vehicle, given: Mapping[str, Tree]) -> Mapping[str, Tree]:
    """The blades of `rotor_air` where that is on, else typical ones"""
    if vehicle.has("rotor_air"):
        return {**vehicle["rotor_air"]._asdict(), **given}
    return {**({} if "solidity" in given else {"solidity": typical_solidity(vehicle, **given)}), **given}


def _check_air(vehicle: Vehicle) -> str | None:
    return _check_blades("rotor_air", vehicle)


def _check_coaxial(vehicle: Vehicle) -> str | None:
    return _check_blades("coaxial", vehicle)


def _check_blades(effect: str, vehicle: Vehicle) -> str | None:
    if wrong := needs_discs(effect)(vehicle):
        return wrong
    air = RotorAir(*vehicle[effect])
    for i, rotor in enumerate(vehicle.rotors):
        numbers = blade_numbers(rotor, air)
        if numbers.profile < 0.0:
            least = rotor.k_thrust * rotor.radius * _hover_inflow(rotor)
            return (
                f"rotors[{i}].k_torque = {rotor.k_torque:.6g} N m s^2/rad^2: expected at least {least:.6g}, what lifting "
                f"with its k_thrust costs a disc of radius {rotor.radius:g} m; {effect} needs it"
            )
        if not numbers.pitch <= HIGHEST_PITCH:
            return (
                f"{effect}.solidity = {air.solidity:.6g}: expected blades that lift with a pitch of at most "
                f"{HIGHEST_PITCH:g} rad; k_thrust and radius of rotors[{i}] ask these for {numbers.pitch:.3g} rad"
            )
    return None


def _check_rotor_drag(vehicle: Vehicle) -> str | None:
    if vehicle["rotor_drag"].axial > 0.0 and vehicle.structure.inflow is not None:
        return (
            f"rotor_drag.axial = {vehicle['rotor_drag'].axial:.6g} N s^2/(rad m) beside inflow: expected one of them, both "
            "say what climb takes off the thrust"
        )
    return needs_rotors("rotor_drag")(vehicle)


def _flap_numbers(vehicle: Vehicle, given: Mapping[str, Tree]) -> Mapping[str, Tree]:
    """Two blades, and for each its part of the rotor's inertia where that is known"""
    blades = given.get("blades", 2.0)
    inertia = min((rotor.inertia for rotor in vehicle.rotors), default=0.0)
    known = {"blade_inertia": inertia / blades} if inertia > 0.0 and blades else {}
    return {"blades": blades, **known, **given}


def _check_flapping(vehicle: Vehicle) -> str | None:
    if not vehicle.has("rotor_air"):
        return "flapping is on and rotor_air is not: expected both, the disc leans in the air that rotor_air knows"
    if not vehicle["flapping"].hinge_offset < 1.0:
        return f"flapping.hinge_offset = {vehicle['flapping'].hinge_offset}: expected a part of the radius, below 1"
    return None


def _hover_speed(vehicle: Vehicle) -> float:
    """The mean of the rotors; a ValueError for a vehicle, not checked yet, that has no hover  [rad/s]"""
    try:
        with np.errstate(all="ignore"):
            speeds = hover(vehicle)[0].rotor_speed
    except (ArithmeticError, ValueError, RuntimeError) as error:
        raise ValueError(f"its speed is that of hover, and there is none: {error}") from None
    return sum(speeds) / len(speeds)


def _fit_numbers(vehicle: Vehicle, given: Mapping[str, Tree]) -> Mapping[str, Tree]:
    """The polynomials of the blade that is named, at the mean rotor speed of hover unless another is given"""
    if "blade" not in given:
        return given
    if wrong := needs_discs("rotor_fit")(vehicle):
        raise ValueError(wrong)
    speed = given["speed"] if "speed" in given else _hover_speed(vehicle)
    return _fitted(blade(given["blade"])[0], speed, given.get("largest"))._asdict()


@lru_cache(maxsize=64)
def _fitted(shape: Blade, speed: float, largest: float | None) -> RotorFit:
    """Half a second of work, once for all drones of a fleet; speed [rad/s]"""
    return fit_rotor(shape, speed * 30.0 / math.pi, largest)


def _check_fit(vehicle: Vehicle) -> str | None:
    if wrong := needs_discs("rotor_fit")(vehicle):
        return wrong
    fit: RotorFit = vehicle["rotor_fit"]
    for field in ("thrust", "power", "in_plane"):
        if len(getattr(fit, field)) != len(TERMS):
            return f"rotor_fit.{field} has {len(getattr(fit, field))} numbers: expected {len(TERMS)}, one for each term"
    if not (fit.thrust[0] > 0.0 and fit.power[0] > 0.0):
        return f"rotor_fit.thrust begins with {fit.thrust[0]}, power with {fit.power[0]}: expected a rotor that lifts"
    for i, rotor in enumerate(vehicle.rotors):
        k_thrust, k_torque = rotor_constants(fit, rotor.radius)
        if not abs(math.log(k_thrust / rotor.k_thrust)) <= _ALIKE:
            return (
                f"rotors[{i}].k_thrust = {rotor.k_thrust:.6g} N s^2/rad^2: expected about {k_thrust:.6g} (and k_torque "
                f"{k_torque:.6g}), which rotor_fit has at rest; controllers go by k_thrust"
            )
    return None


# What thrust has besides kF Ω² -------------------------------------------------------------------------------------


def _curve_numbers(vehicle: Vehicle, given: Mapping[str, Tree]) -> Mapping[str, Tree]:
    """About the mean rotor speed of hover, by default"""
    if "speed" in given or not vehicle.rotors:
        return given
    return {**given, "speed": _hover_speed(vehicle)}


def _check_curve(vehicle: Vehicle) -> str | None:
    if wrong := needs_rotors("thrust_curve")(vehicle):
        return wrong
    if known := [own.name for own in vehicle.structure.effects if own.loads is not None]:
        return f"thrust_curve is on beside {known[0]}: expected one of them, both say what thrust a speed gives"
    linear = vehicle["thrust_curve"].linear
    if not abs(linear) < 1.0:
        return f"thrust_curve.linear = {linear:.6g}: expected a part of the thrust, below 1 in size"
    return None


def _scale_numbers(vehicle: Vehicle, given: Mapping[str, Tree]) -> Mapping[str, Tree]:
    """9 % for each volt below the full battery's voltage, by default"""
    full = {"reference": float(full_voltage(vehicle))} if vehicle.has("battery") else {}
    return {"per_volt": SCALE_PER_VOLT, **full, **given}


def _check_scale(vehicle: Vehicle) -> str | None:
    if not vehicle.has("battery"):
        return "thrust_scale is on and there is no battery: expected one, whose voltage the thrust moves with"
    return needs_rotors("thrust_scale")(vehicle)


def _check_fade(vehicle: Vehicle) -> str | None:
    known = [own.name for own in vehicle.structure.effects if own.loads is not None]
    known += ["inflow"] if vehicle.structure.inflow is not None else []
    if known:
        return f"thrust_fade is on beside {known[0]}: expected one of them, both say what climb takes off the thrust"
    return needs_rotors("thrust_fade")(vehicle)


# Surfaces near by --------------------------------------------------------------------------------------------------


def _ground_numbers(vehicle: Vehicle, given: Mapping[str, Tree]) -> Mapping[str, Tree]:
    """b is the distance between opposite rotors by default"""
    apart = opposite_rotors(vehicle)
    return {**({"body_distance": apart} if apart > 0.0 else {}), **given}


# The rotors' own wake ----------------------------------------------------------------------------------------------


def _wash_numbers(vehicle: Vehicle, given: Mapping[str, Tree]) -> Mapping[str, Tree]:
    """An arm of width R/6 under half of every disc, R/4 below it, with a plate's C_D = 1.17, by default"""
    radii = [rotor.radius for rotor in vehicle.rotors]
    usual = (
        {"drag_area": 1.17 * sum(r * r for r in radii) / 6.0, "distance": sum(radii) / len(radii) / 4.0}
        if radii
        else {}
    )
    return {**usual, **given}


def _check_wash(vehicle: Vehicle) -> str | None:
    felt = any(effect.loads is not None for effect in vehicle.structure.effects)
    if vehicle["propwash"].gusts > 0.0 and not felt:
        return (
            f"propwash.gusts = {vehicle['propwash'].gusts:g} and rotor_air is off: expected rotor_air, through which "
            "rotors feel gusts, or gusts = 0"
        )
    return needs_discs("propwash")(vehicle)


# Arms and rotors that shake ----------------------------------------------------------------------------------------


def _imbalance_numbers(vehicle: Vehicle, given: Mapping[str, Tree]) -> Mapping[str, Tree]:
    """One number stands for all rotors; without any, each pulls sideways with 1 % of its thrust"""
    unbalance = given.get("unbalance", tuple(SHAKING_SHARE * rotor.k_thrust for rotor in vehicle.rotors))
    if isinstance(unbalance, (int, float)):
        unbalance = (unbalance,) * len(vehicle.rotors)
    return {**given, "unbalance": unbalance}


def _check_imbalance(vehicle: Vehicle) -> str | None:
    shaken, count = vehicle["imbalance"], len(vehicle.rotors)
    if wrong := needs_rotors("imbalance")(vehicle):
        return wrong
    if len(shaken.unbalance) != count:
        return f"imbalance.unbalance has {len(shaken.unbalance)} numbers: expected {count}, one for each rotor"
    if not shaken.ripple < 1.0:
        return f"imbalance.ripple = {shaken.ripple}: expected a part of the thrust, below 1"
    return None


def _check_actuator(vehicle: Vehicle) -> str | None:
    return needs_rotors("actuator")(vehicle) or check_actuator(vehicle)


OPTIONS: dict[str, EffectOption] = {
    "body": EffectOption(Hull, {"": BODY}),
    "drag": EffectOption(
        Drag, {"body": drag_effects.BODY_AXES, "world": drag_effects.WORLD_AXES}, key="axes", check=check_drag
    ),
    "damping": EffectOption(Damping, {"": drag_effects.ANGULAR}, check=check_damping),
    "actuator": EffectOption(SecondOrder, {"": SECOND_ORDER_ACTUATOR}, check=_check_actuator),
    "rotor_air": EffectOption(
        RotorAir,
        {"dynamic": DYNAMIC_AIR, "dynamic_3": DYNAMIC_AIR_3, "momentum": MOMENTUM_AIR},
        complete=_air_numbers,
        check=_check_air,
        texts=("blade",),
    ),
    "rotor_drag": EffectOption(RotorDrag, {"": ROTOR_DRAG}, check=_check_rotor_drag),
    "rotor_fit": EffectOption(
        RotorFit,
        {"": FITTED_ROTORS},
        complete=_fit_numbers,
        check=_check_fit,
        texts=("blade",),
        numbers={"speed": Quantity("rad/s", 1.0, 3000.0)},
    ),
    "flapping": EffectOption(Flapping, {"": FLAPPING}, complete=_flap_numbers, check=_check_flapping),
    "ground_effect": EffectOption(
        GroundEffect,
        {"": GROUND_EFFECT},
        complete=_ground_numbers,
        check=needs_discs("ground_effect"),
    ),
    "ceiling_effect": EffectOption(Ceiling, {"": CEILING_EFFECT}, check=needs_discs("ceiling_effect")),
    "downwash": EffectOption(Downwash, {"": DOWNWASH}, check=needs_discs("downwash")),
    "propwash": EffectOption(Propwash, {"": PROPWASH}, complete=_wash_numbers, check=_check_wash),
    "slung_load": EffectOption(SlungLoad, {"": SLUNG_LOAD}, complete=load_numbers, check=check_load),
    "arms": EffectOption(
        Arms,
        {"": ARMS},
        complete=arms_numbers,
        check=check_arms,
        numbers={"frequency": FREQUENCY},
    ),
    "imbalance": EffectOption(Imbalance, {"": IMBALANCE}, complete=_imbalance_numbers, check=_check_imbalance),
    "airspeed_moment": EffectOption(AirspeedMoment, {"": AIRSPEED_MOMENT}, check=needs_discs("airspeed_moment")),
    "thrust_curve": EffectOption(ThrustCurve, {"": THRUST_CURVE}, complete=_curve_numbers, check=_check_curve),
    "thrust_scale": EffectOption(ThrustScale, {"": THRUST_SCALE}, complete=_scale_numbers, check=_check_scale),
    "coaxial": EffectOption(Coaxial, {"": COAXIAL}, complete=_coaxial_numbers, check=_check_coaxial),
    "rolling_moment": EffectOption(
        RollingMoment,
        {"alike": ROLLING_MOMENT, "by_spin": ROLLING_BY_SPIN},
        check=needs_rotors("rolling_moment"),
    ),
    "thrust_fade": EffectOption(ThrustFade, {"": THRUST_FADE}, check=_check_fade),
}
"""By the name of the table, which is the name of the effect, in the order in which a vehicle has them."""


def options_with(effects: Sequence[EffectOption]) -> dict[str, EffectOption]:
    """`OPTIONS`, and after them effects from outside by their names"""
    found = dict(OPTIONS)
    for option in effects:
        if not isinstance(option, EffectOption) or not option.models:
            raise ValueError(f"effects has {option!r:.60}; expected EffectOptions, each with an effect")
        if any(model.name != option.name for model in option.models.values()):
            raise ValueError(f"effect {option.name!r} has models of other names; expected one name for all of them")
        if option.name in (*OTHER_TABLES, *found):
            raise ValueError(
                f"effect {option.name!r} is there already; expected a name that no other table of a file has"
            )
        found[option.name] = option
    return found


def options_of(vehicle: Vehicle) -> dict[str, EffectOption]:
    """Every optional table that a file of this vehicle may have, by its name"""
    return options_with(vehicle.structure.options)


def option_of(effect: Effect, vehicle: Vehicle) -> EffectOption | None:
    """The table that stands for an effect of a vehicle, if any does"""
    option = options_of(vehicle).get(effect.name)
    return option if option is not None and effect in option.models.values() else None
