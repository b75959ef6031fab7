"""The DC motor with its speed controller: duty and bus voltage in, torque and current out.

Positive current discharges the battery. The NED simulator and Hakoniwa use the same motor with other parameters:
Hakoniwa's has no no-load current, no losses in the controller, and lets a fast rotor charge the battery.
"""

from typing import Annotated, NamedTuple, TypeAlias

from samara.core.ops import clamp, equal, safe_divide, where
from samara.core.quantity import Current, Duty, FileKey, LoadTorque, Quantity, RotorSpeed, Scalar, Voltage

LiveVoltage: TypeAlias = Annotated[Scalar, Quantity("V", 3.0, 25.0)]
RotorInertia: TypeAlias = Annotated[Scalar, Quantity("kg m^2", 1e-6, 1e-3)]


class DcMotor(NamedTuple):
    """A motor and its speed controller. Torque constant and back-EMF constant are equal in SI units.

    The key of `constant` in a vehicle file is `kv`: Kv in rpm/V, or the torque constant in N m/A.
    """

    constant: Annotated[Scalar, Quantity("N m/A", 1e-3, 0.05), FileKey("kv")]
    resistance: Annotated[Scalar, Quantity("ohm", 0.02, 0.5)]
    damping: Annotated[Scalar, Quantity("N m s/rad", 0.0, 1e-5)] = 0.0
    no_load_current: Annotated[Scalar, Quantity("A", 0.0, 1.0)] = 0.0
    current_min: Annotated[Scalar, Quantity("A", -60.0, 0.0)] = -1e9
    current_max: Annotated[Scalar, Quantity("A", 1.0, 60.0)] = 1e9
    efficiency: Annotated[Scalar, Quantity("1", 0.5, 1.0)] = 1.0
    dead_zone: Annotated[Scalar, Quantity("1", 0.0, 0.1)] = 0.0


def effective_duty(duty: Duty, motor: DcMotor) -> Scalar:
    """d limited to [0, 1], and 0 below the dead zone"""
    limited = clamp(duty, 0.0, 1.0)
    return where(limited < motor.dead_zone, 0.0, limited)


def motor_current(duty: Duty, voltage: Voltage, speed: RotorSpeed, motor: DcMotor) -> Scalar:
    """I = (d V − K Ω) / R, before the controller limits it  [A]"""
    return (duty * voltage - motor.constant * speed) / motor.resistance


def limited_current(duty: Duty, voltage: Voltage, speed: RotorSpeed, motor: DcMotor) -> Scalar:
    """I limited to [I_min, I_max]; I_min = 0 forbids charging the battery  [A]"""
    return clamp(motor_current(duty, voltage, speed, motor), motor.current_min, motor.current_max)


def motor_torque(current: Current, motor: DcMotor) -> Scalar:
    """M = K (I − clamp(I, 0, I₀)): the first I₀ amperes only overcome the motor's friction  [N·m]"""
    return motor.constant * (current - clamp(current, 0.0, motor.no_load_current))


def dc_motor_rate(
    speed: RotorSpeed, current: Current, load_torque: LoadTorque, inertia: RotorInertia, motor: DcMotor
) -> Scalar:
    """J Ω̇ = M(I) − Q − b Ω  [rad/s²]"""
    return (motor_torque(current, motor) - load_torque - motor.damping * speed) / inertia


class BusLoad(NamedTuple):
    """The current of a motor from the bus, and its slope with the voltage."""

    current: Current
    slope: Annotated[Scalar, Quantity("A/V", 0.0, 100.0)]


def bus_load(duty: Duty, voltage: Voltage, speed: RotorSpeed, motor: DcMotor) -> BusLoad:
    """I_bus = d I / η,  dI_bus/dV = d² / (R η), or 0 where the current is limited; η for 1/η when charging  [A, A/V]

    The controller divides the voltage and multiplies the current by the duty, and loses the fraction 1 − η of the power.
    """
    current = motor_current(duty, voltage, speed, motor)
    limited = limited_current(duty, voltage, speed, motor)
    current_gain = duty * where(limited < 0, motor.efficiency, 1.0 / motor.efficiency)
    return BusLoad(current_gain * limited, where(equal(limited, current), current_gain * duty / motor.resistance, 0.0))


def voltage_for_current(current: Current, duty: Duty, speed: RotorSpeed, motor: DcMotor) -> Scalar:
    """V = (R I + K Ω) / d: the bus voltage at which the motor current is I; 0 for d = 0, as the motor takes none  [V]"""
    return safe_divide(motor.resistance * current + motor.constant * speed, duty)


def steady_duty(speed: RotorSpeed, load_torque: LoadTorque, voltage: LiveVoltage, motor: DcMotor) -> Scalar:
    """d = (R I + K Ω) / V with K (I − I₀) = Q + b Ω: the duty that keeps a speed constant"""
    return (motor.resistance * steady_current(speed, load_torque, motor) + motor.constant * speed) / voltage


def steady_current(speed: RotorSpeed, load_torque: LoadTorque, motor: DcMotor) -> Scalar:
    """I = I₀ + (Q + b Ω) / K: the current that keeps a speed constant  [A]"""
    return motor.no_load_current + (load_torque + motor.damping * speed) / motor.constant
