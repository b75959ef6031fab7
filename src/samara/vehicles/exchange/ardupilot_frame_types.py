"""ArduPilot's frames: FRAME_CLASS and FRAME_TYPE of our layouts, and which of them a vehicle has."""

import math
from typing import NamedTuple

from samara.physics.types import Vehicle
from samara.vehicles.parts.layouts import LAYOUTS, LOWER, Layout

NEAR = 0.45  # of the angle between two arms: as far as a rotor may be from a frame's


class Frame(NamedTuple):
    """FRAME_CLASS, FRAME_TYPE, and the motors in their order."""

    frame_class: int
    frame_type: int
    layout: Layout


_X = LAYOUTS["quad_x"]
_PROPS_OUT = Layout(  # motors of Betaflight's order, which turn the other way round
    "quad X, props out",
    tuple(_X.mounts[i]._replace(spin=-_X.mounts[i].spin) for i in (3, 0, 1, 2)),
    "ArduPilot AP_MotorsMatrix.cpp, BF_X_REV",
)
FRAMES = {
    "quad_x": Frame(1, 1, _X),
    "quad_plus": Frame(1, 0, LAYOUTS["quad_plus"]),
    "quad_x_props_out": Frame(1, 18, _PROPS_OUT),
    "hexa_x": Frame(2, 1, LAYOUTS["hexa_x"]),
    "hexa_plus": Frame(2, 0, LAYOUTS["hexa_plus"]),
    "octo_x": Frame(3, 1, LAYOUTS["octo_x"]),
    "octo_plus": Frame(3, 0, LAYOUTS["octo_plus"]),
    "x8": Frame(4, 1, LAYOUTS["x8"]),
    "y6": Frame(5, 10, LAYOUTS["y6"]),
}
MODELS = {4: "x", 6: "hexax", 8: "octa"}  # of its simulator; a frame file with places of its own says the rest
USUAL = {4: "quad_x", 6: "hexa_x", 8: "octo_x"}


def motor_order(vehicle: Vehicle, frame: Frame) -> tuple[int, ...] | None:
    """The vehicle's rotors in the order of a frame's motors; None where one does not fit by place and turn"""
    mounts, order = frame.layout.mounts, list[int]()
    if len(mounts) != len(vehicle.rotors):
        return None
    near = NEAR * 2.0 * math.pi / len({mount.name for mount in mounts})
    for mount in mounts:
        at = math.atan2(mount.y, mount.x)
        fits = [
            i
            for i, rotor in enumerate(vehicle.rotors)
            if i not in order
            and rotor.spin == mount.spin
            and abs(math.remainder(math.atan2(rotor.r_B.y, rotor.r_B.x) - at, 2.0 * math.pi)) < near
        ]
        if not fits:
            return None
        pick = min if mount.level == LOWER else max
        order.append(pick(fits, key=lambda i: float(vehicle.rotors[i].r_B.z)))
    return tuple(order)


def frame_of(vehicle: Vehicle) -> tuple[str, tuple[int, ...]] | None:
    """The frame that a vehicle has, and its rotors in the order of its motors"""
    for name, frame in FRAMES.items():
        if order := motor_order(vehicle, frame):
            return name, order
    return None
