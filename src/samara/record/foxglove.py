"""Messages in Foxglove's published schemas, which it displays without configuration: poses, transforms, log and scene."""

from collections.abc import Mapping
from functools import cache
from itertools import chain
from typing import Any, NamedTuple, TypeVar

import numpy as np
from foxglove_schemas_protobuf.Color_pb2 import Color
from foxglove_schemas_protobuf.CubePrimitive_pb2 import CubePrimitive
from foxglove_schemas_protobuf.CylinderPrimitive_pb2 import CylinderPrimitive
from foxglove_schemas_protobuf.FrameTransform_pb2 import FrameTransform
from foxglove_schemas_protobuf.LinePrimitive_pb2 import LinePrimitive
from foxglove_schemas_protobuf.Log_pb2 import Log
from foxglove_schemas_protobuf.Point3_pb2 import Point3
from foxglove_schemas_protobuf.Pose_pb2 import Pose
from foxglove_schemas_protobuf.PoseInFrame_pb2 import PoseInFrame
from foxglove_schemas_protobuf.Quaternion_pb2 import Quaternion
from foxglove_schemas_protobuf.SceneEntity_pb2 import SceneEntity
from foxglove_schemas_protobuf.SceneUpdate_pb2 import SceneUpdate
from foxglove_schemas_protobuf.TriangleListPrimitive_pb2 import TriangleListPrimitive
from foxglove_schemas_protobuf.Vector3_pb2 import Vector3
from google.protobuf.timestamp_pb2 import Timestamp  # type: ignore[import-untyped]

from samara.core.algebra import IDENTITY, UP, ZERO, Quat, Vec3, cross, direction, dot, norm, normalize
from samara.core.types import Array
from samara.physics.types import Vehicle
from samara.record.layout import NANOS_MARK, SECONDS_MARK, RecordLayout, marked_layout, marker
from samara.record.streams import LEVELS, LogLine, Stream
from samara.scenario.meshes import drawable_solids, solid_triangles
from samara.scenario.world import World
from samara.vehicles.shape import BodyBox, Disc, Rod, outer_frame_radius, shape_parts
from samara.world.obstacles import Solid

WORLD = "world"
Microseconds = TypeVar("Microseconds", int, Array)
POSE_RATE = 30  # poses per second at most: enough for display, and tools interpolate
POSE_FIELDS = ("p_W.x", "p_W.y", "p_W.z", "q_WB.x", "q_WB.y", "q_WB.z", "q_WB.w")  # in the order of foxglove.Pose


class PoseColumns(NamedTuple):
    """The pose of a stream: its columns, the topic of the pose messages, and its frame."""

    columns: Array
    topic: str
    frame: str


def pose_columns(stream: Stream) -> PoseColumns | None:
    """Return the pose columns of a stream; None without a pose.

    '/drone0/state' gives '/drone0/pose' and the frame 'drone0'; any other stream a pose and a frame below its topic.
    """
    if not set(POSE_FIELDS) <= set(stream.fields):
        return None
    columns = np.array([stream.fields.index(name) for name in POSE_FIELDS])
    drone, _, stream_name = stream.topic.rpartition("/")
    prefix = drone if drone and stream_name == "state" else stream.topic
    return PoseColumns(columns, f"{prefix}/pose", prefix.strip("/"))


def pose_layout(channel: int) -> RecordLayout:
    """Return the layout of foxglove.PoseInFrame in the world."""
    return _pose_template().copy_to_channel(channel)


@cache
def _pose_template() -> RecordLayout:
    position, orientation = _marked_pose()
    pose = Pose(position=position, orientation=orientation)
    return marked_layout(PoseInFrame(timestamp=_stamp(), frame_id=WORLD, pose=pose), [1] * len(POSE_FIELDS))


def transform_layout(channel: int, frame: str) -> RecordLayout:
    """Return the layout of foxglove.FrameTransform from the world to a body's frame."""
    translation, rotation = _marked_pose()
    message = FrameTransform(
        timestamp=_stamp(), parent_frame_id=WORLD, child_frame_id=frame, translation=translation, rotation=rotation
    )
    return marked_layout(message, [1] * len(POSE_FIELDS)).copy_to_channel(channel)


def _stamp() -> Timestamp:
    return Timestamp(seconds=SECONDS_MARK, nanos=NANOS_MARK)


def _marked_pose() -> tuple[Vector3, Quaternion]:
    x, y, z, *q = (marker(number) for number in range(len(POSE_FIELDS)))
    return Vector3(x=x, y=y, z=z), Quaternion(x=q[0], y=q[1], z=q[2], w=q[3])


def time_slots(times_us: Microseconds) -> Microseconds:
    """Return the index of the thirtieth of a second that each time is in; the first row of each is displayed.

    A microsecond is added because a thirtieth of a second is not an integer count of microseconds: 33 333 µs is in the second.
    """
    return (times_us + 1) * POSE_RATE // 1_000_000


def first_slot_rows(slot: Array, previous_slot: int) -> Array:
    """Return the rows that are the first of their slot; the last row before them was in slot `previous_slot`."""
    changes = np.empty(len(slot), bool)
    changes[0] = slot[0] != previous_slot
    np.not_equal(slot[1:], slot[:-1], out=changes[1:])
    return np.flatnonzero(changes)


def log_message(line: LogLine) -> bytes:
    """Encode a log line as foxglove.Log."""
    seconds, micros = divmod(line.time_us, 1_000_000)
    stamp = Timestamp(seconds=seconds, nanos=micros * 1000)
    level: Any = LEVELS.index(line.level) + 1
    return Log(timestamp=stamp, level=level, name=line.name, message=line.message).SerializeToString()


def log_line(data: bytes) -> LogLine:
    """Invert `log_message`."""
    log = Log.FromString(data)
    time_us = log.timestamp.seconds * 1_000_000 + log.timestamp.nanos // 1000
    return LogLine(time_us, LEVELS[log.level - 1], log.name, log.message)


DISC_ALPHA = 0.4
REFERENCE_COLOUR = "#78828c"
MAX_TOTAL_PATH_POINTS, MAX_PATH_POINTS, MIN_PATH_POINTS = 24_000, 500, 60  # of all paths together, and of one path
EMPTY_WORLD = World()
DISC_THICKNESS = 0.01  # thickness of a propeller disc, relative to the vehicle's reach


def scene_message(
    vehicles: Mapping[str, Vehicle], world: World = EMPTY_WORLD, references: Mapping[str, Array] | None = None
) -> bytes:
    """Build the scene: one entity for each drone in its frame, and one for each solid and reference path in the world.

    `references` are positions (points, 3) [m] by drone name. The entities never expire.
    """
    shapes = {
        id(vehicle): scene_entity("", vehicle)
        for vehicle in {id(vehicle): vehicle for vehicle in vehicles.values()}.values()
    }
    paths = {name: path for name, path in (references or {}).items() if len(path) and np.ptp(path, axis=0).any()}
    entities = chain(
        (_drone_entity(shapes[id(vehicle)], name, vehicle) for name, vehicle in vehicles.items()),
        (solid_entity(name, solid, colour) for name, solid, colour in drawable_solids(world)),
        (reference_entity(name, path[_displayed_rows(len(path), len(paths))]) for name, path in paths.items()),
    )
    # Concatenated messages of one entity each are, in protobuf, one message of all: so a thousand are not in memory at once.
    return b"".join(SceneUpdate(entities=[entity]).SerializeToString(deterministic=True) for entity in entities)


def _drone_entity(shape: SceneEntity, name: str, vehicle: Vehicle) -> SceneEntity:
    """Copy the entity of a vehicle to a drone's frame."""
    entity = SceneEntity()
    entity.CopyFrom(shape)
    entity.frame_id, entity.id = name, f"{name} {vehicle.name}"
    return entity


def scene_entity(name: str, vehicle: Vehicle) -> SceneEntity:
    """Build a vehicle's entity: rods and discs as cylinders, the body as a cube."""
    parts, extent = shape_parts(vehicle), outer_frame_radius(vehicle)
    return SceneEntity(
        timestamp=Timestamp(seconds=0),
        frame_id=name,
        id=f"{name} {vehicle.name}",
        frame_locked=True,
        cylinders=[_cylinder(part, extent) for part in parts if not isinstance(part, BodyBox)],
        cubes=[
            CubePrimitive(
                pose=_pose(part.centre_B, IDENTITY), size=_vector(part.size_B), color=_colour(part.colour, 1.0)
            )
            for part in parts
            if isinstance(part, BodyBox)
        ],
    )


def solid_entity(name: str, solid: Solid, colour: str) -> SceneEntity:
    """Build a solid's entity as triangles."""
    vertices, triangles = solid_triangles(solid, span=40.0)
    return SceneEntity(
        timestamp=Timestamp(seconds=0),
        frame_id=WORLD,
        id=f"solid {name}",
        triangles=[
            TriangleListPrimitive(
                pose=_pose(ZERO, IDENTITY),
                points=[Point3(x=x, y=y, z=z) for x, y, z in vertices.tolist()],
                indices=triangles.ravel().tolist(),
                color=_colour(colour, 1.0),
            )
        ],
    )


def _displayed_rows(count: int, drones: int) -> Array:
    """Return the rows of a path to display: its ends, and a bounded count between them."""
    max_points = int(np.clip(MAX_TOTAL_PATH_POINTS // drones, MIN_PATH_POINTS, MAX_PATH_POINTS))
    return np.unique(np.linspace(0, count - 1, min(count, max_points)).round().astype(int))


def reference_entity(name: str, path: Array) -> SceneEntity:
    """Build the reference path of a drone as a line two pixels wide."""
    return SceneEntity(
        timestamp=Timestamp(seconds=0),
        frame_id=WORLD,
        id=f"{name} reference",
        lines=[
            LinePrimitive(
                type=LinePrimitive.LINE_STRIP,
                pose=_pose(ZERO, IDENTITY),
                thickness=2.0,
                scale_invariant=True,
                points=[Point3(x=x, y=y, z=z) for x, y, z in path.tolist()],
                color=_colour(REFERENCE_COLOUR, 1.0),
            )
        ],
    )


def _cylinder(part: Rod | Disc, extent: float) -> CylinderPrimitive:
    if isinstance(part, Rod):
        axis_vector = part.end_B - part.start_B
        centre, axis, radius, length, alpha = (
            part.start_B + axis_vector * 0.5,
            axis_vector,
            part.radius,
            float(norm(axis_vector)),
            1.0,
        )
    else:
        centre, axis, radius, length, alpha = (
            part.centre_B,
            part.axis_B,
            part.radius,
            DISC_THICKNESS * extent,
            DISC_ALPHA,
        )
    size = Vec3(2.0 * radius, 2.0 * radius, length)
    return CylinderPrimitive(
        pose=_pose(centre, rotation_from_up(axis)),
        size=_vector(size),
        bottom_scale=1.0,
        top_scale=1.0,
        color=_colour(part.colour, alpha),
    )


def rotation_from_up(axis: Vec3) -> Quat:
    """q ∝ (1 + z·a, z × a), the shortest rotation from z to a; half a turn about x for a = −z, the identity for a = 0."""
    if float(norm(axis)) == 0.0:
        return IDENTITY
    a = direction(axis)
    w = 1.0 + dot(UP, a)
    if w < 1e-9:
        return Quat(0.0, 1.0, 0.0, 0.0)
    u = cross(UP, a)
    return normalize(Quat(w, u.x, u.y, u.z))


def _pose(centre: Vec3, q: Quat) -> Pose:
    orientation = Quaternion(x=float(q.x), y=float(q.y), z=float(q.z), w=float(q.w))
    return Pose(position=_vector(centre), orientation=orientation)


def _vector(v: Vec3) -> Vector3:
    return Vector3(x=float(v.x), y=float(v.y), z=float(v.z))


def _colour(text: str, alpha: float) -> Color:
    red, green, blue = (int(text[k : k + 2], 16) / 255.0 for k in (1, 3, 5))
    return Color(r=red, g=green, b=blue, a=alpha)
