"""`[[drones]]` of a scenario: vehicle, start, sensors, estimator, and controller or autopilot."""

import math
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

from samara.control.policy_file import DESCRIPTION_FILE, WEIGHTS_FILE, PolicyError, load_policy, parse_policy
from samara.control.registry import NAMES, ControllerSpec, controller_spec
from samara.core.algebra import Vec3, quat_from_euler
from samara.core.coerce import NAME_CHARACTERS, first_duplicate, is_name
from samara.core.sanitise import quote_value
from samara.core.toml import TomlFile, TomlTable, is_toml_path
from samara.estimate.estimator import EstimatorOptions, EstimatorSetup, Fusion, can_fuse
from samara.estimate.ideal import TRUTH, Estimator
from samara.estimate.registry import ESTIMATORS
from samara.physics.air.downwash import Downwash
from samara.physics.types import Vehicle
from samara.scenario.autopilot import Autopilot
from samara.scenario.autopilot_sensors import main_battery
from samara.scenario.batteries import BatteryFailsafe
from samara.scenario.file.mission import read_tasks
from samara.scenario.file.referenced_files import ReferencedFiles
from samara.scenario.scenario import Drone, ScenarioError
from samara.scenario.timeline import MICROSECONDS, Rates
from samara.sensors.registry import EXACT, override_parameters, parse_part, part, part_names
from samara.sensors.sensor import Sensor
from samara.sensors.site import Site
from samara.vehicles.build import effect_names, effect_tables, switch_on, with_effects
from samara.vehicles.loader import parse_vehicle, vehicle
from samara.world.track import Track, load_track, parse_track

AIRBORNE_HEIGHT = 1.0  # [m]: default height of the start of an airborne drone
MAX_DRONES = 10_000


def read_drones(file: TomlTable, rates: Rates, files: ReferencedFiles, home: Site) -> tuple[Drone, ...]:
    """Read all drones, with their mutual downwash if the file enables it."""
    drones: list[Drone] = []
    for table in file.tables("drones"):
        drones += _copies(table, rates, files, home, len(drones))
    if not drones:
        raise file.missing_error("drones", "at least one [[drones]] table")
    if (twice := first_duplicate(drone.name for drone in drones)) is not None:
        raise file.make_error(f"two drones are called {twice!r}; expected a name for each")
    return _add_downwash(file, tuple(drones))


def _copies(table: TomlTable, rates: Rates, files: ReferencedFiles, home: Site, drone_count: int) -> list[Drone]:
    """Read one drone, or `count` of them in rows of `columns`, `spacing` apart, each with its tasks shifted."""
    tables = {key: table.entries[key] for key in ("effects", "estimator") if key in table}
    name = table.text("name", f"drone{drone_count}")
    if not is_name(name):
        raise table.error("name", name, NAME_CHARACTERS)
    count = table.integer("count", 1, low=1, high=MAX_DRONES)
    drone_vehicle = _vehicle(table, files, name if count == 1 else f"{name}0")
    airborne, armed = table.flag("airborne", False), table.flag("armed", True)
    start = table.vector("start", (0.0, 0.0, AIRBORNE_HEIGHT if airborne else 0.0))
    yaw = math.radians(table.number("yaw_deg", 0.0))
    controller = _controller(table, files, drone_vehicle)
    sensors = read_sensors(table, files, home)
    autopilot, failsafe = _autopilot(table, files), _battery_failsafe(table, drone_vehicle)
    charge = _initial_charge(table, drone_vehicle)
    estimator = read_estimator(table, rates, sensors, drone_vehicle)
    motor_map = _motor_map(table, len(drone_vehicle.rotors))
    columns = table.integer("columns", count, low=1, high=MAX_DRONES)
    spacing = table.vector("spacing", (1.0, 1.0, 0.0))
    try:
        task = read_tasks(table.tables("tasks"), start, yaw)
    except ArithmeticError as error:  # for example a path of 1e-300 m
        raise table.make_error(f" cannot be flown ({error})", "tasks") from None
    table.finish()
    options = (airborne, armed, controller, estimator, motor_map, sensors, autopilot, failsafe, charge)
    drones = []
    for i in range(count):
        shift = Vec3(spacing.x * (i % columns), spacing.y * (i // columns), spacing.z * i)
        drone_name = name if count == 1 else f"{name}{i}"
        drones.append(Drone(drone_name, drone_vehicle, task.shift(shift), start + shift, yaw, *options, tables=tables))
    return drones


def _vehicle(table: TomlTable, files: ReferencedFiles, drone: str) -> Vehicle:
    if isinstance(table.entries.get("vehicle"), Vehicle):  # an object of a Python call
        return _apply_effects(table, table.entries.pop("vehicle"), files)
    name, recorded_name = table.text("vehicle"), f"vehicle/{drone}.toml"
    if (
        files.recorded_files is not None and recorded_name in files.recorded_files
    ):  # as it flew, with the effects it had
        table.entries.pop("effects", None)
        text = files.recorded_files[recorded_name].decode("utf-8", "replace")
        if text not in files.vehicles:
            files.vehicles[text] = parse_vehicle(text, f"{drone}.toml", effects=files.effects)
        return files.vehicles[text]
    file = files.path(table, "vehicle", name) if is_toml_path(name) else name
    if file not in files.vehicles:
        try:
            files.vehicles[file] = vehicle(file, effects=files.effects)
        except ValueError as error:
            raise table.make_error(f" = {name!r}: {error}", "vehicle") from None
    return _apply_effects(table, files.vehicles[file], files)


def _apply_effects(table: TomlTable, base_vehicle: Vehicle, files: ReferencedFiles) -> Vehicle:
    """Apply the effects of a drone, given by their names, or as a table: true, false, or parameters in SI units."""
    if "effects" not in table:
        return base_vehicle
    effects = table.entries.pop("effects")
    if isinstance(effects, list) and all(isinstance(name, str) for name in effects):
        effects = effect_tables(effects)
    if not isinstance(effects, dict):
        raise table.error(
            "effects", effects, f"a list of names among {', '.join(effect_names(base_vehicle))}, or a table of them"
        )
    for parameters in effects.values():
        blade = parameters.get("blade") if isinstance(parameters, dict) else None
        if isinstance(blade, str) and is_toml_path(blade):
            parameters["blade"] = str(files.path(table, "effects", blade))
    with table.error_context("effects"):
        return with_effects(base_vehicle, effects)


def _add_downwash(file: TomlTable, drones: tuple[Drone, ...]) -> tuple[Drone, ...]:
    """Enable downwash for all drones that have rotors, if the file does."""
    if "downwash" not in file:
        return drones
    if isinstance(file.entries["downwash"], bool):
        if not file.flag("downwash", False):
            return drones
        file.entries["downwash"] = {}
    table = file.table("downwash")
    numbers = table.present_numbers(Downwash._fields)
    table.finish()
    vehicles: dict[int, Vehicle] = {}
    for drone in drones:
        if id(drone.vehicle) not in vehicles:
            with table.error_context():
                vehicles[id(drone.vehicle)] = _vehicle_with_downwash(drone.vehicle, numbers)
    return tuple(
        replace(drone, vehicle=vehicles[id(drone.vehicle)], tables={**drone.tables, "downwash": numbers})
        for drone in drones
    )


def _vehicle_with_downwash(vehicle: Vehicle, numbers: Mapping[str, float]) -> Vehicle:
    """Return the vehicle with downwash and these parameters; unchanged without rotors."""
    if not vehicle.rotors:
        return vehicle
    own_numbers = vehicle["downwash"]._asdict() if vehicle.has("downwash") else {}
    return switch_on(vehicle, "downwash", **{**own_numbers, **numbers})


def replace_vehicle(drone: Drone, new_vehicle: Vehicle, rates: Rates) -> Drone:
    """Return the drone with another vehicle, and with the effects and the estimator of its scenario built for it."""
    table = TomlTable({}, TomlFile(drone.name, ScenarioError))
    with table.error_context():
        if "effects" in drone.tables:
            new_vehicle = with_effects(new_vehicle, drone.tables["effects"])
        if "downwash" in drone.tables:
            new_vehicle = _vehicle_with_downwash(new_vehicle, drone.tables["downwash"])
    if (drone.battery_failsafe or drone.initial_charge != 1.0) and main_battery(new_vehicle) is None:
        raise table.make_error(f"vehicle {new_vehicle.name!r} has no battery that discharges; expected one with it")
    if drone.motor_map and len(drone.motor_map) != len(new_vehicle.rotors):
        raise table.make_error(
            f"vehicle {new_vehicle.name!r} has {len(new_vehicle.rotors)} rotors; expected {len(drone.motor_map)}, "
            "the length of motor_map"
        )
    policy = drone.controller.option_values.get("file") if isinstance(drone.controller, ControllerSpec) else None
    if policy is not None:
        with table.error_context():
            policy.require_vehicle(new_vehicle)
    changed = replace(drone, vehicle=new_vehicle, model=None)
    has_same_gravity = new_vehicle["gravity"].acceleration == drone.vehicle["gravity"].acceleration
    return changed if has_same_gravity else _rebuild_estimator(changed, rates)


def replace_sensors(drone: Drone, entries: Sequence[object], rates: Rates, home: Site) -> Drone:
    """Return the drone with other sensors, written as in a scenario, and with the estimator of its scenario for them."""
    table = TomlTable({"sensors": list(entries)}, TomlFile(drone.name, ScenarioError))
    sensors = read_sensors(table, ReferencedFiles(Path(), None, ()), home)
    return _rebuild_estimator(replace(drone, sensors=sensors), rates)


def _rebuild_estimator(drone: Drone, rates: Rates) -> Drone:
    if drone.autopilot is not None:  # it has an estimator of its own
        return drone
    entries = {"estimator": drone.tables["estimator"]} if "estimator" in drone.tables else {}
    table = TomlTable(deepcopy(entries), TomlFile(drone.name, ScenarioError))
    return replace(drone, estimator=read_estimator(table, rates, drone.sensors, drone.vehicle))


def _controller(
    table: TomlTable, files: ReferencedFiles, vehicle: Vehicle
) -> str | ControllerSpec | Callable[..., Any]:
    """Read a controller: a name, a table of its type and options, or an object of a Python call."""
    value = table.entries.get("controller")
    if isinstance(value, ControllerSpec) or callable(value):
        table.entries.pop("controller")
        return value
    if not isinstance(table.entries.get("controller"), dict):
        name = table.text("controller", "geometric", NAMES)
        if name == "policy":
            raise table.error("controller", name, 'a table with its folder: { type = "policy", file = "policy/" }')
        return name
    controller_table = table.table("controller")
    controller_type = controller_table.text("type", "geometric", NAMES)
    if "track" in controller_table:
        controller_table.entries["track"] = _track(controller_table, files)
    if controller_type == "policy":
        return _policy(controller_table, files, vehicle)
    try:
        return (
            controller_spec(controller_type, **controller_table.entries)
            if controller_table.entries
            else controller_type
        )
    except ValueError as error:
        raise controller_table.make_error(f".{error}") from None


def _policy(table: TomlTable, files: ReferencedFiles, vehicle: Vehicle) -> ControllerSpec:
    """Read a policy from a folder beside the scenario, or from the files of a recording."""
    name = table.text("file")
    track = {"track": table.entries.pop("track")} if "track" in table else {}
    table.finish()
    paths = {file_name: f"policy/{quote(name, safe='')}/{file_name}" for file_name in (DESCRIPTION_FILE, WEIGHTS_FILE)}
    try:
        if files.recorded_files is None:
            policy = load_policy(files.path(table, "file", name))
        elif all(path in files.recorded_files for path in paths.values()):
            policy = parse_policy(
                files.recorded_files[paths[DESCRIPTION_FILE]], files.recorded_files[paths[WEIGHTS_FILE]], name
            )
        else:
            raise table.error("file", name, "a policy inside the recording")
    except PolicyError as error:
        raise table.make_error(f" = {quote_value(name)}: {error}", "file") from None
    with table.error_context("file"):
        policy.require_vehicle(vehicle)
    files.contents |= {paths[file_name]: data for file_name, data in policy.files}
    return controller_spec("policy", file=policy, **track)


def _track(table: TomlTable, files: ReferencedFiles) -> Track:
    """Read the track of a racing controller: one that comes with Samara, or a file beside the scenario."""
    name = table.text("track")
    with table.error_context("track"):
        if not is_toml_path(name):
            return load_track(name)
        text = files.read_file(table, "track", name).decode("utf-8", "replace")
        return parse_track(
            text, name, files.path(table, "track", name).parent if files.recorded_files is None else None
        )


def _autopilot(table: TomlTable, files: ReferencedFiles) -> Autopilot | None:
    """Read the autopilot of a drone: its type, or a table of type, rate, on_loss and so on.

    `Autopilot` determines which of its fields only the user may set. They are removed from the scenario of a recording.
    """
    if "autopilot" not in table:
        return None
    autopilot_table = table.type_table("autopilot")
    if files.recorded_files is not None:
        autopilot_table.entries = {
            key: value for key, value in autopilot_table.entries.items() if key not in ("binary", "host")
        }
    parameter_table = autopilot_table.optional_table("parameters")
    parameters: dict[str, float | str] = {}
    if parameter_table is not None:
        for key, value in list(parameter_table.entries.items()):
            parameters[key] = parameter_table.text(key) if isinstance(value, str) else parameter_table.number(key)
    version = autopilot_table.entries.get("convention")
    if isinstance(version, (int, float)):  # 2026.12 without quotes is a number
        autopilot_table.entries["convention"] = str(version)
    autopilot: Autopilot = autopilot_table.call(Autopilot, parameters=tuple(parameters.items()))
    return autopilot


def _battery_failsafe(table: TomlTable, vehicle: Vehicle) -> BatteryFailsafe | None:
    failsafe_table = table.optional_table("battery_failsafe")
    if failsafe_table is None:
        return None
    if main_battery(vehicle) is None:
        raise failsafe_table.make_error(
            f": vehicle {vehicle.name!r} has no battery that discharges; expected a vehicle with one"
        )
    failsafe: BatteryFailsafe = failsafe_table.call(BatteryFailsafe)
    return failsafe


def _initial_charge(table: TomlTable, vehicle: Vehicle) -> float:
    """Read the state of charge at the start, from 1 to 0."""
    if "initial_charge" in table and main_battery(vehicle) is None:
        raise table.make_error(
            f": vehicle {vehicle.name!r} has no battery that discharges; expected a vehicle with one", "initial_charge"
        )
    return table.number("initial_charge", 1.0, above=0.0, upto=1.0)


def _motor_map(table: TomlTable, rotors: int) -> tuple[int, ...]:
    value = table.take("motor_map", "a list", ())
    if value == ():
        return ()
    if not isinstance(value, list) or sorted(x for x in value if isinstance(x, int)) != list(range(rotors)):
        raise table.error("motor_map", value, f"each of 0 to {rotors - 1} once: the rotor that each channel drives")
    return tuple(value)


def read_sensors(table: TomlTable, files: ReferencedFiles, home: Site) -> tuple[Sensor, ...]:
    entries = table.take("sensors", "a list", [])
    if not isinstance(entries, list) or not all(isinstance(entry, (str, dict, Sensor)) for entry in entries):
        raise table.error("sensors", entries, "a list of names, or of tables with a part")
    sensors = [_sensor(table, k, entries, files, home) for k in range(len(entries))]
    if (twice := first_duplicate(sensor.name for sensor in sensors)) is not None:
        raise table.error("sensors", entries, f"a unique name for each; two are called {twice!r}")
    return tuple(sensors)


def _sensor(table: TomlTable, k: int, entries: list[object], files: ReferencedFiles, home: Site) -> Sensor:
    """Read a sensor: an ideal one by name, a part by name, or a table of a part, its mounting, and changed parameters."""
    value = entries[k]
    if isinstance(value, Sensor):  # an object of a Python call
        return value
    entry = {"part": value} if isinstance(value, str) else value
    sensor_table = TomlTable(entry, table.file, f"{table.name('sensors')}[{k}]")
    part_name = sensor_table.text("part")
    if part_name in EXACT and not sensor_table.entries:
        return EXACT[part_name](home)
    if part_name not in part_names() and not is_toml_path(part_name):
        names = ", ".join((*EXACT, *part_names()))
        raise table.error("sensors", entries, f"a list of names among {names}, or of .toml files, each once")
    name, r_B = sensor_table.text("name", ""), sensor_table.vector("r_B", (0.0, 0.0, 0.0))
    angles = sensor_table.vector("rotation_deg", (0.0, 0.0, 0.0))
    q_BS = quat_from_euler(*(math.radians(angle) for angle in angles))
    with sensor_table.error_context():
        if is_toml_path(part_name):
            text = files.read_file(sensor_table, "part", part_name).decode("utf-8")
            sensor_part = override_parameters(parse_part(text, Path(part_name).name), **sensor_table.entries)
        else:
            sensor_part = part(part_name, **sensor_table.entries)
        return sensor_part.sensor(r_B=r_B, q_BS=q_BS, where=home, name=name)


def read_estimator(table: TomlTable, rates: Rates, sensors: tuple[Sensor, ...], vehicle: Vehicle) -> Estimator | Fusion:
    """Read the estimator; by default the Kalman filter if the sensors allow it, else the truth."""
    if "estimator" not in table:
        if not can_fuse(sensors):
            return TRUTH
        table.entries["estimator"] = "ekf"
    block = table.type_table("estimator")
    estimator_type = ESTIMATORS[block.text("type", choices=ESTIMATORS)]
    setup = EstimatorSetup(sensors, rates.periods()["estimator"] / MICROSECONDS, vehicle["gravity"].acceleration)
    records = {options.argument: _record(block, options) for options in estimator_type.options}
    block.finish()
    with block.error_context():
        estimator: Estimator | Fusion = estimator_type.build(setup, **records)
        return estimator


def _record(block: TomlTable, options: EstimatorOptions) -> Any:
    """Read an estimator's options, with defaults for the keys that are missing."""
    table = block.optional_table(options.table) if options.table else block
    if table is None:
        return options.record()
    values = {
        key: table.number(key, above=options.above)
        for key in options.record._fields
        if key in table or key not in options.record._field_defaults
    }
    if options.table:
        table.finish()
    return options.record(**values)
