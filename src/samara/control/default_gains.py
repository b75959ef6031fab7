"""Default gains: loop bandwidths from the vehicle's mass, inertia, motor lag and thrust margin alone."""

import math
from functools import reduce
from typing import NamedTuple

from samara.control.allocation import build_allocation
from samara.core.algebra import Vec3
from samara.core.batch_scalar import float_or_batch_scalar
from samara.core.ops import maximum, minimum, sqrt
from samara.core.quantity import Scalar
from samara.physics.rotors.actuator import Lag
from samara.physics.rotors.propulsion import rotor_loads
from samara.physics.types import CALM, Vehicle
from samara.vehicles.trim import hover

MAX_LAG_PHASE = 0.35  # ω τ of a loop behind a lag τ: a third of the value at which damping is lost
OTHER_LAG = 0.010  # [s]: sampling, filters and all other delays besides the motor
MAX_LAG_WITHOUT_LEAD = 0.020  # [s]: motors with less lag need no lead
MAX_LINEAR_TILT = 0.15  # [rad]: the response to a tilt error of this size is still linear
MIN_MARGIN_FRACTION = 0.05  # fraction of its hover thrust that a rotor at its limit is assumed to have as margin
MAX_YAW_CROSSOVER = 100.0  # [rad/s]: maximum crossover of a yaw loop that turns the body by spinning rotors up
CASCADE_RATIO = 4.0  # ratio of the bandwidths of an inner loop and the loop around it


class Gains(NamedTuple):
    """Natural frequencies [rad/s] of position and of attitude about the body axes; every loop is critically damped.

    `lead` [s] is the time by which roll and pitch are commanded ahead of the motors: the loops act on e + T ė.
    """

    position: Scalar
    attitude: Vec3
    lead: Scalar = 0.0


def motor_time_constant(vehicle: Vehicle) -> Scalar:
    """τ = J / (K²/R + b + dQ/dΩ) of a DC motor at hover, or the lag itself; 0 for a body driven by a wrench  [s]"""
    if not vehicle.rotors:
        return 0.0
    motor = vehicle.rotors[0].motor
    if isinstance(motor, Lag):
        return maximum(float_or_batch_scalar(motor.time_constant_up), float_or_batch_scalar(motor.time_constant_down))
    state, _ = hover(vehicle)
    load_slope = 2.0 * rotor_loads(state, vehicle, CALM)[0].torque / state.rotor_speed[0]
    stiffness = motor.constant**2 / motor.resistance + motor.damping + load_slope
    return float_or_batch_scalar(vehicle.rotors[0].inertia / stiffness)


def spin_up_torque_ratio(vehicle: Vehicle) -> Scalar:
    """κ = J / (τ dQ/dΩ): initial torque that accelerates the rotors over the steady torque, for a step of the yaw demand

    The reaction to Ω̇ is immediate and decays with the motors' lag: torque over demand is (1 + κτs)/(1 + τs). 0 without inertia.
    """
    inertia = [rotor.inertia for rotor in vehicle.rotors if rotor.inertia > 0.0 and rotor.k_torque > 0.0]
    if not inertia or vehicle.servos:  # a servo turns the body about z, not the rotors' speeds
        return 0.0
    rotor = vehicle.rotors[0]
    speed = sqrt(
        float_or_batch_scalar(vehicle.mass * vehicle["gravity"].acceleration)
        / (len(vehicle.rotors) * float_or_batch_scalar(rotor.k_thrust))
    )
    return float_or_batch_scalar(rotor.inertia) / (
        2.0 * float_or_batch_scalar(rotor.k_torque) * speed * motor_time_constant(vehicle)
    )


def control_authority(vehicle: Vehicle) -> Vec3:
    """αᵢ = τᵢ / Jᵢ with the largest torque about each axis while the collective thrust equals the weight  [rad/s²]

    Each rotor has the margin min(T₀ − T_min, T_max − T₀) about its hover thrust T₀. A body driven by a wrench has no limit.
    """
    if not vehicle.rotors:
        return Vec3(math.inf, math.inf, math.inf)
    allocation = build_allocation(vehicle)
    weight = float_or_batch_scalar(vehicle.mass * vehicle["gravity"].acceleration)
    hover_thrusts = [
        (row.x - allocation.base_yaw.x * yaw) * weight for row, yaw in zip(allocation.base, allocation.yaw, strict=True)
    ]
    min_margin = MIN_MARGIN_FRACTION * weight / len(hover_thrusts)
    margins = [
        maximum(minimum(thrust - low, high - thrust), min_margin)
        for thrust, (low, high) in zip(hover_thrusts, allocation.limits, strict=True)
    ]

    def largest(thrust_per_torque: list[Scalar]) -> Scalar:
        """|τ| ≤ margin / |thrust for one N·m| of every rotor"""
        bounds = [
            margin / abs(sensitivity)
            for margin, sensitivity in zip(margins, thrust_per_torque, strict=True)
            if abs(sensitivity) > 0.0
        ]
        return reduce(minimum, bounds) if bounds else math.inf

    inertia = vehicle.inertia_B
    return Vec3(
        largest([row.y for row in allocation.base]) / float_or_batch_scalar(inertia.xx),
        largest([row.z for row in allocation.base]) / float_or_batch_scalar(inertia.yy),
        largest(list(allocation.yaw)) / float_or_batch_scalar(inertia.zz),
    )


def lead_time(vehicle: Vehicle) -> Scalar:
    """T = max(τ − 20 ms, 0): the part of the motors' lag that the controllers compensate by a lead  [s]"""
    return maximum(motor_time_constant(vehicle) - MAX_LAG_WITHOUT_LEAD, 0.0)


def default_gains(vehicle: Vehicle, lead: Scalar | None = None) -> Gains:
    """ω_attitude = min(0.35 / (τ − T + 10 ms), √(α / 0.15 rad)), ω_position = ½ / (2/ω_attitude + T), T = `lead_time`

    A critically damped double integrator crosses over at 2.06 ω with a phase margin of 76°. Behind a lag τ with a lead T the
    phase margin is

        76° − atan(2.06 ω τ) + atan(2.06 ω T) − 2.06 ω T_delay

    The loop demands ω² θ for a tilt error θ, and the rotors can give at most α: no loop can turn the body faster. For
    the position loop, the attitude lags by 2/ω + T, since the lead acts on the attitude error only.

    Yaw has no lead: its frequency is a third of the attitude's, at most 0.35 / (τ + 10 ms). If the rotors' inertia reacts κ
    times as hard as their drag, the yaw loop crosses over at 2 ω κ, which is limited to 100 rad/s.

    Args:
        vehicle: model of the vehicle.
        lead: lead time T [s]; None for `lead_time(vehicle)`.
    """
    lag = motor_time_constant(vehicle)
    lead_used = lead_time(vehicle) if lead is None else lead
    led_bandwidth, yaw_bandwidth = MAX_LAG_PHASE / (lag - lead_used + OTHER_LAG), MAX_LAG_PHASE / (lag + OTHER_LAG)
    authority_bandwidth = [sqrt(acceleration / MAX_LINEAR_TILT) for acceleration in control_authority(vehicle)]
    tilt = minimum(minimum(led_bandwidth, authority_bandwidth[0]), authority_bandwidth[1])
    yaw, spin_up_ratio = (
        minimum(minimum(tilt / 3.0, yaw_bandwidth), authority_bandwidth[2]),
        spin_up_torque_ratio(vehicle),
    )
    if 2.0 * yaw * spin_up_ratio > MAX_YAW_CROSSOVER:
        yaw = MAX_YAW_CROSSOVER / (2.0 * spin_up_ratio)
    for i in vehicle.servos:
        yaw = minimum(yaw, MAX_LAG_PHASE / (float_or_batch_scalar(vehicle.rotors[i].servo.lag) + OTHER_LAG))
    return Gains(tilt / (CASCADE_RATIO + 2.0 * tilt * lead_used), Vec3(tilt, tilt, yaw), lead_used)
