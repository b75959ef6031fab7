"""The lidar: distances along beams that rotate, or scan a pattern, within the period of a reading.

The beams of one reading are emitted one after the other. The drone moves between the first and the last, which distorts the
point cloud as that of a real lidar.
"""

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Annotated, NamedTuple

import numpy as np

from samara.core.algebra import Vec3
from samara.core.ops import cos, sin
from samara.core.picklable import picklable_factory
from samara.core.quantity import Quantity, Scalar
from samara.sensors.ray_sensors import (
    MILLIMETRE,
    Beam,
    RaySensor,
    build_ray_sensor,
    range_reading,
    require_count,
    require_range,
)
from samara.sensors.sensor import AT_CENTRE, ONLY_GROUND, Mounting, RayScene, Sensor, SensorType

MAX_RANGE = 1000.0  # [m]


class LidarPart(NamedTuple):
    """Parameters of a lidar: the standard deviation of a reading is noise + noise_growth · distance.

    `channels` beams one above the other, from `min_elevation` to `max_elevation`, are emitted at `columns` instants while the
    head turns through `sweep` about z. With `petals` > 0 the head does not rotate: the beams scan a rosette with that petal
    count in the cone of half the sweep about x.
    """

    rate: Annotated[float, Quantity("Hz", 1.0, 1000.0)]
    delay: Annotated[float, Quantity("s", 0.0, 0.5)]
    channels: Annotated[float, Quantity("1", 1.0, 128.0)]
    columns: Annotated[float, Quantity("1", 1.0, 4096.0)]
    sweep: Annotated[float, Quantity("rad", 0.1, 2.0 * math.pi)]
    min_range: Annotated[float, Quantity("m", 0.0, 10.0)]
    max_range: Annotated[float, Quantity("m", 0.1, MAX_RANGE)]
    noise: Annotated[float, Quantity("m", 0.0, 1.0)]
    noise_growth: Annotated[float, Quantity("1", 0.0, 1.0)]
    min_elevation: Annotated[float, Quantity("rad", -1.5, 1.5)] = 0.0
    max_elevation: Annotated[float, Quantity("rad", -1.5, 1.5)] = 0.0
    dropout_rate: Annotated[float, Quantity("1", 0.0, 1.0)] = 0.0
    petals: Annotated[float, Quantity("1", 0.0, 1000.0)] = 0.0
    resolution: Annotated[float, Quantity("m", 1e-6, 0.1)] = MILLIMETRE

    @property
    def shape(self) -> tuple[int, int]:
        """Channels, from the highest down, and columns in the order of emission."""
        return int(self.channels), int(self.columns)

    def beams(self) -> Beam:
        """Return the beams of a turn from right to left, the last column at the reading's instant; or those of the
        rosette."""
        channel, column = (index.ravel().astype(float) for index in np.indices(self.shape))
        if self.petals:
            return rosette((column * self.channels + channel + 1.0) / (self.channels * self.columns), self)
        azimuth = self.sweep * ((column + 0.5) / self.columns - 0.5)
        elevation = self.max_elevation - (self.max_elevation - self.min_elevation) * channel / max(
            self.channels - 1.0, 1.0
        )
        cos_elevation = cos(elevation)
        direction_S = Vec3(cos_elevation * cos(azimuth), cos_elevation * sin(azimuth), sin(elevation))
        return Beam(direction_S, (1.0 - (column + 1.0) / self.columns) / self.rate)

    def reading(self, distance: Scalar, beam: Beam, normals: Sequence[Scalar]) -> Scalar:
        """s + (σ₀ + σ₁ s) n  [m]"""
        return range_reading(
            distance, distance + (self.noise + self.noise_growth * distance) * normals[0], normals, self
        )


def rosette(fraction: Scalar, part: LidarPart) -> Beam:
    """ρ = ½ sweep · cos(k θ),  θ = 2π u: a rose of k petals (2k for even k), at the fraction u of the period"""
    theta = 2.0 * math.pi * fraction
    rho = 0.5 * part.sweep * cos(part.petals * theta)
    sin_rho = sin(rho)
    direction_S = Vec3(cos(rho), sin_rho * cos(theta), sin_rho * sin(theta))
    return Beam(direction_S, (1.0 - fraction) / part.rate)


class LidarReading(NamedTuple):
    """Distances [m], channel by channel from the highest, in the order of emission; 0 without a return."""

    distance: tuple[tuple[Scalar, ...], ...]


@lru_cache(maxsize=256)
@picklable_factory
def lidar(part: LidarPart, mounting: Mounting = AT_CENTRE, name: str = "", scene: RayScene = ONLY_GROUND) -> Sensor:
    """Create a lidar whose head turns about its z axis; the centre of its sweep is along x."""
    require_count("lidar", part, "channels", "columns")
    require_range("lidar", part, MAX_RANGE)
    if not 0.0 < part.sweep <= 2.0 * math.pi + 1e-9:
        raise ValueError(f"lidar.sweep = {part.sweep:g}: expected an angle up to 2π rad")
    if not -0.5 * math.pi <= part.min_elevation <= part.max_elevation <= 0.5 * math.pi:
        raise ValueError(
            f"lidar.min_elevation = {part.min_elevation:g}: expected at most max_elevation, {part.max_elevation:g}, "
            "both within ±π/2 rad"
        )
    if not float(part.petals).is_integer():
        raise ValueError(f"lidar.petals = {part.petals:g}: expected a whole number, or 0 for a rotating head")
    model = RaySensor(part, mounting, scene)
    return build_ray_sensor("lidar", LidarReading(((0.0,) * part.shape[1],) * part.shape[0]), model, name)


TYPE = SensorType("lidar", LidarPart, lidar, detects="terrain", has_image=True)
