"""Picture of turbulence and the boundary layer.

`PYTHONPATH=docs python -m figures.wind docs/images` draws the picture of the documentation.
"""

import math
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from samara.core.algebra import ZERO, Vec3
from samara.core.atomic_files import atomic_write
from samara.core.random import normals
from samara.physics.air.atmosphere import log_law, power_law
from samara.physics.air.turbulence import (
    DRYDEN_LENGTH_ALOFT,
    dryden_longitudinal_spectrum,
    dryden_transverse_spectrum,
    turbulence_deviations,
    turbulence_lengths,
    von_karman_longitudinal_spectrum,
    von_karman_transverse_spectrum,
)
from samara.record.spectrum import welch
from samara.vehicles.shape import COLOURS, INK
from samara.view.plot.style import samara_style
from samara.wind.turbulence import Dryden, VonKarman

HEIGHT, MEAN, DT, DRONES, STEPS = 50.0, 8.0, 0.02, 60, 6000
MODELS = (
    ("Dryden", Dryden, dryden_longitudinal_spectrum, dryden_transverse_spectrum),
    ("von Kármán", VonKarman, von_karman_longitudinal_spectrum, von_karman_transverse_spectrum),
)


def draw_wind(path: str | Path) -> None:
    """Plot spectra of both models by formula and from simulation, half a minute of gusts, and the mean wind over height."""
    with samara_style() as plt:
        figure, (spectra, gusts, layer) = plt.subplots(
            1, 3, figsize=(13.0, 4.3), layout="constrained", width_ratios=(1.15, 1.15, 0.7)
        )
        for k, (name, model, along, across) in enumerate(MODELS):
            winds = _simulate_wind(model(Vec3(MEAN, 0.0, 0.0)))
            _draw_spectra(spectra, winds, name, along, across, COLOURS[k])
            if model is Dryden:
                _draw_gusts(gusts, winds)
        spectra.set(title="Spectra at 50 m in 8 m/s", xlabel="frequency [Hz]", ylabel="power density [(m/s)²/Hz]")
        spectra.set(xlim=(0.015, 12.0), ylim=(2e-4, 60.0))
        spectra.legend(loc="lower left")
        _draw_boundary_layer(layer)
        with atomic_write(path) as unfinished:
            figure.savefig(unfinished, format="png")


def _simulate_wind(wind: Any) -> Any:
    """Simulate the wind at hovering drones, (steps, 3, drones)."""
    filter_state, winds = wind.initial(), np.empty((STEPS, 3, DRONES))
    for block_start in range(0, STEPS, 1000):
        ticks = np.arange(block_start, block_start + 1000)
        draws = normals(1, "wind", np.arange(DRONES)[None, :], ticks[:, None], wind.normals_needed)
        for row, tick in enumerate(ticks):
            dt = DT if tick else math.inf
            sample, filter_state = wind.sample_at(
                tick * DT, dt, draws[row].T, filter_state, Vec3(0.0, 0.0, HEIGHT), ZERO
            )
            winds[tick] = np.stack(np.broadcast_arrays(*sample, np.zeros(DRONES))[:3])
    return winds


def _draw_spectra(axes: Any, winds: Any, name: str, along: Any, across: Any, colour: str) -> None:
    frequency, density = welch(np.moveaxis(winds, 0, -1), 1 / DT, 3000)
    power = np.moveaxis(density, -1, 0)
    sigma = turbulence_deviations(HEIGHT, wind_6m=MEAN, aloft=1.5)
    lengths = turbulence_lengths(HEIGHT, aloft=DRYDEN_LENGTH_ALOFT)
    frequencies = np.logspace(math.log10(0.015), math.log10(12.0), 200)
    edges = np.logspace(math.log10(0.045), math.log10(10.0), 18)
    for axis, formula, factor, line_style in ((0, along, 1.0, "-"), (2, across, 0.1, "--")):
        wave = 2 * math.pi * frequencies / MEAN
        expected = formula(wave, sigma=sigma[axis], length=lengths[axis]) * 2 * math.pi / MEAN
        label = f"{name}, along the wind" if axis == 0 else f"{name}, up (÷ 10)"
        axes.loglog(frequencies, factor * expected, line_style, color=colour, label=label)
        bins = [(frequency >= low) & (frequency < high) for low, high in pairwise(edges)]
        points = [(frequency[in_bin].mean(), power[in_bin, axis].mean()) for in_bin in bins if in_bin.any()]
        axes.loglog(*(np.array(points).T * np.array([[1.0], [factor]])), "o", color=colour, markersize=3.5)


def _draw_gusts(axes: Any, winds: Any) -> None:
    time = DT * np.arange(1500)
    for axis, label in enumerate(("along the wind", "across", "up")):
        axes.plot(time, winds[:1500, axis, 1], color=COLOURS[axis], label=label, linewidth=1.1)
    axes.set(title="Dryden's wind on one drone", xlabel="time [s]", ylabel="wind [m/s]", xlim=(0.0, 30.0))
    axes.set_ylim(-3.0, 10.5)
    axes.legend(loc="center right", bbox_to_anchor=(1.0, 0.56), ncols=3)


def _draw_boundary_layer(axes: Any) -> None:
    height = np.linspace(0.0, 60.0, 400)
    axes.plot(
        MEAN * power_law(height, reference_height=10.0, exponent=1 / 7),
        height,
        color=COLOURS[0],
        label="power law, 1/7",
    )
    grass, town = (log_law(height, reference_height=10.0, roughness=roughness) for roughness in (0.03, 1.0))
    axes.plot(MEAN * grass, height, color=COLOURS[1], label="logarithm, grass (3 cm)")
    axes.plot(MEAN * town, height, color=COLOURS[2], label="logarithm, town (1 m)")
    axes.plot([MEAN], [10.0], "o", color=INK, markersize=5)
    axes.set(
        title="Mean wind, 8 m/s at 10 m", xlabel="wind [m/s]", ylabel="height [m]", xlim=(0.0, 16.0), ylim=(0.0, 75.0)
    )
    axes.legend(loc="upper left")


if __name__ == "__main__":
    draw_wind(Path(sys.argv[1] if len(sys.argv) > 1 else "docs/images") / "wind.png")
