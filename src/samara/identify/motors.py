"""Rotor speeds from what motors were told: the first-order lag of `Lag`, driven by a log's commands."""

from functools import lru_cache
from typing import Any

import numpy as np

from samara.backends.scan import Run, Templates
from samara.backends.stepper import Scan, compile_scan
from samara.physics.rotors.actuator import Lag, lag_step

Array = np.ndarray[Any, Any]


def followed(commanded: Array, rise: Any, fall: Any, period: float) -> Array:
    """Ω(t + T) = lag(Ω, Ω_cmd, T): speeds (rotors, n) at every sample, commands (rotors, n) held from each to the next  [rad/s]

    Of several lags at once, `rise` and `fall` (m,), the speeds are (m, rotors, n).
    """
    alone = np.ndim(rise) == 0 and np.ndim(fall) == 0
    up, down = np.broadcast_arrays(*np.atleast_1d(rise, fall))
    rotors, n = commanded.shape
    lanes = rotors * len(up)
    start = np.tile(commanded[:, 0], len(up))[None]
    held = [period, np.repeat(up, rotors).astype(float), np.repeat(down, rotors).astype(float)]
    inputs = np.ascontiguousarray(np.broadcast_to(np.tile(commanded.T[:-1], len(up))[:, None, :], (n - 1, 1, lanes)))
    _, after = _lagging()(start.copy(), held, inputs, n - 1, 1)
    speeds = np.concatenate([start, np.asarray(after)[:, 0]]).T.reshape(len(up), rotors, n)
    return speeds[0] if alone else speeds


@lru_cache(maxsize=1)
def _lagging() -> Run:
    def body(carry: Any, held: Any, inputs: Any) -> Any:
        dt, rise, fall = held
        after = lag_step(carry[0], inputs[0], dt, Lag(0.0, 1.0, rise, fall))
        return (after,), (after,)

    return compile_scan("llvm", Scan(body, Templates((0.0,), (0.01, 0.1, 0.2), (0.0,))))
