"""ROS 2: the clock, the truth, what estimators and sensors say and what is asked, while a flight flies.

The topics and frames are those of the file that `samara export ros2` writes, and so are the bytes of their messages.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from samara.core.types import Array
from samara.link.ros2.node import Node, Speaker
from samara.physics.types import BODY
from samara.record.derived_outputs import output_code, output_fields
from samara.record.flight_streams import STATUS_FIELDS
from samara.record.ros2.messages import MAP, Form, Layout, layout_of, ros_name, xyzw
from samara.record.ros2.pose_topics import Said, facing, odom_in_map, odometry_columns
from samara.record.ros2.sensor_topics import Reading, battery, readings_of
from samara.record.ros2.topics import fixed_frames, log_layout, numbers_layout
from samara.record.streams import Table
from samara.sim.external_setpoints import YAW, YAW_RATE, P, V
from samara.sim.fleet import Fleet
from samara.sim.group import Group, SensorRows
from samara.sim.ray_sensors import is_ray_sensor
from samara.sim.schedule import Span
from samara.sim.stage import PythonStage

STAMP = "header.stamp"


class Voice:
    """The topics of a node: each is made the first time it is asked for, and stays"""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.speakers: dict[str, Speaker] = {}

    def speaker(self, topic: str, kind: str, *, latched: bool = False) -> Speaker:
        """What says messages under this topic"""
        if topic not in self.speakers:
            self.speakers[topic] = self.node.speaker(topic, kind, latched=latched)
        return self.speakers[topic]

    @property
    def said(self) -> int:
        """How many messages"""
        return sum(own.said for own in self.speakers.values())

    @property
    def dropped(self) -> int:
        """Messages for which there was no room in time"""
        return sum(own.dropped for own in self.speakers.values())


class Says:
    """A message of each drone: its topic and its layout, with a stamp, which is first where it has one"""

    def __init__(self, voice: Voice, layouts: Sequence[tuple[str, Layout]], stamp: str = STAMP) -> None:
        self._speakers = [voice.speaker(topic, layout.kind) for topic, layout in layouts]
        self._layouts, self._stamp = [layout for _, layout in layouts], [stamp] if stamp else []
        self._forms: list[Form] = []

    def say(self, stamp: Sequence[int], columns: Mapping[str, Any], some: Sequence[int] | None = None) -> None:
        """The numbers of the drones by path, (drones,) or (drones, n); of some drones only where these are given"""
        if not self._forms:
            self._forms = [Form(layout, [*self._stamp, *columns]) for layout in self._layouts]
        own = [np.asarray(values) for values in columns.values()]
        if all(values.dtype == float for values in own):
            rows = np.column_stack(own).tolist()
        else:  # whole numbers stay whole
            parts = [values.reshape(len(values), -1).tolist() for values in own]
            rows = [[number for part in row for number in part] for row in zip(*parts, strict=True)]
        begin = list(stamp) if self._stamp else []
        for k in range(len(rows)) if some is None else some:
            self._speakers[k].say(self._forms[k].filled(begin + rows[k]))


Stamp = tuple[int, int]


class Ros2Stage(PythonStage):
    """Says a flight to ROS 2 through a node that stays the caller's: states at every tick of the autopilot or, with `every`, at
    each so many of them, sensors when they are heard"""

    rate = "autopilot"
    reason = "ROS 2"
    needs_tables = False

    def __init__(self, node: Node, every: int = 1) -> None:
        self.voice, self._every = Voice(node), every
        self._clock = self.voice.speaker("/clock", "rosgraph_msgs/Clock")
        self._clock_form = Form(layout_of("rosgraph_msgs/Clock"), ["clock"])
        self._groups: list[_GroupSays] = []
        self._fleet_groups: list[Group] = []
        self._transforms: Form | None = None
        self._status: dict[str, bool] = {}
        self._logs: tuple[list[Any], int] = [], 0

    def prepare(self, fleet: Fleet) -> None:
        """Topics stay, the arrays that their numbers come from are others"""
        if self._fleet_groups is not fleet.groups:
            self._fleet_groups, self._groups = fleet.groups, []

    def is_due(self, fleet: Fleet, span: Span, *, needed: bool) -> Array:
        """Where a state is to be said, and where a sensor is heard"""
        found = span.times_us % (self._every * fleet.periods["autopilot"]) == 0
        for period_us, delay_us in {(own.period_us, own.delay_us) for group in fleet.groups for own in group.sensors}:
            found |= (span.times_us >= delay_us) & ((span.times_us - delay_us) % period_us == 0)
        return found

    def say_clock(self, time_us: int) -> None:
        """The time of the flight"""
        self._clock.say(self._clock_form.filled(_stamp(time_us)))

    def update(self, fleet: Fleet) -> None:
        if not self._groups:
            self._begin(fleet)
        now = fleet.time_us
        for own in self._groups:
            own.say_readings(now)
        if now % (self._every * fleet.periods["autopilot"]) == 0:
            stamp = _stamp(now)
            transforms = [row for own in self._groups for row in own.say_states(stamp)]
            assert self._transforms is not None
            numbers = [number for row in transforms for number in (*stamp, *row)]
            self.voice.speaker("/tf", "tf2_msgs/TFMessage").say(self._transforms.filled(numbers))
            self._say_status(fleet)
            self._say_logs(fleet)
            self.say_clock(now)  # at the end: whoever follows the clock has heard all of this instant
        self.voice.node.announce()

    def _begin(self, fleet: Fleet) -> None:
        """Topics of all drones, and the frames that never change"""
        self._groups = [_GroupSays(self.voice, fleet, group) for group in fleet.groups]
        frames = [frame for own in self._groups for frame in own.frames]
        moving = [{"header": {"frame_id": parent}, "child_frame_id": child} for parent, child in frames]
        layout = layout_of("tf2_msgs/TFMessage", transforms=moving)
        paths = [f"transforms[{k}].{part}" for k in range(len(frames)) for part in ("header.stamp", "transform")]
        self._transforms = Form(layout, paths)
        drones = fleet.scenario.drones
        if "/tf_static" not in self.voice.speakers:
            estimated = {own.name: own.estimator.name != "truth" for own in drones}
            fixed = fixed_frames(estimated, {own.name: own.sensors for own in drones})
            if fixed is not None:
                self.voice.speaker("/tf_static", fixed.kind, latched=True).say(fixed.data.tobytes())

    def _say_status(self, fleet: Fleet) -> None:
        """Whenever somebody lands, takes off or crashes"""
        for group in fleet.groups:
            for lane, index in enumerate(group.drones):
                for row, field in enumerate(STATUS_FIELDS):
                    topic, value = (
                        f"/{ros_name(fleet.name_of(index))}/{field}",
                        bool(group.slots["status"][row, lane] > 0.5),
                    )
                    if self._status.get(topic) is not value:
                        self._status[topic] = value
                        said = layout_of("std_msgs/Bool", data=value).data.tobytes()
                        self.voice.speaker(topic, "std_msgs/Bool", latched=True).say(said)

    def _say_logs(self, fleet: Fleet) -> None:
        """Lines of log since the last time"""
        lines, told = self._logs if self._logs[0] is fleet.logs else (fleet.logs, 0)
        for line in lines[told:]:
            said = log_layout(line)
            self.voice.speaker("/rosout", said.kind, latched=True).say(said.data.tobytes())
        self._logs = lines, len(lines)


class _GroupSays:
    """What the drones of one group say"""

    def __init__(self, voice: Voice, fleet: Fleet, group: Group) -> None:
        self._group = group
        self._names = names = [ros_name(fleet.name_of(index)) for index in group.drones]
        self._has_estimate = group.estimate is not group.slots["state"]

        def says(topic: str, layout: Callable[[str], Layout], stamp: str = "header.stamp") -> Says:
            return Says(voice, [(f"/{drone}/{topic}", layout(drone)) for drone in names], stamp)

        def odometry(frame: Callable[[str], str]) -> Callable[[str], Layout]:
            return lambda drone: layout_of(
                "nav_msgs/Odometry", header={"frame_id": frame(drone)}, child_frame_id=f"{drone}/base_link"
            )

        def pose(drone: str) -> Layout:
            return layout_of("geometry_msgs/PoseStamped", header={"frame_id": MAP})

        def twist(frame: Callable[[str], str]) -> Callable[[str], Layout]:
            return lambda drone: layout_of("geometry_msgs/TwistStamped", header={"frame_id": frame(drone)})

        vehicle = group.vehicle
        self._odom = says("odom", odometry(lambda drone: f"{drone}/odom"))
        self._truth = says("ground_truth", odometry(lambda drone: MAP))
        self._pose, self._twist = says("pose", pose), says("twist", twist(lambda drone: f"{drone}/base_link"))
        self._asked_pose = says("setpoint/pose", pose)
        self._asked_twist = says("setpoint/twist", twist(lambda drone: MAP))
        self._rotors: list[tuple[Says, Array]] = []
        if vehicle.rotors:
            count = len(vehicle.rotors)
            speeds = np.atleast_2d(group.state.rotor_speed)
            self._rotors = [
                (says("rotor_speed", lambda drone: numbers_layout("rotor", count), ""), speeds),
                (says("motors", lambda drone: numbers_layout("motor", count), ""), group.plant.command[:count]),
            ]
        self._readings: list[tuple[SensorRows, Reading, Says]] = []
        for measuring in (each for each in group.sensors if not is_ray_sensor(each.sensor)):  # pictures are not told
            sensor, own = measuring.sensor, ros_name(measuring.sensor.name)
            of_each = [readings_of(sensor.fields, f"{drone}/{own}", sensor) for drone in names]
            for place, reading in enumerate(of_each[0]):
                layouts = [
                    (f"/{drone}/{own}{reading.place}", each[place].layout)
                    for drone, each in zip(names, of_each, strict=True)
                ]
                self._readings.append((measuring, reading, Says(voice, layouts)))
        self._battery: tuple[Reading, Says] | None = None
        taken = {ros_name(own.sensor.name) for own in group.sensors}
        if vehicle.has("battery") and "battery" not in taken:
            (reading,) = battery("", None)
            self._battery = (
                reading,
                says("battery", lambda drone: battery(f"{drone}/base_link", None)[0].layout),
            )
            self._fields = output_fields(vehicle)

    @property
    def frames(self) -> list[tuple[str, str]]:
        """Parent and child of each transform that `say_states` gives"""
        own = [(f"{drone}/odom", f"{drone}/base_link") for drone in self._names]
        return own + ([(MAP, f"{drone}/odom") for drone in self._names] if self._has_estimate else [])

    def say_states(self, stamp: Stamp) -> Sequence[Sequence[float]]:
        """Truth, odometry and setpoint of each drone; gives its transforms: translation, and rotation (x, y, z, w)"""
        group, motion = self._group, self._group.state
        true = _said(np.concatenate([motion.p_W, motion.v_W, motion.q_WB, motion.omega_B]))
        truth = odometry_columns(true)
        position, orientation = truth["pose.pose.position"], truth["pose.pose.orientation"]
        self._truth.say(stamp, truth)
        self._pose.say(stamp, {"pose.position": position, "pose.orientation": orientation})
        linear, angular = truth["twist.twist.linear"], truth["twist.twist.angular"]
        self._twist.say(stamp, {"twist.linear": linear, "twist.angular": angular})
        estimate = true
        if self._has_estimate:
            known = group.slots.get("variances")
            variances = known if known is not None and len(known) else None
            estimate = _said(group.estimate[:BODY], variances)
        self._odom.say(stamp, odometry_columns(estimate) if self._has_estimate else truth)
        asked = group.reference
        turning = np.zeros((len(self._names), 3))
        turning[:, 2] = asked[YAW_RATE]
        self._asked_pose.say(stamp, {"pose.position": asked[P].T, "pose.orientation": xyzw(facing(asked[YAW]))})
        self._asked_twist.say(stamp, {"twist.linear": asked[V].T, "twist.angular": turning})
        for says, rows in self._rotors:
            says.say(stamp, {"data": rows.T})
        if self._battery is not None:
            self._say_battery(stamp)
        moving = np.hstack([estimate.p_W, xyzw(estimate.q_WB)])
        if self._has_estimate:
            p_MO, q_MO = odom_in_map(true.p_W, true.q_WB, estimate.p_W, estimate.q_WB)
            moving = np.vstack([moving, np.hstack([p_MO, xyzw(q_MO)])])
        transforms: list[list[float]] = moving.tolist()
        return transforms

    def _say_battery(self, stamp: Stamp) -> None:
        """Voltage and current by the motors' equations, and the charge that is left"""
        assert self._battery is not None
        reading, says = self._battery
        plant = self._group.plant
        told = output_code(*self._group.vehicles).rows(plant.state[None], plant.command[None], plant.environment[None])
        table = Table(self._fields, ("",) * len(self._fields), "", np.empty(0), told[0].T)
        columns = dict(reading.columns(table))
        if "battery.charge" in plant.fields:
            columns["percentage"] = plant.state[plant.fields.index("battery.charge")]
        says.say(stamp, columns)

    def say_readings(self, time_us: int) -> None:
        """Of the sensors that are heard now, stamped when they sampled"""
        for measuring, reading, says in self._readings:
            late_us = time_us - measuring.delay_us
            if late_us < 0 or late_us % measuring.period_us:
                continue
            sensor = measuring.sensor
            table = Table(sensor.fields, sensor.units, "", np.empty(0), measuring.reading.T)
            some = None if reading.valid is None else np.flatnonzero(reading.valid(table)).tolist()
            says.say(_stamp(late_us), reading.columns(table), some)


def _said(rows: Array, variances: Array | None = None) -> Said:
    """p, v, q and ω (13, drones), and the variances of p, v and θ where they are known"""
    own = rows.T
    known = None if variances is None else variances.T[:, [0, 1, 2, 6, 7, 8, 3, 4, 5]]
    return Said(np.empty(0), own[:, :3], own[:, 6:10], own[:, 3:6], own[:, 10:13], known)


def _stamp(time_us: int) -> Stamp:
    """Whole seconds and nanoseconds"""
    seconds, micros = divmod(time_us, 1_000_000)
    return seconds, 1000 * micros
