"""Cameras and lidars of a group's drones: the rays of an image are the SIMD lanes of compiled code.

The functions are those of `samara.sensors.ray_sensors`, traced separately: ray directions and distance to the ground, nearest
of a set of solids, nearest drone, and the reading. Height maps are ray-marched by NumPy.
"""

from collections.abc import Sequence
from functools import lru_cache
from statistics import NormalDist
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from samara.compiler.compiled_step import CompiledStep, Machine
from samara.core.algebra import IDENTITY, ZERO, Quat, Vec3
from samara.core.quantity import Tree
from samara.core.random import normals
from samara.core.tree import flatten
from samara.core.types import Array
from samara.physics.ground.contact import Ground
from samara.physics.ground.solids import Box
from samara.physics.types import State
from samara.scenario.snapshot import VisionFault
from samara.sensors.camera import CameraModel
from samara.sensors.ray_sensors import NO_RETURN, Beam, RaySensor, beam_ray, drone_box
from samara.sensors.sensor import Mounting, Sensor
from samara.vehicles.shape import bounding_box
from samara.world.obstacles import NEVER, HeightMap, Ray, Solid
from samara.world.rays import first_hit_distance, ray_hit_distance

if TYPE_CHECKING:
    from samara.sim.fleet import Fleet
    from samara.sim.group import Group


SOLIDS_PER_FUNCTION = 16  # per compiled function, to bound its compile time
STATE_TEMPLATE = State(ZERO, ZERO, IDENTITY, ZERO)
RAY_TEMPLATE = Ray(ZERO, ZERO)


class DroneBoxes(NamedTuple):
    """All drones of a flight as boxes: positions (3, n), attitudes (4, n), and the corners of each in body axes (3, n)."""

    p_W: Array
    q_WB: Array
    lowest_B: Array
    highest_B: Array

    def nearby_drones(self, index: int, max_distance: float) -> list[int]:
        """Return the indices of other drones whose bounding sphere is within a distance [m]."""
        distance = np.linalg.norm(self.p_W - self.p_W[:, index : index + 1], axis=0)
        radius = np.linalg.norm(np.maximum(np.abs(self.lowest_B), np.abs(self.highest_B)), axis=0)
        return [k for k in np.flatnonzero(distance - radius <= max_distance).tolist() if k != index]

    def boxes(self, index: int, max_distance: float) -> list[Box]:
        """Return the boxes of those drones."""
        boxes = []
        for k in self.nearby_drones(index, max_distance):
            p_W, lowest_B, highest_B = (
                Vec3(*columns[:, k].tolist()) for columns in (self.p_W, self.lowest_B, self.highest_B)
            )
            boxes.append(drone_box(p_W, Quat(*self.q_WB[:, k].tolist()), lowest_B, highest_B))
        return boxes


def is_ray_sensor(sensor: Sensor) -> bool:
    """Whether a sensor is a camera or a lidar."""
    return isinstance(sensor.model, RaySensor)


class RayCaster:
    """Renders the images of all cameras and lidars of a flight."""

    def __init__(self) -> None:
        self._renderers: dict[tuple[int, str], ImageRenderer] = {}
        self._corners: tuple[Array, Array] | None = None  # lower and upper corners of all drones' boxes, in body axes
        self._drone_boxes: tuple[int, DroneBoxes] | None = None  # time [µs], and the drones' boxes at that time

    def cast(self, fleet: "Fleet", group: "Group", column: int, sensor: Sensor, ray_normals: Array) -> Array:
        """Cast the rays of one drone's sensor against the ground, solids and other drones; blind rays have no return."""
        ray_sensor: RaySensor = sensor.model
        key = id(sensor), sensor.name
        if key not in self._renderers:
            self._renderers[key] = ImageRenderer(ray_sensor)
        index = group.drones[column]
        boxes = []
        if not fleet.separate_flights and len(fleet.scenario.drones) > 1:
            boxes = self._all_drones(fleet).boxes(index, float(ray_sensor.part.max_range) + 1.0)
        plane = group.rows("environment.ground")[:, column]
        values = self._renderers[key].render(group.slots["state"][:13, column], plane, boxes, ray_normals)
        faults = [fault for fault in fleet.setting.drones[index].faults.vision if fault.sensor == sensor.type_name]
        for fault in faults:
            source, number = f"dead {sensor.name}", int(group.drone_numbers[column])
            values[blind_rays(ray_sensor, fault, group.seeds[column], source, number)] = NO_RETURN
        return values.copy()

    def _all_drones(self, fleet: "Fleet") -> DroneBoxes:
        if self._corners is None:
            corners = [bounding_box(drone.vehicle) for drone in fleet.scenario.drones]
            self._corners = np.array([low for low, _ in corners]).T, np.array([high for _, high in corners]).T
        if self._drone_boxes is None or self._drone_boxes[0] != fleet.time_us:
            self._drone_boxes = fleet.time_us, DroneBoxes(fleet.p_W, fleet.q_WB, *self._corners)
        return self._drone_boxes[1]


def blind_rays(ray_sensor: RaySensor | CameraModel, fault: VisionFault, seed: int, source: str, drone: int) -> Array:
    """Mark the blind rays of a sensor: the leftmost fraction of its columns, or random rays that stay the same in flight."""
    if fault.mode == "dead":
        threshold = NormalDist().inv_cdf(min(max(fault.fraction, 1e-12), 1.0 - 1e-12))
        return normals(seed, source, drone, 0, ray_sensor.ray_count) < threshold
    rows, columns = ray_sensor.part.shape
    index_from_left = (
        np.arange(columns) if ray_sensor.is_camera else np.arange(columns)[::-1]
    )  # a lidar's columns go from right to left
    return np.tile(index_from_left < round(fault.fraction * columns), rows)


class ImageRenderer:
    """Renders the images of one sensor: the compiled functions and their arrays."""

    def __init__(self, ray_sensor: RaySensor) -> None:
        self.ray_sensor, rays = ray_sensor, ray_sensor.ray_count
        self._terrain = ray_sensor.scene.ground if isinstance(ray_sensor.scene.ground, HeightMap) else None
        self._ground = ray_sensor.scene.ground if isinstance(ray_sensor.scene.ground, Ground) else None
        self._emitter = _emitter_code(ray_sensor.mounting, _is_rolling(ray_sensor)).machine(rays)
        beams = flatten(ray_sensor.beams)
        for row, leaf in zip(self._emitter.held_inputs[-len(beams) :], beams, strict=True):
            row[:] = leaf
        solids = [solid for solid in ray_sensor.scene.solids if not isinstance(solid, HeightMap)]
        self._maps = [solid for solid in ray_sensor.scene.solids if isinstance(solid, HeightMap)]
        self._solids = [
            _solid_hit_code(tuple(solids[k : k + SOLIDS_PER_FUNCTION])).machine(rays)
            for k in range(0, len(solids), SOLIDS_PER_FUNCTION)
        ]
        self._drone_hit: Machine | None = None
        self._readout = _readout_code(ray_sensor.part, ray_sensor.normals_per_ray).machine(rays)
        self._readout.held_inputs[1:4] = np.stack(beams[:3])

    def render(self, motion: Array, plane: Array, boxes: Sequence[Box], ray_normals: Array) -> Array:
        """Render an image at a motion (13) above a plane (6), among other drones, with normals (rays × draws)."""
        emitter, readout = self._emitter, self._readout
        emitter.held_inputs[:13] = motion[:, None]
        emitter.held_inputs[13:19] = (plane if self._ground is None else np.array(flatten(self._ground)))[:, None]
        emitter.run()
        rays, nearest = emitter.carry[:6], emitter.carry[6]
        for terrain in (*((self._terrain,) if self._terrain else ()), *self._maps):
            if terrain is self._terrain:
                nearest[:] = NEVER
            ray = Ray(Vec3(*rays[:3]), Vec3(*rays[3:]))
            nearest[:] = ray_hit_distance(ray, terrain, nearest)
        for machine in self._solids:
            machine.held_inputs[:], machine.carry[0] = rays, nearest
            machine.run()
            nearest = machine.carry[0]
        if boxes:
            self._drone_hit = self._drone_hit or _drone_hit_code().machine(self.ray_sensor.ray_count)
            self._drone_hit.held_inputs[:6], self._drone_hit.carry[0] = rays, nearest
            for box in boxes:
                self._drone_hit.held_inputs[6:] = np.array(flatten(box))[:, None]
                self._drone_hit.run()
            nearest = self._drone_hit.carry[0]
        readout.held_inputs[0], readout.held_inputs[4:] = (
            nearest,
            ray_normals.reshape(-1, self.ray_sensor.normals_per_ray).T,
        )
        readout.run()
        return readout.carry[0]


def _is_rolling(ray_sensor: RaySensor) -> bool:
    """Whether the rays are emitted one after the other."""
    return bool(np.any(ray_sensor.beams.age))


@lru_cache(maxsize=64)
def _emitter_code(mounting: Mounting, rolling: bool) -> CompiledStep:
    """(ray, nearest) from (motion, ground, beam)."""

    def body(carry: Tree, inputs: Tree) -> Tree:
        state, ground, beam = inputs
        ray = beam_ray(state, mounting, beam if rolling else Beam(beam.direction_S))
        return ray, first_hit_distance(ray, (ground,))

    return CompiledStep(body, (RAY_TEMPLATE, 0.0), (STATE_TEMPLATE, Ground(), Beam(ZERO)))


@lru_cache(maxsize=64)
def _solid_hit_code(solids: tuple[Solid, ...]) -> CompiledStep:
    """nearest from the ray; the solids are compiled in."""
    return CompiledStep(lambda carry, ray: (first_hit_distance(ray, solids, carry[0]),), (0.0,), RAY_TEMPLATE)


@lru_cache(maxsize=1)
def _drone_hit_code() -> CompiledStep:
    """nearest from (ray, box)."""
    box = Box(ZERO, Vec3(1.0, 1.0, 1.0))
    return CompiledStep(
        lambda carry, inputs: (ray_hit_distance(inputs[0], inputs[1], carry[0]),), (0.0,), (RAY_TEMPLATE, box)
    )


@lru_cache(maxsize=64)
def _readout_code(part: Tree, draws: int) -> CompiledStep:
    """reading from (distance, direction, normals)."""

    def body(carry: Tree, inputs: Tree) -> Tree:
        distance, direction_S, ray_normals = inputs
        return (part.reading(distance, Beam(direction_S), ray_normals),)

    return CompiledStep(body, (0.0,), (0.0, ZERO, (0.0,) * draws))
