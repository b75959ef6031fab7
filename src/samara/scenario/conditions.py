"""Conditions as sentences: "height > 5 and speed < 1", of one drone. Pure, so that they run on floats and can be traced."""

import math
from collections.abc import Callable
from functools import reduce
from typing import Any, NamedTuple

from samara.core.algebra import UP, euler_from_quat, norm, rotate
from samara.core.ops import acos, clamp, equal, logical_and, minimum
from samara.core.quantity import Scalar
from samara.physics.reference import Reference
from samara.physics.types import State
from samara.scenario.bus import BatteryStatus

DEGREES = 180.0 / math.pi


class Watched(NamedTuple):
    """What a condition looks at of one drone; a `DroneBus` has it too."""

    state: State
    reference: Reference
    landed: Scalar
    crashed: Scalar
    batteries: tuple[BatteryStatus, ...] = ()


QUANTITIES: dict[str, Callable[[Scalar, Any], Scalar]] = {
    "time": lambda time, drone: time,
    "x": lambda time, drone: drone.state.p_W.x,
    "y": lambda time, drone: drone.state.p_W.y,
    "height": lambda time, drone: drone.state.p_W.z,
    "speed": lambda time, drone: norm(drone.state.v_W),
    "climb": lambda time, drone: drone.state.v_W.z,
    "tilt_deg": lambda time, drone: DEGREES * acos(clamp(rotate(drone.state.q_WB, UP).z, -1.0, 1.0)),
    "yaw_deg": lambda time, drone: DEGREES * euler_from_quat(drone.state.q_WB).yaw,
    "charge": lambda time, drone: _least([own.charge for own in drone.batteries], 1.0),
    "voltage": lambda time, drone: _least([own.voltage for own in drone.batteries], math.inf),
    "error": lambda time, drone: norm(drone.state.p_W - drone.reference.p_W),
    "landed": lambda time, drone: 1.0 * drone.landed,
    "crashed": lambda time, drone: 1.0 * drone.crashed,
}
COMPARISONS: dict[str, Callable[[Scalar, Scalar], Scalar]] = {
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "==": equal,
}


def _least(values: list[Scalar], none: float) -> Scalar:
    return reduce(minimum, values) if values else none


class Comparison(NamedTuple):
    """A quantity of `QUANTITIES`, a sign of `COMPARISONS`, and a number."""

    quantity: str
    sign: str
    limit: float


Sentence = tuple[Comparison, ...]


def holds(sentence: Sentence, time: Scalar, drone: Any) -> Scalar:
    """Whether all of it is true of one drone (a `Watched` or a `DroneBus`) at a time [s]: a condition"""
    return reduce(
        logical_and, (COMPARISONS[sign](QUANTITIES[name](time, drone), limit) for name, sign, limit in sentence)
    )


def read_sentence(text: str) -> Sentence:
    """ "charge < 0.1 and landed == 1" as its comparisons"""
    parts = [part.split() for part in text.split(" and ")]
    for words in parts:
        if len(words) != 3 or words[0] not in QUANTITIES or words[1] not in COMPARISONS or not _is_number(words[2]):
            raise ValueError(
                f"the condition {text!r} is not understood; expected one of {', '.join(QUANTITIES)}, one of "
                f"{' '.join(COMPARISONS)}, and a number, with spaces between them; several joined by `and`"
            )
    return tuple(Comparison(name, sign, float(limit)) for name, sign, limit in parts)


def _is_number(word: str) -> bool:
    try:
        return math.isfinite(float(word))
    except ValueError:
        return False
