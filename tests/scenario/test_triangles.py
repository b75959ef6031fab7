"""Triangles of solids: a closed surface seen from outside, and a height map without holes."""

import numpy as np
import pytest

from samara.core.algebra import Vec3, quat_from_euler
from samara.physics.ground.solids import Box, Capsule, Sphere
from samara.scenario.meshes import solid_faces, solid_triangles
from samara.world.obstacles import HeightMap

SOLIDS = {
    "box": (
        Box(Vec3(1.0, -2.0, 0.5), Vec3(0.3, 0.4, 0.5), quat_from_euler(0.3, 0.2, 1.0)),
        8.0 * 0.3 * 0.4 * 0.5,
        1e-12,
    ),
    "sphere": (Sphere(Vec3(1.0, 2.0, 3.0), 0.7), 4.0 / 3.0 * np.pi * 0.7**3, 0.05),
    "capsule": (
        Capsule(Vec3(0.0, 0.0, 0.0), Vec3(1.0, 1.0, 2.0), 0.4),
        np.pi * 0.4**2 * np.sqrt(6.0) + 4.0 / 3.0 * np.pi * 0.4**3,
        0.05,
    ),
}


@pytest.mark.parametrize("name", SOLIDS)
def test_triangles_enclose_the_volume_of_their_solid(name):
    """V = ⅙ Σ a · (b × c), positive where triangles are seen from outside (Gauss)"""
    solid, volume, tolerance = SOLIDS[name]
    vertices, triangles = solid_triangles(solid)
    a, b, c = vertices[triangles.astype(int)].transpose(1, 0, 2)
    assert np.einsum("ij,ij->", a, np.cross(b, c)) / 6.0 == pytest.approx(volume, rel=tolerance)


def test_both_triangles_of_every_cell_of_a_height_map_are_drawn():
    """From above they cover the map once, and each corner has the height of its position."""
    x, y = np.array([0.0, 1.0, 3.0]), np.array([-1.0, 0.5, 1.0, 4.0])
    z = np.arange(12.0).reshape(3, 4) ** 2
    vertices, triangles = solid_triangles(HeightMap(x, y, z))
    a, b, c = vertices[triangles.astype(int)].transpose(1, 0, 2)
    areas = 0.5 * np.cross((b - a)[:, :2], (c - a)[:, :2])
    assert len(triangles) == 2 * 2 * 3
    assert (areas > 0.0).all() and areas.sum() == pytest.approx(3.0 * 5.0)
    cells = areas.reshape(-1, 2).sum(axis=1)
    assert sorted(cells) == pytest.approx(sorted(np.outer(np.diff(x), np.diff(y)).ravel()))
    assert areas.reshape(-1, 2) == pytest.approx(np.repeat(0.5 * cells[:, None], 2, axis=1))
    for px, py, pz in vertices:
        assert pz == z[np.flatnonzero(x == px)[0], np.flatnonzero(y == py)[0]]
    assert len(solid_faces(HeightMap(x, y, z))) == 6
