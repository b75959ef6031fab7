"""A picture of one drone in its episode, drawn with lines: arms, rotors, its shadow on a grid, and the way it came."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from samara.core.algebra import matrix_from_quat
from samara.core.types import Array
from samara.physics.types import State, Vehicle

SIZE = 480, 360  # pixels
WIDEST = 0.35  # of the half width of the picture: what the drone takes of it


def picture(path: Sequence[State], vehicle: Vehicle) -> Array:
    """The last of the states, and behind it all before: (height, width, 3) bytes"""
    figure, axes = _canvas()
    axes.clear()
    axes.set_axis_off()
    here = path[-1]
    centre, R_WB = np.array(here.p_W), np.array(matrix_from_quat(here.q_WB)).reshape(3, 3)
    hubs = np.array([rotor.r_B for rotor in vehicle.rotors])
    reach = float(np.linalg.norm(hubs, axis=1).max())
    half = max(reach / WIDEST, 0.75 * float(np.linalg.norm(centre)), 1.0)

    def draw(points_W: Array, **how: Any) -> None:
        axes.plot(*_projected(points_W), **how)

    for k in np.linspace(-2.0, 2.0, 9) * half:
        ends = np.array([-2.0, 2.0]) * half
        draw(np.stack([ends, [k, k], [-half, -half]]), color="0.88", linewidth=0.6)
        draw(np.stack([[k, k], ends, [-half, -half]]), color="0.88", linewidth=0.6)
    draw(np.array([state.p_W for state in path]).T, color="tab:blue", linewidth=1.0, alpha=0.7)
    draw(np.zeros((3, 1)), color="tab:red", marker="+", markersize=10)
    scale = max(1.0, 0.12 * half / reach)  # a drone smaller than a few pixels is drawn larger
    for hub, rotor in zip(hubs, vehicle.rotors, strict=True):
        tip = centre + R_WB @ hub * scale
        draw(np.stack([centre, tip], axis=1), color="0.2", linewidth=2.0)
        radius = scale * (rotor.radius or 0.4 * reach)
        turn = np.linspace(0.0, 2.0 * np.pi, 25)
        disc = np.stack([np.cos(turn), np.sin(turn), np.zeros_like(turn)]) * radius
        draw(tip[:, None] + R_WB @ disc, color="tab:green" if hub[0] > 0.0 else "tab:gray", linewidth=1.4)
    width, height = SIZE
    axes.set_xlim(-1.2 * half, 1.2 * half)
    axes.set_ylim(-1.2 * half * height / width, 1.2 * half * height / width)
    figure.canvas.draw()
    return np.asarray(figure.canvas.buffer_rgba())[:, :, :3].copy()


def _projected(points_W: Array) -> tuple[Array, Array]:
    """Seen from the south-west, from above, without perspective"""
    x, y, z = points_W
    right = (x - y) / np.sqrt(2.0)
    away = (x + y) / np.sqrt(2.0)
    return right, 0.94 * z + 0.34 * away


@lru_cache(maxsize=1)
def _canvas() -> tuple[Any, Any]:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(SIZE[0] / 100, SIZE[1] / 100), dpi=100)
    FigureCanvasAgg(figure)
    return figure, figure.add_axes((0.0, 0.0, 1.0, 1.0))
