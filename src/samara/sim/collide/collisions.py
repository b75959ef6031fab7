"""Drones among solids and among each other: who could have touched something in a step flies it again, impact by impact.

The plants move everybody from one instant to the next. Then three sieves, each finer and dearer: how far a drone could have
come since it was last measured, the distances of its parts, and at last the flight itself, in physics steps, with `first_hit`.
Whoever stays in a sieve keeps the motion it has; with nothing near, a step costs a subtraction for all drones at once.
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

HARDEST = 50.0  # [m/s²]: what a drone's speed may gain within a step beyond its ends
NEAR = 2e-3  # [m]: parts that are nearer than they can move and this are flown again
VIEW = 0.3  # [m]: solids that are further from a drone's reach are not measured part by part
SKIN = 0.5  # [m]: pairs that are further apart are not looked at until somebody has moved half of it


class Strike(NamedTuple):
    """A touch: whose, of which part, with which solid or which other drone (the one not meant is −1), when, how fast."""

    drone: int
    part: Part
    solid: int
    other: int
    time_us: int
    speed: float

    @property
    def touches(self) -> dict[int, Touch]:
        """What it was to the drone whose part it was, and then to the other"""
        part = self.part.kind, self.part.number
        if self.other < 0:
            return {self.drone: Touch(*part, Against.SOLID, self.solid, self.speed)}
        return {
            self.drone: Touch(*part, Against.DRONE, self.other, self.speed),
            self.other: Touch(*part, Against.BY_DRONE, self.drone, self.speed),
        }


class _Flock:
    """The drones of one plant, and what of them can touch."""

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
        """A plant for one of them, to fly a step again."""
        if self._alone is None:
            self._alone = self.plant.single()
        return self._alone

    def ground(self, lane: int) -> Ground:
        """The plane under a drone."""
        x, y, z, *normal = self.plant.environment[self.ground_row : self.ground_row + 6, lane].tolist()
        return Ground(Vec3(x, y, z), Vec3(*normal))


class _Steps:
    """One interval of the plants: where all drones in a row were before it, and how far each could have come."""

    def __init__(self, flocks: Sequence[_Flock], before: Sequence[Array], dt: float) -> None:
        self.before = before
        first = np.concatenate([own[:BODY] for own in before], axis=1)
        last = np.concatenate([flock.plant.state[:BODY] for flock in flocks], axis=1)
        fastest = np.maximum(first * first, last * last)
        self.p_W = first[:3]
        self.travel = np.sqrt(fastest[3:6].sum(axis=0)) * dt + 0.5 * HARDEST * dt * dt + 1e-4
        self.turn = np.sqrt(fastest[10:13].sum(axis=0)) * dt
        self.rooms: dict[int, Array] = {}  # from drones that were looked at to every solid


class Colliding:
    """The world's solids and the drones of some plants; `drones` are their numbers, by which alone impacts are ordered."""

    def __init__(self, world: World, plants: "Sequence[Plant]", drones: Sequence[Sequence[int]]) -> None:
        self.world, self.plants, n = world, list(plants), 0
        self.flocks: list[_Flock] = []
        for number, plant in enumerate(plants):
            self.flocks.append(_Flock(plant, number, n))
            n += plant.n
        self.number = [int(own) for lanes in drones for own in lanes]
        self._flock_of = [flock for flock in self.flocks for _ in range(flock.plant.n)]
        self._reach = np.array([flock.reach for flock in self._flock_of])
        self._room = np.full(n, -np.inf)  # no solid was nearer than this to the reach of each, and is not yet
        self._gap = np.full(n, -np.inf)  # nor any to a part of it, standing on this ground
        self._ground = np.full((6, n), np.nan)
        self._listed: Array | None = None
        self._moved = 0.0

    def advance(self, start_us: int, end_us: int) -> list[Strike]:
        """Moves the plants from one instant to the next, and tells who struck what on the way"""
        before = [flock.plant.state.copy() for flock in self.flocks]
        for flock in self.flocks:
            flock.plant.advance(start_us, end_us)
        steps = _Steps(self.flocks, before, (end_us - start_us) / MICROSECONDS)
        near = self._near_solids(steps) if self.world.solids else []
        meeting = self._near_pairs(steps) if self.world.collisions else []
        strikes: list[Strike] = []
        for members in _together(near, [pair for pair in meeting if self._may_meet(*pair, steps)]):
            again = _Reflown(self, sorted(members, key=self.number.__getitem__), steps)
            strikes += again.fly(start_us, end_us)
            self._room[list(again.hit)] = self._gap[
                list(again.hit)
            ] = -np.inf  # it went another way than it was measured for
        return sorted(strikes, key=lambda own: (own.time_us, own.drone))

    def lane(self, drone: int) -> int:
        """Its place in its plant"""
        return drone - self._flock_of[drone].first

    # The sieves -------------------------------------------------------------------------------------------------------

    def _near_solids(self, steps: _Steps) -> list[int]:
        """Whose parts could have touched a solid."""
        sweep = steps.travel + steps.turn * self._reach + NEAR
        ground = np.concatenate([own.plant.environment[own.ground_row :][:6] for own in self.flocks], axis=1)
        known = (self._gap > sweep) & (ground == self._ground).all(axis=0)
        close = np.flatnonzero((self._room <= steps.travel) & ~known)
        near: list[int] = []
        if len(close):
            room = self._rooms(close, steps)
            self._room[close] = room.min(axis=0)
            for k in np.flatnonzero(self._room[close] <= steps.travel[close]):
                drone, about = int(close[k]), np.flatnonzero(room[:, k] <= VIEW).tolist()
                steps.rooms[drone] = room[:, k]
                beyond = room[room[:, k] > VIEW, k].min(initial=np.inf)
                self._gap[drone] = min(self._nearest(drone, about, steps), beyond)
                self._ground[:, drone] = ground[:, drone]
                if self._gap[drone] <= sweep[drone]:
                    near.append(drone)
        self._room -= steps.travel
        self._gap -= sweep
        return near

    def _rooms(self, drones: Tree, steps: _Steps) -> Array:
        """From the reach of some drones to every solid, (solids, drones)  [m]"""
        p_W = Vec3(*steps.p_W[:, drones])
        return np.stack([_at_least(own.solid, p_W) for own in self.world.solids]) - self._reach[drones]

    def about(self, drone: int, steps: _Steps) -> list[int]:
        """The solids a drone could come to in a step, and after an impact"""
        if not self.world.solids:
            return []
        room = steps.rooms[drone] if drone in steps.rooms else self._rooms([drone], steps)[:, 0]
        return [int(k) for k in np.flatnonzero(room <= VIEW + steps.travel[drone])]

    def _nearest(self, drone: int, solids: Iterable[int], steps: _Steps) -> float:
        """The least distance of any part from these solids; feet do not count where they stand  [m]"""
        flock = self._flock_of[drone]
        center_W, axis_W = placed(self.body_before(drone, steps), flock.shapes)
        ground = flock.ground(self.lane(drone))
        height = dot(center_W - ground.point_W, ground.normal_W)
        least = np.inf
        for index in solids:
            near = distances(self.world.solids[index].solid, center_W, axis_W, flock.shapes)
            flat = dot(near.normal_W, ground.normal_W) > SAME_DIRECTION
            stood = flock.feet & flat & (np.abs(height - near.distance) < SAME_HEIGHT)
            least = min(least, float(near.distance[~stood].min()))
        return least

    def _near_pairs(self, steps: _Steps) -> list[tuple[int, int]]:
        """The pairs whose reaches could have met."""
        self._moved += float(steps.travel.max())
        if self._listed is None or 2.0 * self._moved > SKIN:
            self._listed = pairs_within(steps.p_W, 2.0 * float(self._reach.max()) + SKIN)
            self._moved = float(steps.travel.max())
        i, j = self._listed.T
        apart = np.sqrt(((steps.p_W[:, i] - steps.p_W[:, j]) ** 2).sum(axis=0))
        near = apart <= self._reach[i] + self._reach[j] + steps.travel[i] + steps.travel[j]
        return [(int(a), int(b)) for a, b in self._listed[near]]

    def _may_meet(self, one: int, other: int, steps: _Steps) -> bool:
        """Whether a part of one was so near the other's hull that they could have touched, or the other way round."""
        for mine, theirs in ((one, other), (other, one)):
            flock, hulled = self._flock_of[mine], self._flock_of[theirs]
            hull = hull_of(self.body_before(theirs, steps), hulled.parts)
            near = distances(hull, *placed(self.body_before(mine, steps), flock.shapes), flock.shapes)
            move = steps.travel[mine] + steps.travel[theirs] + steps.turn[mine] * flock.arm + NEAR
            if (near.distance <= move + steps.turn[theirs] * hulled.reach).any():
                return True
        return False

    def rows_before(self, drone: int, steps: _Steps) -> Array:
        """The state of one drone when the step began"""
        return steps.before[self._flock_of[drone].number][:, self.lane(drone)].copy()

    def body_before(self, drone: int, steps: _Steps) -> State:
        """Its body then"""
        return body_of(self.rows_before(drone, steps))

    def flock(self, drone: int) -> _Flock:
        """Those it is computed with"""
        return self._flock_of[drone]


class _Reflown:
    """Some drones that could have touched: their step once more, from impact to impact."""

    def __init__(self, all_: Colliding, members: Sequence[int], steps: _Steps) -> None:
        self.all, self.members = all_, members
        self.solids = {drone: all_.about(drone, steps) for drone in members}
        self.rows = {drone: all_.rows_before(drone, steps) for drone in members}
        self.hit: set[int] = set()

    def fly(self, start_us: int, end_us: int) -> list[Strike]:
        """Through the physics steps of the interval; who was hit is put where it came to, and the others stay."""
        strikes: list[Strike] = []
        now = start_us
        physics_us = self.all.flocks[0].plant.physics_us
        for dt_us, count in plant_steps(start_us, end_us, physics_us):
            for _ in range(count):
                strikes += self._step(now, dt_us / MICROSECONDS)
                now += dt_us
        for drone in self.hit:
            flock = self.all.flock(drone)
            flock.plant.state[:, self.all.lane(drone)] = self.rows[drone]
        return strikes

    def _step(self, now_us: int, left: float) -> list[Strike]:
        strikes: list[Strike] = []
        for _ in range(MAX_HITS):
            after = {drone: self._flown(drone, now_us, left) for drone in self.members}
            found = self._first(after)
            if found is None:
                self.rows = after
                break
            drone, other, hit, index = found
            number = self.all.number
            for part, speed in ((hit.part, hit.speed), *self._bounce(found, after)):
                strikes.append(Strike(number[drone], part, index, number[other] if other >= 0 else -1, now_us, speed))
            left *= 1.0 - hit.share
        return strikes

    def _flown(self, drone: int, now_us: int, duration: float) -> Array:
        flock, lane = self.all.flock(drone), self.all.lane(drone)
        alone = flock.alone
        alone.state[:, 0] = self.rows[drone]
        alone.command[:, 0] = flock.plant.command[:, lane]
        alone.environment[:, 0] = flock.plant.environment[:, lane]
        alone.fly(now_us, duration)
        return alone.state[:, 0].copy()

    def _first(self, after: dict[int, Array]) -> tuple[int, int, Hit, int] | None:
        """(drone, other drone or −1, hit, solid or −1), the earliest."""
        found: list[tuple[int, int, Hit, int]] = []
        for drone in self.members:
            flock, own = self.all.flock(drone), self.solids[drone]
            solids = [self.all.world.solids[k].solid for k in own]
            ground = flock.ground(self.all.lane(drone))
            hit = first_hit(
                body_of(self.rows[drone]),
                body_of(after[drone]),
                flock.plant.vehicle,
                flock.parts,
                solids,
                ground=ground,
            )
            if hit:
                found.append((drone, -1, hit, own[hit.solid]))
        for pair in combinations(self.members, 2) if self.all.world.collisions else ():
            for one, other in (pair, pair[::-1]):
                hit = first_meeting(self._drone(one, after), self._drone(other, after))
                if hit:
                    found.append((one, other, hit, -1))
        return min(found, key=lambda own: own[2].share, default=None)

    def _drone(self, drone: int, after: dict[int, Array]) -> Drone:
        flock = self.all.flock(drone)
        return Drone(body_of(self.rows[drone]), body_of(after[drone]), flock.plant.vehicle, flock.parts)

    def _bounce(self, found: tuple[int, int, Hit, int], after: dict[int, Array]) -> list[tuple[Part, float]]:
        """Everybody to the moment of the hit, and those whom it concerns just after it; gives what else was hit then."""
        drone, other, hit, index = found
        world, one = self.all.world, self._drone(drone, after)
        two = self._drone(other, after) if other >= 0 else one
        more: list[tuple[Part, float]] = []
        self.rows = {own: _between(self.rows[own], after[own], hit.share) for own in self.members}
        if other >= 0:
            material = _at_speed(world.drone, hit.speed)
            mine, theirs = both_bounced(one, two, hit, material)
            self.rows[drone][:BODY], self.rows[other][:BODY] = flatten(mine), flatten(theirs)
        else:
            solid, material = world.solids[index].solid, world.solids[index].material
            state = bounced(one.before, one.after, hit, one.vehicle, _at_speed(material, hit.speed))
            ground = self.all.flock(drone).ground(self.all.lane(drone))
            state, more = after_further_impacts(state, one.vehicle, one.parts, solid, material, ground)
            self.rows[drone][:BODY] = flatten(state)
        self.hit |= {drone} if other < 0 else {drone, other}
        return more


def _at_least(solid: Solid, p_W: Vec3) -> Tree:
    return at_least(solid, p_W) if isinstance(solid, HeightMap) else touches(solid, p_W).distance


def body_of(rows: Array) -> State:
    """Position, velocity, attitude and rate of a drone, without what else its state holds"""
    x = rows[:BODY].tolist()
    return State(Vec3(*x[:3]), Vec3(*x[3:6]), Quat(*x[6:10]), Vec3(*x[10:13]))


def _between(before: Array, after: Array, share: float) -> Array:
    rows = before + share * (after - before)
    rows[:BODY] = flatten(between(body_of(before), body_of(after), share))
    return rows


def _at_speed(material: Material, speed: float) -> Material:
    return material if speed > MIN_BOUNCE_SPEED else material._replace(restitution=0.0)


def _together(alone: Iterable[int], pairs: Sequence[tuple[int, int]]) -> Iterator[list[int]]:
    """Drones that could have touched each other, over others too, are flown again together."""
    group: dict[int, set[int]] = {drone: {drone} for drone in alone}
    for one, other in pairs:
        joined = group.get(one, {one}) | group.get(other, {other})
        for drone in joined:
            group[drone] = joined
    seen: set[int] = set()
    for drone in sorted(group):
        if drone not in seen:
            seen |= group[drone]
            yield sorted(group[drone])
