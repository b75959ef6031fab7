"""An autopilot that flies a drone: which one, how it is reached, and what happens when it is lost.

    link = open_link(Autopilot("px4", binary="build/px4_sitl_default/bin/px4"), vehicle, say=print)
    outputs = link.exchange(readings)          # of each rotor of the vehicle, 0 … 1, thrust linear in it

Every link is of this one shape; what differs is on the wire.
"""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple, Protocol

from samara.core.algebra import Vec3, norm
from samara.link.process import Process, Start, StartFolder
from samara.link.sensor_snapshot import Readings
from samara.physics.types import Vehicle
from samara.plan.trajectory import Trajectory
from samara.scenario.autopilot import Autopilot
from samara.scenario.events import Order

Say = Callable[[str, str], None]
"""say(level, sentence)"""

AT_ONCE = 0.2  # [s]: how long a wait goes on before it looks around
MOST_RESTARTS = 3


def task_orders(task: Trajectory) -> list[Order]:
    """A task's places as orders: up to the first, then from one to the next. One without places is not for an autopilot."""
    places = [Vec3(*(float(x) for x in own.p_W)) for own in task.waypoints]
    ahead = [place for here, place in pairwise(places) if norm(place - here) > 1e-6]
    if not ahead:
        return []
    first, *rest = ahead
    beside = math.hypot(first.x - places[0].x, first.y - places[0].y) > 1e-6
    return [Order("take_off", places[0]._replace(z=first.z)), *(Order("reach", p) for p in ([first] * beside + rest))]


class AutopilotLostError(Exception):
    """The flight cannot go on without its autopilot; the message is one sentence."""


class Link(Protocol):
    """What every autopilot's link does."""

    title: str
    sent: int
    answered: int

    def begin(self, readings: Readings) -> None:
        """Start the exchange of this instant without waiting, so that several autopilots compute at the same time; optional"""

    def exchange(self, readings: Readings) -> Sequence[float]:
        """Hands it what the sensors said, waits for its answer: the output of each rotor, 0 … 1"""

    def obey(self, order: Order) -> None:
        """Asks it for something, as a ground station or a pilot's sticks do"""

    def ending(self) -> Iterator[tuple[str, str]]:
        """What is left to say after the last exchange, (level, sentence): how often it answered, what it never did"""

    def close(self) -> None:
        """Ends the connection, and the process when it was started here"""


class LinkContext(NamedTuple):
    """Arguments of `open_link(context) -> Link`, the function of every module that an `AutopilotType` names.

    `beside` holds the links of the same flight; `controller` is the drone's controller.
    """

    autopilot: Autopilot
    vehicle: Vehicle
    say: Say
    beside: Sequence[Link] = ()
    controller: object = None


class Repeated:
    """Sentences that are said the first time, and how often they could have been."""

    def __init__(self, say: Say, most: int = 200) -> None:
        self._say, self._most = say, most
        self._count: dict[str, int] = {}
        self._said: dict[str, tuple[str, str]] = {}

    def say(self, level: str, sentence: str, what: str = "") -> None:
        """Says it, unless the same has been said; `what` is what it is about, where the sentence has a number that changes"""
        key = what or sentence
        if key not in self._said and len(self._said) >= self._most:
            return
        self._count[key] = self._count.get(key, 0) + 1
        if key not in self._said:
            self._said[key] = level, sentence
            self._say(level, sentence)

    def totals(self) -> Iterator[tuple[str, str]]:
        """What came more than once, with how often"""
        for key, (level, sentence) in self._said.items():
            if self._count[key] > 1:
                yield level, f"{self._count[key]} times in all: {sentence}"


def counted(link: Link, missed: int) -> tuple[str, str]:
    """How many packets were answered, of how many, and how many were waited for in vain"""
    return "info", f"{link.title} answered {link.answered} of {link.sent} packets, {missed} missed"


class Watch:
    """Who waits for an autopilot, says so, restarts its process, and gives up when the scenario says so."""

    def __init__(self, autopilot: Autopilot, title: str, process: Process | None, start: Start, say: Say) -> None:
        self._autopilot, self.title, self.process, self.say = autopilot, title, process, say
        self._start, self._restarts = start, 0
        self._folder: StartFolder | None = None
        if process is not None:
            process.start()

    def until(self, arrived: Callable[[float], bool], what: str) -> None:
        """Waits until arrived(seconds) is true, which waits itself so long; says what for and how to start it"""
        begun, told = time.monotonic(), False
        limit = self._autopilot.wait
        while not arrived(AT_ONCE):
            self.alive()
            waited = time.monotonic() - begun
            if not told and (self.process is None or waited > 5.0):
                start = "" if self.process is not None else f"; start it with: {self.how_to_start()}"
                self.say("info", f"waiting for {self.title} {what}{start}")
                told = True
            if waited > limit:
                words = f"; its last words: {' / '.join(self.process.last_words())}" if self.process else ""
                raise AutopilotLostError(f"{self.title} did not come {what} within {limit:g} s{words}")

    def how_to_start(self) -> str:
        """The line to paste: the script that it names is there now"""
        if self._folder is None:
            self._folder = StartFolder(self._start, self._autopilot.type.variable)
        return self._folder.words

    def alive(self) -> None:
        """Restarts the process when it has ended, or gives up"""
        ended = self.process.ended if self.process is not None else ""
        if ended:
            self.lost(ended)

    def lost(self, sentence: str, turning: bool = False) -> None:
        """The autopilot is gone: ends the flight, or says so and gets ready for its return; `turning`: its motors did"""
        ended = self.process.ended_soon() if self.process is not None else ""
        if ended and ended not in sentence:
            sentence = f"{sentence}: {ended}"
        if self._autopilot.on_loss == "end":
            raise AutopilotLostError(sentence)
        after = ", and will come back disarmed: in the air the drone falls" if turning else ""
        if self.process is not None:
            self._restarts += 1
            if self._restarts > MOST_RESTARTS:
                raise AutopilotLostError(f"{sentence}; it was restarted {MOST_RESTARTS} times")
            self.say("warning", f"{sentence}; restarting it{after}")
            self.process.start()
            return
        self.say("warning", f"{sentence}; the flight stands still until it is back{after}")

    def close(self) -> None:
        """Ends the process and removes its folder"""
        if self.process is not None:
            self.process.close()
        if self._folder is not None:
            self._folder.close()
