"""Sensors: what a drone can know of itself, as records of one function each.

from samara.sensors import part

imu = part("bmi088").sensor(r_B=(0.02, 0.0, 0.01))
"""

from samara.core.lazy_import import lazily as _lazily
from samara.sensors.registry import Part, PartError, part, part_names
from samara.sensors.sensor import Mounting, Sensor
from samara.sensors.site import Place, place

__all__ = ["Mounting", "Part", "PartError", "Place", "Sensor", "part", "part_names", "place"]

__getattr__, __dir__ = _lazily(__name__, __path__)
