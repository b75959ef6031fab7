"""Replay: integrate the plant again with the recorded commands, wind and faults, for the same or another vehicle.

On the same machine the states are bit-identical: the steps, the instants and all inputs are the same. Impacts are repeated as
well: with solids, or drones that can collide, all drones are integrated together in the world of the recording.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from pathlib import Path

import numpy as np

from samara.core.algebra import Vec3
from samara.core.atomic_files import parse_json
from samara.core.budget import Budget
from samara.core.sanitise import quote_value
from samara.core.tree import flatten, leaf_names, unflatten
from samara.core.types import Array
from samara.physics.multirotor import complete_environment, state_at_rest
from samara.physics.types import CALM, Vehicle, initial_effects
from samara.record.derived_outputs import SCHEMA_NAME as OUTPUTS
from samara.record.derived_outputs import output_fields, output_rows, output_units
from samara.record.flight_streams import CABLE_FIELD, LOAD_FIELDS
from samara.record.load import load_run
from samara.record.recording import RecordingError
from samara.record.run import DroneRecord, Run
from samara.record.streams import Attachments, RecordedStream
from samara.scenario.batteries import reduce_cells
from samara.scenario.changes import resolve_vehicle
from samara.scenario.timeline import MICROSECONDS, Rates, Timeline, timeline
from samara.scenario.world import World, recorded_world
from samara.sim.collide.collisions import CollisionWorld
from samara.sim.plant import Plant
from samara.sim.varied import recorded_references
from samara.vehicles.defaults import release_load
from samara.vehicles.effects import EffectOption
from samara.vehicles.payload import Payload, centre_shift, shift_centre_of_mass, with_payload

MAX_INSTANTS = 30_000_000  # instants times drones; hours of one drone at 1 kHz
MAX_CHANGES = 100  # changes of payload, battery or cable, each of which compiles another vehicle
STEPS_PER_INSTANT = 10  # physics steps that cost as much as one instant

Progress = Callable[[float, float], None]


def replay(
    run: Run | str | Path,
    *,
    vehicle: str | Path | Vehicle | None = None,
    integrator: str | None = None,
    progress: Progress = lambda time, total: None,
    effects: Sequence[EffectOption] = (),
) -> Run:
    """Integrate the recorded inputs of a run again, from its first state.

    Args:
        run: a run, or the path of its recording.
        vehicle: vehicle that replaces the recorded ones, as in `samara.fly`. It must have as many rotors; effects that the
            recording lacks start at rest.
        integrator: replaces the recorded integrator.
        progress: called as `progress(time, total)` at every full second of the flight [s].
        effects: custom effects of the recorded vehicles, if `run` is a file.

    Returns:
        The run with the replayed states and outputs in place of the recorded ones.
    """
    recorded_run = run if isinstance(run, Run) else load_run(run, effects=effects)
    if vehicle is not None:
        vehicle = resolve_vehicle(vehicle, effects)
    flight_timeline, world = recorded_timeline(recorded_run.metadata), recorded_world(recorded_run.attachments)
    _require_affordable(recorded_run, flight_timeline)
    vehicles = [vehicle or track.vehicle for track in recorded_run.drone_records]
    integrator_name = integrator or recorded_run.metadata.get("integrator", "")
    if not integrator_name:
        raise RecordingError("the recording does not name its integrator; expected a run of `samara fly`")
    replayed_drones = [
        _ReplayedDrone(
            track,
            bare_vehicle,
            integrator_name,
            dict(flight_timeline.periods)["physics"],
            recorded_run.metadata.get("backend", "llvm"),
            varied_references(recorded_run.metadata, bare_vehicle) if vehicle is None else None,
        )
        for track, bare_vehicle in zip(recorded_run.drone_records, vehicles, strict=True)
    ]
    is_independent = not world.obstacles and not world.collisions
    for k, drones in enumerate([[replayed] for replayed in replayed_drones] if is_independent else [replayed_drones]):
        fraction = len(drones) / len(replayed_drones)
        _fly(
            drones,
            flight_timeline,
            world,
            lambda time, total, k=k, fraction=fraction: progress(fraction * (k * total + time), total),  # type: ignore[misc]
        )
    tracks = [
        DroneRecord(
            track.name,
            bare_vehicle,
            track.controller,
            {**track.tables, "state": replayed.states, "derived": replayed.outputs},
        )
        for track, bare_vehicle, replayed in zip(recorded_run.drone_records, vehicles, replayed_drones, strict=True)
    ]
    files = recorded_run.attachments
    if vehicle is not None:
        files = Attachments({**files, **{f"vehicle/{track.name}.toml": vehicle for track in tracks}})
    return Run(
        recorded_run.scenario, tuple(tracks), recorded_run.logs, recorded_run.metadata, files, recorded_run.problem
    )


def varied_references(metadata: Mapping[str, str], vehicle: Vehicle) -> list[Vehicle] | None:
    """Return the vehicles that determine the inputs of the program, if the recorded flight had varied parameters."""
    if "varied" not in metadata:
        return None
    try:
        values = {path: [float(x) for x in leaves] for path, leaves in parse_json(metadata["varied"]).items()}
        return recorded_references(vehicle, values)
    except (AttributeError, KeyError, TypeError, ValueError, StopIteration) as error:
        raise RecordingError(
            f"varied = {quote_value(metadata['varied'])} ({quote_value(str(error))}); "
            f"expected values of parameters of {vehicle.name!r}"
        ) from None


def recorded_timeline(metadata: Mapping[str, str]) -> Timeline:
    """Return the timeline of a recorded flight."""
    try:
        rates, extra_us = Rates(**parse_json(metadata["rates"])), parse_json(metadata["instants_us"])
        if not isinstance(extra_us, list) or not all(type(instant) is int for instant in extra_us):
            raise ValueError(f"instants_us = {quote_value(extra_us)}: expected whole numbers")
        return timeline(rates, float(metadata["duration"]), extra_us)
    except (KeyError, TypeError, ValueError, OverflowError, RecursionError) as error:
        raise RecordingError(
            f"the recording lacks its rates, instants or duration ({quote_value(str(error))}); expected a run of `samara fly`"
        ) from None


def _require_affordable(run: Run, flight_timeline: Timeline) -> None:
    """Reject times and rates that would take hours to replay, which a recording of a few bytes may contain."""
    budget = Budget("the recording", RecordingError, max_nodes=MAX_INSTANTS)
    last_us = min(max(int(track.tables["state"].times_us[-1]) for track in run.drone_records), flight_timeline.end_us)
    for name, period_us in flight_timeline.periods:
        cost = STEPS_PER_INSTANT * period_us if name == "physics" else period_us
        budget.spend_nodes(len(run.drone_records) * last_us // cost, "instants")


def _fly(drones: "list[_ReplayedDrone]", flight_timeline: Timeline, world: World, progress: Progress) -> None:
    """Integrate through the instants of a recording; drones that can collide are integrated together."""
    time_us, last_us, collider = 0, max(drone.last_us for drone in drones), None
    for instant in flight_timeline.instants():
        if instant.time_us > last_us:
            break
        if instant.time_us > time_us:
            if world.obstacles or world.collisions:
                plants = [drone.plant for drone in drones]
                if collider is None or any(a is not b for a, b in zip(plants, collider.plants, strict=True)):
                    collider = CollisionWorld(world, plants, [[k] for k in range(len(plants))])
                collider.advance(time_us, instant.time_us)
            else:
                for drone in drones:
                    drone.plant.advance(time_us, instant.time_us)
            time_us = instant.time_us
        for drone in drones:
            drone.apply_inputs(time_us)
        if time_us % MICROSECONDS == 0:
            progress(time_us / MICROSECONDS, last_us / MICROSECONDS)


class _ReplayedDrone:
    """One drone's recorded inputs, its plant, and the replayed states."""

    def __init__(
        self,
        track: DroneRecord,
        bare_vehicle: Vehicle,
        integrator: str,
        physics_us: int,
        backend: str,
        references: Sequence[Vehicle] | None = None,
    ) -> None:
        self.bare_vehicle, self._references = bare_vehicle, references
        self._budget = Budget("the recording", RecordingError, max_expansions=MAX_CHANGES)
        streams = ("state", "command", "environment")
        if missing := [name for name in streams if name not in track.tables]:
            raise RecordingError(f"{track.name}: has no stream {missing[0]!r}; expected a run of `samara fly`")
        self._recorded, self._commands, self._environment = (track.tables[name] for name in streams)
        command_size = self._commands.rows.shape[1]
        if command_size != bare_vehicle.command_size:
            raise ValueError(
                f"vehicle {bare_vehicle.name!r} has {len(bare_vehicle.rotors)} rotors; "
                f"{track.name} was recorded with {command_size}"
            )
        self.last_us = int(self._recorded.times_us[-1])
        self._fields = tuple(_state_fields(bare_vehicle))
        self._rows = np.empty((len(self._recorded.times_us), len(self._fields)))
        self._samples: list[tuple[Vehicle, Array, Array]] = []  # at each row
        names = self._environment.fields
        for name in (*(f"wind_W.{axis}" for axis in "xyz"), *LOAD_FIELDS):
            if name not in names:
                raise RecordingError(f"{track.name}: its environment has no {name}; expected a run of `samara fly`")
        if names[names.index(LOAD_FIELDS[0]) :][: len(LOAD_FIELDS)] != LOAD_FIELDS:
            raise RecordingError(f"{track.name}: its environment has {names[-1]!r} last; expected {LOAD_FIELDS[-1]}")
        self._load = names.index(LOAD_FIELDS[0])
        self._cable = names.index(CABLE_FIELD) if CABLE_FIELD in names and bare_vehicle.has("slung_load") else 0
        self._next_command = self._next_environment = self._next_row = 0
        self._payload, self._cells, self._cable_attached = Payload(), 1.0, True
        self.plant = Plant(
            bare_vehicle, integrator=integrator, physics_us=physics_us, backend=backend, references=references
        )
        self.plant.state[:, 0] = _first_state(self._recorded, bare_vehicle, self._fields)

    def apply_inputs(self, time_us: int) -> None:
        """Apply the inputs recorded up to now, and save the state at the times of logged states."""
        environment, commands = self._environment, self._commands
        while (
            self._next_environment < len(environment.times_us)
            and environment.times_us[self._next_environment] <= time_us
        ):
            self._apply_environment(environment.rows[self._next_environment])
            self._next_environment += 1
        while self._next_command < len(commands.times_us) and commands.times_us[self._next_command] <= time_us:
            self.plant.command[:, 0] = commands.rows[self._next_command]
            self._next_command += 1
        if self._next_row < len(self._rows) and self._recorded.times_us[self._next_row] == time_us:
            plant = self.plant
            self._rows[self._next_row] = plant.state[:, 0]
            self._samples.append((plant.vehicle, plant.command[:, 0].copy(), plant.environment[:, 0].copy()))
            self._next_row += 1

    def _apply_environment(self, row: Array) -> None:
        load = self._load
        payload = Payload(float(row[load]), Vec3(*row[load + 1 : load + 4].tolist()))
        cells, cable_attached = float(row[load + 4]), bool(row[self._cable]) if self._cable else True
        if (payload, cells, cable_attached) != (self._payload, self._cells, self._cable_attached):
            self._budget.expand(1, "changes of payload, battery or cable")
            bodies = [
                body if cable_attached else release_load(body)
                for body in (self.bare_vehicle, *(self._references or ()))
            ]
            self.plant = _rebuild_plant(self.plant, bodies, self._payload, payload, cells)
            self._payload, self._cells, self._cable_attached = payload, cells, cable_attached
        names = self._environment.fields
        has_same_fields = self.plant.environment_fields == names[:load]
        self.plant.environment[:, 0] = (
            row[:load] if has_same_fields else _convert_environment(self.bare_vehicle, names, row)
        )

    @property
    def states(self) -> RecordedStream:
        """The replayed states, at the times of the recorded ones."""
        recorded = self._recorded
        units = dict(zip(recorded.fields, recorded.units, strict=True))
        state_units = tuple(units.get(name, "1") for name in self._fields)
        return RecordedStream(self._fields, state_units, recorded.schema_name, recorded.times_us, self._rows)

    @property
    def outputs(self) -> RecordedStream:
        """Supply and airspeed of the replayed states."""
        fields = output_fields(self.bare_vehicle)
        rows, first = np.empty((len(self._rows), len(fields))), 0
        for _, samples in groupby(self._samples, key=lambda sample: id(sample[0])):
            vehicles, commands, environments = zip(*samples, strict=True)
            last = first + len(vehicles)
            states = self._rows[first:last]
            rows[first:last] = output_rows(states, np.array(commands), np.array(environments), vehicles[0])
            first = last
        return RecordedStream(fields, output_units(fields), OUTPUTS, self._recorded.times_us[:first], rows[:first])


def _state_fields(vehicle: Vehicle) -> tuple[str, ...]:
    return Plant(vehicle).fields


def _first_state(recorded: RecordedStream, vehicle: Vehicle, fields: tuple[str, ...]) -> Array:
    if fields == recorded.fields:
        return recorded.rows[0]
    column_by_field = {name: k for k, name in enumerate(recorded.fields)}
    rest_leaves = flatten(state_at_rest(vehicle))
    common = [
        name for name in fields[: len(fields) - len(flatten(initial_effects(vehicle)))] if name in column_by_field
    ]
    return np.array(
        [
            recorded.rows[0, column_by_field[name]] if name in common else rest_value
            for name, rest_value in zip(fields, rest_leaves, strict=True)
        ]
    )


def _convert_environment(vehicle: Vehicle, fields: tuple[str, ...], row: Array) -> Array:
    """Convert a recorded environment for another vehicle, by field name."""
    recorded_values = dict(zip(fields, row.tolist(), strict=True))
    wind_W = Vec3(*(recorded_values[f"wind_W.{axis}"] for axis in "xyz"))
    calm_environment = complete_environment(vehicle, CALM._replace(wind_W=wind_W))
    pairs = zip(leaf_names(calm_environment), flatten(calm_environment), strict=True)
    return np.array([recorded_values.get(name, default) for name, default in pairs], dtype=float)


def _rebuild_plant(
    plant: Plant, bodies: Sequence[Vehicle], old_payload: Payload, new_payload: Payload, cells: float
) -> Plant:
    """Rebuild the plant with another load or battery, in the same motion; `bodies`: the bare vehicle and its references."""
    bare, *references = bodies
    state = unflatten(state_at_rest(plant.vehicle), iter(plant.state[:, 0].tolist()))
    moved_state = shift_centre_of_mass(state, centre_shift(bare, new_payload) - centre_shift(bare, old_payload))
    new_plant = Plant(
        with_payload(reduce_cells(bare, cells), new_payload),
        references=[with_payload(reduce_cells(reference, cells), new_payload) for reference in references] or None,
        integrator=plant.integrator,
        physics_us=plant.physics_us,
        backend=plant.backend,
    )
    new_plant.state[:, 0] = flatten(moved_state)
    new_plant.command[:] = plant.command
    new_plant.step_sizes[:] = plant.step_sizes
    return new_plant
