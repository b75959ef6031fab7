"""The body as others may hit it: a ball about its centre of mass. It pushes nothing; `sim/collide/impacts.py` asks for it."""

from typing import Annotated, NamedTuple

from samara.core.quantity import Quantity, Scalar
from samara.physics.effect import Effect, Role
from samara.physics.types import Vehicle


class Hull(NamedTuple):
    """How far the body reaches from its centre of mass, without arms and rotors."""

    radius: Annotated[Scalar, Quantity("m", 0.0, 1.0)]


BODY = Effect("body", role=Role.SHAPE)


def body_radius(vehicle: Vehicle) -> Scalar:
    """The radius of the vehicle's body; 0 unless its file says one  [m]"""
    return vehicle["body"].radius if vehicle.has("body") else 0.0
