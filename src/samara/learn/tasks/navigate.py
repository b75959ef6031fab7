"""Navigate: fly 20 m through a forest of columns, random in every flight, with a depth camera, and come to rest at the goal.

    o = (p, v, R, ω relative to rest at the goal, 96 blocks of an image of 64 × 48)

Columns stand in a strip of 12 m between start and goal, at least 1.2 m from both, and higher than the flight ceiling. The
episode ends if a propeller tip touches a column or the ground, or the drone leaves the strip.
"""

from typing import Any, NamedTuple

from samara.control.observation import Bounds, depth_observation, observe_state
from samara.core.algebra import Vec3, dot, matrix_from_quat
from samara.core.ops import absolute, exp, logical_and, logical_or, maximum, safe_divide, safe_norm, where
from samara.core.quantity import Scalar
from samara.learn.task import DepthObservation, Draw, Situation, Task, TrimmedDrone
from samara.learn.tasks.recover import pseudo_huber
from samara.physics.ground.solids import Capsule
from samara.physics.quantities import position_error, smooth_position_error
from samara.physics.types import Reference, State
from samara.sensors.depth_camera import DepthCameraPart
from samara.sensors.registry import part
from samara.vehicles.shape import tip_radius
from samara.world.gates import collides_with_pole

COLUMNS, MAX_COLUMNS = 30, 200
RADII = (0.15, 0.5)  # [m]
FREE_RADIUS_M = 1.2  # [m]: without columns about the start and the goal
HEIGHT, GOAL_W = 1.5, Vec3(20.0, 0.0, 1.5)  # [m]
HALF_WIDTH_M, MAX_HEIGHT_M, MIN_HEIGHT_M = 6.0, 3.0, 0.1  # [m]: half width of the strip, highest and lowest flight
SPEED = 2.5  # [m/s]: desired
MARGIN = 0.6  # [m] from a column: a smaller distance has a cost
SUCCESS_DISTANCE_M = 0.5  # [m]: success
BOUNDS = Bounds(5.0, 10.0)  # [m, m/s]
CAMERA: DepthCameraPart = part("d435", width=64, height=48).parameters


class Column(NamedTuple):
    """Position and radius of a column  [m]."""

    x: Scalar
    y: Scalar
    radius: Scalar


class NavigateGoal(NamedTuple):
    """The forest, and whether the drone has collided, 1 or 0."""

    columns: tuple[Column, ...]
    collided: Scalar = 0.0


def solids(goal: NavigateGoal) -> tuple[Capsule, ...]:
    """Return the solids for the camera: columns from below the ground to above the highest flight."""
    return tuple(Capsule(Vec3(x, y, -1.0), Vec3(x, y, MAX_HEIGHT_M + 3.0), radius) for x, y, radius in goal.columns)


def reset_in_forest(draw: Draw, drone: TrimmedDrone, columns: int = COLUMNS) -> tuple[State, NavigateGoal]:
    """Start almost at rest within 2 m of the centre of the strip, in front of a new forest."""
    first = FREE_RADIUS_M + RADII[1]
    forest = tuple(
        Column(draw.uniform(first, GOAL_W.x - first), draw.uniform(-HALF_WIDTH_M, HALF_WIDTH_M), draw.uniform(*RADII))
        for _ in range(columns)
    )
    start_W = Vec3(0.0, draw.uniform(-2.0, 2.0), HEIGHT + draw.uniform(-0.3, 0.3))
    return drone.trim._replace(p_W=start_W, q_WB=draw.rotation(0.1), v_W=draw.vector(0.3)), NavigateGoal(forest)


def progress(before: Situation, after: Situation, drone: TrimmedDrone) -> NavigateGoal:
    """Detect collisions of a sphere about the drone along the straight path between two actions."""
    goal, start_W, end_W = before.goal, before.state.p_W, after.state.p_W
    is_collision = logical_or(
        logical_or(end_W.z < MIN_HEIGHT_M, end_W.z > MAX_HEIGHT_M), absolute(end_W.y) > HALF_WIDTH_M
    )
    is_collision = logical_or(is_collision, logical_or(end_W.x < -2.0, end_W.x > GOAL_W.x + 2.0))
    x, y, radius = nearest_column(goal.columns, (start_W + end_W) * 0.5)
    is_collision = logical_or(
        is_collision,
        collides_with_pole(start_W, end_W, Vec3(x, y, 2.0 * MAX_HEIGHT_M), radius + tip_radius(drone.nominal)),
    )
    return NavigateGoal(goal.columns, where(is_collision, 1.0, goal.collided))


def nearest_column(columns: tuple[Column, ...], p_W: Vec3) -> Column:
    """Return the column with the nearest surface."""
    closest, min_distance = columns[0], _surface_distance(columns[0], p_W)
    for column in columns[1:]:
        d = _surface_distance(column, p_W)
        is_nearer = d < min_distance
        closest = Column(*(where(is_nearer, a, b) for a, b in zip(column, closest, strict=True)))
        min_distance = where(is_nearer, d, min_distance)
    return closest


def _surface_distance(column: Column, p_W: Vec3) -> Scalar:
    return safe_norm(p_W.x - column.x, p_W.y - column.y) - column.radius


def observation(situation: Situation, drone: TrimmedDrone) -> tuple[Scalar, ...]:
    """The observation without the image, which follows it."""
    return depth_observation(observe_state(situation.state, Reference(GOAL_W), (), (), BOUNDS))


def reward(situation: Situation, drone: TrimmedDrone) -> Scalar:
    """2 minus the costs of velocities other than 2.5 m/s to the goal, of being near a column, of leaving the height of the goal
    or the strip, of looking sideways, and of rotation."""
    p_W, v_W, q_WB, omega_B = situation.state[:4]
    to_goal = GOAL_W - p_W
    distance = smooth_position_error(GOAL_W, p_W, 0.5)
    desired_v_W = to_goal * (SPEED / (distance + 1.0))
    velocity_error = v_W - desired_v_W
    cost = pseudo_huber(dot(velocity_error, velocity_error), 1.0) + 0.02 * dot(omega_B, omega_B)
    cost = cost + 1.0 * pseudo_huber((p_W.z - HEIGHT) * (p_W.z - HEIGHT), 0.5)
    outside = maximum(absolute(p_W.y) - (HALF_WIDTH_M - 1.0), 0.0)
    cost = cost + 2.0 * outside * outside + 1.0 * (1.0 - matrix_from_quat(q_WB).xx)
    return 2.0 - cost - proximity_cost(p_W, v_W, situation.goal, tip_radius(drone.nominal))


def proximity_cost(p_W: Vec3, v_W: Vec3, goal: NavigateGoal, drone_radius: float) -> Scalar:
    """(1 + u) (4 ⟨0.6 m − d⟩² + 2 e^(−d / 0.1 m)), d from the nearest surface, u the speed of approach to it."""
    x, y, radius = nearest_column(goal.columns, p_W)
    dx, dy = p_W.x - x, p_W.y - y
    axis_distance = safe_norm(dx, dy)
    d = axis_distance - radius - drone_radius
    approach_speed = maximum(-safe_divide(dx * v_W.x + dy * v_W.y, axis_distance), 0.0)
    penetration = maximum(MARGIN - d, 0.0)
    return (1.0 + approach_speed) * (4.0 * penetration * penetration + 2.0 * exp(-10.0 * maximum(d, 0.0)))


def termination(situation: Situation, drone: TrimmedDrone) -> Scalar:
    """Whether the drone has collided."""
    return situation.goal.collided > 0.5


def success(situation: Situation, drone: TrimmedDrone) -> Scalar:
    """Whether the drone is within 0.5 m of the goal without a collision."""
    return logical_and(position_error(situation.state.p_W, GOAL_W) < SUCCESS_DISTANCE_M, situation.goal.collided < 0.5)


def navigation_task(columns: int = COLUMNS, **fields: Any) -> Task:
    """Create the task with forests of `columns` columns; `fields` replace fields of the task."""
    if isinstance(columns, bool) or not isinstance(columns, int) or not 1 <= columns <= MAX_COLUMNS:
        raise ValueError(f"navigating: columns = {columns!r}; expected a whole number from 1 to {MAX_COLUMNS}")
    return Task(
        "navigate",
        lambda draw, drone: reset_in_forest(draw, drone, columns),
        observation,
        reward,
        termination,
        progress,
        success,
        period=0.04,
        substeps=2,
        seconds=12.0,
        action="thrust_and_rates",
        bounds=BOUNDS,
        observation_name="depth",
        depth_observation=DepthObservation(CAMERA, solids),
    )._replace(**fields)


TASK = navigation_task()
