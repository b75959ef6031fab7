"""Where ArduPilot's frames have their motors: degrees clockwise from ahead, and which way each turns.

In the order of its motor numbers, as `AP_MotorsMatrix` and its simulator have them. Of motors on one arm the second in the
list is the lower one.
"""

import math
from typing import NamedTuple

from samara.physics.types import Vehicle

CCW, CW = 1, -1
NEAR = 0.45  # of the angle between two arms


class FramePlace(NamedTuple):
    """Degrees clockwise from ahead, seen from above, and +1 for counter-clockwise."""

    degrees: float
    spin: int


class Frame(NamedTuple):
    """FRAME_CLASS, FRAME_TYPE, and the motors."""

    frame_class: int
    frame_type: int
    places: tuple[FramePlace, ...]


def _frame(frame_class: int, frame_type: int, *places: tuple[float, int]) -> Frame:
    return Frame(frame_class, frame_type, tuple(FramePlace(*own) for own in places))


FRAMES = {
    "quad-x": _frame(1, 1, (45, CCW), (-135, CCW), (-45, CW), (135, CW)),
    "quad-plus": _frame(1, 0, (90, CCW), (-90, CCW), (0, CW), (180, CW)),
    "quad-betaflight-x": _frame(1, 12, (135, CW), (45, CCW), (-135, CCW), (-45, CW)),
    "quad-betaflight-x-reversed": _frame(1, 18, (135, CCW), (45, CW), (-135, CW), (-45, CCW)),
    "hexa-x": _frame(2, 1, (90, CW), (-90, CCW), (-30, CW), (150, CCW), (30, CCW), (-150, CW)),
    "hexa-plus": _frame(2, 0, (0, CW), (180, CCW), (-120, CW), (60, CCW), (-60, CCW), (120, CW)),
    "octa-x": _frame(
        3, 1, (22.5, CW), (-157.5, CW), (67.5, CCW), (157.5, CCW), (-22.5, CCW), (-112.5, CCW), (-67.5, CW), (112.5, CW)
    ),
    "octa-plus": _frame(3, 0, (0, CW), (180, CW), (45, CCW), (135, CCW), (-45, CCW), (-135, CCW), (-90, CW), (90, CW)),
    "octa-quad-x": _frame(
        4, 1, (45, CCW), (-45, CW), (-135, CCW), (135, CW), (-45, CCW), (45, CW), (135, CCW), (-135, CW)
    ),
}
USUAL = {4: "quad-x", 6: "hexa-x", 8: "octa-x"}


def motor_order(vehicle: Vehicle, frame: Frame) -> tuple[int, ...] | None:
    """The vehicle's rotors in the order of a frame's motors; None where one does not fit by place and turn"""
    order: list[int] = []
    near = NEAR * 2.0 * math.pi / len({place.degrees for place in frame.places})
    for place in frame.places:
        at = -math.radians(place.degrees)
        fits = [
            i
            for i, rotor in enumerate(vehicle.rotors)
            if i not in order
            and rotor.spin == place.spin
            and abs(math.remainder(math.atan2(rotor.r_B.y, rotor.r_B.x) - at, 2.0 * math.pi)) < near
        ]
        if not fits:
            return None
        order.append(max(fits, key=lambda i: float(vehicle.rotors[i].r_B.z)))
    return tuple(order) if len(order) == len(vehicle.rotors) else None


def frame_of(vehicle: Vehicle) -> tuple[str, tuple[int, ...]] | None:
    """The frame that a vehicle has, and its rotors in that order"""
    for name, frame in FRAMES.items():
        if len(frame.places) == len(vehicle.rotors) and (order := motor_order(vehicle, frame)):
            return name, order
    return None
