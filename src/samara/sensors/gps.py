"""The GPS receiver: latitude, longitude, altitude and velocity of its antenna, with delay and drifting errors."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Annotated, NamedTuple

from samara.core.algebra import ZERO, Vec3, cross, rotate, scale
from samara.core.picklable import picklable_factory
from samara.core.quantity import Quantity, Scalar
from samara.core.random import gauss_markov
from samara.physics.frames import Geodetic, geodetic_from_enu
from samara.physics.types import Vehicle
from samara.sensors.error_models import hold_last_valid, normal_vector, sample_validity
from samara.sensors.sensor import AT_CENTRE, MeasurementInputs, Mounting, Sensor, SensorType, reading_sensor
from samara.sensors.site import HOME, Site


class GpsPart(NamedTuple):
    """Parameters of a GPS receiver: white noise of each fix, and a Gauss–Markov drift of the position, both along each axis."""

    rate: Annotated[float, Quantity("Hz", 0.1, 100.0)]
    delay: Annotated[float, Quantity("s", 0.0, 1.0)]
    horizontal_noise: Annotated[float, Quantity("m", 0.0, 100.0)]
    vertical_noise: Annotated[float, Quantity("m", 0.0, 100.0)]
    horizontal_wander: Annotated[float, Quantity("m", 0.0, 100.0)]
    vertical_wander: Annotated[float, Quantity("m", 0.0, 100.0)]
    wander_time_constant: Annotated[float, Quantity("s", 1.0, 1e5)]
    velocity_noise: Annotated[float, Quantity("m/s", 0.0, 10.0)]
    dropout_rate: Annotated[float, Quantity("1", 0.0, 1.0)] = 0.0
    outages: Annotated[tuple[tuple[float, float], ...], Quantity("s", 0.0, 1e6)] = ()


class GpsReading(NamedTuple):
    """A fix: WGS-84 [rad, m], velocity east, north, up [m/s]; `valid` is 0 for a missing fix."""

    position: Geodetic
    v_W: Vec3
    valid: Scalar


class GpsState(NamedTuple):
    """The position drift [m], the last fix, and the fix count."""

    wander: Vec3
    last: GpsReading
    count: Scalar


class GpsModel(NamedTuple):
    """A receiver's part and mounting, and the world's origin."""

    part: GpsPart
    mounting: Mounting
    origin: Geodetic


def horizontal_vertical(horizontal: float, vertical: float) -> Vec3:
    """(h, h, v)"""
    return Vec3(horizontal, horizontal, vertical)


@lru_cache(maxsize=256)
@picklable_factory
def gps(part: GpsPart, mounting: Mounting = AT_CENTRE, where: Site = HOME, name: str = "") -> Sensor:
    """Create a GPS receiver for a site on Earth."""
    no_fix = GpsReading(where.origin, ZERO, 0.0)
    sigma = horizontal_vertical(part.horizontal_wander, part.vertical_wander)

    def initial(vehicle: Vehicle, normals: Sequence[Scalar]) -> GpsState:
        return GpsState(scale(normal_vector(normals, 0), sigma), no_fix, 0.0)

    def equation(inputs: MeasurementInputs) -> tuple[GpsReading, GpsState]:
        """p + R r + w + σ n on the ellipsoid,  v + R (ω × r) + σ_v n;  w a Gauss–Markov process"""
        state, normals, sensor_state = inputs.state, inputs.normals, inputs.sensor_state
        wander_inputs = zip(sensor_state.wander, normal_vector(normals, 0), sigma, strict=True)
        wander = Vec3(
            *(gauss_markov(w, n, inputs.dt, sigma=s, tau=part.wander_time_constant) for w, n, s in wander_inputs)
        )
        white = scale(normal_vector(normals, 3), horizontal_vertical(part.horizontal_noise, part.vertical_noise))
        p_W = state.p_W + rotate(state.q_WB, mounting.r_B) + wander + white
        v_W = state.v_W + rotate(state.q_WB, cross(state.omega_B, mounting.r_B))
        fix = GpsReading(
            geodetic_from_enu(p_W, where.origin), v_W + normal_vector(normals, 6) * part.velocity_noise, 1.0
        )
        valid = sample_validity(
            normals[9], sensor_state.count * inputs.dt, dropout_rate=part.dropout_rate, outages=part.outages
        )
        reading = hold_last_valid(valid, fix, sensor_state.last)
        return reading, GpsState(wander, reading, sensor_state.count + 1.0)

    return reading_sensor(
        "gps",
        no_fix,
        ("rad", "rad", "m") + ("m/s",) * 3 + ("1",),
        equation,
        part,
        name=name,
        normals_needed=10,
        initial=initial,
        start_normals=3,
        model=GpsModel(part, mounting, where.origin),
    )


TYPE = SensorType("gps", GpsPart, gps, has_site=True)
