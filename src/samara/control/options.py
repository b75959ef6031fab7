"""Controllers with parameters chosen by name: each is checked before anything is built of it.

    tuned("ilqr", wPosition=60.0, mpcHorizon=30)
    tuned("geometric", position=2.0, attitude=(12.0, 12.0, 4.0), tilt_deg=30.0)
    tuned("policy", file="policy/")

What is not chosen follows from the vehicle, or is document 001's.
"""

import math
from collections.abc import Mapping
from typing import Any

from samara.control.controller_type import ANGLE, is_real
from samara.control.controller_type import Tuned as Tuned
from samara.control.registry import CONTROLLER_TYPES
from samara.core.sanitise import shown


def tuned(controller: str, /, **options: Any) -> Tuned:
    """A controller with numbers chosen by name, or a ValueError with one sentence about the one that does not fit"""
    return Tuned(controller, tuple(sorted(checked(controller, options).items())))


def checked(controller: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """The numbers chosen, as the controller takes them: an unknown name or a value that does not fit is a ValueError"""
    if controller not in CONTROLLER_TYPES:
        raise ValueError(f"no controller {controller!r}; expected one of {', '.join(CONTROLLER_TYPES)}")
    knobs, found = CONTROLLER_TYPES[controller].knobs, {}
    for key, value in options.items():
        name = key.removesuffix("_deg")
        degrees = key != name and knobs.get(name) is ANGLE
        knob = knobs.get(name if degrees else key)
        if knob is None:
            known = f"expected some of {', '.join(knobs)}" if knobs else "it has none"
            raise ValueError(f"{key} = {shown(value)}: {controller} has no such number; {known}")
        own = knob.read(math.radians(value) if degrees and is_real(value) else value)
        if own is None:
            expected = "an angle between 0 and 90 degrees" if degrees else knob.expected
            raise ValueError(f"{key} = {shown(value)}: expected {expected}")
        found[name if degrees else key] = own
    return found
