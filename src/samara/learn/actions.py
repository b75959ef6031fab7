"""What an action means for the craft of a task: `samara.control.action_space` with its trim, and with the loops of an
autopilot.

Those loops are made for the vehicle as its file has it, and run at every step of the physics.
"""

from collections.abc import Callable
from typing import NamedTuple

from samara.control import action_space as control
from samara.control.action_space import SIZES, loops_for, rotor_range, throttle_range
from samara.core.quantity import Scalar
from samara.learn.task import Craft
from samara.physics.types import Command, State, Vehicle


class Action(NamedTuple):
    """How many numbers an action has, and the command that they mean: command(action, state, craft)"""

    size: Callable[[Vehicle], int]
    command: Callable[[tuple[Scalar, ...], State, Craft], Command]


def rotor_command(action: tuple[Scalar, ...], state: State, craft: Craft) -> Command:
    """About the command that holds the trim"""
    return control.rotor_command(action, rotor_range(craft.command, craft.nominal))


def throttle_command(action: tuple[Scalar, ...], state: State, craft: Craft) -> Command:
    """From the least to the most that each rotor can do: nothing is said of the trim"""
    return control.rotor_command(action, throttle_range(craft.nominal))


def thrust_and_rates_command(action: tuple[Scalar, ...], state: State, craft: Craft) -> Command:
    """Lift, and the body's angular velocity"""
    return control.thrust_and_rates_command(action, state, craft.nominal, loops_for(craft.nominal))


def thrust_and_attitude_command(action: tuple[Scalar, ...], state: State, craft: Craft) -> Command:
    """Lift, and roll, pitch and yaw"""
    return control.thrust_and_attitude_command(action, state, craft.nominal, loops_for(craft.nominal))


def velocity_command(action: tuple[Scalar, ...], state: State, craft: Craft) -> Command:
    """Velocity, and a turn about the vertical"""
    return control.velocity_command(action, state, craft.nominal, loops_for(craft.nominal))


ACTIONS = {
    "rotors": Action(SIZES["rotors"], rotor_command),
    "throttle": Action(SIZES["throttle"], throttle_command),
    "thrust_and_rates": Action(SIZES["thrust_and_rates"], thrust_and_rates_command),
    "thrust_and_attitude": Action(SIZES["thrust_and_attitude"], thrust_and_attitude_command),
    "velocity": Action(SIZES["velocity"], velocity_command),
}
