"""Navigate: 20 m through a forest of columns that is drawn for every flight, by what a depth camera sees, and to rest there.

    o = (p, v, R, ω relative to rest at the goal, 96 blocks of a picture of 64 × 48)

Columns stand in a strip of 12 m between start and goal, none nearer than 1.2 m to either, higher than may be flown.
Touching one with a propeller's tip, or the ground, or leaving the strip ends it.
"""

from typing import Any, NamedTuple

from samara.control.observation import Bounds, depth, seen
from samara.core.algebra import Vec3, dot, matrix_from_quat
from samara.core.ops import absolute, exp, logical_and, logical_or, maximum, safe_divide, safe_norm, where
from samara.core.quantity import Scalar
from samara.learn.task import Craft, Draw, Sight, Situation, Task
from samara.learn.tasks.recover import softened
from samara.physics.ground.solids import Capsule
from samara.physics.quantities import position_error, smooth_position_error
from samara.physics.types import Reference, State
from samara.sensors.depth_camera import DepthCameraPart
from samara.sensors.registry import part
from samara.vehicles.shape import extent_of
from samara.world.gates import strikes_pole

COLUMNS, MOST = 30, 200
RADII = (0.15, 0.5)  # [m]
FREE = 1.2  # [m]: about the start and the goal
HEIGHT, GOAL_W = 1.5, Vec3(20.0, 0.0, 1.5)  # [m]
ASIDE, HIGH, LOW = 6.0, 3.0, 0.1  # [m]: the strip, and how high and low may be flown
SPEED = 2.5  # [m/s]: wanted
MARGIN = 0.6  # [m] from a column: nearer costs
NEAR = 0.5  # [m]: there
BOUNDS = Bounds(5.0, 10.0)  # [m, m/s]
CAMERA: DepthCameraPart = part("d435", width=64, height=48).numbers


class Column(NamedTuple):
    """Where it stands, and how thick it is  [m]"""

    x: Scalar
    y: Scalar
    radius: Scalar


class Goal(NamedTuple):
    """The forest, and whether something was touched by now, 1 or 0"""

    columns: tuple[Column, ...]
    touched: Scalar = 0.0


def solids(goal: Goal) -> tuple[Capsule, ...]:
    """What the camera sees: columns from below the ground to above the highest flight"""
    return tuple(Capsule(Vec3(x, y, -1.0), Vec3(x, y, HIGH + 3.0), radius) for x, y, radius in goal.columns)


def start(draw: Draw, craft: Craft, columns: int = COLUMNS) -> tuple[State, Goal]:
    """All but at rest within 2 m of the middle of the strip, before a forest"""
    first = FREE + RADII[1]
    forest = tuple(
        Column(draw.uniform(first, GOAL_W.x - first), draw.uniform(-ASIDE, ASIDE), draw.uniform(*RADII))
        for _ in range(columns)
    )
    start_W = Vec3(0.0, draw.uniform(-2.0, 2.0), HEIGHT + draw.uniform(-0.3, 0.3))
    return craft.trim._replace(p_W=start_W, q_WB=draw.turn(0.1), v_W=draw.vector(0.3)), Goal(forest)


def progress(before: Situation, after: Situation, craft: Craft) -> Goal:
    """Columns are touched by a sphere about the drone, on the straight way between two actions"""
    goal, here, there = before.goal, before.state.p_W, after.state.p_W
    touched = logical_or(logical_or(there.z < LOW, there.z > HIGH), absolute(there.y) > ASIDE)
    touched = logical_or(touched, logical_or(there.x < -2.0, there.x > GOAL_W.x + 2.0))
    x, y, radius = nearest(goal.columns, (here + there) * 0.5)
    touched = logical_or(touched, strikes_pole(here, there, Vec3(x, y, 2.0 * HIGH), radius + extent_of(craft.nominal)))
    return Goal(goal.columns, where(touched, 1.0, goal.touched))


def nearest(columns: tuple[Column, ...], p_W: Vec3) -> Column:
    """The one whose surface is nearest"""
    found, least = columns[0], _from_surface(columns[0], p_W)
    for own in columns[1:]:
        d = _from_surface(own, p_W)
        nearer = d < least
        found = Column(*(where(nearer, a, b) for a, b in zip(own, found, strict=True)))
        least = where(nearer, d, least)
    return found


def _from_surface(column: Column, p_W: Vec3) -> Scalar:
    return safe_norm(p_W.x - column.x, p_W.y - column.y) - column.radius


def observation(situation: Situation, craft: Craft) -> tuple[Scalar, ...]:
    """All but the picture, which comes after it"""
    return depth(seen(situation.state, Reference(GOAL_W), (), (), BOUNDS))


def reward(situation: Situation, craft: Craft) -> Scalar:
    """Less what it costs to fly otherwise than at 2.5 m/s to the goal, to come near a column, to leave the height of the goal
    or the strip, not to look ahead, and to turn"""
    p_W, v_W, q_WB, omega_B = situation.state[:4]
    way = GOAL_W - p_W
    away = smooth_position_error(GOAL_W, p_W, 0.5)
    wanted = way * (SPEED / (away + 1.0))
    off = v_W - wanted
    cost = softened(dot(off, off), 1.0) + 0.02 * dot(omega_B, omega_B)
    cost = cost + 1.0 * softened((p_W.z - HEIGHT) * (p_W.z - HEIGHT), 0.5)
    outside = maximum(absolute(p_W.y) - (ASIDE - 1.0), 0.0)
    cost = cost + 2.0 * outside * outside + 1.0 * (1.0 - matrix_from_quat(q_WB).xx)
    return 2.0 - cost - too_near(p_W, v_W, situation.goal, extent_of(craft.nominal))


def too_near(p_W: Vec3, v_W: Vec3, goal: Goal, reach: float) -> Scalar:
    """(1 + u) (4 ⟨0.6 m − d⟩² + 2 e^(−d / 0.1 m)), d from the nearest surface, u how fast that comes nearer"""
    x, y, radius = nearest(goal.columns, p_W)
    aside_x, aside_y = p_W.x - x, p_W.y - y
    off = safe_norm(aside_x, aside_y)
    d = off - radius - reach
    nearing = maximum(-safe_divide(aside_x * v_W.x + aside_y * v_W.y, off), 0.0)
    near = maximum(MARGIN - d, 0.0)
    return (1.0 + nearing) * (4.0 * near * near + 2.0 * exp(-10.0 * maximum(d, 0.0)))


def termination(situation: Situation, craft: Craft) -> Scalar:
    """Something was touched"""
    return situation.goal.touched > 0.5


def success(situation: Situation, craft: Craft) -> Scalar:
    """Within 0.5 m of the goal, and nothing touched"""
    return logical_and(position_error(situation.state.p_W, GOAL_W) < NEAR, situation.goal.touched < 0.5)


def navigating(columns: int = COLUMNS, **fields: Any) -> Task:
    """The task in forests of so many columns; `fields` are other fields of the task"""
    if isinstance(columns, bool) or not isinstance(columns, int) or not 1 <= columns <= MOST:
        raise ValueError(f"navigating: columns = {columns!r}; expected a whole number from 1 to {MOST}")
    return Task(
        "navigate",
        lambda draw, craft: start(draw, craft, columns),
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
        sees="depth",
        sight=Sight(CAMERA, solids),
    )._replace(**fields)


TASK = navigating()
