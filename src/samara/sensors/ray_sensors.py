"""Ray sensors: depth camera and lidar. One equation describes every ray.

    ray = beam_ray(state, mounting, beam)
    distance = first_hit_distance(ray, solids)
    part.reading(distance, beam, normals)

Called with Python floats, it is the slow and simple reference. A flight compiles the same functions with the rays of an image
in the SIMD lanes (`samara.sim.ray_sensors`), and `samara.sensors.depth_jax` traces them for thousands of drones.
"""

from collections.abc import Sequence
from functools import lru_cache
from statistics import NormalDist
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, Union

import numpy as np

from samara.core.algebra import Quat, Vec3, matrix_from_quat, quat_exp, rotate
from samara.core.ops import floor, logical_or, where
from samara.core.quantity import Scalar, Tree
from samara.core.tree import flatten, unflatten
from samara.physics.ground.solids import Box
from samara.physics.types import State
from samara.sensors.sensor import AT_CENTRE, ONLY_GROUND, MeasurementInputs, Mounting, RayScene, Sensor, reading_sensor
from samara.world.obstacles import Ray
from samara.world.rays import first_hit_distance

if TYPE_CHECKING:
    from samara.sensors.depth_camera import DepthCameraPart
    from samara.sensors.lidar import LidarPart

RayPart: TypeAlias = Union["LidarPart", "DepthCameraPart"]
MAX_RAYS = 16_384  # 128 × 128: each is a field of the recording
MILLIMETRE = 1e-3  # default resolution of readings, as in most depth images (16UC1)
MIN_RESOLUTION_RATIO = 1e-6  # resolution over the largest distance: a limit of single precision
NO_RETURN = 0.0  # reading of a ray without a hit in range


class Beam(NamedTuple):
    """One ray in the sensor's axes: a unit vector, and the time between its emission and the reading [s]."""

    direction_S: Vec3
    age: Scalar = 0.0


class RaySensor(NamedTuple):
    """The model of a ray sensor: its part, its mounting, and the scene it detects.

    The part has the `shape` of an image (rows and columns), its `beams`, row by row, and the `reading` of a distance.
    """

    part: "RayPart"
    mounting: Mounting = AT_CENTRE
    scene: RayScene = ONLY_GROUND

    @property
    def ray_count(self) -> int:
        """The ray count."""
        rows, columns = self.part.shape
        return int(rows * columns)

    @property
    def is_camera(self) -> bool:
        """Whether it measures depths along its axis; a lidar measures distances along its rays."""
        return hasattr(self.part, "camera")

    @property
    def beams(self) -> Beam:
        """The beams of all rays; arrays of shape (rays,)."""
        return _beams(self.part)

    @property
    def normals_per_ray(self) -> int:
        """The count of normals per ray: one for noise, and another if readings can be lost."""
        return 1 + (self.part.dropout_rate > 0.0)


@lru_cache(maxsize=64)
def _beams(part: "RayPart") -> Beam:
    beams = part.beams()
    leaves = [np.array(leaf) for leaf in np.broadcast_arrays(*flatten(beams))]
    for leaf in leaves:
        leaf.setflags(write=False)
    read_only: Beam = unflatten(beams, iter(leaves))
    return read_only


def emission_pose(state: State, age: Scalar) -> tuple[Vec3, Quat]:
    """p = p_W − τ v,  q = q_WB ⊗ exp(−τ ω): the pose of the drone at emission

    Velocity and angular velocity are assumed constant since then. An age of literal 0 means emission at the present instant.
    """
    if isinstance(age, float) and age == 0.0:
        return state.p_W, state.q_WB
    return state.p_W - state.v_W * age, state.q_WB * quat_exp(state.omega_B * -age)


def beam_ray(state: State, mounting: Mounting, beam: Beam) -> Ray:
    """p = p_B + q ⊗ r_B,  d = q ⊗ q_BS ⊗ s: from the pose (p_B, q) of the drone at emission"""
    p_W, q_WB = emission_pose(state, beam.age)
    return Ray(p_W + rotate(q_WB, mounting.r_B), matrix_from_quat(q_WB * mounting.q_BS) @ beam.direction_S)


def range_reading(distance: Scalar, measured: Scalar, normals: Sequence[Scalar], part: "RayPart") -> Scalar:
    """Δ ⌊y/Δ + ½⌋ of a measured value y, Δ the resolution; 0 out of range and, with probability `dropout_rate`, at random"""
    no_return = logical_or(distance < part.min_range, distance > part.max_range)
    if part.dropout_rate > 0.0:
        no_return = logical_or(no_return, normals[-1] < NormalDist().inv_cdf(min(part.dropout_rate, 1.0 - 1e-12)))
    steps = floor(measured / part.resolution + 0.5)
    return where(no_return, NO_RETURN, part.resolution * where(steps < 0.0, 0.0, steps))


def drone_box(p_W: Vec3, q_WB: Quat, lowest_B: Vec3, highest_B: Vec3) -> Box:
    """Return another drone as a box along its body axes, between its lowest and highest corners."""
    half = (highest_B - lowest_B) * 0.5
    return Box(p_W + rotate(q_WB, lowest_B + half), half, q_WB)


def build_ray_sensor(type_name: str, reading: Tree, model: RaySensor, name: str = "") -> Sensor:
    """Create the sensor of a ray-sensor model; called in Python, it evaluates ray by ray."""

    def equation(inputs: MeasurementInputs) -> tuple[Scalar, ...]:
        """yₖ = reading(min of all hits along ray k)"""
        solids, draws, readings = model.scene.surfaces(inputs.environment), model.normals_per_ray, []
        for k, leaves in enumerate(np.stack(flatten(model.beams), axis=1).tolist()):
            beam = Beam(Vec3(*leaves[:3]), *leaves[3:])
            distance = first_hit_distance(beam_ray(inputs.state, model.mounting, beam), solids)
            readings.append(model.part.reading(distance, beam, inputs.normals[draws * k : draws * (k + 1)]))
        return tuple(readings)

    return reading_sensor(
        type_name,
        reading,
        ("m",) * model.ray_count,
        equation,
        model.part,
        name=name,
        normals_needed=model.normals_per_ray * model.ray_count,
        model=model,
        traced=False,
    )


def require_count(type_name: str, part: "RayPart", *names: str) -> None:
    """Raise a ValueError if one of a part's counts is not a whole number from 1, or if it has too many rays."""
    rays = 1.0
    for name in names:
        count = getattr(part, name)
        if not (count >= 1.0 and float(count).is_integer()):
            raise ValueError(f"{type_name}.{name} = {count:g}: expected a whole number from 1")
        rays *= count
    if rays > MAX_RAYS:
        raise ValueError(
            f"{type_name}: {' × '.join(f'{getattr(part, count_name):g}' for count_name in names)} rays; "
            f"expected at most {MAX_RAYS}"
        )


def require_range(type_name: str, part: "RayPart", limit: float) -> None:
    """Raise a ValueError if the distance limits, the resolution or the dropout rate of a part are invalid."""
    if not part.min_range < part.max_range <= limit:
        raise ValueError(
            f"{type_name}.max_range = {part.max_range:g}: expected more than min_range, {part.min_range:g} m, "
            f"and at most {limit:g} m"
        )
    if not part.resolution >= MIN_RESOLUTION_RATIO * part.max_range:
        raise ValueError(
            f"{type_name}.resolution = {part.resolution:g}: expected at least {MIN_RESOLUTION_RATIO:g} of max_range, "
            f"{MIN_RESOLUTION_RATIO * part.max_range:g} m"
        )
    if part.dropout_rate > 1.0:
        raise ValueError(f"{type_name}.dropout_rate = {part.dropout_rate:g}: expected a fraction from 0 to 1")
