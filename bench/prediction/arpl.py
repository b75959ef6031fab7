"""Identify a brushed Crazyflie from published logs: `python bench/prediction/arpl.py FOLDER`.

The folder holds log10, log15 and log16 of J. Eschmann, D. Albani, G. Loianno, Data-Driven System Identification of Quadrotors
Subject to Motor Delays (arXiv 2404.07837). Each row has their number, and that of `samara identify` with its 95 % interval.
"""

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "docs"))

from figures.validation import unfitted_crazyflie

from prediction.protocol import Row, Update, files_in, run
from samara.identify.identification import identify
from samara.identify.readers.registry import read_logs
from samara.physics.rotors.actuator import speed_from_command
from samara.physics.types import Vehicle

PUBLISHED = {
    **{"inertia.xx": (1.0286e-5, 1e6), "inertia.yy": (1.1052e-5, 1e6), "inertia.zz": (1.9546e-5, 1e6)},
    **{"motor.time_constant_up": (0.072, 1e3), "motor.time_constant_down": (0.072, 1e3)},
}
"""Moments of inertia [kg m²] and motor lag [s], with the scale that they are written in"""
INTERVAL = ("value", "low", "high")
OUTPUTS = (0.5, 0.6, 0.7)  # PWM / 65535


def published_thrust(u: float) -> float:
    """f(u) of one motor at the PWM ratio u  [N]"""
    return 0.02126557 - 0.01117503 * u + 0.12012994 * u * u


def score(arguments: argparse.Namespace, vehicles: dict[str, Vehicle], update: Update) -> list[Row]:
    """Compare inertia [1e-6 kg m²], motor lag [ms] and thrust [mN] at the mass of the shipped Crazyflie."""
    logs = read_logs(files_in(arguments.folder, "log1[056]", "log10, log15 and log16 of Eschmann et al."))
    start = unfitted_crazyflie()
    product = identify(logs, start, predictor=False, progress=lambda stage, fraction: update(fraction)).physical
    rows = [(name, product.estimate(name), scale, value) for name, (value, scale) in PUBLISHED.items()]
    for u in OUTPUTS:
        square = float(speed_from_command(u, start.rotors[0].motor)) ** 2
        rows.append((f"thrust at {u:g}", product.estimate("k_thrust"), 1e3 * square, published_thrust(u) / square))
    return [
        {"row": row, "published": scale * value, **{key: scale * getattr(estimate, key) for key in INTERVAL}}
        for row, estimate, scale, value in rows
    ]


if __name__ == "__main__":
    run("arpl", __doc__, score)
