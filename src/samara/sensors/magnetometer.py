"""The magnetometer: the Earth's field in its axes, distorted by the vehicle's iron."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Annotated, NamedTuple

from samara.core.algebra import ZERO, Mat3, Vec3, rotate_inverse
from samara.core.picklable import picklable_factory
from samara.core.quantity import Quantity, Scalar
from samara.sensors.error_models import normal_vector, quantise, saturate
from samara.sensors.sensor import AT_CENTRE, MeasurementInputs, Mounting, Sensor, SensorType, reading_sensor
from samara.sensors.site import HOME, Site, magnetic_field


class MagnetometerPart(NamedTuple):
    """Parameters of a magnetometer. Hard and soft iron are standard deviations between vehicles, `calibration_residual` the
    fraction that calibration leaves."""

    rate: Annotated[float, Quantity("Hz", 1.0, 1000.0)]
    delay: Annotated[float, Quantity("s", 0.0, 0.1)]
    noise: Annotated[float, Quantity("T", 0.0, 1e-4)]
    hard_iron: Annotated[float, Quantity("T", 0.0, 1e-3)]
    soft_iron: Annotated[float, Quantity("1", 0.0, 1.0)]
    calibration_residual: Annotated[float, Quantity("1", 0.0, 1.0)]
    full_scale: Annotated[float, Quantity("T", 1e-5, 1e-2)]
    resolution: Annotated[float, Quantity("T", 0.0, 1e-5)]


class MagnetometerReading(NamedTuple):
    """The magnetic field in the sensor's axes [T]."""

    field_B: Vec3


class IronErrors(NamedTuple):
    """Hard iron b_S [T] and soft iron A: y = A x + b."""

    hard: Vec3
    soft: Mat3


class MagnetometerModel(NamedTuple):
    """A magnetometer's part and mounting, and the magnetic field at its site."""

    part: MagnetometerPart
    mounting: Mounting
    field_W: Vec3


def draw_iron_errors(normals: Sequence[Scalar], part: MagnetometerPart) -> IronErrors:
    """b = σ_b n,  A = 1 + σ_A N, symmetric: from nine normals, after calibration"""
    s = part.soft_iron * part.calibration_residual
    xx, yy, zz, xy, xz, yz = (s * n for n in normals[3:9])
    return IronErrors(
        normal_vector(normals, 0) * (part.hard_iron * part.calibration_residual),
        Mat3(1.0 + xx, xy, xz, xy, 1.0 + yy, yz, xz, yz, 1.0 + zz),
    )


@lru_cache(maxsize=256)
@picklable_factory
def magnetometer(part: MagnetometerPart, mounting: Mounting = AT_CENTRE, where: Site = HOME, name: str = "") -> Sensor:
    """Create a magnetometer for a site on Earth."""
    field_W = magnetic_field(where)

    def equation(inputs: MeasurementInputs) -> tuple[MagnetometerReading, IronErrors]:
        """y = Q(clamp(A R_SBᵀ R_WBᵀ B_W + b + σ n))  [T]"""
        true = rotate_inverse(mounting.q_BS, rotate_inverse(inputs.state.q_WB, field_W))
        measured = (
            inputs.sensor_state.soft @ true + inputs.sensor_state.hard + normal_vector(inputs.normals, 0) * part.noise
        )
        return MagnetometerReading(quantise(saturate(measured, part.full_scale), part.resolution)), inputs.sensor_state

    return reading_sensor(
        "magnetometer",
        MagnetometerReading(ZERO),
        ("T",) * 3,
        equation,
        part,
        name=name,
        normals_needed=3,
        initial=lambda vehicle, normals: draw_iron_errors(normals, part),
        start_normals=9,
        model=MagnetometerModel(part, mounting, field_W),
    )


TYPE = SensorType("magnetometer", MagnetometerPart, magnetometer, has_site=True)
