"""The autopilots that fly drones of a scenario: opened with it, obeying its orders, ended with it."""

from collections.abc import Callable, Sequence
from functools import partial

from samara.link.autopilot import Link, task_orders
from samara.link.registry import open_link
from samara.scenario.scenario import Scenario
from samara.scenario.setting import Order
from samara.sim.setup import Linked

Say = Callable[[str, str], None]


class Links:
    """`by_drone` has the link of each drone that an autopilot flies."""

    def __init__(
        self, scenario: Scenario, say: Say, tell: Callable[[str], None], lose: Callable[[int], object]
    ) -> None:
        """`lose` is told of a drone whose autopilot never answered."""
        self._names = [drone.name for drone in scenario.drones]
        self._say, self._tell, self._lose, self._parted = say, tell, lose, False
        self.by_drone: dict[int, Linked] = {}
        opened: list[Link] = []
        try:
            for index, drone in enumerate(scenario.drones):
                if drone.autopilot is not None:
                    heard = partial(self._heard, self._who(index))
                    link = open_link(drone.autopilot, drone.vehicle, heard, opened, drone.controller)
                    opened.append(link)
                    self.by_drone[index] = Linked(link, drone.autopilot.hover, drone.autopilot.commands_motors)
                    self.obey(index, task_orders(drone.task))
        except BaseException:
            self.close()
            raise

    def _who(self, index: int) -> str:
        return f"{self._names[index]}: " if len(self._names) > 1 else ""

    def _heard(self, who: str, level: str, sentence: str) -> None:
        self._say(level, who + sentence)
        self._tell(who + sentence)

    def obey(self, index: int, orders: Sequence[Order]) -> None:
        """Hands a drone's orders to its autopilot, where it has one"""
        for order in orders if index in self.by_drone else ():
            self.by_drone[index].link.obey(order)

    def part(self, ended: str) -> str:
        """The last words of the links, once; and why the flight ended: an autopilot that never answered has flown nothing"""
        for index, own in self.by_drone.items() if not self._parted else ():
            who = self._who(index)
            for level, sentence in own.link.ending():
                self._say(level, who + sentence)
            if own.link.sent and not own.link.answered and not ended:
                ended = f"{who}{own.link.title} was there and never answered: nothing was flown by it"
                self._say("error", ended)
                self._lose(index)
        self._parted = True
        return ended

    def close(self) -> None:
        """Ends the links, and the autopilots that were started here"""
        for own in self.by_drone.values():
            own.link.close()
