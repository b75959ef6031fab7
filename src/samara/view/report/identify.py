"""Report on an identification: one self-contained HTML file, with its pictures beside it.

write_identification(identification, predictions, "out")  # out/identify.html, out/identify_numbers.png, …
"""

from collections.abc import Sequence
from pathlib import Path

from samara.core.atomic_files import write_text
from samara.identify.identification import Identification, IdentifiedVehicle, ParameterEstimate
from samara.identify.parameters import hover_scales
from samara.identify.prediction_error_fit import BASELINES, QUANTITIES
from samara.identify.resampled_log import usable_duration
from samara.identify.scores import (
    TRIM_DURATION_S,
    FlightPrediction,
    PredictionScore,
    describe_worse_models,
    error_ratios,
    pool_scores,
)
from samara.view.plot import identify as draw
from samara.view.plot.identify import prediction_error_figure
from samara.view.plot.style import DetachedFigure, save
from samara.view.report.page import Html, badge, element, faint_paragraph, image, list_items, page, table

PRODUCT_DESCRIPTIONS = {
    "physical": "fitted by regression of force and torque: for design, and for conditions other than those flown",
    "predictor": "fitted to the prediction error over 0.5 s: predicts flights like these best; its parameters also absorb "
    "effects that the equations lack, so they have no physical meaning",
}
RESIDUALS_CAPTION = (
    "Measured force and torque minus those of the physical vehicle, at intervals of 0.05 s: means of bins, and the band of one "
    "standard deviation. A slope indicates an effect that the equations lack."
)
CORRELATION_CAPTION = (
    "Correlation of the errors of two parameters: near ±1 the flights determine a combination of the two, "
    "but neither alone."
)


def write_identification(
    identification: Identification,
    predictions: Sequence[FlightPrediction],
    folder: str | Path,
    *,
    command: str = "",
    files: Sequence[str] = (),
) -> list[Path]:
    """Write the page and its pictures (PNG); return their paths.

    Args:
        identification: the identification.
        predictions: predictions of flights that the models were not fitted to.
        folder: folder to write to.
        command: the command that ran the identification.
        files: the vehicle files that were written.
    """
    scores = [prediction.score() for prediction in predictions]
    pictures = _pictures(identification, predictions, scores)
    picture_paths = []
    embedded = {}
    for name, (figure, caption) in pictures.items():
        path = Path(folder) / f"identify_{name}.png"
        save(figure, path)
        embedded[name] = element("figure", image(path.read_bytes(), caption))
        picture_paths.append(path)
    path = Path(folder) / "identify.html"
    write_text(path, _page(identification, scores, embedded, command, files))
    return [path, *picture_paths]


def _pictures(
    identification: Identification, predictions: Sequence[FlightPrediction], scores: Sequence[PredictionScore]
) -> dict[str, tuple[DetachedFigure, str]]:
    weight, arm, _, _ = hover_scales(identification.start)
    pictures = {
        "numbers": (
            draw.parameter_figure(identification.vehicles),
            "parameters with 95 % intervals, beside those of the start vehicle",
        ),
        "residuals": (draw.residual_figure(identification.residuals, weight, arm), "residual force and torque"),
    }
    for product in identification.vehicles:
        if sum(estimate.excited for estimate in product.estimates) > 1:
            pictures[f"correlation_{product.model_type}"] = (
                draw.correlation_figure(product),
                f"correlation of the errors, {product.model_type}",
            )
    if scores:
        best = list(predictions[0].predictions)[-1]
        longest = max(predictions, key=lambda product: len(product.windows.starts))
        total_score = pool_scores(scores)
        split = (
            "each flight by the others"
            if len(identification.flights) > 1
            else "each half of the flight by the other half"
        )
        title = f"RMS error of open-loop prediction, {split}, {total_score.windows} windows"
        pictures["errors"] = (prediction_error_figure(scores, title), "prediction error over half a second")
        pictures["predicted"] = (draw.prediction_figure(longest, best), f"measured, and predicted by the {best}")
    return pictures


def _page(
    identification: Identification,
    scores: Sequence[PredictionScore],
    pictures: dict[str, Html],
    command: str,
    files: Sequence[str],
) -> str:
    flights = "one flight" if len(identification.flights) == 1 else f"{len(identification.flights)} flights"
    product_types = [product.model_type for product in identification.vehicles]
    return page(
        f"{identification.start.name} identified – Samara",
        element("h1", f"{identification.start.name}, identified from {flights}"),
        faint_paragraph(
            f"{identification.seconds:.0f} s in the air, starting from the vehicle {identification.start.name!r}"
        ),
        _badges(identification, scores),
        _warnings(identification),
        element("h2", "Parameters"),
        element("ul", [element("li", element("b", kind), ": ", PRODUCT_DESCRIPTIONS[kind]) for kind in product_types]),
        pictures["numbers"],
        [_parameter_table(product) for product in identification.vehicles],
        _prediction_scores(scores, len(identification.flights)),
        pictures.get("errors"),
        pictures.get("predicted"),
        element("h2", "Residual force and torque"),
        element("p", RESIDUALS_CAPTION),
        pictures["residuals"],
        _correlations(pictures),
        element("h2", "Flights"),
        _flights(identification),
        element("h2", "Reproduce"),
        element("pre", "\n".join(filter(None, (command, *(f"samara validate {file} LOG..." for file in files))))),
    )


def _correlations(pictures: dict[str, Html]) -> list[Html]:
    """Return the section on correlations; none if fewer than two parameters were identified."""
    shown = [picture for name, picture in pictures.items() if name.startswith("correlation")]
    if not shown:
        return []
    heading = element("h2", "Correlation of errors")
    return [heading, element("p", CORRELATION_CAPTION), element("div", shown, class_="pair")]


def _badges(identification: Identification, scores: Sequence[PredictionScore]) -> Html:
    identified_count = sum(estimate.excited for estimate in identification.physical.estimates)
    text = f"{identified_count} of {len(identification.physical.estimates)} parameters identified"
    badges = [badge(text, identified_count > 0)]
    if scores:
        total_score = pool_scores(scores)
        best = list(total_score.rms)[-1]
        worst = max(error_ratios(total_score, best).values())
        ratio_text = " / ".join(f"{ratio:.2f}" for ratio in error_ratios(total_score, best).values())
        badges.append(badge(f"{best}: {ratio_text} of the error of constant velocity", worst < 1.0))
    return element("p", badges)


def _warnings(identification: Identification) -> Html | None:
    flight_findings = [
        (flight, finding) for flight, findings in identification.findings.items() for finding in findings
    ]
    if not flight_findings:
        return None
    items = list_items([(element("b", flight), ": ", finding.sentence) for flight, finding in flight_findings], 20)
    return element("div", element("h3", "Findings in the logs", class_="bad"), element("ul", items), class_="card")


def _parameter_table(product: IdentifiedVehicle) -> Html:
    headings = (product.model_type, "value ± error", "95 % interval", "start", "unit", "identified")
    return element(
        "div", table(headings, [_parameter_row(estimate) for estimate in product.estimates]), style="margin-top: 14px"
    )


def _parameter_row(estimate: ParameterEstimate) -> list[object]:
    status = element("span", "✓", class_="good")
    if not estimate.excited:
        hint = f"not excited: fly {estimate.manoeuvre}"
        status = element("span", hint, style="display: inline-block; min-width: 15em", class_="faint")
    intervals = (
        f"{estimate.value:.4g} ± {estimate.error:.2g}",
        f"{estimate.low:.3g} … {estimate.high:.3g}",
        f"{estimate.start:.4g}",
    )
    cells = (*intervals, "" if estimate.unit == "1" else estimate.unit)
    name = element("span", draw.display_name(estimate.name), element("br"), element("code", estimate.name))
    style_class = None if estimate.excited else "faint"
    return [name, *(element("span", cell, style="white-space: nowrap", class_=style_class) for cell in cells), status]


def _prediction_scores(scores: Sequence[PredictionScore], flights: int) -> list[Html]:
    """Return the section on prediction; none without scores."""
    if not scores:
        return []
    total_score = pool_scores(scores)
    split = (
        "Each flight was predicted by vehicles identified from the others."
        if flights > 1
        else "There is one flight: each half of it was predicted by vehicles identified from the other half."
    )
    method = " A window starts at a measured state every 0.05 s; only the motor commands are used in it. Vehicles are as their "
    method += f"files describe them; trimmed ones have one gain per rotor from the first {TRIM_DURATION_S:g} s, which are not "
    method += "scored."
    models = [name for name in total_score.rms if name not in BASELINES]
    rows = [(name, *(f"{ratio:.2f}" for ratio in error_ratios(total_score, name).values())) for name in models]
    return [
        element("h2", "Prediction of unseen flights"),
        element("p", split + method),
        element("p", f"Error after 0.5 s relative to constant velocity, {total_score.windows} windows:"),
        table(("", *QUANTITIES), rows),
        element("ul", [element("li", sentence, class_="bad") for sentence in describe_worse_models(total_score)]),
    ]


def _flights(identification: Identification) -> Html:
    rotors = len(identification.start.rotors)
    headings = ("flight", "in the air", *(f"gain {i}" for i in range(rotors)), "motor delay", "steady wind x, y")
    rows = []
    for flight in identification.flights:
        trim = identification.physical.trims[flight.name]
        gains = [f"{gain:.3f}" for gain in trim.gains]
        wind = f"{trim.wind_W[0]:+.2f}, {trim.wind_W[1]:+.2f} m/s"
        rows.append((flight.name, f"{usable_duration(flight):.0f} s", *gains, f"{1e3 * trim.delay:.1f} ms", wind))
    caption = "Per-flight parameters of the physical vehicle; a gain multiplies the force of one rotor."
    physical = identification.physical
    if physical.per_volt and physical.volts:
        caption += f" Thrust changes by {100.0 * physical.per_volt:+.1f} % per volt around {physical.volts:.2f} V."
    return element("div", element("p", caption), table(headings, rows))
