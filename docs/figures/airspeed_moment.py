"""Picture of the airspeed moment of a Crazyflie over its airspeed, and of its decrease with climb speed.

`PYTHONPATH=docs python -m figures.airspeed_moment docs/images` draws the picture of the documentation.
"""

import sys
from pathlib import Path
from typing import Any

import numpy as np

from samara.core.algebra import Vec3
from samara.core.atomic_files import atomic_write
from samara.physics.multirotor import wrench_breakdown
from samara.physics.rotors.airspeed_moment import wake_speed
from samara.vehicles.build import switch_on
from samara.vehicles.loader import vehicle
from samara.vehicles.shape import COLOURS, INK
from samara.vehicles.trim import hover
from samara.view.plot.style import samara_style

MEASURED = (
    (0.34e-3, 0.43e-3),
    (0.40e-3, 0.49e-3),
)  # [N m per m/s] about x and y, seven flights: docs/evidence/validation.md
ROLL, PITCH = 0.12, 0.14


def draw_airspeed_moment(path: str | Path) -> None:
    """Plot the moment over airspeed with the measured range, and the fraction of it that remains in a climb."""
    with samara_style() as plt:
        figure, (level, climbing) = plt.subplots(1, 2, figsize=(10.0, 4.0), layout="constrained")
        _level(level)
        _climbing(climbing)
        with atomic_write(path) as unfinished:
            figure.savefig(unfinished, format="png")


def _level(axes: Any) -> None:
    model = switch_on(vehicle("crazyflie"), "airspeed_moment", roll=ROLL, pitch=PITCH)
    state, command = hover(model)
    speed = np.linspace(0.0, 4.0, 41)
    forward, left = (
        wrench_breakdown(state._replace(v_W=v_W), command, model)["airspeed_moment"].tau_B
        for v_W in (Vec3(speed, 0.0, 0.0), Vec3(0.0, speed, 0.0))
    )
    lines = (
        (left.x, f"to the left, about x: c = {ROLL:g}", "seven flights, about x"),
        (-forward.y, f"forward, about y: c = {PITCH:g}", "seven flights, about y"),
    )
    for k, ((low, high), (moment, label, measured)) in enumerate(zip(MEASURED, lines, strict=True)):
        axes.fill_between(
            speed, 1e3 * low * speed, 1e3 * high * speed, color=COLOURS[k], alpha=0.2, lw=0.0, label=measured
        )
        axes.plot(speed, 1e3 * moment, color=COLOURS[k], label=label)
    axes.set(title="Leading side up: a Crazyflie", xlabel="airspeed [m/s]", ylabel="moment [mN m]")
    axes.set(xlim=(0.0, 4.0), ylim=(0.0, 2.0))
    axes.legend(loc="upper left")


def _climbing(axes: Any) -> None:
    x = np.linspace(-4.0, 4.0, 401)
    axes.plot(x, 1.0 / wake_speed(np.ones_like(x), x), color=COLOURS[0], label="the effect: v_h/W")
    up = x[x >= 0.0]
    axes.plot(
        up, 1.0 / (0.5 * up + np.sqrt(0.25 * up * up + 1.0)), color=INK, lw=0.9, ls="--", label="momentum theory, climb"
    )
    axes.axvline(0.0, color=INK, linewidth=0.6)
    axes.set(title="Less in a climb", xlabel="climb speed [v_h]", ylabel="moment relative to level flight")
    axes.set(xlim=(-4.0, 4.0), ylim=(0.0, 2.1))
    axes.legend(loc="upper right")


if __name__ == "__main__":
    draw_airspeed_moment(Path(sys.argv[1] if len(sys.argv) > 1 else "docs/images") / "airspeed_moment.png")
