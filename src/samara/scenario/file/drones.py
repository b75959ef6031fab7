"""`[[drones]]` of a scenario: the vehicle, where it starts, its sensors and estimator, and what flies it."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

from samara.control.policy_file import ABOUT, WEIGHTS, PolicyError, load_policy, parse_policy
from samara.control.registry import NAMES, Tuned, tuned
from samara.core.algebra import Vec3, quat_from_euler
from samara.core.coerce import NAME, first_twice, is_name
from samara.core.sanitise import shown
from samara.core.toml import Table, is_file
from samara.estimate.estimator import EstimatorSetup, Fusion, Options, can_fuse
from samara.estimate.ideal import TRUTH, Estimator
from samara.estimate.registry import ESTIMATORS
from samara.physics.air.downwash import Downwash
from samara.physics.types import Vehicle
from samara.scenario.autopilot import Autopilot
from samara.scenario.autopilot_sensors import battery_of
from samara.scenario.batteries import BatteryFailsafe
from samara.scenario.file.mission import read_tasks
from samara.scenario.file.referenced_files import Beside
from samara.scenario.scenario import Drone
from samara.scenario.timeline import MICROSECONDS, Rates
from samara.sensors.registry import EXACT, altered, parse_part, part, part_names
from samara.sensors.sensor import Sensor
from samara.sensors.site import Place
from samara.vehicles.build import effects_by_name, switch_names, switch_on, with_effects
from samara.vehicles.loader import parse_vehicle, vehicle
from samara.world.track import Track, load_track, parse_track

AIRBORNE_HEIGHT = 1.0  # [m]: default height of the start of an airborne drone
MOST_DRONES = 10_000


def read_drones(file: Table, rates: Rates, beside: Beside, where: Place) -> tuple[Drone, ...]:
    """All of them, with the downwash of each other where the file has it"""
    drones: list[Drone] = []
    for table in file.tables("drones"):
        drones += _copies(table, rates, beside, where, len(drones))
    if not drones:
        raise file.missing("drones", "one [[drones]] at least")
    if (twice := first_twice(own.name for own in drones)) is not None:
        raise file.wrong(f"two drones are called {twice!r}; expected a name for each")
    return _with_downwash(file, tuple(drones))


def _copies(table: Table, rates: Rates, beside: Beside, where: Place, before: int) -> list[Drone]:
    """One drone, or `count` of them in rows of `columns`, `spacing` apart, each with its tasks moved along."""
    name = table.text("name", f"drone{before}")
    if not is_name(name):
        raise table.error("name", name, NAME)
    count = table.whole("count", 1, low=1, high=MOST_DRONES)
    own_vehicle = _vehicle(table, beside, name if count == 1 else f"{name}0")
    airborne, armed = table.flag("airborne", False), table.flag("armed", True)
    start = table.vector("start", (0.0, 0.0, AIRBORNE_HEIGHT if airborne else 0.0))
    yaw = math.radians(table.number("yaw_deg", 0.0))
    controller = _controller(table, beside, own_vehicle)
    sensors = read_sensors(table, beside, where)
    autopilot, failsafe = _autopilot(table, beside), _battery_failsafe(table, own_vehicle)
    charge = _charge(table, own_vehicle)
    estimator = read_estimator(table, rates, sensors, own_vehicle)
    motor_map = _motor_map(table, len(own_vehicle.rotors))
    columns = table.whole("columns", count, low=1, high=MOST_DRONES)
    spacing = table.vector("spacing", (1.0, 1.0, 0.0))
    try:
        task = read_tasks(table.tables("tasks"), start, yaw)
    except ArithmeticError as error:  # a way of 1e-300 m
        raise table.wrong(f" cannot be flown ({error})", "tasks") from None
    table.finish()
    flown = (airborne, armed, controller, estimator, motor_map, sensors, autopilot, failsafe, charge)
    made = []
    for i in range(count):
        shift = Vec3(spacing.x * (i % columns), spacing.y * (i // columns), spacing.z * i)
        called = name if count == 1 else f"{name}{i}"
        made.append(Drone(called, own_vehicle, task.moved(shift), start + shift, yaw, *flown))
    return made


def _vehicle(table: Table, beside: Beside, drone: str) -> Vehicle:
    name, flown = table.text("vehicle"), f"vehicle/{drone}.toml"
    if beside.inside is not None and flown in beside.inside:  # as it flew, with the effects it had
        table.entries.pop("effects", None)
        text = beside.inside[flown].decode("utf-8", "replace")
        if text not in beside.vehicles:
            beside.vehicles[text] = parse_vehicle(text, f"{drone}.toml", effects=beside.effects)
        return beside.vehicles[text]
    file = beside.path(table, "vehicle", name) if is_file(name) else name
    if file not in beside.vehicles:
        try:
            beside.vehicles[file] = vehicle(file, effects=beside.effects)
        except ValueError as error:
            raise table.wrong(f" = {name!r}: {error}", "vehicle") from None
    own = beside.vehicles[file]
    return _with_effects(table, own, beside) if "effects" in table else own


def _with_effects(table: Table, own: Vehicle, beside: Beside) -> Vehicle:
    """The vehicle with effects by their names, or by a table of them: true, false, or numbers in SI units"""
    wanted = table.entries.pop("effects")
    if isinstance(wanted, list) and all(isinstance(name, str) for name in wanted):
        wanted = effects_by_name(wanted)
    if not isinstance(wanted, dict):
        raise table.error(
            "effects", wanted, f"a list of names among {', '.join(switch_names(own))}, or a table of them"
        )
    for numbers in wanted.values():
        blade = numbers.get("blade") if isinstance(numbers, dict) else None
        if isinstance(blade, str) and is_file(blade):
            numbers["blade"] = str(beside.path(table, "effects", blade))
    with table.at("effects"):
        return with_effects(own, wanted)


def _with_downwash(file: Table, drones: tuple[Drone, ...]) -> tuple[Drone, ...]:
    """The drones that have rotors, each felt by the others and feeling them, when the file says so"""
    if "downwash" not in file:
        return drones
    if isinstance(file.entries["downwash"], bool):
        if not file.flag("downwash", False):
            return drones
        file.entries["downwash"] = {}
    table = file.table("downwash")
    numbers = table.given_numbers(Downwash._fields)
    table.finish()
    made: dict[int, Vehicle] = {}
    for own in drones:
        if own.vehicle.rotors and id(own.vehicle) not in made:
            given = {**own.vehicle["downwash"]._asdict(), **numbers} if own.vehicle.has("downwash") else numbers
            with table.at():
                made[id(own.vehicle)] = switch_on(own.vehicle, "downwash", **given)
    return tuple(replace(own, vehicle=made.get(id(own.vehicle), own.vehicle)) for own in drones)


def _controller(table: Table, beside: Beside, vehicle: Vehicle) -> str | Tuned:
    """A name, or a table of its kind and the numbers chosen of it."""
    if not isinstance(table.entries.get("controller"), dict):
        name = table.text("controller", "geometric", NAMES)
        if name == "policy":
            raise table.error("controller", name, 'a table with its folder: { kind = "policy", file = "policy/" }')
        return name
    own = table.table("controller")
    kind = own.text("kind", "geometric", NAMES)
    if "track" in own:
        own.entries["track"] = _track(own, beside)
    if kind == "policy":
        return _policy(own, beside, vehicle)
    try:
        return tuned(kind, **own.entries) if own.entries else kind
    except ValueError as error:
        raise own.wrong(f".{error}") from None


def _policy(table: Table, beside: Beside, vehicle: Vehicle) -> Tuned:
    """The policy of a folder beside the scenario, or of those files inside a recording"""
    name = table.text("file")
    track = {"track": table.entries.pop("track")} if "track" in table else {}
    table.finish()
    held = {file: f"policy/{quote(name, safe='')}/{file}" for file in (ABOUT, WEIGHTS)}
    try:
        if beside.inside is None:
            own = load_policy(beside.path(table, "file", name))
        elif all(path in beside.inside for path in held.values()):
            own = parse_policy(beside.inside[held[ABOUT]], beside.inside[held[WEIGHTS]], name)
        else:
            raise table.error("file", name, "a policy inside the recording")
    except PolicyError as error:
        raise table.wrong(f" = {shown(name)}: {error}", "file") from None
    with table.at("file"):
        own.require(vehicle)
    beside.read |= {held[file]: data for file, data in own.files}
    return tuned("policy", file=own, **track)


def _track(table: Table, beside: Beside) -> Track:
    """The track that a controller races on: one that comes with Samara, or that of a file beside the scenario"""
    name = table.text("track")
    with table.at("track"):
        if not is_file(name):
            return load_track(name)
        text = beside.bytes_of(table, "track", name).decode("utf-8", "replace")
        return parse_track(text, name, beside.path(table, "track", name).parent if beside.inside is None else None)


def _autopilot(table: Table, beside: Beside) -> Autopilot | None:
    """The autopilot that flies it: its kind, or a table of kind, rate, on_loss and so on.

    `Autopilot` itself says which of its fields only the user may give. A recording that has them is read without them.
    """
    if "autopilot" not in table:
        return None
    own = table.kind_table("autopilot")
    if beside.inside is not None:
        own.entries = {key: value for key, value in own.entries.items() if key not in ("binary", "host")}
    numbers = own.optional_table("parameters")
    given = {} if numbers is None else numbers.given_numbers(list(numbers.entries))
    version = own.entries.get("convention")
    if isinstance(version, (int, float)):  # 2026.12 without quotes is a number
        own.entries["convention"] = str(version)
    made: Autopilot = own.call(Autopilot, parameters=tuple(given.items()))
    return made


def _battery_failsafe(table: Table, vehicle: Vehicle) -> BatteryFailsafe | None:
    own = table.optional_table("battery_failsafe")
    if own is None:
        return None
    if battery_of(vehicle) is None:
        raise own.wrong(f": vehicle {vehicle.name!r} has no battery that empties; expected one that does")
    made: BatteryFailsafe = own.call(BatteryFailsafe)
    return made


def _charge(table: Table, vehicle: Vehicle) -> float:
    """Of its batteries at the start, from 1 down to 0"""
    if "start_charge" in table and battery_of(vehicle) is None:
        raise table.wrong(
            f": vehicle {vehicle.name!r} has no battery that empties; expected one that does", "start_charge"
        )
    return table.number("start_charge", 1.0, above=0.0, upto=1.0)


def _motor_map(table: Table, rotors: int) -> tuple[int, ...]:
    value = table.take("motor_map", "a list", ())
    if value == ():
        return ()
    if not isinstance(value, list) or sorted(x for x in value if isinstance(x, int)) != list(range(rotors)):
        raise table.error("motor_map", value, f"each of 0 to {rotors - 1} once: the rotor that each channel drives")
    return tuple(value)


def read_sensors(table: Table, beside: Beside, where: Place) -> tuple[Sensor, ...]:
    entries = table.take("sensors", "a list", [])
    if not isinstance(entries, list) or not all(isinstance(entry, (str, dict)) for entry in entries):
        raise table.error("sensors", entries, "a list of names, or of tables with a part")
    sensors = [_sensor(table, k, entries, beside, where) for k in range(len(entries))]
    if (twice := first_twice(sensor.name for sensor in sensors)) is not None:
        raise table.error("sensors", entries, f"a name of its own for each; two are called {twice!r}")
    return tuple(sensors)


def _sensor(table: Table, k: int, entries: list[object], beside: Beside, where: Place) -> Sensor:
    """One without error by its name, or a part as it is, or a table of a part, its mounting, and other numbers for it."""
    entry = {"part": entries[k]} if isinstance(entries[k], str) else entries[k]
    own = Table(entry, table.file, f"{table.name('sensors')}[{k}]")
    kind = own.text("part")
    if kind in EXACT and not own.entries:
        return EXACT[kind](where)
    if kind not in part_names() and not is_file(kind):
        known = ", ".join((*EXACT, *part_names()))
        raise table.error("sensors", entries, f"a list of names among {known}, or of .toml files, each once")
    name, r_B = own.text("name", ""), own.vector("r_B", (0.0, 0.0, 0.0))
    angles = own.vector("rotation_deg", (0.0, 0.0, 0.0))
    q_BS = quat_from_euler(*(math.radians(angle) for angle in angles))
    with own.at():
        if is_file(kind):
            text = beside.bytes_of(own, "part", kind).decode("utf-8")
            made = altered(parse_part(text, Path(kind).name), **own.entries)
        else:
            made = part(kind, **own.entries)
        return made.sensor(r_B=r_B, q_BS=q_BS, where=where, name=name)


def read_estimator(table: Table, rates: Rates, sensors: tuple[Sensor, ...], vehicle: Vehicle) -> Estimator | Fusion:
    """The estimator that is named; without a name the Kalman filter if the sensors allow it, else the truth"""
    if "estimator" not in table:
        if not can_fuse(sensors):
            return TRUTH
        table.entries["estimator"] = "ekf"
    block = table.kind_table("estimator")
    estimator_type = ESTIMATORS[block.text("kind", choices=ESTIMATORS)]
    setup = EstimatorSetup(sensors, rates.periods()["estimator"] / MICROSECONDS, vehicle["gravity"].acceleration)
    records = {options.argument: _record(block, options) for options in estimator_type.options}
    block.finish()
    with block.at():
        estimator: Estimator | Fusion = estimator_type.build(setup, **records)
        return estimator


def _record(block: Table, options: Options) -> Any:
    """The record of an estimator's options, with its defaults for the keys that are missing"""
    table = block.optional_table(options.table) if options.table else block
    if table is None:
        return options.record()
    numbers = {
        key: table.number(key, above=options.above)
        for key in options.record._fields
        if key in table or key not in options.record._field_defaults
    }
    if options.table:
        table.finish()
    return options.record(**numbers)
