"""The backward pass of one problem with its lanes along columns: those of (x, u), then those of (x, input before).

A stage is four programs on a scratch of rows, each row C numbers long:

    V (12 rows), v, Q (12 + m rows), S M (m rows), q, Q_ux − D K (m rows), and what the box step leaves

Q and q are made for all columns at once; the box step is one lane's work; then the gains, and V and v in their place. One
iteration of the box step settles it nearly always, where no limit is met: all of them run only where it does not.
"""

from typing import Any, NamedTuple

import casadi

from samara.compiler.llvm.array_loop import ArraySpec, Loop, Loops, Pass, compile_loops
from samara.control.mpc.backward import (
    BOX_ITERATIONS,
    BoxStep,
    Factors,
    Smoothing,
    expanded,
    gain_rows,
    input_step,
    value,
)
from samara.control.mpc.buffers import LANES, Rows, shared, span
from samara.control.mpc.derivatives import (
    JOIN,
    SUMS,
    SX,
    Linearised,
    below_diagonal,
    change_to_next,
    column,
    entries,
    symmetric,
    traced,
    tree,
    value_at_end,
)
from samara.control.mpc.problem import Problem, Sizes, is_zero
from samara.core.tree import flatten


class Layout(NamedTuple):
    """Where things are in the arrays of one problem (in numbers)."""

    sizes: Sizes
    columns: int  # of a row: δx and u, filled up to whole vectors
    varying_rows: tuple[int, ...]  # of the cost's curvature

    @property
    def nominal(self) -> Rows:
        """The trajectory linearised about: one lane of eight rollouts"""
        return Rows("nominal", self.sizes.step, LANES)

    @property
    def goals(self) -> Rows:
        return Rows("goals", self.sizes.goal)

    @property
    def slope(self) -> int:
        """The cost's slope, in a stage"""
        return self.sizes.tangent * self.columns

    def curvature(self, row: int) -> int:
        """A varying row of the cost's curvature, in a stage"""
        return self.slope + self.columns * (1 + self.varying_rows.index(row))

    @property
    def stage(self) -> int:
        return self.slope + self.columns * (1 + len(self.varying_rows))

    @property
    def gains(self) -> int:
        """K by rows, then k"""
        return self.sizes.command * (self.columns + 1)

    def gain_arrays(self, later: int = 0) -> tuple[ArraySpec, ArraySpec]:
        """The numbers of K and of k, so many stages later"""
        m, width, first = self.sizes.command, self.sizes.width, later * self.gains
        K = tuple(first + a * self.columns + j for a in range(m) for j in range(width))
        return ArraySpec("gains", K, self.gains), Rows("gains", self.gains).at(m, m * self.columns, later)

    def rows(self, name: str) -> int:
        """Where a block of rows begins in the scratch"""
        n, m = self.sizes.tangent, self.sizes.command
        blocks = {"V": n, "v": 1, "Q": n + m, "SM": m, "q": 1, "damped": m, "box": 0}
        return self.columns * sum(list(blocks.values())[: list(blocks).index(name)])

    def across(self, name: str, count: int, first: int = 0) -> ArraySpec:
        """Rows of a block of the scratch, a column in each lane"""
        return ArraySpec("scratch", span(self.rows(name) + first * self.columns, count, self.columns), 0, 1)

    @property
    def kept(self) -> tuple[Factors, tuple[float, ...]]:
        """What a box step leaves: its factors and its slope"""
        none = (0.0,) * self.sizes.command
        return Factors(none, tuple(none[:a] for a in range(len(none))), none, none), none

    @property
    def box(self) -> ArraySpec:
        """Where they are in the scratch"""
        return ArraySpec("scratch", span(self.rows("box"), len(flatten(self.kept))))

    @property
    def unsettled(self) -> ArraySpec:
        """Whether one iteration of the box step was not enough"""
        return ArraySpec("scratch", (self.box.places[-1] + 1,))

    @property
    def sums_before(self) -> ArraySpec:
        """The sums over the horizon without this stage"""
        return ArraySpec("scratch", span(self.unsettled.places[0] + 1, SUMS))

    @property
    def scratch(self) -> int:
        return self.sums_before.places[-1] + 1


def layout_of(problem: Problem, trace: Linearised) -> Layout:
    columns = -(-problem.sizes.width // LANES) * LANES
    return Layout(problem.sizes, columns, tuple(sorted({i for i, _ in trace.curvature.varying})))


def compile_backward(problem: Problem, trace: Linearised, layout: Layout) -> Loops:
    """V and v at the end, then stage after stage from the last to the first: gains, and the sums over the horizon"""
    weight, following = _smoothing_weight(problem, trace), following_stage(problem, trace, layout)
    passes = (
        _expand(trace, layout, following),
        *step_inputs(problem, trace, layout, following),
        _make_gains(weight, trace, layout),
        _make_value(layout),
    )
    return compile_loops((Loop((_begin_at_end(trace, layout),), at="end"), Loop(passes, reverse=True)))


def _value_array(layout: Layout) -> ArraySpec:
    """V below its diagonal, in the scratch"""
    places = below_diagonal(layout.sizes.tangent)
    return ArraySpec("scratch", tuple(layout.rows("V") + i * layout.columns + j for i, j in places))


class _Following(NamedTuple):
    """What smoothing takes from the stage after: gains, step, input, and the weight of the change to it; or nothing."""

    symbols: tuple[Any, ...] = ()
    arrays: tuple[ArraySpec, ...] = ()
    change: Smoothing | None = None


def _smoothing_weight(problem: Problem, trace: Linearised) -> Any:
    return problem.smoothing(tree(problem.parameters, trace.symbols.parameters))


def following_stage(problem: Problem, trace: Linearised, layout: Layout) -> _Following:
    """What the stage after gives to a stage, and where it is"""
    if is_zero(_smoothing_weight(problem, trace)):
        return _Following()
    arrays = (layout.nominal.at(layout.sizes.command, layout.sizes.state, later=2), Rows("later", 1).at(1))
    symbols, change = change_to_next(problem, trace)
    return _Following(symbols, (*layout.gain_arrays(later=1), *arrays), change)


def _expand(trace: Linearised, layout: Layout, following: _Following) -> Pass:
    """Q = Mᵀ V M + H, with S M added to the inputs' rows, and q = Mᵀ v + g: one column in each lane"""
    n, m, columns, stage = layout.sizes.tangent, layout.sizes.command, layout.columns, layout.stage
    V_numbers, M_numbers, own = (
        SX.sym("V", n * (n + 1) // 2),
        SX.sym("M", len(trace.jacobian.varying)),
        SX.sym("column", n),
    )
    V = symmetric(dict(zip(below_diagonal(n), entries(V_numbers), strict=True)), n)
    M = trace.jacobian.matrix(entries(M_numbers))
    varying, constant = layout.varying_rows, [i for i in range(n + m) if i not in layout.varying_rows]
    H_varying, H_constant = SX.sym("h", len(varying)), SX.sym("h_constant", len(constant))
    rows = dict(zip((*varying, *constant), entries(H_varying) + entries(H_constant), strict=True))
    H, v, slope = casadi.vertcat(*(rows[i] for i in range(n + m))), SX.sym("v", n), SX.sym("g")
    Q, q, by_inputs = expanded(V, v, M, own, H, slope, following.change, JOIN)
    return Pass(
        traced(
            [V_numbers, own, M_numbers, H_varying, H_constant, v, slope, *following.symbols],
            [Q, q, SX(0, 1) if by_inputs is None else by_inputs],
        ),
        (
            _value_array(layout),
            ArraySpec("stages", span(0, n, columns), stage, 1),
            ArraySpec("stages", tuple(i * columns + j for i, j in trace.jacobian.varying), stage),
            ArraySpec("stages", tuple(layout.curvature(i) for i in varying), stage, 1),
            ArraySpec("curvature", tuple(i * columns for i in constant), 0, 1),
            ArraySpec("scratch", span(layout.rows("v"), n)),
            ArraySpec("stages", (layout.slope,), stage, 1),
            *following.arrays,
        ),
        (
            layout.across("Q", n + m),
            layout.across("q", 1),
            layout.across("SM", m if following.symbols else 0),
        ),
        columns,
    )


def step_inputs(problem: Problem, trace: Linearised, layout: Layout, following: _Following) -> tuple[Pass, Pass]:
    """Q_uu and q_u from their corner, the step within the limits, and the sums; one lane. Once, and again where need be"""
    n, m, columns, own = layout.sizes.tangent, layout.sizes.command, layout.columns, trace.symbols
    corner, by_inputs, slope = SX.sym("Quu", m * m), SX.sym("SB", m * m), SX.sym("qu", m)
    damping, sums = SX.sym("damping"), SX.sym("sums", SUMS)
    inputs = range(m)  # Q_uu is read below its diagonal alone, and with it S B above
    Q = [[corner[max(a, b) * m + min(a, b)] for b in inputs] for a in inputs]
    transposed = [[by_inputs[min(a, b) * m + max(a, b)] for b in inputs] for a in inputs]
    limits = problem.limits(tree(problem.parameters, own.parameters))
    quick, box = (
        input_step(Q, entries(slope), transposed, following.change, limits, entries(own.u), damping, iterations)
        for iterations in (1, BOX_ITERATIONS)
    )

    def corner_of(name: str, first: int) -> ArraySpec:
        start = layout.rows(name) + first * columns + n
        return ArraySpec("scratch", tuple(start + a * columns + b for a in inputs for b in inputs))

    def results(found: BoxStep) -> list[Any]:
        total = sums + casadi.vertcat(found.linear, found.quadratic, found.gradient)
        return [column((found.factors, found.slope)), casadi.vertcat(*found.step), total]

    symbols = [corner, by_inputs, slope, damping, own.parameters, own.u, *following.symbols, sums]
    arrays = (
        corner_of("Q", n),
        corner_of("SM", 0),
        ArraySpec("scratch", span(layout.rows("q") + n, m)),
        shared("damping"),
        shared("parameters", layout.sizes.parameters),
        layout.nominal.at(m, layout.sizes.state, later=1),
        *following.arrays,
    )
    found = (layout.box, layout.gain_arrays()[1], shared("sums", SUMS))
    return (
        Pass(
            traced(symbols, [*results(quick), SX(quick.unsettled), sums]),
            (*arrays, shared("sums", SUMS)),
            (*found, layout.unsettled, layout.sums_before),
            1,
        ),
        Pass(traced(symbols, results(box)), (*arrays, layout.sums_before), found, 1, when=layout.unsettled),
    )


def _make_gains(weight: Any, trace: Linearised, layout: Layout) -> Pass:
    """K = −Q_uu⁻¹ (Q_ux, −s 1): a column of x or of the input before in each lane; and Q_ux − D K"""
    m, columns = layout.sizes.command, layout.columns
    kept = SX.sym("box", len(layout.box.places))
    factors, _ = tree(layout.kept, kept)
    q_u, is_x, is_before = SX.sym("q_u", m), SX.sym("is_x"), SX.sym("is_before", m)
    gains, damped = gain_rows(factors, [q_u[a] * is_x - weight * is_before[a] for a in range(m)])
    return Pass(
        traced(
            [q_u, is_x, is_before, kept, trace.symbols.parameters],
            [casadi.vertcat(*gains), casadi.vertcat(*damped)],
        ),
        (
            layout.across("Q", m, layout.sizes.tangent),
            ArraySpec("masks", (0,), 0, 1),
            ArraySpec("masks", span(columns, m, columns), 0, 1),
            layout.box,
            shared("parameters", layout.sizes.parameters),
        ),
        (ArraySpec("gains", span(0, m, columns), layout.gains, 1), layout.across("damped", m)),
        columns,
    )


def _make_value(layout: Layout) -> Pass:
    """V = Q_xx + (Q_ux − D K)ᵀ K,  v = q_x + Q_uxᵀ k + Kᵀ (q_u + Q_uu k): a column in each lane"""
    n, m, columns = layout.sizes.tangent, layout.sizes.command, layout.columns
    kept = SX.sym("box", len(layout.box.places))
    _, slope = tree(layout.kept, kept)
    damped, k, gain = SX.sym("damped", m * n), SX.sym("k", m), SX.sym("K", m)
    Q_xx, Q_ux, q = SX.sym("Q_xx", n), SX.sym("Q_ux", m), SX.sym("q")
    V, v = value(Q_xx, q, Q_ux, casadi.reshape(damped, n, m).T, gain, k, casadi.vertcat(*slope))
    rows = layout.rows("damped")
    return Pass(
        traced([damped, k, kept, gain, Q_xx, Q_ux, q], [V, v]),
        (
            ArraySpec("scratch", tuple(rows + a * columns + j for a in range(m) for j in range(n))),
            layout.gain_arrays()[1],
            layout.box,
            ArraySpec("gains", span(0, m, columns), layout.gains, 1),
            layout.across("Q", n),
            layout.across("Q", m, n),
            layout.across("q", 1),
        ),
        (layout.across("V", n), layout.across("v", 1)),
        columns,
    )


def _begin_at_end(trace: Linearised, layout: Layout) -> Pass:
    """V and v of the final cost, and sums of 0; one lane"""
    sizes = layout.sizes
    return Pass(
        value_at_end(trace),
        (
            layout.nominal.at(sizes.state, later=1),
            layout.goals.at(sizes.goal),
            shared("parameters", sizes.parameters),
        ),
        (_value_array(layout), ArraySpec("scratch", span(layout.rows("v"), sizes.tangent)), shared("sums", SUMS)),
        1,
    )
