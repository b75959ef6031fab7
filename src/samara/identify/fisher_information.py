"""Fisher information of a flight about a vehicle's parameters: M = Σ Sᵀ W S, S the sensitivities of the IMU signals to them.

The outputs are specific force and angular acceleration, at the states and commands of the flight, minus their mean over three
seconds, which removes trims, biases and the slow part of the wind. Sensitivities are finite differences of the vehicle's
equations of motion; for the motor lag, the motors are simulated again with the flight's commands.

Two effects reduce the information. The steady wind is unknown: signals that it explains equally well carry no information. And
gusts are noise, scaled by the sensitivity to moving air: drag in the force, the airspeed moment in the torque. They last about
a second, g' = −g/τ + white noise, so rows are whitened as a first-order autoregression.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from samara.core.algebra import ZERO, Vec3
from samara.core.quantity import Scalar
from samara.core.types import Array
from samara.identify.parameters import (
    FreeParameter,
    centre_of_mass_parameter,
    inertia_parameter,
    mean_arm,
    motor_lag_parameter,
    rotor_parameter,
    scalar_parameter,
    vector_parameter,
)
from samara.physics.air.drag import BODY_AXES, WORLD_AXES
from samara.physics.effect import wrench_in_body_axes
from samara.physics.motion.body import angular_acceleration
from samara.physics.multirotor import wrench
from samara.physics.rotors.actuator import Lag, lag_step, speed_from_command
from samara.physics.rotors.rotor_air_effects import AIRSPEED_MOMENT, ROTOR_DRAG
from samara.physics.types import CALM, State, Vehicle

ROW_STRIDE = 12  # stride of the evaluated rows of a flight: one every 48 ms
DIFFERENCE_STEP = 1e-5  # step of finite differences, as a fraction of a parameter's scale
SLOW_MEAN_S = 3.0  # [s]: the mean over this duration is subtracted
MODEL_NOISE = 0.01  # σ of force and torques relative to m g, m g arm and m g kM/kF: vibration, unmodelled effects
GYRO_DERIVATIVE_SIGMA = 0.1  # [rad/s²]: σ of the derivative of a gyroscope over a row
GUST_SIGMAS = (
    0.4,
    0.4,
    0.2,
)  # [m/s]: σ along east, north and up, Dryden's for 2 m/s of wind some metres over the ground
GUST_CORRELATION_TIME_S = 1.0  # [s]: correlation time
PRIOR_SIGMA = 0.5  # prior σ, on each parameter's scale
WIND_SIGMA = 4.0  # [m/s]: prior σ of the steady wind
TARGET_ERRORS = (("k_thrust", 0.02), ("k_torque", 0.05), ("inertia.", 0.05), ("centre_of_mass.", 0.05))
DEFAULT_TARGET_ERROR = 0.10  # for all other parameters: lags, drag, aerodynamic effects on rotors
"""Target standard errors of a flight, on each parameter's scale, by the prefix of its name."""


class SimulatedFlights(NamedTuple):
    """A batch of simulated flights: times (m,) [s], states (fields, m, n), commands (rotors, m, n) held from each time on, and
    the duration of each flight (n,) [s]."""

    time: Array
    states: Array
    commands: Array
    durations: Array


def experiment_parameters(vehicle: Vehicle) -> tuple[FreeParameter, ...]:
    """Return the parameters of interest: thrust, torque, lag, inertia, centre of mass, drag and aerodynamic effects on rotors.

    The scale is the value of each parameter, and the arm for the centre of mass.
    """
    parameters = [
        *(rotor_parameter(name, "", 1.0, "") for name in ("k_thrust", "k_torque")),
        *(inertia_parameter(axis, 1.0, "") for axis in ("xx", "yy", "zz")),
        *(centre_of_mass_parameter(axis, mean_arm(vehicle)) for axis in ("x", "y")),
    ]
    if all(isinstance(rotor.motor, Lag) for rotor in vehicle.rotors):
        parameters += [motor_lag_parameter(direction, 1.0) for direction in ("time_constant_up", "time_constant_down")]
    for index, effect in enumerate(vehicle.structure.effects):
        values = vehicle.parameters[index]
        if effect in AIR_EFFECTS:
            for field in getattr(values, "_fields", ()):
                parameters += _field_parameters(effect.name, field, getattr(values, field))
    return tuple(parameters)


AIR_EFFECTS = (BODY_AXES, WORLD_AXES, ROTOR_DRAG, AIRSPEED_MOMENT)
"""Aerodynamic effects whose parameters are of interest."""


def _field_parameters(effect: str, field: str, value: Scalar) -> list[FreeParameter]:
    """Return a parameter for each nonzero component of a field."""
    path = f"{effect}.{field}"
    if isinstance(value, Vec3):
        return [
            vector_parameter(path, "", axis, component, "")
            for axis, component in zip("xyz", value, strict=True)
            if component != 0.0
        ]
    return [scalar_parameter(path, "", value, "")] if isinstance(value, float) and value != 0.0 else []


def information_matrices(vehicle: Vehicle, flown: SimulatedFlights, parameters: Sequence[FreeParameter]) -> Array:
    """Return M of each flight, (n, k + 3, k + 3): the parameters on their scales, then the steady wind [m/s], about zero wind.

    Sensitivities are evaluated without the wind of the simulation: it is unknown, so that it excites nothing.
    """
    displaced = [parameter.displace_vehicle(vehicle, DIFFERENCE_STEP) for parameter in parameters]
    lag_indices = [i for i, parameter in enumerate(parameters) if parameter.name.startswith("motor.")]
    speeds, *lag_speeds = _rotor_speeds([vehicle, *(displaced[i] for i in lag_indices)], flown)
    speeds_by_index = dict(zip(lag_indices, lag_speeds, strict=True))
    is_flying = flown.time[::ROW_STRIDE, None] < flown.durations
    nominal = _outputs(vehicle, flown, speeds, is_flying)
    columns = [
        (_outputs(candidate, flown, speeds_by_index.get(i, speeds), is_flying) - nominal) / DIFFERENCE_STEP
        for i, candidate in enumerate(displaced)
    ]
    wind_outputs = [
        _outputs(vehicle, flown, speeds, is_flying, _axis_vector(axis, DIFFERENCE_STEP)) for axis in range(3)
    ]
    columns += [(outputs - nominal) / DIFFERENCE_STEP for outputs in wind_outputs]
    sensitivity = np.stack(columns)  # (k + 3, 6, rows of all flights)
    matrices = np.empty((is_flying.shape[1], len(columns), len(columns)))
    flight_index = np.nonzero(is_flying.T)[0]
    for lane in range(is_flying.shape[1]):
        rows = sensitivity[..., flight_index == lane]
        weighted = whiten(rows, output_noise(vehicle, rows[-3:]), ROW_STRIDE * float(flown.time[1] - flown.time[0]))
        matrices[lane] = np.einsum("aim,bim->ab", weighted, weighted, optimize=True)
    return matrices


class OutputNoise(NamedTuple):
    """σ of each output: white noise of each row, and gusts."""

    white: Array
    gusts: Array


def output_noise(vehicle: Vehicle, wind_sensitivity: Array) -> OutputNoise:
    """σ of specific force [m/s²] and angular acceleration [rad/s²]; for gusts from the sensitivities (3, 6, m) to wind."""
    g = float(vehicle["gravity"].acceleration)
    arm, torque_ratio = mean_arm(vehicle), float(np.mean([rotor.k_torque / rotor.k_thrust for rotor in vehicle.rotors]))
    inertia_B, weight = vehicle.inertia_B, vehicle.mass * g
    torques = weight * np.array([arm / inertia_B.xx, arm / inertia_B.yy, torque_ratio / inertia_B.zz])
    white = np.concatenate([[MODEL_NOISE * g] * 3, np.hypot(MODEL_NOISE * torques, GYRO_DERIVATIVE_SIGMA)])
    return OutputNoise(
        white,
        np.sqrt(
            np.einsum("a,aim->i", np.square(GUST_SIGMAS), np.square(wind_sensitivity)) / wind_sensitivity.shape[-1]
        ),
    )


def whiten(rows: Array, noise_sigma: OutputNoise, dt: float) -> Array:
    """(x_k − ρ x_{k−1}) / σ of rows (…, 6, m) without their slow mean: σ² = (1 − ρ²) σ_g² + (1 + ρ²) σ_w², ρ = exp(−dt/τ).

    Hover precedes the first row; without its mean it is 0.
    """
    width = 2 * round(0.5 * SLOW_MEAN_S / dt) + 1
    no_padding = [(0, 0)] * (rows.ndim - 1)
    padded = np.pad(rows, [*no_padding, (width // 2, width // 2)], mode="edge")
    cumulative = np.cumsum(np.pad(padded, [*no_padding, (1, 0)]), axis=-1)
    detrended = rows - (cumulative[..., width:] - cumulative[..., :-width]) / width
    rho = np.exp(-dt / GUST_CORRELATION_TIME_S)
    previous = np.pad(detrended, [*no_padding, (1, 0)])[..., :-1]
    sigma = np.sqrt((1.0 - rho**2) * noise_sigma.gusts**2 + (1.0 + rho**2) * noise_sigma.white**2)
    result: Array = (detrended - rho * previous) / sigma[:, None]
    return result


def shortfall(matrix: Array, aims: Array) -> Scalar:
    """Σ ln(1 + (σ/aim)²) over the parameters: the distance from their targets; a number for one matrix, an array for several.

    A parameter far above its target counts as in log det, by its relative improvement; one well below it hardly counts.
    """
    return np.log1p(np.square(standard_errors(matrix) / aims)).sum(axis=-1)


def target_errors(parameters: Sequence[FreeParameter]) -> Array:
    """Return the target standard error of each parameter, on its scale."""
    return np.array(
        [
            next(
                (target for prefix, target in TARGET_ERRORS if parameter.name.startswith(prefix)), DEFAULT_TARGET_ERROR
            )
            for parameter in parameters
        ]
    )


def standard_errors(matrix: Array) -> Array:
    """√ of the diagonal of the inverse: each parameter on its scale, with the prior included and the wind unknown."""
    return np.sqrt(np.diagonal(np.linalg.inv(_eliminate_wind(matrix)), axis1=-2, axis2=-1))


def _eliminate_wind(matrix: Array) -> Array:
    """Return the information about the parameters with the prior added and the wind eliminated (Schur complement)."""
    k = matrix.shape[-1] - 3
    total = matrix + np.diag([PRIOR_SIGMA**-2] * k + [WIND_SIGMA**-2] * 3)
    block, cross, wind = total[..., :k, :k], total[..., :k, k:], total[..., k:, k:]
    reduced: Array = block - cross @ np.linalg.solve(wind, np.swapaxes(cross, -1, -2))
    return reduced


def _axis_vector(axis: int, speed: float) -> Vec3:
    return Vec3(*(speed if index == axis else 0.0 for index in range(3)))


def _rotor_speeds(vehicles: Sequence[Vehicle], flown: SimulatedFlights) -> Array:
    """Simulate the motors of each vehicle with the flight's commands from its first speeds: (vehicles, rotors, m, n).

    DC motors keep the speeds of the simulation.
    """
    rotors = len(vehicles[0].rotors)
    speeds = np.repeat(flown.states[None, 13 : 13 + rotors], len(vehicles), axis=0)
    if not all(isinstance(rotor.motor, Lag) for vehicle in vehicles for rotor in vehicle.rotors):
        return speeds
    motor_parameters = np.array(
        [[rotor.motor for rotor in vehicle.rotors] for vehicle in vehicles]
    )  # (vehicles, rotors, fields of Lag)
    lags = Lag(*np.moveaxis(motor_parameters, -1, 0)[..., None])
    commands = flown.commands.swapaxes(0, 1)[:, None]
    targets = commands if vehicles[0].structure.actuation.name == "speed" else speed_from_command(commands, lags)
    dt = float(flown.time[1] - flown.time[0])  # evenly spaced: the log's period
    up, down = -lag_step(-1.0, 0.0, dt, lags), lag_step(1.0, 0.0, dt, lags)  # remainder of a unit step after dt
    for k in range(1, len(flown.time)):
        current, target = speeds[:, :, k - 1], targets[k - 1]
        speeds[:, :, k] = target + (current - target) * np.where(target > current, up, down)
    return speeds


def _outputs(vehicle: Vehicle, flown: SimulatedFlights, speeds: Array, is_flying: Array, wind_W: Vec3 = ZERO) -> Array:
    """Return specific force [m/s²] and angular acceleration [rad/s²] in body axes, flights concatenated: (6, rows)."""
    rows = flown.states[:, ::ROW_STRIDE].copy()
    rows[13 : 13 + len(speeds)] = speeds[:, ::ROW_STRIDE]
    rows = rows.swapaxes(1, 2)[:, is_flying.T]
    weightless = vehicle.without_effect("gravity")
    state: State = State.from_numpy(rows, "wxyz", weightless)
    commands = tuple(flown.commands[:, ::ROW_STRIDE].swapaxes(1, 2)[:, is_flying.T])
    total = wrench_in_body_axes(wrench(state, commands, weightless, CALM._replace(wind_W=wind_W)), state.q_WB)
    force = total.f_B / vehicle.mass
    omega_dot = angular_acceleration(state.omega_B, total.tau_B, inertia_B=vehicle.inertia_B)
    return np.stack([np.broadcast_to(component, rows.shape[1]) for component in (*force, *omega_dot)])
