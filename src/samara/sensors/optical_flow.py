"""The optical flow sensor: rotation of the image about the lens' two axes since the last reading.

The lens points along its x axis; y and z are across. A point in the centre of the image at distance s moves with the
angular velocity of the line of sight relative to the lens: its rotation, and its velocity over s.
"""

from functools import lru_cache
from typing import Annotated, NamedTuple

from samara.core.algebra import Vec3, cross, rotate_inverse
from samara.core.ops import clamp, logical_and, where
from samara.core.picklable import picklable_factory
from samara.core.quantity import Quantity, Scalar
from samara.physics.types import Environment, State
from samara.sensors.range_finder import surface_distance
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


class OpticalFlowPart(NamedTuple):
    """Parameters of a flow sensor: noise of each reading, the largest flow rate, and the range of distances in focus."""

    rate: Annotated[float, Quantity("Hz", 1.0, 1000.0)]
    delay: Annotated[float, Quantity("s", 0.0, 0.5)]
    noise: Annotated[float, Quantity("rad", 0.0, 1.0)]
    max_flow_rate: Annotated[float, Quantity("rad/s", 0.1, 100.0)]
    min_range: Annotated[float, Quantity("m", 0.0, 10.0)]
    max_range: Annotated[float, Quantity("m", 0.1, 1000.0)]


class FlowReading(NamedTuple):
    """Rotation angles since the last reading, right-handed about the sensor's y and z axes [rad]; time between readings [s];
    `valid` is 0 for distances out of range."""

    angle_y: Scalar
    angle_z: Scalar
    duration: Scalar
    valid: Scalar


class FlowModel(NamedTuple):
    """A flow sensor's part, mounting and scene."""

    part: OpticalFlowPart
    mounting: Mounting
    scene: RayScene = ONLY_GROUND


def flow_rate(
    state: State, mounting: Mounting, environment: Environment, scene: RayScene = ONLY_GROUND
) -> tuple[Scalar, Scalar, Scalar]:
    """(ω_y − v_z/s, ω_z + v_y/s, s): with v and ω of the lens in its axes, s the distance along x  [rad/s, m]

    A right-handed rotation about y and a motion along −z move the image in the same direction.
    """
    distance = surface_distance(state, mounting, environment, scene)
    v_B = rotate_inverse(state.q_WB, state.v_W) + cross(state.omega_B, mounting.r_B)
    v_S: Vec3 = rotate_inverse(mounting.q_BS, v_B)
    omega_S = rotate_inverse(mounting.q_BS, state.omega_B)
    s = where(distance > 1e-3, distance, 1e-3)
    return omega_S.y - v_S.z / s, omega_S.z + v_S.y / s, distance


@lru_cache(maxsize=256)
@picklable_factory
def optical_flow(
    part: OpticalFlowPart, mounting: Mounting = AT_CENTRE, name: str = "", scene: RayScene = ONLY_GROUND
) -> Sensor:
    """Create a flow sensor that points along its x axis."""

    def equation(inputs: MeasurementInputs) -> tuple[FlowReading, tuple[Scalar, Scalar]]:
        """θ = ½ (ω_last + ω_now) dt + σ n: the flow over the period, by the trapezoidal rule"""
        y, z, distance = flow_rate(inputs.state, mounting, inputs.environment, scene)
        in_range = logical_and(distance >= part.min_range, distance <= part.max_range)
        rates = tuple(clamp(rate, -part.max_flow_rate, part.max_flow_rate) for rate in (y, z))
        angles = [
            0.5 * (previous_rate + rate) * inputs.dt + part.noise * n
            for previous_rate, rate, n in zip(
                inputs.sensor_state, rates, (inputs.normals[0], inputs.normals[1]), strict=True
            )
        ]
        valid = where(in_range, 1.0, 0.0)
        valid_angles = [where(in_range, angle, 0.0) for angle in angles]
        return FlowReading(valid_angles[0], valid_angles[1], inputs.dt, valid), (rates[0], rates[1])

    return reading_sensor(
        "optical_flow",
        FlowReading(0.0, 0.0, 0.0, 0.0),
        ("rad", "rad", "s", "1"),
        equation,
        part,
        name=name,
        normals_needed=2,
        initial=lambda vehicle, normals: (0.0, 0.0),
        model=FlowModel(part, mounting, scene),
        traced=scene.is_traceable,
    )


TYPE = SensorType("optical_flow", OpticalFlowPart, optical_flow, detects="solids")
