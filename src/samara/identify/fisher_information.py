"""What a flight tells about a vehicle's numbers: M = Σ Sᵀ W S, S the sensitivities of what an IMU feels to each of them.

The outputs are specific force and angular acceleration, at the states and under the commands of the flight, less their mean
over three seconds: trims, biases and the slow part of the wind go with it. Their sensitivities are differences of the vehicle's
own equations of motion; those to the motors' lag come from driving the motors with the flight's commands once more.

Two things stand in the way. A steady wind that nobody knows is part of the problem: what it explains as well tells nothing. And
gusts are noise, as strong as the air that moves them makes of it: through drag in the force, through the moment of airspeed in
the torque. They last about a second, g' = −g/τ + white noise, so rows are whitened as an autoregression of first order.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from samara.core.algebra import ZERO, Vec3
from samara.core.quantity import Scalar
from samara.core.types import Array
from samara.identify.parameters import Parameter, along, arm_of, centre_of_mass, inertia, lag, per_rotor, single
from samara.physics.air.drag import BODY_AXES, WORLD_AXES
from samara.physics.effect import wrench_in_body_axes
from samara.physics.motion.body import angular_acceleration
from samara.physics.multirotor import wrench
from samara.physics.rotors.actuator import Lag, lag_step, speed_from_command
from samara.physics.rotors.rotor_air_effects import AIRSPEED_MOMENT, ROTOR_DRAG
from samara.physics.types import CALM, State, Vehicle

EVERY = 12  # rows of a flight, of which one is looked at: one in 48 ms
STEP = 1e-5  # of a parameter's scale, for differences
SLOW = 3.0  # [s]: the mean over so long is taken off
NOISE = 0.01  # σ of force and torques beside m g, m g arm and m g kM/kF: vibration, what is not modelled
TURNING = 0.1  # [rad/s²]: σ of the derivative of a gyroscope over a row
GUSTS = (0.4, 0.4, 0.2)  # [m/s]: σ along east, north and up, Dryden's for 2 m/s of wind some metres over the ground
GUST_TIME = 1.0  # [s]: how long they last
PRIOR = 0.5  # σ of what is known before, on each parameter's scale
WIND = 4.0  # [m/s]: σ of the steady wind before
AIMS = (("k_thrust", 0.02), ("k_torque", 0.05), ("inertia.", 0.05), ("centre_of_mass.", 0.05))
AIM = 0.10  # of all others: lags, drag, what moving air does to rotors
"""Standard errors that a flight is to come down to, on each parameter's scale, by how its name begins."""


class Flown(NamedTuple):
    """Flights side by side: times (m,) [s], states (fields, m, n), commands (rotors, m, n) held from each time on, and how long
    each of them lasts (n,) [s]"""

    time: Array
    states: Array
    commands: Array
    durations: Array


def parameters_of(vehicle: Vehicle) -> tuple[Parameter, ...]:
    """What identification asks about: thrust, torque, lag, inertia, centre of mass, drag and what moving air does to rotors

    On the scale of each number itself, and of the arm where it is the centre of mass.
    """
    found = [
        *(per_rotor(name, "", 1.0, "") for name in ("k_thrust", "k_torque")),
        *(inertia(axis, 1.0, "") for axis in ("xx", "yy", "zz")),
        *(centre_of_mass(axis, arm_of(vehicle)) for axis in ("x", "y")),
    ]
    if all(isinstance(rotor.motor, Lag) for rotor in vehicle.rotors):
        found += [lag(way, 1.0) for way in ("rise", "fall")]
    for index, effect in enumerate(vehicle.structure.effects):
        numbers = vehicle.parameters[index]
        if effect in AIR:
            for field in getattr(numbers, "_fields", ()):
                found += _of_field(effect.name, field, getattr(numbers, field))
    return tuple(found)


AIR = (BODY_AXES, WORLD_AXES, ROTOR_DRAG, AIRSPEED_MOMENT)
"""Effects of moving air whose numbers are asked about."""


def _of_field(effect: str, field: str, value: Scalar) -> list[Parameter]:
    """A parameter for each number of a field that is not zero"""
    path = f"{effect}.{field}"
    if isinstance(value, Vec3):
        return [along(path, "", axis, own, "") for axis, own in zip("xyz", value, strict=True) if own != 0.0]
    return [single(path, "", value, "")] if isinstance(value, float) and value != 0.0 else []


def information(vehicle: Vehicle, flown: Flown, parameters: Sequence[Parameter]) -> Array:
    """M of each flight, (n, k + 3, k + 3): the parameters on their scales, then the steady wind [m/s], about none

    A wind that was flown in is left out: nobody knows it, so that it excites nothing.
    """
    moved = [own.moved(vehicle, STEP) for own in parameters]
    lagging = [i for i, own in enumerate(parameters) if own.name.startswith("motor.")]
    speeds, *others = _rotor_speeds([vehicle, *(moved[i] for i in lagging)], flown)
    turning = dict(zip(lagging, others, strict=True))
    lasting = flown.time[::EVERY, None] < flown.durations
    here = _outputs(vehicle, flown, speeds, lasting)
    columns = [(_outputs(own, flown, turning.get(i, speeds), lasting) - here) / STEP for i, own in enumerate(moved)]
    winds = [_outputs(vehicle, flown, speeds, lasting, _along(axis, STEP)) for axis in range(3)]
    columns += [(own - here) / STEP for own in winds]
    sensitivity = np.stack(columns)  # (k + 3, 6, rows of all flights)
    matrices = np.empty((lasting.shape[1], len(columns), len(columns)))
    whose = np.nonzero(lasting.T)[0]
    for lane in range(lasting.shape[1]):
        own = sensitivity[..., whose == lane]
        weighed = whitened(own, noise(vehicle, own[-3:]), EVERY * float(flown.time[1] - flown.time[0]))
        matrices[lane] = np.einsum("aim,bim->ab", weighed, weighed, optimize=True)
    return matrices


class Noise(NamedTuple):
    """σ of each output: white from row to row, and of gusts"""

    white: Array
    gusts: Array


def noise(vehicle: Vehicle, to_wind: Array) -> Noise:
    """σ of specific force [m/s²] and angular acceleration [rad/s²]; of gusts by the sensitivities (3, 6, m) to wind"""
    g = float(vehicle["gravity"].acceleration)
    arm, lever = arm_of(vehicle), float(np.mean([rotor.k_torque / rotor.k_thrust for rotor in vehicle.rotors]))
    own, weight = vehicle.inertia_B, vehicle.mass * g
    torques = weight * np.array([arm / own.xx, arm / own.yy, lever / own.zz])
    white = np.concatenate([[NOISE * g] * 3, np.hypot(NOISE * torques, TURNING)])
    return Noise(white, np.sqrt(np.einsum("a,aim->i", np.square(GUSTS), np.square(to_wind)) / to_wind.shape[-1]))


def whitened(rows: Array, own: Noise, dt: float) -> Array:
    """(x_k − ρ x_{k−1}) / σ of rows (…, 6, m) without their slow mean: σ² = (1 − ρ²) σ_g² + (1 + ρ²) σ_w², ρ = exp(−dt/τ)

    Before the first row there is hover, of which nothing is left without its mean.
    """
    width = 2 * round(0.5 * SLOW / dt) + 1
    along = [(0, 0)] * (rows.ndim - 1)
    held = np.pad(rows, [*along, (width // 2, width // 2)], mode="edge")
    summed = np.cumsum(np.pad(held, [*along, (1, 0)]), axis=-1)
    quick = rows - (summed[..., width:] - summed[..., :-width]) / width
    rho = np.exp(-dt / GUST_TIME)
    before = np.pad(quick, [*along, (1, 0)])[..., :-1]
    sigma = np.sqrt((1.0 - rho**2) * own.gusts**2 + (1.0 + rho**2) * own.white**2)
    result: Array = (quick - rho * before) / sigma[:, None]
    return result


def shortfall(matrix: Array, aims: Array) -> Scalar:
    """Σ ln(1 + (σ/aim)²) over the parameters: what is missing to their aims; of one matrix a number, of several an array

    Far from its aim a parameter counts as in log det, by the part that is gained; one that is well within counts no more.
    """
    return np.log1p(np.square(standard_errors(matrix) / aims)).sum(axis=-1)


def aims_of(parameters: Sequence[Parameter]) -> Array:
    """The standard error to come down to of each parameter, on its scale"""
    return np.array([next((aim for begin, aim in AIMS if own.name.startswith(begin)), AIM) for own in parameters])


def standard_errors(matrix: Array) -> Array:
    """√ of the diagonal of the inverse: each parameter's on its scale, less what was known before, and with the wind unknown"""
    return np.sqrt(np.diagonal(np.linalg.inv(_told(matrix)), axis1=-2, axis2=-1))


def _told(matrix: Array) -> Array:
    k = matrix.shape[-1] - 3
    whole = matrix + np.diag([PRIOR**-2] * k + [WIND**-2] * 3)
    own, cross, wind = whole[..., :k, :k], whole[..., :k, k:], whole[..., k:, k:]
    told: Array = own - cross @ np.linalg.solve(wind, np.swapaxes(cross, -1, -2))
    return told


def _along(axis: int, speed: float) -> Vec3:
    return Vec3(*(speed if own == axis else 0.0 for own in range(3)))


def _rotor_speeds(vehicles: Sequence[Vehicle], flown: Flown) -> Array:
    """The motors of each vehicle driven by the flight's commands from its first speeds on: (vehicles, rotors, m, n)

    Of DC motors as they were flown.
    """
    rotors = len(vehicles[0].rotors)
    speeds = np.repeat(flown.states[None, 13 : 13 + rotors], len(vehicles), axis=0)
    if not all(isinstance(rotor.motor, Lag) for own in vehicles for rotor in own.rotors):
        return speeds
    numbers = np.array([[rotor.motor for rotor in own.rotors] for own in vehicles])  # (vehicles, rotors, fields of Lag)
    every = Lag(*np.moveaxis(numbers, -1, 0)[..., None])
    commands = flown.commands.swapaxes(0, 1)[:, None]
    targets = commands if vehicles[0].structure.actuation.name == "speed" else speed_from_command(commands, every)
    dt = float(flown.time[1] - flown.time[0])  # evenly spaced: the log's period
    up, down = -lag_step(-1.0, 0.0, dt, every), lag_step(1.0, 0.0, dt, every)  # what is left of a step after dt
    for k in range(1, len(flown.time)):
        own, target = speeds[:, :, k - 1], targets[k - 1]
        speeds[:, :, k] = target + (own - target) * np.where(target > own, up, down)
    return speeds


def _outputs(vehicle: Vehicle, flown: Flown, speeds: Array, lasting: Array, wind_W: Vec3 = ZERO) -> Array:
    """Specific force [m/s²] and angular acceleration [rad/s²] in body axes, flight after flight while each lasts: (6, rows)"""
    rows = flown.states[:, ::EVERY].copy()
    rows[13 : 13 + len(speeds)] = speeds[:, ::EVERY]
    rows = rows.swapaxes(1, 2)[:, lasting.T]
    felt = vehicle.without_effect("gravity")
    state: State = State.from_numpy(rows, "wxyz", felt)
    commands = tuple(flown.commands[:, ::EVERY].swapaxes(1, 2)[:, lasting.T])
    total = wrench_in_body_axes(wrench(state, commands, felt, CALM._replace(wind_W=wind_W)), state.q_WB)
    force = total.f_B / vehicle.mass
    turned = angular_acceleration(state.omega_B, total.tau_B, inertia_B=vehicle.inertia_B)
    return np.stack([np.broadcast_to(own, rows.shape[1]) for own in (*force, *turned)])
