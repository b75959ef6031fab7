"""Recordings of older schemas in today's form. Nothing else knows the older ones.

Schema 1 named the states of effects by their numbers ('effects[6][0].charge'), wrote settings as comments below the scenario's
text ('# set: duration = 5.0'), told of crashes and landings in sentences of the log only, and had no supply or airspeed.
Schema 2 had no stream `event`: of what it holds, the status tells who took off, landed and crashed.
"""

import ast
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from samara.core.atomic_files import parsed
from samara.core.tree import leaf_names
from samara.physics.multirotor import at_rest, state_names
from samara.physics.types import Vehicle
from samara.record.derived_outputs import output_table
from samara.record.format import RecordingError
from samara.record.streams import STATUS_FIELDS, state_units, unit_of
from samara.record.table import Recording, Table
from samara.scenario.flight_events import EVENT_FIELDS, Occurrence, status_change
from samara.scenario.snapshot import BUS_SCHEMA_VERSION
from samara.vehicles.loader import parse_vehicle

SET = re.compile(r"^# set: (\S+) = (.*)$", re.MULTILINE)
CRASHED = re.compile(r"(\S+) crashed: ")
SCENARIO = "scenario.toml"


def to_current_schema(recording: Recording) -> Recording:
    """The same flight as it would be recorded now; RecordingError, in one sentence, of one that a newer Samara recorded"""
    told = recording.metadata.get("schema", "1")
    try:
        schema = int(told)
    except ValueError:
        schema = 0
    if schema < 1:
        raise RecordingError(f"{recording.path}: schema is {told!r:.40}; expected a whole number from 1")
    if schema > BUS_SCHEMA_VERSION:
        raise RecordingError(
            f"{recording.path}: is of schema {schema}; a newer Samara recorded it, "
            f"and this one reads up to {BUS_SCHEMA_VERSION}"
        )
    if schema == BUS_SCHEMA_VERSION:
        return recording
    try:
        return _from_2(_from_1(recording) if schema == 1 else recording)
    except (KeyError, TypeError, ValueError, RecursionError):  # no flight that can be flown again: as it is
        return recording


def _from_1(recording: Recording) -> Recording:
    settings, attachments = _settings_apart(recording.attachments)
    metadata = {**recording.metadata, "settings": json.dumps(settings, default=str)}
    streams: dict[str, Table] = dict(recording.streams)
    vehicles: dict[bytes, Vehicle] = {}
    for own in parsed(recording.metadata["drones"]):
        name, text = own["name"], recording.attachments[f"vehicle/{own['name']}.toml"]
        if text not in vehicles:
            vehicles[text] = parse_vehicle(text.decode(), f"{name}.toml")
        tables = {each: streams.get(f"/{name}/{each}") for each in ("state", "command", "environment")}
        if tables["state"] is None:
            continue
        streams[f"/{name}/state"] = _named(tables["state"], vehicles[text])
        if all(table is not None and len(table.rows) for table in tables.values()):
            streams[f"/{name}/outputs"] = output_table({k: v for k, v in tables.items() if v}, vehicles[text])
        streams[f"/{name}/status"] = _status(name, recording)
    return recording._replace(metadata=metadata, attachments=attachments, streams=streams)


def _from_2(recording: Recording) -> Recording:
    streams = dict(recording.streams)
    for own in parsed(recording.metadata["drones"]):
        status = streams.get(f"/{own['name']}/status")
        if status is not None and (found := list(_events(status))):
            times, rows = zip(*found, strict=True)
            streams[f"/{own['name']}/event"] = Table(
                EVENT_FIELDS,
                tuple(map(unit_of, EVENT_FIELDS)),
                "samara.Event",
                np.array(times, dtype=np.int64),
                np.array(rows),
            )
    return recording._replace(metadata={**recording.metadata, "schema": str(BUS_SCHEMA_VERSION)}, streams=streams)


def _events(status: Table) -> Iterator[tuple[int, tuple[float, ...]]]:
    """What its status tells of a drone: when, and a row of the stream `event`"""
    held = status.rows.tolist()
    for time_us, before, after in zip(status.times_us[1:].tolist(), held, held[1:], strict=False):
        if fact := status_change(before, after):
            yield time_us, Occurrence(time_us, 0, fact).row


def _settings_apart(attachments: Mapping[str, bytes]) -> tuple[dict[str, Any], dict[str, bytes]]:
    """The settings below a scenario's text, and the text without them"""
    if SCENARIO not in attachments:
        return {}, dict(attachments)
    text = attachments[SCENARIO].decode("utf-8", "replace")
    found = SET.findall(text)
    if not found:
        return {}, dict(attachments)
    settings = {}
    for key, value in found:
        try:
            settings[key] = ast.literal_eval(value)
        except (ValueError, SyntaxError, RecursionError, MemoryError):  # the last two of thousands of signs in a row
            settings[key] = value
    return settings, {**attachments, SCENARIO: (SET.sub("", text).rstrip() + "\n").encode()}


def _named(table: Table, vehicle: Vehicle) -> Table:
    """A state whose effects are called by name"""
    if table.fields != tuple(leaf_names(at_rest(vehicle))):
        return table
    return Table(state_names(vehicle), state_units(vehicle), table.kind, table.times_us, table.rows)


def _status(name: str, recording: Recording) -> Table:
    """What the log says of one drone: that it crashed or, in its last line, that all have landed"""
    crashed = [line.time_us for line in recording.logs if (said := CRASHED.match(line.message)) and said[1] == name]
    rows = [(0, (0.0, 0.0)), *((when, (0.0, 1.0)) for when in crashed[:1])]
    ended = [line for line in recording.logs[-1:] if line.message == "landed" and not crashed]
    rows += [(line.time_us, (1.0, 0.0)) for line in ended]
    times, values = zip(*rows, strict=True)
    return Table(STATUS_FIELDS, ("1",) * 2, "samara.Status", np.array(times, dtype=np.int64), np.array(values))
