"""From a TOML file to a scenario: strict, and one sentence about what is wrong.

A table becomes a call: `kind = "circle"` of a task calls `samara.plan.trajectory.circle` with the table's other keys as its
arguments, `do = "go_to"` of an event calls `events.go_to`, and so on; what a function does not take is refused. A
key that ends in `_deg` is the angle without that ending, in degrees.
"""

import math
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from importlib import resources
from inspect import Parameter, signature
from pathlib import Path
from typing import Any, get_type_hints

from samara.control.named import CONTROLLERS
from samara.control.tuning import Tuned, tuned
from samara.core.algebra import Vec3, norm, quat_from_euler
from samara.core.argument import UnfitError, argument, is_number, radians
from samara.core.integrate import IN_FLIGHT
from samara.core.named_files import path_beside, read_bytes, read_text
from samara.core.printable import shown, shown_key
from samara.estimate.complementary import Gains, complementary
from samara.estimate.ekf import ekf
from samara.estimate.fusion import Fusion, Start
from samara.estimate.simple import TRUTH, Estimator, Noise, delayed_estimator, noisy_estimator
from samara.physics.air.atmosphere import air_density
from samara.physics.air.downwash import Downwash
from samara.physics.ground.contact import Ground
from samara.physics.ground.impact import Material
from samara.physics.types import CALM, Environment, Vehicle
from samara.plan import trajectory
from samara.plan.trajectory import Trajectory
from samara.scenario import events, world
from samara.scenario.autopilot import CONVENTIONS, VARIABLES, Autopilot, is_loopback
from samara.scenario.battery_failsafe import BatteryFailsafe
from samara.scenario.events import Event
from samara.scenario.prepare import prepared
from samara.scenario.scenario import Drone, Expect, Scenario
from samara.scenario.supply import battery_of
from samara.scenario.timeline import MICROSECONDS, Rates, microseconds, sampling
from samara.scenario.world import Placed, World
from samara.sensors import earth
from samara.sensors.earth import HOME, Place
from samara.sensors.loader import altered, parse_part, part, part_names
from samara.sensors.sensor import SENSORS, Sensor
from samara.vehicles.build import effects_by_name, switch_names, switch_on, switched
from samara.vehicles.effects import OPTIONS, EffectOption
from samara.vehicles.loader import parse_vehicle, vehicle
from samara.wind import sources as wind
from samara.wind.shear import LogLaw, PowerLaw
from samara.wind.sources import NoWind, WindSource, is_local
from samara.wind.table import Field, Replay
from samara.wind.turbulence import Dryden, VonKarman
from samara.world.obstacles import HeightMap, Solid, distance_to

SCHEMA = 1
TRANSFER_SPEED = 1.5  # [m/s], from where one task ends to where the next begins
LONGEST = 86400.0  # [s]
WEST = 270.0  # [deg]: where a wind comes from that says only how fast it is
MOST_DRONES = 10_000
MOST_POINTS = {"points": 5000, "gates": 300}  # a race takes time that grows with their square

BY_KIND = ("controller", "estimator", "autopilot")  # of a drone: a table, or the text that would be its `kind`

TASKS: dict[str, Callable[..., Trajectory]] = {
    "hover": trajectory.hover,
    "waypoints": trajectory.waypoints,
    "line": trajectory.line,
    "take_off": trajectory.take_off,
    "land": trajectory.land,
    "circle": trajectory.circle,
    "helix": trajectory.helix,
    "figure8": trajectory.figure8,
    "lissajous": trajectory.lissajous,
    "race": trajectory.race,
}
WINDS: dict[str, Callable[..., WindSource]] = {
    "none": wind.NoWind,
    "constant": wind.Constant,
    "step": wind.Step,
    "gust": wind.Gust,
    "turbulence": wind.OrnsteinUhlenbeck,
    "dryden": Dryden,
    "von_karman": VonKarman,
    "power_law": PowerLaw,
    "log_law": LogLaw,
    "field": Field.from_bytes,
    "replay": Replay.from_bytes,
}
SOLIDS: dict[str, Callable[..., Solid]] = {
    "plane": world.plane,
    "sphere": world.sphere,
    "capsule": world.capsule,
    "box": world.box,
    "height_map": world.height_map,
}
ACTIONS: dict[str, Callable[..., Any]] = {
    own.__name__: own
    for own in (
        events.arm,
        events.disarm,
        events.take_off,
        events.go_to,
        events.return_home,
        events.land,
        events.wind_step,
        events.gust,
        events.fail_motor,
        events.degrade_motor,
        events.restore_motor,
        events.disconnect_battery,
        events.connect_battery,
        events.fail_cell,
        events.fail_sensor,
        events.restore_sensor,
        events.freeze_estimator,
        events.unfreeze_estimator,
        events.add_payload,
        events.release_load,
    )
}


class ScenarioError(ValueError):
    """A scenario file with something wrong in it; the message is one sentence."""


def scenario_names() -> list[str]:
    """The names of the scenarios that come with Samara."""
    return sorted(
        entry.name[:-5] for entry in resources.files("samara.scenarios").iterdir() if entry.name.endswith(".toml")
    )


def load_scenario(
    name_or_path: str | Path, settings: Mapping[str, Any] | None = None, *, effects: Sequence[EffectOption] = ()
) -> Scenario:
    """A scenario by its shipped name or from a file; `settings` such as {"duration": 5.0} are put into the file first

    Its vehicles may have `effects` from outside the package, as `samara.vehicle` has it.
    """
    text, origin, folder = _file(name_or_path)
    own = parse_scenario(text, origin, settings, folder, effects=effects)
    if not is_name(own.name):  # runs are kept in a folder of this name
        raise ScenarioError(f"{origin}: name = {shown(own.name)}: expected {NAME}")
    return own


def scenario_document(name_or_path: str | Path, settings: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The tables of a scenario's file as they are written, with settings put in"""
    text, origin, _ = _file(name_or_path)
    document = _document(text, origin)
    for key, value in (settings or {}).items():
        _put(document, key, value, origin)
    return document


def steady_wind(name_or_path: str | Path, speed: float) -> dict[str, Any]:
    """The setting for a steady wind [m/s] in the place of a scenario's own: from where that comes, or else from the west"""
    blowing = scenario_document(name_or_path).get("wind", [])
    tables = [own for own in (blowing if isinstance(blowing, list) else [blowing]) if isinstance(own, dict)]
    directions = [own["from_deg"] for own in tables if "from_deg" in own]
    return {"wind": {"kind": "constant", "speed": speed, "from_deg": directions[0] if directions else WEST}}


def _file(name_or_path: str | Path) -> tuple[str, str, Path | None]:
    """The text of a scenario, what errors call it, and the folder its own files are in"""
    path = Path(name_or_path)
    if path.suffix == ".toml":
        try:
            return read_text(path), path.name, path.parent
        except (OSError, UnicodeDecodeError) as error:
            raise ScenarioError(f"{path}: cannot be read ({error}); expected a scenario file") from None
    if str(name_or_path) in scenario_names():
        entry = resources.files("samara.scenarios").joinpath(f"{name_or_path}.toml")
        return entry.read_text(encoding="utf-8"), f"{name_or_path}.toml", None
    raise ScenarioError(
        f"no scenario {str(name_or_path)!r}; expected a .toml file or one of {', '.join(scenario_names())}"
    )


def _document(text: str, origin: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise ScenarioError(f"{origin}: is not TOML ({error})") from None


NAME = "letters, digits, - and _"


def is_name(text: str) -> bool:
    """Whether a scenario or a drone may be called so: topics and files carry these names"""
    return bool(text) and all(letter.isalnum() or letter in "_-" for letter in text)


def first_twice(names: Iterable[str]) -> str | None:
    """The first name that is there before, in one pass; None where each is there once"""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None


def parse_scenario(
    text: str,
    origin: str,
    settings: Mapping[str, Any] | None = None,
    folder: Path | None = None,
    inside: Mapping[str, bytes] | None = None,
    *,
    effects: Sequence[EffectOption] = (),
) -> Scenario:
    """A scenario from the text of a file; `origin` is what errors call it, `folder` where its own vehicles and tables are

    `inside` are the files of the recording that the text is from: then nothing else is read, and no program is named.
    """
    document = _document(text, origin)
    for key, value in (settings or {}).items():
        _put(document, key, value, origin)
    file = _Table(document, origin, "")
    schema = file.take("schema", SCHEMA)
    if schema != SCHEMA or isinstance(schema, bool):
        raise file.error("schema", schema, f"{SCHEMA}; this Samara reads no other")
    name, description = file.text("name", _named_after(origin)), file.text("description", "")
    duration = file.number("duration", above=0.0, upto=LONGEST)
    seed = file.whole("seed", 0, low=0, high=2**63 - 1)
    integrator = file.text("integrator", "rk4", IN_FLIGHT)
    strict = file.flag("strict", False)
    with_axis = isinstance(document.get("rates"), dict) and "sensor" in document["rates"]
    rates = _rates(file)
    environment, where = _environment(file)
    beside = _Beside(folder, inside, settings or {}, effects)
    drones = _with_downwash(file, _drones(file, rates, beside, where))
    blowing, at_hubs = _wind(file, beside, environment, drones)
    rates = _sensor_axis(file, rates, drones, with_axis)
    happening = tuple(_event(table, drones) for table in file.tables("events"))
    scenario = Scenario(
        name,
        drones,
        duration,
        seed,
        rates,
        blowing,
        environment,
        happening,
        integrator,
        strict,
        _expect(file, drones),
        description,
        world=_world(file, beside, environment, drones),
        wind_at_hubs=at_hubs,
        files=beside.read,
        text=text,
        settings=dict(settings or {}),
    )
    file.finish()
    try:
        return prepared(scenario, where)
    except ValueError as error:
        raise ScenarioError(f"{origin}: {error}") from None


def _named_after(origin: str) -> str:
    return "".join(letter if is_name(letter) else "_" for letter in Path(origin).stem)


# Tables that know their names ---------------------------------------------------------------------------------------


class _Table:
    """A table of the file that forgets what was read, so that what is left over is unknown."""

    def __init__(self, entries: Any, origin: str, path: str) -> None:
        if not isinstance(entries, dict):
            raise ScenarioError(f"{origin}: {path} = {shown(entries)}: expected a table")
        self.entries, self.origin, self.path = dict(entries), origin, path
        self.asked: dict[str, None] = {}

    def name(self, key: str) -> str:
        return f"{self.path}.{key}" if self.path else key

    def error(self, key: str, value: Any, expected: str) -> ScenarioError:
        return ScenarioError(f"{self.origin}: {self.name(key)} = {shown(value)}: expected {expected}")

    def has(self, key: str) -> bool:
        self.asked[key] = None
        return key in self.entries

    def take(self, key: str, default: Any = None) -> Any:
        self.asked[key] = None
        if key not in self.entries:
            if default is None:
                raise ScenarioError(f"{self.origin}: {self.name(key)} is missing")
            return default
        return self.entries.pop(key)

    def text(self, key: str, default: str | None = None, choices: tuple[str, ...] = ()) -> str:
        value = self.take(key, default)
        if not isinstance(value, str) or (choices and value not in choices):
            raise self.error(key, value, f"one of {', '.join(choices)}" if choices else "a text")
        return value

    def flag(self, key: str, default: bool) -> bool:
        value = self.take(key, default) if self.has(key) else default
        if not isinstance(value, bool):
            raise self.error(key, value, "true or false")
        return value

    def number(
        self, key: str, default: float | None = None, *, above: float = -math.inf, upto: float = math.inf
    ) -> float:
        value = self.take(key, default)
        if not is_number(value) or not above < value <= upto:
            limits = [f"above {above:g}"] * (above > -math.inf) + [f"up to {upto:g}"] * (upto < math.inf)
            raise self.error(key, value, " ".join(["a number", " and ".join(limits)]).strip())
        return float(value)

    def whole(self, key: str, default: int, *, low: int, high: int) -> int:
        value = self.take(key, default) if self.has(key) else default
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise self.error(key, value, f"a whole number from {low} to {high}")
        return value

    def vector(self, key: str, default: Any = None) -> Vec3:
        value = self.take(key, default)
        if not isinstance(value, (list, tuple)) or len(value) != 3 or not all(is_number(x) for x in value):
            raise self.error(key, value, "three finite numbers")
        return Vec3(*(float(x) for x in value))

    def table(self, key: str) -> "_Table | None":
        return _Table(self.entries.pop(key), self.origin, self.name(key)) if self.has(key) else None

    def tables(self, key: str) -> list["_Table"]:
        value = self.entries.pop(key) if self.has(key) else []
        if not isinstance(value, list):
            raise self.error(key, value, "a list of tables")
        return [_Table(each, self.origin, f"{self.name(key)}[{i}]") for i, each in enumerate(value)]

    def finish(self) -> None:
        for key, value in self.entries.items():
            raise self.error(shown_key(key), value, f"only the keys {', '.join(self.asked)} here")

    def call(self, function: Callable[..., Any], **given: Any) -> Any:
        """function(**the rest of the table), every value of the type its parameter asks for"""
        hints = get_type_hints(function, include_extras=True)
        parameters = {key: own for key, own in signature(function).parameters.items() if key not in given}
        keywords: dict[str, Any] = dict(given)
        for key in list(self.entries):
            plain = key.removesuffix("_deg")
            if plain not in parameters:
                allowed = ", ".join(dict.fromkeys((*self.asked, *parameters))) or "none"
                raise self.error(shown_key(key), self.entries[key], f"only the keys {allowed} here")
            value = self.entries.pop(key)
            try:
                keywords[plain] = argument(radians(value) if key != plain else value, hints.get(plain))
            except UnfitError as error:
                raise self.error(key, value, str(error)) from None
        for key, own in parameters.items():
            if own.default is Parameter.empty and key not in keywords:
                raise ScenarioError(f"{self.origin}: {self.name(key)} is missing")
        try:
            return function(**keywords)
        except (ValueError, TypeError, ArithmeticError) as error:
            raise ScenarioError(f"{self.origin}: {self.path}: {error}") from None


# The parts of the file ----------------------------------------------------------------------------------------------


def _rates(file: _Table) -> Rates:
    table = file.table("rates")
    if table is None:
        return Rates()
    names = tuple(own.name for own in fields(Rates))
    values = {name: table.number(name, above=0.0) for name in names if table.has(name)}
    table.finish()
    rates = Rates(**values)
    try:
        rates.periods()
    except ValueError as error:
        raise ScenarioError(f"{file.origin}: {error}") from None
    return rates


def _sensor_axis(file: _Table, rates: Rates, drones: tuple[Drone, ...], given: bool) -> Rates:
    """The sensor axis of the file, which every sensor must fit, or the slowest they all fit into."""
    sensors = {sensor for drone in drones for sensor in drone.sensors}
    timed = [sensor for sensor in sensors if sensor.rate]
    try:
        if timed and not given:
            spans = [round(MICROSECONDS / sensor.rate) for sensor in timed]
            spans += [microseconds(sensor.delay, f"the delay of sensor {sensor.name!r}") for sensor in timed]
            rates = replace(rates, sensor=MICROSECONDS / math.gcd(*spans))
        for sensor in sensors:
            sampling(sensor, rates.periods()["sensor"])
    except ValueError as error:
        raise ScenarioError(f"{file.origin}: {error}") from None
    return rates


def _environment(file: _Table) -> tuple[Environment, Place]:
    table = file.table("environment")
    if table is None:
        return CALM, HOME
    density, where = CALM.air_density, HOME
    degrees = {key: math.degrees(getattr(HOME.origin, key)) for key in ("latitude", "longitude")}
    degrees = {key: table.number(f"{key}_deg", own) for key, own in degrees.items()}
    altitude, year = HOME.origin.altitude, table.number("year", HOME.year)
    if table.has("altitude"):
        altitude = table.number("altitude", above=-1000.0, upto=20000.0)
        density = air_density(altitude)
    try:
        where = earth.place(degrees["latitude"], degrees["longitude"], altitude, year)
    except ValueError as error:
        raise ScenarioError(f"{file.origin}: environment: {error}") from None
    if table.has("air_density"):
        density = table.number("air_density", above=0.0, upto=10.0)
    ground = Ground()
    if table.has("ground_normal"):
        normal = table.vector("ground_normal")
        if normal.z <= 0.0:
            raise table.error("ground_normal", list(normal), "a vector that points up")
        ground = Ground(normal_W=normal / norm(normal))
    if table.has("ground_height"):
        ground = ground._replace(point_W=Vec3(0.0, 0.0, table.number("ground_height")))
    table.finish()
    return CALM._replace(air_density=density, ground=ground), where


class _Beside:
    """The files that a scenario names, and what was read of them; and the effects that its vehicles may have.

    A file names those in its own folder, a recording those inside it. What came as a setting a person has typed: that may be
    anywhere, and may be a program.
    """

    def __init__(
        self,
        folder: Path | None,
        inside: Mapping[str, bytes] | None,
        settings: Mapping[str, Any],
        effects: Sequence[EffectOption],
    ) -> None:
        self.folder, self.inside, self.effects = folder or Path(), inside, effects
        self._typed = set(_texts(settings)) if inside is None else set()
        self.read: dict[str, bytes] = {}

    def trusts(self, text: Any) -> bool:
        return isinstance(text, str) and text in self._typed

    def path(self, table: _Table, key: str, name: str) -> Path:
        """Where the file is that a key names"""
        if self.inside is not None:
            raise table.error(key, name, "a file inside the recording")
        try:
            return self.folder / name if self.trusts(name) else path_beside(self.folder, name)
        except ValueError:
            expected = "a file beside the scenario or below it; --vehicle and --set may name any other"
            raise table.error(key, name, expected) from None

    def bytes_of(self, table: _Table, key: str, name: str) -> bytes:
        """What the file that a key names holds"""
        if self.inside is None or name not in self.inside:
            try:
                self.read[name] = read_bytes(self.path(table, key, name))
            except (OSError, ValueError) as error:
                if isinstance(error, ScenarioError):
                    raise
                why = getattr(error, "strerror", None) or error
                raise table.error(key, name, f"a file beside the scenario ({why})") from None
        else:
            self.read[name] = self.inside[name]
        return self.read[name]


def _texts(value: Any) -> Iterator[str]:
    """All texts in nested tables and lists"""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from _texts(each)
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from _texts(each)


def _world(file: _Table, beside: _Beside, environment: Environment, drones: tuple[Drone, ...]) -> World:
    """What stands about, and whether drones hit each other"""
    solids = [_placed(table, beside, k) for k, table in enumerate(file.tables("solids"))]
    if (twice := first_twice(own.name for own in solids)) is not None:
        raise ScenarioError(f"{file.origin}: two solids are called {twice!r}; expected a name for each")
    terrain, ground = None, file.table("ground")
    if ground is not None:
        if ground.has("height_map"):
            ground.entries["file"] = ground.take("height_map")
        terrain = _height_map(ground, beside)
        if environment.ground != CALM.ground:
            raise ScenarioError(
                f"{file.origin}: ground is a height map; expected no ground_height or ground_normal with it"
            )
    strike = file.text("propeller_strike", "report", world.STRIKES)
    if isinstance(file.entries.get("collisions"), dict):
        between, collisions = file.table("collisions"), True
        assert between is not None
        material = _material(between)
        between.finish()
    else:
        collisions, material = file.flag("collisions", False), Material()
    made = World(tuple(solids), terrain, collisions, strike, material)
    for drone in drones:
        for own in solids:
            if distance_to(own.solid, drone.start_W) < -1e-6:
                raise ScenarioError(f"{file.origin}: {drone.name} starts inside {own}; expected it outside")
        if terrain is not None and drone.start_W.z < (height := terrain.below(drone.start_W).point_W.z) - 1e-6:
            raise ScenarioError(
                f"{file.origin}: {drone.name} starts at a height of {drone.start_W.z:g} m, below the ground; "
                f"expected {math.ceil(1e3 * height) / 1e3:g} m or more there"
            )
    return made


def _placed(table: _Table, beside: _Beside, k: int) -> Placed:
    name, kind = table.text("name", str(k)), table.text("kind", choices=tuple(SOLIDS))
    material = _material(table)
    if kind == "height_map":
        return Placed(name, _height_map(table, beside), material)
    given = {"rotation_deg": table.vector("rotation_deg", (0.0, 0.0, 0.0))} if kind == "box" else {}
    return Placed(name, table.call(SOLIDS[kind], **given), material)


def _material(table: _Table) -> Material:
    numbers = {key: table.number(key) for key in Material._fields if table.has(key)}
    for key, most in (("restitution", 1.0), ("friction", math.inf)):
        if not 0.0 <= numbers.get(key, 0.0) <= most:
            raise table.error(
                key, numbers[key], "a number from 0 to 1" if most == 1.0 else "a number that is not negative"
            )
    return Material(**numbers)


def _height_map(table: _Table, beside: _Beside) -> HeightMap:
    given: dict[str, Any] = {}
    if table.has("file"):
        given["file"] = table.text("file")
        given["data"] = beside.bytes_of(table, "file", given["file"])
    made: HeightMap = table.call(world.height_map, **given)
    return made


def _wind(
    file: _Table, beside: _Beside, environment: Environment, drones: tuple[Drone, ...]
) -> tuple[WindSource, bool]:
    """The wind, and whether rotors feel it at their hubs"""
    if not file.has("wind"):
        return NoWind(), False
    if isinstance(file.entries["wind"], dict):
        file.entries["wind"] = [file.entries["wind"]]
    sources, at_hubs = [], False
    for table in file.tables("wind"):
        wanted = table.flag("at_hubs", False)
        source = _wind_source(table, beside, environment)
        if wanted and not is_local(source):
            raise table.error("at_hubs", wanted, "a wind that depends on the place, as power_law, log_law or field do")
        if wanted and not any(own.vehicle.reads("hub_wind_W") for own in drones):
            feeling = [
                name for name, option in OPTIONS.items() if "hub_wind_W" in next(iter(option.models.values())).reads
            ]
            raise table.error("at_hubs", wanted, f"a drone that feels it, by {' or '.join(feeling)}")
        sources.append(source)
        at_hubs |= wanted
    return (sources[0] if len(sources) == 1 else wind.Sum(tuple(sources))), at_hubs


def _wind_source(table: _Table, beside: _Beside, environment: Environment) -> WindSource:
    kind = table.text("kind", "constant", tuple(WINDS))
    maker: Any = WINDS[kind]
    given: dict[str, Any] = {}
    if kind in ("field", "replay"):
        given["name"] = table.text("file")
        given["data"] = beside.bytes_of(table, "file", given["name"])
    if "ground" in signature(maker).parameters and "ground" not in table.entries:
        given["ground"] = environment.ground.point_W.z
    if kind in ("dryden", "von_karman"):
        given["height"] = 10.0  # of none: every drone is at its own
        if isinstance(table.entries.get("mean"), dict):
            inner = table.table("mean")
            assert inner is not None
            given["mean"] = _wind_source(inner, beside, environment)
        elif table.has("mean"):
            given["mean"] = table.vector("mean")
    if "mean" not in given and (table.has("from_deg") or table.has("speed")):
        if not hasattr(maker, "from_direction"):
            key, what = ("from_deg", "direction") if table.has("from_deg") else ("speed", "speed")
            reason = "there is no wind" if kind == "none" else f"{kind} has its own"
            raise table.error(key, table.entries[key], f"no {what}: {reason}")
        maker = maker.from_direction
        speed, direction = table.number("speed"), math.radians(table.number("from_deg", WEST))
        if speed < 0.0:
            raise table.error("speed", speed, "a number that is not negative")
        given |= {"speed": speed, "direction_from": direction}
    source: WindSource = table.call(maker, **given)
    return source


def _with_downwash(file: _Table, drones: tuple[Drone, ...]) -> tuple[Drone, ...]:
    """The drones that have rotors, each felt by the others and feeling them, when the file says so"""
    if not file.has("downwash"):
        return drones
    if isinstance(file.entries["downwash"], bool):
        if not file.take("downwash"):
            return drones
        file.entries["downwash"] = {}
    table = file.table("downwash")
    assert table is not None
    numbers = {key: table.number(key) for key in Downwash._fields if table.has(key)}
    table.finish()
    made: dict[int, Vehicle] = {}
    for own in drones:
        if own.vehicle.rotors and id(own.vehicle) not in made:
            given = {**own.vehicle["downwash"]._asdict(), **numbers} if own.vehicle.has("downwash") else numbers
            try:
                made[id(own.vehicle)] = switch_on(own.vehicle, "downwash", **given)
            except ValueError as error:
                raise ScenarioError(f"{file.origin}: downwash: {error}") from None
    return tuple(replace(own, vehicle=made.get(id(own.vehicle), own.vehicle)) for own in drones)


def _drones(file: _Table, rates: Rates, beside: _Beside, where: Place) -> tuple[Drone, ...]:
    drones: list[Drone] = []
    for table in file.tables("drones"):
        drones += _copies(table, rates, beside, where, len(drones))
    if not drones:
        raise ScenarioError(f"{file.origin}: drones is missing: expected one [[drones]] at least")
    if (twice := first_twice(own.name for own in drones)) is not None:
        raise ScenarioError(f"{file.origin}: two drones are called {twice!r}; expected a name for each")
    return tuple(drones)


def _copies(table: _Table, rates: Rates, beside: _Beside, where: Place, before: int) -> list[Drone]:
    """One drone, or `count` of them in rows of `columns`, `spacing` apart, each with its tasks moved along."""
    name = table.text("name", f"drone{before}")
    if not is_name(name):
        raise table.error("name", name, NAME)
    count = table.whole("count", 1, low=1, high=MOST_DRONES)
    own_vehicle = _vehicle(table, beside, name if count == 1 else f"{name}0")
    start, yaw = table.vector("start", (0.0, 0.0, 0.0)), math.radians(table.number("yaw_deg", 0.0))
    controller = _controller(table)
    airborne, armed = table.flag("airborne", False), table.flag("armed", True)
    sensors = _sensors(table, beside, where)
    autopilot, failsafe = _autopilot(table, beside), _battery_failsafe(table, own_vehicle)
    estimator = _estimator(table, rates, sensors, own_vehicle)
    motor_map = _motor_map(table, len(own_vehicle.rotors))
    columns = table.whole("columns", count, low=1, high=MOST_DRONES)
    spacing = table.vector("spacing", (1.0, 1.0, 0.0))
    try:
        task = _tasks(table.tables("tasks"), start, yaw)
    except ArithmeticError as error:  # a way of 1e-300 m
        raise ScenarioError(f"{table.origin}: {table.name('tasks')} cannot be flown ({error})") from None
    table.finish()
    made = []
    for i in range(count):
        shift = Vec3(spacing.x * (i % columns), spacing.y * (i // columns), spacing.z * i)
        made.append(
            Drone(
                name if count == 1 else f"{name}{i}",
                own_vehicle,
                task.moved(shift),
                start + shift,
                yaw,
                airborne,
                armed,
                controller,
                estimator,
                motor_map,
                sensors,
                autopilot,
                failsafe,
            )
        )
    return made


def _controller(table: _Table) -> str | Tuned:
    """A name, or a table of its kind and the numbers chosen of it."""
    if not table.has("controller") or not isinstance(table.entries["controller"], dict):
        return table.text("controller", "geometric", tuple(CONTROLLERS))
    own = table.table("controller")
    assert own is not None
    kind = own.text("kind", "geometric", tuple(CONTROLLERS))
    try:
        return tuned(kind, **own.entries) if own.entries else kind
    except ValueError as error:
        raise ScenarioError(f"{own.origin}: {own.path}.{error}") from None


def _vehicle(table: _Table, beside: _Beside, drone: str) -> Any:
    name, flown = table.text("vehicle"), f"vehicle/{drone}.toml"
    if beside.inside is not None and flown in beside.inside:  # as it flew, with the effects it had
        table.entries.pop("effects", None)
        text = beside.inside[flown].decode("utf-8", "replace")
        return parse_vehicle(text, f"{drone}.toml", effects=beside.effects)
    try:
        file = beside.path(table, "vehicle", name) if name.endswith(".toml") else name
        own = vehicle(file, effects=beside.effects)
    except ScenarioError:
        raise
    except ValueError as error:
        raise ScenarioError(f"{table.origin}: {table.name('vehicle')} = {name!r}: {error}") from None
    return _with_effects(table, own, beside) if table.has("effects") else own


def _with_effects(table: _Table, own: Vehicle, beside: _Beside) -> Vehicle:
    """The vehicle with effects by their names, or by a table of them: true, false, or numbers in SI units"""
    wanted = table.take("effects")
    if isinstance(wanted, list) and all(isinstance(name, str) for name in wanted):
        wanted = effects_by_name(wanted)
    if not isinstance(wanted, dict):
        raise table.error(
            "effects", wanted, f"a list of names among {', '.join(switch_names(own))}, or a table of them"
        )
    for numbers in wanted.values():
        if isinstance(numbers, dict) and str(numbers.get("blade", "")).endswith(".toml"):
            numbers["blade"] = str(beside.path(table, "effects", str(numbers["blade"])))
    try:
        return switched(own, wanted)
    except ValueError as error:
        raise ScenarioError(f"{table.origin}: {table.name('effects')}: {error}") from None


def _autopilot(table: _Table, beside: _Beside) -> Autopilot | None:
    """The autopilot that flies it: its kind, or a table of kind, rate, on_loss and so on.

    A file does not say which program is run, nor who may reach this machine: whoever flies it does.
    """
    if not table.has("autopilot"):
        return None
    if isinstance(table.entries["autopilot"], str):
        table.entries["autopilot"] = {"kind": table.entries["autopilot"]}
    own = table.table("autopilot")
    assert own is not None
    for key, harmless, expected in (
        (
            "binary",
            lambda text: not text,
            "no program in a file: name it by --binary, --set, in Python, or in {variable}",
        ),
        ("host", is_loopback, "this machine, 127.0.0.1, in a file: name another by --set or in Python"),
    ):
        named = own.entries.get(key, "")
        if isinstance(named, str) and named and not harmless(named) and not beside.trusts(named):
            if beside.inside is None:
                raise own.error(
                    key, named, expected.format(variable=VARIABLES.get(str(own.entries.get("kind")), "SAMARA_PX4"))
                )
            del own.entries[key]
    numbers = own.table("parameters")
    given = {} if numbers is None else {key: numbers.number(key) for key in list(numbers.entries)}
    version = own.entries.get("convention")
    if isinstance(version, (int, float)):  # 2026.12 without quotes is a number
        own.entries["convention"] = next((name for name in CONVENTIONS if float(name) == version), str(version))
    made: Autopilot = own.call(Autopilot, parameters=tuple(given.items()))
    return made


def _battery_failsafe(table: _Table, own: Vehicle) -> BatteryFailsafe | None:
    own_table = table.table("battery_failsafe")
    if own_table is None:
        return None
    if battery_of(own) is None:
        raise ScenarioError(
            f"{table.origin}: {own_table.path}: vehicle {own.name!r} has no battery that empties; expected one that does"
        )
    made: BatteryFailsafe = own_table.call(BatteryFailsafe)
    return made


def _motor_map(table: _Table, rotors: int) -> tuple[int, ...]:
    if not table.has("motor_map"):
        return ()
    value = table.take("motor_map")
    if not isinstance(value, list) or sorted(x for x in value if isinstance(x, int)) != list(range(rotors)):
        raise table.error("motor_map", value, f"each of 0 to {rotors - 1} once: the rotor that each channel drives")
    return tuple(value)


def _sensors(table: _Table, beside: _Beside, where: Place) -> tuple[Sensor, ...]:
    entries = table.take("sensors", []) if table.has("sensors") else []
    if not isinstance(entries, list) or not all(isinstance(entry, (str, dict)) for entry in entries):
        raise table.error("sensors", entries, "a list of names, or of tables with a part")
    sensors = [_sensor(table, k, entries, beside, where) for k in range(len(entries))]
    if (twice := first_twice(sensor.name for sensor in sensors)) is not None:
        raise table.error("sensors", entries, f"a name of its own for each; two are called {twice!r}")
    return tuple(sensors)


def _sensor(table: _Table, k: int, entries: list[Any], beside: _Beside, where: Place) -> Sensor:
    """One without error by its name, or a part as it is, or a table of a part, its mounting, and other numbers for it."""
    entry = entries[k]
    own = _Table({"part": entry} if isinstance(entry, str) else entry, table.origin, f"{table.name('sensors')}[{k}]")
    kind = own.text("part")
    if kind in SENSORS and not own.entries:
        return SENSORS[kind]
    if kind not in part_names() and not kind.endswith(".toml"):
        known = ", ".join((*SENSORS, *part_names()))
        raise table.error("sensors", entries, f"a list of names among {known}, or of .toml files, each once")
    name, r_B = own.text("name", ""), own.vector("r_B", (0.0, 0.0, 0.0))
    angles = own.vector("rotation_deg", (0.0, 0.0, 0.0))
    q_BS = quat_from_euler(*(math.radians(angle) for angle in angles))
    try:
        if kind.endswith(".toml"):
            text = beside.bytes_of(own, "part", kind).decode("utf-8")
            made = altered(parse_part(text, Path(kind).name), **own.entries)
        else:
            made = part(kind, **own.entries)
        return made.sensor(r_B=r_B, q_BS=q_BS, where=where, name=name)
    except ScenarioError:
        raise
    except ValueError as error:
        raise ScenarioError(f"{table.origin}: {own.path}: {error}") from None


def _estimator(table: _Table, rates: Rates, sensors: tuple[Sensor, ...], drone: Vehicle) -> Estimator | Fusion:
    """The one that is named; without a name the Kalman filter where the sensors allow it, else the truth."""
    if not table.has("estimator"):
        kinds = {sensor.kind for sensor in sensors}
        if "imu" not in kinds or not kinds & {"gps", "motion_capture"}:
            return TRUTH
        table.entries["estimator"] = "ekf"
    if isinstance(table.entries["estimator"], str):
        table.entries["estimator"] = {"kind": table.entries["estimator"]}
    own = table.table("estimator")
    assert own is not None
    kind = own.text("kind", choices=("truth", "noisy", "delayed", "ekf", "complementary"))
    period = rates.periods()["estimator"] / MICROSECONDS
    if kind in ("ekf", "complementary"):
        return _fusion(own, kind, sensors, period, drone["gravity"].acceleration)
    if kind == "truth":
        own.finish()
        return TRUTH
    delay = own.number("delay") if kind == "delayed" or own.has("delay") else 0.0
    source = TRUTH
    if kind == "noisy":
        numbers = {key: own.number(key) for key in Noise._fields if own.has(key)}
        source = own.call(lambda: noisy_estimator(Noise(**numbers)))
    own.finish()
    if not delay:
        return source
    try:
        return delayed_estimator(delay, period, source)
    except ValueError as error:
        raise ScenarioError(f"{table.origin}: {table.name('estimator')}: {error}") from None


def _fusion(own: _Table, kind: str, sensors: tuple[Sensor, ...], period: float, gravity: float) -> Fusion:
    """`start` is how well the beginning is known; the complementary filter's gains may be given too."""
    beginning = own.table("start")
    start = Start()
    if beginning is not None:
        start = Start(**{key: beginning.number(key, above=0.0) for key in Start._fields if beginning.has(key)})
        beginning.finish()
    try:
        if kind == "ekf":
            own.finish()
            return ekf(sensors, period, gravity, start)
        gains = {key: own.number(key, above=0.0) for key in Gains._fields if own.has(key)}
        own.finish()
        return complementary(sensors, period, gravity, start, Gains(**gains))
    except ScenarioError:
        raise
    except ValueError as error:
        raise ScenarioError(f"{own.origin}: {own.path}: {error}") from None


def _tasks(tables: list[_Table], start: Vec3, yaw: float) -> Trajectory:
    """One task after the other, each from where the one before ended; without any, hover at the start."""
    parts: list[Trajectory] = []
    here = start
    for table in tables:
        kind = table.text("kind", choices=tuple(TASKS))
        if "yaw_deg" not in table.entries and "yaw" in signature(TASKS[kind]).parameters and "yaw" not in table.entries:
            table.entries["yaw"] = yaw
        part = _task(table, kind, here)
        first = Vec3(*(float(x) for x in part.at(0.0).p_W))
        if norm(first - here) > 1e-6:
            parts.append(trajectory.waypoints((here, first), speed=TRANSFER_SPEED, yaw=float(part.at(0.0).yaw)))
        parts.append(part)
        if part.duration == math.inf:
            if table is not tables[-1]:
                raise ScenarioError(
                    f"{table.origin}: {table.path} never ends; expected a duration, or it to be the last"
                )
            return _in_a_row(parts)
        here = Vec3(*(float(x) for x in part.at(part.duration).p_W))
    return _in_a_row(
        [*parts, trajectory.hover(here, yaw=float(parts[-1].at(parts[-1].duration).yaw) if parts else yaw)]
    )


def _in_a_row(parts: list[Trajectory]) -> Trajectory:
    return parts[0] if len(parts) == 1 else trajectory.sequence(*parts)


def _task(table: _Table, kind: str, here: Vec3) -> Trajectory:
    parameters = signature(TASKS[kind]).parameters
    given: dict[str, Any] = {}
    if "start_W" in parameters:
        given["start_W"] = here
    if kind == "hover":
        given["p_W"] = table.vector("at") if table.has("at") else here
    if kind == "line":
        given["end_W"] = table.vector("to")
    if "centre_W" in parameters:
        given["centre_W"] = table.vector("centre")
    for key in ("points", "gates"):
        if key in parameters:
            given[key] = _points(table, key, here, with_start=key == "points")
    made: Trajectory = table.call(TASKS[kind], **given)
    return made


def _task_anywhere(table: _Table) -> Trajectory:
    """A task that says itself where it begins, for a drone that may be anywhere."""
    kinds = tuple(kind for kind, maker in TASKS.items() if "start_W" not in signature(maker).parameters)
    kind = table.text("kind", choices=kinds)
    if kind == "hover" and "at" not in table.entries:
        raise ScenarioError(f"{table.origin}: {table.name('at')} is missing")
    if kind == "waypoints":
        points = _points(table, "points", Vec3(math.inf, 0.0, 0.0), with_start=False)
        made: Trajectory = table.call(TASKS[kind], points=points)
        return made
    return _task(table, kind, Vec3(0.0, 0.0, 0.0))


def _points(table: _Table, key: str, here: Vec3, *, with_start: bool) -> list[Vec3]:
    value = table.take(key)
    if not isinstance(value, list) or not 0 < len(value) <= MOST_POINTS[key]:
        raise table.error(key, value, f"a list of points of three numbers, at most {MOST_POINTS[key]}")
    points = []
    for i, each in enumerate(value):
        if not isinstance(each, list) or len(each) != 3 or not all(is_number(x) for x in each):
            raise table.error(f"{key}[{i}]", each, "three finite numbers")
        points.append(Vec3(*(float(x) for x in each)))
    return [here, *points] if with_start and norm(points[0] - here) > 1e-9 else points


def _event(table: _Table, drones: tuple[Drone, ...]) -> Event:
    given = [key for key in ("at", "at_step", "when") if table.has(key)]
    if len(given) != 1:
        raise ScenarioError(
            f"{table.origin}: {table.path} has {' and '.join(given) or 'no time'}; expected one of at, at_step, when"
        )
    value = table.take(given[0])
    name = table.text("drone", "")
    if name and name not in [own.name for own in drones]:
        raise table.error("drone", name, f"one of {', '.join(own.name for own in drones[:20])}")
    try:
        value = argument(value, {"at": float, "at_step": int, "when": str}[given[0]])
        trigger: Any = (
            events.when(value, name) if given[0] == "when" else
            events.at(value) if given[0] == "at" else events.at_step(value)
        )  # fmt: skip
    except UnfitError as error:
        raise table.error(given[0], value, str(error)) from None
    except ValueError as error:
        raise ScenarioError(f"{table.origin}: {table.name(given[0])}: {error}") from None
    kind = table.text("do", choices=(*ACTIONS, "follow"))
    label = table.text("name", "")
    if kind == "follow":
        task = table.table("task")
        if task is None:
            raise ScenarioError(f"{table.origin}: {table.name('task')} is missing")
        table.finish()
        return Event(trigger, events.follow(_task_anywhere(task), name), label)
    maker = ACTIONS[kind]
    extra = {"drone": name} if "drone" in signature(maker).parameters else {}
    action = table.call(maker, **extra)
    return Event(trigger, action, label)


def _expect(file: _Table, drones: tuple[Drone, ...]) -> Expect:
    table = file.table("expect")
    if table is None:
        return Expect()
    names = [own.name for own in drones]
    crashed = table.take("crashed", [])
    if not isinstance(crashed, list) or not all(own in names for own in crashed):
        raise table.error("crashed", crashed, f"a list of names among {', '.join(names[:20])}")
    optional = {key: table.number(key) for key in ("max_tilt_deg", "max_error", "min_height") if table.has(key)}
    expect = Expect(
        final_position=table.vector("final_position") if table.has("final_position") else None,
        within=table.number("within", 0.2, above=0.0),
        no_crash=table.flag("no_crash", True),
        landed=table.flag("landed", False) if table.has("landed") else None,
        crashed=tuple(crashed),
        **optional,
    )
    table.finish()
    return expect


# Settings from outside ----------------------------------------------------------------------------------------------


def setting(text: str) -> tuple[str, Any]:
    """'drones.vehicle=iris' as a key and a value; a value that is not TOML is a text"""
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise ScenarioError(f"--set {shown(text)}: expected key=value, such as duration=5 or drones.vehicle=iris")
    try:
        return key.strip(), tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        return key.strip(), value.strip()
    except (ValueError, RecursionError):  # digits by the thousand, brackets by the hundred
        raise ScenarioError(f"--set {shown(text)}: expected a value that can be read") from None


def _put(document: dict[str, Any], key: str, value: Any, origin: str) -> None:
    """Puts a value at a path such as 'drones[1].start'; a list without a number means all its entries."""
    places: list[Any] = [document]
    *way, last = key.split(".")
    for word in way:
        name, _, index = word.partition("[")
        found = []
        for place in places:
            inner = place.setdefault(name, {}) if isinstance(place, dict) else None
            if isinstance(inner, str) and name in BY_KIND:
                inner = place[name] = {"kind": inner}
            if isinstance(inner, list):
                found += inner if not index else _entry(inner, index)
            elif isinstance(inner, dict) and not index:
                found.append(inner)
        if not found:
            raise ScenarioError(f"{origin}: cannot set {shown(key)}: there is no {shown(word)}")
        places = found
    for place in places:
        if not isinstance(place, dict):
            raise ScenarioError(f"{origin}: cannot set {shown(key)}: {shown(place)} is no table")
        place[last] = value


def _entry(entries: list[Any], index: str) -> list[Any]:
    """The one of a list that '1]' names; none where there is no such one"""
    return [own for k, own in enumerate(entries) if index == f"{k}]"]
