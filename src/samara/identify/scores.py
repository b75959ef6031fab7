"""How well a vehicle predicts flights it was not identified on, beside saying nothing new, over half a second.

Every window begins at a measured state, and hears the recorded commands. The first seconds in the air of each flight are kept
out of every score: a vehicle that is called trimmed has one gain for each rotor from them, and nothing else of that flight.
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
"""What a log must know for windows to begin in it"""


class Score(NamedTuple):
    """One flight, or several together: how many windows, and by model and quantity the RMS error every 0.05 s (records,)"""

    flight: str
    windows: int
    rms: dict[str, dict[str, Array]]


def scored_windows(samples: Samples) -> Windows:
    """All after the seconds that trims are made from; of a long flight so many of them, evenly"""
    return windows_of(samples, most=MOST_SCORED, stride=DENSE, after=_aloft(samples) + TRIM)


def _aloft(samples: Samples) -> float:
    usable = np.flatnonzero(samples.usable)
    return float(samples.time[usable[0]]) if len(usable) else 0.0


def trimmed(
    samples: Samples,
    vehicle: Vehicle,
    predictor: Predictor,
    before: Trim,
    spread: float = GAIN,
    per_volt: float = 0.0,
) -> Trim:
    """One gain for each rotor from the first seconds in the air, the rest as it was before

    Gains are at the voltage that thrust per volt is from, and not at that of those seconds.
    """
    early = windows_of(samples, most=None, stride=DENSE)
    ends = samples.time[early.starts + early.samples]
    first = early._replace(starts=early.starts[ends <= _aloft(samples) + TRIM])
    if not len(first.starts):
        return before
    found = fit([samples], vehicle, (), [before], predictor=predictor, windows=[first], spread=spread, with_delay=False)
    if samples.voltage is None or not per_volt:
        return found.trims[0]
    more = 1.0 + per_volt * (float(samples.voltage[first.starts].mean()) - predictor.volts)
    return found.trims[0]._replace(gains=tuple(own / more for own in found.trims[0].gains))


def said_by(
    samples: Samples, windows: Windows, vehicle: Vehicle, predictor: Predictor, trim: Trim, per_volt: float = 0.0
) -> Array:
    """(records, 13, N)"""
    return predictor.lanes([samples], [windows], vehicle, [trim], per_volt).predicted()


class Predicted(NamedTuple):
    """What models said of a flight: its samples, where the windows begin, and by model the bodies that were said, every 0.05 s
    (records, 13, N)"""

    samples: Samples
    windows: Windows
    said: dict[str, Array]

    @property
    def records(self) -> Windows:
        """The windows with what is recorded as their samples"""
        every = round(RECORDED / self.windows.period)
        return Windows(self.windows.starts, self.windows.samples // every, every * self.windows.period)

    @property
    def came(self) -> Array:
        every = round(RECORDED / self.windows.period)
        at = range(every, self.windows.samples + 1, every)
        return np.stack([self.samples.body[:, self.windows.starts + k] for k in at])

    def score(self) -> Score:
        """RMS errors of the baselines and of what models said"""
        came = self.came
        models = {name: own(self.samples.body, self.records)[1:] for name, own in BASELINES.items()} | self.said
        rms = {
            name: {quantity: np.sqrt((each**2).mean(axis=1)) for quantity, each in errors(own, came).items()}
            for name, own in models.items()
        }
        return Score(self.samples.name, len(self.windows.starts), rms)


def together(scores: Sequence[Score]) -> Score:
    """√(Σ N e² / Σ N): every window of every flight counts alike"""
    counts = [own.windows for own in scores]
    rms = {
        name: {
            quantity: np.sqrt(np.average([own.rms[name][quantity] ** 2 for own in scores], axis=0, weights=counts))
            for quantity in QUANTITIES
        }
        for name in scores[0].rms
    }
    return Score("all flights", sum(counts), rms)


def ratios(own: Score, model: str, beside: str = COASTING) -> dict[str, float]:
    """A model's error at the end of the windows over another's, by quantity"""
    return {quantity: float(own.rms[model][quantity][-1] / own.rms[beside][quantity][-1]) for quantity in QUANTITIES}


class Model(NamedTuple):
    """A vehicle that is `ready`, compiled, what is known of a flight's trim before it is seen, and whether it is trimmed"""

    vehicle: Vehicle
    predictor: Predictor
    before: Trim
    spread: float = GAIN
    per_volt: float = 0.0
    is_trimmed: bool = True

    @staticmethod
    def of(vehicle: Vehicle, is_trimmed: bool = True, predictor: Predictor | None = None) -> "Model":
        """A vehicle as its file has it"""
        bare = ready(vehicle)
        even = Trim((1.0,) * len(bare.rotors), 0.0, (0.0, 0.0))
        return Model(bare, predictor or Predictor.of(bare), even, is_trimmed=is_trimmed)

    @staticmethod
    def of_product(own: Product, predictor: Predictor, wind_W: tuple[float, float] = (0.0, 0.0)) -> "Model":
        before, spread = trim_before(list(own.trims.values()))
        before = before._replace(wind_W=wind_W)
        return Model(own.bare, Predictor(predictor.simulator, own.volts), before, spread, own.per_volt)

    def says(self, samples: Samples, windows: Windows) -> Array:
        """(records, 13, N)"""
        trim = self.before
        if self.is_trimmed:
            trim = trimmed(samples, self.vehicle, self.predictor, trim, self.spread, self.per_volt)
        return said_by(samples, windows, self.vehicle, self.predictor, trim, self.per_volt)


def trim_before(trims: Sequence[Trim]) -> tuple[Trim, float]:
    """What is known of another flight's trim: the mean of those found, and their spread"""
    gains = np.array([own.gains for own in trims])
    middle = np.exp(np.log(gains).mean(axis=0))
    spread = float(np.log(gains).std(axis=0).mean()) if len(gains) > 1 else GAIN
    delay = float(np.mean([own.delay for own in trims]))
    return Trim(tuple(float(g) for g in middle), delay, (0.0, 0.0)), min(max(spread, 0.05), GAIN)


def can_be_scored(samples: Samples) -> bool:
    """Whether it says how it moves, for long enough after the seconds of the trim"""
    return samples.knows >= MOVES and len(scored_windows(samples).starts) > 0


def predicted(samples: Samples, models: Mapping[str, Model]) -> Predicted:
    """What models say of a flight"""
    windows = scored_windows(samples)
    return Predicted(samples, windows, {name: own.says(samples, windows) for name, own in models.items()})


def halves(samples: Samples) -> list[Samples]:
    """A flight as two: up to the middle of what can be used of it, and from there on"""
    before = np.cumsum(samples.usable) <= 0.5 * samples.usable.sum()
    return [
        samples._replace(name=f"{samples.name}, {which} half", usable=samples.usable & own)
        for which, own in (("first", before), ("second", ~before))
    ]


def held_out(
    flights: Sequence[Samples],
    start: Vehicle,
    *,
    predictor: bool = True,
    folds: int = FOLDS,
    progress: Callable[[float], None] | None = None,
) -> list[Predicted]:
    """Each flight predicted by the products of the others, trimmed, and by the start vehicle, in at most `folds` groups

    Of one flight alone, each half by the other, in the steady wind that was found there: it is the same air. Flights that
    cannot be scored are identified on and not predicted.
    """
    parts = list(flights) if len(flights) > 1 else halves(flights[0])
    scored = [i for i, own in enumerate(parts) if can_be_scored(own)]
    if len(scored) < len(parts) and len(flights) == 1:
        return []
    groups = [scored[k::folds] for k in range(min(folds, len(scored)))]
    begun = Model.of(start)
    found: dict[int, Predicted] = {}
    for k, group in enumerate(groups):
        others = [own for i, own in enumerate(parts) if i not in group]
        if not others:
            break
        told = identified(others, start, predictor=predictor)
        (wind_W, *_) = (own.wind_W for own in told.physical.trims.values())
        wind_W = wind_W if len(flights) == 1 else (0.0, 0.0)
        models = {f"{start.name}, trimmed": begun}
        models |= {own.kind: Model.of_product(own, begun.predictor, wind_W) for own in told.products}
        for i in group:
            found[i] = predicted(parts[i], models)
        if progress:
            progress((k + 1) / len(groups))
    return [found[i] for i in sorted(found)]


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
