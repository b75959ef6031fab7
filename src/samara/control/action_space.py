"""Action spaces: actions in [−1, 1] become the command of a vehicle.

Actions that are not rotor commands pass through stateless autopilot loops designed for the vehicle.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple

from samara.control.allocation import command_for_wrench
from samara.control.default_gains import default_gains
from samara.control.disturbance_torque import compensate
from samara.control.geometric import (
    AttitudeTrackingError,
    Geometric,
    attitude_error,
    desired_angular_acceleration,
    geometric,
)
from samara.core.algebra import ZERO, Vec3, matrix_from_quat, quat_from_euler, scale
from samara.core.ops import atan2, clamp, minimum, where
from samara.core.quantity import Scalar
from samara.physics.motion.body import required_torque
from samara.physics.types import Command, Reference, State, Vehicle
from samara.vehicles.limits import command_bounds

MAX_RATES = Vec3(10.0, 10.0, 4.0)  # [rad/s] at ±1
MAX_ANGLES = Vec3(1.2, 1.2, 1.0)  # [rad] at ±1: roll, pitch and yaw
MAX_SPEED = 5.0  # [m/s] at ±1, along each axis
MAX_YAW_RATE = 2.0  # [rad/s] at ±1

ROTOR_ACTIONS = ("rotors", "throttle")


class RotorRange(NamedTuple):
    """Commands at an action of 0, and their increase at an action of 1."""

    offset: tuple[Scalar, ...]
    scale: tuple[Scalar, ...]


def rotor_range(command: Command, vehicle: Vehicle) -> RotorRange:
    """u₀, and min(u₀ − u_min, u_max − u₀), about the trim command u₀: one value per rotor and servo"""
    bounds = command_bounds(vehicle)
    if bounds is None:
        raise ValueError(f"the commands of vehicle {vehicle.name!r} have no limits; expected a vehicle with rotors")
    scale = tuple(minimum(u - low, high - u) for u, (low, high) in zip(command, bounds, strict=True))
    return RotorRange(tuple(command), scale)


def throttle_range(vehicle: Vehicle) -> RotorRange:
    """½ (u_min + u_max) and ½ (u_max − u_min): −1 is the minimum of each rotor and servo, 1 the maximum"""
    bounds = command_bounds(vehicle)
    if bounds is None:
        raise ValueError(f"the commands of vehicle {vehicle.name!r} have no limits; expected a vehicle with rotors")
    return RotorRange(
        tuple(0.5 * (low + high) for low, high in bounds), tuple(0.5 * (high - low) for low, high in bounds)
    )


def rotor_command(action: Sequence[Scalar], actuators: RotorRange) -> Command:
    """u = u₀ + a min(u₀ − u_min, u_max − u₀)"""
    return tuple(offset + a * scale for a, offset, scale in zip(action, *actuators, strict=True))


def rotor_action(command: Command, actuators: RotorRange) -> tuple[Scalar, ...]:
    """a = (u − u₀) / min(u₀ − u_min, u_max − u₀), clipped to [−1, 1]: the inverse of `rotor_command`"""
    return tuple(clamp((u - offset) / scale, -1.0, 1.0) for u, offset, scale in zip(command, *actuators, strict=True))


def thrust_and_rates_command(action: Sequence[Scalar], state: State, vehicle: Vehicle, loops: Geometric) -> Command:
    """τ = −2 ω_n J (ω_B − ω) + ω_B × J ω_B,  ω = a ∘ (10, 10, 4) rad/s;  thrust: m g at 0, zero at −1, maximum at 1"""
    desired_B = scale(MAX_RATES, Vec3(*action[1:]))
    error = AttitudeTrackingError(ZERO, state.omega_B - desired_B, desired_B, ZERO)
    return _attitude_command(_collective_thrust(action[0], vehicle, loops), error, state, vehicle, loops)


def thrust_and_attitude_command(action: Sequence[Scalar], state: State, vehicle: Vehicle, loops: Geometric) -> Command:
    """τ = −J (ω_n² e_R + 2 ω_n ω_B) + ω_B × J ω_B,  R_d = R(roll, pitch, yaw) = R(a ∘ (1.2, 1.2, 1) rad);  thrust as above"""
    R_WD = matrix_from_quat(quat_from_euler(*scale(MAX_ANGLES, Vec3(*action[1:]))))
    e_R = attitude_error(R_WD.transpose @ matrix_from_quat(state.q_WB), loops.allocation.controls_yaw)
    tracking_error = AttitudeTrackingError(e_R, state.omega_B, ZERO, ZERO)
    return _attitude_command(_collective_thrust(action[0], vehicle, loops), tracking_error, state, vehicle, loops)


def _collective_thrust(action: Scalar, vehicle: Vehicle, loops: Geometric) -> Scalar:
    """m g at 0, zero at −1, maximum at 1  [N]"""
    weight, max_thrust = vehicle.mass * vehicle["gravity"].acceleration, loops.allocation.thrust_range.high
    return weight + action * where(action < 0.0, weight, max_thrust - weight)


def _attitude_command(
    collective_thrust: Scalar, error: AttitudeTrackingError, state: State, vehicle: Vehicle, loops: Geometric
) -> Command:
    """Allocate a thrust and the torque that reduces an attitude error."""
    tau_B = required_torque(
        state.omega_B, desired_angular_acceleration(error, loops.gains), inertia_B=vehicle.inertia_B
    )
    return command_for_wrench(
        collective_thrust, compensate(collective_thrust, tau_B, state, vehicle, None), state, vehicle, loops.allocation
    )


def velocity_command(action: Sequence[Scalar], state: State, vehicle: Vehicle, loops: Geometric) -> Command:
    """v_W = 5 m/s (a₀, a₁, a₂) and a yaw rate of 2 rad/s a₃, tracked by the geometric controller"""
    return track_velocity(Vec3(*action[:3]) * MAX_SPEED, action[3] * MAX_YAW_RATE, state, vehicle, loops)


def track_velocity(v_W: Vec3, yaw_rate: Scalar, state: State, vehicle: Vehicle, loops: Geometric) -> Command:
    """Track a velocity and a yaw rate from the present position and heading  [m/s, rad/s]."""
    R_WB = matrix_from_quat(state.q_WB)
    reference = Reference(state.p_W, v_W, yaw=atan2(R_WB.yx, R_WB.xx), yaw_rate=yaw_rate)
    command, _ = loops(state, reference, vehicle, loops.initial_state)
    return command


@lru_cache(maxsize=16)
def autopilot_loops(vehicle: Vehicle) -> Geometric:
    """Build the autopilot loops of a vehicle."""
    return geometric(vehicle, default_gains(vehicle, lead=0.0))


class ActionSpace(NamedTuple):
    """Size of an action, and `command(action, state, vehicle, trim_command)`, which converts it to a command."""

    size: Callable[[Vehicle], int]
    command: Callable[[Sequence[Scalar], State, Vehicle, Command], Command]


def _loop_action_space(command: Callable[[Sequence[Scalar], State, Vehicle, Geometric], Command]) -> ActionSpace:
    return ActionSpace(
        lambda vehicle: 4, lambda action, state, vehicle, _: command(action, state, vehicle, autopilot_loops(vehicle))
    )


def _rotor_action_space(command: Callable[[Sequence[Scalar], Vehicle, Command], Command]) -> ActionSpace:
    return ActionSpace(
        lambda vehicle: vehicle.command_size,
        lambda action, state, vehicle, trim_command: command(action, vehicle, trim_command),
    )


ACTION_SPACES = {
    "rotors": _rotor_action_space(lambda action, vehicle, trim: rotor_command(action, rotor_range(trim, vehicle))),
    "throttle": _rotor_action_space(lambda action, vehicle, _: rotor_command(action, throttle_range(vehicle))),
    "thrust_and_rates": _loop_action_space(thrust_and_rates_command),
    "thrust_and_attitude": _loop_action_space(thrust_and_attitude_command),
    "velocity": _loop_action_space(velocity_command),
}
