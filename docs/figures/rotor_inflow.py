"""Induced velocity of a rotor in every flow state: rotor_inflow.png."""

from pathlib import Path

import numpy as np

from samara.physics.rotors.inflow import JOHNSON, RING_CENTRE, RING_HALF_WIDTH, induced_ratio
from samara.vehicles.shape import COLOURS, GRID, INK
from samara.view.plot.style import DASHES, samara_style, save

SHOWN = ("apce 9.0x4.5", "kyosho 10.0x7.0", "gwssf 11.0x8.0", "apcsf 10.0x4.7")
"""Four propellers for the documentation: three common ones, and one of the family with the largest model error."""
LEISHMAN = (1.0, -1.125, -1.372, -1.718, -0.655)
"""ν = Σ kᵢ xⁱ, −2 ≤ x ≤ 0: J. G. Leishman, Principles of Helicopter Aerodynamics (2006)"""


def draw_inflow(path: str | Path) -> None:
    """Plot ν = v/v_h against climb speed in every flow state and at four edgewise speeds, with the underlying theories."""
    with samara_style() as plt:
        figure, (left, right) = plt.subplots(1, 2, figsize=(11.5, 4.8), sharey=True)
        x = np.linspace(-4.0, 3.0, 1401)
        ring = (RING_CENTRE - RING_HALF_WIDTH, RING_CENTRE + RING_HALF_WIDTH)
        left.axvspan(*ring, color=GRID, alpha=0.6, linewidth=0)
        left.text(RING_CENTRE, 0.06, "vortex ring", ha="center", fontsize=9)
        left.text(-3.9, 0.06, "windmill brake", fontsize=9)
        left.text(0.1, 0.06, "climb", fontsize=9)
        left.text(-0.93, 0.06, "descent", fontsize=9)
        up, down = x[x >= -2.5], x[x <= -2.0]
        left.plot(up, -0.5 * up + np.sqrt(0.25 * up**2 + 1.0), color=INK, linewidth=1.0, linestyle=DASHES)
        left.plot(
            down,
            -0.5 * down - np.sqrt(0.25 * down**2 - 1.0),
            color=INK,
            linewidth=1.0,
            linestyle=DASHES,
            label="momentum theory",
        )
        descent = x[(x >= -2.0) & (x <= 0.0)]
        left.plot(
            descent,
            np.polyval(LEISHMAN[::-1], descent),
            color=COLOURS[1],
            linestyle=(0, (6, 2)),
            label="Leishman's quartic",
        )
        johnson_range = x[(x >= -2.0) & (x <= -1.0)]
        cubic, _, linear = JOHNSON
        left.plot(
            johnson_range,
            johnson_range * (cubic * johnson_range**2 + linear),
            color=COLOURS[4],
            linewidth=4.5,
            alpha=0.55,
            label="Johnson's cubic",
        )
        left.plot(x, induced_ratio(x, np.zeros_like(x)), color=COLOURS[0], linewidth=2.2, label="samara")
        left.set(title="axial flight", ylabel="induced velocity  v / v_h", ylim=(0.0, 2.6))
        left.legend(loc="upper right", bbox_to_anchor=(1.0, 0.93))
        for edge_ratio, colour in zip((0.0, 0.5, 1.0, 2.0), COLOURS, strict=False):
            right.plot(
                x, induced_ratio(x, np.full_like(x, edge_ratio)), color=colour, label=f"V_e / v_h = {edge_ratio:g}"
            )
        right.set(title="with edgewise flow")
        right.legend(loc="upper right")
        for axes in (left, right):
            axes.set(xlabel="climb speed  V_c / v_h", xlim=(-4.0, 3.0))
        save(figure, path)
