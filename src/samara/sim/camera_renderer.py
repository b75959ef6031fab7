"""The images of the cameras of a group's drones."""

from typing import TYPE_CHECKING

import numpy as np

from samara.core.algebra import Quat, Vec3
from samara.core.random import normals
from samara.core.tree import flatten, unflatten
from samara.core.types import Array
from samara.physics.types import State
from samara.sensors.camera import CameraModel, CameraReading, SeenDrone, observe_gates, render
from samara.sim.gate_detectors import rendered_model
from samara.sim.ray_sensors import STATE_TEMPLATE, blind_rays
from samara.vehicles.shape import bounding_box

if TYPE_CHECKING:
    from samara.sim.fleet import Fleet
    from samara.sim.group import Group, SensorRows


class CameraRenderer:
    """Renders the images of all cameras of a flight."""

    def __init__(self) -> None:
        self._corners: list[tuple[Vec3, Vec3]] | None = None  # lowest and highest corners of all drones, in body axes

    def render(self, fleet: "Fleet", group: "Group", rows: "SensorRows") -> list[tuple[Array, dict[str, Array]]]:
        """Return the reading and the images of each drone of a group."""
        sensor, tick, frames = rows.sensor, fleet.tick("sensor"), []
        model: CameraModel = rendered_model(sensor.model)
        for column, index in enumerate(group.drones):
            state: State = unflatten(STATE_TEMPLATE, iter(group.slots["state"][:13, column].tolist()))
            environment = unflatten(
                group.templates["environment"], iter(group.slots["environment"][:, column].tolist())
            )
            drones = self._other_drones(fleet, index, len(model.instance_names))
            number = int(group.drone_numbers[column])
            image_normals = None
            if sensor.normals_needed:
                image_normals = normals(
                    group.seeds[column], f"sensor {sensor.name}", number, tick, sensor.normals_needed
                )
            images = render(model, state, environment, image_normals, drones)
            reading = CameraReading(
                float(fleet.time_us // rows.period_us), observe_gates(model, state, environment, drones)
            )
            frames.append((np.array(flatten(reading), dtype=float), images))
        return frames

    def _other_drones(self, fleet: "Fleet", index: int, first_instance: int) -> list[SeenDrone]:
        if fleet.separate_flights or len(fleet.scenario.drones) < 2:
            return []
        if self._corners is None:
            self._corners = [bounding_box(drone.vehicle) for drone in fleet.scenario.drones]
        motions = [rows.T.tolist() for rows in (fleet.p_W, fleet.v_W, fleet.q_WB, fleet.omega_B)]
        return [
            SeenDrone(*self._corners[k], float(first_instance + k), Vec3(*p_W), Vec3(*v_W), Quat(*q_WB), Vec3(*omega_B))
            for k, (p_W, v_W, q_WB, omega_B) in enumerate(zip(*motions, strict=True))
            if k != index
        ]


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
