"""Constraints in scenario files: tables of a `type` and its values, and keep-out constraints around the solids of a world.

    constraints = [{ type = "sphere", centre = [1, 0, 1], radius = 0.4, velocity = [0, 0.3, 0] }, { type = "speed", max = 2 }]

A table becomes an `OptionTable`, which is hashable, compares equal after a round trip through JSON or TOML, and is what a
recording contains. `build_constraint` makes the `Constraint` from it.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from samara.control.controller_type import (
    POSITIVE,
    OptionParser,
    OptionTable,
    is_finite_number,
    number_parser,
    suggest_names,
)
from samara.control.mpc.constraints import (
    Constraint,
    altitude_limits,
    half_space,
    keep_out_box,
    keep_out_capsule,
    keep_out_sphere,
    max_body_rate,
    max_speed,
    max_tilt,
    position_box,
)
from samara.core.algebra import quat_from_euler
from samara.core.sanitise import quote_value
from samara.physics.ground.contact import Ground
from samara.physics.ground.solids import Box, Capsule, Sphere
from samara.physics.types import Vehicle
from samara.vehicles.shape import tip_radius
from samara.world.obstacles import Solid

MAX_CONSTRAINTS = 64


def _parse_vector(value: Any) -> tuple[float, ...] | None:
    is_valid = isinstance(value, (list, tuple)) and len(value) == 3 and all(map(is_finite_number, value))
    return tuple(float(x) for x in value) if is_valid else None


def _parse_sides(value: Any) -> tuple[float, ...] | None:
    sides = _parse_vector(value)
    return sides if sides is not None and min(sides) > 0.0 else None


def _parse_rate(value: Any) -> float | tuple[float, ...] | None:
    rate: float | tuple[float, ...] | None = _parse_sides(value) if isinstance(value, (list, tuple)) else None
    return float(value) if is_finite_number(value) and value > 0.0 else rate


def _parse_direction(value: Any) -> tuple[float, ...] | None:
    direction = _parse_vector(value)
    return direction if direction is not None and any(direction) else None


VECTOR = OptionParser("three finite numbers", _parse_vector)
SIDES = OptionParser("three positive numbers", _parse_sides)
DIRECTION = OptionParser("three finite numbers, not all 0", _parse_direction)
RATE = OptionParser("a positive number, or three", _parse_rate)
NUMBER = number_parser("a finite number", lambda x: True)
TILT = number_parser("an angle between 0 and π rad", lambda x: 0.0 < x < math.pi)
DEGREES = "_deg"


class ConstraintType(NamedTuple):
    """A type of constraint in a file: its function, and the parsers of its required and its optional keys."""

    build: Callable[..., Constraint]
    required: Mapping[str, OptionParser]
    optional: Mapping[str, OptionParser] = {}

    @property
    def keys(self) -> dict[str, OptionParser]:
        """All keys, with the weight of a soft constraint."""
        return {**self.required, **self.optional, "weight": POSITIVE}


def _build_box(rotation_deg: Sequence[float] = (0.0, 0.0, 0.0), **values: Any) -> Constraint:
    return keep_out_box(q_WS=quat_from_euler(*map(math.radians, rotation_deg)), **values)


def _limit(build: Callable[..., Constraint]) -> Callable[..., Constraint]:
    """Return the function of a constraint that takes its limit as `max`."""
    return lambda *, max, weight=None: build(max, weight=weight)


CONSTRAINT_TYPES: dict[str, ConstraintType] = {
    "sphere": ConstraintType(keep_out_sphere, {"centre": VECTOR, "radius": POSITIVE}, {"velocity": VECTOR}),
    "capsule": ConstraintType(
        keep_out_capsule, {"start": VECTOR, "end": VECTOR, "radius": POSITIVE}, {"velocity": VECTOR}
    ),
    "solid_box": ConstraintType(
        _build_box, {"centre": VECTOR, "size": SIDES, "margin": POSITIVE}, {"rotation_deg": VECTOR, "velocity": VECTOR}
    ),
    "half_space": ConstraintType(half_space, {"normal": DIRECTION, "offset": NUMBER}),
    "box": ConstraintType(position_box, {"low": VECTOR, "high": VECTOR}),
    "altitude": ConstraintType(altitude_limits, {"low": NUMBER, "high": NUMBER}),
    "speed": ConstraintType(_limit(max_speed), {"max": POSITIVE}),
    "tilt": ConstraintType(_limit(max_tilt), {"max": TILT}),
    "body_rate": ConstraintType(_limit(max_body_rate), {"max": RATE}),
}
"""The types of constraints that a scenario file may have."""


def parse_constraints(value: Any) -> tuple[OptionTable, ...] | None:
    """Parse a list of tables; None for another value, and a ValueError for an invalid table."""
    if not isinstance(value, (list, tuple)) or not len(value) <= MAX_CONSTRAINTS:
        return None
    return tuple(_parse_table(entry, f"constraints[{i}]") for i, entry in enumerate(value))


CONSTRAINTS = OptionParser(f"a list of at most {MAX_CONSTRAINTS} tables with a type", parse_constraints)


def _parse_table(entry: Any, name: str) -> OptionTable:
    """Parse one table; ValueError with the path of a key, such as 'constraints[1].radius = -1: expected …'."""
    entries = entry.values if isinstance(entry, OptionTable) else entry
    if not isinstance(entries, Mapping):
        raise ValueError(
            f'{name} = {quote_value(entry)}: expected a table, as {{ type = "sphere", centre = [1, 0, 1], radius = 0.4 }}'
        )
    type_name = entries.get("type")
    if not isinstance(type_name, str) or type_name not in CONSTRAINT_TYPES:
        if "type" not in entries:
            raise ValueError(f"{name}.type is missing: expected one of {', '.join(CONSTRAINT_TYPES)}")
        ending = suggest_names(str(type_name), CONSTRAINT_TYPES)
        raise ValueError(f"{name}.type = {quote_value(type_name)}: there is no such constraint; {ending}")
    constraint_type = CONSTRAINT_TYPES[type_name]
    values: dict[str, Any] = {"type": str(type_name)}
    for key, value in entries.items():
        if key != "type":
            parsed_key, parsed = _parse_key(key, value, constraint_type, name, type_name)
            values[parsed_key] = parsed
    for key in constraint_type.required:
        if key not in values:
            raise ValueError(f"{name}.{key} is missing: expected {constraint_type.required[key].expected}")
    table = OptionTable(tuple(values.items()))
    try:
        build_constraint(table)
    except ValueError as error:  # values that do not fit each other
        raise ValueError(f"{name}: {error}") from None
    return table


def _parse_key(
    key: object, value: Any, constraint_type: ConstraintType, name: str, type_name: str
) -> tuple[str, object]:
    keys = constraint_type.keys
    radians_key = str(key).removesuffix(DEGREES)
    in_degrees = key not in keys and keys.get(radians_key) is TILT
    parser = keys[radians_key] if in_degrees else keys.get(str(key))
    if parser is None:
        ending = suggest_names(str(key), keys)
        raise ValueError(f"{name}.{key} = {quote_value(value)}: a {type_name} constraint has no such key; {ending}")
    parsed = parser.parse(math.radians(value) if in_degrees and is_finite_number(value) else value)
    if parsed is None:
        expected = "an angle between 0 and 180 degrees" if in_degrees else parser.expected
        raise ValueError(f"{name}.{key} = {quote_value(value)}: expected {expected}")
    return radians_key if in_degrees else str(key), parsed


def build_constraint(table: OptionTable) -> Constraint:
    """Return the constraint of a parsed table."""
    values = table.values
    return CONSTRAINT_TYPES[values.pop("type")].build(**values)


def build_constraints(entries: Iterable[OptionTable | Constraint]) -> tuple[Constraint, ...]:
    """Return the constraints of parsed tables; constraints pass unchanged."""
    return tuple(build_constraint(entry) if isinstance(entry, OptionTable) else entry for entry in entries)


NamedSolid: TypeAlias = tuple[str, Solid]
"""An obstacle's name and its solid."""


def solid_constraints(solids: Iterable[NamedSolid], vehicle: Vehicle, clearance: float) -> tuple[Constraint, ...]:
    """Return constraints that keep a vehicle, with its propellers, at a clearance from solids [m].

    Raises:
        ValueError: a solid is a height map.
    """
    margin = tip_radius(vehicle) + clearance
    return tuple(_solid_constraint(name, solid, margin)._replace(name=f"obstacle {name}") for name, solid in solids)


def _solid_constraint(name: str, solid: Solid, margin: float) -> Constraint:
    if isinstance(solid, Sphere):
        return keep_out_sphere(solid.centre_W, solid.radius + margin)
    if isinstance(solid, Capsule):
        if solid.start_W == solid.end_W:
            return keep_out_sphere(solid.start_W, solid.radius + margin)
        return keep_out_capsule(solid.start_W, solid.end_W, solid.radius + margin)
    if isinstance(solid, Box):
        return keep_out_box(solid.centre_W, solid.half * 2.0, margin, q_WS=solid.q_WS)
    if isinstance(solid, Ground):
        normal_W = solid.normal_W
        offset = sum(a * b for a, b in zip(normal_W, solid.point_W, strict=True))
        return half_space(normal_W, offset + margin)
    raise ValueError(f"avoid_obstacles: obstacle {name} is a height map; expected a sphere, capsule, box or plane")
