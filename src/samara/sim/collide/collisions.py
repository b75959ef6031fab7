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
from samara.physics.types import BODY, State
from samara.scenario.flight_events import Against, Touch
from samara.scenario.timeline import MICROSECONDS, plant_steps
from samara.scenario.world import World
from samara.sim.collide.clearance import distances, pairs_within, shapes_of, touches
from samara.sim.collide.impacts import (
    Drone,
    Hit,
    after_further_impacts,
    both_bounced,
    bounced,
    first_hit,
    first_meeting,
    placed,
)
from samara.sim.collide.parts import Part, hull_of, parts_of
from samara.world.collision import MAX_HITS, MIN_BOUNCE_SPEED, SAME_DIRECTION, SAME_HEIGHT, between
from samara.world.obstacles import HeightMap, Solid, at_least

if TYPE_CHECKING:
    from samara.sim.plant import Plant

HARDEST = 50.0  # [m/s²]: bound on the speed a drone may gain within a step beyond that at its ends
NEAR = 2e-3  # [m]: margin beyond the distance a part can move, within which the step is repeated
VIEW = 0.3  # [m]: solids further from a drone's bounding sphere are not measured part by part
SKIN = 0.5  # [m]: pairs further apart are not listed again until a drone has moved half of this


class Strike(NamedTuple):
    """A collision: drone, part, index of the solid or of the other drone (the unused one is −1), time, speed [m/s]."""

    drone: int
    part: Part
    solid: int
    other: int
    time_us: int
    speed: float

    @property
    def touches(self) -> dict[int, Touch]:
        """The occurrence for the drone whose part collided, then for the other drone."""
        part = self.part.kind, self.part.number
        if self.other < 0:
            return {self.drone: Touch(*part, Against.SOLID, self.solid, self.speed)}
        return {
            self.drone: Touch(*part, Against.DRONE, self.other, self.speed),
            self.other: Touch(*part, Against.BY_DRONE, self.drone, self.speed),
        }


class _CollisionGroup:
    """The drones of one plant, and the geometry of their parts."""

    def __init__(self, plant: "Plant", number: int, first: int) -> None:
        self.plant, self.number, self.first = plant, number, first
        self.parts = parts_of(plant.vehicle)
        self.shapes = shapes_of(self.parts)
        self.arm = norm(self.shapes.center_B) + self.shapes.disc + self.shapes.ball
        self.feet = np.array([part.foot for part in self.parts])
        self.reach = float(self.arm.max())
        self.ground_row = plant.row("ground.point_W.x")
        self._alone: Plant | None = None

    @property
    def alone(self) -> "Plant":
        """A plant for one of the drones, to repeat a step."""
        if self._alone is None:
            self._alone = self.plant.single()
        return self._alone

    def ground(self, column: int) -> Ground:
        """Return the ground plane under a drone."""
        x, y, z, *normal = self.plant.environment[self.ground_row : self.ground_row + 6, column].tolist()
        return Ground(Vec3(x, y, z), Vec3(*normal))


class _Interval:
    """One interval of the plants: the initial states of all drones, and bounds on their travel and rotation."""

    def __init__(self, flocks: Sequence[_CollisionGroup], initial_states: Sequence[Array], dt: float) -> None:
        self.before = initial_states
        start_rows = np.concatenate([state[:BODY] for state in initial_states], axis=1)
        end_rows = np.concatenate([flock.plant.state[:BODY] for flock in flocks], axis=1)
        max_squares = np.maximum(start_rows * start_rows, end_rows * end_rows)
        self.p_W = start_rows[:3]
        self.travel = np.sqrt(max_squares[3:6].sum(axis=0)) * dt + 0.5 * HARDEST * dt * dt + 1e-4
        self.turn = np.sqrt(max_squares[10:13].sum(axis=0)) * dt
        self.rooms: dict[int, Array] = {}  # by drone: clearance to every solid, if measured


class Colliding:
    """The world's solids and the drones of several plants; impacts are ordered by the drones' numbers only."""

    def __init__(self, world: World, plants: "Sequence[Plant]", drones: Sequence[Sequence[int]]) -> None:
        self.world, self.plants, n = world, list(plants), 0
        self.flocks: list[_CollisionGroup] = []
        for plant_index, plant in enumerate(plants):
            self.flocks.append(_CollisionGroup(plant, plant_index, n))
            n += plant.n
        self.number = [int(drone) for members in drones for drone in members]
        self._flock_of = [flock for flock in self.flocks for _ in range(flock.plant.n)]
        self._reach = np.array([flock.reach for flock in self._flock_of])
        self._room = np.full(n, -np.inf)  # lower bound on the clearance of each drone's bounding sphere to all solids
        self._gap = np.full(n, -np.inf)  # lower bound on the clearance of its parts, standing on this ground
        self._ground = np.full((6, n), np.nan)
        self._listed: Array | None = None
        self._moved = 0.0

    def advance(self, start_us: int, end_us: int) -> list[Strike]:
        """Integrate the plants from one instant to the next; return the collisions in between."""
        initial_states = [flock.plant.state.copy() for flock in self.flocks]
        for flock in self.flocks:
            flock.plant.advance(start_us, end_us)
        interval = _Interval(self.flocks, initial_states, (end_us - start_us) / MICROSECONDS)
        near_solids = self._near_solids(interval) if self.world.solids else []
        near_pairs = self._near_pairs(interval) if self.world.collisions else []
        collisions: list[Strike] = []
        for members in _together(near_solids, [pair for pair in near_pairs if self._may_meet(*pair, interval)]):
            resimulation = _Resimulation(self, sorted(members, key=self.number.__getitem__), interval)
            collisions += resimulation.fly(start_us, end_us)
            self._room[list(resimulation.hit)] = self._gap[
                list(resimulation.hit)
            ] = -np.inf  # its path differs from the measured one
        return sorted(collisions, key=lambda collision: (collision.time_us, collision.drone))

    def lane(self, drone: int) -> int:
        """Return the column of a drone in its plant."""
        return drone - self._flock_of[drone].first

    # Filters ----------------------------------------------------------------------------------------------------------

    def _near_solids(self, interval: _Interval) -> list[int]:
        """Return the drones whose parts could have touched a solid."""
        sweep = interval.travel + interval.turn * self._reach + NEAR
        ground = np.concatenate([flock.plant.environment[flock.ground_row :][:6] for flock in self.flocks], axis=1)
        is_clear = (self._gap > sweep) & (ground == self._ground).all(axis=0)
        candidates = np.flatnonzero((self._room <= interval.travel) & ~is_clear)
        near: list[int] = []
        if len(candidates):
            clearance = self._rooms(candidates, interval)
            self._room[candidates] = clearance.min(axis=0)
            for k in np.flatnonzero(self._room[candidates] <= interval.travel[candidates]):
                drone, solids = int(candidates[k]), np.flatnonzero(clearance[:, k] <= VIEW).tolist()
                interval.rooms[drone] = clearance[:, k]
                further_clearance = clearance[clearance[:, k] > VIEW, k].min(initial=np.inf)
                self._gap[drone] = min(self._nearest(drone, solids, interval), further_clearance)
                self._ground[:, drone] = ground[:, drone]
                if self._gap[drone] <= sweep[drone]:
                    near.append(drone)
        self._room -= interval.travel
        self._gap -= sweep
        return near

    def _rooms(self, drones: Tree, interval: _Interval) -> Array:
        """Return the clearance of drones' bounding spheres to every solid, (solids, drones) [m]."""
        p_W = Vec3(*interval.p_W[:, drones])
        return np.stack([_min_distance(obstacle.solid, p_W) for obstacle in self.world.solids]) - self._reach[drones]

    def about(self, drone: int, interval: _Interval) -> list[int]:
        """Return the solids that a drone could reach in a step, and after an impact."""
        if not self.world.solids:
            return []
        clearance = interval.rooms[drone] if drone in interval.rooms else self._rooms([drone], interval)[:, 0]
        return [int(k) for k in np.flatnonzero(clearance <= VIEW + interval.travel[drone])]

    def _nearest(self, drone: int, solids: Iterable[int], interval: _Interval) -> float:
        """Return the minimum distance of any part from these solids [m]; feet that stand on one are excluded."""
        flock = self._flock_of[drone]
        center_W, axis_W = placed(self.body_before(drone, interval), flock.shapes)
        ground = flock.ground(self.lane(drone))
        height = dot(center_W - ground.point_W, ground.normal_W)
        min_distance = np.inf
        for index in solids:
            nearest = distances(self.world.solids[index].solid, center_W, axis_W, flock.shapes)
            is_parallel = dot(nearest.normal_W, ground.normal_W) > SAME_DIRECTION
            is_standing = flock.feet & is_parallel & (np.abs(height - nearest.distance) < SAME_HEIGHT)
            min_distance = min(min_distance, float(nearest.distance[~is_standing].min()))
        return min_distance

    def _near_pairs(self, interval: _Interval) -> list[tuple[int, int]]:
        """Return the pairs of drones whose bounding spheres could have touched."""
        self._moved += float(interval.travel.max())
        if self._listed is None or 2.0 * self._moved > SKIN:
            self._listed = pairs_within(interval.p_W, 2.0 * float(self._reach.max()) + SKIN)
            self._moved = float(interval.travel.max())
        i, j = self._listed.T
        separation = np.sqrt(((interval.p_W[:, i] - interval.p_W[:, j]) ** 2).sum(axis=0))
        is_near = separation <= self._reach[i] + self._reach[j] + interval.travel[i] + interval.travel[j]
        return [(int(a), int(b)) for a, b in self._listed[is_near]]

    def _may_meet(self, one: int, other: int, interval: _Interval) -> bool:
        """Whether a part of one drone could have touched the other's hull, or vice versa."""
        for drone, neighbour in ((one, other), (other, one)):
            flock, neighbour_flock = self._flock_of[drone], self._flock_of[neighbour]
            hull = hull_of(self.body_before(neighbour, interval), neighbour_flock.parts)
            nearest = distances(hull, *placed(self.body_before(drone, interval), flock.shapes), flock.shapes)
            move = interval.travel[drone] + interval.travel[neighbour] + interval.turn[drone] * flock.arm + NEAR
            if (nearest.distance <= move + interval.turn[neighbour] * neighbour_flock.reach).any():
                return True
        return False

    def rows_before(self, drone: int, interval: _Interval) -> Array:
        """Return the state of one drone at the start of the interval."""
        return interval.before[self._flock_of[drone].number][:, self.lane(drone)].copy()

    def body_before(self, drone: int, interval: _Interval) -> State:
        """Return the rigid-body state of one drone at the start of the interval."""
        return body_of(self.rows_before(drone, interval))

    def flock(self, drone: int) -> _CollisionGroup:
        """Return the drones that share the plant of a drone."""
        return self._flock_of[drone]


class _Resimulation:
    """Repeats the step of drones that could have collided, from impact to impact."""

    def __init__(self, collider: Colliding, members: Sequence[int], interval: _Interval) -> None:
        self.all, self.members = collider, members
        self.solids = {drone: collider.about(drone, interval) for drone in members}
        self.rows = {drone: collider.rows_before(drone, interval) for drone in members}
        self.hit: set[int] = set()

    def fly(self, start_us: int, end_us: int) -> list[Strike]:
        """Repeat the physics steps of the interval; write the states of drones that collided, and leave the others."""
        collisions: list[Strike] = []
        time_us = start_us
        physics_us = self.all.flocks[0].plant.physics_us
        for dt_us, count in plant_steps(start_us, end_us, physics_us):
            for _ in range(count):
                collisions += self._step(time_us, dt_us / MICROSECONDS)
                time_us += dt_us
        for drone in self.hit:
            flock = self.all.flock(drone)
            flock.plant.state[:, self.all.lane(drone)] = self.rows[drone]
        return collisions

    def _step(self, now_us: int, remaining: float) -> list[Strike]:
        collisions: list[Strike] = []
        for _ in range(MAX_HITS):
            end_rows = {drone: self._flown(drone, now_us, remaining) for drone in self.members}
            first_collision = self._first(end_rows)
            if first_collision is None:
                self.rows = end_rows
                break
            drone, other, hit, index = first_collision
            number = self.all.number
            for part, speed in ((hit.part, hit.speed), *self._bounce(first_collision, end_rows)):
                collisions.append(
                    Strike(number[drone], part, index, number[other] if other >= 0 else -1, now_us, speed)
                )
            remaining *= 1.0 - hit.share
        return collisions

    def _flown(self, drone: int, now_us: int, duration: float) -> Array:
        flock, column = self.all.flock(drone), self.all.lane(drone)
        plant = flock.alone
        plant.state[:, 0] = self.rows[drone]
        plant.command[:, 0] = flock.plant.command[:, column]
        plant.environment[:, 0] = flock.plant.environment[:, column]
        plant.fly(now_us, duration)
        return plant.state[:, 0].copy()

    def _first(self, end_rows: dict[int, Array]) -> tuple[int, int, Hit, int] | None:
        """Return the earliest collision: (drone, other drone or −1, hit, solid or −1)."""
        candidates: list[tuple[int, int, Hit, int]] = []
        for drone in self.members:
            flock, solid_indices = self.all.flock(drone), self.solids[drone]
            solids = [self.all.world.solids[k].solid for k in solid_indices]
            ground = flock.ground(self.all.lane(drone))
            hit = first_hit(
                body_of(self.rows[drone]),
                body_of(end_rows[drone]),
                flock.plant.vehicle,
                flock.parts,
                solids,
                ground=ground,
            )
            if hit:
                candidates.append((drone, -1, hit, solid_indices[hit.solid]))
        for pair in combinations(self.members, 2) if self.all.world.collisions else ():
            for one, other in (pair, pair[::-1]):
                hit = first_meeting(self._drone(one, end_rows), self._drone(other, end_rows))
                if hit:
                    candidates.append((one, other, hit, -1))
        return min(candidates, key=lambda candidate: candidate[2].share, default=None)

    def _drone(self, drone: int, end_rows: dict[int, Array]) -> Drone:
        flock = self.all.flock(drone)
        return Drone(body_of(self.rows[drone]), body_of(end_rows[drone]), flock.plant.vehicle, flock.parts)

    def _bounce(self, collision: tuple[int, int, Hit, int], end_rows: dict[int, Array]) -> list[tuple[Part, float]]:
        """Move all drones to the time of the hit, and apply it to those involved; return the further impacts."""
        drone, other, hit, index = collision
        world, one = self.all.world, self._drone(drone, end_rows)
        two = self._drone(other, end_rows) if other >= 0 else one
        further_impacts: list[tuple[Part, float]] = []
        self.rows = {member: _between(self.rows[member], end_rows[member], hit.share) for member in self.members}
        if other >= 0:
            material = _effective_material(world.drone, hit.speed)
            state_one, state_two = both_bounced(one, two, hit, material)
            self.rows[drone][:BODY], self.rows[other][:BODY] = flatten(state_one), flatten(state_two)
        else:
            solid, material = world.solids[index].solid, world.solids[index].material
            state = bounced(one.before, one.after, hit, one.vehicle, _effective_material(material, hit.speed))
            ground = self.all.flock(drone).ground(self.all.lane(drone))
            state, further_impacts = after_further_impacts(state, one.vehicle, one.parts, solid, material, ground)
            self.rows[drone][:BODY] = flatten(state)
        self.hit |= {drone} if other < 0 else {drone, other}
        return further_impacts


def _min_distance(solid: Solid, p_W: Vec3) -> Tree:
    return at_least(solid, p_W) if isinstance(solid, HeightMap) else touches(solid, p_W).distance


def body_of(rows: Array) -> State:
    """Return position, velocity, attitude and angular velocity of a drone, without rotor speeds and effects."""
    x = rows[:BODY].tolist()
    return State(Vec3(*x[:3]), Vec3(*x[3:6]), Quat(*x[6:10]), Vec3(*x[10:13]))


def _between(start_rows: Array, end_rows: Array, fraction: float) -> Array:
    rows = start_rows + fraction * (end_rows - start_rows)
    rows[:BODY] = flatten(between(body_of(start_rows), body_of(end_rows), fraction))
    return rows


def _effective_material(material: Material, speed: float) -> Material:
    return material if speed > MIN_BOUNCE_SPEED else material._replace(restitution=0.0)


def _together(drones: Iterable[int], pairs: Sequence[tuple[int, int]]) -> Iterator[list[int]]:
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
