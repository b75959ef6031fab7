"""Collisions within a step: the first contact of a drone's feet, body or propellers with a solid, and of two drones.

The integrator moved a drone from one state to the next; between them every part moves on a straight line. `first_hit` finds the
earliest contact for any thickness of the solid and any speed; `bounce` returns the state just after it, from which the
remainder of the step is integrated again.
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
from samara.scenario.flight_events import PartType
from samara.sim.collide import clearance
from samara.sim.collide.clearance import PartArrays, contact_times, part_arrays, part_distances
from samara.sim.collide.parts import CollisionPart, hull_box
from samara.world.collision import (
    BISECTIONS,
    DISTANCE_ERROR,
    MAX_IMPACTS,
    MIN_BOUNCE_SPEED,
    RESTING_DEPTH,
    RESTING_SPEED,
    STILL,
    TOUCH_DISTANCE,
    CollisionInertia,
    PartHit,
    SolidMotion,
    approach_speed,
    interpolate_body,
    is_ground_surface,
    resting_speed,
)
from samara.world.drone_collision import MovingBody, bounce_pair, drone_approach_speed, hull_motion
from samara.world.obstacles import NEVER, HeightMap, Solid, distance_lower_bound


class Hit(NamedTuple):
    """A hit: fraction of the step, part, solid, point from the centre of mass, outward normal, depth [m], speed [m/s]."""

    fraction: float
    part: CollisionPart
    solid: int
    r_W: Vec3
    normal_W: Vec3
    depth: float
    speed: float

    @property
    def is_propeller(self) -> bool:
        """Whether the part is a propeller."""
        return self.part.kind is PartType.PROPELLER

    def __str__(self) -> str:
        return f"{self.part.name} hit solid {self.solid} at {self.speed:.3g} m/s"


def first_hit(
    start_state: State,
    end_state: State,
    vehicle: Vehicle,
    parts: Sequence[CollisionPart],
    solids: Sequence[Solid],
    moving: Sequence[SolidMotion] | None = None,
    ground: Ground | None = None,
) -> Hit | None:
    """Return the earliest contact of any part with any solid it approaches, or None.

    `moving` has the motion of each solid; None if all are at rest. Contact of a foot with a solid that is the `ground` under
    the drone is ignored, as the contact model handles it.
    """
    first: Hit | None = None
    start_state, end_state = (
        moving_state._replace(rotor_speed=(), effects=()) for moving_state in (start_state, end_state)
    )  # only the motion is needed
    shapes = part_arrays(tuple(parts))
    start_W, axis_W = place_drone_parts(start_state, shapes)
    end_W, end_axis_W = place_drone_parts(end_state, shapes)
    move_W = end_W - start_W
    path_length = norm(move_W) + shapes.disc * norm(end_axis_W - axis_W)
    for index, solid in enumerate(solids):
        motion = moving[index] if moving else STILL
        if (
            isinstance(solid, HeightMap)
            and (distance_lower_bound(solid, start_W) > shapes.disc + shapes.ball + path_length).all()
        ):
            continue
        nearest = part_distances(solid, start_W, axis_W, shapes)
        is_close = nearest.distance <= path_length + norm(motion.displacement_W) + DISTANCE_ERROR
        if not is_close.any():
            continue
        fractions = np.full(len(parts), NEVER)
        is_leaving = approach_speed(start_state, nearest, motion, 0.0) <= resting_speed(nearest.distance)
        is_approaching = is_close & ~((nearest.distance <= 0.0) & is_leaving)
        if is_approaching.any():
            relative_move_W = move_W - motion.displacement_W
            fractions = np.where(is_approaching, contact_times(solid, start_W, relative_move_W, axis_W, shapes), NEVER)
        max_depth = np.minimum(nearest.distance, 0.0) - RESTING_DEPTH
        is_deeper = part_distances(solid, end_W - motion.displacement_W, end_axis_W, shapes).distance < max_depth
        for k in np.flatnonzero(is_deeper & is_close & (fractions > 1.0)).tolist():
            fractions[k] = _rotation_hit_time(
                start_state, end_state, solid, shapes, motion.displacement_W, k, float(max_depth[k])
            )
        for k in np.argsort(fractions, kind="stable").tolist():
            fraction = float(fractions[k])
            if fraction > 1.0 or (first and fraction >= first.fraction):
                break
            state = interpolate_body(start_state, end_state, fraction)
            hit = _part_hit(fraction, state, vehicle, parts[k], k, index, solid, shapes, motion)
            if hit and parts[k].is_foot and ground:
                point_W = state.p_W + hit.r_W + hit.normal_W * hit.depth
                hit = None if is_ground_surface(point_W, hit.normal_W, ground) else hit
            if hit:
                first = hit
                break
    return first


def _rotation_hit_time(
    start_state: State, end_state: State, solid: Solid, shapes: PartArrays, drift_W: Vec3, k: int, max_depth: float
) -> float:
    """Return when a propeller's rotation, not its centre's path, brings it into a solid to this depth, by bisection."""
    low, high = 0.0, 1.0
    for _ in range(BISECTIONS):
        middle = 0.5 * (low + high)
        centre_W, axis_W = place_drone_parts(interpolate_body(start_state, end_state, middle), shapes)
        is_inside = part_distances(solid, centre_W - drift_W * middle, axis_W, shapes).distance[k] < max_depth
        low, high = (low, middle) if is_inside else (middle, high)
    return high


def place_drone_parts(state: State, shapes: PartArrays) -> tuple[Vec3, Vec3]:
    """Return the positions and axes of a drone's parts."""
    return clearance.place_parts(state.p_W, state.q_WB, shapes)


def _part_hit(
    fraction: float,
    state: State,
    vehicle: Vehicle,
    part: CollisionPart,
    k: int,
    index: int,
    solid: Solid,
    shapes: PartArrays,
    motion: SolidMotion,
) -> Hit | None:
    """Return the hit of one part at a fraction of the step; None if the part is leaving the solid."""
    drift_W = motion.displacement_W * fraction
    centre_W, axis_W = place_drone_parts(state, shapes)
    nearest = part_distances(solid, centre_W - drift_W, axis_W, shapes)
    nearest = nearest._replace(point_W=nearest.point_W + drift_W)
    speed = float(approach_speed(state, nearest, motion, fraction)[k])
    if speed <= resting_speed(nearest.distance)[k]:
        return None
    normal_W, point_W = (Vec3(*(float(x[k]) for x in vectors)) for vectors in (nearest.normal_W, nearest.point_W))
    return Hit(fraction, part, index, point_W - state.p_W, normal_W, max(-float(nearest.distance[k]), 0.0), speed)


def bounce(start_state: State, end_state: State, hit: Hit, vehicle: Vehicle, material: Material) -> State:
    """Return the state just after a hit on a fixed solid: at the contact, with its impulse, and out of the solid."""
    bounce_state = apply_wall_impact(
        interpolate_body(start_state, end_state, hit.fraction), hit.r_W, hit.normal_W, vehicle, material
    )
    return bounce_state._replace(p_W=bounce_state.p_W + hit.normal_W * hit.depth)


def apply_wall_impact(state: State, r_W: Vec3, normal_W: Vec3, vehicle: Vehicle, material: Material) -> State:
    """Return the state after the impulse of a wall at r_W, by `wall_impact_impulse`, compiled."""
    machine = _impact_code(vehicle.mass, vehicle.inertia_B).machine()
    machine.carry[:, 0] = (*state.v_W, *state.omega_B)
    machine.held_inputs[:, 0] = (*state.q_WB, *r_W, *normal_W, *material)
    machine.run()
    x = machine.carry[:, 0].tolist()
    return state._replace(v_W=Vec3(*x[:3]), omega_B=Vec3(*x[3:]))


@lru_cache(maxsize=64)
def _impact_code(mass: float, inertia_B: Mat3) -> CompiledStep:
    def body(carry: Tree, constants: Tree) -> Tree:
        q_WB, r_W, normal_W, material = constants
        return velocities_after_wall_impact(
            carry[0], carry[1], q_WB, r_W, normal_W, mass=mass, inertia_B=inertia_B, material=material
        )

    return CompiledStep(body, (ZERO, ZERO), (IDENTITY, ZERO, ZERO, Material()))


def apply_further_impacts(
    state: State,
    vehicle: Vehicle,
    parts: Sequence[CollisionPart],
    solid: Solid,
    material: Material,
    ground: Ground | None = None,
) -> tuple[State, list[tuple[CollisionPart, float]]]:
    """Apply the impulses on all parts that touch a solid at this instant, the fastest first; return these parts and speeds.

    An impact on one part drives others into the solid: they are resolved here, so that the step is not repeated for each.
    """
    state = state._replace(rotor_speed=(), effects=())
    shapes = part_arrays(tuple(parts))
    nearest = part_distances(solid, *place_drone_parts(state, shapes), shapes)
    is_touching = nearest.distance <= TOUCH_DISTANCE
    if ground is not None:
        for k in np.flatnonzero(is_touching).tolist():
            point_W, normal_W = (
                Vec3(*(float(x[k]) for x in vectors)) for vectors in (nearest.point_W, nearest.normal_W)
            )
            top_W = point_W - normal_W * float(nearest.distance[k])
            is_touching[k] = not (parts[k].is_foot and is_ground_surface(top_W, normal_W, ground))
    impacts: list[tuple[CollisionPart, float]] = []
    for _ in range(MAX_IMPACTS if is_touching.any() else 0):
        speeds = np.where(is_touching, approach_speed(state, nearest, STILL, 0.0), 0.0)
        k = int(np.argmax(speeds))
        if speeds[k] <= RESTING_SPEED:
            break
        point_W, normal_W = (Vec3(*(float(x[k]) for x in vectors)) for vectors in (nearest.point_W, nearest.normal_W))
        part_material = material if speeds[k] > MIN_BOUNCE_SPEED else material._replace(restitution=0.0)
        state = apply_wall_impact(state, point_W - state.p_W, normal_W, vehicle, part_material)
        impacts.append((parts[k], float(speeds[k])))
    return state, impacts


class DroneStep(NamedTuple):
    """One drone's motion in a step, for collisions between drones."""

    start: State
    end: State
    vehicle: Vehicle
    parts: tuple[CollisionPart, ...]


def first_drone_hit(one: DroneStep, other: DroneStep) -> Hit | None:
    """Return the earliest contact of a part of one drone with the other's hull, which does not rotate meanwhile, or None."""
    moves, hull = hull_motion(other.start, other.end), hull_box(other.start, other.parts)
    hit = first_hit(one.start, one.end, one.vehicle, one.parts, (hull,), (moves,))
    if hit is None:
        return None
    speed = drone_approach_speed(_moving_body(one), _moving_body(other), hit.fraction, hit.r_W, hit.normal_W)
    return hit._replace(speed=float(speed)) if speed > 0.0 else None


def bounce_drones(one: DroneStep, other: DroneStep, hit: Hit, material: Material) -> tuple[State, State]:
    """Return both drones just after their collision, moved apart."""
    part_hit = PartHit(hit.fraction, r_W=hit.r_W, normal_W=hit.normal_W, depth=hit.depth)
    return bounce_pair(_moving_body(one), _moving_body(other), part_hit, material)


def _moving_body(drone: DroneStep) -> MovingBody:
    return MovingBody(drone.start, drone.end, CollisionInertia(drone.vehicle.mass, drone.vehicle.inertia_B))
