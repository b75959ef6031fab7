"""The numbers of a vehicle that flights tell about: where each stands, how far it is known before, and what would excite it.

What is known before is a normal distribution about the start vehicle's number: of the logarithm of what is positive, else of
the number itself, on the scale that physics gives it.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from samara.core.algebra import ZERO, Vec3
from samara.core.quantity import Scalar
from samara.physics.air import drag as drag_effects
from samara.physics.air.drag import Damping, Drag
from samara.physics.effect import Role
from samara.physics.rotors.actuator import Lag
from samara.physics.rotors.airspeed_moment import AirspeedMoment
from samara.physics.rotors.blade_element import RotorDrag
from samara.physics.rotors.inflow import hover_induced
from samara.physics.rotors.rotor import SEA_LEVEL_DENSITY
from samara.physics.rotors.rotor_air_effects import AIRSPEED_MOMENT, ROTOR_DRAG
from samara.physics.rotors.thrust_curve import THRUST_CURVE
from samara.physics.types import Vehicle

VARIED = (
    *("inertia_B", "rotors.r_B", "rotors.k_thrust", "rotors.k_torque", "rotors.motor.rise", "rotors.motor.fall"),
    *(
        "drag.linear",
        "drag.isotropic",
        "rotor_drag.axial",
        "airspeed_moment.roll",
        "airspeed_moment.pitch",
        "damping.linear",
    ),
)
"""Paths of a vehicle that a compiled step takes as inputs, so that one code serves all candidates."""
FLOWN = (Role.WEIGHT, Role.THRUST, Role.MOMENTUM, Role.DRAG)
AIRY = (ROTOR_DRAG, AIRSPEED_MOMENT, THRUST_CURVE)
"""What candidates fly with: effects of these parts, and these. Others say nothing in free flight, or begin in a state that no
log tells; where they were on, the answer has them again."""

NOWHERE = 1e-12  # [m]: what rounding leaves of a middle
SWINGS = "roll and pitch swings at 2 to 6 Hz"
TURNS = "yaw turns of alternating direction"
SPRINTS = "sprints to and fro along x and y"
CLIMBS = "climbs and descents of several metres a second"
PUMPING = "short climbs and drops"


class Parameter(NamedTuple):
    """A number of a vehicle: its name and unit, how to read and to write it, σ of what is known before (`scale`: of the
    logarithm of a positive one, else in its unit), and the manoeuvre that tells about it"""

    name: str
    unit: str
    get: Callable[[Vehicle], float]
    put: Callable[[Vehicle, float], Vehicle]
    scale: float
    positive: bool
    manoeuvre: str

    def moved(self, vehicle: Vehicle, s: float) -> Vehicle:
        """The vehicle with s scales more of it: x e^{s σ} of a positive number, x + s σ else"""
        return self.put(vehicle, self.after(self.get(vehicle), s))

    def after(self, value: float, s: float) -> float:
        return value * math.exp(s * self.scale) if self.positive else value + s * self.scale

    def apart(self, value: float, start: float) -> float:
        """How many scales a value is from another"""
        return (math.log(value / start) if self.positive else value - start) / self.scale


class Size(NamedTuple):
    """A vehicle's own units: weight [N], arm [m], induced speed [m/s] and rotor speed [rad/s] of hover"""

    weight: float
    arm: float
    induced: float
    speed: float


def arm_of(vehicle: Vehicle) -> float:
    """The mean distance of the hubs from the centre of mass, in the plane  [m]"""
    return float(np.mean([math.hypot(rotor.r_B.x, rotor.r_B.y) for rotor in vehicle.rotors]))


def size_of(vehicle: Vehicle) -> Size:
    weight = float(vehicle.mass * vehicle["gravity"].acceleration)
    each, rotor = weight / len(vehicle.rotors), vehicle.rotors[0]
    induced = float(hover_induced(each, SEA_LEVEL_DENSITY, rotor.radius))
    return Size(weight, arm_of(vehicle), induced, math.sqrt(each / float(rotor.k_thrust)))


def ready(vehicle: Vehicle) -> Vehicle:
    """The vehicle as candidates are flown: in free air, with every effect that is asked about, at 0 where it was off

    Its motors may stand still and turn faster than they can, so that no guess of a number runs into a limit.
    """
    require_identifiable(vehicle)
    others = (own for own in vehicle.structure.effects if own.role not in FLOWN and own not in AIRY)
    vehicle = vehicle.without_effect(*(own.name for own in others))
    own = vehicle["drag"] if vehicle.has("drag") else Drag()
    vehicle = vehicle.with_effect(drag_effects.BODY_AXES, own)
    if not vehicle.has("damping"):
        vehicle = vehicle.with_effect(drag_effects.ANGULAR, Damping(ZERO))
    if not vehicle.has("rotor_drag"):
        vehicle = vehicle.with_effect(ROTOR_DRAG, RotorDrag(0.0))
    if not vehicle.has("airspeed_moment"):
        vehicle = vehicle.with_effect(AIRSPEED_MOMENT, AirspeedMoment(0.0, 0.0))
    motors = (rotor.motor._replace(speed_min=0.0, speed_max=1.5 * rotor.motor.speed_max) for rotor in vehicle.rotors)
    rotors = (own._replace(motor=motor) for own, motor in zip(vehicle.rotors, motors, strict=True))
    return replace(vehicle, rotors=tuple(rotors))


def require_identifiable(vehicle: Vehicle) -> None:
    """ValueError, in one sentence, about a vehicle that has no motors with a lag, or rotors without a size"""
    if not vehicle.rotors or not all(isinstance(rotor.motor, Lag) for rotor in vehicle.rotors):
        raise ValueError(
            f"vehicle {vehicle.name!r}: its motors are not of the model 'lag'; expected so of a vehicle to identify"
        )
    for i, rotor in enumerate(vehicle.rotors):
        if not rotor.radius > 0.0:
            raise ValueError(f"vehicle {vehicle.name!r}: rotors[{i}].radius is {rotor.radius:g} m; expected it known")
    taken = [own.name for own in vehicle.structure.effects if own.loads is not None]
    if taken or vehicle.structure.inflow is not None:
        found = taken[0] if taken else "inflow"
        raise ValueError(
            f"vehicle {vehicle.name!r}: {found} is on; expected a vehicle without it to identify, whose thrust is kF Ω²"
        )


def parameters_of(vehicle: Vehicle, damped: float = 0.3) -> tuple[Parameter, ...]:
    """Every number that is asked about, for a vehicle that is `ready`

    `damped` is how much damping is thought possible, W l²/v_h of it: rotors that turn about the body's axes damp with about
    as much. What the start has of it may as well not be there.
    """
    weight, arm, induced, speed = size_of(vehicle)
    natural = damped * weight * arm * arm / induced
    return (
        per_rotor("k_thrust", "N s^2/rad^2", 0.5, PUMPING),
        per_rotor("k_torque", "N m s^2/rad^2", 0.3, TURNS),
        *(inertia(axis, scale, SWINGS) for axis, scale in (("xx", 0.5), ("yy", 0.5))),
        inertia("zz", 0.3, TURNS),
        *(centre_of_mass(axis, 0.05 * arm) for axis in "xy"),
        *(lag(way, 0.7) for way in ("rise", "fall")),
        *(along("drag.linear", "N s/m", axis, 0.15 * weight / induced, SPRINTS) for axis in "xy"),
        *((single("drag.isotropic", "N s^2/m^2", 0.3, SPRINTS, True),) if vehicle["drag"].isotropic > 0.0 else ()),
        single("rotor_drag.axial", "N s^2/(rad m)", 0.3 * weight / len(vehicle.rotors) / speed / induced, CLIMBS),
        *(single(f"airspeed_moment.{axis}", "1", 0.3, SPRINTS) for axis in ("roll", "pitch")),
        _damping("damping.tilt", "xy", max(natural, abs(vehicle["damping"].linear.x)), SWINGS),
        _damping("damping.yaw", "z", max(natural, abs(vehicle["damping"].linear.z)), TURNS),
    )


def per_rotor(field: str, unit: str, scale: float, manoeuvre: str) -> Parameter:
    def get(vehicle: Vehicle) -> float:
        return float(np.mean([getattr(rotor, field) for rotor in vehicle.rotors]))

    def put(vehicle: Vehicle, value: float) -> Vehicle:
        factor = value / get(vehicle)
        rotors = (own._replace(**{field: factor * getattr(own, field)}) for own in vehicle.rotors)
        return replace(vehicle, rotors=tuple(rotors))

    return Parameter(field, unit, get, put, scale, True, manoeuvre)


def lag(way: str, scale: float) -> Parameter:
    def get(vehicle: Vehicle) -> float:
        return float(np.mean([getattr(rotor.motor, way) for rotor in vehicle.rotors]))

    def put(vehicle: Vehicle, value: float) -> Vehicle:
        rotors = (own._replace(motor=own.motor._replace(**{way: value})) for own in vehicle.rotors)
        return replace(vehicle, rotors=tuple(rotors))

    return Parameter(f"motor.{way}", "s", get, put, scale, True, SWINGS)


def inertia(axis: str, scale: float, manoeuvre: str) -> Parameter:
    """A moment of inertia; the products of inertia about its axis go with its root, so that the axes lean as they did"""

    def put(vehicle: Vehicle, value: float) -> Vehicle:
        own = vehicle.inertia_B
        root = math.sqrt(value / getattr(own, axis))
        products = {name: root * getattr(own, name) for name in ("xy", "yx", "xz", "zx", "yz", "zy") if axis[0] in name}
        return replace(vehicle, inertia_B=own._replace(**products, **{axis: value}))

    return Parameter(
        f"inertia.{axis}",
        "kg m^2",
        lambda vehicle: float(getattr(vehicle.inertia_B, axis)),
        put,
        scale,
        True,
        manoeuvre,
    )


def centre_of_mass(axis: str, scale: float) -> Parameter:
    """Where the centre of mass is beside the middle of the hubs"""

    def get(vehicle: Vehicle) -> float:
        own = -float(np.mean([getattr(rotor.r_B, axis) for rotor in vehicle.rotors]))
        return own if abs(own) > NOWHERE else 0.0

    def put(vehicle: Vehicle, value: float) -> Vehicle:
        shift = get(vehicle) - value
        rotors = (
            own._replace(r_B=own.r_B._replace(**{axis: getattr(own.r_B, axis) + shift})) for own in vehicle.rotors
        )
        return replace(vehicle, rotors=tuple(rotors))

    return Parameter(f"centre_of_mass.{axis}", "m", get, put, scale, False, SWINGS)


def _inside(vehicle: Vehicle, path: str) -> Scalar:
    effect, _, field = path.partition(".")
    return getattr(vehicle[effect], field)


def single(path: str, unit: str, scale: float, manoeuvre: str, positive: bool = False) -> Parameter:
    def put(vehicle: Vehicle, value: float) -> Vehicle:
        return vehicle.replace({path: value})

    return Parameter(path, unit, lambda vehicle: float(_inside(vehicle, path)), put, scale, positive, manoeuvre)


def along(path: str, unit: str, axis: str, scale: float, manoeuvre: str) -> Parameter:
    def put(vehicle: Vehicle, value: float) -> Vehicle:
        return vehicle.replace({path: _inside(vehicle, path)._replace(**{axis: value})})

    return Parameter(
        f"{path}.{axis}",
        unit,
        lambda vehicle: float(getattr(_inside(vehicle, path), axis)),
        put,
        scale,
        False,
        manoeuvre,
    )


def _damping(name: str, axes: str, scale: float, manoeuvre: str) -> Parameter:
    def get(vehicle: Vehicle) -> float:
        return float(getattr(vehicle["damping"].linear, axes[0]))

    def put(vehicle: Vehicle, value: float) -> Vehicle:
        own: Vec3 = vehicle["damping"].linear
        return vehicle.replace({"damping.linear": own._replace(**dict.fromkeys(axes, value))})

    return Parameter(name, "N m s/rad", get, put, scale, False, manoeuvre)


def with_gains(vehicle: Vehicle, gains: Sequence[float]) -> Vehicle:
    """kFᵢ gᵢ,  kMᵢ gᵢ: a gain for each rotor, which stands for worn propellers and a centre of mass off the middle"""
    rotors = (
        own._replace(k_thrust=gain * own.k_thrust, k_torque=gain * own.k_torque)
        for own, gain in zip(vehicle.rotors, gains, strict=True)
    )
    return replace(vehicle, rotors=tuple(rotors))
