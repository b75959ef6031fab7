"""Setpoints that ROS 2 nodes publish, converted to setpoints of the drones; setpoints that cannot be flown are rejected."""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from samara.core.algebra import Quat, Vec3, matrix_from_quat, rotate
from samara.core.sanitise import quote_value
from samara.link.link import AutopilotLostError
from samara.link.ros2.node import Ros2Node, Subscription
from samara.record.ros2.messages import MAP_FRAME, ros_name
from samara.scenario.scenario import Drone
from samara.sim.external_setpoints import APPROACH_SPEED, Motors, Position, Setpoint, TimedWaypoints, Velocity
from samara.sim.fleet import Fleet

MAX_POSITION, MAX_SPEED, MAX_TURN_RATE = 1e6, 1e3, 100.0  # [m], [m/s], [rad/s]: larger numbers are mistakes
NORM_TOLERANCE = 1e-2  # allowed deviation of a quaternion's norm from 1
POLL_INTERVAL = 2e-4  # [s] between two polls for a command
CLOCK_REPEAT_INTERVAL = 0.5  # [s] after which the clock is published again for nodes that may have missed it


class RejectedMessageError(ValueError):
    """A well-formed message with a setpoint that cannot be flown."""


class MessageConverter(NamedTuple):
    """Converts the messages to a drone: its name in ROS 2, its index, its command size, and its approach speed [m/s]."""

    drone: str
    drone_index: int
    command_size: int
    speed: float

    def pose(self, message: SimpleNamespace, fleet: Fleet) -> Setpoint:
        """geometry_msgs/PoseStamped in the map: a position, and the yaw of its attitude."""
        self._require_frame(message, (MAP_FRAME, f"{self.drone}/odom"))
        return Position(
            _vector_components(message.pose.position, "position", MAX_POSITION),
            _yaw(message.pose.orientation),
            self.speed,
        )

    def twist(self, message: SimpleNamespace, fleet: Fleet) -> Setpoint:
        """geometry_msgs/TwistStamped along the axes of the map, or along those of base_link rotated to level."""
        body = f"{self.drone}/base_link"
        self._require_frame(message, (MAP_FRAME, f"{self.drone}/odom", body))
        v = _vector_components(message.twist.linear, "linear velocity", MAX_SPEED)
        rate = float(_vector_components(message.twist.angular, "angular velocity", MAX_TURN_RATE)[2])
        if message.header.frame_id == body:
            group, column = fleet.locate(self.drone_index)
            forward = matrix_from_quat(Quat(*group.estimate[6:10, column].tolist())).rows
            heading = math.atan2(forward[1].x, forward[0].x)
            v = np.array(rotate(Quat(math.cos(heading / 2), 0.0, 0.0, math.sin(heading / 2)), Vec3(*v)))
        return Velocity(v, rate)

    def trajectory(self, message: SimpleNamespace, fleet: Fleet) -> Setpoint:
        """trajectory_msgs/MultiDOFJointTrajectory of one joint: points at their times from now."""
        self._require_frame(message, (MAP_FRAME, f"{self.drone}/odom"))
        if not message.points or any(len(point.transforms) != 1 for point in message.points):
            raise RejectedMessageError("expected points that have one transform each")
        velocity_counts = {len(point.velocities) for point in message.points}
        if velocity_counts not in ({0}, {1}):
            raise RejectedMessageError("expected a velocity at each point, or at none")
        times = np.array([point.time_from_start.sec + 1e-9 * point.time_from_start.nanosec for point in message.points])
        if times[0] < 0.0 or (np.diff(times) <= 0.0).any():
            raise RejectedMessageError(
                "the times of its points do not increase; expected each later than the one before"
            )
        p = np.array(
            [
                _vector_components(point.transforms[0].translation, "translation", MAX_POSITION)
                for point in message.points
            ]
        )
        yaw = np.array([_yaw(point.transforms[0].rotation) for point in message.points])
        if len(p) == 1 and times[0] == 0.0:
            return Position(p[0], float(yaw[0]), self.speed)
        v = (
            [_vector_components(point.velocities[0].linear, "velocity", MAX_SPEED) for point in message.points]
            if velocity_counts == {1}
            else None
        )
        return TimedWaypoints(times, p, yaw, None if v is None else np.array(v))

    def motor_command(self, message: SimpleNamespace, fleet: Fleet) -> Setpoint:
        """std_msgs/Float64MultiArray: one number per rotor, in the unit of the vehicle's actuation."""
        if len(message.data) != self.command_size:
            raise RejectedMessageError(f"{len(message.data)} numbers; expected {self.command_size}, one for each motor")
        if not all(map(math.isfinite, message.data)):
            raise RejectedMessageError(f"{quote_value(message.data)}; expected finite numbers")
        return Motors(np.array(message.data))

    def _require_frame(self, message: SimpleNamespace, frames: Sequence[str]) -> None:
        frame = message.header.frame_id
        if frame and frame not in frames:
            raise RejectedMessageError(f"frame {quote_value(frame)}; expected {' or '.join(map(repr, frames))}")


COMMAND_TOPICS: Mapping[str, tuple[str, Callable[[MessageConverter, SimpleNamespace, Fleet], Setpoint]]] = {
    "pose": ("geometry_msgs/PoseStamped", MessageConverter.pose),
    "twist": ("geometry_msgs/TwistStamped", MessageConverter.twist),
    "trajectory": ("trajectory_msgs/MultiDOFJointTrajectory", MessageConverter.trajectory),
    "motors": ("std_msgs/Float64MultiArray", MessageConverter.motor_command),
}
"""By the last part of the topic `/drone/command/…`: its type, and its conversion to a setpoint."""


class SetpointTopics:
    """The setpoints of all drones without an autopilot. Only the newest message of each topic is used.

    With `lockstep_us`, the flight waits at every such period until each drone has a new setpoint, for at most `timeout`
    seconds; meanwhile `repeat_clock(time_us)` is called to publish the clock again.
    """

    def __init__(
        self,
        node: Ros2Node,
        drones: Sequence[Drone],
        *,
        speed: float = APPROACH_SPEED,
        lockstep_us: int = 0,
        timeout: float = 30.0,
        repeat_clock: Callable[[int], None] = lambda time_us: None,
    ) -> None:
        self._lockstep_us, self._timeout, self._repeat_clock = lockstep_us, timeout, repeat_clock
        self._topics: list[
            tuple[MessageConverter, Subscription, Callable[[MessageConverter, SimpleNamespace, Fleet], Setpoint]]
        ] = []
        for index, drone in enumerate(drones):
            if drone.autopilot is not None:
                continue
            converter = MessageConverter(ros_name(drone.name), index, drone.vehicle.command_size, speed)
            for topic, (message_type, convert) in COMMAND_TOPICS.items():
                subscription = node.create_subscription(
                    f"/{converter.drone}/command/{topic}", message_type, depth=1, reliable=False
                )
                self._topics.append((converter, subscription, convert))
        self.rejected_count = 0
        self._rejected_topics: set[str] = set()  # topics whose last message was rejected, and the rejection logged

    @property
    def message_count(self) -> int:
        """Valid messages received."""
        return sum(subscription.count for _, subscription, _ in self._topics)

    @property
    def malformed_count(self) -> int:
        """Messages whose bytes did not match their type."""
        return sum(subscription.malformed for _, subscription, _ in self._topics)

    def new_setpoints(self, fleet: Fleet) -> Mapping[int, Setpoint]:
        """Return the newest setpoint of each drone since the last call, by drone index."""
        if self._lockstep_us and fleet.time_us % self._lockstep_us == 0:
            return self._await_setpoints(fleet)
        return self._receive(fleet)

    def _receive(self, fleet: Fleet) -> dict[int, Setpoint]:
        setpoints: dict[int, Setpoint] = {}
        for converter, subscription, convert in self._topics:
            malformed_before = subscription.malformed
            for message in subscription.take():
                try:
                    setpoints[converter.drone_index] = convert(converter, message, fleet)
                    self._rejected_topics.discard(subscription.topic)
                except RejectedMessageError as error:
                    self.rejected_count += 1
                    self._warn_once(fleet, subscription.topic, f"{subscription.topic} is rejected: {error}")
            if subscription.malformed > malformed_before:
                self._warn_once(fleet, subscription.topic, f"{subscription.problem}; it is ignored")
        return setpoints

    def _warn_once(self, fleet: Fleet, topic: str, message: str) -> None:
        """Log a warning, once until a valid message arrives on the topic."""
        if topic not in self._rejected_topics:
            self._rejected_topics.add(topic)
            fleet.log_message("warning", message)

    def _await_setpoints(self, fleet: Fleet) -> dict[int, Setpoint]:
        start = last_repeat = time.monotonic()
        setpoints = self._receive(fleet)
        expected = {converter.drone_index: converter.drone for converter, _, _ in self._topics}
        while missing := expected.keys() - setpoints.keys():
            now = time.monotonic()
            if now - start > self._timeout:
                raise AutopilotLostError(self._timeout_message(min(missing)))
            if now - last_repeat > CLOCK_REPEAT_INTERVAL:
                self._repeat_clock(fleet.time_us)
                last_repeat = now
            time.sleep(POLL_INTERVAL)
            setpoints.update(self._receive(fleet))
        return setpoints

    def _timeout_message(self, index: int) -> str:
        subscriptions = [subscription for converter, subscription, _ in self._topics if converter.drone_index == index]
        publisher_status = (
            "a publisher exists but sends nothing"
            if any(subscription.publisher_count for subscription in subscriptions)
            else "there are no publishers"
        )
        drone = subscriptions[0].topic.rpartition("/")[0]
        topics = ", ".join(COMMAND_TOPICS)
        return (
            f"no command on {drone}/… ({topics}) for {self._timeout:g} s, {publisher_status}; "
            "in lockstep each tick of /clock needs one"
        )


def _vector_components(vector: Any, name: str, max_value: float) -> Any:
    components = np.array([vector.x, vector.y, vector.z])
    if not np.isfinite(components).all() or np.abs(components).max() > max_value:
        raise RejectedMessageError(
            f"the {name} is {quote_value(components.tolist())}; expected numbers within ±{max_value:g}"
        )
    return components


def _yaw(quaternion: Any) -> float:
    """ψ of an attitude: the direction of its x axis, projected on the horizontal plane [rad]."""
    q = np.array([quaternion.w, quaternion.x, quaternion.y, quaternion.z])
    norm = float(np.linalg.norm(q))
    if not abs(norm - 1.0) < NORM_TOLERANCE:
        raise RejectedMessageError(
            f"the attitude (w, x, y, z) is {quote_value(q.tolist())}; expected a quaternion of length 1"
        )
    w, x, y, z = (q / norm).tolist()
    return math.atan2(2.0 * (w * z + x * y), 1.0 - 2.0 * (y * y + z * z))
