"""A group of drones computed together: their plant, and their slots as arrays with one column per drone."""

import operator
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from samara.compiler.batch_parameters import DifferentProgramsError, drone_record, require_equal
from samara.core.algebra import Quat, Vec3
from samara.core.batch_scalar import batch_columns
from samara.core.quantity import Tree
from samara.core.random import normals
from samara.core.tree import flatten, unflatten
from samara.core.types import Array
from samara.physics.multirotor import complete_environment, state_at_rest
from samara.physics.types import BODY_STATE_SIZE, Vehicle
from samara.record.flight_streams import RowBuffer
from samara.scenario.events import DroneSetting
from samara.scenario.timeline import sampling
from samara.sensors.sensor import Sensor
from samara.sim.plant import Plant
from samara.sim.references import ReferenceTable
from samara.sim.setup import DroneSetup, setting_values
from samara.sim.stage import RESTARTED_SLOTS, Entry, Normals, SlotPart, Stage, StageSet, build, slot_part
from samara.sim.stages.estimator import estimate_slot

NOT_COPIED_SLOTS = RESTARTED_SLOTS | {
    *("state", "command", "environment", "contact", "reference", "status", "predicted_path", "armed"),
    *("estimate", "new_estimate", "frozen"),
}
"""Slots that are not copied when a drone moves to another group: they restart, or are set separately."""


class SensorRows(NamedTuple):
    """A sensor of a group's drones: its last readings (fields, n), and two flags per drone, 1 or 0: `fresh` (n), the reading is
    unused; `silent` (n), the sensor has failed. It samples every `period_us`, and readings arrive `delay_us` later.
    """

    sensor: Sensor
    reading: Array
    fresh: Array
    silent: Array
    period_us: int
    delay_us: int


class Group:
    """n drones of one structure: `slots` has an array (leaves, n) for each slot, by name.

    `state` and `environment` give the rows of those slots by field: `group.state.p_W` (3, n). `images` has the images that
    arrived last from sensors that deliver them, (n, rows, columns, …) each, by names such as "camera/rgb".
    """

    def __init__(
        self,
        setups: Sequence[DroneSetup],
        drones: tuple[int, ...],
        seeds: Sequence[int],
        drone_numbers: Array,
        names: tuple[str, ...],
        reference_ticks: int,
        references: Sequence[DroneSetup] | None = None,
    ) -> None:
        """Allocate the slots of the group's drones.

        Args:
            setups: one for each drone if their parameters differ, else a single one.
            drones: indices of the drones in the scenario.
            seeds: the seed of each drone's flight.
            drone_numbers: index of each drone in its flight, which random numbers are drawn by.
            names: names of the drones.
            reference_ticks: references tabulated at a time.
            references: drones that determine which parameters are inputs of the programs; None for those of the group.
        """
        self.setups, self.drones, self.names, n = tuple(setups), drones, names, len(drones)
        self.setup, self.seeds, self.drone_numbers = self.setups[0], tuple(seeds), drone_numbers
        self.vehicles = tuple(setup.vehicle for setup in self.setups)
        self.vehicle = self.setup.vehicle
        require_equal([(setup.healthy, setup.estimator, setup.motor_map) for setup in self.setups])
        self.indices = np.array(drones)
        flight = self.setup.flight
        self.plant = Plant(
            self.vehicle,
            n=n,
            integrator=flight.integrator,
            physics_us=flight.periods["physics"],
            backend=flight.backend,
            vehicles=self.vehicles,
            references=None if references is None else [setup.vehicle for setup in references],
        )
        plant = self.plant
        self.templates: dict[str, Tree] = {
            "state": state_at_rest(self.vehicle),
            "environment": complete_environment(self.vehicle),
            "command": (0.0,) * self.vehicle.command_size,
        }
        self.slots: dict[str, Array] = {
            "state": plant.state,
            "environment": plant.environment,
            "command": plant.command,
            "contact": plant.contact,
        }
        self.images: dict[str, Array] = {
            f"{sensor.name}/{image.name}": np.zeros((n, *image.shape), image.dtype)
            for sensor in self.setup.sensors
            for image in sensor.images
        }
        self.sets: dict[str, tuple[StageSet, ...]] = {}
        self._references: list[dict[str, Stage]] | None = None  # stages by name of the drones that determine the inputs
        self.state, self.environment = (
            named_rows(self.slots[name], self.templates[name]) for name in ("state", "environment")
        )
        self.tables: dict[str, RowBuffer] = {}  # recorded rows waiting to be flushed
        self.first_ticks: dict[str, Array] = {}  # the tick of row 0 of each table
        self.reference_ticks = reference_ticks
        self.reference_tables = {"reference": ReferenceTable(reference_ticks, n)}  # by slot
        self.external_references: dict[int, tuple[list[int], Array]] = {}  # by time [µs]: columns and their references
        self.plans: dict[str, tuple[int, Array]] = {}  # references ahead: the first tick, and the rows from that tick
        self.controller: Any = None  # if Python runs it
        self.invalid_reported = 0.0
        self.has_run: set[str] = set()  # stages with an `initial_dt` that are past their first update
        self._pending_stages: list[tuple[int, str]] = []  # the others, with the indices of their entries

    def __len__(self) -> int:
        return len(self.drones)

    # Stages and slots -------------------------------------------------------------------------------------------------

    def link(
        self, entries: Sequence[Entry], setups: Sequence[DroneSetup], references: Sequence[DroneSetup] | None = None
    ) -> None:
        """Build the stages of a sequence and allocate their slots; slots of unchanged shape keep their values."""
        if self.sets and len(setups) == len(self.setups) and all(map(operator.is_, setups, self.setups)):
            return
        self.setups, self.setup = tuple(setups), setups[0]
        self._estimate_slot = estimate_slot(self.setup)
        self._references = None
        if references is not None:
            reference_sets = ([build(entry, setup) for entry in entries] for setup in references)
            self._references = [
                {stage.name: stage for stage_set in sets for stage in stage_set.stages} for sets in reference_sets
            ]
        self.sets = {entry.name: tuple(build(entry, setup) for setup in self.setups) for entry in entries}
        self._pending_stages = [
            (entry_index, stage.name)
            for entry_index, (sets, *_) in enumerate(self.sets.values())
            for stage in sets.stages
            if stage.initial_dt is not None and stage.name not in self.has_run
        ]
        for sets in self.sets.values():
            signatures = [
                tuple((stage.name, stage.update, stage.reads) for stage in stage_set.stages) for stage_set in sets
            ]
            if any(signature != signatures[0] for signature in signatures):
                raise DifferentProgramsError(signatures)
            for slot, value in sets[0].slots.items():
                self._allocate(slot, value, [stage_set.slots[slot] for stage_set in sets])

    def _allocate(self, slot: str, value: Tree, initial_values: Sequence[Tree]) -> None:
        template = value(self.templates["state"], lambda source, count: (0.0,) * count) if callable(value) else value
        self.templates[slot] = template
        size, n = len(flatten(template)), len(self)
        if slot in self.slots and self.slots[slot].shape == (size, n):
            return
        self.slots[slot] = np.empty((size, n))
        self._fill(slot, initial_values)

    def start(self) -> None:
        """Set every slot to its initial value, computed from each drone's state and normals."""
        for sets in self.sets.values():
            for slot in sets[0].slots:
                if slot != "contact":
                    self._fill(slot, [stage_set.slots[slot] for stage_set in sets])

    def _fill(self, slot: str, initial_values: Sequence[Tree]) -> None:
        array = self.slots[slot]
        if not len(array):
            return
        if not callable(initial_values[0]):
            if len(initial_values) == 1:
                array[:] = batch_columns(flatten(initial_values[0]), len(self))
            else:
                array[:] = np.array([flatten(value) for value in initial_values], dtype=float).T
            return
        for column in range(len(self)):
            initial = initial_values[column % len(initial_values)]
            state = unflatten(self.templates["state"], iter(self.slots["state"][:, column].tolist()))
            array[:, column] = flatten(initial(state, self._first_normals(column)))

    def _first_normals(self, column: int) -> Normals:
        seed, number = self.seeds[column], int(self.drone_numbers[column])
        return lambda source, count: normals(seed, source, number, 0, count).tolist()

    def mark_entries_run(self, entries: int) -> None:
        """Record that the first `entries` entries of the sequence have run at the present instant."""
        if self._pending_stages:
            self.has_run |= {name for entry_index, name in self._pending_stages if entry_index < entries}
            self._pending_stages = [pending for pending in self._pending_stages if pending[1] not in self.has_run]

    def reference_stages(self, name: str) -> list[Stage] | None:
        """Return a stage of the drones that determine which of its parameters are inputs; None for those of the group."""
        if self._references is None:
            return None
        base, *probes = self._references
        return [stages[name] for stages in (base, *probes) if name in stages] if name in base else []

    def part(self, path: str) -> SlotPart:
        """Return the part of a slot that a path names."""
        return slot_part(self.templates, path)

    def rows(self, path: str) -> Array:
        """Return the rows (leaves, n) of a slot or of a part of one: a view to read and write."""
        slot, first, template = self.part(path)
        return self.slots[slot][first : first + len(flatten(template))]

    @property
    def estimate(self) -> Array:
        """The estimate the controllers use: the state itself for the estimator `truth`."""
        return self.slots[self._estimate_slot]

    @property
    def sensors(self) -> list[SensorRows]:
        """The sensors of the group's drones."""
        clock, sensors = self.setup.flight.periods["sensor"], []
        for sensor in self.setup.sensors:
            every, delay = sampling(sensor, clock)
            reading, fresh, silent = (self.slots[f"{sensor.name}/{part}"] for part in ("reading", "fresh", "silent"))
            sensors.append(SensorRows(sensor, reading, fresh[0], silent[0], every * clock, delay * clock))
        return sensors

    @property
    def reference(self) -> Array:
        """The references at this tick of the controller: (fields, n)."""
        return self.slots["reference"]

    @property
    def reference_table(self) -> ReferenceTable:
        """The table of the controllers' references."""
        return self.reference_tables["reference"]

    @reference_table.setter
    def reference_table(self, table: ReferenceTable) -> None:
        self.reference_tables["reference"] = table

    @property
    def look_ahead(self) -> Array:
        """Offsets of the references over the controllers' horizon, from now [s]."""
        return self.controller.look_ahead if self.controller is not None else np.empty(0)

    def drone_vehicle(self, column: int) -> Vehicle:
        """Return the vehicle of one drone, with its parameters."""
        vehicle: Vehicle = drone_record(self.vehicles[column % len(self.vehicles)], column)
        return vehicle

    def clear_references(self) -> None:
        """Discard the tabulated references, after a change of tasks."""
        for table in self.reference_tables.values():
            table.count = 0
        table = self.reference_table
        if table.rows.shape[2] < len(self.drones) and table.shift_W is None:  # one shared column no longer suffices
            self.reference_table = ReferenceTable(self.reference_ticks, len(self.drones))
        self.plans.clear()

    # Regrouping -------------------------------------------------------------------------------------------------------

    def drone_slots(self, column: int) -> dict[str, Array]:
        """Return copies of one drone's slots, and of its images."""
        images = {name: images[column].copy() for name, images in self.images.items()}
        return {name: rows[:, column].copy() for name, rows in self.slots.items()} | images

    def restore_slots(self, column: int, values: Mapping[str, Array]) -> None:
        """Restore the slots of a drone that moved here from another group."""
        for name, leaves in values.items():
            if name not in NOT_COPIED_SLOTS and name in self.slots and len(self.slots[name]) == len(leaves):
                self.slots[name][:, column] = leaves
        for name in self.images.keys() & values.keys():
            self.images[name][column] = values[name]
        self.slots["command"][:, column] = values["command"]
        self.slots["contact"][2, column] = values["contact"][2]
        if "filter" in self.slots and "filter" in values:
            self.slots["estimate"][:BODY_STATE_SIZE, column] = values["estimate"][:BODY_STATE_SIZE]
            self.slots["estimate"][BODY_STATE_SIZE:, column] = self.slots["state"][BODY_STATE_SIZE:, column]

    def restore_air(self, column: int, air: Mapping[str, Array]) -> None:
        """Restore the wind, air density and external forces of a drone that moved here from another group."""
        for path, leaves in air.items():
            self.rows(path)[:, column] = leaves

    def drone_air(self, column: int) -> dict[str, Array]:
        """Return copies of the wind, air density and external forces on one drone."""
        parts = (
            "environment.air_density",
            "environment.wind_W",
            "environment.hub_wind_W",
            "environment.external_wrenches",
        )
        return {path: self.rows(path)[:, column].copy() for path in parts}

    def apply_settings(self, settings: Sequence[DroneSetting]) -> None:
        """Write arming and faults of the drones into their slots."""
        for column, setting in enumerate(settings):
            for path, values in setting_values(self.setup, setting).items():
                if values:
                    self.rows(path)[:, column] = values

    def controller_states(self) -> dict[int, Tree]:
        """By drone: states of Python controllers that survive a change of vehicle or the loss of a rotor."""
        states = getattr(self.controller, "continuing_states", {})
        return {self.drones[column]: state for column, state in states.items()}

    def close(self) -> None:
        """Close the controllers, and the processes they started."""
        if self.controller is not None:
            self.controller.close()


class NamedRows:
    """Rows of an array by the field names of a tuple: views to read and write."""

    def __init__(self, **parts: object) -> None:
        self.__dict__.update(parts)


def named_rows(rows: Array, template: Tree) -> Any:
    """Name the rows of an array, one for each leaf of a template, by the template's fields.

    Vectors, quaternions and plain tuples of them become blocks of rows; nested named tuples become nested `NamedRows`.
    """
    if _is_block(template):
        return rows
    parts, first = [], 0
    for branch in template:
        size = len(flatten(branch))
        parts.append(named_rows(rows[first : first + size], branch))
        first += size
    names = getattr(template, "_fields", None)
    return NamedRows(**dict(zip(names, parts, strict=True))) if names else tuple(parts)


def _is_block(template: Tree) -> bool:
    if isinstance(template, (Vec3, Quat)) or not isinstance(template, tuple):
        return True
    return not hasattr(template, "_fields") and all(_is_block(branch) for branch in template)
