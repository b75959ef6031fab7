"""The camera: colour, class, depth, instance and optical flow of every pixel, and the corners of gates, from cast rays.

A reading has the number of the frame and the corners of the gates. The pixels are arrays beside it, one for each of the
camera's `images`: rgb (rows, columns, channels) and segmentation (rows, columns) of uint8, instance of uint16, depth [m] and
optical_flow (rows, columns, 2) [pixels/s] of float32.

The exposure of the last row ends at the time of the sample; earlier rows of a rolling shutter, and the rays of a motion blur,
are cast from earlier poses. All outputs but rgb are those of the middle of each row's exposure.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Annotated, Any, NamedTuple

import numpy as np

from samara.core.algebra import Vec3, direction, norm, rotate, rotate_inverse
from samara.core.ops import logical_and, where
from samara.core.picklable import picklable_factory
from samara.core.quantity import Choices, Quantity, Scalar
from samara.core.random import byte_normals
from samara.core.types import Array
from samara.physics.types import Environment, State
from samara.sensors.depth_camera import (
    MAX_FOV_RAD,
    Lens,
    Pinhole,
    has_inverse,
    pinhole,
    pixel_ray,
    project_direction,
)
from samara.sensors.detector import PERFECT_DETECTOR, DetectorPart
from samara.sensors.pixels import (
    LUMINANCE,
    Look,
    View,
    depth,
    expose,
    optical_flow,
    see_sky,
    see_surface,
    vignetting_gain,
)
from samara.sensors.ray_sensors import Beam, beam_ray, drone_box, emission_pose
from samara.sensors.sensor import (
    AT_CENTRE,
    ImageOutput,
    MeasurementInputs,
    Mounting,
    Sensor,
    SensorType,
    reading_sensor,
)
from samara.world.appearance import DRONE_APPEARANCE, EMPTY_SCENE, GROUND, CameraScene, PlacedGate, gate_corners
from samara.world.obstacles import Ray, Solid
from samara.world.rays import first_hit_distance, surface_hit

OUTPUTS = ("rgb", "segmentation", "depth", "instance", "optical_flow", "gate_corners")
IMAGES = {"rgb": "uint8", "segmentation": "uint8", "depth": "float32", "instance": "uint16", "optical_flow": "float32"}
UNITS = {"depth": "m", "optical_flow": "1/s"}
MAX_PIXELS = 2_097_152  # 1920 × 1092
CORNER_MARGIN = 0.02  # [m]: a surface this much nearer than a corner hides it
MIN_CORNER_DEPTH = 1e-3  # [m]: a corner less far ahead is not projected
ROLLING_ITERATIONS = 3  # of the row at which a rolling shutter exposes a corner


class CameraPart(NamedTuple):
    """Parameters of a camera.

    `exposure` is the exposure relative to the one at which a white surface in full sunlight is at full scale. `vignetting` is
    the fraction of cos⁴ that the lens has. Rows are read `row_time` apart (0: a global shutter); the image is the mean of
    `motion_samples` rays over `exposure_time`. `full_well` (0: no noise) is in electrons, as `read_noise`. `gamma` is 1 for a
    linear response, or 2 for the square root. `detector` finds the gates in `gate_corners` and `segmentation`.
    """

    rate: Annotated[float, Quantity("Hz", 1.0, 1000.0)]
    delay: Annotated[float, Quantity("s", 0.0, 0.5)]
    width: Annotated[float, Quantity("1", 1.0, 4000.0)]
    height: Annotated[float, Quantity("1", 1.0, 4000.0)]
    fov_x: Annotated[float, Quantity("rad", 0.1, 2.9)]
    fov_y: Annotated[float, Quantity("rad", 0.1, 2.9)]
    outputs: Annotated[tuple[str, ...], Choices(OUTPUTS)] = ("rgb",)
    channels: Annotated[float, Quantity("1", 1.0, 3.0)] = 3.0
    k1: Annotated[float, Quantity("1", -1.0, 1.0)] = 0.0
    k2: Annotated[float, Quantity("1", -1.0, 1.0)] = 0.0
    p1: Annotated[float, Quantity("1", -1.0, 1.0)] = 0.0
    p2: Annotated[float, Quantity("1", -1.0, 1.0)] = 0.0
    max_range: Annotated[float, Quantity("m", 0.1, 1000.0)] = 100.0
    exposure: Annotated[float, Quantity("1", 0.0, 100.0)] = 1.0
    exposure_time: Annotated[float, Quantity("s", 0.0, 0.1)] = 0.0
    motion_samples: Annotated[float, Quantity("1", 1.0, 63.0)] = 1.0
    row_time: Annotated[float, Quantity("s", 0.0, 1e-3)] = 0.0
    vignetting: Annotated[float, Quantity("1", 0.0, 1.0)] = 0.0
    full_well: Annotated[float, Quantity("1", 0.0, 1e6)] = 0.0
    read_noise: Annotated[float, Quantity("1", 0.0, 1e3)] = 0.0
    gamma: Annotated[float, Quantity("1", 1.0, 2.0)] = 1.0
    detector: DetectorPart = PERFECT_DETECTOR

    @property
    def camera(self) -> Pinhole:
        """The pinhole model with its lens."""
        lens = Lens(self.k1, self.k2, self.p1, self.p2)
        return pinhole(int(self.width), int(self.height), self.fov_x, self.fov_y, lens)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return int(self.height), int(self.width)

    @property
    def has_noise(self) -> bool:
        """Whether grey levels have shot and read noise."""
        return self.full_well > 0.0 and "rgb" in self.outputs

    @property
    def noise(self) -> tuple[float, float]:
        """Shot and read noise of `expose`: 1/N and σ/N."""
        return (1.0 / self.full_well, self.read_noise / self.full_well) if self.full_well > 0.0 else (0.0, 0.0)

    def row_ages(self, sample: int | None = None) -> Array:
        """τ = T (N − k − ½)/N + (rows − 1 − r) Δ: the age of row r in motion sample k, by default the middle one  [s]"""
        count = int(self.motion_samples)
        k = (count - 1) // 2 if sample is None else sample
        return self.row_time * np.arange(int(self.height))[::-1] + self.exposure_time * (count - k - 0.5) / count


class Corner(NamedTuple):
    """A corner of a gate's opening in the image: column and row, with pixel centres at whole numbers; all 0 if not visible."""

    u: Scalar
    v: Scalar
    visible: Scalar


class CameraReading(NamedTuple):
    """The number of the frame, from 0, and the four corners of each gate if the camera outputs them."""

    frame: Scalar
    gate_corners: tuple[tuple[Corner, ...], ...] = ()


class CameraModel(NamedTuple):
    """The model of a camera: its part, its mounting, and the scene it sees."""

    part: CameraPart
    mounting: Mounting = AT_CENTRE
    scene: CameraScene = EMPTY_SCENE

    @property
    def ray_count(self) -> int:
        """The pixel count."""
        rows, columns = self.part.shape
        return rows * columns

    @property
    def is_camera(self) -> bool:
        """A camera, not a lidar."""
        return True

    @property
    def images(self) -> tuple[ImageOutput, ...]:
        """The images it delivers."""
        rows, columns = self.part.shape
        last = {"rgb": (int(self.part.channels),), "optical_flow": (2,)}
        return tuple(
            ImageOutput(name, (rows, columns, *last.get(name, ())), IMAGES[name], UNITS.get(name, "1"))
            for name in self.part.outputs
            if name in IMAGES
        )

    @property
    def directions(self) -> Vec3:
        """The direction of every pixel in the camera's axes, arrays (pixels,), row by row."""
        return _directions(self.part.camera)

    @property
    def beams(self) -> Beam:
        """The rays of all pixels at the middle of their exposure, arrays (pixels,)."""
        return Beam(self.directions, np.repeat(self.part.row_ages(), self.part.shape[1]))

    @property
    def class_names(self) -> tuple[str, ...]:
        """The names of the classes in `segmentation`, by number."""
        return self.scene.class_names

    @property
    def instance_names(self) -> tuple[str, ...]:
        """The names of the instances in `instance`, by number; the drones of the scenario follow in their order."""
        return self.scene.instance_names


class SeenDrone(NamedTuple):
    """Another drone: its box at the pose of the sample, its instance, and its motion."""

    lowest_B: Vec3
    highest_B: Vec3
    instance: Scalar
    p_W: Vec3
    v_W: Vec3
    q_WB: Any
    omega_B: Vec3

    def box(self, age: Scalar) -> tuple[Solid, Look]:
        """Return the box an age ago, at constant velocities, and its look."""
        p_W, q_WB = emission_pose(State(self.p_W, self.v_W, self.q_WB, self.omega_B), age)
        look = Look(DRONE_APPEARANCE, self.instance, 4.0, p_W, self.v_W, rotate(q_WB, self.omega_B))
        return drone_box(p_W, q_WB, self.lowest_B, self.highest_B), look


@lru_cache(maxsize=64)
def _directions(camera: Pinhole) -> Vec3:
    row, column = (index.ravel().astype(float) for index in np.indices((camera.height, camera.width)))
    directions = pixel_ray(column, row, camera)
    for component in directions:
        component.setflags(write=False)
    return directions


def scene_looks(scene: CameraScene) -> list[tuple[Solid | None, Look]]:
    """Return the ground (None: the plane below the drone) and the surfaces of a scene with their looks."""
    ground = Look(scene.ground_appearance, float(GROUND), float(scene.class_number(scene.ground_appearance)))
    surfaces = zip(scene.surfaces, scene.instances, strict=True)
    return [
        (scene.ground, ground),
        *(
            (
                surface.solid,
                Look(surface.appearance, float(instance), float(scene.class_number(surface.appearance))),
            )
            for surface, instance in surfaces
        ),
    ]


def see(ray: Ray, age: Scalar, model: CameraModel, environment: Environment, drones: Sequence[SeenDrone] = ()) -> View:
    """Return what a ray sees: the sky, then every surface that is nearer."""
    view, light = see_sky(ray.direction_W, model.scene.light), model.scene.light
    looks = [(environment.ground if solid is None else solid, look) for solid, look in scene_looks(model.scene)]
    for solid, look in (*looks, *(drone.box(age) for drone in drones)):
        view = see_surface(view, surface_hit(ray, solid, view.distance), ray, look, light)
    return view


def render_camera(
    model: CameraModel,
    state: State,
    environment: Environment,
    normals: Array | None = None,
    drones: Sequence[SeenDrone] = (),
) -> dict[str, Array]:
    """Render the images of one drone's camera with NumPy: the definition of the compiled renderer.

    Args:
        model: the camera.
        state: the state of the drone at the time of the sample.
        environment: its ground is the plane below the drone.
        normals: numbers (channels, pixels) for the noise, `noise_normals`; None for no noise.
        drones: the other drones.
    """
    part, d_S = model.part, model.directions
    columns, outputs = part.shape[1], part.outputs
    samples = int(part.motion_samples)
    middle, radiance = (samples - 1) // 2, Vec3(0.0, 0.0, 0.0)
    images: dict[str, Array] = {}
    for k in range(samples) if "rgb" in outputs else (middle,):
        ages = np.repeat(part.row_ages(k), columns)
        age = ages if ages.any() else 0.0
        view = see(beam_ray(state, model.mounting, Beam(d_S, age)), age, model, environment, drones)
        radiance = radiance + view.radiance
        if k == middle:
            images |= _geometry(view, model, state, age)
    if "rgb" in outputs:
        images["rgb"] = _grey_levels(radiance / float(samples), model, normals)
    return {
        image.name: np.ascontiguousarray(np.broadcast_to(images[image.name], (d_S.x.size, *image.shape[2:])))
        .astype(image.dtype)
        .reshape(image.shape)
        for image in model.images
    }


def noise_normals(model: CameraModel, seed: int, source: str, drone: int, tick: int) -> Array | None:
    """Draw the normals (channels, pixels) of an image: channel c of pixel k has word c of block k; None without noise."""
    if not model.part.has_noise:
        return None
    return byte_normals(seed, source, drone, tick, model.ray_count)[:, : int(model.part.channels)].T


def _geometry(view: View, model: CameraModel, state: State, age: Scalar) -> dict[str, Array]:
    d_S = model.directions
    q_WB = emission_pose(state, age)[1]
    flow = optical_flow(view, d_S, state._replace(q_WB=q_WB), model.mounting, model.part.camera)
    return {
        "segmentation": np.broadcast_to(view.class_number, d_S.x.shape),
        "instance": np.broadcast_to(view.instance, d_S.x.shape),
        "depth": depth(view, d_S, model.part.max_range),
        "optical_flow": np.stack(flow, axis=-1),
    }


def _grey_levels(radiance: Vec3, model: CameraModel, normals: Array | None) -> Array:
    part = model.part
    channels = tuple(radiance) if part.channels == 3.0 else (luminance(radiance),)
    gain = part.exposure * vignetting_gain(model.directions, part.vignetting)
    if normals is None:
        normals = np.zeros((len(channels), model.directions.x.size))
    levels = [
        expose(channel, gain, normal, *part.noise, part.gamma)
        for channel, normal in zip(channels, normals.reshape(len(channels), -1), strict=True)
    ]
    return np.stack(levels, axis=-1)


def luminance(radiance: Vec3) -> Scalar:
    """Y = 0.2126 R + 0.7152 G + 0.0722 B"""
    return LUMINANCE.x * radiance.x + LUMINANCE.y * radiance.y + LUMINANCE.z * radiance.z


class CornerRay(NamedTuple):
    """A corner in the image: column, row, 1 if it is within, the ray to it, its distance [m] and the age of the row  [s]."""

    u: Scalar
    v: Scalar
    inside: Scalar
    ray: Ray
    distance: Scalar
    age: Scalar


def corner_ray(corner_W: Vec3, part: CameraPart, mounting: Mounting, state: State) -> CornerRay:
    """Project a corner with the pose at which its row is exposed."""
    camera, ages = part.camera, part.row_ages()
    first_age, age = float(ages[0]), 0.5 * (float(ages[0]) + float(ages[-1]))
    for _ in range(ROLLING_ITERATIONS if part.row_time > 0.0 else 1):
        p_W, q_WB = emission_pose(state, age)
        start_W = p_W + rotate(q_WB, mounting.r_B)
        offset_S = rotate_inverse(q_WB * mounting.q_BS, corner_W - start_W)
        is_ahead = offset_S.x > MIN_CORNER_DEPTH
        u, v = project_direction(offset_S._replace(x=where(is_ahead, offset_S.x, 1.0)), camera)
        row = where(v > 0.0, where(v < camera.height - 1.0, v, camera.height - 1.0), 0.0)
        age = first_age - part.row_time * row if part.row_time > 0.0 else age
    is_within = logical_and(
        logical_and(u >= -0.5, u <= camera.width - 0.5), logical_and(v >= -0.5, v <= camera.height - 0.5)
    )
    r_W = corner_W - start_W
    inside = where(logical_and(is_ahead, is_within), 1.0, 0.0)
    return CornerRay(u, v, inside, Ray(start_W, direction(r_W)), norm(r_W), age)


def observe_corner(corner: CornerRay, nearest: Scalar) -> Corner:
    """Return the corner, visible if the nearest surface along its ray is not before it."""
    is_visible = logical_and(corner.inside > 0.5, nearest > corner.distance - CORNER_MARGIN)
    return Corner(where(is_visible, corner.u, 0.0), where(is_visible, corner.v, 0.0), where(is_visible, 1.0, 0.0))


def observe_gates(
    model: CameraModel, state: State, environment: Environment, drones: Sequence[SeenDrone] = ()
) -> tuple[tuple[Corner, ...], ...]:
    """Return the corners of all gates, if the camera outputs them."""
    if "gate_corners" not in model.part.outputs:
        return ()
    looks = [(environment.ground if solid is None else solid, look) for solid, look in scene_looks(model.scene)]

    def observe(corner_W: Vec3, own_instance: float) -> Corner:
        corner = corner_ray(corner_W, model.part, model.mounting, state)
        occluders = [solid for solid, look in looks if look.instance != own_instance]
        occluders += [drone.box(corner.age)[0] for drone in drones]
        return observe_corner(corner, first_hit_distance(corner.ray, occluders))

    return tuple(
        tuple(
            observe(corner_W, gate_instance(model.scene, placed))
            for corner_W in gate_corners(placed.gate, placed.sizes)
        )
        for placed in model.scene.gates
    )


def gate_instance(scene: CameraScene, placed: PlacedGate) -> float:
    """Return the instance of a gate's own bars, which hide none of its corners; −1 if the scene has none."""
    names = scene.instance_names
    return float(names.index(placed.name)) if placed.name in names else -1.0


def require_part(part: CameraPart) -> None:
    """Check the parameters of a camera; raise ValueError if one is invalid."""
    for name in ("width", "height", "motion_samples"):
        count = getattr(part, name)
        if not (count >= 1.0 and float(count).is_integer()):
            raise ValueError(f"camera.{name} = {count:g}: expected a whole number from 1")
    if part.width * part.height > MAX_PIXELS:
        raise ValueError(
            f"camera: width × height = {part.width:g} × {part.height:g}: expected at most {MAX_PIXELS} pixels"
        )
    if part.motion_samples % 2.0 == 0.0:
        raise ValueError(f"camera.motion_samples = {part.motion_samples:g}: expected an odd number")
    for name, values in (("channels", (1.0, 3.0)), ("gamma", (1.0, 2.0))):
        if getattr(part, name) not in values:
            raise ValueError(f"camera.{name} = {getattr(part, name):g}: expected {values[0]:g} or {values[1]:g}")
    for name in ("fov_x", "fov_y"):
        if not 0.0 < getattr(part, name) <= MAX_FOV_RAD:
            raise ValueError(f"camera.{name} = {getattr(part, name):g}: expected an angle up to {MAX_FOV_RAD:.3f} rad")
    if not part.vignetting <= 1.0:
        raise ValueError(f"camera.vignetting = {part.vignetting:g}: expected a fraction from 0 to 1")
    if not part.outputs or len(set(part.outputs)) < len(part.outputs) or set(part.outputs) - set(OUTPUTS):
        raise ValueError(f"camera.outputs = {list(part.outputs)}: expected one or more of {', '.join(OUTPUTS)}")
    if not has_inverse(part.camera):
        raise ValueError(
            f"camera: k1, k2, p1, p2 = {', '.join(f'{x:g}' for x in part.camera.lens)}: such a lens "
            "has no inverse within the image; expected less distortion"
        )


@lru_cache(maxsize=256)
@picklable_factory
def camera(
    part: CameraPart, mounting: Mounting = AT_CENTRE, name: str = "", scene: CameraScene = EMPTY_SCENE
) -> Sensor:
    """Create a camera that points along its x axis; z is up in its image."""
    require_part(part)
    model = CameraModel(part, mounting, scene)
    corners = (((Corner(0.0, 0.0, 0.0),) * 4,) * len(scene.gates)) if "gate_corners" in part.outputs else ()
    reading = CameraReading(0.0, corners)

    def equation(inputs: MeasurementInputs) -> CameraReading:
        """The reading of one drone alone; frames are counted by the simulation."""
        return CameraReading(0.0, observe_gates(model, inputs.state, inputs.environment))

    return reading_sensor(
        "camera",
        reading,
        ("1",) * (1 + 12 * len(corners)),
        equation,
        part,
        name=name,
        model=model,
        images=model.images,
        traced=False,
        delay=part.delay + part.detector.delay,
    )


TYPE = SensorType("camera", CameraPart, camera, detects="view", has_image=True)
