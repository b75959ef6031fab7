"""The parts of a drone that can collide: body, feet, motors and propellers."""

from collections.abc import Sequence
from typing import NamedTuple

from samara.core.algebra import UP, Vec3
from samara.physics.ground.solids import Box
from samara.physics.types import State, Vehicle
from samara.scenario.flight_events import PartType, part_name
from samara.vehicles.shape import body_radius as hull_radius
from samara.world.collision import PartShape


class CollisionPart(NamedTuple):
    """A ball (radius may be 0), or with an axis a disc: a propeller. The contact model handles a foot on the ground."""

    kind: PartType
    number: int
    centre_B: Vec3
    radius: float
    axis_B: Vec3 | None = None

    @property
    def name(self) -> str:
        """Name of the part in messages."""
        return part_name(self.kind, self.number)

    @property
    def is_foot(self) -> bool:
        return self.kind is PartType.FOOT


def collision_parts(vehicle: Vehicle, body_radius: float | None = None) -> tuple[CollisionPart, ...]:
    """Return the body as a ball (of the radius in the vehicle's file), feet and motors as points, rotors as discs."""
    feet = vehicle["contact"].points_B if vehicle.has("contact") else ()
    ball_radius = hull_radius(vehicle) if body_radius is None else body_radius
    rotors = [(i, rotor) for i, rotor in enumerate(vehicle.rotors) if rotor.radius > 0.0]
    parts = [CollisionPart(PartType.BODY, -1, Vec3(0.0, 0.0, 0.0), ball_radius)]
    parts += [CollisionPart(PartType.FOOT, i, point_B, 0.0) for i, point_B in enumerate(feet)]
    parts += [CollisionPart(PartType.MOTOR, i, rotor.r_B, 0.0) for i, rotor in rotors]
    parts += [CollisionPart(PartType.PROPELLER, i, rotor.r_B, rotor.radius, rotor.axis_B) for i, rotor in rotors]
    return tuple(parts)


def part_shapes(parts: Sequence[CollisionPart]) -> tuple[PartShape, ...]:
    """Convert the parts to the shapes of `samara.world.collision`."""
    return tuple(
        PartShape(
            part.centre_B,
            part.axis_B or UP,
            0.0 if part.axis_B is None else part.radius,
            part.radius if part.axis_B is None else 0.0,
            float(part.is_foot),
        )
        for part in parts
    )


def hull_box(state: State, parts: Sequence[CollisionPart]) -> Box:
    """Return the box, in body axes, around all parts, which other drones collide with."""
    extents = [
        [abs(x) + (part.radius if part.axis_B is None else part.radius * (1.0 - a * a) ** 0.5) for x, a in pairs]
        for part in parts
        for pairs in [tuple(zip(part.centre_B, part.axis_B or (0.0, 0.0, 0.0), strict=True))]
    ]
    return Box(state.p_W, Vec3(*(max(max(extent[k] for extent in extents), 1e-3) for k in range(3))), state.q_WB)
