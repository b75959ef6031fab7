"""How far vehicles are from real flights after a tenth, a quarter and half a second, beside saying nothing new.

Nothing is fitted to what is scored: a vehicle is taken as its file has it, and once more with one gain for each rotor from the
first five seconds in the air, which are in nobody's score (`samara.identify.scores`).
"""

from collections.abc import Callable, Sequence
from pathlib import Path

from samara.identify.flight_log import FlightLog
from samara.identify.log_checks import usable
from samara.identify.prediction_error_fit import RECORDED
from samara.identify.prediction_windows import QUANTITIES, UNITS
from samara.identify.readers.registry import read_logs
from samara.identify.resampled_log import samples_of
from samara.identify.scores import MOVES, Model, Score, predicted, scored_windows, together
from samara.physics.types import Vehicle
from samara.vehicles.loader import vehicle as load

VEHICLES = ("crazyflie_documented", "crazyflie")
HORIZONS = (0.1, 0.25, 0.5)  # [s]
TRIMMED = "{}, trimmed"


def validate(
    logs: str | Path | Sequence[FlightLog],
    vehicles: Sequence[str | Vehicle] = VEHICLES,
    progress: Callable[[str], None] | None = None,
    outputs: str = "speed",
) -> list[Score]:
    """Scores of every flight, by vehicle as it is and trimmed; `logs` is a file, a folder of them, or what was read"""
    flights = read_logs([logs]) if isinstance(logs, (str, Path)) else logs
    models = []
    for own in vehicles:
        vehicle = load(own) if isinstance(own, str) else own
        plain = Model.of(vehicle, is_trimmed=False)
        models.append((vehicle, plain, plain._replace(is_trimmed=True)))
    scores = []
    for log in flights:
        if progress:
            progress(log.name)
        whole, _ = usable(log)
        parts = []
        for vehicle, plain, trimmed in models:
            samples = samples_of(whole, vehicle, outputs)
            if not samples.knows >= MOVES:
                lacking = ", ".join(sorted(MOVES - samples.knows))
                raise ValueError(f"{log.name}: holds no {lacking}; expected a log that says how the vehicle moved")
            if not len(scored_windows(samples).starts):
                raise ValueError(f"{log.name}: no half second in the air after the first 5 s; expected a longer flight")
            parts.append(predicted(samples, {vehicle.name: plain, TRIMMED.format(vehicle.name): trimmed}))
        scores.append(parts[0]._replace(said={name: own for each in parts for name, own in each.said.items()}).score())
    return scores


def table(scores: Sequence[Score]) -> str:
    """The scores as Markdown: one row for each flight and model, all flights together first"""
    heads = [
        f"{quantity} [{unit}] {horizon:g} s" if k == 0 else f"{horizon:g} s"
        for quantity, unit in zip(QUANTITIES, UNITS, strict=True)
        for k, horizon in enumerate(HORIZONS)
    ]
    lines = [f"| flight | model | {' | '.join(heads)} |", f"|---|---|{'---:|' * len(heads)}"]
    for own in (together(scores), *scores):
        for name in own.rms:
            numbers = [f"{at(own, name, quantity, h):.3g}" for quantity in QUANTITIES for h in HORIZONS]
            lines.append(f"| {own.flight} ({own.windows}) | {name} | {' | '.join(numbers)} |")
    return "\n".join(lines) + "\n"


def at(score: Score, model: str, quantity: str, horizon: float) -> float:
    """The RMS error so long [s] after the start of a window"""
    return float(score.rms[model][quantity][round(horizon / RECORDED) - 1])
