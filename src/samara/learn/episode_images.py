"""The images of a task's camera beside the observation of its state: when they are taken and arrive, and what is in them.

Images are taken every `every` steps from the start of an episode, and observed `delay` steps later; before the first they
are 0. A ring of `slots` images holds those under way.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from samara.core.ops import where
from samara.core.tree import flatten
from samara.core.types import Array
from samara.learn.task import CameraObservation, Situation, Task, Tree
from samara.physics.ground.contact import Ground
from samara.sensors.camera import CameraModel
from samara.sensors.detector import (
    PERFECT_DETECTOR,
    TRACK_NORMALS,
    GateTrack,
    advance_track,
    detect_segmentation,
    initial_track,
)
from samara.sim.camera_images import ImageRenderer
from samara.world.appearance import CLASS_NAMES, SKY

DrawNumbers: TypeAlias = Callable[[tuple[str, ...]], Array]
DETECTOR_KEY = 0x9E3779B9  # the detector's random numbers have the keys of the episodes, xor this
STATE = "state"  # key of the task's own observation, beside the images


class FrameTiming(NamedTuple):
    """The steps between two images, the steps until one is observed, and the count of images under way."""

    every: int
    delay: int

    @property
    def slots(self) -> int:
        """The images that are held: those under way, the one observed, and a new one."""
        return self.delay // self.every + 2

    def observed_frame(self, age: Any) -> Any:
        """Return the number of the image that is observed at an age in steps; negative before the first."""
        return (age - self.delay) // self.every


def frame_timing(camera: CameraObservation, period: float) -> FrameTiming:
    """Return the timing of a camera in an environment with a period [s]; raise ValueError if they do not fit."""
    part = camera.model.part
    steps = 1.0 / (part.rate * period)
    every = max(1, round(steps))
    if abs(steps - every) > 1e-6 * every:
        raise ValueError(
            f"the camera has a rate of {part.rate:g} Hz and the task {1.0 / period:g} actions a second; "
            "expected a whole number of actions per image"
        )
    return FrameTiming(every, math.ceil((part.delay + part.detector.delay) / period - 1e-9))


def require_camera_task(task: Task) -> CameraObservation:
    """Return the camera of a task; raise ValueError if its images cannot be rendered in environments."""
    camera = task.camera
    assert camera is not None, task.name
    if task.drones > 1:
        raise ValueError(f"task {task.name!r} is for {task.drones} drones; a camera is for tasks with one")
    if "gate_corners" in camera.model.part.outputs or not camera.model.images:
        raise ValueError(
            f"camera.outputs = {list(camera.model.part.outputs)}: expected images only; a task observes what else it needs"
        )
    if camera.model.part.has_noise:
        raise ValueError(f"camera.full_well = {camera.model.part.full_well:g}: expected 0, no noise, in environments")
    return camera


def episode_model(camera: CameraObservation, goal: Tree) -> CameraModel:
    """Return the camera with the surfaces of an episode added to its scene."""
    surfaces = camera.surfaces(goal)
    scene = camera.model.scene._replace(surfaces=(*camera.model.scene.surfaces, *surfaces))
    return camera.model._replace(scene=scene)


class GateDetection(NamedTuple):
    """The detector of a camera in an environment: the camera, the instances of the gates, and the time between images."""

    model: CameraModel
    instances: tuple[int, ...]
    dt: float  # [s]

    @property
    def draws(self) -> tuple[str, ...]:
        """The distributions of the random numbers of an image: none without an imperfect detector."""
        return ("normal",) * (TRACK_NORMALS * len(self.instances))

    def initial(self) -> list[GateTrack]:
        """Return tracks of zeros."""
        return [GateTrack() for _ in self.instances]

    def advance(
        self, tracks: Sequence[GateTrack], numbers: Sequence[Any], is_first: Any, is_due: Any
    ) -> list[GateTrack]:
        """Return the tracks at an image if one `is_due`; the first of an episode is drawn from the stationary distribution."""
        part, advanced = self.model.part, []
        for k, track in enumerate(tracks):
            draws = numbers[TRACK_NORMALS * k : TRACK_NORMALS * (k + 1)]
            first = initial_track(draws, part.detector, part.camera)
            later = advance_track(track, draws, part.detector, part.camera, self.dt)
            leaves = zip(first, later, track, strict=True)
            advanced.append(GateTrack(*(where(is_due, where(is_first, a, b), c) for a, b, c in leaves)))
        return advanced

    def detect(self, images: dict[str, Any], tracks: Sequence[GateTrack]) -> dict[str, Any]:
        """Return the camera's images, with the segmentation as the detector reports it; tracks have arrays (…, 1, 1)."""
        if self.instances:
            segmentation, instance = images["segmentation"], images["instance"]
            label = float(CLASS_NAMES.index("gate"))
            images = images | {
                "segmentation": detect_segmentation(segmentation, instance, self.instances, tracks, float(SKY), label)
            }
        return {name: image for name, image in images.items() if name in self.model.part.outputs}

    @property
    def rendered(self) -> CameraModel:
        """The camera with the outputs that are rendered."""
        outputs = self.model.part.outputs
        if not self.instances or "instance" in outputs:
            return self.model
        return self.model._replace(part=self.model.part._replace(outputs=(*outputs, "instance")))


def gate_detection(camera: CameraObservation, model: CameraModel, period: float) -> GateDetection:
    """Return the detection of the gates of an episode's scene: the objects of class "gate"."""
    names: dict[str, None] = {}
    if model.part.detector != PERFECT_DETECTOR and "segmentation" in model.part.outputs:
        looks = (surface.appearance for surface in model.scene.surfaces)
        names = dict.fromkeys(look.object_name for look in looks if look.class_name == "gate" and look.object_name)
    instances = tuple(model.instance_names.index(name) for name in names)
    return GateDetection(model, instances, frame_timing(camera, period).every * period)


class EpisodeImages:
    """The images of N drones on the CPU: `update` takes those that are due, and `observe` returns those that have arrived."""

    def __init__(self, task: Task, goal: Tree, count: int) -> None:
        """Compile the camera for N drones; `goal` is a goal of an episode, whose numbers are inputs."""
        self._camera = require_camera_task(task)
        self.timing = frame_timing(self._camera, task.period)
        self._first_surface = 1 + len(self._camera.model.scene.surfaces)  # the first is the ground
        self.detection = gate_detection(self._camera, episode_model(self._camera, goal), task.period)
        self.model = self.detection.model
        self._renderer = ImageRenderer(self.detection.rendered)
        self._planes = np.repeat(np.array(flatten(Ground()))[:, None], count, axis=1)
        self._rings = {
            image.name: np.zeros((self.timing.slots, count, *image.shape), image.dtype) for image in self.model.images
        }
        self._tracks = self.detection.initial()

    def update(self, situation: Situation, age: Array, selected: Array | None, draws: DrawNumbers) -> None:
        """Take the images that are due at the ages of the episodes in steps, of all drones or those selected (N,).

        `draws(distributions)` returns random numbers (distributions, N) of this step.
        """
        due = age % self.timing.every == 0
        due = due if selected is None else due & selected
        if not due.any():
            return
        count = len(age)
        solids = {
            self._first_surface + k: np.array(
                [np.broadcast_to(np.asarray(x, dtype=float), count) for x in flatten(surface.solid)]
            )
            for k, surface in enumerate(self._camera.surfaces(situation.goal))
        }
        motions = np.array([np.broadcast_to(x, count) for x in flatten(situation.state)[:13]], dtype=float)
        images = self._renderer.render(motions, self._planes, solids=solids)
        if self.detection.instances:
            self._tracks = self.detection.advance(self._tracks, list(draws(self.detection.draws)), age == 0, due)
        tracks = [GateTrack(*(np.reshape(leaf, (-1, 1, 1)) for leaf in track)) for track in self._tracks]
        drones, slots = np.flatnonzero(due), (age // self.timing.every % self.timing.slots)[due]
        for name, detected in self.detection.detect(images, tracks).items():
            self._rings[name][slots, drones] = detected[drones].reshape(-1, *self._rings[name].shape[2:])

    def observe(self, age: Array) -> dict[str, Array]:
        """Return the images that have arrived, (N, rows, columns, …) by name."""
        frame = self.timing.observed_frame(age)
        slots, is_missing = frame % self.timing.slots, frame < 0
        images = {name: ring[slots, np.arange(len(age))] for name, ring in self._rings.items()}
        for image in images.values():
            image[is_missing] = 0
        return images
