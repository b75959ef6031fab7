"""Fly a scenario for ROS 2: in real time, faster, or in lockstep with the nodes that control it."""

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
    """A request of a ROS 2 node: pause or resume, restart, or an action on the flight; or the reason for its rejection."""

    pause: bool | None = None
    reset: bool = False
    action: Action | None = None
    refused: str = ""


class Controls:
    """The control topics `/samara/…`, and those of each drone."""

    def __init__(self, node: Node, scenario: Scenario) -> None:
        self._pause = node.listener("/samara/pause", "std_msgs/Bool")
        self._reset = node.listener("/samara/reset", "std_msgs/Empty")
        self._wind = node.listener("/samara/wind", "geometry_msgs/Vector3")
        self._motors = [
            (node.listener(f"/{ros_name(drone.name)}/{command}", "std_msgs/Int32"), create_action, drone.name)
            for drone in scenario.drones
            for command, create_action in (("fail_motor", fail_motor), ("restore_motor", restore_motor))
        ]
        self._listeners = [self._pause, self._reset, self._wind, *(listener for listener, _, _ in self._motors)]
        self._malformed = 0

    @property
    def heard(self) -> int:
        """Valid messages received."""
        return sum(listener.count for listener in self._listeners)

    @property
    def malformed(self) -> int:
        """Messages whose bytes did not match their type."""
        return sum(listener.malformed for listener in self._listeners)

    def deeds(self) -> list[Deed]:
        """Return the requests since the last call."""
        requests = [Deed(pause=message.data) for message in self._pause.heard()]
        requests += [Deed(reset=True) for _ in self._reset.heard()[:1]]
        for message in self._wind.heard():
            wind_W = message.x, message.y, message.z
            if all(math.isfinite(x) and abs(x) <= STRONGEST for x in wind_W):
                requests.append(Deed(action=wind_step(wind_W)))
            else:
                rejection = f"/samara/wind is rejected: {shown(wind_W)}; expected numbers within ±{STRONGEST:g} m/s"
                requests.append(Deed(refused=rejection))
        for listener, create_action, name in self._motors:
            requests += [Deed(action=create_action(message.data, drone=name)) for message in listener.heard()]
        if self.malformed > self._malformed:
            self._malformed = self.malformed
            problem = next(subscription.problem for subscription in self._listeners if subscription.problem)
            requests.append(Deed(refused=f"{problem}; it is ignored"))
        return requests


NAP = 5e-3  # [s] between two polls while paused
SHORTEST_SLEEP = 1e-3  # [s]: shorter sleeps cost more than they wait
LOOK_US = 20_000  # between two polls of the control topics
LATE = 0.5  # [s] behind the wall clock: the lag is accepted, and the clocks are aligned again
STRANGERS = 1.0  # [s] between two checks for unknown peers


class Bridge:
    """A flight on the topics of a node that the caller owns. `run` flies it to its end.

    Args:
        scenario: the scenario to fly.
        node: publishes and receives the topics.
        rate: messages of the state per second; 0 publishes at every tick of the autopilot.
        lockstep: wait at each published state for a command to every drone.
        patience: maximum wait in lockstep [s].
        speed: of the approach to a position setpoint [m/s].
        out: MCAP file to record to.
        overwrite: replace an existing recording.
        tell: receives the messages of the flight.
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
        """Create the topics; raise a ValueError if the rate or the names of the drones are not possible in ROS 2."""
        self._scenario, self._node, self._tell, self._recorded = scenario, node, tell, out is not None
        period_us = dict(timeline_of(scenario).periods)["autopilot"]
        ticks = ticks_of(rate, period_us)
        require_names([drone.name for drone in scenario.drones])
        self.stage = Ros2Stage(node, ticks)
        self.commands = Commands(
            node,
            scenario.drones,
            speed=speed,
            lockstep_us=ticks * period_us if lockstep else 0,
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
        """Fly to the end of the scenario; return the outcome of the drones. An interrupted flight is recorded as well."""
        with self._open:
            try:
                self._fly(realtime)
                last_line = ending(self.simulation)
                if self._sink is not None:
                    self._sink([], [last_line])
            finally:
                self.simulation.flush()
                self.simulation.close()
        return last_line.message

    def _fly(self, realtime: bool) -> None:
        wall_start, start_us, poll_index = time.perf_counter(), 0, -1
        while True:
            now_us = self.simulation.time_us
            if self.paused or now_us // LOOK_US != poll_index:
                poll_index = now_us // LOOK_US
                if self._look() or self.paused:
                    time.sleep(NAP if self.paused else 0.0)
                    wall_start, start_us = time.perf_counter(), self.simulation.time_us
                    continue
            if not self.simulation.advance():
                return
            now_us = self.simulation.time_us
            if now_us % MICROSECONDS == 0:
                self.simulation.flush()
            if realtime:
                ahead = (now_us - start_us) / MICROSECONDS - (time.perf_counter() - wall_start)
                if ahead > SHORTEST_SLEEP:
                    time.sleep(ahead)
                elif ahead < -LATE:
                    wall_start, start_us = time.perf_counter(), now_us

    def _look(self) -> bool:
        """Handle the requests since the last call; return whether the flight is paused or was restarted."""
        is_stopped = self.paused
        for request in self.controls.deeds():
            if request.reset:
                self._reset()
                is_stopped = True
            else:
                self._do(request)
        if time.monotonic() - self._strangers > STRANGERS:
            self._strangers = time.monotonic()
            for message in self._node.strangers():
                self.simulation.fleet.say("warning", message)
        return is_stopped

    def _do(self, request: Deed) -> None:
        try:
            if request.action is not None:
                self.simulation.act(request.action)
        except ValueError as error:
            request = Deed(refused=f"refused: {error}")
        if request.pause is not None and request.pause != self.paused:
            self.paused = request.pause
            self._tell("paused" if self.paused else "resumed")
        if request.refused:
            self.simulation.fleet.say("warning", request.refused)

    def _reset(self) -> None:
        if self._recorded:
            self.simulation.fleet.say("warning", "/samara/reset is rejected: a recorded flight cannot be restarted")
            return
        self.simulation.close()
        self._tell("restarted")
        self.simulation = self._begun()


def ticks_of(rate: float, period_us: int) -> int:
    """Return the autopilot ticks between two messages at a rate [Hz]; 0 is every tick."""
    if rate == 0.0:
        return 1
    ticks = MICROSECONDS / (rate * period_us) if 0.0 < rate < MICROSECONDS else 0.0
    if ticks < 1.0 or abs(ticks - round(ticks)) > 1e-6:
        raise ValueError(
            f"rate {rate:g} Hz; expected the autopilot's {MICROSECONDS / period_us:g} Hz, or a whole fraction"
        )
    return round(ticks)


def require_names(names: Sequence[str]) -> None:
    """Raise a ValueError if two drones have the same name in ROS 2, or one has that of the bridge."""
    owners: dict[str, str] = {"samara": "the bridge"}
    for name in names:
        owner = owners.setdefault(ros_name(name), name)
        if owner != name:
            raise ValueError(f"drone {name!r} has the name of {owner!r} in ROS 2; expected another one")
