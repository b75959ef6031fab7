"""The surroundings: the tables `[environment]`, `[ground]`, `[[solids]]` and `[[wind]]` of a scenario, and `collisions`."""

import math
from collections.abc import Callable
from inspect import signature
from typing import Any

from samara.core.algebra import Vec3, norm
from samara.core.coerce import first_twice
from samara.core.toml import Table
from samara.physics.air.atmosphere import density_at_height
from samara.physics.ground.contact import Ground
from samara.physics.ground.impact import Material
from samara.physics.types import CALM, Environment
from samara.scenario import world
from samara.scenario.file.referenced_files import Beside
from samara.scenario.scenario import Drone
from samara.scenario.world import Placed, World
from samara.sensors import site
from samara.sensors.site import HOME, Place
from samara.vehicles.effects import OPTIONS
from samara.wind import sources
from samara.wind.registry import WINDS
from samara.wind.sources import NoWind, WindSource, is_local
from samara.world.obstacles import HeightMap, Solid, distance_to

SOLIDS: dict[str, Callable[..., Solid]] = {
    "plane": world.plane,
    "sphere": world.sphere,
    "capsule": world.capsule,
    "box": world.box,
    "height_map": world.height_map,
}


def read_environment(file: Table) -> tuple[Environment, Place]:
    """Read the air, the ground, and the location of home on Earth."""
    table = file.optional_table("environment")
    if table is None:
        return CALM, HOME
    degrees = {key: math.degrees(getattr(HOME.origin, key)) for key in ("latitude", "longitude")}
    degrees = {key: table.number(f"{key}_deg", default) for key, default in degrees.items()}
    altitude, year = HOME.origin.altitude, table.number("year", HOME.year)
    if "altitude" in table:
        altitude = table.number("altitude", above=-1000.0, upto=20000.0)
    with table.at():
        home = site.place(degrees["latitude"], degrees["longitude"], altitude, year)
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


def read_world(file: Table, files: Beside, environment: Environment, drones: tuple[Drone, ...]) -> World:
    """Read the solids, the ground's shape, and whether drones collide."""
    solids = [_read_obstacle(table, files, k) for k, table in enumerate(file.tables("solids"))]
    if (twice := first_twice(obstacle.name for obstacle in solids)) is not None:
        raise file.wrong(f"two solids are called {twice!r}; expected a name for each")
    terrain, ground = None, file.optional_table("ground")
    if ground is not None:
        if "height_map" in ground:
            ground.entries["file"] = ground.entries.pop("height_map")
        terrain = _height_map(ground, files)
        if environment.ground != CALM.ground:
            raise file.wrong("ground is a height map; expected no ground_height or ground_normal with it")
    strike = file.text("propeller_strike", "report", world.STRIKES)
    if isinstance(file.entries.get("collisions"), dict):
        collision_table, collisions = file.table("collisions"), True
        material = _material(collision_table)
        collision_table.finish()
    else:
        collisions, material = file.flag("collisions", False), Material()
    scenario_world = World(tuple(solids), terrain, collisions, strike, material)
    for drone in drones:
        for obstacle in solids:
            if distance_to(obstacle.solid, drone.start_W) < -1e-6:
                raise file.wrong(f"{drone.name} starts inside {obstacle}; expected it outside")
        if terrain is not None and drone.start_W.z < (height := terrain.below(drone.start_W).point_W.z) - 1e-6:
            raise file.wrong(
                f"{drone.name} starts at a height of {drone.start_W.z:g} m, below the ground; "
                f"expected {math.ceil(1e3 * height) / 1e3:g} m or more there"
            )
    return scenario_world


def _read_obstacle(table: Table, files: Beside, k: int) -> Placed:
    name, kind = table.text("name", str(k)), table.text("kind", choices=SOLIDS)
    material = _material(table)
    if kind == "height_map":
        return Placed(name, _height_map(table, files), material)
    arguments = {"rotation_deg": table.vector("rotation_deg", (0.0, 0.0, 0.0))} if kind == "box" else {}
    return Placed(name, table.call(SOLIDS[kind], **arguments), material)


def _material(table: Table) -> Material:
    numbers = table.given_numbers(Material._fields)
    for key, max_value in (("restitution", 1.0), ("friction", math.inf)):
        if not 0.0 <= numbers.get(key, 0.0) <= max_value:
            raise table.error(
                key, numbers[key], "a number from 0 to 1" if max_value == 1.0 else "a number that is not negative"
            )
    return Material(**numbers)


def _height_map(table: Table, files: Beside) -> HeightMap:
    arguments: dict[str, Any] = {}
    if "file" in table:
        arguments["file"] = table.text("file")
        arguments["data"] = files.bytes_of(table, "file", arguments["file"])
    terrain: HeightMap = table.call(world.height_map, **arguments)
    return terrain


WEST = 270.0  # [deg]: default direction that a wind comes from


def read_wind(
    file: Table, files: Beside, environment: Environment, drones: tuple[Drone, ...]
) -> tuple[WindSource, bool]:
    """Read the wind, and whether rotors feel it at their hubs."""
    if "wind" not in file:
        return NoWind(), False
    if isinstance(file.entries["wind"], dict):
        file.entries["wind"] = [file.entries["wind"]]
    wind_sources, at_hubs = [], False
    for table in file.tables("wind"):
        is_requested = table.flag("at_hubs", False)
        source = _source(table, files, environment)
        if is_requested and not is_local(source):
            raise table.error(
                "at_hubs", is_requested, "a wind that depends on the position, as power_law, log_law or field do"
            )
        if is_requested and not any(drone.vehicle.reads("hub_wind_W") for drone in drones):
            effect_names = [
                name for name, option in OPTIONS.items() if "hub_wind_W" in next(iter(option.models.values())).reads
            ]
            raise table.error("at_hubs", is_requested, f"a drone that feels it, by {' or '.join(effect_names)}")
        wind_sources.append(source)
        at_hubs |= is_requested
    return (wind_sources[0] if len(wind_sources) == 1 else sources.Sum(tuple(wind_sources))), at_hubs


def _source(table: Table, files: Beside, environment: Environment) -> WindSource:
    kind = table.text("kind", "constant", WINDS)
    factory: Any = WINDS[kind]
    parameters, arguments = signature(factory).parameters, dict[str, Any]()
    if "data" in parameters:
        arguments["name"] = table.text("file")
        arguments["data"] = files.bytes_of(table, "file", arguments["name"])
    if "ground" in parameters and "ground" not in table.entries:
        arguments["ground"] = environment.ground.point_W.z
    if {"mean", "height"} <= set(parameters):
        arguments["height"] = 10.0  # unused: the wind is evaluated at the height of each drone
        if isinstance(table.entries.get("mean"), dict):
            arguments["mean"] = _source(table.table("mean"), files, environment)
        elif "mean" in table:
            arguments["mean"] = table.vector("mean")
    if "mean" not in arguments and ("from_deg" in table or "speed" in table):
        if not hasattr(factory, "from_direction"):
            key, quantity = ("from_deg", "direction") if "from_deg" in table else ("speed", "speed")
            reason = "there is no wind" if kind == "none" else f"{kind} has its own"
            raise table.error(key, table.entries[key], f"no {quantity}: {reason}")
        factory = factory.from_direction
        speed, direction = table.number("speed"), math.radians(table.number("from_deg", WEST))
        if speed < 0.0:
            raise table.error("speed", speed, "a number that is not negative")
        arguments |= {"speed": speed, "direction_from": direction}
    source: WindSource = table.call(factory, **arguments)
    return source
