"""The drones of a flight at one instant: what they are, how they move, what surrounds them, what became of them.

Drones that can be computed together are in one group, whose arrays have a column for each. `group.motion` and
`group.around` are the rows of those arrays under their names: `group.motion.p_W`, `group.around.wind_W`. What stages share
is here; what a stage alone needs to remember is its own.
"""

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from samara.backends.lanes import UnlikeError, in_lanes
from samara.backends.llvm_schedule import Operation
from samara.backends.machine import STRICT, Precision
from samara.core.algebra import Vec3
from samara.core.random import key_of
from samara.core.tree import flatten, shape_of, unflatten
from samara.physics.multirotor import at_rest
from samara.physics.rotors.rotor import SEA_LEVEL_DENSITY
from samara.physics.surroundings import environment_of
from samara.physics.types import State
from samara.record.format import LogLine
from samara.scenario.batteries import with_cells
from samara.scenario.bus import Faults
from samara.scenario.facts import Fact, Occurrence, motor_change, sentence_of
from samara.scenario.landing import landing_depth
from samara.scenario.scenario import Scenario
from samara.scenario.setting import DroneSetting, Setting
from samara.scenario.timeline import MICROSECONDS
from samara.sensors.loader import seeing
from samara.sensors.range_finder import Sees
from samara.sim.blowing import wind_code
from samara.sim.calendar import Calendar
from samara.sim.group import Group, Key, Linked
from samara.sim.kept import Kept
from samara.sim.links import Links
from samara.sim.references import asked_of, planned
from samara.sim.stage import Stage, Stages
from samara.vehicles.effective import at_density
from samara.vehicles.payload import Payload, centre_shift, with_centre_moved, with_payload
from samara.vehicles.slung_load import cut
from samara.wind.sources import Sum, WindSource, is_traced

Array = np.ndarray[Any, Any]

BLOCK_US = MICROSECONDS  # references, noise and records are made and handed on by the second
CROWD, SHORTEST_BLOCKS = 500, 4  # more drones than this fill the memory of a second sooner: down to a quarter of one
LONGEST_BLOCK = (
    8  # seconds, of a drone alone that no Python flies: what Python does around a block takes as long as a second
)


class Fleet:
    """All drones of a scenario while it is flown."""

    def __init__(
        self,
        scenario: Scenario,
        calendar: Calendar,
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
        self.scenario, self.calendar, n = scenario, calendar, len(scenario.drones)
        self.periods = calendar.periods
        self.revision = 0  # counts up whenever the groups, or what their stages do, are others
        self.precision = precision
        self.seeds = tuple(seeds) or (scenario.seed,) * n
        self.apart = bool(seeds)  # each drone in a world of its own
        self.numbers = np.arange(n) * (not seeds)  # of each drone in its flight: what its draws are counted by
        self.kept: dict[int, Kept] = {}  # the tables that the program fills
        self.block_us = BLOCK_US // min(SHORTEST_BLOCKS, math.ceil(n / CROWD))  # how long blocks are now, and may be
        self.longest_us = max(self.block_us, BLOCK_US * (LONGEST_BLOCK // n))
        self.time_us = 0
        self.passed = 0  # stages, of the instant it stands at
        self.on_scenario_axis = False
        self.setting = Setting(
            tuple(
                DroneSetting(
                    own.task,
                    armed=own.armed,
                    faults=Faults(tuple(1.0 for _ in own.vehicle.rotors)),
                    home_W=own.start_W,
                    landing_depth=landing_depth(own.vehicle),
                )
                for own in scenario.drones
            ),
            scenario.wind,
        )
        self.landed = np.array([not own.airborne for own in scenario.drones])
        self.crashed = np.zeros(n, dtype=bool)
        self.logs: list[LogLine] = []
        self.facts: list[Occurrence] = []
        self.ended = ""  # why, where it did before its time
        self.around_changed = True  # an environment is another one: it is to be recorded
        self.groups: list[Group] = []
        self.stages: Stages = ()
        self.flush: Callable[[], None] = lambda: None
        self._payload_of = [Payload() for _ in scenario.drones]
        self._key_of: list[Key] = []
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

    def put(
        self,
        group: Group,
        name: str,
        stage: Stage,
        source: Array,
        *,
        due: int,
        period: int,
        offset: int = 0,
        skip: int = 0,
    ) -> list[Operation]:
        """A row of a group's table at every tick of a period [µs], in a stage; nothing where there is no such table"""
        if name not in group.tables:
            return []
        return [self._keep(group, name, stage, period, offset).put(due, source, skip)]

    def _keep(self, group: Group, name: str, stage: Stage, period_us: int, offset_us: int) -> Kept:
        table, first = group.tables[name], group.firsts.setdefault(name, np.array([-1], dtype=np.int64))
        if first[0] < 0:  # from the next tick on, which is this instant's where the stage is still to come
            ticks = self.time_us - offset_us
            first[0] = max(
                ticks // period_us + 1 if self.passed > self.stages.index(stage) else -(-ticks // period_us), 0
            )
        if id(table) not in self.kept:
            place = np.array([table.rows.ctypes.data], dtype=np.int64)
            self.kept[id(table)] = Kept(table, period_us, offset_us, self.stages.index(stage), first, place)
        return self.kept[id(table)]

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
        blocks = [getattr(group.motion, name) for group in self.groups]
        rows = np.empty((len(blocks[0]), len(self.scenario.drones)))
        for group, block in zip(self.groups, blocks, strict=True):
            rows[:, group.indices] = block
        return rows

    # Another setting -------------------------------------------------------------------------------------------------

    def apply(self, after: Setting) -> None:
        """From this instant on the setting is another one: stages, vehicles, arming, faults, orders and tasks follow it"""
        before, self.setting = self.setting, after
        self.revision += 1
        for stage in self.stages:
            stage.react(self, before)
        if [self._key(index) for index in range(len(after.drones))] != self._key_of:
            self._regroup()
        for group in self.groups:
            self._arm_and_break(group)
        for index, (old, new) in enumerate(zip(before.drones, after.drones, strict=True)):
            for motor, (had, has) in enumerate(zip(old.faults.motor_power, new.faults.motor_power, strict=True)):
                if has != had:
                    self.note(index, motor_change(had, has), number=motor, value=has)
            self.links.obey(index, new.orders[len(old.orders) :])
            if (old.task, old.since_us) != (new.task, new.since_us):
                group, _ = self.place_of(index)
                group.forget_plans()
                if group.asked.shift_W is not None:
                    group.asked = asked_of(self.settings_of(group), group.asked_ticks)
        self.around_changed = True

    def wreck(self, index: int) -> None:
        """A drone has crashed"""
        group, lane = self.place_of(index)
        self.crashed[index], group.status[1, lane] = True, 1.0

    # Groups ----------------------------------------------------------------------------------------------------------

    def form(self, states: Mapping[int, State], air: Mapping[int, list[Array]] = MappingProxyType({})) -> None:
        """Puts the drones into groups, each in its state, and in the air it was in"""
        self.revision += 1
        self._key_of = [self._key(index) for index in range(len(self.scenario.drones))]
        alike: dict[Hashable, list[int]] = {}
        known: dict[Hashable, Hashable] = {}  # a thousand flights of one drone have one shape
        for index, key in enumerate(self._key_of):
            same = *map(id, key._replace(healthy=())), key.healthy
            if same not in known:
                known[same] = self._alike(key)
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
        for group in self.groups:
            environment = environment_of(group.key.vehicle, self.scenario.environment)
            group.plant.environment[:] = np.array(flatten(environment), dtype=float)[:, None]
            group.around.wind_W[:] = 0.0
            group.status[:] = self.landed[group.indices], self.crashed[group.indices]
            begun = [states[index] for index in group.drones]
            numbers = {key: flatten(own) for key, own in {id(own): own for own in begun}.items()}
            group.plant.state[:] = np.array([numbers[id(own)] for own in begun], dtype=float).T
            for lane, index in enumerate(group.drones):
                if index in air:
                    group.surround(lane, air[index])
            group.start_estimate()
            self._arm_and_break(group)
            period = self.periods["autopilot"]
            group.asked = asked_of(self.settings_of(group), group.asked_ticks)
            group.reference[:] = planned(self.settings_of(group), np.array([-(-self.time_us // period) * period]))[0]
            maps = [self.scenario.drones[index].motor_map for index in group.drones]
            if any(maps):
                straight = tuple(range(len(group.plant.command)))
                group.channels = np.array([np.argsort(own or straight) for own in maps]).T
        for stage in self.stages:
            stage.regrouped(self)

    def _group(self, drones: list[int]) -> Group:
        keys = [self._key_of[index] for index in drones]
        if self.winds:
            in_lanes(wind_code, [(self.wind_on(index),) for index in drones])  # or they are told apart here
        return Group(
            keys[0],
            tuple(drones),
            self.scenario.integrator,
            self.periods["physics"],
            self.periods["autopilot"],
            backend=self.scenario.backend,
            seeds=tuple(self.seeds[index] for index in drones),
            numbers=self.numbers[drones],
            sensor_us=self.periods["sensor"],
            names=tuple(self.name_of(index) for index in drones),
            asked_ticks=self.longest_us // self.periods["autopilot"]
            + 2
            + self.periods["log"] // self.periods["autopilot"],
            keys=keys if any(key != keys[0] for key in keys) else (),
        )

    def _alike(self, key: Key) -> Hashable:
        """What drones must share to be computed together: all, or where numbers may differ all but those"""
        moves_alone = not (self.scenario.world.solids or self.scenario.world.terrain or key.vehicle.has("downwash"))
        if not (self.lifts and moves_alone):
            return key
        return shape_of((key.vehicle, key.controller, key.model)), key.healthy, key.estimator, key.sensors

    def wind_on(self, index: int) -> WindSource:
        """What blows on a drone: the setting's, with its own in place of the scenario's"""
        source = self.setting.wind
        if not self.winds:
            return source
        if isinstance(source, Sum):
            return Sum(tuple(self.winds[index] if own is self.scenario.wind else own for own in source.sources))
        return self.winds[index] if source is self.scenario.wind else source

    def _key(self, index: int) -> Key:
        drone, own = self.scenario.drones[index], self.setting.drones[index]
        whole = drone.vehicle if own.cable_holds else cut(drone.vehicle)
        vehicle = with_payload(with_cells(whole, own.faults.cells_left), own.payload)
        controller = self.links.by_drone.get(index, drone.controller)
        sensors, world = drone.sensors, self.scenario.world
        if world.solids or world.terrain is not None:
            sensors = tuple(seeing(sensor, self._sees, world.terrain) for sensor in sensors)
        density, model = self.scenario.environment.air_density, drone.model
        if density != SEA_LEVEL_DENSITY and not isinstance(controller, Linked):  # an autopilot has to find out itself
            model = at_density(vehicle if model is None else model, density)
        return Key(vehicle, controller, own.faults.healthy, drone.estimator, sensors, model)

    @property
    def _sees(self) -> Sees:
        """What a ray meets: the solids, and the ground's plane, or of a height map the plane below the drone."""
        world, ground = self.scenario.world, self.scenario.environment.ground
        return Sees(tuple(own.solid for own in world.solids), ground if world.terrain is None else None)

    def _regroup(self) -> None:
        """A drone became another vehicle: everything is put together again, the motion goes on."""
        self.flush()
        states, commands, known, paces, air, impacts = {}, {}, {}, {}, {}, {}
        for group in self.groups:
            for lane, index in enumerate(group.drones):
                own = unflatten(at_rest(group.key.vehicle), iter(group.plant.state[:, lane].tolist()))
                payloads = self._payload_of[index], self.setting.drones[index].payload
                bare = self.scenario.drones[index].vehicle
                shift = centre_shift(bare, payloads[1]) - centre_shift(bare, payloads[0])
                states[index] = with_centre_moved(own, shift)
                commands[index] = group.plant.command[:, lane].copy()
                known[index], paces[index] = group.known_of(lane), group.plant.pace[lane]
                air[index], impacts[index] = group.air_of(lane), group.plant.impact_speed[lane]
        self.form(states, air)
        for group in self.groups:
            for lane, index in enumerate(group.drones):
                group.plant.command[:, lane], group.plant.pace[lane] = commands[index], paces[index]
                group.take_over(lane, known[index])
                group.plant.impact_speed[lane] = impacts[index]

    def _arm_and_break(self, group: Group) -> None:
        """Writes arming and faults into the group's arrays."""
        settings = [self.setting.drones[index] for index in group.drones]
        group.arm_and_break(settings)
        for index, own in zip(group.drones, settings, strict=True):
            self._payload_of[index] = own.payload

    @property
    def wind_W(self) -> Vec3:
        """The wind; where it depends on the place, that on the first drone"""
        group, lane = self.place_of(0)
        return Vec3(*group.around.wind_W[:, lane].tolist())
