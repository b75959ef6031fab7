"""Collisions of one drone within one physics step: the first contact of its parts with a solid, and the impulses.

The integrator advances a drone from a start to an end state; between them every part moves straight. `first_hit` finds the
earliest contact, however thin the solid and however fast the drone. `advance_with_impacts` integrates a step from impact to
impact. Both are pure functions of one drone's scalars: solids and parts are rows of tables, and repetitions are a `loop`.
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
from samara.core.block_ops import ConstantTable, loop, select
from samara.core.ops import absolute, logical_and, lookup, maximum, minimum, where
from samara.core.quantity import Scalar, Tree
from samara.core.tree import flatten, unflatten
from samara.physics.ground.contact import Ground
from samara.physics.ground.impact import Material, velocities_after_wall_impact
from samara.physics.types import State
from samara.world.ground import read_solid, solid_table
from samara.world.obstacles import (
    MAX_NEWTON_STEPS,
    NEVER,
    HeightMap,
    Solid,
    classify_solid,
    disc_touch,
    distance_lower_bound,
    newton_contact_step,
    time_to_reach,
)

RESTING_SPEED, RESTING_DEPTH = 1e-3, 1e-4  # [m/s], [m]: a slower approach counts as a hit only for a deeper part
MIN_BOUNCE_SPEED = 0.05  # [m/s]: slower impacts have no restitution; otherwise the impacts would never end
TOUCH_DISTANCE, MAX_IMPACTS = 1e-6, 24  # [m]: parts this close take part in an impact; limit of impulses at one instant
MAX_HITS = 12  # instants of impact in one physics step; after the last the drone stands still until the step ends
BISECTIONS = 12
DISTANCE_ERROR = 1e-3  # [m]: error bound of the distance of a disc
SAME_HEIGHT, SAME_DIRECTION = 3e-3, 0.999  # [m], a cosine: a surface this close to the ground plane is the ground
RIM_POINTS = 12  # points on the rim of a propeller disc over a height map


class PartShape(NamedTuple):
    """A disc with a ball around each of its points: the ball of a propeller and the disc of a body or foot have radius 0."""

    centre_B: Vec3
    axis_B: Vec3
    disc: Scalar
    ball: Scalar
    foot: Scalar = 0.0


class PartDistance(NamedTuple):
    """Distance of a part from a solid [m], outward normal of the solid, and the part's nearest point."""

    distance: Scalar
    normal_W: Vec3
    point_W: Vec3


class SolidMotion(NamedTuple):
    """Motion of a solid within a step: centre, displacement [m], velocity and angular velocity."""

    centre_W: Vec3 = ZERO
    displacement_W: Vec3 = ZERO
    v_W: Vec3 = ZERO
    omega_W: Vec3 = ZERO


STILL = SolidMotion()


class PartHit(NamedTuple):
    """First contact of a step.

    `fraction` is the fraction of the step (above 1: no contact); `part` and `solid` are indices; then lever arm [m], outward
    normal, depth [m] and approach speed [m/s].
    """

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

    The first impact: its fraction of the step (above 1: none), the index of the part, of the solid and of the other drone (−1
    for the one that was not hit), whether the part belongs to this drone (1) or to the other (0), and the speed [m/s].
    All impacts: their count and the highest speed.
    """

    fraction: Scalar = NEVER
    part: Scalar = -1.0
    solid: Scalar = -1.0
    other: Scalar = -1.0
    own_part: Scalar = 1.0
    speed: Scalar = 0.0
    count: Scalar = 0.0
    max_speed: Scalar = 0.0


class CollisionInertia(NamedTuple):
    """Mass [kg] and moments of inertia in body axes [kg·m²]."""

    mass: Scalar
    inertia_B: Mat3


class SolidRun(NamedTuple):
    """Consecutive solids of one type: the index of the first, and a table of their parameters or one height map."""

    solid_type: str
    first: int
    solids: ConstantTable | HeightMap


class Obstacles(NamedTuple):
    """The solids of a world in their order, and a table of their materials (restitution, friction)."""

    runs: tuple[SolidRun, ...]
    materials: ConstantTable


def build_obstacles(solids: Sequence[Solid], materials: Sequence[Material]) -> Obstacles:
    """Build the tables of solids and materials for `advance_with_impacts`."""
    runs: list[SolidRun] = []
    for solid_type, members in groupby(enumerate(solids), lambda indexed_solids: classify_solid(indexed_solids[1])):
        indexed_solids = list(members)
        if solid_type == "height_map":
            runs += [
                SolidRun(solid_type, index, solid) for index, solid in indexed_solids if isinstance(solid, HeightMap)
            ]
        else:
            runs.append(
                SolidRun(solid_type, indexed_solids[0][0], solid_table(tuple(solid for _, solid in indexed_solids)))
            )
    return Obstacles(tuple(runs), ConstantTable([tuple(material) for material in materials] or [(0.0, 0.0)]))


@lru_cache(maxsize=64)
def parts_table(parts: tuple[PartShape, ...]) -> ConstantTable:
    """Return the parts of a drone as a table, one row each."""
    return ConstantTable([flatten(part) for part in parts])


_PART = PartShape(ZERO, UP, 0.0, 0.0)


def read_part(parts: ConstantTable, row: Scalar) -> PartShape:
    """Return the part in a row of a table."""
    part: PartShape = unflatten(_PART, (lookup(parts, row, float(k)) for k in range(parts.values.shape[1])))
    return part


# One part and one solid -------------------------------------------------------------------------------------------------


def part_pose(p_W: Vec3, q_WB: Quat, centre_B: Vec3, axis_B: Vec3) -> tuple[Vec3, Vec3]:
    """p + R r and R a: position and axis of a part of a drone in the world."""
    return p_W + rotate(q_WB, centre_B), rotate(q_WB, axis_B)


def part_distance(solid: Solid, centre_W: Vec3, axis_W: Vec3, disc: Scalar, ball: Scalar) -> PartDistance:
    """Distance of a part from a solid: that of its disc, less the radius of its ball."""
    touch, point_W = disc_touch(solid, centre_W, axis_W, disc)
    return PartDistance(touch.distance - ball, touch.normal_W, point_W - touch.normal_W * ball)


def newton_part_step(
    time: Scalar, missed: Scalar, solid: Solid, centre_W: Vec3, axis_W: Vec3, move_W: Vec3, disc: Scalar, ball: Scalar
) -> tuple[Scalar, Scalar]:
    """Take one Newton step towards the time at which a part in straight motion touches a solid; `missed` is 0 or 1."""
    time, is_missed = newton_contact_step(
        lambda point_W: disc_touch(solid, point_W, axis_W, disc)[0], time, missed > 0.5, centre_W, move_W, ball
    )
    return time, where(is_missed, 1.0, 0.0)


def interpolate_body(start_state: State, end_state: State, fraction: Scalar) -> State:
    """x₀ + s (x₁ − x₀), with a unit quaternion: the body at a fraction of the step."""
    p_W = start_state.p_W + (end_state.p_W - start_state.p_W) * fraction
    v_W = start_state.v_W + (end_state.v_W - start_state.v_W) * fraction
    q_WB = Quat(*(a + fraction * (b - a) for a, b in zip(start_state.q_WB, end_state.q_WB, strict=True)))
    omega_B = start_state.omega_B + (end_state.omega_B - start_state.omega_B) * fraction
    return start_state._replace(p_W=p_W, v_W=v_W, q_WB=normalize(q_WB), omega_B=omega_B)


def approach_speed(state: State, gap: PartDistance, solid_motion: SolidMotion, fraction: Scalar) -> Scalar:
    """−(v + ω × r − v_solid)·n: the speed at which a part's nearest point approaches the solid  [m/s]"""
    r_W = gap.point_W - state.p_W
    v_W = state.v_W + cross(rotate(state.q_WB, state.omega_B), r_W)
    if solid_motion is not STILL:
        v_W = (
            v_W
            - solid_motion.v_W
            - cross(solid_motion.omega_W, gap.point_W - solid_motion.centre_W - solid_motion.displacement_W * fraction)
        )
    return -dot(v_W, gap.normal_W)


def resting_speed(distance: Scalar) -> Scalar:
    """Return the highest approach speed of a resting part, so that parts in contact do not trigger new impacts  [m/s]."""
    return where(distance > -RESTING_DEPTH, RESTING_SPEED, 0.0)


def is_ground_surface(p_W: Vec3, normal_W: Vec3, ground: Ground) -> Scalar:
    """|(p − p₀)·n₀| < 3 mm and n·n₀ > 0.999: whether a surface coincides with the ground plane."""
    height = dot(p_W - ground.point_W, ground.normal_W)
    return logical_and(absolute(height) < SAME_HEIGHT, dot(normal_W, ground.normal_W) > SAME_DIRECTION)


def part_hit(
    start_state: State,
    end_state: State,
    part: PartShape,
    solid: Solid,
    *,
    ground: Ground | None = None,
    solid_motion: SolidMotion = STILL,
) -> PartHit:
    """Return the first contact of one part with one solid that it approaches; `fraction` is above 1 without a contact.

    A foot does not hit the solid that is the `ground` below the drone: the contact model already acts on it.
    """
    centre_W, axis_W = part_pose(start_state.p_W, start_state.q_WB, part.centre_B, part.axis_B)
    end_W, end_axis_W = part_pose(end_state.p_W, end_state.q_WB, part.centre_B, part.axis_B)
    move_W = end_W - centre_W
    path = norm(move_W) + part.disc * norm(end_axis_W - axis_W)
    gap = part_distance(solid, centre_W, axis_W, part.disc, part.ball)
    is_close = gap.distance <= path + norm(solid_motion.displacement_W) + DISTANCE_ERROR
    is_leaving = approach_speed(start_state, gap, solid_motion, 0.0) <= resting_speed(gap.distance)
    may_touch = logical_and(is_close, where(logical_and(gap.distance <= 0.0, is_leaving), 0.0, 1.0) > 0.5)
    fraction = where(
        may_touch, _contact_time(solid, centre_W, axis_W, move_W - solid_motion.displacement_W, part, may_touch), NEVER
    )
    limit = minimum(gap.distance, 0.0) - RESTING_DEPTH
    is_deeper = (
        part_distance(solid, end_W - solid_motion.displacement_W, end_axis_W, part.disc, part.ball).distance < limit
    )
    is_rotated_in = logical_and(logical_and(is_deeper, is_close), fraction > 1.0)
    fraction = where(
        is_rotated_in,
        _rotation_contact_time(start_state, end_state, solid, part, solid_motion, limit, is_rotated_in),
        fraction,
    )

    state = interpolate_body(start_state, end_state, where(fraction <= 1.0, fraction, 0.0))
    displacement_W = solid_motion.displacement_W * fraction
    centre_W, axis_W = part_pose(state.p_W, state.q_WB, part.centre_B, part.axis_B)
    gap = part_distance(solid, centre_W - displacement_W, axis_W, part.disc, part.ball)
    gap = gap._replace(point_W=gap.point_W + displacement_W)
    speed, depth = approach_speed(state, gap, solid_motion, fraction), maximum(-gap.distance, 0.0)
    is_hit = logical_and(fraction <= 1.0, speed > resting_speed(gap.distance))
    if ground is not None:
        is_standing = logical_and(
            part.foot > 0.5, is_ground_surface(gap.point_W + gap.normal_W * depth, gap.normal_W, ground)
        )
        is_hit = logical_and(is_hit, where(is_standing, 0.0, 1.0) > 0.5)
    contact = PartHit(fraction, 0.0, 0.0, gap.point_W - state.p_W, gap.normal_W, depth, speed)
    return PartHit(*select(is_hit, contact, NO_HIT))


def _contact_time(
    solid: Solid, centre_W: Vec3, axis_W: Vec3, move_W: Vec3, part: PartShape, may_touch: Scalar
) -> Scalar:
    """Return the time at which a part reaches a solid, as a fraction of its straight path, if `may_touch`."""
    surface = () if isinstance(solid, HeightMap) else solid
    inputs = surface, centre_W, axis_W, move_W, part, where(may_touch, 1.0, 0.0)
    if isinstance(solid, HeightMap):
        return _height_map_contact_time(solid, inputs)

    def newton_iteration(_: Scalar, search: Tree, inputs: Tree) -> Tree:
        surface, centre_W, axis_W, move_W, part, _ = inputs
        time, missed = newton_part_step(search[0], search[1], surface, centre_W, axis_W, move_W, part.disc, part.ball)
        return time, missed, where(time > search[0], 1.0, 0.0)  # after a step of 0 the time stays the same

    def is_active(search: Tree, inputs: Tree) -> Scalar:
        return logical_and(inputs[-1] > 0.5, search[2] > 0.5)

    time, missed, _ = loop(newton_iteration, (0.0, 0.0, 1.0), inputs, count=MAX_NEWTON_STEPS, active=is_active)
    return where(missed > 0.5, NEVER, time)


_RIM = ConstantTable(
    [(math.cos(a), math.sin(a)) for a in (2.0 * math.pi * k / RIM_POINTS for k in range(RIM_POINTS))] + [(0.0, 0.0)]
)


def _height_map_contact_time(ground: HeightMap, inputs: Tree) -> Scalar:
    """Return the contact time over a height map, from points on the disc's rim and its hub.

    A height map has no nearest point for Newton's method.
    """

    def earlier_contact(k: Scalar, time: Scalar, inputs: Tree) -> Scalar:
        _, centre_W, axis_W, move_W, part, _ = inputs
        is_level = absolute(axis_W.x) < 0.7
        radial_W = direction(cross(axis_W, Vec3(*(where(is_level, a, b) for a, b in zip(EAST, UP, strict=True)))))
        x, y = part.disc * lookup(_RIM, k, 0.0), part.disc * lookup(_RIM, k, 1.0)
        point_W = centre_W + radial_W * x + cross(axis_W, radial_W) * y
        return minimum(time, time_to_reach(ground, point_W, move_W, part.ball, until=1.0))

    return loop(earlier_contact, NEVER, inputs, count=RIM_POINTS + 1, active=lambda time, inputs: inputs[-1] > 0.5)


def _rotation_contact_time(
    start_state: State,
    end_state: State,
    solid: Solid,
    part: PartShape,
    solid_motion: SolidMotion,
    limit: Scalar,
    is_rotated_in: Scalar,
) -> Scalar:
    """Return the time at which rotation alone brings a propeller into a solid to the distance `limit`, by bisection."""
    surface = () if isinstance(solid, HeightMap) else solid
    inputs = surface, start_state, end_state, part, solid_motion.displacement_W, limit, where(is_rotated_in, 1.0, 0.0)

    def bisect(_: Scalar, bounds: Tree, inputs: Tree) -> Tree:
        surface, start_state, end_state, part, drift_W, limit, _ = inputs
        low, high = bounds
        middle = 0.5 * (low + high)
        state = interpolate_body(start_state, end_state, middle)
        centre_W, axis_W = part_pose(state.p_W, state.q_WB, part.centre_B, part.axis_B)
        obstacle = solid if isinstance(solid, HeightMap) else surface
        gap = part_distance(obstacle, centre_W - drift_W * middle, axis_W, part.disc, part.ball)
        is_inside = gap.distance < limit
        return where(is_inside, low, middle), where(is_inside, middle, high)

    return loop(bisect, (0.0, 1.0), inputs, count=BISECTIONS, active=lambda bounds, inputs: inputs[-1] > 0.5)[1]


# All parts and all solids -----------------------------------------------------------------------------------------------


def first_hit(
    start_state: State, end_state: State, *, parts: ConstantTable, obstacles: Obstacles, ground: Ground
) -> PartHit:
    """Return the earliest contact of any part with any solid it approaches; ties go to the first solid, then the first part."""
    start_state, end_state = (body_state(state) for state in (start_state, end_state))

    def solid_hit(best: PartHit, solid: Solid, index: Scalar, inputs: Tree) -> PartHit:
        return PartHit(*_solid_hit(best, solid, index, parts, *inputs))

    return _fold_solids(solid_hit, NO_HIT, obstacles, (start_state, end_state, ground))


def _fold_solids(function: Callable[..., Tree], carry: Tree, obstacles: Obstacles, inputs: Tree) -> Tree:
    """carry ← function(carry, solid, index, inputs) for every solid"""
    for solid_type, first, solids in obstacles.runs:
        if isinstance(solids, HeightMap):
            carry = function(carry, solids, float(first), inputs)
            continue

        def body(
            row: Scalar,
            carry: Tree,
            inputs: Tree,
            solid_type: str = solid_type,
            first: int = first,
            table: ConstantTable = solids,
        ) -> Tree:
            return function(carry, read_solid(table, row, solid_type), row + float(first), inputs)

        carry = loop(body, carry, inputs, count=len(solids.values))
    return carry


def _solid_hit(
    best: PartHit,
    solid: Solid,
    index: Scalar,
    parts: ConstantTable,
    start_state: State,
    end_state: State,
    ground: Ground,
) -> PartHit:
    """Return the earlier of `best` and the first contact of any part with one solid, if the drone can reach it in the step."""
    radius = bounding_radius(parts)
    is_reachable = where(
        distance_lower_bound(solid, start_state.p_W) - radius <= path_bound(start_state, end_state, radius), 1.0, 0.0
    )
    surface = () if isinstance(solid, HeightMap) else solid

    def earlier_hit(row: Scalar, best: PartHit, inputs: Tree) -> PartHit:
        surface, start_state, end_state, ground, index, _ = inputs
        obstacle = solid if isinstance(solid, HeightMap) else surface
        hit = part_hit(start_state, end_state, read_part(parts, row), obstacle, ground=ground)._replace(
            part=row, solid=index
        )
        return PartHit(*select(hit.fraction < best.fraction, hit, best))

    inputs = surface, start_state, end_state, ground, index, is_reachable
    return PartHit(
        *loop(earlier_hit, best, inputs, count=len(parts.values), active=lambda best, inputs: inputs[-1] > 0.5)
    )


def bounding_radius(parts: ConstantTable) -> float:
    """Upper bound of the distance of any point of a part from the centre of mass  [m]."""
    return max(math.hypot(*part[:3]) + part[6] + part[7] for part in parts.values.tolist())


def path_bound(start_state: State, end_state: State, radius: float) -> Scalar:
    """|Δp| + 2 r |Δq|: an upper bound of the path of any point of a part in the step  [m]"""
    turn = norm(end_state.q_WB.vector - start_state.q_WB.vector) + absolute(end_state.q_WB.w - start_state.q_WB.w)
    return norm(end_state.p_W - start_state.p_W) + 2.0 * radius * turn + 2.0 * DISTANCE_ERROR


class _Resolution(NamedTuple):
    """Velocities after the impulses, whether to continue, the count of impulses, and the highest speed."""

    v_W: Vec3
    omega_B: Vec3
    active: Scalar
    count: Scalar
    max_speed: Scalar


class _Approach(NamedTuple):
    """The part with the highest approach speed: speed, lever arm and normal."""

    speed: Scalar
    r_W: Vec3
    normal_W: Vec3


def resolve_impacts(
    state: State, hit: PartHit, *, parts: ConstantTable, obstacles: Obstacles, ground: Ground, inertia: CollisionInertia
) -> tuple[State, Scalar, Scalar]:
    """Apply the impulse of a hit, then impulses to all other parts in contact with the same solid, the fastest first.

    `state` is the state at the instant of the hit. Returns the state after it, moved out of the solid; the count of impulses;
    and the highest approach speed [m/s].
    """
    material = Material(lookup(obstacles.materials, hit.solid, 0.0), lookup(obstacles.materials, hit.solid, 1.0))
    v_W, omega_B = _velocities_after_impact(state, hit.speed, hit.r_W, hit.normal_W, material, inertia)
    state = state._replace(v_W=v_W, omega_B=omega_B, p_W=state.p_W + hit.normal_W * hit.depth)
    body = body_state(state)

    def resolve_solid(resolution: _Resolution, solid: Solid, index: Scalar, inputs: Tree) -> _Resolution:
        return _further_impacts(resolution, solid, index, parts, *inputs)

    start = _Resolution(v_W, omega_B, where(hit.fraction <= 1.0, 1.0, 0.0), 1.0, hit.speed)
    end = _Resolution(*_fold_solids(resolve_solid, start, obstacles, (body, hit.solid, material, ground, inertia)))
    return state._replace(v_W=end.v_W, omega_B=end.omega_B), end.count, end.max_speed


def _further_impacts(
    start: _Resolution,
    solid: Solid,
    index: Scalar,
    parts: ConstantTable,
    body: State,
    hit_solid: Scalar,
    material: Material,
    ground: Ground,
    inertia: CollisionInertia,
) -> _Resolution:
    """Apply impulses to all parts in contact with the solid, if it is the one that was hit."""
    surface = () if isinstance(solid, HeightMap) else solid

    def select_obstacle(surface: Tree) -> Solid:
        return solid if isinstance(solid, HeightMap) else surface

    def fastest_part(row: Scalar, best: _Approach, inputs: Tree) -> _Approach:
        surface, state, ground = inputs
        part = read_part(parts, row)
        centre_W, axis_W = part_pose(state.p_W, state.q_WB, part.centre_B, part.axis_B)
        gap = part_distance(select_obstacle(surface), centre_W, axis_W, part.disc, part.ball)
        top_W = gap.point_W - gap.normal_W * gap.distance
        is_standing = logical_and(part.foot > 0.5, is_ground_surface(top_W, gap.normal_W, ground))
        is_touching = logical_and(gap.distance <= TOUCH_DISTANCE, where(is_standing, 0.0, 1.0) > 0.5)
        speed = where(is_touching, approach_speed(state, gap, STILL, 0.0), 0.0)
        approach = _Approach(speed, gap.point_W - state.p_W, gap.normal_W)
        return _Approach(*select(speed > best.speed, approach, best))

    def apply_impact(_: Scalar, resolution: _Resolution, inputs: Tree) -> _Resolution:
        surface, body, material, ground, inertia, _ = inputs
        state = body._replace(v_W=resolution.v_W, omega_B=resolution.omega_B)
        fastest = loop(fastest_part, _Approach(0.0, ZERO, ZERO), (surface, state, ground), count=len(parts.values))
        speed, r_W, normal_W = fastest
        has_approach = speed > RESTING_SPEED
        resolution_after = _Resolution(
            *_velocities_after_impact(state, speed, r_W, normal_W, material, inertia),
            1.0,
            resolution.count + 1.0,
            where(speed > resolution.max_speed, speed, resolution.max_speed),
        )
        return _Resolution(*select(has_approach, resolution_after, resolution._replace(active=0.0)))

    def is_active(resolution: _Resolution, inputs: Tree) -> Scalar:
        return logical_and(resolution.active > 0.5, inputs[-1] > 0.5)

    is_hit_solid = where(absolute(hit_solid - index) < 0.5, 1.0, 0.0)
    inputs = surface, body, material, ground, inertia, is_hit_solid
    return _Resolution(*loop(apply_impact, start, inputs, count=MAX_IMPACTS, active=is_active))


def _velocities_after_impact(
    state: State, speed: Scalar, r_W: Vec3, normal_W: Vec3, material: Material, inertia: CollisionInertia
) -> tuple[Vec3, Vec3]:
    """Return velocity and angular velocity after the impulse of a solid; a slow impact has no restitution."""
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
    """Return the state without rotor speeds and effect states."""
    return state._replace(rotor_speed=(), effects=())


# A physics step ---------------------------------------------------------------------------------------------------------


def interpolate_state(start_state: State, end_state: State, fraction: Scalar) -> State:
    """Return the complete state at a fraction of the step: `interpolate_body` for the body, linear for rotors and effects."""
    interpolated = [a + fraction * (b - a) for a, b in zip(flatten(start_state), flatten(end_state), strict=True)]
    body = interpolate_body(start_state, end_state, fraction)
    state: State = unflatten(start_state, iter(interpolated))
    return state._replace(p_W=body.p_W, v_W=body.v_W, q_WB=body.q_WB, omega_B=body.omega_B)


def add_impact(record: Impact, impact: Impact) -> Impact:
    """Add one instant of impact to the record."""
    return Impact(*select(record.count < 0.5, impact, record))._replace(
        count=record.count + impact.count, max_speed=maximum(record.max_speed, impact.max_speed)
    )


class SubStep(NamedTuple):
    """A drone within its step: state, remaining duration [s], whether the step continues (1 or 0), and the impacts."""

    state: State
    remaining: Scalar
    active: Scalar
    impact: Impact


def advance_with_impacts(
    fly: Callable[[State, Scalar, Tree], State],
    state: State,
    duration: Scalar,
    inputs: Tree,
    *,
    parts: ConstantTable,
    obstacles: Obstacles,
    ground: Ground,
    inertia: CollisionInertia,
) -> tuple[State, Impact]:
    """Integrate one physics step from impact to impact.

    Args:
        fly: integrator `fly(state, duration, inputs)`, called once per leg between impacts.
        state: state at the start of the step.
        duration: length of the step [s].
        inputs: traced values that `fly` reads, such as command and environment.
        parts: table of the drone's parts.
        obstacles: tables of solids and materials.
        ground: the ground plane below the drone; feet do not collide with it.
        inertia: mass and inertia of the drone.

    Returns:
        The state at the end of the step and the record of impacts. After `MAX_HITS` instants of impact the drone stands still
        until the step ends.
    """

    def fly_leg(_: Scalar, leg: SubStep, constants: Tree) -> SubStep:
        inputs, ground, inertia = constants
        end_state = fly(leg.state, leg.remaining, inputs)
        hit = first_hit(leg.state, end_state, parts=parts, obstacles=obstacles, ground=ground)
        is_hit = hit.fraction <= 1.0
        fraction = where(is_hit, hit.fraction, 0.0)
        resolved, count, max_speed = resolve_impacts(
            interpolate_state(leg.state, end_state, fraction),
            hit,
            parts=parts,
            obstacles=obstacles,
            ground=ground,
            inertia=inertia,
        )
        first = Impact(fraction, hit.part, hit.solid, speed=hit.speed, count=count, max_speed=max_speed)
        record = add_impact(leg.impact, first)
        after_impact = SubStep(resolved, leg.remaining * (1.0 - fraction), 1.0, record)
        return SubStep(*select(is_hit, after_impact, SubStep(end_state, 0.0, 0.0, leg.impact)))

    start = SubStep(state, duration, 1.0, Impact())
    end = loop(
        fly_leg, start, (inputs, ground, inertia), count=MAX_HITS, active=lambda leg, constants: leg.active > 0.5
    )
    return end.state, end.impact
