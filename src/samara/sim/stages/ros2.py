"""ROS 2: publishes the clock, the true states, estimates, sensor readings and references of a flight while it runs.

Topics, frames and message bytes are those of the file that `samara export ros2` writes.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from samara.core.types import Array
from samara.link.ros2.node import Publisher, Ros2Node
from samara.physics.types import BODY_STATE_SIZE
from samara.record.derived_outputs import compiled_outputs, output_fields
from samara.record.flight_streams import STATUS_FIELDS
from samara.record.image_stream import ImageFormat
from samara.record.ros2.image_topics import (
    camera_info_layout,
    camera_of,
    image_columns,
    image_layout,
    published_images,
)
from samara.record.ros2.messages import MAP_FRAME, CdrLayout, CdrTemplate, cdr_layout, ros_name, xyzw
from samara.record.ros2.pose_topics import OdometryData, level_attitude, odom_in_map, odometry_columns
from samara.record.ros2.sensor_topics import SensorMessage, battery_messages, sensor_messages
from samara.record.ros2.topics import log_layout, numbers_layout, static_transforms
from samara.record.streams import RecordedStream
from samara.sensors.depth_camera import optical_frame
from samara.sim.external_setpoints import YAW, YAW_RATE, P, V
from samara.sim.fleet import Fleet
from samara.sim.group import Group, SensorRows
from samara.sim.ray_sensors import is_ray_sensor
from samara.sim.schedule import Span
from samara.sim.stage import PythonStage

STAMP = "header.stamp"


class PublisherSet:
    """The publishers of a node by topic, created on first use."""

    def __init__(self, node: Ros2Node) -> None:
        self.node = node
        self.publishers: dict[str, Publisher] = {}

    def publisher(self, topic: str, kind: str, *, latched: bool = False) -> Publisher:
        """Return the publisher of a topic."""
        if topic not in self.publishers:
            self.publishers[topic] = self.node.create_publisher(topic, kind, latched=latched)
        return self.publishers[topic]

    @property
    def sent_count(self) -> int:
        """Messages published."""
        return sum(publisher.published for publisher in self.publishers.values())

    @property
    def dropped_count(self) -> int:
        """Messages dropped because the output queue was full."""
        return sum(publisher.dropped for publisher in self.publishers.values())


class DronePublisher:
    """Publishes one message type for each drone: topic, layout, and the path of the time stamp ("" for none)."""

    def __init__(
        self, publisher_set: PublisherSet, layouts: Sequence[tuple[str, CdrLayout]], stamp: str = STAMP
    ) -> None:
        self._publishers = [publisher_set.publisher(topic, layout.message_type) for topic, layout in layouts]
        self._layouts, self._stamp = [layout for _, layout in layouts], [stamp] if stamp else []
        self._forms: list[CdrTemplate] = []

    def publish(self, stamp: Sequence[int], columns: Mapping[str, Any], selected: Sequence[int] | None = None) -> None:
        """Publish the values of the drones by path, (drones,) or (drones, n); `selected` has the drones, None means all."""
        if not self._forms:
            self._forms = [CdrTemplate(layout, [*self._stamp, *columns]) for layout in self._layouts]
        arrays = [np.asarray(values) for values in columns.values()]
        if all(values.dtype == float for values in arrays):
            rows = np.column_stack(arrays).tolist()
        else:  # integers must stay integers
            parts = [values.reshape(len(values), -1).tolist() for values in arrays]
            rows = [[number for part in row for number in part] for row in zip(*parts, strict=True)]
        stamp_values = list(stamp) if self._stamp else []
        for k in range(len(rows)) if selected is None else selected:
            self._publishers[k].publish(self._forms[k].fill(stamp_values + rows[k]))

    def publish_packed(self, stamp: Sequence[int], columns: Mapping[str, Array]) -> None:
        """Publish images of the drones: bytes by path, (drones, n)."""
        seconds, nanos = stamp
        for k, (publisher, layout) in enumerate(zip(self._publishers, self._layouts, strict=True)):
            numbers = {f"{STAMP}.sec": [seconds], f"{STAMP}.nanosec": [nanos]}
            packed = layout.pack(1, {**numbers, **{path: values[k : k + 1] for path, values in columns.items()}})
            publisher.publish(packed[0].tobytes())


Stamp = tuple[int, int]


class Ros2Stage(PythonStage):
    """Publishes a flight to ROS 2 through a node that the caller owns: states at every `every`-th tick of the autopilot, sensor
    readings when they arrive.
    """

    rate = "control"
    reason = "ROS 2"
    needs_tables = False

    def __init__(self, node: Ros2Node, every: int = 1) -> None:
        self.publishers, self._every = PublisherSet(node), every
        self._clock = self.publishers.publisher("/clock", "rosgraph_msgs/Clock")
        self._clock_form = CdrTemplate(cdr_layout("rosgraph_msgs/Clock"), ["clock"])
        self._groups: list[_GroupPublishers] = []
        self._fleet_groups: list[Group] = []
        self._transforms: CdrTemplate | None = None
        self._status: dict[str, bool] = {}
        self._logs: tuple[list[Any], int] = [], 0

    def prepare(self, fleet: Fleet) -> None:
        """Discard the publishers of former groups; the topics stay."""
        if self._fleet_groups is not fleet.groups:
            self._fleet_groups, self._groups = fleet.groups, []

    def is_due(self, fleet: Fleet, span: Span, *, needed: bool) -> Array:
        """Mark the instants at which states are published, and those at which a reading arrives."""
        due = span.times_us % (self._every * fleet.periods["control"]) == 0
        for period_us, delay_us in {
            (rows.period_us, rows.delay_us) for group in fleet.groups for rows in group.sensors
        }:
            due |= (span.times_us >= delay_us) & ((span.times_us - delay_us) % period_us == 0)
        return due

    def publish_clock(self, time_us: int) -> None:
        """Publish the flight time."""
        self._clock.publish(self._clock_form.fill(_stamp(time_us)))

    def update(self, fleet: Fleet) -> None:
        if not self._groups:
            self._begin(fleet)
        time_us = fleet.time_us
        for publishers in self._groups:
            publishers.publish_readings(time_us)
        if time_us % (self._every * fleet.periods["control"]) == 0:
            stamp = _stamp(time_us)
            transforms = [row for publishers in self._groups for row in publishers.publish_states(stamp)]
            assert self._transforms is not None
            numbers = [number for row in transforms for number in (*stamp, *row)]
            self.publishers.publisher("/tf", "tf2_msgs/TFMessage").publish(self._transforms.fill(numbers))
            self._publish_status(fleet)
            self._publish_logs(fleet)
            self.publish_clock(time_us)  # last: a node that waits for the clock has received everything of this instant
        self.publishers.node.announce()

    def _begin(self, fleet: Fleet) -> None:
        """Create the publishers of all drones, and publish the static frames."""
        self._groups = [_GroupPublishers(self.publishers, fleet, group) for group in fleet.groups]
        frames = [frame for publishers in self._groups for frame in publishers.frames]
        moving = [{"header": {"frame_id": parent}, "child_frame_id": child} for parent, child in frames]
        layout = cdr_layout("tf2_msgs/TFMessage", transforms=moving)
        paths = [f"transforms[{k}].{part}" for k in range(len(frames)) for part in ("header.stamp", "transform")]
        self._transforms = CdrTemplate(layout, paths)
        drones = fleet.scenario.drones
        if "/tf_static" not in self.publishers.publishers:
            estimated = {drone.name: drone.estimator.name != "truth" for drone in drones}
            fixed = static_transforms(estimated, {drone.name: drone.sensors for drone in drones})
            if fixed is not None:
                self.publishers.publisher("/tf_static", fixed.message_type, latched=True).publish(fixed.data.tobytes())

    def _publish_status(self, fleet: Fleet) -> None:
        """Publish changes of landed and crashed."""
        for group in fleet.groups:
            for column, index in enumerate(group.drones):
                for row, field in enumerate(STATUS_FIELDS):
                    topic, value = (
                        f"/{ros_name(fleet.drone_name(index))}/{field}",
                        bool(group.slots["status"][row, column] > 0.5),
                    )
                    if self._status.get(topic) is not value:
                        self._status[topic] = value
                        message = cdr_layout("std_msgs/Bool", data=value).data.tobytes()
                        self.publishers.publisher(topic, "std_msgs/Bool", latched=True).publish(message)

    def _publish_logs(self, fleet: Fleet) -> None:
        """Publish the log lines since the last call."""
        lines, published = self._logs if self._logs[0] is fleet.logs else (fleet.logs, 0)
        for line in lines[published:]:
            message = log_layout(line)
            self.publishers.publisher("/rosout", message.message_type, latched=True).publish(message.data.tobytes())
        self._logs = lines, len(lines)


class _GroupPublishers:
    """The publishers of the drones of one group."""

    def __init__(self, publisher_set: PublisherSet, fleet: Fleet, group: Group) -> None:
        self._group = group
        self._names = names = [ros_name(fleet.drone_name(index)) for index in group.drones]
        self._has_estimate = group.estimate is not group.slots["state"]

        def create_publisher(
            topic: str, layout: Callable[[str], CdrLayout], stamp: str = "header.stamp"
        ) -> DronePublisher:
            return DronePublisher(publisher_set, [(f"/{drone}/{topic}", layout(drone)) for drone in names], stamp)

        def odometry(frame: Callable[[str], str]) -> Callable[[str], CdrLayout]:
            return lambda drone: cdr_layout(
                "nav_msgs/Odometry", header={"frame_id": frame(drone)}, child_frame_id=f"{drone}/base_link"
            )

        def pose(drone: str) -> CdrLayout:
            return cdr_layout("geometry_msgs/PoseStamped", header={"frame_id": MAP_FRAME})

        def twist(frame: Callable[[str], str]) -> Callable[[str], CdrLayout]:
            return lambda drone: cdr_layout("geometry_msgs/TwistStamped", header={"frame_id": frame(drone)})

        vehicle = group.vehicle
        self._odom = create_publisher("odom", odometry(lambda drone: f"{drone}/odom"))
        self._truth = create_publisher("ground_truth", odometry(lambda drone: MAP_FRAME))
        self._pose, self._twist = (
            create_publisher("pose", pose),
            create_publisher("twist", twist(lambda drone: f"{drone}/base_link")),
        )
        self._reference_pose = create_publisher("setpoint/pose", pose)
        self._reference_twist = create_publisher("setpoint/twist", twist(lambda drone: MAP_FRAME))
        self._rotors: list[tuple[DronePublisher, Array]] = []
        if vehicle.rotors:
            count = len(vehicle.rotors)
            speeds = np.atleast_2d(group.state.rotor_speed)
            self._rotors = [
                (create_publisher("rotor_speed", lambda drone: numbers_layout("rotor", count), ""), speeds),
                (
                    create_publisher("motors", lambda drone: numbers_layout("motor", count), ""),
                    group.plant.command[:count],
                ),
            ]
        self._readings: list[tuple[SensorRows, SensorMessage, DronePublisher]] = []
        self._images: list[tuple[SensorRows, str, ImageFormat, DronePublisher]] = []
        self._calibrations: list[tuple[SensorRows, DronePublisher]] = []
        for rows in group.sensors:
            sensor, sensor_topic = rows.sensor, ros_name(rows.sensor.name)
            frames = [optical_frame(drone, ros_name(sensor.name)) for drone in names]
            for output, (key, image) in published_images(sensor).items():
                topics = [f"/{drone}/{sensor_topic}/{output}" for drone in names]
                image_layouts = [image_layout(image, frame) for frame in frames]
                publisher = DronePublisher(publisher_set, list(zip(topics, image_layouts, strict=True)))
                self._images.append((rows, key, image, publisher))
            if (camera := camera_of(sensor)) is not None:
                topics = [f"/{drone}/{sensor_topic}/camera_info" for drone in names]
                info_layouts = [camera_info_layout(camera, frame) for frame in frames]
                publisher = DronePublisher(publisher_set, list(zip(topics, info_layouts, strict=True)))
                self._calibrations.append((rows, publisher))
            if is_ray_sensor(sensor):
                continue
            readings_by_drone = [sensor_messages(sensor.fields, f"{drone}/{sensor_topic}", sensor) for drone in names]
            for reading_index, reading in enumerate(readings_by_drone[0]):
                layouts = [
                    (f"/{drone}/{sensor_topic}{reading.topic_suffix}", drone_readings[reading_index].layout)
                    for drone, drone_readings in zip(names, readings_by_drone, strict=True)
                ]
                self._readings.append((rows, reading, DronePublisher(publisher_set, layouts)))
        self._battery: tuple[SensorMessage, DronePublisher] | None = None
        sensor_topics = {ros_name(sensor_rows.sensor.name) for sensor_rows in group.sensors}
        if vehicle.has("battery") and "battery" not in sensor_topics:
            (reading,) = battery_messages("", None)
            self._battery = (
                reading,
                create_publisher("battery", lambda drone: battery_messages(f"{drone}/base_link", None)[0].layout),
            )
            self._fields = output_fields(vehicle)

    @property
    def frames(self) -> list[tuple[str, str]]:
        """Parent and child of each transform that `publish_states` returns."""
        odom_frames = [(f"{drone}/odom", f"{drone}/base_link") for drone in self._names]
        return odom_frames + ([(MAP_FRAME, f"{drone}/odom") for drone in self._names] if self._has_estimate else [])

    def publish_states(self, stamp: Stamp) -> Sequence[Sequence[float]]:
        """Publish truth, odometry and setpoint of each drone; return its transforms: translation, and rotation (x, y, z, w)."""
        group, motion = self._group, self._group.state
        true_motion = _motion_columns(np.concatenate([motion.p_W, motion.v_W, motion.q_WB, motion.omega_B]))
        truth = odometry_columns(true_motion)
        position, orientation = truth["pose.pose.position"], truth["pose.pose.orientation"]
        self._truth.publish(stamp, truth)
        self._pose.publish(stamp, {"pose.position": position, "pose.orientation": orientation})
        linear, angular = truth["twist.twist.linear"], truth["twist.twist.angular"]
        self._twist.publish(stamp, {"twist.linear": linear, "twist.angular": angular})
        estimate = true_motion
        if self._has_estimate:
            filter_variances = group.slots.get("variances")
            variances = filter_variances if filter_variances is not None and len(filter_variances) else None
            estimate = _motion_columns(group.estimate[:BODY_STATE_SIZE], variances)
        self._odom.publish(stamp, odometry_columns(estimate) if self._has_estimate else truth)
        reference = group.reference
        angular_W = np.zeros((len(self._names), 3))
        angular_W[:, 2] = reference[YAW_RATE]
        self._reference_pose.publish(
            stamp, {"pose.position": reference[P].T, "pose.orientation": xyzw(level_attitude(reference[YAW]))}
        )
        self._reference_twist.publish(stamp, {"twist.linear": reference[V].T, "twist.angular": angular_W})
        for publisher, rows in self._rotors:
            publisher.publish(stamp, {"data": rows.T})
        if self._battery is not None:
            self._publish_battery(stamp)
        poses = np.hstack([estimate.p_W, xyzw(estimate.q_WB)])
        if self._has_estimate:
            p_MO, q_MO = odom_in_map(true_motion.p_W, true_motion.q_WB, estimate.p_W, estimate.q_WB)
            poses = np.vstack([poses, np.hstack([p_MO, xyzw(q_MO)])])
        transforms: list[list[float]] = poses.tolist()
        return transforms

    def _publish_battery(self, stamp: Stamp) -> None:
        """Publish voltage and current by the motors' equations, and the state of charge."""
        assert self._battery is not None
        reading, publisher = self._battery
        plant = self._group.plant
        outputs = compiled_outputs(*self._group.vehicles).rows(
            plant.state[None], plant.command[None], plant.environment[None]
        )
        table = RecordedStream(self._fields, ("",) * len(self._fields), "", np.empty(0), outputs[0].T)
        columns = dict(reading.columns(table))
        if "battery.charge" in plant.fields:
            columns["percentage"] = plant.state[plant.fields.index("battery.charge")]
        publisher.publish(stamp, columns)

    def publish_readings(self, time_us: int) -> None:
        """Publish the readings that arrive now, with the time at which they were sampled."""
        for rows, key, image, publisher in self._images:
            if rows.arrives(time_us):
                values = self._group.images[key].reshape(len(self._names), -1) if key else rows.reading.T
                publisher.publish_packed(_stamp(time_us - rows.delay_us), image_columns(values, image))
        for rows, publisher in self._calibrations:
            if rows.arrives(time_us):
                publisher.publish_packed(_stamp(time_us - rows.delay_us), {})
        for rows, reading, publisher in self._readings:
            if not rows.arrives(time_us):
                continue
            sample_us, sensor = time_us - rows.delay_us, rows.sensor
            table = RecordedStream(sensor.fields, sensor.units, "", np.empty(0), rows.reading.T)
            valid_drones = None if reading.valid is None else np.flatnonzero(reading.valid(table)).tolist()
            publisher.publish(_stamp(sample_us), reading.columns(table), valid_drones)


def _motion_columns(rows: Array, variances: Array | None = None) -> OdometryData:
    """Convert p, v, q and ω (13, drones), and the variances of p, v and θ if available, to columns."""
    columns = rows.T
    ordered_variances = None if variances is None else variances.T[:, [0, 1, 2, 6, 7, 8, 3, 4, 5]]
    return OdometryData(
        np.empty(0), columns[:, :3], columns[:, 6:10], columns[:, 3:6], columns[:, 10:13], ordered_variances
    )


def _stamp(time_us: int) -> Stamp:
    """Split a time into whole seconds and nanoseconds."""
    seconds, micros = divmod(time_us, 1_000_000)
    return seconds, 1000 * micros
