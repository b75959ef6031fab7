"""The picture and the tables of docs/validation.md, from NanoBench's flights:
`PYTHONPATH=docs python -m figures.validation FOLDER docs`."""

import sys
from collections.abc import Sequence
from pathlib import Path

from samara.core.algebra import Vec3
from samara.core.atomic_files import write_text
from samara.identify import FlightLog, held_out, identify, read_logs, validate
from samara.identify.identification import Identified
from samara.identify.prediction_error_fit import BASELINES, QUANTITIES
from samara.identify.scores import Score, ratios, table, together
from samara.physics.types import Vehicle
from samara.vehicles.loader import vehicle as load
from samara.view.plot.identify import draw_validation

SHIPPED = ("crazyflie_documented", "crazyflie")
DRAWN = ("crazyflie, trimmed", "physical", "predictor")
DAMPING = (0.0, 2e-4, 4e-4, 6e-4, 1e-3)  # [N m s/rad]


def before_these_flights() -> Vehicle:
    """The Crazyflie as it was known without them: drag after Foerster (2015), no moment of airspeed, no damping

    What is shipped has numbers from these very flights: who begins with it has seen what is to be predicted.
    """
    own = load("crazyflie").without_effect("airspeed_moment", "damping")
    return own.replace({"drag.linear": Vec3(0.0069, 0.0069, 0.0078)})


def write_validation(flights: str | Path, docs: str | Path) -> None:
    """All numbers anew: vehicles as they are shipped, and each flight predicted by vehicles identified on the others"""
    logs, start = read_logs([flights]), before_these_flights()
    found = identify(logs, start)
    predicted = [own.score() for own in held_out(found.flights, start)]
    shipped = {own.flight: own for own in validate(logs, SHIPPED)}
    scores = [
        own._replace(rms=shipped[own.flight].rms | {kind: own.rms[kind] for kind in ("physical", "predictor")})
        for own in predicted
    ]
    parts = {
        "ratios": ratio_table(together(scores)),
        "all": table(scores).split(f"| {scores[0].flight} ")[0],
        "flights": "\n".join(_after_all(table(scores).splitlines())) + "\n",
        "numbers": number_table(found),
        "damping": damping_table(logs),
    }
    page = Path(docs) / "validation.md"
    write_text(page, filled(page.read_text(encoding="utf-8"), parts))
    draw_validation([_drawn(own) for own in scores], Path(docs) / "images" / "validation.png")


def _drawn(own: Score) -> Score:
    return own._replace(rms={name: each for name, each in own.rms.items() if name in (*BASELINES, *DRAWN)})


def _after_all(lines: Sequence[str]) -> list[str]:
    return [line for line in lines if not line.startswith("| all flights")]


def ratio_table(whole: Score) -> str:
    """Errors after half a second over those of constant velocity"""
    lines = [f"| half a second ahead | {' | '.join(QUANTITIES)} |", f"|---|{'---:|' * len(QUANTITIES)}"]
    for name in whole.rms:
        if name not in BASELINES:
            lines.append(f"| {name} | {' | '.join(f'{own:.2f}' for own in ratios(whole, name).values())} |")
    return "\n".join(lines) + "\n"


def number_table(found: Identified) -> str:
    """What all flights together tell, of both products"""
    lines = [
        "| number | start | physical | 95 % interval | predictor | unit |",
        "|---|---:|---:|---:|---:|---|",
    ]
    for k, own in enumerate(found.physical.estimates):
        best = found.predictor.estimates[k] if found.predictor else None
        mine = f"{own.value:.3g} ± {own.error:.1g}" if own.excited else "not excited"
        held = f"{own.low:.3g} … {own.high:.3g}" if own.excited else "–"
        other = "–" if best is None else f"{best.value:.3g} ± {best.error:.1g}" if best.excited else "not excited"
        lines.append(f"| `{own.name}` | {own.start:.3g} | {mine} | {held} | {other} | {own.unit} |")
    return "\n".join(lines) + "\n"


def damping_table(logs: Sequence[FlightLog]) -> str:
    """The shipped Crazyflie, trimmed, with more or less of its damping"""
    lines = ["| damping [N m s/rad] | position | velocity | attitude | rate |", "|---|---:|---:|---:|---:|"]
    own = load("crazyflie")
    for linear in DAMPING:
        vehicle = own.replace({"damping.linear": Vec3(linear, linear, linear)})
        found = ratios(together(validate(logs, [vehicle])), "crazyflie, trimmed")
        shown = f"**{linear:g}**" if linear == own["damping"].linear.x else f"{linear:g}"
        lines.append(f"| {shown} | {' | '.join(f'{each:.2f}' for each in found.values())} |")
    return "\n".join(lines) + "\n"


def filled(page: str, parts: dict[str, str]) -> str:
    """A page with what is between `<!-- begin name -->` and `<!-- end name -->` replaced"""
    for name, text in parts.items():
        begin, end = f"<!-- begin {name} -->", f"<!-- end {name} -->"
        if page.count(begin) != 1 or page.count(end) != 1:
            raise ValueError(f"the page has not one place {begin} … {end}; expected one")
        page = f"{page.partition(begin)[0]}{begin}\n\n{text}\n{end}{page.partition(end)[2]}"
    return page


if __name__ == "__main__":
    write_validation(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "docs")
