"""Check a policy before real flights: in perturbed worlds, with finer steps, a faster rate, a delay, and as C code.

All trials fly the same worlds, so that each is compared with the first world by world. The result lists the concerns; an empty
list proves nothing about worlds that were not flown.
"""

import math
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from samara.campaigns.confidence import Interval, clopper_pearson, tail_probability
from samara.campaigns.failure_curve import FailureCurve, failure_curve
from samara.campaigns.outcome import PASS, evaluate, margins
from samara.campaigns.policy_perturbations import Perturbation, Worlds, make_policy_scenario, sample_worlds
from samara.control.policy_c import CompiledPolicy, compile_library, write_policy_c
from samara.control.policy_file import Policy
from samara.core.quantity import Scalar
from samara.core.tree import flatten
from samara.core.types import Array
from samara.estimate.ideal import Estimator, delayed_estimator
from samara.record.run import Run, check_expectations
from samara.scenario.scenario import Scenario
from samara.scenario.timeline import MICROSECONDS
from samara.sim.fly import fly
from samara.sim.fly_many import fly_many
from samara.sim.varied import varied_drone, varied_wind

PHYSICS_RATE_FACTOR, POLICY_RATE_FACTOR = 4, 2  # factors on the rate of physics, and on the rate of the policy
SINGLE_WORLDS = 4  # worlds that fly one by one: with adaptive steps, and with the C code
MIN_SUCCESS_RATE = 0.95  # success rates below this are a concern
SIGNIFICANCE_LEVEL = 1e-3  # significance level of the tests
MAX_END_DISTANCE = 0.01  # [m]: allowed distance between the end points of flights in C and in Samara


class Trial(NamedTuple):
    """One trial over the worlds: success and final position [m] of each; `changed` counts outcomes unlike the first trial's."""

    name: str
    description: str
    passed: Array
    margin: Array
    p_W: Array
    changed: int = 0
    p_value: float = 1.0
    """p-value of the sign test that the trial is no worse than the first"""

    @property
    def rate(self) -> float:
        return float(self.passed.mean())

    @property
    def interval(self) -> Interval:
        """The 95 % confidence interval of the success rate."""
        return clopper_pearson(int(self.passed.sum()), len(self.passed))


class FailureDependence(NamedTuple):
    """Dependence of failures on one perturbation: the failure rate at its minimum, centre and maximum, and the range in which
    fewer than 5 % fail, or None."""

    factor: Perturbation
    curve: FailureCurve
    rates: tuple[float, float, float]
    trusted_range: tuple[float, float] | None

    @property
    def is_significant(self) -> bool:
        return self.curve.p_value < SIGNIFICANCE_LEVEL


class PolicyCheckResult(NamedTuple):
    """The result of a policy check."""

    scenario: Scenario
    worlds: Worlds
    trials: tuple[Trial, ...]
    dependences: tuple[FailureDependence, ...]
    skipped: tuple[str, ...]
    """messages about trials that this machine cannot run"""

    @property
    def worst(self) -> int:
        """The world with the smallest margin in the first trial."""
        return int(np.argmin(self.trials[0].margin))

    @property
    def concerns(self) -> tuple[str, ...]:
        return tuple(_concerns(self))


TrialCallback = Callable[[str], None]


def check_policy(
    policy: Policy,
    vehicle: str,
    *,
    flights: int = 1000,
    seed: int = 1,
    spread: float = 1.0,
    scenario: str | Path | None = None,
    position_tolerance: float | None = None,
    wind: float | None = None,
    progress: TrialCallback = lambda trial: None,
) -> PolicyCheckResult:
    """Fly a policy in perturbed worlds of a vehicle.

    Args:
        policy: the policy to check.
        vehicle: name or file of the vehicle.
        flights: count of perturbed flights, each in its own world.
        seed: seed of the worlds.
        spread: factor on the ranges of the perturbations.
        scenario: name or file of the scenario; by default the drone comes to rest and hovers.
        position_tolerance: tolerance of the final position [m].
        wind: mean wind [m/s], from the scenario's direction or the west; by default the scenario's.
        progress: called with the name of each trial before it flies.
    """
    policy_scenario = make_policy_scenario(policy, vehicle, scenario, position_tolerance, wind)
    sampled = sample_worlds(policy_scenario, flights, seed=seed, spread=spread)
    progress("worlds")
    first = _trial("worlds", f"{flights} perturbed worlds", policy_scenario, sampled)
    trials = [first]
    for name, description, variant in _trial_variants(policy_scenario):
        progress(name)
        trials.append(_trial(name, description, variant, sampled))
    progress("adaptive_steps")
    adaptive = _fly_singly(replace(policy_scenario, integrator="rk45"), sampled.head(SINGLE_WORLDS))
    trials.append(Trial("adaptive_steps", f"Dormand–Prince, {len(adaptive[0])} worlds", *adaptive))
    progress("in_c")
    in_c, reason = _c_trial(policy, policy_scenario, sampled.head(SINGLE_WORLDS))
    trials += [in_c] if in_c else []
    trials = [first, *(_compare_trial(trial, first) for trial in trials[1:])]
    depends = tuple(
        _fit_dependence(perturbation, sampled.values[:, k], first)
        for k, perturbation in enumerate(sampled.perturbations)
    )
    return PolicyCheckResult(policy_scenario, sampled, tuple(trials), depends, (reason,) if reason else ())


def fly_world(checked: PolicyCheckResult, number: int, **options: Scalar) -> Run:
    """Fly one world of a check again, with the same bits; `options` are those of `samara.fly`."""
    worlds = checked.worlds
    vary = {name: values[number].tolist() for name, values in worlds.vary.items()}
    return fly(replace(checked.scenario, seed=int(worlds.seeds[number])), vary=vary, **options)


# Trials --------------------------------------------------------------------------------------------------------------


def _trial_variants(scenario: Scenario) -> Iterator[tuple[str, str, Scenario]]:
    rates, drone = scenario.rates, scenario.drones[0]
    finer = replace(rates, physics=PHYSICS_RATE_FACTOR * rates.physics)
    yield "finer_steps", f"physics at {finer.physics:g} Hz", replace(scenario, rates=finer)
    faster = replace(rates, control=POLICY_RATE_FACTOR * rates.control, estimator=POLICY_RATE_FACTOR * rates.estimator)
    yield "faster", f"policy at {faster.control:g} Hz", replace(scenario, rates=faster)
    if isinstance(drone.estimator, Estimator):
        period = rates.periods()["estimator"] / MICROSECONDS
        late = replace(drone, estimator=delayed_estimator(period, period, drone.estimator))
        yield "late", f"state estimate {period * 1e3:g} ms late", replace(scenario, drones=(late,))


def _c_trial(policy: Policy, scenario: Scenario, worlds: Worlds) -> tuple[Trial | None, str]:
    """Fly with the exported C code; returns the trial, or None and the reason."""
    drone, period = scenario.drones[0], scenario.rates.periods()["control"] / MICROSECONDS
    fitted_policy = policy.adapt(drone.vehicle)
    with tempfile.TemporaryDirectory() as folder:
        exported = write_policy_c(fitted_policy, drone.vehicle, folder)
        try:
            library = compile_library(exported.source, Path(folder) / "policy.so")
        except FileNotFoundError:
            return None, "not flown as C: there is no C compiler, cc, on this machine"
        results = _fly_singly(scenario, worlds, CompiledPolicy(fitted_policy, exported, library, period))
    return Trial("in_c", f"exported C code in single precision, {len(worlds.seeds)} worlds", *results), ""


def _fly_singly(scenario: Scenario, worlds: Worlds, controller: Scalar = None) -> tuple[Array, Array, Array]:
    """Fly worlds one by one, for adaptive steps and for external controllers; returns success, nan margins, and p_W."""
    passed, p_W = [], []
    for k in range(len(worlds.seeds)):
        with _suppress_warnings():
            run = fly(_world_scenario(scenario, worlds, k), controller=controller)
        passed.append(all(expectation.satisfied for expectation in check_expectations(run, scenario.expect)))
        p_W.append(run.drone_records[0].tables["state"].rows[-1, :3])
    return np.array(passed), np.full(len(passed), np.nan), np.array(p_W).T


def _world_scenario(scenario: Scenario, worlds: Worlds, number: int) -> Scenario:
    drone, wind = scenario.drones[0], scenario.wind
    if worlds.vary:
        drone, wind = varied_drone(drone, worlds.vary, number), varied_wind(wind, worlds.vary, number)
    return replace(scenario, drones=(drone,), wind=wind, seed=int(worlds.seeds[number]))


@contextmanager
def _suppress_warnings() -> Iterator[None]:
    """Suppress warnings about lost flights, which count as failures, and about clipped commands."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        yield


def _trial(name: str, description: str, scenario: Scenario, worlds: Worlds) -> Trial:
    with _suppress_warnings():
        flights = fly_many(scenario, seeds=worlds.seeds, vary=worlds.vary)
    p_W = np.array(np.broadcast_arrays(*flatten(flights.final.p_W)))
    return Trial(name, description, evaluate(flights, ())[0] == PASS, margins(flights, scenario.expect), p_W)


def _compare_trial(trial: Trial, first: Trial) -> Trial:
    """Compare with the same worlds of the first trial by the sign test: improvements and losses equally likely."""
    first_passed = first.passed[: len(trial.passed)]
    losses, gains = int((first_passed & ~trial.passed).sum()), int((~first_passed & trial.passed).sum())
    p_value = tail_probability(losses, losses + gains, 0.5) if losses else 1.0
    return trial._replace(changed=losses + gains, p_value=p_value)


# Evaluation ----------------------------------------------------------------------------------------------------------


def _fit_dependence(factor: Perturbation, values: Array, trial: Trial) -> FailureDependence:
    curve = failure_curve(values, ~trial.passed)
    x = np.linspace(factor.low, factor.high, 201)
    rate = curve.rate(x)
    bounds = np.diff(rate <= 1.0 - MIN_SUCCESS_RATE, prepend=False, append=False).nonzero()[0].reshape(-1, 2)  # of runs
    trusted = None
    if len(bounds):
        distance = np.maximum(bounds[:, 0] - 100, 101 - bounds[:, 1])  # the run nearest to the middle
        start, end = bounds[np.argmin(np.maximum(distance, 0))]
        trusted = float(x[start]), float(x[end - 1])
    return FailureDependence(factor, curve, (float(rate[0]), float(rate[100]), float(rate[-1])), trusted)


def _concerns(checked: PolicyCheckResult) -> Iterator[str]:
    first, *other_trials = checked.trials
    if first.interval.low < MIN_SUCCESS_RATE:
        low, high = (f"{100.0 * x:.1f}" for x in first.interval)
        expected = f"expected an interval above {100.0 * MIN_SUCCESS_RATE:g} %"
        yield f"success in perturbed worlds: {100.0 * first.rate:.1f} % ({low} to {high} %); {expected}"
    for dependence in checked.dependences:
        if dependence.is_significant and dependence.trusted_range != (dependence.factor.low, dependence.factor.high):
            index = int(np.argmax(dependence.rates))
            value = (
                dependence.factor.low,
                0.5 * (dependence.factor.low + dependence.factor.high),
                dependence.factor.high,
            )[index]
            trusted = (
                f"trust {dependence.trusted_range[0]:.2f} to {dependence.trusted_range[1]:.2f}"
                if dependence.trusted_range
                else "no trusted range"
            )
            yield (
                f"{dependence.factor.name}: {100.0 * dependence.rates[index]:.0f} % fail at "
                f"{value:.2f} {dependence.factor.unit}; {trusted}"
            )
    for trial in other_trials:
        if trial.p_value < SIGNIFICANCE_LEVEL:
            yield f"{trial.description}: {trial.changed} worlds end differently, {100.0 * trial.rate:.1f} % succeed"
        elif trial.name == "in_c" and (distance := _max_end_distance(trial, first)) > MAX_END_DISTANCE:
            yield f"{trial.description}: flights end up to {distance:.2g} m from those in Samara"
    yield from checked.skipped


def _max_end_distance(trial: Trial, first: Trial) -> float:
    """Return the largest distance between end points of this and the first trial, over worlds in which both succeed  [m]"""
    both_passed = trial.passed & first.passed[: len(trial.passed)]
    if not both_passed.any():
        return 0.0
    offsets = trial.p_W[:, both_passed] - first.p_W[:, : len(trial.passed)][:, both_passed]
    return float(math.sqrt((offsets**2).sum(axis=0).max()))
