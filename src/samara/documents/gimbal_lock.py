"""The warning of documents 002 and 004's Euler angles near θ = ±90°."""

import warnings
from typing import Any

import numpy as np

NEAR_GIMBAL_LOCK = 1e-3  # |cos θ| below which a warning is given; document 002's threshold


class GimbalLockWarning(UserWarning):
    """The pitch is within 0.06° of ±90°, where Euler angles have no rates."""


def warn_near_gimbal_lock(pitch: Any, advice: str, stacklevel: int) -> None:
    """Warn if |cos θ| < 0.001 for a number or any element of an array [rad]; traced scalars are skipped."""
    if not isinstance(pitch, (float, np.ndarray, np.generic)):
        return
    if np.any(np.abs(np.cos(pitch)) < NEAR_GIMBAL_LOCK):
        warnings.warn(
            f"|cos θ| < {NEAR_GIMBAL_LOCK:g}: near gimbal lock the rates of φ and ψ grow without bound; {advice}",
            GimbalLockWarning,
            stacklevel=stacklevel + 1,
        )
