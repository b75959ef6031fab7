"""Where drones fly: the tables `[environment]`, `[ground]`, `[[solids]]` and `[[wind]]` of a scenario, and `collisions`."""

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
    """The air and the ground, and where on earth they are"""
    table = file.optional_table("environment")
    if table is None:
        return CALM, HOME
    degrees = {key: math.degrees(getattr(HOME.origin, key)) for key in ("latitude", "longitude")}
    degrees = {key: table.number(f"{key}_deg", own) for key, own in degrees.items()}
    altitude, year = HOME.origin.altitude, table.number("year", HOME.year)
    if "altitude" in table:
        altitude = table.number("altitude", above=-1000.0, upto=20000.0)
    with table.at():
        where = site.place(degrees["latitude"], degrees["longitude"], altitude, year)
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
    return CALM._replace(air_density=density, ground=ground), where


def read_world(file: Table, beside: Beside, environment: Environment, drones: tuple[Drone, ...]) -> World:
    """What stands about, and whether drones hit each other"""
    solids = [_placed(table, beside, k) for k, table in enumerate(file.tables("solids"))]
    if (twice := first_twice(own.name for own in solids)) is not None:
        raise file.wrong(f"two solids are called {twice!r}; expected a name for each")
    terrain, ground = None, file.optional_table("ground")
    if ground is not None:
        if "height_map" in ground:
            ground.entries["file"] = ground.entries.pop("height_map")
        terrain = _height_map(ground, beside)
        if environment.ground != CALM.ground:
            raise file.wrong("ground is a height map; expected no ground_height or ground_normal with it")
    strike = file.text("propeller_strike", "report", world.STRIKES)
    if isinstance(file.entries.get("collisions"), dict):
        between, collisions = file.table("collisions"), True
        material = _material(between)
        between.finish()
    else:
        collisions, material = file.flag("collisions", False), Material()
    made = World(tuple(solids), terrain, collisions, strike, material)
    for drone in drones:
        for own in solids:
            if distance_to(own.solid, drone.start_W) < -1e-6:
                raise file.wrong(f"{drone.name} starts inside {own}; expected it outside")
        if terrain is not None and drone.start_W.z < (height := terrain.below(drone.start_W).point_W.z) - 1e-6:
            raise file.wrong(
                f"{drone.name} starts at a height of {drone.start_W.z:g} m, below the ground; "
                f"expected {math.ceil(1e3 * height) / 1e3:g} m or more there"
            )
    return made


def _placed(table: Table, beside: Beside, k: int) -> Placed:
    name, kind = table.text("name", str(k)), table.text("kind", choices=SOLIDS)
    material = _material(table)
    if kind == "height_map":
        return Placed(name, _height_map(table, beside), material)
    given = {"rotation_deg": table.vector("rotation_deg", (0.0, 0.0, 0.0))} if kind == "box" else {}
    return Placed(name, table.call(SOLIDS[kind], **given), material)


def _material(table: Table) -> Material:
    numbers = table.given_numbers(Material._fields)
    for key, most in (("restitution", 1.0), ("friction", math.inf)):
        if not 0.0 <= numbers.get(key, 0.0) <= most:
            raise table.error(
                key, numbers[key], "a number from 0 to 1" if most == 1.0 else "a number that is not negative"
            )
    return Material(**numbers)


def _height_map(table: Table, beside: Beside) -> HeightMap:
    given: dict[str, Any] = {}
    if "file" in table:
        given["file"] = table.text("file")
        given["data"] = beside.bytes_of(table, "file", given["file"])
    made: HeightMap = table.call(world.height_map, **given)
    return made


WEST = 270.0  # [deg]: where a wind comes from that says only how fast it is


def read_wind(
    file: Table, beside: Beside, environment: Environment, drones: tuple[Drone, ...]
) -> tuple[WindSource, bool]:
    """The wind, and whether rotors feel it at their hubs"""
    if "wind" not in file:
        return NoWind(), False
    if isinstance(file.entries["wind"], dict):
        file.entries["wind"] = [file.entries["wind"]]
    found, at_hubs = [], False
    for table in file.tables("wind"):
        wanted = table.flag("at_hubs", False)
        source = _source(table, beside, environment)
        if wanted and not is_local(source):
            raise table.error("at_hubs", wanted, "a wind that depends on the place, as power_law, log_law or field do")
        if wanted and not any(own.vehicle.reads("hub_wind_W") for own in drones):
            feeling = [
                name for name, option in OPTIONS.items() if "hub_wind_W" in next(iter(option.models.values())).reads
            ]
            raise table.error("at_hubs", wanted, f"a drone that feels it, by {' or '.join(feeling)}")
        found.append(source)
        at_hubs |= wanted
    return (found[0] if len(found) == 1 else sources.Sum(tuple(found))), at_hubs


def _source(table: Table, beside: Beside, environment: Environment) -> WindSource:
    kind = table.text("kind", "constant", WINDS)
    maker: Any = WINDS[kind]
    parameters, given = signature(maker).parameters, dict[str, Any]()
    if "data" in parameters:
        given["name"] = table.text("file")
        given["data"] = beside.bytes_of(table, "file", given["name"])
    if "ground" in parameters and "ground" not in table.entries:
        given["ground"] = environment.ground.point_W.z
    if {"mean", "height"} <= set(parameters):
        given["height"] = 10.0  # unused: every drone is at its own height
        if isinstance(table.entries.get("mean"), dict):
            given["mean"] = _source(table.table("mean"), beside, environment)
        elif "mean" in table:
            given["mean"] = table.vector("mean")
    if "mean" not in given and ("from_deg" in table or "speed" in table):
        if not hasattr(maker, "from_direction"):
            key, what = ("from_deg", "direction") if "from_deg" in table else ("speed", "speed")
            reason = "there is no wind" if kind == "none" else f"{kind} has its own"
            raise table.error(key, table.entries[key], f"no {what}: {reason}")
        maker = maker.from_direction
        speed, direction = table.number("speed"), math.radians(table.number("from_deg", WEST))
        if speed < 0.0:
            raise table.error("speed", speed, "a number that is not negative")
        given |= {"speed": speed, "direction_from": direction}
    source: WindSource = table.call(maker, **given)
    return source
