"""One stage of iLQR's backward pass, in matrices: the value V of the next state, and the input that is best at this one.

The next state is x' = M z, z = (x, u), M = [A B]. What the value of the next stage and the cost of this one are together is

    Q = Mᵀ V M + H,   q = Mᵀ v + g

and with u = k + K x its smallest value over u is again quadratic in x. Every function here acts on columns, one or all of them:
`M` may be all columns of M or a single one, in NumPy, JAX or CasADi matrices alike (rows first, always two-dimensional).

The inputs' change from step to step costs ½ s |u − u₋|², so the value also depends on the input before, u₋; but only through
−s u₋ᵀu. Hence its curvature between u₋ and x is −s K, that of u₋ alone s (1 − K₋) with K₋ the gain on u₋, and its slope
s (u₋ − u − k): nothing needs to be carried for it but the gains.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from samara.control.mpc.problem import Limits
from samara.core.ops import clamp, equal, logical_and, logical_or, where
from samara.core.quantity import Scalar

FLOOR = 1e-6  # the iLQR document adds it to the diagonal of Quu
BOX_ITERATIONS = 3


class Factors(NamedTuple):
    """Which inputs are free, the factors L D Lᵀ of what couples them, and what was added to the diagonal of Q."""

    free: tuple[Scalar, ...]
    lower: tuple[tuple[Scalar, ...], ...]
    inverse_pivots: tuple[Scalar, ...]
    damping: tuple[Scalar, ...]


class BoxStep(NamedTuple):
    """The step k with the factors it came from, and what the stage gains by it; `slope` is q + Q k.

    `unsettled` is 0 where one more iteration would hold and release nothing, and so leave all as it is.
    """

    factors: Factors
    step: tuple[Scalar, ...]
    slope: tuple[Scalar, ...]
    linear: Scalar  # qᵀk
    quadratic: Scalar  # kᵀQk
    gradient: Scalar  # Σ q² over the inputs that may move along −q
    unsettled: Scalar


def box_step(
    Q: Sequence[Sequence[Scalar]],
    q: Sequence[Scalar],
    low: Sequence[Scalar],
    high: Sequence[Scalar],
    damping: Scalar,
    iterations: int = BOX_ITERATIONS,
) -> BoxStep:
    """min ½ kᵀ(Q + D)k + qᵀk for low ≤ k ≤ high, D = 1e-6 + damping · diag Q

    Primal–dual active sets: inputs at a limit which −q pushes against are held there, the others solved for; those that leave
    the box are held next, those whose multiplier has the wrong sign released. The last solution is cut to the box.
    """
    m = range(len(q))
    added = [FLOOR + damping * Q[a][a] for a in m]
    damped = [[Q[a][b] + added[a] if a == b else Q[a][b] for b in m] for a in m]
    held_low = [logical_and(low[a] >= 0.0, q[a] > 0.0) for a in m]
    held_high = [logical_and(high[a] <= 0.0, q[a] < 0.0) for a in m]
    may_move = [where(logical_or(held_low[a], held_high[a]), 0.0, 1.0) for a in m]
    next_low, next_high = held_low, held_high
    for _ in range(iterations):
        held_low, held_high = next_low, next_high
        free = [where(logical_or(held_low[a], held_high[a]), 0.0, 1.0) for a in m]
        bound = [where(held_low[a], low[a], where(held_high[a], high[a], 0.0)) for a in m]
        lower, inverse_pivots = factors(damped, free)
        right = [-free[a] * (q[a] + _sum(damped[a][b] * bound[b] for b in m if b != a)) for a in m]
        solved = solve_factored(lower, inverse_pivots, right)
        step = [where(free[a] > 0.5, solved[a], bound[a]) for a in m]
        push = [q[a] + _sum(damped[a][b] * step[b] for b in m) for a in m]
        next_low, next_high = (
            [where(free[a] > 0.5, step[a] < low[a], logical_and(held_low[a], push[a] > 0.0)) for a in m],
            [where(free[a] > 0.5, step[a] > high[a], logical_and(held_high[a], push[a] < 0.0)) for a in m],
        )
    held, following = (
        [where(own, 1.0, 0.0) for own in (*ends[0], *ends[1])]
        for ends in ((held_low, held_high), (next_low, next_high))
    )
    step = [clamp(step[a], low[a], high[a]) for a in m]
    bent = [_sum(Q[a][b] * step[b] for b in m) for a in m]
    return BoxStep(
        factors=Factors(tuple(free), tuple(tuple(row) for row in lower), tuple(inverse_pivots), tuple(added)),
        step=tuple(step),
        slope=tuple(q[a] + bent[a] for a in m),
        linear=_sum(q[a] * step[a] for a in m),
        quadratic=_sum(bent[a] * step[a] for a in m),
        gradient=_sum(may_move[a] * q[a] * q[a] for a in m),
        unsettled=_sum(where(equal(was, will), 0.0, 1.0) for was, will in zip(held, following, strict=True)),
    )


def factors(Q: Sequence[Sequence[Scalar]], free: Sequence[Scalar]) -> tuple[list[list[Scalar]], list[Scalar]]:
    """L (its rows below the diagonal) and 1/D of Q = L D Lᵀ among the free; the held have 1 on the diagonal alone"""
    lower: list[list[Scalar]] = []
    pivots: list[Scalar] = []
    inverse: list[Scalar] = []
    for a in range(len(free)):
        row: list[Scalar] = []  # of L D
        for b in range(a):
            row.append(free[a] * free[b] * Q[a][b] - _sum(row[c] * lower[b][c] for c in range(b)))
        scaled = [row[b] * inverse[b] for b in range(a)]
        pivot = where(free[a] > 0.5, Q[a][a], 1.0) - _sum(row[b] * scaled[b] for b in range(a))
        lower.append(scaled)
        pivots.append(pivot)
        inverse.append(1.0 / pivot)
    return lower, inverse


def solve_factored(
    lower: Sequence[Sequence[Scalar]], inverse_pivots: Sequence[Scalar], right: Sequence[Any]
) -> list[Any]:
    """(L D Lᵀ)⁻¹ right, by rows, each a number or a row of columns"""
    m = len(right)
    y: list[Any] = []
    for a in range(m):
        y.append(right[a] - _sum(lower[a][b] * y[b] for b in range(a)))
    x: list[Any] = [None] * m
    for a in reversed(range(m)):
        x[a] = y[a] * inverse_pivots[a] - _sum(lower[b][a] * x[b] for b in range(a + 1, m))
    return x


class Smoothing(NamedTuple):
    """The value's dependence on the input before: −s K between it and x, s (1 − K₋) of itself, and its slope."""

    by_x: Any
    by_itself: list[list[Scalar]]
    slope: list[Scalar]


def smoothing(
    weight: Scalar,
    gains: Any,
    gains_before: Sequence[Sequence[Scalar]],
    step: Sequence[Scalar],
    here: Sequence[Scalar],
    following: Sequence[Scalar],
) -> Smoothing:
    """From the following stage's gains K, K₋ and step k, its input and the one here; the weight is 0 at the last stage"""
    m = range(len(step))
    return Smoothing(
        by_x=gains * -weight,
        by_itself=[[weight * ((1.0 if a == b else 0.0) - gains_before[a][b]) for b in m] for a in m],
        slope=[weight * (here[a] - following[a] - step[a]) for a in m],
    )


# A stage in four parts, for some columns or for all of them -----------------------------------------------------------


class Join(NamedTuple):
    """How a library puts matrices, rows or numbers one below another, and matrices side by side."""

    below: Callable[[Sequence[Any]], Any]
    beside: Callable[[Sequence[Any]], Any]


def expanded(
    V: Any, v: Any, M: Any, columns: Any, H: Any, slope: Any, change: Smoothing | None, join: Join
) -> tuple[Any, Any, Any]:
    """Q = Mᵀ V m + h with S m added to the rows of the inputs, q = mᵀ v + g, and S m; for some columns m of M"""
    Q, q = M.T @ (V @ columns) + H, columns.T @ v + slope
    if change is None:
        return Q, q, None
    n, by_inputs = V.shape[0], change.by_x @ columns
    return join.below([Q[:n, :], Q[n:, :] + by_inputs]), q, by_inputs


def input_step(
    Q: Sequence[Sequence[Scalar]],
    q: Sequence[Scalar],
    transposed: Sequence[Sequence[Scalar]],
    change: Smoothing | None,
    limits: Limits,
    here: Sequence[Scalar],
    damping: Scalar,
    iterations: int = BOX_ITERATIONS,
) -> BoxStep:
    """The step within the limits, from Q_uu with S B already in it; `transposed` is (S B)ᵀ, `here` the input now"""
    m = range(len(q))
    if change is not None:
        Q = [[Q[a][b] + transposed[a][b] + change.by_itself[a][b] for b in m] for a in m]
        q = [q[a] + change.slope[a] for a in m]
    low, high = ([limit[a] - here[a] for a in m] for limit in limits)
    return box_step(Q, q, low, high, damping, iterations)


def gain_rows(of: Factors, rows: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """K = −Q_free⁻¹ Q_ux, row by row, 0 for inputs that are held; and Q_ux − D K, whatever was held or added"""
    kept = [-free * row for free, row in zip(of.free, rows, strict=True)]
    gains = solve_factored(of.lower, of.inverse_pivots, kept)
    return gains, [row - added * gain for row, added, gain in zip(rows, of.damping, gains, strict=True)]


def value(Q_xx: Any, q_x: Any, Q_ux: Any, damped: Any, gains: Any, step: Any, slope: Any) -> tuple[Any, Any]:
    """V = Q_xx + (Q_ux − D K)ᵀ K,  v = q_x + Q_uxᵀ k + Kᵀ (q_u + Q_uu k); for some columns, of K `gains`"""
    return Q_xx + damped.T @ gains, q_x + Q_ux.T @ step + gains.T @ slope


class Stage(NamedTuple):
    """The value of this stage, V and v, the gains (K, K₋) on x and on the input before, and the box step."""

    V: Any
    v: Any
    gains: Any
    box: BoxStep


def stage(
    V: Any,
    v: Any,
    M: Any,
    H: Any,
    slope: Any,
    limits: Limits,
    here: Sequence[Scalar],
    damping: Scalar,
    change: Smoothing | None,
    from_before: Any,
    join: Join,
) -> Stage:
    """A whole stage at once

    `change` is what smoothing takes from the following stage, None without it; `from_before` (m, m) is −s 1, what the input
    before does to the slope of this one.
    """
    n = V.shape[0]
    m = range(M.shape[1] - n)
    Q, q, by_inputs = expanded(V, v, M, M, H, slope, change, join)
    corner = [[Q[n + a, n + b] for b in m] for a in m]
    transposed = [] if by_inputs is None else [[by_inputs[b, n + a] for b in m] for a in m]
    box = input_step(corner, [q[n + a, 0] for a in m], transposed, change, limits, here, damping)
    wide = join.beside([Q[n:, :n], from_before])
    gains, damped = (join.below(rows) for rows in gain_rows(box.factors, [wide[a : a + 1, :] for a in m]))
    own_V, own_v = value(
        Q[:n, :n], q[:n, :], Q[n:, :n], damped[:, :n], gains[:, :n], join.below(box.step), join.below(box.slope)
    )
    return Stage(own_V, own_v, gains, box)


def _sum(terms: Any) -> Scalar:
    result: Scalar = 0.0
    for term in terms:
        result = result + term
    return result
