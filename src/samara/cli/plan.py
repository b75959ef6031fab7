"""`samara plan`: the fastest trajectory through waypoints that a vehicle can fly."""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from samara.cli.console import FAILED, check_mark, console, say, table
from samara.cli.options import Plot, Vehicle, argument, option, out_option

if TYPE_CHECKING:
    from rich.table import Table

    from samara.physics.types import Environment
    from samara.physics.types import Vehicle as Model
    from samara.plan.flatness import FlatMotion
    from samara.plan.time_optimal import PlanLimits
    from samara.plan.trajectory import Trajectory


def plan(
    waypoints: Annotated[Path, argument("CSV file of waypoints: x,y,z[,yaw][,time] in m, deg and s.")],
    vehicle: Vehicle = "crazyflie",
    order: Annotated[int, option("--order", "Derivative to minimise: 3 (jerk), 4 (snap) or 5 (crackle).")] = 4,
    max_thrust: Annotated[float, option("--max-thrust", "Maximum fraction of the full thrust.")] = 0.9,
    max_tilt: Annotated[float, option("--max-tilt", "Maximum tilt [deg].")] = 60.0,
    max_rate: Annotated[float, option("--max-rate", "Maximum angular rate [deg/s].")] = 573.0,
    wind: Annotated[float, option("--wind", "Steady wind [m/s], from the west.", min=0.0, max=50.0)] = 0.0,
    plot: Plot = False,
    out: Annotated[
        Path | None, out_option("File for the picture (implies --plot); default: beside the waypoints.")
    ] = None,
) -> None:
    """Find the fastest trajectory through waypoints within a vehicle's limits, or check the times that the file gives."""
    from samara import vehicle as load
    from samara.core.algebra import Vec3
    from samara.physics.types import Environment
    from samara.plan.time_optimal import PlanLimits, max_limit_usage, plan_fastest
    from samara.plan.trajectory import minimum_snap
    from samara.plan.waypoint_file import leg_durations, read_waypoints

    if order not in (3, 4, 5):
        raise ValueError(f"--order {order}: expected 3 (jerk), 4 (snap) or 5 (crackle)")
    file, model = read_waypoints(waypoints), load(vehicle)
    limits = PlanLimits(max_thrust, math.radians(max_tilt), math.radians(max_rate))
    environment = Environment(wind_W=Vec3(wind, 0.0, 0.0))
    yaw = file.yaws or 0.0
    screen = console()
    if file.times:
        trajectory = minimum_snap(file.points, leg_durations(file), order=order, yaw=yaw)
        limit_fractions = max_limit_usage(trajectory, model, limits, environment)
    else:
        with screen.status("searching"):
            trajectory, limit_fractions = plan_fastest(
                file.points, model, limits=limits, order=order, yaw=yaw, environment=environment
            )
    screen.print(_table(trajectory, limit_fractions, model, limits, environment))
    screen.print("passes " + ", ".join(f"{waypoint.time:.2f}" for waypoint in trajectory.waypoints) + " s")
    if plot or out is not None:
        from samara.view.plot.plan import draw_plan

        picture = out if out is not None else waypoints.with_suffix(".png")
        draw_plan(trajectory, model, limits, picture, environment)
        say(f"picture {picture}")
    if max(limit_fractions.values()) > 1.0:
        hardest = max(limit_fractions, key=lambda name: limit_fractions[name])
        screen.print(check_mark(False, f"{model.name} cannot fly this: it exceeds the limit of {hardest}"))
        raise typer.Exit(FAILED)


def _table(
    trajectory: "Trajectory",
    limit_fractions: dict[str, float],
    vehicle: "Model",
    limits: "PlanLimits",
    environment: "Environment",
) -> "Table":
    """Tabulate duration, top speed, and each quantity of the trajectory against its limit."""
    import numpy as np

    from samara.plan.flatness import flat_motion, flat_output
    from samara.plan.time_optimal import SEARCH_ORDER

    time = np.linspace(0.0, trajectory.duration, 2000)
    motion = flat_motion(flat_output(trajectory, time, SEARCH_ORDER), vehicle, environment)
    speed = float(np.linalg.norm(np.stack(trajectory.evaluate(time).v_W), axis=0).max())
    rows = [("duration", f"{trajectory.duration:.2f} s", "", ""), ("speed", f"{speed:.2f} m/s", "", "")]
    rows += [
        (name, *_extremes(name, fraction, motion, limits), f"{100.0 * fraction:.1f} %")
        for name, fraction in limit_fractions.items()
    ]
    columns = ("extreme", "limit", "used")
    return table((vehicle.name, *columns), rows, right=columns)


def _extremes(name: str, limit_fraction: float, motion: "FlatMotion", limits: "PlanLimits") -> tuple[str, str]:
    """Format the largest (or smallest) value along the trajectory and its limit; `limit_fraction` is their ratio."""
    import numpy as np

    if name == "tilt":
        return f"{math.degrees(limit_fraction * limits.tilt):.1f}°", f"{math.degrees(limits.tilt):.1f}°"
    if name == "rate":
        return f"{math.degrees(limit_fraction * limits.rate):.0f} °/s", f"{math.degrees(limits.rate):.0f} °/s"
    if name == "thrust":
        return f"{float(np.max(motion.thrust)):.4g} N", f"{float(np.max(motion.thrust)) / limit_fraction:.4g} N"
    speeds, commands = np.stack(motion.state.rotor_speed), np.stack(motion.command)
    return {
        "rotor maximum": (f"{speeds.max():.0f} rad/s", f"{speeds.max() / math.sqrt(limit_fraction):.0f} rad/s"),
        "rotor minimum": (f"{speeds.min():.0f} rad/s", ""),
        "command maximum": (f"{commands.max():.3g}", ""),
        "command minimum": (f"{commands.min():.3g}", ""),
    }[name]
