"""Sensors of a drone: one measurement function each, with parameters from data sheets.

from samara.sensors import part

imu = part("bmi088").sensor(r_B=(0.02, 0.0, 0.01))
"""

from samara.core.lazy_import import lazy_attributes as _lazily
from samara.sensors.registry import PartError, SensorPart, part, part_names
from samara.sensors.sensor import IMU, Mounting, Sensor
from samara.sensors.site import Site, site_from_degrees

__all__ = [
    "IMU",
    "Mounting",
    "PartError",
    "RaySensor",
    "Sensor",
    "SensorPart",
    "Site",
    "allan_deviation",
    "depth_images",
    "part",
    "part_names",
    "site_from_degrees",
]  # fmt: skip

_LAZY = {
    "depth_images": "samara.sensors.depth_jax",
    "allan_deviation": "samara.sensors.error_models",
    "RaySensor": "samara.sensors.ray_sensors",
}
__getattr__, __dir__ = _lazily(__name__, __path__, _LAZY)
