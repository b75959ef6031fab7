"""The drones of a flight at one instant: what they are, how they move, what surrounds them, what became of them.

Drones that can be computed together are in one group, whose slots are arrays with a column for each. `group.state` and
`group.environment` are their rows under names: `group.state.p_W`, `group.environment.wind_W`.
"""

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from samara.backends.lanes import UnlikeError, require_equal
from samara.backends.machine import STRICT, Precision
from samara.core.algebra import Vec3
from samara.core.random import key_of
from samara.core.tree import flatten, shape_of, unflatten
from samara.physics.multirotor import at_rest
from samara.physics.surroundings import environment_of
from samara.physics.types import State
from samara.record.format import LogLine
from samara.scenario.facts import Fact, Occurrence, motor_change, sentence_of
from samara.scenario.scenario import Scenario
from samara.scenario.setting import DroneSetting, Setting
from samara.scenario.timeline import MICROSECONDS
from samara.sim.executors.llvm import compile_stages, run_entry
from samara.sim.group import Group
from samara.sim.links import Links
from samara.sim.references import planned, reference_table
from samara.sim.schedule import Schedule
from samara.sim.setup import DroneSetup, FlightSetup, drone_setup, flight_setup, initial_setting
from samara.sim.stage import PythonStage, StageSequence
from samara.sim.tiles import is_one_tile
from samara.vehicles.payload import Payload, centre_shift, with_centre_moved
from samara.wind.sources import Sum, WindSource, is_traced

if TYPE_CHECKING:
    from samara.sim.log import Log
    from samara.sim.streams import StreamTable

Array = np.ndarray[Any, Any]

BLOCK_US = MICROSECONDS  # references, noise and records are made and handed on by the second
CROWD, SHORTEST_BLOCKS = 500, 4  # more drones than this fill the memory of a second sooner: down to a quarter of one
LONGEST_BLOCK = (
    8  # seconds, of a drone alone that no Python flies: what Python does around a block takes as long as a second
)


REQUIRE_EQUAL = ("physics", "sensors", "controller")
"""Entries that Python runs for drones of equal setups only."""


class Fleet:
    """All drones of a scenario while it is flown."""

    def __init__(
        self,
        scenario: Scenario,
        schedule: Schedule,
        tell: Callable[[str], None],
        seeds: Sequence[int] = (),
        *,
        lifts: bool = False,
        precision: Precision = STRICT,
        winds: tuple[WindSource, ...] = (),
    ) -> None:
        """`tell` gets what autopilots have to say, at once. With `seeds` every drone flies a flight of its own, by its seed.
        Where it `lifts`, drones that differ in numbers alone are computed together; `winds` are those of each, which differ
        from the scenario's in numbers."""
        self.lifts, self.winds = lifts, winds
        for own in winds:
            if not is_traced(own) or shape_of(own) != shape_of(scenario.wind):
                raise ValueError(f"the wind on one drone is {own}; expected {scenario.wind} with other numbers")
        self.scenario, self.schedule, n = scenario, schedule, len(scenario.drones)
        self.periods = schedule.periods
        self.revision = 0  # counts up whenever the groups, or what their stages do, are others
        self.precision = precision
        self.seeds = tuple(seeds) or (scenario.seed,) * n
        self.apart = bool(seeds)  # each drone in a world of its own
        self.numbers = np.arange(n) * (not seeds)  # of each drone in its flight: what its draws are counted by
        self.stream_tables: dict[int, StreamTable] = {}  # those that the compiled flight fills
        self.block_us = BLOCK_US // min(SHORTEST_BLOCKS, math.ceil(n / CROWD))  # how long blocks are now, and may be
        self.longest_us = max(self.block_us, BLOCK_US * (LONGEST_BLOCK // n))
        self.time_us = 0
        self.passed = 0  # entries of the sequence, at the instant it is at
        self.on_scenario_clock = False
        self.setting = initial_setting(scenario)
        self.landed = np.array([not own.airborne for own in scenario.drones])
        self.crashed = np.zeros(n, dtype=bool)
        self.logs: list[LogLine] = []
        self.facts: list[Occurrence] = []
        self.ended = ""  # why, where it did before its time
        self.environment_changed = True  # by Python: it is to be recorded
        self.groups: list[Group] = []
        self.stages: StageSequence = ()
        self.log: Log | None = None
        self.flush: Callable[[], None] = lambda: None
        self.controller_states: dict[int, Any] = {}  # by drone: of controllers in Python that go on in another group
        self._payload_of = [Payload() for _ in scenario.drones]
        self._setup_of: list[DroneSetup] = []
        self._place_of: dict[int, tuple[int, int]] = {}
        self.links = Links(scenario, self.say, tell, lambda index: self.note(index, Fact.AUTOPILOT_LOST))

    @property
    def time(self) -> float:
        """[s]"""
        return self.time_us / MICROSECONDS

    def tick(self, axis: str) -> int:
        """How many periods of an axis have passed"""
        return int(self.time_us // self.periods[axis])

    def name_of(self, index: int) -> str:
        """What a drone is called"""
        return self.scenario.drones[index].name

    def say(self, level: str, message: str, *, time_us: int | None = None) -> None:
        """A line of log, now or of an earlier time since the last instant that Python looked at"""
        at = self.time_us if time_us is None else time_us
        self.logs.append(LogLine(at, level, self.scenario.name, message))

    def note(self, index: int, fact: Fact, *, time_us: int | None = None, **more: Any) -> Occurrence:
        """What happened to a drone, now or at such an earlier time: a row of its stream `event`"""
        self.facts.append(Occurrence(self.time_us if time_us is None else time_us, index, fact, **more))
        return self.facts[-1]

    def warn(self, fact: Occurrence) -> None:
        """What happened, as a line of log"""
        names = [own.name for own in self.scenario.drones]
        self.say("warning", sentence_of(fact, names, self.scenario.world.solids), time_us=fact.time_us)

    def index_of(self, entry: str) -> int:
        """The place of an entry in the sequence"""
        return [own.name for own in self.stages].index(entry)

    def keys(self, group: Group, source: str) -> Array:
        """The key of what a source draws for each drone of a group, (2, n)"""
        return np.array([key_of(self.seeds[index], source) for index in group.drones], dtype=np.int64).T.copy()

    def numbers_of(self, group: Group) -> Array:
        """The number in its flight of each drone of a group, (n)"""
        return self.numbers[group.indices].astype(np.int64)

    def settings_of(self, group: Group) -> list[DroneSetting]:
        """What each drone of a group is to do now"""
        return [self.setting.drones[index] for index in group.drones]

    def place_of(self, index: int) -> tuple[Group, int]:
        """The group a drone is in, and its column there"""
        at, lane = self._place_of[index]
        return self.groups[at], lane

    # All drones in a row, as copies ----------------------------------------------------------------------------------

    @property
    def p_W(self) -> Array:
        """Positions (3, n)  [m]"""
        return self._gathered("p_W")

    @property
    def v_W(self) -> Array:
        """Velocities (3, n)  [m/s]"""
        return self._gathered("v_W")

    @property
    def q_WB(self) -> Array:
        """Attitudes (4, n), w first"""
        return self._gathered("q_WB")

    @property
    def omega_B(self) -> Array:
        """Body rates (3, n)  [rad/s]"""
        return self._gathered("omega_B")

    def _gathered(self, name: str) -> Array:
        blocks = [getattr(group.state, name) for group in self.groups]
        rows = np.empty((len(blocks[0]), len(self.scenario.drones)))
        for group, block in zip(self.groups, blocks, strict=True):
            rows[:, group.indices] = block
        return rows

    # Another setting -------------------------------------------------------------------------------------------------

    def apply(self, after: Setting) -> None:
        """From this instant on the setting is another one: stages, vehicles, arming, faults, orders and tasks follow it"""
        before, self.setting = self.setting, after
        self.revision += 1
        self._flight = self._flight_setup()
        for group in self.groups:
            group.slots["wind_disturbance"][:] = np.array(after.wind_disturbance_W)[:, None]
        for stage in self.stages:
            if isinstance(stage, PythonStage):
                stage.react(self, before)
        setups = [self._setup(index) for index in range(len(after.drones))]
        if [setup[:-1] for setup in setups] != [setup[:-1] for setup in self._setup_of]:
            self._regroup()
        else:
            self._setup_of = setups
            self.link()
        for group in self.groups:
            self._apply_settings(group)
        for index, (old, new) in enumerate(zip(before.drones, after.drones, strict=True)):
            for motor, (had, has) in enumerate(zip(old.faults.motor_power, new.faults.motor_power, strict=True)):
                if has != had:
                    self.note(index, motor_change(had, has), number=motor, value=has)
            self.links.obey(index, new.orders[len(old.orders) :])
            if (old.task, old.since_us) != (new.task, new.since_us):
                group, _ = self.place_of(index)
                group.forget_plans()
                if group.reference_table.shift_W is not None:
                    group.reference_table = reference_table(self.settings_of(group), group.reference_ticks)
        self.environment_changed = True

    def wreck(self, index: int) -> None:
        """A drone has crashed"""
        group, lane = self.place_of(index)
        self.crashed[index], group.rows("status.crashed")[0, lane] = True, 1.0

    # Groups ----------------------------------------------------------------------------------------------------------

    def form(self, states: Mapping[int, State], air: Mapping[int, Mapping[str, Array]] = MappingProxyType({})) -> None:
        """Put the drones into groups, each in its state, and in the air it was in"""
        self.revision += 1
        self._flight = self._flight_setup()
        self._setup_of = [self._setup(index) for index in range(len(self.scenario.drones))]
        alike: dict[Hashable, list[int]] = {}
        known: dict[Hashable, Hashable] = {}  # a thousand flights of one drone have one shape
        for index, setup in enumerate(self._setup_of):
            same = *map(id, setup._replace(healthy=(), motor_map=())), setup.healthy, setup.motor_map
            if same not in known:
                known[same] = self._shape(setup)
            alike.setdefault(known[same], []).append(index)
        self.groups, waiting = [], list(alike.values())
        while waiting:
            drones = waiting.pop(0)
            try:
                self.groups.append(self._group(drones))
            except UnlikeError as apart:
                waiting[:0] = [[drones[lane] for lane in lanes] for lanes in apart.classes]
        self._place_of = {
            index: (at, lane) for at, group in enumerate(self.groups) for lane, index in enumerate(group.drones)
        }
        self._flight = self._flight_setup()
        self._setup_of = [setup._replace(flight=self._flight_of(k)) for k, setup in enumerate(self._setup_of)]
        self.link()
        for group in self.groups:
            environment = environment_of(group.vehicle, self.scenario.environment)
            group.slots["environment"][:] = np.array(flatten(environment), dtype=float)[:, None]
            group.environment.wind_W[:] = 0.0
            begun = [states[index] for index in group.drones]
            numbers = {key: flatten(own) for key, own in {id(own): own for own in begun}.items()}
            group.slots["state"][:] = np.array([numbers[id(own)] for own in begun], dtype=float).T
            group.start()
            group.slots["status"][:] = self.landed[group.indices], self.crashed[group.indices]
            group.slots["wind_disturbance"][:] = np.array(self.setting.wind_disturbance_W)[:, None]
            for lane, index in enumerate(group.drones):
                if index in air:
                    group.surround(lane, air[index])
            self._apply_settings(group)
            if "ground" in group.sets:
                self.run_entry(group, "ground")
            period = self.periods["autopilot"]
            group.reference_table = reference_table(self.settings_of(group), group.reference_ticks)
            group.reference[:] = planned(self.settings_of(group), np.array([-(-self.time_us // period) * period]))[0]
        self.prepare()
        assert self.log is not None
        self.log.regrouped(self)

    def link(self) -> None:
        """Build the stages of all groups for the setting as it is"""
        for group in self.groups:
            setups = [self._setup_of[index] for index in group.drones]
            group.link(self.stages, setups if len(group.setups) > 1 else setups[:1])

    def link_flight(self) -> None:
        """Build the stages of all groups for another wind, and the same vehicles"""
        self._setup_of = [setup._replace(flight=self._flight_of(k)) for k, setup in enumerate(self._setup_of)]
        self.link()

    def run_entry(self, group: Group, name: str) -> None:
        """The stages of one entry by themselves, at this instant"""
        run_entry(self, group, name)

    def prepare(self) -> None:
        """Tell the stages in Python that the groups have slots for them"""
        for stage in self.stages:
            if isinstance(stage, PythonStage):
                stage.prepare(self)

    def _group(self, drones: list[int]) -> Group:
        setups = [self._setup_of[index] for index in drones]
        differ = any(setup != setups[0] for setup in setups)
        group = Group(
            setups if differ else setups[:1],
            tuple(drones),
            seeds=tuple(self.seeds[index] for index in drones),
            numbers=self.numbers[drones],
            names=tuple(self.name_of(index) for index in drones),
            reference_ticks=self.longest_us // self.periods["autopilot"]
            + 2
            + self.periods["log"] // self.periods["autopilot"],
        )
        group.link(self.stages, group.setups)
        if any(group.sets[name][0].python for name in REQUIRE_EQUAL if name in group.sets):
            require_equal([setup[:-1] for setup in group.setups])
        if self.scenario.backend == "python":
            require_equal([setup[:-1] for setup in group.setups])
        else:
            compile_stages(group)  # or drones that differ in more than numbers are told apart here
        return group

    def _shape(self, setup: DroneSetup) -> Hashable:
        """What drones must share to be computed together: all, or where numbers may differ all but those"""
        vehicle, world = setup.vehicle, self.scenario.world
        moves_alone = not (world.solids or world.terrain or vehicle.has("downwash"))
        if not (self.lifts and moves_alone):
            return setup[:-1]
        shape = shape_of((vehicle, setup.controller, setup.model))
        return shape, setup.healthy, setup.estimator, setup.sensors, setup.motor_map

    def wind_on(self, index: int) -> WindSource:
        """What blows on a drone: the setting's, with its own in place of the scenario's"""
        source = self.setting.wind
        if not self.winds:
            return source
        if isinstance(source, Sum):
            return Sum(tuple(self.winds[index] if own is self.scenario.wind else own for own in source.sources))
        return self.winds[index] if source is self.scenario.wind else source

    def _flight_setup(self) -> FlightSetup:
        is_single_tile = len(self.groups) == 1 and is_one_tile(len(self.groups[0].drones))
        return flight_setup(self.scenario, self.setting, self.periods, can_interrupt=is_single_tile)

    def _flight_of(self, index: int) -> FlightSetup:
        return replace(self._flight, wind=self.wind_on(index)) if self.winds else self._flight

    def _setup(self, index: int) -> DroneSetup:
        link = self.links.by_drone.get(index)
        return drone_setup(self.scenario, self.setting, index, self._flight_of(index), link)

    def _regroup(self) -> None:
        """A drone became another vehicle: everything is put together again, the motion goes on."""
        self.flush()
        states, values, paces, air, has_run = {}, {}, {}, {}, set()
        for group in self.groups:
            has_run |= group.has_run
            self.controller_states |= group.controller_states()
            for lane, index in enumerate(group.drones):
                own = unflatten(at_rest(group.vehicle), iter(group.slots["state"][:, lane].tolist()))
                payloads = self._payload_of[index], self.setting.drones[index].payload
                bare = self.scenario.drones[index].vehicle
                shift = centre_shift(bare, payloads[1]) - centre_shift(bare, payloads[0])
                states[index] = with_centre_moved(own, shift)
                values[index], paces[index], air[index] = (
                    group.values_of(lane),
                    group.plant.pace[lane],
                    group.air_of(lane),
                )
        self.form(states, air)
        for group in self.groups:
            group.has_run |= has_run
            for lane, index in enumerate(group.drones):
                group.plant.pace[lane] = paces[index]
                group.take_over(lane, values[index])
        self.prepare()

    def _apply_settings(self, group: Group) -> None:
        """Write arming and faults into the group's slots."""
        group.apply(self.settings_of(group))
        for index in group.drones:
            self._payload_of[index] = self.setting.drones[index].payload

    @property
    def wind_W(self) -> Vec3:
        """The wind; where it depends on the position, that on the first drone"""
        group, lane = self.place_of(0)
        return Vec3(*group.environment.wind_W[:, lane].tolist())
