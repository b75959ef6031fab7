"""Score how well a vehicle predicts flights that were not used to identify it, against simple baselines, over half a second.

Every window begins at a measured state and uses the recorded commands. A vehicle is scored as its file describes it. The first
seconds in the air of each flight are excluded from every score: a *trimmed* vehicle has one gain for each rotor fitted to
them, and nothing else of that flight; that of an identified one is corrected for how the thrust of the other flights fades.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from samara.core.types import Array
from samara.identify.fit_result import rotor_speeds
from samara.identify.flight_log import FlightLog
from samara.identify.identification import PHYSICAL, identify_resampled
from samara.identify.log_checks import require_usable
from samara.identify.motor_calibration import MotorCalibration
from samara.identify.parameters import prepare_vehicle
from samara.identify.prediction_error_fit import (
    BASELINES,
    QUANTITIES,
    RECORD_PERIOD,
    UNITS,
    Predictor,
    Windows,
    fit_by_prediction_error,
    prediction_errors,
    select_windows,
)
from samara.identify.readers.registry import read_logs
from samara.identify.resampled_log import ResampledLog, resample_log
from samara.physics.types import Vehicle
from samara.vehicles.limits import replace_dc_motors
from samara.vehicles.loader import vehicle as load

TRIM_DURATION_S = 5.0  # [s] in the air
WINDOW_STRIDE_S = 0.05  # [s] between the starts of scored windows
MAX_SCORED_WINDOWS = 2000  # windows of a flight
FOLDS = 7
CONSTANT_VELOCITY, TRIMMED = "constant velocity", "{}, trimmed"
REQUIRED_SIGNALS = frozenset({"velocity", "attitude", "rate"})
"""Signals that a log must contain so that windows can start in it."""


class PredictionScore(NamedTuple):
    """Scores of one flight or of several: the window count, and by model and quantity the RMS error every 0.05 s (records,)."""

    flight: str
    windows: int
    rms: dict[str, dict[str, Array]]


def scored_windows(samples: ResampledLog) -> Windows:
    """Return all windows after the seconds that trims are fitted to; at most `MAX_SCORED_WINDOWS`, evenly spread."""
    return select_windows(
        samples, max_count=MAX_SCORED_WINDOWS, stride=WINDOW_STRIDE_S, earliest=_aloft(samples) + TRIM_DURATION_S
    )


def _aloft(samples: ResampledLog) -> float:
    usable = np.flatnonzero(samples.usable)
    return float(samples.time[usable[0]]) if len(usable) else 0.0


def fit_gains(
    samples: ResampledLog, vehicle: Vehicle, predictor: Predictor, wind_W: tuple[float, float] = (0.0, 0.0)
) -> tuple[float, ...]:
    """Fit one gain for each rotor of a vehicle prepared by `prepare_vehicle` to the first seconds in the air."""
    windows = select_windows(samples, max_count=None, stride=WINDOW_STRIDE_S)
    ends = samples.time[windows.starts + windows.samples]
    trim_windows = windows._replace(starts=windows.starts[ends <= _aloft(samples) + TRIM_DURATION_S])
    if not len(trim_windows.starts):
        return (1.0,) * len(vehicle.rotors)
    fitted = fit_by_prediction_error([samples], vehicle, (), predictor=predictor, windows=[trim_windows], wind_W=wind_W)
    return fitted.trims[0].gains


def thrust_fade(flights: Sequence[ResampledLog], vehicle: Vehicle) -> float:
    """Return the gain of the thrust after the first seconds in the air over that in them, the mean of flights; 1 if unknown.

    Batteries sag and brushed motors warm up: a vehicle trimmed to the first seconds is too strong later.
    """
    motor, fades = vehicle.rotors[0].motor, []
    for flight in flights:
        speeds = rotor_speeds(flight, motor.time_constant_up, motor.time_constant_down, 0.0)
        thrust = sum(rotor.k_thrust * speed**2 for rotor, speed in zip(vehicle.rotors, speeds, strict=True))
        is_late = flight.time >= _aloft(flight) + TRIM_DURATION_S
        parts = [flight.usable & mask for mask in (is_late, ~is_late)]
        if all(part.any() for part in parts) and "specific_force" in flight.available_signals:
            late, early = (float(flight.specific_force[2, part].mean() / thrust[part].mean()) for part in parts)
            fades.append(late / early)
    return float(np.exp(np.mean(np.log(fades)))) if fades else 1.0


class FlightPrediction(NamedTuple):
    """Predictions of a flight: its samples, its windows, and by model the predicted bodies every 0.05 s (records, 13, N)."""

    samples: ResampledLog
    windows: Windows
    predictions: dict[str, Array]

    @property
    def recorded_windows(self) -> Windows:
        """The windows sampled at the recorded times."""
        stride = round(RECORD_PERIOD / self.windows.period)
        return Windows(self.windows.starts, self.windows.samples // stride, stride * self.windows.period)

    @property
    def measured_states(self) -> Array:
        """The measured bodies at the recorded times, (records, 13, N)."""
        stride = round(RECORD_PERIOD / self.windows.period)
        offsets = range(stride, self.windows.samples + 1, stride)
        return np.stack([self.samples.body[:, self.windows.starts + k] for k in offsets])

    def score(self) -> PredictionScore:
        """Return the RMS errors of the baselines and the models."""
        measured_states = self.measured_states
        models = {
            name: baseline(self.samples.body, self.recorded_windows)[1:] for name, baseline in BASELINES.items()
        } | self.predictions
        rms = {
            name: {
                quantity: np.sqrt((values**2).mean(axis=1))
                for quantity, values in prediction_errors(states, measured_states).items()
            }
            for name, states in models.items()
        }
        return PredictionScore(self.samples.name, len(self.windows.starts), rms)


def pool_scores(scores: Sequence[PredictionScore]) -> PredictionScore:
    """√(Σ N e² / Σ N): every window of every flight has the same weight."""
    counts = [score.windows for score in scores]
    rms = {
        name: {
            quantity: np.sqrt(np.average([score.rms[name][quantity] ** 2 for score in scores], axis=0, weights=counts))
            for quantity in QUANTITIES
        }
        for name in scores[0].rms
    }
    return PredictionScore("all flights", sum(counts), rms)


def error_ratios(score: PredictionScore, model: str, baseline: str = CONSTANT_VELOCITY) -> dict[str, float]:
    """Return a model's error at the end of the windows over that of another model, by quantity."""
    return {
        quantity: float(score.rms[model][quantity][-1] / score.rms[baseline][quantity][-1]) for quantity in QUANTITIES
    }


def worse_quantities(score: PredictionScore, model: str) -> list[str]:
    """Return the quantities that a model predicts worse than constant velocity and a constant rate do."""
    return [quantity for quantity, ratio in error_ratios(score, model).items() if not ratio < 1.0]


def describe_worse_models(score: PredictionScore) -> list[str]:
    """Return a sentence for every model that predicts something worse than constant velocity and a constant rate."""
    worse = {name: worse_quantities(score, name) for name in score.rms if name not in BASELINES}
    return [
        f"{name} predicts {', '.join(quantities)} worse than constant velocity and a constant rate"
        for name, quantities in worse.items()
        if quantities
    ]


class ScoredModel(NamedTuple):
    """A vehicle prepared by `prepare_vehicle`, compiled, and whether its rotors' gains are fitted to the flight.

    `fade` multiplies fitted gains: what other flights tell about the thrust after the seconds of the fit (`thrust_fade`).
    `wind_W` is the steady wind along x and y, if it is known [m/s]. `calibration` turns the commanded speeds of flights that
    were resampled for the start vehicle into those of this one.
    """

    vehicle: Vehicle
    predictor: Predictor
    is_trimmed: bool = True
    fade: float = 1.0
    wind_W: tuple[float, float] = (0.0, 0.0)
    calibration: MotorCalibration | None = None

    @staticmethod
    def build(vehicle: Vehicle, is_trimmed: bool = True) -> "ScoredModel":
        """Build the model of a vehicle as its file describes it."""
        bare = prepare_vehicle(vehicle)
        return ScoredModel(bare, Predictor.build(bare), is_trimmed)

    def predict(self, samples: ResampledLog, windows: Windows) -> Array:
        """Predict the states of the windows, (records, 13, N)."""
        samples = self.calibration.calibrate_flight(samples) if self.calibration else samples
        gains = (1.0,) * len(self.vehicle.rotors)
        if self.is_trimmed:
            fitted = fit_gains(samples, self.vehicle, self.predictor, self.wind_W)
            gains = tuple(self.fade * gain for gain in fitted)
        return self.predictor.window_batch([samples], [windows], self.vehicle, gains, self.wind_W).predict()


def written_and_trimmed(
    vehicle: Vehicle, name: str, fade: float = 1.0, calibration: MotorCalibration | None = None
) -> dict[str, ScoredModel]:
    """Return the models of a vehicle by name: as its file describes it, and trimmed."""
    model = ScoredModel.build(vehicle, is_trimmed=False)._replace(calibration=calibration)
    return {name: model, TRIMMED.format(name): model._replace(is_trimmed=True, fade=fade)}


def can_be_scored(samples: ResampledLog) -> bool:
    """Return whether the motion is logged for long enough after the seconds of the trim."""
    return samples.available_signals >= REQUIRED_SIGNALS and len(scored_windows(samples).starts) > 0


def predict_flight(samples: ResampledLog, models: Mapping[str, ScoredModel]) -> FlightPrediction:
    """Predict a flight with each model."""
    windows = scored_windows(samples)
    return FlightPrediction(samples, windows, {name: model.predict(samples, windows) for name, model in models.items()})


def split_in_halves(samples: ResampledLog) -> list[ResampledLog]:
    """Split a flight in two at the middle of its usable samples."""
    is_first = np.cumsum(samples.usable) <= 0.5 * samples.usable.sum()
    return [
        samples._replace(name=f"{samples.name}, {which} half", usable=samples.usable & mask)
        for which, mask in (("first", is_first), ("second", ~is_first))
    ]


def cross_validate(
    flights: Sequence[ResampledLog],
    start: Vehicle,
    *,
    predictor: bool = True,
    folds: int = FOLDS,
    progress: Callable[[float], None] | None = None,
) -> list[FlightPrediction]:
    """Cross-validate: predict each flight with the vehicles that the other flights identify, as written and trimmed, and with
    the start vehicle.

    A single flight is split in halves that predict each other; its trimmed physical vehicle flies in the steady wind of the
    other half, because the air is the same. Flights that cannot be scored are used for identification only.

    Args:
        flights: the resampled logs.
        start: the vehicle to start from.
        predictor: identify the predictor as well.
        folds: largest count of groups.
        progress: called with the completed fraction.
    """
    parts = list(flights) if len(flights) > 1 else split_in_halves(flights[0])
    scored = [i for i, part in enumerate(parts) if can_be_scored(part)]
    if len(scored) < len(parts) and len(flights) == 1:
        return []
    groups = [scored[k::folds] for k in range(min(folds, len(scored)))]
    start_models = written_and_trimmed(start, start.name)
    predictions: dict[int, FlightPrediction] = {}
    for k, group in enumerate(groups):
        training = [part for i, part in enumerate(parts) if i not in group]
        if not training:
            break
        identification = identify_resampled(training, start, predictor=predictor)
        models = dict(start_models)
        for product in identification.vehicles:
            ranges = product.calibration and product.calibration._replace(per_volt=0.0, delay=0.0)  # what the file has
            calibrated = [ranges.calibrate_flight(flight) for flight in training] if ranges else training
            fade = thrust_fade(calibrated, product.vehicle) if len(flights) > 1 else 1.0
            models |= written_and_trimmed(product.vehicle, product.model_type, fade, ranges)
        if len(flights) == 1:
            name = TRIMMED.format(PHYSICAL)
            (trim,) = identification.physical.trims.values()
            models[name] = models[name]._replace(wind_W=trim.wind_W)
        for i in group:
            predictions[i] = predict_flight(parts[i], models)
        if progress:
            progress((k + 1) / len(groups))
    return [predictions[i] for i in sorted(predictions)]


VEHICLES = ("crazyflie_documented", "crazyflie")
HORIZONS = (0.1, 0.25, 0.5)  # [s]


def validate(
    logs: str | Path | Sequence[FlightLog],
    vehicles: Sequence[str | Vehicle] = VEHICLES,
    progress: Callable[[str], None] | None = None,
    outputs: str = "speed",
    on_skip: Callable[[str], None] | None = None,
) -> list[PredictionScore]:
    """Score vehicles on every flight, as they are and trimmed.

    Args:
        logs: a log file, a folder of logs, or logs already read.
        vehicles: vehicles, or names of shipped vehicles or files.
        progress: called with the name of each flight.
        outputs: the quantity that a motor output is linear in, "speed" or "thrust".
        on_skip: called with a sentence about each flight that cannot be scored, if others can; without it, that is an error.
    """
    flights = read_logs([logs]) if isinstance(logs, (str, Path)) else logs
    models = []
    for vehicle_or_name in vehicles:
        vehicle = load(vehicle_or_name) if isinstance(vehicle_or_name, str) else vehicle_or_name
        vehicle = replace_dc_motors(vehicle)
        models.append((vehicle, written_and_trimmed(vehicle, vehicle.name)))
    scores: list[PredictionScore] = []
    problems: list[ValueError] = []
    for log in flights:
        if progress:
            progress(log.name)
        try:
            scores.append(_score_flight(log, models, outputs))
        except ValueError as error:
            problems.append(error)
            if on_skip is None or len(problems) == len(flights):
                raise
    if on_skip is not None:
        for problem in problems:
            on_skip(f"skipped {problem}")
    return scores


def _score_flight(
    log: FlightLog, models: Sequence[tuple[Vehicle, dict[str, ScoredModel]]], outputs: str
) -> PredictionScore:
    repaired_log, _ = require_usable(log)
    parts = []
    for vehicle, vehicle_models in models:
        samples = resample_log(repaired_log, vehicle, outputs)
        if not samples.available_signals >= REQUIRED_SIGNALS:
            missing = ", ".join(sorted(REQUIRED_SIGNALS - samples.available_signals))
            raise ValueError(f"{log.name}: holds no {missing}; expected a log with the motion of the vehicle")
        if not len(scored_windows(samples).starts):
            raise ValueError(f"{log.name}: no half second in the air after the first 5 s; expected a longer flight")
        parts.append(predict_flight(samples, vehicle_models))
    predictions = {name: states for part in parts for name, states in part.predictions.items()}
    return parts[0]._replace(predictions=predictions).score()


def score_table(scores: Sequence[PredictionScore]) -> str:
    """Return the scores as Markdown: one row for each flight and model, all flights together first."""
    headings = [
        f"{quantity} [{unit}] {horizon:g} s" if k == 0 else f"{horizon:g} s"
        for quantity, unit in zip(QUANTITIES, UNITS, strict=True)
        for k, horizon in enumerate(HORIZONS)
    ]
    lines = [f"| flight | model | {' | '.join(headings)} |", f"|---|---|{'---:|' * len(headings)}"]
    for score in (pool_scores(scores), *scores):
        for name in score.rms:
            numbers = [f"{rms_error(score, name, quantity, h):.3g}" for quantity in QUANTITIES for h in HORIZONS]
            lines.append(f"| {score.flight} ({score.windows}) | {name} | {' | '.join(numbers)} |")
    return "\n".join(lines) + "\n"


def rms_error(score: PredictionScore, model: str, quantity: str, horizon: float) -> float:
    """Return the RMS error at `horizon` [s] after the start of a window."""
    return float(score.rms[model][quantity][round(horizon / RECORD_PERIOD) - 1])
