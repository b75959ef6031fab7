"""Links to the external autopilots of a scenario: opened at its start, given its orders, closed at its end."""

from collections.abc import Callable, Sequence
from functools import partial

from samara.link.link import AutopilotLostError, Link, task_orders
from samara.link.registry import open_link
from samara.scenario.events import Order
from samara.scenario.scenario import Scenario
from samara.sim.setup import LinkedAutopilot

Say = Callable[[str, str], None]


class Links:
    """`by_drone` has the link of each drone that an external autopilot flies."""

    lost_error = AutopilotLostError

    def __init__(
        self, scenario: Scenario, say: Say, tell: Callable[[str], None], lose: Callable[[int], object]
    ) -> None:
        """Open the links; `lose` is called with the index of a drone whose autopilot never answered."""
        self._names = [drone.name for drone in scenario.drones]
        self._say, self._tell, self._lose, self._parted = say, tell, lose, False
        self.by_drone: dict[int, LinkedAutopilot] = {}
        opened: list[Link] = []
        try:
            for index, drone in enumerate(scenario.drones):
                if drone.autopilot is not None:
                    forward = partial(self._forward, self._prefix(index))
                    link = open_link(drone.autopilot, drone.vehicle, forward, opened, drone.controller)
                    opened.append(link)
                    self.by_drone[index] = LinkedAutopilot(link, drone.autopilot.hover, drone.autopilot.commands_motors)
                    self.obey(index, task_orders(drone.task))
        except BaseException:
            self.close()
            raise

    def _prefix(self, index: int) -> str:
        return f"{self._names[index]}: " if len(self._names) > 1 else ""

    def _forward(self, prefix: str, level: str, sentence: str) -> None:
        self._say(level, prefix + sentence)
        self._tell(prefix + sentence)

    def obey(self, index: int, orders: Sequence[Order]) -> None:
        """Pass a drone's orders to its autopilot, if it has one"""
        for order in orders if index in self.by_drone else ():
            self.by_drone[index].link.obey(order)

    def part(self, ended: str) -> str:
        """Log the links' final messages, once; return why the flight ended, also if an autopilot never answered"""
        for index, autopilot in self.by_drone.items() if not self._parted else ():
            prefix = self._prefix(index)
            for level, message in autopilot.link.ending():
                self._say(level, prefix + message)
            if autopilot.link.sent and not autopilot.link.answered and not ended:
                ended = f"{prefix}{autopilot.link.title} was there and never answered: nothing was flown by it"
                self._say("error", ended)
                self._lose(index)
        self._parted = True
        return ended

    def close(self) -> None:
        """Close the links, and end the autopilots started by them"""
        for autopilot in self.by_drone.values():
            autopilot.link.close()
