"""Replay: the recorded commands, wind and faults once more on the plant, or on another one.

On the same machine the states come out bit for bit: the same steps between the same instants, from the same numbers. Impacts
are repeated too: where there are solids, or drones that hit each other, all fly together among what the recording carries.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from pathlib import Path

import numpy as np

from samara.core.algebra import Vec3
from samara.core.atomic_files import parsed
from samara.core.budget import Budget
from samara.core.sanitise import shown
from samara.core.tree import flatten, leaf_names, unflatten
from samara.core.types import Array
from samara.physics.multirotor import at_rest, environment_of
from samara.physics.types import CALM, Vehicle, initial_effects
from samara.record.derived_outputs import KIND as OUTPUTS
from samara.record.derived_outputs import output_fields, output_rows, output_units
from samara.record.flight_streams import CABLE_FIELD, LOAD_FIELDS
from samara.record.load import load_run
from samara.record.recording import RecordingError
from samara.record.run import Run, Track
from samara.record.streams import Attachments, Table
from samara.scenario.batteries import with_cells
from samara.scenario.timeline import MICROSECONDS, Rates, Timeline, timeline
from samara.scenario.world import World, world_inside
from samara.sim.collide.collisions import Colliding
from samara.sim.plant import Plant
from samara.sim.varied import recorded_references
from samara.vehicles.defaults import cut
from samara.vehicles.effects import EffectOption
from samara.vehicles.payload import Payload, centre_shift, with_centre_moved, with_payload

MAX_INSTANTS = 30_000_000  # over all drones: hours at 1 kHz
MAX_CHANGES = 100  # of payload, battery or cable: each compiles another vehicle
STEPS_PER_INSTANT = 10  # physics steps that cost as much as one instant

Progress = Callable[[float, float], None]


def replay(
    run: Run | str | Path,
    *,
    vehicle: Vehicle | None = None,
    integrator: str | None = None,
    progress: Progress = lambda time, total: None,
    effects: Sequence[EffectOption] = (),
) -> Run:
    """The run's inputs flown again, from its first state; with another vehicle or integrator when given

    The vehicle must have as many rotors; the states of effects it has and the recording has not start as they do at rest.
    `effects` are those from outside the package that a recorded vehicle has, where the run is a file.
    """
    own = run if isinstance(run, Run) else load_run(run, effects=effects)
    plan, world = timeline_from(own.metadata), world_inside(own.attachments)
    _require_affordable(own, plan)
    vehicles = [vehicle or track.vehicle for track in own.tracks]
    method = integrator or own.metadata.get("integrator", "")
    if not method:
        raise RecordingError("the recording does not name its integrator; expected a run of `samara fly`")
    flown = [
        _Replayed(
            track,
            bare,
            method,
            dict(plan.periods)["physics"],
            own.metadata.get("backend", "llvm"),
            references_from(own.metadata, bare) if vehicle is None else None,
        )
        for track, bare in zip(own.tracks, vehicles, strict=True)
    ]
    alone = not world.solids and not world.collisions
    for k, drones in enumerate([[each] for each in flown] if alone else [flown]):
        share = len(drones) / len(flown)
        _fly(drones, plan, world, lambda time, total, k=k, share=share: progress(share * (k * total + time), total))  # type: ignore[misc]
    tracks = [
        Track(track.name, bare, track.controller, {**track.tables, "state": each.states, "outputs": each.outputs})
        for track, bare, each in zip(own.tracks, vehicles, flown, strict=True)
    ]
    files = own.attachments
    if vehicle is not None:
        files = Attachments({**files, **{f"vehicle/{track.name}.toml": vehicle for track in tracks}})
    return Run(own.scenario, tuple(tracks), own.logs, own.metadata, files, own.problem)


def references_from(metadata: Mapping[str, str], vehicle: Vehicle) -> list[Vehicle] | None:
    """Return the vehicles that determine the inputs of the program, if the recorded flight had varied parameters"""
    if "varied" not in metadata:
        return None
    try:
        values = {path: [float(x) for x in leaves] for path, leaves in parsed(metadata["varied"]).items()}
        return recorded_references(vehicle, values)
    except (AttributeError, KeyError, TypeError, ValueError, StopIteration) as error:
        raise RecordingError(
            f"varied = {shown(metadata['varied'])} ({shown(str(error))}); expected values of parameters of {vehicle.name!r}"
        ) from None


def timeline_from(metadata: Mapping[str, str]) -> Timeline:
    """The instants a recording was made at"""
    try:
        rates, extra = Rates(**parsed(metadata["rates"])), parsed(metadata["instants_us"])
        if not isinstance(extra, list) or not all(type(instant) is int for instant in extra):
            raise ValueError(f"instants_us = {shown(extra)}: expected whole numbers")
        return timeline(rates, float(metadata["duration"]), extra)
    except (KeyError, TypeError, ValueError, OverflowError, RecursionError) as error:
        raise RecordingError(
            f"the recording does not say when it was made ({shown(str(error))}); expected a run of `samara fly`"
        ) from None


def _require_affordable(run: Run, plan: Timeline) -> None:
    """Refuse times and rates that would take hours to replay: a recording of a few bytes can name any."""
    budget = Budget("the recording", RecordingError, max_nodes=MAX_INSTANTS)
    last_us = min(max(int(track.tables["state"].times_us[-1]) for track in run.tracks), plan.end_us)
    for name, period_us in plan.periods:
        cost = STEPS_PER_INSTANT * period_us if name == "physics" else period_us
        budget.spend_nodes(len(run.tracks) * last_us // cost, "instants")


def _fly(drones: "list[_Replayed]", plan: Timeline, world: World, progress: Progress) -> None:
    """Through the instants of a recording, together where they can touch something or each other."""
    now, last_us, colliding = 0, max(each.last_us for each in drones), None
    for instant in plan.instants():
        if instant.time_us > last_us:
            break
        if instant.time_us > now:
            if world.solids or world.collisions:
                plants = [each.plant for each in drones]
                if colliding is None or any(a is not b for a, b in zip(plants, colliding.plants, strict=True)):
                    colliding = Colliding(world, plants, [[k] for k in range(len(plants))])
                colliding.advance(now, instant.time_us)
            else:
                for each in drones:
                    each.plant.advance(now, instant.time_us)
            now = instant.time_us
        for each in drones:
            each.hear(now)
        if now % MICROSECONDS == 0:
            progress(now / MICROSECONDS, last_us / MICROSECONDS)


class _Replayed:
    """One drone's recorded inputs on a plant of its own, and the states it comes to."""

    def __init__(
        self,
        track: Track,
        bare: Vehicle,
        integrator: str,
        physics_us: int,
        backend: str,
        references: Sequence[Vehicle] | None = None,
    ) -> None:
        self.bare, self._references = bare, references
        self._budget = Budget("the recording", RecordingError, max_expansions=MAX_CHANGES)
        streams = ("state", "command", "environment")
        if missing := [name for name in streams if name not in track.tables]:
            raise RecordingError(f"{track.name}: has no stream {missing[0]!r}; expected a run of `samara fly`")
        self._recorded, self._commands, self._environment = (track.tables[name] for name in streams)
        given = self._commands.rows.shape[1]
        if given != bare.command_size:
            raise ValueError(
                f"vehicle {bare.name!r} has {len(bare.rotors)} rotors; {track.name} was recorded with {given}"
            )
        self.last_us = int(self._recorded.times_us[-1])
        self._fields = tuple(_names(bare))
        self._rows = np.empty((len(self._recorded.times_us), len(self._fields)))
        self._flown_with: list[tuple[Vehicle, Array, Array]] = []  # at each row
        names = self._environment.fields
        for name in (*(f"wind_W.{axis}" for axis in "xyz"), *LOAD_FIELDS):
            if name not in names:
                raise RecordingError(f"{track.name}: its environment has no {name}; expected a run of `samara fly`")
        if names[names.index(LOAD_FIELDS[0]) :][: len(LOAD_FIELDS)] != LOAD_FIELDS:
            raise RecordingError(f"{track.name}: its environment has {names[-1]!r} last; expected {LOAD_FIELDS[-1]}")
        self._load = names.index(LOAD_FIELDS[0])
        self._cable = names.index(CABLE_FIELD) if CABLE_FIELD in names and bare.has("slung_load") else 0
        self._next_command = self._next_environment = self._next_row = 0
        self._payload, self._cells, self._holds = Payload(), 1.0, True
        self.plant = Plant(bare, integrator=integrator, physics_us=physics_us, backend=backend, references=references)
        self.plant.state[:, 0] = _first_state(self._recorded, bare, self._fields)

    def hear(self, now: int) -> None:
        """Takes what was recorded until now, and notes the state where one was logged"""
        environment, commands = self._environment, self._commands
        while (
            self._next_environment < len(environment.times_us) and environment.times_us[self._next_environment] <= now
        ):
            self._surround(environment.rows[self._next_environment])
            self._next_environment += 1
        while self._next_command < len(commands.times_us) and commands.times_us[self._next_command] <= now:
            self.plant.command[:, 0] = commands.rows[self._next_command]
            self._next_command += 1
        if self._next_row < len(self._rows) and self._recorded.times_us[self._next_row] == now:
            plant = self.plant
            self._rows[self._next_row] = plant.state[:, 0]
            self._flown_with.append((plant.vehicle, plant.command[:, 0].copy(), plant.environment[:, 0].copy()))
            self._next_row += 1

    def _surround(self, row: Array) -> None:
        load = self._load
        carried = Payload(float(row[load]), Vec3(*row[load + 1 : load + 4].tolist()))
        cells, held = float(row[load + 4]), bool(row[self._cable]) if self._cable else True
        if (carried, cells, held) != (self._payload, self._cells, self._holds):
            self._budget.expand(1, "changes of payload, battery or cable")
            bodies = [body if held else cut(body) for body in (self.bare, *(self._references or ()))]
            self.plant = _changed(self.plant, bodies, self._payload, carried, cells)
            self._payload, self._cells, self._holds = carried, cells, held
        names = self._environment.fields
        alike = self.plant.environment_fields == names[:load]
        self.plant.environment[:, 0] = row[:load] if alike else _environment(self.bare, names, row)

    @property
    def states(self) -> Table:
        """The states it came to, in the place of the recorded ones"""
        recorded = self._recorded
        units = dict(zip(recorded.fields, recorded.units, strict=True))
        told = tuple(units.get(name, "1") for name in self._fields)
        return Table(self._fields, told, recorded.kind, recorded.times_us, self._rows)

    @property
    def outputs(self) -> Table:
        """Supply and airspeed of those states"""
        fields = output_fields(self.bare)
        rows, first = np.empty((len(self._rows), len(fields))), 0
        for _, same in groupby(self._flown_with, key=lambda held: id(held[0])):
            vehicles, commands, around = zip(*same, strict=True)
            last = first + len(vehicles)
            states = self._rows[first:last]
            rows[first:last] = output_rows(states, np.array(commands), np.array(around), vehicles[0])
            first = last
        return Table(fields, output_units(fields), OUTPUTS, self._recorded.times_us[:first], rows[:first])


def _names(vehicle: Vehicle) -> tuple[str, ...]:
    return Plant(vehicle).fields


def _first_state(recorded: Table, vehicle: Vehicle, fields: tuple[str, ...]) -> Array:
    if fields == recorded.fields:
        return recorded.rows[0]
    at = {name: k for k, name in enumerate(recorded.fields)}
    resting = flatten(at_rest(vehicle))
    common = [name for name in fields[: len(fields) - len(flatten(initial_effects(vehicle)))] if name in at]
    return np.array(
        [recorded.rows[0, at[name]] if name in common else rest for name, rest in zip(fields, resting, strict=True)]
    )


def _environment(vehicle: Vehicle, fields: tuple[str, ...], row: Array) -> Array:
    """What another vehicle feels of a recorded environment, by the names of its numbers"""
    known = dict(zip(fields, row.tolist(), strict=True))
    wind_W = Vec3(*(known[f"wind_W.{axis}"] for axis in "xyz"))
    fresh = environment_of(vehicle, CALM._replace(wind_W=wind_W))
    pairs = zip(leaf_names(fresh), flatten(fresh), strict=True)
    return np.array([known.get(name, own) for name, own in pairs], dtype=float)


def _changed(plant: Plant, bodies: Sequence[Vehicle], before: Payload, after: Payload, cells: float) -> Plant:
    """Return the plant with another load or battery, in the same motion; `bodies` has the bare vehicle and its references"""
    bare, *references = bodies
    own = unflatten(at_rest(plant.vehicle), iter(plant.state[:, 0].tolist()))
    moved = with_centre_moved(own, centre_shift(bare, after) - centre_shift(bare, before))
    other = Plant(
        with_payload(with_cells(bare, cells), after),
        references=[with_payload(with_cells(own, cells), after) for own in references] or None,
        integrator=plant.integrator,
        physics_us=plant.physics_us,
        backend=plant.backend,
    )
    other.state[:, 0] = flatten(moved)
    other.command[:] = plant.command
    other.pace[:] = plant.pace
    return other
