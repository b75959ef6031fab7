"""Collisions of one drone within one physics step: the first touch of its parts with a solid, and the impulses.

The integrator moved a drone from one state to the next; between them every part goes straight. `first_hit` finds the earliest
touch, however thin the solid and fast the drone. `advance_with_impacts` flies a step from impact to impact. Both are pure
functions of one drone's scalars: solids and parts are rows of tables, and what repeats is a `loop`.
"""

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import groupby
from typing import NamedTuple

from samara.core.algebra import (
    EAST,
    UP,
    ZERO,
    Mat3,
    Quat,
    Vec3,
    cross,
    direction,
    dot,
    norm,
    normalize,
    rotate,
)
from samara.core.block_ops import Grid, loop, select
from samara.core.ops import absolute, logical_and, lookup, maximum, minimum, where
from samara.core.quantity import Scalar, Tree
from samara.core.tree import flatten, unflatten
from samara.physics.ground.contact import Ground
from samara.physics.ground.impact import Material, velocities_after_wall_impact
from samara.physics.types import State
from samara.world.ground import solid_at, table_of
from samara.world.obstacles import NEVER, NEWTON, HeightMap, Solid, at_least, disc_touch, kind_of, nearer, time_to_reach

RESTING_SPEED, RESTING_DEPTH = 1e-3, 1e-4  # [m/s], [m]: a slower approach counts as a hit only for a deeper part
MIN_BOUNCE_SPEED = 0.05  # [m/s]: slower impacts have no restitution, or they would never end
TOUCH_DISTANCE, MAX_IMPACTS = 1e-6, 24  # [m]: parts so near take part in an impact; impulses dealt at one moment
MAX_HITS = 12  # moments of impact in one physics step; after the last the drone stands still for the rest of it
BISECTIONS = 12
DISTANCE_ERROR = 1e-3  # [m]: of the distance of a disc
SAME_HEIGHT, SAME_DIRECTION = 3e-3, 0.999  # [m], a cosine: a surface so near the ground's plane is the ground
RIM_POINTS = 12  # of a propeller's disc over a height map


class PartShape(NamedTuple):
    """A disc with a ball around each of its points: a propeller has a ball of radius 0, a body or a foot a disc of 0."""

    center_B: Vec3
    axis_B: Vec3
    disc: Scalar
    ball: Scalar
    foot: Scalar = 0.0


class PartDistance(NamedTuple):
    """Distance of a part from a solid [m], outward normal, and the part's nearest point."""

    distance: Scalar
    normal_W: Vec3
    point_W: Vec3


class Moving(NamedTuple):
    """Motion of a solid within a step: its centre, its displacement [m], its velocity and angular velocity."""

    center_W: Vec3 = ZERO
    drift_W: Vec3 = ZERO
    v_W: Vec3 = ZERO
    omega_W: Vec3 = ZERO


STILL = Moving()


class PartHit(NamedTuple):
    """First touch of a step: its fraction of the step (above 1: none), the part's and the solid's index, lever arm [m],
    outward normal, depth [m] and closing speed [m/s]."""

    fraction: Scalar = NEVER
    part: Scalar = -1.0
    solid: Scalar = -1.0
    r_W: Vec3 = ZERO
    normal_W: Vec3 = ZERO
    depth: Scalar = 0.0
    speed: Scalar = 0.0


NO_HIT = PartHit()


class Impact(NamedTuple):
    """Impacts of one drone in one step.

    Of the first: its fraction of the step (above 1: none), the index of the part, of the solid or of the other drone (−1 for
    the one that was not hit), whose part it was (1: the drone's own), and its speed [m/s]. Of all: their number and top speed.
    """

    fraction: Scalar = NEVER
    part: Scalar = -1.0
    solid: Scalar = -1.0
    other: Scalar = -1.0
    own_part: Scalar = 1.0
    speed: Scalar = 0.0
    count: Scalar = 0.0
    max_speed: Scalar = 0.0


class Inertia(NamedTuple):
    """Mass [kg] and moments of inertia in body axes [kg·m²]."""

    mass: Scalar
    inertia_B: Mat3


class SolidRun(NamedTuple):
    """Consecutive solids of one type: the index of the first, and a table of their parameters or one height map."""

    kind: str
    first: int
    solids: Grid | HeightMap


class Obstacles(NamedTuple):
    """The solids of a world in their order, and a table of their materials (restitution, friction)."""

    runs: tuple[SolidRun, ...]
    materials: Grid


def obstacles_of(solids: Sequence[Solid], materials: Sequence[Material]) -> Obstacles:
    """Tables of solids and materials for `advance_with_impacts`"""
    runs: list[SolidRun] = []
    for kind, group in groupby(enumerate(solids), lambda numbered: kind_of(numbered[1])):
        numbered = list(group)
        if kind == "height_map":
            runs += [SolidRun(kind, index, solid) for index, solid in numbered if isinstance(solid, HeightMap)]
        else:
            runs.append(SolidRun(kind, numbered[0][0], table_of(tuple(solid for _, solid in numbered))))
    return Obstacles(tuple(runs), Grid([tuple(material) for material in materials] or [(0.0, 0.0)]))


@lru_cache(maxsize=64)
def parts_table(parts: tuple[PartShape, ...]) -> Grid:
    """The parts of a drone, a row for each"""
    return Grid([flatten(part) for part in parts])


_PART = PartShape(ZERO, UP, 0.0, 0.0)


def part_at(parts: Grid, row: Scalar) -> PartShape:
    """The part in a row of a table"""
    part: PartShape = unflatten(_PART, (lookup(parts, row, float(k)) for k in range(parts.values.shape[1])))
    return part


# One part and one solid -------------------------------------------------------------------------------------------------


def place_part(p_W: Vec3, q_WB: Quat, center_B: Vec3, axis_B: Vec3) -> tuple[Vec3, Vec3]:
    """p + R r and R a: position and axis of a part of a drone"""
    return p_W + rotate(q_WB, center_B), rotate(q_WB, axis_B)


def part_distance(solid: Solid, center_W: Vec3, axis_W: Vec3, disc: Scalar, ball: Scalar) -> PartDistance:
    """Distance of a part from a solid: that of its disc, less the radius of its ball"""
    nearest, point_W = disc_touch(solid, center_W, axis_W, disc)
    return PartDistance(nearest.distance - ball, nearest.normal_W, point_W - nearest.normal_W * ball)


def newton_step(
    time: Scalar, missed: Scalar, solid: Solid, center_W: Vec3, axis_W: Vec3, move_W: Vec3, disc: Scalar, ball: Scalar
) -> tuple[Scalar, Scalar]:
    """One step of Newton's method towards the time at which a part that moves straight touches a solid; `missed` is 0 or 1"""
    time, is_missed = nearer(
        lambda place: disc_touch(solid, place, axis_W, disc)[0], time, missed > 0.5, center_W, move_W, ball
    )
    return time, where(is_missed, 1.0, 0.0)


def between(before: State, after: State, fraction: Scalar) -> State:
    """x₀ + s (x₁ − x₀), with a unit quaternion: the body at a fraction of the step"""
    p_W = before.p_W + (after.p_W - before.p_W) * fraction
    v_W = before.v_W + (after.v_W - before.v_W) * fraction
    q_WB = Quat(*(a + fraction * (b - a) for a, b in zip(before.q_WB, after.q_WB, strict=True)))
    omega_B = before.omega_B + (after.omega_B - before.omega_B) * fraction
    return before._replace(p_W=p_W, v_W=v_W, q_WB=normalize(q_WB), omega_B=omega_B)


def approach_speed(state: State, near: PartDistance, moves: Moving, fraction: Scalar) -> Scalar:
    """−(v + ω × r − v_solid)·n: how fast a part's nearest point approaches the solid  [m/s]"""
    r_W = near.point_W - state.p_W
    v_W = state.v_W + cross(rotate(state.q_WB, state.omega_B), r_W)
    if moves is not STILL:
        v_W = v_W - moves.v_W - cross(moves.omega_W, near.point_W - moves.center_W - moves.drift_W * fraction)
    return -dot(v_W, near.normal_W)


def resting_speed(distance: Scalar) -> Scalar:
    """The largest speed of a part that rests: of many parts that touch none need wait for the others  [m/s]"""
    return where(distance > -RESTING_DEPTH, RESTING_SPEED, 0.0)


def stands_on(p_W: Vec3, normal_W: Vec3, ground: Ground) -> Scalar:
    """|(p − p₀)·n₀| < 3 mm and n·n₀ > 0.999: a surface is the ground's own plane, as a condition"""
    height = dot(p_W - ground.point_W, ground.normal_W)
    return logical_and(absolute(height) < SAME_HEIGHT, dot(normal_W, ground.normal_W) > SAME_DIRECTION)


def part_hit(
    before: State, after: State, part: PartShape, solid: Solid, *, ground: Ground | None = None, moves: Moving = STILL
) -> PartHit:
    """The first touch of one part with one solid that it approaches; `fraction` is above 1 if there is none

    A foot does not hit the solid that is the `ground` below the drone: it feels that already.
    """
    center_W, axis_W = place_part(before.p_W, before.q_WB, part.center_B, part.axis_B)
    end_W, end_axis_W = place_part(after.p_W, after.q_WB, part.center_B, part.axis_B)
    move_W = end_W - center_W
    path = norm(move_W) + part.disc * norm(end_axis_W - axis_W)
    near = part_distance(solid, center_W, axis_W, part.disc, part.ball)
    close = near.distance <= path + norm(moves.drift_W) + DISTANCE_ERROR
    leaving = approach_speed(before, near, moves, 0.0) <= resting_speed(near.distance)
    coming = logical_and(close, where(logical_and(near.distance <= 0.0, leaving), 0.0, 1.0) > 0.5)
    fraction = where(coming, _touch_time(solid, center_W, axis_W, move_W - moves.drift_W, part, coming), NEVER)
    limit = minimum(near.distance, 0.0) - RESTING_DEPTH
    deeper = part_distance(solid, end_W - moves.drift_W, end_axis_W, part.disc, part.ball).distance < limit
    rotated = logical_and(logical_and(deeper, close), fraction > 1.0)
    fraction = where(rotated, _turn_time(before, after, solid, part, moves, limit, rotated), fraction)

    state = between(before, after, where(fraction <= 1.0, fraction, 0.0))
    moved_W = moves.drift_W * fraction
    center_W, axis_W = place_part(state.p_W, state.q_WB, part.center_B, part.axis_B)
    near = part_distance(solid, center_W - moved_W, axis_W, part.disc, part.ball)
    near = near._replace(point_W=near.point_W + moved_W)
    speed, depth = approach_speed(state, near, moves, fraction), maximum(-near.distance, 0.0)
    hit = logical_and(fraction <= 1.0, speed > resting_speed(near.distance))
    if ground is not None:
        stands = logical_and(part.foot > 0.5, stands_on(near.point_W + near.normal_W * depth, near.normal_W, ground))
        hit = logical_and(hit, where(stands, 0.0, 1.0) > 0.5)
    touched = PartHit(fraction, 0.0, 0.0, near.point_W - state.p_W, near.normal_W, depth, speed)
    return PartHit(*select(hit, touched, NO_HIT))


def _touch_time(solid: Solid, center_W: Vec3, axis_W: Vec3, move_W: Vec3, part: PartShape, coming: Scalar) -> Scalar:
    """When a part reaches a solid, as a fraction of its straight move, if it is `coming`"""
    surface = () if isinstance(solid, HeightMap) else solid
    inputs = surface, center_W, axis_W, move_W, part, where(coming, 1.0, 0.0)
    if isinstance(solid, HeightMap):
        return _map_time(solid, inputs)

    def step(_: Scalar, search: Tree, inputs: Tree) -> Tree:
        surface, center_W, axis_W, move_W, part, _ = inputs
        time, missed = newton_step(search[0], search[1], surface, center_W, axis_W, move_W, part.disc, part.ball)
        return time, missed, where(time > search[0], 1.0, 0.0)  # after a step of 0 the time stays the same

    def active(search: Tree, inputs: Tree) -> Scalar:
        return logical_and(inputs[-1] > 0.5, search[2] > 0.5)

    time, missed, _ = loop(step, (0.0, 0.0, 1.0), inputs, count=NEWTON, active=active)
    return where(missed > 0.5, NEVER, time)


_RIM = Grid(
    [(math.cos(a), math.sin(a)) for a in (2.0 * math.pi * k / RIM_POINTS for k in range(RIM_POINTS))] + [(0.0, 0.0)]
)


def _map_time(ground: HeightMap, inputs: Tree) -> Scalar:
    """The same over a height map, by points of the disc's rim and its hub: a map has no nearest point to go by"""

    def step(k: Scalar, time: Scalar, inputs: Tree) -> Scalar:
        _, center_W, axis_W, move_W, part, _ = inputs
        flat = absolute(axis_W.x) < 0.7
        beside_W = direction(cross(axis_W, Vec3(*(where(flat, a, b) for a, b in zip(EAST, UP, strict=True)))))
        x, y = part.disc * lookup(_RIM, k, 0.0), part.disc * lookup(_RIM, k, 1.0)
        point_W = center_W + beside_W * x + cross(axis_W, beside_W) * y
        return minimum(time, time_to_reach(ground, point_W, move_W, part.ball, until=1.0))

    return loop(step, NEVER, inputs, count=RIM_POINTS + 1, active=lambda time, inputs: inputs[-1] > 0.5)


def _turn_time(
    before: State, after: State, solid: Solid, part: PartShape, moves: Moving, limit: Scalar, rotated: Scalar
) -> Scalar:
    """When a propeller that its centre's path does not bring to a solid is turned into it up to `limit`, by bisection"""
    surface = () if isinstance(solid, HeightMap) else solid
    inputs = surface, before, after, part, moves.drift_W, limit, where(rotated, 1.0, 0.0)

    def step(_: Scalar, bounds: Tree, inputs: Tree) -> Tree:
        surface, before, after, part, drift_W, limit, _ = inputs
        low, high = bounds
        middle = 0.5 * (low + high)
        state = between(before, after, middle)
        center_W, axis_W = place_part(state.p_W, state.q_WB, part.center_B, part.axis_B)
        obstacle = solid if isinstance(solid, HeightMap) else surface
        near = part_distance(obstacle, center_W - drift_W * middle, axis_W, part.disc, part.ball)
        met = near.distance < limit
        return where(met, low, middle), where(met, middle, high)

    return loop(step, (0.0, 1.0), inputs, count=BISECTIONS, active=lambda bounds, inputs: inputs[-1] > 0.5)[1]


# All parts and all solids -----------------------------------------------------------------------------------------------


def first_hit(before: State, after: State, *, parts: Grid, obstacles: Obstacles, ground: Ground) -> PartHit:
    """The earliest touch of any part with any solid it approaches; of equal ones the first solid's, and its first part's"""
    before, after = (body_state(state) for state in (before, after))

    def solid_hit(best: PartHit, solid: Solid, index: Scalar, inputs: Tree) -> PartHit:
        return PartHit(*_solid_hit(best, solid, index, parts, *inputs))

    return _over_solids(solid_hit, NO_HIT, obstacles, (before, after, ground))


def _over_solids(function: Callable[..., Tree], carry: Tree, obstacles: Obstacles, inputs: Tree) -> Tree:
    """carry ← function(carry, solid, index, inputs) for every solid"""
    for kind, first, solids in obstacles.runs:
        if isinstance(solids, HeightMap):
            carry = function(carry, solids, float(first), inputs)
            continue

        def body(
            row: Scalar, carry: Tree, inputs: Tree, kind: str = kind, first: int = first, table: Grid = solids
        ) -> Tree:
            return function(carry, solid_at(table, row, kind), row + float(first), inputs)

        carry = loop(body, carry, inputs, count=len(solids.values))
    return carry


def _solid_hit(
    best: PartHit, solid: Solid, index: Scalar, parts: Grid, before: State, after: State, ground: Ground
) -> PartHit:
    """The earlier of `best` and the first touch of any part with one solid, where the drone could come to it at all"""
    radius = reach_of(parts)
    near = where(at_least(solid, before.p_W) - radius <= path_bound(before, after, radius), 1.0, 0.0)
    surface = () if isinstance(solid, HeightMap) else solid

    def body(row: Scalar, best: PartHit, inputs: Tree) -> PartHit:
        surface, before, after, ground, index, _ = inputs
        obstacle = solid if isinstance(solid, HeightMap) else surface
        hit = part_hit(before, after, part_at(parts, row), obstacle, ground=ground)._replace(part=row, solid=index)
        return PartHit(*select(hit.fraction < best.fraction, hit, best))

    inputs = surface, before, after, ground, index, near
    return PartHit(*loop(body, best, inputs, count=len(parts.values), active=lambda best, inputs: inputs[-1] > 0.5))


def reach_of(parts: Grid) -> float:
    """No point of any part is further from the centre of mass  [m]"""
    return max(math.hypot(*row[:3]) + row[6] + row[7] for row in parts.values.tolist())


def path_bound(before: State, after: State, radius: float) -> Scalar:
    """|Δp| + 2 r |Δq|: no point of any part moves further in the step  [m]"""
    turn = norm(after.q_WB.vector - before.q_WB.vector) + absolute(after.q_WB.w - before.q_WB.w)
    return norm(after.p_W - before.p_W) + 2.0 * radius * turn + 2.0 * DISTANCE_ERROR


class _Resolution(NamedTuple):
    """Velocities after impulses, whether to look for more, their number, and the fastest."""

    v_W: Vec3
    omega_B: Vec3
    going: Scalar
    count: Scalar
    max_speed: Scalar


class _Approach(NamedTuple):
    """The part that approaches the fastest: its speed, lever arm and normal."""

    speed: Scalar
    r_W: Vec3
    normal_W: Vec3


def resolve_impacts(
    state: State, hit: PartHit, *, parts: Grid, obstacles: Obstacles, ground: Ground, inertia: Inertia
) -> tuple[State, Scalar, Scalar]:
    """Impulse of a hit, then those on all other parts that touch the same solid, the fastest first

    `state` is that at the moment of the hit. Returns the state after it, out of the solid; the count of impulses; and the
    largest closing speed [m/s].
    """
    material = Material(lookup(obstacles.materials, hit.solid, 0.0), lookup(obstacles.materials, hit.solid, 1.0))
    v_W, omega_B = _after_impact(state, hit.speed, hit.r_W, hit.normal_W, material, inertia)
    state = state._replace(v_W=v_W, omega_B=omega_B, p_W=state.p_W + hit.normal_W * hit.depth)
    body = body_state(state)

    def more(resolution: _Resolution, solid: Solid, index: Scalar, inputs: Tree) -> _Resolution:
        return _further_impacts(resolution, solid, index, parts, *inputs)

    start = _Resolution(v_W, omega_B, where(hit.fraction <= 1.0, 1.0, 0.0), 1.0, hit.speed)
    end = _Resolution(*_over_solids(more, start, obstacles, (body, hit.solid, material, ground, inertia)))
    return state._replace(v_W=end.v_W, omega_B=end.omega_B), end.count, end.max_speed


def _further_impacts(
    start: _Resolution,
    solid: Solid,
    index: Scalar,
    parts: Grid,
    body: State,
    hit_solid: Scalar,
    material: Material,
    ground: Ground,
    inertia: Inertia,
) -> _Resolution:
    """Impulses on all parts that touch the solid, if it is the one that was hit"""
    surface = () if isinstance(solid, HeightMap) else solid

    def obstacle_in(surface: Tree) -> Solid:
        return solid if isinstance(solid, HeightMap) else surface

    def fastest_part(row: Scalar, best: _Approach, inputs: Tree) -> _Approach:
        surface, state, ground = inputs
        part = part_at(parts, row)
        center_W, axis_W = place_part(state.p_W, state.q_WB, part.center_B, part.axis_B)
        near = part_distance(obstacle_in(surface), center_W, axis_W, part.disc, part.ball)
        top_W = near.point_W - near.normal_W * near.distance
        stands = logical_and(part.foot > 0.5, stands_on(top_W, near.normal_W, ground))
        touches = logical_and(near.distance <= TOUCH_DISTANCE, where(stands, 0.0, 1.0) > 0.5)
        speed = where(touches, approach_speed(state, near, STILL, 0.0), 0.0)
        approach = _Approach(speed, near.point_W - state.p_W, near.normal_W)
        return _Approach(*select(speed > best.speed, approach, best))

    def impact(_: Scalar, resolution: _Resolution, inputs: Tree) -> _Resolution:
        surface, body, material, ground, inertia, _ = inputs
        state = body._replace(v_W=resolution.v_W, omega_B=resolution.omega_B)
        nearest = loop(fastest_part, _Approach(0.0, ZERO, ZERO), (surface, state, ground), count=len(parts.values))
        speed, r_W, normal_W = nearest
        going = speed > RESTING_SPEED
        after = _Resolution(
            *_after_impact(state, speed, r_W, normal_W, material, inertia),
            1.0,
            resolution.count + 1.0,
            where(speed > resolution.max_speed, speed, resolution.max_speed),
        )
        return _Resolution(*select(going, after, resolution._replace(going=0.0)))

    def active(resolution: _Resolution, inputs: Tree) -> Scalar:
        return logical_and(resolution.going > 0.5, inputs[-1] > 0.5)

    same = where(absolute(hit_solid - index) < 0.5, 1.0, 0.0)
    inputs = surface, body, material, ground, inertia, same
    return _Resolution(*loop(impact, start, inputs, count=MAX_IMPACTS, active=active))


def _after_impact(
    state: State, speed: Scalar, r_W: Vec3, normal_W: Vec3, material: Material, inertia: Inertia
) -> tuple[Vec3, Vec3]:
    """Velocity and angular velocity after the impulse of a solid; a slow impact has no restitution"""
    restitution = where(speed > MIN_BOUNCE_SPEED, material.restitution, 0.0)
    return velocities_after_wall_impact(
        state.v_W,
        state.omega_B,
        state.q_WB,
        r_W,
        normal_W,
        mass=inertia.mass,
        inertia_B=inertia.inertia_B,
        material=material._replace(restitution=restitution),
    )


def body_state(state: State) -> State:
    return state._replace(rotor_speed=(), effects=())


# A physics step ---------------------------------------------------------------------------------------------------------


def state_at(before: State, after: State, fraction: Scalar) -> State:
    """The whole state at a fraction of the step: `between`, and rotors and effects in proportion"""
    mixed = [a + fraction * (b - a) for a, b in zip(flatten(before), flatten(after), strict=True)]
    body = between(before, after, fraction)
    state: State = unflatten(before, iter(mixed))
    return state._replace(p_W=body.p_W, v_W=body.v_W, q_WB=body.q_WB, omega_B=body.omega_B)


def add_impact(record: Impact, impact: Impact) -> Impact:
    """The record with one moment of impact more"""
    return Impact(*select(record.count < 0.5, impact, record))._replace(
        count=record.count + impact.count, max_speed=maximum(record.max_speed, impact.max_speed)
    )


class Leg(NamedTuple):
    """A drone within its step: state, remaining duration [s], whether it continues (1 or 0), and the impacts until now."""

    state: State
    left: Scalar
    going: Scalar
    impact: Impact


def advance_with_impacts(
    fly: Callable[[State, Scalar, Tree], State],
    state: State,
    duration: Scalar,
    inputs: Tree,
    *,
    parts: Grid,
    obstacles: Obstacles,
    ground: Ground,
    inertia: Inertia,
) -> tuple[State, Impact]:
    """One physics step from impact to impact: `fly(state, duration, inputs)` integrates, as often as solids are hit

    `inputs` is whatever `fly` reads of the computation that is traced: command, environment. After `MAX_HITS` moments of
    impact the drone stands still for the rest of the step.
    """

    def fly_leg(_: Scalar, leg: Leg, constants: Tree) -> Leg:
        inputs, ground, inertia = constants
        after = fly(leg.state, leg.left, inputs)
        hit = first_hit(leg.state, after, parts=parts, obstacles=obstacles, ground=ground)
        is_hit = hit.fraction <= 1.0
        fraction = where(is_hit, hit.fraction, 0.0)
        resolved, count, max_speed = resolve_impacts(
            state_at(leg.state, after, fraction), hit, parts=parts, obstacles=obstacles, ground=ground, inertia=inertia
        )
        first = Impact(fraction, hit.part, hit.solid, speed=hit.speed, count=count, max_speed=max_speed)
        record = add_impact(leg.impact, first)
        bounced = Leg(resolved, leg.left * (1.0 - fraction), 1.0, record)
        return Leg(*select(is_hit, bounced, Leg(after, 0.0, 0.0, leg.impact)))

    start = Leg(state, duration, 1.0, Impact())
    end = loop(fly_leg, start, (inputs, ground, inertia), count=MAX_HITS, active=lambda leg, constants: leg.going > 0.5)
    return end.state, end.impact
