"""Scalar quantities of one drone at one instant: pure functions of floats, arrays and traced symbols.

Event conditions, flight metrics, rewards and plots share them, so that "tilt" or "position error" means the same everywhere.
"""

import math
from collections.abc import Sequence
from functools import reduce

from samara.core.algebra import UP, Quat, Vec3, dot, norm, rotate
from samara.core.ops import acos, clamp, minimum, sqrt
from samara.core.quantity import Scalar

DEG_PER_RAD = 180.0 / math.pi


def position_error(p_W: Vec3, reference_W: Vec3) -> Scalar:
    """|p − p_reference|  [m]"""
    return norm(p_W - reference_W)


def smooth_position_error(p_W: Vec3, reference_W: Vec3, radius: Scalar) -> Scalar:
    """√(|p − p_reference|² + r²)  [m]: the position error with a continuous slope at 0, for rewards"""
    error_W = p_W - reference_W
    return sqrt(dot(error_W, error_W) + radius * radius)


def speed(v_W: Vec3) -> Scalar:
    """|v|  [m/s]"""
    return norm(v_W)


def tilt(q_WB: Quat) -> Scalar:
    """cos⁻¹(e₃ · R e₃): the angle between the body's z axis and up  [rad]"""
    return acos(clamp(rotate(q_WB, UP).z, -1.0, 1.0))


def tilt_deg(q_WB: Quat) -> Scalar:
    """The tilt in degrees."""
    return DEG_PER_RAD * tilt(q_WB)


def squared_sine_of_half_tilt(q_WB: Quat) -> Scalar:
    """sin²(tilt/2) = q_x² + q_y²: quadratic at 0, for rewards"""
    return q_WB.x * q_WB.x + q_WB.y * q_WB.y


def min_charge(charges: Sequence[Scalar]) -> Scalar:
    """Return the lowest state of charge of all batteries, from 1 to 0; 1 without a battery."""
    return reduce(minimum, charges) if charges else 1.0


def min_voltage(voltages: Sequence[Scalar]) -> Scalar:
    """Return the lowest voltage of all batteries  [V]; ∞ without a battery."""
    return reduce(minimum, voltages) if voltages else math.inf
