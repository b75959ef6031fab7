"""Setpoints that nodes of ROS 2 publish, as wishes of the drones; what cannot be flown is refused in one sentence."""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from samara.core.algebra import Quat, Vec3, matrix_from_quat, rotate
from samara.core.sanitise import shown
from samara.link.link import AutopilotLostError
from samara.link.ros2.node import Listener, Node
from samara.record.ros2.messages import MAP, ros_name
from samara.scenario.scenario import Drone
from samara.sim.external_setpoints import SPEED, Motors, Path, Position, Setpoint, Velocity
from samara.sim.fleet import Fleet

FARTHEST, FASTEST, FASTEST_TURN = 1e6, 1e3, 100.0  # [m], [m/s], [rad/s]: beyond these a number is a mistake
UNIT = 1e-2  # by which a quaternion's norm may differ from 1
NAP = 2e-4  # [s] between two looks for a command
AGAIN = 0.5  # [s] after which the clock is told again to who may have missed it


class RefusedError(ValueError):
    """A message that is sound, and asks for what cannot be"""


class Heard(NamedTuple):
    """What messages to a drone are read with: its name in ROS 2, its number, the size of its command, the speed to a place"""

    drone: str
    number: int
    motors: int
    speed: float

    def pose(self, own: SimpleNamespace, fleet: Fleet) -> Setpoint:
        """geometry_msgs/PoseStamped in the map: a place, and the yaw of its attitude"""
        self._require_frame(own, (MAP, f"{self.drone}/odom"))
        return Position(_three(own.pose.position, "position", FARTHEST), _yaw(own.pose.orientation), self.speed)

    def twist(self, own: SimpleNamespace, fleet: Fleet) -> Setpoint:
        """geometry_msgs/TwistStamped along the map's axes, or those of base_link turned level"""
        body = f"{self.drone}/base_link"
        self._require_frame(own, (MAP, f"{self.drone}/odom", body))
        v = _three(own.twist.linear, "linear velocity", FASTEST)
        rate = float(_three(own.twist.angular, "angular velocity", FASTEST_TURN)[2])
        if own.header.frame_id == body:
            group, lane = fleet.locate(self.number)
            forward = matrix_from_quat(Quat(*group.estimate[6:10, lane].tolist())).rows
            heading = math.atan2(forward[1].x, forward[0].x)
            v = np.array(rotate(Quat(math.cos(heading / 2), 0.0, 0.0, math.sin(heading / 2)), Vec3(*v)))
        return Velocity(v, rate)

    def trajectory(self, own: SimpleNamespace, fleet: Fleet) -> Setpoint:
        """trajectory_msgs/MultiDOFJointTrajectory of one joint: points at their times from now on"""
        self._require_frame(own, (MAP, f"{self.drone}/odom"))
        if not own.points or any(len(point.transforms) != 1 for point in own.points):
            raise RefusedError("expected points that have one transform each")
        given = {len(point.velocities) for point in own.points}
        if given not in ({0}, {1}):
            raise RefusedError("expected a velocity at each point, or at none")
        times = np.array([point.time_from_start.sec + 1e-9 * point.time_from_start.nanosec for point in own.points])
        if times[0] < 0.0 or (np.diff(times) <= 0.0).any():
            raise RefusedError("the times of its points do not rise; expected each later than the one before")
        p = np.array([_three(point.transforms[0].translation, "translation", FARTHEST) for point in own.points])
        yaw = np.array([_yaw(point.transforms[0].rotation) for point in own.points])
        if len(p) == 1 and times[0] == 0.0:
            return Position(p[0], float(yaw[0]), self.speed)
        v = [_three(own.velocities[0].linear, "velocity", FASTEST) for own in own.points] if given == {1} else None
        return Path(times, p, yaw, None if v is None else np.array(v))

    def motors_of(self, own: SimpleNamespace, fleet: Fleet) -> Setpoint:
        """std_msgs/Float64MultiArray: a number for each rotor, as the vehicle takes it"""
        if len(own.data) != self.motors:
            raise RefusedError(f"{len(own.data)} numbers; expected {self.motors}, one for each motor")
        if not all(map(math.isfinite, own.data)):
            raise RefusedError(f"{shown(own.data)}; expected finite numbers")
        return Motors(np.array(own.data))

    def _require_frame(self, own: SimpleNamespace, frames: Sequence[str]) -> None:
        frame = own.header.frame_id
        if frame and frame not in frames:
            raise RefusedError(f"frame {shown(frame)}; expected {' or '.join(map(repr, frames))}")


KINDS: Mapping[str, tuple[str, Callable[[Heard, SimpleNamespace, Fleet], Setpoint]]] = {
    "pose": ("geometry_msgs/PoseStamped", Heard.pose),
    "twist": ("geometry_msgs/TwistStamped", Heard.twist),
    "trajectory": ("trajectory_msgs/MultiDOFJointTrajectory", Heard.trajectory),
    "motors": ("std_msgs/Float64MultiArray", Heard.motors_of),
}
"""By the last part of the topic `/drone/command/…`: its type, and what it is made into."""


class Commands:
    """The setpoints of all drones that have no autopilot of their own. Of each topic only the newest message is looked at.

    With `lockstep_us`, at every such period the flight waits until something new was asked of every drone, `patience` seconds
    at most; `again(time_us)` is called meanwhile, to tell the clock once more.
    """

    def __init__(
        self,
        node: Node,
        drones: Sequence[Drone],
        *,
        speed: float = SPEED,
        lockstep_us: int = 0,
        patience: float = 30.0,
        again: Callable[[int], None] = lambda time_us: None,
    ) -> None:
        self._lockstep_us, self._patience, self._again = lockstep_us, patience, again
        self._topics: list[tuple[Heard, Listener, Callable[[Heard, SimpleNamespace, Fleet], Setpoint]]] = []
        for index, drone in enumerate(drones):
            if drone.autopilot is not None:
                continue
            own = Heard(ros_name(drone.name), index, drone.vehicle.command_size, speed)
            for word, (kind, make) in KINDS.items():
                listener = node.listener(f"/{own.drone}/command/{word}", kind, depth=1, reliable=False)
                self._topics.append((own, listener, make))
        self.refused = 0
        self._told: set[str] = set()  # topics whose last message was refused, and that it was said

    @property
    def heard(self) -> int:
        """Sound messages so far"""
        return sum(listener.count for _, listener, _ in self._topics)

    @property
    def malformed(self) -> int:
        """Messages whose bytes were not of their type"""
        return sum(listener.malformed for _, listener, _ in self._topics)

    def new_setpoints(self, fleet: Fleet) -> Mapping[int, Setpoint]:
        """What was asked since the last time, the newest of each drone by its number"""
        if self._lockstep_us and fleet.time_us % self._lockstep_us == 0:
            return self._awaited(fleet)
        return self._heard(fleet)

    def _heard(self, fleet: Fleet) -> dict[int, Setpoint]:
        found: dict[int, Setpoint] = {}
        for own, listener, make in self._topics:
            bad = listener.malformed
            for message in listener.heard():
                try:
                    found[own.number] = make(own, message, fleet)
                    self._told.discard(listener.topic)
                except RefusedError as error:
                    self.refused += 1
                    self._tell(fleet, listener.topic, f"{listener.topic} is refused: {error}")
            if listener.malformed > bad:
                self._tell(fleet, listener.topic, f"{listener.problem}; it is passed over")
        return found

    def _tell(self, fleet: Fleet, topic: str, sentence: str) -> None:
        """Once until something sound comes under the topic"""
        if topic not in self._told:
            self._told.add(topic)
            fleet.say("warning", sentence)

    def _awaited(self, fleet: Fleet) -> dict[int, Setpoint]:
        begun = told = time.monotonic()
        found = self._heard(fleet)
        waiting = {own.number: own.drone for own, _, _ in self._topics}
        while missing := waiting.keys() - found.keys():
            now = time.monotonic()
            if now - begun > self._patience:
                raise AutopilotLostError(self._silence(min(missing)))
            if now - told > AGAIN:
                self._again(fleet.time_us)
                told = now
            time.sleep(NAP)
            found.update(self._heard(fleet))
        return found

    def _silence(self, index: int) -> str:
        own = [listener for each, listener, _ in self._topics if each.number == index]
        who = "somebody publishes there, and says nothing" if any(each.said_by for each in own) else "nobody publishes"
        drone = own[0].topic.rpartition("/")[0]
        words = ", ".join(KINDS)
        return f"no command on {drone}/… ({words}) for {self._patience:g} s, {who}; in lockstep each tick of /clock needs one"


def _three(own: Any, what: str, most: float) -> Any:
    found = np.array([own.x, own.y, own.z])
    if not np.isfinite(found).all() or np.abs(found).max() > most:
        raise RefusedError(f"the {what} is {shown(found.tolist())}; expected numbers within ±{most:g}")
    return found


def _yaw(own: Any) -> float:
    """ψ of an attitude, the direction of its x axis seen from above  [rad]"""
    q = np.array([own.w, own.x, own.y, own.z])
    norm = float(np.linalg.norm(q))
    if not abs(norm - 1.0) < UNIT:
        raise RefusedError(f"the attitude (w, x, y, z) is {shown(q.tolist())}; expected a quaternion of length 1")
    w, x, y, z = (q / norm).tolist()
    return math.atan2(2.0 * (w * z + x * y), 1.0 - 2.0 * (y * y + z * z))
