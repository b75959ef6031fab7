"""The drones of a flight at one instant: what they are, how they move, what surrounds them, what became of them.

Drones that can be computed together are in one group, whose arrays have a column for each. `group.motion` and
`group.around` are the rows of those arrays under their names: `group.motion.p_W`, `group.around.wind_W`. What stages share
is here; what a stage alone needs to remember is its own.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from samara.core.algebra import Vec3
from samara.core.tree import flatten, unflatten
from samara.physics.multirotor import at_rest
from samara.physics.surroundings import environment_of
from samara.physics.types import State
from samara.record.format import LogLine
from samara.scenario.batteries import with_cells
from samara.scenario.bus import Faults
from samara.scenario.facts import Fact, Occurrence, motor_change, sentence_of
from samara.scenario.scenario import Scenario
from samara.scenario.setting import DroneSetting, Setting
from samara.scenario.timeline import MICROSECONDS
from samara.sensors.loader import seeing
from samara.sensors.range_finder import Sees
from samara.sim.group import Group, Key
from samara.sim.links import Links
from samara.sim.references import planned
from samara.sim.stage import Stages
from samara.vehicles.payload import Payload, centre_shift, with_centre_moved, with_payload
from samara.vehicles.slung_load import cut

Array = np.ndarray[Any, Any]

BLOCK_US = MICROSECONDS  # references, noise and records are made and handed on by the second
CROWD, SHORTEST_BLOCKS = 500, 4  # more drones than this fill the memory of a second sooner: down to a quarter of one


class Air:
    """What blows and presses on each drone, a column for each: held from one tick of the wind to the next."""

    def __init__(self, drones: int, rotors: int) -> None:
        self.wind_W = np.zeros((3, drones))
        self.hub_wind_W = np.zeros((3 * rotors, drones))
        self.wake_W = np.zeros((3 * rotors, drones))
        self.push_W, self.push_torque_B = np.zeros((3, drones)), np.zeros((3, drones))


class Fleet:
    """All drones of a scenario while it is flown."""

    def __init__(self, scenario: Scenario, tell: Callable[[str], None]) -> None:
        """`tell` gets what autopilots have to say, at once."""
        self.scenario, n = scenario, len(scenario.drones)
        self.periods = scenario.rates.periods()
        self.block_us = BLOCK_US // min(SHORTEST_BLOCKS, math.ceil(n / CROWD))
        self.time_us = 0
        self.on_scenario_axis = False
        self.setting = Setting(
            tuple(
                DroneSetting(
                    own.task, armed=own.armed, faults=Faults(tuple(1.0 for _ in own.vehicle.rotors)), home_W=own.start_W
                )
                for own in scenario.drones
            ),
            scenario.wind,
        )
        self.air = Air(n, max(len(own.vehicle.rotors) for own in scenario.drones))
        self.landed = np.array([not own.airborne for own in scenario.drones])
        self.crashed = np.zeros(n, dtype=bool)
        self.impact_speed = np.zeros(n)  # [m/s]: of touches of the ground since somebody looked
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

    def say(self, level: str, message: str) -> None:
        """A line of log, now"""
        self.logs.append(LogLine(self.time_us, level, self.scenario.name, message))

    def note(self, index: int, fact: Fact, **more: Any) -> Occurrence:
        """What happened to a drone, now: a row of its stream `event`"""
        self.facts.append(Occurrence(self.time_us, index, fact, **more))
        return self.facts[-1]

    def warn(self, fact: Occurrence) -> None:
        """What happened, as a line of log"""
        names = [own.name for own in self.scenario.drones]
        self.say("warning", sentence_of(fact, names, self.scenario.world.solids))

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

    # What surrounds them ---------------------------------------------------------------------------------------------

    def surround(self, group: Group) -> None:
        """Writes the air into the environment of a group"""
        around, at, vehicle = group.around, group.indices, group.key.vehicle
        around.wind_W[:] = self.air.wind_W[:, at]
        if vehicle.reads("hub_wind_W"):
            rows = len(around.hub_wind_W)
            around.hub_wind_W[:] = self.air.hub_wind_W[:rows, at] + self.air.wake_W[:rows, at]
        if vehicle.reads("pushes"):
            around.pushes[0].f_W[:], around.pushes[0].tau_B[:] = self.air.push_W[:, at], self.air.push_torque_B[:, at]
        self.around_changed = True

    # Another setting -------------------------------------------------------------------------------------------------

    def apply(self, after: Setting) -> None:
        """From this instant on the setting is another one: stages, vehicles, arming, faults, orders and tasks follow it"""
        before, self.setting = self.setting, after
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
                self.place_of(index)[0].plans.clear()
        self.around_changed = True

    def note_impacts(self) -> None:
        """How fast drones came to the ground, from plants that may be put together anew"""
        for group in self.groups:
            noted = self.impact_speed[group.indices]
            self.impact_speed[group.indices] = np.maximum(noted, group.plant.impact_speed)
            group.plant.impact_speed[:] = 0.0

    # Groups ----------------------------------------------------------------------------------------------------------

    def form(self, states: Mapping[int, State]) -> None:
        """Puts the drones into groups, each in its state"""
        self._key_of = [self._key(index) for index in range(len(self.scenario.drones))]
        by_key: dict[Key, list[int]] = {}
        for index, key in enumerate(self._key_of):
            by_key.setdefault(key, []).append(index)
        self.groups = [
            Group(
                key,
                tuple(drones),
                self.scenario.integrator,
                self.periods["physics"],
                self.periods["autopilot"],
                backend=self.scenario.backend,
                seed=self.scenario.seed,
                sensor_us=self.periods["sensor"],
                names=tuple(self.name_of(index) for index in drones),
            )
            for key, drones in by_key.items()
        ]
        self._place_of = {
            index: (at, lane) for at, group in enumerate(self.groups) for lane, index in enumerate(group.drones)
        }
        for group in self.groups:
            environment = environment_of(group.key.vehicle, self.scenario.environment)
            group.plant.environment[:] = np.array(flatten(environment), dtype=float)[:, None]
            self.surround(group)
            for lane, index in enumerate(group.drones):
                group.plant.state[:, lane] = flatten(states[index])
            group.start_estimate()
            self._arm_and_break(group)
            period = self.periods["autopilot"]
            group.reference[:] = planned(self.setting, group, np.array([-(-self.time_us // period) * period]))[0]
            maps = [self.scenario.drones[index].motor_map for index in group.drones]
            if any(maps):
                straight = tuple(range(len(group.plant.command)))
                group.channels = np.array([np.argsort(own or straight) for own in maps]).T
        for stage in self.stages:
            stage.regrouped(self)

    def _key(self, index: int) -> Key:
        drone, own = self.scenario.drones[index], self.setting.drones[index]
        whole = drone.vehicle if own.cable_holds else cut(drone.vehicle)
        vehicle = with_payload(with_cells(whole, own.faults.cells_left), own.payload)
        controller = self.links.by_drone.get(index, drone.controller)
        sensors = drone.sensors
        if self.scenario.world.solids:
            sensors = tuple(seeing(sensor, self._sees) for sensor in sensors)
        return Key(vehicle, controller, own.faults.healthy, drone.estimator, sensors)

    @property
    def _sees(self) -> Sees:
        """What a ray meets: the solids, and the ground's plane, or of a height map the plane below the drone."""
        world, ground = self.scenario.world, self.scenario.environment.ground
        return Sees(tuple(own.solid for own in world.solids), ground if world.terrain is None else None)

    def _regroup(self) -> None:
        """A drone became another vehicle: everything is put together again, the motion goes on."""
        self.flush()
        self.note_impacts()
        states, commands, known, paces = {}, {}, {}, {}
        for group in self.groups:
            for lane, index in enumerate(group.drones):
                own = unflatten(at_rest(group.key.vehicle), iter(group.plant.state[:, lane].tolist()))
                payloads = self._payload_of[index], self.setting.drones[index].payload
                bare = self.scenario.drones[index].vehicle
                shift = centre_shift(bare, payloads[1]) - centre_shift(bare, payloads[0])
                states[index] = with_centre_moved(own, shift)
                commands[index] = group.plant.command[:, lane].copy()
                known[index], paces[index] = group.known_of(lane), group.plant.pace[lane]
        self.form(states)
        for group in self.groups:
            for lane, index in enumerate(group.drones):
                group.plant.command[:, lane], group.plant.pace[lane] = commands[index], paces[index]
                group.take_over(lane, known[index])

    def _arm_and_break(self, group: Group) -> None:
        """Writes arming and faults into the group's arrays."""
        settings = [self.setting.drones[index] for index in group.drones]
        group.arm_and_break(settings)
        for index, own in zip(group.drones, settings, strict=True):
            self._payload_of[index] = own.payload

    @property
    def wind_W(self) -> Vec3:
        """The wind; where it depends on the place, that on the first drone"""
        return Vec3(*self.air.wind_W[:, 0].tolist())
