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

from samara.ops import clamp, logical_and, logical_or, where
from samara.quantity import Scalar

FLOOR = 1e-6  # document 001 adds it to the diagonal of Quu
BOX_ITERATIONS = 3


def curvature(V: Any, M: Any, m: Any) -> Any:
    """Mᵀ V m, for some columns m of M"""
    return M.T @ (V @ m)


class BoxStep(NamedTuple):
    """Which inputs are free, and the factors L D Lᵀ of what couples them; the step k; and what the stage gains by it.

    `slope` is q + Q k where inputs are free to move on, `damping` what was added to the diagonal of Q.
    """

    free: tuple[Scalar, ...]
    lower: tuple[tuple[Scalar, ...], ...]
    inverse_pivots: tuple[Scalar, ...]
    step: tuple[Scalar, ...]
    slope: tuple[Scalar, ...]
    damping: tuple[Scalar, ...]
    linear: Scalar  # qᵀk
    quadratic: Scalar  # kᵀQk
    gradient: Scalar  # Σ q² over the inputs that may move along −q


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
    for iteration in range(iterations):
        free = [where(logical_or(held_low[a], held_high[a]), 0.0, 1.0) for a in m]
        bound = [where(held_low[a], low[a], where(held_high[a], high[a], 0.0)) for a in m]
        lower, inverse_pivots = factors(damped, free)
        right = [-free[a] * (q[a] + _sum(damped[a][b] * bound[b] for b in m if b != a)) for a in m]
        solved = solve_factored(lower, inverse_pivots, right)
        step = [where(free[a] > 0.5, solved[a], bound[a]) for a in m]
        if iteration + 1 < iterations:
            push = [q[a] + _sum(damped[a][b] * step[b] for b in m) for a in m]
            held_low, held_high = (
                [where(free[a] > 0.5, step[a] < low[a], logical_and(held_low[a], push[a] > 0.0)) for a in m],
                [where(free[a] > 0.5, step[a] > high[a], logical_and(held_high[a], push[a] < 0.0)) for a in m],
            )
    step = [clamp(step[a], low[a], high[a]) for a in m]
    bent = [_sum(Q[a][b] * step[b] for b in m) for a in m]
    return BoxStep(
        free=tuple(free),
        lower=tuple(tuple(row) for row in lower),
        inverse_pivots=tuple(inverse_pivots),
        step=tuple(step),
        slope=tuple(q[a] + bent[a] for a in m),
        damping=tuple(added),
        linear=_sum(q[a] * step[a] for a in m),
        quadratic=_sum(bent[a] * step[a] for a in m),
        gradient=_sum(may_move[a] * q[a] * q[a] for a in m),
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


def gain_rows(box: BoxStep, rows: Sequence[Any]) -> list[Any]:
    """K = −Q_free⁻¹ Q_ux, row by row; 0 for inputs that are held"""
    kept = [-free * row for free, row in zip(box.free, rows, strict=True)]
    return solve_factored(box.lower, box.inverse_pivots, kept)


def damped_rows(box: BoxStep, rows: Sequence[Any], gains: Sequence[Any]) -> list[Any]:
    """Q_ux − D K: with it V = Q_xx + (Q_ux − D K)ᵀ K, whatever was held or added"""
    return [row - added * gain for row, added, gain in zip(rows, box.damping, gains, strict=True)]


def value_columns(q_x: Any, damped: Any, gains: Any) -> Any:
    """Q_xx + (Q_ux − D K)ᵀ K, for some columns"""
    return q_x + damped.T @ gains


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
    low: Sequence[Scalar],
    high: Sequence[Scalar],
    damping: Scalar,
    change: Smoothing | None,
    from_before: Any,
    stack: Callable[[Sequence[Any]], Any],
    beside: Callable[[Any, Any], Any],
) -> Stage:
    """A whole stage at once

    `change` is what smoothing takes from the following stage, None without it; `from_before` (m, m) is −s 1, what the input
    before does to the slope of this one. `stack` puts rows, or numbers, one below another, `beside` two matrices side by side.
    """
    n = V.shape[0]
    m = range(M.shape[1] - n)
    Q, q = curvature(V, M, M) + H, M.T @ v + slope
    Q_ux, Q_uu, q_u = Q[n:, :n], [[Q[n + a, n + b] for b in m] for a in m], [q[n + a, 0] for a in m]
    if change is not None:
        extra = change.by_x @ M
        Q_ux = Q_ux + extra[:, :n]
        Q_uu = [[Q_uu[a][b] + extra[a, n + b] + extra[b, n + a] + change.by_itself[a][b] for b in m] for a in m]
        q_u = [q_u[a] + change.slope[a] for a in m]
    box = box_step(Q_uu, q_u, low, high, damping)
    wide = beside(Q_ux, from_before)
    rows = [wide[a : a + 1, :] for a in m]
    by_rows = gain_rows(box, rows)
    gains, damped = stack(by_rows), stack(damped_rows(box, rows, by_rows))
    K = gains[:, :n]
    return Stage(
        V=value_columns(Q[:n, :n], damped[:, :n], K),
        v=q[:n, :] + Q_ux.T @ stack(box.step) + K.T @ stack(box.slope),
        gains=gains,
        box=box,
    )


def _sum(terms: Any) -> Scalar:
    result: Scalar = 0.0
    for term in terms:
        result = result + term
    return result
