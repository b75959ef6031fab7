"""Samara flies without SciPy, and its replacements equal SciPy's functions."""

import subprocess
import sys

import numpy as np
import pytest
from scipy.interpolate import PchipInterpolator
from scipy.ndimage import gaussian_filter1d
from scipy.spatial import ConvexHull, cKDTree

from samara.propeller.blade import monotone_cubic
from samara.scenario.meshes import convex_hull
from samara.sim.collide.clearance import close_pairs
from samara.view.film.render import gaussian_mean

RANDOM = np.random.default_rng(3)


@pytest.mark.parametrize(
    "y", [(1, 2, 2, 5, 4, 4.5), (0, 0, 0, 0, 0, 0), (3, 1, 4, 1, 5, 9), (1, 0.9, 0.5, 0.4, 0.1, -3)]
)
def test_the_monotone_cubic_is_pchip(y):
    """At and between its points, and a little beyond them."""
    x, at = (0.1, 0.2, 0.5, 0.55, 0.9, 1.0), np.linspace(0.05, 1.05, 401)
    assert monotone_cubic(at, x, y) == pytest.approx(PchipInterpolator(x, y)(at), rel=1e-12, abs=1e-12)
    assert monotone_cubic(0.3, x, y) == pytest.approx(float(PchipInterpolator(x, y)(0.3)), rel=1e-13, abs=1e-13)


@pytest.mark.parametrize("spread", [(10.0, 1.0, 1.0), (0.0, 0.0, 30.0), (0.0, 0.0, 0.0), (3.0, 3.0, 3.0)])
@pytest.mark.parametrize("n", [1, 2, 300])
def test_pairs_within_are_those_of_the_tree(n, spread):
    """The same pairs in the same order, along a line, in a plane, in a heap."""
    p_W = RANDOM.uniform(-1.0, 1.0, (3, n)) * np.array(spread)[:, None]
    pairs = cKDTree(p_W.T).query_pairs(1.0, output_type="ndarray").reshape(-1, 2)
    assert np.array_equal(close_pairs(p_W, 1.0), pairs[np.lexsort(pairs.T[::-1])])


def test_the_hull_is_the_convex_hull():
    """The same corners, counter-clockwise: the shoelace area is the hull's, and points on an edge are not corners."""
    points = np.concatenate([RANDOM.normal(size=(60, 2)), [(-5.0, -5.0), (5.0, -5.0), (0.0, -5.0), (5.0, 5.0)]])
    corners = convex_hull(points)
    exact = ConvexHull(points)
    assert {tuple(point) for point in corners} == {tuple(point) for point in points[exact.vertices]}
    x, y = corners.T
    assert 0.5 * (x * np.roll(y, -1) - y * np.roll(x, -1)).sum() == pytest.approx(exact.volume, rel=1e-12)


@pytest.mark.parametrize("deviation", [1.0, 2.7, 40.0])
def test_the_bell_mean_is_a_gaussian_filter(deviation):
    values = RANDOM.normal(size=(50, 2)).cumsum(axis=0)
    expected = gaussian_filter1d(values, deviation, axis=0, mode="nearest")
    assert gaussian_mean(values, deviation) == pytest.approx(expected, abs=1e-12)
    assert gaussian_mean(values[:, 0], deviation) == pytest.approx(expected[:, 0], abs=1e-12)


def test_everything_imports_without_scipy():
    """Links, plots, controllers, the engine: the modules of a flight and of its plots."""
    modules = (
        "cli, sim.fly, sim.collide.collisions, control.lqr, control.mpc, documents.rigid_body, propeller.blade, "
        "view.film.render, view.report.report"
    )
    program = (
        f"import sys; sys.modules['scipy'] = None; import {', '.join(f'samara.{name}' for name in modules.split(', '))}"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-1000:]


@pytest.mark.long
def test_the_default_mission_and_its_report_without_scipy(tmp_path):
    """`samara fly` as in `make fly`, shorter, with every import of SciPy refused; obstacles are drawn."""
    program = (
        "import sys\nsys.modules['scipy'] = None\nfrom samara.cli import main\n"
        "sys.argv = ['samara', 'fly', sys.argv[1], '--set', 'duration=1', '--out', sys.argv[2]]\nmain()\n"
    )
    for scenario in ("waypoints", "obstacle_course", "stack"):
        out = tmp_path / scenario
        done = subprocess.run([sys.executable, "-c", program, scenario, str(out)], capture_output=True, text=True)
        assert "Traceback" not in done.stderr and "SciPy" not in done.stderr, done.stderr[-2000:]
        written = {path.name for path in out.rglob("*")}
        assert {"run.mcap", "run.png", "report.html"} <= written
