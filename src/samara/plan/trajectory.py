"""Trajectories: hover, legs, line, circle, figure of eight, Lissajous, helix, take-off, landing, race.

A trajectory is a name, a duration and a pure function from time to `Reference`, exact to the snap. Time is a float, a NumPy
array (a thousand references are one call), or a symbol of any backend, as flights compile it. Before its start a trajectory
rests at its first position, after its end at its last.
Positions are in the world (ENU) [m], speeds in m/s, accelerations in m/s², angles in rad, times in s.

A `yaw` is one angle for the whole trajectory, or "along": the nose along the path, as viewed from above. `speed` is the maximum
speed on a curve, and `acceleration` the maximum along the path while the speed changes at both ends.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from numbers import Real
from typing import Annotated, NamedTuple

import numpy as np

from samara.core.algebra import UP, ZERO, Vec3, norm
from samara.core.coerce import Acceleration, Laps, Length, PositionArgument, Seconds, Speed, UnitInterval, VectorLimits
from samara.core.lazy_import import present
from samara.core.ops import atan2, clamp, cos, floor, logical_and, sin, where, wrap_angle
from samara.core.picklable import picklable_factory
from samara.core.quantity import MAX_MAGNITUDE, Scalar, Tree
from samara.core.sanitise import quote_value
from samara.core.tree import flatten, unflatten
from samara.core.types import Array
from samara.physics.types import Reference
from samara.plan.min_snap import PiecewisePolynomial, minimum_derivative
from samara.plan.reference import (
    PEAK_SPEED_RATIO,
    CruiseProfile,
    PathDerivatives,
    PathMotion,
    StraightLeg,
    cruise_motion,
    cruise_profile,
    face_along_path,
    legs_reference,
    path_reference,
)
from samara.plan.taylor import Series

ALONG = "along"
Heading = Annotated[float, UnitInterval("rad", -1e3, 1e3)]
Yaw = Heading | str
Cycles = Annotated[Tree, VectorLimits("", -100.0, 100.0)]
Angles = Annotated[Tree, VectorLimits("rad", -1e3, 1e3)]
MIN_MAGNITUDE = 1e-9  # lengths and speeds below it count as zero: their squares are lost to rounding


class Waypoint(NamedTuple):
    """A time and a position to pass  [s, m]."""

    time: float
    p_W: Vec3


@dataclass(frozen=True)
class Trajectory:
    """`evaluate(time)` returns the reference. The duration may be infinite; `waypoints` are the positions that the
    trajectory passes.

    `shift_W` offsets all positions from those of `reference`, so that trajectories of one shape share that function.
    """

    name: str
    duration: float
    reference: Callable[[Scalar], Reference] = field(repr=False)
    waypoints: tuple[Waypoint, ...] = ()
    shift_W: Vec3 = ZERO

    def evaluate(self, time: Scalar) -> Reference:
        """p, v, a, j, s, yaw, its rate and acceleration at a time [s], or arrays of them at an array of times"""
        if isinstance(time, (int, float)):
            if not math.isfinite(time):
                raise ValueError(f"{self.name}: time is {time}; expected a finite number of seconds")
            return self.evaluate_unchecked(float(time))
        if not isinstance(time, (np.ndarray, np.generic, list, tuple)):
            return self.evaluate_unchecked(time)  # a symbol
        times = np.asarray(time, dtype=float)
        if not np.isfinite(times).all():
            raise ValueError(f"{self.name}: a time is not finite; expected finite numbers of seconds")
        reference = self.evaluate_unchecked(times)
        leaves = (np.array(np.broadcast_to(leaf, times.shape), dtype=float) for leaf in flatten(reference))
        reference_arrays: Reference = unflatten(reference, leaves)
        return reference_arrays

    def evaluate_unchecked(self, time: Scalar) -> Reference:
        """Evaluate `reference` with the offset, without checking the time."""
        unshifted = self.reference(time)
        return unshifted if self.shift_W == ZERO else unshifted._replace(p_W=unshifted.p_W + self.shift_W)

    def sample_path(self, until: float, points: int) -> Array:
        """Sample positions evenly in time until the end or `until` [s]: (points, 3)  [m]."""
        return np.stack(self.evaluate(np.linspace(0.0, min(self.duration, until), points)).p_W, axis=1)

    def shift(self, shift_W: Vec3) -> "Trajectory":
        """Return the same trajectory, offset by `shift_W`."""
        shifted_waypoints = tuple(waypoint._replace(p_W=waypoint.p_W + shift_W) for waypoint in self.waypoints)
        return replace(self, shift_W=self.shift_W + shift_W, waypoints=shifted_waypoints)

    def _repr_html_(self) -> str:
        return str(present("Trajectory.html", self))


# From point to point ------------------------------------------------------------------------------------------------


@picklable_factory
def hover(p_W: PositionArgument, *, duration: Seconds = math.inf, yaw: Heading = 0.0) -> Trajectory:
    """p(t) = p

    Args:
        p_W: position [m].
        duration: duration [s], or infinite.
        yaw: heading [rad].
    """
    position, yaw_value = _require_position("hover: p_W", p_W), _require_number("hover: yaw", yaw)
    return Trajectory(
        "hover",
        _require_positive("hover: duration", duration, endless=True),
        lambda time: Reference(position, yaw=yaw_value),
    )


@picklable_factory
def legs(start_W: Sequence[float], segments: Sequence[StraightLeg], *, yaw: float = 0.0) -> Trajectory:
    """Fly leg after leg with minimum jerk and rest in between: see `samara.plan.reference.legs_reference`.

    Args:
        start_W: start position [m].
        segments: legs in order.
        yaw: heading [rad].
    """
    start, yaw_value = _require_position("legs: start_W", start_W), _require_number("legs: yaw", yaw)
    if not segments:
        raise ValueError("legs: got none; expected at least one")
    waypoints_passed, time = [Waypoint(0.0, start)], 0.0
    for i, leg in enumerate(segments):
        waypoints_passed.append(
            Waypoint(
                time + _require_positive(f"legs[{i}].travel_duration", leg.travel_duration),
                _require_position(f"legs[{i}].p_W", leg.p_W),
            )
        )
        time += leg.travel_duration + _require_not_negative(f"legs[{i}].rest_duration", leg.rest_duration)
    checked_legs = tuple(leg._replace(p_W=Vec3(*leg.p_W)) for leg in segments)
    return Trajectory(
        "legs", time, lambda t: legs_reference(t, start, checked_legs, yaw_value), tuple(waypoints_passed)
    )


def waypoints(
    points: Sequence[Sequence[float]],
    *,
    speed: Speed | None = None,
    leg_duration: Seconds | Sequence[Seconds] | None = None,
    hold_time: Seconds = 0.0,
    yaw: Heading = 0.0,
) -> Trajectory:
    """Fly from point to point with minimum jerk, with a stop at each.

    The peak speed of a leg of length L in time T is 15L/8T.

    Args:
        points: positions [m], at least two.
        speed: peak speed on every leg [m/s]; alternative to `leg_duration`.
        leg_duration: duration of every leg, or one for each [s].
        hold_time: time at rest at each point [s].
        yaw: heading [rad].
    """
    positions = _require_positions("waypoints", points, min_count=2)
    lengths = _segment_lengths("waypoints", positions)
    if (speed is None) == (leg_duration is None):
        raise ValueError("waypoints: expected either speed or leg_duration")
    if speed is not None:
        times = [PEAK_SPEED_RATIO * length / _require_positive("waypoints: speed", speed) for length in lengths]
    elif isinstance(leg_duration, (int, float)):
        times = [_require_positive("waypoints: leg_duration", leg_duration)] * len(lengths)
    else:
        times = [
            _require_positive(f"waypoints: leg_duration[{i}]", duration)
            for i, duration in enumerate(leg_duration or ())
        ]
        if len(times) != len(lengths):
            raise ValueError(
                f"waypoints: leg_duration has {len(times)} times; expected {len(lengths)}, one for each leg"
            )
    leg_list = [
        StraightLeg(f"to waypoint {i + 1}", p_W, time, hold_time)
        for i, (p_W, time) in enumerate(zip(positions[1:], times, strict=True))
    ]
    leg_trajectory = legs(positions[0], leg_list, yaw=yaw)
    return Trajectory("waypoints", leg_trajectory.duration, leg_trajectory.reference, leg_trajectory.waypoints)


@picklable_factory
def line(
    start_W: PositionArgument,
    end_W: PositionArgument,
    *,
    speed: Speed,
    acceleration: Acceleration = 2.0,
    yaw: Yaw = 0.0,
) -> Trajectory:
    """Fly straight at a constant speed, with smooth ends: at most `speed` [m/s] and `acceleration` [m/s²]."""
    return _straight_trajectory(
        "line",
        _require_position("line: start_W", start_W),
        _require_position("line: end_W", end_W),
        speed,
        acceleration,
        yaw,
    )


@picklable_factory
def take_off(
    start_W: PositionArgument,
    *,
    height: Length,
    speed: Speed = 1.0,
    acceleration: Acceleration = 2.0,
    yaw: Heading = 0.0,
) -> Trajectory:
    """Climb vertically from `start_W` to the height z = `height`."""
    return _vertical_trajectory("take_off", start_W, height, speed, acceleration, yaw, up=True)


@picklable_factory
def land(
    start_W: PositionArgument,
    *,
    height: Length = 0.0,
    speed: Speed = 0.5,
    acceleration: Acceleration = 2.0,
    yaw: Heading = 0.0,
) -> Trajectory:
    """Descend vertically from `start_W` to the height z = `height`, at constant speed between smooth ends."""
    return _vertical_trajectory("land", start_W, height, speed, acceleration, yaw, up=False)


def _vertical_trajectory(
    name: str, start_W: Sequence[float], height: float, speed: float, acceleration: float, yaw: float, *, up: bool
) -> Trajectory:
    start, end_height = _require_position(f"{name}: start_W", start_W), _require_number(f"{name}: height", height)
    if (end_height > start.z) is not up or end_height == start.z:
        side = "above" if up else "below"
        raise ValueError(f"{name}: height is {end_height:g} m; expected one {side} the start at {start.z:g} m")
    return _straight_trajectory(
        name, start, start._replace(z=end_height), speed, acceleration, _require_number(f"{name}: yaw", yaw)
    )


def _straight_trajectory(name: str, start: Vec3, end: Vec3, speed: float, acceleration: float, yaw: Yaw) -> Trajectory:
    length = _segment_lengths(name, (start, end))[0]
    direction_W = (end - start) / length
    if yaw == ALONG and direction_W.x == 0.0 and direction_W.y == 0.0:
        raise ValueError(f"{name}: it is vertical and so has no heading; expected a number for yaw")

    def path(s: Scalar) -> PathDerivatives:
        return PathDerivatives(start + direction_W * s, direction_W, ZERO, ZERO, ZERO)

    return _cruise_trajectory(name, path, length, 1.0, speed, acceleration, yaw, (start, end))


# Closed curves ------------------------------------------------------------------------------------------------------


class Harmonic(NamedTuple):
    """p(φ) = centre + amplitude ∘ sin(frequency φ + phase) + slope φ, axis by axis"""

    centre: Vec3
    amplitude: Vec3
    frequency: Vec3
    phase: Vec3
    slope: Vec3 = ZERO


def harmonic_path(angle: Scalar, curve: Harmonic) -> PathDerivatives:
    """p = c + A sin α + bφ,  p' = Ak cos α + b,  p'' = −Ak² sin α,  p''' = −Ak³ cos α,  p'''' = Ak⁴ sin α;  α = kφ + δ"""
    rows = []
    for centre, amplitude, k, phase, slope in zip(*curve, strict=True):
        s, c = amplitude * sin(k * angle + phase), amplitude * cos(k * angle + phase)
        rows.append((centre + s + slope * angle, k * c + slope, -(k * k) * s, -(k * k * k) * c, k * k * k * k * s))
    return PathDerivatives(*(Vec3(*components) for components in zip(*rows, strict=True)))


@picklable_factory
def circle(
    centre_W: PositionArgument,
    *,
    radius: Length,
    speed: Speed,
    laps: Laps = 1.0,
    start_angle: Heading = 0.0,
    clockwise: bool = False,
    acceleration: Acceleration = 2.0,
    yaw: Yaw = 0.0,
) -> Trajectory:
    """p = c + R (cos α, sin α, 0), α = α₀ ± φ(t): from rest up to `speed`, round the circle, and to rest again

    Args:
        centre_W: centre c [m].
        radius: radius R [m].
        speed: maximum speed [m/s].
        laps: count of laps, may be fractional or infinite.
        start_angle: initial angle α₀ [rad], counter-clockwise from x.
        clockwise: direction, as viewed from above.
        acceleration: maximum acceleration along the path at both ends [m/s²].
        yaw: heading [rad], or "along".
    """
    curve = _circular_harmonic("circle", centre_W, radius, start_angle, clockwise, 0.0)
    return _lap_trajectory("circle", curve, speed, laps, acceleration, yaw)


@picklable_factory
def helix(
    centre_W: PositionArgument,
    *,
    radius: Length,
    height_per_turn: Length,
    turns: Laps,
    speed: Speed,
    start_angle: Heading = 0.0,
    clockwise: bool = False,
    acceleration: Acceleration = 2.0,
    yaw: Yaw = 0.0,
) -> Trajectory:
    """p = c + (R cos α, R sin α, hφ/2π), α = α₀ ± φ(t): a circle that rises by h = `height_per_turn`, or sinks if h <
    0"""
    h = _require_number("helix: height_per_turn", height_per_turn)
    curve = _circular_harmonic("helix", centre_W, radius, start_angle, clockwise, h)
    return _lap_trajectory("helix", curve, speed, turns, acceleration, yaw, laps_are="turns")


@picklable_factory
def figure8(
    centre_W: PositionArgument,
    *,
    half_length: Length,
    half_width: Length | None = None,
    speed: Speed,
    laps: Laps = 1.0,
    acceleration: Acceleration = 2.0,
    yaw: Yaw = 0.0,
) -> Trajectory:
    """p = c + (a sin φ, b sin 2φ, 0): Gerono's lemniscate (b = a/2 by default), from its crossing; never above `speed`

    `half_length` a is along x, `half_width` b along y.
    """
    a = _require_positive("figure8: half_length", half_length)
    b = a / 2.0 if half_width is None else _require_positive("figure8: half_width", half_width)
    curve = Harmonic(_require_position("figure8: centre_W", centre_W), Vec3(a, b, 0.0), Vec3(1.0, 2.0, 1.0), ZERO)
    return _lap_trajectory("figure8", curve, speed, laps, acceleration, yaw)


@picklable_factory
def lissajous(
    centre_W: PositionArgument,
    *,
    amplitude: PositionArgument,
    frequency: Cycles,
    phase: Angles = ZERO,
    speed: Speed,
    laps: Laps = 1.0,
    acceleration: Acceleration = 2.0,
    yaw: Yaw = 0.0,
) -> Trajectory:
    """p = c + A ∘ sin(k φ + δ), the frequencies k whole numbers: a lap is φ from 0 to 2π"""
    curve = Harmonic(
        _require_position("lissajous: centre_W", centre_W),
        _require_position("lissajous: amplitude", amplitude),
        _require_position("lissajous: frequency", frequency),
        _require_position("lissajous: phase", phase),
    )
    for axis, k in zip("xyz", curve.frequency, strict=True):
        if k != round(k):
            raise ValueError(f"lissajous: frequency.{axis} is {k:g}; expected a whole number")
    if all(a * k == 0.0 for a, k in zip(curve.amplitude, curve.frequency, strict=True)):
        raise ValueError("lissajous: the curve is a point; expected an axis with an amplitude and a frequency")
    return _lap_trajectory("lissajous", curve, speed, laps, acceleration, yaw)


def _circular_harmonic(
    name: str, centre_W: Sequence[float], radius: float, start_angle: float, clockwise: bool, height_per_turn: float
) -> Harmonic:
    r, angle, direction = (
        _require_positive(f"{name}: radius", radius),
        _require_number(f"{name}: start_angle", start_angle),
        -1.0 if clockwise else 1.0,
    )
    return Harmonic(
        _require_position(f"{name}: centre_W", centre_W),
        Vec3(r, r, 0.0),
        Vec3(direction, direction, 1.0),
        Vec3(angle + math.pi / 2.0, angle, 0.0),
        UP * (height_per_turn / (2.0 * math.pi)),
    )


def _lap_trajectory(
    name: str, curve: Harmonic, speed: float, laps: float, acceleration: float, yaw: Yaw, laps_are: str = "laps"
) -> Trajectory:
    turns = _require_positive(f"{name}: {laps_are}", laps, endless=True)
    max_slope = _max_slope(curve)

    def path(angle: Scalar) -> PathDerivatives:
        return harmonic_path(angle, curve)

    return _cruise_trajectory(name, path, 2.0 * math.pi * turns, max_slope, speed, acceleration, yaw)


def _max_slope(curve: Harmonic) -> float:
    """max |p'(φ)|: the maximum on a grid over a lap, then Newton's step for d|p'|²/dφ = 2 p'·p'' = 0"""
    max_frequency = max(1.0, *(abs(k) for k in curve.frequency))
    angle: Array = np.linspace(0.0, 2.0 * math.pi, int(256 * max_frequency) + 1)
    for _ in range(4):
        _, d, dd, ddd, _ = (np.stack(np.broadcast_arrays(*v)) for v in harmonic_path(angle, curve))
        best_index = (d * d).sum(axis=0).argmax()
        best_angle, slope, second_derivative = (
            angle[best_index],
            (d * dd).sum(axis=0)[best_index],
            (dd * dd + d * ddd).sum(axis=0)[best_index],
        )
        angle = np.array(
            [best_angle, best_angle - slope / second_derivative if second_derivative < 0.0 else best_angle]
        )
    return float(np.sqrt((d * d).sum(axis=0).max()))


def _cruise_trajectory(
    name: str,
    path: Callable[[Scalar], PathDerivatives],
    length: float,
    max_slope: float,
    speed: float,
    acceleration: float,
    yaw: Yaw,
    ends: tuple[Vec3, ...] = (),
) -> Trajectory:
    """Traverse `length` of a curve's parameter from rest to rest: |p'| ≤ max_slope, so ṡ ≤ speed/max_slope."""
    max_speed, max_acceleration = (
        _require_positive(f"{name}: speed", speed),
        _require_positive(f"{name}: acceleration", acceleration),
    )
    heading = yaw if yaw == ALONG else _require_number(f"{name}: yaw", yaw, f'a finite number or "{ALONG}"')
    profile = cruise_profile(length, max_speed / max_slope, max_acceleration / max_slope)

    def reference(time: Scalar) -> Reference:
        motion = cruise_motion(time, profile)
        point = path(motion.s)
        result = path_reference(point, motion)
        return face_along_path(result, point, motion) if heading == ALONG else result._replace(yaw=heading)

    end_waypoints = (Waypoint(t, p_W) for t, p_W in zip((0.0, profile.duration), ends, strict=False))
    return Trajectory(name, profile.duration, reference, tuple(end_waypoints))


# Through gates ------------------------------------------------------------------------------------------------------


@picklable_factory
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
    """Fly through all gates with minimum snap (order 3: jerk): open, from rest at the first to rest at the last; or closed.

    Each piece gets a time in proportion to L/v + v/a; then all are stretched by one factor until no limit is exceeded and one
    is met. A closed race lasts a number of laps, or is endless; it speeds up along the path at a/2. With yaw "along"
    the nose points along the path at every gate and at seven instants between two gates, and turns smoothly in between.

    Args:
        gates: positions [m], in order.
        speed: maximum speed [m/s].
        acceleration: maximum acceleration [m/s²].
        closed: whether the last gate is followed by the first.
        laps: count of laps of a closed race, may be infinite.
        order: derivative to minimise, 3 or 4.
        yaw: heading [rad], or "along".
    """
    max_speed, max_acceleration = (
        _require_positive("race: speed", speed),
        _require_positive("race: acceleration", acceleration),
    )
    lap_count = _require_positive("race: laps", laps, endless=True)
    _require_order("race", order)
    if not closed and lap_count != 1.0:
        raise ValueError(f"race: laps is {lap_count:g}; expected 1, or closed=True")
    positions = _require_positions("race", gates, min_count=3 if closed else 2)
    if closed:
        positions = (*positions, positions[0])
    durations = [length / max_speed + max_speed / max_acceleration for length in _segment_lengths("race", positions)]
    curve = minimum_derivative(positions, durations, order=order, closed=closed)
    curve = curve.stretch(max(curve.max_norm(1) / max_speed, math.sqrt(curve.max_norm(2) / max_acceleration)))
    yaw_value = _require_number("race: yaw", yaw, f'a finite number or "{ALONG}"') if yaw != ALONG else 0.0
    yaw_curve = _yaw_along_path(curve, closed) if yaw == ALONG else None
    profile = (
        cruise_profile(lap_count * curve.duration, 1.0, 0.5 * max_acceleration / curve.max_norm(1)) if closed else None
    )

    reference = _polynomial_reference(curve, yaw_curve, yaw_value, profile)
    return Trajectory(
        "race",
        profile.duration if profile else curve.duration,
        reference,
        _gate_passages(curve.knots, positions, lap_count, profile),
    )


@picklable_factory
def minimum_snap(
    points: Sequence[Sequence[float]], durations: Sequence[float], *, order: int = 4, yaw: Yaw | Sequence[float] = 0.0
) -> Trajectory:
    """Fly through all points in the given times with minimum snap (order 3: jerk), from rest to rest.

    Args:
        points: positions [m].
        durations: times from each point to the next [s].
        order: derivative to minimise, 3 to 5.
        yaw: heading [rad], or "along", or one heading per point; the yaw then takes the shorter turn between points, with
            the same derivative minimised.
    """
    positions = _require_positions("minimum_snap", points, min_count=2)
    times = [_require_positive(f"minimum_snap: durations[{i}]", value) for i, value in enumerate(durations)]
    if len(times) != len(positions) - 1:
        raise ValueError(
            f"minimum_snap: got {len(times)} durations; expected {len(positions) - 1}, one from each point to the next"
        )
    _require_order("minimum_snap", order, "3 (jerk), 4 (snap) or 5 (crackle)")
    curve = minimum_derivative(positions, times, order=order)
    yaw_value, yaw_curve = 0.0, None
    if isinstance(yaw, str):
        if yaw != ALONG:
            raise ValueError(f'minimum_snap: yaw is {yaw!r}; expected a number, one for each point, or "{ALONG}"')
        yaw_curve = _yaw_along_path(curve, False)
    elif not isinstance(yaw, Sequence):
        yaw_value = _require_number("minimum_snap: yaw", yaw)
    else:
        angles = [_require_number(f"minimum_snap: yaw[{i}]", value) for i, value in enumerate(yaw)]
        if len(angles) != len(positions):
            raise ValueError(f"minimum_snap: got {len(angles)} yaws; expected {len(positions)}, one for each point")
        yaw_curve = minimum_derivative(np.unwrap(angles)[:, None], times, order=order)
    reference = _polynomial_reference(curve, yaw_curve, yaw_value, None)
    waypoints_passed = (Waypoint(time, p_W) for time, p_W in zip(curve.knots.tolist(), positions, strict=True))
    return Trajectory("through", curve.duration, reference, tuple(waypoints_passed))


def _polynomial_reference(
    curve: PiecewisePolynomial, yaw_curve: PiecewisePolynomial | None, yaw: float, profile: CruiseProfile | None
) -> Callable[[Scalar], Reference]:
    """Return the reference on a curve, in its time or in that of a cruise, lap after lap; the yaw is a curve or constant."""

    def reference(time: Scalar) -> Reference:
        motion = cruise_motion(time, profile) if profile else _real_time_motion(time, curve.duration)
        curve_time = motion.s - floor(motion.s / curve.duration) * curve.duration if profile else motion.s
        if isinstance(curve_time, Series):
            return Reference(
                Vec3(*curve.series(curve_time)), yaw=yaw if yaw_curve is None else yaw_curve.series(curve_time)[0]
            )
        result = path_reference(PathDerivatives(*(Vec3(*row) for row in curve.components(curve_time, 5))), motion)
        if yaw_curve is None:
            return result._replace(yaw=yaw)
        (angle,), (yaw_slope,), (yaw_curvature,) = yaw_curve.components(curve_time, 3)
        return result._replace(
            yaw=wrap_angle(angle),
            yaw_rate=yaw_slope * motion.ds,
            yaw_acceleration=yaw_curvature * motion.ds * motion.ds + yaw_slope * motion.dds,
        )

    return reference


def _gate_passages(
    knots: Array, positions: Sequence[Vec3], lap_count: float, profile: CruiseProfile | None
) -> tuple[Waypoint, ...]:
    """Return the passages of the gates with their times: of every lap, or of the first lap of an endless race."""
    laps = np.arange(math.ceil(lap_count) if math.isfinite(lap_count) else 1)
    s = np.concatenate([knots[:1], (laps[:, None] * knots[-1] + knots[1:]).reshape(-1)])
    times = (s if profile is None else _passage_times(s, profile)).tolist()
    gates = [positions[0], *(list(positions[1:]) * len(laps))]
    total_s = lap_count * float(knots[-1]) * (1.0 + 1e-12)
    return tuple(Waypoint(t, p_W) for t, p_W, distance in zip(times, gates, s, strict=True) if distance <= total_s)


def _real_time_motion(time: Scalar, duration: float) -> PathMotion:
    """s = t from 0 to the end, at rest outside"""
    is_moving = where(logical_and(time > 0.0, time < duration), 1.0, 0.0)
    return PathMotion(clamp(time, 0.0, duration), is_moving, 0.0, 0.0, 0.0)


def _passage_times(s: Array, profile: CruiseProfile) -> Array:
    """t with s(t) = s, by bisection: s is monotonic"""
    low, high = np.zeros_like(s), np.minimum(profile.duration, 2.0 * profile.ramp + s / profile.speed)
    for _ in range(80):
        middle = 0.5 * (low + high)
        is_early = cruise_motion(middle, profile).s < s
        low, high = np.where(is_early, middle, low), np.where(is_early, high, middle)
    return np.where(s <= 0.0, 0.0, np.where(s < profile.speed * (profile.ramp + profile.hold), high, profile.duration))


def _yaw_along_path(curve: PiecewisePolynomial, closed: bool) -> PiecewisePolynomial:
    """Smoothest yaw through the heading of the path at every gate and at some instants in between, unwrapped."""
    samples_per_piece, knots_per_piece = 64, 8
    times = np.concatenate(
        [np.linspace(a, b, samples_per_piece, endpoint=False) for a, b in pairwise(curve.knots)] + [curve.knots[-1:]]
    )
    v = curve.derivatives(times, 2)[:, 1]
    is_horizontal = np.hypot(v[:, 0], v[:, 1]) > 1e-6 * curve.max_norm(
        1
    )  # if at rest or vertical, take the heading nearest in time
    if not is_horizontal.any():
        raise ValueError("race: it is vertical and so has no heading; expected a number for yaw")
    yaw = np.interp(times, times[is_horizontal], np.unwrap(atan2(v[is_horizontal, 1], v[is_horizontal, 0])))
    knot_slice = slice(None, None, samples_per_piece // knots_per_piece)
    return minimum_derivative(yaw[knot_slice, None], np.diff(times[knot_slice]), order=3, closed=closed)


# Sequences ----------------------------------------------------------------------------------------------------------


@picklable_factory
def sequence(*parts: Trajectory) -> Trajectory:
    """Fly trajectories one after the other; each must begin at the previous end, within 1 µm. The yaw may jump at a joint."""
    if not parts:
        raise ValueError("sequence: got no trajectory; expected at least one")
    starts = [0.0]
    for previous, following in pairwise(parts):
        if not math.isfinite(previous.duration):
            raise ValueError(f"sequence: {previous.name} never ends; expected it last")
        gap = following.evaluate(0.0).p_W - previous.evaluate(previous.duration).p_W
        if math.hypot(*gap) > 1e-6:
            ends, start_position = (
                tuple(round(x, 6) for x in r.p_W)
                for r in (previous.evaluate(previous.duration), following.evaluate(0.0))
            )
            raise ValueError(
                f"sequence: {previous.name} ends at {ends}; expected {following.name} to start there, not at {start_position}"
            )
        starts.append(starts[-1] + previous.duration)

    def reference(time: Scalar) -> Reference:
        active = list(zip(starts, parts, strict=True))
        if (
            isinstance(time, np.ndarray) and time.size
        ):  # evaluate only the parts of a long sequence that contain these times
            ends = (*starts[1:], math.inf)
            earliest, latest = float(time.min()), float(time.max())
            active = [
                timed_part
                for timed_part, end in zip(active, ends, strict=True)
                if end > earliest and timed_part[0] <= latest
            ] or active[:1]
        first_start, part = active[0]
        result = part.evaluate_unchecked(time - first_start) if first_start else part.evaluate_unchecked(time)
        for start, part in active[1:]:
            next_leaves = flatten(part.evaluate_unchecked(time - start))
            leaves = (where(time < start, a, b) for a, b in zip(flatten(result), next_leaves, strict=True))
            result = unflatten(result, leaves)
        return result

    waypoints_passed = (
        Waypoint(start + waypoint.time, waypoint.p_W)
        for start, part in zip(starts, parts, strict=True)
        for waypoint in part.waypoints
    )
    return Trajectory(
        ", ".join(part.name for part in parts), starts[-1] + parts[-1].duration, reference, tuple(waypoints_passed)
    )


# Checks of arguments ------------------------------------------------------------------------------------------------


def _require_number(name: str, value: Scalar, expected: str = "a finite number") -> float:
    magnitude: Scalar = abs(value) if isinstance(value, Real) else math.inf
    if isinstance(value, bool) or not magnitude <= MAX_MAGNITUDE:
        raise ValueError(f"{name} is {quote_value(value)}; expected {expected}")
    return float(value)


def _require_positive(name: str, value: Scalar, *, endless: bool = False) -> float:
    if endless and value == math.inf:
        return math.inf
    if _require_number(name, value, "a positive number") <= 0.0:
        raise ValueError(f"{name} is {value!r}; expected a positive number")
    if value < MIN_MAGNITUDE:
        raise ValueError(f"{name} is {value!r}; expected at least {MIN_MAGNITUDE:g}")
    return float(value)


def _require_order(name: str, order: object, allowed: str = "3 (jerk) or 4 (snap)") -> None:
    if isinstance(order, bool) or not isinstance(order, int) or str(order) not in allowed.split():
        raise ValueError(f"{name}: order is {quote_value(order)}; expected {allowed}")


def _require_not_negative(name: str, value: Scalar) -> float:
    if _require_number(name, value) < 0.0:
        raise ValueError(f"{name} is {value!r}; expected a number that is not negative")
    return float(value)


def _require_position(name: str, value: Scalar) -> Vec3:
    components = tuple(np.asarray(value, dtype=float).tolist()) if isinstance(value, np.ndarray) else value
    if not isinstance(components, (tuple, list)) or len(components) != 3:
        raise ValueError(f"{name} is {value!r}; expected three numbers")
    return Vec3(*(_require_number(f"{name}.{axis}", x) for axis, x in zip("xyz", components, strict=True)))


def _require_positions(name: str, points: Sequence[Sequence[float]], *, min_count: int) -> tuple[Vec3, ...]:
    if len(points) < min_count:
        raise ValueError(f"{name}: got {len(points)} points; expected at least {min_count}")
    return tuple(_require_position(f"{name}: point {i}", point) for i, point in enumerate(points))


def _segment_lengths(name: str, positions: Sequence[Vec3]) -> list[float]:
    lengths = [math.hypot(*(b - a)) for a, b in pairwise(positions)]
    if lengths and min(lengths) < MIN_MAGNITUDE:
        raise ValueError(f"{name}: point {lengths.index(min(lengths))} and the next coincide; expected distinct points")
    return lengths


PEAK_TO_MEAN_SPEED = 1.875  # peak over mean speed of a minimum-jerk motion from rest to rest
BRAKING_ACCELERATION = 2.0  # [m/s²]: deceleration of a motion that is brought to rest
MIN_TRANSFER_DURATION = 0.5  # [s]


@picklable_factory
def transfer(start: Reference, end_W: Vec3, *, speed: float) -> Trajectory:
    """p = p₀ + v₀t + ½a₀t² + c₃t³ + c₄t⁴ + c₅t⁵ to rest at the end: minimum ∫ j² dt from p₀, v₀, a₀ in its time T

    T is the duration of a motion from rest to rest with the peak speed `speed`, but at least half a second and the time
    that braking from v₀ takes.
    """
    if not speed > 0.0:
        raise ValueError(f"transfer: speed is {speed!r}; expected a positive number")
    displacement_W = end_W - start.p_W
    T = max(
        PEAK_TO_MEAN_SPEED * norm(displacement_W) / speed,
        PEAK_TO_MEAN_SPEED * norm(start.v_W) / BRAKING_ACCELERATION,
        MIN_TRANSFER_DURATION,
    )
    return Trajectory(
        "transfer",
        T,
        lambda time: _transfer_reference(time, start, displacement_W, T),
        (Waypoint(0.0, start.p_W), Waypoint(T, end_W)),
    )


def _transfer_reference(time: Scalar, start: Reference, displacement_W: Vec3, T: float) -> Reference:
    t = clamp(time, 0.0, T)
    is_moving = where(time < T, 1.0, 0.0)
    rows = [
        _transfer_axis(t, *axis_values, T)
        for axis_values in zip(start.p_W, start.v_W, start.a_W, displacement_W, strict=True)
    ]
    p, v, a, j, snap = (Vec3(*(row[k] for row in rows)) for k in range(5))
    return Reference(p, v * is_moving, a * is_moving, j * is_moving, yaw=start.yaw, s_W=snap * is_moving)


def _transfer_axis(t: Scalar, p0: Scalar, v0: Scalar, a0: Scalar, distance: Scalar, T: float) -> tuple[Scalar, ...]:
    c3 = (20.0 * distance - 12.0 * v0 * T - 3.0 * a0 * T**2) / (2.0 * T**3)
    c4 = (-30.0 * distance + 16.0 * v0 * T + 3.0 * a0 * T**2) / (2.0 * T**4)
    c5 = (12.0 * distance - 6.0 * v0 * T - a0 * T**2) / (2.0 * T**5)
    return (
        p0 + t * (v0 + t * (0.5 * a0 + t * (c3 + t * (c4 + t * c5)))),
        v0 + t * (a0 + t * (3.0 * c3 + t * (4.0 * c4 + t * 5.0 * c5))),
        a0 + t * (6.0 * c3 + t * (12.0 * c4 + t * 20.0 * c5)),
        6.0 * c3 + t * (24.0 * c4 + t * 60.0 * c5),
        24.0 * c4 + t * 120.0 * c5,
    )


def stop(start: Reference) -> Trajectory:
    """Come to rest ½ v₀ T ahead, T = 1.875 |v₀| / braking: the velocity falls to zero and never reverses"""
    speed = norm(start.v_W)
    stopping_W = start.v_W * (0.5 * max(PEAK_TO_MEAN_SPEED * speed / BRAKING_ACCELERATION, MIN_TRANSFER_DURATION))
    return transfer(start, start.p_W + stopping_W, speed=max(speed, 1.0))
