"""Collisions of drones with each other within one physics step: a part of one drone against the hull of another.

`first_drone_hit` and `bounce_pair` are pure functions of two drones. `advance_drones_with_impacts` integrates one physics step
of all drones of a flight from impact to impact, with a fold over the other drones that the executor provides.
"""

from collections.abc import Callable
from typing import NamedTuple

from samara.core.algebra import Vec3, dot, norm, rotate, rotate_inverse
from samara.core.block_ops import ConstantTable, loop, select
from samara.core.ops import equal, logical_and, where
from samara.core.quantity import Scalar, Tree
from samara.physics.ground.contact import Ground
from samara.physics.ground.impact import Collider, Material, apply_impulse, contact_velocity, impact_impulse
from samara.physics.ground.solids import Box
from samara.physics.types import State
from samara.world.collision import (
    MAX_HITS,
    MIN_BOUNCE_SPEED,
    NO_HIT,
    CollisionInertia,
    Impact,
    Obstacles,
    PartHit,
    SolidMotion,
    SubStep,
    add_impact,
    body_state,
    bounding_radius,
    first_hit,
    interpolate_body,
    interpolate_state,
    part_hit,
    path_bound,
    read_part,
    resolve_impacts,
)
from samara.world.obstacles import NEVER


class MovingBody(NamedTuple):
    """The motion of one drone through a step: its states at the start and end, and its inertia."""

    start_state: State
    end_state: State
    inertia: CollisionInertia


def hull_motion(start_state: State, end_state: State) -> SolidMotion:
    """Return the motion of a drone's hull through a step; the hull does not rotate within it."""
    return SolidMotion(
        start_state.p_W, end_state.p_W - start_state.p_W, start_state.v_W, rotate(start_state.q_WB, start_state.omega_B)
    )


def _colliders(
    one: MovingBody, other: MovingBody, fraction: Scalar, r_W: Vec3
) -> tuple[State, State, Collider, Collider]:
    """Return both bodies at the instant of a contact at r_W from the first one's centre."""
    first, second = (
        interpolate_body(one.start_state, one.end_state, fraction),
        interpolate_body(other.start_state, other.end_state, fraction),
    )
    r_other_W = first.p_W + r_W - second.p_W
    return first, second, _collider(first, r_W, one.inertia), _collider(second, r_other_W, other.inertia)


def _collider(state: State, r_W: Vec3, inertia: CollisionInertia) -> Collider:
    return Collider(state.v_W, rotate(state.q_WB, state.omega_B), r_W, state.q_WB, inertia.mass, inertia.inertia_B)


def drone_approach_speed(one: MovingBody, other: MovingBody, fraction: Scalar, r_W: Vec3, normal_W: Vec3) -> Scalar:
    """−(ṙ₁ − ṙ₂)·n: the speed at which the contact points of two drones approach each other  [m/s]"""
    *_, first, second = _colliders(one, other, fraction, r_W)
    return -dot(contact_velocity(first) - contact_velocity(second), normal_W)


def bounce_pair(one: MovingBody, other: MovingBody, hit: PartHit, material: Material) -> tuple[State, State]:
    """Return both drones just after a part of one has hit the other, and separated; their common centre of mass stays."""
    first, second, body, other_body = _colliders(one, other, hit.fraction, hit.r_W)
    impulse = impact_impulse(body, other_body, hit.normal_W, material=material)
    separation_W = hit.normal_W * (hit.depth / (body.mass + other_body.mass))
    return (
        _state_after_impulse(first, body, impulse)._replace(p_W=first.p_W + separation_W * other_body.mass),
        _state_after_impulse(second, other_body, -impulse)._replace(p_W=second.p_W - separation_W * body.mass),
    )


def _state_after_impulse(state: State, body: Collider, impulse: Vec3) -> State:
    collider_after = apply_impulse(body, impulse)
    return state._replace(v_W=collider_after.v_W, omega_B=rotate_inverse(state.q_WB, collider_after.omega_W))


def first_drone_hit(
    one: MovingBody, other: MovingBody, is_near: Scalar, *, parts: ConstantTable, hull: Vec3
) -> PartHit:
    """Return the first contact of a part of one drone with the other's hull, a box with half sides `hull`, if `is_near`."""

    def body(row: Scalar, best: PartHit, inputs: Tree) -> PartHit:
        one, other, _ = inputs
        solid, solid_motion = (
            Box(other.start_state.p_W, hull, other.start_state.q_WB),
            hull_motion(other.start_state, other.end_state),
        )
        hit = part_hit(
            one.start_state, one.end_state, read_part(parts, row), solid, solid_motion=solid_motion
        )._replace(part=row)
        return PartHit(*select(hit.fraction < best.fraction, hit, best))

    inputs = one, other, is_near
    hit = PartHit(*loop(body, NO_HIT, inputs, count=len(parts.values), active=lambda best, inputs: inputs[-1] > 0.5))
    fraction = where(hit.fraction <= 1.0, hit.fraction, 0.0)
    speed = drone_approach_speed(one, other, fraction, hit.r_W, hit.normal_W)
    approaching = logical_and(hit.fraction <= 1.0, speed > 0.0)
    return PartHit(*select(approaching, hit._replace(speed=speed), NO_HIT))


# Several drones of a flight ---------------------------------------------------------------------------------------------

FoldOthers = Callable[[Callable[[Tree, Tree, Tree], Tree], Tree, Tree, Tree], Tree]
"""fold(body, carry, mine, theirs): carry ← body(carry, mine, other) for every other drone of the flight"""


class Swarm(NamedTuple):
    """The drones of one flight, all of one vehicle: their count, the half sides of their hull [m], the material of their
    impacts, and a fold over the other drones of a flight."""

    drones: int
    hull: Vec3
    material: Material
    fold_others: FoldOthers


class _CollidingDrone(NamedTuple):
    """One drone as the others see it: its index, its cluster, and its motion through the step."""

    index: Scalar
    cluster: Scalar
    body: MovingBody


class _DroneHit(NamedTuple):
    """The first contact with another drone: `end_state` is the state just after it, `own_part` is 1 if this drone's part
    hit."""

    fraction: Scalar
    part: Scalar
    other: Scalar
    own_part: Scalar
    speed: Scalar
    after: State


def advance_drones_with_impacts(
    fly: Callable[[State, Scalar, Tree], State],
    state: State,
    duration: Scalar,
    inputs: Tree,
    *,
    index: Scalar,
    swarm: Swarm,
    parts: ConstantTable,
    obstacles: Obstacles,
    ground: Ground,
    inertia: CollisionInertia,
) -> tuple[State, Impact]:
    """Integrate one physics step of the drone at `index` of a swarm, whose drones also hit each other.

    Drones that could touch each other in the step, directly or through others, form a cluster. All drones of a cluster advance
    together to the instant of its first impact. `parts` belong to every drone; the other arguments are those of
    `advance_with_impacts`.
    """
    radius = bounding_radius(parts)
    count, hull, material, over_others = swarm

    def fly_leg(_: Scalar, leg: SubStep, constants: Tree) -> SubStep:
        inputs, ground, inertia, index, cluster = constants
        end = fly(leg.state, leg.remaining, inputs)
        hit = first_hit(leg.state, end, parts=parts, obstacles=obstacles, ground=ground)
        drone = _CollidingDrone(index, cluster, MovingBody(body_state(leg.state), body_state(end), inertia))
        no_contact = _DroneHit(NEVER, -1.0, -1.0, 1.0, 0.0, drone.body.start_state)
        meeting = _DroneHit(
            *over_others(
                lambda best, a, b: _earlier_drone_hit(best, a, b, parts, hull, material), no_contact, drone, drone
            )
        )
        by_drone = meeting.fraction < hit.fraction
        own_fraction = where(by_drone, meeting.fraction, hit.fraction)

        def earliest_in_cluster(best: Scalar, drone: Tree, other: Tree) -> Scalar:
            return where(logical_and(equal(drone[0], other[0]), other[1] < best), other[1], best)

        first = over_others(earliest_in_cluster, own_fraction, (cluster, own_fraction), (cluster, own_fraction))
        is_hit = first <= 1.0
        fraction = where(is_hit, first, 0.0)
        involved = logical_and(is_hit, own_fraction <= first)
        by_drone = logical_and(involved, by_drone)
        by_solid = logical_and(involved, hit.fraction <= meeting.fraction)
        moment = interpolate_state(leg.state, end, fraction)
        resolved, impulses, max_speed = resolve_impacts(
            moment,
            hit._replace(fraction=where(by_solid, hit.fraction, NEVER)),
            parts=parts,
            obstacles=obstacles,
            ground=ground,
            inertia=inertia,
        )
        after_meeting = moment._replace(p_W=meeting.after.p_W, v_W=meeting.after.v_W, omega_B=meeting.after.omega_B)
        state = select(by_drone, after_meeting, select(by_solid, resolved, moment))
        solid_impact = Impact(fraction, hit.part, hit.solid, speed=hit.speed, count=impulses, max_speed=max_speed)
        drone_impact = Impact(
            fraction, meeting.part, -1.0, meeting.other, meeting.own_part, meeting.speed, 1.0, meeting.speed
        )
        record = add_impact(leg.impact, Impact(*select(by_drone, drone_impact, solid_impact)))
        record = Impact(*select(involved, record, leg.impact))
        after_impact = SubStep(state, leg.remaining * (1.0 - fraction), 1.0, record)
        return SubStep(*select(is_hit, after_impact, SubStep(end, 0.0, 0.0, leg.impact)))

    end_state = fly(state, duration, inputs)
    cluster = _cluster(body_state(state), body_state(end_state), index, radius, count, over_others)
    start = SubStep(state, duration, 1.0, Impact())
    constants = inputs, ground, inertia, index, cluster
    end = loop(fly_leg, start, constants, count=MAX_HITS, active=lambda leg, constants: leg.active > 0.5)
    return end.state, end.impact


def _cluster(
    start_state: State, end_state: State, index: Scalar, radius: float, count: int, over_others: FoldOthers
) -> Scalar:
    """Return the lowest index of all drones that could touch a drone in the step, directly or through others."""
    extent = radius + path_bound(start_state, end_state, radius)

    def lowest_label(best: Scalar, drone: Tree, other: Tree) -> Scalar:
        is_near = norm(drone[0] - other[0]) <= drone[1] + other[1]
        return where(logical_and(is_near, other[2] < best), other[2], best)

    label = index
    for _ in range(count - 1):
        label = over_others(lowest_label, label, (start_state.p_W, extent), (start_state.p_W, extent, label))
    return label


def _earlier_drone_hit(
    best: _DroneHit,
    drone: _CollidingDrone,
    other: _CollidingDrone,
    parts: ConstantTable,
    hull: Vec3,
    material: Material,
) -> _DroneHit:
    """Return the earlier of `best` and the first contact of two drones; ties go to the part of the lower index."""
    is_first = drone.index < other.index
    is_same_cluster = where(equal(drone.cluster, other.cluster), 1.0, 0.0)
    low, high = (MovingBody(*select(is_first, a, b)) for a, b in ((drone.body, other.body), (other.body, drone.body)))
    by_low = first_drone_hit(low, high, is_same_cluster, parts=parts, hull=hull)
    by_high = first_drone_hit(high, low, is_same_cluster, parts=parts, hull=hull)
    is_low = by_low.fraction <= by_high.fraction
    striker_body, struck_body = (MovingBody(*select(is_low, a, b)) for a, b in ((low, high), (high, low)))
    hit = PartHit(*select(is_low, by_low, by_high))
    is_hit = hit.fraction <= 1.0
    hit = hit._replace(fraction=where(is_hit, hit.fraction, 0.0))
    restitution = where(hit.speed > MIN_BOUNCE_SPEED, material.restitution, 0.0)
    striker, struck = bounce_pair(striker_body, struck_body, hit, material._replace(restitution=restitution))
    is_own = equal(where(is_first, 1.0, 0.0), where(is_low, 1.0, 0.0))  # whether the part belongs to this drone
    after = select(is_own, striker, struck)
    meeting = _DroneHit(hit.fraction, hit.part, other.index, where(is_own, 1.0, 0.0), hit.speed, after)
    return _DroneHit(*select(logical_and(is_hit, hit.fraction < best.fraction), meeting, best))
