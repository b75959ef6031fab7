"""Picture and tables of docs/evidence/validation.md, from NanoBench's flights:
`PYTHONPATH=docs python -m figures.validation FOLDER docs`."""

import sys
from collections.abc import Sequence
from pathlib import Path

from samara.core.algebra import Vec3
from samara.core.atomic_files import write_text
from samara.identify import FlightLog, cross_validate, identify, read_logs, validate
from samara.identify.identification import Identification
from samara.identify.prediction_error_fit import BASELINES, QUANTITIES, UNITS
from samara.identify.scores import PredictionScore, error_ratios, pool_scores
from samara.physics.types import Vehicle
from samara.vehicles.loader import vehicle as load
from samara.view.plot.identify import draw_validation

SHIPPED = ("crazyflie_documented", "crazyflie")
DRAWN_MODELS = ("crazyflie, trimmed", "physical", "predictor")
DAMPING = (0.0, 2e-4, 4e-4, 6e-4, 1e-3)  # [N m s/rad]


def unfitted_crazyflie() -> Vehicle:
    """Return the Crazyflie without knowledge of these flights: drag after Foerster (2015), no airspeed moment, no damping.

    The shipped vehicle has parameters from these flights, so a fit that starts from it has seen the data to predict.
    """
    crazyflie = load("crazyflie").without_effect("airspeed_moment", "damping")
    return crazyflie.replace({"drag.linear": Vec3(0.0069, 0.0069, 0.0078)})


def write_validation(flights: str | Path, docs: str | Path) -> None:
    """Recompute all numbers: shipped vehicles, and each flight predicted by vehicles identified from the others."""
    logs, start = read_logs([flights]), unfitted_crazyflie()
    identification = identify(logs, start)
    held_out_scores = [score.score() for score in cross_validate(identification.flights, start)]
    shipped_scores = {score.flight: score for score in validate(logs, SHIPPED)}
    scores = [
        score._replace(
            rms=shipped_scores[score.flight].rms
            | {product: score.rms[product] for product in ("physical", "predictor")}
        )
        for score in held_out_scores
    ]
    parts = {
        "ratios": ratio_table(pool_scores(scores)),
        "numbers": parameter_table(identification),
        "damping": damping_table(logs),
    }
    page = Path(docs) / "evidence" / "validation.md"
    write_text(page, fill_sections(page.read_text(encoding="utf-8"), parts))
    draw_validation([_select_models(score) for score in scores], Path(docs) / "images" / "validation.png")


def _select_models(score: PredictionScore) -> PredictionScore:
    return score._replace(
        rms={name: errors for name, errors in score.rms.items() if name in (*BASELINES, *DRAWN_MODELS)}
    )


def ratio_table(total_score: PredictionScore) -> str:
    """Tabulate errors after 0.5 s relative to constant velocity, whose own RMS errors are the first row."""
    lines = [f"| 0.5 s ahead | {' | '.join(QUANTITIES)} |", f"|---|{'---:|' * len(QUANTITIES)}"]
    baseline = total_score.rms["constant velocity"]
    errors = [f"{float(baseline[name][-1]):.3g} {unit}" for name, unit in zip(QUANTITIES, UNITS, strict=True)]
    lines.append(f"| constant velocity, RMS | {' | '.join(errors)} |")
    for name in total_score.rms:
        if name not in BASELINES:
            lines.append(
                f"| {name} | {' | '.join(f'{ratio:.2f}' for ratio in error_ratios(total_score, name).values())} |"
            )
    return "\n".join(lines) + "\n"


def parameter_table(identification: Identification) -> str:
    """Tabulate the parameters that at least one product identified, from all flights."""
    lines = [
        "| parameter | start | physical | 95 % interval | predictor | unit |",
        "|---|---:|---:|---:|---:|---|",
    ]
    for k, estimate in enumerate(identification.physical.estimates):
        predicted = identification.predictor.estimates[k] if identification.predictor else None
        if not estimate.excited and (predicted is None or not predicted.excited):
            continue
        value_text = f"{estimate.value:.3g} ± {estimate.error:.1g}" if estimate.excited else "not excited"
        interval_text = f"{estimate.low:.3g} … {estimate.high:.3g}" if estimate.excited else "–"
        predictor_text = (
            "–"
            if predicted is None
            else f"{predicted.value:.3g} ± {predicted.error:.1g}"
            if predicted.excited
            else "not excited"
        )
        cells = (
            f"`{estimate.name}`",
            f"{estimate.start:.3g}",
            value_text,
            interval_text,
            predictor_text,
            estimate.unit,
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def damping_table(logs: Sequence[FlightLog]) -> str:
    """Tabulate the errors of the shipped Crazyflie, trimmed, for several damping coefficients."""
    lines = ["| damping [N m s/rad] | position | velocity | attitude | rate |", "|---|---:|---:|---:|---:|"]
    crazyflie = load("crazyflie")
    for linear in DAMPING:
        vehicle = crazyflie.replace({"damping.linear": Vec3(linear, linear, linear)})
        ratios_by_quantity = error_ratios(pool_scores(validate(logs, [vehicle])), "crazyflie, trimmed")
        heading = f"**{linear:g}**" if linear == crazyflie["damping"].linear.x else f"{linear:g}"
        lines.append(f"| {heading} | {' | '.join(f'{ratio:.2f}' for ratio in ratios_by_quantity.values())} |")
    return "\n".join(lines) + "\n"


def fill_sections(page: str, parts: dict[str, str]) -> str:
    """Replace the text between `<!-- begin name -->` and `<!-- end name -->` in a page."""
    for name, text in parts.items():
        begin, end = f"<!-- begin {name} -->", f"<!-- end {name} -->"
        if page.count(begin) != 1 or page.count(end) != 1:
            raise ValueError(f"the page has not exactly one section {begin} … {end}; expected one")
        page = f"{page.partition(begin)[0]}{begin}\n\n{text}\n{end}{page.partition(end)[2]}"
    return page


if __name__ == "__main__":
    write_validation(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "docs")
