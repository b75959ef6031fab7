"""`samara plan`: the fastest way through waypoints that a vehicle can fly."""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from samara.cli.console import console, say, verdict

if TYPE_CHECKING:
    from samara.physics.types import Vehicle
    from samara.plan.time_optimal import Limits
    from samara.plan.trajectory import Trajectory

TOO_HARD = 1


def plan(
    waypoints: Annotated[Path, typer.Argument(help="A CSV file: x,y,z[,yaw][,time] in m, degrees, s.")],
    vehicle: Annotated[str, typer.Option("--vehicle", help="A shipped vehicle or a .toml file.")] = "crazyflie",
    order: Annotated[int, typer.Option("--order", help="3 for the least jerk, 4 snap, 5 crackle.")] = 4,
    thrust: Annotated[float, typer.Option("--thrust", help="The part of all its thrust it may use.")] = 0.9,
    tilt: Annotated[float, typer.Option("--tilt", help="How far it may lean [deg].")] = 60.0,
    rate: Annotated[float, typer.Option("--rate", help="How fast it may turn [deg/s].")] = 573.0,
    plot: Annotated[bool, typer.Option("--plot/--no-plot", help="Draw a picture.")] = False,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="The picture; beside the file by default.")] = None,
) -> None:
    """Find the fastest way through waypoints within a vehicle's limits; or, where the file has times, check those."""
    from samara import vehicle as load
    from samara.plan.time_optimal import Limits, asked, fastest
    from samara.plan.trajectory import through
    from samara.plan.waypoint_file import durations, read_waypoints

    if order not in (3, 4, 5):
        raise ValueError(f"order is {order}; expected 3 (jerk), 4 (snap) or 5 (crackle)")
    file, craft = read_waypoints(waypoints), load(vehicle)
    limits = Limits(thrust, math.radians(tilt), math.radians(rate))
    yaw = file.yaws or 0.0
    screen = console()
    if file.times:
        trajectory = through(file.points, durations(file), order=order, yaw=yaw)
        used = asked(trajectory, craft, limits)
    else:
        with screen.status("searching"):
            trajectory, used = fastest(file.points, craft, limits=limits, order=order, yaw=yaw)
    screen.print(_table(trajectory, used, craft, limits))
    screen.print("passes " + ", ".join(f"{mark.time:.2f}" for mark in trajectory.waypoints) + " s")
    if plot or out is not None:
        from samara.view.plot.plan import draw_plan

        picture = out if out is not None else waypoints.with_suffix(".png")
        draw_plan(trajectory, craft, limits, picture)
        say(f"picture {picture}")
    if max(used.values()) > 1.0:
        hardest = max(used, key=lambda name: used[name])
        screen.print(verdict(False, f"{craft.name} cannot fly this: too much {hardest}"))
        raise typer.Exit(TOO_HARD)


def _table(trajectory: "Trajectory", used: dict[str, float], vehicle: "Vehicle", limits: "Limits") -> Any:
    """Duration and top speed, and what is asked against what is allowed."""
    import numpy as np
    from rich import box
    from rich.table import Table

    from samara.plan.flatness import flat_motion, flat_output
    from samara.plan.time_optimal import SEARCH_ORDER

    time = np.linspace(0.0, trajectory.duration, 2000)
    motion = flat_motion(flat_output(trajectory, time, SEARCH_ORDER), vehicle)
    speed = float(np.linalg.norm(np.stack(trajectory.at(time).v_W), axis=0).max())
    table = Table(box=box.SIMPLE_HEAD)
    for heading in (vehicle.name, "at most", "limit", "used"):
        table.add_column(heading, justify="left" if heading == vehicle.name else "right")
    table.add_row("duration", f"{trajectory.duration:.2f} s", "", "")
    table.add_row("speed", f"{speed:.2f} m/s", "", "")
    for name, share in used.items():
        table.add_row(name, *_asked(name, share, motion, limits), f"{100.0 * share:.1f} %")
    return table


def _asked(name: str, share: float, motion: Any, limits: "Limits") -> tuple[str, str]:
    import numpy as np

    if name == "tilt":
        return f"{math.degrees(share * limits.tilt):.1f}°", f"{math.degrees(limits.tilt):.1f}°"
    if name == "rate":
        return f"{math.degrees(share * limits.rate):.0f} °/s", f"{math.degrees(limits.rate):.0f} °/s"
    if name == "thrust":
        return f"{float(np.max(motion.thrust)):.4g} N", f"{float(np.max(motion.thrust)) / share:.4g} N"
    speeds, commands = np.stack(motion.state.rotor_speed), np.stack(motion.command)
    return {
        "rotor, most": (f"{speeds.max():.0f} rad/s", f"{speeds.max() / math.sqrt(share):.0f} rad/s"),
        "rotor, least": (f"{speeds.min():.0f} rad/s", ""),
        "command, most": (f"{commands.max():.3g}", ""),
        "command, least": (f"{commands.min():.3g}", ""),
    }[name]
