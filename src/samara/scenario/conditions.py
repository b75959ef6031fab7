"""Conditions as sentences: "height > 5 and speed < 1", of one drone. Pure, so that they run on floats and can be traced."""

import math
from collections.abc import Callable
from functools import reduce
from typing import Any, NamedTuple

from samara.core.algebra import euler_from_quat
from samara.core.ops import equal, logical_and
from samara.core.quantity import Scalar
from samara.physics.quantities import DEGREES, least_charge, least_voltage, position_error, speed, tilt_deg
from samara.physics.reference import Reference
from samara.physics.types import State
from samara.scenario.snapshot import BatteryStatus


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
    "speed": lambda time, drone: speed(drone.state.v_W),
    "climb": lambda time, drone: drone.state.v_W.z,
    "tilt_deg": lambda time, drone: tilt_deg(drone.state.q_WB),
    "yaw_deg": lambda time, drone: DEGREES * euler_from_quat(drone.state.q_WB).yaw,
    "charge": lambda time, drone: least_charge([battery.charge for battery in drone.batteries]),
    "voltage": lambda time, drone: least_voltage([battery.voltage for battery in drone.batteries]),
    "error": lambda time, drone: position_error(drone.state.p_W, drone.reference.p_W),
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
