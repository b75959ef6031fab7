"""The conventions of the NED simulator under its names: NED, FRD, propulsors, channels, faults.

The document's world is north-east-down and its body forward-right-down; a rotor is given by the unit vector `axis_b` against
its thrust. This module only converts: every function converts its arguments, calls an equation of `samara.physics`, and
converts the result back. Quaternions `q_bn` rotate body into NED, in the order w, x, y, z.

Channels and propulsors are counted from 0, as everywhere in Samara; the document counts them from 1.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

from samara.core.algebra import ZERO, Attitude, Vec3, matrix_from_quat, rotate, rotate_inverse
from samara.core.quantity import RotorAcceleration, RotorSpeed, Scalar
from samara.physics.effect import Wrench, add_wrenches
from samara.physics.frames import (
    altitude_from_ned,
    flu_from_frd,
    frd_from_flu,
    ned_from_enu,
    wind_ned_from_direction,
    wrench_ned_frd_from_enu_flu,
)
from samara.physics.frames import yaw_from_quat as yaw_from_quat
from samara.physics.motion.body import AngularVelocity, Velocity, attitude_rate
from samara.physics.motion.gravity import weight
from samara.physics.rotors.propulsion import bus_current, motor_currents, rotor_loads, supply_voltage
from samara.physics.rotors.rotor import (
    Rotor,
    RotorLoad,
    air_velocity,
    axial_speed,
    rotor_angular_momentum,
    rotor_momentum_torque,
    rotor_wrench,
)
from samara.physics.types import CALM, Command, Environment, State, Vehicle
from samara.scenario.actuators import MOTOR_CHANNELS as MOTOR_CHANNELS
from samara.scenario.actuators import SERVO_CHANNELS as SERVO_CHANNELS
from samara.scenario.actuators import ActuatorCommand as ActuatorCommand
from samara.scenario.actuators import MotorMap as MotorMap
from samara.scenario.actuators import disabled_propulsors as disabled_propulsors
from samara.scenario.actuators import motor_disable_mask as motor_disable_mask
from samara.scenario.actuators import propulsor_duties as propulsor_duties
from samara.scenario.actuators import px4_command as px4_command
from samara.scenario.actuators import sanitized_command as sanitized_command

# Attitude ----------------------------------------------------------------------------------------------------------

quat_to_dcm = matrix_from_quat  # R_bn: v_ned = R_bn v_body
quat_rotate = rotate  # body → NED
quat_rotate_inv = rotate_inverse  # NED → body
quat_deriv = attitude_rate  # q̇ = ½ q ⊗ (0, p, q, r)


# Propulsors --------------------------------------------------------------------------------------------------------


class Propulsor(NamedTuple):
    """A rotor in FRD: hub position, the axis against its thrust, the sign of its reaction torque about that axis, and
    its inertia [kg·m²]. With the axis pointing down, dir = +1 is counter-clockwise viewed from above."""

    r_b: Vec3
    axis_b: Vec3 = Vec3(0.0, 0.0, 1.0)
    dir: Scalar = 1
    inertia: Scalar = 0.0


class BodyWrench(NamedTuple):
    """Force and torque on the centre of mass, in FRD [N, N·m]."""

    F_body: Vec3
    tau_body: Vec3


def vehicle_propulsors(vehicle: Vehicle) -> tuple[Propulsor, ...]:
    """Return r_b, axis_b, dir and inertia of each rotor of a vehicle: axis_b = −(its thrust axis), dir = its spin."""
    return tuple(
        Propulsor(frd_from_flu(rotor.r_B), -frd_from_flu(rotor.axis_B), rotor.spin, rotor.inertia)
        for rotor in vehicle.rotors
    )


def _rotor(propulsor: Propulsor) -> Rotor:
    """Return the `samara.physics` rotor of a propulsor; its coefficients are not used here."""
    return Rotor(
        flu_from_frd(propulsor.r_b),
        -flu_from_frd(propulsor.axis_b),
        propulsor.dir,
        k_thrust=0.0,
        k_torque=0.0,
        inertia=propulsor.inertia,
    )


def propulsor_loads(
    state: State, vehicle: Vehicle, environment: Environment = CALM
) -> tuple[tuple[Scalar, ...], tuple[Scalar, ...]]:
    """Tᵢ ≥ 0 and the signed Qᵢ = dirᵢ |Qᵢ| of every propulsor, at its air density and inflow  [N, N·m]"""
    loads = rotor_loads(state, vehicle, environment)
    signed = tuple(rotor.spin * load.torque for load, rotor in zip(loads, vehicle.rotors, strict=True))
    return tuple(load.thrust for load in loads), signed


def propulsor_wrench(T: Scalar, Q: Scalar, propulsor: Propulsor) -> BodyWrench:
    """F_body = −T axis_b,   τ_body = r_b × F_body + axis_b Q  [N, N·m]"""
    return _frd_wrench(_wrench(T, Q, propulsor))


def body_wrench(T: Sequence[Scalar], Q: Sequence[Scalar], propulsors: Sequence[Propulsor]) -> BodyWrench:
    """F_body = −Σ Tᵢ axis_bᵢ,   τ_body = Σ r_bᵢ × Fᵢ + Σ axis_bᵢ Qᵢ, every Qᵢ signed  [N, N·m]"""
    if not len(T) == len(Q) == len(propulsors):
        counts = f"{len(T)} thrusts and {len(Q)} torques for {len(propulsors)} propulsors"
        raise ValueError(f"{counts}; expected one of each")
    total = Wrench()
    for rotor_T, rotor_Q, propulsor in zip(T, Q, propulsors, strict=True):
        total = add_wrenches(total, _wrench(rotor_T, rotor_Q, propulsor))
    return _frd_wrench(total)


def _wrench(T: Scalar, Q: Scalar, propulsor: Propulsor) -> Wrench:
    if isinstance(T, (int, float)) and not 0.0 <= T < math.inf:
        expected = "expected a finite number that is not negative: the sign is in F = −T axis_b"
        raise ValueError(f"thrust T is {T}; {expected}")
    # Q includes its sign, so dir must not act a second time
    return rotor_wrench(RotorLoad(T, Q), _rotor(propulsor._replace(dir=1)))


def _frd_wrench(wrench: Wrench) -> BodyWrench:
    frd = wrench_ned_frd_from_enu_flu(wrench)
    return BodyWrench(frd.f_B, frd.tau_B)


def H_body(speed: RotorSpeed, propulsor: Propulsor) -> Vec3:
    """H = −dir J Ω axis_b, the rotor's angular momentum relative to the body  [N·m·s]"""
    return frd_from_flu(rotor_angular_momentum(speed, _rotor(propulsor)))


def momentum_torque(
    omega_body: AngularVelocity, speed: RotorSpeed, acceleration: RotorAcceleration, propulsor: Propulsor
) -> Vec3:
    """τ_body = −ω × H − Ḣ: reaction of the rotor's angular momentum on the body  [N·m]"""
    return frd_from_flu(rotor_momentum_torque(flu_from_frd(omega_body), speed, acceleration, _rotor(propulsor)))


# Air, gravity, altitude --------------------------------------------------------------------------------------------


def wind_ned(V: Scalar, psi_from_deg: Scalar) -> Vec3:
    """−V (cos ψ, sin ψ, 0): the velocity of the air; ψ is the direction of origin, in degrees clockwise from north"""
    return wind_ned_from_direction(V, psi_from_deg * (math.pi / 180.0))


def v_rel_ned(vel_ned: Velocity, wind_ned: Velocity) -> Vec3:
    """vel − wind: the vehicle's velocity through the air  [m/s]"""
    return vel_ned - wind_ned


def v_air_ned(vel_ned: Velocity, wind_ned: Velocity) -> Vec3:
    """wind − vel: the relative wind on the vehicle  [m/s]"""
    return wind_ned - vel_ned


def v_air_body(q_bn: Attitude, vel_ned: Velocity, wind_ned: Velocity) -> Vec3:
    """R_bnᵀ (wind − vel), the relative wind in FRD  [m/s]"""
    return air_velocity(q_bn, vel_ned, wind_ned)


def Vax(v_air_body: Velocity, axis_b: Vec3) -> Scalar:
    """−v_air_body · axis_b: positive for air moving along the thrust, as in a descent  [m/s]"""
    return axial_speed(flu_from_frd(v_air_body), _rotor(Propulsor(ZERO, axis_b)))


def gravity_accel(g: Scalar) -> Vec3:
    """g_ned = (0, 0, +g): down is positive  [m/s²]"""
    return ned_from_enu(weight(1.0, g))


class WorldOrigin(NamedTuple):
    """The origin of NED: latitude and longitude in degrees, altitude above mean sea level in metres."""

    lat_deg: Scalar
    lon_deg: Scalar
    alt_msl_m: Scalar


HomeLocation = WorldOrigin
HOME = WorldOrigin(47.397742, 8.545594, 488.0)
"""The home of the NED simulator, and of PX4's."""


def alt_msl_m(pos_ned: Vec3, origin: WorldOrigin = HOME) -> Scalar:
    """h = h₀ − p_D  [m above mean sea level]"""
    return altitude_from_ned(pos_ned, origin.alt_msl_m)


def bus_current_a(state: State, command: Command, vehicle: Vehicle, environment: Environment = CALM) -> Scalar:
    """I = Σ Iᵢ over the motors, positive while discharging the battery  [A]"""
    if not vehicle.has("battery"):
        raise ValueError(f"vehicle {vehicle.name!r} draws no current; expected one with a battery")
    return bus_current(state, command, vehicle, environment)


class RotorOutput(NamedTuple):
    """One propulsor: thrust T ≥ 0 [N], signed torque Q [N·m], speed [rad/s], and the current of its motor from the bus [A]."""

    T: Scalar
    Q: Scalar
    omega: Scalar
    bus_current_a: Scalar = 0.0


class PlantOutputs(NamedTuple):
    """Outputs of the plant besides its state: every propulsor, the bus [V, A] (0 without a battery), and the relative wind
    in FRD [m/s]."""

    rotors: tuple[RotorOutput, ...]
    bus_voltage_v: Scalar
    bus_current_a: Scalar
    air_vel_body: Vec3


def plant_outputs(state: State, command: Command, vehicle: Vehicle, environment: Environment = CALM) -> PlantOutputs:
    """T, Q, Ω and I of every propulsor, V and I of the bus, and air_vel_body = R_bnᵀ (wind − vel)"""
    inputs = (state, command, vehicle, environment)
    T, Q = propulsor_loads(state, vehicle, environment)
    has_battery = vehicle.has("battery")
    currents = motor_currents(*inputs) if has_battery else (0.0,) * len(T)
    rotors = tuple(map(RotorOutput, T, Q, state.rotor_speed, currents))
    air_vel_body = frd_from_flu(air_velocity(state.q_WB, state.v_W, environment.wind_W))
    return PlantOutputs(rotors, supply_voltage(*inputs), bus_current_a(*inputs) if has_battery else 0.0, air_vel_body)
