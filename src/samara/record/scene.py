"""How drones look in Foxglove's 3D panel: their parts as one foxglove.SceneUpdate, each in the frame that moves with it."""

from collections.abc import Mapping
from itertools import chain
from typing import Any

import numpy as np
from foxglove_schemas_protobuf.Color_pb2 import Color
from foxglove_schemas_protobuf.CubePrimitive_pb2 import CubePrimitive
from foxglove_schemas_protobuf.CylinderPrimitive_pb2 import CylinderPrimitive
from foxglove_schemas_protobuf.LinePrimitive_pb2 import LinePrimitive
from foxglove_schemas_protobuf.Point3_pb2 import Point3
from foxglove_schemas_protobuf.Pose_pb2 import Pose
from foxglove_schemas_protobuf.Quaternion_pb2 import Quaternion
from foxglove_schemas_protobuf.SceneEntity_pb2 import SceneEntity
from foxglove_schemas_protobuf.SceneUpdate_pb2 import SceneUpdate
from foxglove_schemas_protobuf.TriangleListPrimitive_pb2 import TriangleListPrimitive
from foxglove_schemas_protobuf.Vector3_pb2 import Vector3
from google.protobuf.timestamp_pb2 import Timestamp  # type: ignore[import-untyped]

from samara.core.algebra import IDENTITY, UP, ZERO, Quat, Vec3, cross, direction, dot, norm, normalize
from samara.core.types import Array
from samara.physics.types import Vehicle
from samara.record.foxglove import WORLD
from samara.scenario.meshes import drawn, triangles_of
from samara.scenario.world import World
from samara.vehicles.shape import Box, Disc, Rod, parts_of, reach_of
from samara.world.obstacles import Solid

DISC_ALPHA = 0.4
REFERENCE_COLOUR = "#78828c"
PATH_POINTS, MOST_POINTS, LEAST_POINTS = 24_000, 500, 60  # of all paths together, and of one
EMPTY = World()
THIN = 0.01  # of the reach: how thick a propeller's disc is


def scene_message(
    vehicles: Mapping[str, Vehicle], world: World = EMPTY, references: Mapping[str, Array] | None = None
) -> bytes:
    """One entity for each drone in the frame of its name, one for each solid and each path asked for in the world's, for ever

    `references` are places (points, 3) [m] by the drones' names.
    """
    shapes = {
        id(vehicle): scene_entity("", vehicle) for vehicle in {id(own): own for own in vehicles.values()}.values()
    }
    paths = {name: path for name, path in (references or {}).items() if len(path) and np.ptp(path, axis=0).any()}
    entities = chain(
        (_named(shapes[id(vehicle)], name, vehicle) for name, vehicle in vehicles.items()),
        (solid_entity(name, solid, colour) for name, solid, colour in drawn(world)),
        (reference_entity(name, path[_few(len(path), len(paths))]) for name, path in paths.items()),
    )
    # Messages of one entity after the other are, in protobuf, the message of all: so a thousand are not in memory at once.
    return b"".join(SceneUpdate(entities=[own]).SerializeToString(deterministic=True) for own in entities)


def _named(shape: Any, name: str, vehicle: Vehicle) -> Any:
    """The entity of a vehicle in a drone's frame"""
    own = SceneEntity()
    own.CopyFrom(shape)
    own.frame_id, own.id = name, f"{name} {vehicle.name}"
    return own


def scene_entity(name: str, vehicle: Vehicle) -> Any:
    """Rods and discs as cylinders, the body as a cube"""
    parts, reach = parts_of(vehicle), reach_of(vehicle)
    return SceneEntity(
        timestamp=Timestamp(seconds=0),
        frame_id=name,
        id=f"{name} {vehicle.name}",
        frame_locked=True,
        cylinders=[_cylinder(part, reach) for part in parts if not isinstance(part, Box)],
        cubes=[
            CubePrimitive(
                pose=_pose(part.centre_B, IDENTITY), size=_vector(part.size_B), color=_colour(part.colour, 1.0)
            )
            for part in parts
            if isinstance(part, Box)
        ],
    )


def solid_entity(name: str, solid: Solid, colour: str) -> Any:
    """A solid as triangles"""
    vertices, triangles = triangles_of(solid, span=40.0)
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


def _few(count: int, drones: int) -> Array:
    """The rows of a path that are drawn: its ends, and a bounded number between them"""
    most = int(np.clip(PATH_POINTS // drones, LEAST_POINTS, MOST_POINTS))
    return np.unique(np.linspace(0, count - 1, min(count, most)).round().astype(int))


def reference_entity(name: str, path: Array) -> Any:
    """The way a drone was asked to go, as a line two pixels wide"""
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


def _cylinder(part: Rod | Disc, reach: float) -> Any:
    if isinstance(part, Rod):
        along = part.end_B - part.start_B
        centre, axis, radius, length, alpha = part.start_B + along * 0.5, along, part.radius, float(norm(along)), 1.0
    else:
        centre, axis, radius, length, alpha = part.centre_B, part.axis_B, part.radius, THIN * reach, DISC_ALPHA
    size = Vec3(2.0 * radius, 2.0 * radius, length)
    return CylinderPrimitive(
        pose=_pose(centre, from_up_to(axis)),
        size=_vector(size),
        bottom_scale=1.0,
        top_scale=1.0,
        color=_colour(part.colour, alpha),
    )


def from_up_to(axis: Vec3) -> Quat:
    """q ∝ (1 + z·a, z × a), the shortest turn that takes z to a; half a turn about x where a is −z, none where a is 0"""
    if float(norm(axis)) == 0.0:
        return IDENTITY
    a = direction(axis)
    w = 1.0 + dot(UP, a)
    if w < 1e-9:
        return Quat(0.0, 1.0, 0.0, 0.0)
    u = cross(UP, a)
    return normalize(Quat(w, u.x, u.y, u.z))


def _pose(centre: Vec3, q: Quat) -> Any:
    turn = Quaternion(x=float(q.x), y=float(q.y), z=float(q.z), w=float(q.w))
    return Pose(position=_vector(centre), orientation=turn)


def _vector(v: Vec3) -> Any:
    return Vector3(x=float(v.x), y=float(v.y), z=float(v.z))


def _colour(text: str, alpha: float) -> Any:
    red, green, blue = (int(text[k : k + 2], 16) / 255.0 for k in (1, 3, 5))
    return Color(r=red, g=green, b=blue, a=alpha)
