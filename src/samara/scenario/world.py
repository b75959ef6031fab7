"""The world of a scenario: obstacles with names and materials, the shape of the ground, and the effects of contact.

    World((Obstacle("table", Box(Vec3(3.0, 0.0, 0.7), half=Vec3(0.6, 0.4, 0.02))),), collisions=True)

The functions here create it from the tables of a scenario file; a recording stores it as `world_json`, with height maps.
"""

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from samara.core.algebra import UP, ZERO, Vec3, norm, quat_from_euler
from samara.core.atomic_files import parse_json
from samara.core.coerce import is_number
from samara.core.sanitise import quote_value
from samara.core.tree import flatten, unflatten
from samara.physics.ground.contact import Ground
from samara.physics.ground.impact import Material
from samara.physics.ground.solids import Box, Capsule, Sphere
from samara.world.appearance import (
    DAYLIGHT,
    GATE_APPEARANCE,
    GATE_BARS,
    GROUND_APPEARANCE,
    TEXTURES,
    Appearance,
    CameraScene,
    CameraSurface,
    Light,
    PlacedGate,
    gate_boxes,
)
from samara.world.gates import Gate, GateSize
from samara.world.obstacles import TEMPLATES, HeightMap, Solid, classify_solid

PROPELLER_STRIKE_ACTIONS = ("report", "break")
WORLD_FILE = "world.json"


class Obstacle(NamedTuple):
    """A fixed solid, its name, its material for impacts, and its appearance for cameras."""

    name: str
    solid: Solid
    material: Material = Material()
    appearance: Appearance = Appearance()

    @property
    def shape(self) -> str:
        """Shape of the solid: plane, sphere, capsule, box or height_map."""
        return classify_solid(self.solid)

    def __str__(self) -> str:
        return f"obstacle {self.name} ({self.shape})"


class World(NamedTuple):
    """The obstacles, the ground if it is a height map, whether drones collide, and the effect of a propeller strike.

    A strike is reported; with "break", that motor also fails. The bars of the `gates` are among the obstacles. `ground` and
    `light` are for cameras.
    """

    obstacles: tuple[Obstacle, ...] = ()
    terrain: HeightMap | None = None
    collisions: bool = False
    propeller_strike: str = "report"
    drone: Material = Material()
    gates: tuple[PlacedGate, ...] = ()
    ground: Appearance = GROUND_APPEARANCE
    light: Light = DAYLIGHT

    @property
    def is_empty(self) -> bool:
        """Whether only the ground plane can be touched."""
        return not self.obstacles and self.terrain is None and not self.collisions

    @property
    def named_solids(self) -> tuple[tuple[str, Solid], ...]:
        """Name and solid of each obstacle, without the ground."""
        return tuple((obstacle.name, obstacle.solid) for obstacle in self.obstacles)


def camera_scene(world: World, ground: Ground | None) -> CameraScene:
    """Return what cameras see of a world above a ground plane (None: the plane below the drone) or its height map."""
    surfaces = tuple(
        CameraSurface(
            obstacle.solid,
            obstacle.appearance._replace(object_name=obstacle.appearance.object_name or obstacle.name),
        )
        for obstacle in world.obstacles
    )
    return CameraScene(surfaces, world.terrain or ground, world.ground, world.light, world.gates)


def gate_obstacles(placed: PlacedGate, appearance: Appearance = GATE_APPEARANCE) -> tuple[Obstacle, ...]:
    """Return the four bars of a gate as obstacles; for cameras they are one object."""
    boxes = gate_boxes(placed.gate, placed.sizes, placed.depth)
    look = appearance._replace(object_name=placed.name)
    return tuple(
        Obstacle(f"{placed.name}.{bar}", solid, appearance=look) for bar, solid in zip(GATE_BARS, boxes, strict=True)
    )


def sphere_obstacles(world: World, margin: float = 0.0) -> list[Sphere]:
    """Return the spheres, enlarged by the radius of the vehicle that must avoid them: obstacles for `MPC` [m]."""
    return [
        obstacle.solid._replace(radius=obstacle.solid.radius + margin)
        for obstacle in world.obstacles
        if isinstance(obstacle.solid, Sphere)
    ]


# From a scenario file -----------------------------------------------------------------------------------------------


def plane(point: Vec3 = ZERO, normal: Vec3 = UP) -> Ground:
    """Create the half-space below a point, against a direction of any length."""
    size = norm(normal)
    if not size > 0.0:
        raise ValueError(f"normal = {list(normal)}: expected a direction")
    return Ground(point, normal / size)


def sphere(centre: Vec3, radius: float) -> Sphere:
    """Create a ball."""
    return Sphere(centre, _require_positive("radius", radius))


def capsule(start: Vec3, end: Vec3, radius: float) -> Capsule:
    """Create a pole or a cable from start to end, with round ends."""
    return Capsule(start, end, _require_positive("radius", radius))


def box(centre: Vec3, size: Vec3, rotation_deg: Vec3 = ZERO) -> Box:
    """Create a box from its centre, its three sides, and roll, pitch and yaw."""
    half = Vec3(*(0.5 * _require_positive(f"size[{k}]", side) for k, side in enumerate(size)))
    return Box(centre, half, quat_from_euler(*(math.radians(angle) for angle in rotation_deg)))


def height_map(
    file: str = "",
    heights: Sequence[Sequence[float]] | None = None,
    spacing: float = 0.0,
    origin: Sequence[float] = (0.0, 0.0),
    data: bytes | None = None,
) -> HeightMap:
    """Create a height map from a file's data or from `heights`: `heights[i][j]` is the height at x = x₀ + i·s, y = y₀ + j·s."""
    if bool(file) == (heights is not None):
        raise ValueError("expected either a file (.npz, .npy, .csv) or rows of `heights`")
    if not isinstance(origin, (list, tuple)) or len(origin) != 2 or not all(is_number(x) for x in origin):
        raise ValueError(f"origin = {origin!r}: expected two numbers")
    corner = [float(x) for x in origin]
    if file:
        return HeightMap.from_file(file, spacing or None, corner, data)
    if not isinstance(heights, list) or not all(isinstance(row, list) and all(map(is_number, row)) for row in heights):
        raise ValueError("heights: expected lists of numbers, one for each x")
    if len({len(row) for row in heights}) != 1:
        raise ValueError("heights: expected lists of equal length")
    return HeightMap.from_grid(heights, spacing, corner)


def _require_positive(name: str, value: float) -> float:
    if not value > 0.0:
        raise ValueError(f"{name} = {value:g}: expected a number above 0")
    return value


# In a recording -------------------------------------------------------------------------------------------------------


def world_json(world: World) -> str:
    """Return a world as JSON, bit for bit, as a recording stores it, with height maps."""
    obstacles = [
        {
            "name": obstacle.name,
            "shape": obstacle.shape,
            "solid": _leaves(obstacle.solid),
            "material": [float(x) for x in obstacle.material],
            **({"appearance": obstacle.appearance} if obstacle.appearance != Appearance() else {}),
        }
        for obstacle in world.obstacles
    ]
    terrain = None if world.terrain is None else _leaves(world.terrain)
    fields = world._asdict() | {"obstacles": obstacles, "terrain": terrain}
    for name in ("gates", "ground", "light"):
        if fields[name] == World._field_defaults[name]:
            del fields[name]
    return json.dumps(fields)


def recorded_world(attachments: Mapping[str, bytes]) -> World:
    """Return the world of a recording from its attachments; an empty one if it has none."""
    return world_from_json(attachments[WORLD_FILE].decode("utf-8", "replace")) if WORLD_FILE in attachments else World()


def world_from_json(text: str) -> World:
    """Parse the world that `world_json` wrote; raise a ValueError if that fails."""
    try:
        data = parse_json(text)
        obstacles = tuple(
            Obstacle(
                str(entry["name"]),
                _solid(entry["shape"], entry["solid"]),
                _material(entry["material"]),
                _appearance(entry["appearance"]) if "appearance" in entry else Appearance(),
            )
            for entry in data["obstacles"]
        )
        terrain = None if data["terrain"] is None else HeightMap(*data["terrain"])
        return World(
            obstacles,
            terrain,
            bool(data["collisions"]),
            str(data["propeller_strike"]),
            _material(data["drone"]),
            tuple(_placed_gate(*values) for values in data.get("gates", ())),
            _appearance(data["ground"]) if "ground" in data else GROUND_APPEARANCE,
            _light(*data["light"]) if "light" in data else DAYLIGHT,
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(
            f"the obstacles of the recording cannot be read ({type(error).__name__}: {quote_value(str(error))}); "
            "expected a world"
        ) from None


def _leaves(solid: Solid) -> list[float]:
    if isinstance(solid, HeightMap):
        return [solid.x.tolist(), solid.y.tolist(), solid.z.tolist()]
    return [float(x) for x in flatten(solid)]


def _solid(shape: str, leaves: list[float]) -> Solid:
    if shape == "height_map":
        return HeightMap(*leaves)
    solid: Solid = unflatten(TEMPLATES[shape], iter(_numbers(leaves, len(flatten(TEMPLATES[shape])))))
    return solid


def _material(values: object) -> Material:
    return Material(*_numbers(values, len(Material._fields)))


def _appearance(values: list[Any]) -> Appearance:
    colour, texture, second, size, class_name, object_name = values
    if texture not in TEXTURES:
        raise ValueError(f"texture {quote_value(texture)}: expected one of {', '.join(TEXTURES)}")
    (texture_size,) = _numbers([size], 1)
    colours = (Vec3(*_numbers(values, 3)) for values in (colour, second))
    return Appearance(next(colours), texture, next(colours), texture_size, str(class_name), str(object_name))


def _placed_gate(name: str, gate: list[Any], sizes: list[Any], depth: float) -> PlacedGate:
    (p_W, yaw), (opening, frame) = gate, sizes
    (yaw, depth), (width, height), (frame_width, frame_height) = (
        _numbers([yaw, depth], 2),
        _numbers(opening, 2),
        _numbers(frame, 2),
    )
    pose = Gate(Vec3(*_numbers(p_W, 3)), yaw)
    return PlacedGate(str(name), pose, GateSize((width, height), (frame_width, frame_height)), depth)


def _light(sun_direction: object, sun: float, ambient: float, horizon: object, zenith: object) -> Light:
    direction_W, low, high = (Vec3(*_numbers(values, 3)) for values in (sun_direction, horizon, zenith))
    sun, ambient = _numbers([sun, ambient], 2)
    return Light(direction_W, sun, ambient, low, high)


def _numbers(values: object, count: int) -> list[float]:
    """Require a list of `count` finite numbers."""
    if not isinstance(values, list) or len(values) != count or not all(map(is_number, values)):
        raise ValueError(f"{quote_value(values)}: expected {count} finite numbers")
    return [float(value) for value in values]
