"""The parameters of a vehicle that flights can identify: accessors, prior scales and the manoeuvres that excite them.

The prior is a normal distribution about the start vehicle's value: of the logarithm of a positive parameter, else of the
parameter itself, with a σ that physics suggests.
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
from samara.physics.rotors.rotor_air_effects import AIRSPEED_MOMENT, ROTOR_DRAG, TRANSLATIONAL_LIFT
from samara.physics.rotors.thrust_curve import THRUST_CURVE, ThrustCurve
from samara.physics.types import Vehicle, replace_parameters

VARIED_PATHS = (
    *(
        "inertia_B",
        "rotors.r_B",
        "rotors.k_thrust",
        "rotors.k_torque",
        "rotors.motor.time_constant_up",
        "rotors.motor.time_constant_down",
        "thrust_curve.linear",
        "thrust_curve.speed",
    ),
    *(
        "drag.linear",
        "drag.isotropic",
        "rotor_drag.axial",
        "airspeed_moment.roll",
        "airspeed_moment.pitch",
        "damping.linear",
    ),
)
"""Paths of a vehicle that a compiled step takes as inputs, so that one program serves all candidates."""
FITTED_ROLES = (Role.WEIGHT, Role.THRUST, Role.MOMENTUM, Role.DRAG)
FITTED_EFFECTS = (ROTOR_DRAG, AIRSPEED_MOMENT, THRUST_CURVE, TRANSLATIONAL_LIFT)
"""Roles and effects that candidates fly with. Other effects do nothing in free flight, or start in a state that no log records;
`samara.identify.identification.complete_vehicle` restores those that were on."""

OFFSET_TOLERANCE_M = 1e-12  # [m]: rounding error of the mean hub position
SWINGS = "roll and pitch swings at 2 to 6 Hz"
TURNS = "yaw turns of alternating direction"
SPRINTS = "sprints to and fro along x and y"
CLIMBS = "climbs and descents of several metres a second"
PUMPING = "short climbs and drops"


class FreeParameter(NamedTuple):
    """A parameter of a vehicle.

    `get` and `put` read and write it. `scale` is the prior σ: of the logarithm of a positive parameter, else in its unit.
    `manoeuvre` excites it.
    """

    name: str
    unit: str
    get: Callable[[Vehicle], float]
    put: Callable[[Vehicle, float], Vehicle]
    scale: float
    positive: bool
    manoeuvre: str

    def displace_vehicle(self, vehicle: Vehicle, s: float) -> Vehicle:
        """Return the vehicle with the parameter displaced by s scales: x e^{s σ} if it is positive, else x + s σ."""
        return self.put(vehicle, self.displace_value(self.get(vehicle), s))

    def displace_value(self, value: float, s: float) -> float:
        """Return the value displaced by s scales."""
        return value * math.exp(s * self.scale) if self.positive else value + s * self.scale

    def scaled_difference(self, value: float, start: float) -> float:
        """Return the difference of two values in scales."""
        return (math.log(value / start) if self.positive else value - start) / self.scale


class HoverScales(NamedTuple):
    """Characteristic quantities of a vehicle in hover: weight [N], arm [m], induced speed [m/s] and rotor speed [rad/s]."""

    weight: float
    arm: float
    induced_speed: float
    rotor_speed: float


def mean_arm(vehicle: Vehicle) -> float:
    """Mean distance of the hubs from the centre of mass, in the plane  [m]."""
    return float(np.mean([math.hypot(rotor.r_B.x, rotor.r_B.y) for rotor in vehicle.rotors]))


def hover_scales(vehicle: Vehicle) -> HoverScales:
    """Return weight, arm, induced speed and rotor speed of a vehicle in hover."""
    weight = float(vehicle.mass * vehicle["gravity"].acceleration)
    thrust_per_rotor, rotor = weight / len(vehicle.rotors), vehicle.rotors[0]
    induced = float(hover_induced(thrust_per_rotor, SEA_LEVEL_DENSITY, rotor.radius))
    return HoverScales(weight, mean_arm(vehicle), induced, math.sqrt(thrust_per_rotor / float(rotor.k_thrust)))


def prepare_vehicle(vehicle: Vehicle) -> Vehicle:
    """Return the vehicle as the fit simulates it: in free air, with every identifiable effect on, at 0 if it was off.

    Its motors may stop and may exceed their maximum speed, so that no trial value of a parameter reaches a limit.
    """
    require_identifiable(vehicle)
    excluded = (
        effect
        for effect in vehicle.structure.effects
        if effect.role not in FITTED_ROLES and effect not in FITTED_EFFECTS
    )
    vehicle = vehicle.without_effect(*(effect.name for effect in excluded))
    drag = vehicle["drag"] if vehicle.has("drag") else Drag()
    vehicle = vehicle.with_effect(drag_effects.BODY_AXES, drag)
    if not vehicle.has("damping"):
        vehicle = vehicle.with_effect(drag_effects.ANGULAR, Damping(ZERO))
    if not vehicle.has("rotor_drag"):
        vehicle = vehicle.with_effect(ROTOR_DRAG, RotorDrag(0.0))
    if not vehicle.has("airspeed_moment"):
        vehicle = vehicle.with_effect(AIRSPEED_MOMENT, AirspeedMoment(0.0, 0.0))
    if not vehicle.has("thrust_curve"):
        vehicle = vehicle.with_effect(THRUST_CURVE, ThrustCurve(0.0, hover_scales(vehicle).rotor_speed))
    motors = (rotor.motor._replace(speed_min=0.0, speed_max=1.5 * rotor.motor.speed_max) for rotor in vehicle.rotors)
    rotors = (rotor._replace(motor=motor) for rotor, motor in zip(vehicle.rotors, motors, strict=True))
    return replace(vehicle, rotors=tuple(rotors))


def require_identifiable(vehicle: Vehicle) -> None:
    """Raise ValueError if the motors do not use the lag model, a rotor has no radius, or the thrust is not kF Ω²."""
    if not vehicle.rotors or not all(isinstance(rotor.motor, Lag) for rotor in vehicle.rotors):
        raise ValueError(
            f"vehicle {vehicle.name!r}: its motors do not use the model 'lag'; expected a vehicle with lag motors to identify"
        )
    for i, rotor in enumerate(vehicle.rotors):
        if not rotor.radius > 0.0:
            raise ValueError(
                f"vehicle {vehicle.name!r}: rotors[{i}].radius is {rotor.radius:g} m; expected a positive radius"
            )
    thrust_effects = [effect.name for effect in vehicle.structure.effects if effect.loads is not None]
    if thrust_effects or vehicle.structure.inflow is not None:
        effect_name = thrust_effects[0] if thrust_effects else "inflow"
        raise ValueError(
            f"vehicle {vehicle.name!r}: {effect_name} is on; expected a vehicle without it to identify, whose thrust is kF Ω²"
        )


def identifiable_parameters(vehicle: Vehicle, damping_scale: float = 0.3) -> tuple[FreeParameter, ...]:
    """Return every identifiable parameter of a vehicle prepared by `prepare_vehicle`.

    `damping_scale` is the prior scale of the damping in units of W l²/v_h; rotors that rotate with the body damp with
    about 1. The prior always allows the start vehicle's damping to be 0.
    """
    weight, arm, induced, speed = hover_scales(vehicle)
    damping = damping_scale * weight * arm * arm / induced
    return (
        rotor_parameter("k_thrust", "N s^2/rad^2", 0.5, PUMPING),
        rotor_parameter("k_torque", "N m s^2/rad^2", 0.3, TURNS),
        scalar_parameter("thrust_curve.linear", "1", 0.3, PUMPING),
        *(inertia_parameter(axis, scale, SWINGS) for axis, scale in (("xx", 0.5), ("yy", 0.5))),
        inertia_parameter("zz", 0.3, TURNS),
        *(centre_of_mass_parameter(axis, 0.05 * arm) for axis in "xy"),
        *(motor_lag_parameter(direction, 0.7) for direction in ("time_constant_up", "time_constant_down")),
        *(vector_parameter("drag.linear", "N s/m", axis, 0.15 * weight / induced, SPRINTS) for axis in "xy"),
        *(
            (scalar_parameter("drag.isotropic", "N s^2/m^2", 0.3, SPRINTS, True),)
            if vehicle["drag"].isotropic > 0.0
            else ()
        ),
        scalar_parameter(
            "rotor_drag.axial", "N s^2/(rad m)", 0.3 * weight / len(vehicle.rotors) / speed / induced, CLIMBS
        ),
        *(scalar_parameter(f"airspeed_moment.{axis}", "1", 0.3, SPRINTS) for axis in ("roll", "pitch")),
        _damping_parameter("damping.tilt", "xy", max(damping, abs(vehicle["damping"].linear.x)), SWINGS),
        _damping_parameter("damping.yaw", "z", max(damping, abs(vehicle["damping"].linear.z)), TURNS),
    )


def rotor_parameter(field: str, unit: str, scale: float, manoeuvre: str) -> FreeParameter:
    """Return the mean of a rotor coefficient; writing it scales all rotors alike."""

    def get(vehicle: Vehicle) -> float:
        return float(np.mean([getattr(rotor, field) for rotor in vehicle.rotors]))

    def put(vehicle: Vehicle, value: float) -> Vehicle:
        factor = value / get(vehicle)
        rotors = (rotor._replace(**{field: factor * getattr(rotor, field)}) for rotor in vehicle.rotors)
        return replace(vehicle, rotors=tuple(rotors))

    return FreeParameter(field, unit, get, put, scale, True, manoeuvre)


def motor_lag_parameter(direction: str, scale: float) -> FreeParameter:
    """Return a time constant of the motors, `time_constant_up` or `time_constant_down`."""

    def get(vehicle: Vehicle) -> float:
        return float(np.mean([getattr(rotor.motor, direction) for rotor in vehicle.rotors]))

    def put(vehicle: Vehicle, value: float) -> Vehicle:
        rotors = (rotor._replace(motor=rotor.motor._replace(**{direction: value})) for rotor in vehicle.rotors)
        return replace(vehicle, rotors=tuple(rotors))

    return FreeParameter(f"motor.{direction}", "s", get, put, scale, True, SWINGS)


def inertia_parameter(axis: str, scale: float, manoeuvre: str) -> FreeParameter:
    """Return a moment of inertia; products of inertia scale with its square root, which keeps the principal axes."""

    def put(vehicle: Vehicle, value: float) -> Vehicle:
        inertia_B = vehicle.inertia_B
        root = math.sqrt(value / getattr(inertia_B, axis))
        products = {
            name: root * getattr(inertia_B, name) for name in ("xy", "yx", "xz", "zx", "yz", "zy") if axis[0] in name
        }
        return replace(vehicle, inertia_B=inertia_B._replace(**products, **{axis: value}))

    return FreeParameter(
        f"inertia.{axis}",
        "kg m^2",
        lambda vehicle: float(getattr(vehicle.inertia_B, axis)),
        put,
        scale,
        True,
        manoeuvre,
    )


def centre_of_mass_parameter(axis: str, scale: float) -> FreeParameter:
    """Return the offset of the centre of mass from the mean hub position along an axis."""

    def get(vehicle: Vehicle) -> float:
        offset = -float(np.mean([getattr(rotor.r_B, axis) for rotor in vehicle.rotors]))
        return offset if abs(offset) > OFFSET_TOLERANCE_M else 0.0

    def put(vehicle: Vehicle, value: float) -> Vehicle:
        shift = get(vehicle) - value
        rotors = (
            rotor._replace(r_B=rotor.r_B._replace(**{axis: getattr(rotor.r_B, axis) + shift}))
            for rotor in vehicle.rotors
        )
        return replace(vehicle, rotors=tuple(rotors))

    return FreeParameter(f"centre_of_mass.{axis}", "m", get, put, scale, False, SWINGS)


def _effect_value(vehicle: Vehicle, path: str) -> Scalar:
    effect, _, field = path.partition(".")
    return getattr(vehicle[effect], field)


def scalar_parameter(path: str, unit: str, scale: float, manoeuvre: str, positive: bool = False) -> FreeParameter:
    """Return a scalar parameter of an effect."""

    def put(vehicle: Vehicle, value: float) -> Vehicle:
        return replace_parameters(vehicle, {path: value})

    return FreeParameter(
        path, unit, lambda vehicle: float(_effect_value(vehicle, path)), put, scale, positive, manoeuvre
    )


def vector_parameter(path: str, unit: str, axis: str, scale: float, manoeuvre: str) -> FreeParameter:
    """Return one component of a vector parameter of an effect."""

    def put(vehicle: Vehicle, value: float) -> Vehicle:
        return vehicle.replace({path: _effect_value(vehicle, path)._replace(**{axis: value})})

    return FreeParameter(
        f"{path}.{axis}",
        unit,
        lambda vehicle: float(getattr(_effect_value(vehicle, path), axis)),
        put,
        scale,
        False,
        manoeuvre,
    )


def _damping_parameter(name: str, axes: str, scale: float, manoeuvre: str) -> FreeParameter:
    def get(vehicle: Vehicle) -> float:
        return float(getattr(vehicle["damping"].linear, axes[0]))

    def put(vehicle: Vehicle, value: float) -> Vehicle:
        linear: Vec3 = vehicle["damping"].linear
        return vehicle.replace({"damping.linear": linear._replace(**dict.fromkeys(axes, value))})

    return FreeParameter(name, "N m s/rad", get, put, scale, False, manoeuvre)


def apply_gains(vehicle: Vehicle, gains: Sequence[float]) -> Vehicle:
    """kFᵢ gᵢ,  kMᵢ gᵢ: apply a gain to each rotor, which represents worn propellers and an offset centre of mass."""
    rotors = (
        rotor._replace(k_thrust=gain * rotor.k_thrust, k_torque=gain * rotor.k_torque)
        for rotor, gain in zip(vehicle.rotors, gains, strict=True)
    )
    return replace(vehicle, rotors=tuple(rotors))
