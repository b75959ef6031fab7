"""Scale training to the vehicle: the authority of its actions, the time constants of its motors, and its agility.

    Ω̇ = A δΩ + B δa,   (v̇_z, ω̇) = C δΩ   about hover:   authority of the actions G = −C A⁻¹ B

Hyperparameters are tuned on a Crazyflie. A vehicle with more authority about an axis is trained through a matrix that reduces
it to the Crazyflie's; one with less turns slowly and is trained for longer; fast motors need shorter physics steps.
"""

import math
from typing import NamedTuple

import numpy as np

from samara.control.action_space import rotor_range
from samara.core.types import Array
from samara.learn.task import TrimmedDrone
from samara.physics.multirotor import derivative

MAX_AUTHORITY = (
    12.0,
    470.0,
    470.0,
    30.0,
)  # [m/s², rad/s²]: thrust, roll, pitch and yaw of all rotors at an action of ±1
AGILE_AUTHORITY = 300.0  # [rad/s²] about roll and pitch: with less, a vehicle is trained for longer
TOP_SPEED_FACTOR = 1.5  # rotor speed over that of hover: DC motors have shorter time constants at higher speeds
DIFFERENCE = 1e-4  # relative step of central differences


class RotorDynamics(NamedTuple):
    """Accelerations (v̇_z, ω̇) per action in steady state (4, rotors), and the shortest time constant of the motors [s]."""

    authority: Array
    time_constant: float

    @property
    def axis_authority(self) -> Array:
        """Σ |G| over the rotors  [m/s², rad/s²]: thrust, roll, pitch, yaw"""
        total: Array = np.abs(self.authority).sum(axis=1)
        return total


def rotor_dynamics(drone: TrimmedDrone) -> RotorDynamics | None:
    """Linearize the rotors about hover; None for a vehicle whose commands are not those of its rotors."""
    vehicle, state, command = drone.vehicle, drone.trim, np.array(drone.command, dtype=float)
    speed = np.array(state.rotor_speed, dtype=float)
    if len(speed) != len(command) or not speed.all():
        return None

    def rates(speeds: Array, commands: Array) -> tuple[Array, Array]:
        rate = derivative(state._replace(rotor_speed=tuple(speeds.tolist())), tuple(commands.tolist()), vehicle)
        return np.array(rate.rotor_speed, dtype=float), np.array([rate.v_W.z, *rate.omega_B], dtype=float)

    def slopes(speed_step: Array, command_step: Array, size: float) -> tuple[Array, Array]:
        high, low = rates(speed + speed_step, command + command_step), rates(speed - speed_step, command - command_step)
        return (high[0] - low[0]) / (2.0 * size), (high[1] - low[1]) / (2.0 * size)

    def speed_jacobian() -> tuple[Array, Array]:
        columns = [slopes(step, 0.0 * step, step.sum()) for step in DIFFERENCE * np.diag(speed)]
        A, C = (np.stack(block, axis=1) for block in zip(*columns, strict=True))
        return A, C

    action_steps = DIFFERENCE * np.diag(np.array(rotor_range(drone.command, vehicle).scale, dtype=float))
    B = np.stack([slopes(0.0 * step, step, DIFFERENCE)[0] for step in action_steps], axis=1)
    A, C = speed_jacobian()
    speed = TOP_SPEED_FACTOR * speed
    fastest = max(abs(np.linalg.eigvals(matrix).real).max() for matrix in (A, speed_jacobian()[0]))
    return RotorDynamics(-C @ np.linalg.solve(A, B), 1.0 / float(fastest))


def physics_substeps(drone: TrimmedDrone, period: float) -> int:
    """Return the count of physics steps in a period of actions, so that no step is longer than a motor's time constant."""
    dynamics = rotor_dynamics(drone)
    return 1 if dynamics is None else max(1, math.ceil(period / dynamics.time_constant))


def action_matrix(drone: TrimmedDrone) -> Array | None:
    """I + G⁺ (D − I) G,  D = min(1, maximum authority / authority); None if it is the identity."""
    dynamics = rotor_dynamics(drone)
    if dynamics is None:
        return None
    G = dynamics.authority
    factors = np.minimum(1.0, np.array(MAX_AUTHORITY) / np.maximum(dynamics.axis_authority, 1e-9))
    if (factors == 1.0).all():
        return None
    matrix: Array = np.eye(G.shape[1]) + np.linalg.pinv(G) @ np.diag(factors - 1.0) @ G
    return matrix.astype(np.float32)


def slowness(drone: TrimmedDrone) -> float:
    """Return 1 for an agile vehicle, else 300 rad/s² over its authority about roll or pitch, whichever is smaller."""
    dynamics = rotor_dynamics(drone)
    return 1.0 if dynamics is None else max(1.0, AGILE_AUTHORITY / float(dynamics.axis_authority[1:3].min()))
