"""Actuators between command and rotor speed: saturation, first-order lag, and second order with a rate limit."""

from typing import Annotated, NamedTuple, TypeAlias

from samara.core.ops import clamp, exp, logical_and, maximum, where
from samara.core.quantity import (
    Duration,
    Duty,
    LoadTorque,
    Quantity,
    Ratio,
    RotorAcceleration,
    RotorSpeed,
    Scalar,
    TimeConstant,
)

Rate: TypeAlias = Annotated[Scalar, Quantity("1/s", -50.0, 50.0)]


class Lag(NamedTuple):
    """A motor that follows its commanded speed with a first-order lag, with separate time constants up and down.

    On a battery, `full_voltage` is the bus voltage at which the speeds hold, 0 for that of the full battery, and `efficiency`
    is the shaft power over the power taken from the bus.
    """

    speed_min: Annotated[Scalar, Quantity("rad/s", 0.0, 500.0)]
    speed_max: Annotated[Scalar, Quantity("rad/s", 1000.0, 3000.0)]
    time_constant_up: TimeConstant
    time_constant_down: TimeConstant
    efficiency: Annotated[Scalar, Quantity("1", 0.3, 1.0)] = 1.0
    full_voltage: Annotated[Scalar, Quantity("V", 0.0, 50.0)] = 0.0


class SecondOrder(NamedTuple):
    """An actuator with natural frequency, damping ratio and a limit on its rate."""

    natural_frequency: Annotated[Scalar, Quantity("rad/s", 5.0, 50.0)]
    damping_ratio: Annotated[Scalar, Quantity("1", 0.2, 2.0)]
    rate_limit: Annotated[Scalar, Quantity("1/s", 1.0, 20.0)]


class ActuatorState(NamedTuple):
    """Position and rate of an actuator, both relative to the range of the command."""

    position: Ratio
    rate: Rate


def speed_from_command(command: Duty, motor: Lag) -> Scalar:
    """Ω_cmd = Ω_min + u (Ω_max − Ω_min), u limited to [0, 1]  [rad/s]"""
    return motor.speed_min + clamp(command, 0.0, 1.0) * (motor.speed_max - motor.speed_min)


def command_from_speed(speed: RotorSpeed, motor: Lag) -> Scalar:
    """u = (Ω − Ω_min) / (Ω_max − Ω_min): the inverse of `speed_from_command` within the motor's range"""
    return (speed - motor.speed_min) / (motor.speed_max - motor.speed_min)


def saturate_speed(speed: RotorSpeed, motor: Lag) -> Scalar:
    """Ω limited to [Ω_min, Ω_max]  [rad/s]"""
    return clamp(speed, motor.speed_min, motor.speed_max)


def scale_speed_range(motor: Lag, voltage_ratio: Duty) -> Lag:
    """Ω_min V/V_full,  Ω_max V/V_full: the speed range of a motor at the fraction V/V_full of its voltage  [rad/s]"""
    return motor._replace(speed_min=voltage_ratio * motor.speed_min, speed_max=voltage_ratio * motor.speed_max)


def time_constant(speed: RotorSpeed, target: RotorSpeed, motor: Lag) -> Scalar:
    """τ_up while speeding up, else τ_down  [s]"""
    return (
        where(target > speed, motor.time_constant_up, motor.time_constant_down)
        if motor.time_constant_up is not motor.time_constant_down
        else motor.time_constant_up
    )


def lag_rate(speed: RotorSpeed, target: RotorSpeed, motor: Lag) -> Scalar:
    """Ω̇ = (Ω_cmd − Ω) / τ  [rad/s²]"""
    return (target - speed) / time_constant(speed, target, motor)


def input_power(speed: RotorSpeed, load_torque: LoadTorque, motor: Lag) -> Scalar:
    """P = max(0, Q Ω) / η: the power of a motor from the bus; a windmilling rotor returns none  [W]"""
    return maximum(load_torque * speed, 0.0) / motor.efficiency


def lag_target(speed: RotorSpeed, acceleration: RotorAcceleration, motor: Lag) -> Scalar:
    """Ω_cmd = Ω + τ Ω̇: the target at which the lag has the rate Ω̇, the inverse of `lag_rate`  [rad/s]"""
    return speed + time_constant(speed, speed + acceleration, motor) * acceleration


def lag_step(speed: RotorSpeed, target: RotorSpeed, dt: Duration, motor: Lag) -> Scalar:
    """Ω(t + dt) = Ω_cmd + (Ω − Ω_cmd) e^{−dt/τ}: exact for any dt at constant Ω_cmd  [rad/s]"""
    return target + (speed - target) * exp(-dt / time_constant(speed, target, motor))


def second_order_rate(actuator_state: ActuatorState, target: Ratio, actuator: SecondOrder) -> ActuatorState:
    """ẍ = ωn² (u − x) − 2 ζ ωn ẋ,  |ẋ| ≤ ẋ_max  [1/s, 1/s²]

    An integration step past the rate limit leaves an excess, which decays with ωn and does not delay the reversal.
    """
    limit = actuator.rate_limit
    rate = clamp(actuator_state.rate, -limit, limit)
    wn = actuator.natural_frequency
    acceleration = wn * wn * (target - actuator_state.position) - 2.0 * actuator.damping_ratio * wn * rate
    at_upper_limit = logical_and(actuator_state.rate >= limit, acceleration > 0)
    at_lower_limit = logical_and(actuator_state.rate <= -limit, acceleration < 0)
    limited = where(at_upper_limit, 0.0, where(at_lower_limit, 0.0, acceleration))
    return ActuatorState(rate, limited + wn * (rate - actuator_state.rate))
