"""Rotor dynamics, one rotor and n of them, and the pressure of the air they work in."""

from samara.core.algebra import ZERO, Vec3
from samara.core.quantity import Scalar
from samara.documents.drone_physics.arguments import RotorSum, document, either, sum_over_rotors
from samara.documents.drone_physics.types import (
    Celsius,
    Current,
    Damping,
    Inertia,
    Length,
    LinearThrust,
    LinearTorque,
    MotorConstant,
    Number,
    Position,
    Pressure,
    Resistance,
    RotorAcceleration,
    RotorInertia,
    RotorSpeed,
    Thrust,
    ThrustCoefficient,
    Time,
    Torque,
    TorqueCoefficient,
    TorqueZ,
    Voltage,
)
from samara.physics.air.atmosphere import SEA_LEVEL_PRESSURE, air_pressure
from samara.physics.frames import flu_from_frd, frd_from_flu
from samara.physics.rotors.actuator import Lag, lag_rate
from samara.physics.rotors.motor import DcMotor, dc_motor_rate, motor_current
from samara.physics.rotors.rotor import Rotor, RotorLoad, linear_load, rotor_load, rotor_momentum_torque, rotor_wrench

ABSOLUTE_ZERO = -273.15  # [°C]


def _upright(position: Vec3, ccw: Scalar, Ct: Scalar = 0.0, Cq: Scalar = 0.0, J: Scalar = 0.0) -> Rotor:
    """Its rotors push up, along −z of FRD, which is +z of FLU; ccw is our spin."""
    return Rotor(flu_from_frd(position), Vec3(0.0, 0.0, 1.0), ccw, Ct, Cq, J)


@document
def _rotor_omega_acceleration(Kr: RotorSpeed, Tr: Time, omega: RotorSpeed, duty: Number) -> RotorAcceleration:
    """ω̇ = (Kr d − ω) / Tr, eq. (2.48)"""
    return lag_rate(omega, Kr * duty, Lag(0.0, Kr, Tr, Tr))


@document
def _rotor_omega_acceleration__battery(
    Vbat: Voltage,
    R: Resistance,
    Cq: TorqueCoefficient,
    J: Inertia,
    K: MotorConstant,
    D: Damping,
    omega: RotorSpeed,
    duty: Number,
) -> RotorAcceleration:
    """J ω̇ = K i − D ω − Cq ω², i = (Vbat d − K ω)/R"""
    motor = DcMotor(K, R, damping=D)
    load = rotor_load(omega, _upright(ZERO, 1.0, 0.0, Cq))
    return dc_motor_rate(omega, motor_current(duty, Vbat, omega, motor), load.torque, J, motor)


rotor_omega_acceleration = either(
    "rotor_omega_acceleration", _rotor_omega_acceleration, _rotor_omega_acceleration__battery
)


@document
def rotor_current(Vbat: Voltage, R: Resistance, K: MotorConstant, omega: RotorSpeed, duty: Number) -> Current:
    """i = (Vbat d − K ω)/R; negative where the rotor drives the motor and charges the battery"""
    return motor_current(duty, Vbat, omega, DcMotor(K, R))


@document
def rotor_thrust(Ct: ThrustCoefficient, omega: RotorSpeed, atm_pressure: Pressure = 1.0) -> Thrust:
    """T = Ct ω² p, along −z, eq. (2.50); p is the pressure of the air in atm, its temperature the one Ct is given for"""
    return rotor_load(omega, _upright(ZERO, 1.0, Ct), atm_pressure).thrust


@document
def rotor_anti_torque(
    Cq: TorqueCoefficient, J: RotorInertia, omega: RotorSpeed, omega_acceleration: RotorAcceleration, ccw: Number
) -> TorqueZ:
    """τ = ccw (Cq ω² + J ω̇), about +z, eq. (2.56)"""
    return _rotor_torque(0.0, Cq, J, ZERO, ccw, omega, omega_acceleration).z


@document
def rotor_thrust_linear(Ct2: LinearThrust, omega: RotorSpeed) -> Thrust:
    """T = Ct2 ω, along −z: the straight line of jMAVSim"""
    return linear_load(omega, Ct2, 0.0).thrust


@document
def rotor_anti_torque_linear(Cq2: LinearTorque, omega: RotorSpeed, ccw: Number) -> TorqueZ:
    """τ = ccw Cq2 ω, about +z"""
    return _rotor_torque_linear(0.0, Cq2, ZERO, ccw, omega).z


def _wrench_torque(load: RotorLoad, rotor: Rotor) -> Vec3:
    return frd_from_flu(rotor_wrench(load, rotor).tau_B)


def _rotor_torque(
    Ct: ThrustCoefficient,
    Cq: TorqueCoefficient,
    J: RotorInertia,
    position: Position,
    ccw: Number,
    omega: RotorSpeed,
    omega_acceleration: RotorAcceleration,
    atm_pressure: Pressure = 1.0,
) -> Torque:
    """τ = r × (0, 0, −Ct ω² p) + (0, 0, ccw (Cq ω² p + J ω̇)): one rotor's part of `body_torque`"""
    rotor = _upright(position, ccw, Ct, Cq, J)
    spin_up = rotor_momentum_torque(ZERO, omega, omega_acceleration, rotor)
    return _wrench_torque(rotor_load(omega, rotor, atm_pressure), rotor) + frd_from_flu(spin_up)


def _rotor_torque_linear(
    Ct2: LinearThrust, Cq2: LinearTorque, position: Position, ccw: Number, omega: RotorSpeed
) -> Torque:
    """τ = r × (0, 0, −Ct2 ω) + (0, 0, ccw Cq2 ω): one rotor's part of `body_torque_linear`"""
    return _wrench_torque(linear_load(omega, Ct2, Cq2), _upright(position, ccw))


_THRUST = RotorSum("body_thrust", rotor_thrust, ("omega",))
_TORQUE = RotorSum("body_torque", _rotor_torque, ("position", "ccw", "omega", "omega_acceleration"))
_THRUST_LINEAR = RotorSum("body_thrust_linear", rotor_thrust_linear, ("omega",))
_TORQUE_LINEAR = RotorSum("body_torque_linear", _rotor_torque_linear, ("position", "ccw", "omega"))

body_thrust = sum_over_rotors(_THRUST, "T = Σ Ct ωᵢ² p, eq. (2.61)")
body_torque = sum_over_rotors(
    _TORQUE, "τ = Σ rᵢ × (0, 0, −Ct ωᵢ² p) + (0, 0, ccwᵢ (Cq ωᵢ² p + J ω̇ᵢ)), eq. (2.60) to (2.62)"
)
body_thrust_linear = sum_over_rotors(_THRUST_LINEAR, "T = Σ Ct2 ωᵢ")
body_torque_linear = sum_over_rotors(_TORQUE_LINEAR, "τ = Σ rᵢ × (0, 0, −Ct2 ωᵢ) + (0, 0, ccwᵢ Cq2 ωᵢ)")


@document
def atmospheric_pressure(sea_level_atm: Pressure, altitude_from_sea: Length, ground_temperature: Celsius) -> Pressure:
    """p = p₀ (1 − L h/T₀)^(g/LR), up to 11 km, T₀ = ground_temperature + 273.15; in atm as p₀ is"""
    kelvin = ground_temperature - ABSOLUTE_ZERO
    pascal = air_pressure(
        altitude_from_sea, sea_level_temperature=kelvin, sea_level_pressure=sea_level_atm * SEA_LEVEL_PRESSURE
    )
    return pascal / SEA_LEVEL_PRESSURE
