"""How fast the loops of a vehicle may be: from its mass, inertia, motor lag and thrust margin, and from nothing else."""

import math
from functools import reduce
from typing import NamedTuple

from samara.control.allocation import allocation_for
from samara.core.algebra import Vec3
from samara.core.batch_scalar import as_scalar
from samara.core.ops import maximum, minimum, sqrt
from samara.core.quantity import Scalar
from samara.physics.rotors.actuator import Lag
from samara.physics.rotors.propulsion import rotor_loads
from samara.physics.types import CALM, Vehicle
from samara.vehicles.trim import hover

OF_THE_LAG = 0.35  # ω τ: a third of the way to where damping is lost
OTHER_LAGS = 0.010  # [s]: sampling, filters and all else that delays beside the motor
QUICK_MOTOR = 0.020  # [s]: motors with less lag need no lead
LINEAR_TILT = 0.15  # [rad]: an error of this size is still answered in proportion
LEAST_ROOM = 0.05  # of its thrust in hover: what a rotor at its limit is still taken to have
KICK_CROSSING = 100.0  # [rad/s]: how fast a yaw loop may be that turns the body by spinning rotors up
CASCADE = 4.0  # how much slower each outer loop is than the one inside


class Gains(NamedTuple):
    """Natural frequencies [rad/s] of position and of attitude about the body axes; every loop is critically damped.

    `lead` [s] is the time by which roll and pitch are commanded ahead of the motors: errors count as e + T ė.
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
        return maximum(as_scalar(motor.rise), as_scalar(motor.fall))
    state, _ = hover(vehicle)
    load_slope = 2.0 * rotor_loads(state, vehicle, CALM)[0].torque / state.rotor_speed[0]
    stiffness = motor.constant**2 / motor.resistance + motor.damping + load_slope
    return as_scalar(vehicle.rotors[0].inertia / stiffness)


def kick(vehicle: Vehicle) -> Scalar:
    """κ = J / (τ dQ/dΩ): the torque that spins the rotors up over the one that keeps them there, when a yaw is first asked for

    The reaction to Ω̇ comes at once and fades with the motors' lag: torque over demand is (1 + κτs)/(1 + τs). 0 without inertia.
    """
    inertia = [rotor.inertia for rotor in vehicle.rotors if rotor.inertia > 0.0 and rotor.k_torque > 0.0]
    if not inertia or vehicle.servos:  # a servo turns the body about z, not the rotors' speeds
        return 0.0
    rotor = vehicle.rotors[0]
    speed = sqrt(
        as_scalar(vehicle.mass * vehicle["gravity"].acceleration) / (len(vehicle.rotors) * as_scalar(rotor.k_thrust))
    )
    return as_scalar(rotor.inertia) / (2.0 * as_scalar(rotor.k_torque) * speed * motor_time_constant(vehicle))


def authority(vehicle: Vehicle) -> Vec3:
    """αᵢ = τᵢ / Jᵢ with the largest torque about each axis that leaves the lift at the weight  [rad/s²]

    Each rotor has the room min(T₀ − T_min, T_max − T₀) about its thrust T₀ in hover. A body driven by a wrench has no limit.
    """
    if not vehicle.rotors:
        return Vec3(math.inf, math.inf, math.inf)
    allocation = allocation_for(vehicle)
    weight = as_scalar(vehicle.mass * vehicle["gravity"].acceleration)
    shares = [
        (row.x - allocation.turn.x * yaw) * weight for row, yaw in zip(allocation.base, allocation.yaw, strict=True)
    ]
    least = LEAST_ROOM * weight / len(shares)
    room = [
        maximum(minimum(own - low, high - own), least)
        for own, (low, high) in zip(shares, allocation.limits, strict=True)
    ]

    def largest(each: list[Scalar]) -> Scalar:
        """|τ| ≤ room / |thrust for one N·m| of every rotor"""
        bounds = [own / abs(part) for own, part in zip(room, each, strict=True) if abs(part) > 0.0]
        return reduce(minimum, bounds) if bounds else math.inf

    inertia = vehicle.inertia_B
    return Vec3(
        largest([row.y for row in allocation.base]) / as_scalar(inertia.xx),
        largest([row.z for row in allocation.base]) / as_scalar(inertia.yy),
        largest(list(allocation.yaw)) / as_scalar(inertia.zz),
    )


def lead_time(vehicle: Vehicle) -> Scalar:
    """T = max(τ − 20 ms, 0): the part of the motors' lag that the controllers command ahead of  [s]"""
    return maximum(motor_time_constant(vehicle) - QUICK_MOTOR, 0.0)


def gains_for(vehicle: Vehicle, lead: Scalar | None = None) -> Gains:
    """ω_attitude = min(0.35 / (τ − T + 10 ms), √(α / 0.15 rad)), ω_position = ½ / (2/ω_attitude + T), T = `lead_time`

    A critically damped double integrator crosses over at 2.06 ω with a phase margin of 76°. Behind a lag τ with a lead T

        76° − atan(2.06 ω τ) + atan(2.06 ω T) − 2.06 ω T_delay

    are left of it. The loop asks for ω² θ when it leans θ too far: the rotors give α of that, and no loop can be faster than
    they turn the body. Seen from the position, the attitude is 2/ω late, and T more, since only its error is led.

    Yaw is not led: a third of the attitude's frequency, at most 0.35 / (τ + 10 ms). Where the rotors' own inertia kicks κ times
    as hard as their drag, that loop crosses at 2 ω κ, which is kept below 100 rad/s.
    """
    lag = motor_time_constant(vehicle)
    ahead = lead_time(vehicle) if lead is None else lead
    quick, slow = OF_THE_LAG / (lag - ahead + OTHER_LAGS), OF_THE_LAG / (lag + OTHER_LAGS)
    strong = [sqrt(each / LINEAR_TILT) for each in authority(vehicle)]
    tilt = minimum(minimum(quick, strong[0]), strong[1])
    yaw, kicks = minimum(minimum(tilt / 3.0, slow), strong[2]), kick(vehicle)
    if 2.0 * yaw * kicks > KICK_CROSSING:
        yaw = KICK_CROSSING / (2.0 * kicks)
    for i in vehicle.servos:
        yaw = minimum(yaw, OF_THE_LAG / (as_scalar(vehicle.rotors[i].servo.lag) + OTHER_LAGS))
    return Gains(tilt / (CASCADE + 2.0 * tilt * ahead), Vec3(tilt, tilt, yaw), ahead)
