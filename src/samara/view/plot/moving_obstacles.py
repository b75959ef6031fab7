"""Obstacles that move, from the constraints of a recorded predictive controller: drawn where the drone was nearest."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Circle

from samara.control.mpc.constraint_tables import parse_constraints
from samara.core.atomic_files import parse_json
from samara.core.types import Array
from samara.record.run import DroneRecord, Run
from samara.scenario.meshes import CONTOUR_COLOUR
from samara.vehicles.shape import INK


class MovingSphere(NamedTuple):
    """A sphere to keep out of, where it is when the flight starts, and its velocity."""

    centre_W: tuple[float, ...]
    velocity_W: tuple[float, ...]
    radius: float

    def positions(self, time: Array) -> Array:
        """Positions of the centre at times, (times, 3)  [m]"""
        return np.array(self.centre_W) + time[:, None] * np.array(self.velocity_W)


def recorded_spheres(run: Run) -> list[MovingSphere]:
    """Return the moving spheres among the constraints of the first drone's controller; [] for an invalid description."""
    drones = parse_json(run.metadata.get("drones", "[]"))
    drone = drones[0] if isinstance(drones, list) and drones and isinstance(drones[0], dict) else {}
    options = drone.get("controller_options")
    try:
        tables = parse_constraints(options.get("constraints")) if isinstance(options, dict) else None
    except ValueError:
        return []
    spheres = [table.values for table in tables or () if table.values["type"] == "sphere"]
    return [
        MovingSphere(sphere["centre"], sphere["velocity"], sphere["radius"])
        for sphere in spheres
        if any(sphere.get("velocity", ()))
    ]


def draw_spheres(axes: Axes, spheres: Sequence[MovingSphere], track: DroneRecord) -> None:
    """Draw each sphere from above, dashed, at the time when the drone was nearest, with its time and its direction."""
    for sphere in spheres:
        positions = sphere.positions(track.time)
        k = int(np.argmin(np.linalg.norm(track.position - positions, axis=1)))
        x, y = positions[k, :2]
        axes.add_patch(
            Circle(
                (x, y), sphere.radius, facecolor=CONTOUR_COLOUR, edgecolor=INK, linestyle="--", linewidth=0.8, alpha=0.3
            )
        )
        vx, vy = sphere.velocity_W[:2]
        if speed := float(np.hypot(vx, vy)):
            tip = x + sphere.radius * vx / speed, y + sphere.radius * vy / speed
            axes.annotate("", tip, xytext=(x, y), arrowprops={"arrowstyle": "-|>", "color": INK, "linewidth": 1.0})
        axes.annotate(f"{track.time[k]:.1f} s", (x, y), (0, -9), textcoords="offset points", fontsize=7, ha="center")
