"""Flights through forests with a depth camera, seen from above, and the camera image on one of them.

`PYTHONPATH=docs python -m figures.forest docs/images` draws the pictures of the documentation.
"""

import runpy
import sys
from pathlib import Path
from typing import Any

import numpy as np

import samara
from samara.control.depth_observation import COLUMNS, ROWS, block_inverse_distance
from samara.core.atomic_files import atomic_write
from samara.learn.tasks.navigate import GOAL_W, HALF_WIDTH_M
from samara.scenario.file import parse_scenario
from samara.vehicles.shape import COLOURS
from samara.view.plot.style import samara_style

EXAMPLE = Path(__file__).parents[2] / "examples" / "7_through_a_forest.py"
forest_toml = runpy.run_path(str(EXAMPLE))["forest_toml"]
SEEDS = (1, 2, 3, 4, 5, 6)
SHOWN_FLIGHT = 0  # index of the flight whose images are shown
IMAGE_TIME = 2.0  # [s]


def fly_forest(seed: int) -> tuple[Any, Any]:
    """Return a scenario and the flight in it."""
    scenario = parse_scenario(forest_toml(seed), f"forest {seed}")
    return scenario, samara.fly(scenario)


def draw_forests(path: str | Path, seeds: tuple[int, ...] = SEEDS) -> None:
    """Draw one panel per forest with trees, path and goal; below, a depth image and the policy's observation of it."""
    flights = [fly_forest(seed) for seed in seeds]
    with samara_style() as plt:
        figure, grid = plt.subplots(4, 2, figsize=(11.0, 11.5), layout="constrained")
        for axes, seed, (scenario, run) in zip(grid.ravel(), seeds, flights, strict=False):
            _from_above(axes, scenario, run)
            axes.set_title(f"forest {seed}")
        _draw_images(grid[3], flights[SHOWN_FLIGHT][1])
        with atomic_write(path) as unfinished:
            figure.savefig(unfinished, format="png")


def _from_above(axes: Any, scenario: Any, run: Any) -> None:
    from matplotlib.patches import Circle

    for obstacle in scenario.world.obstacles:
        axes.add_patch(
            Circle((obstacle.solid.start_W.x, obstacle.solid.start_W.y), obstacle.solid.radius, color="0.55", zorder=2)
        )
    track = run.drone_records[0]
    axes.plot(*track.position[:, :2].T, color=COLOURS[1] if run.occurrences else COLOURS[0], zorder=3)
    k = int(np.searchsorted(track.time, IMAGE_TIME))
    axes.plot(*track.position[0, :2], "o", color=COLOURS[0], markersize=4)
    axes.plot(GOAL_W.x, GOAL_W.y, "*", color=COLOURS[2], markersize=10)
    axes.plot(*track.position[k, :2], "s", color=COLOURS[0], markersize=4)
    axes.set(xlim=(-1.0, 21.0), ylim=(-HALF_WIDTH_M, HALF_WIDTH_M), aspect="equal", xlabel="x [m]", ylabel="y [m]")


def _draw_images(grid: Any, run: Any) -> None:
    table = run.drone_records[0].tables["camera"]
    k = int(np.searchsorted(table.time, IMAGE_TIME))
    depth = np.asarray(table.rows[k]).reshape(48, 64)
    grid[0].imshow(np.where(depth > 0.0, depth, np.nan), cmap="viridis_r", vmin=0.0, vmax=10.0)
    grid[0].set_title(f"depth [m] after {IMAGE_TIME:g} s, in the first forest")
    blocks = block_inverse_distance(depth, 10.0).reshape(ROWS, COLUMNS)
    grid[1].imshow(blocks, cmap="viridis", aspect=2.0)  # a block is 4 pixels wide and 8 high
    grid[1].set_title("the policy's observation")
    for axes in grid:
        axes.set(xticks=[], yticks=[])


if __name__ == "__main__":
    draw_forests(Path(sys.argv[1]) / "forest.png")
