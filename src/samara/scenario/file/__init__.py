"""Read a scenario from a TOML file: strictly, with one sentence for the first error.

The top-level keys are read here; `drones`, `mission` and `environment` read the tables.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from samara.core.coerce import NAME, as_name, is_name
from samara.core.integrate import IN_FLIGHT
from samara.core.sanitise import shown
from samara.core.toml import File, Shipped, Table
from samara.core.toml import document as tables_of
from samara.scenario.autopilot_sensors import prepared
from samara.scenario.file.drones import read_drones
from samara.scenario.file.environment import WEST, read_environment, read_wind, read_world
from samara.scenario.file.mission import read_event
from samara.scenario.file.overrides import apply_override
from samara.scenario.file.referenced_files import Beside
from samara.scenario.scenario import Drone, Expect, Scenario, ScenarioError
from samara.scenario.timeline import MICROSECONDS, Rates, microseconds, sampling
from samara.vehicles.effects import EffectOption

SCHEMA = 1
LONGEST = 86400.0  # [s]
SCENARIOS = Shipped("scenario", "samara.scenarios", ScenarioError)


def scenario_names() -> list[str]:
    """Return the names of the scenarios that come with Samara."""
    return SCENARIOS.names()


def load_scenario(
    name_or_path: str | Path,
    settings: Mapping[str, object] | None = None,
    *,
    effects: Sequence[EffectOption] = (),
    folder: Path | None = None,
) -> Scenario:
    """Load a scenario by its shipped name or from a file.

    Args:
        name_or_path: name of a shipped scenario, or path of a TOML file.
        settings: changes of the file by key, such as {"duration": 5.0}. They are as untrusted as the file: only texts of type
            `Typed` may name a program, a host or a file outside the scenario's folder (`samara.load_scenario` marks those of a
            Python call).
        effects: custom effects that vehicles may have, as in `samara.vehicle`.
        folder: folder in which the settings of a shipped scenario may name files.

    Raises:
        ScenarioError: the scenario does not exist, or its file has an error.
    """
    text, origin, scenario_folder = SCENARIOS.find(name_or_path)
    scenario = parse_scenario(text, origin, settings, scenario_folder or folder, effects=effects)
    if not is_name(scenario.name):  # runs are saved in a folder of this name
        raise ScenarioError(f"{origin}: name = {shown(scenario.name)}: expected {NAME}")
    return scenario


def scenario_document(name_or_path: str | Path, settings: Mapping[str, object] | None = None) -> dict[str, Any]:
    """Return the tables of a scenario's file as written, with the settings applied."""
    text, origin, _ = SCENARIOS.find(name_or_path)
    return _document(text, origin, settings)


def _document(text: str, origin: str, settings: Mapping[str, object] | None) -> dict[str, object]:
    document = tables_of(text, origin, ScenarioError)
    for key, value in (settings or {}).items():
        apply_override(document, key, value, origin)
    return document


def steady_wind(name_or_path: str | Path, speed: float) -> dict[str, object]:
    """Return the setting that replaces the wind by a steady one [m/s], from the same direction, or from the west."""
    winds = scenario_document(name_or_path).get("wind", [])
    tables = [table for table in (winds if isinstance(winds, list) else [winds]) if isinstance(table, dict)]
    directions = [table["from_deg"] for table in tables if "from_deg" in table]
    return {"wind": {"kind": "constant", "speed": speed, "from_deg": directions[0] if directions else WEST}}


def parse_scenario(
    text: str,
    origin: str,
    settings: Mapping[str, object] | None = None,
    folder: Path | None = None,
    inside: Mapping[str, bytes] | None = None,
    *,
    effects: Sequence[EffectOption] = (),
) -> Scenario:
    """Parse a scenario from the text of a file.

    Args:
        text: content of the file.
        origin: name of the file in errors.
        settings: changes of the file by key. In text and settings, only values of type `Typed` may name a program, a host or a
            file outside the folder.
        folder: folder of the vehicles and tables that the file names.
        inside: files of the recording that the text is from; then no other files are read, and no program is named.
        effects: custom effects that vehicles may have.
    """
    document = _document(text, origin, settings)
    file = Table(document, File(origin, ScenarioError))
    file.schema(SCHEMA, default=SCHEMA)
    name, description = file.text("name", as_name(Path(origin).stem)), file.text("description", "")
    duration = file.number("duration", above=0.0, upto=LONGEST)
    seed = file.whole("seed", 0, low=0, high=2**63 - 1)
    integrator = file.text("integrator", "rk4", IN_FLIGHT)
    strict = file.flag("strict", False)
    rates_table = document.get("rates")
    has_sensor_rate = isinstance(rates_table, dict) and "sensor" in rates_table
    rates = _rates(file)
    environment, home = read_environment(file)
    files = Beside(folder, inside, effects)
    drones = read_drones(file, rates, files, home)
    wind, wind_at_hubs = read_wind(file, files, environment, drones)
    with file.at():
        rates = _fit_sensor_clock(rates, drones, has_sensor_rate)
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
        wind_at_hubs=wind_at_hubs,
        files=files.read,
        text=text,
        settings=dict(settings or {}),
        home=home,
    )
    file.finish()
    with file.at():
        return prepared(scenario)


def _rates(file: Table) -> Rates:
    table = file.optional_table("rates")
    if table is None:
        return Rates()
    rates = Rates(**table.given_numbers([field.name for field in fields(Rates)], above=0.0))
    table.finish()
    with file.at():
        rates.periods()
    return rates


def _fit_sensor_clock(rates: Rates, drones: tuple[Drone, ...], is_fixed: bool) -> Rates:
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


def _read_expectations(file: Table, drones: tuple[Drone, ...]) -> Expect:
    table = file.optional_table("expect")
    if table is None:
        return Expect()
    names = [drone.name for drone in drones]
    crashed = table.take("crashed", "a list", [])
    if not isinstance(crashed, list) or not all(name in names for name in crashed):
        raise table.error("crashed", crashed, f"a list of names among {', '.join(names[:20])}")
    expect = Expect(
        final_position=table.vector("final_position") if "final_position" in table else None,
        within=table.number("within", 0.2, above=0.0),
        no_crash=table.flag("no_crash", True),
        landed=table.flag("landed", False) if "landed" in table else None,
        crashed=tuple(crashed),
        **table.given_numbers(("max_tilt_deg", "max_error", "min_height")),
    )
    table.finish()
    return expect
