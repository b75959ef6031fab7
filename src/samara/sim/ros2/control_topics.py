"""What a viewer's buttons do, as simple topics: pause, reset, wind, and motors that fail."""

import math
from typing import NamedTuple

from samara.core.sanitise import shown
from samara.link.ros2.node import Node
from samara.record.ros2.messages import ros_name
from samara.scenario.events import Action, fail_motor, restore_motor, wind_step
from samara.scenario.scenario import Scenario

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
