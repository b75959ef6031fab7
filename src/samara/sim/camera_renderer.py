"""The images of the cameras of a group's drones."""

from typing import TYPE_CHECKING

import numpy as np

from samara.core.algebra import Quat, Vec3
from samara.core.random import normals
from samara.core.tree import flatten, unflatten
from samara.core.types import Array
from samara.physics.types import State
from samara.scenario.snapshot import VisionFault
from samara.sensors.camera import CameraModel, CameraReading, SeenDrone, observe_gates, render
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
        """Return the reading and the images of each drone of a group, with blind pixels of value 0."""
        sensor, tick, frames = rows.sensor, fleet.tick("sensor"), []
        model: CameraModel = sensor.model
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
            for fault in fleet.setting.drones[index].faults.vision:
                if fault.sensor == sensor.type_name:
                    _blind(images, model, fault, group.seeds[column], f"dead {sensor.name}", number)
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


def _blind(
    images: dict[str, Array], model: CameraModel, fault: VisionFault, seed: int, source: str, drone: int
) -> None:
    """Set the blind pixels of all images to 0."""
    rows, columns = model.part.shape
    blind = blind_rays(model, fault, seed, source, drone).reshape(rows, columns)
    for image in images.values():
        image[blind] = 0
