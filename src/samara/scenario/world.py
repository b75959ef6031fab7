"""What stands in the world: solids with names and materials, the shape of the ground, and what a touch does.

    World((Placed("table", Box(Vec3(3.0, 0.0, 0.7), half=Vec3(0.6, 0.4, 0.02))),), collisions=True)

A scenario file's tables become it by the functions here, and a recording carries it as `world_json`, height maps and all.
"""

import json
import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from samara.core.algebra import UP, ZERO, Vec3, norm, quat_from_euler
from samara.core.atomic_files import parsed
from samara.core.coerce import is_number
from samara.core.sanitise import shown
from samara.core.tree import flatten, unflatten
from samara.physics.ground.contact import Ground
from samara.physics.ground.impact import Material
from samara.physics.ground.solids import Box, Capsule, Sphere
from samara.world.obstacles import TEMPLATES, HeightMap, Solid, kind_of

STRIKES = ("report", "break")
WORLD_FILE = "world.json"


class Placed(NamedTuple):
    """A solid that nothing moves, what it is called, and how things bounce off it."""

    name: str
    solid: Solid
    material: Material = Material()

    @property
    def kind(self) -> str:
        """plane, sphere, capsule, box or height_map"""
        return kind_of(self.solid)

    def __str__(self) -> str:
        return f"solid {self.name} ({self.kind})"


class World(NamedTuple):
    """The solids, the ground where it is a height map, whether drones hit each other, and what a propeller's strike does.

    A strike is reported, and with "break" that motor fails from then on.
    """

    solids: tuple[Placed, ...] = ()
    terrain: HeightMap | None = None
    collisions: bool = False
    propeller_strike: str = "report"
    drone: Material = Material()

    @property
    def empty(self) -> bool:
        """Whether there is nothing to touch but the ground's plane"""
        return not self.solids and self.terrain is None and not self.collisions


def spheres_of(world: World, around: float = 0.0) -> list[Sphere]:
    """Its spheres, each larger by the reach of who must not touch them: obstacles for `ILQR`  [m]"""
    return [
        own.solid._replace(radius=own.solid.radius + around) for own in world.solids if isinstance(own.solid, Sphere)
    ]


# From the words of a file -------------------------------------------------------------------------------------------


def plane(point: Vec3 = ZERO, normal: Vec3 = UP) -> Ground:
    """All that is below a point, against a direction that need not have length 1"""
    size = norm(normal)
    if not size > 0.0:
        raise ValueError(f"normal = {list(normal)}: expected a direction")
    return Ground(point, normal / size)


def sphere(center: Vec3, radius: float) -> Sphere:
    """A ball"""
    return Sphere(center, _above("radius", radius))


def capsule(a: Vec3, b: Vec3, radius: float) -> Capsule:
    """A pole or a cable from a to b, with round ends"""
    return Capsule(a, b, _above("radius", radius))


def box(center: Vec3, size: Vec3, rotation_deg: Vec3 = ZERO) -> Box:
    """A box by its centre, its three sides, and roll, pitch and yaw"""
    half = Vec3(*(0.5 * _above(f"size[{k}]", side) for k, side in enumerate(size)))
    return Box(center, half, quat_from_euler(*(math.radians(angle) for angle in rotation_deg)))


def height_map(
    file: str = "",
    rows: Sequence[Sequence[float]] | None = None,
    spacing: float = 0.0,
    origin: Sequence[float] = (0.0, 0.0),
    data: bytes | None = None,
) -> HeightMap:
    """Heights at the corners of a grid, from a file's data or written out: `rows[i][j]` at x = x₀ + i·s, y = y₀ + j·s"""
    if bool(file) == (rows is not None):
        raise ValueError("expected a file (.npz, .npy, .csv) or rows of heights, one of them")
    if not isinstance(origin, (list, tuple)) or len(origin) != 2 or not all(is_number(x) for x in origin):
        raise ValueError(f"origin = {origin!r}: expected two numbers")
    corner = [float(x) for x in origin]
    if file:
        return HeightMap.from_file(file, spacing or None, corner, data)
    if not isinstance(rows, list) or not all(isinstance(row, list) and all(map(is_number, row)) for row in rows):
        raise ValueError("rows: expected lists of numbers, one for each x")
    if len({len(row) for row in rows}) != 1:
        raise ValueError("rows: expected lists of equal length")
    return HeightMap.from_grid(rows, spacing, corner)


def _above(name: str, value: float) -> float:
    if not value > 0.0:
        raise ValueError(f"{name} = {value:g}: expected a number above 0")
    return value


# In a recording -------------------------------------------------------------------------------------------------------


def world_json(world: World) -> str:
    """All of a world's numbers, bit for bit: what a recording carries, height maps and all"""
    solids = [
        {"name": own.name, "kind": own.kind, "solid": _leaves(own.solid), "material": [float(x) for x in own.material]}
        for own in world.solids
    ]
    terrain = None if world.terrain is None else _leaves(world.terrain)
    return json.dumps(world._asdict() | {"solids": solids, "terrain": terrain})


def world_inside(attachments: Mapping[str, bytes]) -> World:
    """The world of a recording, by the files in it; an empty one where it carries none"""
    return world_from_json(attachments[WORLD_FILE].decode("utf-8", "replace")) if WORLD_FILE in attachments else World()


def world_from_json(text: str) -> World:
    """The world that `world_json` wrote; ValueError when it is none"""
    try:
        own = parsed(text)
        solids = tuple(
            Placed(str(each["name"]), _solid(each["kind"], each["solid"]), _material(each["material"]))
            for each in own["solids"]
        )
        terrain = None if own["terrain"] is None else HeightMap(*own["terrain"])
        return World(solids, terrain, bool(own["collisions"]), str(own["propeller_strike"]), _material(own["drone"]))
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(
            f"the solids of the recording cannot be read ({type(error).__name__}: {shown(str(error))}); expected a world"
        ) from None


def _leaves(solid: Solid) -> list[float]:
    if isinstance(solid, HeightMap):
        return [solid.x.tolist(), solid.y.tolist(), solid.z.tolist()]
    return [float(x) for x in flatten(solid)]


def _solid(kind: str, leaves: list[float]) -> Solid:
    if kind == "height_map":
        return HeightMap(*leaves)
    solid: Solid = unflatten(TEMPLATES[kind], iter(_numbers(leaves, len(flatten(TEMPLATES[kind])))))
    return solid


def _material(values: object) -> Material:
    return Material(*_numbers(values, len(Material._fields)))


def _numbers(values: object, count: int) -> list[float]:
    """Require a list of `count` finite numbers."""
    if not isinstance(values, list) or len(values) != count or not all(map(is_number, values)):
        raise ValueError(f"{shown(values)}: expected {count} finite numbers")
    return [float(value) for value in values]
