"""Pictures of rotors: computed and measured coefficients."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes

from samara.core.types import Array
from samara.propeller.bem import rotor_coefficients
from samara.propeller.blade import Blade, Measurement
from samara.vehicles.shape import COLOURS, INK
from samara.view.plot.style import samara_style, save


def draw_rotors(rotors: Sequence[tuple[Blade, Measurement | None]], path: str | Path, rpm: float | None = None) -> None:
    """Plot CT, CP and efficiency against J, one column per rotor: the model as lines, measurements as points."""
    with samara_style() as plt:
        figure, axes = plt.subplots(3, len(rotors), figsize=(3.3 * len(rotors) + 0.8, 7.6), sharex="col", squeeze=False)
        for column, (blade, measured) in zip(axes.T, rotors, strict=True):
            _draw_rotor(column, blade, measured, rpm)
        for row, name in zip(axes, ("thrust  CT", "power  CP", "efficiency  J CT/CP"), strict=True):
            row[0].set_ylabel(name)
        axes[0, -1].legend(loc="upper right")
        save(figure, path)


def _draw_rotor(column: Sequence[Axes], blade: Blade, measured: Measurement | None, rpm: float | None) -> None:
    speed = rpm if rpm is not None else float(measured.rpm.max()) if measured is not None else 5000.0
    J = np.linspace(0.0, 1.6, 161)
    model = rotor_coefficients(blade, J, speed)
    has_thrust = np.cumprod(model.thrust > -0.01).astype(bool)
    for axes, values, colour in zip(column, _coefficient_curves(J, model.thrust, model.power), COLOURS, strict=False):
        axes.plot(J[has_thrust], values[has_thrust], color=colour, label="model", linewidth=2.0, zorder=3)
    max_advance = float(J[has_thrust].max())
    if measured is not None:
        max_advance = max(max_advance, float(measured.advance.max()))
        coefficients = _coefficient_curves(measured.advance, measured.thrust, measured.power)
        for axes, values in zip(column, coefficients, strict=True):
            axes.plot(measured.advance, values, "o", markersize=2.6, color=INK, alpha=0.45, label="measured", zorder=2)
    column[0].set(title=f"{blade.name}, {speed:.0f} rpm", ylim=(-0.01, None))
    column[1].set(ylim=(0.0, None))
    column[2].set(ylim=(0.0, 0.85), xlim=(0.0, 1.03 * max_advance), xlabel="advance ratio J = V/(nD)")


def _coefficient_curves(J: Array, thrust: Array, power: Array) -> tuple[Array, Array, Array]:
    """CT, CP and, for positive thrust and power, the efficiency η = J CT/CP."""
    is_propelling = (thrust > 0.0) & (power > 0.0)
    return thrust, power, np.where(is_propelling, J * thrust / np.where(is_propelling, power, 1.0), np.nan)
