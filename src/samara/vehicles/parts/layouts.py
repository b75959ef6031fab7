"""Rotor positions and spins of common frames, by the name of the layout or by coordinates.

Positions are relative to the centre of the rotors, x forward, y to the left, in units of half the diagonal. The order is
that of ArduPilot, which is PX4's for quad X and +, hexa X and octo X; for other systems see
`samara.vehicles.rotor_numbering`.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from samara.core.algebra import Vec3
from samara.core.sanitise import quote_value
from samara.physics.rotors.rotor import Rotor
from samara.physics.types import Vehicle
from samara.vehicles.rotor_numbering import CCW, CW, NUMBERINGS

UPPER, SINGLE, LOWER = 1, 0, -1
_SAME_ARM_FRACTION = 1e-6  # of the diagonal: hubs closer than this in plan view share an arm


class Mount(NamedTuple):
    """Position of a rotor in units of half the diagonal, its spin (+1 counter-clockwise seen from above), its level (upper or
    lower rotor of a coaxial pair), and whether a servo tilts it about the arm."""

    name: str
    x: float
    y: float
    spin: int
    level: int = SINGLE
    tilting: bool = False


class RotorLayout(NamedTuple):
    """The rotors of a frame, its title and the source of its order."""

    title: str
    mounts: tuple[Mount, ...]
    source: str


class Hub(NamedTuple):
    """A rotor's hub on a frame of known size: position from the centre of the rotors [m], spin, level and tilt."""

    name: str
    position: Vec3
    spin: int
    level: int = SINGLE
    tilting: bool = False


def _parse_mounts(text: str, arm_lengths: Mapping[str, float] | None = None) -> tuple[Mount, ...]:
    """Parse mounts: FR@-45+ is a rotor FR, 45° to the right of forward, counter-clockwise; u and l are upper and lower."""
    mounts = []
    for mount_text in text.split():
        name, _, code = mount_text.partition("@")
        level = {"u": UPPER, "l": LOWER}.get(code[-1], SINGLE)
        code = code.rstrip("ul")
        azimuth, arm_length = math.radians(float(code[:-1])), (arm_lengths or {}).get(name, 1.0)
        spin = CCW if code[-1] == "+" else CW
        mounts.append(Mount(name, arm_length * math.cos(azimuth), arm_length * math.sin(azimuth), spin, level))
    return tuple(mounts)


def _numbered_mounts(frame: str) -> tuple[Mount, ...]:
    numbered = NUMBERINGS[frame]["px4"].rotors
    angles = [math.radians(rotor.azimuth_deg) for rotor in numbered]
    return tuple(
        Mount(rotor.name, math.cos(a), math.sin(a), rotor.spin) for rotor, a in zip(numbered, angles, strict=True)
    )


_ARDUPILOT = "ArduPilot AP_MotorsMatrix.cpp"
_PX4_AND_ARDUPILOT = "PX4 and ArduPilot"
_BACK_ARM_FRACTION = 0.894  # of the front arms' length: a frame that keeps its propellers out of the camera's view
LAYOUTS: Mapping[str, RotorLayout] = {
    "quad_x": RotorLayout("quad X", _numbered_mounts("quad_x"), _PX4_AND_ARDUPILOT),
    "quad_plus": RotorLayout("quad +", _parse_mounts("R@-90+ L@90+ F@0- B@180-"), _PX4_AND_ARDUPILOT),
    "quad_h": RotorLayout(
        "quad H", _parse_mounts("FR@-40+ BL@140+ FL@40- BR@-140-"), f"{_PX4_AND_ARDUPILOT}, quad X; longer than wide"
    ),
    "deadcat": RotorLayout(
        "deadcat",
        _parse_mounts("FR@-58+ BL@129+ FL@58- BR@-129-", {"BL": _BACK_ARM_FRACTION, "BR": _BACK_ARM_FRACTION}),
        f"{_PX4_AND_ARDUPILOT}, quad X; wide in front, as the 3DR Iris is",
    ),
    "hexa_x": RotorLayout("hexa X", _numbered_mounts("hexa_x"), _PX4_AND_ARDUPILOT),
    "hexa_plus": RotorLayout(
        "hexa +", _parse_mounts("F@0- B@180+ BL@120- FR@-60+ FL@60+ BR@-120-"), _PX4_AND_ARDUPILOT
    ),
    "octo_x": RotorLayout("octo X", _numbered_mounts("octo_x"), _PX4_AND_ARDUPILOT),
    "octo_plus": RotorLayout(
        "octo +", _parse_mounts("F@0- B@180- FR@-45+ BR@-135+ FL@45+ BL@135+ L@90- R@-90-"), _PX4_AND_ARDUPILOT
    ),
    "x8": RotorLayout(
        "X8, coaxial",
        _parse_mounts("FR@-45+u FL@45-u BL@135+u BR@-135-u FL@45+l FR@-45-l BR@-135+l BL@135-l"),
        f"{_ARDUPILOT}, octo-quad X",
    ),
    "y6": RotorLayout(
        "Y6, coaxial", _parse_mounts("FR@-60-u FR@-60+l B@180-u B@180+l FL@60-u FL@60+l"), f"{_ARDUPILOT}, Y6B"
    ),
    "tricopter": RotorLayout(
        "tricopter with a yaw servo",
        (*_parse_mounts("FR@-60+ FL@60-"), Mount("B", -1.0, 0.0, CCW, tilting=True)),
        "ArduPilot AP_MotorsTri.cpp: motors 1, 2 and 4",
    ),
}
"""By name; `-` and spaces are equivalent to `_`."""

ALIASES = {
    "x": "quad_x",
    "+": "quad_plus",
    "quad+": "quad_plus",
    "h": "quad_h",
    "quad": "quad_x",
    "hexa": "hexa_x",
    "hexa+": "hexa_plus",
    "octo": "octo_x",
    "octo+": "octo_plus",
    "tri": "tricopter",
}


def find_layout(name: str) -> RotorLayout:
    """Return the layout of that name; raise a ValueError that lists all layouts if there is none."""
    key = name.strip().lower().replace("-", "_").replace(" ", "_").replace("_+", "_plus")
    layout = LAYOUTS.get(ALIASES.get(key, key))
    if layout is None:
        raise ValueError(
            f"layout = {quote_value(name)}: expected one of {', '.join(LAYOUTS)}, or rotors by coordinates"
        )
    return layout


def layout_hubs(layout: RotorLayout, diagonal: float, gap: float) -> tuple[Hub, ...]:
    """Return the hubs of a frame with this diagonal; the discs of a coaxial pair are `gap` apart, centred on the frame  [m]."""
    half = 0.5 * diagonal
    return tuple(
        Hub(
            _hub_name(mount),
            Vec3(half * mount.x, half * mount.y, 0.5 * gap * mount.level),
            mount.spin,
            mount.level,
            mount.tilting,
        )
        for mount in layout.mounts
    )


def _hub_name(mount: Mount) -> str:
    return mount.name + {UPPER: " upper", LOWER: " lower"}.get(mount.level, "")


def coordinate_hubs(coordinates: Sequence[tuple[Vec3, int]]) -> tuple[Hub, ...]:
    """Return hubs at these coordinates [m] and spins; two rotors above each other are a coaxial pair."""
    frame_radius = max((math.hypot(position.x, position.y) for position, _ in coordinates), default=0.0)
    hubs = []
    for i, (position, spin) in enumerate(coordinates):
        level = SINGLE
        for other_position, _ in (*coordinates[:i], *coordinates[i + 1 :]):
            if math.hypot(position.x - other_position.x, position.y - other_position.y) <= _SAME_ARM_FRACTION * max(
                frame_radius, 1e-3
            ):
                level = UPPER if position.z > other_position.z else LOWER
        hubs.append(Hub(f"rotor {i}", position, spin, level))
    return tuple(hubs)


def match_rotors(
    vehicle: Vehicle, mounts: Sequence[Mount], is_near: Callable[[Rotor, Mount], bool]
) -> tuple[int, ...] | None:
    """Return the vehicle's rotors in the order of the mounts, matched by position and spin; None if one does not match.

    Of a coaxial pair a lower mount takes the lower rotor, any other the upper one.
    """
    order: list[int] = []
    for mount in mounts if len(mounts) == len(vehicle.rotors) else ():
        unmatched = [i for i in range(len(mounts)) if i not in order and vehicle.rotors[i].spin == mount.spin]
        candidates = [i for i in unmatched if is_near(vehicle.rotors[i], mount)]
        if not candidates:
            return None
        pick = min if mount.level == LOWER else max
        order.append(pick(candidates, key=lambda i: float(vehicle.rotors[i].r_B.z)))
    return tuple(order) or None


def min_rotor_spacing(hubs: Sequence[Hub]) -> float:
    """Smallest distance in plan view of two rotors that are not a coaxial pair  [m]; ∞ if there are none."""
    distances = [
        math.hypot(a.position.x - b.position.x, a.position.y - b.position.y)
        for i, a in enumerate(hubs)
        for b in hubs[i + 1 :]
    ]
    frame_radius = max((math.hypot(hub.position.x, hub.position.y) for hub in hubs), default=0.0)
    return min(
        (distance for distance in distances if distance > _SAME_ARM_FRACTION * max(frame_radius, 1e-3)),
        default=math.inf,
    )
