"""Pictures of ground effect and downwash beside measurements.

`PYTHONPATH=docs python -m figures.neighbours FOLDER docs/images` draws the pictures of the documentation; FOLDER holds the
tables of Shi and others' Crazyflies (Neural-Swarm2, T-RO 2021).
"""

import math
import sys
from pathlib import Path
from typing import Any

import numpy as np

from samara.core.algebra import IDENTITY, Vec3
from samara.core.atomic_files import atomic_write
from samara.physics.air.downwash import Downwash, DownwashReceiver, Jet, downwash_wrench, flux_velocity, jet_flux
from samara.physics.air.ground_effect import (
    GroundEffect,
    cheeseman_bennett,
    fountain_inflow,
    image_inflow,
    thrust_ratio,
)
from samara.physics.types import Vehicle
from samara.record.run import Run
from samara.vehicles.loader import vehicle
from samara.vehicles.shape import COLOURS, INK
from samara.view.plot.style import DASHES, samara_style

GRAM = 9.80665e-3  # [N]
WEIGHT, RADIUS, LEGS = 32.0, 0.0231, 0.03  # of the measured Crazyflies: grams, and metres
FITTED = Downwash(spread=0.1006, drag=1.358)
DOWN = Vec3(0.0, 0.0, -1.0)


def _table(path: Path) -> Any:
    return np.genfromtxt(path, delimiter=",", names=True)


def _crazyflie() -> Vehicle:
    return vehicle("crazyflie").replace({"mass": 1e-3 * WEIGHT, "rotors.radius": RADIUS})


def _extra_thrust(height: float, ground_effect: GroundEffect) -> float:
    """Return the thrust that the ground adds to a level Crazyflie in hover [g]."""
    up, rotors = Vec3(0.0, 0.0, 1.0), _crazyflie().rotors
    inflow = sum(image_inflow(rotors[0].r_B - rotor.r_B, height, up, up, radius=RADIUS) for rotor in rotors)
    inflow = inflow + len(rotors) * fountain_inflow(height, radius=RADIUS, ground_effect=ground_effect)
    return float(WEIGHT * (1.0 - 1.0 / thrust_ratio(inflow)))


def draw_ground_effect(folder: Path, path: str | Path) -> None:
    """Plot the extra thrust over the floor by height: measured, and from four models."""
    table = _table(folder / "ground_effect_cf21.csv")
    low, high = table["z_m_lo"] - 0.05 + LEGS, table["z_m_hi"] - 0.05 + LEGS
    height = np.linspace(0.032, 0.4, 300)
    lines = (
        (
            "one rotor alone (Cheeseman and Bennett)",
            [WEIGHT * (1 - 1 / cheeseman_bennett(h, radius=RADIUS)) for h in height],
        ),
        ("images of all four rotors", [_extra_thrust(h, GroundEffect(0.0)) for h in height]),
        ("and body lift as published, K_b = 2", [_extra_thrust(h, GroundEffect(2.0, 0.092)) for h in height]),
        (
            "body lift seen from the arm, K_b fitted: 1.26",
            [_extra_thrust(h, GroundEffect(1.256, 0.046)) for h in height],
        ),
    )
    with samara_style() as plt:
        figure, axes = plt.subplots(figsize=(8.2, 4.4), layout="constrained")
        for (name, extra_thrust), colour, line in zip(lines, COLOURS, (":", "--", "-", "-."), strict=False):
            axes.plot(100 * height, extra_thrust, line, color=colour, label=name)
        middle, half = 50 * (low + high), 50 * (high - low)
        dots = {"fmt": "o", "color": INK, "markersize": 4.5, "elinewidth": 1.0}
        axes.errorbar(
            middle[1:], table["median_dFz_g"][1:], xerr=half[1:], label="measured, median of each bin", **dots
        )
        axes.errorbar(
            middle[:1], table["median_dFz_g"][:1], xerr=half[:1], **dots, mfc="none", label="legs touch the floor"
        )
        axes.set(title="A Crazyflie over the floor", xlabel="height of the rotors [cm]", ylabel="extra thrust [g]")
        axes.set(xlim=(2.5, 40.0), ylim=(-1.0, 6.0))
        axes.legend(loc="upper right")
        _save(figure, path, plt)


def draw_downwash(folder: Path, path: str | Path) -> None:
    """Plot the air speed in the jet of one drone, and the force on another drone below it beside measurements."""
    with samara_style() as plt:
        figure, (jet_axes, force_axes) = plt.subplots(
            1, 2, figsize=(10.4, 4.8), layout="constrained", width_ratios=(0.62, 1.0)
        )
        _draw_jet(jet_axes, figure)
        _draw_forces(force_axes, _table(folder / "downwash_cf21_pair.csv"))
        _save(figure, path, plt)


def draw_stack(run: Run, path: str | Path) -> None:
    """Plot drones above each other: heights with references, and the downward force on each relative to its weight."""
    with samara_style() as plt:
        figure, (heights, forces) = plt.subplots(1, 2, figsize=(10.4, 4.0), layout="constrained", sharex=True)
        for k, track in reversed(list(enumerate(run.drone_records))):
            table = track.tables["environment"]
            weight = track.vehicle.mass * track.vehicle["gravity"].acceleration
            heights.plot(track.time, track.position[:, 2], color=COLOURS[k], label=track.name)
            reference = track.reference_position[:, 2]
            heights.plot(track.time, reference, color=COLOURS[k], linestyle=DASHES, linewidth=1.0)
            force_percent = -100.0 * table["external_wrenches[0].f_W.z"] / weight
            forces.step(table.time, force_percent, where="post", color=COLOURS[k], label=track.name)
        heights.set(title="Height, reference dashed", xlabel="time [s]", ylabel="height [m]")
        forces.set(title="Downward force from the others", xlabel="time [s]", ylabel="force [% of its weight]")
        heights.set_xlim(0.0, float(run.drone_records[0].time[-1]))
        heights.legend(loc="upper right", bbox_to_anchor=(1.0, 0.88))
        _save(figure, path, plt)


def _hover_jet() -> Jet:
    return Jet(Vec3(0.0, 0.0, 0.0), DOWN, WEIGHT * GRAM, 2 * RADIUS)


def _draw_jet(axes: Any, figure: Any) -> None:
    x, z = np.meshgrid(np.linspace(-0.25, 0.25, 201), np.linspace(-0.75, 0.05, 321))
    flux = jet_flux(Vec3(x, np.zeros_like(x), z), _hover_jet(), downwash=FITTED)
    speed = -flux_velocity(flux, air_density=1.225).z
    levels = np.arange(0.0, 9.0, 1.0)
    filled = axes.contourf(100 * x, 100 * z, speed, levels=levels, cmap="Blues", extend="max")
    figure.colorbar(filled, ax=axes, label="downwash [m/s]", shrink=0.9)
    for height in (0.0, -25.0, -45.0):
        for side in (-1, 1):
            hub = side * 3.25
            axes.plot([hub - 2.31, hub + 2.31], [height, height], color=INK, linewidth=2.2, solid_capstyle="round")
        axes.plot([-3.25, 3.25], [height - 0.6] * 2, color=INK, linewidth=1.0)
    axes.set(title="The jet below a Crazyflie", xlabel="lateral [cm]", ylabel="vertical [cm]", aspect="equal")
    axes.grid(visible=False)


def _draw_forces(axes: Any, table: Any) -> None:
    is_far = table["r_m_lo"] >= 0.2
    force = table["median_Fz_lower_g"] - np.average(table["median_Fz_lower_g"][is_far], weights=table["n"][is_far])
    middle = 50 * (table["r_m_lo"] + table["r_m_hi"])
    lateral = np.linspace(0.0, 0.3, 120)
    angles = np.arange(8) * math.pi / 4
    drone, markers = _crazyflie(), "sovD"
    for k, low in enumerate(np.unique(table["dz_m_lo"])):
        in_layer = table["dz_m_lo"] == low
        height = low + 0.05
        x, y = lateral[:, None] * np.cos(angles), lateral[:, None] * np.sin(angles)
        exposed = DownwashReceiver(Vec3(x, y, np.full_like(x, -height)), IDENTITY)
        for line, downwash in (("-", FITTED), (":", Downwash())):
            mean_force = np.mean(downwash_wrench(exposed, _hover_jet(), drone, downwash).f_W.z, axis=1) / GRAM
            axes.plot(100 * lateral, mean_force, line, color=COLOURS[k], linewidth=1.4 if line == "-" else 1.0)
        label = f"{100 * low:.0f} to {100 * low + 10:.0f} cm below"
        axes.plot(middle[in_layer], force[in_layer], markers[k], color=COLOURS[k], markersize=5, label=label)
    axes.plot([], [], "-", color=INK, label="model, spread and drag fitted")
    axes.plot([], [], ":", color=INK, label="model, a free jet and a plate")
    axes.set(title="Force on a drone below", xlabel="lateral [cm]", ylabel="force [g], measured minus bias")
    axes.set(xlim=(0.0, 30.0), ylim=(-10.5, 1.0))
    axes.legend(loc="lower right")


def _save(figure: Any, path: str | Path, plt: Any) -> None:
    with atomic_write(path) as unfinished:
        figure.savefig(unfinished, format="png")


if __name__ == "__main__":
    tables, images = Path(sys.argv[1]), Path(sys.argv[2] if len(sys.argv) > 2 else "docs/images")
    draw_ground_effect(tables, images / "ground_effect.png")
    draw_downwash(tables, images / "downwash.png")
