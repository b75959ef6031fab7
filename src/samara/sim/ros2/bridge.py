"""Fly a scenario for ROS 2: in real time, faster, or in lockstep with the nodes that control it."""

import math
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from samara.core.sanitise import quote_value
from samara.link.ros2.node import Ros2Node
from samara.record.recorder import BackgroundRecorder, LogLine
from samara.record.ros2.messages import ros_name
from samara.record.streams import StreamBlock
from samara.scenario.events import EventAction, fail_motor, restore_motor, wind_step
from samara.scenario.scenario import Scenario
from samara.scenario.timeline import MICROSECONDS
from samara.sim.external_setpoints import APPROACH_SPEED
from samara.sim.fly import create_recorder, final_log_line
from samara.sim.initial_state import scenario_timeline
from samara.sim.ros2.setpoint_topics import SetpointTopics
from samara.sim.simulation import Simulation
from samara.sim.stage import Entry, StageSequence, insert
from samara.sim.stages.ros2 import Ros2Stage
from samara.sim.stages.setpoints import SetpointsStage

MAX_WIND = 100.0  # [m/s]


class BridgeAction(NamedTuple):
    """A request of a ROS 2 node: pause or resume, restart, or an action on the flight; or the reason for its rejection."""

    pause: bool | None = None
    reset: bool = False
    action: EventAction | None = None
    rejection: str = ""


class ControlTopics:
    """The control topics `/samara/…`, and those of each drone."""

    def __init__(self, node: Ros2Node, scenario: Scenario) -> None:
        self._pause = node.create_subscription("/samara/pause", "std_msgs/Bool")
        self._reset = node.create_subscription("/samara/reset", "std_msgs/Empty")
        self._wind = node.create_subscription("/samara/wind", "geometry_msgs/Vector3")
        self._motors = [
            (
                node.create_subscription(f"/{ros_name(drone.name)}/{command}", "std_msgs/Int32"),
                create_action,
                drone.name,
            )
            for drone in scenario.drones
            for command, create_action in (("fail_motor", fail_motor), ("restore_motor", restore_motor))
        ]
        self._subscriptions = [
            self._pause,
            self._reset,
            self._wind,
            *(subscription for subscription, _, _ in self._motors),
        ]
        self._malformed = 0

    @property
    def message_count(self) -> int:
        """Valid messages received."""
        return sum(subscription.count for subscription in self._subscriptions)

    @property
    def malformed_count(self) -> int:
        """Messages whose bytes did not match their type."""
        return sum(subscription.malformed for subscription in self._subscriptions)

    def new_requests(self) -> list[BridgeAction]:
        """Return the requests since the last call."""
        requests = [BridgeAction(pause=message.data) for message in self._pause.take()]
        requests += [BridgeAction(reset=True) for _ in self._reset.take()[:1]]
        for message in self._wind.take():
            wind_W = message.x, message.y, message.z
            if all(math.isfinite(x) and abs(x) <= MAX_WIND for x in wind_W):
                requests.append(BridgeAction(action=wind_step(wind_W)))
            else:
                rejection = (
                    f"/samara/wind is rejected: {quote_value(wind_W)}; expected numbers within ±{MAX_WIND:g} m/s"
                )
                requests.append(BridgeAction(rejection=rejection))
        for motor_subscription, create_action, name in self._motors:
            requests += [
                BridgeAction(action=create_action(message.data, drone=name)) for message in motor_subscription.take()
            ]
        if self.malformed_count > self._malformed:
            self._malformed = self.malformed_count
            problem = next(subscription.problem for subscription in self._subscriptions if subscription.problem)
            requests.append(BridgeAction(rejection=f"{problem}; it is ignored"))
        return requests


PAUSE_POLL_INTERVAL = 5e-3  # [s] between two polls while paused
MIN_SLEEP = 1e-3  # [s]: shorter sleeps cost more than they wait
CONTROL_POLL_US = 20_000  # between two polls of the control topics
MAX_LAG = 0.5  # [s] behind the wall clock: the lag is accepted, and the clocks are aligned again
PEER_CHECK_INTERVAL = 1.0  # [s] between two checks for unknown peers


class Bridge:
    """A flight on the topics of a node that the caller owns. `run` flies it to its end.

    Args:
        scenario: the scenario to fly.
        node: publishes and receives the topics.
        rate: messages of the state per second; 0 publishes at every tick of the autopilot.
        lockstep: wait at each published state for a command to every drone.
        lockstep_timeout: maximum wait in lockstep [s].
        speed: speed of the approach to a position setpoint [m/s].
        out: MCAP file to record to.
        overwrite: replace an existing recording.
        on_message: receives the messages of the flight.
    """

    def __init__(
        self,
        scenario: Scenario,
        node: Ros2Node,
        *,
        rate: float = 0.0,
        lockstep: bool = False,
        lockstep_timeout: float = 30.0,
        speed: float = APPROACH_SPEED,
        out: str | Path | None = None,
        overwrite: bool = False,
        on_message: Callable[[str], None] = lambda sentence: None,
    ) -> None:
        """Create the topics; raise a ValueError if the rate or the names of the drones are not possible in ROS 2."""
        self._scenario, self._node, self._on_message, self._is_recorded = scenario, node, on_message, out is not None
        period_us = dict(scenario_timeline(scenario).periods)["control"]
        ticks = ticks_per_message(rate, period_us)
        require_names([drone.name for drone in scenario.drones])
        self.stage = Ros2Stage(node, ticks)
        self.commands = SetpointTopics(
            node,
            scenario.drones,
            speed=speed,
            lockstep_us=ticks * period_us if lockstep else 0,
            timeout=lockstep_timeout,
            repeat_clock=self.stage.publish_clock,
        )
        self.controls = ControlTopics(node, scenario)
        self._exit_stack, self._sink = ExitStack(), None
        if out is not None:
            recorder = self._exit_stack.enter_context(create_recorder(scenario, out, overwrite=overwrite))
            self._sink = self._exit_stack.enter_context(BackgroundRecorder(recorder)).write_blocks
        self.paused, self._peers_checked = False, 0.0
        self.simulation = self._create_simulation()

    def _create_simulation(self) -> Simulation:
        return Simulation(self._scenario, self._write_blocks, self._on_message, self._arrange_stages)

    def _arrange_stages(self, standard: StageSequence) -> Sequence[Entry]:
        stages = insert(standard, self.stage, after="estimator")
        return tuple(SetpointsStage(self.commands) if stage.name == "controller" else stage for stage in stages)

    def _write_blocks(self, blocks: Sequence[StreamBlock], lines: Sequence[LogLine]) -> None:
        for line in lines:
            self._on_message(f"{line.time_us / MICROSECONDS:.2f} s: {line.message}")
        if self._sink is not None:
            self._sink(blocks, lines)

    def run(self, *, realtime: bool = True) -> str:
        """Fly to the end of the scenario; return the last line of the log. An interrupted flight is recorded as well."""
        with self._exit_stack:
            try:
                self._fly(realtime)
                last_line = final_log_line(self.simulation)
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
            if self.paused or now_us // CONTROL_POLL_US != poll_index:
                poll_index = now_us // CONTROL_POLL_US
                if self._handle_requests() or self.paused:
                    time.sleep(PAUSE_POLL_INTERVAL if self.paused else 0.0)
                    wall_start, start_us = time.perf_counter(), self.simulation.time_us
                    continue
            if not self.simulation.advance():
                return
            now_us = self.simulation.time_us
            if now_us % MICROSECONDS == 0:
                self.simulation.flush()
            if realtime:
                ahead = (now_us - start_us) / MICROSECONDS - (time.perf_counter() - wall_start)
                if ahead > MIN_SLEEP:
                    time.sleep(ahead)
                elif ahead < -MAX_LAG:
                    wall_start, start_us = time.perf_counter(), now_us

    def _handle_requests(self) -> bool:
        """Handle the requests since the last call; return whether the flight is paused or was restarted."""
        is_stopped = self.paused
        for request in self.controls.new_requests():
            if request.reset:
                self._reset()
                is_stopped = True
            else:
                self._apply_request(request)
        if time.monotonic() - self._peers_checked > PEER_CHECK_INTERVAL:
            self._peers_checked = time.monotonic()
            for message in self._node.type_mismatches():
                self.simulation.fleet.log_message("warning", message)
        return is_stopped

    def _apply_request(self, request: BridgeAction) -> None:
        try:
            if request.action is not None:
                self.simulation.apply_action(request.action)
        except ValueError as error:
            request = BridgeAction(rejection=f"refused: {error}")
        if request.pause is not None and request.pause != self.paused:
            self.paused = request.pause
            self._on_message("paused" if self.paused else "resumed")
        if request.rejection:
            self.simulation.fleet.log_message("warning", request.rejection)

    def _reset(self) -> None:
        if self._is_recorded:
            self.simulation.fleet.log_message(
                "warning", "/samara/reset is rejected: a recorded flight cannot be restarted"
            )
            return
        self.simulation.close()
        self._on_message("restarted")
        self.simulation = self._create_simulation()


def ticks_per_message(rate: float, period_us: int) -> int:
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
