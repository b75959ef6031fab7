"""Pose, velocity and setpoint topics of a drone, in the frames of REP 103 and REP 105.

`map` is the world, x east, y north, z up; `NAME/base_link` has its origin at the centre of mass, x forward, y left, z up. The
odometry is the estimate, in `NAME/odom`; the transform from `map` to `NAME/odom` is its error, so that the transform from
`map` to `NAME/base_link` is the truth.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from samara.core.algebra import Quat, Vec3, conjugate, matrix_from_quat, rotate, rotate_inverse
from samara.core.types import Array
from samara.record.ros2.messages import MAP_FRAME, Ros2Topic, cdr_layout, stamp_columns, xyzw
from samara.record.streams import RecordedStream

MAX_POSES = 2000  # of a path


class OdometryData(NamedTuple):
    """Poses and velocities at times (m,), with the variances of p_W, θ_B and v_W (m, 9), if they are known."""

    times_us: Array
    p_W: Array
    q_WB: Array
    v_W: Array
    omega_B: Array
    variances: Array | None = None


def extract_odometry(table: RecordedStream, covariance: RecordedStream | None = None) -> OdometryData:
    """Extract the odometry from the stream of a state or an estimate."""
    variances = None
    if covariance is not None and len(covariance.rows):
        fields = ("p_W", "theta_B", "v_W")
        variances = np.hstack([covariance[field] for field in fields])[last_rows(covariance.times_us, table.times_us)]
    return OdometryData(table.times_us, table["p_W"], table["q_WB"], table["v_W"], table["omega_B"], variances)


def last_rows(times_us: Array, at_us: Array) -> Array:
    """Return the index of the last row at or before each instant; 0 before the first row."""
    return np.maximum(np.searchsorted(times_us, at_us, side="right") - 1, 0)


def odometry_topic(name: str, data: OdometryData, frame: str, body: str) -> Ros2Topic:
    """nav_msgs/Odometry: the pose in `frame`, the velocity in body axes."""
    layout = cdr_layout("nav_msgs/Odometry", header={"frame_id": frame}, child_frame_id=body)
    return Ros2Topic(name, layout, data.times_us, {**stamp_columns(data.times_us), **odometry_columns(data)})


def odometry_columns(data: OdometryData) -> dict[str, Array]:
    """Return the message values by path; covariances are 0 if they are unknown."""
    q_WB = Quat(*data.q_WB.T)
    columns = {
        "pose.pose.position": data.p_W,
        "pose.pose.orientation": xyzw(data.q_WB),
        "twist.twist.linear": np.stack(rotate_inverse(q_WB, Vec3(*data.v_W.T)), axis=1),
        "twist.twist.angular": data.omega_B,
    }
    if data.variances is not None:
        R_WB = np.array([list(row) for row in matrix_from_quat(q_WB).rows]).transpose(2, 0, 1)
        p, theta, v = (data.variances[:, k : k + 3] for k in (0, 3, 6))
        pose, twist = np.zeros((2, len(p), 6, 6))
        pose[:, :3, :3] = p[:, :, None] * np.eye(3)
        pose[:, 3:, 3:] = np.einsum("nik,nk,njk->nij", R_WB, theta, R_WB)
        twist[:, :3, :3] = np.einsum("nki,nk,nkj->nij", R_WB, v, R_WB)
        columns |= {"pose.covariance": pose.reshape(-1, 36), "twist.covariance": twist.reshape(-1, 36)}
    return columns


def pose_topic(name: str, times_us: Array, p_W: Array, q_WB: Array) -> Ros2Topic:
    """geometry_msgs/PoseStamped in the map frame."""
    columns = {**stamp_columns(times_us), "pose.position": p_W, "pose.orientation": xyzw(q_WB)}
    return Ros2Topic(name, cdr_layout("geometry_msgs/PoseStamped", header={"frame_id": MAP_FRAME}), times_us, columns)


def twist_topic(name: str, times_us: Array, linear: Array, angular: Array, frame: str) -> Ros2Topic:
    """geometry_msgs/TwistStamped in the axes of a frame."""
    columns = {**stamp_columns(times_us), "twist.linear": linear, "twist.angular": angular}
    return Ros2Topic(name, cdr_layout("geometry_msgs/TwistStamped", header={"frame_id": frame}), times_us, columns)


def transform_topic(times_us: Array, parent: str, child: str, p: Array, q: Array) -> Ros2Topic:
    """tf2_msgs/TFMessage of one dynamic transform."""
    prefix = "transforms[0]"
    columns = {
        **stamp_columns(times_us, f"{prefix}.header.stamp"),
        f"{prefix}.transform.translation": p,
        f"{prefix}.transform.rotation": xyzw(q),
    }
    header = {"header": {"frame_id": parent}, "child_frame_id": child}
    return Ros2Topic("/tf", cdr_layout("tf2_msgs/TFMessage", transforms=[header]), times_us, columns)


def transform_topics(true: OdometryData, estimate: OdometryData | None, drone: str) -> list[Ros2Topic]:
    """map → odom → base_link: the estimate in odom, and from map to odom its error, which is static without an estimate."""
    odom, body = f"{drone}/odom", f"{drone}/base_link"
    if estimate is None:
        return [transform_topic(true.times_us, odom, body, true.p_W, true.q_WB)]
    rows = last_rows(estimate.times_us, true.times_us)
    p_MO, q_MO = odom_in_map(true.p_W, true.q_WB, estimate.p_W[rows], estimate.q_WB[rows])
    return [
        transform_topic(true.times_us, MAP_FRAME, odom, p_MO, q_MO),
        transform_topic(estimate.times_us, odom, body, estimate.p_W, estimate.q_WB),
    ]


def odom_in_map(p_MB: Array, q_MB: Array, p_OB: Array, q_OB: Array) -> tuple[Array, Array]:
    """T_MO = T_MB T_OB⁻¹:  q_MO = q_MB q_OB*,  p_MO = p_MB − R_MO p_OB."""
    q_MO = Quat(*q_MB.T) * conjugate(Quat(*q_OB.T))
    p_MO = Vec3(*p_MB.T) - rotate(q_MO, Vec3(*p_OB.T))
    return np.stack(p_MO, axis=1), np.stack(q_MO, axis=1)


def path_topic(name: str, times_us: Array, p_W: Array, q_WB: Array, at_us: int) -> Ros2Topic:
    """nav_msgs/Path in the map frame, published once; a long path is thinned to `MAX_POSES` poses."""
    step = -(-len(times_us) // MAX_POSES)
    poses = [
        {
            "header": {"frame_id": MAP_FRAME, "stamp": _stamp(time_us)},
            "pose": {
                "position": dict(zip("xyz", p, strict=True)),
                "orientation": dict(zip("wxyz", q, strict=True)),
            },
        }
        for time_us, p, q in zip(times_us[::step].tolist(), p_W[::step].tolist(), q_WB[::step].tolist(), strict=True)
    ]
    layout = cdr_layout("nav_msgs/Path", header={"frame_id": MAP_FRAME, "stamp": _stamp(at_us)}, poses=poses)
    return Ros2Topic(name, layout, np.array([at_us]), {}, latched=True)


def _stamp(time_us: int) -> Mapping[str, int]:
    seconds, micros = divmod(time_us, 1_000_000)
    return {"sec": seconds, "nanosec": micros * 1000}


def level_attitude(yaw: Array) -> Array:
    """Return level attitudes (m, 4) of a yaw: q = (cos ψ/2, 0, 0, sin ψ/2)."""
    q = np.zeros((len(yaw), 4))
    q[:, 0], q[:, 3] = np.cos(0.5 * yaw), np.sin(0.5 * yaw)
    return q


def estimated_odometry(tables: Mapping[str, RecordedStream]) -> OdometryData | None:
    """Return the odometry of the estimator; None without one."""
    if "estimate" not in tables or not len(tables["estimate"].rows):
        return None
    return extract_odometry(tables["estimate"], tables.get("variance"))


def motion_topics(tables: Mapping[str, RecordedStream], drone: str) -> list[Ros2Topic]:
    """Return the topics of the true motion, the odometry, and the transforms between their frames."""
    true, estimate = extract_odometry(tables["state"]), estimated_odometry(tables)
    body, end_us = f"{drone}/base_link", int(true.times_us[-1])
    v_B = np.stack(rotate_inverse(Quat(*true.q_WB.T), Vec3(*true.v_W.T)), axis=1)
    return [
        odometry_topic(f"/{drone}/odom", estimate or true, f"{drone}/odom", body),
        odometry_topic(f"/{drone}/ground_truth", true, MAP_FRAME, body),
        pose_topic(f"/{drone}/pose", true.times_us, true.p_W, true.q_WB),
        twist_topic(f"/{drone}/twist", true.times_us, v_B, true.omega_B, body),
        path_topic(f"/{drone}/path", true.times_us, true.p_W, true.q_WB, end_us),
        *transform_topics(true, estimate, drone),
    ]


def setpoint_topics(reference: RecordedStream, drone: str) -> list[Ros2Topic]:
    """Return the topics of the controller's reference: pose, velocity in the map frame, and the full path at its start."""
    times_us, q = reference.times_us, level_attitude(reference["yaw"])
    angular_velocity = reference["yaw_rate"][:, None] * np.array([0.0, 0.0, 1.0])
    return [
        pose_topic(f"/{drone}/setpoint/pose", times_us, reference["p_W"], q),
        twist_topic(f"/{drone}/setpoint/twist", times_us, reference["v_W"], angular_velocity, MAP_FRAME),
        path_topic(f"/{drone}/setpoint/path", times_us, reference["p_W"], q, int(times_us[0])),
    ]
