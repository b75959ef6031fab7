"""Drones that are computed together: their plant, and their slots as arrays with a column for each."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from samara.backends.lanes import UnlikeError, require_equal
from samara.core.algebra import Quat, Vec3
from samara.core.random import normals
from samara.core.tree import flatten, unflatten
from samara.physics.multirotor import at_rest
from samara.physics.surroundings import environment_of
from samara.physics.types import BODY, Vehicle
from samara.record.streams import Rows
from samara.scenario.setting import DroneSetting
from samara.scenario.timeline import sampling
from samara.sensors.sensor import Sensor
from samara.sim.plant import Plant
from samara.sim.references import ReferenceTable
from samara.sim.setup import DroneSetup, setting_values
from samara.sim.stage import Entry, Part, StageSet, build, part_of
from samara.sim.stages.estimator import estimate_slot

Array = np.ndarray[Any, Any]

RESTARTED = frozenset(
    {
        *("state", "command", "environment", "contact", "reference", "status", "plan", "armed", "invalid_commands"),
        *("controller_state", "estimator_state", "estimate", "new_estimate", "frozen"),
    }
)
"""Slots whose values do not move on with a drone that is put into another group: they are set otherwise, or begin anew."""


class SensorRows(NamedTuple):
    """A sensor of a group's drones: its last readings (fields, n), 1 where nobody has used them yet (n), else 0, and when it
    samples: every `period_us`, and arrives `delay_us` later."""

    sensor: Sensor
    reading: Array
    fresh: Array
    silent: Array
    period_us: int
    delay_us: int


class Group:
    """n drones of one structure: `slots` has an array (leaves, n) for each slot, by name.

    `state` and `environment` are the rows of those slots under their names: `group.state.p_W` (3, n).
    """

    def __init__(
        self,
        setups: Sequence[DroneSetup],
        drones: tuple[int, ...],
        seeds: Sequence[int],
        numbers: Array,
        names: tuple[str, ...],
        reference_ticks: int,
    ) -> None:
        """`setups` are those of the drones where their numbers differ, else the one of all. `numbers` are those of the drones
        in their flights, by which random numbers are drawn; `reference_ticks` how many references are tabulated at a time."""
        self.setups, self.drones, self.names, n = tuple(setups), drones, names, len(drones)
        self.setup, self.seeds, self.numbers = self.setups[0], tuple(seeds), numbers
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
        )
        plant = self.plant
        self.templates: dict[str, Any] = {
            "state": at_rest(self.vehicle),
            "environment": environment_of(self.vehicle),
            "command": (0.0,) * self.vehicle.command_size,
        }
        self.slots: dict[str, Array] = {
            "state": plant.state,
            "environment": plant.environment,
            "command": plant.command,
            "contact": plant.contact,
        }
        self.sets: dict[str, tuple[StageSet, ...]] = {}
        self.state, self.environment = (
            named_rows(self.slots[name], self.templates[name]) for name in ("state", "environment")
        )
        self.tables: dict[str, Rows] = {}  # what is recorded and not yet handed on
        self.first_ticks: dict[
            str, Array
        ] = {}  # by table: the tick of the first row that the compiled flight puts into it
        self.reference_ticks = reference_ticks
        self.reference_tables = {"reference": ReferenceTable(reference_ticks, n)}  # by the slot they fill
        self.external_references: dict[int, tuple[list[int], Array]] = {}  # by time [µs]: those of some lanes
        self.plans: dict[str, tuple[int, Array]] = {}  # references ahead: the first tick, and those from then on
        self.controller: Any = None  # where Python runs it
        self.invalid_reported = 0.0
        self.has_run: set[str] = set()  # stages with a dt of their own at their first update
        self._to_run: list[tuple[int, str]] = []  # those that have not yet run, with the places of their entries

    def __len__(self) -> int:
        return len(self.drones)

    # Stages and slots -------------------------------------------------------------------------------------------------

    def link(self, entries: Sequence[Entry], setups: Sequence[DroneSetup]) -> None:
        """Build the stages of a sequence, and slots for what they read and write; those of the same shape keep their values"""
        self.setups, self.setup = tuple(setups), setups[0]
        self.sets = {entry.name: tuple(build(entry, setup) for setup in self.setups) for entry in entries}
        self._to_run = [
            (place, stage.name)
            for place, (sets, *_) in enumerate(self.sets.values())
            for stage in sets.stages
            if stage.initial_dt is not None and stage.name not in self.has_run
        ]
        for sets in self.sets.values():
            kinds = [tuple((stage.name, stage.update, stage.reads) for stage in own.stages) for own in sets]
            if any(kind != kinds[0] for kind in kinds):
                raise UnlikeError(kinds)
            for slot, value in sets[0].slots.items():
                self._allocate(slot, value, [own.slots[slot] for own in sets])

    def _allocate(self, slot: str, value: Any, of_lanes: Sequence[Any]) -> None:
        template = value(self.templates["state"], lambda source, count: (0.0,) * count) if callable(value) else value
        self.templates[slot] = template
        size, n = len(flatten(template)), len(self)
        if slot in self.slots and self.slots[slot].shape == (size, n):
            return
        self.slots[slot] = np.empty((size, n))
        self._fill(slot, of_lanes)

    def start(self) -> None:
        """Give every slot its value at the start, each drone by its state and its own normals"""
        for sets in self.sets.values():
            for slot in sets[0].slots:
                if slot != "contact":
                    self._fill(slot, [own.slots[slot] for own in sets])

    def _fill(self, slot: str, of_lanes: Sequence[Any]) -> None:
        array = self.slots[slot]
        if not len(array):
            return
        if not callable(of_lanes[0]):
            columns = np.array([flatten(value) for value in of_lanes], dtype=float).T
            array[:] = columns if len(of_lanes) == 1 else columns[:, np.arange(len(self)) % len(of_lanes)]
            return
        for lane in range(len(self)):
            initial = of_lanes[lane % len(of_lanes)]
            state = unflatten(self.templates["state"], iter(self.slots["state"][:, lane].tolist()))
            array[:, lane] = flatten(initial(state, self._first_normals(lane)))

    def _first_normals(self, lane: int) -> Any:
        seed, number = self.seeds[lane], int(self.numbers[lane])
        return lambda source, count: normals(seed, source, number, 0, count).tolist()

    def note_passed(self, entries: int) -> None:
        """So many entries of the sequence have been run at the instant the fleet is at"""
        if self._to_run:
            self.has_run |= {name for at, name in self._to_run if at < entries}
            self._to_run = [own for own in self._to_run if own[1] not in self.has_run]

    def part(self, path: str) -> Part:
        """The part of a slot that a path names"""
        return part_of(self.templates, path)

    def rows(self, path: str) -> Array:
        """The rows of a slot, or of a part of one, (leaves, n), to be read and written in place"""
        slot, first, template = self.part(path)
        return self.slots[slot][first : first + len(flatten(template))]

    @property
    def estimate(self) -> Array:
        """What the controllers know: the state itself where that is the truth"""
        return self.slots[estimate_slot(self.setup)]

    @property
    def sensors(self) -> list[SensorRows]:
        """Its drones' sensors"""
        clock, found = self.setup.flight.periods["sensor"], []
        for sensor in self.setup.sensors:
            every, delay = sampling(sensor, clock)
            reading, fresh, silent = (self.slots[f"{sensor.name}/{part}"] for part in ("reading", "fresh", "silent"))
            found.append(SensorRows(sensor, reading, fresh[0], silent[0], every * clock, delay * clock))
        return found

    @property
    def reference(self) -> Array:
        """What is asked of the drones at this tick of the controller: (fields, n)"""
        return self.slots["reference"]

    @property
    def reference_table(self) -> ReferenceTable:
        """Those of the controllers"""
        return self.reference_tables["reference"]

    @reference_table.setter
    def reference_table(self, table: ReferenceTable) -> None:
        self.reference_tables["reference"] = table

    @property
    def look_ahead(self) -> Array:
        """The instants from now whose references the controllers want  [s]"""
        return self.controller.look_ahead if self.controller is not None else np.empty(0)

    def vehicle_of(self, lane: int) -> Vehicle:
        """With its own numbers"""
        return self.vehicles[lane % len(self.vehicles)]

    def forget_plans(self) -> None:
        """Tasks have changed: references from some tick on are others"""
        for table in self.reference_tables.values():
            table.count = 0
        table = self.reference_table
        if table.rows.shape[2] < len(self.drones) and table.shift_W is None:  # each its own from now on
            self.reference_table = ReferenceTable(self.reference_ticks, len(self.drones))
        self.plans.clear()

    # When drones are put together anew --------------------------------------------------------------------------------

    def values_of(self, lane: int) -> dict[str, Array]:
        """The slots of one drone"""
        return {name: rows[:, lane].copy() for name, rows in self.slots.items()}

    def take_over(self, lane: int, values: Mapping[str, Array]) -> None:
        """Go on with the slots of a drone that was in another group"""
        for name, column in values.items():
            if name not in RESTARTED and name in self.slots and len(self.slots[name]) == len(column):
                self.slots[name][:, lane] = column
        self.slots["command"][:, lane] = values["command"]
        self.slots["contact"][2, lane] = values["contact"][2]
        if "filter" in self.slots and "filter" in values:
            self.slots["estimate"][:BODY, lane] = values["estimate"][:BODY]
            self.slots["estimate"][BODY:, lane] = self.slots["state"][BODY:, lane]

    def surround(self, lane: int, air: Mapping[str, Array]) -> None:
        """Go on with what blew and pressed on this drone in another group"""
        for path, column in air.items():
            self.rows(path)[:, lane] = column

    def air_of(self, lane: int) -> dict[str, Array]:
        """What blows and presses on one drone"""
        parts = ("environment.air_density", "environment.wind_W", "environment.hub_wind_W", "environment.pushes")
        return {path: self.rows(path)[:, lane].copy() for path in parts}

    def apply(self, settings: Sequence[DroneSetting]) -> None:
        """Write arming and faults of its drones into their slots"""
        for lane, setting in enumerate(settings):
            for path, values in setting_values(self.setup, setting).items():
                if values:
                    self.rows(path)[:, lane] = values

    def controller_states(self) -> dict[int, Any]:
        """By drone: the states of controllers in Python that do not begin anew with another vehicle or one rotor less"""
        states = getattr(self.controller, "continuing_states", {})
        return {self.drones[lane]: state for lane, state in states.items()}

    def close(self) -> None:
        """End what its controllers have started"""
        if self.controller is not None:
            self.controller.close()


class NamedRows:
    """Rows of an array under the names they have in a tuple: to be read and written in place."""

    def __init__(self, **parts: Any) -> None:
        self.__dict__.update(parts)


def named_rows(rows: Array, template: Any) -> Any:
    """What each field of the template is, of an array with a row for each of its leaves

    A vector, a quaternion and a tuple of them are blocks of rows; a tuple with other names inside is named rows again.
    """
    if _is_block(template):
        return rows
    parts, at = [], 0
    for branch in template:
        size = len(flatten(branch))
        parts.append(named_rows(rows[at : at + size], branch))
        at += size
    names = getattr(template, "_fields", None)
    return NamedRows(**dict(zip(names, parts, strict=True))) if names else tuple(parts)


def _is_block(template: Any) -> bool:
    if isinstance(template, (Vec3, Quat)) or not isinstance(template, tuple):
        return True
    return not hasattr(template, "_fields") and all(_is_block(branch) for branch in template)
