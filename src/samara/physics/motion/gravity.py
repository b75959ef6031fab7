"""Weight: uniform, or decreasing with the square of the distance from the Earth's centre."""

from typing import TYPE_CHECKING, Annotated, NamedTuple, TypeAlias

from samara.core.algebra import Vec3
from samara.core.quantity import Mass, Quantity, Scalar
from samara.physics.effect import Effect, Role, Wrench

if TYPE_CHECKING:
    from samara.physics.types import Command, Environment, State, Vehicle

EARTH_RADIUS = 6356766.0  # the radius the ISA 1976 uses for gravity [m]

Strength: TypeAlias = Annotated[Scalar, Quantity("m/s^2", 1.0, 20.0)]
Height: TypeAlias = Annotated[Scalar, Quantity("m", -1000.0, 50000.0)]


class Gravity(NamedTuple):
    """Free-fall acceleration at height 0."""

    acceleration: Strength


def weight(mass: Mass, g: Strength) -> Vec3:
    """f_W = −m g e₃  [N]"""
    return Vec3(0.0, 0.0, -(mass * g))


def potential_energy(height: Height, *, mass: Mass, g: Strength) -> Scalar:
    """U = m g h in uniform gravity, 0 at height 0  [J]"""
    return mass * g * height


def gravity_acceleration(height: Height, g: Strength) -> Scalar:
    """g(h) = g₀ (R / (R + h))², R = 6356.766 km  [m/s²]"""
    ratio = EARTH_RADIUS / (EARTH_RADIUS + height)
    return g * ratio * ratio


def _uniform_weight(
    effect_state: object, state: "State", command: "Command", vehicle: "Vehicle", environment: "Environment"
) -> Wrench:
    return Wrench(f_W=weight(vehicle.mass, vehicle["gravity"].acceleration))


def _spherical_weight(
    effect_state: object, state: "State", command: "Command", vehicle: "Vehicle", environment: "Environment"
) -> Wrench:
    return Wrench(f_W=weight(vehicle.mass, gravity_acceleration(state.p_W.z, vehicle["gravity"].acceleration)))


UNIFORM = Effect("gravity", wrench=_uniform_weight, role=Role.WEIGHT, attitude_dependent=False)
SPHERICAL = Effect("gravity", wrench=_spherical_weight, role=Role.WEIGHT, attitude_dependent=False)
