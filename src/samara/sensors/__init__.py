"""Sensors of a drone: one measurement function each, with parameters from data sheets.

from samara.sensors import part

imu = part("bmi088").sensor(r_B=(0.02, 0.0, 0.01))
"""

from samara.core.lazy_import import lazily as _lazily
from samara.sensors.registry import Part, PartError, part, part_names
from samara.sensors.sensor import IMU, Mounting, Sensor
from samara.sensors.site import Place, place

__all__ = [
    "IMU", "Eye", "Mounting", "Part", "PartError", "Place", "Sensor", "allan_deviation", "depth_images", "part",
    "part_names", "place",
]  # fmt: skip

_LAZY = {
    "depth_images": "samara.sensors.depth_jax",
    "allan_deviation": "samara.sensors.error_models",
    "Eye": "samara.sensors.ray_sensors",
}
__getattr__, __dir__ = _lazily(__name__, __path__, _LAZY)
