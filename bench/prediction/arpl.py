"""Identify a brushed Crazyflie from published logs: `python bench/prediction/arpl.py FOLDER`.

The folder holds log10, log15 and log16 of J. Eschmann, D. Albani, G. Loianno, Data-Driven System Identification of Quadrotors
Subject to Motor Delays (arXiv 2404.07837). Each row has their number, and that of `samara identify` with its 95 % interval.
"""

import argparse
import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[1]), str(Path(__file__).resolve().parents[2] / "docs")]

from figures.validation import unfitted_crazyflie
from prediction.protocol import Row, Update, files_in, run

from samara.identify.identification import identify
from samara.identify.readers.registry import read_logs
from samara.physics.rotors.actuator import speed_from_command
from samara.physics.types import Vehicle

INERTIA = {"xx": 1.0286e-5, "yy": 1.1052e-5, "zz": 1.9546e-5}  # [kg m²]
LAG = 0.072  # [s]
OUTPUTS = (0.5, 0.6, 0.7)  # PWM / 65535


def published_thrust(u: float) -> float:
    """f(u) of one motor at the PWM ratio u  [N]"""
    return 0.02126557 - 0.01117503 * u + 0.12012994 * u * u


def score(arguments: argparse.Namespace, vehicles: dict[str, Vehicle], update: Update) -> list[Row]:
    """Compare inertia [1e-6 kg m²], motor lag [ms] and thrust [mN]."""
    logs = read_logs(files_in(arguments.folder, "log1[056]", "log10, log15 and log16 of Eschmann et al."))
    start = unfitted_crazyflie()
    product = identify(logs, start, predictor=False, progress=lambda stage, fraction: update(fraction)).physical
    scales = {f"inertia.{axis}": (1e6, value) for axis, value in INERTIA.items()}
    scales |= {f"motor.time_constant_{direction}": (1e3, LAG) for direction in ("up", "down")}
    rows: list[Row] = []
    for name, (scale, published) in scales.items():
        estimate = product.estimate(name)
        values = (published, estimate.value, estimate.low, estimate.high)
        fields = zip(("published", "value", "low", "high"), (scale * value for value in values), strict=True)
        rows.append({"row": name, **dict(fields), "excited": estimate.excited})
    thrust = product.estimate("k_thrust")
    for u in OUTPUTS:
        square = 1e3 * float(speed_from_command(u, start.rotors[0].motor)) ** 2
        values = {key: getattr(thrust, key) * square for key in ("value", "low", "high")}
        rows.append({"row": f"thrust at {u:g}", "published": 1e3 * published_thrust(u), **values})
    return rows


if __name__ == "__main__":
    run("arpl", __doc__, score)
