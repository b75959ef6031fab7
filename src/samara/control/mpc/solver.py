"""iLQR for one problem, compiled: three calls per iteration, and no Python between the steps of the horizon.

Lanes run along the horizon if its steps are independent (derivatives), along the columns of a matrix if they are not
(backward pass), and along the step sizes of the line search (rollouts). Between the calls everything stays in these arrays:

    tried     2 × (N + 2, n + m, 8)    states and inputs of eight rollouts; row k + 1 is step k, row 0 the previous input
    goals     (N + 1, ·)
    stages    (N, ·)                   [A B] by rows of C columns, the cost's gradient, the rows of its Hessian that vary
    gains     (N + 1, m C + m)         K by rows (of x, then of the previous input), then k
    scratch                            V, v, Q, S M, q and Q_ux − D K of one stage, by rows of C columns, and its box step

The nominal trajectory is one lane of one `tried`; the next eight rollouts go into the other, and the best of them becomes the
nominal one by a change of address.
"""

import math
from collections.abc import Sequence
from functools import lru_cache
from time import perf_counter
from typing import NamedTuple

import numpy as np

from samara.compiler.llvm.array_loop import ArrayLoop, ArraySpec, Call, CallChain, CompiledLoops, Pass, compile_loops
from samara.control.mpc.iteration import (
    BOX_ITERATIONS,
    TRACED,
    BoxStep,
    Factors,
    RolloutChoice,
    Smoothing,
    StageInputs,
    StageModel,
    expand_stage,
    gain_rows,
    input_step,
    smoothing_terms,
    stage_value,
    traced_column,
)
from samara.control.mpc.options import LINE_SEARCH_STEPS
from samara.control.mpc.problem import Problem, Scalars, Tree
from samara.control.mpc.programs import (
    LANES,
    SUM_COUNT,
    Arrays,
    Linearisation,
    MatrixIndex,
    RolloutArrays,
    StepArray,
    aligned_zeros,
    below_diagonal,
    choose_loops,
    index_spec,
    linearise,
    rollout_loops,
    shared_spec,
    trace_pass,
)
from samara.core.quantity import Scalar
from samara.core.tree import flatten
from samara.core.types import Array

MAX_DAMPING = 1e6  # the solver gives up if the cost does not fall at this damping


class ArrayLayout:
    """Indices into the arrays of one problem."""

    def __init__(self, problem: Problem, trace: Linearisation) -> None:
        size = self.sizes = problem.sizes
        n, m = size.tangent, size.command
        columns = self.columns = -(-size.width // LANES) * LANES  # whole vectors
        self.varying_rows = tuple(sorted({i for i, _ in trace.curvature.varying}))
        self.nominal, self.goals = StepArray("nominal", size.step, LANES), StepArray("goals", size.goal)
        self.parameters = shared_spec("parameters", size.parameters)
        self.stage = np.arange((n + 1 + len(self.varying_rows)) * columns).reshape(-1, columns)
        self.slope = int(self.stage[n, 0])
        self.gains = m * (columns + 1)
        self.K, self.k = np.arange(m * columns).reshape(m, columns)[:, : size.width], m * columns + np.arange(m)
        blocks = {"V": n, "v": 1, "Q": n + m, "SM": m, "q": 1, "damped": m}
        ends = np.cumsum(list(blocks.values()))
        table = np.arange(ends[-1] * columns).reshape(-1, columns)
        self.blocks = dict(zip(blocks, np.split(table, ends[:-1]), strict=True))
        """Rows of the scratch by name, (rows, columns)."""
        zeros = (0.0,) * m
        self.box_template = Factors(zeros, tuple(zeros[:a] for a in range(m)), zeros, zeros), zeros
        count = len(flatten(self.box_template))
        self.box = index_spec("scratch", table.size + np.arange(count))  # factors and slope of the box step
        self.unsettled = index_spec("scratch", np.array(table.size + count))
        self.sums_before = index_spec("scratch", table.size + count + 1 + np.arange(SUM_COUNT))
        self.scratch = table.size + count + 1 + SUM_COUNT

    def hessian_row(self, row: int) -> Array:
        """Return the indices in a stage of a varying row of the Hessian."""
        return self.stage[self.sizes.tangent + 1 + self.varying_rows.index(row)]

    def lane_columns(self, name: str, rows: slice = slice(None)) -> ArraySpec:
        """Specify rows of a block of the scratch, one column per lane."""
        return index_spec("scratch", self.blocks[name][rows, 0], lane=1)

    def stage_spec(self, indices: Array | Sequence[int], lane: int = 0) -> ArraySpec:
        """Specify values of a stage."""
        return index_spec("stages", np.asarray(indices, dtype=int), self.stage.size, lane)

    def gain_spec(self, indices: Array, later: int = 0, lane: int = 0) -> ArraySpec:
        """Specify values of the gains, `later` stages ahead."""
        return index_spec("gains", indices + later * self.gains, self.gains, lane)


class CompiledSolver(NamedTuple):
    """The calls of an iteration, and the layout of their arrays."""

    rollout: CompiledLoops
    derivatives: CompiledLoops
    backward: CompiledLoops
    choose: CompiledLoops
    constants: CompiledLoops
    layout: ArrayLayout
    literal: tuple[tuple[int, float], ...]  # entries of a stage that are constant


@lru_cache(maxsize=16)
def solver_code(problem: Problem) -> CompiledSolver:
    """Compile the code of a problem; horizon, goals and parameters are arguments."""
    trace, size = linearise(problem), problem.sizes
    layout = ArrayLayout(problem, trace)
    arrays = RolloutArrays(
        rollouts=StepArray("tried", size.step, LANES, 1),
        nominal=layout.nominal,
        goals=layout.goals,
        start=StepArray("given", size.step),
        gains=(layout.gain_spec(layout.K), layout.gain_spec(layout.k)),
    )
    literal = tuple((int(layout.stage[place]), float(entry)) for place, entry in trace.jacobian.constant.items())
    return CompiledSolver(
        compile_loops(rollout_loops(problem, arrays)),
        _compile_derivatives(trace, layout),
        compile_backward(problem, trace, layout),
        compile_loops(choose_loops(shared_spec("cost", LANES), shared_spec("alpha", LANES), 1)),
        _compile_constants(trace, layout),
        layout,
        literal,
    )


def _compile_derivatives(trace: Linearisation, layout: ArrayLayout) -> CompiledLoops:
    """[A B], gradient and Hessian of eight steps of the horizon at a time"""
    size, entries = layout.sizes, {**trace.curvature.constant, **trace.curvature.varying}
    places = [place for place in entries if place[0] in layout.varying_rows]

    def tile_spec(indices: Array | Sequence[int]) -> ArraySpec:
        spec = layout.stage_spec(indices)
        return spec._replace(step_stride=LANES * spec.step_stride, lane_stride=spec.step_stride)

    step = Pass(
        trace.step_program(places),
        (
            layout.nominal.lane_values(size.state, later=1),
            layout.nominal.lane_values(size.command, size.state, later=1),
            layout.nominal.lane_values(size.command, size.state),
            layout.goals.lane_values(size.goal),
            layout.parameters,
        ),
        (
            tile_spec([layout.stage[place] for place in trace.jacobian.varying]),
            tile_spec(layout.slope + np.arange(size.width)),
            tile_spec([layout.hessian_row(i)[j] for i, j in places]),
        ),
        LANES,
    )
    return compile_loops((ArrayLoop((step,), tile=LANES),))


def _compile_constants(trace: Linearisation, layout: ArrayLayout) -> CompiledLoops:
    """The rows of the Hessian that depend on the parameters alone"""
    places = [place for place in trace.curvature.constant if place[0] not in layout.varying_rows]
    target = index_spec("curvature", np.array([i * layout.columns + j for i, j in places], dtype=int))
    return compile_loops(
        (ArrayLoop((Pass(trace.constants_program(places), (layout.parameters,), (target,), 1),), position="start"),)
    )


# The backward pass -------------------------------------------------------------------------------------------------------


def compile_backward(problem: Problem, trace: Linearisation, layout: ArrayLayout) -> CompiledLoops:
    """V and v at the end, then stage after stage from the last to the first: gains, and the sums over the horizon

    Q and q are computed for all columns at once, then the box step in one lane, the gains, and V and v in place. The first
    iteration of the box step nearly always settles it if no limit is active; the others run only if it does not.
    """
    n, size, v = layout.sizes.tangent, layout.sizes, layout.blocks["v"]
    end = Pass(
        trace.end_program(),
        (layout.nominal.step_values(size.state, later=1), layout.goals.step_values(size.goal), layout.parameters),
        (_value_array(layout), index_spec("scratch", v[0, :n]), shared_spec("sums", SUM_COUNT)),
        1,
    )
    following = FollowingStage(trace, layout)
    passes = (
        _expand_pass(trace, layout, following),
        *box_passes(problem, layout, following),
        _gain_pass(problem, layout),
        _value_pass(layout),
    )
    return compile_loops((ArrayLoop((end,), position="end"), ArrayLoop(passes, reverse=True)))


def _value_array(layout: ArrayLayout) -> ArraySpec:
    """V below its diagonal, in the scratch"""
    return index_spec(
        "scratch", np.array([layout.blocks["V"][place] for place in below_diagonal(layout.sizes.tangent)])
    )


def symmetric_matrix(entries: dict[MatrixIndex, Scalar], size: int) -> Array:
    """Build a symmetric matrix from its entries below the diagonal, so that rounding cannot make it asymmetric."""
    matrix = np.zeros((size, size), dtype=object)
    for (i, j), entry in entries.items():
        matrix[i, j] = matrix[j, i] = entry
    return matrix


class FollowingStage:
    """The arrays of the next stage that smoothing needs: K, k, input, and the weight; none if the weight is the literal 0."""

    def __init__(self, trace: Linearisation, layout: ArrayLayout) -> None:
        size, self._shape = layout.sizes, layout.K.shape
        self.is_smooth = trace.is_smooth
        self.arrays: tuple[ArraySpec, ...] = (
            layout.gain_spec(layout.K, later=1),
            layout.gain_spec(layout.k, later=1),
            layout.nominal.step_values(size.command, size.state, later=2),
            StepArray("later", 1).step_values(1),
        )
        if not self.is_smooth:
            self.arrays = ()

    def change(self, current: Scalars, arguments: Sequence[Scalars]) -> Smoothing | None:
        """Return the smoothing terms of the next stage for the input `current`; `arguments` are the values of the
        arrays."""
        if not self.is_smooth:
            return None
        K, k, u, (weight,) = arguments
        return smoothing_terms(weight, np.array(K, dtype=object).reshape(self._shape), k, current, u, TRACED)


def _expand_pass(trace: Linearisation, layout: ArrayLayout, following: FollowingStage) -> Pass:
    """Q = Mᵀ V M + H, with S M added to the rows of the inputs, and q = Mᵀ v + g: one column in each lane"""
    n, m, columns = layout.sizes.tangent, layout.sizes.command, layout.columns
    varying, constant = layout.varying_rows, [i for i in range(n + m) if i not in layout.varying_rows]

    def expand_column(*arguments: Tree) -> Tree:
        V, column_of_M, M, h_varying, h_constant, v, slope, *following_values = arguments
        rows = dict(zip((*varying, *constant), (*h_varying, *h_constant), strict=True))
        model = StageModel(
            symmetric_matrix(dict(zip(below_diagonal(n), V, strict=True)), n),
            traced_column(v),
            trace.jacobian.matrix(M),
            traced_column([rows[i] for i in range(n + m)]),
            traced_column(slope),
        )
        Q, q, by_inputs = expand_stage(
            model, traced_column(column_of_M), following.change((0.0,) * m, following_values), TRACED
        )
        return (*(tuple(x.ravel()) for x in (Q, q)), () if by_inputs is None else tuple(by_inputs.ravel()))

    inputs = (
        _value_array(layout),
        layout.stage_spec(layout.stage[:n, 0], lane=1),
        layout.stage_spec([layout.stage[place] for place in trace.jacobian.varying]),
        layout.stage_spec([layout.hessian_row(i)[0] for i in varying], lane=1),
        index_spec("curvature", np.array(constant, dtype=int) * columns, lane=1),
        index_spec("scratch", layout.blocks["v"][0, :n]),
        layout.stage_spec([layout.slope], lane=1),
        *following.arrays,
    )
    SM = layout.lane_columns("SM", slice(None) if following.is_smooth else slice(0))
    return trace_pass(expand_column, inputs, (layout.lane_columns("Q"), layout.lane_columns("q"), SM), columns)


def box_passes(problem: Problem, layout: ArrayLayout, following: FollowingStage) -> tuple[Pass, Pass]:
    """Step within the limits and the sums, in one lane: one iteration, and the others if it does not settle the step"""
    n, m = layout.sizes.tangent, layout.sizes.command
    inputs = range(m)

    def box(iterations: int, arguments: Sequence[Tree]) -> tuple[BoxStep, Tree]:
        corner, by_inputs, slope, damping, parameters, u, *following_values, sums = arguments
        # only the entries of Q_uu below its diagonal, and of S B above, are read
        Q = [[corner[max(a, b) * m + min(a, b)] for b in inputs] for a in inputs]
        transposed = [[by_inputs[min(a, b) * m + max(a, b)] for b in inputs] for a in inputs]
        stage_inputs = StageInputs(problem.limits(parameters), u, damping)
        step = input_step(Q, slope, transposed, following.change(u, following_values), stage_inputs, iterations)
        next_sums = (a + b for a, b in zip(sums, (step.linear, step.quadratic, step.gradient), strict=True))
        return step, ((step.factors, step.slope), step.step, tuple(next_sums))

    def quick(*arguments: Tree) -> Tree:
        step, results = box(1, arguments)
        return (*results, step.unsettled, arguments[-1])

    arrays: list[ArraySpec | tuple[ArraySpec, Tree]] = [
        index_spec("scratch", layout.blocks["Q"][n:, n : n + m]),
        index_spec("scratch", layout.blocks["SM"][:, n : n + m]),
        index_spec("scratch", layout.blocks["q"][0, n : n + m]),
        (shared_spec("damping"), 0.0),
        (layout.parameters, problem.parameters),
        layout.nominal.step_values(m, layout.sizes.state, later=1),
        *following.arrays,
    ]
    sums = shared_spec("sums", SUM_COUNT)
    results = (layout.box, layout.gain_spec(layout.k), sums)
    return (
        trace_pass(quick, (*arrays, sums), (*results, layout.unsettled, layout.sums_before)),
        trace_pass(
            lambda *arguments: box(BOX_ITERATIONS, arguments)[1],
            (*arrays, layout.sums_before),
            results,
            when=layout.unsettled,
        ),
    )


def _gain_pass(problem: Problem, layout: ArrayLayout) -> Pass:
    """K = −Q_uu⁻¹ (Q_ux, −s 1), a column of x or of the previous input in each lane; and Q_ux − D K"""
    m, columns = layout.sizes.command, layout.columns

    def gains(q_u: Tree, is_x: Tree, is_previous: Tree, box: Tree, parameters: Tree) -> Tree:
        weight = problem.smoothing(parameters)
        rows = [q_u[a] * is_x - weight * is_previous[a] for a in range(m)]
        return tuple(tuple(rows) for rows in gain_rows(box[0], rows))

    inputs = (
        layout.lane_columns("Q", slice(layout.sizes.tangent, None)),
        (index_spec("masks", np.array(0), lane=1), 0.0),
        index_spec("masks", columns + columns * np.arange(m), lane=1),
        (layout.box, layout.box_template),
        (layout.parameters, problem.parameters),
    )
    outputs = (layout.gain_spec(layout.K[:, 0], lane=1), layout.lane_columns("damped"))
    return trace_pass(gains, inputs, outputs, columns)


def _value_pass(layout: ArrayLayout) -> Pass:
    """V = Q_xx + (Q_ux − D K)ᵀ K,  v = q_x + Q_uxᵀ k + Kᵀ (q_u + Q_uu k): a column in each lane"""
    n, m = layout.sizes.tangent, layout.sizes.command

    def values(damped: Tree, k: Tree, box: Tree, gains: Tree, Q: Tree, q: Tree) -> Tree:
        rows = np.array(damped, dtype=object).reshape(m, n)
        V, v = stage_value(
            traced_column(Q), traced_column(q), rows, traced_column(gains), traced_column(k), traced_column(box[1])
        )
        return tuple(V.ravel()), tuple(v.ravel())

    inputs = (
        index_spec("scratch", layout.blocks["damped"][:, :n]),
        layout.gain_spec(layout.k),
        (layout.box, layout.box_template),
        layout.gain_spec(layout.K[:, 0], lane=1),
        layout.lane_columns("Q"),
        layout.lane_columns("q"),
    )
    return trace_pass(values, inputs, (layout.lane_columns("V"), layout.lane_columns("v")), layout.columns)


# The arrays of one problem -----------------------------------------------------------------------------------------------


class Solution(NamedTuple):
    """History of a solution; its trajectory stays in the solver until the next one.

    `gradient_norm` is √Σ|Q_u|² over the inputs that are not at a limit.
    """

    cost: float
    iterations: int
    converged: bool
    cost_history: tuple[float, ...]
    step_sizes: tuple[float, ...]
    gradient_norm: float
    seconds: tuple[float, float, float, float]  # the start, derivatives, backward passes, rollouts


class _Calls(NamedTuple):
    """Addresses of the tables of the three calls while one lane of one side is the nominal trajectory; and a complete
    iteration as one call, with new derivatives or with the present ones."""

    derivatives: int
    backward: int
    rollout: int
    iteration: CallChain
    without_derivatives: CallChain


class Solver:
    """iLQR for one problem: write `goals` (N + 1, ·) and `parameters`, then `solve` from a state.

    Afterwards `states` (N + 1, ·), `controls` (N, m) and `gains` (N, m, ·) are those of the solution.
    """

    def __init__(
        self, problem: Problem, horizon: int, parameters: Tree = None, step_sizes: Sequence[float] = LINE_SEARCH_STEPS
    ) -> None:
        code, size = solver_code(problem), problem.sizes
        layout, n, m = code.layout, size.state, size.command
        values = problem.parameters if parameters is None else parameters
        self.problem, self.horizon, self._code = problem, horizon, code
        rows = -(-horizon // LANES) * LANES + LANES  # derivatives are computed for whole tiles
        arrays = self._arrays = Arrays(
            goals=(rows + 1, size.goal),
            stages=(rows, layout.stage.size),
            gains=(horizon + 1, layout.gains),
            scratch=layout.scratch,
            later=horizon,
            alpha=LANES,
            cost=LANES,
            parameters=size.parameters,
            curvature=(size.width, layout.columns),
            masks=(1 + m, layout.columns),
            damping=1,
            sums=SUM_COUNT,
            given=n + m,
            least=1,
            tolerance=1,
            choice=len(RolloutChoice._fields),
        )
        self.goals, self.parameters = arrays["goals"][: horizon + 1], arrays["parameters"]
        arrays["goals"][:], self.parameters[:] = flatten(problem.goal), flatten(values)
        arrays["alpha"][:] = [*step_sizes, *(step_sizes[-1],) * (LANES - len(step_sizes))]
        arrays["later"][:-1] = problem.smoothing(values)
        arrays["masks"][0, : size.tangent] = 1.0
        arrays["masks"][1:, size.tangent : size.width] = np.eye(m)
        for index, literal in code.literal:
            arrays["stages"][:, index] = literal
        self._level_input = np.array(problem.command)
        self._tried = aligned_zeros(2, rows + 2, n + m, LANES)
        self._start, self._level = (aligned_zeros(rows + 2, n + m, LANES) for _ in range(2))
        self._nominal = [[side.reshape(-1)[lane:] for lane in range(LANES)] for side in self._tried]
        for trajectory in (*self._tried, self._start, self._level):
            trajectory[:, :n] = np.array(flatten(problem.state))[:, None]
        self._level[1:, n:] = self._level_input[:, None]
        self._start_gains, self._level_gains = (aligned_zeros(horizon + 1, layout.gains) for _ in range(2))
        blend = aligned_zeros(LANES)
        blend[1:] = 1.0
        self._start_inputs = self._start[1 : horizon + 1, n:, 0]
        self._start_steps = self._start_gains[:horizon, m * layout.columns :]
        warm = {"nominal": self._start, "gains": self._start_gains, "alpha": blend}
        cold = {"nominal": self._level, "gains": self._level_gains}
        self._warm, self._cold = (
            arrays.table(code.rollout, tried=self._tried[0], **replacements) for replacements in (warm, cold)
        )
        self._choose = arrays.table(code.choose)
        self._calls = [[self._build_calls(side, lane) for lane in range(LANES)] for side in (0, 1)]
        self._side, self._lane = 0, 0
        code.constants.call(arrays.table(code.constants), 1)
        if problem.start is not None:
            self._compute_level_gains(list(problem.start.columns))

    def _compute_level_gains(self, columns: list[int]) -> None:
        """Compute some columns of the feedback at the problem's template state and input by a backward pass at that point."""
        self._tried[0, :, self.problem.sizes.state :] = self._level_input[:, None]
        self._code.derivatives.call(self._calls[0][0].derivatives, self.horizon)
        self._code.backward.call(self._calls[0][0].backward, self.horizon)
        gains = self._gain_matrices(self._arrays["gains"])[0][:, columns]
        if np.isfinite(gains).all():
            self._gain_matrices(self._level_gains)[:, :, columns] = gains

    def _gain_matrices(self, gains: Array) -> Array:
        """K of every stage (N + 1, m, C)"""
        m, columns = self.problem.sizes.command, self._code.layout.columns
        return gains[:, : m * columns].reshape(-1, m, columns)

    def _build_calls(self, side: int, lane: int) -> _Calls:
        code, arrays, nominal, n = self._code, self._arrays, self._nominal[side][lane], self.horizon
        tables = (
            arrays.table(code.derivatives, nominal=nominal),
            arrays.table(code.backward, nominal=nominal),
            arrays.table(code.rollout, nominal=nominal, tried=self._tried[1 - side]),
        )
        phases = zip((code.derivatives, code.backward, code.rollout), tables, (n, n, n), strict=True)
        calls = [*phases, (code.choose, self._choose, 1)]
        return _Calls(*tables, CallChain(*calls), CallChain(*calls[1:]))

    def solve(
        self,
        x: Sequence[float],
        previous: Sequence[float] | None = None,
        controls: Array | None = None,
        iterations: int = 12,
        tolerance: float = 1e-4,
    ) -> Solution | None:
        """Solve from a state; return None if even a cold start has no finite cost.

        Args:
            x: components of the state.
            previous: previous input; None for `problem.command`.
            controls: inputs (N, m) of a warm start; None, or inputs without a finite cost, for a cold start.
            iterations: maximum iterations.
            tolerance: decrease of the cost at which the solution has converged.
        """
        start_time = perf_counter()
        previous_input = self.problem.command if previous is None else previous
        cost = math.inf if controls is None else self.begin(x, previous_input, controls)
        if not cost < math.inf:
            cost = self.begin_cold(x, previous_input)
        return self.run(cost, iterations, tolerance, start_time) if cost < math.inf else None

    def _write_start(self, x: Sequence[float], previous: Sequence[float]) -> None:
        start_values, n = self._arrays["given"], self.problem.sizes.state
        start_values[:n], start_values[n:] = x, previous

    def begin(self, x: Sequence[float], previous: Sequence[float], controls: Array) -> float:
        """Roll out these inputs, or `problem.command` if that costs less; return the cost, NaN if neither has one."""
        self._write_start(x, previous)
        self._start_inputs[:] = controls
        np.subtract(self._level_input, controls, out=self._start_steps)
        self._code.rollout.call(self._warm, self.horizon)
        return self.accept_start()

    def begin_chain(self, *calls: Call) -> CallChain:
        """Chain calls that write the arrays of `start_arrays` with the rollouts; `accept_start` follows."""
        return CallChain(*calls, (self._code.rollout, self._warm, self.horizon))

    def accept_start(self) -> float:
        """Take the rollout of the warm-start inputs, or of `problem.command` if that costs less; return its cost."""
        warm, level = self._arrays["cost"][:2].tolist()
        self._side, self._lane = 0, 0 if warm <= level else 1
        return warm if warm <= level else level

    def begin_cold(self, x: Sequence[float], previous: Sequence[float]) -> float:
        """Roll out `problem.command` with the problem's feedback (open loop, a rotating body would tumble); return the cost."""
        self._write_start(x, previous)
        if self.problem.start is not None:
            nominal = self.problem.start.nominal(x, lambda a, b: float((a * a + b * b) ** 0.5))
            self._level[:, : self.problem.sizes.state] = np.array(nominal)[:, None]
        self._code.rollout.call(self._cold, self.horizon)
        self._side, self._lane = 0, 0
        return float(self._arrays["cost"][0])

    def run(self, cost: float, iterations: int, tolerance: float, start_time: float = math.nan) -> Solution:
        """Iterate from the trajectory of `begin`: derivatives, backward pass, rollouts, and the choice of the best.

        If none is accepted the derivatives stay, and the next backward pass has more damping.
        """
        code, n, nominal = self._code, self.horizon, self._calls[self._side][self._lane]
        self._reset(cost, tolerance)
        costs, steps, accepted, converged, iteration_count = [cost], [], 1.0, 0.0, 0
        in_derivatives = in_backward = in_rollouts = 0.0
        clock = loop_start = perf_counter()
        while iteration_count < iterations:
            iteration_count += 1
            if accepted:
                code.derivatives.call(nominal.derivatives, n)
                in_derivatives -= clock - (clock := perf_counter())
            code.backward.call(nominal.backward, n)
            in_backward -= clock - (clock := perf_counter())
            code.rollout.call(nominal.rollout, n)
            code.choose.call(self._choose, 1)
            in_rollouts -= clock - (clock := perf_counter())
            accepted, _, alpha, cost, damping, converged = self._accept_best()
            if accepted:
                nominal = self._calls[self._side][self._lane]
                costs.append(cost)
                steps.append(alpha)
            if converged or damping > MAX_DAMPING:
                break
        seconds = loop_start - start_time, in_derivatives, in_backward, in_rollouts
        gradient = float(self._arrays["sums"][2]) ** 0.5
        return Solution(cost, iteration_count, converged > 0.0, tuple(costs), tuple(steps), gradient, seconds)

    def iterate(self, cost: float, iterations: int, tolerance: float) -> None:
        """Do the same as `run`, with one call per iteration and without a history."""
        self._reset(cost, tolerance)
        accepted = 1.0
        for _ in range(iterations):
            nominal = self._calls[self._side][self._lane]
            (nominal.iteration if accepted else nominal.without_derivatives)()
            accepted, _, _, _, damping, converged = self._accept_best()
            if converged or damping > MAX_DAMPING:
                break

    def _reset(self, cost: float, tolerance: float) -> None:
        arrays = self._arrays.arrays
        arrays["least"][0], arrays["damping"][0], arrays["tolerance"][0] = cost, 0.0, tolerance

    def _accept_best(self) -> list[float]:
        """Return the values of the `RolloutChoice`; the accepted rollout, if any, becomes the nominal trajectory."""
        choice: list[float] = self._arrays["choice"].tolist()
        if choice[0]:
            self._side, self._lane = 1 - self._side, int(choice[1])
        return choice

    def start_arrays(self, **extra_arrays: Array) -> Arrays:
        """Return the arrays for compiled code that writes a start: "given", "start" (a nominal trajectory with the warm-start
        inputs) and "start_gains", whose k lead from them to `problem.command`; and others."""
        return self._arrays.extend(start=self._start, start_gains=self._start_gains, **extra_arrays)

    @property
    def nominal_index(self) -> tuple[int, int]:
        """The side and lane of the rollout that is the nominal trajectory."""
        return self._side, self._lane

    @property
    def nominal(self) -> Array:
        """The nominal trajectory for compiled code, as `ArrayLayout.nominal` describes it."""
        return self._nominal[self._side][self._lane]

    @property
    def states(self) -> Array:
        """(N + 1, ·) of the nominal trajectory"""
        return self._tried[self._side, 1 : self.horizon + 2, : self.problem.sizes.state, self._lane]

    @property
    def controls(self) -> Array:
        """(N, m) of the nominal trajectory"""
        return self._tried[self._side, 1 : self.horizon + 1, self.problem.sizes.state :, self._lane]

    @property
    def start_gains(self) -> Array:
        """(m, · + m): the feedback of a cold start"""
        return self._gain_matrices(self._level_gains)[0, :, : self.problem.sizes.width]

    @property
    def gains(self) -> Array:
        """(N, m, ·): the feedback of the last backward pass"""
        return self._gain_matrices(self._arrays["gains"])[: self.horizon, :, : self.problem.sizes.tangent]
