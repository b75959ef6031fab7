"""A policy before it flies for real: in many perturbed worlds, by other steps, at another rate, late, and as C in float.

The trials fly the same worlds, so that each is compared with the first world by world. What comes of it is a list of what the
check would not trust; that it is empty proves nothing about worlds that were not flown.
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
from samara.campaigns.policy_perturbations import Perturbed, Worlds, scenario_for, worlds_of
from samara.control.policy_c import PolicyInC, compiled, write_policy_c
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

FINER, FASTER = 4, 2  # times the steps of physics, and times the rate at which the policy is asked
ALONE = 4  # worlds that are flown one by one: by steps that choose their length, and by the C
TRUSTED = 0.95  # a rate of success below this is not
BY_CHANCE = 1e-3  # rarer than this is no chance
APART = 0.01  # [m] that flights in C may end from ours


class Trial(NamedTuple):
    """One way to fly the worlds: which succeeded, and where each ended  [m]; `changed` turned out differently from before"""

    name: str
    about: str
    passed: Array
    margin: Array
    p_W: Array
    changed: int = 0
    chance: float = 1.0
    """that it fails so many more of them than it saves, were it no worse"""

    @property
    def rate(self) -> float:
        return float(self.passed.mean())

    @property
    def interval(self) -> Interval:
        """Of the rate of success, 95 %"""
        return clopper_pearson(int(self.passed.sum()), len(self.passed))


class Depends(NamedTuple):
    """How failures go with one factor: their rate at its least, in its middle and at its most, and the range in which fewer
    than one in twenty fail (empty where that is nowhere)"""

    factor: Perturbed
    curve: FailureCurve
    rates: tuple[float, float, float]
    trusted: tuple[float, float] | None

    @property
    def matters(self) -> bool:
        return self.curve.chance < BY_CHANCE


class Checked(NamedTuple):
    """What came of a check"""

    scenario: Scenario
    worlds: Worlds
    trials: tuple[Trial, ...]
    depends: tuple[Depends, ...]
    not_flown: tuple[str, ...]
    """sentences about trials that this machine has not what it takes for"""

    @property
    def worst(self) -> int:
        """The world with the least margin in the first trial"""
        return int(np.argmin(self.trials[0].margin))

    @property
    def distrust(self) -> tuple[str, ...]:
        return tuple(_distrust(self))


Tell = Callable[[str], None]


def check_policy(
    policy: Policy,
    vehicle: str,
    *,
    worlds: int = 1000,
    seed: int = 1,
    spread: float = 1.0,
    scenario: str | Path | None = None,
    within: float | None = None,
    tell: Tell = lambda trial: None,
) -> Checked:
    """Flies a policy in perturbed worlds of a vehicle, by its name or file; without a scenario it comes to rest and hovers"""
    own = scenario_for(policy, vehicle, scenario, within)
    drawn = worlds_of(own, worlds, seed=seed, spread=spread)
    tell("worlds")
    first = _trial("worlds", f"{worlds} perturbed worlds", own, drawn)
    trials = [first]
    for name, about, changed in _others(own):
        tell(name)
        trials.append(_trial(name, about, changed, drawn))
    tell("adaptive_steps")
    adaptive = _one_by_one(replace(own, integrator="rk45"), drawn.some(ALONE))
    trials.append(Trial("adaptive_steps", f"Dormand–Prince, {len(adaptive[0])} worlds", *adaptive))
    tell("in_c")
    in_c, sentence = _in_c(policy, own, drawn.some(ALONE))
    trials += [in_c] if in_c else []
    trials = [first, *(_compared(each, first) for each in trials[1:])]
    depends = tuple(_depends(each, drawn.values[:, k], first) for k, each in enumerate(drawn.perturbed))
    return Checked(own, drawn, tuple(trials), depends, (sentence,) if sentence else ())


def fly_world(checked: Checked, number: int, **options: Scalar) -> Run:
    """Fly one world again with the bits it had in the check; `options` are those of `samara.fly`"""
    worlds = checked.worlds
    vary = {name: values[number].tolist() for name, values in worlds.vary.items()}
    return fly(replace(checked.scenario, seed=int(worlds.seeds[number])), vary=vary, **options)


# The trials -----------------------------------------------------------------------------------------------------------


def _others(scenario: Scenario) -> Iterator[tuple[str, str, Scenario]]:
    rates, drone = scenario.rates, scenario.drones[0]
    finer = replace(rates, physics=FINER * rates.physics)
    yield "finer_steps", f"physics at {finer.physics:g} Hz", replace(scenario, rates=finer)
    faster = replace(rates, autopilot=FASTER * rates.autopilot, estimator=FASTER * rates.estimator)
    yield "faster", f"asked at {faster.autopilot:g} Hz", replace(scenario, rates=faster)
    if isinstance(drone.estimator, Estimator):
        period = rates.periods()["estimator"] / MICROSECONDS
        late = replace(drone, estimator=delayed_estimator(period, period, drone.estimator))
        yield "late", f"knows the state {period * 1e3:g} ms late", replace(scenario, drones=(late,))


def _in_c(policy: Policy, scenario: Scenario, worlds: Worlds) -> tuple[Trial | None, str]:
    """Flights by the exported C, or why there are none"""
    drone, period = scenario.drones[0], scenario.rates.periods()["autopilot"] / MICROSECONDS
    own = policy.fitted(drone.vehicle)
    with tempfile.TemporaryDirectory() as folder:
        exported = write_policy_c(own, drone.vehicle, folder)
        try:
            library = compiled(exported.source, Path(folder) / "policy.so")
        except FileNotFoundError:
            return None, "not flown as C: there is no C compiler, cc, on this machine"
        flown = _one_by_one(scenario, worlds, PolicyInC(own, exported, library, period))
    return Trial("in_c", f"the exported C in float, {len(worlds.seeds)} worlds", *flown), ""


def _one_by_one(scenario: Scenario, worlds: Worlds, controller: Scalar = None) -> tuple[Array, Array, Array]:
    """What cannot fly in lanes, steps of their own length and controllers that are no code of ours: passed, no margin, p_W"""
    passed, p_W = [], []
    for k in range(len(worlds.seeds)):
        with _quietly():
            run = fly(_alone(scenario, worlds, k), controller=controller)
        passed.append(all(checked.satisfied for checked in check_expectations(run, scenario.expect)))
        p_W.append(run.tracks[0].tables["state"].rows[-1, :3])
    return np.array(passed), np.full(len(passed), np.nan), np.array(p_W).T


def _alone(scenario: Scenario, worlds: Worlds, number: int) -> Scenario:
    drone, wind = scenario.drones[0], scenario.wind
    if worlds.vary:
        drone, wind = varied_drone(drone, worlds.vary, number), varied_wind(wind, worlds.vary, number)
    return replace(scenario, drones=(drone,), wind=wind, seed=int(worlds.seeds[number]))


@contextmanager
def _quietly() -> Iterator[None]:
    """No word about flights that are lost, which have failed, nor about commands that are cut"""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        yield


def _trial(name: str, about: str, scenario: Scenario, worlds: Worlds) -> Trial:
    with _quietly():
        flights = fly_many(scenario, seeds=worlds.seeds, vary=worlds.vary)
    p_W = np.array(np.broadcast_arrays(*flatten(flights.final.p_W)))
    return Trial(name, about, evaluate(flights, ())[0] == PASS, margins(flights, scenario.expect), p_W)


def _compared(trial: Trial, first: Trial) -> Trial:
    """Beside the same worlds of the first trial, by the sign test: of those that changed half would be for the better"""
    before = first.passed[: len(trial.passed)]
    lost, saved = int((before & ~trial.passed).sum()), int((~before & trial.passed).sum())
    chance = tail_probability(lost, lost + saved, 0.5) if lost else 1.0
    return trial._replace(changed=lost + saved, chance=chance)


# What is made of them -------------------------------------------------------------------------------------------------


def _depends(factor: Perturbed, values: Array, trial: Trial) -> Depends:
    curve = failure_curve(values, ~trial.passed)
    x = np.linspace(factor.low, factor.high, 201)
    rate = curve.rate(x)
    edges = np.diff(rate <= 1.0 - TRUSTED, prepend=False, append=False).nonzero()[0].reshape(-1, 2)  # of runs
    trusted = None
    if len(edges):
        distance = np.maximum(edges[:, 0] - 100, 101 - edges[:, 1])  # the run nearest to the middle
        first, end = edges[np.argmin(np.maximum(distance, 0))]
        trusted = float(x[first]), float(x[end - 1])
    return Depends(factor, curve, (float(rate[0]), float(rate[100]), float(rate[-1])), trusted)


def _distrust(checked: Checked) -> Iterator[str]:
    first, *others = checked.trials
    if first.interval.low < TRUSTED:
        low, high = (f"{100.0 * x:.1f}" for x in first.interval)
        yield f"success in perturbed worlds: {100.0 * first.rate:.1f} % ({low} to {high} %)"
    for own in checked.depends:
        if own.matters and own.trusted != (own.factor.low, own.factor.high):
            at = int(np.argmax(own.rates))
            where = (own.factor.low, 0.5 * (own.factor.low + own.factor.high), own.factor.high)[at]
            within = f"trust {own.trusted[0]:.2f} to {own.trusted[1]:.2f}" if own.trusted else "nowhere to be trusted"
            yield f"{own.factor.name}: {100.0 * own.rates[at]:.0f} % fail at {where:.2f} {own.factor.unit}; {within}"
    for trial in others:
        if trial.chance < BY_CHANCE:
            yield f"{trial.about}: {trial.changed} worlds come out otherwise, {100.0 * trial.rate:.1f} % succeed"
        elif trial.name == "in_c" and (apart := _apart(trial, first)) > APART:
            yield f"{trial.about}: it ends up to {apart:.2g} m from where ours does"
    yield from checked.not_flown


def _apart(trial: Trial, first: Trial) -> float:
    """How far flights end from the first trial's, where both succeed  [m]"""
    both = trial.passed & first.passed[: len(trial.passed)]
    if not both.any():
        return 0.0
    off = trial.p_W[:, both] - first.p_W[:, : len(trial.passed)][:, both]
    return float(math.sqrt((off**2).sum(axis=0).max()))
