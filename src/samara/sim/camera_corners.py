"""The corners of gates in the images of cameras, compiled: all corners and all surfaces of one shape at once."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from samara.compiler.compiled_step import CompiledStep, Machine
from samara.core.algebra import IDENTITY, ZERO, Vec3
from samara.core.quantity import Tree
from samara.core.tree import flatten
from samara.core.types import Array
from samara.physics.types import State
from samara.sensors.camera import (
    CameraModel,
    CameraPart,
    Corner,
    CornerRay,
    SeenDrone,
    corner_ray,
    gate_instance,
    observe_corner,
    scene_looks,
)
from samara.sensors.sensor import Mounting
from samara.world.appearance import gate_corners
from samara.world.obstacles import NEVER, TEMPLATES, HeightMap, Ray, classify_solid
from samara.world.rays import ray_hit_distance

STATE_TEMPLATE = State(ZERO, ZERO, IDENTITY, ZERO)
CORNER_TEMPLATE = CornerRay(0.0, 0.0, 0.0, Ray(ZERO, ZERO), 0.0, 0.0)


@lru_cache(maxsize=16)
def _projection_code(part: CameraPart, mounting: Mounting) -> CompiledStep:
    """corner ray from (state, corner)."""

    def body(carry: Tree, inputs: Tree) -> Tree:
        state, corner_W = inputs
        return corner_ray(corner_W, part, mounting, state)

    return CompiledStep(body, CORNER_TEMPLATE, (STATE_TEMPLATE, ZERO))


@lru_cache(maxsize=16)
def _distance_code(shape: str, moves: bool) -> CompiledStep:
    """Distance of a surface from (ray, age, solid), or (ray, age, drone) for another drone."""
    drone = SeenDrone(ZERO, ZERO, 0.0, ZERO, ZERO, IDENTITY, ZERO)

    def body(carry: Tree, inputs: Tree) -> Tree:
        ray, age, solid = inputs
        return (ray_hit_distance(ray, solid.box(age)[0] if moves else solid, NEVER),)

    return CompiledStep(body, (0.0,), (Ray(ZERO, ZERO), 0.0, drone if moves else TEMPLATES[shape]))


@lru_cache(maxsize=1)
def _reading_code() -> CompiledStep:
    """corner from (corner ray, nearest surface)."""
    return CompiledStep(lambda carry, inputs: observe_corner(*inputs), Corner(0.0, 0.0, 0.0), (CORNER_TEMPLATE, 0.0))


class CornerObserver:
    """Observes the corners of all gates of a scene for any number of drones at once."""

    def __init__(self, model: CameraModel) -> None:
        self.model = model
        self._corners = np.array(
            [corner for placed in model.scene.gates for corner in gate_corners(placed.gate, placed.sizes)]
        ).reshape(-1, 3)
        gate_of_corner = np.array(
            [gate_instance(model.scene, placed) for placed in model.scene.gates for _ in range(4)]
        )
        self._groups: dict[str, list[Any]] = {}
        instances: dict[str, list[float]] = {}
        self._maps = [solid for solid, _ in scene_looks(model.scene) if isinstance(solid, HeightMap)]
        for solid, look in scene_looks(model.scene):
            if isinstance(solid, HeightMap):
                continue
            shape = "plane" if solid is None else classify_solid(solid)
            self._groups.setdefault(shape, []).append(solid)
            instances.setdefault(shape, []).append(look.instance)
        self._is_of_gate = {shape: gate_of_corner[:, None] == np.array(numbers) for shape, numbers in instances.items()}
        self._machines: dict[Any, Machine] = {}

    def observe(self, motions: Array, planes: Array, drones: Sequence[Sequence[SeenDrone]] = ()) -> Array:
        """Return the corners (n, 12 × gates) for motions (13, n) above planes (6, n), among the other drones of each image."""
        n, corners = motions.shape[1], len(self._corners)
        lanes = n * corners
        project = self._machine("project", _projection_code(self.model.part, self.model.mounting), lanes)
        project.held_inputs[:13] = np.repeat(motions, corners, axis=1)
        project.held_inputs[13:] = np.tile(self._corners, (n, 1)).T
        project.run()
        nearest = np.full(lanes, NEVER)
        inputs = project.carry[[3, 4, 5, 6, 7, 8, 10]]
        for height_map in self._maps:
            nearest = ray_hit_distance(Ray(Vec3(*inputs[:3]), Vec3(*inputs[3:6])), height_map, nearest)
        for shape, solids in self._groups.items():
            numbers = np.array([flatten(TEMPLATES["plane"] if s is None else s) for s in solids], dtype=float)
            surfaces = np.broadcast_to(numbers.T[:, None], (numbers.shape[1], lanes, len(solids))).copy()
            for k, solid in enumerate(solids):
                if solid is None:  # the plane below each drone
                    surfaces[:, :, k] = np.repeat(planes, corners, axis=1)
            distances = self._distances(shape, False, inputs, surfaces)
            distances[np.tile(self._is_of_gate[shape], (n, 1))] = NEVER
            nearest = np.minimum(nearest, distances.min(axis=1))
        if drones and drones[0]:
            boxes = np.moveaxis(
                np.array([[flatten(drone) for drone in neighbours] for neighbours in drones], dtype=float), -1, 0
            )
            distances = self._distances("box", True, inputs, np.repeat(boxes, corners, axis=1))
            nearest = np.minimum(nearest, distances.min(axis=1))
        reading = self._machine("read", _reading_code(), lanes)
        reading.held_inputs[:-1], reading.held_inputs[-1] = project.carry, nearest
        reading.run()
        return np.ascontiguousarray(reading.carry.T).reshape(n, -1)

    def _distances(self, shape: str, moves: bool, inputs: Array, surfaces: Array) -> Array:
        """Return the distance of each surface of a group along each ray: (rays, surfaces)."""
        count, lanes, members = surfaces.shape
        machine = self._machine((shape, moves), _distance_code(shape, moves), lanes * members)
        machine.held_inputs[:7] = np.repeat(inputs, members, axis=1)
        machine.held_inputs[7:] = surfaces.reshape(count, -1)
        machine.run()
        return machine.carry[0].reshape(lanes, members).copy()

    def _machine(self, name: Any, code: CompiledStep, lanes: int) -> Machine:
        if name not in self._machines or self._machines[name].n != lanes:
            self._machines[name] = code.machine(lanes)
        return self._machines[name]
