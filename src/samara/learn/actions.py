"""What an action means: numbers in [−1, 1] become the command of a vehicle.

Those that are not commands of rotors go through the loops of `samara.control`, made for the vehicle as its file has it, as an
autopilot's are. They remember nothing, and run at every step of the physics.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

from samara.control.allocation import command_for_wrench
from samara.control.geometric import Deviation, Geometric, geometric, wanted_turn
from samara.control.opposing import opposed
from samara.core.algebra import ZERO, Vec3, matrix_from_quat, scale
from samara.core.ops import atan2, minimum, where
from samara.core.quantity import Scalar
from samara.learn.task import Craft
from samara.physics.motion.body import required_torque
from samara.physics.reference import Reference
from samara.physics.types import Command, State, Vehicle

RATES = Vec3(10.0, 10.0, 4.0)  # [rad/s] at ±1
SPEED = 5.0  # [m/s] at ±1, along each axis
YAW_RATE = 2.0  # [rad/s] at ±1


class Action(NamedTuple):
    """How many numbers an action has, and the command that they mean: command(action, state, craft)"""

    size: Callable[[Vehicle], int]
    command: Callable[[tuple[Scalar, ...], State, Craft], Command]


def rotor_command(action: tuple[Scalar, ...], state: State, craft: Craft) -> Command:
    """u = u₀ + a min(u₀ − u_min, u_max − u₀), about the command u₀ that holds the trim: one number for each rotor and servo"""
    bounds = zip(action, craft.command, command_limits(craft.nominal), strict=True)
    return tuple(u + a * minimum(u - low, high - u) for a, u, (low, high) in bounds)


def thrust_and_rates_command(action: tuple[Scalar, ...], state: State, craft: Craft) -> Command:
    """τ = −2 ω_n J (ω_B − ω) + ω_B × J ω_B,  ω = a ∘ (10, 10, 4) rad/s;  the lift is m g at 0, none at −1, all there is at 1"""
    vehicle, loops = craft.nominal, loops_for(craft.nominal)
    weight, most = vehicle.mass * vehicle["gravity"].acceleration, loops.allocation.lift.high
    lift = weight + action[0] * where(action[0] < 0.0, weight, most - weight)
    wanted_B = scale(RATES, Vec3(*action[1:]))
    turn_B = wanted_turn(Deviation(ZERO, state.omega_B - wanted_B, wanted_B, ZERO), loops.gains)
    tau_B = required_torque(state.omega_B, turn_B, inertia_B=vehicle.inertia_B)
    return command_for_wrench(lift, opposed(lift, tau_B, state, vehicle, None), state, vehicle, loops.allocation)


def velocity_command(action: tuple[Scalar, ...], state: State, craft: Craft) -> Command:
    """v_W = 5 m/s (a₀, a₁, a₂) and a turn of 2 rad/s a₃ about the vertical, flown by the geometric controller"""
    R_WB = matrix_from_quat(state.q_WB)
    here = Reference(state.p_W, Vec3(*action[:3]) * SPEED, yaw=atan2(R_WB.yx, R_WB.xx), yaw_rate=action[3] * YAW_RATE)
    loops = loops_for(craft.nominal)
    command, _ = loops(state, here, craft.nominal, ())
    return command


ACTIONS = {
    "rotors": Action(lambda vehicle: vehicle.command_size, rotor_command),
    "thrust_and_rates": Action(lambda vehicle: 4, thrust_and_rates_command),
    "velocity": Action(lambda vehicle: 4, velocity_command),
}


@lru_cache(maxsize=16)
def loops_for(vehicle: Vehicle) -> Geometric:
    """The loops of an autopilot for a vehicle"""
    return geometric(vehicle)


def command_limits(vehicle: Vehicle) -> list[tuple[Any, Any]]:
    """The least and the largest of each number of a command: a rotor's speed [rad/s] or share, a servo's angle or share"""
    in_speeds = vehicle.structure.actuation.name == "speed"
    rotors = [(0.0, rotor.motor.speed_max if in_speeds else 1.0) for rotor in vehicle.rotors]
    servos = [vehicle.rotors[i].servo for i in vehicle.servos]
    return [*rotors, *((servo.low, servo.high) if in_speeds else (-1.0, 1.0) for servo in servos)]
