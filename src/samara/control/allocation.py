"""From the thrust and torques a controller wants to the command that gives them, for any rotor set."""

from typing import NamedTuple

import numpy as np

from samara.algebra import Vec3
from samara.ops import maximum, safe_sqrt
from samara.physics.multirotor import CALM, Command, State, Vehicle
from samara.physics.rotor import density_ratio
from samara.quantity import Scalar
from samara.trim import effectiveness


class Allocation(NamedTuple):
    """Thrust of each rotor per newton of lift and per newton metre of torque about x, y, z: n rows of four."""

    rows: tuple[tuple[float, float, float, float], ...]


def least_squares_allocation(vehicle: Vehicle) -> Allocation:
    """The pseudo-inverse of B's rows (f_z, τ): the smallest Σ T² that gives the lift and torques asked for"""
    if not vehicle.rotors:
        return Allocation(())
    inverse = np.linalg.pinv(effectiveness(vehicle)[2:])
    return Allocation(tuple((float(a), float(b), float(c), float(d)) for a, b, c, d in inverse))


def command_for_wrench(lift: Scalar, tau_B: Vec3, state: State, vehicle: Vehicle, allocation: Allocation) -> Command:
    """Tᵢ = Aᵢ (f, τ) ≥ 0,  Ωᵢ = √(Tᵢ / kF), and the command that holds Ωᵢ; (f, τ) itself for a body driven by a wrench"""
    if not vehicle.rotors:
        return (lift, tau_B.x, tau_B.y, tau_B.z)
    ratio = density_ratio(CALM.air_density)
    speeds = tuple(
        safe_sqrt(maximum(a * lift + b * tau_B.x + c * tau_B.y + d * tau_B.z, 0.0) / (rotor.k_thrust * ratio))
        for (a, b, c, d), rotor in zip(allocation.rows, vehicle.rotors, strict=True)
    )
    return vehicle.structure.actuation.steady_command(state._replace(rotor_speed=speeds), vehicle, CALM)
