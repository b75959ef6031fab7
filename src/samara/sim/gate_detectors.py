"""The gate detectors of a flight's cameras: what they report of the images and corners of one sample."""

from typing import TYPE_CHECKING

import numpy as np

from samara.core.algebra import Quat, Vec3, norm, rotate
from samara.core.random import normals
from samara.core.types import Array
from samara.scenario.timeline import MICROSECONDS
from samara.sensors.camera import CameraModel
from samara.sensors.detector import (
    CORNER_NORMALS,
    PERFECT_DETECTOR,
    TRACK_NORMALS,
    GateTrack,
    advance_track,
    detect_corners,
    detect_segmentation,
    initial_track,
)
from samara.world.appearance import CLASS_NAMES, SKY

if TYPE_CHECKING:
    from samara.sim.fleet import Fleet
    from samara.sim.group import Group, SensorRows

GATE_CLASS = CLASS_NAMES.index("gate")


def has_detector(model: CameraModel) -> bool:
    """Whether a camera's gates pass through an imperfect detector."""
    return model.part.detector != PERFECT_DETECTOR and bool(model.scene.gates)


def rendered_model(model: CameraModel) -> CameraModel:
    """Return the camera with the images that its detector needs: a segmentation's gates are known by their instances."""
    outputs = model.part.outputs
    if not has_detector(model) or "segmentation" not in outputs or "instance" in outputs:
        return model
    return model._replace(part=model.part._replace(outputs=(*outputs, "instance")))


class GateDetectors:
    """The states of all detectors, by drone and sensor: a track of arrays (gates,) each."""

    def __init__(self) -> None:
        self._tracks: dict[tuple[int, str], GateTrack] = {}

    def detect(
        self,
        fleet: "Fleet",
        group: "Group",
        rows: "SensorRows",
        column: int,
        values: Array,
        images: dict[str, Array],
    ) -> tuple[Array, dict[str, Array]]:
        """Return the reading and the images as the detector of one drone reports them; others as they are."""
        model: CameraModel = rows.sensor.model
        if not has_detector(model):
            return values, images
        part, gates, name = model.part, len(model.scene.gates), rows.sensor.name
        key = group.drones[column], name
        source = group.seeds[column], f"detector {name}", int(group.drone_numbers[column])
        draws = normals(*source, fleet.tick("sensor"), gates * (TRACK_NORMALS + CORNER_NORMALS))
        track_draws, corner_draws = np.split(draws.reshape(-1, gates), [TRACK_NORMALS])
        if key in self._tracks:
            dt = rows.period_us / MICROSECONDS
            track = advance_track(self._tracks[key], list(track_draws), part.detector, part.camera, dt)
        else:
            track = initial_track(list(track_draws), part.detector, part.camera)
        self._tracks[key] = track
        if "gate_corners" in part.outputs:
            corners = values[1:].reshape(gates, 4, 3).transpose(1, 2, 0)
            distance = _gate_distances(model, group.slots["state"][:, column])
            detected = detect_corners(list(map(list, corners)), distance, track, list(corner_draws), part.detector)
            values = np.concatenate([values[:1], np.array(detected).transpose(2, 0, 1).ravel()])
        if "segmentation" in part.outputs:
            images = {**images, "segmentation": _segmentation(model, images, track)}
        return values, {image.name: images[image.name] for image in rows.sensor.images}


def _gate_distances(model: CameraModel, state: Array) -> Array:
    """|p_gate − p_camera| of every gate  [m]"""
    start_W = Vec3(*state[:3].tolist()) + rotate(Quat(*state[6:10].tolist()), model.mounting.r_B)
    return np.array([float(norm(placed.gate.p_W - start_W)) for placed in model.scene.gates])


def _segmentation(model: CameraModel, images: dict[str, Array], track: GateTrack) -> Array:
    """Return the segmentation without missed gates, and with false ones."""
    instances = [model.instance_names.index(placed.name) for placed in model.scene.gates]
    tracks = [GateTrack(*values) for values in np.stack(track, axis=1).tolist()]
    segmentation, instance = images["segmentation"], images["instance"]
    return detect_segmentation(segmentation, instance, instances, tracks, float(SKY), float(GATE_CLASS))
