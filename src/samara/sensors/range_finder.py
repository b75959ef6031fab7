"""The range finder: distance to the nearest surface along its x axis."""

from functools import lru_cache
from typing import Annotated, NamedTuple

from samara.core.algebra import EAST, rotate
from samara.core.ops import logical_and, where
from samara.core.picklable import picklable_factory
from samara.core.quantity import Quantity, Scalar
from samara.physics.types import Environment, State
from samara.sensors.error_models import quantise
from samara.sensors.sensor import (
    AT_CENTRE,
    ONLY_GROUND,
    MeasurementInputs,
    Mounting,
    RayScene,
    Sensor,
    SensorType,
    reading_sensor,
)
from samara.world.obstacles import Ray, nearest_ray_distance


class RangeFinderPart(NamedTuple):
    """Parameters of a range finder: the standard deviation of a reading is noise + noise_growth · distance."""

    rate: Annotated[float, Quantity("Hz", 1.0, 1000.0)]
    delay: Annotated[float, Quantity("s", 0.0, 0.5)]
    min_range: Annotated[float, Quantity("m", 0.0, 10.0)]
    max_range: Annotated[float, Quantity("m", 0.1, 1000.0)]
    noise: Annotated[float, Quantity("m", 0.0, 10.0)]
    noise_growth: Annotated[float, Quantity("1", 0.0, 1.0)]
    resolution: Annotated[float, Quantity("m", 0.0, 1.0)]


class RangeReading(NamedTuple):
    """The distance [m]; `valid` is 0 outside the range of the part, where the distance is the nearer limit."""

    distance: Scalar
    valid: Scalar


class RangeModel(NamedTuple):
    """A range finder's part, mounting and scene."""

    part: RangeFinderPart
    mounting: Mounting
    scene: RayScene = ONLY_GROUND


def sensor_ray(state: State, mounting: Mounting) -> Ray:
    """Return the ray from the sensor along its x axis."""
    axis_B = rotate(mounting.q_BS, EAST)
    return Ray(state.p_W + rotate(state.q_WB, mounting.r_B), rotate(state.q_WB, axis_B))


def surface_distance(
    state: State, mounting: Mounting, environment: Environment, scene: RayScene = ONLY_GROUND
) -> Scalar:
    """min of `ray_distance` over the ground and the solids: 0 from inside a solid, 1e9 without a hit  [m]"""
    return nearest_ray_distance(sensor_ray(state, mounting), scene.surfaces(environment))


@lru_cache(maxsize=256)
@picklable_factory
def range_finder(
    part: RangeFinderPart, mounting: Mounting = AT_CENTRE, name: str = "", scene: RayScene = ONLY_GROUND
) -> Sensor:
    """Create a range finder that points along its x axis."""

    def equation(inputs: MeasurementInputs) -> RangeReading:
        """y = Q(s + (σ₀ + σ₁ s) n) for s within the range of the part"""
        distance = surface_distance(inputs.state, mounting, inputs.environment, scene)
        valid = where(logical_and(distance >= part.min_range, distance <= part.max_range), 1.0, 0.0)
        limit = where(distance < part.min_range, part.min_range, part.max_range)
        measured = quantise(distance + (part.noise + part.noise_growth * distance) * inputs.normals[0], part.resolution)
        return RangeReading(where(valid > 0.5, measured, limit), valid)

    return reading_sensor(
        "range_finder",
        RangeReading(0.0, 0.0),
        ("m", "1"),
        equation,
        part,
        name=name,
        normals_needed=1,
        model=RangeModel(part, mounting, scene),
        traced=scene.is_traceable,
    )


TYPE = SensorType("range_finder", RangeFinderPart, range_finder, detects="solids")
