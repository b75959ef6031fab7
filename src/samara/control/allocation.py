"""Allocation of collective thrust and torque to the rotors, for any rotor arrangement, within the rotors' limits.

If the limits do not permit the desired wrench, yaw is reduced first, then thrust, and roll and pitch last.
"""

from collections.abc import Sequence
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from samara.core.algebra import ZERO, Vec3, dot, rotate
from samara.core.batch_scalar import float_or_batch_scalar, round_scalar, scalar_array
from samara.core.ops import clamp, maximum, minimum, safe_sqrt
from samara.core.portable_linalg import product, pseudoinverse
from samara.core.quantity import Scalar
from samara.core.types import Array
from samara.physics.multirotor import replace_tilt_angles, steady_command
from samara.physics.rotors.rotor import density_ratio
from samara.physics.types import CALM, Command, State, Vehicle
from samara.vehicles.limits import ValueRange, thrust_limits
from samara.vehicles.trim import effectiveness, load_fractions, select_effective_rotors, thrusts_and_angles

Point = tuple[Any, Any]

_NEGLIGIBLE = 1e-9  # relative to the largest value: zero except for rounding
_MIN_MARGIN_FRACTION = 1e-3  # fraction of the weight; a rotor closer to its limit in the trim has no control authority


class LinearLimit(NamedTuple):
    """Limits of a value v that depend on roll and pitch torque: low ≤ v + x τx + y τy ≤ high"""

    low: float
    high: float
    x: float
    y: float


class RotorGroup(NamedTuple):
    """Rotors with the same ratio of thrust to yaw; their limits bound  thrust f + yaw t,  with yaw 1 or 0."""

    thrust: float
    yaw: float
    limits: tuple[LinearLimit, ...]

    def range(self, roll: Scalar, pitch: Scalar) -> ValueRange:
        """Return the range of  thrust f + yaw t  that is feasible together with these roll and pitch torques."""
        torque_terms = [limit.x * roll + limit.y * pitch for limit in self.limits]
        return ValueRange(
            _highest([limit.low - term for limit, term in zip(self.limits, torque_terms, strict=True)]),
            _lowest([limit.high - term for limit, term in zip(self.limits, torque_terms, strict=True)]),
        )


class Allocation(NamedTuple):
    """T = base (f, τx, τy) + yaw t: rotor thrusts, with the yaw term t chosen within their limits

    `base` gives thrust, roll and pitch with the smallest Σ T²; it causes a yaw torque `base_yaw` · (f, τx, τy). `yaw`
    adds 1 N·m of yaw and nothing else with the smallest Σ T². `torque_polygon` lists the sides x τx + y τy ≤ 1 of the
    polygon of roll and pitch torques that are feasible at some thrust; `thrust_range` is the range of the thrust at
    zero torque. `controls_yaw`: the vehicle can hover without rotating about z. `wake_factors` are the fractions of kF
    Ω² that rotors in the wake of others produce; () if no rotor is in a wake. Each tilting rotor has a second row,
    after the rows of all rotors, for its force across the axis. `hover_side_force_B` is their sideways force in hover
    [N], which the body's tilt balances.
    """

    base: tuple[Vec3, ...] = ()
    yaw: tuple[float, ...] = ()
    base_yaw: Vec3 = ZERO
    limits: tuple[ValueRange, ...] = ()
    groups: tuple[RotorGroup, ...] = ()
    torque_polygon: tuple[tuple[float, float], ...] = ()
    thrust_range: ValueRange = ValueRange(0.0, np.inf)
    controls_yaw: bool = True
    wake_factors: tuple[float, ...] = ()
    hover_side_force_B: Vec3 | None = None


# Within the limits of the rotors -----------------------------------------------------------------------------------


def command_for_wrench(
    collective_thrust: Scalar, tau_B: Vec3, state: State, vehicle: Vehicle, allocation: Allocation
) -> Command:
    """Ωᵢ = √(Tᵢ / kF) and the command that holds Ωᵢ; (f, τ) for a body driven by a wrench

    Args:
        collective_thrust: desired collective thrust [N].
        tau_B: desired torque [N·m].
        state: state of the vehicle, which gives the servo angles.
        vehicle: model of the vehicle.
        allocation: allocation of the vehicle, from `build_allocation`.
    """
    if not vehicle.rotors:
        return (collective_thrust, tau_B.x, tau_B.y, tau_B.z)
    ratio = density_ratio(CALM.air_density)
    gains = [rotor.k_thrust * ratio for rotor in vehicle.rotors]
    if allocation.wake_factors:
        gains = [gain * factor for gain, factor in zip(gains, allocation.wake_factors, strict=True)]
    thrusts, angles = thrusts_and_angles(rotor_thrusts(collective_thrust, tau_B, allocation), vehicle)
    speeds = tuple(safe_sqrt(thrust / gain) for thrust, gain in zip(thrusts, gains, strict=True))
    return steady_command(replace_tilt_angles(state._replace(rotor_speed=speeds), angles, vehicle), vehicle)


def hover_side_acceleration(state: State, vehicle: Vehicle, allocation: Allocation) -> Vec3:
    """R f/m: the sideways acceleration of tilting rotors in hover; zero without such rotors  [m/s²]"""
    if allocation.hover_side_force_B is None:
        return ZERO
    return rotate(state.q_WB, allocation.hover_side_force_B) / vehicle.mass


def rotor_thrusts(collective_thrust: Scalar, tau_B: Vec3, allocation: Allocation) -> tuple[Scalar, ...]:
    """T = base (f, σ τx, σ τy) + yaw t within the rotors' limits  [N]

    σ is the largest value up to 1 that is feasible with any f and t, f the feasible thrust closest to the desired one, t the
    feasible value closest to the desired yaw.
    """
    scaling = 1.0 / _highest([1.0, *(x * tau_B.x + y * tau_B.y for x, y in allocation.torque_polygon)])
    roll, pitch = tau_B.x * scaling, tau_B.y * scaling
    ranges = [group.range(roll, pitch) for group in allocation.groups]
    if ranges:
        collective_thrust = clamp(collective_thrust, *_thrust_range(allocation.groups, ranges))
    demand = Vec3(collective_thrust, roll, pitch)
    yaw_term = tau_B.z - dot(allocation.base_yaw, demand)
    yaw_ranges = [
        ValueRange(limits.low - group.thrust * collective_thrust, limits.high - group.thrust * collective_thrust)
        for group, limits in zip(allocation.groups, ranges, strict=True)
        if group.yaw
    ]
    if yaw_ranges:
        yaw_term = clamp(
            yaw_term, _highest([limits.low for limits in yaw_ranges]), _lowest([limits.high for limits in yaw_ranges])
        )
    thrusts = (dot(row, demand) + yaw * yaw_term for row, yaw in zip(allocation.base, allocation.yaw, strict=True))
    return tuple(clamp(thrust, *limit) for thrust, limit in zip(thrusts, allocation.limits, strict=True))


def _thrust_range(groups: tuple[RotorGroup, ...], ranges: list[ValueRange]) -> ValueRange:
    """Range of f for which some t puts  thrust f + yaw t  of every group into its range: Fourier's elimination of t."""
    low, high = [], []
    for group, limits in zip(groups, ranges, strict=True):
        if not group.yaw:
            low.append(limits.low)
            high.append(limits.high)
    yaw_groups = [(group.thrust, limits) for group, limits in zip(groups, ranges, strict=True) if group.yaw]
    for (ratio_a, a), (ratio_b, b) in combinations(yaw_groups, 2):  # groups are sorted by ascending `thrust`
        low.append((b.low - a.high) / (ratio_b - ratio_a))
        high.append((b.high - a.low) / (ratio_b - ratio_a))
    return ValueRange(_highest(low), _lowest(high))


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


def build_allocation(vehicle: Vehicle, healthy: Sequence[bool] | None = None) -> Allocation:
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
    vehicle, wake_factors = select_effective_rotors(vehicle), _wake_factors(vehicle)
    unlimited = _unlimited_allocation(vehicle, healthy_columns)
    healthy_columns = _healthy_columns(healthy_columns, vehicle)
    limits = thrust_limits(vehicle)
    weight = float_or_batch_scalar(vehicle.mass * vehicle["gravity"].acceleration)
    hover_thrusts = [
        weight * (row.x - unlimited.base_yaw.x * yaw) for row, yaw in zip(unlimited.base, unlimited.yaw, strict=True)
    ]
    margin = _MIN_MARGIN_FRACTION * weight
    can_hover = all(
        low + margin < thrust < high - margin
        for thrust, (low, high), is_healthy in zip(hover_thrusts, limits, healthy_columns, strict=True)
        if is_healthy
    )
    allocation = unlimited._replace(
        limits=limits, controls_yaw=any(unlimited.yaw) and can_hover, wake_factors=wake_factors
    )
    if vehicle.servos:
        side_force = product(effectiveness(vehicle)[:2] * healthy_columns, scalar_array(hover_thrusts))
        allocation = allocation._replace(
            hover_side_force_B=Vec3(float_or_batch_scalar(side_force[0]), float_or_batch_scalar(side_force[1]), 0.0)
        )
    groups = _rotor_groups(unlimited, limits, healthy_columns)
    torque_polygon = _torque_polygon(groups)
    if torque_polygon is None:
        return allocation
    thrust_range = _thrust_range(groups, [group.range(0.0, 0.0) for group in groups])
    return allocation._replace(groups=groups, torque_polygon=torque_polygon, thrust_range=thrust_range)


def least_squares_allocation(vehicle: Vehicle) -> Allocation:
    """Build an allocation whose only limit is that no rotor thrust is negative."""
    if not vehicle.rotors:
        return Allocation()
    return _unlimited_allocation(select_effective_rotors(vehicle), _healthy_mask(vehicle, None))._replace(
        wake_factors=_wake_factors(vehicle)
    )


def _wake_factors(vehicle: Vehicle) -> tuple[float, ...]:
    if not any(effect.scales_hover_loads for effect in vehicle.structure.effects):
        return ()
    return tuple(float_or_batch_scalar(load.thrust) for load in load_fractions(vehicle))


def _healthy_mask(vehicle: Vehicle, healthy: Sequence[bool] | None) -> Array:
    is_healthy = np.ones(len(vehicle.rotors), dtype=bool) if healthy is None else np.array(healthy, dtype=bool)
    if is_healthy.shape != (len(vehicle.rotors),) or not is_healthy.any():
        raise ValueError(
            f"healthy = {healthy}: expected True or False for each of the {len(vehicle.rotors)} rotors of vehicle "
            f"{vehicle.name!r}, with at least one True"
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
    squared_norm = float_or_batch_scalar(product(yaw_only, yaw_only)[()])
    yaw = (
        yaw_only * is_healthy / squared_norm
        if squared_norm > _NEGLIGIBLE * float_or_batch_scalar(product(matrix[3], matrix[3])[()])
        else np.zeros(len(is_healthy))
    )
    return Allocation(
        base=tuple(Vec3(*(float_or_batch_scalar(x) for x in row)) for row in base),
        yaw=tuple(float_or_batch_scalar(x) for x in yaw),
        base_yaw=Vec3(*(float_or_batch_scalar(x) for x in product(matrix[3], base))),
        limits=(ValueRange(0.0, np.inf),) * len(vehicle.rotors) + (ValueRange(-np.inf, np.inf),) * len(vehicle.servos),
    )


def _rotor_groups(
    allocation: Allocation, limits: tuple[ValueRange, ...], healthy_columns: Array
) -> tuple[RotorGroup, ...]:
    """Group the healthy rotors by their ratio of thrust to yaw, in ascending order; rotors with neither are left out."""
    max_thrust, max_yaw = (
        _highest([abs(row.x) for row in allocation.base]),
        _highest([abs(yaw) for yaw in allocation.yaw]),
    )
    groups: list[RotorGroup] = []
    for row, yaw, (low, high), is_healthy in zip(allocation.base, allocation.yaw, limits, healthy_columns, strict=True):
        has_yaw, has_thrust = abs(yaw) > _NEGLIGIBLE * max_yaw, abs(row.x) > _NEGLIGIBLE * max_thrust
        if not (is_healthy and (has_yaw or has_thrust)):
            continue
        unit = yaw if has_yaw else row.x
        bounds = sorted((low / unit, high / unit))
        limit = LinearLimit(bounds[0], bounds[1], row.y / unit, row.z / unit)
        thrust_ratio, yaw_ratio = row.x / unit, 1.0 if has_yaw else 0.0
        for index, group in enumerate(groups):
            if group.yaw == yaw_ratio and abs(group.thrust - thrust_ratio) <= _NEGLIGIBLE * max_thrust / abs(unit):
                groups[index] = group._replace(limits=(*group.limits, limit))
                break
        else:
            groups.append(RotorGroup(thrust_ratio, yaw_ratio, (limit,)))
    return tuple(sorted(groups, key=lambda group: group.thrust))


def _torque_polygon(groups: tuple[RotorGroup, ...]) -> tuple[tuple[float, float], ...] | None:
    """Sides of the polygon of (τx, τy) for which some f and t satisfy all groups; None if the set is empty.

    Fourier's elimination yields many redundant constraints x τx + y τy ≤ bound. The sides are the corners of the hull of
    the points (x, y)/bound: the polygon's polar.
    """
    if not groups:
        return None
    rows = scalar_array(
        [
            [sign * coefficient for coefficient in (group.thrust, group.yaw, limit.x, limit.y, bound)]
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
    sorted_points = _sort_unique([(round_scalar(x / largest), round_scalar(y / largest)) for x, y in points.tolist()])

    def chain(points: list[Point]) -> list[Point]:
        corners: list[Point] = []
        for point in points:
            while len(corners) > 1 and _turn_direction(corners[-2], corners[-1], point) <= _NEGLIGIBLE:
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


def _turn_direction(a: Point, b: Point, c: Point) -> Scalar:
    """(b − a) × (c − a): positive if the path turns left at b"""
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])


QUAD_X_CORNERS = {
    "front right": (1, -1),
    "back right": (-1, -1),
    "back left": (-1, 1),
    "front left": (1, 1),
}  # signs of x, y
QUAD_X_SPINS = (1, -1, 1, -1)


def quad_x_rotor_order(vehicle: Vehicle, user: str = "raptor") -> tuple[int, ...]:
    """Return the indices of the front right, back right, back left and front left rotor.

    Raises:
        ValueError: if the vehicle is not a quadrotor in X configuration with the spins that `user` needs.
    """
    if len(vehicle.rotors) != 4 or vehicle.servos:
        raise ValueError(f"{user} flies quadrotors; vehicle {vehicle.name!r} has {len(vehicle.rotors)} rotors")
    order = []
    for (corner, (sign_x, sign_y)), spin in zip(QUAD_X_CORNERS.items(), QUAD_X_SPINS, strict=True):
        rotors_in_corner = [
            i for i, rotor in enumerate(vehicle.rotors) if sign_x * rotor.r_B.x > 0.0 and sign_y * rotor.r_B.y > 0.0
        ]
        if len(rotors_in_corner) != 1:
            raise ValueError(
                f"{user} flies quadrotors in X; vehicle {vehicle.name!r} has {len(rotors_in_corner)} {corner} rotors"
            )
        if vehicle.rotors[rotors_in_corner[0]].spin != spin:
            direction = "counter-clockwise" if spin > 0 else "clockwise"
            raise ValueError(
                f"{user} expects the {corner} rotor to turn {direction}; that of vehicle {vehicle.name!r} does not"
            )
        order.append(rotors_in_corner[0])
    return tuple(order)
