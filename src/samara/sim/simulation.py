"""The simulation: every part of the world brought up to date at its instants, the plant moved between them.

At one instant, in this order: scenario (events), wind, sensors, estimator, autopilot, log. Then the plant moves to the
next instant under what they left: command, wind and faults are held, and change on step boundaries only.
"""

import math
import warnings
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np

from samara.control.named import instants_ahead
from samara.core.algebra import UP, Vec3
from samara.core.random import normals
from samara.core.tree import flatten, unflatten
from samara.link.autopilot import AutopilotLostError, task_orders
from samara.link.open import open_link
from samara.physics.multirotor import at_rest
from samara.physics.reference import REFERENCE_FIELDS, Reference
from samara.physics.surroundings import environment_of
from samara.physics.types import Environment, State
from samara.record.outputs import output_rows
from samara.record.recorder import LogLine
from samara.record.streams import BODY, STATUS_FIELDS, Block, Rows, load_fields
from samara.scenario.actuators import MOTOR_CHANNELS, ActuatorCommand
from samara.scenario.batteries import battery_status, with_cells
from samara.scenario.battery_failsafe import failsafe_events
from samara.scenario.bus import AutopilotCommand, Bus, DroneBus, Faults
from samara.scenario.events import Action, At, Event, When, disarm, fail_motor
from samara.scenario.landing import CRASH_SPEED, CRASH_TILT, LANDED_RATE, LANDED_SPEED
from samara.scenario.scenario import Scenario
from samara.scenario.setting import DroneSetting, Setting
from samara.scenario.timeline import MICROSECONDS, STAGES, Instant
from samara.sensors.loader import seeing
from samara.sensors.range_finder import Sees
from samara.sim.collide.collisions import Colliding, Strike
from samara.sim.group import Group, Key, Linked, sensors_rows
from samara.sim.stages.autopilot import NO_PLAN, REFERENCE
from samara.sim.stages.downwash import Flown, downwash_on
from samara.sim.stages.ground import Underfoot
from samara.sim.stages.sensors import FAULTS
from samara.sim.stages.wake import gusts_on, stirs
from samara.sim.stages.wind import memory_of, wind_at_hub, wind_on
from samara.sim.start import initial_state, timed_events, timeline_of
from samara.vehicles.limits import command_range
from samara.vehicles.payload import Payload, centre_shift, with_centre_moved, with_payload
from samara.vehicles.slung_load import cut
from samara.wind.sources import Sum, WindSource, is_local

SCENARIO, WIND, SENSOR, ESTIMATOR, AUTOPILOT, LOG = (1 << i for i in range(len(STAGES)))
AHEAD_US = MICROSECONDS // 10  # references of a whole horizon are made for so long at a time
BLOCK_US = MICROSECONDS  # references, noise and records are made and handed on by the second
CROWD, SHORTEST_BLOCKS = 500, 4  # more drones than this fill the memory of a second sooner: down to a quarter of one
HARDEST_PULL = 100.0  # [m/s²]: what may pull a drone to the ground before somebody looks again
QUIET_US = MICROSECONDS // 2  # a part that touches the same thing again sooner is not reported again
HUB_WIND, PUSH_FORCE, PUSH_TORQUE = "hub_wind_W[0].x", "pushes[0].f_W.x", "pushes[0].tau_B.x"  # first rows of each

NOTHING = np.empty((0, 0, 0))
HELD = "held"  # commands and surroundings at every logged state: not recorded, but what the outputs are computed from

Sink = Callable[[Mapping[str, Block], list[LogLine]], None]


class Simulation:
    """A scenario being flown. `run()` flies it to the end; `advance()` to the next instant."""

    def __init__(
        self, scenario: Scenario, sink: Sink | None = None, tell: Callable[[str], None] = lambda sentence: None
    ) -> None:
        """`sink` gets what is recorded; `tell` what autopilots have to say, at once: that one is waited for, or lost."""
        self.scenario, self._sink, self._tell = scenario, sink, tell
        self.periods = scenario.rates.periods()
        self.timeline = timeline_of(scenario)
        self._instants: Iterator[Instant] = self.timeline.instants()
        self.time_us = 0
        self.setting = Setting(
            tuple(
                DroneSetting(
                    own.task, armed=own.armed, faults=Faults(tuple(1.0 for _ in own.vehicle.rotors)), home_W=own.start_W
                )
                for own in scenario.drones
            ),
            scenario.wind,
        )
        self._wind_memory, self._wind_is_new = scenario.wind.initial(), True
        drones, rotors = len(scenario.drones), max(len(own.vehicle.rotors) for own in scenario.drones)
        self._winds, self._hub_winds = np.zeros((3, drones)), np.zeros((3 * rotors, drones))
        self._pushes = np.zeros((6, drones))  # f_W, then τ_B
        self._wake, self._wake_memory = np.zeros_like(self._hub_winds), np.zeros((rotors, drones))
        self._payload_of = [Payload() for _ in scenario.drones]
        self.landed = np.array([not own.airborne for own in scenario.drones])
        self.crashed = np.zeros(len(scenario.drones), dtype=bool)
        self._status = np.full((len(STATUS_FIELDS), len(scenario.drones)), np.nan)  # as last recorded
        self.logs: list[LogLine] = []
        self._impact_speed = np.zeros(len(scenario.drones))  # [m/s]: of touches since somebody looked
        self._sensing = any(own.sensors for own in scenario.drones)
        self._timed = timed_events(scenario, self.periods["physics"])
        self._conditional = [event for event in scenario.events if isinstance(event.trigger, When)]
        self._conditional += [event for own in scenario.drones for event in failsafe_events(own)]
        self._estimate_dt = self.periods["estimator"] / MICROSECONDS
        self._flushed_us = 0
        self._block_us = BLOCK_US // min(SHORTEST_BLOCKS, math.ceil(len(scenario.drones) / CROWD))
        level = scenario.environment.ground.normal_W == UP
        world = scenario.world
        flat = level and not world.solids and world.terrain is None
        self._ground = scenario.environment.ground.point_W.z if flat else math.inf
        self._underfoot = (
            Underfoot(world, scenario.environment.ground) if world.solids or world.terrain is not None else None
        )
        self._colliding: Colliding | None = None
        self._struck_us: dict[tuple[int, str, int, int], int] = {}
        self._warned: set[int] = set()  # drones whose commands were out of range
        self.ended, self._parted = "", False
        self._linked = self._links()
        self.groups: list[Group] = []
        below = self._underfoot.below if self._underfoot else None
        try:
            self._group(
                {index: initial_state(own, scenario.environment, below) for index, own in enumerate(scenario.drones)}
            )
        except BaseException:
            self.close()
            raise
        self._tables: list[dict[str, Rows]] = [self._empty_tables(group) for group in self.groups]
        self._changed = True

    # From instant to instant -----------------------------------------------------------------------------------------

    def run(self, progress: Callable[[float, float], None] = lambda time, total: None) -> None:
        """To the end; `progress(time, total)` is called once a simulated second"""
        total, shown = self.timeline.end_us / MICROSECONDS, -1
        for instant in self._instants:
            if instant.time_us // BLOCK_US != shown:
                shown = instant.time_us // BLOCK_US
                progress(instant.time_us / MICROSECONDS, total)
            self._to(instant)
            if self.ended:
                break
        self._part()
        self.flush()
        self.close()
        progress(self.time_us / MICROSECONDS if self.ended else total, total)

    def advance(self) -> bool:
        """To the next instant and through its stages; False when there is none left"""
        instant = next(self._instants, None)
        if instant is None or self.ended:
            self._part()
            self.flush()
            self.close()
            return False
        self._to(instant)
        return True

    def act(self, action: Action, name: str = "") -> None:
        """An action from outside, at the instant the simulation stands at: applied and logged as an event's is"""
        event = Event(At(self.time_us), action, name)
        after = event.action(self.setting, self.bus())
        self._say("info", event.name)
        if after is not self.setting:
            self._apply(after)
            self._record_environment()  # the plant goes on from here under it, and so must a replay

    def _to(self, instant: Instant) -> None:
        now, due = instant
        if now > self.time_us:
            strikes = self._fly(now)
            self.time_us = now
            if strikes:
                self._hurt(strikes)
                self._record_status()
        if due & SCENARIO:
            self._watch_ground()
            self._record_status()
        if (self._timed and self._timed[-1][0] <= now) or (due & SCENARIO and self._conditional):
            self._happen(bool(due & SCENARIO))
        if due & WIND:
            self._feel_ground()
            self._blow()
            self._stir()
            self._press()
        if due & SENSOR and self._sensing:
            self._measure()
        if due & ESTIMATOR:
            self._estimate()
        if due & AUTOPILOT:
            for group, tables in zip(self.groups, self._tables, strict=True):
                try:
                    group.control(self._asked(group, "autopilot"), now, self.asked_ahead(group))
                except AutopilotLostError as lost:
                    self.ended = f"the flight ended at {now / MICROSECONDS:.3f} s: {lost}"
                    self._say("error", self.ended)
                if self.scenario.strict:
                    self._look_for_nonsense(group)
                if "excess" in tables and group.pilot.excess.any():
                    self._out_of_range(group)
                    tables["excess"].add(now, group.pilot.excess)
                tables["command"].add(now, group.plant.command)
        if self._changed:
            self._record_environment()
        if due & LOG:
            self._log()

    def _fly(self, until_us: int) -> list[Strike]:
        """The plants to another instant; with solids or other drones to touch, and what they struck."""
        if self._colliding is not None:
            return self._colliding.advance(self.time_us, until_us)
        for group in self.groups:
            group.plant.advance(self.time_us, until_us)
        return []

    # The stages ------------------------------------------------------------------------------------------------------

    def _happen(self, on_axis: bool) -> None:
        """Every event whose time has come, or whose condition holds, once; in the order they are listed."""
        due: list[Event] = []
        while self._timed and self._timed[-1][0] <= self.time_us:
            due.append(self._timed.pop()[1])
        bus = self.bus()
        if on_axis:
            for event in list(self._conditional):
                if isinstance(event.trigger, When) and event.trigger.condition(bus):
                    due.append(event)
                    self._conditional.remove(event)
        after = self.setting
        for event in due:
            after = event.action(after, bus)
            self._say("info", event.name)
        if after is not self.setting:
            self._apply(after)

    def _apply(self, after: Setting) -> None:
        before, self.setting = self.setting, after
        if after.wind is not before.wind:
            self._take_over(before.wind, after.wind)
            self._blow()
        keys = [self._key(index) for index in range(len(after.drones))]
        if any(key != self._key_of[index] for index, key in enumerate(keys)):
            self._regroup()
        for group in self.groups:
            self._arm_and_break(group)
        for index, (old, new) in enumerate(zip(before.drones, after.drones, strict=True)):
            for order in new.orders[len(old.orders) :] if index in self._linked else ():
                self._linked[index].link.obey(order)
            if (old.task, old.since_us) != (new.task, new.since_us):
                group = self.groups[self._place_of[index][0]]
                group.plans.clear()
        self._changed = True

    def _take_over(self, before: WindSource, after: WindSource) -> None:
        """A wind that is added to goes on as it was; another one begins."""
        if isinstance(after, Sum) and after.sources[0] is before:
            self._wind_memory = (self._wind_memory, *(source.initial() for source in after.sources[1:]))
        else:
            self._wind_memory, self._wind_is_new = after.initial(), True

    def _blow(self) -> None:
        period = self.periods["wind"]
        source, tick, time = self.setting.wind, int(self.time_us // period), self.time_us / MICROSECONDS
        dt = math.inf if self._wind_is_new else period / MICROSECONDS
        if is_local(source):
            moving, seed = self._moving(), self.scenario.seed
            winds, self._wind_memory = wind_on(source, time, dt, self._wind_memory, moving, seed=seed, tick=tick)
        else:
            needed = source.normals_needed
            draws = normals(self.scenario.seed, "wind", 0, tick, needed).tolist() if needed else ()
            wind, self._wind_memory = source.sample(time, dt, tuple(draws), self._wind_memory)
            winds = np.repeat(np.array(wind, dtype=float)[:, None], len(self.scenario.drones), axis=1)
        self._wind_is_new = False
        disturbance = np.array(self.setting.wind_disturbance_W)[:, None]
        winds = winds + disturbance
        hub_winds = np.tile(winds, (len(self._hub_winds) // 3, 1))
        if self.scenario.wind_at_hubs and is_local(source):
            for group in [own for own in self.groups if HUB_WIND in own.plant.environment_fields]:
                at, memory = group.indices, memory_of(self._wind_memory, group.indices)
                for k, rotor in enumerate(group.key.vehicle.rotors):
                    here = wind_at_hub(source, time, memory, group.plant.state, rotor)
                    hub_winds[3 * k : 3 * k + 3, at] = here + disturbance
        if not (np.array_equal(winds, self._winds) and np.array_equal(hub_winds, self._hub_winds)):
            self._winds, self._hub_winds = winds, hub_winds
            for group in self.groups:
                self._surround(group)
            self._changed = True

    def _stir(self) -> None:
        """What each rotor's own wake adds to the wind at its hub, held until the next tick of the wind."""
        for group in [own for own in self.groups if stirs(own.key.vehicle)]:
            vehicle, plant, at, rotors = group.key.vehicle, group.plant, group.indices, len(group.key.vehicle.rotors)
            tick, dt = int(self.time_us // self.periods["wind"]), self.periods["wind"] / MICROSECONDS
            memory, seed = self._wake_memory[:rotors, at], self.scenario.seed
            gusts, self._wake_memory[:rotors, at] = gusts_on(
                vehicle, plant.state, plant.environment, memory, dt, seed=seed, drones=at, tick=tick
            )
            if not np.array_equal(gusts, self._wake[: 3 * rotors, at]):
                self._wake[: 3 * rotors, at] = gusts
                self._surround(group)
                self._changed = True

    def _press(self) -> None:
        """The downwash of all on all who have it, held until the next tick of the wind."""
        pressing = [group for group in self.groups if group.key.vehicle.has("downwash")]
        if not pressing:
            return
        flown = []
        for group in pressing:
            around: Environment = unflatten(environment_of(group.key.vehicle), iter(group.plant.environment))
            flown.append(Flown(group.key.vehicle, group.indices, group.plant.state, around))
        for group, pushed in zip(pressing, downwash_on(flown), strict=True):
            if not np.array_equal(pushed, self._pushes[:, group.indices]):
                self._pushes[:, group.indices] = pushed
                self._surround(group)
                self._changed = True

    def _moving(self) -> np.ndarray:
        """p_W and v_W of all drones, (6, n)."""
        moving = np.empty((6, len(self.scenario.drones)))
        for group in self.groups:
            moving[:, group.indices] = group.plant.state[:6]
        return moving

    def _surround(self, group: Group) -> None:
        """Writes wind and pushes into the group's arrays."""
        environment, at = group.plant.environment, group.indices
        environment[:3] = self._winds[:, at]
        if HUB_WIND in group.plant.environment_fields:
            first, rows = group.plant.row(HUB_WIND), 3 * len(group.key.vehicle.rotors)
            environment[first : first + rows] = self._hub_winds[:rows, at] + self._wake[:rows, at]
        if PUSH_FORCE in group.plant.environment_fields:
            force, torque = group.plant.row(PUSH_FORCE), group.plant.row(PUSH_TORQUE)
            environment[force : force + 3] = self._pushes[:3, at]
            environment[torque : torque + 3] = self._pushes[3:, at]

    def _measure(self) -> None:
        tick = int(self.time_us // self.periods["sensor"])
        for group, tables in zip(self.groups, self._tables, strict=True):
            for own in group.measuring:
                if own.update(group.plant, tick):
                    tables[own.sensor.name].add(self.time_us, own.said)

    def _estimate(self) -> None:
        tick = self.time_us // self.periods["estimator"]
        for group in self.groups:
            needed = group.key.estimator.normals_needed
            draws = None
            if needed:
                if not 0 <= tick - group.first_noise < len(group.noise):
                    group.first_noise = tick
                    ticks = np.arange(tick, tick + self._block_us // self.periods["estimator"] + 1)
                    drones = np.array(group.drones)
                    drawn = normals(self.scenario.seed, "estimator", drones[None, :], ticks[:, None], needed)
                    group.noise = np.ascontiguousarray(np.moveaxis(drawn, 2, 1))
                draws = group.noise[tick - group.first_noise]
            group.update_estimate(draws, self._estimate_dt if self.time_us else 0.0)

    def _plan(self, group: Group, times_us: np.ndarray) -> np.ndarray:
        """What each drone's task asks at some times: (times, fields, drones)."""
        asked = np.empty((len(times_us), len(REFERENCE_FIELDS), len(group.drones)))
        shared: dict[Any, np.ndarray] = {}  # tasks of one shape that began together differ by where they are
        for lane, index in enumerate(group.drones):
            task, since_us = self.setting.drones[index].task, self.setting.drones[index].since_us
            key = (id(task.reference), since_us)
            if key not in shared:
                own = flatten(task.reference((times_us - since_us) / MICROSECONDS))
                shared[key] = np.stack(
                    [np.broadcast_to(np.asarray(leaf, dtype=float), times_us.shape) for leaf in own], axis=1
                )
            asked[:, :, lane] = shared[key]
        asked[:, :3] += np.array([self.setting.drones[index].task.shift_W for index in group.drones]).T
        return asked

    def _asked(self, group: Group, axis: str) -> np.ndarray:
        """What the drones are asked at this tick of an axis: (fields, drones)."""
        period = self.periods[axis]
        tick = int(self.time_us // period)
        first, block = group.plans.get(axis, (0, NOTHING))
        if not 0 <= tick - first < len(block):
            ticks = np.arange(tick, tick + self._block_us // period + 1, dtype=np.int64)
            first, block = group.plans[axis] = tick, self._plan(group, ticks * period)
        own: np.ndarray = block[tick - first]
        return own

    def asked_ahead(self, group: Group) -> np.ndarray:
        """What the drones are asked at the instants their pilot looks ahead to: (instants, fields, drones)."""
        if not group.pilot.look_ahead.size:
            return NO_PLAN
        period, later_us = self.periods["autopilot"], np.round(MICROSECONDS * group.pilot.look_ahead)
        tick = int(self.time_us // period)
        first, block = group.plans.get("ahead", (0, NOTHING))
        if not 0 <= tick - first < len(block):
            ticks = np.arange(tick, tick + AHEAD_US // period + 1, dtype=np.int64)
            asked = self._plan(group, np.add.outer(ticks * period, later_us).ravel())
            first, block = group.plans["ahead"] = tick, asked.reshape(len(ticks), len(later_us), *asked.shape[1:])
        own: np.ndarray = block[tick - first]
        return own

    def _log(self) -> None:
        now = self.time_us
        for group, tables in zip(self.groups, self._tables, strict=True):
            state = group.plant.state
            if not math.isfinite(state.sum()):
                self._lost(group)
            self._look_for_nonsense(group)
            tables["state"].add(now, state)
            tables[HELD].add(now, group.plant.command, group.plant.environment)
            tables["reference"].add(now, self._asked(group, "log"))
            if group.estimate is not state:
                tables["estimate"].add(now, group.estimate[:BODY])
            if "covariance" in tables and group.fusing:
                tables["covariance"].add(now, group.fusing.variances)
            if "plan" in tables:
                tables["plan"].add(now, group.pilot.prediction.reshape(len(group.drones), -1).T)
        if now - self._flushed_us >= self._block_us:
            self.flush()

    # What is recorded ------------------------------------------------------------------------------------------------

    def _empty_tables(self, group: Group) -> dict[str, Rows]:
        n = len(group.drones)
        sizes = {
            "state": (len(group.plant.fields), "log"),
            "command": (len(group.plant.command), "autopilot"),
            "reference": (len(REFERENCE_FIELDS), "log"),
            "estimate": (BODY, "log"),
            "environment": (len(group.plant.environment) + len(load_fields(group.key.vehicle)), "wind"),
            "status": (len(STATUS_FIELDS), "scenario"),
            HELD: (len(group.plant.command) + len(group.plant.environment), "log"),
        }
        ahead = {instants_ahead(self.scenario.drones[index].controller) for index in group.drones}
        if ahead == {len(group.pilot.look_ahead)} != {0}:  # what it was not to be recorded with is not recorded
            sizes["plan"] = (3 * len(group.pilot.look_ahead), "log")
        if group.fusing and len(group.fusing.variances):
            sizes["covariance"] = (len(group.fusing.variances), "log")
        if callable(group.key.controller):
            sizes["excess"] = (len(group.plant.command), "autopilot")
        sizes |= {own.sensor.name: (len(own.sensor.fields), "sensor") for own in group.measuring}
        return {
            name: Rows(fields, n, self._block_us // self.periods[axis] + 2) for name, (fields, axis) in sizes.items()
        }

    def _record_environment(self) -> None:
        for group, tables in zip(self.groups, self._tables, strict=True):
            drones = [self.setting.drones[index] for index in group.drones]
            has = load_fields(group.key.vehicle)
            load = np.array(
                [
                    [own.payload.mass, *own.payload.r_B, own.faults.cells_left, own.cable_holds][: len(has)]
                    for own in drones
                ]
            ).T
            tables["environment"].add(self.time_us, group.plant.environment, load)
        self._changed = False

    def _record_status(self) -> None:
        """Who has landed and who has crashed, where that has changed."""
        now = np.array([self.landed, self.crashed], dtype=float)
        if not np.array_equal(now, self._status):
            self._status = now
            for group, tables in zip(self.groups, self._tables, strict=True):
                tables["status"].add(self.time_us, now[:, group.indices])

    def _outputs(self, group: Group, tables: dict[str, Rows]) -> Rows:
        """Supply and airspeed of all logged states, by the equations that flew them."""
        state, held, commands = tables["state"], tables[HELD], len(group.plant.command)
        rows, around = state.rows[: state.count], held.rows[: held.count]
        told = output_rows(rows, around[:, :commands], around[:, commands:], group.key.vehicle)
        return Rows.of(state.times[: state.count], told)

    def flush(self) -> None:
        """Hands on what was recorded since the last time."""
        if self._sink is not None:
            blocks: dict[str, Block] = {}
            for group, tables in zip(self.groups, self._tables, strict=True):
                told = {key: table for key, table in tables.items() if table.count and key != HELD}
                if "state" in told:
                    told["outputs"] = self._outputs(group, tables)
                for lane, index in enumerate(group.drones):
                    name = self.scenario.drones[index].name
                    blocks |= {f"/{name}/{key}": table.taken(lane) for key, table in told.items()}
            self._sink(blocks, self.logs)
        self.logs = []
        for tables in self._tables:
            for table in tables.values():
                table.count = 0
        self._flushed_us = self.time_us

    # Autopilots ------------------------------------------------------------------------------------------------------

    def _links(self) -> dict[int, Linked]:
        """A link for each drone that an autopilot flies."""
        linked: dict[int, Linked] = {}
        for index, drone in enumerate(self.scenario.drones):
            if drone.autopilot is not None:
                who = drone.name if len(self.scenario.drones) > 1 else ""
                try:
                    link = open_link(drone.autopilot, drone.vehicle, partial(self._heard, who))
                except BaseException:
                    for other in linked.values():
                        other.link.close()
                    raise
                linked[index] = Linked(link, drone.autopilot.hover)
                for order in task_orders(drone.task):
                    link.obey(order)
        return linked

    def _part(self) -> None:
        """The last words of the links, once; an autopilot that never answered has flown nothing."""
        for index, own in self._linked.items() if not self._parted else ():
            who = f"{self.scenario.drones[index].name}: " if len(self.scenario.drones) > 1 else ""
            for level, sentence in own.link.ending():
                self._say(level, who + sentence)
            if own.link.sent and not own.link.answered and not self.ended:
                self.ended = f"{who}{own.link.title} was there and never answered: nothing was flown by it"
                self._say("error", self.ended)
        self._parted = True

    def _heard(self, who: str, level: str, sentence: str) -> None:
        said = f"{who}: {sentence}" if who else sentence
        self._say(level, said)
        self._tell(said)

    def close(self) -> None:
        """Ends the links to autopilots, and those that were started here; the flight cannot go on"""
        for own in self._linked.values():
            own.link.close()

    def _say(self, level: str, message: str) -> None:
        self.logs.append(LogLine(self.time_us, level, self.scenario.name, message))

    # Trouble ---------------------------------------------------------------------------------------------------------

    def _look_for_nonsense(self, group: Group) -> None:
        """A command that was no number: an error when strict, else a warning, once, and how many there were."""
        count = float(group.pilot.insane.max())
        if count == group.seen_insane:
            return
        name = self.scenario.drones[group.drones[int(np.argmax(group.pilot.insane))]].name
        sentence = f"{name}: the controller gave a command that is not a number by {self.time_us / MICROSECONDS:.6f} s"
        if self.scenario.strict:
            raise FloatingPointError(f"{sentence}; expected finite numbers")
        if not group.seen_insane:
            self._say("warning", f"{sentence}; it was taken as 0")
            warnings.warn(f"{sentence}; it was taken as 0", RuntimeWarning, stacklevel=2)
        group.seen_insane = count

    def _out_of_range(self, group: Group) -> None:
        """A function of one's own asked for more than its range: an error when strict, else a warning, once for each drone."""
        low, high = command_range(group.key.vehicle) or (-math.inf, math.inf)
        for lane in np.flatnonzero(group.pilot.excess.any(axis=0)):
            index, channel = group.drones[lane], int(np.flatnonzero(group.pilot.excess[:, lane])[0])
            asked = group.pilot.command[channel, lane] + group.pilot.excess[channel, lane]
            sentence = (
                f"{self.scenario.drones[index].name}: the controller's command of motor {channel} is {asked:.6g} "
                f"at {self.time_us / MICROSECONDS:.6f} s; expected a number within [{low:g}, {high:g}]"
            )
            if self.scenario.strict:
                self._say("error", sentence)
                raise ValueError(sentence)
            if index not in self._warned:
                self._warned.add(index)
                self._say("warning", f"{sentence}, and it was cut to that")
                warnings.warn(f"{sentence}, and it was cut to that", RuntimeWarning, stacklevel=2)

    def _lost(self, group: Group) -> None:
        row, lane = (int(i) for i in np.argwhere(~np.isfinite(group.plant.state))[0])
        name = self.scenario.drones[group.drones[lane]].name
        sentence = (
            f"{name}: {group.plant.fields[row]} is {group.plant.state[row, lane]} at {self.time_us / MICROSECONDS:.6f} s; "
            "expected a finite number"
        )
        self._say("error", sentence)
        self.flush()
        raise FloatingPointError(sentence)

    def _watch_ground(self) -> None:
        """Who stands, and who has hit the ground too hard since the last time or lies on it."""
        self._note_impacts()
        ahead = self.periods["scenario"] / MICROSECONDS  # [s]: until the next time
        for group in self.groups:
            state, drones = group.plant.state, group.indices
            speed = np.sqrt((state[3:6] ** 2).sum(axis=0))
            room = (speed + HARDEST_PULL * ahead) * ahead
            hard = self._impact_speed[drones] > CRASH_SPEED
            if group.key.vehicle.has("contact") and float((state[2] - room).min()) <= self._ground + group.reach:
                depths = group.plant.depths().max(axis=0)
                group.plant.watch(bool(np.any((depths > -room) & (speed + HARDEST_PULL * ahead > CRASH_SPEED))))
                touching = depths > 0.0
            else:
                group.plant.watch(False)
                touching = np.zeros(len(drones), dtype=bool)
            fallen = touching & (1.0 - 2.0 * (state[7] ** 2 + state[8] ** 2) < math.cos(CRASH_TILT))
            for lane in np.flatnonzero((hard | fallen) & ~self.crashed[drones]):
                how = f"at {self._impact_speed[drones[lane]]:.1f} m/s" if hard[lane] else "leaning over"
                name = self.scenario.drones[group.drones[lane]].name
                self._say("warning", f"{name} crashed: touched the ground {how}")
            self.crashed[drones] |= hard | fallen
            still = (speed < LANDED_SPEED) & (np.sqrt((state[10:13] ** 2).sum(axis=0)) < LANDED_RATE)
            self.landed[drones] = touching & still & ~self.crashed[drones]  # a wreck lies there, it has not landed
        self._impact_speed[:] = 0.0

    def _note_impacts(self) -> None:
        """How fast drones came to the ground, from plants that may be put together anew."""
        for group in self.groups:
            noted = self._impact_speed[group.indices]
            self._impact_speed[group.indices] = np.maximum(noted, group.plant.impact_speed)
            group.plant.impact_speed[:] = 0.0

    def _feel_ground(self) -> None:
        """The plane under each drone, where it is not the same everywhere."""
        if self._underfoot is not None:
            for group in self.groups:
                if self._underfoot.update(group.plant):
                    self._changed = True

    def _hurt(self, strikes: list[Strike]) -> None:
        """Says who struck what; a hard touch, and that of a propeller, is a crash, and may break the propeller."""
        world, after = self.scenario.world, self.setting
        for strike in strikes:
            index, other = strike.drone, strike.other
            touch = (index, strike.part.name, strike.solid, other)
            before, self._struck_us[touch] = self._struck_us.get(touch, -QUIET_US), self.time_us
            if self.time_us - before < QUIET_US:
                continue
            name = self.scenario.drones[index].name
            what = self.scenario.drones[other].name if other >= 0 else str(world.solids[strike.solid])
            words = f"{strike.part.name} struck {what} at {strike.speed:.1f} m/s"
            self._say("warning", f"{name}: {words}")
            propeller = strike.part.axis_B is not None
            for hurt in (index, other) if propeller or strike.speed > CRASH_SPEED else ():
                if hurt >= 0 and not self.crashed[hurt]:
                    how = words if hurt == index else f"struck by {name}'s {strike.part.name} at {strike.speed:.1f} m/s"
                    self._say("warning", f"{self.scenario.drones[hurt].name} crashed: {how}")
                    self.crashed[hurt] = True
            if propeller and world.propeller_strike == "break":
                left = sum(power > 0.0 for power in after.drones[index].faults.motor_power)
                broken = fail_motor(int(strike.part.name.split()[-1]), name) if left > 1 else disarm(name)
                after = broken(after, self.bus())  # with its last propeller gone nobody steers it
        if after is not self.setting:
            self._apply(after)

    # Groups ----------------------------------------------------------------------------------------------------------

    def _key(self, index: int) -> Key:
        drone, own = self.scenario.drones[index], self.setting.drones[index]
        whole = drone.vehicle if own.cable_holds else cut(drone.vehicle)
        vehicle = with_payload(with_cells(whole, own.faults.cells_left), own.payload)
        controller = self._linked.get(index, drone.controller)
        sensors = drone.sensors
        if self.scenario.world.solids:
            sensors = tuple(seeing(sensor, self._sees) for sensor in sensors)
        return Key(vehicle, controller, own.faults.healthy, drone.estimator, sensors)

    @property
    def _sees(self) -> Sees:
        """What a ray meets: the solids, and the ground's plane, or of a height map the plane below the drone."""
        world, ground = self.scenario.world, self.scenario.environment.ground
        return Sees(tuple(own.solid for own in world.solids), ground if world.terrain is None else None)

    def _group(self, states: Mapping[int, State]) -> None:
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
                seed=self.scenario.seed,
                sensor_us=self.periods["sensor"],
                names=tuple(self.scenario.drones[index].name for index in drones),
            )
            for key, drones in by_key.items()
        ]
        self._place_of = {
            index: (at, lane) for at, group in enumerate(self.groups) for lane, index in enumerate(group.drones)
        }
        for group in self.groups:
            environment = environment_of(group.key.vehicle, self.scenario.environment)
            group.plant.environment[:] = np.array(flatten(environment), dtype=float)[:, None]
            self._surround(group)
            for lane, index in enumerate(group.drones):
                group.plant.state[:, lane] = flatten(states[index])
            group.start_estimate()
            self._arm_and_break(group)
            period = self.periods["autopilot"]
            group.reference[:] = self._plan(group, np.array([-(-self.time_us // period) * period]))[0]
            maps = [self.scenario.drones[index].motor_map for index in group.drones]
            if any(maps):
                straight = tuple(range(len(group.plant.command)))
                group.channels = np.array([np.argsort(own or straight) for own in maps]).T
        self._feel_ground()
        if self.scenario.world.solids or self.scenario.world.collisions:
            self._colliding = Colliding(
                self.scenario.world, [group.plant for group in self.groups], [group.drones for group in self.groups]
            )

    def _regroup(self) -> None:
        """An event made a drone another vehicle: everything is put together again, the motion goes on."""
        self.flush()
        self._note_impacts()
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
        self._group(states)
        for group in self.groups:
            for lane, index in enumerate(group.drones):
                group.plant.command[:, lane], group.plant.pace[lane] = commands[index], paces[index]
                group.take_over(lane, known[index])
            group.plant.watch(group.key.vehicle.has("contact"))
        self._tables = [self._empty_tables(group) for group in self.groups]

    def _arm_and_break(self, group: Group) -> None:
        """Writes arming and faults into the group's arrays."""
        settings = [self.setting.drones[index] for index in group.drones]
        linked = isinstance(group.key.controller, Linked)  # an autopilot arms itself, when it is told to
        group.armed[:] = [float(own.armed or linked) for own in settings]
        group.all_armed = bool(group.armed.all())
        power = group.plant.row("motor_power[0]") if group.key.vehicle.rotors else 0
        connected = group.plant.row("battery_connected")
        group.frozen_rows = []
        for lane, own in enumerate(settings):
            group.plant.environment[connected, lane] = float(own.faults.battery_connected)
            if group.key.vehicle.rotors:
                group.plant.environment[power:, lane] = own.faults.motor_power
            for measuring in group.measuring:
                measuring.silent[lane] = bool(FAULTS.get(measuring.sensor.kind, frozenset()) & own.faults.sensors)
            rows = [] if group.fusing else sensors_rows(own.faults.sensors)
            if own.faults.estimator_frozen:
                rows = list(range(len(group.plant.fields)))
            if rows:
                group.frozen_rows.append((lane, rows))
            self._payload_of[group.drones[lane]] = own.payload

    @property
    def wind_W(self) -> Vec3:
        """The wind; where it depends on the place, that on the first drone"""
        return Vec3(*self._winds[:, 0].tolist())

    # The bus ---------------------------------------------------------------------------------------------------------

    def bus(self) -> Bus:
        """The world at this instant, as a frozen record"""
        return Bus(
            self.time_us,
            tuple(self._drone_bus(index) for index in range(len(self.scenario.drones))),
            self.wind_W,
            self.setting.wind_disturbance_W,
        )

    def _drone_bus(self, index: int) -> DroneBus:
        at, lane = self._place_of[index]
        group, own = self.groups[at], self.setting.drones[index]
        template = at_rest(group.key.vehicle)
        state: State = unflatten(template, iter(group.plant.state[:, lane].tolist()))
        estimate: State = unflatten(template, iter(group.estimate[:, lane].tolist()))
        reference: Reference = unflatten(REFERENCE, iter(group.reference[:, lane].tolist()))
        environment: Environment = unflatten(
            environment_of(group.key.vehicle), iter(group.plant.environment[:, lane].tolist())
        )
        command = tuple(group.plant.command[:, lane].tolist())
        unit = group.key.vehicle.structure.actuation.name in ("normalized", "duty")
        return DroneBus(
            self.scenario.drones[index].name,
            state,
            estimate,
            reference,
            ActuatorCommand(tuple(min(max(u, 0.0), 1.0) for u in command[:MOTOR_CHANNELS]))
            if unit
            else ActuatorCommand(),
            AutopilotCommand(own.armed, own.task.name, own.since_us),
            own.faults,
            bool(self.landed[index]),
            bool(self.crashed[index]),
            environment,
            battery_status(state, command, group.key.vehicle, environment),
            {own.sensor.name: tuple(own.said[:, lane].tolist()) for own in group.measuring},
        )
