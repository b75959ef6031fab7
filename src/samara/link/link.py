"""The interface of the links to autopilots, and the supervision of an autopilot's process.

    link = open_link(Autopilot("px4", binary="build/px4_sitl_default/bin/px4"), vehicle, log_message=print)
    outputs = link.exchange(readings)          # one per rotor of the vehicle, 0 … 1, thrust linear in it

Every link has this interface; only the protocol differs.
"""

import math
import re
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple, Protocol

from samara.core.algebra import Vec3, norm
from samara.link.process import Process, StartFolder, StartScript
from samara.link.sensor_snapshot import Readings
from samara.physics.types import Vehicle
from samara.plan.trajectory import Trajectory
from samara.scenario.autopilot import Autopilot
from samara.scenario.events import Order

LogMessage = Callable[[str, str], None]
"""say(level, message)"""

POLL_PERIOD = 0.2  # [s]: period at which a wait polls and checks the process
MAX_RESTARTS = 3
UNKNOWN_PARAMETER = re.compile(r"[Pp]arameter (\w+) not found|unknown param (\w+) in defaults file")
"""The lines in which PX4 and ArduPilot report a parameter that they do not know"""


def task_orders(task: Trajectory) -> list[Order]:
    """Convert the waypoints of a flight task to orders: take off to the first height, then reach one position after the other.

    Return no orders for a task without waypoints, which an autopilot cannot fly.
    """
    positions = [Vec3(*(float(x) for x in waypoint.p_W)) for waypoint in task.waypoints]
    targets = [position for previous, position in pairwise(positions) if norm(position - previous) > 1e-6]
    if not targets:
        return []
    first, *remaining = targets
    is_offset = math.hypot(first.x - positions[0].x, first.y - positions[0].y) > 1e-6
    return [
        Order("take_off", positions[0]._replace(z=first.z)),
        *(Order("reach", p) for p in ([first] * is_offset + remaining)),
    ]


class AutopilotLostError(Exception):
    """The flight ends because its autopilot is lost; the message is one sentence."""


class Link(Protocol):
    """The connection to one autopilot."""

    title: str
    sent: int
    answered: int

    def begin(self, readings: Readings) -> None:
        """Start the exchange of this instant without waiting, so that several autopilots compute at the same time; optional."""

    def exchange(self, readings: Readings) -> Sequence[float]:
        """Send the sensor readings and wait for the answer: one output per rotor, 0 … 1."""

    def send_order(self, order: Order) -> None:
        """Send an order, as a ground station or a pilot's sticks do."""

    def closing_report(self) -> Iterator[tuple[str, str]]:
        """Yield (level, message) pairs after the last exchange: the answer count and the orders that were not executed."""

    def close(self) -> None:
        """End the connection, and the process if this link started it."""


class LinkContext(NamedTuple):
    """Arguments of `open_link(context) -> Link`, the function of every module that an `AutopilotType` names.

    `other_links` holds the links of the same flight; `controller` is the drone's controller.
    """

    autopilot: Autopilot
    vehicle: Vehicle
    log_message: LogMessage
    other_links: Sequence[Link] = ()
    controller: object = None


class OnceLog:
    """A log that writes each message once and counts its repetitions, for at most `max_messages` different messages."""

    def __init__(self, say: LogMessage, max_messages: int = 200) -> None:
        self._log_message, self._max_messages = say, max_messages
        self._count: dict[str, int] = {}
        self._logged: dict[str, tuple[str, str]] = {}

    def log(self, level: str, message: str, topic: str = "") -> None:
        """Log the message unless it was logged before; `topic` identifies a message whose text contains a changing value."""
        key = topic or message
        if key not in self._logged and len(self._logged) >= self._max_messages:
            return
        self._count[key] = self._count.get(key, 0) + 1
        if key not in self._logged:
            self._logged[key] = level, message
            self._log_message(level, message)

    def repetitions(self) -> Iterator[tuple[str, str]]:
        """Yield every message that occurred more than once, with its count."""
        for key, (level, message) in self._logged.items():
            if self._count[key] > 1:
                yield level, f"{self._count[key]} times in all: {message}"


def exchange_summary(link: Link, missed: int) -> tuple[str, str]:
    """Summarise the exchanges: packets answered, sent and missed."""
    return "info", f"{link.title} answered {link.answered} of {link.sent} packets, {missed} missed"


class AutopilotWatchdog:
    """Waits for an autopilot, restarts its process, and ends the flight when `on_loss` demands it."""

    def __init__(
        self, autopilot: Autopilot, title: str, process: Process | None, start: StartScript, say: LogMessage
    ) -> None:
        self._autopilot, self.title, self.process, self.log_message = autopilot, title, process, say
        self._start, self._restarts = start, 0
        self._folder: StartFolder | None = None
        if process is not None:
            process.start()

    def wait_until(self, poll_connection: Callable[[float], bool], endpoint: str) -> None:
        """Poll `poll_connection(timeout)` until it is true; log the wait and how to start the autopilot.

        Raises:
            AutopilotLostError: after `wait` seconds of the `Autopilot`.
            ValueError: the autopilot does not know a parameter of the scenario.
        """
        start_time, is_logged = time.monotonic(), False
        limit = self._autopilot.wait
        while not poll_connection(POLL_PERIOD):
            self.restart_if_ended()
            elapsed = time.monotonic() - start_time
            if not is_logged and (self.process is None or elapsed > 5.0):
                advice = "" if self.process is not None else f"; start it with: {self.start_command()}"
                self.log_message("info", f"waiting for {self.title} {endpoint}{advice}")
                is_logged = True
            if elapsed > limit:
                output = f"; its last output: {' / '.join(self.process.last_output())}" if self.process else ""
                raise AutopilotLostError(f"{self.title} did not connect {endpoint} within {limit:g} s{output}")
        self._require_known_parameters()

    def _require_known_parameters(self) -> None:
        """Raise ValueError if the process reported that it does not know a parameter; Samara's own may be of other versions."""
        if self.process is None:
            return
        reported = {name for match in UNKNOWN_PARAMETER.findall(self.process.output()) for name in match}
        version_dependent = self._autopilot.registered_type.gps_delay_parameters
        unknown = [name for name, _ in self._autopilot.parameters if name in reported and name not in version_dependent]
        if unknown:
            names = ", ".join(map(repr, unknown))
            raise ValueError(f"autopilot.parameters has {names}, which this {self.title} does not know")

    def start_command(self) -> str:
        """Write the start script and return the shell command that runs it."""
        if self._folder is None:
            self._folder = StartFolder(self._start, self._autopilot.registered_type.variable)
        return self._folder.command_line

    def restart_if_ended(self) -> None:
        """Restart the process if it has ended, or end the flight."""
        exit_report = self.process.exit_report if self.process is not None else ""
        if exit_report:
            self.handle_loss(exit_report)

    def handle_loss(self, reason: str, motors_running: bool = False) -> None:
        """End the flight, or log the loss and prepare for the autopilot's return; `motors_running`: its motors were running."""
        exit_report = self.process.wait_exit_report() if self.process is not None else ""
        if exit_report and exit_report not in reason:
            reason = f"{reason}: {exit_report}"
        if self._autopilot.on_loss == "end":
            raise AutopilotLostError(reason)
        consequence = ", and will come back disarmed: in the air the drone falls" if motors_running else ""
        if self.process is not None:
            self._restarts += 1
            if self._restarts > MAX_RESTARTS:
                raise AutopilotLostError(f"{reason}; it was restarted {MAX_RESTARTS} times")
            self.log_message("warning", f"{reason}; restarting it{consequence}")
            self.process.start()
            return
        self.log_message("warning", f"{reason}; the simulation waits until it is back{consequence}")

    def close(self) -> None:
        """End the process and remove its folder."""
        if self.process is not None:
            self.process.close()
        if self._folder is not None:
            self._folder.close()
