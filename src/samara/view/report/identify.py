"""The report of an identification: one HTML file that needs nothing else, and its pictures beside it.

write_identification(found, predicted, "out")  # out/identify.html, out/identify_numbers.png, …
"""

from collections.abc import Sequence
from pathlib import Path

from samara.core.atomic_files import write_text
from samara.identify.identification import Estimate, Identified, Product
from samara.identify.parameters import size_of
from samara.identify.prediction_error_fit import BASELINES, QUANTITIES
from samara.identify.resampled_log import duration_of
from samara.identify.scores import TRIM, Predicted, Score, ratios, together
from samara.view.plot import identify as draw
from samara.view.plot.identify import errors_over_time
from samara.view.plot.style import Picture, save
from samara.view.report.page import Html, badge, element, faint, image, limited, page, table

PRODUCTS = {
    "physical": "from regression of force and torque: for design, and for other conditions than those flown",
    "predictor": "from prediction error over half a second: says best what comes next in flights like these; its numbers "
    "also hold what the equations lack, and are not the vehicle's physics",
}
RESIDUALS = (
    "What each twentieth of a second needed, less what the physical vehicle says: means of bins, and the band that two of "
    "three are in. A slope is something the equations lack."
)
CORRELATED = (
    "Errors of two numbers that go together: near ±1 the flights tell a combination of the two, and neither alone."
)


def write_identification(
    found: Identified,
    predicted: Sequence[Predicted],
    folder: str | Path,
    *,
    command: str = "",
    files: Sequence[str] = (),
) -> list[Path]:
    """The page, and its pictures as PNG files; `files` are the vehicles that were written, `command` is what was typed"""
    scores = [own.score() for own in predicted]
    pictures = _pictures(found, predicted, scores)
    written = []
    inside = {}
    for name, (figure, words) in pictures.items():
        path = Path(folder) / f"identify_{name}.png"
        save(figure, path)
        inside[name] = element("figure", image(path.read_bytes(), words))
        written.append(path)
    path = Path(folder) / "identify.html"
    write_text(path, _page(found, scores, inside, command, files))
    return [path, *written]


def _pictures(
    found: Identified, predicted: Sequence[Predicted], scores: Sequence[Score]
) -> dict[str, tuple[Picture, str]]:
    weight, arm, _, _ = size_of(found.start)
    pictures = {
        "numbers": (draw.numbers(found.products), "numbers with their 95 % intervals beside the start vehicle's"),
        "residuals": (draw.residuals(found.residuals, weight, arm), "force and torque left over"),
    }
    for own in found.products:
        if sum(each.excited for each in own.estimates) > 1:
            pictures[f"correlation_{own.kind}"] = (draw.correlation(own), f"correlation of the errors, {own.kind}")
    if scores:
        best = list(predicted[0].said)[-1]
        longest = max(predicted, key=lambda own: len(own.windows.starts))
        whole = together(scores)
        how = "each flight by the others" if len(found.flights) > 1 else "each half of the flight by the other"
        title = f"RMS error of open-loop prediction, {how}, {whole.windows} windows"
        pictures["errors"] = (errors_over_time(scores, title), "prediction error over half a second")
        pictures["predicted"] = (draw.flown_and_predicted(longest, best), f"flown, and predicted by the {best}")
    return pictures


def _page(
    found: Identified, scores: Sequence[Score], pictures: dict[str, Html], command: str, files: Sequence[str]
) -> str:
    flights = "one flight" if len(found.flights) == 1 else f"{len(found.flights)} flights"
    kinds = [own.kind for own in found.products]
    return page(
        f"{found.start.name} identified – Samara",
        element("h1", f"{found.start.name}, identified from {flights}"),
        faint(f"{found.seconds:.0f} s in the air, beginning with vehicle {found.start.name!r}"),
        _badges(found, scores),
        _warnings(found),
        element("h2", "Numbers"),
        element("ul", [element("li", element("b", kind), ": ", PRODUCTS[kind]) for kind in kinds]),
        pictures["numbers"],
        [_numbers(own) for own in found.products],
        element("h2", "How well it predicts flights it has not seen"),
        _scored(scores, len(found.flights)),
        pictures.get("errors"),
        pictures.get("predicted"),
        element("h2", "What force and torque are left over"),
        element("p", RESIDUALS),
        pictures["residuals"],
        element("h2", "What goes together"),
        element("p", CORRELATED),
        element("div", [own for name, own in pictures.items() if name.startswith("correlation")], class_="pair"),
        element("h2", "Flight by flight"),
        _flights(found),
        element("h2", "Do it again"),
        element("pre", "\n".join(filter(None, (command, *(f"samara validate {file} LOG..." for file in files))))),
    )


def _badges(found: Identified, scores: Sequence[Score]) -> Html:
    told = sum(own.excited for own in found.physical.estimates)
    badges = [badge(f"{told} of {len(found.physical.estimates)} numbers told", True)]
    if scores:
        whole = together(scores)
        best = list(whole.rms)[-1]
        worst = max(ratios(whole, best).values())
        parts = " / ".join(f"{ratio:.2f}" for ratio in ratios(whole, best).values())
        badges.append(badge(f"{best}: {parts} of constant velocity's error", worst < 1.0))
    return element("p", badges)


def _warnings(found: Identified) -> Html | None:
    said = [(flight, own) for flight, findings in found.findings.items() for own in findings]
    if not said:
        return None
    items = limited([(element("b", flight), ": ", own.sentence) for flight, own in said], 20)
    return element("div", element("h3", "Found in the logs", class_="bad"), element("ul", items), class_="card")


def _numbers(own: Product) -> Html:
    heads = (own.kind, "value ± error", "95 % interval", "start", "unit", "told")
    return element("div", table(heads, [_row(each) for each in own.estimates]), style="margin-top: 14px")


def _row(own: Estimate) -> list[object]:
    told = element("span", "✓", class_="good")
    if not own.excited:
        words = f"not excited: fly {own.manoeuvre}"
        told = element("span", words, class_="faint", style="display: inline-block; min-width: 190px")
    numbers = (f"{own.value:.4g} ± {own.error:.2g}", f"{own.low:.3g} … {own.high:.3g}", f"{own.start:.4g}")
    cells = (*numbers, "" if own.unit == "1" else own.unit)
    name = element("span", f"{draw.called(own.name)} ", element("code", own.name))
    faint = None if own.excited else "faint"
    return [name, *(element("span", cell, style="white-space: nowrap", class_=faint) for cell in cells), told]


def _scored(scores: Sequence[Score], flights: int) -> Html | list[Html]:
    if not scores:
        return faint("No flight could be predicted: none says how it moves for long enough.")
    whole = together(scores)
    how = (
        "Each flight was predicted by vehicles identified on the others."
        if flights > 1
        else "There is one flight: each half of it was predicted by vehicles identified on the other half."
    )
    more = " A window begins at a measured state every 0.05 s and hears the motors alone. Every vehicle has one gain for each "
    more += f"rotor from the first {TRIM:g} s, which are in no score."
    models = [name for name in whole.rms if name not in BASELINES]
    rows = [(name, *(f"{ratio:.2f}" for ratio in ratios(whole, name).values())) for name in models]
    return [
        element("p", how + more),
        element("p", f"Error after half a second over that of constant velocity, {whole.windows} windows:"),
        table(("", *QUANTITIES), rows),
    ]


def _flights(found: Identified) -> Html:
    rotors = len(found.start.rotors)
    heads = ("flight", "in the air", *(f"gain {i}" for i in range(rotors)), "motors heard late", "steady wind x, y")
    rows = []
    for own in found.flights:
        trim = found.physical.trims[own.name]
        gains = [f"{gain:.3f}" for gain in trim.gains]
        wind = f"{trim.wind_W[0]:+.2f}, {trim.wind_W[1]:+.2f} m/s"
        rows.append((own.name, f"{duration_of(own):.0f} s", *gains, f"{1e3 * trim.delay:.1f} ms", wind))
    words = "What is each flight's own, as the physical vehicle has it; a gain multiplies what one rotor gives."
    volts = found.physical
    if volts.per_volt and volts.volts:
        words += f" Thrust moves by {100.0 * volts.per_volt:+.1f} % for a volt about {volts.volts:.2f} V."
    return element("div", element("p", words), table(heads, rows))
