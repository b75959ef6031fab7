"""The search for a flight that fails, in few flights: the worst margin over the unit cube of a campaign's factors.

Three methods: `evolution` needs nothing, `cma` is CMA-ES (the package cma), `tpe` is Optuna's tree of Parzen estimators.
The first two begin with corners of the cube in which any three factors have all their combinations of ends, so that what takes
three factors at once is flown though the margin leads elsewhere; then they go where the margin leads. A small weakness in the
middle of ranges is found later, and one that does not show in the margin around it no sooner than chance. None proves that
nothing fails; for a rate there is `samara.campaigns.subset_simulation`.
"""

import math
from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

from samara.campaigns.corners import corners
from samara.campaigns.margin import Margin, margins
from samara.core.optional_dependencies import MissingExtraError
from samara.core.random import key_of, normals
from samara.core.types import Array

EDGE = 1e-3  # how near to a face of the cube: a normal factor is there 3.1 standard deviations out, and further nowhere
INWARD = 0.05  # how far the rows of the first look are from the corners of the cube: the deviation along each factor
LOOK = 24  # rows of a later look
WIDE = 1.0  # their deviation about the middle of the cube: six tenths of their numbers are on a face of it
SPREAD = 0.2  # the deviation with which the search begins at the worst of them
PATIENCE = 5  # batches without anything worse, by a hundredth of what was seen, after which evolution looks again


class Falsified(NamedTuple):
    """The worst flight that was found, and all that were flown for it"""

    found: bool
    """whether it fails"""
    row: Array
    """(k,) in the unit cube"""
    margin: float
    flights: int
    rows: Array
    """(flights, k)"""
    margins: Array
    """(flights,)"""


class Asking(NamedTuple):
    """A method of search: the next rows, in the unit cube, and what came of them"""

    ask: Callable[[], Array]
    tell: Callable[[Array, Array], None]


def falsify(
    margin: Margin,
    factors: int,
    *,
    budget: int = 100,
    seed: int = 0,
    method: str = "evolution",
    stop_below: float = 0.0,
) -> Falsified:
    """argmin of margin(x) over x in [0, 1]ᵏ by at most `budget` flights; ends at the first margin below `stop_below`

    Rows keep `EDGE` from the faces. −∞ never stops, and looks for the worst. The same seed asks for the same rows.
    """
    if method not in METHODS:
        raise ValueError(f"method {method!r}; expected one of {', '.join(METHODS)}")
    if factors < 1 or budget < 1:
        raise ValueError(f"{factors} factors, {budget} flights; expected at least one of each")
    search = METHODS[method](factors, seed)
    flown, found = [np.empty((0, factors))], [np.empty(0)]
    left = budget
    while left:
        rows = np.asarray(search.ask(), dtype=float)
        some = rows[:left]
        judged = margins(margin, some)
        flown.append(some)
        found.append(judged)
        left -= len(some)
        if len(some) < len(rows) or (judged < stop_below).any():
            break
        search.tell(rows, judged)
    x, g = np.concatenate(flown), np.concatenate(found)
    worst = int(np.argmin(g))
    return Falsified(bool(g[worst] < 0.0), x[worst], float(g[worst]), len(g), x, g)


def evolution(factors: int, seed: int) -> Asking:
    """m' = m + s Σ uᵢ zᵢ,  s' = s e^(0.4 Σ uᵢ (zᵢ² − 1)): a natural evolution strategy (T. Schaul, 2011), after corners

    Every factor has a spread of its own. Rows beyond the cube are put onto its faces, where weaknesses tend to be. Weights u go
    by rank alone, so the scale of the margin does not matter. Looks around again when `PATIENCE` batches found nothing worse.
    """
    batch = 8
    rank = np.maximum(0.0, math.log(0.5 * batch + 1.0) - np.array([math.log(i + 1.0) for i in range(batch)]))
    weight = (rank / rank.sum() - 1.0 / batch)[:, None]
    middle, spread, worst, best, waited, tick = np.full(factors, 0.5), np.full(factors, SPREAD), 0.0, 0.0, PATIENCE, 0

    def ask() -> Array:
        if waited == PATIENCE:
            return _look(factors, seed, tick)
        z = normals(seed, "falsify by evolution", np.arange(batch), tick, factors)
        return np.clip(middle + spread * z, EDGE, 1.0 - EDGE)

    def tell(rows: Array, judged: Array) -> None:
        nonlocal middle, spread, worst, best, waited, tick
        tick += 1
        least, most = float(judged.min()), float(judged.max())
        if waited == PATIENCE:
            middle, spread = rows[np.argmin(judged)], np.full(factors, SPREAD)
            worst, best, waited = least, most, 0
            return
        z = ((rows - middle) / spread)[np.argsort(judged, kind="stable")]
        middle = np.clip(middle + spread * (weight * z).sum(axis=0), 0.0, 1.0)
        growth = (weight * (z * z - 1.0)).sum(axis=0)
        spread = np.minimum(spread * np.array([math.exp(0.4 * own) for own in growth]), 0.6)
        best = max(best, most)
        waited = 0 if least < worst - 0.01 * (best - worst) else waited + 1
        worst = min(worst, least)

    return Asking(ask, tell)


def _look(factors: int, seed: int, tick: int) -> Array:
    """Rows at corners of the cube, which ones the seed decides; later ones all over it"""
    if tick:
        z = normals(seed, "falsify from everywhere", np.arange(LOOK), tick, factors)
        return np.clip(0.5 + WIDE * z, EDGE, 1.0 - EDGE)
    array = corners(factors)
    draws = normals(seed, "falsify at corners", np.arange(len(array) + 2), 0, factors)
    ends = array[:, np.argsort(draws[0], kind="stable")] * np.sign(draws[1])
    return np.clip(0.5 + ends * (0.5 - INWARD * np.abs(draws[2:])), EDGE, 1.0 - EDGE)


def cma(factors: int, seed: int) -> Asking:
    """CMA-ES in batches of six, after the same look (N. Hansen and A. Ostermeier, 2001)"""
    try:
        package = import_module("cma")
    except ImportError as error:
        raise MissingExtraError("falsification by CMA-ES needs cma: pip install 'samara[search]'") from error
    tick = 0

    def randn(*shape: int) -> Array:
        nonlocal tick
        tick += 1
        return normals(seed, "falsify by cma", 0, tick, math.prod(shape)).reshape(shape)

    options = {
        "popsize": 6,
        "randn": randn,
        "seed": math.nan,
        "verbose": -9,
        "verb_log": 0,
    }  # nan: NumPy's own dice stay
    strategy: Any = None
    asked: list[Any] = []

    def ask() -> Array:
        if strategy is None:
            return _look(factors, seed, 0)
        asked[:] = strategy.ask()
        return np.clip(np.array(asked), EDGE, 1.0 - EDGE)

    def tell(rows: Array, judged: Array) -> None:
        nonlocal strategy
        if strategy is None:
            strategy = package.CMAEvolutionStrategy(rows[np.argmin(judged)], SPREAD, options)
            return
        beyond = ((np.array(asked) - rows) ** 2).sum(axis=1)  # of rows on the same face the nearer is the better
        strategy.tell(list(asked), list(judged + 1e-9 * beyond))

    return Asking(ask, tell)


def tpe(factors: int, seed: int) -> Asking:
    """Optuna's tree of Parzen estimators, a flight at a time (J. Bergstra et al., 2011)"""
    try:
        package = import_module("optuna")
    except ImportError as error:
        raise MissingExtraError("falsification by TPE needs Optuna: pip install 'samara[search]'") from error
    said = package.logging.get_verbosity()
    package.logging.set_verbosity(package.logging.WARNING)
    try:
        sampler = package.samplers.TPESampler(seed=key_of(seed, "falsify by tpe")[0])
        study = package.create_study(sampler=sampler)
    finally:
        package.logging.set_verbosity(said)
    asked: list[Any] = []

    def ask() -> Array:
        asked[:] = [study.ask()]
        return np.array([[asked[0].suggest_float(str(i), EDGE, 1.0 - EDGE) for i in range(factors)]])

    def tell(rows: Array, judged: Array) -> None:
        study.tell(asked[0], float(judged[0]))

    return Asking(ask, tell)


METHODS: dict[str, Callable[[int, int], Asking]] = {"evolution": evolution, "cma": cma, "tpe": tpe}
