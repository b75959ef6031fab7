"""Setpoints that ROS 2 nodes publish, converted to setpoints of the drones; setpoints that cannot be flown are rejected."""

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

FARTHEST, FASTEST, FASTEST_TURN = 1e6, 1e3, 100.0  # [m], [m/s], [rad/s]: larger numbers are mistakes
UNIT = 1e-2  # allowed deviation of a quaternion's norm from 1
NAP = 2e-4  # [s] between two polls for a command
AGAIN = 0.5  # [s] after which the clock is published again for nodes that may have missed it


class RefusedError(ValueError):
    """A well-formed message with a setpoint that cannot be flown."""


class Heard(NamedTuple):
    """Converts the messages to a drone: its name in ROS 2, its index, its command size, and its approach speed [m/s]."""

    drone: str
    number: int
    motors: int
    speed: float

    def pose(self, message: SimpleNamespace, fleet: Fleet) -> Setpoint:
        """geometry_msgs/PoseStamped in the map: a position, and the yaw of its attitude."""
        self._require_frame(message, (MAP, f"{self.drone}/odom"))
        return Position(_three(message.pose.position, "position", FARTHEST), _yaw(message.pose.orientation), self.speed)

    def twist(self, message: SimpleNamespace, fleet: Fleet) -> Setpoint:
        """geometry_msgs/TwistStamped along the axes of the map, or along those of base_link rotated to level."""
        body = f"{self.drone}/base_link"
        self._require_frame(message, (MAP, f"{self.drone}/odom", body))
        v = _three(message.twist.linear, "linear velocity", FASTEST)
        rate = float(_three(message.twist.angular, "angular velocity", FASTEST_TURN)[2])
        if message.header.frame_id == body:
            group, column = fleet.locate(self.number)
            forward = matrix_from_quat(Quat(*group.estimate[6:10, column].tolist())).rows
            heading = math.atan2(forward[1].x, forward[0].x)
            v = np.array(rotate(Quat(math.cos(heading / 2), 0.0, 0.0, math.sin(heading / 2)), Vec3(*v)))
        return Velocity(v, rate)

    def trajectory(self, message: SimpleNamespace, fleet: Fleet) -> Setpoint:
        """trajectory_msgs/MultiDOFJointTrajectory of one joint: points at their times from now."""
        self._require_frame(message, (MAP, f"{self.drone}/odom"))
        if not message.points or any(len(point.transforms) != 1 for point in message.points):
            raise RefusedError("expected points that have one transform each")
        velocity_counts = {len(point.velocities) for point in message.points}
        if velocity_counts not in ({0}, {1}):
            raise RefusedError("expected a velocity at each point, or at none")
        times = np.array([point.time_from_start.sec + 1e-9 * point.time_from_start.nanosec for point in message.points])
        if times[0] < 0.0 or (np.diff(times) <= 0.0).any():
            raise RefusedError("the times of its points do not increase; expected each later than the one before")
        p = np.array([_three(point.transforms[0].translation, "translation", FARTHEST) for point in message.points])
        yaw = np.array([_yaw(point.transforms[0].rotation) for point in message.points])
        if len(p) == 1 and times[0] == 0.0:
            return Position(p[0], float(yaw[0]), self.speed)
        v = (
            [_three(point.velocities[0].linear, "velocity", FASTEST) for point in message.points]
            if velocity_counts == {1}
            else None
        )
        return Path(times, p, yaw, None if v is None else np.array(v))

    def motors_of(self, message: SimpleNamespace, fleet: Fleet) -> Setpoint:
        """std_msgs/Float64MultiArray: one number per rotor, in the unit of the vehicle's actuation."""
        if len(message.data) != self.motors:
            raise RefusedError(f"{len(message.data)} numbers; expected {self.motors}, one for each motor")
        if not all(map(math.isfinite, message.data)):
            raise RefusedError(f"{shown(message.data)}; expected finite numbers")
        return Motors(np.array(message.data))

    def _require_frame(self, message: SimpleNamespace, frames: Sequence[str]) -> None:
        frame = message.header.frame_id
        if frame and frame not in frames:
            raise RefusedError(f"frame {shown(frame)}; expected {' or '.join(map(repr, frames))}")


KINDS: Mapping[str, tuple[str, Callable[[Heard, SimpleNamespace, Fleet], Setpoint]]] = {
    "pose": ("geometry_msgs/PoseStamped", Heard.pose),
    "twist": ("geometry_msgs/TwistStamped", Heard.twist),
    "trajectory": ("trajectory_msgs/MultiDOFJointTrajectory", Heard.trajectory),
    "motors": ("std_msgs/Float64MultiArray", Heard.motors_of),
}
"""By the last part of the topic `/drone/command/…`: its type, and its conversion to a setpoint."""


class Commands:
    """The setpoints of all drones without an autopilot. Only the newest message of each topic is used.

    With `lockstep_us`, the flight waits at every such period until each drone has a new setpoint, for at most `patience`
    seconds; meanwhile `again(time_us)` is called to publish the clock again.
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
            converter = Heard(ros_name(drone.name), index, drone.vehicle.command_size, speed)
            for topic, (message_type, convert) in KINDS.items():
                listener = node.listener(f"/{converter.drone}/command/{topic}", message_type, depth=1, reliable=False)
                self._topics.append((converter, listener, convert))
        self.refused = 0
        self._told: set[str] = set()  # topics whose last message was rejected, and the rejection logged

    @property
    def heard(self) -> int:
        """Valid messages received."""
        return sum(listener.count for _, listener, _ in self._topics)

    @property
    def malformed(self) -> int:
        """Messages whose bytes did not match their type."""
        return sum(listener.malformed for _, listener, _ in self._topics)

    def new_setpoints(self, fleet: Fleet) -> Mapping[int, Setpoint]:
        """Return the newest setpoint of each drone since the last call, by drone index."""
        if self._lockstep_us and fleet.time_us % self._lockstep_us == 0:
            return self._awaited(fleet)
        return self._heard(fleet)

    def _heard(self, fleet: Fleet) -> dict[int, Setpoint]:
        setpoints: dict[int, Setpoint] = {}
        for converter, listener, convert in self._topics:
            malformed_before = listener.malformed
            for message in listener.heard():
                try:
                    setpoints[converter.number] = convert(converter, message, fleet)
                    self._told.discard(listener.topic)
                except RefusedError as error:
                    self.refused += 1
                    self._tell(fleet, listener.topic, f"{listener.topic} is rejected: {error}")
            if listener.malformed > malformed_before:
                self._tell(fleet, listener.topic, f"{listener.problem}; it is ignored")
        return setpoints

    def _tell(self, fleet: Fleet, topic: str, message: str) -> None:
        """Log a warning, once until a valid message arrives on the topic."""
        if topic not in self._told:
            self._told.add(topic)
            fleet.say("warning", message)

    def _awaited(self, fleet: Fleet) -> dict[int, Setpoint]:
        start = last_repeat = time.monotonic()
        setpoints = self._heard(fleet)
        expected = {converter.number: converter.drone for converter, _, _ in self._topics}
        while missing := expected.keys() - setpoints.keys():
            now = time.monotonic()
            if now - start > self._patience:
                raise AutopilotLostError(self._silence(min(missing)))
            if now - last_repeat > AGAIN:
                self._again(fleet.time_us)
                last_repeat = now
            time.sleep(NAP)
            setpoints.update(self._heard(fleet))
        return setpoints

    def _silence(self, index: int) -> str:
        listeners = [listener for converter, listener, _ in self._topics if converter.number == index]
        publisher_status = (
            "a publisher exists but sends nothing"
            if any(listener.said_by for listener in listeners)
            else "there are no publishers"
        )
        drone = listeners[0].topic.rpartition("/")[0]
        topics = ", ".join(KINDS)
        return (
            f"no command on {drone}/… ({topics}) for {self._patience:g} s, {publisher_status}; "
            "in lockstep each tick of /clock needs one"
        )


def _three(vector: Any, name: str, max_value: float) -> Any:
    components = np.array([vector.x, vector.y, vector.z])
    if not np.isfinite(components).all() or np.abs(components).max() > max_value:
        raise RefusedError(f"the {name} is {shown(components.tolist())}; expected numbers within ±{max_value:g}")
    return components


def _yaw(quaternion: Any) -> float:
    """ψ of an attitude: the direction of its x axis, projected on the horizontal plane [rad]."""
    q = np.array([quaternion.w, quaternion.x, quaternion.y, quaternion.z])
    norm = float(np.linalg.norm(q))
    if not abs(norm - 1.0) < UNIT:
        raise RefusedError(f"the attitude (w, x, y, z) is {shown(q.tolist())}; expected a quaternion of length 1")
    w, x, y, z = (q / norm).tolist()
    return math.atan2(2.0 * (w * z + x * y), 1.0 - 2.0 * (y * y + z * z))
