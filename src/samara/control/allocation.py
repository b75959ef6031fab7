"""Allocation of collective thrust and torque to the rotors, for any rotor arrangement, within the rotors' limits.

If the limits do not permit the desired wrench, yaw is reduced first, then thrust, and roll and pitch last.
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

_NEGLIGIBLE = 1e-9  # relative to the largest value: zero except for rounding
_MIN_MARGIN_FRACTION = 1e-3  # fraction of the weight; a rotor closer to its limit in the trim has no control authority


class Limit(NamedTuple):
    """low ≤ · + x τx + y τy ≤ high"""

    low: float
    high: float
    x: float
    y: float


class Alike(NamedTuple):
    """Rotors with the same ratio of thrust to yaw: their limits bound  lift f + turn t,  turn 1 or 0."""

    lift: float
    turn: float
    limits: tuple[Limit, ...]

    def range(self, roll: Scalar, pitch: Scalar) -> Range:
        """Return the range of lift f + turn t that these roll and pitch torques leave."""
        torque_terms = [limit.x * roll + limit.y * pitch for limit in self.limits]
        return Range(
            _highest([limit.low - term for limit, term in zip(self.limits, torque_terms, strict=True)]),
            _lowest([limit.high - term for limit, term in zip(self.limits, torque_terms, strict=True)]),
        )


class Allocation(NamedTuple):
    """T = base (f, τx, τy) + yaw t: rotor thrusts, with the yaw term t chosen within their limits

    `base` is the minimum of Σ T² that gives thrust, roll and pitch; it causes a yaw torque `turn` · (f, τx, τy). `yaw` is the
    minimum that adds 1 N·m of yaw and nothing else. `reach` lists the sides x τx + y τy ≤ 1 of the polygon of roll and pitch
    torques that are feasible at some thrust; `lift` is the range of the thrust at zero torque. `keeps_yaw`: the vehicle can
    hover without rotating about z. `left` is the fraction of kF Ω² that a rotor gives in the wake of another; () if none is.
    Tilting rotors have a second row each, after the rows of all rotors, for their force across the axis. `side_B` is their
    sideways force in hover [N], which the body's tilt balances.
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


def command_for_wrench(
    collective_thrust: Scalar, tau_B: Vec3, state: State, vehicle: Vehicle, allocation: Allocation
) -> Command:
    """Ωᵢ = √(Tᵢ / kF) and the command that holds Ωᵢ; (f, τ) for a body driven by a wrench

    Args:
        lift: desired collective thrust [N].
        tau_B: desired torque [N·m].
        state: state of the vehicle, which gives the servo angles.
        vehicle: model of the vehicle.
        allocation: allocation of the vehicle, from `allocation_for`.
    """
    if not vehicle.rotors:
        return (collective_thrust, tau_B.x, tau_B.y, tau_B.z)
    ratio = density_ratio(CALM.air_density)
    gains = [rotor.k_thrust * ratio for rotor in vehicle.rotors]
    if allocation.left:
        gains = [gain * factor for gain, factor in zip(gains, allocation.left, strict=True)]
    thrusts, angles = polar(rotor_thrusts(collective_thrust, tau_B, allocation), vehicle)
    speeds = tuple(safe_sqrt(thrust / gain) for thrust, gain in zip(thrusts, gains, strict=True))
    return steady_command(with_angles(state._replace(rotor_speed=speeds), angles, vehicle), vehicle)


def side_pull(state: State, vehicle: Vehicle, allocation: Allocation) -> Vec3:
    """R f/m: the sideways acceleration of tilting rotors in hover; zero without such rotors  [m/s²]"""
    if allocation.side_B is None:
        return ZERO
    return rotate(state.q_WB, allocation.side_B) / vehicle.mass


def rotor_thrusts(collective_thrust: Scalar, tau_B: Vec3, allocation: Allocation) -> tuple[Scalar, ...]:
    """T = base (f, σ τx, σ τy) + yaw t within the rotors' limits  [N]

    σ is the largest value up to 1 that is feasible with any f and t, f the feasible thrust closest to the desired one, t the
    feasible value closest to the desired yaw.
    """
    scaling = 1.0 / _highest([1.0, *(x * tau_B.x + y * tau_B.y for x, y in allocation.reach)])
    roll, pitch = tau_B.x * scaling, tau_B.y * scaling
    ranges = [group.range(roll, pitch) for group in allocation.groups]
    if ranges:
        collective_thrust = clamp(collective_thrust, *_thrust_range(allocation.groups, ranges))
    demand = Vec3(collective_thrust, roll, pitch)
    yaw_term = tau_B.z - dot(allocation.turn, demand)
    yaw_ranges = [
        Range(limits.low - group.lift * collective_thrust, limits.high - group.lift * collective_thrust)
        for group, limits in zip(allocation.groups, ranges, strict=True)
        if group.turn
    ]
    if yaw_ranges:
        yaw_term = clamp(
            yaw_term, _highest([limits.low for limits in yaw_ranges]), _lowest([limits.high for limits in yaw_ranges])
        )
    thrusts = (dot(row, demand) + yaw * yaw_term for row, yaw in zip(allocation.base, allocation.yaw, strict=True))
    return tuple(clamp(thrust, *limit) for thrust, limit in zip(thrusts, allocation.limits, strict=True))


def _thrust_range(groups: tuple[Alike, ...], ranges: list[Range]) -> Range:
    """Range of f for which some t puts  lift f + turn t  of every group into its range: Fourier's elimination of t."""
    low, high = [], []
    for group, limits in zip(groups, ranges, strict=True):
        if not group.turn:
            low.append(limits.low)
            high.append(limits.high)
    yaw_groups = [(group.lift, limits) for group, limits in zip(groups, ranges, strict=True) if group.turn]
    for (ratio_a, a), (ratio_b, b) in combinations(yaw_groups, 2):  # groups are sorted by ascending `lift`
        low.append((b.low - a.high) / (ratio_b - ratio_a))
        high.append((b.high - a.low) / (ratio_b - ratio_a))
    return Range(_highest(low), _lowest(high))


def _highest(values: list[Scalar]) -> Scalar:
    largest = values[0]
    for value in values[1:]:
        largest = maximum(largest, value)
    return largest


def _lowest(values: list[Scalar]) -> Scalar:
    smallest = values[0]
    for value in values[1:]:
        smallest = minimum(smallest, value)
    return smallest


# The allocation of a vehicle ---------------------------------------------------------------------------------------


def allocation_for(vehicle: Vehicle, healthy: Sequence[bool] | None = None) -> Allocation:
    """Build the allocation of a vehicle within the limits of its motors.

    A vehicle that cannot hold its yaw, such as a hexarotor with a failed rotor, still gets the yaw torque that thrust, roll
    and pitch leave. If no thrust satisfies the limits of all rotors, every rotor is clamped to its limits separately.

    Args:
        vehicle: model of the vehicle.
        healthy: for each rotor, whether it works; None for all.
    """
    if not vehicle.rotors:
        return Allocation()
    healthy_columns = _healthy_mask(vehicle, healthy)
    vehicle, wake_factors = effective(vehicle), _left(vehicle)
    unlimited = _unlimited_allocation(vehicle, healthy_columns)
    healthy_columns = _healthy_columns(healthy_columns, vehicle)
    limits = thrust_limits(vehicle)
    weight = as_scalar(vehicle.mass * vehicle["gravity"].acceleration)
    hover_thrusts = [
        weight * (row.x - unlimited.turn.x * yaw) for row, yaw in zip(unlimited.base, unlimited.yaw, strict=True)
    ]
    margin = _MIN_MARGIN_FRACTION * weight
    can_hover = all(
        low + margin < thrust < high - margin
        for thrust, (low, high), is_healthy in zip(hover_thrusts, limits, healthy_columns, strict=True)
        if is_healthy
    )
    allocation = unlimited._replace(limits=limits, keeps_yaw=any(unlimited.yaw) and can_hover, left=wake_factors)
    if vehicle.servos:
        side_force = product(effectiveness(vehicle)[:2] * healthy_columns, scalar_array(hover_thrusts))
        allocation = allocation._replace(side_B=Vec3(as_scalar(side_force[0]), as_scalar(side_force[1]), 0.0))
    groups = _groups(unlimited, limits, healthy_columns)
    torque_polygon = _reach(groups)
    if torque_polygon is None:
        return allocation
    thrust_range = _thrust_range(groups, [group.range(0.0, 0.0) for group in groups])
    return allocation._replace(groups=groups, reach=torque_polygon, lift=thrust_range)


def least_squares_allocation(vehicle: Vehicle) -> Allocation:
    """Build an allocation whose only limit is that no rotor thrust is negative."""
    if not vehicle.rotors:
        return Allocation()
    return _unlimited_allocation(effective(vehicle), _healthy_mask(vehicle, None))._replace(left=_left(vehicle))


def _left(vehicle: Vehicle) -> tuple[float, ...]:
    if not any(effect.counted for effect in vehicle.structure.effects):
        return ()
    return tuple(as_scalar(load.thrust) for load in loads_left(vehicle))


def _healthy_mask(vehicle: Vehicle, healthy: Sequence[bool] | None) -> Array:
    is_healthy = np.ones(len(vehicle.rotors), dtype=bool) if healthy is None else np.array(healthy, dtype=bool)
    if is_healthy.shape != (len(vehicle.rotors),) or not is_healthy.any():
        raise ValueError(
            f"healthy = {healthy}: expected True or False for each of the {len(vehicle.rotors)} rotors of vehicle "
            f"{vehicle.name!r}, and one True at least"
        )
    return is_healthy


def _healthy_columns(is_healthy: Array, vehicle: Vehicle) -> Array:
    """Mark the columns of `effectiveness` that belong to working rotors."""
    return np.concatenate([is_healthy, is_healthy[list(vehicle.servos)]]) if vehicle.servos else is_healthy


def _unlimited_allocation(vehicle: Vehicle, is_healthy: Array) -> Allocation:
    is_healthy = _healthy_columns(is_healthy, vehicle)
    matrix = effectiveness(vehicle)[2:] * is_healthy
    base = pseudoinverse(matrix[:3]) * is_healthy[:, None]
    yaw_only = matrix[3] - product(
        base, matrix[:3], matrix[3]
    )  # component of the yaw row orthogonal to thrust, roll and pitch
    squared_norm = as_scalar(product(yaw_only, yaw_only)[()])
    yaw = (
        yaw_only * is_healthy / squared_norm
        if squared_norm > _NEGLIGIBLE * as_scalar(product(matrix[3], matrix[3])[()])
        else np.zeros(len(is_healthy))
    )
    return Allocation(
        base=tuple(Vec3(*(as_scalar(x) for x in row)) for row in base),
        yaw=tuple(as_scalar(x) for x in yaw),
        turn=Vec3(*(as_scalar(x) for x in product(matrix[3], base))),
        limits=(Range(0.0, np.inf),) * len(vehicle.rotors) + (Range(-np.inf, np.inf),) * len(vehicle.servos),
    )


def _groups(allocation: Allocation, limits: tuple[Range, ...], healthy_columns: Array) -> tuple[Alike, ...]:
    """Group the healthy rotors by their ratio of thrust to yaw, in ascending order; rotors with neither are left out."""
    max_thrust, max_yaw = (
        _highest([abs(row.x) for row in allocation.base]),
        _highest([abs(yaw) for yaw in allocation.yaw]),
    )
    groups: list[Alike] = []
    for row, yaw, (low, high), is_healthy in zip(allocation.base, allocation.yaw, limits, healthy_columns, strict=True):
        has_yaw, has_thrust = abs(yaw) > _NEGLIGIBLE * max_yaw, abs(row.x) > _NEGLIGIBLE * max_thrust
        if not (is_healthy and (has_yaw or has_thrust)):
            continue
        unit = yaw if has_yaw else row.x
        bounds = sorted((low / unit, high / unit))
        limit = Limit(bounds[0], bounds[1], row.y / unit, row.z / unit)
        thrust_ratio, yaw_ratio = row.x / unit, 1.0 if has_yaw else 0.0
        for index, group in enumerate(groups):
            if group.turn == yaw_ratio and abs(group.lift - thrust_ratio) <= _NEGLIGIBLE * max_thrust / abs(unit):
                groups[index] = group._replace(limits=(*group.limits, limit))
                break
        else:
            groups.append(Alike(thrust_ratio, yaw_ratio, (limit,)))
    return tuple(sorted(groups, key=lambda group: group.lift))


def _reach(groups: tuple[Alike, ...]) -> tuple[tuple[float, float], ...] | None:
    """Sides of the polygon of (τx, τy) for which some f and t satisfy all groups; None if the set is empty.

    Fourier's elimination yields many redundant constraints x τx + y τy ≤ bound. The sides are the corners of the hull of
    the points (x, y)/bound: the polygon's polar.
    """
    if not groups:
        return None
    rows = scalar_array(
        [
            [sign * coefficient for coefficient in (group.lift, group.turn, limit.x, limit.y, bound)]
            for group in groups
            for limit in group.limits
            for sign, bound in ((1.0, limit.high), (-1.0, limit.low))
        ]
    )
    for column in (1, 0):
        coefficients = rows[:, column]
        positive, negative = (
            rows[mask] / np.abs(coefficients[mask])[:, None] for mask in (coefficients > 0.0, coefficients < 0.0)
        )
        rows = np.concatenate([rows[coefficients == 0.0], (positive[:, None] + negative[None]).reshape(-1, 5)])
    bounds = rows[:, 4]
    if not (bounds > 0.0).all():
        return None
    return _hull_corners(rows[:, 2:4] / bounds[:, None])


def _hull_corners(points: Array) -> tuple[tuple[float, float], ...]:
    """Corners of the convex hull (Andrew's monotone chain), without points on its sides."""
    largest = _highest([abs(x) for x in points.ravel().tolist()]) or 1.0
    sorted_points = _sort_unique([(rounded(x / largest), rounded(y / largest)) for x, y in points.tolist()])

    def chain(points: list[Point]) -> list[Point]:
        corners: list[Point] = []
        for point in points:
            while len(corners) > 1 and _turn(corners[-2], corners[-1], point) <= _NEGLIGIBLE:
                corners.pop()
            corners.append(point)
        return corners[:-1]

    return tuple((largest * x, largest * y) for x, y in chain(sorted_points) + chain(sorted_points[::-1]))


def _sort_unique(points: list[Point]) -> list[Point]:
    """Sort by x, then by y, without duplicates."""
    array = scalar_array(points)
    if array.dtype != object:  # NumPy and `sorted` retain different signs of zero: recorded flights have NumPy's
        return [(x, y) for x, y in np.unique(array, axis=0).tolist()]
    ascending = sorted(points)
    return [point for i, point in enumerate(ascending) if i == 0 or point != ascending[i - 1]]


def _turn(a: Point, b: Point, c: Point) -> Scalar:
    """(b − a) × (c − a): positive if the path turns left at b"""
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])


CORNERS = {"front right": (1, -1), "back right": (-1, -1), "back left": (-1, 1), "front left": (1, 1)}  # signs of x, y
SPINS = (1, -1, 1, -1)


def rotor_order(vehicle: Vehicle, user: str = "raptor") -> tuple[int, ...]:
    """Return the indices of the front right, back right, back left and front left rotor.

    Raises:
        ValueError: if the vehicle is not a quadrotor in X configuration with the spins that `who` needs.
    """
    if len(vehicle.rotors) != 4 or vehicle.servos:
        raise ValueError(f"{user} flies quadrotors; vehicle {vehicle.name!r} has {len(vehicle.rotors)} rotors")
    order = []
    for (corner, (sign_x, sign_y)), spin in zip(CORNERS.items(), SPINS, strict=True):
        rotors_in_corner = [
            i for i, rotor in enumerate(vehicle.rotors) if sign_x * rotor.r_B.x > 0.0 and sign_y * rotor.r_B.y > 0.0
        ]
        if len(rotors_in_corner) != 1:
            raise ValueError(
                f"{user} flies quadrotors in X; vehicle {vehicle.name!r} has {len(rotors_in_corner)} rotors {corner}"
            )
        if vehicle.rotors[rotors_in_corner[0]].spin != spin:
            direction = "counter-clockwise" if spin > 0 else "clockwise"
            raise ValueError(
                f"{user} wants the rotor {corner} to turn {direction}; that of vehicle {vehicle.name!r} does not"
            )
        order.append(rotors_in_corner[0])
    return tuple(order)
