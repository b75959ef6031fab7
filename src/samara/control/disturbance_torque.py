"""Disturbance torques on the body and their compensation: the moment of airspeed, damping, and unmodelled torques.

A vehicle with a moment of airspeed is a pendulum of gravity and air: tilt causes speed, and speed turns the body back, too far.
In hover the motion grows at ½ (g ∂ω̇/∂v)^⅓, 3 /s for a Crazyflie, and a steady wind is a steady torque: 24 rad/s² per m/s,
against 136 that the attitude loop gives per radian. Modelled torques are therefore compensated immediately, at the velocity
and rate expected when the motors have responded. A disturbance observer estimates the others, above all those of the wind:

    τ_d ← τ_d + k (J (ω − ω₋)/dt + ω × Jω − ½ (τ + τ₋) − τ_d),  k = dt / (T + dt)

τ is the torque of the rotors at their measured speeds and of the modelled effects in still air. With T = 10 ms the loop
tolerates a moment that is half as strong or twice as strong as the model's.
"""

from typing import Any, NamedTuple

from samara.control.default_gains import OTHER_LAG, lead_time
from samara.core.algebra import ZERO, Vec3, cross, quat_exp, rotate
from samara.core.ops import where
from samara.core.quantity import Scalar
from samara.physics.effect import Wrench, add_wrenches
from samara.physics.motion.body import angular_acceleration, required_torque
from samara.physics.multirotor import tilt_rotors, total_rotor_wrench
from samara.physics.rotors.actuator import Lag
from samara.physics.rotors.rotor import rotor_momentum_torque
from samara.physics.rotors.rotor_air_effects import ROTOR_DRAG, TRANSLATIONAL_LIFT
from samara.physics.types import CALM, State, Vehicle

ROTOR_DRAG_EFFECTS = (ROTOR_DRAG, TRANSLATIONAL_LIFT)


def rotor_drag_wrench(v_W: Vec3, state: State, vehicle: Vehicle) -> Wrench:
    """Σ f, Σ r × f of the rotors' drag and translational lift at a velocity, for a body that does not rotate  [N, N·m]

    Thrust that is gained across a disc or lost in a climb counts as drag along the rotors' axes, tilted by the servos: in
    sideways flight a tricopter's tail rotor climbs or descends and pitches the body. Zero for a vehicle without either.
    """
    total = Wrench()
    if not has_rotor_drag(vehicle):
        return total
    effects = [effect for effect in vehicle.structure.effects if effect in ROTOR_DRAG_EFFECTS]
    vehicle, drag_state = tilt_rotors(state, vehicle), state._replace(v_W=v_W, omega_B=ZERO)
    for effect in effects:
        total = add_wrenches(total, effect.wrench((), drag_state, (), vehicle, CALM))
        gains = effect.additional_loads((), drag_state, vehicle, CALM) if effect.additional_loads else ()
        for rotor, gain in zip(vehicle.rotors, gains, strict=False):
            f_B = rotor.axis_B * gain.thrust
            total = add_wrenches(total, Wrench(f_B, cross(rotor.r_B, f_B)))
    return total


def has_rotor_drag(vehicle: Vehicle) -> bool:
    """Whether `rotor_drag_wrench` is not zero."""
    return any(effect in ROTOR_DRAG_EFFECTS for effect in vehicle.structure.effects)


MIN_TAKE_OFF_THRUST_FRACTION = 0.99  # fraction of the weight; with more thrust the body takes off
MIN_AIRBORNE_THRUST_FRACTION = 0.5  # fraction of the weight; with less thrust the body stands on the ground or falls
MIN_TRANSLATING_THRUST_FRACTION = 0.8
"""The same for vehicles with translational lift, that is from parts: their feet and arms are not always symmetric, and a
compensated torque of the ground tips a body that the rotors still half carry. Others keep their recorded landings."""


class DisturbanceObserver(NamedTuple):
    """State of the disturbance observer: ω, modelled torque and rotor speeds one period ago, and the estimate τ_d

    [rad/s, N·m, rad/s, N·m]. `airborne_flag` is 1 from when the rotors carry the weight until they carry less than half
    of it (0.8 with translational lift), else 0: contact torques of the ground are not compensated.
    """

    omega_B: Vec3
    tau_B: Vec3
    rotor_speed: tuple[Scalar, ...]
    disturbance_B: Vec3 = ZERO
    airborne: Scalar = 0.0


class ObservedControllerState(NamedTuple):
    """A controller state together with the disturbance observer."""

    controller_state: Any
    observer: DisturbanceObserver


def has_airspeed_moment(vehicle: Vehicle) -> bool:
    """Whether a vehicle has a moment of airspeed and needs a disturbance observer."""
    return vehicle.has("airspeed_moment")


def initial_observer_state(vehicle: Vehicle) -> DisturbanceObserver | None:
    """Return the observer's initial state if the vehicle has a moment of airspeed, else None."""
    return initial_lead_observer(vehicle) if has_airspeed_moment(vehicle) else None


def initial_lead_observer(vehicle: Vehicle) -> DisturbanceObserver | None:
    """Return the observer's initial state for a controller that uses `lead_state`; None if the vehicle needs no observer."""
    if has_airspeed_moment(vehicle) or lead_time(vehicle) > 0.0:
        return DisturbanceObserver(ZERO, ZERO, tuple(0.0 for _ in vehicle.rotors))
    return None


def split_state(controller_state: Any) -> tuple[Any, DisturbanceObserver | None]:
    """Split `controller_state` into the controller's part and the observer, which may be None."""
    return controller_state if isinstance(controller_state, ObservedControllerState) else (controller_state, None)


def merge_state(controller_state: Any, observer: DisturbanceObserver | None) -> Any:
    """Merge a controller state and an observer; the inverse of `split_state`."""
    return controller_state if observer is None else ObservedControllerState(controller_state, observer)


def air_torque(state: State, vehicle: Vehicle) -> Vec3:
    """τ_air: the moment of airspeed in still air; zero for a vehicle without one  [N·m]"""
    return _torque("airspeed_moment", state, vehicle) if has_airspeed_moment(vehicle) else ZERO


def has_unpaired_rotor(vehicle: Vehicle) -> bool:
    """Whether the rotor count is odd, so that the angular momenta do not cancel in hover."""
    return vehicle.has("rotor_momentum") and len(vehicle.rotors) % 2 == 1


def gyroscopic_torque(state: State, vehicle: Vehicle) -> Vec3:
    """ω × Σ h: the torque that rotates the angular momentum of an odd number of rotors; zero for an even number
    [N·m]"""
    tau_B = ZERO
    if has_unpaired_rotor(vehicle):
        for speed, rotor in zip(state.rotor_speed, tilt_rotors(state, vehicle).rotors, strict=True):
            tau_B = tau_B - rotor_momentum_torque(state.omega_B, speed, 0.0, rotor)
    return tau_B


def damping_torque(state: State, vehicle: Vehicle) -> Vec3:
    """−c ∘ ω; zero for a vehicle without a moment of airspeed  [N·m]"""
    return _torque("damping", state, vehicle) if has_airspeed_moment(vehicle) and vehicle.has("damping") else ZERO


def _torque(effect: str, state: State, vehicle: Vehicle) -> Vec3:
    return vehicle.structure.effects[vehicle.index(effect)].wrench((), state, (), vehicle, CALM).tau_B


def observe(
    state: State, vehicle: Vehicle, observer: DisturbanceObserver | None, period: float
) -> DisturbanceObserver | None:
    """Update the estimate τ_d; None if the vehicle needs no observer."""
    if observer is None:
        return None
    rotor_wrench = total_rotor_wrench(state, vehicle)
    tau_B = rotor_wrench.tau_B + air_torque(state, vehicle) + damping_torque(state, vehicle)
    mean_tau_B = add_rotor_momentum_torque((tau_B + observer.tau_B) * 0.5, state, observer.rotor_speed, vehicle, period)
    alpha_B = (state.omega_B - observer.omega_B) / period
    required_B = required_torque(state.omega_B, alpha_B, inertia_B=vehicle.inertia_B)
    disturbance_B = observer.disturbance_B + (required_B - mean_tau_B - observer.disturbance_B) * (
        period / (OTHER_LAG + period)
    )
    is_airborne = observer.airborne > 0.5
    return DisturbanceObserver(
        state.omega_B,
        tau_B,
        state.rotor_speed,
        Vec3(*(where(is_airborne, component, 0.0) for component in disturbance_B)),
        airborne_flag(state, vehicle, rotor_wrench, observer.airborne),
    )


def add_rotor_momentum_torque(
    tau_B: Vec3, state: State, speeds_before: tuple[Scalar, ...], vehicle: Vehicle, period: float
) -> Vec3:
    """τ − Σ (ω × h + ḣ): a torque minus those that rotate the spinning rotors and change their speeds within a period
    [N·m]"""
    if vehicle.has("rotor_momentum"):
        for speed, speed_before, rotor in zip(
            state.rotor_speed, speeds_before, tilt_rotors(state, vehicle).rotors, strict=True
        ):
            tau_B = tau_B + rotor_momentum_torque(state.omega_B, speed, (speed - speed_before) / period, rotor)
    return tau_B


def airborne_flag(state: State, vehicle: Vehicle, rotor_wrench: Wrench, aloft_before: Scalar) -> Scalar:
    """1 if the rotors carry the body, else 0"""
    has_lift = vehicle.has("translational_lift")
    min_fraction = MIN_TRANSLATING_THRUST_FRACTION if has_lift else MIN_AIRBORNE_THRUST_FRACTION
    weight_fraction = rotate(state.q_WB, rotor_wrench.f_B).z / (vehicle.mass * vehicle["gravity"].acceleration)
    return where(
        weight_fraction > where(aloft_before > 0.5, min_fraction, MIN_TAKE_OFF_THRUST_FRACTION),
        1.0,
        0.0,
    )


def modelled_acceleration(state: State, vehicle: Vehicle, observer: DisturbanceObserver | None) -> Vec3:
    """ω̇ = J⁻¹ (τ − ω × (Jω + Σ h)), τ of the rotors at their speeds, the modelled air and damping, and τ_d  [rad/s²]

    Without the momentum Σ h of an unpaired rotor, a lead on this ω̇ couples roll and pitch, and a light body with large
    propellers circles.
    """
    tau_B = total_rotor_wrench(state, vehicle).tau_B
    if has_unpaired_rotor(vehicle):
        tau_B = tau_B - gyroscopic_torque(state, vehicle)
    if has_airspeed_moment(vehicle):
        tau_B = tau_B + air_torque(state, vehicle)
    elif has_rotor_drag(vehicle):
        tau_B = tau_B + rotor_drag_wrench(state.v_W, state, vehicle).tau_B
    if vehicle.has("damping"):
        tau_B = tau_B + _torque("damping", state, vehicle)
    if observer is not None:
        tau_B = tau_B + observer.disturbance_B
    return angular_acceleration(state.omega_B, tau_B, inertia_B=vehicle.inertia_B)


def lead_state(state: State, vehicle: Vehicle, observer: DisturbanceObserver) -> State:
    """q ⊗ exp(T ω), ω + T ω̇: the state that a body with motors of lag T would show if they had none

    x + T ẋ, driven by the command, obeys the same linear equations as x, driven by the motors' response. A controller that is
    designed without the lag may therefore take this state instead. ω̇ contains all modelled and observed torques.
    """
    lag = motor_lag(vehicle) if has_airspeed_moment(vehicle) else lead_time(vehicle)
    alpha_B = modelled_acceleration(state, vehicle, observer)
    return state._replace(q_WB=state.q_WB * quat_exp(state.omega_B * lag), omega_B=state.omega_B + alpha_B * lag)


def motor_lag(vehicle: Vehicle) -> Scalar:
    """T of motors with a first-order lag, else 0  [s]"""
    motor = vehicle.rotors[0].motor
    return motor.time_constant_up if isinstance(motor, Lag) else 0.0


def compensate(
    collective_thrust: Scalar,
    tau_B: Vec3,
    state: State,
    vehicle: Vehicle,
    observer: DisturbanceObserver | None,
    *,
    damping_included: bool = False,
) -> Vec3:
    """τ − τ_air(v + T v̇) + c ∘ (ω + T ω̇) − τ_d,  v̇ = R e₃ f/m − g e₃,  ω̇ = J⁻¹ (τ − ω × Jω)  [N·m]

    T is the motors' lag. `damping_included` marks a torque that already compensates the damping. Without a moment of airspeed,
    the torque of the rotors' drag, which acts above or below the centre of mass, is compensated: τ − Σ r × f(v).
    """
    if not has_airspeed_moment(vehicle):
        if has_rotor_drag(vehicle):
            tau_B = tau_B - rotor_drag_wrench(state.v_W, state, vehicle).tau_B
        return tau_B + gyroscopic_torque(state, vehicle) if has_unpaired_rotor(vehicle) else tau_B
    compensated_B = tau_B - air_torque(
        state._replace(v_W=velocity_after_lag(collective_thrust, state, vehicle)), vehicle
    )
    if observer is not None:
        compensated_B = compensated_B - observer.disturbance_B
    if damping_included or not vehicle.has("damping"):
        return compensated_B
    alpha_B = angular_acceleration(state.omega_B, tau_B, inertia_B=vehicle.inertia_B)
    return compensated_B - damping_torque(state._replace(omega_B=state.omega_B + alpha_B * motor_lag(vehicle)), vehicle)


def velocity_after_lag(collective_thrust: Scalar, state: State, vehicle: Vehicle) -> Vec3:
    """v + T v̇,  v̇ = R e₃ f/m − g e₃  [m/s]"""
    acceleration_W = rotate(state.q_WB, Vec3(0.0, 0.0, collective_thrust / vehicle.mass)) - Vec3(
        0.0, 0.0, vehicle["gravity"].acceleration
    )
    return state.v_W + acceleration_W * motor_lag(vehicle)


def anticipation_torque(collective_thrust: Scalar, alpha_B: Vec3, state: State, vehicle: Vehicle) -> Vec3:
    """τ(v, ω) − τ(v + T v̇, ω + T ω̇): compensates the change of air torque and damping during the motors' lag  [N·m]

    Their present values are part of the measured angular acceleration. Zero without a moment of airspeed.
    """
    if not has_airspeed_moment(vehicle):
        return ZERO
    state_after_lag = state._replace(
        v_W=velocity_after_lag(collective_thrust, state, vehicle), omega_B=state.omega_B + alpha_B * motor_lag(vehicle)
    )
    return (
        air_torque(state, vehicle)
        + damping_torque(state, vehicle)
        - air_torque(state_after_lag, vehicle)
        - damping_torque(state_after_lag, vehicle)
    )
