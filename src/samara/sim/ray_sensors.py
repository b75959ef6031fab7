"""A camera or a lidar on the drones of a group: the rays of a picture in the lanes of compiled code.

The functions are those of `samara.sensors.eyes`, one traced for each question: where the rays go and how far the ground is
along them, which of some solids is nearer, whether another drone is, and what is told of it. A height map is marched along by
NumPy.
"""

from collections.abc import Sequence
from functools import lru_cache
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from samara.backends.machine import CompiledStep, Machine
from samara.core.algebra import IDENTITY, ZERO, Quat, Vec3
from samara.core.random import normals
from samara.core.tree import flatten
from samara.physics.ground.contact import Ground
from samara.physics.ground.solids import Box
from samara.physics.types import State
from samara.scenario.bus import Blindness
from samara.sensors.eyes import NO_RETURN, Beam, Eye, drone_box, ray_sent
from samara.sensors.sensor import Mounting, Sensor
from samara.vehicles.shape import corners_of
from samara.world.obstacles import NEVER, HeightMap, Ray, Solid
from samara.world.rays import first_hit, hit

if TYPE_CHECKING:
    from samara.sim.fleet import Fleet
    from samara.sim.group import Group

Array = np.ndarray[Any, Any]

SOLIDS = 16  # in one code: what is compiled takes its time
MOVING = State(ZERO, ZERO, IDENTITY, ZERO)
RAY = Ray(ZERO, ZERO)


class Others(NamedTuple):
    """All drones of a flight as boxes: positions (3, n), attitudes (4, n), and the corners of each in its own axes (3, n)."""

    p_W: Array
    q_WB: Array
    lowest_B: Array
    highest_B: Array

    def near(self, number: int, within: float) -> list[int]:
        """Which of them, without one's own, any part of is within a distance  [m]"""
        away = np.linalg.norm(self.p_W - self.p_W[:, number : number + 1], axis=0)
        reach = np.linalg.norm(np.maximum(np.abs(self.lowest_B), np.abs(self.highest_B)), axis=0)
        return [k for k in np.flatnonzero(away - reach <= within).tolist() if k != number]

    def boxes(self, number: int, within: float) -> list[Box]:
        """Those as boxes"""
        found = []
        for k in self.near(number, within):
            p_W, lowest_B, highest_B = (Vec3(*own[:, k].tolist()) for own in (self.p_W, self.lowest_B, self.highest_B))
            found.append(drone_box(p_W, Quat(*self.q_WB[:, k].tolist()), lowest_B, highest_B))
        return found


def is_ray_sensor(sensor: Sensor) -> bool:
    """Whether a sensor is a camera or a lidar"""
    return isinstance(sensor.about, Eye)


class RayCaster:
    """Takes the pictures of all cameras and lidars of a flight."""

    def __init__(self) -> None:
        self._pictures: dict[tuple[int, str], Picture] = {}
        self._corners: tuple[Array, Array] | None = None  # of all drones
        self._others: tuple[int, Others] | None = None  # as they were at a time  [µs]

    def cast(self, fleet: "Fleet", group: "Group", lane: int, sensor: Sensor, drawn: Array) -> Array:
        """What the rays of one drone's sensor meet: the ground, solids, other drones; blinded rays meet nothing"""
        eye: Eye = sensor.about
        key = id(sensor), sensor.name
        if key not in self._pictures:
            self._pictures[key] = Picture(eye)
        index = group.drones[lane]
        boxes = []
        if not fleet.apart and len(fleet.scenario.drones) > 1:
            boxes = self._all_drones(fleet).boxes(index, float(eye.part.farthest) + 1.0)
        plane = group.rows("environment.ground")[:, lane]
        values = self._pictures[key].taken(group.slots["state"][:13, lane], plane, boxes, drawn)
        faults = [fault for fault in fleet.setting.drones[index].faults.eyes if fault.sensor == sensor.kind]
        for fault in faults:
            source, number = f"dead {sensor.name}", int(group.numbers[lane])
            values[blind_rays(eye, fault, group.seeds[lane], source, number)] = NO_RETURN
        return values.copy()

    def _all_drones(self, fleet: "Fleet") -> "Others":
        if self._corners is None:
            corners = [corners_of(own.vehicle) for own in fleet.scenario.drones]
            self._corners = np.array([low for low, _ in corners]).T, np.array([high for _, high in corners]).T
        if self._others is None or self._others[0] != fleet.time_us:
            self._others = fleet.time_us, Others(fleet.p_W, fleet.q_WB, *self._corners)
        return self._others[1]


def blind_rays(eye: Eye, fault: Blindness, seed: int, source: str, drone: int) -> Array:
    """Which rays of an eye see nothing: the columns left of a share of the picture, or the same few as long as it flies"""
    if fault.how == "dead":
        below = NormalDist().inv_cdf(min(max(fault.share, 1e-12), 1.0 - 1e-12))
        return normals(seed, source, drone, 0, eye.rays) < below
    rows, columns = eye.part.shape
    from_left = np.arange(columns) if eye.is_camera else np.arange(columns)[::-1]  # a lidar's go from right to left
    return np.tile(from_left < round(fault.share * columns), rows)


class Picture:
    """The machines that take one picture after the other, and their memory."""

    def __init__(self, eye: Eye) -> None:
        self.eye, rays = eye, eye.rays
        self._terrain = eye.among.ground if isinstance(eye.among.ground, HeightMap) else None
        self._ground = eye.among.ground if isinstance(eye.among.ground, Ground) else None
        self._sent = _sent_code(eye.mounting, _is_rolling(eye)).machine(rays)
        beams = flatten(eye.beams)
        for row, leaf in zip(self._sent.held[-len(beams) :], beams, strict=True):
            row[:] = leaf
        fixed = [own for own in eye.among.solids if not isinstance(own, HeightMap)]
        self._maps = [own for own in eye.among.solids if isinstance(own, HeightMap)]
        self._solids = [_nearer_code(tuple(fixed[k : k + SOLIDS])).machine(rays) for k in range(0, len(fixed), SOLIDS)]
        self._other: Machine | None = None
        self._told = _told_code(eye.part, eye.draws).machine(rays)
        self._told.held[1:4] = np.stack(beams[:3])

    def taken(self, motion: Array, plane: Array, boxes: Sequence[Box], drawn: Array) -> Array:
        """What all rays say of a motion (13) above a plane (6), among other drones, with normals (rays × draws)"""
        sent, told = self._sent, self._told
        sent.held[:13] = motion[:, None]
        sent.held[13:19] = (plane if self._ground is None else np.array(flatten(self._ground)))[:, None]
        sent.run()
        rays, nearest = sent.carry[:6], sent.carry[6]
        for terrain in (*((self._terrain,) if self._terrain else ()), *self._maps):
            if terrain is self._terrain:
                nearest[:] = NEVER
            ray = Ray(Vec3(*rays[:3]), Vec3(*rays[3:]))
            nearest[:] = hit(ray, terrain, nearest)
        for machine in self._solids:
            machine.held[:], machine.carry[0] = rays, nearest
            machine.run()
            nearest = machine.carry[0]
        if boxes:
            self._other = self._other or _other_code().machine(self.eye.rays)
            self._other.held[:6], self._other.carry[0] = rays, nearest
            for box in boxes:
                self._other.held[6:] = np.array(flatten(box))[:, None]
                self._other.run()
            nearest = self._other.carry[0]
        told.held[0], told.held[4:] = nearest, drawn.reshape(-1, self.eye.draws).T
        told.run()
        return told.carry[0]


def _is_rolling(eye: Eye) -> bool:
    """Whether its rays are sent one after the other"""
    return bool(np.any(eye.beams.age))


@lru_cache(maxsize=64)
def _sent_code(mounting: Mounting, rolling: bool) -> CompiledStep:
    """(ray, nearest) from (motion, ground, beam)"""

    def body(own: Any, held: Any) -> Any:
        state, ground, beam = held
        ray = ray_sent(state, mounting, beam if rolling else Beam(beam.direction_S))
        return ray, first_hit(ray, (ground,))

    return CompiledStep(body, (RAY, 0.0), (MOVING, Ground(), Beam(ZERO)))


@lru_cache(maxsize=64)
def _nearer_code(solids: tuple[Solid, ...]) -> CompiledStep:
    """nearest from the ray: the solids are part of the code"""
    return CompiledStep(lambda own, ray: (first_hit(ray, solids, own[0]),), (0.0,), RAY)


@lru_cache(maxsize=1)
def _other_code() -> CompiledStep:
    """nearest from (ray, box)"""
    box = Box(ZERO, Vec3(1.0, 1.0, 1.0))
    return CompiledStep(lambda own, held: (hit(held[0], held[1], own[0]),), (0.0,), (RAY, box))


@lru_cache(maxsize=64)
def _told_code(part: Any, draws: int) -> CompiledStep:
    """What is told from (distance, direction, normals)"""

    def body(own: Any, held: Any) -> Any:
        distance, direction_S, drawn = held
        return (part.told(distance, Beam(direction_S), drawn),)

    return CompiledStep(body, (0.0,), (0.0, ZERO, (0.0,) * draws))
