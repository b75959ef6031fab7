"""The fastest way through points that a vehicle can fly: its own thrust, tilt, rates, rotors and commands, none exceeded.

A plan is a polynomial of least snap (or jerk) through the points. How long each piece lasts is searched for; the flat map of
the vehicle (`samara.plan.flatness`) says what every moment of it asks.
"""

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from samara.core.algebra import Vec3, matrix_from_quat, norm
from samara.core.ops import atan2, safe_norm
from samara.core.portable_linalg import powers
from samara.core.tree import unflatten
from samara.core.types import Array
from samara.physics.types import CALM, Environment, Vehicle
from samara.plan.flatness import FlatMotion, FlatOutput, flat_motion, flat_output
from samara.plan.taylor import Series
from samara.plan.trajectory import Trajectory, Yaw, hover, through
from samara.vehicles.limits import thrust_limits
from samara.world.track import Track

GRID = 1e-3  # [s]: where the limits are kept in the end
SEARCH_ORDER = 6
_PER_PIECE = 16  # samples of a piece while searching
_SEARCH_SWEEPS = 4  # of the attitude in its own drag, while searching
_ANY = np.array([2.0**k for k in range(-12, 13)])  # paces tried at once
_NEARBY = np.array([0.75 * 1.8 ** (k / 11.0) for k in range(12)])
_STEPS = (0.4, 0.15, 0.05)  # by which the share of a piece is changed, coarse to fine
_WORTH_IT = 1e-3  # of the time
MAX_SEARCH_WORK = 30_000  # pieces times evaluations; the best plan so far is returned
_GRID_BLOCK = 50_000  # samples evaluated at once
_CLOSE = 0.01  # how near to its limit a plan is brought


class Limits(NamedTuple):
    """What a plan may ask: a part of all the thrust, a lean [rad], a turn [rad/s]; rotors and commands have their own limits"""

    thrust: float = 0.9
    tilt: float = math.radians(60.0)
    rate: float = 10.0


DEFAULT_LIMITS = Limits()


class Plan(NamedTuple):
    """A trajectory, and how much of each limit it uses at most (1 is all of it)"""

    trajectory: Trajectory
    used: dict[str, float]

    @property
    def tightest(self) -> str:
        """The limit that holds it back"""
        return max(self.used, key=lambda name: self.used[name])


def usage(motion: FlatMotion, vehicle: Vehicle, limits: Limits = DEFAULT_LIMITS) -> dict[str, Array]:
    """By limit, how much of it every moment asks: tilt, rate, thrust, and of rotors and commands the most and the least"""
    up = matrix_from_quat(motion.state.q_WB).columns[2]
    used = {
        "tilt": atan2(safe_norm(up.x, up.y), up.z) / limits.tilt,
        "rate": norm(motion.state.omega_B) / limits.rate,
    }
    if not vehicle.rotors:
        return used
    bounds = thrust_limits(vehicle)
    lifts = np.stack(np.broadcast_arrays(*motion.rotor_thrust))
    floors = lifts.shape[1:]
    low, high = (np.array(own).reshape(-1, *(1,) * len(floors)) for own in zip(*bounds, strict=True))
    used["thrust"] = motion.thrust / (limits.thrust * float(high.sum()))
    used["rotor, most"] = (lifts / high).max(axis=0)
    used["rotor, least"] = ((high - lifts) / (high - low)).max(axis=0)
    used |= _of_command(motion, vehicle)
    return used


def _of_command(motion: FlatMotion, vehicle: Vehicle) -> dict[str, Array]:
    """A command is between 0 and 1, or a speed between those its motor holds."""
    told = np.stack(np.broadcast_arrays(*motion.command))
    if vehicle.structure.actuation.name == "speed":
        ends = np.array([(rotor.motor.speed_min, rotor.motor.speed_max) for rotor in vehicle.rotors])
        low, high = (ends[:, k].reshape(-1, *(1,) * (told.ndim - 1)) for k in (0, 1))
        told = (told - low) / (high - low)
    return {"command, most": told.max(axis=0), "command, least": 1.0 - told.min(axis=0)}


def asked(
    trajectory: Trajectory, vehicle: Vehicle, limits: Limits = DEFAULT_LIMITS, environment: Environment = CALM
) -> dict[str, float]:
    """The most that a trajectory uses of each limit, on a grid of a millisecond"""
    time = np.linspace(0.0, trajectory.duration, math.ceil(trajectory.duration / GRID) + 1)
    most: dict[str, float] = {}
    for at in range(0, len(time), _GRID_BLOCK):  # a sample takes kilobytes
        motion = flat_motion(flat_output(trajectory, time[at : at + _GRID_BLOCK], SEARCH_ORDER), vehicle, environment)
        for name, fraction in usage(motion, vehicle, limits).items():
            most[name] = float(np.maximum(most.get(name, -math.inf), np.max(fraction)))  # NaN stays NaN
    return most


def fastest(
    points: Sequence[Sequence[float]],
    vehicle: Vehicle,
    *,
    limits: Limits = DEFAULT_LIMITS,
    order: int = 4,
    yaw: Yaw | Sequence[float] = 0.0,
    environment: Environment = CALM,
    progress: Callable[[float], None] | None = None,
) -> Plan:
    """From rest to rest through all points in the least time found: polynomials of least snap (3: jerk, 5: crackle)

    Each piece's share of the time is made longer and shorter while that helps, from shares of equal speed; the pace is always
    the one at which the tightest limit is met. The search ends after `MAX_SEARCH_WORK` with the best plan so far. At both ends
    the snap jumps (of order 3 the jerk), and the rotors must follow as fast as they can; with order 5 it does not.
    """
    _require_hover(vehicle, limits, environment)
    shares = equal_speed(points)
    shares *= _pace(through(points, shares.tolist(), order=order, yaw=yaw), vehicle, limits, environment)

    def lasting(own: Array) -> float:
        pace = _pace(through(points, own.tolist(), order=order, yaw=yaw), vehicle, limits, environment, guess=1.0)
        return float(own.sum()) * pace

    best = lasting(shares)
    evaluations = MAX_SEARCH_WORK // len(shares)
    for k, step in enumerate(_STEPS if len(shares) > 1 else ()):
        if progress:
            progress(k / len(_STEPS))
        improving = True
        while improving:
            improving = False
            for piece in range(len(shares)):
                for factor in (1.0 + step, 1.0 / (1.0 + step)):
                    if evaluations <= 0:
                        break
                    evaluations -= 1
                    tried = shares.copy()
                    tried[piece] *= factor
                    own = lasting(tried)
                    if own < best * (1.0 - _WORTH_IT):
                        shares, best, improving = tried * (own / tried.sum()), own, True
                        break
    return at_pace(points, shares.tolist(), vehicle, limits=limits, order=order, yaw=yaw, environment=environment)


def equal_speed(points: Sequence[Sequence[float]]) -> Array:
    """Durations in proportion to the distances: a mean speed of 1 m/s on every piece"""
    places = np.array([tuple(point) for point in points], dtype=float)
    return np.array([max(math.dist(a, b), 1e-6) for a, b in pairwise(places)])


def at_pace(
    points: Sequence[Sequence[float]],
    durations: Sequence[float],
    vehicle: Vehicle,
    *,
    limits: Limits = DEFAULT_LIMITS,
    order: int = 4,
    yaw: Yaw | Sequence[float] = 0.0,
    environment: Environment = CALM,
) -> Plan:
    """The same durations, all stretched or shortened alike until on a grid of a millisecond the tightest limit is just met"""
    _require_hover(vehicle, limits, environment)
    factor = _pace(through(points, durations, order=order, yaw=yaw), vehicle, limits, environment)
    too_fast, slow_enough, plan = 0.0, math.inf, None
    for _ in range(30):
        trajectory = through(points, [factor * own for own in durations], order=order, yaw=yaw)
        used = asked(trajectory, vehicle, limits, environment)
        most = max(used.values())
        if most > 1.0:
            too_fast = factor
        else:
            slow_enough, plan = factor, Plan(trajectory, used)
            if most > 1.0 - _CLOSE:
                break
        factor = factor * (1.02 if most > 1.0 else 0.98)
        if too_fast and math.isfinite(slow_enough):
            factor = math.sqrt(too_fast * slow_enough)
    if plan is None:
        raise ValueError(f"vehicle {vehicle.name!r}: found no pace within the limits; expected a gentler way")
    return plan


def _pace(
    trajectory: Trajectory, vehicle: Vehicle, limits: Limits, environment: Environment, guess: float | None = None
) -> float:
    """The factor on its time at which a trajectory meets its tightest limit, from samples of every piece

    Stretched by s, the k-th derivative is 1/sᵏ of what it was: many paces are one call.
    """
    knots = np.array([mark.time for mark in trajectory.waypoints])
    inside = np.arange(_PER_PIECE) / _PER_PIECE
    time = np.concatenate([(knots[:-1, None] + np.diff(knots)[:, None] * inside).reshape(-1), knots[-1:]])
    output = flat_output(trajectory, time, SEARCH_ORDER)
    if guess is None:
        guess = _met(output, _ANY, vehicle, limits, environment)
        guess = _met(output, guess * _NEARBY, vehicle, limits, environment)
    return _met(output, guess * _NEARBY, vehicle, limits, environment)


def _met(output: FlatOutput, paces: Array, vehicle: Vehicle, limits: Limits, environment: Environment) -> float:
    """Where the largest use of any limit falls through 1, on a straight line between the last pace above and the next"""
    most = _most(output, paces, vehicle, limits, environment)
    over = np.flatnonzero(most > 1.0)
    k = min(int(over[-1]) if len(over) else 0, len(paces) - 2)
    crosses = np.isfinite(most[k]) and most[k] > 1.0 > most[k + 1]
    part = (most[k] - 1.0) / (most[k] - most[k + 1]) if crosses else 1.0
    return float(paces[k] * (paces[k + 1] / paces[k]) ** part)


def _most(output: FlatOutput, paces: Array, vehicle: Vehicle, limits: Limits, environment: Environment) -> Array:
    """The largest use of any limit at each pace"""
    factors = list(powers(1.0 / paces, SEARCH_ORDER + 1).T[:, :, None])
    leaves = [
        Series([np.asarray(c) * f for c, f in zip(x.coefficients, factors, strict=False)])
        for x in (*output.p_W, output.yaw)
    ]
    scaled: FlatOutput = unflatten(FlatOutput(output.p_W, 0.0), iter(leaves))
    shape = np.broadcast_shapes(*(np.shape(x.value) for x in leaves))
    with np.errstate(all="ignore"):
        used = usage(flat_motion(scaled, vehicle, environment, sweeps=_SEARCH_SWEEPS), vehicle, limits)
    every = np.stack([np.broadcast_to(own, shape) for own in used.values()])
    return np.where(np.isfinite(every), every, np.inf).max(axis=(0, 2))


def _require_hover(vehicle: Vehicle, limits: Limits, environment: Environment) -> None:
    for name, value in limits._asdict().items():
        if not 0.0 < value < math.inf:
            raise ValueError(f"limits.{name} is {value!r}; expected a positive number")
    motion = flat_motion(flat_output(hover((0.0, 0.0, 1.0)), 0.0, SEARCH_ORDER), vehicle, environment)
    for name, own in usage(motion, vehicle, limits).items():
        if float(own) >= 1.0:
            raise ValueError(
                f"vehicle {vehicle.name!r} already uses {float(own):.3g} of the limit on {name} when it hovers; "
                "expected less than 1"
            )


BEYOND = 2.5  # widths of the opening: where a plan comes to rest, behind the last gate


class Line(NamedTuple):
    """Points, how long from each to the next [s], and which of the points are the gates"""

    points: tuple[Vec3, ...]
    durations: tuple[float, ...]
    gates: tuple[int, ...]

    @property
    def trajectory(self) -> Trajectory:
        """From rest at the start to rest behind the last gate, with the least snap"""
        return through(self.points, self.durations)

    @property
    def finish(self) -> float:
        """When the last gate is passed [s]"""
        return math.fsum(self.durations[: self.gates[-1]])


def points_of(track: Track) -> tuple[tuple[Vec3, ...], tuple[int, ...]]:
    """The start, the gates with their `via` before them, and a place behind the last; and which of them are gates"""
    points, at = [track.start_W], []
    for via, gate in zip(track.via or ((),) * len(track.gates), track.gates, strict=True):
        points += [*via, gate.p_W]
        at.append(len(points) - 1)
    last = track.gates[-1]
    ahead = Vec3(math.cos(last.yaw), math.sin(last.yaw), 0.0)
    return (*points, last.p_W + ahead * (BEYOND * track.sizes.opening[0])), tuple(at)


def line_of(track: Track, vehicle: Vehicle, pace: float = 1.0) -> Line:
    """The fastest plan; with a `pace` below 1 all of it is flown so much slower"""
    if not 0.0 < pace <= 2.0:
        raise ValueError(f"pace is {pace!r}; expected a number above 0 and up to 2")
    points, gates = points_of(track)
    return Line(points, tuple(own / pace for own in _fastest(points, vehicle)), gates)


@lru_cache(maxsize=16)
def _fastest(points: tuple[Vec3, ...], vehicle: Vehicle) -> tuple[float, ...]:
    """How long from each point to the next"""
    marks = fastest(points, vehicle).trajectory.waypoints
    return tuple(after.time - before.time for before, after in pairwise(marks))
