"""Falsification: search for a failing flight with few flights, by minimising the margin over the cube of varied parameters.

Three methods: `evolution` needs no package, `cma` is CMA-ES (the package cma), `tpe` is Optuna's tree of Parzen estimators.
The first two start at corners of the cube in which any three parameters have all combinations of their ends, so that a failure
that needs three parameters at once is flown even if the margin leads elsewhere; then they follow the margin. A small failure
region in the middle of the ranges is found later, and one that does not affect the margin around it no sooner than by chance.
No method proves that nothing fails; for a failure rate use `samara.campaigns.subset_simulation`. `shrink` reduces a failure to
the fewest parameters.
"""

import math
from collections.abc import Callable, Iterable
from itertools import combinations, islice
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from samara.core.extras import import_extra
from samara.core.quantity import Scalar
from samara.core.random import derive_key, normals
from samara.core.types import Array

EDGE_DISTANCE = (
    1e-3  # least distance from a face of the cube: a normal parameter is at most 3.1 standard deviations out
)
CORNER_SIGMA = 0.05  # standard deviation of the first rows from the corners of the cube, along each parameter
RESTART_ROWS = 24  # rows of a restart
RESTART_SIGMA = 1.0  # standard deviation of these rows about the centre: 60 % of their coordinates are on a face
INITIAL_SIGMA = 0.2  # standard deviation with which the search starts at the worst of these rows
MAX_STALLED_BATCHES = 5  # batches without an improvement by 1 % of the range of margins, after which evolution restarts


Margin = Callable[[Array], ArrayLike]
"""Maps rows (n, k) to margins (n,), negative for a failing flight: for example the error limit minus the flight's error"""


def evaluate_margins(margin: Margin, rows: Array) -> Array:
    """Evaluate the margins, (n,); raise ValueError unless every flight has a number."""
    values = np.asarray(margin(rows), dtype=float)
    if values.shape != (len(rows),) or np.isnan(values).any():
        problem = f"shape {values.shape}" if values.shape != (len(rows),) else "nan"
        raise ValueError(
            f"the margin of {len(rows)} flights has {problem}; expected one number for each, also for a broken one"
        )
    return values


class FalsificationResult(NamedTuple):
    """The worst flight of a search, a row (k,) of the unit cube; and all flights: rows (flights, k) and their margins."""

    fails: bool  # whether the worst fails
    row: Array
    margin: float
    flights: int
    rows: Array
    margins: Array


class SearchMethod(NamedTuple):
    """A search method: `ask` returns the next rows of the unit cube, `tell` takes their margins."""

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
) -> FalsificationResult:
    """argmin of margin(x) over x in [0, 1]ᵏ with at most `budget` flights; ends at the first margin below `stop_below`

    Rows are at least `EDGE_DISTANCE` from the faces. `stop_below` = −∞ never stops early, and finds the worst flight.
    Equal seeds give equal rows.
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
        values = evaluate_margins(margin, batch)
        x, g = np.concatenate([x, batch]), np.concatenate([g, values])
        if len(batch) < len(rows) or (values < stop_below).any():
            break
        search.tell(rows, values)
    worst = int(np.argmin(g))
    return FalsificationResult(bool(g[worst] < 0.0), x[worst], float(g[worst]), len(g), x, g)


def evolution(factors: int, seed: int) -> SearchMethod:
    """m' = m + s Σ uᵢ zᵢ,  s' = s e^(0.4 Σ uᵢ (zᵢ² − 1)): a natural evolution strategy (T. Schaul, 2011), after corners

    Each parameter has a separate standard deviation. Rows outside the cube are clipped to its faces, where failures are common.
    The weights u depend on ranks only, so the scale of the margin does not matter. Restarts after `MAX_STALLED_BATCHES`
    batches without improvement.
    """
    batch = 8
    utility = np.maximum(0.0, math.log(0.5 * batch + 1.0) - np.array([math.log(i + 1.0) for i in range(batch)]))
    weight = (utility / utility.sum() - 1.0 / batch)[:, None]
    centre, spread, worst, best, stalled, tick = (
        np.full(factors, 0.5),
        np.full(factors, INITIAL_SIGMA),
        0.0,
        0.0,
        MAX_STALLED_BATCHES,
        0,
    )

    def ask() -> Array:
        if stalled == MAX_STALLED_BATCHES:
            return _start_rows(factors, seed, tick)
        z = normals(seed, "falsify by evolution", np.arange(batch), tick, factors)
        return np.clip(centre + spread * z, EDGE_DISTANCE, 1.0 - EDGE_DISTANCE)

    def tell(rows: Array, values: Array) -> None:
        nonlocal centre, spread, worst, best, stalled, tick
        tick += 1
        lowest, highest = float(values.min()), float(values.max())
        if stalled == MAX_STALLED_BATCHES:
            centre, spread = rows[np.argmin(values)], np.full(factors, INITIAL_SIGMA)
            worst, best, stalled = lowest, highest, 0
            return
        z = ((rows - centre) / spread)[np.argsort(values, kind="stable")]
        centre = np.clip(centre + spread * (weight * z).sum(axis=0), 0.0, 1.0)
        growth = (weight * (z * z - 1.0)).sum(axis=0)
        spread = np.minimum(spread * np.array([math.exp(0.4 * rate) for rate in growth]), 0.6)
        best = max(best, highest)
        stalled = 0 if lowest < worst - 0.01 * (best - worst) else stalled + 1
        worst = min(worst, lowest)

    return SearchMethod(ask, tell)


def _start_rows(factors: int, seed: int, tick: int) -> Array:
    """Return rows at corners of the cube, selected by the seed; at restarts, rows all over it."""
    if tick:
        z = normals(seed, "falsify from everywhere", np.arange(RESTART_ROWS), tick, factors)
        return np.clip(0.5 + RESTART_SIGMA * z, EDGE_DISTANCE, 1.0 - EDGE_DISTANCE)
    array = corners(factors)
    draws = normals(seed, "falsify at corners", np.arange(len(array) + 2), 0, factors)
    ends = array[:, np.argsort(draws[0], kind="stable")] * np.sign(draws[1])
    return np.clip(0.5 + ends * (0.5 - CORNER_SIGMA * np.abs(draws[2:])), EDGE_DISTANCE, 1.0 - EDGE_DISTANCE)


def corners(factors: int) -> Array:
    """(2 n, factors) of ±1: an orthogonal array [H; −H] of strength three, all 2ᵏ corners for k up to three

    H Hᵀ = n I is a Hadamard matrix: of any three factors every combination occurs n/4 times.
    """
    half = hadamard(max(factors, 1))[:, :factors]
    return np.concatenate([half, -half])


def hadamard(min_order: int) -> Array:
    """±1, H Hᵀ = n I, of the smallest order n ≥ `min_order` from R. Paley's first construction (1933) and doubling"""
    order = next(n for n in (1, 2, *range(4, 4 * min_order + 4, 4)) if n >= min_order and _can_construct(n))
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


def cma(factors: int, seed: int) -> SearchMethod:
    """CMA-ES in batches of six, after the same corners (N. Hansen and A. Ostermeier, 2001)"""
    package = import_extra("cma", "falsification by CMA-ES", "cma", "search")
    tick = 0

    def randn(*shape: int) -> Array:
        nonlocal tick
        tick += 1
        return normals(seed, "falsify by cma", 0, tick, math.prod(shape)).reshape(shape)

    # seed nan: leaves NumPy's global generator unchanged
    options = {"popsize": 6, "randn": randn, "seed": math.nan, "verbose": -9, "verb_log": 0}
    strategy: Scalar = None
    proposals: list[Array] = []

    def ask() -> Array:
        if strategy is None:
            return _start_rows(factors, seed, 0)
        proposals[:] = strategy.ask()
        return np.clip(np.array(proposals), EDGE_DISTANCE, 1.0 - EDGE_DISTANCE)

    def tell(rows: Array, values: Array) -> None:
        nonlocal strategy
        if strategy is None:
            strategy = package.CMAEvolutionStrategy(rows[np.argmin(values)], INITIAL_SIGMA, options)
            return
        clipped_distance = ((np.array(proposals) - rows) ** 2).sum(
            axis=1
        )  # among rows clipped to the same face, prefer the nearest
        strategy.tell(list(proposals), list(values + 1e-9 * clipped_distance))

    return SearchMethod(ask, tell)


def tpe(factors: int, seed: int) -> SearchMethod:
    """Optuna's tree of Parzen estimators, one flight at a time (J. Bergstra et al., 2011)"""
    package = import_extra("optuna", "falsification by TPE", "Optuna", "search")
    verbosity = package.logging.get_verbosity()
    package.logging.set_verbosity(package.logging.WARNING)
    try:
        sampler = package.samplers.TPESampler(seed=derive_key(seed, "falsify by tpe")[0])
        study = package.create_study(sampler=sampler)
    finally:
        package.logging.set_verbosity(verbosity)
    trial: Scalar = None

    def ask() -> Array:
        nonlocal trial
        trial = study.ask()
        return np.array([[trial.suggest_float(str(i), EDGE_DISTANCE, 1.0 - EDGE_DISTANCE) for i in range(factors)]])

    def tell(rows: Array, values: Array) -> None:
        study.tell(trial, float(values[0]))

    return SearchMethod(ask, tell)


METHODS: dict[str, Callable[[int, int], SearchMethod]] = {"evolution": evolution, "cma": cma, "tpe": tpe}


# Minimal failures ----------------------------------------------------------------------------------------------------

MAX_SETS_PER_BATCH = 4096  # sets of parameters flown together


class ShrinkResult(NamedTuple):
    """A failure reduced to the parameters that cause it."""

    row: Array
    """(k,): the nominal row except for the changed parameters"""
    changed: tuple[int, ...]
    """parameters that still differ; () if the nominal flight fails"""
    margin: float
    flights: int
    is_minimal: bool
    """whether every smaller set was flown and passed; otherwise only that no single parameter can be reset"""


def shrink(margin: Margin, case: ArrayLike, nominal: ArrayLike, *, budget: int = 1000) -> ShrinkResult:
    """The smallest set S for which the row that is `case` in S and `nominal` elsewhere still fails; of equal sizes the worst.

    Resets parameters as long as the flight fails, the least important first; then flies all smaller sets, within `budget`.
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
        return evaluate_margins(margin, rows)

    different = tuple(int(i) for i in np.flatnonzero(case != nominal))
    lowest, nominal_margin = (float(value) for value in fly([different, ()]))
    if not lowest < 0.0:
        raise ValueError(f"the case to shrink has a margin of {lowest}; expected one that fails, below 0")
    if nominal_margin < 0.0:
        return ShrinkResult(nominal, (), nominal_margin, flights, True)
    changed = different
    while len(changed) > 1:
        margins_without = fly(
            [_difference(changed, [factor]) for factor in changed]
        )  # a lower margin: a less important factor
        order = [changed[i] for i in np.argsort(margins_without, kind="stable") if margins_without[i] < 0.0]
        if not order:
            break
        smaller = [_difference(changed, order[: n + 1]) for n in range(len(order))]
        values = fly(smaller)
        smallest = int(np.flatnonzero(values < 0.0)[-1])
        changed, lowest = smaller[smallest], float(values[smallest])
    for size in range(1, len(changed)):
        if flights + math.comb(len(different), size) > budget:
            return ShrinkResult(row(changed), changed, lowest, flights, False)
        sets = combinations(different, size)
        failures: list[tuple[float, tuple[int, ...]]] = []
        while batch := list(islice(sets, MAX_SETS_PER_BATCH)):
            failures += [
                (float(value), factors) for value, factors in zip(fly(batch), batch, strict=True) if value < 0.0
            ]
        if failures:
            lowest, changed = min(failures)
            break
    return ShrinkResult(row(changed), changed, lowest, flights, True)


def _difference(factors: tuple[int, ...], removed: Iterable[int]) -> tuple[int, ...]:
    excluded = set(removed)
    return tuple(factor for factor in factors if factor not in excluded)
