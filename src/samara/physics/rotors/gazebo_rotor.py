"""What Gazebo's motor models have besides kF Ω², kM Ω² and rotor drag: a rolling moment, and thrust that fades with climb.

They are here so that an aircraft of Gazebo flies in Samara as it does there. The rolling moment is Martin and Salaün's (The
True Role of Accelerometer Feedback in Quadrotor Control, ICRA 2010): gz-sim's MulticopterMotorModel gives it one sign for all
rotors, Gazebo Classic's motor model the sign of the rotor's turning. The fading of thrust is Classic's alone, in climb and
descent alike.
"""

from typing import Annotated, NamedTuple

from samara.core.algebra import Vec3
from samara.core.ops import absolute, minimum
from samara.core.quantity import Quantity, RotorSpeed, Scalar
from samara.physics.rotors.blade_element import HubFlow


class RollingMoment(NamedTuple):
    """The moment of every rotor per rotor speed and airspeed across its axis."""

    coefficient: Annotated[Scalar, Quantity("N s^2/rad", 0.0, 1e-4)]


class ThrustFade(NamedTuple):
    """The airspeed along the axis at which nothing is left of thrust."""

    airspeed: Annotated[Scalar, Quantity("m/s", 5.0, 100.0)]


def rolling_moment(speed: RotorSpeed, flow: HubFlow, rolling: RollingMoment) -> Vec3:
    """τ = −c |Ω| u_e  [N·m]"""
    return flow.across_B * (-rolling.coefficient * absolute(speed))


def faded_thrust(thrust: Annotated[Scalar, Quantity("N", 0.0, 20.0)], flow: HubFlow, fade: ThrustFade) -> Scalar:
    """ΔT = −T min(|V_c|/V, 1)  [N]"""
    return -thrust * minimum(absolute(flow.climb) / fade.airspeed, 1.0)
