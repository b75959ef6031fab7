"""σ² of what a sensor's part says of its noise: of one reading, about what it would read without noise.

White noise of density N has the variance N² f at f samples a second, and rounding to steps of Δ adds Δ²/12. The slow wander of
a GPS fix or of a pressure is included. Turn-on bias, scale and misalignment are not noise and are left out.
"""

from collections.abc import Mapping

from samara.sensors.barometer import BarometerPart
from samara.sensors.gps import GpsPart
from samara.sensors.imu import Accelerometer, Gyroscope, ImuPart
from samara.sensors.magnetometer import MagnetometerPart
from samara.sensors.sensor import Sensor


def variances_of(sensor: Sensor | None) -> Mapping[str, tuple[float, ...]]:
    """By the field of a reading; empty where the sensor is not made of a part"""
    part = getattr(sensor.about, "part", None) if sensor else None
    if isinstance(part, ImuPart):
        return {
            "omega_B": _sampled(part.gyroscope, part.rate),
            "specific_force_B": _sampled(part.accelerometer, part.rate),
        }
    if isinstance(part, MagnetometerPart):
        return {"field_B": (part.noise**2 + _rounding(part.resolution),) * 3}
    if isinstance(part, BarometerPart):
        return {"pressure": (part.noise**2 + part.drift**2 + _rounding(part.resolution),)}
    if isinstance(part, GpsPart):
        horizontal = part.horizontal_noise**2 + part.horizontal_wander**2
        return {"place": (horizontal, horizontal, part.vertical_noise**2 + part.vertical_wander**2)}
    return {}


def _sampled(triad: Gyroscope | Accelerometer, rate: float) -> tuple[float, ...]:
    """N² f + Δ²/12 of each axis"""
    return tuple(density**2 * rate + _rounding(triad.resolution) for density in triad.noise_density)


def _rounding(step: float) -> float:
    """Δ²/12"""
    return step**2 / 12.0
