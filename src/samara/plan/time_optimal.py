"""Time-optimal trajectories through points within a vehicle's limits of thrust, tilt, rates, rotors and commands.

A plan is a polynomial of minimum snap (or jerk) through the points. The durations of its pieces are optimised; the flat map of
the vehicle (`samara.plan.flatness`) gives the limit usage at every instant.
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
from samara.plan.trajectory import Trajectory, Yaw, hover, minimum_snap
from samara.vehicles.limits import thrust_limits
from samara.world.track import Track

GRID_PERIOD = 1e-3  # [s]: period of the grid on which the final plan satisfies the limits
SEARCH_ORDER = 6
_SAMPLES_PER_PIECE = 16  # samples per piece during the search
_SEARCH_SWEEPS = 4  # iterations of attitude and drag during the search
_COARSE_PACES = np.array([2.0**k for k in range(-12, 13)])  # factors on the duration, evaluated at once
_FINE_PACES = np.array([0.75 * 1.8 ** (k / 11.0) for k in range(12)])
_DURATION_STEPS = (0.4, 0.15, 0.05)  # relative changes of the duration of a piece, coarse to fine
_MIN_IMPROVEMENT = 1e-3  # fraction of the total time
MAX_SEARCH_WORK = 30_000  # pieces times evaluations, after which the best plan is returned
_GRID_BLOCK = 50_000  # samples evaluated at once
_PACE_TOLERANCE = 0.01  # distance of a finished plan from its tightest limit


class PlanLimits(NamedTuple):
    """Limits of a plan: fraction of the maximum thrust, tilt [rad], rate [rad/s]; those of rotors and commands are the
    vehicle's."""

    thrust: float = 0.9
    tilt: float = math.radians(60.0)
    rate: float = 10.0


DEFAULT_LIMITS = PlanLimits()


class TimeOptimalPlan(NamedTuple):
    """A trajectory, and the maximum usage of each limit (1 is the limit)."""

    trajectory: Trajectory
    limit_usage: dict[str, float]

    @property
    def tightest_limit(self) -> str:
        """The limit with the highest usage."""
        return max(self.limit_usage, key=lambda name: self.limit_usage[name])


def limit_usage(motion: FlatMotion, vehicle: Vehicle, limits: PlanLimits = DEFAULT_LIMITS) -> dict[str, Array]:
    """Usage of each limit at every instant: tilt, rate, thrust, and maximum and minimum of rotors and commands"""
    thrust_axis = matrix_from_quat(motion.state.q_WB).columns[2]
    fractions = {
        "tilt": atan2(safe_norm(thrust_axis.x, thrust_axis.y), thrust_axis.z) / limits.tilt,
        "rate": norm(motion.state.omega_B) / limits.rate,
    }
    if not vehicle.rotors:
        return fractions
    bounds = thrust_limits(vehicle)
    rotor_thrusts = np.stack(np.broadcast_arrays(*motion.rotor_thrust))
    batch_shape = rotor_thrusts.shape[1:]
    low, high = (np.array(bound).reshape(-1, *(1,) * len(batch_shape)) for bound in zip(*bounds, strict=True))
    fractions["thrust"] = motion.thrust / (limits.thrust * float(high.sum()))
    fractions["rotor maximum"] = (rotor_thrusts / high).max(axis=0)
    fractions["rotor minimum"] = ((high - rotor_thrusts) / (high - low)).max(axis=0)
    fractions |= _command_usage(motion, vehicle)
    return fractions


def _command_usage(motion: FlatMotion, vehicle: Vehicle) -> dict[str, Array]:
    """Usage of the command range: between 0 and 1, or between the minimum and maximum speed of the motor"""
    commands = np.stack(np.broadcast_arrays(*motion.command))
    if vehicle.structure.actuation.name == "speed":
        speed_ranges = np.array([(rotor.motor.speed_min, rotor.motor.speed_max) for rotor in vehicle.rotors])
        low, high = (speed_ranges[:, k].reshape(-1, *(1,) * (commands.ndim - 1)) for k in (0, 1))
        commands = (commands - low) / (high - low)
    return {"command maximum": commands.max(axis=0), "command minimum": 1.0 - commands.min(axis=0)}


def max_limit_usage(
    trajectory: Trajectory, vehicle: Vehicle, limits: PlanLimits = DEFAULT_LIMITS, environment: Environment = CALM
) -> dict[str, float]:
    """Maximum usage of each limit by a trajectory, on a grid of a millisecond"""
    time = np.linspace(0.0, trajectory.duration, math.ceil(trajectory.duration / GRID_PERIOD) + 1)
    max_usage: dict[str, float] = {}
    for first in range(0, len(time), _GRID_BLOCK):  # a sample needs kilobytes
        motion = flat_motion(
            flat_output(trajectory, time[first : first + _GRID_BLOCK], SEARCH_ORDER), vehicle, environment
        )
        for name, fraction in limit_usage(motion, vehicle, limits).items():
            max_usage[name] = float(np.maximum(max_usage.get(name, -math.inf), np.max(fraction)))  # NaN stays NaN
    return max_usage


def plan_fastest(
    points: Sequence[Sequence[float]],
    vehicle: Vehicle,
    *,
    limits: PlanLimits = DEFAULT_LIMITS,
    order: int = 4,
    yaw: Yaw | Sequence[float] = 0.0,
    environment: Environment = CALM,
    progress: Callable[[float], None] | None = None,
) -> TimeOptimalPlan:
    """Minimise the time from rest to rest through all points, with polynomials of minimum snap (3: jerk, 5: crackle).

    The search lengthens and shortens the pieces, from durations of equal speed, while that reduces the total time; each
    candidate is scaled to the pace at which the tightest limit is met. The search ends after `MAX_SEARCH_WORK` with the best
    plan. At both ends the snap jumps (with order 3, the jerk), so the rotors must respond as fast as they can; with
    order 5 the snap is continuous.

    Args:
        points: positions [m].
        vehicle: vehicle whose limits apply.
        limits: limits of thrust, tilt and rate.
        order: derivative to minimise, 3 to 5.
        yaw: heading [rad], or "along", or one heading per point.
        environment: wind and air density.
        progress: called with the completed fraction of the search.
    """
    _require_hover(vehicle, limits, environment)
    durations = equal_speed_durations(points)
    durations *= _find_pace(
        minimum_snap(points, durations.tolist(), order=order, yaw=yaw), vehicle, limits, environment
    )

    def total_duration(piece_durations: Array) -> float:
        pace = _find_pace(
            minimum_snap(points, piece_durations.tolist(), order=order, yaw=yaw),
            vehicle,
            limits,
            environment,
            guess=1.0,
        )
        return float(piece_durations.sum()) * pace

    best_duration = total_duration(durations)
    evaluations = MAX_SEARCH_WORK // len(durations)
    for k, step in enumerate(_DURATION_STEPS if len(durations) > 1 else ()):
        if progress:
            progress(k / len(_DURATION_STEPS))
        is_improving = True
        while is_improving:
            is_improving = False
            for piece in range(len(durations)):
                for factor in (1.0 + step, 1.0 / (1.0 + step)):
                    if evaluations <= 0:
                        break
                    evaluations -= 1
                    candidate = durations.copy()
                    candidate[piece] *= factor
                    candidate_duration = total_duration(candidate)
                    if candidate_duration < best_duration * (1.0 - _MIN_IMPROVEMENT):
                        durations, best_duration, is_improving = (
                            candidate * (candidate_duration / candidate.sum()),
                            candidate_duration,
                            True,
                        )
                        break
    return scale_to_limits(
        points, durations.tolist(), vehicle, limits=limits, order=order, yaw=yaw, environment=environment
    )


def equal_speed_durations(points: Sequence[Sequence[float]]) -> Array:
    """Durations in proportion to the distances: a mean speed of 1 m/s on every piece"""
    positions = np.array([tuple(point) for point in points], dtype=float)
    return np.array([max(math.dist(a, b), 1e-6) for a, b in pairwise(positions)])


def scale_to_limits(
    points: Sequence[Sequence[float]],
    durations: Sequence[float],
    vehicle: Vehicle,
    *,
    limits: PlanLimits = DEFAULT_LIMITS,
    order: int = 4,
    yaw: Yaw | Sequence[float] = 0.0,
    environment: Environment = CALM,
) -> TimeOptimalPlan:
    """Scale the durations by one factor so that the tightest limit is just met on a grid of a millisecond.

    Args:
        points: positions [m].
        durations: times from each point to the next, up to the factor.
        vehicle: vehicle whose limits apply.
        limits: limits of thrust, tilt and rate.
        order: derivative to minimise, 3 to 5.
        yaw: heading [rad], or "along", or one heading per point.
        environment: wind and air density.
    """
    _require_hover(vehicle, limits, environment)
    factor = _find_pace(minimum_snap(points, durations, order=order, yaw=yaw), vehicle, limits, environment)
    too_fast, slow_enough, plan = 0.0, math.inf, None
    for _ in range(30):
        trajectory = minimum_snap(points, [factor * duration for duration in durations], order=order, yaw=yaw)
        max_usage = max_limit_usage(trajectory, vehicle, limits, environment)
        tightest_usage = max(max_usage.values())
        if tightest_usage > 1.0:
            too_fast = factor
        else:
            slow_enough, plan = factor, TimeOptimalPlan(trajectory, max_usage)
            if tightest_usage > 1.0 - _PACE_TOLERANCE:
                break
        factor = factor * (1.02 if tightest_usage > 1.0 else 0.98)
        if too_fast and math.isfinite(slow_enough):
            factor = math.sqrt(too_fast * slow_enough)
    if plan is None:
        raise ValueError(f"vehicle {vehicle.name!r}: found no pace within the limits; expected a gentler path")
    return plan


def _find_pace(
    trajectory: Trajectory, vehicle: Vehicle, limits: PlanLimits, environment: Environment, guess: float | None = None
) -> float:
    """Factor on the duration of a trajectory at which it meets its tightest limit, from samples of every piece

    Stretching by s scales the k-th derivative by 1/sᵏ: one call evaluates many paces.
    """
    knots = np.array([waypoint.time for waypoint in trajectory.waypoints])
    fractions = np.arange(_SAMPLES_PER_PIECE) / _SAMPLES_PER_PIECE
    time = np.concatenate([(knots[:-1, None] + np.diff(knots)[:, None] * fractions).reshape(-1), knots[-1:]])
    output = flat_output(trajectory, time, SEARCH_ORDER)
    if guess is None:
        guess = _crossing_pace(output, _COARSE_PACES, vehicle, limits, environment)
        guess = _crossing_pace(output, guess * _FINE_PACES, vehicle, limits, environment)
    return _crossing_pace(output, guess * _FINE_PACES, vehicle, limits, environment)


def _crossing_pace(
    output: FlatOutput, paces: Array, vehicle: Vehicle, limits: PlanLimits, environment: Environment
) -> float:
    """Interpolate the pace at which the maximum usage falls below 1, between the last pace above it and the next."""
    max_usage = _max_usage(output, paces, vehicle, limits, environment)
    exceeding = np.flatnonzero(max_usage > 1.0)
    k = min(int(exceeding[-1]) if len(exceeding) else 0, len(paces) - 2)
    crosses = np.isfinite(max_usage[k]) and max_usage[k] > 1.0 > max_usage[k + 1]
    fraction = (max_usage[k] - 1.0) / (max_usage[k] - max_usage[k + 1]) if crosses else 1.0
    return float(paces[k] * (paces[k + 1] / paces[k]) ** fraction)


def _max_usage(
    output: FlatOutput, paces: Array, vehicle: Vehicle, limits: PlanLimits, environment: Environment
) -> Array:
    """Maximum usage of any limit at each pace"""
    factors = list(powers(1.0 / paces, SEARCH_ORDER + 1).T[:, :, None])
    leaves = [
        Series([np.asarray(c) * f for c, f in zip(x.coefficients, factors, strict=False)])
        for x in (*output.p_W, output.yaw)
    ]
    scaled: FlatOutput = unflatten(FlatOutput(output.p_W, 0.0), iter(leaves))
    shape = np.broadcast_shapes(*(np.shape(x.value) for x in leaves))
    with np.errstate(all="ignore"):
        fractions = limit_usage(flat_motion(scaled, vehicle, environment, sweeps=_SEARCH_SWEEPS), vehicle, limits)
    all_usage = np.stack([np.broadcast_to(fraction, shape) for fraction in fractions.values()])
    return np.where(np.isfinite(all_usage), all_usage, np.inf).max(axis=(0, 2))


def _require_hover(vehicle: Vehicle, limits: PlanLimits, environment: Environment) -> None:
    for name, value in limits._asdict().items():
        if not 0.0 < value < math.inf:
            raise ValueError(f"limits.{name} is {value!r}; expected a positive number")
    motion = flat_motion(flat_output(hover((0.0, 0.0, 1.0)), 0.0, SEARCH_ORDER), vehicle, environment)
    for name, fraction in limit_usage(motion, vehicle, limits).items():
        if float(fraction) >= 1.0:
            raise ValueError(
                f"vehicle {vehicle.name!r} already uses {float(fraction):.3g} of the limit on {name} when it hovers; "
                "expected less than 1"
            )


STOP_DISTANCE_WIDTHS = 2.5  # in widths of the opening: distance behind the last gate at which a plan comes to rest


class RacingLine(NamedTuple):
    """Points, durations from each to the next [s], and the indices of the points that are gates."""

    points: tuple[Vec3, ...]
    durations: tuple[float, ...]
    gates: tuple[int, ...]

    @property
    def trajectory(self) -> Trajectory:
        """The trajectory from rest at the start to rest behind the last gate, with minimum snap."""
        return minimum_snap(self.points, self.durations)

    @property
    def finish(self) -> float:
        """Time of the passage through the last gate [s]"""
        return math.fsum(self.durations[: self.gates[-1]])


def track_points(track: Track) -> tuple[tuple[Vec3, ...], tuple[int, ...]]:
    """Return the start, the gates, each after its `via` points, and a point behind the last gate; and the gate
    indices."""
    points, gate_indices = [track.start_W], []
    for via, gate in zip(track.via or ((),) * len(track.gates), track.gates, strict=True):
        points += [*via, gate.p_W]
        gate_indices.append(len(points) - 1)
    last = track.gates[-1]
    direction_W = Vec3(math.cos(last.yaw), math.sin(last.yaw), 0.0)
    return (*points, last.p_W + direction_W * (STOP_DISTANCE_WIDTHS * track.sizes.opening_size[0])), tuple(gate_indices)


def plan_racing_line(track: Track, vehicle: Vehicle, speed_fraction: float = 1.0) -> RacingLine:
    """Return the fastest racing line, with its speed scaled by `speed_fraction`."""
    if not 0.0 < speed_fraction <= 2.0:
        raise ValueError(f"speed_fraction is {speed_fraction!r}; expected a number above 0 and up to 2")
    points, gates = track_points(track)
    return RacingLine(
        points, tuple(duration / speed_fraction for duration in _fastest_durations(points, vehicle)), gates
    )


@lru_cache(maxsize=16)
def _fastest_durations(points: tuple[Vec3, ...], vehicle: Vehicle) -> tuple[float, ...]:
    """Durations from each point to the next of the fastest plan  [s]"""
    waypoints_passed = plan_fastest(points, vehicle).trajectory.waypoints
    return tuple(end.time - start.time for start, end in pairwise(waypoints_passed))
