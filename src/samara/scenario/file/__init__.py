"""Read a scenario from a TOML file: strictly, with one sentence for the first error.

The top-level keys are read here; `drones`, `mission` and `environment` read the tables.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from samara.core.coerce import NAME_CHARACTERS, is_name, sanitise_name
from samara.core.integrate import FLIGHT_INTEGRATORS
from samara.core.sanitise import quote_value
from samara.core.toml import ShippedFiles, TomlFile, TomlTable, TomlText
from samara.core.toml import parse_document as tables_of
from samara.physics.types import Vehicle
from samara.scenario.autopilot_sensors import prepare_autopilots
from samara.scenario.file.drones import read_drones
from samara.scenario.file.environment import read_environment, read_wind, read_world
from samara.scenario.file.mission import read_event
from samara.scenario.file.overrides import apply_override
from samara.scenario.file.referenced_files import ReferencedFiles
from samara.scenario.scenario import Drone, Expectations, Scenario, ScenarioError
from samara.scenario.timeline import MICROSECONDS, Rates, microseconds, sampling
from samara.vehicles.effects import EffectOption
from samara.vehicles.loader import vehicle_names

SCHEMA = 1
MAX_DURATION = 86400.0  # [s]
SCENARIOS = ShippedFiles("scenario", "samara.scenarios", ScenarioError)


def scenario_names() -> list[str]:
    """Return the names of the scenarios that come with Samara."""
    return SCENARIOS.names()


def load_scenario(
    name_or_path: str | Path,
    settings: Mapping[str, object] | None = None,
    *,
    effects: Sequence[EffectOption] = (),
    folder: Path | None = None,
    objects: Mapping[str, object] | None = None,
) -> Scenario:
    """Load a scenario by its shipped name or from a file.

    Args:
        name_or_path: name of a shipped scenario, or path of a TOML file.
        settings: changes of the file by key, such as {"duration": 5.0}. They are as untrusted as the file: only texts of type
            `UserText` may name a program, a host or a file outside the scenario's folder (`samara.load_scenario` marks those
            of a Python call).
        effects: custom effects that vehicles may have, as in `samara.vehicle`.
        folder: folder in which the settings of a shipped scenario may name files.
        objects: Python objects by key, as in `parse_scenario`.

    Raises:
        ScenarioError: the scenario does not exist, or its file has an error.
    """
    text, origin, scenario_folder = _find(name_or_path)
    scenario = parse_scenario(text, origin, settings, scenario_folder or folder, effects=effects, objects=objects)
    if not is_name(scenario.name):  # runs are saved in a folder of this name
        raise ScenarioError(f"{origin}: name = {quote_value(scenario.name)}: expected {NAME_CHARACTERS}")
    return scenario


def scenario_document(name_or_path: str | Path, settings: Mapping[str, object] | None = None) -> dict[str, Any]:
    """Return the tables of a scenario's file as written, with the settings applied."""
    text, origin, _ = _find(name_or_path)
    return _document(text, origin, settings)


def document_tables(name_or_path: str | Path, settings: Mapping[str, object], key: str) -> list[dict[str, Any]]:
    """Return the tables of a key, such as "wind", in a scenario's file with the settings applied."""
    text, origin, _ = _find(name_or_path)
    return text_tables(text, origin, settings, key)


def text_tables(text: str, origin: str, settings: Mapping[str, object], key: str) -> list[dict[str, Any]]:
    """Return the tables of a key in the text of a scenario with the settings applied."""
    value = _document(text, origin, settings).get(key, [])
    return [table for table in (value if isinstance(value, list) else [value]) if isinstance(table, dict)]


def _find(name_or_path: str | Path) -> TomlText:
    name = name_or_path.name if isinstance(name_or_path, Vehicle) else str(name_or_path)
    try:
        return SCENARIOS.find(name_or_path)
    except ScenarioError:
        if name in vehicle_names():
            raise _vehicle_error(name) from None
        raise


def _vehicle_error(name: str) -> ScenarioError:
    return ScenarioError(
        f"{name} is a vehicle, not a scenario; expected samara fly SCENARIO --vehicle {name}, "
        f"or samara.fly(scenario, vehicle='{name}') in Python"
    )


def _document(text: str, origin: str, settings: Mapping[str, object] | None) -> dict[str, object]:
    document = tables_of(text, origin, ScenarioError)
    for key, value in (settings or {}).items():
        apply_override(document, key, value, origin)
    return document


def parse_scenario(
    text: str,
    origin: str,
    settings: Mapping[str, object] | None = None,
    folder: Path | None = None,
    recorded_files: Mapping[str, bytes] | None = None,
    *,
    effects: Sequence[EffectOption] = (),
    objects: Mapping[str, object] | None = None,
) -> Scenario:
    """Parse a scenario from the text of a file.

    Args:
        text: content of the file.
        origin: name of the file in errors.
        settings: changes of the file by key. In text and settings, only values of type `UserText` may name a program, a host
            or a file outside the folder.
        folder: folder of the vehicles and tables that the file names.
        recorded_files: files of the recording that the text is from; then no other files are read, and no program is named.
        effects: custom effects that vehicles may have.
        objects: Python objects that replace the values of keys: a `Vehicle` for "drones.vehicle", a function or
            `ControllerSpec` for "drones.controller", a wind source for "wind". A recording does not contain them.
    """
    document = _document(text, origin, {**(settings or {}), **(objects or {})})
    if "body" in document and ("actuation" in document or "drones" not in document):
        raise _vehicle_error(str(origin if folder is None else folder / origin))
    file = TomlTable(document, TomlFile(origin, ScenarioError))
    file.schema(SCHEMA, default=SCHEMA)
    name, description = file.text("name", sanitise_name(Path(origin).stem)), file.text("description", "")
    duration, seed = read_duration(file), read_seed(file)
    integrator = file.text("integrator", "rk4", FLIGHT_INTEGRATORS)
    strict = file.flag("strict", False)
    rates_table = document.get("rates")
    has_sensor_rate = isinstance(rates_table, dict) and "sensor" in rates_table
    rates = _read_rates(file)
    environment, home = read_environment(file)
    files = ReferencedFiles(folder, recorded_files, effects)
    drones = read_drones(file, rates, files, home)
    wind, wind_per_rotor = read_wind(file, files, environment, drones)
    with file.error_context():
        rates = fit_sensor_clock(rates, drones, has_sensor_rate)
    scenario = Scenario(
        name,
        drones,
        duration,
        seed,
        rates,
        wind,
        environment,
        tuple(read_event(table, drones) for table in file.tables("events")),
        integrator,
        strict,
        _read_expectations(file, drones),
        description,
        world=read_world(file, files, environment, drones),
        wind_per_rotor=wind_per_rotor,
        files=files.contents,
        text=text,
        settings=dict(settings or {}),
        home=home,
    )
    file.finish()
    with file.error_context():
        return prepare_autopilots(scenario)


def read_duration(file: TomlTable) -> float:
    """Read the duration of a flight [s]."""
    return file.number("duration", above=0.0, upto=MAX_DURATION)


def read_seed(file: TomlTable) -> int:
    """Read the seed of all random numbers."""
    return file.integer("seed", 0, low=0, high=2**63 - 1)


def _read_rates(file: TomlTable) -> Rates:
    table = file.optional_table("rates")
    if table is None:
        return Rates()
    rates = Rates(**table.present_numbers([field.name for field in fields(Rates)], above=0.0))
    table.finish()
    with file.error_context():
        rates.periods()
    return rates


def fit_sensor_clock(rates: Rates, drones: tuple[Drone, ...], is_fixed: bool) -> Rates:
    """Return the rates with the sensor clock of the file, which every sensor must fit, or the slowest that fits all."""
    sensors = {sensor for drone in drones for sensor in drone.sensors}
    rated_sensors = [sensor for sensor in sensors if sensor.rate]
    if rated_sensors and not is_fixed:
        periods_us = [round(MICROSECONDS / sensor.rate) for sensor in rated_sensors]
        periods_us += [microseconds(sensor.delay, f"the delay of sensor {sensor.name!r}") for sensor in rated_sensors]
        rates = replace(rates, sensor=MICROSECONDS / math.gcd(*periods_us))
    for sensor in sensors:
        sampling(sensor, rates.periods()["sensor"])
    return rates


def _read_expectations(file: TomlTable, drones: tuple[Drone, ...]) -> Expectations:
    table = file.optional_table("expect")
    if table is None:
        return Expectations()
    names = [drone.name for drone in drones]
    crashed = table.take("crashed", "a list", [])
    if not isinstance(crashed, list) or not all(name in names for name in crashed):
        raise table.error("crashed", crashed, f"a list of names among {', '.join(names[:20])}")
    expect = Expectations(
        final_position=table.vector("final_position") if "final_position" in table else None,
        position_tolerance=table.number("position_tolerance", 0.2, above=0.0),
        no_crash=table.flag("no_crash", True),
        landed=table.flag("landed", False) if "landed" in table else None,
        crashed=tuple(crashed),
        **table.present_numbers(("max_tilt_deg", "max_error", "min_height")),
    )
    table.finish()
    return expect
