"""The drones of a flight at one instant: vehicles, states, environment and status.

Drones that can be computed together form a group, whose slots are arrays with one column per drone. `group.state` and
`group.environment` give their rows by field: `group.state.p_W`, `group.environment.wind_W`.
"""

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from samara.compiler.batch_parameters import DifferentProgramsError, drone_record, require_equal
from samara.compiler.compiled_step import STRICT, Precision
from samara.core.algebra import Vec3
from samara.core.tree import flatten, tree_structure, unflatten
from samara.core.types import Array
from samara.physics.multirotor import complete_environment, state_at_rest
from samara.physics.types import State
from samara.record.streams import LogLine
from samara.scenario.events import DroneSetting, FlightSettings
from samara.scenario.flight_events import Occurrence, OccurrenceType, describe_occurrence, motor_change
from samara.scenario.scenario import Scenario
from samara.scenario.timeline import MICROSECONDS
from samara.sim.executors.llvm import compile_stages, is_one_tile, run_entry
from samara.sim.group import Group
from samara.sim.references import current_references, reference_table, references_ahead, tabulate_references
from samara.sim.schedule import Schedule
from samara.sim.setup import DroneSetup, FlightSetup, Variation, drone_setup, flight_setup, initial_setting
from samara.sim.stage import PythonStage, StageSequence
from samara.vehicles.payload import Payload, centre_shift, shift_centre_of_mass
from samara.wind.sources import WindSource, WindSum, is_traced

if TYPE_CHECKING:
    from samara.sim.executors.llvm import StreamTable
    from samara.sim.log import Log
from functools import partial

from samara.link.link import AutopilotLostError, Link, task_orders
from samara.link.registry import open_link
from samara.scenario.events import Order
from samara.sim.setup import LinkedAutopilot

LogMessage = Callable[[str, str], None]


class Links:
    """The links to external autopilots; `by_drone` has the link of each drone that one flies."""

    lost_error = AutopilotLostError

    def __init__(
        self,
        scenario: Scenario,
        log_message: LogMessage,
        on_message: Callable[[str], None],
        on_lost: Callable[[int], object],
    ) -> None:
        """Open the links; `on_lost` is called with the index of a drone whose autopilot never answered."""
        self._names = [drone.name for drone in scenario.drones]
        self._log_message, self._on_message, self._on_lost, self._is_finished = log_message, on_message, on_lost, False
        self.by_drone: dict[int, LinkedAutopilot] = {}
        opened: list[Link] = []
        try:
            for index, drone in enumerate(scenario.drones):
                if drone.autopilot is not None:
                    forward = partial(self._forward, self._prefix(index))
                    link = open_link(drone.autopilot, drone.vehicle, forward, opened, drone.controller)
                    opened.append(link)
                    self.by_drone[index] = LinkedAutopilot(link, drone.autopilot.hover, drone.autopilot.commands_motors)
                    self.forward_orders(index, task_orders(drone.task))
        except BaseException:
            self.close()
            raise

    def _prefix(self, index: int) -> str:
        return f"{self._names[index]}: " if len(self._names) > 1 else ""

    def _forward(self, prefix: str, level: str, message: str) -> None:
        self._log_message(level, prefix + message)
        self._on_message(prefix + message)

    def forward_orders(self, index: int, orders: Sequence[Order]) -> None:
        """Pass a drone's orders to its autopilot, if it has one."""
        for order in orders if index in self.by_drone else ():
            self.by_drone[index].link.send_order(order)

    def finish(self, end_reason: str) -> str:
        """Log the links' final messages, once; return why the flight ended, also if an autopilot never answered."""
        for index, autopilot in self.by_drone.items() if not self._is_finished else ():
            prefix = self._prefix(index)
            for level, message in autopilot.link.closing_report():
                self._log_message(level, prefix + message)
            if autopilot.link.sent and not autopilot.link.answered and not end_reason:
                end_reason = f"{prefix}{autopilot.link.title} was connected but never answered: it controlled no drone"
                self._log_message("error", end_reason)
                self._on_lost(index)
        self._is_finished = True
        return end_reason

    def close(self) -> None:
        """Close the links, and end the autopilots started by them."""
        for autopilot in self.by_drone.values():
            autopilot.link.close()


BLOCK_US = MICROSECONDS  # references are tabulated and tables flushed in blocks of this length
DRONES_PER_BLOCK_SECOND = 500  # with more drones, blocks get shorter to bound their memory
MAX_BLOCKS_PER_SECOND = 4
MAX_BLOCK_SECONDS = 8  # for one drone without Python stages: the overhead of a block equals about 1 s of flight


EQUAL_SETUP_ENTRIES = ("physics", "sensors", "controller")
"""Entries that Python can run only for drones of equal setups."""


class Fleet:
    """All drones of a scenario in flight."""

    def __init__(
        self,
        scenario: Scenario,
        schedule: Schedule,
        on_message: Callable[[str], None],
        seeds: Sequence[int] = (),
        *,
        precision: Precision = STRICT,
        variation: Variation | None = None,
    ) -> None:
        """Prepare the drones of a scenario; `form_groups` puts them into groups.

        Args:
            scenario: the scenario to fly.
            schedule: its instants and clocks.
            on_message: receives messages of external autopilots as they arrive.
            seeds: one for each drone, which then is a separate flight.
            precision: precision of the compiled code.
            variation: drones that differ only in parameters are computed together, with these as inputs of their programs.
        """
        self.variation = variation
        for wind in variation.winds if variation is not None else ():
            if not is_traced(wind) or tree_structure(wind) != tree_structure(scenario.wind):
                raise ValueError(f"the wind on one drone is {wind}; expected {scenario.wind} with other parameters")
        self.scenario, self.schedule, n = scenario, schedule, len(scenario.drones)
        self.periods = schedule.periods
        self.revision = 0  # incremented whenever the groups or their stages change
        self.precision = precision
        self.seeds = tuple(seeds) or (scenario.seed,) * n
        self.separate_flights = bool(seeds)  # each drone is a separate flight
        self.drone_numbers = np.arange(n) * (not seeds)  # index of each drone in its flight, for random numbers
        self.stream_tables: dict[int, StreamTable] = {}  # tables that the compiled flight fills, by identity
        blocks_per_second = min(MAX_BLOCKS_PER_SECOND, math.ceil(n / DRONES_PER_BLOCK_SECOND))
        self.block_us = BLOCK_US // blocks_per_second
        self.max_block_us = max(self.block_us, BLOCK_US * (MAX_BLOCK_SECONDS // n))
        self.time_us = 0
        self.entries_run = 0  # entries already run at the present instant
        self.on_scenario_clock = False
        self.setting = initial_setting(scenario)
        self.landed = np.array([not drone.airborne for drone in scenario.drones])
        self.crashed = np.zeros(n, dtype=bool)
        self.logs: list[LogLine] = []
        self.occurrences: list[Occurrence] = []
        self.end_reason = ""  # the reason, if the flight ended early
        self.environment_changed = True  # whether Python has changed it since it was last recorded
        self.groups: list[Group] = []
        self.stages: StageSequence = ()
        self.log: Log | None = None
        self.flush: Callable[[], None] = lambda: None
        self.controller_states: dict[int, Any] = {}  # by drone: states of Python controllers that survive regrouping
        self._payloads = [Payload() for _ in scenario.drones]
        self._setups: list[DroneSetup] = []
        self._flight: FlightSetup | None = None
        self._flights: dict[int, FlightSetup] = {}  # by drone, if the wind differs between drones
        self._locations: dict[int, tuple[int, int]] = {}
        self.links = Links(
            scenario,
            self.log_message,
            on_message,
            lambda index: self.record_occurrence(index, OccurrenceType.AUTOPILOT_LOST),
        )

    @property
    def time(self) -> float:
        """Flight time [s]."""
        return self.time_us / MICROSECONDS

    def tick(self, clock: str) -> int:
        """Periods of a clock since the start."""
        return int(self.time_us // self.periods[clock])

    def drone_name(self, index: int) -> str:
        """Name of a drone."""
        return self.scenario.drones[index].name

    def log_message(self, level: str, message: str, *, time_us: int | None = None) -> None:
        """Add a line to the log, now or at an earlier time since Python last ran."""
        log_time_us = self.time_us if time_us is None else time_us
        self.logs.append(LogLine(log_time_us, level, self.scenario.name, message))

    def record_occurrence(
        self, index: int, occurrence_type: OccurrenceType, *, time_us: int | None = None, **details: Any
    ) -> Occurrence:
        """Record an occurrence of a drone in its stream `occurrence`, now or at an earlier time since Python last ran."""
        self.occurrences.append(
            Occurrence(self.time_us if time_us is None else time_us, index, occurrence_type, **details)
        )
        return self.occurrences[-1]

    def log_warning(self, occurrence: Occurrence) -> None:
        """Log an occurrence as a warning."""
        names = [drone.name for drone in self.scenario.drones]
        self.log_message(
            "warning", describe_occurrence(occurrence, names, self.scenario.world.obstacles), time_us=occurrence.time_us
        )

    def entry_index(self, entry: str) -> int:
        """Index of an entry in the sequence."""
        return [stage.name for stage in self.stages].index(entry)

    def current_references(self, group: Group) -> Array:
        """Return the references of a group's drones at this tick of the controller: (fields, drones)."""
        return current_references(self, group)

    def references_ahead(self, group: Group) -> Array:
        """Return the references over the horizon of a group's controllers: (instants, fields, drones)."""
        return references_ahead(self, group)

    def drone_settings(self, group: Group) -> list[DroneSetting]:
        """Return the present settings of a group's drones."""
        return [self.setting.drones[index] for index in group.drones]

    def locate(self, index: int) -> tuple[Group, int]:
        """Return the group a drone is in, and its column there."""
        group_index, column = self._locations[index]
        return self.groups[group_index], column

    # All drones by index, as copies ----------------------------------------------------------------------------------

    @property
    def p_W(self) -> Array:
        """Positions (3, n) [m]."""
        return self._gather("p_W")

    @property
    def v_W(self) -> Array:
        """Velocities (3, n) [m/s]."""
        return self._gather("v_W")

    @property
    def q_WB(self) -> Array:
        """Attitudes (4, n), w first."""
        return self._gather("q_WB")

    @property
    def omega_B(self) -> Array:
        """Body rates (3, n) [rad/s]."""
        return self._gather("omega_B")

    def _gather(self, name: str) -> Array:
        blocks = [getattr(group.state, name) for group in self.groups]
        rows = np.empty((len(blocks[0]), len(self.scenario.drones)))
        for group, block in zip(self.groups, blocks, strict=True):
            rows[:, group.indices] = block
        return rows

    # Changes of setting ----------------------------------------------------------------------------------------------

    def apply_setting(self, new_setting: FlightSettings) -> None:
        """Change the setting from this instant on: update stages, vehicles, arming, faults, orders and tasks."""
        previous_setting, self.setting = self.setting, new_setting
        self.revision += 1
        self._flight = self._flight_setup()
        for group in self.groups:
            group.slots["wind_disturbance"][:] = np.array(new_setting.wind_disturbance_W)[:, None]
        for stage in self.stages:
            if isinstance(stage, PythonStage):
                stage.react(self, previous_setting)
        setups = self._all_setups()
        if [setup[:-1] for setup in setups] != [setup[:-1] for setup in self._setups]:
            self._regroup()
        else:
            self.link_flight()
        for group in self.groups:
            self._apply_settings(group)
        for index, (old_drone, new_drone) in enumerate(zip(previous_setting.drones, new_setting.drones, strict=True)):
            powers = zip(old_drone.faults.motor_effectiveness, new_drone.faults.motor_effectiveness, strict=True)
            for motor, (old_power, new_power) in enumerate(powers):
                if new_power != old_power:
                    self.record_occurrence(index, motor_change(old_power, new_power), part_index=motor, value=new_power)
            self.links.forward_orders(index, new_drone.orders[len(old_drone.orders) :])
            if (old_drone.task, old_drone.since_us) != (new_drone.task, new_drone.since_us):
                group, _ = self.locate(index)
                group.clear_references()
                if group.reference_table.shift_W is not None:
                    group.reference_table = reference_table(self.drone_settings(group), group.reference_ticks)
        self.environment_changed = True

    def mark_crashed(self, index: int) -> None:
        """Mark a drone as crashed."""
        group, column = self.locate(index)
        self.crashed[index], group.rows("status.crashed")[0, column] = True, 1.0

    # Groups ----------------------------------------------------------------------------------------------------------

    def form_groups(
        self, states: Mapping[int, State], air_by_drone: Mapping[int, Mapping[str, Array]] = MappingProxyType({})
    ) -> None:
        """Put the drones into groups with their states and, after a regrouping, the air around them."""
        self.revision += 1
        self._flight = self._flight_setup()
        self._setups = self._all_setups()
        drones_by_shape: dict[Hashable, list[int]] = {}
        shapes: dict[Hashable, Hashable] = {}  # computed once for drones of identical setups
        for index, setup in enumerate(self._setups):
            identity = *map(id, setup._replace(healthy=(), motor_map=())), setup.healthy, setup.motor_map
            if identity not in shapes:
                shapes[identity] = self._group_key(setup)
            drones_by_shape.setdefault(shapes[identity], []).append(index)
        self.groups, candidates = [], list(drones_by_shape.values())
        while candidates:
            drones = candidates.pop(0)
            try:
                self.groups.append(self._build_group(drones))
            except DifferentProgramsError as difference:
                if len(drones) == 1 or (self.variation is not None and self.variation.is_batch):
                    raise
                candidates[:0] = [[drones[column] for column in columns] for columns in difference.classes]
        self._locations = {
            index: (group_index, column)
            for group_index, group in enumerate(self.groups)
            for column, index in enumerate(group.drones)
        }
        self._flight = self._flight_setup()
        self.link_flight()
        for group in self.groups:
            environment = complete_environment(group.vehicle, self.scenario.environment)
            group.slots["environment"][:] = np.array(flatten(environment), dtype=float)[:, None]
            group.environment.wind_W[:] = 0.0
            initial_states = [states[index] for index in group.drones]
            leaves = {key: flatten(state) for key, state in {id(state): state for state in initial_states}.items()}
            group.slots["state"][:] = np.array([leaves[id(state)] for state in initial_states], dtype=float).T
            group.start()
            group.slots["status"][:] = self.landed[group.indices], self.crashed[group.indices]
            group.slots["wind_disturbance"][:] = np.array(self.setting.wind_disturbance_W)[:, None]
            for column, index in enumerate(group.drones):
                if index in air_by_drone:
                    group.restore_air(column, air_by_drone[index])
            self._apply_settings(group)
            if "ground" in group.sets:
                self.run_entry(group, "ground")
            settings, period = self.drone_settings(group), self.periods["control"]
            next_tick_us = -(-self.time_us // period) * period
            group.reference_table = reference_table(settings, group.reference_ticks)
            group.reference[:] = tabulate_references(settings, np.array([next_tick_us]))[0]
        self.prepare()
        assert self.log is not None
        self.log.create_tables(self)

    def link(self) -> None:
        """Build the stages of all groups for the present setting."""
        references = self._reference_setups()
        for group in self.groups:
            setups = [self._setups[index] for index in group.drones]
            group.link(self.stages, setups if len(group.setups) > 1 else setups[:1], references)

    def link_flight(self) -> None:
        """Build the stages of all groups for a new wind and unchanged vehicles."""
        if self.variation is not None and self.variation.is_batch:
            if self._setups[0].flight is not self._flight:
                self._setups = [self._setups[0]._replace(flight=self._drone_flight(0))] * len(self._setups)
        else:
            for index, setup in enumerate(self._setups):
                flight = self._drone_flight(index)
                if setup.flight is not flight:
                    self._setups[index] = setup._replace(flight=flight)
        self.link()

    def run_entry(self, group: Group, name: str) -> None:
        """Run the stages of one entry at this instant."""
        run_entry(self, group, name)

    def prepare(self) -> None:
        """Prepare the Python stages for the present groups."""
        for stage in self.stages:
            if isinstance(stage, PythonStage):
                stage.prepare(self)

    def _build_group(self, drones: list[int]) -> Group:
        setups, references = [self._setups[index] for index in drones], self._reference_setups()
        has_differences = any(setup != setups[0] for setup in setups)
        group = Group(
            setups if has_differences else setups[:1],
            tuple(drones),
            references=references,
            seeds=tuple(self.seeds[index] for index in drones),
            drone_numbers=self.drone_numbers[drones],
            names=tuple(self.drone_name(index) for index in drones),
            reference_ticks=self.max_block_us // self.periods["control"]
            + 2
            + self.periods["log"] // self.periods["control"],
        )
        group.link(self.stages, group.setups, references)
        if any(group.sets[name][0].python_reason for name in EQUAL_SETUP_ENTRIES if name in group.sets):
            require_equal([setup[:-1] for setup in group.setups])
        if self.scenario.backend == "python":
            require_equal([setup[:-1] for setup in group.setups])
        else:
            compile_stages(group)
        return group

    def _group_key(self, setup: DroneSetup) -> Hashable:
        """Return the key that the drones of a group share: the setup, or only its structure if parameters may differ."""
        vehicle, world = setup.vehicle, self.scenario.world
        is_isolated = not (world.obstacles or world.terrain or vehicle.has("downwash"))
        if self.variation is None or not is_isolated:
            return setup[:-1]
        if self.variation.references:  # all derive from one drone; their compiled programs distinguish them
            return ()
        shape = tree_structure((vehicle, setup.controller, setup.model))
        return shape, setup.healthy, setup.estimator, setup.sensors, setup.motor_map

    def drone_wind(self, index: int) -> WindSource:
        """Return the wind on a drone: the setting's, with the drone's source in place of the scenario's."""
        winds = self.variation.winds if self.variation is not None else ()
        return self._replace_wind(winds[index]) if winds else self.setting.wind

    def _replace_wind(self, wind: WindSource) -> WindSource:
        source = self.setting.wind
        if isinstance(source, WindSum):
            return WindSum(tuple(wind if part is self.scenario.wind else part for part in source.sources))
        return wind if source is self.scenario.wind else source

    def _flight_setup(self) -> FlightSetup:
        is_single_tile = len(self.groups) == 1 and is_one_tile(len(self.groups[0].drones))
        flight = flight_setup(self.scenario, self.setting, self.periods, can_interrupt=is_single_tile)
        if self._flight is not None and flight.is_same(self._flight):
            return self._flight
        self._flights.clear()
        return flight

    def _drone_flight(self, index: int) -> FlightSetup:
        assert self._flight is not None
        if self.variation is None or not self.variation.winds:
            return self._flight
        if index not in self._flights:
            self._flights[index] = replace(self._flight, wind=self.drone_wind(index))
        return self._flights[index]

    def _all_setups(self) -> list[DroneSetup]:
        n = len(self.scenario.drones)
        is_batch = self.variation is not None and self.variation.is_batch
        return [self._drone_setup(0)] * n if is_batch else [self._drone_setup(index) for index in range(n)]

    def _drone_setup(self, index: int) -> DroneSetup:
        link = self.links.by_drone.get(index)
        drone, setting = self.scenario.drones[index], self.setting.drones[index]
        return drone_setup(self.scenario, drone, setting, self._drone_flight(index), link)

    def _reference_setups(self) -> tuple[DroneSetup, ...] | None:
        """Set up the drones that determine which parameters are inputs; None without variation."""
        if self.variation is None or not self.variation.references:
            return None
        assert self._flight is not None
        return tuple(
            drone_setup(
                self.scenario, drone, self.setting.drones[0], replace(self._flight, wind=self._replace_wind(wind))
            )
            for drone, wind in self.variation.references
        )

    def _regroup(self) -> None:
        """Form new groups after a change of vehicle; states and controllers continue."""
        self.flush()
        states, values, paces, air, has_run = {}, {}, {}, {}, set()
        for group in self.groups:
            has_run |= group.has_run
            self.controller_states |= group.controller_states()
            for column, index in enumerate(group.drones):
                state = unflatten(state_at_rest(group.vehicle), iter(group.slots["state"][:, column].tolist()))
                payloads = self._payloads[index], self.setting.drones[index].payload
                empty_vehicle = drone_record(self.scenario.drones[index].vehicle, index)
                shift = centre_shift(empty_vehicle, payloads[1]) - centre_shift(empty_vehicle, payloads[0])
                states[index] = shift_centre_of_mass(state, shift)
                values[index], air[index] = group.drone_slots(column), group.drone_air(column)
                paces[index] = group.plant.step_sizes[column]
        self.form_groups(states, air)
        for group in self.groups:
            group.has_run |= has_run
            for column, index in enumerate(group.drones):
                group.plant.step_sizes[column] = paces[index]
                group.restore_slots(column, values[index])
        self.prepare()

    def _apply_settings(self, group: Group) -> None:
        """Write arming and faults into the group's slots."""
        group.apply_settings(self.drone_settings(group))
        for index in group.drones:
            self._payloads[index] = self.setting.drones[index].payload

    @property
    def wind_W(self) -> Vec3:
        """Wind on the first drone [m/s]."""
        group, column = self.locate(0)
        return Vec3(*group.environment.wind_W[:, column].tolist())
