"""Meshes of a vehicle: models (GLB) of its frame and body axes, propeller blades, and its shadow."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import trimesh
from trimesh import Trimesh
from trimesh.visual.material import PBRMaterial

from samara.core.algebra import ZERO, Quat, Vec3, cross, dot, matrix_from_quat, norm, quat_from_axis_angle
from samara.core.types import Array
from samara.physics.types import Vehicle
from samara.vehicles.shape import COLOURS, INK, BodyBox, Disc, Part, Rod, axes_length, shape_parts

DISC_OPACITY = 0.28
ARROW_ANGLES = np.linspace(0.0, np.radians(285.0), 28)  # the arrow on a propeller disc that shows the direction of spin
AXES = (Vec3(1.0, 0.0, 0.0), Vec3(0.0, 1.0, 0.0), Vec3(0.0, 0.0, 1.0))


def rgb(colour: str) -> tuple[int, int, int]:
    """Parse '#rrggbb' into three numbers from 0 to 255."""
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)


def linear_rgb(colour: str) -> tuple[int, int, int]:
    """Parse '#rrggbb' into linear light, as models, batches and lines of several colours need it."""
    red, green, blue = (round(255 * _srgb_to_linear(channel / 255)) for channel in rgb(colour))
    return red, green, blue


def _srgb_to_linear(encoded: float) -> float:
    """IEC 61966-2-1, from sRGB to linear light."""
    return encoded / 12.92 if encoded <= 0.04045 else float(((encoded + 0.055) / 1.055) ** 2.4)


def rotation_from_z(axis: Vec3) -> Quat:
    """Return the shortest rotation from z to a unit vector."""
    z = Vec3(0.0, 0.0, 1.0)
    axis_of_rotation = cross(z, axis)
    sine = float(norm(axis_of_rotation))
    if sine < 1e-9:
        return Quat(1.0, 0.0, 0.0, 0.0) if axis.z > 0.0 else Quat(0.0, 1.0, 0.0, 0.0)
    return quat_from_axis_angle(axis_of_rotation * (1.0 / sine), float(np.arctan2(sine, float(dot(z, axis)))))


def frame_model(
    vehicle: Vehicle, colour: str | None = None, opacity: float = 1.0, excluded: Sequence[Part] = ()
) -> bytes:
    """Model the vehicle without blades and the parts `excluded`; body and arms in `colour`, translucent for a ghost."""
    meshes_by_material: dict[tuple[str, float], list[Trimesh]] = {}
    for part in shape_parts(vehicle):
        if part in excluded:
            continue
        part_colour = colour if colour and part.colour == INK else part.colour
        for mesh, part_opacity in _meshes(part):
            meshes_by_material.setdefault(
                (part_colour if opacity == 1.0 or not colour else colour, part_opacity * opacity), []
            ).append(mesh)
    return _glb(meshes_by_material)


def disc_model(part: Disc) -> bytes:
    """Model one propeller disc, upright at the origin, for a rotor that a servo tilts."""
    meshes = _disc(part._replace(centre_B=ZERO, axis_B=Vec3(0.0, 0.0, 1.0)))
    return _glb({(part.colour, opacity): [mesh] for mesh, opacity in meshes})


def ground_axes_model(length: float) -> bytes:
    """Model the world's x and y axes as thin arrows for the take-off point."""
    return _axes(AXES[:2], length, 0.006)


def body_axes_model(vehicle: Vehicle) -> bytes:
    """Model the axes forward, left and up."""
    return _axes(AXES, axes_length(vehicle), 0.014)


def _axes(axes: Sequence[Vec3], length: float, thickness: float) -> bytes:
    """Model arrows in the colours of x, y and z curves."""
    return _glb({(COLOURS[k], 1.0): _arrow(axis, length, thickness * length) for k, axis in enumerate(axes)})


def blade_mesh() -> tuple[Array, Array]:
    """Return vertices and faces of two blades of radius 1 about z, twisted so that the light shows their rotation."""
    half_width, twist = 0.11, 0.035
    blade = np.array(
        [[0.0, -0.04, 0.0], [0.35, -half_width, -twist], [1.0, -0.05, 0.0], [1.0, 0.05, 0.0], [0.35, half_width, twist]]
    )
    blade = np.vstack([blade, [[0.0, 0.04, 0.0]]])
    opposite_blade = blade * np.array([-1.0, -1.0, 1.0])
    triangles = np.array([[0, 1, 4], [0, 4, 5], [1, 2, 3], [1, 3, 4]])
    return np.vstack([blade, opposite_blade]), np.vstack([triangles, triangles + len(blade)])


def failure_mesh() -> tuple[Array, Array]:
    """Return a flat ring of radius 1 about z with a cross, visible from both sides: the mark of a failed motor."""
    angles = np.linspace(0.0, 2.0 * np.pi, 40, endpoint=False)
    rim = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    k = np.arange(len(angles))
    next_k = (k + 1) % len(angles)
    ring = np.concatenate(
        [np.stack([k, len(k) + k, len(k) + next_k], axis=1), np.stack([k, len(k) + next_k, next_k], axis=1)]
    )
    bar = np.array([[-0.9, -0.11], [0.9, -0.11], [0.9, 0.11], [-0.9, 0.11]])
    bars = np.concatenate([bar @ _rotation_2d(angle) for angle in np.radians((45.0, 135.0))])
    bar_start = 2 * len(angles)
    bar_faces = [
        [bar_start + offset + corner for corner in face] for offset in (0, 4) for face in ([0, 1, 2], [0, 2, 3])
    ]
    vertices_2d = np.concatenate([0.8 * rim, rim, bars])
    faces = np.concatenate([ring, np.array(bar_faces)])
    return np.column_stack([vertices_2d, np.full(len(vertices_2d), 0.06)]), np.concatenate([faces, faces[:, ::-1]])


def _rotation_2d(angle: float) -> Array:
    return np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])


def _meshes(part: Part) -> list[tuple[Trimesh, float]]:
    if isinstance(part, Rod):
        start, end = np.array(part.start_B, dtype=float), np.array(part.end_B, dtype=float)
        return [(trimesh.creation.cylinder(part.radius, segment=(start, end), sections=8), 1.0)]
    if isinstance(part, BodyBox):
        box = trimesh.creation.box(np.array(part.size_B, dtype=float))
        box.apply_translation(np.array(part.centre_B, dtype=float))
        return [(box, 1.0)]
    return _disc(part)


def _disc(part: Disc) -> list[tuple[Trimesh, float]]:
    plate = trimesh.creation.cylinder(part.radius, height=0.01 * part.radius, sections=32)
    arrow = arc_arrow(part.radius, part.spin)
    for mesh in (plate, arrow):
        mesh.apply_transform(_pose(rotation_from_z(part.axis_B), part.centre_B))
    return [(plate, DISC_OPACITY), (arrow, 1.0)]


def arc_arrow(radius: float, spin: int) -> Trimesh:
    """Create a flat curved arrow on the disc in the direction of spin, visible from both sides."""
    angles = spin * ARROW_ANGLES
    inner, outer, height = 0.86 * radius, 0.95 * radius, 0.02 * radius
    rim = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    vertices = np.vstack([inner * rim, outer * rim])
    count = len(angles)
    faces = [face for k in range(count - 1) for face in ([k, count + k, count + k + 1], [k, count + k + 1, k + 1])]
    end, tangent = rim[-1], spin * np.array([-rim[-1][1], rim[-1][0]])
    head = np.array([0.76 * radius * end, 1.05 * radius * end, 0.905 * radius * end + 0.3 * radius * tangent])
    faces.append([2 * count, 2 * count + 1, 2 * count + 2])
    vertices_2d = np.vstack([vertices, head])
    vertices_3d = np.column_stack([vertices_2d, np.full(len(vertices_2d), height)])
    double_sided = faces + [face[::-1] for face in faces]
    return trimesh.Trimesh(vertices_3d, double_sided, process=False)


def _arrow(axis: Vec3, length: float, radius: float) -> list[Trimesh]:
    shaft = trimesh.creation.cylinder(
        radius, segment=(np.zeros(3), (length - 10.0 * radius) * np.array(axis)), sections=8
    )
    head = trimesh.creation.cone(2.6 * radius, 10.0 * radius, sections=10)
    head.apply_transform(_pose(rotation_from_z(axis), axis * (length - 10.0 * radius)))
    return [shaft, head]


def _pose(q: Quat, p: Vec3) -> Array:
    pose = np.eye(4)
    pose[:3, :3] = np.array(matrix_from_quat(q), dtype=float).reshape(3, 3)
    pose[:3, 3] = np.array(p, dtype=float)
    return pose


def _glb(meshes_by_material: dict[tuple[str, float], list[Trimesh]]) -> bytes:
    """Export one mesh per colour and opacity, which a browser draws for all drones in one call."""
    scene = trimesh.Scene()
    for (colour, opacity), meshes in meshes_by_material.items():
        mesh = trimesh.util.concatenate(meshes)
        assert isinstance(mesh, Trimesh)
        _add(scene, mesh, colour, opacity)
    return bytes(scene.export(file_type="glb"))  # type: ignore[no-untyped-call]


def _add(scene: trimesh.Scene, mesh: Trimesh, colour: str, opacity: float) -> None:
    is_translucent = opacity < 1.0
    pbr: Any = PBRMaterial
    material = pbr(
        baseColorFactor=(*linear_rgb(colour), round(255 * opacity)),
        metallicFactor=0.0,
        roughnessFactor=0.75,
        doubleSided=is_translucent,
        alphaMode="BLEND" if is_translucent else "OPAQUE",
    )
    texture_visuals: Any = trimesh.visual.TextureVisuals
    mesh.visual = texture_visuals(material=material)
    scene.add_geometry(mesh)


SHADOW = "#c2c9d0"
DISC_VERTICES = 28  # vertices of a disc
SHADOW_HEIGHT_CELLS = 0.001  # height of shadows relative to a grid cell, so that the grid does not shine through


def silhouette(vehicle: Vehicle) -> tuple[Array, Array]:
    """Return the outline of the vehicle from above in body axes: vertices (m, 3) at z = 0, and upward faces [m]."""
    outlines = [_outline(part) for part in shape_parts(vehicle)]
    vertices, faces, count = [], [], 0
    for outline in outlines:
        corners = np.arange(1, len(outline) - 1)
        vertices.append(np.column_stack([outline, np.zeros(len(outline))]))
        faces.append(count + np.stack([np.zeros_like(corners), corners, corners + 1], axis=1))
        count += len(outline)
    return np.concatenate(vertices), np.concatenate(faces)


def _outline(part: BodyBox | Disc | Rod) -> Array:
    """Return a convex polygon, counter-clockwise, (corners, 2)."""
    if isinstance(part, Disc):
        angle = np.linspace(0.0, 2.0 * np.pi, DISC_VERTICES, endpoint=False)
        return _flat(part.centre_B) + part.radius * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    if isinstance(part, BodyBox):
        half = 0.5 * _flat(part.size_B)
        return _flat(part.centre_B) + half * np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]])
    start, end = _flat(part.start_B), _flat(part.end_B)
    length = float(np.linalg.norm(end - start))
    direction = (end - start) / length if length > 0.0 else np.array([1.0, 0.0])  # an upright rod becomes a square
    side_offset, end_offset = (
        part.radius * np.array([-direction[1], direction[0]]),
        part.radius * direction * (length == 0.0),
    )
    return np.array(
        [
            start - side_offset - end_offset,
            end - side_offset + end_offset,
            end + side_offset + end_offset,
            start + side_offset - end_offset,
        ]
    )


def _flat(v: Vec3) -> Array:
    return np.array([v.x, v.y], dtype=float)


def shadow_poses(p_W: Array, q_WB: Array, height: float) -> tuple[Array, Array]:
    """Return the positions (n, 3) of shadows of drones at p, q on a height, and their rotations about the vertical (n, 4)."""
    w, x, y, z = q_WB.T
    half_yaw = 0.5 * np.arctan2(2.0 * (w * z + x * y), 1.0 - 2.0 * (y * y + z * z))  # half the yaw
    zeros = np.zeros_like(half_yaw)
    positions = np.column_stack([p_W[:, :2], np.full(len(p_W), height)])
    return positions, np.stack([np.cos(half_yaw), zeros, zeros, np.sin(half_yaw)], axis=1)
