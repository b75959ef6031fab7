"""The search for a flight that fails, in few flights: the worst margin over the unit cube of a campaign's factors.

Three methods: `evolution` needs nothing, `cma` is CMA-ES (the package cma), `tpe` is Optuna's tree of Parzen estimators.
The first two begin with corners of the cube in which any three factors have all their combinations of ends, so that what takes
three factors at once is flown though the margin leads elsewhere; then they go where the margin leads. A small weakness in the
middle of ranges is found later, and one that does not show in the margin around it no sooner than chance. None proves that
nothing fails; for a rate there is `samara.campaigns.subset_simulation`. `shrink` reduces a failure to the fewest factors.
"""

import math
from collections.abc import Callable, Iterable
from importlib import import_module
from itertools import combinations, islice
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from samara.core.lazy_import import MissingExtraError
from samara.core.quantity import Scalar
from samara.core.random import key_of, normals
from samara.core.types import Array

EDGE = 1e-3  # how near to a face of the cube: a normal factor is there 3.1 standard deviations out, and further nowhere
INWARD = 0.05  # how far the rows of the first look are from the corners of the cube: the deviation along each factor
LOOK = 24  # rows of a later look
WIDE = 1.0  # their deviation about the middle of the cube: six tenths of their numbers are on a face of it
SPREAD = 0.2  # the deviation with which the search begins at the worst of them
PATIENCE = 5  # batches without anything worse, by a hundredth of what was seen, after which evolution looks again


Margin = Callable[[Array], ArrayLike]
"""(n, k) rows to (n,) margins, negative where a flight fails: the largest error allowed less that of the flight, say"""


def margins(margin: Margin, rows: Array) -> Array:
    """Evaluate the margins, (n,); ValueError unless every flight has a number."""
    values = np.asarray(margin(rows), dtype=float)
    if values.shape != (len(rows),) or np.isnan(values).any():
        what = f"shape {values.shape}" if values.shape != (len(rows),) else "nan"
        raise ValueError(
            f"the margin of {len(rows)} flights has {what}; expected one number for each, also for a broken one"
        )
    return values


class Falsified(NamedTuple):
    """The worst flight of a search, a row (k,) of the unit cube; and all flights, (flights, k) rows and their margins"""

    found: bool  # whether the worst fails
    row: Array
    margin: float
    flights: int
    rows: Array
    margins: Array


class SearchMethod(NamedTuple):
    """A method of search: `ask` for the next rows of the unit cube, `tell` their margins"""

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
    x, g = np.empty((0, factors)), np.empty(0)
    while len(x) < budget:
        rows = np.asarray(search.ask(), dtype=float)
        batch = rows[: budget - len(x)]
        values = margins(margin, batch)
        x, g = np.concatenate([x, batch]), np.concatenate([g, values])
        if len(batch) < len(rows) or (values < stop_below).any():
            break
        search.tell(rows, values)
    worst = int(np.argmin(g))
    return Falsified(bool(g[worst] < 0.0), x[worst], float(g[worst]), len(g), x, g)


def evolution(factors: int, seed: int) -> SearchMethod:
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

    def tell(rows: Array, values: Array) -> None:
        nonlocal middle, spread, worst, best, waited, tick
        tick += 1
        least, most = float(values.min()), float(values.max())
        if waited == PATIENCE:
            middle, spread = rows[np.argmin(values)], np.full(factors, SPREAD)
            worst, best, waited = least, most, 0
            return
        z = ((rows - middle) / spread)[np.argsort(values, kind="stable")]
        middle = np.clip(middle + spread * (weight * z).sum(axis=0), 0.0, 1.0)
        growth = (weight * (z * z - 1.0)).sum(axis=0)
        spread = np.minimum(spread * np.array([math.exp(0.4 * rate) for rate in growth]), 0.6)
        best = max(best, most)
        waited = 0 if least < worst - 0.01 * (best - worst) else waited + 1
        worst = min(worst, least)

    return SearchMethod(ask, tell)


def _look(factors: int, seed: int, tick: int) -> Array:
    """Rows at corners of the cube, which ones the seed decides; later ones all over it"""
    if tick:
        z = normals(seed, "falsify from everywhere", np.arange(LOOK), tick, factors)
        return np.clip(0.5 + WIDE * z, EDGE, 1.0 - EDGE)
    array = corners(factors)
    draws = normals(seed, "falsify at corners", np.arange(len(array) + 2), 0, factors)
    ends = array[:, np.argsort(draws[0], kind="stable")] * np.sign(draws[1])
    return np.clip(0.5 + ends * (0.5 - INWARD * np.abs(draws[2:])), EDGE, 1.0 - EDGE)


def corners(factors: int) -> Array:
    """(2 n, factors) of ±1: an orthogonal array [H; −H] of strength three, all 2ᵏ corners for k up to three

    H Hᵀ = n I is a Hadamard matrix: of any three factors every combination occurs n/4 times.
    """
    half = hadamard(max(factors, 1))[:, :factors]
    return np.concatenate([half, -half])


def hadamard(least: int) -> Array:
    """±1, H Hᵀ = n I, of the least order n ≥ `least` that R. Paley's first construction (1933) and doubling lead to"""
    order = next(n for n in (1, 2, *range(4, 4 * least + 4, 4)) if n >= least and _can_construct(n))
    return _construct(order)


def _can_construct(order: int) -> bool:
    return order <= 2 or _is_prime(order - 1) or (order % 8 == 0 and _can_construct(order // 2))


def _construct(order: int) -> Array:
    if order == 1:
        return np.ones((1, 1))
    if order > 2 and _is_prime(order - 1):  # and order − 1 ≡ 3 mod 4
        q = order - 1
        squares = {k * k % q for k in range(1, q)}
        character = np.array([0.0, *(1.0 if k in squares else -1.0 for k in range(1, q))])
        skew = np.zeros((order, order))
        skew[0, 1:], skew[1:, 0] = 1.0, -1.0
        skew[1:, 1:] = character[(np.arange(q)[:, None] - np.arange(q)) % q]
        return np.eye(order) + skew
    half = _construct(order // 2)
    return np.block([[half, half], [half, -half]])


def _is_prime(n: int) -> bool:
    return n > 1 and all(n % k for k in range(2, int(n**0.5) + 1))


def _package(name: str, what: str) -> Scalar:
    try:
        return import_module(name)
    except ImportError as error:
        raise MissingExtraError(f"falsification by {what}: pip install 'samara[search]'") from error


def cma(factors: int, seed: int) -> SearchMethod:
    """CMA-ES in batches of six, after the same look (N. Hansen and A. Ostermeier, 2001)"""
    package = _package("cma", "CMA-ES needs cma")
    tick = 0

    def randn(*shape: int) -> Array:
        nonlocal tick
        tick += 1
        return normals(seed, "falsify by cma", 0, tick, math.prod(shape)).reshape(shape)

    # seed nan: NumPy's global generator is left alone
    options = {"popsize": 6, "randn": randn, "seed": math.nan, "verbose": -9, "verb_log": 0}
    strategy: Scalar = None
    asked: list[Array] = []

    def ask() -> Array:
        if strategy is None:
            return _look(factors, seed, 0)
        asked[:] = strategy.ask()
        return np.clip(np.array(asked), EDGE, 1.0 - EDGE)

    def tell(rows: Array, values: Array) -> None:
        nonlocal strategy
        if strategy is None:
            strategy = package.CMAEvolutionStrategy(rows[np.argmin(values)], SPREAD, options)
            return
        beyond = ((np.array(asked) - rows) ** 2).sum(axis=1)  # of rows on the same face the nearer is the better
        strategy.tell(list(asked), list(values + 1e-9 * beyond))

    return SearchMethod(ask, tell)


def tpe(factors: int, seed: int) -> SearchMethod:
    """Optuna's tree of Parzen estimators, a flight at a time (J. Bergstra et al., 2011)"""
    package = _package("optuna", "TPE needs Optuna")
    verbosity = package.logging.get_verbosity()
    package.logging.set_verbosity(package.logging.WARNING)
    try:
        sampler = package.samplers.TPESampler(seed=key_of(seed, "falsify by tpe")[0])
        study = package.create_study(sampler=sampler)
    finally:
        package.logging.set_verbosity(verbosity)
    trial: Scalar = None

    def ask() -> Array:
        nonlocal trial
        trial = study.ask()
        return np.array([[trial.suggest_float(str(i), EDGE, 1.0 - EDGE) for i in range(factors)]])

    def tell(rows: Array, values: Array) -> None:
        study.tell(trial, float(values[0]))

    return SearchMethod(ask, tell)


METHODS: dict[str, Callable[[int, int], SearchMethod]] = {"evolution": evolution, "cma": cma, "tpe": tpe}


# The fewest factors of a failure -------------------------------------------------------------------------------------

BATCH = 4096  # sets of factors flown together


class Shrunk(NamedTuple):
    """A failure reduced to the factors that cause it"""

    row: Array
    """(k,) as the nominal row, but for the changed factors"""
    changed: tuple[int, ...]
    """factors that still differ; none if the nominal flight itself fails"""
    margin: float
    flights: int
    fewest: bool
    """whether every smaller set was flown and passed; otherwise only no single factor can be put back"""


def shrink(margin: Margin, case: ArrayLike, nominal: ArrayLike, *, budget: int = 1000) -> Shrunk:
    """The smallest set S for which the row that is `case` in S and `nominal` elsewhere still fails; of equals the worst

    Puts factors back as long as the flight fails, the least important first; then flies all smaller sets, within `budget`.
    """
    case, nominal = np.asarray(case, dtype=float), np.asarray(nominal, dtype=float)
    if case.ndim != 1 or case.shape != nominal.shape:
        raise ValueError(f"case has shape {case.shape}, nominal {nominal.shape}; expected one number for each factor")
    flights = 0

    def row(factors: tuple[int, ...]) -> Array:
        return np.where(np.isin(np.arange(len(case)), factors), case, nominal)

    def fly(sets: Iterable[tuple[int, ...]]) -> Array:
        nonlocal flights
        rows = np.array([row(factors) for factors in sets])
        flights += len(rows)
        return margins(margin, rows)

    different = tuple(int(i) for i in np.flatnonzero(case != nominal))
    least, undisturbed = (float(value) for value in fly([different, ()]))
    if not least < 0.0:
        raise ValueError(f"the case to shrink has a margin of {least}; expected one that fails, below 0")
    if undisturbed < 0.0:
        return Shrunk(nominal, (), undisturbed, flights, True)
    changed = different
    while len(changed) > 1:
        without = fly([_difference(changed, [factor]) for factor in changed])  # the lower, the less a factor matters
        order = [changed[i] for i in np.argsort(without, kind="stable") if without[i] < 0.0]
        if not order:
            break
        smaller = [_difference(changed, order[: n + 1]) for n in range(len(order))]
        values = fly(smaller)
        last = int(np.flatnonzero(values < 0.0)[-1])
        changed, least = smaller[last], float(values[last])
    for size in range(1, len(changed)):
        if flights + math.comb(len(different), size) > budget:
            return Shrunk(row(changed), changed, least, flights, False)
        sets = combinations(different, size)
        failures: list[tuple[float, tuple[int, ...]]] = []
        while batch := list(islice(sets, BATCH)):
            failures += [
                (float(value), factors) for value, factors in zip(fly(batch), batch, strict=True) if value < 0.0
            ]
        if failures:
            least, changed = min(failures)
            break
    return Shrunk(row(changed), changed, least, flights, True)


def _difference(factors: tuple[int, ...], removed: Iterable[int]) -> tuple[int, ...]:
    gone = set(removed)
    return tuple(factor for factor in factors if factor not in gone)
