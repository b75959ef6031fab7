"""Sensors of a drone: one measurement function each, with parameters from data sheets.

from samara.sensors import part

imu = part("bmi088").sensor(r_B=(0.02, 0.0, 0.01))
"""

from typing import TYPE_CHECKING

from samara.core.lazy_import import lazy_exports
from samara.sensors.registry import PartError, SensorPart, part, part_names
from samara.sensors.sensor import IMU, Mounting, Sensor
from samara.sensors.site import Site, site_from_degrees

if TYPE_CHECKING:
    from samara.sensors.camera import CameraModel, render_camera
    from samara.sensors.camera_jax import camera_images
    from samara.sensors.depth_jax import depth_images
    from samara.sensors.error_models import allan_deviation
    from samara.sensors.ray_sensors import RaySensor
else:
    __getattr__, __dir__ = lazy_exports(__name__)

__all__ = [
    "IMU",
    "CameraModel",
    "Mounting",
    "PartError",
    "RaySensor",
    "Sensor",
    "SensorPart",
    "Site",
    "allan_deviation",
    "camera_images",
    "depth_images",
    "part",
    "part_names",
    "render_camera",
    "site_from_degrees",
]
