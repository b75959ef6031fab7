"""The inertial measurement unit: specific force and angular velocity at its mounting, with the errors of MEMS sensors.

White noise is given by its density N (σ = N/√dt of a sample), the slow drift of the bias by the bias instability B of the
data sheet. Flicker noise has no state-space model; a first-order Gauss–Markov process has, and its Allan deviation has a
broad peak where flicker noise has its floor. The drift is that process, with its peak at the floor: 0.664 B.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Annotated, NamedTuple, TypeVar

from samara.core.algebra import ZERO, Vec3, cross, rotate_inverse, scale
from samara.core.ops import sqrt, wrap_angle
from samara.core.picklable import picklable_factory
from samara.core.quantity import Quantity, Scalar
from samara.physics.multirotor import derivative
from samara.physics.rotors.imbalance import unbalance_force
from samara.physics.types import Command, Environment, State, Vehicle
from samara.sensors.error_models import drift_sigma, gauss_markov_vector, normal_vector, quantise, saturate
from samara.sensors.sensor import (
    AT_CENTRE,
    IMU,
    MeasurementInputs,
    Mounting,
    Sensor,
    SensorType,
    reading_sensor,
    specific_force,
)


class Gyroscope(NamedTuple):
    """Parameters of a gyroscope; turn-on bias, scale error and misalignment are standard deviations between parts."""

    noise_density: Annotated[Vec3, Quantity("rad/s/sqrt(Hz)", 0.0, 1.0)]
    bias_instability: Annotated[float, Quantity("rad/s", 0.0, 1.0)]
    bias_time_constant: Annotated[float, Quantity("s", 1.0, 1e5)]
    turn_on_bias: Annotated[float, Quantity("rad/s", 0.0, 1.0)]
    scale_error: Annotated[float, Quantity("1", 0.0, 0.1)]
    misalignment: Annotated[float, Quantity("rad", 0.0, 0.1)]
    full_scale: Annotated[float, Quantity("rad/s", 1.0, 100.0)]
    resolution: Annotated[float, Quantity("rad/s", 0.0, 0.1)]


class Accelerometer(NamedTuple):
    """Parameters of an accelerometer, with the same meaning as those of a gyroscope."""

    noise_density: Annotated[Vec3, Quantity("m/s^2/sqrt(Hz)", 0.0, 1.0)]
    bias_instability: Annotated[float, Quantity("m/s^2", 0.0, 1.0)]
    bias_time_constant: Annotated[float, Quantity("s", 1.0, 1e5)]
    turn_on_bias: Annotated[float, Quantity("m/s^2", 0.0, 1.0)]
    scale_error: Annotated[float, Quantity("1", 0.0, 0.1)]
    misalignment: Annotated[float, Quantity("rad", 0.0, 0.1)]
    full_scale: Annotated[float, Quantity("m/s^2", 1.0, 1000.0)]
    resolution: Annotated[float, Quantity("m/s^2", 0.0, 0.1)]


Triad = TypeVar("Triad", Gyroscope, Accelerometer)


class ImuPart(NamedTuple):
    """Parameters of an IMU. `calibration_residual` is the fraction of turn-on bias, scale error and misalignment that
    calibration leaves. `imbalance` is the mass times eccentricity of each rotor, whose vibration only the IMU feels; it is
    ignored for a vehicle with the effect `imbalance`, which shakes the complete vehicle."""

    rate: Annotated[float, Quantity("Hz", 1.0, 8000.0)]
    delay: Annotated[float, Quantity("s", 0.0, 0.1)]
    calibration_residual: Annotated[float, Quantity("1", 0.0, 1.0)]
    imbalance: Annotated[float, Quantity("kg m", 0.0, 1e-3)]
    gyroscope: Gyroscope
    accelerometer: Accelerometer


class ImuReading(NamedTuple):
    """Specific force and angular velocity in the axes of the IMU, by default those of the body  [m/s², rad/s]"""

    specific_force_B: Vec3
    omega_B: Vec3


class TriadState(NamedTuple):
    """The errors of three axes: constant after turn-on, and drifting."""

    bias: Vec3
    drift: Vec3
    scale_error: Vec3
    misalignment: Vec3


class ImuState(NamedTuple):
    """The errors of both triads, and the phase of each rotor [rad]."""

    gyroscope: TriadState
    accelerometer: TriadState
    phases: tuple[Scalar, ...]


class ImuModel(NamedTuple):
    """An IMU's part and mounting."""

    part: ImuPart
    mounting: Mounting


def initial_triad_state(
    normals: Sequence[Scalar], triad: Gyroscope | Accelerometer, calibration_residual: Scalar
) -> TriadState:
    """Return bias, drift, scale and misalignment of one part from twelve normals."""
    return TriadState(
        normal_vector(normals, 0) * (triad.turn_on_bias * calibration_residual),
        normal_vector(normals, 3) * drift_sigma(triad.bias_instability),
        normal_vector(normals, 6) * (triad.scale_error * calibration_residual),
        normal_vector(normals, 9) * (triad.misalignment * calibration_residual),
    )


def triad_reading(
    true: Vec3,
    normals: Sequence[Scalar],
    triad_state: TriadState,
    dt: Scalar,
    triad: Gyroscope | Accelerometer,
) -> tuple[Vec3, TriadState]:
    """y = Q(clamp((1 + S) x + m × x + b + d + N/√dt n)),  d a Gauss–Markov process; six normals"""
    drift = gauss_markov_vector(
        triad_state.drift,
        normal_vector(normals, 3),
        dt,
        sigma=drift_sigma(triad.bias_instability),
        tau=triad.bias_time_constant,
    )
    scaled = true + scale(triad_state.scale_error, true) + cross(triad_state.misalignment, true)
    noise = scale(triad.noise_density, normal_vector(normals, 0)) / sqrt(dt)
    reading = quantise(saturate(scaled + triad_state.bias + drift + noise, triad.full_scale), triad.resolution)
    return reading, triad_state._replace(drift=drift)


def offset_specific_force(
    r_B: Vec3, state: State, command: Command, vehicle: Vehicle, environment: Environment
) -> Vec3:
    """f(r) = f(0) + ω̇ × r + ω × (ω × r), with ω̇ from the equation of motion  [m/s²]"""
    centre = specific_force(state, command, vehicle, environment)
    if r_B == ZERO:
        return centre
    alpha_B = derivative(state, command, vehicle, environment).omega_B
    return centre + cross(alpha_B, r_B) + cross(state.omega_B, cross(state.omega_B, r_B))


def vibration(phases: tuple[Scalar, ...], state: State, vehicle: Vehicle, imbalance: float) -> Vec3:
    """a = Σ U Ω² (e₁ cos φ + s e₂ sin φ)/m: each rotor's imbalance U rotates with it, in its plane  [m/s²]"""
    total = ZERO
    for phase, speed, rotor in zip(phases, state.rotor_speed, vehicle.rotors, strict=True):
        total = total + unbalance_force(phase, speed, imbalance, rotor) / vehicle.mass
    return total


@lru_cache(maxsize=256)
@picklable_factory
def imu(part: ImuPart, mounting: Mounting = AT_CENTRE, name: str = "") -> Sensor:
    """Create an IMU at its mounting."""

    def initial(vehicle: Vehicle, normals: Sequence[Scalar]) -> ImuState:
        local_vibration = part.imbalance > 0.0 and not vehicle.has("imbalance")
        return ImuState(
            initial_triad_state(normals[:12], part.gyroscope, part.calibration_residual),
            initial_triad_state(normals[12:], part.accelerometer, part.calibration_residual),
            tuple(0.0 for _ in vehicle.rotors) if local_vibration else (),
        )

    def equation(inputs: MeasurementInputs) -> tuple[ImuReading, ImuState]:
        state, normals, sensor_state, dt = inputs.state, inputs.normals, inputs.sensor_state, inputs.dt
        f_B = offset_specific_force(mounting.r_B, state, inputs.command, inputs.vehicle, inputs.environment)
        phases = sensor_state.phases
        if phases:
            phases = tuple(
                wrap_angle(phase + speed * dt) for phase, speed in zip(phases, state.rotor_speed, strict=True)
            )
            f_B = f_B + vibration(phases, state, inputs.vehicle, part.imbalance)
        omega, gyroscope = triad_reading(
            rotate_inverse(mounting.q_BS, state.omega_B), normals[:6], sensor_state.gyroscope, dt, part.gyroscope
        )
        force, accelerometer = triad_reading(
            rotate_inverse(mounting.q_BS, f_B), normals[6:], sensor_state.accelerometer, dt, part.accelerometer
        )
        return ImuReading(force, omega), ImuState(gyroscope, accelerometer, phases)

    return reading_sensor(
        "imu",
        ImuReading(ZERO, ZERO),
        ("m/s^2",) * 3 + ("rad/s",) * 3,
        equation,
        part,
        name=name,
        normals_needed=12,
        initial=initial,
        start_normals=24,
        model=ImuModel(part, mounting),
    )


def ideal_part(part: ImuPart) -> ImuPart:
    """Return the part without errors; only its rate is unchanged."""

    def ideal_triad(triad: Triad) -> Triad:
        zero_errors = dict.fromkeys(
            ("bias_instability", "turn_on_bias", "scale_error", "misalignment", "resolution"), 0.0
        )
        return triad._replace(noise_density=ZERO, full_scale=1e9, **zero_errors)

    return part._replace(
        gyroscope=ideal_triad(part.gyroscope), accelerometer=ideal_triad(part.accelerometer), imbalance=0.0, delay=0.0
    )


TYPE = SensorType("imu", ImuPart, imu, faults=("gyro", "accelerometer"), exact=lambda site: IMU)
