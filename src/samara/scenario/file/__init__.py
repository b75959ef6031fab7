"""From a TOML file to a scenario: strict, and one sentence about what is wrong.

The file's own keys are read here; `drones`, `mission` and `environment` read its tables.
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
    """The names of the scenarios that come with Samara."""
    return SCENARIOS.names()


def load_scenario(
    name_or_path: str | Path,
    settings: Mapping[str, object] | None = None,
    *,
    effects: Sequence[EffectOption] = (),
    folder: Path | None = None,
) -> Scenario:
    """Load a scenario by its shipped name or from a file; `settings` such as {"duration": 5.0} are put into the file first.

    Settings are as untrusted as the file: only texts of type `Typed` may name a program, a host or a file outside the
    scenario's folder (`samara.load_scenario` marks those of a Python call). `folder` is where the settings of a shipped
    scenario may name files. Vehicles may have `effects` from outside the package, as in `samara.vehicle`.
    """
    text, origin, beside = SCENARIOS.find(name_or_path)
    own = parse_scenario(text, origin, settings, beside or folder, effects=effects)
    if not is_name(own.name):  # runs are kept in a folder of this name
        raise ScenarioError(f"{origin}: name = {shown(own.name)}: expected {NAME}")
    return own


def scenario_document(name_or_path: str | Path, settings: Mapping[str, object] | None = None) -> dict[str, Any]:
    """The tables of a scenario's file as they are written, with settings put in"""
    text, origin, _ = SCENARIOS.find(name_or_path)
    return _document(text, origin, settings)


def _document(text: str, origin: str, settings: Mapping[str, object] | None) -> dict[str, object]:
    document = tables_of(text, origin, ScenarioError)
    for key, value in (settings or {}).items():
        apply_override(document, key, value, origin)
    return document


def steady_wind(name_or_path: str | Path, speed: float) -> dict[str, object]:
    """The setting for a steady wind [m/s] in the place of a scenario's own: from where that comes, or else from the west"""
    blowing = scenario_document(name_or_path).get("wind", [])
    tables = [own for own in (blowing if isinstance(blowing, list) else [blowing]) if isinstance(own, dict)]
    directions = [own["from_deg"] for own in tables if "from_deg" in own]
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
    """A scenario from the text of a file; `origin` is what errors call it, `folder` where its own vehicles and tables are

    `inside` are the files of the recording that the text is from: then nothing else is read, and no program is named. Of text
    and settings alike, only what is of type `Typed` may name a program, a host or a file outside the folder.
    """
    document = _document(text, origin, settings)
    file = Table(document, File(origin, ScenarioError))
    file.schema(SCHEMA, default=SCHEMA)
    name, description = file.text("name", as_name(Path(origin).stem)), file.text("description", "")
    duration = file.number("duration", above=0.0, upto=LONGEST)
    seed = file.whole("seed", 0, low=0, high=2**63 - 1)
    integrator = file.text("integrator", "rk4", IN_FLIGHT)
    strict = file.flag("strict", False)
    given_rates = document.get("rates")
    with_axis = isinstance(given_rates, dict) and "sensor" in given_rates
    rates = _rates(file)
    environment, where = read_environment(file)
    beside = Beside(folder, inside, effects)
    drones = read_drones(file, rates, beside, where)
    blowing, at_hubs = read_wind(file, beside, environment, drones)
    with file.at():
        rates = _sensor_axis(rates, drones, with_axis)
    scenario = Scenario(
        name,
        drones,
        duration,
        seed,
        rates,
        blowing,
        environment,
        tuple(read_event(table, drones) for table in file.tables("events")),
        integrator,
        strict,
        _expect(file, drones),
        description,
        world=read_world(file, beside, environment, drones),
        wind_at_hubs=at_hubs,
        files=beside.read,
        text=text,
        settings=dict(settings or {}),
        home=where,
    )
    file.finish()
    with file.at():
        return prepared(scenario)


def _rates(file: Table) -> Rates:
    table = file.optional_table("rates")
    if table is None:
        return Rates()
    rates = Rates(**table.given_numbers([own.name for own in fields(Rates)], above=0.0))
    table.finish()
    with file.at():
        rates.periods()
    return rates


def _sensor_axis(rates: Rates, drones: tuple[Drone, ...], given: bool) -> Rates:
    """The sensor axis of the file, which every sensor must fit, or the slowest they all fit into."""
    sensors = {sensor for drone in drones for sensor in drone.sensors}
    timed = [sensor for sensor in sensors if sensor.rate]
    if timed and not given:
        spans = [round(MICROSECONDS / sensor.rate) for sensor in timed]
        spans += [microseconds(sensor.delay, f"the delay of sensor {sensor.name!r}") for sensor in timed]
        rates = replace(rates, sensor=MICROSECONDS / math.gcd(*spans))
    for sensor in sensors:
        sampling(sensor, rates.periods()["sensor"])
    return rates


def _expect(file: Table, drones: tuple[Drone, ...]) -> Expect:
    table = file.optional_table("expect")
    if table is None:
        return Expect()
    names = [own.name for own in drones]
    crashed = table.take("crashed", "a list", [])
    if not isinstance(crashed, list) or not all(own in names for own in crashed):
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
