"""By how much the clock of the motors is off that of the motion: found where what the motors did explains most of it.

The motors of most vehicles lag behind their command as a first-order system, which looks much like a clock that is late. Both
are asked for at once: for lags from none to a tenth of a second, the shift at which commands explain most of the vertical
force and of the angular acceleration.
"""

from typing import NamedTuple

import numpy as np

from samara.core.algebra import Quat, Vec3, normalize, rotate_inverse
from samara.core.types import Array
from samara.identify.flight_log import FlightLog, Signal
from samara.identify.readers.registry import G

STEP = 0.004  # [s]
LAGS = (0.0, 0.015, 0.03, 0.045, 0.06, 0.08, 0.1)  # [s] of motors
EARLIEST, LATEST = -0.3, 0.3  # [s]
SMOOTHED, SLOW = 0.03, 1.0  # [s]: means over these times are what noise and what drift leave of a signal
LONGEST = 120.0  # [s] that are looked at
_FAINT = 1e-9


class Offset(NamedTuple):
    """How much later [s] than the command says the motion comes by the clocks, the lag of the motors that goes with it [s], and
    the share of the motion's variance that they explain"""

    late: float
    lag: float
    explained: float


def clock_offsets(log: FlightLog, begin: float, end: float) -> dict[str, Offset]:
    """Between the motors and the IMU (`specific_force`, `rate`), and between the motors and the truth (`velocity`)"""
    end = min(end, begin + LONGEST)
    grid = np.arange(begin, end, STEP)
    if len(grid) < 5.0 / STEP:
        return {}
    told = _band(sampled(log.command, grid) ** 2)
    motions = {
        "specific_force": None if log.specific_force is None else sampled(log.specific_force, grid)[2:],
        "rate": None if log.rate is None else np.gradient(sampled(log.rate, grid), STEP, axis=1),
        "velocity": _vertical_force(log, grid),
    }
    return {name: best_offset(told, _band(own)) for name, own in motions.items() if own is not None}


def sampled(signal: Signal, grid: Array) -> Array:
    """The signal between its samples, by straight lines"""
    return np.stack([np.interp(grid, signal.time, row) for row in signal.values])


def _vertical_force(log: FlightLog, grid: Array) -> Array | None:
    """(R(q)⁻¹ (v̇ + g e₃))_z: the specific force that the truth's motion needs, (1, n)"""
    if log.velocity is None or log.attitude is None:
        return None
    a_W = np.gradient(sampled(log.velocity, grid), STEP, axis=1)
    q_WB = normalize(Quat(*sampled(Signal(log.attitude.time, continuous(log.attitude.values)), grid)))
    f_B = rotate_inverse(q_WB, Vec3(a_W[0], a_W[1], a_W[2] + G))
    return np.asarray(f_B.z)[None]


def continuous(q: Array) -> Array:
    """q or −q, the same attitude, whichever is nearer to the one before: between them a straight line means something"""
    turned = (q[:, 1:] * q[:, :-1]).sum(axis=0) < 0.0
    return q * np.concatenate([[1.0], np.where(np.cumsum(turned) % 2, -1.0, 1.0)])


def best_offset(told: Array, motion: Array) -> Offset:
    """The shift s and lag τ at which Σ over the motion's axes of R² is largest, y(t) = Σ bᵢ uᵢ(t − s) filtered with τ

    With cᵢ(s) the covariance of uᵢ(t − s) and y(t), and G that of the commands, R²(s) = c(s)ᵀ G⁻¹ c(s) / var y.
    """
    n = motion.shape[1]
    shifts = np.arange(round(EARLIEST / STEP), round(LATEST / STEP) + 1)
    size = 1 << (n + int(shifts[-1] - shifts[0])).bit_length()  # zeros between the end and the beginning
    turn = np.exp(-2j * np.pi * np.arange(size // 2 + 1) / size)
    moved, given = np.fft.rfft(motion, size), np.fft.rfft(told, size)
    power = max(float((motion * motion).sum()), _FAINT)
    found = Offset(0.0, 0.0, 0.0)
    for lag in LAGS:
        kept = np.exp(-STEP / lag) if lag else 0.0
        spectrum = given * ((1.0 - kept) / (1.0 - kept * turn))  # τ ẋ = u − x
        lagged = np.fft.irfft(spectrum, size)
        inverse = np.linalg.pinv(lagged @ lagged.T, rcond=1e-9, hermitian=True)
        crossed = np.fft.irfft(moved[:, None] * np.conj(spectrum), size)[..., shifts]
        share = np.einsum("kis,ij,kjs->s", crossed, inverse, crossed) / power
        best = int(np.argmax(share))
        if share[best] > found.explained:
            late = float((_peak(share, best) + shifts[0]) * STEP)
            found = Offset(late, lag, min(float(share[best]), 1.0))
    return found


def _peak(values: Array, at: int) -> float:
    """Where the parabola through a largest value and its neighbours is largest"""
    if not 0 < at < len(values) - 1:
        return float(at)
    left, here, right = values[at - 1 : at + 2]
    bend = left - 2.0 * here + right
    return at + (0.5 * (left - right) / bend if bend < 0.0 else 0.0)


def _band(rows: Array) -> Array:
    """What is slower than noise and faster than drift: the same filter for all, so that it moves none against another"""
    return _mean(rows, SMOOTHED) - _mean(rows, SLOW)


def _mean(rows: Array, seconds: float) -> Array:
    """The mean over ±half of these seconds, over fewer samples at the ends"""
    half = max(round(0.5 * seconds / STEP), 1)
    n = rows.shape[1]
    total = np.concatenate([np.zeros((len(rows), 1)), np.cumsum(rows, axis=1)], axis=1)
    low, high = np.maximum(np.arange(n) - half, 0), np.minimum(np.arange(n) + half + 1, n)
    return (total[:, high] - total[:, low]) / (high - low)
