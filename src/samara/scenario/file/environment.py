"""The surroundings: `[environment]`, `[ground]`, `[light]`, `[[obstacles]]`, `[[gates]]`, `[[wind]]` and `collisions`."""

import math
from collections.abc import Callable
from inspect import signature
from typing import Any

from samara.core.algebra import Vec3, norm
from samara.core.coerce import first_duplicate, is_number
from samara.core.toml import TomlTable
from samara.physics.air.atmosphere import density_at_height
from samara.physics.ground.contact import Ground
from samara.physics.ground.impact import Material
from samara.physics.types import CALM, Environment
from samara.scenario import world
from samara.scenario.file.referenced_files import ReferencedFiles
from samara.scenario.scenario import Drone
from samara.scenario.world import Obstacle, World, camera_scene
from samara.sensors import site
from samara.sensors.site import HOME, Site
from samara.vehicles.effects import OPTIONS
from samara.wind import sources
from samara.wind.registry import WINDS
from samara.wind.sources import NoWind, WindSource, is_local
from samara.world.appearance import (
    DAYLIGHT,
    GATE_APPEARANCE,
    GROUND_APPEARANCE,
    MAX_CLASSES,
    TEXTURES,
    Appearance,
    Light,
    PlacedGate,
    linear_colour,
)
from samara.world.gates import Gate, GateSize
from samara.world.obstacles import HeightMap, Solid, signed_distance

SHAPES: dict[str, Callable[..., Solid]] = {
    "plane": world.plane,
    "sphere": world.sphere,
    "capsule": world.capsule,
    "box": world.box,
    "height_map": world.height_map,
}


def read_environment(file: TomlTable) -> tuple[Environment, Site]:
    """Read the air, the ground, and the location of home on Earth."""
    table = file.optional_table("environment")
    if table is None:
        return CALM, HOME
    degrees = {key: math.degrees(getattr(HOME.origin, key)) for key in ("latitude", "longitude")}
    degrees = {key: table.number(f"{key}_deg", default) for key, default in degrees.items()}
    altitude, year = HOME.origin.altitude, table.number("year", HOME.year)
    if "altitude" in table:
        altitude = table.number("altitude", above=-1000.0, upto=20000.0)
    with table.error_context():
        home = site.site_from_degrees(degrees["latitude"], degrees["longitude"], altitude, year)
    density = density_at_height(altitude, home_density=CALM.air_density, home_altitude=0.0)
    if "air_density" in table:
        density = table.number("air_density", above=0.0, upto=10.0)
    ground = Ground()
    if "ground_normal" in table:
        normal = table.vector("ground_normal")
        if normal.z <= 0.0:
            raise table.error("ground_normal", list(normal), "a vector that points up")
        ground = Ground(normal_W=normal / norm(normal))
    if "ground_height" in table:
        ground = ground._replace(point_W=Vec3(0.0, 0.0, table.number("ground_height")))
    table.finish()
    return CALM._replace(air_density=density, ground=ground), home


def read_world(file: TomlTable, files: ReferencedFiles, environment: Environment, drones: tuple[Drone, ...]) -> World:
    """Read the obstacles, the ground's shape, and whether drones collide."""
    obstacles = [_read_obstacle(table, files, k) for k, table in enumerate(file.tables("obstacles"))]
    gates = []
    for k, table in enumerate(file.tables("gates")):
        placed, bars = _read_gate(table, k)
        gates.append(placed)
        obstacles += bars
    if (twice := first_duplicate(obstacle.name for obstacle in obstacles)) is not None:
        raise file.make_error(f"two obstacles are called {twice!r}; expected a name for each")
    terrain, ground, ground_look = None, file.optional_table("ground"), GROUND_APPEARANCE
    if ground is not None:
        ground_look = _read_appearance(ground, GROUND_APPEARANCE)
    if ground is not None and not ground.entries:
        ground.finish()
    elif ground is not None:
        if "height_map" in ground:
            ground.entries["file"] = ground.entries.pop("height_map")
        terrain = _height_map(ground, files)
        if environment.ground != CALM.ground:
            raise file.make_error("ground is a height map; expected no ground_height or ground_normal with it")
    strike = file.text("propeller_strike", "report", world.PROPELLER_STRIKE_ACTIONS)
    if isinstance(file.entries.get("collisions"), dict):
        collision_table, collisions = file.table("collisions"), True
        material = _material(collision_table)
        collision_table.finish()
    else:
        collisions, material = file.flag("collisions", False), Material()
    scenario_world = World(
        tuple(obstacles), terrain, collisions, strike, material, tuple(gates), ground_look, _read_light(file)
    )
    if len(camera_scene(scenario_world, None).class_names) > MAX_CLASSES:
        raise file.make_error(f"obstacles have more than {MAX_CLASSES} classes; expected fewer")
    for drone in drones:
        for obstacle in obstacles:
            if signed_distance(obstacle.solid, drone.start_W) < -1e-6:
                raise file.make_error(f"{drone.name} starts inside {obstacle}; expected it outside")
        if terrain is not None and drone.start_W.z < (height := terrain.tangent_plane(drone.start_W).point_W.z) - 1e-6:
            raise file.make_error(
                f"{drone.name} starts at a height of {drone.start_W.z:g} m, below the ground; "
                f"expected {math.ceil(1e3 * height) / 1e3:g} m or more there"
            )
    return scenario_world


def _read_obstacle(table: TomlTable, files: ReferencedFiles, k: int) -> Obstacle:
    name, shape = table.text("name", str(k)), table.text("shape", choices=SHAPES)
    material, appearance = _material(table), _read_appearance(table, Appearance())
    if shape == "height_map":
        return Obstacle(name, _height_map(table, files), material, appearance)
    arguments = {"rotation_deg": table.vector("rotation_deg", (0.0, 0.0, 0.0))} if shape == "box" else {}
    return Obstacle(name, table.call(SHAPES[shape], **arguments), material, appearance)


def _read_appearance(table: TomlTable, default: Appearance) -> Appearance:
    """Read the keys of an appearance: colour, texture, texture_colour, texture_size, class."""
    is_plain = "colour" in table and "texture" not in table and "texture_colour" not in table
    appearance = default._replace(
        texture=table.text("texture", "plain" if is_plain else default.texture, TEXTURES),
        texture_size=table.number("texture_size", default.texture_size, above=0.0),
        class_name=table.text("class", default.class_name),
    )
    return appearance._replace(
        colour=_read_colour(table, "colour", appearance.colour),
        texture_colour=_read_colour(table, "texture_colour", appearance.texture_colour),
    )


def _read_colour(table: TomlTable, key: str, default: Vec3) -> Vec3:
    if key not in table:
        return default
    with table.error_context():
        return linear_colour(table.text(key))


def _read_gate(table: TomlTable, k: int) -> tuple[PlacedGate, tuple[Obstacle, ...]]:
    """Read a gate and its bars: its centre, the heading of the flight through it, opening, frame and thickness."""
    name, centre = table.text("name", f"gate{k}"), table.vector("centre")
    yaw = math.radians(table.number("yaw_deg", 0.0))
    opening, frame = (_size(table, key) for key in ("opening", "frame"))
    if not all(outer > inner for inner, outer in zip(opening, frame, strict=True)):
        raise table.error("frame", list(frame), f"a width and a height above those of the opening, {list(opening)}")
    depth, appearance = table.number("depth", 0.05, above=0.0), _read_appearance(table, GATE_APPEARANCE)
    table.finish()
    placed = PlacedGate(name, Gate(centre, yaw), GateSize(opening, frame), depth)
    return placed, world.gate_obstacles(placed, appearance)


def _size(table: TomlTable, key: str) -> tuple[float, float]:
    value = table.take(key, "a width and a height")
    if not isinstance(value, list) or len(value) != 2 or not all(is_number(x) and x > 0.0 for x in value):
        raise table.error(key, value, "a width and a height above 0")
    return float(value[0]), float(value[1])


def _brightness(table: TomlTable, key: str, default: float) -> float:
    value = table.number(key, default, upto=100.0)
    if value < 0.0:
        raise table.error(key, value, "a number from 0 to 100")
    return value


def _read_light(file: TomlTable) -> Light:
    """Read the table `[light]`: azimuth (from x towards y) and elevation of the sun, brightness of sun and sky, its colours."""
    table = file.optional_table("light")
    if table is None:
        return DAYLIGHT
    s = DAYLIGHT.sun_direction_W
    azimuth = math.radians(table.number("azimuth_deg", math.degrees(math.atan2(s.y, s.x))))
    elevation = math.radians(table.number("elevation_deg", math.degrees(math.asin(s.z)), above=-90.0, upto=90.0))
    light = DAYLIGHT._replace(
        sun=_brightness(table, "sun", DAYLIGHT.sun),
        ambient=_brightness(table, "ambient", DAYLIGHT.ambient),
    )
    c = math.cos(elevation)
    light = light._replace(sun_direction_W=Vec3(c * math.cos(azimuth), c * math.sin(azimuth), math.sin(elevation)))
    light = light._replace(
        horizon=_read_colour(table, "horizon", light.horizon), zenith=_read_colour(table, "zenith", light.zenith)
    )
    table.finish()
    return light


def _material(table: TomlTable) -> Material:
    numbers = table.present_numbers(Material._fields)
    for key, max_value in (("restitution", 1.0), ("friction", math.inf)):
        if not 0.0 <= numbers.get(key, 0.0) <= max_value:
            raise table.error(
                key, numbers[key], "a number from 0 to 1" if max_value == 1.0 else "a number that is not negative"
            )
    return Material(**numbers)


def _height_map(table: TomlTable, files: ReferencedFiles) -> HeightMap:
    arguments: dict[str, Any] = {}
    if "file" in table:
        arguments["file"] = table.text("file")
        arguments["data"] = files.read_file(table, "file", arguments["file"])
    terrain: HeightMap = table.call(world.height_map, **arguments)
    return terrain


MAX_WIND_SPEED = 150.0  # [m/s]: the strongest gust ever measured had 113
WEST = 270.0  # [deg]: default direction that a wind comes from


def read_wind(
    file: TomlTable, files: ReferencedFiles, environment: Environment, drones: tuple[Drone, ...]
) -> tuple[WindSource, bool]:
    """Read the wind, and whether each rotor uses the wind at its own hub."""
    if "wind" not in file:
        return NoWind(), False
    if hasattr(file.entries["wind"], "sample"):  # an object of a Python call
        return file.entries.pop("wind"), False
    if isinstance(file.entries["wind"], dict):
        file.entries["wind"] = [file.entries["wind"]]
    wind_sources, per_rotor = [], False
    for table in file.tables("wind"):
        is_requested = table.flag("per_rotor", False)
        source = _read_source(table, files, environment)
        if is_requested and not is_local(source):
            raise table.error(
                "per_rotor", is_requested, "a wind that depends on the position, as power_law, log_law or field do"
            )
        if is_requested and not any(drone.vehicle.reads("hub_wind_W") for drone in drones):
            effect_names = [
                name for name, option in OPTIONS.items() if "hub_wind_W" in next(iter(option.models.values())).reads
            ]
            raise table.error(
                "per_rotor", is_requested, f"a drone with an effect that uses it: {' or '.join(effect_names)}"
            )
        wind_sources.append(source)
        per_rotor |= is_requested
    return (wind_sources[0] if len(wind_sources) == 1 else sources.WindSum(tuple(wind_sources))), per_rotor


def _read_source(table: TomlTable, files: ReferencedFiles, environment: Environment) -> WindSource:
    model = table.text("model", "constant", WINDS)
    factory: Any = WINDS[model]
    parameters, arguments = signature(factory).parameters, dict[str, Any]()
    if "data" in parameters:
        arguments["name"] = table.text("file")
        arguments["data"] = files.read_file(table, "file", arguments["name"])
    if "ground" in parameters and "ground" not in table.entries:
        arguments["ground"] = environment.ground.point_W.z
    if {"mean", "height"} <= set(parameters):
        arguments["height"] = 10.0  # unused: the wind is evaluated at the height of each drone
        if isinstance(table.entries.get("mean"), dict):
            arguments["mean"] = _read_source(table.table("mean"), files, environment)
        elif "mean" in table:
            arguments["mean"] = table.vector("mean")
    if "mean" not in arguments and ("from_deg" in table or "speed" in table):
        if not hasattr(factory, "from_direction"):
            key, quantity = ("from_deg", "direction") if "from_deg" in table else ("speed", "speed")
            reason = "there is no wind" if model == "none" else f"{model} has its own"
            raise table.error(key, table.entries[key], f"no {quantity}: {reason}")
        factory = factory.from_direction
        speed, direction = table.number("speed"), math.radians(table.number("from_deg", WEST))
        if not 0.0 <= speed <= MAX_WIND_SPEED:
            raise table.error("speed", speed, f"a number from 0 to {MAX_WIND_SPEED:g}")
        arguments |= {"speed": speed, "direction_from": direction}
    source: WindSource = table.call(factory, **arguments)
    return source
