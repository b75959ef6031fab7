"""The plane under a point of a height map: bilinear between the corners of a cell, constant beyond the edges."""

import numpy as np
import pytest

from samara.core.algebra import Vec3
from samara.world.obstacles import HeightMap

X, Y = np.array([-1.0, 0.5, 2.0]), np.array([0.0, 1.0, 4.0])
A, B, C, D = 0.3, 0.2, -0.4, 0.5
SADDLE = HeightMap(X, Y, A + B * X[:, None] + C * Y[None, :] + D * X[:, None] * Y[None, :])
INSIDE = [(x, y) for x in (-0.9, -0.2, 0.8, 1.9) for y in (0.1, 0.7, 2.0, 3.8)]


def expected_plane(x, y):
    """h = a + b x + c y + d x y and its unit normal (−∂h/∂x, −∂h/∂y, 1)/|…|: bilinear, so the map is exact on any grid."""
    gradient = np.array([-(B + D * y), -(C + D * x), 1.0])
    return A + B * x + C * y + D * x * y, gradient / np.linalg.norm(gradient)


@pytest.mark.parametrize(("x", "y"), INSIDE)
def test_a_bilinear_surface_is_reproduced_exactly(x, y):
    height, normal = expected_plane(x, y)
    plane = SADDLE.tangent_plane(Vec3(x, y, 9.0))
    assert list(plane.point_W) == pytest.approx([x, y, height], abs=1e-14)
    assert list(plane.normal_W) == pytest.approx(normal, abs=1e-14)


def test_an_array_of_points_has_the_planes_of_its_points():
    x, y = np.array(INSIDE).T
    plane = SADDLE.tangent_plane(Vec3(x, y, 0.0 * x))
    for k, (height, normal) in enumerate(expected_plane(*point) for point in INSIDE):
        assert plane.point_W.z[k] == pytest.approx(height, abs=1e-14)
        assert [component[k] for component in plane.normal_W] == pytest.approx(normal, abs=1e-14)


def test_symbols_have_the_planes_of_numbers():
    """The unrolled form, with every cell in one expression; beyond an edge too."""
    casadi = pytest.importorskip("casadi")
    x, y = casadi.SX.sym("x"), casadi.SX.sym("y")
    plane = SADDLE.tangent_plane(Vec3(x, y, 0.0))
    evaluate = casadi.Function("plane", [x, y], [plane.point_W.z, *plane.normal_W])
    for point in [*INSIDE, (-3.0, 2.0), (0.3, 6.0), (5.0, -1.0)]:
        numbers = SADDLE.tangent_plane(Vec3(*point, 0.0))
        assert [float(value) for value in evaluate(*point)] == pytest.approx(
            [numbers.point_W.z, *numbers.normal_W], abs=1e-14
        )


@pytest.mark.parametrize(
    ("point", "edge", "across"),
    [
        ((-3.0, 2.0), (-1.0, 2.0), 0),
        ((5.0, 2.0), (2.0, 2.0), 0),
        ((0.7, -2.0), (0.7, 0.0), 1),
        ((0.7, 9.0), (0.7, 4.0), 1),
    ],
)
def test_beyond_an_edge_the_height_is_that_of_the_edge(point, edge, across):
    """The slope across the edge is 0, the slope along it stays."""
    height, _ = expected_plane(*edge)
    slopes = np.array([B + D * edge[1], C + D * edge[0]])
    slopes[across] = 0.0
    normal = np.array([*-slopes, 1.0]) / np.sqrt(1.0 + slopes @ slopes)
    plane = SADDLE.tangent_plane(Vec3(*point, 1.0))
    assert plane.point_W.z == pytest.approx(height, abs=1e-14) and list(plane.normal_W) == pytest.approx(normal)
