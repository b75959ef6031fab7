"""How well a vehicle predicts flights it was not identified on, beside saying nothing new, over half a second.

Every window begins at a measured state, and hears the recorded commands. The first seconds in the air of each flight are kept
out of every score: a vehicle that is called trimmed has one gain for each rotor from them, and nothing else of that flight.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from samara.identify.parameters import Parameter, parameters_of
from samara.identify.prediction import (
    FIELDS,
    RECORDED,
    Prediction,
    Predictor,
    Windows,
    apart,
    fit,
    windows_of,
)
from samara.identify.regression import GAIN, Trim
from samara.identify.samples import Samples
from samara.identify.windows import BASELINES, QUANTITIES
from samara.identify.windows import Windows as Spans
from samara.physics.types import Vehicle

Array = np.ndarray[Any, Any]

TRIM = 5.0  # [s] in the air
DENSE = 0.05  # [s] between the starts of scored windows
FOLDS = 7


class Score(NamedTuple):
    """One flight, or several together: how many windows, and by model and quantity the RMS error every 0.05 s (records,)"""

    flight: str
    windows: int
    rms: dict[str, dict[str, Array]]


def scored_windows(samples: Samples) -> Windows:
    """All after the seconds that trims are made from"""
    return windows_of(samples, most=None, stride=DENSE, after=_aloft(samples) + TRIM)


def _aloft(samples: Samples) -> float:
    usable = np.flatnonzero(samples.usable)
    return float(samples.time[usable[0]]) if len(usable) else 0.0


def trimmed(samples: Samples, vehicle: Vehicle, predictor: Predictor, before: Trim, spread: float = GAIN) -> Trim:
    """One gain for each rotor from the first seconds in the air, the rest as it was before"""
    early = windows_of(samples, most=None, stride=DENSE)
    ends = samples.time[early.starts + early.samples]
    first = Windows(early.starts[ends <= _aloft(samples) + TRIM], early.samples)
    if not len(first.starts):
        return before
    found = fit([samples], vehicle, (), [before], predictor=predictor, windows=[first], spread=spread, with_delay=False)
    return found.trims[0]


def said_by(
    samples: Samples, windows: Windows, vehicle: Vehicle, predictor: Predictor, trim: Trim, per_volt: float = 0.0
) -> Array:
    """(records, 13, N)"""
    return predictor.lanes([samples], [windows], vehicle, [trim], per_volt).predicted()


def score(samples: Samples, windows: Windows, said: dict[str, Array]) -> Score:
    """RMS errors of what models said of a flight, and of the baselines"""
    every = round(RECORDED / samples.period)
    came = np.stack([samples.body[:, windows.starts + k] for k in range(every, windows.samples + 1, every)])
    spans = Spans(windows.starts, windows.samples, samples.period)
    models = said | {name: own(samples.body, spans)[every::every] for name, own in BASELINES.items()}
    rms = {}
    for name, own in models.items():
        errors = apart(own, came)
        rms[name] = {
            quantity: np.sqrt((errors[:, part] ** 2).sum(axis=1).mean(axis=1))
            for quantity, part in zip(QUANTITIES, FIELDS, strict=True)
        }
    return Score(samples.name, len(windows.starts), rms)


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


def ratios(own: Score, model: str, beside: str = "constant velocity") -> dict[str, float]:
    """A model's error at the end of the windows over another's, by quantity"""
    return {quantity: float(own.rms[model][quantity][-1] / own.rms[beside][quantity][-1]) for quantity in QUANTITIES}


def trim_before(found: Prediction) -> tuple[Trim, float]:
    """What is known of another flight's trim: the mean of those found, and their spread"""
    gains = np.array([own.gains for own in found.trims])
    middle = np.exp(np.log(gains).mean(axis=0))
    spread = float(np.log(gains).std(axis=0).mean()) if len(gains) > 1 else GAIN
    delay = float(np.mean([own.delay for own in found.trims]))
    return Trim(tuple(float(g) for g in middle), delay, (0.0, 0.0)), min(max(spread, 0.05), GAIN)


def cross_validated(
    flights: Sequence[Samples],
    start: Vehicle,
    parameters: Sequence[Parameter] | None = None,
    progress: Callable[[float], None] | None = None,
    folds: int = FOLDS,
) -> list[Score]:
    """Each flight predicted by a vehicle identified on the others, trimmed; in at most `folds` groups"""
    own = tuple(parameters if parameters is not None else parameters_of(start))
    groups = [list(range(k, len(flights), folds)) for k in range(min(folds, len(flights)))]
    scores: dict[int, Score] = {}
    for k, group in enumerate(groups):
        others = [flight for i, flight in enumerate(flights) if i not in group]
        found = fit(others, start, own)
        predictor = Predictor.of(start, found.volts)
        before, spread = trim_before(found)
        for i in group:
            windows = scored_windows(flights[i])
            trim = trimmed(flights[i], found.vehicle, predictor, before, spread)
            said = said_by(flights[i], windows, found.vehicle, predictor, trim, found.per_volt)
            scores[i] = score(flights[i], windows, {"identified on the others": said})
        if progress:
            progress((k + 1) / len(groups))
    return [scores[i] for i in range(len(flights))]
