"""What hits what within a step: the first touch of a drone's feet, body or propellers with a solid, and of two drones.

The integrator moved a drone from one state to the next; between them every part goes straight. `first_hit` finds the earliest
touch, however thin the solid and fast the drone, and `bounced` gives the state just after it, from which the rest of the step
is to be flown again.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from samara.compiler.compiled_step import CompiledStep
from samara.core.algebra import IDENTITY, ZERO, Mat3, Vec3, norm
from samara.core.quantity import Tree
from samara.physics.ground.contact import Ground
from samara.physics.ground.impact import Material, velocities_after_wall_impact
from samara.physics.types import State, Vehicle
from samara.scenario.flight_events import PartKind
from samara.sim.collide import clearance
from samara.sim.collide.clearance import Shapes, distances, shapes_of, times
from samara.sim.collide.parts import Part, hull_of
from samara.world.collision import (
    BISECTIONS,
    DISTANCE_ERROR,
    MAX_IMPACTS,
    MIN_BOUNCE_SPEED,
    RESTING_DEPTH,
    RESTING_SPEED,
    STILL,
    TOUCH_DISTANCE,
    Inertia,
    Moving,
    PartHit,
    approach_speed,
    between,
    resting_speed,
    stands_on,
)
from samara.world.drone_collision import MovingBody, bounce_pair, hull_motion, meeting_speed
from samara.world.obstacles import NEVER, HeightMap, Solid, at_least


class Hit(NamedTuple):
    """Who touched what: when, as a share of the step; where, from the centre of mass; which way is out; how fast [m/s]."""

    share: float
    part: Part
    solid: int
    r_W: Vec3
    normal_W: Vec3
    depth: float
    speed: float

    @property
    def strikes_propeller(self) -> bool:
        """Whether it was a propeller"""
        return self.part.kind is PartKind.PROPELLER

    def __str__(self) -> str:
        return f"{self.part.name} hit solid {self.solid} at {self.speed:.3g} m/s"


def first_hit(
    before: State,
    after: State,
    vehicle: Vehicle,
    parts: Sequence[Part],
    solids: Sequence[Solid],
    moving: Sequence[Moving] | None = None,
    ground: Ground | None = None,
) -> Hit | None:
    """The earliest touch of any part with any solid it approaches, or None

    `moving` is how each solid itself moves; where it is not given they stand. What of a solid is the `ground` under the drone
    is left to its feet, which feel that already.
    """
    first: Hit | None = None
    before, after = (own._replace(rotor_speed=(), effects=()) for own in (before, after))  # where it is, and no more
    shapes = shapes_of(tuple(parts))
    start_W, axis_W = placed(before, shapes)
    end_W, end_axis_W = placed(after, shapes)
    move_W = end_W - start_W
    way = norm(move_W) + shapes.disc * norm(end_axis_W - axis_W)
    for index, solid in enumerate(solids):
        moves = moving[index] if moving else STILL
        if isinstance(solid, HeightMap) and (at_least(solid, start_W) > shapes.disc + shapes.ball + way).all():
            continue
        near = distances(solid, start_W, axis_W, shapes)
        close = near.distance <= way + norm(moves.drift_W) + DISTANCE_ERROR
        if not close.any():
            continue
        shares = np.full(len(parts), NEVER)
        leaving = approach_speed(before, near, moves, 0.0) <= resting_speed(near.distance)
        coming = close & ~((near.distance <= 0.0) & leaving)
        if coming.any():
            own_W = move_W - moves.drift_W
            shares = np.where(coming, times(solid, start_W, own_W, axis_W, shapes), NEVER)
        deep = np.minimum(near.distance, 0.0) - RESTING_DEPTH
        deeper = distances(solid, end_W - moves.drift_W, end_axis_W, shapes).distance < deep
        for k in np.flatnonzero(deeper & close & (shares > 1.0)).tolist():
            shares[k] = _turned_in(before, after, solid, shapes, moves.drift_W, k, float(deep[k]))
        for k in np.argsort(shares, kind="stable").tolist():
            share = float(shares[k])
            if share > 1.0 or (first and share >= first.share):
                break
            state = between(before, after, share)
            hit = _hit_at(share, state, vehicle, parts[k], k, index, solid, shapes, moves)
            if hit and parts[k].foot and ground:
                point_W = state.p_W + hit.r_W + hit.normal_W * hit.depth
                hit = None if stands_on(point_W, hit.normal_W, ground) else hit
            if hit:
                first = hit
                break
    return first


def _turned_in(before: State, after: State, solid: Solid, shapes: Shapes, drift_W: Vec3, k: int, deep: float) -> float:
    """When a propeller that its centre's way does not bring to a solid is turned into it so deep, by halving"""
    low, high = 0.0, 1.0
    for _ in range(BISECTIONS):
        middle = 0.5 * (low + high)
        center_W, axis_W = placed(between(before, after, middle), shapes)
        met = distances(solid, center_W - drift_W * middle, axis_W, shapes).distance[k] < deep
        low, high = (low, middle) if met else (middle, high)
    return high


def placed(state: State, shapes: Shapes) -> tuple[Vec3, Vec3]:
    """Where a drone's parts are, and which way their axes point"""
    return clearance.placed(state.p_W, state.q_WB, shapes)


def _hit_at(
    share: float,
    state: State,
    vehicle: Vehicle,
    part: Part,
    k: int,
    index: int,
    solid: Solid,
    shapes: Shapes,
    moves: Moving,
) -> Hit | None:
    """The touch itself, unless the part is leaving"""
    moved_W = moves.drift_W * share
    center_W, axis_W = placed(state, shapes)
    near = distances(solid, center_W - moved_W, axis_W, shapes)
    near = near._replace(point_W=near.point_W + moved_W)
    speed = float(approach_speed(state, near, moves, share)[k])
    if speed <= resting_speed(near.distance)[k]:
        return None
    normal_W, point_W = (Vec3(*(float(x[k]) for x in own)) for own in (near.normal_W, near.point_W))
    return Hit(share, part, index, point_W - state.p_W, normal_W, max(-float(near.distance[k]), 0.0), speed)


def bounced(before: State, after: State, hit: Hit, vehicle: Vehicle, material: Material) -> State:
    """The state just after a hit on a solid that nothing moves: at the touch, with its impulse, and out of it"""
    out = after_wall_impact(between(before, after, hit.share), hit.r_W, hit.normal_W, vehicle, material)
    return out._replace(p_W=out.p_W + hit.normal_W * hit.depth)


def after_wall_impact(state: State, r_W: Vec3, normal_W: Vec3, vehicle: Vehicle, material: Material) -> State:
    """The state after the impulse of a wall at r_W, by `wall_impact_impulse`, as machine code"""
    machine = _impact_code(vehicle.mass, vehicle.inertia_B).machine()
    machine.carry[:, 0] = (*state.v_W, *state.omega_B)
    machine.held[:, 0] = (*state.q_WB, *r_W, *normal_W, *material)
    machine.run()
    x = machine.carry[:, 0].tolist()
    return state._replace(v_W=Vec3(*x[:3]), omega_B=Vec3(*x[3:]))


@lru_cache(maxsize=64)
def _impact_code(mass: float, inertia_B: Mat3) -> CompiledStep:
    def body(own: Tree, held: Tree) -> Tree:
        q_WB, r_W, normal_W, material = held
        return velocities_after_wall_impact(
            own[0], own[1], q_WB, r_W, normal_W, mass=mass, inertia_B=inertia_B, material=material
        )

    return CompiledStep(body, (ZERO, ZERO), (IDENTITY, ZERO, ZERO, Material()))


def after_further_impacts(
    state: State,
    vehicle: Vehicle,
    parts: Sequence[Part],
    solid: Solid,
    material: Material,
    ground: Ground | None = None,
) -> tuple[State, list[tuple[Part, float]]]:
    """The state after the impulses on all parts that touch a solid at this moment, the fastest first; and whose, how fast

    An impact on one part sends others on: they are dealt with here, and the step need not be flown again for each.
    """
    state = state._replace(rotor_speed=(), effects=())
    shapes = shapes_of(tuple(parts))
    near = distances(solid, *placed(state, shapes), shapes)
    touching = near.distance <= TOUCH_DISTANCE
    if ground is not None:
        for k in np.flatnonzero(touching).tolist():
            point_W, normal_W = (Vec3(*(float(x[k]) for x in own)) for own in (near.point_W, near.normal_W))
            top_W = point_W - normal_W * float(near.distance[k])
            touching[k] = not (parts[k].foot and stands_on(top_W, normal_W, ground))
    impacts: list[tuple[Part, float]] = []
    for _ in range(MAX_IMPACTS if touching.any() else 0):
        speeds = np.where(touching, approach_speed(state, near, STILL, 0.0), 0.0)
        k = int(np.argmax(speeds))
        if speeds[k] <= RESTING_SPEED:
            break
        point_W, normal_W = (Vec3(*(float(x[k]) for x in own)) for own in (near.point_W, near.normal_W))
        own = material if speeds[k] > MIN_BOUNCE_SPEED else material._replace(restitution=0.0)
        state = after_wall_impact(state, point_W - state.p_W, normal_W, vehicle, own)
        impacts.append((parts[k], float(speeds[k])))
    return state, impacts


class Drone(NamedTuple):
    """One drone through a step, for what drones do to each other."""

    before: State
    after: State
    vehicle: Vehicle
    parts: tuple[Part, ...]


def first_meeting(one: Drone, other: Drone) -> Hit | None:
    """The earliest touch of a part of one drone with the other's hull, or None; the other does not turn meanwhile"""
    moves, hull = hull_motion(other.before, other.after), hull_of(other.before, other.parts)
    hit = first_hit(one.before, one.after, one.vehicle, one.parts, (hull,), (moves,))
    if hit is None:
        return None
    speed = meeting_speed(_moving_body(one), _moving_body(other), hit.share, hit.r_W, hit.normal_W)
    return hit._replace(speed=float(speed)) if speed > 0.0 else None


def both_bounced(one: Drone, other: Drone, hit: Hit, material: Material) -> tuple[State, State]:
    """Both drones just after they met, and out of each other"""
    touched = PartHit(hit.share, r_W=hit.r_W, normal_W=hit.normal_W, depth=hit.depth)
    return bounce_pair(_moving_body(one), _moving_body(other), touched, material)


def _moving_body(drone: Drone) -> MovingBody:
    return MovingBody(drone.before, drone.after, Inertia(drone.vehicle.mass, drone.vehicle.inertia_B))
