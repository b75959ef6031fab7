"""Picture of docs/evidence/prediction.md, of NanoBench's flights: `PYTHONPATH=docs python -m figures.validation FOLDER`."""

import sys
from pathlib import Path

from samara.core.algebra import Vec3
from samara.identify import cross_validate, read_logs, validate
from samara.identify.log_checks import require_usable
from samara.identify.prediction_error_fit import BASELINES
from samara.identify.resampled_log import resample_log
from samara.identify.scores import PredictionScore
from samara.physics.types import Vehicle
from samara.vehicles.loader import vehicle as load
from samara.view.plot.identify import draw_validation

DRAWN_MODELS = ("crazyflie, trimmed", "physical, trimmed", "predictor, trimmed")


def unfitted_crazyflie() -> Vehicle:
    """Return the Crazyflie without knowledge of these flights: drag after Foerster (2015), no airspeed moment, no damping.

    The shipped vehicle has parameters from these flights, so a fit that starts from it has seen the data to predict.
    """
    crazyflie = load("crazyflie").without_effect("airspeed_moment", "damping")
    return crazyflie.replace({"drag.linear": Vec3(0.0069, 0.0069, 0.0078)})


def write_validation(flights: str | Path, docs: str | Path) -> None:
    """Draw the errors over time: shipped vehicles, and each flight predicted by vehicles identified from the others."""
    logs, start = read_logs([flights]), unfitted_crazyflie()
    resampled = [resample_log(require_usable(log)[0], start) for log in logs]
    held_out_scores = [prediction.score() for prediction in cross_validate(resampled, start)]
    shipped_scores = {score.flight: score for score in validate(logs, ["crazyflie"])}
    scores = [
        score._replace(
            rms=shipped_scores[score.flight].rms | {product: score.rms[product] for product in DRAWN_MODELS[1:]}
        )
        for score in held_out_scores
    ]
    draw_validation([_select_models(score) for score in scores], Path(docs) / "images" / "validation.png")


def _select_models(score: PredictionScore) -> PredictionScore:
    return score._replace(
        rms={name: errors for name, errors in score.rms.items() if name in (*BASELINES, *DRAWN_MODELS)}
    )


if __name__ == "__main__":
    write_validation(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "docs")
