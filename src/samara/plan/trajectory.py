"""Where to be at every time: hover, legs, line, circle, figure of eight, Lissajous, helix, take-off, landing, race.

A trajectory is a name, a duration and a pure function from time to `Reference`, exact to the snap. Time is a float, a NumPy
array (a thousand references are one call), or a symbol of any backend, as flights compile it. Before its start a trajectory
rests at its first place, after its end at its last.
Places are in the world (ENU) [m], speeds in m/s, accelerations in m/s², angles in rad, times in s.

A `yaw` is one angle for all the way, or "along": the nose along the path, seen from above. Where a curve is flown at a
`speed`, that is its largest, and `acceleration` the largest along the path while it gathers that speed and loses it.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from numbers import Real
from typing import Annotated, NamedTuple

import numpy as np

from samara.core.algebra import UP, ZERO, Vec3, norm
from samara.core.coerce import Acceleration, Laps, Length, Limits, Place, Seconds, Speed, Three
from samara.core.lazy_import import present
from samara.core.ops import atan2, clamp, cos, floor, logical_and, sin, where, wrap_angle
from samara.core.picklable import remade
from samara.core.quantity import LARGEST, Scalar, Tree
from samara.core.sanitise import shown
from samara.core.tree import flatten, unflatten
from samara.core.types import Array
from samara.physics.types import Reference
from samara.plan.min_snap import Piecewise, minimum_derivative
from samara.plan.reference import (
    PEAK_SPEED,
    Cruise,
    Leg,
    Motion,
    Path,
    along_legs,
    along_path,
    cruise,
    cruise_along,
    facing_along,
)
from samara.plan.taylor import Series

ALONG = "along"
Heading = Annotated[float, Limits("rad", -1e3, 1e3)]
Yaw = Heading | str
Cycles = Annotated[Tree, Three("", -100.0, 100.0)]
Angles = Annotated[Tree, Three("rad", -1e3, 1e3)]
SMALLEST = 1e-9  # what is shorter or slower is none: its square is lost beside any other


class Waypoint(NamedTuple):
    """A place to be at, and when  [s, m]"""

    time: float
    p_W: Vec3


@dataclass(frozen=True)
class Trajectory:
    """`at(time)` is where to be. The duration may be infinite; `waypoints` are the places it was asked to pass.

    All of it stands `shift_W` away from where `reference` says: trajectories of one shape share that function.
    """

    name: str
    duration: float
    reference: Callable[[Scalar], Reference] = field(repr=False)
    waypoints: tuple[Waypoint, ...] = ()
    shift_W: Vec3 = ZERO

    def at(self, time: Scalar) -> Reference:
        """p, v, a, j, s, yaw, its rate and acceleration at a time [s], or arrays of them at an array of times"""
        if isinstance(time, (int, float)):
            if not math.isfinite(time):
                raise ValueError(f"{self.name}: time is {time}; expected a finite number of seconds")
            return self.placed(float(time))
        if not isinstance(time, (np.ndarray, np.generic, list, tuple)):
            return self.placed(time)  # a symbol
        times = np.asarray(time, dtype=float)
        if not np.isfinite(times).all():
            raise ValueError(f"{self.name}: a time is not finite; expected finite numbers of seconds")
        given = self.placed(times)
        every = (np.array(np.broadcast_to(leaf, times.shape), dtype=float) for leaf in flatten(given))
        whole: Reference = unflatten(given, every)
        return whole

    def placed(self, time: Scalar) -> Reference:
        """`reference` at its place, without a look at the time"""
        own = self.reference(time)
        return own if self.shift_W == ZERO else own._replace(p_W=own.p_W + self.shift_W)

    def path(self, until: float, points: int) -> Array:
        """Where it goes until its end or a time [s], evenly in time: (points, 3)  [m]"""
        return np.stack(self.at(np.linspace(0.0, min(self.duration, until), points)).p_W, axis=1)

    def moved(self, shift_W: Vec3) -> "Trajectory":
        """The same trajectory so far away"""
        marks = tuple(mark._replace(p_W=mark.p_W + shift_W) for mark in self.waypoints)
        return replace(self, shift_W=self.shift_W + shift_W, waypoints=marks)

    def _repr_html_(self) -> str:
        return str(present("Trajectory.html", self))


# From place to place ------------------------------------------------------------------------------------------------


@remade
def hover(p_W: Place, *, duration: Seconds = math.inf, yaw: Heading = 0.0) -> Trajectory:
    """p(t) = p"""
    place, facing = _place("hover: p_W", p_W), _number("hover: yaw", yaw)
    return Trajectory(
        "hover", _positive("hover: duration", duration, endless=True), lambda time: Reference(place, yaw=facing)
    )


@remade
def legs(start_W: Sequence[float], way: Sequence[Leg], *, yaw: float = 0.0) -> Trajectory:
    """Leg after leg with the least jerk, rest between: see `samara.plan.reference.along_legs`"""
    here, facing = _place("legs: start_W", start_W), _number("legs: yaw", yaw)
    if not way:
        raise ValueError("legs: got none; expected at least one")
    marks, time = [Waypoint(0.0, here)], 0.0
    for i, leg in enumerate(way):
        marks.append(Waypoint(time + _positive(f"legs[{i}].travel", leg.travel), _place(f"legs[{i}].p_W", leg.p_W)))
        time += leg.travel + _not_negative(f"legs[{i}].rest", leg.rest)
    checked = tuple(leg._replace(p_W=Vec3(*leg.p_W)) for leg in way)
    return Trajectory("legs", time, lambda t: along_legs(t, here, checked, facing), tuple(marks))


def waypoints(
    points: Sequence[Sequence[float]],
    *,
    speed: Speed | None = None,
    travel: Seconds | Sequence[Seconds] | None = None,
    rest: Seconds = 0.0,
    yaw: Heading = 0.0,
) -> Trajectory:
    """From point to point with the least jerk, each a stop: peak `speed` on every leg, or so much `travel` time for it

    The peak speed of a leg of length L in time T is 15L/8T.
    """
    places = _places("waypoints", points, least=2)
    lengths = _lengths("waypoints", places)
    if (speed is None) == (travel is None):
        raise ValueError("waypoints: expected either speed or travel")
    if speed is not None:
        times = [PEAK_SPEED * length / _positive("waypoints: speed", speed) for length in lengths]
    elif isinstance(travel, (int, float)):
        times = [_positive("waypoints: travel", travel)] * len(lengths)
    else:
        times = [_positive(f"waypoints: travel[{i}]", each) for i, each in enumerate(travel or ())]
        if len(times) != len(lengths):
            raise ValueError(f"waypoints: travel has {len(times)} times; expected {len(lengths)}, one for each leg")
    way = [
        Leg(f"to waypoint {i + 1}", p_W, time, rest)
        for i, (p_W, time) in enumerate(zip(places[1:], times, strict=True))
    ]
    through = legs(places[0], way, yaw=yaw)
    return Trajectory("waypoints", through.duration, through.reference, through.waypoints)


@remade
def line(start_W: Place, end_W: Place, *, speed: Speed, acceleration: Acceleration = 2.0, yaw: Yaw = 0.0) -> Trajectory:
    """Straight at a constant speed, with smooth ends: no faster than `speed`, no harder than `acceleration`"""
    return _straight("line", _place("line: start_W", start_W), _place("line: end_W", end_W), speed, acceleration, yaw)


@remade
def take_off(
    start_W: Place, *, height: Length, speed: Speed = 1.0, acceleration: Acceleration = 2.0, yaw: Heading = 0.0
) -> Trajectory:
    """Straight up from a place to a height z"""
    return _vertical("take_off", start_W, height, speed, acceleration, yaw, up=True)


@remade
def land(
    start_W: Place, *, height: Length = 0.0, speed: Speed = 0.5, acceleration: Acceleration = 2.0, yaw: Heading = 0.0
) -> Trajectory:
    """Straight down from a place to a height z, at constant speed between smooth ends"""
    return _vertical("land", start_W, height, speed, acceleration, yaw, up=False)


def _vertical(
    name: str, start_W: Sequence[float], height: float, speed: float, acceleration: float, yaw: float, *, up: bool
) -> Trajectory:
    start, level = _place(f"{name}: start_W", start_W), _number(f"{name}: height", height)
    if (level > start.z) is not up or level == start.z:
        side = "above" if up else "below"
        raise ValueError(f"{name}: height is {level:g} m; expected one {side} the start at {start.z:g} m")
    return _straight(name, start, start._replace(z=level), speed, acceleration, _number(f"{name}: yaw", yaw))


def _straight(name: str, start: Vec3, end: Vec3, speed: float, acceleration: float, yaw: Yaw) -> Trajectory:
    length = _lengths(name, (start, end))[0]
    along_W = (end - start) / length
    if yaw == ALONG and along_W.x == 0.0 and along_W.y == 0.0:
        raise ValueError(f"{name}: it goes straight up or down and so has no heading; expected a number for yaw")

    def path(s: Scalar) -> Path:
        return Path(start + along_W * s, along_W, ZERO, ZERO, ZERO)

    return _flown(name, path, length, 1.0, speed, acceleration, yaw, (start, end))


# Round and round ----------------------------------------------------------------------------------------------------


class Harmonic(NamedTuple):
    """p(φ) = centre + amplitude ∘ sin(frequency φ + phase) + slope φ, axis by axis"""

    centre: Vec3
    amplitude: Vec3
    frequency: Vec3
    phase: Vec3
    slope: Vec3 = ZERO


def harmonic_path(angle: Scalar, curve: Harmonic) -> Path:
    """p = c + A sin α + bφ,  p' = Ak cos α + b,  p'' = −Ak² sin α,  p''' = −Ak³ cos α,  p'''' = Ak⁴ sin α;  α = kφ + δ"""
    rows = []
    for centre, amplitude, k, phase, slope in zip(*curve, strict=True):
        s, c = amplitude * sin(k * angle + phase), amplitude * cos(k * angle + phase)
        rows.append((centre + s + slope * angle, k * c + slope, -(k * k) * s, -(k * k * k) * c, k * k * k * k * s))
    return Path(*(Vec3(*three) for three in zip(*rows, strict=True)))


@remade
def circle(
    centre_W: Place,
    *,
    radius: Length,
    speed: Speed,
    laps: Laps = 1.0,
    start: Heading = 0.0,
    clockwise: bool = False,
    acceleration: Acceleration = 2.0,
    yaw: Yaw = 0.0,
) -> Trajectory:
    """p = c + R (cos α, sin α, 0), α = start ± φ(t): from rest up to `speed`, round, and to rest again"""
    curve = _round("circle", centre_W, radius, start, clockwise, 0.0)
    return _laps("circle", curve, speed, laps, acceleration, yaw)


@remade
def helix(
    centre_W: Place,
    *,
    radius: Length,
    rise: Length,
    turns: Laps,
    speed: Speed,
    start: Heading = 0.0,
    clockwise: bool = False,
    acceleration: Acceleration = 2.0,
    yaw: Yaw = 0.0,
) -> Trajectory:
    """p = c + (R cos α, R sin α, hφ/2π), α = start ± φ(t): a circle that rises by h each turn, or sinks"""
    rising = _number("helix: rise", rise)
    curve = _round("helix", centre_W, radius, start, clockwise, rising)
    return _laps("helix", curve, speed, turns, acceleration, yaw, laps_are="turns")


@remade
def figure8(
    centre_W: Place,
    *,
    reach: Length,
    width: Length | None = None,
    speed: Speed,
    laps: Laps = 1.0,
    acceleration: Acceleration = 2.0,
    yaw: Yaw = 0.0,
) -> Trajectory:
    """p = c + (a sin φ, b sin 2φ, 0): Gerono's lemniscate (b = a/2 by default), from its crossing; never above `speed`

    `reach` a is its half length along x, `width` b its half width along y.
    """
    a = _positive("figure8: reach", reach)
    b = a / 2.0 if width is None else _positive("figure8: width", width)
    curve = Harmonic(_place("figure8: centre_W", centre_W), Vec3(a, b, 0.0), Vec3(1.0, 2.0, 1.0), ZERO)
    return _laps("figure8", curve, speed, laps, acceleration, yaw)


@remade
def lissajous(
    centre_W: Place,
    *,
    amplitude: Place,
    frequency: Cycles,
    phase: Angles = ZERO,
    speed: Speed,
    laps: Laps = 1.0,
    acceleration: Acceleration = 2.0,
    yaw: Yaw = 0.0,
) -> Trajectory:
    """p = c + A ∘ sin(k φ + δ), the frequencies k whole numbers: a lap is φ from 0 to 2π"""
    curve = Harmonic(
        _place("lissajous: centre_W", centre_W),
        _place("lissajous: amplitude", amplitude),
        _place("lissajous: frequency", frequency),
        _place("lissajous: phase", phase),
    )
    for axis, k in zip("xyz", curve.frequency, strict=True):
        if k != round(k):
            raise ValueError(f"lissajous: frequency.{axis} is {k:g}; expected a whole number")
    if all(a * k == 0.0 for a, k in zip(curve.amplitude, curve.frequency, strict=True)):
        raise ValueError("lissajous: it stays where it is; expected an axis with an amplitude and a frequency")
    return _laps("lissajous", curve, speed, laps, acceleration, yaw)


def _round(name: str, centre_W: Sequence[float], radius: float, start: float, clockwise: bool, rise: float) -> Harmonic:
    r, angle, turn = _positive(f"{name}: radius", radius), _number(f"{name}: start", start), -1.0 if clockwise else 1.0
    return Harmonic(
        _place(f"{name}: centre_W", centre_W),
        Vec3(r, r, 0.0),
        Vec3(turn, turn, 1.0),
        Vec3(angle + math.pi / 2.0, angle, 0.0),
        UP * (rise / (2.0 * math.pi)),
    )


def _laps(
    name: str, curve: Harmonic, speed: float, laps: float, acceleration: float, yaw: Yaw, laps_are: str = "laps"
) -> Trajectory:
    turns = _positive(f"{name}: {laps_are}", laps, endless=True)
    steepest = _steepest(curve)

    def path(angle: Scalar) -> Path:
        return harmonic_path(angle, curve)

    return _flown(name, path, 2.0 * math.pi * turns, steepest, speed, acceleration, yaw)


def _steepest(curve: Harmonic) -> float:
    """max |p'(φ)|: the best of a grid over a lap, then Newton's step for d|p'|²/dφ = 2 p'·p'' = 0"""
    fastest = max(1.0, *(abs(k) for k in curve.frequency))
    angle: Array = np.linspace(0.0, 2.0 * math.pi, int(256 * fastest) + 1)
    for _ in range(4):
        _, d, dd, ddd, _ = (np.stack(np.broadcast_arrays(*v)) for v in harmonic_path(angle, curve))
        best = (d * d).sum(axis=0).argmax()
        at, slope, bend = angle[best], (d * dd).sum(axis=0)[best], (dd * dd + d * ddd).sum(axis=0)[best]
        angle = np.array([at, at - slope / bend if bend < 0.0 else at])
    return float(np.sqrt((d * d).sum(axis=0).max()))


def _flown(
    name: str,
    path: Callable[[Scalar], Path],
    length: float,
    steepest: float,
    speed: float,
    acceleration: float,
    yaw: Yaw,
    ends: tuple[Vec3, ...] = (),
) -> Trajectory:
    """A curve over `length` of its parameter, from rest to rest: |p'| ≤ steepest, so ṡ ≤ speed/steepest"""
    fast, hard = _positive(f"{name}: speed", speed), _positive(f"{name}: acceleration", acceleration)
    facing = yaw if yaw == ALONG else _number(f"{name}: yaw", yaw, f'a finite number or "{ALONG}"')
    way = cruise_along(length, fast / steepest, hard / steepest)

    def reference(time: Scalar) -> Reference:
        motion = cruise(time, way)
        here = path(motion.s)
        asked = along_path(here, motion)
        return facing_along(asked, here, motion) if facing == ALONG else asked._replace(yaw=facing)

    marks = (Waypoint(t, p_W) for t, p_W in zip((0.0, way.duration), ends, strict=False))
    return Trajectory(name, way.duration, reference, tuple(marks))


# Through gates ------------------------------------------------------------------------------------------------------


@remade
def race(
    gates: Sequence[Sequence[float]],
    *,
    speed: Speed,
    acceleration: Acceleration = 8.0,
    closed: bool = False,
    laps: Laps = 1.0,
    order: int = 4,
    yaw: Yaw = 0.0,
) -> Trajectory:
    """Through all gates with the least snap (order 3: jerk): open, from rest at the first to rest at the last; or closed

    Each piece is given time in proportion to L/v + v/a, then all are stretched alike until neither limit is passed and one
    is met. A closed race is flown for some laps, or without end; it gathers speed along the path over as long as a/2 needs.
    With yaw "along" the nose points along the path at every gate and at seven moments between two, smoothly in between.
    """
    fast, hard = _positive("race: speed", speed), _positive("race: acceleration", acceleration)
    rounds = _positive("race: laps", laps, endless=True)
    _require_order("race", order)
    if not closed and rounds != 1.0:
        raise ValueError(f"race: laps is {rounds:g}; expected 1, or closed=True")
    places = _places("race", gates, least=3 if closed else 2)
    if closed:
        places = (*places, places[0])
    durations = [length / fast + fast / hard for length in _lengths("race", places)]
    curve = minimum_derivative(places, durations, order=order, closed=closed)
    curve = curve.stretched(max(curve.largest(1) / fast, math.sqrt(curve.largest(2) / hard)))
    facing = _number("race: yaw", yaw, f'a finite number or "{ALONG}"') if yaw != ALONG else 0.0
    nose = _headings(curve, closed) if yaw == ALONG else None
    way = cruise_along(rounds * curve.duration, 1.0, 0.5 * hard / curve.largest(1)) if closed else None

    reference = _along_polynomial(curve, nose, facing, way)
    return Trajectory(
        "race", way.duration if way else curve.duration, reference, _passed(curve.knots, places, rounds, way)
    )


@remade
def through(
    points: Sequence[Sequence[float]], durations: Sequence[float], *, order: int = 4, yaw: Yaw | Sequence[float] = 0.0
) -> Trajectory:
    """Through all points, so long from each to the next [s], with the least snap (order 3: jerk), from rest to rest

    A yaw for each point is passed with the points, the shorter way round, with the least of that same derivative.
    """
    places = _places("through", points, least=2)
    times = [_positive(f"through: durations[{i}]", each) for i, each in enumerate(durations)]
    if len(times) != len(places) - 1:
        raise ValueError(
            f"through: got {len(times)} durations; expected {len(places) - 1}, one from each point to the next"
        )
    _require_order("through", order, "3 (jerk), 4 (snap) or 5 (crackle)")
    curve = minimum_derivative(places, times, order=order)
    facing, nose = 0.0, None
    if isinstance(yaw, str):
        if yaw != ALONG:
            raise ValueError(f'through: yaw is {yaw!r}; expected a number, one for each point, or "{ALONG}"')
        nose = _headings(curve, False)
    elif not isinstance(yaw, Sequence):
        facing = _number("through: yaw", yaw)
    else:
        angles = [_number(f"through: yaw[{i}]", each) for i, each in enumerate(yaw)]
        if len(angles) != len(places):
            raise ValueError(f"through: got {len(angles)} yaws; expected {len(places)}, one for each point")
        nose = minimum_derivative(np.unwrap(angles)[:, None], times, order=order)
    reference = _along_polynomial(curve, nose, facing, None)
    marks = (Waypoint(time, p_W) for time, p_W in zip(curve.knots.tolist(), places, strict=True))
    return Trajectory("through", curve.duration, reference, tuple(marks))


def _along_polynomial(
    curve: Piecewise, nose: Piecewise | None, facing: float, way: Cruise | None
) -> Callable[[Scalar], Reference]:
    """A curve at its own pace, or at that of a cruise along it, lap after lap; the nose after a curve of its own, or still"""

    def reference(time: Scalar) -> Reference:
        motion = cruise(time, way) if way else _in_real_time(time, curve.duration)
        moment = motion.s - floor(motion.s / curve.duration) * curve.duration if way else motion.s
        if isinstance(moment, Series):
            return Reference(Vec3(*curve.series(moment)), yaw=facing if nose is None else nose.series(moment)[0])
        asked = along_path(Path(*(Vec3(*row) for row in curve.components(moment, 5))), motion)
        if nose is None:
            return asked._replace(yaw=facing)
        (angle,), (turn,), (turning,) = nose.components(moment, 3)
        return asked._replace(
            yaw=wrap_angle(angle),
            yaw_rate=turn * motion.ds,
            yaw_acceleration=turning * motion.ds * motion.ds + turn * motion.dds,
        )

    return reference


def _passed(knots: Array, places: Sequence[Vec3], rounds: float, way: Cruise | None) -> tuple[Waypoint, ...]:
    """When each gate is passed: in every lap, of an endless race in the first"""
    laps = np.arange(math.ceil(rounds) if math.isfinite(rounds) else 1)
    s = np.concatenate([knots[:1], (laps[:, None] * knots[-1] + knots[1:]).reshape(-1)])
    times = (s if way is None else _moments_of(s, way)).tolist()
    gates = [places[0], *(list(places[1:]) * len(laps))]
    whole = rounds * float(knots[-1]) * (1.0 + 1e-12)
    return tuple(Waypoint(t, p_W) for t, p_W, far in zip(times, gates, s, strict=True) if far <= whole)


def _in_real_time(time: Scalar, duration: float) -> Motion:
    """s = t from 0 to the end, where all rests"""
    going = where(logical_and(time > 0.0, time < duration), 1.0, 0.0)
    return Motion(clamp(time, 0.0, duration), going, 0.0, 0.0, 0.0)


def _moments_of(s: Array, way: Cruise) -> Array:
    """The t with s(t) = s, by halving: s never falls"""
    low, high = np.zeros_like(s), np.minimum(way.duration, 2.0 * way.ramp + s / way.speed)
    for _ in range(80):
        middle = 0.5 * (low + high)
        early = cruise(middle, way).s < s
        low, high = np.where(early, middle, low), np.where(early, high, middle)
    return np.where(s <= 0.0, 0.0, np.where(s < way.speed * (way.ramp + way.hold), high, way.duration))


def _headings(curve: Piecewise, closed: bool) -> Piecewise:
    """The yaw of the path at every gate and some moments between, unwrapped, and the smoothest turning through them"""
    fine, each = 64, 8
    at = np.concatenate(
        [np.linspace(a, b, fine, endpoint=False) for a, b in pairwise(curve.knots)] + [curve.knots[-1:]]
    )
    v = curve.derivatives(at, 2)[:, 1]
    level = np.hypot(v[:, 0], v[:, 1]) > 1e-6 * curve.largest(1)  # at rest and straight up: the heading nearest in time
    if not level.any():
        raise ValueError("race: it goes straight up and down and so has no heading; expected a number for yaw")
    yaw = np.interp(at, at[level], np.unwrap(atan2(v[level, 1], v[level, 0])))
    turning = slice(None, None, fine // each)
    return minimum_derivative(yaw[turning, None], np.diff(at[turning]), order=3, closed=closed)


# One after the other ------------------------------------------------------------------------------------------------


@remade
def sequence(*parts: Trajectory) -> Trajectory:
    """Each trajectory when the one before has ended; it must begin where that ended, to 1 µm. The yaw may step there."""
    if not parts:
        raise ValueError("sequence: got no trajectory; expected at least one")
    starts = [0.0]
    for before, after in pairwise(parts):
        if not math.isfinite(before.duration):
            raise ValueError(f"sequence: {before.name} never ends; expected it last")
        gap = after.at(0.0).p_W - before.at(before.duration).p_W
        if math.hypot(*gap) > 1e-6:
            ends, begins = (tuple(round(x, 6) for x in r.p_W) for r in (before.at(before.duration), after.at(0.0)))
            raise ValueError(f"sequence: {before.name} ends at {ends}; expected {after.name} there, not at {begins}")
        starts.append(starts[-1] + before.duration)

    def reference(time: Scalar) -> Reference:
        row = list(zip(starts, parts, strict=True))
        if isinstance(time, np.ndarray) and time.size:  # of a long sequence only what these times fall into
            ends = (*starts[1:], math.inf)
            early, late = float(time.min()), float(time.max())
            row = [own for own, end in zip(row, ends, strict=True) if end > early and own[0] <= late] or row[:1]
        first, part = row[0]
        now = part.placed(time - first) if first else part.placed(time)
        for start, part in row[1:]:
            later = flatten(part.placed(time - start))
            chosen = (where(time < start, a, b) for a, b in zip(flatten(now), later, strict=True))
            now = unflatten(now, chosen)
        return now

    marks = (
        Waypoint(start + mark.time, mark.p_W)
        for start, part in zip(starts, parts, strict=True)
        for mark in part.waypoints
    )
    return Trajectory(", ".join(part.name for part in parts), starts[-1] + parts[-1].duration, reference, tuple(marks))


# What can be flown --------------------------------------------------------------------------------------------------


def _number(name: str, value: Scalar, wanted: str = "a finite number") -> float:
    size: Scalar = abs(value) if isinstance(value, Real) else math.inf
    if isinstance(value, bool) or not size <= LARGEST:
        raise ValueError(f"{name} is {shown(value)}; expected {wanted}")
    return float(value)


def _positive(name: str, value: Scalar, *, endless: bool = False) -> float:
    if endless and value == math.inf:
        return math.inf
    if _number(name, value, "a positive number") <= 0.0:
        raise ValueError(f"{name} is {value!r}; expected a positive number")
    if value < SMALLEST:
        raise ValueError(f"{name} is {value!r}; expected at least {SMALLEST:g}")
    return float(value)


def _require_order(name: str, order: object, allowed: str = "3 (jerk) or 4 (snap)") -> None:
    if isinstance(order, bool) or not isinstance(order, int) or str(order) not in allowed.split():
        raise ValueError(f"{name}: order is {shown(order)}; expected {allowed}")


def _not_negative(name: str, value: Scalar) -> float:
    if _number(name, value) < 0.0:
        raise ValueError(f"{name} is {value!r}; expected a number that is not negative")
    return float(value)


def _place(name: str, value: Scalar) -> Vec3:
    three = tuple(np.asarray(value, dtype=float).tolist()) if isinstance(value, np.ndarray) else value
    if not isinstance(three, (tuple, list)) or len(three) != 3:
        raise ValueError(f"{name} is {value!r}; expected three numbers")
    return Vec3(*(_number(f"{name}.{axis}", x) for axis, x in zip("xyz", three, strict=True)))


def _places(name: str, points: Sequence[Sequence[float]], *, least: int) -> tuple[Vec3, ...]:
    if len(points) < least:
        raise ValueError(f"{name}: got {len(points)} points; expected at least {least}")
    return tuple(_place(f"{name}: point {i}", point) for i, point in enumerate(points))


def _lengths(name: str, places: Sequence[Vec3]) -> list[float]:
    lengths = [math.hypot(*(b - a)) for a, b in pairwise(places)]
    if lengths and min(lengths) < SMALLEST:
        raise ValueError(f"{name}: points {lengths.index(min(lengths))} and the next are one place; expected two")
    return lengths


PEAK = 1.875  # of a minimum-jerk motion from rest to rest, in units of its mean speed
BRAKING = 2.0  # [m/s²]: how hard a motion is brought to rest
SHORTEST = 0.5  # [s]


@remade
def transfer(start: Reference, end_W: Vec3, *, speed: float) -> Trajectory:
    """p = p₀ + v₀t + ½a₀t² + c₃t³ + c₄t⁴ + c₅t⁵ to rest at the end: the least ∫ j² dt from p₀, v₀, a₀ in its time T

    T is what a motion from rest takes at that peak speed, and no less than what braking from v₀ takes.
    """
    if not speed > 0.0:
        raise ValueError(f"transfer: speed is {speed!r}; expected a positive number")
    way = end_W - start.p_W
    T = max(PEAK * norm(way) / speed, PEAK * norm(start.v_W) / BRAKING, SHORTEST)
    return Trajectory(
        "transfer", T, lambda time: _along(time, start, way, T), (Waypoint(0.0, start.p_W), Waypoint(T, end_W))
    )


def _along(time: Scalar, start: Reference, way: Vec3, T: float) -> Reference:
    t = clamp(time, 0.0, T)
    moving = where(time < T, 1.0, 0.0)
    rows = [_axis(t, *numbers, T) for numbers in zip(start.p_W, start.v_W, start.a_W, way, strict=True)]
    p, v, a, j, snap = (Vec3(*(row[k] for row in rows)) for k in range(5))
    return Reference(p, v * moving, a * moving, j * moving, yaw=start.yaw, s_W=snap * moving)


def _axis(t: Scalar, p0: Scalar, v0: Scalar, a0: Scalar, way: Scalar, T: float) -> tuple[Scalar, ...]:
    c3 = (20.0 * way - 12.0 * v0 * T - 3.0 * a0 * T**2) / (2.0 * T**3)
    c4 = (-30.0 * way + 16.0 * v0 * T + 3.0 * a0 * T**2) / (2.0 * T**4)
    c5 = (12.0 * way - 6.0 * v0 * T - a0 * T**2) / (2.0 * T**5)
    return (
        p0 + t * (v0 + t * (0.5 * a0 + t * (c3 + t * (c4 + t * c5)))),
        v0 + t * (a0 + t * (3.0 * c3 + t * (4.0 * c4 + t * 5.0 * c5))),
        a0 + t * (6.0 * c3 + t * (12.0 * c4 + t * 20.0 * c5)),
        6.0 * c3 + t * (24.0 * c4 + t * 60.0 * c5),
        24.0 * c4 + t * 120.0 * c5,
    )


def stop(start: Reference) -> Trajectory:
    """To rest ½ v₀ T ahead, T = 1.875 |v₀| / braking: the velocity falls to zero and never turns back"""
    speed = norm(start.v_W)
    ahead = start.v_W * (0.5 * max(PEAK * speed / BRAKING, SHORTEST))
    return transfer(start, start.p_W + ahead, speed=max(speed, 1.0))
