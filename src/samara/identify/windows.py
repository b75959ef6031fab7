"""Open-loop windows: a model starts from measured states, hears the recorded commands, and says what comes next.

All windows of a flight run at once, in the lanes of one batch.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from samara.backends.simulator import Simulator
from samara.core.algebra import Quat, Vec3, angle_between, quat_exp
from samara.core.tree import flatten
from samara.physics.multirotor import at_rest
from samara.physics.types import BODY, Command, Vehicle

STEP = 1e-3  # [s]
QUANTITIES = ("position", "velocity", "attitude", "rate")
UNITS = ("m", "m/s", "°", "rad/s")

Array = np.ndarray[Any, Any]


class Windows(NamedTuple):
    """Where windows begin in a flight (N,), how many samples they last, and the time between samples [s]"""

    starts: Array
    samples: int
    period: float


def windows_in(time: Array, usable: Array, *, period: float, samples: int, stride: int) -> Windows:
    """Every `stride` samples, where all of a window is usable and its samples follow each other within a tenth of a period"""
    even = np.abs(np.diff(time) - period) < 0.1 * period
    good = usable[:-1] & usable[1:] & even
    run = np.concatenate([[0], np.cumsum(good)])
    first = np.arange(0, len(time) - samples, stride)
    return Windows(first[run[first + samples] - run[first] == samples], samples, period)


def rotor_history(
    body: Array, commands: Command, simulator: Simulator, period: float, vehicle: Vehicle | None = None
) -> Array:
    """Rotor speeds at every sample (rotors, n): the model's motors under the commands before, on the measured body"""
    rotors = len(simulator.vehicle.rotors)
    buffer = np.array(flatten(at_rest(simulator.vehicle)), dtype=float)
    speeds = np.zeros((rotors, body.shape[1]))
    for k in range(body.shape[1] - 1):
        buffer[:BODY] = body[:, k]
        told = tuple(float(command[k]) for command in commands)
        simulator.step_into(buffer, told, STEP, round(period / STEP), vehicle=vehicle)
        speeds[:, k + 1] = buffer[BODY : BODY + rotors]
    return speeds


def predicted(
    body: Array,
    speeds: Array,
    commands: Command,
    windows: Windows,
    simulator: Simulator,
    vehicle: Vehicle | None = None,
    *,
    attitude_given: bool = False,
) -> Array:
    """What the model says: (samples + 1, 13, N), beginning with what was measured

    With the attitude given, it is given attitude and rate at every sample, and predicts position and velocity.
    """
    starts = windows.starts
    buffer = np.repeat(np.array(flatten(at_rest(simulator.vehicle)), dtype=float)[:, None], len(starts), axis=1)
    buffer[:BODY] = body[:, starts]
    buffer[BODY : BODY + len(speeds)] = speeds[:, starts]
    said = [buffer[:BODY].copy()]
    for k in range(windows.samples):
        told = tuple(np.ascontiguousarray(command[starts + k]) for command in commands)
        simulator.step_into(buffer, told, STEP, round(windows.period / STEP), vehicle=vehicle)
        if attitude_given:
            buffer[6:BODY] = body[6:, starts + k + 1]
        said.append(buffer[:BODY].copy())
    return np.stack(said)


def measured(body: Array, windows: Windows) -> Array:
    """What came: (samples + 1, 13, N)"""
    return np.stack([body[:, windows.starts + k] for k in range(windows.samples + 1)])


def held(body: Array, windows: Windows) -> Array:
    """Nothing changes"""
    return np.repeat(body[:, windows.starts][None], windows.samples + 1, axis=0)


def coasted(body: Array, windows: Windows) -> Array:
    """p + v t,  q ⊗ exp(ω t): nothing accelerates"""
    said = held(body, windows)
    time = windows.period * np.arange(windows.samples + 1)[:, None]
    p, v, q, omega = said[:, 0:3], said[:, 3:6], said[:, 6:10], said[:, 10:13]
    p += v * time[:, None]
    turned = Quat(*np.moveaxis(q, 1, 0)) * quat_exp(Vec3(*np.moveaxis(omega, 1, 0)) * time)
    said[:, 6:10] = np.stack(turned, axis=1)
    return said


def errors(said: Array, came: Array) -> dict[str, Array]:
    """|Δp| [m], |Δv| [m/s], the angle between the attitudes [°], |Δω| [rad/s]: (samples + 1, N) each"""
    apart = np.degrees(angle_between(*(Quat(*np.moveaxis(own[:, 6:10], 1, 0)) for own in (said, came))))
    parts = (slice(0, 3), slice(3, 6), None, slice(10, 13))
    return {
        name: apart if part is None else np.linalg.norm(said[:, part] - came[:, part], axis=1)
        for name, part in zip(QUANTITIES, parts, strict=True)
    }


BASELINES: dict[str, Callable[[Array, Windows], Array]] = {"hold the state": held, "constant velocity": coasted}
