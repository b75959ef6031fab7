"""Draw three motions of a rigid body: a step response, tumbling without torque, a tilted body against a point mass.

PYTHONPATH=docs python -m figures.rigid_body FOLDER
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.integrate import solve_ivp

from samara.control.default_gains import Gains
from samara.control.geometric import geometric
from samara.core.algebra import Vec3
from samara.core.atomic_files import atomic_write
from samara.core.types import Array
from samara.documents.rigid_body import RigidBodyQuadrotor
from samara.physics.types import Reference
from samara.vehicles.shape import COLOURS, GRID, INK
from samara.view.plot.style import samara_style

DASHED = (0, (2, 2))
TILT = np.radians(30.0)
STEPS = (Reference(Vec3(3.0, 0.0, 2.0)), Reference(Vec3(3.0, 3.0, 3.0), yaw=np.pi / 2))
STEP_SECONDS = 3.0
GAINS = Gains(position=2.5, attitude=Vec3(14.0, 14.0, 5.0))  # slow enough to watch, fast enough to tilt
FLAT, UNEQUAL = "A flat body", "Three different moments of inertia"


class DemoFlight(NamedTuple):
    """Times [s], and at each the state with a quaternion (13, k), the command (4, k) and the reference position (3, k)."""

    quad: RigidBodyQuadrotor
    time: Array
    x: Array
    u: Array
    target: Array


def step_response() -> DemoFlight:
    """Simulate two steps of the reference position, the second also of the yaw, with Lee's controller."""
    quad = RigidBodyQuadrotor()
    control = geometric(quad.vehicle, GAINS)
    start = np.zeros(12)
    start[2] = 1.0
    x = quad.quaternion_state(start)
    legs = []
    for reference in STEPS:

        def controller_function(x: Array, reference: Reference = reference) -> Array:
            return np.array(control(quad.state(x), reference, quad.vehicle, ())[0])

        legs.append(_fly(quad, x, controller_function, STEP_SECONDS, np.array(reference.p_W)))
        x = legs[-1].x[:, -1]
    return DemoFlight(
        quad,
        np.concatenate([leg.time + i * STEP_SECONDS for i, leg in enumerate(legs)]),
        *(np.concatenate([leg[field] for leg in legs], axis=1) for field in (2, 3, 4)),
    )


def tumbling() -> dict[str, DemoFlight]:
    """Simulate torque-free rotation about all axes without gravity: a flat body, and one with three different moments.

    The second rotates nearly about its intermediate axis, which is unstable, and so flips repeatedly.
    """
    return {
        name: _fly(
            quad,
            quad.quaternion_state([*np.zeros(9), *omega_B]),
            _constant_thrust(0.0),
            8.0,
            rtol=1e-12,
        )
        for name, quad, omega_B in (
            (FLAT, RigidBodyQuadrotor(g=0, D=0), (0.0, 2.0, 5.0)),
            (UNEQUAL, RigidBodyQuadrotor(inertia=(0.0056, 0.0081, 0.0129), g=0, D=0), (0.3, 6.0, 0.3)),
        )
    }


def tilted() -> dict[str, DemoFlight]:
    """Simulate a body tilted 30° to the right with hover thrust and with enough thrust to hold its height, and a point mass.

    A point mass pushes straight up whatever its attitude: it moves like a level body.
    """
    quad = RigidBodyQuadrotor()
    hover = quad.hover_thrust()
    return {
        name: _fly(
            quad,
            quad.quaternion_state([0.0, 0.0, 10.0, 0.0, 0.0, 0.0, roll, 0.0, 0.0, 0.0, 0.0, 0.0]),
            _constant_thrust(thrust),
            2.0,
        )
        for name, roll, thrust in (
            ("point mass, F = m g", 0.0, hover),
            ("rigid body, F = m g", TILT, hover),
            ("rigid body, F = m g / cos φ", TILT, hover / np.cos(TILT)),
        )
    }


def _constant_thrust(thrust: float) -> Callable[[Array], Array]:
    return lambda x: np.array([thrust, 0.0, 0.0, 0.0])


def _fly(
    quad: RigidBodyQuadrotor,
    start: Array,
    control: Callable[[Array], Array],
    seconds: float,
    target: Any = (np.nan, np.nan, np.nan),
    rtol: float = 1e-8,
) -> DemoFlight:
    time = np.linspace(0.0, seconds, round(100 * seconds) + 1)
    solution = solve_ivp(
        lambda t, x: quad.dynamics(t, x, control(x)),
        (0.0, seconds),
        start,
        method="DOP853",
        t_eval=time,
        rtol=rtol,
        atol=0.1 * rtol,
    )
    if not solution.success:
        raise FloatingPointError(solution.message)
    commands = np.array([control(x) for x in solution.y.T]).T
    return DemoFlight(quad, time, solution.y, commands, np.tile(np.asarray(target)[:, None], len(time)))


def draw_demo(folder: Path) -> list[Path]:
    """Simulate and draw all three motions; return the paths of the pictures."""
    paths = [
        folder / f"{name}.png" for name in ("rigid_body_simulation", "gyroscopic_effect", "rigid_body_vs_point_mass")
    ]
    draw_step_response(step_response(), paths[0])
    draw_tumbling(tumbling(), paths[1])
    draw_tilted(tilted(), paths[2])
    return paths


def _save(figure: Any, path: str | Path) -> None:
    with atomic_write(path) as temporary:
        figure.savefig(temporary, format="png")


def _legend_above(axes: Any, columns: int) -> None:
    """Place the legend on the line of the title, away from the curves."""
    axes.legend(loc="lower right", bbox_to_anchor=(1.0, 0.99), ncols=columns, borderaxespad=0.2, handlelength=1.5)


# The step response ---------------------------------------------------------------------------------------------------


def draw_step_response(flight: DemoFlight, path: str | Path) -> None:
    """Plot the path in space with body frames, position against target, attitude, thrust and torques."""
    with samara_style() as plt:
        figure = plt.figure(figsize=(13, 8), layout="constrained")
        grid = figure.add_gridspec(4, 2, width_ratios=(1.0, 1.25))
        rows = [figure.add_subplot(grid[row, 0]) for row in range(4)]
        position, attitude, thrust, torque = rows
        for k, name in enumerate(("x east", "y north", "z up")):
            position.plot(flight.time, flight.x[k], color=COLOURS[k], label=name)
            position.plot(flight.time, flight.target[k], color=COLOURS[k], linestyle=DASHED, linewidth=1.0)
        position.plot([], [], color=INK, linestyle=DASHED, linewidth=1.0, label="target")
        angles = np.degrees(flight.quad.euler_state(flight.x)[6:9])
        for k, name in enumerate(("roll φ", "pitch θ", "yaw ψ")):
            attitude.plot(flight.time, angles[k], color=COLOURS[k], label=name)
        thrust.axhline(flight.quad.hover_thrust(), color=INK, linestyle=DASHED, linewidth=1.0, label="m g")
        thrust.plot(flight.time, flight.u[0], color=COLOURS[0], label="F")
        for k, name in enumerate(("τφ", "τθ", "τψ")):
            torque.plot(flight.time, flight.u[k + 1], color=COLOURS[k], label=name)
        for axes, title, unit, columns in (
            (position, "Position", "[m]", 4),
            (attitude, "Attitude", "[°]", 3),
            (thrust, "Thrust", "[N]", 2),
            (torque, "Torque", "[N m]", 3),
        ):
            axes.set(title=title, ylabel=unit, xlim=(flight.time[0], flight.time[-1]))
            axes.axvline(STEP_SECONDS, color=INK, alpha=0.3, linewidth=1.0)
            _legend_above(axes, columns)
        torque.set_xlabel("time [s]")
        _draw_path(figure.add_subplot(grid[:, 1], projection="3d"), flight)
        figure.suptitle(
            "A rigid body tilts to move sideways: two steps of the reference position, flown by Lee's controller",
            fontweight="bold",
        )
        _save(figure, path)


def _draw_path(axes: Any, flight: DemoFlight) -> None:
    p = flight.x[0:3]
    low, high = p.min(axis=1), p.max(axis=1)
    middle, half = 0.5 * (low + high), 0.58 * float((high - low).max())
    axes.plot(*p, color=INK, linewidth=1.6, label="flown")
    axes.plot(p[0], p[1], np.zeros_like(p[2]), color=INK, alpha=0.25, linewidth=1.0, label="shadow")
    targets = np.unique(flight.target.T, axis=0)
    axes.scatter(*targets.T, marker="x", s=45, color=COLOURS[4], linewidths=2.0, label="target", depthshade=False)
    samples = _evenly_spaced(p, 0.2 * half)
    for k, axis in enumerate(flight.quad.get_body_axes(flight.x)):
        for sample in samples:
            ends = np.stack([p[:, sample], p[:, sample] + 0.22 * half * axis[:, sample]])
            axes.plot(*ends.T, color=COLOURS[k], linewidth=1.5)
        axes.plot([], [], color=COLOURS[k], label=("body x forward", "body y left", "body z thrust")[k])
    axes.set(xlabel="x east [m]", ylabel="y north [m]", zlabel="z up [m]")
    axes.set_xlim(middle[0] - half, middle[0] + half)
    axes.set_ylim(middle[1] - half, middle[1] + half)
    axes.set_zlim(0.0, 2.0 * half)
    axes.set_box_aspect((1.0, 1.0, 1.0), zoom=0.92)
    axes.view_init(elev=22.0, azim=-58.0)
    axes.set_title("Path, with body axes")
    axes.legend(loc="upper left")


def _evenly_spaced(p: Any, distance: float) -> list[int]:
    """Return the samples at which to draw a frame, at least `distance` apart along the path."""
    samples = [0]
    for k in range(p.shape[1]):
        if float(np.linalg.norm(p[:, k] - p[:, samples[-1]])) >= distance:
            samples.append(k)
    return samples


# Tumbling without torque ---------------------------------------------------------------------------------------------


def draw_tumbling(flights: dict[str, DemoFlight], path: str | Path) -> None:
    """Plot ω, L in the body and in the world, and the conservation of energy and momentum, for both bodies."""
    with samara_style() as plt:
        figure = plt.figure(figsize=(14, 8), layout="constrained")
        grid = figure.add_gridspec(3, 3, width_ratios=(1.0, 1.0, 1.0))
        for column, (name, run) in enumerate(flights.items()):
            rates, momentum, conservation = (figure.add_subplot(grid[row, column]) for row in range(3))
            _draw_rates(rates, run, name)
            _draw_momentum(momentum, run)
            _draw_conservation(conservation, run)
            for axes in (rates, momentum, conservation):
                axes.set_xlim(run.time[0], run.time[-1])
            conservation.set_xlabel("time [s]")
        _draw_sphere(figure.add_subplot(grid[:, 2], projection="3d"), flights)
        figure.suptitle(
            "ω × Iω: ω changes without torque; L is constant in the world and rotates in the body",
            fontweight="bold",
        )
        _save(figure, path)


def _draw_rates(axes: Any, run: DemoFlight, name: str) -> None:
    for k, axis in enumerate("xyz"):
        axes.plot(run.time, run.x[10 + k], color=COLOURS[k], label=f"{axis}")
    moments = ", ".join(f"{1e3 * moment:g}" for moment in run.quad.I.diagonal())
    axes.set(title=f"{name}\nI = ({moments}) g m²", ylabel="ω in the body [rad/s]")
    _legend_above(axes, 3)


def _draw_momentum(axes: Any, run: DemoFlight) -> None:
    in_body, in_world = (1e3 * run.quad.angular_momentum(run.x, frame) for frame in ("body", "world"))
    for k in range(3):
        axes.plot(run.time, in_body[k], color=COLOURS[k])
        axes.plot(run.time, in_world[k], color=COLOURS[k], linestyle=DASHED, linewidth=2.4)
    axes.plot([], [], color=INK, label="body, Iω")
    axes.plot([], [], color=INK, linestyle=DASHED, linewidth=2.4, label="world, R Iω")
    axes.set(title="Angular momentum", ylabel="L [mN m s]")
    _legend_above(axes, 2)


def _draw_conservation(axes: Any, run: DemoFlight) -> None:
    energy = run.quad.total_energy(run.x)
    momentum = run.quad.angular_momentum(run.x, "world")
    size = float(np.linalg.norm(momentum[:, 0]))
    for deviation, colour, label in (
        (np.abs(energy / energy[0] - 1.0), COLOURS[4], "energy"),
        (np.linalg.norm(momentum - momentum[:, :1], axis=0) / size, COLOURS[3], "L in the world"),
    ):
        max_deviation = np.maximum(np.maximum.accumulate(deviation), np.finfo(float).eps)
        axes.semilogy(run.time, max_deviation, color=colour, label=label)
    axes.set(title="Largest change", ylabel="relative [1]", ylim=(1e-16, 1e-9))
    _legend_above(axes, 2)


def _draw_sphere(axes: Any, flights: dict[str, DemoFlight]) -> None:
    longitude, latitude = np.meshgrid(np.linspace(0.0, 2.0 * np.pi, 37), np.linspace(-0.5 * np.pi, 0.5 * np.pi, 19))
    ball = (np.cos(latitude) * np.cos(longitude), np.cos(latitude) * np.sin(longitude), np.sin(latitude))
    elevation, azimuth = 24.0, 35.0
    horizontal, vertical = np.cos(np.radians(elevation)), np.sin(np.radians(elevation))
    to_eye = np.array([horizontal * np.cos(np.radians(azimuth)), horizontal * np.sin(np.radians(azimuth)), vertical])
    axes.computed_zorder = False  # Matplotlib sorts entire curves, and would draw the ball over all of them
    axes.plot_surface(*ball, color=GRID, alpha=0.5, linewidth=0.0, zorder=1)
    for name, colour in ((FLAT, COLOURS[0]), (UNEQUAL, COLOURS[1])):
        momentum = flights[name].quad.angular_momentum(flights[name].x, "body")
        direction = momentum / np.linalg.norm(momentum, axis=0)
        axes.plot(*direction, color=colour, linewidth=1.0, alpha=0.5, zorder=2)
        axes.plot(
            *np.where(to_eye @ direction > 0.0, direction, np.nan), color=colour, linewidth=2.4, label=name, zorder=3
        )
        axes.scatter(*direction[:, 0], color=colour, s=30, depthshade=False, zorder=4)
    axes.set(xlabel="Lx / |L| [1]", ylabel="Ly / |L| [1]", zlabel="Lz / |L| [1]")
    axes.set(xticks=(-1, 0, 1), yticks=(-1, 0, 1), zticks=(-1, 0, 1))
    axes.set_box_aspect((1.0, 1.0, 1.0), zoom=0.84)
    axes.view_init(elev=elevation, azim=azimuth)
    axes.set_title("Direction of L in the body:\non a sphere, because its length is conserved")
    axes.legend(loc="upper left", bbox_to_anchor=(0.1, -0.02))


# A tilted body against a point mass ----------------------------------------------------------------------------------


def draw_tilted(flights: dict[str, DemoFlight], path: str | Path) -> None:
    """Plot the bodies from behind: fall and drift."""
    with samara_style() as plt:
        figure = plt.figure(figsize=(12, 8), layout="constrained")
        grid = figure.add_gridspec(2, 2, height_ratios=(1.35, 1.0))
        side = figure.add_subplot(grid[0, :])
        height, drift = figure.add_subplot(grid[1, 0]), figure.add_subplot(grid[1, 1])
        # dashed and drawn last is the curve that would hide another: the point mass and the body that holds its height
        for (name, run), colour, line in zip(flights.items(), COLOURS, ("-", "-", (0, (4, 3))), strict=False):
            _draw_from_behind(side, run, name, colour)
            height.plot(run.time, run.x[2] - run.x[2, 0], color=colour, linestyle=line, linewidth=2.2)
            drift.plot(run.time, -run.x[1], color=colour, linestyle=line, linewidth=2.2)
        side.set(
            title=f"Seen from behind every 0.4 s, with the thrust; both bodies are tilted {np.degrees(TILT):.0f}° to the right",
            xlabel="to the right, −y [m]",
            ylabel="height z [m]",
            xlim=(-1.6, 12.6),
            ylim=(6.9, 11.8),
            aspect="equal",
        )
        side.legend(loc="lower left")
        height.set(title="Height gained", ylabel="z − z₀ [m]", xlabel="time [s]")
        drift.set(title="Drift to the right", ylabel="−y [m]", xlabel="time [s]")
        for axes in (height, drift):
            axes.set_xlim(0.0, run.time[-1])
        figure.suptitle(
            "Thrust acts along the body axis: tilted 30°, 0.50 F acts sideways and 0.87 F upwards",
            fontweight="bold",
        )
        _save(figure, path)


def _draw_from_behind(axes: Any, run: DemoFlight, name: str, colour: str) -> None:
    right, up = -run.x[1], run.x[2]
    is_point_mass = name.startswith("point")
    axes.plot(right, up, color=colour, linewidth=1.0, alpha=0.6)
    axes.plot([], [], color=colour, marker="o", linewidth=0.0 if is_point_mass else 3.0, label=name)
    _, left_W, thrust_W = run.quad.get_body_axes(run.x)
    for k in range(0, len(run.time), 40):
        position = np.array([right[k], up[k]])
        arm = 0.45 * np.array([-left_W[1, k], left_W[2, k]])
        thrust_arrow = 1.3 * run.u[0, k] / run.quad.hover_thrust() * np.array([-thrust_W[1, k], thrust_W[2, k]])
        if not is_point_mass:
            axes.plot(
                *np.stack([position - arm, position + arm]).T, color=colour, linewidth=3.0, solid_capstyle="round"
            )
        axes.annotate(
            "",
            xy=position + thrust_arrow,
            xytext=position,
            arrowprops={"arrowstyle": "-|>", "color": colour, "linewidth": 1.4},
        )
        axes.plot(*position, marker="o", color=colour, markersize=9.0 if is_point_mass else 4.0)


if __name__ == "__main__":
    print("\n".join(f"picture {path}" for path in draw_demo(Path(sys.argv[1]))))
