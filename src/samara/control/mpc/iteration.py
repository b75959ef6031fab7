"""The arithmetic of one iteration: a stage of the backward pass on matrices, and the choice among the rollouts.

The next state is x' = M z, z = (x, u), M = [A B]. The value of the next stage and the cost of this one are together

    Q = Mᵀ V M + H,   q = Mᵀ v + g

and with u = k + K x the minimum over u is again quadratic in x. Functions of matrices act on all columns of M or on some of
them, as arrays of NumPy (also of traced scalars) or of JAX, rows first, always two-dimensional.

The change of the inputs costs ½ s |u − u₋|², so the value also depends on the previous input u₋; but only through −s u₋ᵀu.
Hence its Hessian between u₋ and x is −s K, that of u₋ alone s (1 − K₋) with K₋ the gain on u₋, and its gradient
s (u₋ − u − k): only the gains have to be carried. A limit of |u − u₋| that is exceeded adds to s, one input at a time.

Multiple shooting: the states of the nominal trajectory need not follow from each other. With a gap d = step(x, u) ⊖ x', the
gradient of the next value at the end of the step is v + V d, and a rollout with step size α keeps the part 1 − α of every
gap. The merit is J + μ Σ|d|, with μ large enough that the model predicts a decrease.
"""

import math
import operator
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from samara.control.mpc.problem import InputLimits, Scalars
from samara.core.ops import clamp, equal, logical_and, logical_or, maximum, minimum, where
from samara.core.quantity import Scalar
from samara.core.types import Array

DIAGONAL_REGULARISATION = 1e-6  # the iLQR document adds it to the diagonal of Quu
BOX_ITERATIONS = 3
INITIAL_DAMPING, MIN_DAMPING, MAX_DAMPING = 1e-3, 1e-6, 1e6  # the solver gives up if the cost does not fall at the last
MAX_CLOSED_GAP = {"float64": 1e-9, "float32": 1e-3}  # Σ|d| of a trajectory without gaps, which rounding may leave
MIN_SETTLED_STEP = 0.5  # a small decrease after a shorter step says nothing: the model may promise more
MIN_DECREASE_RATIO = 1e-4  # minimum ratio of the actual to the predicted decrease for which a step is accepted


class MatrixLibrary(NamedTuple):
    """A matrix library: stacking, a column of scalars, and the product of a matrix with a scalar."""

    vstack: Callable[[Sequence[Array]], Scalar]
    hstack: Callable[[Sequence[Array]], Scalar]
    column: Callable[[Scalars], Scalar]
    scale: Callable[[Scalar, Scalar], Scalar] = operator.mul


def traced_column(scalars: Scalars) -> Array:
    """Return a column (n, 1) of traced scalars."""
    matrix = np.empty((len(scalars), 1), dtype=object)
    matrix[:, 0] = scalars
    return matrix


def _scale_traced(matrix: Array, scalar: Scalar) -> Array:
    return np.array([entry * scalar for entry in matrix.flat], dtype=object).reshape(matrix.shape)


NUMPY = MatrixLibrary(np.vstack, np.hstack, np.vstack)
TRACED = MatrixLibrary(np.vstack, np.hstack, traced_column, _scale_traced)


class Factors(NamedTuple):
    """The free inputs (1 or 0), the factors L D Lᵀ of Q among them, and the damping added to the diagonal of Q."""

    free: tuple[Scalar, ...]
    lower: tuple[tuple[Scalar, ...], ...]
    inverse_pivots: tuple[Scalar, ...]
    damping: tuple[Scalar, ...]


class BoxStep(NamedTuple):
    """The step k, its factors, and the predicted change of the cost; `slope` is q + Q k.

    `unsettled` is 0 if another iteration would not change the active set, and therefore not the step.
    """

    factors: Factors
    step: tuple[Scalar, ...]
    slope: tuple[Scalar, ...]
    linear: Scalar  # qᵀk
    quadratic: Scalar  # kᵀQk
    gradient: Scalar  # Σ q² over the inputs that may move along −q
    unsettled: Scalar


def box_step(
    Q: Sequence[Scalars],
    q: Scalars,
    low: Scalars,
    high: Scalars,
    damping: Scalar,
    iterations: int = BOX_ITERATIONS,
) -> BoxStep:
    """min ½ kᵀ(Q + D)k + qᵀk for low ≤ k ≤ high, D = 1e-6 + damping · diag Q

    Primal–dual active sets: inputs at a limit which −q pushes against are fixed at it, the others solved for; those that
    leave the box are fixed next, those whose multiplier has the wrong sign released. The last solution is clamped to the box.
    """
    m = range(len(q))
    added = [DIAGONAL_REGULARISATION + damping * Q[a][a] for a in m]
    damped = [[Q[a][b] + added[a] if a == b else Q[a][b] for b in m] for a in m]
    at_low = [logical_and(low[a] >= 0.0, q[a] > 0.0) for a in m]
    at_high = [logical_and(high[a] <= 0.0, q[a] < 0.0) for a in m]
    may_move = [where(logical_or(at_low[a], at_high[a]), 0.0, 1.0) for a in m]
    next_low, next_high = at_low, at_high
    for _ in range(iterations):
        at_low, at_high = next_low, next_high
        free = [where(logical_or(at_low[a], at_high[a]), 0.0, 1.0) for a in m]
        bound = [where(at_low[a], low[a], where(at_high[a], high[a], 0.0)) for a in m]
        lower, inverse_pivots = factorize(damped, free)
        right = [-free[a] * (q[a] + _sum(damped[a][b] * bound[b] for b in m if b != a)) for a in m]
        solution = solve_factored(lower, inverse_pivots, right)
        step = [where(free[a] > 0.5, solution[a], bound[a]) for a in m]
        multiplier = [q[a] + _sum(damped[a][b] * step[b] for b in m) for a in m]
        next_low, next_high = (
            [where(free[a] > 0.5, step[a] < low[a], logical_and(at_low[a], multiplier[a] > 0.0)) for a in m],
            [where(free[a] > 0.5, step[a] > high[a], logical_and(at_high[a], multiplier[a] < 0.0)) for a in m],
        )
    active, following = (
        [where(condition, 1.0, 0.0) for condition in (*bounds[0], *bounds[1])]
        for bounds in ((at_low, at_high), (next_low, next_high))
    )
    step = [clamp(step[a], low[a], high[a]) for a in m]
    Q_step = [_sum(Q[a][b] * step[b] for b in m) for a in m]
    return BoxStep(
        factors=Factors(tuple(free), tuple(tuple(row) for row in lower), tuple(inverse_pivots), tuple(added)),
        step=tuple(step),
        slope=tuple(q[a] + Q_step[a] for a in m),
        linear=_sum(q[a] * step[a] for a in m),
        quadratic=_sum(Q_step[a] * step[a] for a in m),
        gradient=_sum(may_move[a] * q[a] * q[a] for a in m),
        unsettled=_sum(where(equal(a, b), 0.0, 1.0) for a, b in zip(active, following, strict=True)),
    )


def factorize(Q: Sequence[Scalars], free: Scalars) -> tuple[list[list[Scalar]], list[Scalar]]:
    """L (its rows below the diagonal) and 1/D of Q = L D Lᵀ among the free inputs; the fixed ones have 1 on the diagonal."""
    lower: list[list[Scalar]] = []
    inverse: list[Scalar] = []
    for a in range(len(free)):
        row: list[Scalar] = []  # of L D
        for b in range(a):
            row.append(free[a] * free[b] * Q[a][b] - _sum(row[c] * lower[b][c] for c in range(b)))
        scaled = [row[b] * inverse[b] for b in range(a)]
        pivot = where(free[a] > 0.5, Q[a][a], 1.0) - _sum(row[b] * scaled[b] for b in range(a))
        lower.append(scaled)
        inverse.append(1.0 / pivot)
    return lower, inverse


def solve_factored(
    lower: Sequence[Scalars],
    inverse_pivots: Scalars,
    right: Scalars,
    scale: Callable[[Scalar, Scalar], Scalar] = operator.mul,
) -> list[Scalar]:
    """(L D Lᵀ)⁻¹ right, by rows: scalars, or rows of a matrix, which `scale` multiplies by scalars"""
    m = len(right)
    y: list[Scalar] = []
    for a in range(m):
        y.append(right[a] - _sum(scale(y[b], lower[a][b]) for b in range(a)))
    x: list[Scalar] = [None] * m
    for a in reversed(range(m)):
        x[a] = scale(y[a], inverse_pivots[a]) - _sum(scale(x[b], lower[b][a]) for b in range(a + 1, m))
    return x


class Smoothing(NamedTuple):
    """The value's dependence on the previous input: −s K between it and x, s (1 − K₋) of itself, and its gradient."""

    by_x: Array
    by_previous: list[list[Scalar]]
    slope: list[Scalar]


def smoothing_terms(
    weights: Scalars,
    slopes: Scalars,
    gains: Array,
    step: Scalars,
    library: MatrixLibrary,
    gap: Scalars | None = None,
) -> Smoothing:
    """Compute the dependence of the next stage's value on its previous input.

    Args:
        weights: the second derivatives s of that stage's cost by the change of each input; 0 after the last stage.
        slopes: the first derivatives.
        gains: that stage's gains (K, K₋).
        step: that stage's step k.
        library: the library of the gains.
        gap: the gap d before that stage, whose state moves by d: the gradient has −s K d, too.
    """
    m, n = range(len(step)), gains.shape[1] - len(step)
    moved = [0.0 if gap is None else _sum(gains[a, i] * gap[i] for i in range(n)) for a in m]
    return Smoothing(
        by_x=library.vstack([library.scale(gains[a : a + 1, :n], -weights[a]) for a in m]),
        by_previous=[[weights[a] * ((1.0 if a == b else 0.0) - gains[a, n + b]) for b in m] for a in m],
        slope=[-slopes[a] - weights[a] * (step[a] + moved[a]) for a in m],
    )


# A stage in four parts, for some or all columns ------------------------------------------------------------------------


class StageModel(NamedTuple):
    """The quadratic model of a stage: V and v of the next one, M = [A B], and Hessian and gradient of this stage's cost."""

    V: Array
    v: Array
    M: Array
    H: Array
    slope: Array


class StageInputs(NamedTuple):
    """The inputs of a stage: their limits, their present values, and the damping."""

    limits: InputLimits
    current: Scalars
    damping: Scalar


def expand_stage(
    model: StageModel, columns: Array, change: Smoothing | None, library: MatrixLibrary
) -> tuple[Array, Array, Array | None]:
    """Q = Mᵀ V m + h with S m added to the rows of the inputs, q = mᵀ v + g, and S m; for some columns m of M."""
    Q, q = model.M.T @ (model.V @ columns) + model.H, columns.T @ model.v + model.slope
    if change is None:
        return Q, q, None
    n, by_inputs = model.V.shape[0], change.by_x @ columns
    return library.vstack([Q[:n, :], Q[n:, :] + by_inputs]), q, by_inputs


def input_step(
    Q: Sequence[Scalars],
    q: Scalars,
    transposed: Sequence[Scalars],
    change: Smoothing | None,
    inputs: StageInputs,
    iterations: int = BOX_ITERATIONS,
) -> BoxStep:
    """Step within the limits, from Q_uu, which already includes S B; `transposed` is (S B)ᵀ."""
    m = range(len(q))
    if change is not None:
        Q = [[Q[a][b] + transposed[a][b] + change.by_previous[a][b] for b in m] for a in m]
        q = [q[a] + change.slope[a] for a in m]
    low, high = ([limit[a] - inputs.current[a] for a in m] for limit in inputs.limits)
    return box_step(Q, q, low, high, inputs.damping, iterations)


def gain_rows(
    factors: Factors, rows: Scalars, scale: Callable[[Scalar, Scalar], Scalar] = operator.mul
) -> tuple[list[Scalar], list[Scalar]]:
    """K = −Q_free⁻¹ Q_ux, row by row, 0 for inputs that are fixed; and Q_ux − D K."""
    right = [scale(row, -free) for free, row in zip(factors.free, rows, strict=True)]
    gains = solve_factored(factors.lower, factors.inverse_pivots, right, scale)
    return gains, [row - scale(gain, added) for row, added, gain in zip(rows, factors.damping, gains, strict=True)]


def stage_value(Q: Array, q: Array, damped: Array, gains: Array, step: Array, slope: Array) -> tuple[Array, Array]:
    """V = Q_xx + (Q_ux − D K)ᵀ K,  v = q_x + Q_uxᵀ k + Kᵀ (q_u + Q_uu k); for some columns of (Q_xx, Q_ux) and K."""
    n = len(Q) - len(step)
    return Q[:n] + damped.T @ gains, q + Q[n:].T @ step + gains.T @ slope


class BackwardStage(NamedTuple):
    """The value of this stage, V and v, the gains (K, K₋) on x and on the previous input, and the box step."""

    V: Array
    v: Array
    gains: Array
    box: BoxStep


def solve_stage(
    model: StageModel, inputs: StageInputs, change: Smoothing | None, by_previous: Array, library: MatrixLibrary
) -> BackwardStage:
    """Compute a stage with all its columns.

    `change` is the smoothing of the next stage, None without it; `by_previous` (m, m) is −s, diagonal, the derivative of this
    stage's gradient by the previous input.
    """
    n = model.V.shape[0]
    m = range(model.M.shape[1] - n)
    Q, q, by_inputs = expand_stage(model, model.M, change, library)
    corner = [[Q[n + a, n + b] for b in m] for a in m]
    transposed = [] if by_inputs is None else [[by_inputs[b, n + a] for b in m] for a in m]
    box = input_step(corner, [q[n + a, 0] for a in m], transposed, change, inputs)
    gain_rhs = library.hstack([Q[n:, :n], by_previous])
    rows = gain_rows(box.factors, [gain_rhs[a : a + 1, :] for a in m], library.scale)
    gains, damped = (library.vstack(row_list) for row_list in rows)
    V, v = stage_value(Q[:, :n], q[:n], damped[:, :n], gains[:, :n], *map(library.column, (box.step, box.slope)))
    return BackwardStage(V, v, gains, box)


def _sum(terms: Iterable[Scalar]) -> Scalar:
    result: Scalar = 0.0
    for term in terms:
        result = result + term
    return result


# The line search ---------------------------------------------------------------------------------------------------------


class GapSums(NamedTuple):
    """dᵀv, dᵀV d and Σ|d| over the gaps d of the horizon."""

    linear: Scalar
    quadratic: Scalar
    size: Scalar


NO_GAPS = GapSums(0.0, 0.0, 0.0)


def shift_value(V: Array, v: Array, gap: Array) -> tuple[Array, GapSums]:
    """v + V d: the gradient of the value at the end of a step with the gap d; and the gap's terms of the sums"""
    V_gap = V @ gap
    size: Scalar = 0.0
    for component in gap[:, 0]:
        size = size + maximum(component, -component)
    return v + V_gap, GapSums((gap.T @ v)[0, 0], (gap.T @ V_gap)[0, 0], size)


class Progress(NamedTuple):
    """State of the line search: the cost, the Levenberg–Marquardt damping and the weight μ of the gaps."""

    cost: Scalar
    damping: Scalar
    gap_weight: Scalar = 0.0


class RolloutChoice(NamedTuple):
    """The accepted rollout, by its index and step size, or none (`accepted` 0, step size 0); and the cost, the damping and the
    weight of the gaps after it."""

    accepted: Scalar
    index: Scalar
    alpha: Scalar
    cost: Scalar
    damping: Scalar
    gap_weight: Scalar
    converged: Scalar


def choose_rollout(
    costs: Scalars,
    sizes: Scalars,
    progress: Progress,
    linear: Scalar,
    quadratic: Scalar,
    tolerance: Scalar,
    gaps: GapSums = NO_GAPS,
    max_gap: float = MAX_CLOSED_GAP["float64"],
) -> RolloutChoice:
    """The least merit J(α) + (1 − α) μ Σ|d|; accepted if it falls, by at least 1e-4 of what the model predicts

    The model's change of the cost is α (qᵀk + dᵀv) + ½ α² (kᵀQk + dᵀVd); with gaps, it is exact at α = 1. Damping grows
    tenfold if no rollout is accepted and threefold after a small step, and shrinks to a fifth after a large one. The problem
    has converged if a long step made the cost fall by less than the tolerance, or if it cannot fall by more according to the
    model, and there are no gaps (Σ|d| ≤ `max_gap`). The cost of a trajectory with gaps is infinite while no rollout has a
    finite one.
    """
    cost, damping, gap_weight = progress
    has_gaps = gaps is not NO_GAPS
    merits = list(costs)
    if has_gaps:
        linear, quadratic = linear + gaps.linear, quadratic + gaps.quadratic
        rise = where(gaps.size > 0.0, (linear + 0.5 * quadratic) / where(gaps.size > 0.0, gaps.size, 1.0), 0.0)
        gap_weight = maximum(gap_weight, 2.0 * rise)
        merits = [J + (1.0 - alpha) * gap_weight * gaps.size for J, alpha in zip(costs, sizes, strict=True)]
    lowest, alpha, index, lowest_cost = merits[0], sizes[0], 0.0, costs[0]
    for i in range(1, len(costs)):
        not_finite = equal(where(lowest < math.inf, 1.0, 0.0), 0.0)
        lower = logical_or(merits[i] < lowest, not_finite)
        lowest, lowest_cost = where(lower, merits[i], lowest), where(lower, costs[i], lowest_cost)
        alpha, index = where(lower, sizes[i], alpha), where(lower, float(i), index)
    decrease = cost + gap_weight * gaps.size - lowest if has_gaps else cost - lowest
    cost_without_step = where(lowest < math.inf, cost, math.inf) if has_gaps else cost
    predicted = -(alpha * linear + 0.5 * alpha * alpha * quadratic)
    if has_gaps:
        predicted = predicted + alpha * gap_weight * gaps.size
    accepted = logical_and(decrease > 0.0, decrease >= MIN_DECREASE_RATIO * predicted)
    after_success = where(
        alpha >= 0.5,
        where(damping > MIN_DAMPING, 0.2 * damping, 0.0),
        where(alpha <= 0.1, maximum(3.0 * damping, INITIAL_DAMPING), damping),
    )
    after_failure = minimum(maximum(10.0 * damping, INITIAL_DAMPING), 10.0 * MAX_DAMPING)
    remaining = -(linear + 0.5 * quadratic)
    is_long_step = logical_and(accepted, alpha >= MIN_SETTLED_STEP)
    is_small = where(is_long_step, decrease, remaining) <= tolerance
    if has_gaps:
        is_small = logical_and(is_small, gaps.size <= max_gap)
    return RolloutChoice(
        accepted=where(accepted, 1.0, 0.0),
        index=index,
        alpha=where(accepted, alpha, 0.0),
        cost=where(accepted, lowest_cost, cost_without_step),
        damping=where(accepted, after_success, after_failure),
        gap_weight=gap_weight,
        converged=where(is_small, 1.0, 0.0),
    )
