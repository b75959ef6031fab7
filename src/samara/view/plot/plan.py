"""Pictures of trajectories: path, speed, and utilisation of every limit."""

from pathlib import Path

import numpy as np
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.ticker import MaxNLocator
from mpl_toolkits.mplot3d.axes3d import Axes3D  # type: ignore[import-untyped]

from samara.core.types import Array
from samara.physics.types import CALM, Environment, Vehicle
from samara.plan.flatness import flat_motion, flat_output
from samara.plan.time_optimal import SEARCH_ORDER, PlanLimits, limit_usage
from samara.plan.trajectory import Trajectory
from samara.vehicles.shape import COLOURS, GRID, INK
from samara.view.plot.style import samara_style, save

SAMPLES = 1500


def draw_plan(
    trajectory: Trajectory, vehicle: Vehicle, limits: PlanLimits, path: str | Path, environment: Environment = CALM
) -> None:
    """Plot the path in space coloured by speed, and over time the speed and the utilisation of each limit."""
    time = np.linspace(0.0, trajectory.duration, SAMPLES)
    motion = flat_motion(flat_output(trajectory, time, SEARCH_ORDER), vehicle, environment)
    reference = trajectory.evaluate(time)
    speed = np.linalg.norm(np.stack(reference.v_W), axis=0)
    with samara_style() as plt:
        figure = plt.figure(figsize=(12.0, 6.4), layout="constrained")
        grid = figure.add_gridspec(2, 2, width_ratios=(1.15, 1.0), height_ratios=(1.0, 1.7))
        path_axes = figure.add_subplot(grid[:, 0], projection="3d")
        scale = ScalarMappable(Normalize(0.0, float(speed.max())), "viridis_r")
        _draw_space(path_axes, np.stack(reference.p_W, axis=1), scale.to_rgba(speed), trajectory)
        figure.colorbar(scale, ax=path_axes, label="speed [m/s]", shrink=0.5, pad=0.1)
        speed_axes, usage_axes = figure.add_subplot(grid[0, 1]), figure.add_subplot(grid[1, 1])
        speed_axes.plot(time, speed, color=INK)
        speed_axes.set(title="speed [m/s]", xlim=(0.0, trajectory.duration), ylim=(0.0, None))
        for k, (name, fraction) in enumerate(limit_usage(motion, vehicle, limits).items()):
            usage_axes.plot(
                time, 100.0 * np.broadcast_to(fraction, time.shape), color=COLOURS[k], label=name, linewidth=1.4
            )
        usage_axes.axhline(100.0, color=INK, linestyle="--", linewidth=1.2)
        usage_axes.set(
            title="utilisation of limits [%]", xlim=(0.0, trajectory.duration), ylim=(0.0, None), xlabel="time [s]"
        )
        usage_axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=4)
        for axes in (speed_axes, usage_axes):
            for waypoint in trajectory.waypoints[1:-1]:
                axes.axvline(waypoint.time, color=INK, linewidth=0.8, alpha=0.35)
        figure.suptitle(
            f"{vehicle.name}: {len(trajectory.waypoints)} waypoints in {trajectory.duration:.2f} s", fontsize=12
        )
        save(figure, path)


def _draw_space(axes: Axes3D, p: Array, colours: Array, trajectory: Trajectory) -> None:
    from mpl_toolkits.mplot3d.art3d import Line3DCollection  # type: ignore[import-untyped]

    low, high = p.min(axis=0), p.max(axis=0)
    middle, half = 0.5 * (low + high), 0.55 * float(max((high - low).max(), 0.5))
    bottom = min(float(low[2]), 0.0)
    axes.plot(p[:, 0], p[:, 1], np.full(len(p), bottom), color=GRID, linewidth=1.6)
    axes.add_collection(
        Line3DCollection(np.stack([p[:-1], p[1:]], axis=1), colors=colours[1:], linewidths=3.0, capstyle="round")
    )
    for k, waypoint in enumerate(trajectory.waypoints):
        axes.scatter(*waypoint.p_W, color=INK, s=20, depthshade=False)
        axes.plot(*zip(waypoint.p_W, (*waypoint.p_W[:2], bottom), strict=True), color=INK, linewidth=0.6, alpha=0.4)
        axes.text(
            *(waypoint.p_W[:2]), waypoint.p_W[2] + 0.07 * half, f"{k + 1}", fontsize=9, fontweight="bold", ha="center"
        )
    axes.set(
        xlim=(middle[0] - half, middle[0] + half),
        ylim=(middle[1] - half, middle[1] + half),
        zlim=(bottom, max(bottom + half, float(high[2]) * 1.15)),
        xlabel="x east [m]",
        ylabel="y north [m]",
        zlabel="z up [m]",
    )
    spans = [end - start for start, end in (axes.get_xlim(), axes.get_ylim(), axes.get_zlim())]
    axes.set_box_aspect(spans, zoom=1.1)
    axes.view_init(elev=26, azim=-62)
    for axis in (axes.xaxis, axes.yaxis, axes.zaxis):
        axis.set_pane_color((1.0, 1.0, 1.0, 0.0))


def draw_trajectory(axes: Axes3D, p: Array, colours: Array, trajectory: Trajectory) -> None:
    """Draw positions (n, 3) in their colours over their projection on the ground, with the trajectory's waypoints."""
    from mpl_toolkits.mplot3d.art3d import Line3DCollection

    ground = np.zeros(len(p))
    axes.plot(p[:, 0], p[:, 1], ground, color=GRID, linewidth=1.4, zorder=0)
    segments = np.stack([p[:-1], p[1:]], axis=1)
    axes.add_collection(Line3DCollection(segments, colors=colours[1:], linewidths=2.4, capstyle="round"))
    if trajectory.waypoints:
        x, y, z = np.array([waypoint.p_W for waypoint in trajectory.waypoints]).T
        axes.scatter(x, y, z, color=INK, s=14, depthshade=False)
    low, high = p.min(axis=0), p.max(axis=0)
    half_width = max(0.55 * float((high - low)[:2].max()), 0.55 * float(high[2]))
    middle = 0.5 * (low + high)
    axes.set(
        xlim=(middle[0] - half_width, middle[0] + half_width),
        ylim=(middle[1] - half_width, middle[1] + half_width),
        zlim=(0.0, max(1.25 * float(high[2]), 0.9 * half_width)),
        xlabel="x [m]",
        ylabel="y [m]",
    )
    axes.set_aspect("equal")
    axes.view_init(elev=28, azim=-62)
    for axis in (axes.xaxis, axes.yaxis, axes.zaxis):
        axis.set_pane_color((1.0, 1.0, 1.0, 0.0))
        axis.set_major_locator(MaxNLocator(4, integer=True))
    axes.tick_params(pad=-2)
    axes.xaxis.labelpad = axes.yaxis.labelpad = -6
    axes.text(axes.get_xlim()[1], axes.get_ylim()[1], 1.06 * axes.get_zlim()[1], "z [m]", ha="center", fontsize=9)
