"""`samara plan`: the fastest trajectory through waypoints that a vehicle can fly."""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from samara.cli.console import FAILED, console, say, table, verdict
from samara.cli.options import Plot, Vehicle, argument, option, out_option

if TYPE_CHECKING:
    from rich.table import Table

    from samara.physics.types import Vehicle as Model
    from samara.plan.flatness import FlatMotion
    from samara.plan.time_optimal import Limits
    from samara.plan.trajectory import Trajectory


def plan(
    waypoints: Annotated[Path, argument("CSV file of waypoints: x,y,z[,yaw][,time] in m, degrees, s.")],
    vehicle: Vehicle = "crazyflie",
    order: Annotated[int, option("--order", "Derivative to minimise: 3 (jerk), 4 (snap) or 5 (crackle).")] = 4,
    thrust: Annotated[float, option("--thrust", "Maximum fraction of the full thrust.")] = 0.9,
    tilt: Annotated[float, option("--tilt", "Maximum tilt [deg].")] = 60.0,
    rate: Annotated[float, option("--rate", "Maximum angular rate [deg/s].")] = 573.0,
    plot: Plot = False,
    out: Annotated[Path | None, out_option("Picture to write; default: beside the waypoints.")] = None,
) -> None:
    """Find the fastest trajectory through waypoints within a vehicle's limits, or check the times that the file gives."""
    from samara import vehicle as load
    from samara.plan.time_optimal import Limits, asked, fastest
    from samara.plan.trajectory import through
    from samara.plan.waypoint_file import durations, read_waypoints

    if order not in (3, 4, 5):
        raise ValueError(f"order is {order}; expected 3 (jerk), 4 (snap) or 5 (crackle)")
    file, model = read_waypoints(waypoints), load(vehicle)
    limits = Limits(thrust, math.radians(tilt), math.radians(rate))
    yaw = file.yaws or 0.0
    screen = console()
    if file.times:
        trajectory = through(file.points, durations(file), order=order, yaw=yaw)
        limit_fractions = asked(trajectory, model, limits)
    else:
        with screen.status("searching"):
            trajectory, limit_fractions = fastest(file.points, model, limits=limits, order=order, yaw=yaw)
    screen.print(_table(trajectory, limit_fractions, model, limits))
    screen.print("passes " + ", ".join(f"{waypoint.time:.2f}" for waypoint in trajectory.waypoints) + " s")
    if plot or out is not None:
        from samara.view.plot.plan import draw_plan

        picture = out if out is not None else waypoints.with_suffix(".png")
        draw_plan(trajectory, model, limits, picture)
        say(f"picture {picture}")
    if max(limit_fractions.values()) > 1.0:
        hardest = max(limit_fractions, key=lambda name: limit_fractions[name])
        screen.print(verdict(False, f"{model.name} cannot fly this: too much {hardest}"))
        raise typer.Exit(FAILED)


def _table(trajectory: "Trajectory", limit_fractions: dict[str, float], vehicle: "Model", limits: "Limits") -> "Table":
    """Tabulate duration, top speed, and each quantity of the trajectory against its limit."""
    import numpy as np

    from samara.plan.flatness import flat_motion, flat_output
    from samara.plan.time_optimal import SEARCH_ORDER

    time = np.linspace(0.0, trajectory.duration, 2000)
    motion = flat_motion(flat_output(trajectory, time, SEARCH_ORDER), vehicle)
    speed = float(np.linalg.norm(np.stack(trajectory.at(time).v_W), axis=0).max())
    rows = [("duration", f"{trajectory.duration:.2f} s", "", ""), ("speed", f"{speed:.2f} m/s", "", "")]
    rows += [
        (name, *_extremes(name, fraction, motion, limits), f"{100.0 * fraction:.1f} %")
        for name, fraction in limit_fractions.items()
    ]
    columns = ("extreme", "limit", "used")
    return table((vehicle.name, *columns), rows, right=columns)


def _extremes(name: str, limit_fraction: float, motion: "FlatMotion", limits: "Limits") -> tuple[str, str]:
    """Format the largest (or smallest) value along the trajectory and its limit; `used` is their ratio."""
    import numpy as np

    if name == "tilt":
        return f"{math.degrees(limit_fraction * limits.tilt):.1f}°", f"{math.degrees(limits.tilt):.1f}°"
    if name == "rate":
        return f"{math.degrees(limit_fraction * limits.rate):.0f} °/s", f"{math.degrees(limits.rate):.0f} °/s"
    if name == "thrust":
        return f"{float(np.max(motion.thrust)):.4g} N", f"{float(np.max(motion.thrust)) / limit_fraction:.4g} N"
    speeds, commands = np.stack(motion.state.rotor_speed), np.stack(motion.command)
    return {
        "rotor, most": (f"{speeds.max():.0f} rad/s", f"{speeds.max() / math.sqrt(limit_fraction):.0f} rad/s"),
        "rotor, least": (f"{speeds.min():.0f} rad/s", ""),
        "command, most": (f"{commands.max():.3g}", ""),
        "command, least": (f"{commands.min():.3g}", ""),
    }[name]
