"""The moment of airspeed: rotors in cross-flow turn the body's leading side up, in proportion to the airspeed.

Flights of small quadrotors show it; it is most of the torque that a thrust model leaves unexplained: 0.37 to 0.44 mN·m per
m/s on a brushed Crazyflie. Several causes are likely, and the model does not separate them: the wakes are skewed, so that the
rear rotors work in the wake of the front ones and produce less thrust; the skewed wakes press on arms and body behind the
centre; and stiff blades transmit the asymmetric lift of a disc in cross-flow to the hub. All of them grow with V_e/v_h, the
tangent of the wake's skew, and scale with thrust and size.

The law is empirical and linear in the airspeed: good up to about V_e = v_h, where the wakes have left the body, and not in the
vortex ring. Its coefficients belong to an airframe and hold for any air density, weight and rotor speed. Flapping with a hub
spring contains a part of the same moment: with both effects, that part counts twice.

`RollingMoment` and `ThrustFade` are those of Gazebo's motor models, so that a vehicle flies in Samara as it does in Gazebo.
The rolling moment is Martin and Salaün's (The True Role of Accelerometer Feedback in Quadrotor Control, ICRA 2010):
gz-sim's MulticopterMotorModel gives it one sign for all rotors, Gazebo Classic's motor model the sign of the rotor's spin.
Only Gazebo Classic fades the thrust, in climb and descent equally.
"""

from typing import Annotated, NamedTuple

from samara.core.algebra import Vec3, cross, dot, scale
from samara.core.ops import absolute, minimum, safe_divide, safe_norm, where
from samara.core.quantity import AirDensity, Quantity, RotorSpeed, Scalar
from samara.physics.rotors.blade_element import HubFlow
from samara.physics.rotors.inflow import ClimbSpeed, Induced, Thrust, hover_induced
from samara.physics.rotors.rotor import Rotor


class AirspeedMoment(NamedTuple):
    """Coefficients about the body's x and y axes. `arm` is l of every rotor; with 0, each has the arm of its position."""

    roll: Annotated[Scalar, Quantity("1", -2.0, 2.0)]
    pitch: Annotated[Scalar, Quantity("1", -2.0, 2.0)]
    arm: Annotated[Scalar, Quantity("m", 0.0, 1.0)] = 0.0


def wake_speed(v_hover: Induced, climb: ClimbSpeed) -> Scalar:
    """W = ½ (v_h + V_c + √(v_h² + V_c²)): the air through the disc, v_h at V_c = 0  [m/s]

    In a fast climb it is V_c + ½ v_h, within 9 % of momentum theory's ½ V_c + √(¼ V_c² + v_h²). In a fast
    descent that would vanish; this tends to ½ v_h.
    """
    return 0.5 * (v_hover + climb + safe_norm(v_hover, climb))


def airspeed_moment(
    thrust: Thrust, flow: HubFlow, rotor: Rotor, air_density: AirDensity, *, moment: AirspeedMoment
) -> Vec3:
    """τ = c ∘ (T l/W) u_e × a, without its part along a;  l = |r × a|, W = v_h in hover, c = (roll, pitch, their mean)  [N·m]

    With T = 2ρA v_h² it falls as √T when the rotor slows down, and is 0 for a stopped rotor.
    """
    v_hover = hover_induced(thrust, air_density, rotor.radius)
    arm = where(moment.arm > 0.0, moment.arm, safe_norm(*cross(rotor.r_B, rotor.axis_B)))
    lever = safe_divide(thrust * arm, wake_speed(v_hover, flow.climb))
    strength = Vec3(moment.roll, moment.pitch, 0.5 * (moment.roll + moment.pitch))
    tau_B = scale(strength, cross(flow.across_B, rotor.axis_B) * lever)
    return tau_B - rotor.axis_B * dot(tau_B, rotor.axis_B)


class RollingMoment(NamedTuple):
    """The moment of every rotor per rotor speed and airspeed across its axis."""

    coefficient: Annotated[Scalar, Quantity("N s^2/rad", 0.0, 1e-4)]


class ThrustFade(NamedTuple):
    """The airspeed along the axis at which the thrust vanishes."""

    airspeed: Annotated[Scalar, Quantity("m/s", 5.0, 100.0)]


def rolling_moment(speed: RotorSpeed, flow: HubFlow, rolling: RollingMoment) -> Vec3:
    """τ = −c |Ω| u_e  [N·m]"""
    return flow.across_B * (-rolling.coefficient * absolute(speed))


def thrust_fade_loss(thrust: Annotated[Scalar, Quantity("N", 0.0, 20.0)], flow: HubFlow, fade: ThrustFade) -> Scalar:
    """ΔT = −T min(|V_c|/V, 1)  [N]"""
    return -thrust * minimum(absolute(flow.climb) / fade.airspeed, 1.0)
