"""A scenario flown for ROS 2: by the clock, faster, or in lockstep with the nodes that fly it."""

import math
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from samara.core.sanitise import shown
from samara.link.ros2.node import Node
from samara.record.recorder import Background, LogLine
from samara.record.ros2.messages import ros_name
from samara.record.streams import Block
from samara.scenario.events import Action, fail_motor, restore_motor, wind_step
from samara.scenario.scenario import Scenario
from samara.scenario.timeline import MICROSECONDS
from samara.sim.external_setpoints import SPEED
from samara.sim.fly import ending, recorder_of
from samara.sim.initial_state import timeline_of
from samara.sim.ros2.setpoint_topics import Commands
from samara.sim.simulation import Simulation
from samara.sim.stage import Entry, StageSequence, insert
from samara.sim.stages.ros2 import Ros2Stage
from samara.sim.stages.setpoints import SetpointsStage

STRONGEST = 100.0  # [m/s]


class Deed(NamedTuple):
    """Pause or go on, begin again, or an action on the flight; or a sentence why not"""

    pause: bool | None = None
    reset: bool = False
    action: Action | None = None
    refused: str = ""


class Controls:
    """The topics `/samara/…`, and those of each drone"""

    def __init__(self, node: Node, scenario: Scenario) -> None:
        self._pause = node.listener("/samara/pause", "std_msgs/Bool")
        self._reset = node.listener("/samara/reset", "std_msgs/Empty")
        self._wind = node.listener("/samara/wind", "geometry_msgs/Vector3")
        self._motors = [
            (node.listener(f"/{ros_name(drone.name)}/{word}", "std_msgs/Int32"), act, drone.name)
            for drone in scenario.drones
            for word, act in (("fail_motor", fail_motor), ("restore_motor", restore_motor))
        ]
        self._listeners = [self._pause, self._reset, self._wind, *(own for own, _, _ in self._motors)]
        self._malformed = 0

    @property
    def heard(self) -> int:
        """Sound messages so far"""
        return sum(own.count for own in self._listeners)

    @property
    def malformed(self) -> int:
        """Messages whose bytes were not of their type"""
        return sum(own.malformed for own in self._listeners)

    def deeds(self) -> list[Deed]:
        """What was asked since the last time"""
        found = [Deed(pause=own.data) for own in self._pause.heard()]
        found += [Deed(reset=True) for _ in self._reset.heard()[:1]]
        for own in self._wind.heard():
            wind_W = own.x, own.y, own.z
            if all(math.isfinite(x) and abs(x) <= STRONGEST for x in wind_W):
                found.append(Deed(action=wind_step(wind_W)))
            else:
                sentence = f"/samara/wind is refused: {shown(wind_W)}; expected numbers within ±{STRONGEST:g} m/s"
                found.append(Deed(refused=sentence))
        for listener, act, name in self._motors:
            found += [Deed(action=act(own.data, drone=name)) for own in listener.heard()]
        if self.malformed > self._malformed:
            self._malformed = self.malformed
            problem = next(own.problem for own in self._listeners if own.problem)
            found.append(Deed(refused=f"{problem}; it is passed over"))
        return found


NAP = 5e-3  # [s] between two looks while it is paused
SHORTEST_SLEEP = 1e-3  # [s]: less is not worth asking the system for
LOOK_US = 20_000  # between two looks at what is asked of the whole flight
LATE = 0.5  # [s] behind the clock: given up
STRANGERS = 1.0  # [s] between two looks at who else is there


class Bridge:
    """A flight on the topics of a node, which stays the caller's. `run` flies it to its end.

    States are said `rate` times a second (0: at every tick of the autopilot). In lockstep the flight waits at each of these
    for a command to every drone, for `patience` seconds at most. `tell` gets a sentence whenever there is one.
    """

    def __init__(
        self,
        scenario: Scenario,
        node: Node,
        *,
        rate: float = 0.0,
        lockstep: bool = False,
        patience: float = 30.0,
        speed: float = SPEED,
        out: str | Path | None = None,
        overwrite: bool = False,
        tell: Callable[[str], None] = lambda sentence: None,
    ) -> None:
        """ValueError where the rate or the names of the drones are not such that ROS 2 has them"""
        self._scenario, self._node, self._tell, self._recorded = scenario, node, tell, out is not None
        period_us = dict(timeline_of(scenario).periods)["autopilot"]
        every = ticks_of(rate, period_us)
        require_names([drone.name for drone in scenario.drones])
        self.stage = Ros2Stage(node, every)
        self.commands = Commands(
            node,
            scenario.drones,
            speed=speed,
            lockstep_us=every * period_us if lockstep else 0,
            patience=patience,
            again=self.stage.say_clock,
        )
        self.controls = Controls(node, scenario)
        self._open, self._sink = ExitStack(), None
        if out is not None:
            recorder = self._open.enter_context(recorder_of(scenario, out, overwrite=overwrite))
            self._sink = self._open.enter_context(Background(recorder)).write_blocks
        self.paused, self._strangers = False, 0.0
        self.simulation = self._begun()

    def _begun(self) -> Simulation:
        return Simulation(self._scenario, self._take, self._tell, self._line)

    def _line(self, standard: StageSequence) -> Sequence[Entry]:
        stages = insert(standard, self.stage, after="estimator")
        return tuple(SetpointsStage(self.commands) if stage.name == "controller" else stage for stage in stages)

    def _take(self, blocks: Sequence[Block], lines: Sequence[LogLine]) -> None:
        for line in lines:
            self._tell(f"{line.time_us / MICROSECONDS:.2f} s: {line.message}")
        if self._sink is not None:
            self._sink(blocks, lines)

    def run(self, *, realtime: bool = True) -> str:
        """To the end of the scenario; gives what became of the drones. What was flown is recorded even if it is stopped"""
        with self._open:
            try:
                self._fly(realtime)
                last = ending(self.simulation)
                if self._sink is not None:
                    self._sink([], [last])
            finally:
                self.simulation.flush()
                self.simulation.close()
        return last.message

    def _fly(self, realtime: bool) -> None:
        wall, from_us, looked_us = time.perf_counter(), 0, -1
        while True:
            now_us = self.simulation.time_us
            if self.paused or now_us // LOOK_US != looked_us:
                looked_us = now_us // LOOK_US
                if self._look() or self.paused:
                    time.sleep(NAP if self.paused else 0.0)
                    wall, from_us = time.perf_counter(), self.simulation.time_us
                    continue
            if not self.simulation.advance():
                return
            now_us = self.simulation.time_us
            if now_us % MICROSECONDS == 0:
                self.simulation.flush()
            if realtime:
                ahead = (now_us - from_us) / MICROSECONDS - (time.perf_counter() - wall)
                if ahead > SHORTEST_SLEEP:
                    time.sleep(ahead)
                elif ahead < -LATE:
                    wall, from_us = time.perf_counter(), now_us

    def _look(self) -> bool:
        """Does what is asked of the whole flight; whether its clock stands or begins anew"""
        stands = self.paused
        for deed in self.controls.deeds():
            if deed.reset:
                self._reset()
                stands = True
            else:
                self._do(deed)
        if time.monotonic() - self._strangers > STRANGERS:
            self._strangers = time.monotonic()
            for sentence in self._node.strangers():
                self.simulation.fleet.say("warning", sentence)
        return stands

    def _do(self, deed: Deed) -> None:
        try:
            if deed.action is not None:
                self.simulation.act(deed.action)
        except ValueError as error:
            deed = Deed(refused=f"refused: {error}")
        if deed.pause is not None and deed.pause != self.paused:
            self.paused = deed.pause
            self._tell("paused" if self.paused else "goes on")
        if deed.refused:
            self.simulation.fleet.say("warning", deed.refused)

    def _reset(self) -> None:
        if self._recorded:
            self.simulation.fleet.say(
                "warning", "/samara/reset is refused: a flight that is recorded goes on to its end"
            )
            return
        self.simulation.close()
        self._tell("begins again")
        self.simulation = self._begun()


def ticks_of(rate: float, period_us: int) -> int:
    """How many ticks of the autopilot are between two at a rate [Hz]; 0 is each of them"""
    if rate == 0.0:
        return 1
    ticks = MICROSECONDS / (rate * period_us) if 0.0 < rate < MICROSECONDS else 0.0
    if ticks < 1.0 or abs(ticks - round(ticks)) > 1e-6:
        raise ValueError(
            f"rate {rate:g} Hz; expected the autopilot's {MICROSECONDS / period_us:g} Hz, or a whole fraction"
        )
    return round(ticks)


def require_names(names: Sequence[str]) -> None:
    """ValueError where two drones have one name in ROS 2, or one has that of the bridge itself"""
    known: dict[str, str] = {"samara": "the bridge"}
    for name in names:
        other = known.setdefault(ros_name(name), name)
        if other != name:
            raise ValueError(f"drone {name!r} has the name of {other!r} in ROS 2; expected another one")
