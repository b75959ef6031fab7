"""What ArduCopter's mixer makes of `RATE`, which is logged at every turn of its loop, where `RCOU` comes ten times a second.

    Tᵢ = g (A + sin αᵢ R/2 + cos αᵢ P/2 + sᵢ Y/2),    e u² + (1 − e) u = Tᵢ,    output = spin_min + (spin_max − spin_min) u

R, P, Y and A are `ROut`, `POut`, `YOut` and `AOut`; α and s are a motor's azimuth and spin, sines and cosines over their
largest; e is `MOT_THST_EXPO`. g is what ArduPilot adds for thin air and a flat battery: the one that makes it what `RCOU` says.
Near its limits the mixer gives up yaw and thrust; so what comes out is compared with `RCOU`, and not used where they differ.
"""

import numpy as np

from samara.core.types import Array
from samara.identify.flight_log import Signal
from samara.vehicles.rotor_numbering import NUMBERINGS

OUTPUTS = ("ROut", "POut", "YOut", "AOut")
FRAMES = {(1.0, 4): "quad_x", (2.0, 6): "hexa_x", (3.0, 8): "octo_x"}  # by FRAME_CLASS and motors
X = 1.0  # FRAME_TYPE
EXPO, SPIN_MIN, SPIN_MAX = 0.65, 0.15, 0.95  # unless the log's parameters say otherwise
ALIKE = 0.03  # RMS of the difference to RCOU


def mixed(rate: Signal, outputs: Signal, parameters: dict[str, float]) -> Signal | None:
    """Motors 0 … 1 at the times of RATE, whose rows are R, P, Y and A; None where they are not what RCOU says, or its frame is
    none of those that are known"""
    motors = len(outputs.values)
    frame = FRAMES.get((parameters.get("FRAME_CLASS", 1.0), motors))
    flying = outputs.values.min(axis=0) > 0.0
    if frame is None or parameters.get("FRAME_TYPE", X) != X or flying.sum() < 2:
        return None
    places = NUMBERINGS[frame]["ardupilot"].places
    azimuth = np.radians([own.azimuth_deg for own in places])
    factors = np.stack([_of_its_largest(np.sin(azimuth)), _of_its_largest(np.cos(azimuth))], axis=1)
    weights = np.column_stack([factors, [0.5 * own.spin for own in places], np.ones(motors)])
    thrust = weights @ rate.values
    expo, low, high = (
        parameters.get(name, usual)
        for name, usual in (("MOT_THST_EXPO", EXPO), ("MOT_SPIN_MIN", SPIN_MIN), ("MOT_SPIN_MAX", SPIN_MAX))
    )
    told = outputs.time[flying]
    before = np.clip(np.searchsorted(rate.time, told, side="right") - 1, 0, len(rate.time) - 1)
    held = _thrust((outputs.values[:, flying] - low) / max(high - low, 1e-6), expo)
    gain = float(np.median(held.mean(axis=0) / np.maximum(thrust[:, before].mean(axis=0), 1e-3)))
    values = low + (high - low) * _throttle(np.clip(gain * thrust, 0.0, 1.0), expo)
    if not np.sqrt(np.mean((values[:, before] - outputs.values[:, flying]) ** 2)) < ALIKE:
        return None
    return Signal(rate.time, values)


def _of_its_largest(factors: Array) -> Array:
    """Over its largest, which is a half"""
    return np.asarray(0.5 * factors / np.abs(factors).max())


def _thrust(u: Array, expo: float) -> Array:
    u = np.clip(u, 0.0, 1.0)
    return np.asarray(expo * u * u + (1.0 - expo) * u)


def _throttle(thrust: Array, expo: float) -> Array:
    """The u with e u² + (1 − e) u = T"""
    if abs(expo) < 1e-6:
        return thrust
    return np.asarray((expo - 1.0 + np.sqrt((1.0 - expo) ** 2 + 4.0 * expo * thrust)) / (2.0 * expo))
