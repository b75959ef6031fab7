"""What a flight tells about a vehicle's numbers: M = Σ Sᵀ W S, S the sensitivities of what an IMU feels to each of them.

The outputs are specific force and angular acceleration, at the states and under the commands of the flight. Their sensitivities
are differences of the vehicle's own equations of motion; those to the motors' lag come from driving the motors with the
flight's commands once more. A steady wind that nobody knows is part of the problem: what it explains as well tells nothing.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from samara.core.algebra import ZERO, Vec3
from samara.physics.effect import wrench_in_body_axes
from samara.physics.motion.body import angular_acceleration
from samara.physics.multirotor import wrench
from samara.physics.rotors.actuator import Lag, lag_step, speed_from_command
from samara.physics.types import CALM, State, Vehicle

Array = np.ndarray[Any, Any]

EVERY = 10  # rows of a flight, of which one is looked at: 25 a second
STEP = 1e-5  # of a parameter's scale, for differences
NOISE = 0.02  # σ of force and torques beside m g, m g arm and m g kM/kF: gusts, vibration, what is not modelled
PRIOR = 0.5  # σ of what is known before, on each parameter's scale
WIND = 3.0  # [m/s]: σ of the steady wind before


class Parameter(NamedTuple):
    """A number of a vehicle: `moved(vehicle, s)` has s times its scale more of it, 1 + s times a positive one"""

    name: str
    moved: Callable[[Vehicle, float], Vehicle]


class Flown(NamedTuple):
    """Flights side by side: times (m,) [s], states (fields, m, n), commands (rotors, m, n) held from each time on, and how long
    each of them lasts (n,) [s]"""

    time: Array
    states: Array
    commands: Array
    durations: Array


def parameters_of(vehicle: Vehicle) -> tuple[Parameter, ...]:
    """What identification asks about: thrust, torque, lag, inertia, centre of mass, drag and what moving air does to rotors"""
    found = [
        Parameter("k_thrust", _times("rotors.k_thrust")),
        Parameter("k_torque", _times("rotors.k_torque")),
        *(Parameter(f"inertia.{axis}", _inertia(axis)) for axis in ("xx", "yy", "zz")),
        *(Parameter(f"centre_of_mass.{axis}", _centre(axis)) for axis in ("x", "y")),
    ]
    if all(isinstance(rotor.motor, Lag) for rotor in vehicle.rotors):
        found += [Parameter(f"motor.{way}", _times(f"rotors.motor.{way}")) for way in ("rise", "fall")]
    for index, effect in enumerate(vehicle.structure.effects):
        numbers = vehicle.parameters[index]
        if effect.name in AIR:
            for field in getattr(numbers, "_fields", ()):
                found += _of_field(effect.name, field, getattr(numbers, field))
    return tuple(found)


AIR = ("drag", "rotor_drag", "airspeed_moment")
"""Effects of moving air whose numbers are asked about."""


def _of_field(effect: str, field: str, value: Any) -> list[Parameter]:
    """A parameter for each number of a field that is not zero"""
    path = f"{effect}.{field}"
    if isinstance(value, Vec3):
        return [Parameter(f"{path}.{axis}", _times(f"{path}.{axis}")) for axis in "xyz" if getattr(value, axis) != 0.0]
    return [Parameter(path, _times(path))] if isinstance(value, float) and value != 0.0 else []


def _times(path: str) -> Callable[[Vehicle, float], Vehicle]:
    """All numbers at a path, 1 + s times what they are"""
    head, _, rest = path.partition(".")

    def moved(vehicle: Vehicle, s: float) -> Vehicle:
        if head == "rotors":
            return replace(vehicle, rotors=tuple(_scaled(own, rest.split("."), s) for own in vehicle.rotors))
        at = vehicle.index(head)
        numbers = _scaled(vehicle.parameters[at], rest.split("."), s)
        return replace(vehicle, parameters=(*vehicle.parameters[:at], numbers, *vehicle.parameters[at + 1 :]))

    return moved


def _scaled(record: Any, path: list[str], s: float) -> Any:
    own = getattr(record, path[0])
    return record._replace(**{path[0]: _scaled(own, path[1:], s) if path[1:] else own * (1.0 + s)})


def _inertia(axis: str) -> Callable[[Vehicle, float], Vehicle]:
    def moved(vehicle: Vehicle, s: float) -> Vehicle:
        own = vehicle.inertia_B
        return replace(vehicle, inertia_B=own._replace(**{axis: getattr(own, axis) * (1.0 + s)}))

    return moved


def _centre(axis: str) -> Callable[[Vehicle, float], Vehicle]:
    """The centre of mass s arms along an axis: all hubs as far the other way"""

    def moved(vehicle: Vehicle, s: float) -> Vehicle:
        shift = s * arm_of(vehicle)
        rotors = tuple(
            own._replace(r_B=own.r_B._replace(**{axis: getattr(own.r_B, axis) - shift})) for own in vehicle.rotors
        )
        return replace(vehicle, rotors=rotors)

    return moved


def arm_of(vehicle: Vehicle) -> float:
    """The mean distance of the hubs from the centre of mass, in the plane  [m]"""
    return float(np.mean([np.hypot(rotor.r_B.x, rotor.r_B.y) for rotor in vehicle.rotors]))


def information(vehicle: Vehicle, flown: Flown, parameters: Sequence[Parameter]) -> Array:
    """M of each flight, (n, k + 3, k + 3): the parameters on their scales, then the steady wind [m/s], about none

    A wind that was flown in is left out: nobody knows it, so that it excites nothing.
    """
    g = float(vehicle["gravity"].acceleration)
    speeds = _rotor_speeds(vehicle, flown)
    here, columns = _outputs(vehicle, flown, speeds), []
    for own in parameters:
        moved = own.moved(vehicle, STEP)
        turning = _rotor_speeds(moved, flown) if own.name.startswith("motor.") else speeds
        columns.append((_outputs(moved, flown, turning) - here) / STEP)
    columns += [(_outputs(vehicle, flown, speeds, _along(axis, STEP)) - here) / STEP for axis in range(3)]
    sensitivity = np.stack(columns)  # (k + 3, 6, m, n)
    arm, lever = arm_of(vehicle), float(np.mean([rotor.k_torque / rotor.k_thrust for rotor in vehicle.rotors]))
    inertia, weight = vehicle.inertia_B, vehicle.mass * g
    torques = np.array([arm / inertia.xx, arm / inertia.yy, lever / inertia.zz])
    sigma = NOISE * np.concatenate([[g] * 3, weight * torques])
    weighed = sensitivity / sigma[:, None, None] * (flown.time[::EVERY, None] < flown.durations)
    return np.einsum("aimn,bimn->nab", weighed, weighed, optimize=True)


def log_det(matrix: Array) -> Any:
    """log det of what is told of the parameters and was known before, less what a steady wind explains: Schur's complement

    Of one matrix a number, of several an array.
    """
    return np.linalg.slogdet(_told(matrix))[1]


def standard_errors(matrix: Array) -> Array:
    """√ of the diagonal of the inverse: each parameter's on its scale"""
    return np.sqrt(np.diagonal(np.linalg.inv(_told(matrix)), axis1=-2, axis2=-1))


def _told(matrix: Array) -> Array:
    k = matrix.shape[-1] - 3
    whole = matrix + np.diag([PRIOR**-2] * k + [WIND**-2] * 3)
    own, cross, wind = whole[..., :k, :k], whole[..., :k, k:], whole[..., k:, k:]
    told: Array = own - cross @ np.linalg.solve(wind, np.swapaxes(cross, -1, -2))
    return told


def _along(axis: int, speed: float) -> Vec3:
    return Vec3(*(speed if own == axis else 0.0 for own in range(3)))


def _rotor_speeds(vehicle: Vehicle, flown: Flown) -> Array:
    """The motors driven by the flight's commands from its first speeds on: (rotors, m, n); of DC motors as they were flown"""
    speeds = flown.states[13 : 13 + len(vehicle.rotors)].copy()
    if not all(isinstance(rotor.motor, Lag) for rotor in vehicle.rotors):
        return speeds
    every = Lag(*(np.array(own)[:, None] for own in zip(*(rotor.motor for rotor in vehicle.rotors), strict=True)))
    commands = flown.commands.swapaxes(0, 1)
    targets = commands if vehicle.structure.actuation.name == "speed" else speed_from_command(commands, every)
    dt = float(flown.time[1] - flown.time[0])  # evenly spaced: the log's period
    up, down = -lag_step(-1.0, 0.0, dt, every), lag_step(1.0, 0.0, dt, every)  # what is left of a step after dt
    for k in range(1, len(flown.time)):
        own, target = speeds[:, k - 1], targets[k - 1]
        speeds[:, k] = target + (own - target) * np.where(target > own, up, down)
    return speeds


def _outputs(vehicle: Vehicle, flown: Flown, speeds: Array, wind_W: Vec3 = ZERO) -> Array:
    """Specific force [m/s²] and angular acceleration [rad/s²] in body axes: (6, m, n)"""
    rows = flown.states[:, ::EVERY].copy()
    rows[13 : 13 + len(speeds)] = speeds[:, ::EVERY]
    shape, felt = rows.shape[1:], vehicle.without_effect("gravity")
    state: State = State.from_numpy(rows.reshape(len(rows), -1), "wxyz", felt)
    commands = tuple(flown.commands[:, ::EVERY].reshape(len(flown.commands), -1))
    total = wrench_in_body_axes(wrench(state, commands, felt, CALM._replace(wind_W=wind_W)), state.q_WB)
    force = total.f_B / vehicle.mass
    turned = angular_acceleration(state.omega_B, total.tau_B, inertia_B=vehicle.inertia_B)
    flat = [np.broadcast_to(own, shape[0] * shape[1]) for own in (*force, *turned)]
    return np.stack(flat).reshape(6, *shape)
