"""Windows of a flight: where they begin, what saying nothing new says of them, and how far what was said is from what came."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from samara.core.algebra import Quat, Vec3, angle_between, quat_exp
from samara.core.types import Array

QUANTITIES = ("position", "velocity", "attitude", "rate")
UNITS = ("m", "m/s", "°", "rad/s")


class Windows(NamedTuple):
    """Where windows begin in a flight (N,), how many samples they last, and the time between samples [s]"""

    starts: Array
    samples: int
    period: float


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
