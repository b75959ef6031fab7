"""Score how well a vehicle predicts flights that were not used to identify it, against simple baselines, over half a second.

Every window begins at a measured state and uses the recorded commands. The first seconds in the air of each flight are
excluded from every score: a trimmed vehicle has one gain for each rotor fitted to them, and nothing else of that flight.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from samara.core.types import Array
from samara.identify.fit_result import GAIN, Trim
from samara.identify.flight_log import FlightLog
from samara.identify.identification import Product, identified
from samara.identify.log_checks import usable
from samara.identify.parameters import ready
from samara.identify.prediction_error_fit import (
    BASELINES,
    QUANTITIES,
    RECORDED,
    UNITS,
    Predictor,
    Windows,
    errors,
    fit,
    windows_of,
)
from samara.identify.readers.registry import read_logs
from samara.identify.resampled_log import Samples, samples_of
from samara.physics.types import Vehicle
from samara.vehicles.loader import vehicle as load

TRIM = 5.0  # [s] in the air
DENSE = 0.05  # [s] between the starts of scored windows
MOST_SCORED = 2000  # windows of a flight
FOLDS = 7
COASTING = "constant velocity"
MOVES = frozenset({"velocity", "attitude", "rate"})
"""Signals that a log must contain so that windows can start in it."""


class Score(NamedTuple):
    """Scores of one flight or of several: the window count, and by model and quantity the RMS error every 0.05 s (records,)."""

    flight: str
    windows: int
    rms: dict[str, dict[str, Array]]


def scored_windows(samples: Samples) -> Windows:
    """Return all windows after the seconds that trims are fitted to; at most `MOST_SCORED`, evenly spread."""
    return windows_of(samples, most=MOST_SCORED, stride=DENSE, after=_aloft(samples) + TRIM)


def _aloft(samples: Samples) -> float:
    usable = np.flatnonzero(samples.usable)
    return float(samples.time[usable[0]]) if len(usable) else 0.0


def trimmed(
    samples: Samples,
    vehicle: Vehicle,
    predictor: Predictor,
    prior: Trim,
    spread: float = GAIN,
    per_volt: float = 0.0,
) -> Trim:
    """Fit one gain for each rotor to the first seconds in the air; the rest of the trim stays as in `before`.

    Gains refer to the voltage of `predictor.volts`, not to that of those seconds.
    """
    windows = windows_of(samples, most=None, stride=DENSE)
    ends = samples.time[windows.starts + windows.samples]
    trim_windows = windows._replace(starts=windows.starts[ends <= _aloft(samples) + TRIM])
    if not len(trim_windows.starts):
        return prior
    fitted = fit(
        [samples], vehicle, (), [prior], predictor=predictor, windows=[trim_windows], spread=spread, with_delay=False
    )
    if samples.voltage is None or not per_volt:
        return fitted.trims[0]
    voltage_factor = 1.0 + per_volt * (float(samples.voltage[trim_windows.starts].mean()) - predictor.volts)
    return fitted.trims[0]._replace(gains=tuple(gain / voltage_factor for gain in fitted.trims[0].gains))


def said_by(
    samples: Samples, windows: Windows, vehicle: Vehicle, predictor: Predictor, trim: Trim, per_volt: float = 0.0
) -> Array:
    """Predict the states of the windows, (records, 13, N)."""
    return predictor.lanes([samples], [windows], vehicle, [trim], per_volt).predicted()


class Predicted(NamedTuple):
    """Predictions of a flight: its samples, its windows, and by model the predicted bodies every 0.05 s (records, 13, N)."""

    samples: Samples
    windows: Windows
    said: dict[str, Array]

    @property
    def records(self) -> Windows:
        """The windows sampled at the recorded times."""
        stride = round(RECORDED / self.windows.period)
        return Windows(self.windows.starts, self.windows.samples // stride, stride * self.windows.period)

    @property
    def came(self) -> Array:
        """The measured bodies at the recorded times, (records, 13, N)."""
        stride = round(RECORDED / self.windows.period)
        offsets = range(stride, self.windows.samples + 1, stride)
        return np.stack([self.samples.body[:, self.windows.starts + k] for k in offsets])

    def score(self) -> Score:
        """Return the RMS errors of the baselines and the models."""
        measured_states = self.came
        models = {
            name: baseline(self.samples.body, self.records)[1:] for name, baseline in BASELINES.items()
        } | self.said
        rms = {
            name: {
                quantity: np.sqrt((values**2).mean(axis=1))
                for quantity, values in errors(states, measured_states).items()
            }
            for name, states in models.items()
        }
        return Score(self.samples.name, len(self.windows.starts), rms)


def together(scores: Sequence[Score]) -> Score:
    """√(Σ N e² / Σ N): every window of every flight has the same weight."""
    counts = [score.windows for score in scores]
    rms = {
        name: {
            quantity: np.sqrt(np.average([score.rms[name][quantity] ** 2 for score in scores], axis=0, weights=counts))
            for quantity in QUANTITIES
        }
        for name in scores[0].rms
    }
    return Score("all flights", sum(counts), rms)


def ratios(score: Score, model: str, beside: str = COASTING) -> dict[str, float]:
    """Return a model's error at the end of the windows over that of another model, by quantity."""
    return {
        quantity: float(score.rms[model][quantity][-1] / score.rms[beside][quantity][-1]) for quantity in QUANTITIES
    }


class Model(NamedTuple):
    """A compiled vehicle prepared by `ready`, the prior of a flight's trim, and whether the trim is fitted."""

    vehicle: Vehicle
    predictor: Predictor
    before: Trim
    spread: float = GAIN
    per_volt: float = 0.0
    is_trimmed: bool = True

    @staticmethod
    def of(vehicle: Vehicle, is_trimmed: bool = True, predictor: Predictor | None = None) -> "Model":
        """Build the model of a vehicle as its file describes it."""
        bare = ready(vehicle)
        unit_trim = Trim((1.0,) * len(bare.rotors), 0.0, (0.0, 0.0))
        return Model(bare, predictor or Predictor.of(bare), unit_trim, is_trimmed=is_trimmed)

    @staticmethod
    def of_product(product: Product, predictor: Predictor, wind_W: tuple[float, float] = (0.0, 0.0)) -> "Model":
        """Build the model of an identified vehicle, with the trims of its flights as the prior."""
        prior, spread = trim_before(list(product.trims.values()))
        prior = prior._replace(wind_W=wind_W)
        return Model(product.bare, Predictor(predictor.simulator, product.volts), prior, spread, product.per_volt)

    def says(self, samples: Samples, windows: Windows) -> Array:
        """Predict the states of the windows, (records, 13, N)."""
        trim = self.before
        if self.is_trimmed:
            trim = trimmed(samples, self.vehicle, self.predictor, trim, self.spread, self.per_volt)
        return said_by(samples, windows, self.vehicle, self.predictor, trim, self.per_volt)


def trim_before(trims: Sequence[Trim]) -> tuple[Trim, float]:
    """Return the prior of another flight's trim: the mean of the fitted trims, and their spread."""
    gains = np.array([trim.gains for trim in trims])
    mean_gains = np.exp(np.log(gains).mean(axis=0))
    spread = float(np.log(gains).std(axis=0).mean()) if len(gains) > 1 else GAIN
    delay = float(np.mean([trim.delay for trim in trims]))
    return Trim(tuple(float(g) for g in mean_gains), delay, (0.0, 0.0)), min(max(spread, 0.05), GAIN)


def can_be_scored(samples: Samples) -> bool:
    """Return whether the motion is logged for long enough after the seconds of the trim."""
    return samples.knows >= MOVES and len(scored_windows(samples).starts) > 0


def predicted(samples: Samples, models: Mapping[str, Model]) -> Predicted:
    """Predict a flight with each model."""
    windows = scored_windows(samples)
    return Predicted(samples, windows, {name: model.says(samples, windows) for name, model in models.items()})


def halves(samples: Samples) -> list[Samples]:
    """Split a flight in two at the middle of its usable samples."""
    is_first = np.cumsum(samples.usable) <= 0.5 * samples.usable.sum()
    return [
        samples._replace(name=f"{samples.name}, {which} half", usable=samples.usable & mask)
        for which, mask in (("first", is_first), ("second", ~is_first))
    ]


def held_out(
    flights: Sequence[Samples],
    start: Vehicle,
    *,
    predictor: bool = True,
    folds: int = FOLDS,
    progress: Callable[[float], None] | None = None,
) -> list[Predicted]:
    """Cross-validate: predict each flight with vehicles identified from the other flights, trimmed, and with the start vehicle.

    A single flight is split in halves that predict each other, with the steady wind of the other half: the air is the same.
    Flights that cannot be scored are used for identification only.

    Args:
        flights: the resampled logs.
        start: the vehicle to start from.
        predictor: identify the predictor as well.
        folds: largest count of groups.
        progress: called with the completed fraction.
    """
    parts = list(flights) if len(flights) > 1 else halves(flights[0])
    scored = [i for i, part in enumerate(parts) if can_be_scored(part)]
    if len(scored) < len(parts) and len(flights) == 1:
        return []
    groups = [scored[k::folds] for k in range(min(folds, len(scored)))]
    start_model = Model.of(start)
    predictions: dict[int, Predicted] = {}
    for k, group in enumerate(groups):
        training = [part for i, part in enumerate(parts) if i not in group]
        if not training:
            break
        identification = identified(training, start, predictor=predictor)
        (wind_W, *_) = (trim.wind_W for trim in identification.physical.trims.values())
        wind_W = wind_W if len(flights) == 1 else (0.0, 0.0)
        models = {f"{start.name}, trimmed": start_model}
        models |= {
            product.kind: Model.of_product(product, start_model.predictor, wind_W)
            for product in identification.products
        }
        for i in group:
            predictions[i] = predicted(parts[i], models)
        if progress:
            progress((k + 1) / len(groups))
    return [predictions[i] for i in sorted(predictions)]


VEHICLES = ("crazyflie_documented", "crazyflie")
HORIZONS = (0.1, 0.25, 0.5)  # [s]
TRIMMED = "{}, trimmed"


def validate(
    logs: str | Path | Sequence[FlightLog],
    vehicles: Sequence[str | Vehicle] = VEHICLES,
    progress: Callable[[str], None] | None = None,
    outputs: str = "speed",
) -> list[Score]:
    """Score vehicles on every flight, as they are and trimmed.

    Args:
        logs: a log file, a folder of logs, or logs already read.
        vehicles: vehicles, or names of shipped vehicles or files.
        progress: called with the name of each flight.
        outputs: the quantity that a motor output is linear in, "speed" or "thrust".
    """
    flights = read_logs([logs]) if isinstance(logs, (str, Path)) else logs
    models = []
    for vehicle_or_name in vehicles:
        vehicle = load(vehicle_or_name) if isinstance(vehicle_or_name, str) else vehicle_or_name
        plain = Model.of(vehicle, is_trimmed=False)
        models.append((vehicle, plain, plain._replace(is_trimmed=True)))
    scores = []
    for log in flights:
        if progress:
            progress(log.name)
        repaired_log, _ = usable(log)
        parts = []
        for vehicle, plain, trimmed in models:
            samples = samples_of(repaired_log, vehicle, outputs)
            if not samples.knows >= MOVES:
                missing = ", ".join(sorted(MOVES - samples.knows))
                raise ValueError(f"{log.name}: holds no {missing}; expected a log with the motion of the vehicle")
            if not len(scored_windows(samples).starts):
                raise ValueError(f"{log.name}: no half second in the air after the first 5 s; expected a longer flight")
            parts.append(predicted(samples, {vehicle.name: plain, TRIMMED.format(vehicle.name): trimmed}))
        scores.append(
            parts[0]._replace(said={name: states for part in parts for name, states in part.said.items()}).score()
        )
    return scores


def table(scores: Sequence[Score]) -> str:
    """Return the scores as Markdown: one row for each flight and model, all flights together first."""
    headings = [
        f"{quantity} [{unit}] {horizon:g} s" if k == 0 else f"{horizon:g} s"
        for quantity, unit in zip(QUANTITIES, UNITS, strict=True)
        for k, horizon in enumerate(HORIZONS)
    ]
    lines = [f"| flight | model | {' | '.join(headings)} |", f"|---|---|{'---:|' * len(headings)}"]
    for score in (together(scores), *scores):
        for name in score.rms:
            numbers = [f"{at(score, name, quantity, h):.3g}" for quantity in QUANTITIES for h in HORIZONS]
            lines.append(f"| {score.flight} ({score.windows}) | {name} | {' | '.join(numbers)} |")
    return "\n".join(lines) + "\n"


def at(score: Score, model: str, quantity: str, horizon: float) -> float:
    """Return the RMS error at `horizon` [s] after the start of a window."""
    return float(score.rms[model][quantity][round(horizon / RECORDED) - 1])
