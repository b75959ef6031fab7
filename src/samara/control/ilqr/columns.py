"""The backward pass of one problem with its lanes along columns: those of (x, u), then those of (x, input before).

A stage is four programs on a scratch of rows, each row C numbers long:

    V (12 rows), v, Q (12 + m rows), S M (m rows), q, Q_ux − D K (m rows), and what the box step leaves

Q and q are made for all columns at once; the box step is one lane's work; then the gains, and V and v in their place.
"""

from typing import Any, NamedTuple

import casadi

from samara.backends.llvm_loop import Array, Loop, Loops, Pass, compile_loops
from samara.control.ilqr.backward import (
    BoxStep,
    Smoothing,
    box_step,
    curvature,
    damped_rows,
    gain_rows,
    smoothing,
    value_columns,
)
from samara.control.ilqr.cost import Held
from samara.control.ilqr.model import STATE, TANGENT, Model
from samara.control.ilqr.trace import SX, Linearised, Symbols, as_held, entries, traced

LANES = 8  # step sizes tried at once, and steps of the horizon linearised at once
SUMS = 3  # qᵀk, kᵀQk and |q|² over the horizon


def span(start: int, count: int, apart: int = 1) -> tuple[int, ...]:
    """So many places from a first one, so far apart"""
    return tuple(start + apart * i for i in range(count))


class Layout(NamedTuple):
    """Where things are in the arrays of one problem (in numbers)."""

    m: int  # inputs
    columns: int  # of a row: 12 + m, filled up to whole vectors
    held: int
    varying_rows: tuple[int, ...]  # of the cost's curvature

    @property
    def width(self) -> int:
        """x and u, or x and the input before"""
        return TANGENT + self.m

    @property
    def step(self) -> int:
        """One step of eight rollouts: state and input"""
        return (STATE + self.m) * LANES

    @property
    def slope(self) -> int:
        """The cost's slope, in a stage"""
        return TANGENT * self.columns

    def bend(self, row: int) -> int:
        """A varying row of the cost's curvature, in a stage"""
        return self.slope + self.columns * (1 + self.varying_rows.index(row))

    @property
    def stage(self) -> int:
        return self.slope + self.columns * (1 + len(self.varying_rows))

    @property
    def gains(self) -> int:
        """K by rows, then k"""
        return self.m * self.columns + self.m

    def gain_places(self, later: int = 0) -> tuple[int, ...]:
        """The numbers of K, so many stages later"""
        first = later * self.gains
        return tuple(first + a * self.columns + j for a in range(self.m) for j in range(self.width))

    def rows(self, name: str) -> int:
        """Where a block of rows begins in the scratch"""
        blocks = {"V": TANGENT, "v": 1, "Q": self.width, "SM": self.m, "q": 1, "damped": self.m, "box": 0}
        at = 0
        for block, rows in blocks.items():
            if block == name:
                return at * self.columns
            at += rows
        raise KeyError(name)

    @property
    def box(self) -> int:
        """The numbers a box step leaves: free, L, 1/D, slope, damping"""
        return 4 * self.m + self.m * (self.m - 1) // 2

    @property
    def scratch(self) -> int:
        return self.rows("box") + self.box


def layout_of(model: Model, held_numbers: int, trace: Linearised) -> Layout:
    columns = -(-(TANGENT + model.inputs) // LANES) * LANES
    return Layout(model.inputs, columns, held_numbers, tuple(sorted({i for i, _ in trace.curvature.varying})))


def compile_backward(model: Model, held: Held, trace: Linearised, layout: Layout) -> Loops:
    """V and v at the end, then stage after stage from the last to the first: gains, and the sums over the horizon"""
    next_ = _NextStage(layout, trace.symbols)
    smooth = held.weights.wSmooth != 0.0
    passes = (
        _make_q(trace, layout, next_, smooth),
        _make_box_step(held, trace, layout, next_, smooth),
        _make_gains(held, trace, layout),
        _make_value(layout),
    )
    return compile_loops((Loop((_make_end(trace, layout),), at="end"), Loop(passes, reverse=True)))


def _value_symbols(layout: Layout) -> tuple[Any, Any, Array]:
    """V as a symmetric matrix of symbols, read from below the diagonal alone: rounding cannot make it lopsided"""
    below = [(i, j) for i in range(TANGENT) for j in range(i + 1)]
    numbers, V = SX.sym("V", len(below)), SX(TANGENT, TANGENT)
    for k, (i, j) in enumerate(below):
        V[i, j] = V[j, i] = numbers[k]
    return V, numbers, Array("scratch", tuple(layout.rows("V") + i * layout.columns + j for i, j in below))


class _NextStage:
    """What smoothing takes from the stage after: gains, step, input, and the weight of the change to it."""

    def __init__(self, layout: Layout, own: Symbols) -> None:
        m, gains = layout.m, layout.gains
        u_places = span(2 * layout.step + STATE * LANES, m, LANES)
        self.symbols = [SX.sym("K_next", m * layout.width), SX.sym("k_next", m), SX.sym("u_next", m), SX.sym("later")]
        self.arrays = (
            Array("gains", layout.gain_places(later=1), gains),
            Array("gains", span(gains + m * layout.columns, m), gains),
            Array("nominal", u_places, layout.step),
            Array("later", (0,), 1),
        )
        K, k, u, later = self.symbols
        rows = casadi.reshape(K, layout.width, m).T
        before = [[rows[a, TANGENT + b] for b in range(m)] for a in range(m)]
        self.smoothing: Smoothing = smoothing(later, rows[:, :TANGENT], before, entries(k), entries(own.u), entries(u))


def _make_q(trace: Linearised, layout: Layout, next_: _NextStage, smooth: bool) -> Pass:
    """Q = Mᵀ V M + H, with S M added to the inputs' rows, and q = Mᵀ v + g: one column in each lane"""
    m, columns, stage = layout.m, layout.columns, layout.stage
    V, V_numbers, V_array = _value_symbols(layout)
    M_numbers, mine = SX.sym("M", len(trace.jacobian.varying)), SX.sym("column", TANGENT)
    M = trace.jacobian.matrix(entries(M_numbers))
    varying, constant = layout.varying_rows, [i for i in range(layout.width) if i not in layout.varying_rows]
    bend, bend_constant = SX.sym("h", len(varying)), SX.sym("h_constant", len(constant))
    rows = {
        **dict(zip(varying, entries(bend), strict=True)),
        **dict(zip(constant, entries(bend_constant), strict=True)),
    }
    v, slope = SX.sym("v", TANGENT), SX.sym("g")
    q = curvature(V, M, mine) + casadi.vertcat(*(rows[i] for i in range(layout.width)))
    by_inputs = next_.smoothing.by_x @ mine if smooth else SX(0, 1)
    if smooth:
        q = casadi.vertcat(q[:TANGENT], q[TANGENT:] + by_inputs)
    return Pass(
        traced(
            [V_numbers, mine, M_numbers, bend, bend_constant, v, slope, *next_.symbols],
            [q, by_inputs, v.T @ mine + slope],
        ),
        (
            V_array,
            Array("stages", span(0, TANGENT, columns), stage, 1),
            Array("stages", tuple(i * columns + j for i, j in trace.jacobian.varying), stage),
            Array("stages", tuple(layout.bend(i) for i in varying), stage, 1),
            Array("bends", tuple(i * columns for i in constant), 0, 1),
            Array("scratch", span(layout.rows("v"), TANGENT)),
            Array("stages", (layout.slope,), stage, 1),
            *next_.arrays,
        ),
        (
            Array("scratch", span(layout.rows("Q"), layout.width, columns), 0, 1),
            Array("scratch", span(layout.rows("SM"), m if smooth else 0, columns), 0, 1),
            Array("scratch", (layout.rows("q"),), 0, 1),
        ),
        columns,
    )


def _make_box_step(held: Held, trace: Linearised, layout: Layout, next_: _NextStage, smooth: bool) -> Pass:
    """Q_uu and q_u from their corner, the step within the limits, and the sums; one lane"""
    m, columns, own = layout.m, layout.columns, trace.symbols
    corner, change, slope = SX.sym("Quu", m * m), SX.sym("SB", m * m), SX.sym("qu", m)
    damping, sums, numbers = SX.sym("damping"), SX.sym("sums", SUMS), as_held(own.held, held)
    Q = [[corner[max(a, b) * m + min(a, b)] for b in range(m)] for a in range(m)]
    q = entries(slope)
    if smooth:
        # S B is already in the corner, once; its transpose is not
        for a in range(m):
            for b in range(m):
                Q[a][b] = Q[a][b] + change[min(a, b) * m + max(a, b)] + next_.smoothing.by_itself[a][b]
        q = [q[a] + next_.smoothing.slope[a] for a in range(m)]
    low, high = ([limit[a] - own.u[a] for a in range(m)] for limit in (numbers.low, numbers.high))
    box = box_step(Q, q, low, high, damping)
    inputs = [corner, change, slope, damping, sums, own.held, own.u, *next_.symbols]
    total = sums + casadi.vertcat(box.linear, box.quadratic, box.gradient)
    rows = [layout.rows("Q") + (TANGENT + a) * columns for a in range(m)]
    return Pass(
        traced(inputs, [casadi.vertcat(*_kept(box)), casadi.vertcat(*box.step), total]),
        (
            Array("scratch", tuple(row + TANGENT + b for row in rows for b in range(m))),
            Array("scratch", tuple(layout.rows("SM") + a * columns + TANGENT + b for a in range(m) for b in range(m))),
            Array("scratch", span(layout.rows("q") + TANGENT, m)),
            Array("damping", (0,)),
            Array("sums", span(0, SUMS)),
            Array("held", span(0, layout.held)),
            Array("nominal", span(layout.step + STATE * LANES, m, LANES), layout.step),
            *next_.arrays,
        ),
        (
            Array("scratch", span(layout.rows("box"), layout.box)),
            Array("gains", span(m * columns, m), layout.gains),
            Array("sums", span(0, SUMS)),
        ),
        1,
    )


def _kept(box: BoxStep) -> list[Any]:
    lower = [number for row in box.lower for number in row]
    return [*box.free, *lower, *box.inverse_pivots, *box.slope, *box.damping]


def _box_symbols(layout: Layout) -> tuple[BoxStep, Any]:
    """What was kept, as symbols"""
    m, numbers = layout.m, SX.sym("box", layout.box)
    given = iter(entries(numbers))
    free = tuple(next(given) for _ in range(m))
    lower = tuple(tuple(next(given) for _ in range(a)) for a in range(m))
    pivots, slope, damping = (tuple(next(given) for _ in range(m)) for _ in range(3))
    return BoxStep(free, lower, pivots, (), slope, damping, 0.0, 0.0, 0.0), numbers


def _make_gains(held: Held, trace: Linearised, layout: Layout) -> Pass:
    """K = −Q_uu⁻¹ (Q_ux, −s 1): a column of x or of the input before in each lane; and Q_ux − D K"""
    m, columns = layout.m, layout.columns
    box, box_numbers = _box_symbols(layout)
    q_u, is_x, is_before = SX.sym("q_u", m), SX.sym("is_x"), SX.sym("is_before", m)
    weight = as_held(trace.symbols.held, held).weights.wSmooth
    rows = [q_u[a] * is_x - weight * is_before[a] for a in range(m)]
    gains = gain_rows(box, rows)
    return Pass(
        traced(
            [q_u, is_x, is_before, box_numbers, trace.symbols.held],
            [casadi.vertcat(*gains), casadi.vertcat(*damped_rows(box, rows, gains))],
        ),
        (
            Array("scratch", span(layout.rows("Q") + TANGENT * columns, m, columns), 0, 1),
            Array("masks", (0,), 0, 1),
            Array("masks", span(columns, m, columns), 0, 1),
            Array("scratch", span(layout.rows("box"), layout.box)),
            Array("held", span(0, layout.held)),
        ),
        (
            Array("gains", span(0, m, columns), layout.gains, 1),
            Array("scratch", span(layout.rows("damped"), m, columns), 0, 1),
        ),
        columns,
    )


def _make_value(layout: Layout) -> Pass:
    """V = Q_xx + (Q_ux − D K)ᵀ K,  v = q_x + Q_uxᵀ k + Kᵀ (q_u + Q_uu k): a column in each lane"""
    m, columns = layout.m, layout.columns
    box, box_numbers = _box_symbols(layout)
    damped, k, gain = SX.sym("damped", m * TANGENT), SX.sym("k", m), SX.sym("K", m)
    q_x, q_u, q = SX.sym("q_x", TANGENT), SX.sym("q_u", m), SX.sym("q")
    V = value_columns(q_x, casadi.reshape(damped, TANGENT, m).T, gain)
    v = q + k.T @ q_u + casadi.vertcat(*box.slope).T @ gain
    rows = layout.rows("damped")
    return Pass(
        traced([damped, k, box_numbers, gain, q_x, q_u, q], [V, v]),
        (
            Array("scratch", tuple(rows + a * columns + j for a in range(m) for j in range(TANGENT))),
            Array("gains", span(m * columns, m), layout.gains),
            Array("scratch", span(layout.rows("box"), layout.box)),
            Array("gains", span(0, m, columns), layout.gains, 1),
            Array("scratch", span(layout.rows("Q"), TANGENT, columns), 0, 1),
            Array("scratch", span(layout.rows("Q") + TANGENT * columns, m, columns), 0, 1),
            Array("scratch", (layout.rows("q"),), 0, 1),
        ),
        (
            Array("scratch", span(layout.rows("V"), TANGENT, columns), 0, 1),
            Array("scratch", (layout.rows("v"),), 0, 1),
        ),
        columns,
    )


def _make_end(trace: Linearised, layout: Layout) -> Pass:
    """V and v of the final cost, and sums of 0; one lane"""
    own = trace.symbols
    below = casadi.vertcat(*(trace.final_curvature[i, j] for i in range(TANGENT) for j in range(i + 1)))
    return Pass(
        traced([own.x, own.goal, own.held], [below, trace.final_slope, SX.zeros(SUMS)]),
        (
            Array("nominal", span(layout.step, STATE, LANES), layout.step),
            Array("goals", span(0, own.goal.numel()), own.goal.numel()),
            Array("held", span(0, layout.held)),
        ),
        (
            _value_symbols(layout)[2],
            Array("scratch", span(layout.rows("v"), TANGENT)),
            Array("sums", span(0, SUMS)),
        ),
        1,
    )
