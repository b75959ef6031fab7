"""Which numbers of each controller may be chosen by name: checked one by one, before anything is built of them.

    tuned("ilqr", wPosition=60.0, mpcHorizon=30)
    tuned("geometric", position=2.0, attitude=(12.0, 12.0, 4.0), tilt_deg=30.0)
    tuned("policy", file="policy/")

What is not chosen follows from the vehicle, or is document 001's.
"""

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from samara.control.firmware.kinds import NAMES as CRAZYFLIE
from samara.control.gains import Gains
from samara.control.ilqr.cost import Weights
from samara.control.ilqr.reference import Shaping
from samara.control.pid import PidGains
from samara.control.policy_file import Policy, load_policy
from samara.core.algebra import Vec3
from samara.core.integrate import RUNGE_KUTTA
from samara.core.number import Number, plain
from samara.core.printable import shown
from samara.core.quantity import LARGEST
from samara.world.track import Track, load_track


class Tuned(NamedTuple):
    """A controller's name, and what was chosen of it by name."""

    name: str
    options: tuple[tuple[str, Any], ...] = ()

    @property
    def chosen(self) -> dict[str, Any]:
        return dict(self.options)


class Knob(NamedTuple):
    """What a number must be, in words, and the number itself of what was given; None where it is not one."""

    expected: str
    read: Callable[[Any], Any]


def _real(value: Any) -> bool:
    if not isinstance(value, (int, float, Number)) or isinstance(value, bool):
        return False
    size: Any = abs(value)
    return bool(size <= LARGEST)


def _number(expected: str, fits: Callable[[float], bool]) -> Knob:
    return Knob(expected, lambda value: plain(value) if _real(value) and fits(value) else None)


def _choice(*words: str) -> Knob:
    return Knob(f"one of {', '.join(words)}", lambda value: value if value in words else None)


def _policy(value: Any) -> Policy | None:
    """The policy itself, or that of a folder: PolicyError where there is something wrong with it"""
    return value if isinstance(value, Policy) else load_policy(value) if isinstance(value, (str, Path)) else None


def _track(value: Any) -> Track | None:
    """The track itself, or that of a name or a file: TrackError where there is something wrong with it"""
    return value if isinstance(value, Track) else load_track(value) if isinstance(value, (str, Path)) else None


def _numbers(value: Any) -> tuple[Any, ...] | None:
    fits = isinstance(value, (list, tuple)) and all(map(_real, value))
    return tuple(plain(x) for x in value) if fits else None


def _three(value: Any) -> Vec3 | None:
    fits = isinstance(value, (list, tuple)) and len(value) == 3 and all(_real(x) and x > 0.0 for x in value)
    return Vec3(*(plain(x) for x in value)) if fits else None


POSITIVE = _number("a positive number", lambda x: x > 0.0)
NOT_NEGATIVE = _number("a number that is not negative", lambda x: x >= 0.0)
SHARE = _number("a number from 0 to 1", lambda x: 0.0 <= x <= 1.0)
ANGLE = _number("an angle between 0 and π/2 rad", lambda x: 0.0 < x < 0.5 * math.pi)
THREE = Knob("three positive numbers", _three)
FLAG = Knob("true or false", lambda value: value if isinstance(value, bool) else None)
WHOLE = Knob(
    "a whole number, at least 1",
    lambda value: value if isinstance(value, int) and not isinstance(value, bool) and value >= 1 else None,
)
POLICY = Knob("a policy folder", _policy)

TRACK = Knob("a track by its name or its file", _track)
NUMBERS = Knob("finite numbers in a list", _numbers)

LIMITS = {"tilt": ANGLE, "speed": POSITIVE}
_FREQUENCIES = {"position": POSITIVE, "attitude": THREE}
LOOPS = {**_FREQUENCIES, "lead": NOT_NEGATIVE}
_VECTORS = ("attitude", "rate", "rate_integral", "trim")
_ILQR = dict.fromkeys((*Weights._fields, *Shaping._fields), NOT_NEGATIVE)

KNOBS: dict[str, dict[str, Knob]] = {
    "geometric": {**LOOPS, **LIMITS, "integral": FLAG},
    "pid": {**{name: THREE if name in _VECTORS else NOT_NEGATIVE for name in PidGains._fields}, **LIMITS},
    "mellinger": {**LOOPS, **LIMITS, "integral": FLAG},
    "lqr": {**_FREQUENCIES, **LIMITS, "along": FLAG},
    "indi": {**LOOPS, **LIMITS},
    "ilqr": {
        **_ILQR,
        "maxRefVelocity": POSITIVE,
        "maxRefAcceleration": POSITIVE,
        "refFollow": SHARE,
        "mpcHorizon": WHOLE,
        "predictionDt": POSITIVE,
        "controlIterations": WHOLE,
        "integrator": _choice(*RUNGE_KUTTA),
        "inputs": _choice("wrench", "rotors"),
        "maxTilt": ANGLE,
        "pushSmoothing": NOT_NEGATIVE,
    },
    "policy": {"file": POLICY, "track": TRACK, "course": NUMBERS},
    "universal": {},
    "racer": {"track": TRACK, "course": NUMBERS},
    "navigate": {},
    "raptor": {},
    **{name: {} for name in CRAZYFLIE},
}
"""By controller, in SI units; an angle may also be given in degrees, with `_deg` behind its name."""

assert set(LOOPS) == set(Gains._fields)


def tuned(controller: str, /, **options: Any) -> Tuned:
    """A controller with numbers chosen by name, or a ValueError with one sentence about the one that does not fit"""
    return Tuned(controller, tuple(sorted(checked(controller, options).items())))


def checked(controller: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """The numbers chosen, as the controller takes them: an unknown name or a value that does not fit is a ValueError"""
    if controller not in KNOBS:
        raise ValueError(f"no controller {controller!r}; expected one of {', '.join(KNOBS)}")
    knobs, found = KNOBS[controller], {}
    for key, value in options.items():
        name = key.removesuffix("_deg")
        degrees = key != name and knobs.get(name) is ANGLE
        knob = knobs.get(name if degrees else key)
        if knob is None:
            known = f"expected some of {', '.join(knobs)}" if knobs else "it has none"
            raise ValueError(f"{key} = {shown(value)}: {controller} has no such number; {known}")
        own = knob.read(math.radians(value) if degrees and _real(value) else value)
        if own is None:
            expected = "an angle between 0 and 90 degrees" if degrees else knob.expected
            raise ValueError(f"{key} = {shown(value)}: expected {expected}")
        found[name if degrees else key] = own
    return found
