"""What looks in many directions at once: a depth camera, a lidar. One equation is that of each of its rays.

    ray = ray_sent(state, mounting, beam)
    distance = first_hit(ray, solids)
    part.told(distance, beam, normals)

Asked with Python's floats it is the reference, slow and plain. A flight compiles the same functions with the rays of a picture
in the lanes (`samara.sim.ray_sensors`), and `samara.sensors.depth_jax` traces them for thousands of drones.
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
from samara.sensors.sensor import AT_CENTRE, ONLY_GROUND, Mounting, Sample, Scene, Sensor, reading_sensor
from samara.world.obstacles import Ray
from samara.world.rays import first_hit

if TYPE_CHECKING:
    from samara.sensors.depth_camera import DepthCameraPart
    from samara.sensors.lidar import LidarPart

RayPart: TypeAlias = Union["LidarPart", "DepthCameraPart"]
MOST_RAYS = 16_384  # 128 × 128: each is a field of the recording
MILLIMETRE = 1e-3  # what readings are whole multiples of by default, as in pictures of depth everywhere (16UC1)
FINEST = 1e-6  # of the farthest distance: a resolution that single precision still tells apart
NO_RETURN = 0.0  # what a ray says that met nothing it could tell


class Beam(NamedTuple):
    """One ray in the sensor's own axes: a unit vector, and how long before the reading it was sent [s]."""

    direction_S: Vec3
    age: Scalar = 0.0


class Eye(NamedTuple):
    """What a sensor with many rays was made of: its numbers, where it sits, and the scene it detects.

    Its part knows the `shape` of a picture (rows and columns), the `beams` in it, row by row, and what is `told` of a distance.
    """

    part: "RayPart"
    mounting: Mounting = AT_CENTRE
    scene: Scene = ONLY_GROUND

    @property
    def rays(self) -> int:
        """How many there are"""
        rows, columns = self.part.shape
        return int(rows * columns)

    @property
    def is_camera(self) -> bool:
        """Whether it says depths along its axis; a lidar says distances along its rays"""
        return hasattr(self.part, "camera")

    @property
    def beams(self) -> Beam:
        """All of them, (rays,)"""
        return _beams(self.part)

    @property
    def draws(self) -> int:
        """How many normals each ray takes: one for its noise, and another where readings are lost"""
        return 1 + (self.part.lost > 0.0)


@lru_cache(maxsize=64)
def _beams(part: "RayPart") -> Beam:
    made = part.beams()
    leaves = [np.array(leaf) for leaf in np.broadcast_arrays(*flatten(made))]
    for leaf in leaves:
        leaf.setflags(write=False)
    own: Beam = unflatten(made, iter(leaves))
    return own


def ray_sent(state: State, mounting: Mounting, beam: Beam) -> Ray:
    """p = p_W − τ v + q ⊗ r_B,  d = q ⊗ q_BS ⊗ s,  q = q_WB ⊗ exp(−τ ω): from where the drone was when it was sent

    Since then it has moved as it moves now. A ray whose age is a literal 0 was sent just now.
    """
    if isinstance(beam.age, float) and beam.age == 0.0:
        p_W, q_WB = state.p_W, state.q_WB
    else:
        p_W, q_WB = state.p_W - state.v_W * beam.age, state.q_WB * quat_exp(state.omega_B * -beam.age)
    return Ray(p_W + rotate(q_WB, mounting.r_B), matrix_from_quat(q_WB * mounting.q_BS) @ beam.direction_S)


def ranged(distance: Scalar, told: Scalar, normals: Sequence[Scalar], part: "RayPart") -> Scalar:
    """Δ ⌊told/Δ + ½⌋ of a distance within the limits of a part, Δ its resolution; 0 beyond them or, as often as `lost` says, at
    random"""
    missed = logical_or(distance < part.nearest, distance > part.farthest)
    if part.lost > 0.0:
        missed = logical_or(missed, normals[-1] < NormalDist().inv_cdf(min(part.lost, 1.0 - 1e-12)))
    counted = floor(told / part.resolution + 0.5)
    return where(missed, NO_RETURN, part.resolution * where(counted < 0.0, 0.0, counted))


def drone_box(p_W: Vec3, q_WB: Quat, lowest_B: Vec3, highest_B: Vec3) -> Box:
    """Another drone as a box along its axes, from its lowest corner to its highest"""
    half = (highest_B - lowest_B) * 0.5
    return Box(p_W + rotate(q_WB, lowest_B + half), half, q_WB)


def eye_sensor(kind: str, reading: Tree, eye: Eye, name: str = "") -> Sensor:
    """The sensor of an eye; asked in Python it goes from ray to ray"""

    def equation(now: Sample) -> tuple[Scalar, ...]:
        """yₖ = told(min of all hits along ray k)"""
        solids, each, said = eye.scene.surfaces(now.environment), eye.draws, []
        for k, leaves in enumerate(np.stack(flatten(eye.beams), axis=1).tolist()):
            beam = Beam(Vec3(*leaves[:3]), *leaves[3:])
            distance = first_hit(ray_sent(now.state, eye.mounting, beam), solids)
            said.append(eye.part.told(distance, beam, now.normals[each * k : each * (k + 1)]))
        return tuple(said)

    return reading_sensor(
        kind,
        reading,
        ("m",) * eye.rays,
        equation,
        eye.part,
        name=name,
        normals_needed=eye.draws * eye.rays,
        about=eye,
        traced=False,
    )


def require_count(kind: str, part: "RayPart", *names: str) -> None:
    """ValueError where one of a part's numbers is no count, or all of them together are too many rays"""
    rays = 1.0
    for name in names:
        count = getattr(part, name)
        if not (count >= 1.0 and float(count).is_integer()):
            raise ValueError(f"{kind}.{name} = {count:g}: expected a whole number from 1")
        rays *= count
    if rays > MOST_RAYS:
        raise ValueError(
            f"{kind}: {' × '.join(f'{getattr(part, own):g}' for own in names)} rays; expected at most {MOST_RAYS}"
        )


def require_range(kind: str, part: "RayPart", most: float) -> None:
    """ValueError where the limits of what a part can see are none"""
    if not part.nearest < part.farthest <= most:
        raise ValueError(
            f"{kind}.farthest = {part.farthest:g}: expected more than nearest, {part.nearest:g} m, and at most {most:g} m"
        )
    if not part.resolution >= FINEST * part.farthest:
        raise ValueError(
            f"{kind}.resolution = {part.resolution:g}: expected at least {FINEST:g} of farthest, {FINEST * part.farthest:g} m"
        )
    if part.lost > 1.0:
        raise ValueError(f"{kind}.lost = {part.lost:g}: expected a share from 0 to 1")
