"""Motion capture: the pose of a marker body, in the frame of the cameras."""

from functools import lru_cache
from typing import Annotated, NamedTuple

from samara.core.algebra import IDENTITY, ZERO, Quat, Vec3, conjugate, quat_exp, rotate, rotate_inverse
from samara.core.picklable import picklable_factory
from samara.core.quantity import Quantity, Scalar
from samara.sensors.error_models import hold_last_valid, normal_vector, sample_validity
from samara.sensors.sensor import AT_CENTRE, MeasurementInputs, Mounting, Sensor, SensorType, reading_sensor


class MotionCapturePart(NamedTuple):
    """Parameters of a motion capture system: pose noise, dropouts, and its frame M in the world: p_W = p_WM + R(q_WM) p_M."""

    rate: Annotated[float, Quantity("Hz", 1.0, 1000.0)]
    delay: Annotated[float, Quantity("s", 0.0, 0.5)]
    position_noise: Annotated[float, Quantity("m", 0.0, 1.0)]
    attitude_noise: Annotated[float, Quantity("rad", 0.0, 1.0)]
    dropout_rate: Annotated[float, Quantity("1", 0.0, 1.0)] = 0.0
    outages: Annotated[tuple[tuple[float, float], ...], Quantity("s", 0.0, 1e6)] = ()
    p_WM: Annotated[Vec3, Quantity("m", -1e3, 1e3)] = ZERO
    q_WM: Annotated[Quat, Quantity("1", -1.0, 1.0)] = IDENTITY


class PoseReading(NamedTuple):
    """The pose of the marker body in the frame of the cameras [m, 1]; `valid` is 0 when tracking is lost."""

    p_M: Vec3
    q_MB: Quat
    valid: Scalar


class MotionCaptureState(NamedTuple):
    """The last pose, and the pose count."""

    last: PoseReading
    count: Scalar


class PoseModel(NamedTuple):
    """A motion capture system's part and mounting."""

    part: MotionCapturePart
    mounting: Mounting


@lru_cache(maxsize=256)
@picklable_factory
def motion_capture(part: MotionCapturePart, mounting: Mounting = AT_CENTRE, name: str = "") -> Sensor:
    """Create a motion capture system; the marker body has the position and attitude of `mounting`."""
    no_pose = PoseReading(ZERO, IDENTITY, 0.0)

    def equation(inputs: MeasurementInputs) -> tuple[PoseReading, MotionCaptureState]:
        """p_M = R(q_WM)ᵀ (p + R r − p_WM) + σ n,  q = q_WM* ⊗ q_WB ⊗ q_BS ⊗ exp(σ n)"""
        state, normals, sensor_state = inputs.state, inputs.normals, inputs.sensor_state
        p_W = state.p_W + rotate(state.q_WB, mounting.r_B)
        p_M = rotate_inverse(part.q_WM, p_W - part.p_WM) + normal_vector(normals, 0) * part.position_noise
        attitude_error = quat_exp(normal_vector(normals, 3) * part.attitude_noise)
        pose = PoseReading(p_M, conjugate(part.q_WM) * state.q_WB * mounting.q_BS * attitude_error, 1.0)
        valid = sample_validity(
            normals[6], sensor_state.count * inputs.dt, dropout_rate=part.dropout_rate, outages=part.outages
        )
        reading = hold_last_valid(valid, pose, sensor_state.last)
        return reading, MotionCaptureState(reading, sensor_state.count + 1.0)

    return reading_sensor(
        "motion_capture",
        no_pose,
        ("m",) * 3 + ("1",) * 5,
        equation,
        part,
        name=name,
        normals_needed=7,
        initial=lambda vehicle, normals: MotionCaptureState(no_pose, 0.0),
        model=PoseModel(part, mounting),
    )


TYPE = SensorType("motion_capture", MotionCapturePart, motion_capture, faults=("vision",))
