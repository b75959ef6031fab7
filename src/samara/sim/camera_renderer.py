"""The cameras of a flight: readings and images of all drones of a group at once."""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from samara.core.algebra import Quat, Vec3
from samara.core.tree import flatten, unflatten
from samara.core.types import Array
from samara.physics.types import State
from samara.sensors.camera import CameraModel, SeenDrone, noise_normals, observe_gates, render_camera
from samara.sensors.sensor import Sensor
from samara.sim.camera_corners import CornerObserver
from samara.sim.camera_images import ImageRenderer, Noise
from samara.sim.gate_detectors import rendered_model
from samara.sim.ray_sensors import STATE_TEMPLATE, blind_rays
from samara.vehicles.shape import bounding_box

if TYPE_CHECKING:
    from samara.sim.fleet import Fleet
    from samara.sim.group import Group, SensorRows


class CompiledCamera(NamedTuple):
    """The compiled renderer and corner observer of a camera; None where NumPy renders, and without gate corners."""

    model: CameraModel
    renderer: ImageRenderer | None
    observer: CornerObserver | None


class CameraRenderer:
    """Renders the images of all cameras of a flight."""

    def __init__(self) -> None:
        self._corners: list[tuple[Vec3, Vec3]] | None = None  # lowest and highest corners of all drones, in body axes
        self._cameras: dict[tuple[int, str], CompiledCamera] = {}  # by id and name of the sensor

    def render(self, fleet: "Fleet", group: "Group", rows: "SensorRows") -> list[tuple[Array, dict[str, Array]]]:
        """Return the reading and the images of each drone of a group."""
        sensor, model = rows.sensor, rendered_model(rows.sensor.model)
        drones = self._other_drones(fleet, group, model)
        numbers = [int(number) for number in group.drone_numbers]
        noise = Noise(f"sensor {sensor.name}", group.seeds, numbers, fleet.tick("sensor"))
        camera = self._camera(sensor, len(drones[0]), fleet.scenario.backend)
        images, corners = _render_compiled(camera, group, drones, noise)
        frame, frames = float(fleet.time_us // rows.period_us), []
        for column in range(len(group)):
            drone_images = {name: image[column] for name, image in images.items()}
            frames.append((np.array([frame, *corners[column]]), drone_images))
        return frames

    def _camera(self, sensor: Sensor, other_drones: int, backend: str) -> CompiledCamera:
        key = id(sensor), sensor.name
        if key not in self._cameras:
            model = rendered_model(sensor.model)
            is_compiled = backend != "python"
            has_corners = is_compiled and "gate_corners" in model.part.outputs and model.scene.gates
            self._cameras[key] = CompiledCamera(
                model,
                ImageRenderer(model, other_drones) if is_compiled else None,
                CornerObserver(model) if has_corners else None,
            )
        return self._cameras[key]

    def _other_drones(self, fleet: "Fleet", group: "Group", model: CameraModel) -> list[list[SeenDrone]]:
        """Return the drones that each drone of a group may see: all others of the flight."""
        if fleet.separate_flights or len(fleet.scenario.drones) < 2:
            return [[] for _ in group.drones]
        if self._corners is None:
            self._corners = [bounding_box(drone.vehicle) for drone in fleet.scenario.drones]
        motions = zip(*(rows.T.tolist() for rows in (fleet.p_W, fleet.v_W, fleet.q_WB, fleet.omega_B)), strict=True)
        first = len(model.instance_names)
        fleet_drones = [
            SeenDrone(*self._corners[k], float(first + k), Vec3(*p_W), Vec3(*v_W), Quat(*q_WB), Vec3(*omega_B))
            for k, (p_W, v_W, q_WB, omega_B) in enumerate(motions)
        ]
        return [[drone for k, drone in enumerate(fleet_drones) if k != index] for index in group.drones]


_Frames = tuple[dict[str, Array], Array]


def _render_compiled(camera: CompiledCamera, group: "Group", drones: list[list[SeenDrone]], noise: Noise) -> _Frames:
    """Return the images and the gate corners of all drones."""
    if camera.renderer is None:
        return _by_definition(group, camera.model, drones, noise)
    motions, planes = group.slots["state"][:13], group.rows("environment.ground")
    images = camera.renderer.render(motions, planes, drones, noise)
    if camera.observer is None:
        return images, np.empty((len(group), 0))
    return images, camera.observer.observe(motions, planes, drones)


def _by_definition(group: "Group", model: CameraModel, drones: list[list[SeenDrone]], noise: Noise) -> _Frames:
    """Return the same by NumPy, drone by drone."""
    frames, corners = [], []
    for column, neighbours in enumerate(drones):
        state: State = unflatten(STATE_TEMPLATE, iter(group.slots["state"][:13, column].tolist()))
        environment = unflatten(group.templates["environment"], iter(group.slots["environment"][:, column].tolist()))
        normals = noise_normals(model, noise.seeds[column], noise.source, noise.drones[column], noise.tick)
        frames.append(render_camera(model, state, environment, normals, neighbours))
        corners.append(flatten(observe_gates(model, state, environment, neighbours)))
    return {name: np.stack([frame[name] for frame in frames]) for name in frames[0]}, np.array(corners)


def blind_pixels(
    fleet: "Fleet", group: "Group", rows: "SensorRows", column: int, values: Array, images: dict[str, Array]
) -> None:
    """Set the blind pixels of all images of one drone to 0; corners in them are not visible."""
    sensor, index = rows.sensor, group.drones[column]
    model: CameraModel = sensor.model
    source, number = f"dead {sensor.name}", int(group.drone_numbers[column])
    corners = values[1:].reshape(-1, 3)
    for fault in fleet.setting.drones[index].faults.vision:
        if fault.sensor == sensor.type_name:
            blind = blind_rays(model, fault, group.seeds[column], source, number).reshape(model.part.shape)
            for image in images.values():
                image[blind] = 0
            u, v = (np.rint(x).astype(int).clip(0, n - 1) for x, n in zip(corners.T[:2], blind.T.shape, strict=True))
            corners[blind[v, u]] = 0.0
