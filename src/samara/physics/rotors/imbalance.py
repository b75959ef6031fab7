"""Rotor vibration: an unbalanced propeller pulls at its hub once per revolution, and its thrust ripples twice.

The phase of each rotor is the state of the effect. It is not wrapped: double precision is sufficient for days, single precision
for about a minute at 1000 rad/s.
"""

from typing import TYPE_CHECKING, Annotated, NamedTuple, TypeAlias

from samara.core.algebra import Vec3, cross
from samara.core.ops import cos, sin
from samara.core.quantity import Quantity, RotorSpeed, Scalar, Tree
from samara.physics.effect import Effect, Wrench, add_wrenches
from samara.physics.rotors.blade_element import disc_axes
from samara.physics.rotors.propulsion import rotor_loads
from samara.physics.rotors.rotor import Rotor

if TYPE_CHECKING:
    from samara.physics.types import Command, Environment, State, Vehicle

Phase: TypeAlias = Annotated[Scalar, Quantity("rad", -10.0, 10.0)]
Unbalance: TypeAlias = Annotated[Scalar, Quantity("kg m", 0.0, 1e-3)]
Thrust: TypeAlias = Annotated[Scalar, Quantity("N", 0.0, 20.0)]
Ripple: TypeAlias = Annotated[Scalar, Quantity("1", 0.0, 0.5)]


class Imbalance(NamedTuple):
    """Mass times eccentricity of each rotor, and the ripple of its thrust, twice per revolution, relative to the mean."""

    unbalance: Annotated[tuple[Scalar, ...], Quantity("kg m", 0.0, 1e-3)]
    ripple: Ripple = 0.0


def unbalance_force(phase: Phase, speed: RotorSpeed, unbalance: Unbalance, rotor: Rotor) -> Vec3:
    """f = U Ω² (e₁ cos φ + s e₂ sin φ): rotates with the rotor, in its plane  [N]"""
    first_B, second_B = disc_axes(rotor.axis_B)
    rotating_B = first_B * cos(phase) + second_B * (rotor.spin * sin(phase))
    return rotating_B * (unbalance * speed * speed)


def ripple_force(phase: Phase, thrust: Thrust, ripple: Ripple, rotor: Rotor) -> Vec3:
    """f = ε T cos 2φ a: two blades pass the arm per revolution  [N]"""
    return rotor.axis_B * (ripple * thrust * cos(2.0 * phase))


def vibration_force(
    phase: Phase, speed: RotorSpeed, thrust: Thrust, unbalance: Unbalance, ripple: Ripple, rotor: Rotor
) -> Vec3:
    """f = U Ω² (e₁ cos φ + s e₂ sin φ) + ε T cos 2φ a: the total vibration force on a hub  [N]"""
    return unbalance_force(phase, speed, unbalance, rotor) + ripple_force(phase, thrust, ripple, rotor)


def _initial(vehicle: "Vehicle") -> tuple[Scalar, ...]:
    return tuple(0.0 for _ in vehicle.rotors)


def _phase_rates(
    effect_state: object, state: "State", command: "Command", vehicle: "Vehicle", environment: "Environment"
) -> tuple[Scalar, ...]:
    """φ̇ = Ω"""
    return tuple(state.rotor_speed)


def _wrench(phases: Tree, state: "State", command: "Command", vehicle: "Vehicle", environment: "Environment") -> Wrench:
    imbalance: Imbalance = vehicle["imbalance"]
    total = Wrench()
    for phase, speed, load, unbalance, rotor in zip(
        phases,
        state.rotor_speed,
        rotor_loads(state, vehicle, environment),
        imbalance.unbalance,
        vehicle.rotors,
        strict=True,
    ):
        f_B = vibration_force(phase, speed, load.thrust, unbalance, imbalance.ripple, rotor)
        total = add_wrenches(total, Wrench(f_B, cross(rotor.r_B, f_B)))
    return total


IMBALANCE = Effect("imbalance", _initial, _phase_rates, _wrench, planned=False, trimmed=False, state_unit="rad")
"""Its forces average to 0: trim ignores them."""
