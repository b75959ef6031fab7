"""Score vehicles on NanoBench's flights of a brushed Crazyflie 2.1: `python bench/prediction/nanobench.py FOLDER`.

The folder holds flights of S. I. Ullah, J. Baca, NanoBench (arXiv 2603.09908), one CSV each. Windows of half a second start
every 50 ms, after the first five seconds in the air, at the measured state, and get the recorded motor commands. The error at
their end is its RMS over all windows. A trimmed vehicle has one gain per rotor from those five seconds. Identified vehicles are
from the other flights, scored as `samara identify` writes them; trimmed ones are corrected for how the thrust of the other
flights fades after five seconds (`samara.identify.scores.cross_validate`).
"""

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "docs"))

from figures.validation import unfitted_crazyflie

from prediction.protocol import Row, Update, build_from_parts, files_in, run
from samara.identify.identification import PHYSICAL, PREDICTOR
from samara.identify.log_checks import require_usable
from samara.identify.prediction_error_fit import BASELINES, QUANTITIES
from samara.identify.readers.registry import read_logs
from samara.identify.resampled_log import resample_log
from samara.identify.scores import TRIMMED, PredictionScore, cross_validate, error_ratios, pool_scores, validate
from samara.physics.types import Vehicle
from samara.vehicles.loader import vehicle as load_vehicle

AIRFRAME = {"layout": "quad_x", "mass": 0.027, "diagonal": 0.092}  # Bitcraze's data sheet of the Crazyflie 2.1
DRIVE = {"motors": "0716 14000KV brushed", "props": "45x35 mm", "battery": "1S250"}


def score(arguments: argparse.Namespace, vehicles: dict[str, Vehicle], update: Update) -> list[Row]:
    """Score the baselines, the shipped and the built vehicle, further vehicles, and the identified ones."""
    logs = read_logs(files_in(arguments.folder, "*_rep*.csv*", "NanoBench's flights, such as B2_circle_fast_rep2.csv"))
    labels = {"from parts": build_from_parts(**AIRFRAME, **DRIVE), "shipped": load_vehicle("crazyflie"), **vehicles}
    open_loop = pool_scores(validate(logs, list(labels.values())))
    start = unfitted_crazyflie()
    flights = [resample_log(require_usable(log)[0], start) for log in logs]
    predictions = cross_validate(flights, start, progress=lambda fraction: update(fraction))
    held_out = pool_scores([prediction.score() for prediction in predictions])
    models = {name: name for name in BASELINES}
    for label, vehicle in labels.items():
        models |= {label: vehicle.name, f"{label}, trimmed": TRIMMED.format(vehicle.name)}
    identified = {f"identified, {name}": name for name in (PHYSICAL, PREDICTOR)}
    identified |= {TRIMMED.format(label): TRIMMED.format(name) for label, name in identified.items()}
    return score_rows(open_loop, models) + score_rows(held_out, dict(sorted(identified.items())))


def score_rows(scores: PredictionScore, models: dict[str, str]) -> list[Row]:
    """Return RMS errors after half a second and their ratios to constant velocity, one row per label."""
    return [
        {
            "row": label,
            "windows": scores.windows,
            **{f"{quantity}_ratio": ratio for quantity, ratio in error_ratios(scores, model).items()},
            **{quantity: float(scores.rms[model][quantity][-1]) for quantity in QUANTITIES},
        }
        for label, model in models.items()
        if model in scores.rms
    ]


if __name__ == "__main__":
    run("nanobench", __doc__, score)
