"""Collisions of drones with solids and with each other: drones that could have collided repeat the step, impact by impact.

The plants integrate all drones from one instant to the next. Three filters follow, each finer and more expensive: the distance
a drone could have travelled since it was last measured, the distances of its parts, and the repeated physics steps with
`first_hit`. A drone that a filter excludes keeps its motion; with nothing near, a step costs one subtraction for all drones.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from samara.core.algebra import Quat, Vec3, dot, norm
from samara.core.quantity import Tree
from samara.core.tree import flatten
from samara.core.types import Array
from samara.physics.ground.contact import Ground
from samara.physics.ground.impact import Material
from samara.physics.types import BODY_STATE_SIZE, State
from samara.scenario.flight_events import ContactDetails, ContactTarget
from samara.scenario.timeline import MICROSECONDS, plant_steps
from samara.scenario.world import World
from samara.sim.collide.clearance import close_pairs, part_arrays, part_distances, surface_touches
from samara.sim.collide.impacts import (
    DroneStep,
    Hit,
    apply_further_impacts,
    bounce,
    bounce_drones,
    first_drone_hit,
    first_hit,
    place_drone_parts,
)
from samara.sim.collide.parts import CollisionPart, collision_parts, hull_box
from samara.world.collision import MAX_HITS, MIN_BOUNCE_SPEED, SAME_DIRECTION, SAME_HEIGHT, interpolate_body
from samara.world.obstacles import HeightMap, Solid, distance_lower_bound

if TYPE_CHECKING:
    from samara.sim.plant import Plant

MAX_EXTRA_ACCELERATION = 50.0  # [m/s²]: bound on the speed a drone may gain within a step beyond that at its ends
REPEAT_MARGIN = 2e-3  # [m]: margin beyond the distance a part can move, within which the step is repeated
MAX_PART_CHECK_DISTANCE = 0.3  # [m]: solids further from a drone's bounding sphere are not measured part by part
PAIR_LIST_SKIN = 0.5  # [m]: pairs further apart are not listed again until a drone has moved half of this


class Collision(NamedTuple):
    """A collision: drone, part, index of the solid or of the other drone (the unused one is −1), time, speed [m/s]."""

    drone: int
    part: CollisionPart
    solid: int
    other: int
    time_us: int
    speed: float

    @property
    def touches_by_drone(self) -> dict[int, ContactDetails]:
        """The occurrence for the drone whose part collided, then for the other drone."""
        part = self.part.kind, self.part.number
        if self.other < 0:
            return {self.drone: ContactDetails(*part, ContactTarget.OBSTACLE, self.solid, self.speed)}
        return {
            self.drone: ContactDetails(*part, ContactTarget.DRONE, self.other, self.speed),
            self.other: ContactDetails(*part, ContactTarget.OTHER_DRONE, self.drone, self.speed),
        }


class _CollisionGroup:
    """The drones of one plant, and the geometry of their parts."""

    def __init__(self, plant: "Plant", number: int, first: int) -> None:
        self.plant, self.index, self.first = plant, number, first
        self.parts = collision_parts(plant.vehicle)
        self.shapes = part_arrays(self.parts)
        self.part_radii = norm(self.shapes.centre_B) + self.shapes.disc + self.shapes.ball
        self.is_foot = np.array([part.is_foot for part in self.parts])
        self.bounding_radius = float(self.part_radii.max())
        self.ground_row = plant.environment_row("ground.point_W.x")
        self._single_plant: Plant | None = None

    @property
    def single_plant(self) -> "Plant":
        """A plant for one of the drones, to repeat a step."""
        if self._single_plant is None:
            self._single_plant = self.plant.single_plant()
        return self._single_plant

    def ground(self, column: int) -> Ground:
        """Return the ground plane under a drone."""
        x, y, z, *normal = self.plant.environment[self.ground_row : self.ground_row + 6, column].tolist()
        return Ground(Vec3(x, y, z), Vec3(*normal))


class _Interval:
    """One interval of the plants: the initial states of all drones, and bounds on their travel and rotation."""

    def __init__(self, flocks: Sequence[_CollisionGroup], initial_states: Sequence[Array], dt: float) -> None:
        self.initial_states = initial_states
        start_rows = np.concatenate([state[:BODY_STATE_SIZE] for state in initial_states], axis=1)
        end_rows = np.concatenate([flock.plant.state[:BODY_STATE_SIZE] for flock in flocks], axis=1)
        max_squares = np.maximum(start_rows * start_rows, end_rows * end_rows)
        self.p_W = start_rows[:3]
        self.travel = np.sqrt(max_squares[3:6].sum(axis=0)) * dt + 0.5 * MAX_EXTRA_ACCELERATION * dt * dt + 1e-4
        self.rotation = np.sqrt(max_squares[10:13].sum(axis=0)) * dt
        self.clearances: dict[int, Array] = {}  # by drone: clearance to every solid, if measured


class CollisionWorld:
    """The world's solids and the drones of several plants; impacts are ordered by the drones' numbers only."""

    def __init__(self, world: World, plants: "Sequence[Plant]", drones: Sequence[Sequence[int]]) -> None:
        self.world, self.plants, n = world, list(plants), 0
        self.groups: list[_CollisionGroup] = []
        for plant_index, plant in enumerate(plants):
            self.groups.append(_CollisionGroup(plant, plant_index, n))
            n += plant.n
        self.drone_numbers = [int(drone) for members in drones for drone in members]
        self._groups_by_drone = [flock for flock in self.groups for _ in range(flock.plant.n)]
        self._bounding_radii = np.array([flock.bounding_radius for flock in self._groups_by_drone])
        self._solid_clearance = np.full(
            n, -np.inf
        )  # lower bound on the clearance of each drone's bounding sphere to all solids
        self._part_clearance = np.full(n, -np.inf)  # lower bound on the clearance of its parts, standing on this ground
        self._ground = np.full((6, n), np.nan)
        self._pair_list: Array | None = None
        self._travel_since_listing = 0.0

    def advance(self, start_us: int, end_us: int) -> list[Collision]:
        """Integrate the plants from one instant to the next; return the collisions in between."""
        initial_states = [flock.plant.state.copy() for flock in self.groups]
        for flock in self.groups:
            flock.plant.advance(start_us, end_us)
        interval = _Interval(self.groups, initial_states, (end_us - start_us) / MICROSECONDS)
        near_solids = self._near_solids(interval) if self.world.obstacles else []
        near_pairs = self._near_pairs(interval) if self.world.collisions else []
        collisions: list[Collision] = []
        for members in _collision_sets(
            near_solids, [pair for pair in near_pairs if self._may_collide(*pair, interval)]
        ):
            resimulation = _Resimulation(self, sorted(members, key=self.drone_numbers.__getitem__), interval)
            collisions += resimulation.run(start_us, end_us)
            self._solid_clearance[list(resimulation.collided)] = self._part_clearance[
                list(resimulation.collided)
            ] = -np.inf  # its path differs from the measured one
        return sorted(collisions, key=lambda collision: (collision.time_us, collision.drone))

    def column(self, drone: int) -> int:
        """Return the column of a drone in its plant."""
        return drone - self._groups_by_drone[drone].first

    # Filters ----------------------------------------------------------------------------------------------------------

    def _near_solids(self, interval: _Interval) -> list[int]:
        """Return the drones whose parts could have touched a solid."""
        sweep = interval.travel + interval.rotation * self._bounding_radii + REPEAT_MARGIN
        ground = np.concatenate([flock.plant.environment[flock.ground_row :][:6] for flock in self.groups], axis=1)
        is_clear = (self._part_clearance > sweep) & (ground == self._ground).all(axis=0)
        candidates = np.flatnonzero((self._solid_clearance <= interval.travel) & ~is_clear)
        near: list[int] = []
        if len(candidates):
            clearance = self._solid_clearances(candidates, interval)
            self._solid_clearance[candidates] = clearance.min(axis=0)
            for k in np.flatnonzero(self._solid_clearance[candidates] <= interval.travel[candidates]):
                drone, solids = int(candidates[k]), np.flatnonzero(clearance[:, k] <= MAX_PART_CHECK_DISTANCE).tolist()
                interval.clearances[drone] = clearance[:, k]
                further_clearance = clearance[clearance[:, k] > MAX_PART_CHECK_DISTANCE, k].min(initial=np.inf)
                self._part_clearance[drone] = min(self._nearest_part(drone, solids, interval), further_clearance)
                self._ground[:, drone] = ground[:, drone]
                if self._part_clearance[drone] <= sweep[drone]:
                    near.append(drone)
        self._solid_clearance -= interval.travel
        self._part_clearance -= sweep
        return near

    def _solid_clearances(self, drones: Tree, interval: _Interval) -> Array:
        """Return the clearance of drones' bounding spheres to every solid, (solids, drones) [m]."""
        p_W = Vec3(*interval.p_W[:, drones])
        return (
            np.stack([_min_distance(obstacle.solid, p_W) for obstacle in self.world.obstacles])
            - self._bounding_radii[drones]
        )

    def reachable_solids(self, drone: int, interval: _Interval) -> list[int]:
        """Return the solids that a drone could reach in a step, and after an impact."""
        if not self.world.obstacles:
            return []
        clearance = (
            interval.clearances[drone]
            if drone in interval.clearances
            else self._solid_clearances([drone], interval)[:, 0]
        )
        return [int(k) for k in np.flatnonzero(clearance <= MAX_PART_CHECK_DISTANCE + interval.travel[drone])]

    def _nearest_part(self, drone: int, solids: Iterable[int], interval: _Interval) -> float:
        """Return the minimum distance of any part from these solids [m]; feet that stand on one are excluded."""
        flock = self._groups_by_drone[drone]
        centre_W, axis_W = place_drone_parts(self.initial_body(drone, interval), flock.shapes)
        ground = flock.ground(self.column(drone))
        height = dot(centre_W - ground.point_W, ground.normal_W)
        min_distance = np.inf
        for index in solids:
            nearest = part_distances(self.world.obstacles[index].solid, centre_W, axis_W, flock.shapes)
            is_parallel = dot(nearest.normal_W, ground.normal_W) > SAME_DIRECTION
            is_standing = flock.is_foot & is_parallel & (np.abs(height - nearest.distance) < SAME_HEIGHT)
            min_distance = min(min_distance, float(nearest.distance[~is_standing].min()))
        return min_distance

    def _near_pairs(self, interval: _Interval) -> list[tuple[int, int]]:
        """Return the pairs of drones whose bounding spheres could have touched."""
        self._travel_since_listing += float(interval.travel.max())
        if self._pair_list is None or 2.0 * self._travel_since_listing > PAIR_LIST_SKIN:
            self._pair_list = close_pairs(interval.p_W, 2.0 * float(self._bounding_radii.max()) + PAIR_LIST_SKIN)
            self._travel_since_listing = float(interval.travel.max())
        i, j = self._pair_list.T
        separation = np.sqrt(((interval.p_W[:, i] - interval.p_W[:, j]) ** 2).sum(axis=0))
        is_near = (
            separation <= self._bounding_radii[i] + self._bounding_radii[j] + interval.travel[i] + interval.travel[j]
        )
        return [(int(a), int(b)) for a, b in self._pair_list[is_near]]

    def _may_collide(self, one: int, other: int, interval: _Interval) -> bool:
        """Whether a part of one drone could have touched the other's hull, or vice versa."""
        for drone, neighbour in ((one, other), (other, one)):
            flock, neighbour_flock = self._groups_by_drone[drone], self._groups_by_drone[neighbour]
            hull = hull_box(self.initial_body(neighbour, interval), neighbour_flock.parts)
            nearest = part_distances(
                hull, *place_drone_parts(self.initial_body(drone, interval), flock.shapes), flock.shapes
            )
            move = (
                interval.travel[drone]
                + interval.travel[neighbour]
                + interval.rotation[drone] * flock.part_radii
                + REPEAT_MARGIN
            )
            if (nearest.distance <= move + interval.rotation[neighbour] * neighbour_flock.bounding_radius).any():
                return True
        return False

    def initial_rows(self, drone: int, interval: _Interval) -> Array:
        """Return the state of one drone at the start of the interval."""
        return interval.initial_states[self._groups_by_drone[drone].index][:, self.column(drone)].copy()

    def initial_body(self, drone: int, interval: _Interval) -> State:
        """Return the rigid-body state of one drone at the start of the interval."""
        return rigid_body_state(self.initial_rows(drone, interval))

    def group(self, drone: int) -> _CollisionGroup:
        """Return the drones that share the plant of a drone."""
        return self._groups_by_drone[drone]


class _Resimulation:
    """Repeats the step of drones that could have collided, from impact to impact."""

    def __init__(self, collider: CollisionWorld, members: Sequence[int], interval: _Interval) -> None:
        self.collider, self.members = collider, members
        self.solids = {drone: collider.reachable_solids(drone, interval) for drone in members}
        self.rows = {drone: collider.initial_rows(drone, interval) for drone in members}
        self.collided: set[int] = set()

    def run(self, start_us: int, end_us: int) -> list[Collision]:
        """Repeat the physics steps of the interval; write the states of drones that collided, and leave the others."""
        collisions: list[Collision] = []
        time_us = start_us
        physics_us = self.collider.groups[0].plant.physics_us
        for dt_us, count in plant_steps(start_us, end_us, physics_us):
            for _ in range(count):
                collisions += self._step(time_us, dt_us / MICROSECONDS)
                time_us += dt_us
        for drone in self.collided:
            flock = self.collider.group(drone)
            flock.plant.state[:, self.collider.column(drone)] = self.rows[drone]
        return collisions

    def _step(self, now_us: int, remaining: float) -> list[Collision]:
        collisions: list[Collision] = []
        for _ in range(MAX_HITS):
            end_rows = {drone: self._integrate(drone, now_us, remaining) for drone in self.members}
            first_collision = self._first_collision(end_rows)
            if first_collision is None:
                self.rows = end_rows
                break
            drone, other, hit, index = first_collision
            number = self.collider.drone_numbers
            for part, speed in ((hit.part, hit.speed), *self._apply_hit(first_collision, end_rows)):
                collisions.append(
                    Collision(number[drone], part, index, number[other] if other >= 0 else -1, now_us, speed)
                )
            remaining *= 1.0 - hit.fraction
        return collisions

    def _integrate(self, drone: int, now_us: int, duration: float) -> Array:
        flock, column = self.collider.group(drone), self.collider.column(drone)
        plant = flock.single_plant
        plant.state[:, 0] = self.rows[drone]
        plant.command[:, 0] = flock.plant.command[:, column]
        plant.environment[:, 0] = flock.plant.environment[:, column]
        plant.integrate(now_us, duration)
        return plant.state[:, 0].copy()

    def _first_collision(self, end_rows: dict[int, Array]) -> tuple[int, int, Hit, int] | None:
        """Return the earliest collision: (drone, other drone or −1, hit, solid or −1)."""
        candidates: list[tuple[int, int, Hit, int]] = []
        for drone in self.members:
            flock, solid_indices = self.collider.group(drone), self.solids[drone]
            solids = [self.collider.world.obstacles[k].solid for k in solid_indices]
            ground = flock.ground(self.collider.column(drone))
            hit = first_hit(
                rigid_body_state(self.rows[drone]),
                rigid_body_state(end_rows[drone]),
                flock.plant.vehicle,
                flock.parts,
                solids,
                ground=ground,
            )
            if hit:
                candidates.append((drone, -1, hit, solid_indices[hit.solid]))
        for pair in combinations(self.members, 2) if self.collider.world.collisions else ():
            for one, other in (pair, pair[::-1]):
                hit = first_drone_hit(self._drone_step(one, end_rows), self._drone_step(other, end_rows))
                if hit:
                    candidates.append((one, other, hit, -1))
        return min(candidates, key=lambda candidate: candidate[2].fraction, default=None)

    def _drone_step(self, drone: int, end_rows: dict[int, Array]) -> DroneStep:
        flock = self.collider.group(drone)
        return DroneStep(
            rigid_body_state(self.rows[drone]), rigid_body_state(end_rows[drone]), flock.plant.vehicle, flock.parts
        )

    def _apply_hit(
        self, collision: tuple[int, int, Hit, int], end_rows: dict[int, Array]
    ) -> list[tuple[CollisionPart, float]]:
        """Move all drones to the time of the hit, and apply it to those involved; return the further impacts."""
        drone, other, hit, index = collision
        world, one = self.collider.world, self._drone_step(drone, end_rows)
        two = self._drone_step(other, end_rows) if other >= 0 else one
        further_impacts: list[tuple[CollisionPart, float]] = []
        self.rows = {member: _interpolate(self.rows[member], end_rows[member], hit.fraction) for member in self.members}
        if other >= 0:
            material = _effective_material(world.drone, hit.speed)
            state_one, state_two = bounce_drones(one, two, hit, material)
            self.rows[drone][:BODY_STATE_SIZE], self.rows[other][:BODY_STATE_SIZE] = (
                flatten(state_one),
                flatten(state_two),
            )
        else:
            solid, material = world.obstacles[index].solid, world.obstacles[index].material
            state = bounce(one.start, one.end, hit, one.vehicle, _effective_material(material, hit.speed))
            ground = self.collider.group(drone).ground(self.collider.column(drone))
            state, further_impacts = apply_further_impacts(state, one.vehicle, one.parts, solid, material, ground)
            self.rows[drone][:BODY_STATE_SIZE] = flatten(state)
        self.collided |= {drone} if other < 0 else {drone, other}
        return further_impacts


def _min_distance(solid: Solid, p_W: Vec3) -> Tree:
    return distance_lower_bound(solid, p_W) if isinstance(solid, HeightMap) else surface_touches(solid, p_W).distance


def rigid_body_state(rows: Array) -> State:
    """Return position, velocity, attitude and angular velocity of a drone, without rotor speeds and effects."""
    x = rows[:BODY_STATE_SIZE].tolist()
    return State(Vec3(*x[:3]), Vec3(*x[3:6]), Quat(*x[6:10]), Vec3(*x[10:13]))


def _interpolate(start_rows: Array, end_rows: Array, fraction: float) -> Array:
    rows = start_rows + fraction * (end_rows - start_rows)
    rows[:BODY_STATE_SIZE] = flatten(
        interpolate_body(rigid_body_state(start_rows), rigid_body_state(end_rows), fraction)
    )
    return rows


def _effective_material(material: Material, speed: float) -> Material:
    return material if speed > MIN_BOUNCE_SPEED else material._replace(restitution=0.0)


def _collision_sets(drones: Iterable[int], pairs: Sequence[tuple[int, int]]) -> Iterator[list[int]]:
    """Yield the sets of drones that must be repeated together: those connected by possible collisions."""
    sets_by_drone: dict[int, set[int]] = {drone: {drone} for drone in drones}
    for one, other in pairs:
        union = sets_by_drone.get(one, {one}) | sets_by_drone.get(other, {other})
        for drone in union:
            sets_by_drone[drone] = union
    yielded: set[int] = set()
    for drone in sorted(sets_by_drone):
        if drone not in yielded:
            yielded |= sets_by_drone[drone]
            yield sorted(sets_by_drone[drone])
