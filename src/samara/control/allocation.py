"""From the thrust and torques a controller wants to the command that gives them, for any rotor set, within its limits.

What does not fit gives way in this order: yaw first, then lift, and roll and pitch last.
"""

from collections.abc import Sequence
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from samara.core.algebra import ZERO, Vec3, dot, rotate
from samara.core.batch_scalar import as_scalar, rounded, scalar_array
from samara.core.ops import clamp, maximum, minimum, safe_sqrt
from samara.core.portable_linalg import product, pseudoinverse
from samara.core.quantity import Scalar
from samara.core.types import Array
from samara.physics.multirotor import steady_command, with_angles
from samara.physics.rotors.rotor import density_ratio
from samara.physics.types import CALM, Command, State, Vehicle
from samara.vehicles.limits import Range, thrust_limits
from samara.vehicles.trim import effective, effectiveness, loads_left, polar

Point = tuple[Any, Any]

_NEGLIGIBLE = 1e-9  # of the largest of its kind: zero but for rounding
_NO_ROOM = 1e-3  # of the weight: a rotor this near to its limit in the trim has nothing to steer with


class Limit(NamedTuple):
    """low ≤ · + x τx + y τy ≤ high"""

    low: float
    high: float
    x: float
    y: float


class Alike(NamedTuple):
    """Rotors that share in lift and turn in the same proportion: what limits them limits  lift f + turn t,  turn 1 or 0."""

    lift: float
    turn: float
    limits: tuple[Limit, ...]

    def range(self, roll: Scalar, pitch: Scalar) -> Range:
        """Where lift f + turn t must lie beside these torques about x and y"""
        taken = [limit.x * roll + limit.y * pitch for limit in self.limits]
        return Range(
            _highest([limit.low - own for limit, own in zip(self.limits, taken, strict=True)]),
            _lowest([limit.high - own for limit, own in zip(self.limits, taken, strict=True)]),
        )


class Allocation(NamedTuple):
    """T = base (f, τx, τy) + yaw t: the thrusts of the rotors, with the turn t chosen as their limits allow

    `base` is the least Σ T² that gives lift, roll and pitch, and turns the body by `turn` · (f, τx, τy) about z; `yaw` is the
    least that adds 1 N·m about z and nothing else. `reach` are the sides x τx + y τy ≤ 1 of all torques about x and y that
    can be had at some lift; `lift` is the range of the lift without them. `keeps_yaw`: hover, without turning about z.
    `left` is the part of kF Ω² that each rotor gives where it stands in the wake of another; () is all of it. Rotors that tilt
    have a second row each, after those of all: what they push across their axes. `side_B` is what they push sideways with in
    hover [N], which the body leans against.
    """

    base: tuple[Vec3, ...] = ()
    yaw: tuple[float, ...] = ()
    turn: Vec3 = ZERO
    limits: tuple[Range, ...] = ()
    groups: tuple[Alike, ...] = ()
    reach: tuple[tuple[float, float], ...] = ()
    lift: Range = Range(0.0, np.inf)
    keeps_yaw: bool = True
    left: tuple[float, ...] = ()
    side_B: Vec3 | None = None


# Within the limits of the rotors -----------------------------------------------------------------------------------


def command_for_wrench(lift: Scalar, tau_B: Vec3, state: State, vehicle: Vehicle, allocation: Allocation) -> Command:
    """Ωᵢ = √(Tᵢ / kF) and the command that holds Ωᵢ; (f, τ) itself for a body driven by a wrench"""
    if not vehicle.rotors:
        return (lift, tau_B.x, tau_B.y, tau_B.z)
    ratio = density_ratio(CALM.air_density)
    gains = [rotor.k_thrust * ratio for rotor in vehicle.rotors]
    if allocation.left:
        gains = [gain * part for gain, part in zip(gains, allocation.left, strict=True)]
    thrusts, angles = polar(rotor_thrusts(lift, tau_B, allocation), vehicle)
    speeds = tuple(safe_sqrt(thrust / gain) for thrust, gain in zip(thrusts, gains, strict=True))
    return steady_command(with_angles(state._replace(rotor_speed=speeds), angles, vehicle), vehicle)


def side_pull(state: State, vehicle: Vehicle, allocation: Allocation) -> Vec3:
    """R f/m: what rotors that tilt push sideways with in hover, on every kilogram; nothing without any  [m/s²]"""
    if allocation.side_B is None:
        return ZERO
    return rotate(state.q_WB, allocation.side_B) / vehicle.mass


def rotor_thrusts(lift: Scalar, tau_B: Vec3, allocation: Allocation) -> tuple[Scalar, ...]:
    """T = base (f, σ τx, σ τy) + yaw t within the rotors' limits  [N]

    σ is the largest up to 1 that goes with any f and t, f the nearest to the lift asked for that goes with some t, and t the
    nearest to the yaw asked for.
    """
    share = 1.0 / _highest([1.0, *(x * tau_B.x + y * tau_B.y for x, y in allocation.reach)])
    roll, pitch = tau_B.x * share, tau_B.y * share
    ranges = [group.range(roll, pitch) for group in allocation.groups]
    if ranges:
        lift = clamp(lift, *_lift_range(allocation.groups, ranges))
    asked = Vec3(lift, roll, pitch)
    turn = tau_B.z - dot(allocation.turn, asked)
    turns = [
        Range(own.low - group.lift * lift, own.high - group.lift * lift)
        for group, own in zip(allocation.groups, ranges, strict=True)
        if group.turn
    ]
    if turns:
        turn = clamp(turn, _highest([own.low for own in turns]), _lowest([own.high for own in turns]))
    thrusts = (dot(row, asked) + yaw * turn for row, yaw in zip(allocation.base, allocation.yaw, strict=True))
    return tuple(clamp(thrust, *limit) for thrust, limit in zip(thrusts, allocation.limits, strict=True))


def _lift_range(groups: tuple[Alike, ...], ranges: list[Range]) -> Range:
    """The lifts f for which some t puts  lift f + turn t  of every group into its range: Fourier's elimination of t"""
    low, high = [], []
    for group, own in zip(groups, ranges, strict=True):
        if not group.turn:
            low.append(own.low)
            high.append(own.high)
    turning = [(group.lift, own) for group, own in zip(groups, ranges, strict=True) if group.turn]
    for (less, a), (more, b) in combinations(turning, 2):  # groups stand in rising order of `lift`
        low.append((b.low - a.high) / (more - less))
        high.append((b.high - a.low) / (more - less))
    return Range(_highest(low), _lowest(high))


def _highest(values: list[Scalar]) -> Scalar:
    best = values[0]
    for value in values[1:]:
        best = maximum(best, value)
    return best


def _lowest(values: list[Scalar]) -> Scalar:
    best = values[0]
    for value in values[1:]:
        best = minimum(best, value)
    return best


# The allocation of a vehicle ---------------------------------------------------------------------------------------


def allocation_for(vehicle: Vehicle, healthy: Sequence[bool] | None = None) -> Allocation:
    """The allocation over the healthy rotors, all of them unless said otherwise, within their motors' limits

    A vehicle that does not keep its yaw, as a hexarotor with a dead rotor, still gets of the yaw torque it asks for what lift,
    roll and pitch leave. Rotors that cannot fit together at any lift are each cut off at their own limit.
    """
    if not vehicle.rotors:
        return Allocation()
    working = _working(vehicle, healthy)
    vehicle, left = effective(vehicle), _left(vehicle)
    own = _unlimited(vehicle, working)
    working = _of_columns(working, vehicle)
    limits = thrust_limits(vehicle)
    weight = as_scalar(vehicle.mass * vehicle["gravity"].acceleration)
    level = [weight * (row.x - own.turn.x * yaw) for row, yaw in zip(own.base, own.yaw, strict=True)]
    clear = _NO_ROOM * weight
    steady = all(
        low + clear < thrust < high - clear
        for thrust, (low, high), works in zip(level, limits, working, strict=True)
        if works
    )
    allocation = own._replace(limits=limits, keeps_yaw=any(own.yaw) and steady, left=left)
    if vehicle.servos:
        side = product(effectiveness(vehicle)[:2] * working, scalar_array(level))
        allocation = allocation._replace(side_B=Vec3(as_scalar(side[0]), as_scalar(side[1]), 0.0))
    groups = _groups(own, limits, working)
    reach = _reach(groups)
    if reach is None:
        return allocation
    lift = _lift_range(groups, [group.range(0.0, 0.0) for group in groups])
    return allocation._replace(groups=groups, reach=reach, lift=lift)


def least_squares_allocation(vehicle: Vehicle) -> Allocation:
    """The same without limits, but that no rotor pulls"""
    if not vehicle.rotors:
        return Allocation()
    return _unlimited(effective(vehicle), _working(vehicle, None))._replace(left=_left(vehicle))


def _left(vehicle: Vehicle) -> tuple[float, ...]:
    if not any(effect.counted for effect in vehicle.structure.effects):
        return ()
    return tuple(as_scalar(part.thrust) for part in loads_left(vehicle))


def _working(vehicle: Vehicle, healthy: Sequence[bool] | None) -> Array:
    working = np.ones(len(vehicle.rotors), dtype=bool) if healthy is None else np.array(healthy, dtype=bool)
    if working.shape != (len(vehicle.rotors),) or not working.any():
        raise ValueError(
            f"healthy = {healthy}: expected True or False for each of the {len(vehicle.rotors)} rotors of vehicle "
            f"{vehicle.name!r}, and one True at least"
        )
    return working


def _of_columns(working: Array, vehicle: Vehicle) -> Array:
    """Which columns of `effectiveness` still push: those of a failed rotor do not"""
    return np.concatenate([working, working[list(vehicle.servos)]]) if vehicle.servos else working


def _unlimited(vehicle: Vehicle, working: Array) -> Allocation:
    working = _of_columns(working, vehicle)
    effect = effectiveness(vehicle)[2:] * working
    base = pseudoinverse(effect[:3]) * working[:, None]
    alone = effect[3] - product(
        base, effect[:3], effect[3]
    )  # the part of the yaw row that lift, roll and pitch do not feel
    size = as_scalar(product(alone, alone)[()])
    yaw = (
        alone * working / size
        if size > _NEGLIGIBLE * as_scalar(product(effect[3], effect[3])[()])
        else np.zeros(len(working))
    )
    return Allocation(
        base=tuple(Vec3(*(as_scalar(x) for x in row)) for row in base),
        yaw=tuple(as_scalar(x) for x in yaw),
        turn=Vec3(*(as_scalar(x) for x in product(effect[3], base))),
        limits=(Range(0.0, np.inf),) * len(vehicle.rotors) + (Range(-np.inf, np.inf),) * len(vehicle.servos),
    )


def _groups(own: Allocation, limits: tuple[Range, ...], working: Array) -> tuple[Alike, ...]:
    """The healthy rotors by their proportion of lift to turn, in rising order of it; one that does neither is left out"""
    most_lift, most_turn = _highest([abs(row.x) for row in own.base]), _highest([abs(yaw) for yaw in own.yaw])
    found: list[Alike] = []
    for row, yaw, (low, high), works in zip(own.base, own.yaw, limits, working, strict=True):
        turns, lifts = abs(yaw) > _NEGLIGIBLE * most_turn, abs(row.x) > _NEGLIGIBLE * most_lift
        if not (works and (turns or lifts)):
            continue
        unit = yaw if turns else row.x
        ends = sorted((low / unit, high / unit))
        limit = Limit(ends[0], ends[1], row.y / unit, row.z / unit)
        lift, turn = row.x / unit, 1.0 if turns else 0.0
        for at, group in enumerate(found):
            if group.turn == turn and abs(group.lift - lift) <= _NEGLIGIBLE * most_lift / abs(unit):
                found[at] = group._replace(limits=(*group.limits, limit))
                break
        else:
            found.append(Alike(lift, turn, (limit,)))
    return tuple(sorted(found, key=lambda group: group.lift))


def _reach(groups: tuple[Alike, ...]) -> tuple[tuple[float, float], ...] | None:
    """The sides of the polygon of (τx, τy) for which some f and t suit all groups, or None where nothing does

    Fourier's elimination leaves x τx + y τy ≤ bound many times over. The sides among them are the corners of the hull of
    the points (x, y)/bound: the polygon's polar.
    """
    if not groups:
        return None
    rows = scalar_array(
        [
            [sign * number for number in (group.lift, group.turn, limit.x, limit.y, end)]
            for group in groups
            for limit in group.limits
            for sign, end in ((1.0, limit.high), (-1.0, limit.low))
        ]
    )
    for column in (1, 0):
        along = rows[:, column]
        up, down = (rows[which] / np.abs(along[which])[:, None] for which in (along > 0.0, along < 0.0))
        rows = np.concatenate([rows[along == 0.0], (up[:, None] + down[None]).reshape(-1, 5)])
    bounds = rows[:, 4]
    if not (bounds > 0.0).all():
        return None
    return _hull(rows[:, 2:4] / bounds[:, None])


def _hull(points: Array) -> tuple[tuple[float, float], ...]:
    """The corners of the convex hull (Andrew's monotone chain), those on its sides left out"""
    size = _highest([abs(x) for x in points.ravel().tolist()]) or 1.0
    ordered = _ordered([(rounded(x / size), rounded(y / size)) for x, y in points.tolist()])

    def chain(points: list[Point]) -> list[Point]:
        corners: list[Point] = []
        for point in points:
            while len(corners) > 1 and _turn(corners[-2], corners[-1], point) <= _NEGLIGIBLE:
                corners.pop()
            corners.append(point)
        return corners[:-1]

    return tuple((size * x, size * y) for x, y in chain(ordered) + chain(ordered[::-1]))


def _ordered(points: list[Point]) -> list[Point]:
    """By x, then by y, each once"""
    found = scalar_array(points)
    if found.dtype != object:  # of 0 and −0 NumPy keeps another than `sorted`: flights of before have NumPy's
        return [(x, y) for x, y in np.unique(found, axis=0).tolist()]
    rising = sorted(points)
    return [point for k, point in enumerate(rising) if k == 0 or point != rising[k - 1]]


def _turn(a: Point, b: Point, c: Point) -> Scalar:
    """(b − a) × (c − a): positive where the way turns left at b"""
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])


CORNERS = {"front right": (1, -1), "back right": (-1, -1), "back left": (-1, 1), "front left": (1, 1)}  # signs of x, y
SPINS = (1, -1, 1, -1)


def rotor_order(vehicle: Vehicle, who: str = "raptor") -> tuple[int, ...]:
    """The vehicle's rotors front right, back right, back left, front left; ValueError where it has not these, or they turn
    the other way, and `who` needs them"""
    if len(vehicle.rotors) != 4 or vehicle.servos:
        raise ValueError(f"{who} flies quadrotors; vehicle {vehicle.name!r} has {len(vehicle.rotors)} rotors")
    found = []
    for (corner, (ahead, left)), spin in zip(CORNERS.items(), SPINS, strict=True):
        here = [k for k, own in enumerate(vehicle.rotors) if ahead * own.r_B.x > 0.0 and left * own.r_B.y > 0.0]
        if len(here) != 1:
            raise ValueError(f"{who} flies quadrotors in X; vehicle {vehicle.name!r} has {len(here)} rotors {corner}")
        if vehicle.rotors[here[0]].spin != spin:
            way = "counter-clockwise" if spin > 0 else "clockwise"
            raise ValueError(f"{who} wants the rotor {corner} to turn {way}; that of vehicle {vehicle.name!r} does not")
        found.append(here[0])
    return tuple(found)
