"""Replay: the recorded commands, wind and faults once more on the plant, or on another one.

On the same machine the states come out bit for bit: the same steps between the same instants, from the same numbers.
"""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from samara.arrays import flatten, unflatten
from samara.physics.multirotor import Vehicle, at_rest
from samara.sim.batteries import with_cells
from samara.sim.plant import Plant, environment_of
from samara.sim.recording import RecordingError, Table
from samara.sim.run import Run, Track, load_run
from samara.sim.streams import LOAD_FIELDS
from samara.sim.timeline import MICROSECONDS, Rates, Timeline, timeline
from samara.vehicles.payload import Payload, centre_shift, with_centre_moved, with_payload

Progress = Callable[[float, float], None]


def replay(
    run: Run | str | Path,
    *,
    vehicle: Vehicle | None = None,
    integrator: str | None = None,
    progress: Progress = lambda time, total: None,
) -> Run:
    """The run's inputs flown again, from its first state; with another vehicle or integrator when given

    The vehicle must have as many rotors; the states of effects it has and the recording has not start as they do at rest.
    """
    own = run if isinstance(run, Run) else load_run(run)
    plan = timeline_from(own.metadata)
    tracks = []
    for k, track in enumerate(own.tracks):
        states = _flown_again(
            track,
            vehicle or track.vehicle,
            integrator or own.metadata["integrator"],
            plan,
            lambda time, total, k=k: progress((k * total + time) / len(own.tracks), total),  # type: ignore[misc]
        )
        tracks.append(Track(track.name, vehicle or track.vehicle, track.controller, {**track.tables, "state": states}))
    return Run(own.scenario, tuple(tracks), own.logs, own.metadata, own.attachments, own.problem)


def timeline_from(metadata: Mapping[str, str]) -> Timeline:
    """The instants a recording was made at"""
    try:
        rates, extra = Rates(**json.loads(metadata["rates"])), json.loads(metadata["instants_us"])
        return timeline(rates, float(metadata["duration"]), extra)
    except (KeyError, TypeError, ValueError) as error:
        raise RecordingError(
            f"the recording does not say when it was made ({error}); expected a run of `samara fly`"
        ) from None


def _flown_again(track: Track, bare: Vehicle, integrator: str, plan: Timeline, progress: Progress) -> Table:
    recorded, commands, environment = (track.tables[name] for name in ("state", "command", "environment"))
    if commands.rows.shape[1] != (len(bare.rotors) or 4):
        raise ValueError(
            f"vehicle {bare.name!r} has {len(bare.rotors)} rotors; {track.name} was recorded with {commands.rows.shape[1]}"
        )
    physics_us = dict(plan.periods)["physics"]
    last_us = int(recorded.times_us[-1])
    fields = tuple(_names(bare))
    rows = np.empty((len(recorded.times_us), len(fields)))
    load = environment.fields.index(LOAD_FIELDS[0])
    next_command = next_environment = next_row = 0
    payload, cells, now = Payload(), 1.0, 0
    plant = Plant(bare, integrator=integrator, physics_us=physics_us)
    plant.state[:, 0] = _first_state(recorded, bare, fields)
    for instant in plan.instants():
        if instant.time_us > last_us:
            break
        if instant.time_us > now:
            plant.advance(now, instant.time_us)
            now = instant.time_us
        while next_environment < len(environment.times_us) and environment.times_us[next_environment] <= now:
            row = environment.rows[next_environment]
            carried = Payload(float(row[load]), type(payload.r_B)(*row[load + 1 : load + 4].tolist()))
            if (carried, float(row[load + 4])) != (payload, cells):
                plant = _changed(plant, bare, payload, carried, float(row[load + 4]))
                payload, cells = carried, float(row[load + 4])
            plant.environment[:, 0] = row[:load] if len(plant.environment) == load else _environment(bare, row)
            next_environment += 1
        while next_command < len(commands.times_us) and commands.times_us[next_command] <= now:
            plant.command[:, 0] = commands.rows[next_command]
            next_command += 1
        if recorded.times_us[next_row] == now:
            rows[next_row] = plant.state[:, 0]
            next_row += 1
            if now % MICROSECONDS == 0:
                progress(now / MICROSECONDS, last_us / MICROSECONDS)
            if next_row == len(rows):
                break
    units = dict(zip(recorded.fields, recorded.units, strict=True))
    return Table(fields, tuple(units.get(name, "1") for name in fields), recorded.kind, recorded.times_us, rows)


def _names(vehicle: Vehicle) -> tuple[str, ...]:
    return Plant(vehicle).fields


def _first_state(recorded: Table, vehicle: Vehicle, fields: tuple[str, ...]) -> np.ndarray[Any, Any]:
    if fields == recorded.fields:
        return recorded.rows[0]
    at = {name: k for k, name in enumerate(recorded.fields)}
    resting = flatten(at_rest(vehicle))
    common = [name for name in fields if name in at and not name.startswith("effects")]
    return np.array(
        [recorded.rows[0, at[name]] if name in common else rest for name, rest in zip(fields, resting, strict=True)]
    )


def _environment(vehicle: Vehicle, row: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    fresh = np.array(flatten(environment_of(vehicle)), dtype=float)
    size = min(len(fresh), len(row) - len(LOAD_FIELDS))
    fresh[:size] = row[:size]
    return fresh


def _changed(plant: Plant, bare: Vehicle, before: Payload, after: Payload, cells: float) -> Plant:
    """The plant with another load or battery, in the same motion."""
    own = unflatten(at_rest(plant.vehicle), iter(plant.state[:, 0].tolist()))
    moved = with_centre_moved(own, centre_shift(bare, after) - centre_shift(bare, before))
    other = Plant(
        with_payload(with_cells(bare, cells), after), integrator=plant.integrator, physics_us=plant.physics_us
    )
    other.state[:, 0] = flatten(moved)
    other.command[:] = plant.command
    return other
