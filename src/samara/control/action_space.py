"""Action spaces: numbers in [−1, 1] become the command of a vehicle.

Actions that are not rotor commands pass through the loops of an autopilot, which are designed for the vehicle and have
no state.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple

from samara.control.allocation import command_for_wrench
from samara.control.default_gains import gains_for
from samara.control.disturbance_torque import opposed
from samara.control.geometric import Deviation, Geometric, attitude_error, geometric, wanted_turn
from samara.core.algebra import ZERO, Vec3, matrix_from_quat, quat_from_euler, scale
from samara.core.ops import atan2, clamp, minimum, where
from samara.core.quantity import Scalar
from samara.physics.motion.body import required_torque
from samara.physics.types import Command, Reference, State, Vehicle
from samara.vehicles.limits import command_bounds

RATES = Vec3(10.0, 10.0, 4.0)  # [rad/s] at ±1
ANGLES = Vec3(1.2, 1.2, 1.0)  # [rad] at ±1: roll, pitch and yaw
SPEED = 5.0  # [m/s] at ±1, along each axis
YAW_RATE = 2.0  # [rad/s] at ±1

OF_ROTORS = ("rotors", "throttle")


class RotorRange(NamedTuple):
    """The commands that an action of 0 means, and how much more those of 1 do."""

    centre: tuple[Scalar, ...]
    reach: tuple[Scalar, ...]


def rotor_range(command: Command, vehicle: Vehicle) -> RotorRange:
    """u₀, and min(u₀ − u_min, u_max − u₀), about the command u₀ that holds a trim: one number for each rotor and servo"""
    bounds = command_bounds(vehicle)
    if bounds is None:
        raise ValueError(f"the commands of vehicle {vehicle.name!r} have no limits; expected one that rotors drive")
    reach = tuple(minimum(u - low, high - u) for u, (low, high) in zip(command, bounds, strict=True))
    return RotorRange(tuple(command), reach)


def throttle_range(vehicle: Vehicle) -> RotorRange:
    """½ (u_min + u_max) and ½ (u_max − u_min): −1 is the least that each rotor and servo can do, 1 the most"""
    bounds = command_bounds(vehicle)
    if bounds is None:
        raise ValueError(f"the commands of vehicle {vehicle.name!r} have no limits; expected one that rotors drive")
    return RotorRange(
        tuple(0.5 * (low + high) for low, high in bounds), tuple(0.5 * (high - low) for low, high in bounds)
    )


def rotor_command(action: Sequence[Scalar], own: RotorRange) -> Command:
    """u = u₀ + a min(u₀ − u_min, u_max − u₀)"""
    return tuple(u + a * reach for a, u, reach in zip(action, *own, strict=True))


def rotor_action(command: Command, actuators: RotorRange) -> tuple[Scalar, ...]:
    """a = (u − u₀) / min(u₀ − u_min, u_max − u₀), clipped to [−1, 1]: the inverse of `rotor_command`"""
    return tuple(clamp((u - centre) / reach, -1.0, 1.0) for u, centre, reach in zip(command, *actuators, strict=True))


def thrust_and_rates_command(action: Sequence[Scalar], state: State, vehicle: Vehicle, loops: Geometric) -> Command:
    """τ = −2 ω_n J (ω_B − ω) + ω_B × J ω_B,  ω = a ∘ (10, 10, 4) rad/s;  the lift is m g at 0, none at −1, all there is at 1"""
    wanted_B = scale(RATES, Vec3(*action[1:]))
    own = Deviation(ZERO, state.omega_B - wanted_B, wanted_B, ZERO)
    return _turned(_lift(action[0], vehicle, loops), own, state, vehicle, loops)


def thrust_and_attitude_command(action: Sequence[Scalar], state: State, vehicle: Vehicle, loops: Geometric) -> Command:
    """τ = −J (ω_n² e_R + 2 ω_n ω_B) + ω_B × J ω_B,  R_d = R(roll, pitch, yaw) = R(a ∘ (1.2, 1.2, 1) rad);  the lift as above"""
    R_WD = matrix_from_quat(quat_from_euler(*scale(ANGLES, Vec3(*action[1:]))))
    error = attitude_error(R_WD.transpose @ matrix_from_quat(state.q_WB), loops.allocation.keeps_yaw)
    own = Deviation(error, state.omega_B, ZERO, ZERO)
    return _turned(_lift(action[0], vehicle, loops), own, state, vehicle, loops)


def _lift(action: Scalar, vehicle: Vehicle, loops: Geometric) -> Scalar:
    """m g at 0, none at −1, all there is at 1  [N]"""
    weight, most = vehicle.mass * vehicle["gravity"].acceleration, loops.allocation.lift.high
    return weight + action * where(action < 0.0, weight, most - weight)


def _turned(lift: Scalar, own: Deviation, state: State, vehicle: Vehicle, loops: Geometric) -> Command:
    """The command of a lift, and of the torque that undoes a deviation"""
    tau_B = required_torque(state.omega_B, wanted_turn(own, loops.gains), inertia_B=vehicle.inertia_B)
    return command_for_wrench(lift, opposed(lift, tau_B, state, vehicle, None), state, vehicle, loops.allocation)


def velocity_command(action: Sequence[Scalar], state: State, vehicle: Vehicle, loops: Geometric) -> Command:
    """v_W = 5 m/s (a₀, a₁, a₂) and a turn of 2 rad/s a₃ about the vertical, flown by the geometric controller"""
    return flown_at(Vec3(*action[:3]) * SPEED, action[3] * YAW_RATE, state, vehicle, loops)


def flown_at(v_W: Vec3, yaw_rate: Scalar, state: State, vehicle: Vehicle, loops: Geometric) -> Command:
    """From where it is, facing as it does, at a velocity  [m/s, rad/s]"""
    R_WB = matrix_from_quat(state.q_WB)
    here = Reference(state.p_W, v_W, yaw=atan2(R_WB.yx, R_WB.xx), yaw_rate=yaw_rate)
    command, _ = loops(state, here, vehicle, loops.initial_memory)
    return command


@lru_cache(maxsize=16)
def loops_for(vehicle: Vehicle) -> Geometric:
    """The loops of an autopilot for a vehicle"""
    return geometric(vehicle, gains_for(vehicle, lead=0.0))


class ActionSpace(NamedTuple):
    """The size of an action, and command(action, state, vehicle, trim_command), the command it means."""

    size: Callable[[Vehicle], int]
    command: Callable[[Sequence[Scalar], State, Vehicle, Command], Command]


def _through_loops(command: Callable[[Sequence[Scalar], State, Vehicle, Geometric], Command]) -> ActionSpace:
    return ActionSpace(
        lambda vehicle: 4, lambda action, state, vehicle, _: command(action, state, vehicle, loops_for(vehicle))
    )


def _of_rotors(command: Callable[[Sequence[Scalar], Vehicle, Command], Command]) -> ActionSpace:
    return ActionSpace(
        lambda vehicle: vehicle.command_size,
        lambda action, state, vehicle, trim_command: command(action, vehicle, trim_command),
    )


ACTION_SPACES = {
    "rotors": _of_rotors(lambda action, vehicle, trim: rotor_command(action, rotor_range(trim, vehicle))),
    "throttle": _of_rotors(lambda action, vehicle, _: rotor_command(action, throttle_range(vehicle))),
    "thrust_and_rates": _through_loops(thrust_and_rates_command),
    "thrust_and_attitude": _through_loops(thrust_and_attitude_command),
    "velocity": _through_loops(velocity_command),
}
