"""Drag of the airframe, linear and quadratic, and damping of its rotation; all relative to the air.

Coefficients are those at sea level (ρ₀ = 1.225 kg/m³); force and torque scale with ρ/ρ₀.
"""

from typing import TYPE_CHECKING, Annotated, NamedTuple

from samara.core.algebra import ZERO, Vec3, rotate_inverse, scale
from samara.core.ops import absolute, is_zero, safe_norm
from samara.core.quantity import Quantity, Scalar
from samara.physics.effect import Effect, Role, Wrench
from samara.physics.motion.body import AngularVelocity, Velocity
from samara.physics.rotors.rotor import density_ratio

if TYPE_CHECKING:
    from samara.physics.types import Command, Environment, State, Vehicle


class Drag(NamedTuple):
    """Drag coefficients along the three axes of the world or of the body; the isotropic one is equal in all directions."""

    linear: Annotated[Vec3, Quantity("N s/m", 0.0, 1.0)] = ZERO
    quadratic: Annotated[Vec3, Quantity("N s^2/m^2", 0.0, 1.0)] = ZERO
    isotropic: Annotated[Scalar, Quantity("N s^2/m^2", 0.0, 1.0)] = 0.0


class Damping(NamedTuple):
    """Angular damping about the three body axes."""

    linear: Annotated[Vec3, Quantity("N m s/rad", 0.0, 0.1)]


def drag_force(v_relative: Velocity, *, drag: Drag) -> Vec3:
    """f = −d₁ ∘ v − d₂ ∘ v|v| − d₃ ‖v‖ v, with v = velocity − wind in the axes of the coefficients  [N]

    d₂ acts axis by axis and is smaller in oblique flow; d₃ does not depend on the orientation of the axes.
    """
    linear = scale(drag.linear, v_relative)
    along_axes = linear + scale(drag.quadratic, Vec3(*(_signed_square(v) for v in v_relative)))
    if is_zero(drag.isotropic):
        return -along_axes  # x + 0 is not x where x is −0
    return -(along_axes + v_relative * (drag.isotropic * safe_norm(*v_relative)))


def _signed_square(v: Scalar) -> Scalar:
    return v * absolute(v)


def damping_torque(omega_B: AngularVelocity, *, damping: Damping) -> Vec3:
    """τ = −c ∘ ω  [N·m]"""
    return -scale(damping.linear, omega_B)


def _world_drag(
    effect_state: object, state: "State", command: "Command", vehicle: "Vehicle", environment: "Environment"
) -> Wrench:
    force = drag_force(state.v_W - environment.wind_W, drag=vehicle["drag"])
    return Wrench(f_W=force * density_ratio(environment.air_density))


def _body_drag(
    effect_state: object, state: "State", command: "Command", vehicle: "Vehicle", environment: "Environment"
) -> Wrench:
    v_B = rotate_inverse(state.q_WB, state.v_W - environment.wind_W)
    return Wrench(f_B=drag_force(v_B, drag=vehicle["drag"]) * density_ratio(environment.air_density))


def _angular_damping(
    effect_state: object, state: "State", command: "Command", vehicle: "Vehicle", environment: "Environment"
) -> Wrench:
    torque = damping_torque(state.omega_B, damping=vehicle["damping"])
    return Wrench(tau_B=torque * density_ratio(environment.air_density))


WORLD_AXES = Effect("drag", wrench=_world_drag, role=Role.DRAG, attitude_dependent=False)
BODY_AXES = Effect("drag", wrench=_body_drag, role=Role.DRAG)
ANGULAR = Effect("damping", wrench=_angular_damping, role=Role.DRAG, attitude_dependent=False)
