"""Where the rotors of a frame are and which way they turn: by the name of the layout, or by coordinates.

Places are seen from the middle of the rotors, x forward, y to the left, one half of the diagonal long. The order is that of
ArduPilot, which is PX4's for quad X and +, hexa X and octo X; the numbers of others are in `samara.vehicles.rotor_numbering`.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from samara.core.algebra import Vec3
from samara.core.sanitise import shown
from samara.physics.rotors.rotor import Rotor
from samara.physics.types import Vehicle
from samara.vehicles.rotor_numbering import CCW, CW, NUMBERINGS

UPPER, SINGLE, LOWER = 1, 0, -1
_SAME_ARM = 1e-6  # of the diagonal: hubs nearer than this, seen from above, share an arm


class Mount(NamedTuple):
    """A rotor's place in units of half the diagonal, its spin (+1 counter-clockwise seen from above), whether it is the upper
    or the lower one of a coaxial pair, and whether a servo tilts it about the arm."""

    name: str
    x: float
    y: float
    spin: int
    level: int = SINGLE
    tilting: bool = False


class Layout(NamedTuple):
    """The rotors of a frame, and what it is called."""

    title: str
    mounts: tuple[Mount, ...]
    source: str


class Hub(NamedTuple):
    """A rotor's hub on a frame of a known size: its place from the middle of the rotors [m], spin, level and tilt."""

    name: str
    place: Vec3
    spin: int
    level: int = SINGLE
    tilting: bool = False


def _around(text: str, reach: Mapping[str, float] | None = None) -> tuple[Mount, ...]:
    """FR-45+ is a rotor FR, 45° to the right of forward, that turns counter-clockwise; u and l are upper and lower ones."""
    mounts = []
    for word in text.split():
        name, _, rest = word.partition("@")
        level = {"u": UPPER, "l": LOWER}.get(rest[-1], SINGLE)
        rest = rest.rstrip("ul")
        azimuth, far = math.radians(float(rest[:-1])), (reach or {}).get(name, 1.0)
        spin = CCW if rest[-1] == "+" else CW
        mounts.append(Mount(name, far * math.cos(azimuth), far * math.sin(azimuth), spin, level))
    return tuple(mounts)


def _numbered(frame: str) -> tuple[Mount, ...]:
    places = NUMBERINGS[frame]["px4"].places
    angles = [math.radians(place.azimuth_deg) for place in places]
    return tuple(Mount(own.name, math.cos(a), math.sin(a), own.spin) for own, a in zip(places, angles, strict=True))


_ARDUPILOT = "ArduPilot AP_MotorsMatrix.cpp"
_BOTH = "PX4 and ArduPilot"
_BACK = 0.894  # of the front arms' length: a frame whose propellers stay out of the camera's view
LAYOUTS: Mapping[str, Layout] = {
    "quad_x": Layout("quad X", _numbered("quad_x"), _BOTH),
    "quad_plus": Layout("quad +", _around("R@-90+ L@90+ F@0- B@180-"), _BOTH),
    "quad_h": Layout("quad H", _around("FR@-40+ BL@140+ FL@40- BR@-140-"), f"{_BOTH}, quad X; longer than wide"),
    "deadcat": Layout(
        "deadcat",
        _around("FR@-58+ BL@129+ FL@58- BR@-129-", {"BL": _BACK, "BR": _BACK}),
        f"{_BOTH}, quad X; wide in front, as the 3DR Iris is",
    ),
    "hexa_x": Layout("hexa X", _numbered("hexa_x"), _BOTH),
    "hexa_plus": Layout("hexa +", _around("F@0- B@180+ BL@120- FR@-60+ FL@60+ BR@-120-"), _BOTH),
    "octo_x": Layout("octo X", _numbered("octo_x"), _BOTH),
    "octo_plus": Layout("octo +", _around("F@0- B@180- FR@-45+ BR@-135+ FL@45+ BL@135+ L@90- R@-90-"), _BOTH),
    "x8": Layout(
        "X8, coaxial",
        _around("FR@-45+u FL@45-u BL@135+u BR@-135-u FL@45+l FR@-45-l BR@-135+l BL@135-l"),
        f"{_ARDUPILOT}, octo-quad X",
    ),
    "y6": Layout("Y6, coaxial", _around("FR@-60-u FR@-60+l B@180-u B@180+l FL@60-u FL@60+l"), f"{_ARDUPILOT}, Y6B"),
    "tricopter": Layout(
        "tricopter with a yaw servo",
        (*_around("FR@-60+ FL@60-"), Mount("B", -1.0, 0.0, CCW, tilting=True)),
        "ArduPilot AP_MotorsTri.cpp: motors 1, 2 and 4",
    ),
}
"""By name; `-` and spaces may stand for `_`."""

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


def layout_named(name: str) -> Layout:
    """The layout of that name, or a ValueError that lists them"""
    plain = name.strip().lower().replace("-", "_").replace(" ", "_").replace("_+", "_plus")
    found = LAYOUTS.get(ALIASES.get(plain, plain))
    if found is None:
        raise ValueError(f"layout = {shown(name)}: expected one of {', '.join(LAYOUTS)}, or rotors by coordinates")
    return found


def hubs_of(layout: Layout, diagonal: float, gap: float) -> tuple[Hub, ...]:
    """The mounts on a frame with this diagonal; the discs of a coaxial pair are `gap` apart, the frame between them  [m]"""
    half = 0.5 * diagonal
    return tuple(
        Hub(_suffixed(own), Vec3(half * own.x, half * own.y, 0.5 * gap * own.level), own.spin, own.level, own.tilting)
        for own in layout.mounts
    )


def _suffixed(own: Mount) -> str:
    return own.name + {UPPER: " upper", LOWER: " lower"}.get(own.level, "")


def hubs_at(places: Sequence[tuple[Vec3, int]]) -> tuple[Hub, ...]:
    """Rotors by their coordinates [m] and spins; two above each other are a coaxial pair"""
    reach = max((math.hypot(place.x, place.y) for place, _ in places), default=0.0)
    hubs = []
    for i, (place, spin) in enumerate(places):
        level = SINGLE
        for other, _ in (*places[:i], *places[i + 1 :]):
            if math.hypot(place.x - other.x, place.y - other.y) <= _SAME_ARM * max(reach, 1e-3):
                level = UPPER if place.z > other.z else LOWER
        hubs.append(Hub(f"rotor {i}", place, spin, level))
    return tuple(hubs)


def match_rotors(
    vehicle: Vehicle, mounts: Sequence[Mount], is_near: Callable[[Rotor, Mount], bool]
) -> tuple[int, ...] | None:
    """The vehicle's rotors in the order of the mounts, by place and spin; None where one does not fit

    Of a coaxial pair a lower mount takes the lower rotor, any other the upper one.
    """
    order: list[int] = []
    for mount in mounts if len(mounts) == len(vehicle.rotors) else ():
        free = [i for i in range(len(mounts)) if i not in order and vehicle.rotors[i].spin == mount.spin]
        fits = [i for i in free if is_near(vehicle.rotors[i], mount)]
        if not fits:
            return None
        pick = min if mount.level == LOWER else max
        order.append(pick(fits, key=lambda i: float(vehicle.rotors[i].r_B.z)))
    return tuple(order) or None


def nearest_beside(hubs: Sequence[Hub]) -> float:
    """The least distance, seen from above, of two rotors that are not a coaxial pair  [m]; ∞ where there are none"""
    flat = [math.hypot(a.place.x - b.place.x, a.place.y - b.place.y) for i, a in enumerate(hubs) for b in hubs[i + 1 :]]
    reach = max((math.hypot(hub.place.x, hub.place.y) for hub in hubs), default=0.0)
    return min((own for own in flat if own > _SAME_ARM * max(reach, 1e-3)), default=math.inf)
