"""Parts of a vehicle as triangles: one model (GLB) for its frame, one for its body axes, and the blades of a propeller."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import trimesh
from trimesh import Trimesh
from trimesh.visual.material import PBRMaterial

from samara.core.algebra import ZERO, Quat, Vec3, cross, dot, matrix_from_quat, norm, quat_from_axis_angle
from samara.core.types import Array
from samara.physics.types import Vehicle
from samara.vehicles.shape import COLOURS, INK, Box, Disc, Part, Rod, axes_length, parts_of

DISC_OPACITY = 0.28
ARC = np.linspace(0.0, np.radians(285.0), 28)  # the arrow on a propeller disc that tells which way it turns
AXES = (Vec3(1.0, 0.0, 0.0), Vec3(0.0, 1.0, 0.0), Vec3(0.0, 0.0, 1.0))


def rgb(colour: str) -> tuple[int, int, int]:
    """'#rrggbb' as three numbers from 0 to 255"""
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)


def linear(colour: str) -> tuple[int, int, int]:
    """'#rrggbb' in proportion to light: how models, batches and lines of several colours are told theirs"""
    red, green, blue = (round(255 * _decoded(part / 255)) for part in rgb(colour))
    return red, green, blue


def _decoded(encoded: float) -> float:
    """IEC 61966-2-1, from sRGB to light"""
    return encoded / 12.92 if encoded <= 0.04045 else float(((encoded + 0.055) / 1.055) ** 2.4)


def turn_to(axis: Vec3) -> Quat:
    """The shortest turn that brings z to a unit vector"""
    z = Vec3(0.0, 0.0, 1.0)
    about = cross(z, axis)
    size = float(norm(about))
    if size < 1e-9:
        return Quat(1.0, 0.0, 0.0, 0.0) if axis.z > 0.0 else Quat(0.0, 1.0, 0.0, 0.0)
    return quat_from_axis_angle(about * (1.0 / size), float(np.arctan2(size, float(dot(z, axis)))))


def frame_model(
    vehicle: Vehicle, colour: str | None = None, opacity: float = 1.0, without: Sequence[Part] = ()
) -> bytes:
    """The vehicle without its blades; body and arms in a colour of their own, all of it translucent for a ghost"""
    alike: dict[tuple[str, float], list[Trimesh]] = {}
    for part in parts_of(vehicle):
        if part in without:
            continue
        own = colour if colour and part.colour == INK else part.colour
        for mesh, share in _meshes(part):
            alike.setdefault((own if opacity == 1.0 or not colour else colour, share * opacity), []).append(mesh)
    return _glb(alike)


def disc_model(part: Disc) -> bytes:
    """The disc of one propeller, upright about the origin: one that a servo tilts is placed for itself"""
    meshes = _disc(part._replace(centre_B=ZERO, axis_B=Vec3(0.0, 0.0, 1.0)))
    return _glb({(part.colour, share): [mesh] for mesh, share in meshes})


def ground_axes_model(length: float) -> bytes:
    """x and y as thin arrows; no z, in which a drone that lifts off would stand"""
    return _axes(AXES[:2], length, 0.006)


def body_axes_model(vehicle: Vehicle) -> bytes:
    """Forward, left, up"""
    return _axes(AXES, axes_length(vehicle), 0.014)


def _axes(axes: Sequence[Vec3], length: float, thickness: float) -> bytes:
    """Arrows in the colours that curves of x, y and z have"""
    return _glb({(COLOURS[k], 1.0): _arrow(axis, length, thickness * length) for k, axis in enumerate(axes)})


def blades() -> tuple[Array, Array]:
    """Two blades of radius 1 about z, twisted a little so that light shows them turning: vertices and faces"""
    wide, twist = 0.11, 0.035
    one = np.array([[0.0, -0.04, 0.0], [0.35, -wide, -twist], [1.0, -0.05, 0.0], [1.0, 0.05, 0.0], [0.35, wide, twist]])
    one = np.vstack([one, [[0.0, 0.04, 0.0]]])
    other = one * np.array([-1.0, -1.0, 1.0])
    fan = np.array([[0, 1, 4], [0, 4, 5], [1, 2, 3], [1, 3, 4]])
    return np.vstack([one, other]), np.vstack([fan, fan + len(one)])


def crossed_out() -> tuple[Array, Array]:
    """A ring of radius 1 about z with a cross in it, flat, seen from both sides: what lies on the disc of a dead motor"""
    turn = np.linspace(0.0, 2.0 * np.pi, 40, endpoint=False)
    rim = np.stack([np.cos(turn), np.sin(turn)], axis=1)
    k = np.arange(len(turn))
    after = (k + 1) % len(turn)
    ring = np.concatenate(
        [np.stack([k, len(k) + k, len(k) + after], axis=1), np.stack([k, len(k) + after, after], axis=1)]
    )
    bar = np.array([[-0.9, -0.11], [0.9, -0.11], [0.9, 0.11], [-0.9, 0.11]])
    bars = np.concatenate([bar @ _turned(angle) for angle in np.radians((45.0, 135.0))])
    first = 2 * len(turn)
    pairs = [[first + at + corner for corner in face] for at in (0, 4) for face in ([0, 1, 2], [0, 2, 3])]
    flat = np.concatenate([0.8 * rim, rim, bars])
    faces = np.concatenate([ring, np.array(pairs)])
    return np.column_stack([flat, np.full(len(flat), 0.06)]), np.concatenate([faces, faces[:, ::-1]])


def _turned(angle: float) -> Array:
    return np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])


def _meshes(part: Part) -> list[tuple[Trimesh, float]]:
    if isinstance(part, Rod):
        start, end = np.array(part.start_B, dtype=float), np.array(part.end_B, dtype=float)
        return [(trimesh.creation.cylinder(part.radius, segment=(start, end), sections=8), 1.0)]
    if isinstance(part, Box):
        box = trimesh.creation.box(np.array(part.size_B, dtype=float))
        box.apply_translation(np.array(part.centre_B, dtype=float))
        return [(box, 1.0)]
    return _disc(part)


def _disc(part: Disc) -> list[tuple[Trimesh, float]]:
    plate = trimesh.creation.cylinder(part.radius, height=0.01 * part.radius, sections=32)
    arrow = arc_arrow(part.radius, part.spin)
    for mesh in (plate, arrow):
        mesh.apply_transform(_pose(turn_to(part.axis_B), part.centre_B))
    return [(plate, DISC_OPACITY), (arrow, 1.0)]


def arc_arrow(radius: float, spin: int) -> Trimesh:
    """A curved arrow that lies on the disc and points the way the propeller turns: thin on both faces, seen from both."""
    angles = spin * ARC
    inner, outer, height = 0.86 * radius, 0.95 * radius, 0.02 * radius
    rim = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    vertices = np.vstack([inner * rim, outer * rim])
    count = len(angles)
    faces = [face for k in range(count - 1) for face in ([k, count + k, count + k + 1], [k, count + k + 1, k + 1])]
    end, ahead = rim[-1], spin * np.array([-rim[-1][1], rim[-1][0]])
    head = np.array([0.76 * radius * end, 1.05 * radius * end, 0.905 * radius * end + 0.3 * radius * ahead])
    faces.append([2 * count, 2 * count + 1, 2 * count + 2])
    flat = np.vstack([vertices, head])
    solid = np.column_stack([flat, np.full(len(flat), height)])
    both = faces + [face[::-1] for face in faces]
    return trimesh.Trimesh(solid, both, process=False)


def _arrow(axis: Vec3, length: float, thick: float) -> list[Trimesh]:
    shaft = trimesh.creation.cylinder(
        thick, segment=(np.zeros(3), (length - 10.0 * thick) * np.array(axis)), sections=8
    )
    head = trimesh.creation.cone(2.6 * thick, 10.0 * thick, sections=10)
    head.apply_transform(_pose(turn_to(axis), axis * (length - 10.0 * thick)))
    return [shaft, head]


def _pose(q: Quat, p: Vec3) -> Array:
    pose = np.eye(4)
    pose[:3, :3] = np.array(matrix_from_quat(q), dtype=float).reshape(3, 3)
    pose[:3, 3] = np.array(p, dtype=float)
    return pose


def _glb(alike: dict[tuple[str, float], list[Trimesh]]) -> bytes:
    """One mesh for each colour and opacity: a browser draws as many at once as there are drones."""
    scene = trimesh.Scene()
    for (colour, opacity), meshes in alike.items():
        mesh = trimesh.util.concatenate(meshes)
        assert isinstance(mesh, Trimesh)
        _add(scene, mesh, colour, opacity)
    return bytes(scene.export(file_type="glb"))  # type: ignore[no-untyped-call]


def _add(scene: trimesh.Scene, mesh: Trimesh, colour: str, opacity: float) -> None:
    see_through = opacity < 1.0
    pbr: Any = PBRMaterial
    material = pbr(
        baseColorFactor=(*linear(colour), round(255 * opacity)),
        metallicFactor=0.0,
        roughnessFactor=0.75,
        doubleSided=see_through,
        alphaMode="BLEND" if see_through else "OPAQUE",
    )
    textured: Any = trimesh.visual.TextureVisuals
    mesh.visual = textured(material=material)
    scene.add_geometry(mesh)


SHADOW = "#c2c9d0"
CORNERS = 28  # of a disc
ABOVE = 0.001  # of a square of the grid, so that the grid does not shine through


def silhouette(vehicle: Vehicle) -> tuple[Array, Array]:
    """The vehicle from above, flat, body axes: vertices (m, 3) at z = 0 and faces that look up  [m]"""
    outlines = [_outline(part) for part in parts_of(vehicle)]
    vertices, faces, count = [], [], 0
    for outline in outlines:
        corners = np.arange(1, len(outline) - 1)
        vertices.append(np.column_stack([outline, np.zeros(len(outline))]))
        faces.append(count + np.stack([np.zeros_like(corners), corners, corners + 1], axis=1))
        count += len(outline)
    return np.concatenate(vertices), np.concatenate(faces)


def _outline(part: Box | Disc | Rod) -> Array:
    """A convex polygon, counter-clockwise, (corners, 2)"""
    if isinstance(part, Disc):
        angle = np.linspace(0.0, 2.0 * np.pi, CORNERS, endpoint=False)
        return _flat(part.centre_B) + part.radius * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    if isinstance(part, Box):
        half = 0.5 * _flat(part.size_B)
        return _flat(part.centre_B) + half * np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]])
    start, end = _flat(part.start_B), _flat(part.end_B)
    length = float(np.linalg.norm(end - start))
    along = (end - start) / length if length > 0.0 else np.array([1.0, 0.0])  # of an upright rod the square around it
    wide, ahead = part.radius * np.array([-along[1], along[0]]), part.radius * along * (length == 0.0)
    return np.array([start - wide - ahead, end - wide + ahead, end + wide + ahead, start + wide - ahead])


def _flat(v: Vec3) -> Array:
    return np.array([v.x, v.y], dtype=float)


def shadow_poses(p_W: Array, q_WB: Array, height: float) -> tuple[Array, Array]:
    """Where the shadows of drones at p, q lie at a height, (n, 3), and their turns about the vertical, (n, 4)"""
    w, x, y, z = q_WB.T
    half = 0.5 * np.arctan2(2.0 * (w * z + x * y), 1.0 - 2.0 * (y * y + z * z))  # of the heading of the nose
    still = np.zeros_like(half)
    places = np.column_stack([p_W[:, :2], np.full(len(p_W), height)])
    return places, np.stack([np.cos(half), still, still, np.sin(half)], axis=1)
