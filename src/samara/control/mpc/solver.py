"""The solver of one problem, compiled: three calls per iteration, and no Python between the steps of the horizon.

Lanes run along the horizon if its steps are independent (derivatives), along the columns of a matrix if they are not
(backward pass), and along the step sizes of the line search (rollouts). Between the calls everything stays in these arrays:

    tried     2 × (N + 2, n + m, 8)    states and inputs of eight rollouts; row k + 1 is step k, row 0 the previous input
    goals     (N + 1, ·)               goals, and the multipliers of the constraints
    gaps      (N, n)                   of a trajectory whose states do not follow from each other yet
    stages    (N, ·)                   [A B] by rows of C columns, the cost's gradient, the rows of its Hessian that vary
    gains     (N + 1, m C + m)         K by rows (of x, then of the previous input), then k
    scratch                            V, v, Q, S M, q and Q_ux − D K of one stage, by rows of C columns, and its box step

The nominal trajectory is one lane of one `tried`; the next eight rollouts go into the other, and the best of them becomes the
nominal one by a change of address. A cold start is a trajectory with gaps, for which the calls are other ones (`shooting`); a
full step closes them. Constraints are an augmented Lagrangian: whenever the cost has settled, the multipliers are updated.
"""

import math
from collections.abc import Sequence
from functools import cached_property, lru_cache
from time import perf_counter
from typing import NamedTuple

import numpy as np

from samara.compiler.llvm.array_loop import ArrayLoop, ArraySpec, Call, CallChain, CompiledLoops, Pass, compile_loops
from samara.control.mpc.iteration import (
    BOX_ITERATIONS,
    MAX_CLOSED_GAP,
    MAX_DAMPING,
    TRACED,
    BoxStep,
    Factors,
    GapSums,
    RolloutChoice,
    Smoothing,
    StageInputs,
    StageModel,
    expand_stage,
    gain_rows,
    input_step,
    shift_value,
    smoothing_terms,
    stage_value,
    traced_column,
)
from samara.control.mpc.options import LINE_SEARCH_STEPS
from samara.control.mpc.problem import INITIAL_PENALTY, MAX_VIOLATION, Problem, Scalars, Tree
from samara.control.mpc.programs import (
    LANES,
    SUM_COUNT,
    Arrays,
    Linearisation,
    MatrixIndex,
    RolloutArrays,
    StepArray,
    TrajectoryArrays,
    aligned_zeros,
    below_diagonal,
    change_pass,
    choose_loops,
    evaluate_loops,
    gap_program,
    guess_loops,
    index_spec,
    linearise,
    multiplier_loops,
    rollout_loops,
    shared_spec,
    trace_pass,
)
from samara.core.quantity import Scalar
from samara.core.tree import flatten
from samara.core.types import Array

# the multipliers are first updated when the cost falls by less than this fraction of it, and later at a tenth of the last one
FIRST_TOLERANCE, TOLERANCE_DECREASE = 1e-2, 0.1


class ArrayLayout:
    """Indices into the arrays of one problem."""

    def __init__(self, problem: Problem, trace: Linearisation) -> None:
        size = self.sizes = problem.sizes
        n, m = size.tangent, size.command
        columns = self.columns = -(-size.width // LANES) * LANES  # whole vectors
        self.varying_rows = tuple(sorted({i for i, _ in trace.curvature.varying}))
        self.nominal, self.goals = StepArray("nominal", size.step, LANES), StepArray("goals", size.data)
        self.gaps = StepArray("gaps", n)
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


class Phases(NamedTuple):
    """The calls of an iteration; the first two belong to its trajectory, and are not repeated after a rejected step."""

    derivatives: CompiledLoops
    gaps: CompiledLoops | None
    backward: CompiledLoops
    rollout: CompiledLoops
    choose: CompiledLoops


class CompiledSolver:
    """The calls of a problem, compiled when they are needed, and the layout of their arrays."""

    def __init__(self, problem: Problem) -> None:
        self.problem, self.trace = problem, linearise(problem)
        layout = self.layout = ArrayLayout(problem, self.trace)
        self.literal = tuple(
            (int(layout.stage[place]), float(entry)) for place, entry in self.trace.jacobian.constant.items()
        )
        """Entries of a stage that are constant."""
        self._trajectory = TrajectoryArrays(layout.nominal, layout.goals, 1)

    @cached_property
    def plain(self) -> Phases:
        """The calls for a trajectory without gaps."""
        return self._phases(shooting=False)

    @cached_property
    def shooting(self) -> Phases:
        """The calls for a trajectory with gaps."""
        return self._phases(shooting=True)

    def _phases(self, shooting: bool) -> Phases:
        problem, layout, trace = self.problem, self.layout, self.trace
        arrays = RolloutArrays(
            rollouts=StepArray("tried", layout.sizes.step, LANES, 1),
            nominal=layout.nominal,
            goals=layout.goals,
            start=StepArray("given", layout.sizes.step),
            gains=(layout.gain_spec(layout.K), layout.gain_spec(layout.k)),
            gaps=layout.gaps if shooting else None,
        )
        return Phases(
            self._derivatives,
            _compile_gaps(problem, layout) if shooting else None,
            compile_backward(problem, trace, layout, shooting),
            compile_loops(rollout_loops(problem, arrays)),
            compile_loops(choose_loops(shared_spec("cost", LANES), shared_spec("alpha", LANES), 1, shooting)),
        )

    @cached_property
    def _derivatives(self) -> CompiledLoops:
        return _compile_derivatives(self.problem, self.trace, self.layout)

    @cached_property
    def constants(self) -> CompiledLoops:
        """The rows of the Hessian that depend on the parameters alone."""
        return _compile_constants(self.trace, self.layout)

    @cached_property
    def evaluate(self) -> CompiledLoops:
        """The cost of a trajectory with and without penalties, and the violations."""
        return compile_loops(evaluate_loops(self.problem, self._trajectory))

    @cached_property
    def update(self) -> CompiledLoops:
        """The update of the multipliers."""
        return compile_loops(multiplier_loops(self.problem, self._trajectory))

    @cached_property
    def guess(self) -> CompiledLoops:
        """The trajectory of a cold start."""
        return compile_loops(guess_loops(self.problem, self._trajectory, StepArray("given", self.layout.sizes.step)))


@lru_cache(maxsize=16)
def solver_code(problem: Problem) -> CompiledSolver:
    """Compile the code of a problem; horizon, goals and parameters are arguments."""
    return CompiledSolver(problem)


def _compile_derivatives(problem: Problem, trace: Linearisation, layout: ArrayLayout) -> CompiledLoops:
    """[A B], gradient and Hessian of eight steps of the horizon at a time"""
    size, entries = layout.sizes, {**trace.curvature.constant, **trace.curvature.varying}
    places = [place for place in entries if place[0] in layout.varying_rows]

    def tile_spec(indices: Array | Sequence[int]) -> ArraySpec:
        spec = layout.stage_spec(indices)
        return spec._replace(step_stride=LANES * spec.step_stride, lane_stride=spec.step_stride)

    x, u, previous, data = (
        layout.nominal.lane_values(size.state, later=1),
        layout.nominal.lane_values(size.command, size.state, later=1),
        layout.nominal.lane_values(size.command, size.state),
        layout.goals.lane_values(size.data),
    )
    step = Pass(
        trace.step_program(places),
        (x, u, previous, data, layout.parameters),
        (
            tile_spec([layout.stage[place] for place in trace.jacobian.varying]),
            tile_spec(layout.slope + np.arange(size.width)),
            tile_spec([layout.hessian_row(i)[j] for i, j in places]),
        ),
        LANES,
    )
    passes = [step]
    if problem.max_change is not None:
        change = StepArray("change", 2 * size.command).lane_values(2 * size.command)
        passes.append(change_pass(problem, (u, previous, data, layout.parameters), change, LANES))
    return compile_loops((ArrayLoop(tuple(passes), tile=LANES),))


def _compile_gaps(problem: Problem, layout: ArrayLayout) -> CompiledLoops:
    """The gaps of eight steps of the horizon at a time"""
    size, nominal = layout.sizes, layout.nominal
    inputs = (
        nominal.lane_values(size.state, later=1),
        nominal.lane_values(size.command, size.state, later=1),
        nominal.lane_values(size.state, later=2),
        layout.parameters,
    )
    gap_pass = Pass(gap_program(problem), inputs, (layout.gaps.lane_values(size.tangent),), LANES)
    return compile_loops((ArrayLoop((gap_pass,), tile=LANES),))


def _compile_constants(trace: Linearisation, layout: ArrayLayout) -> CompiledLoops:
    """The rows of the Hessian that depend on the parameters alone"""
    places = [place for place in trace.curvature.constant if place[0] not in layout.varying_rows]
    target = index_spec("curvature", np.array([i * layout.columns + j for i, j in places], dtype=int))
    return compile_loops(
        (ArrayLoop((Pass(trace.constants_program(places), (layout.parameters,), (target,), 1),), position="start"),)
    )


# The backward pass -------------------------------------------------------------------------------------------------------


def compile_backward(
    problem: Problem, trace: Linearisation, layout: ArrayLayout, shooting: bool = False
) -> CompiledLoops:
    """V and v at the end, then stage after stage from the last to the first: gains, and the sums over the horizon

    Q and q are computed for all columns at once, then the box step in one lane, the gains, and V and v in place. The first
    iteration of the box step nearly always settles it if no limit is active; the others run only if it does not.
    """
    n, size, v = layout.sizes.tangent, layout.sizes, layout.blocks["v"]
    end = Pass(
        trace.end_program(),
        (layout.nominal.step_values(size.state, later=1), layout.goals.step_values(size.data), layout.parameters),
        (_value_array(layout), index_spec("scratch", v[0, :n]), shared_spec("sums", SUM_COUNT)),
        1,
    )
    following = FollowingStage(problem, trace, layout, shooting)
    gap_sums = shared_spec("gap_sums", len(GapSums._fields))
    end_passes = (end, trace_pass(lambda: ((0.0,) * len(GapSums._fields),), (), (gap_sums,))) if shooting else (end,)
    passes = (
        *([_gap_pass(layout, gap_sums)] if shooting else []),
        _expand_pass(trace, layout, following),
        *box_passes(problem, layout, following),
        _gain_pass(problem, layout),
        _value_pass(layout),
    )
    return compile_loops((ArrayLoop(end_passes, position="end"), ArrayLoop(passes, reverse=True)))


def _gap_pass(layout: ArrayLayout, gap_sums: ArraySpec) -> Pass:
    """v ← v + V d, and the sums of the gaps"""
    n, v = layout.sizes.tangent, index_spec("scratch", layout.blocks["v"][0, : layout.sizes.tangent])

    def shift(V: Tree, v: Tree, gap: Tree, sums: Tree) -> Tree:
        matrix = symmetric_matrix(dict(zip(below_diagonal(n), V, strict=True)), n)
        shifted, terms = shift_value(matrix, traced_column(v), traced_column(gap))
        return tuple(shifted.ravel()), tuple(a + b for a, b in zip(sums, terms, strict=True))

    inputs = (_value_array(layout), v, layout.gaps.step_values(n), gap_sums)
    return trace_pass(shift, inputs, (v, gap_sums))


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
    """The arrays of the next stage that its dependence on this input needs: K, k, its input and the weight of the change, or
    both derivatives of the cost by the change, and the gap before it; none if changes cost nothing."""

    def __init__(self, problem: Problem, trace: Linearisation, layout: ArrayLayout, shooting: bool = False) -> None:
        size, self._shape = layout.sizes, layout.K.shape
        self.is_smooth, self._is_limited = trace.is_smooth, problem.max_change is not None
        self.arrays: tuple[ArraySpec, ...] = (
            layout.gain_spec(layout.K, later=1),
            layout.gain_spec(layout.k, later=1),
            StepArray("change", 2 * size.command).step_values(2 * size.command, later=1)
            if self._is_limited
            else layout.nominal.step_values(size.command, size.state, later=2),
            StepArray("later", 1).step_values(1),
            *([layout.gaps.step_values(size.tangent)] if shooting else []),
        )
        if not self.is_smooth:
            self.arrays = ()

    def change(self, current: Scalars, arguments: Sequence[Scalars]) -> Smoothing | None:
        """Return the smoothing terms of the next stage for the input `current`; `arguments` are the values of the
        arrays."""
        if not self.is_smooth:
            return None
        K, k, following, (weight,), *gap = arguments
        if self._is_limited:
            m = len(k)
            weights, slopes = ([x * weight for x in half] for half in (following[:m], following[m:]))
        else:
            weights = [weight] * len(k)
            slopes = [weight * (u - before) for u, before in zip(following, current, strict=True)]
        gains = np.array(K, dtype=object).reshape(self._shape)
        return smoothing_terms(weights, slopes, gains, k, TRACED, gap[0] if gap else None)


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

    def gains(q_u: Tree, is_x: Tree, is_previous: Tree, box: Tree, parameters: Tree, *change: Tree) -> Tree:
        weights = change[0] if change else [problem.smoothing(parameters)] * m
        rows = [q_u[a] * is_x - weights[a] * is_previous[a] for a in range(m)]
        return tuple(tuple(rows) for rows in gain_rows(box[0], rows))

    inputs: tuple[ArraySpec | tuple[ArraySpec, Tree], ...] = (
        layout.lane_columns("Q", slice(layout.sizes.tangent, None)),
        (index_spec("masks", np.array(0), lane=1), 0.0),
        index_spec("masks", columns + columns * np.arange(m), lane=1),
        (layout.box, layout.box_template),
        (layout.parameters, problem.parameters),
        *([] if problem.max_change is None else [StepArray("change", 2 * m).step_values(m)]),
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

    `cost` is without penalties; `cost_history` has them. A step size of 0 is the rollout of the inputs, without the gaps.
    `gradient_norm` is √Σ|Q_u|² over the inputs that are not at a limit, the residual of the KKT conditions; `gap` is the
    largest |d|, and `violations` are the largest g of each constraint.
    """

    cost: float
    iterations: int
    converged: bool
    feasible: bool
    cost_history: tuple[float, ...]
    step_sizes: tuple[float, ...]
    gradient_norm: float
    gap: float
    violations: tuple[float, ...]
    seconds: tuple[float, float, float, float]  # the start, derivatives, backward passes, rollouts


class _Calls(NamedTuple):
    """The calls of an iteration, or the addresses of their tables, while one lane of one side is the nominal trajectory; and
    a complete iteration as one call, with new derivatives or with the present ones."""

    derivatives: CallChain
    backward: int
    rollout: int
    choose: int
    iteration: CallChain
    without_derivatives: CallChain


class Solver:
    """Solver of one problem: write `goals` (N + 1, ·) and `parameters`, then `solve` from a state.

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
            goals=(rows + 1, size.data),
            stages=(rows, layout.stage.size),
            gains=(horizon + 1, layout.gains),
            gaps=(rows, size.tangent),
            change=(rows + 1, 2 * m),
            scratch=layout.scratch,
            later=horizon,
            alpha=LANES,
            cost=LANES,
            parameters=size.parameters,
            curvature=(size.width, layout.columns),
            masks=(1 + m, layout.columns),
            damping=1,
            gap_weight=1,
            sums=SUM_COUNT,
            gap_sums=len(GapSums._fields),
            given=n + m,
            least=1,
            task=1,
            unsettled=1,
            violation=max(size.constraints, 1),
            growth=1,
            worst=1,
            tolerance=1,
            choice=len(RolloutChoice._fields),
        )
        self.goals, self.parameters = arrays["goals"][: horizon + 1], arrays["parameters"]
        arrays["goals"][:], self.parameters[:] = flatten(problem.data), flatten(values)
        self.multipliers = self.goals[:, problem.goal_size + 1 :]
        """(N + 1, 1 + constraints): the weight of the penalties, and the shift of each constraint."""
        arrays["alpha"][:] = [*step_sizes, *(step_sizes[-1],) * (LANES - len(step_sizes))]
        arrays["later"][:-1] = 1.0 if problem.max_change is not None else problem.smoothing(values)
        arrays["masks"][0, : size.tangent] = 1.0
        arrays["masks"][1:, size.tangent : size.width] = np.eye(m)
        for index, literal in code.literal:
            arrays["stages"][:, index] = literal
        self._level_input = np.array(problem.command)
        self._tried = aligned_zeros(2, rows + 2, n + m, LANES)
        self._start = aligned_zeros(rows + 2, n + m, LANES)
        self._nominal = [[side.reshape(-1)[lane:] for lane in range(LANES)] for side in self._tried]
        for trajectory in (*self._tried, self._start):
            trajectory[:, :n] = np.array(flatten(problem.state))[:, None]
        self._start_gains, blend = aligned_zeros(horizon + 1, layout.gains), aligned_zeros(LANES)
        blend[1:] = 1.0
        self._start_inputs = self._start[1 : horizon + 1, n:, 0]
        self._start_steps = self._start_gains[:horizon, m * layout.columns :]
        self._warm = arrays.table(
            code.plain.rollout, tried=self._tried[0], nominal=self._start, gains=self._start_gains, alpha=blend
        )
        self._tables: dict[tuple[bool, int, int], _Calls] = {}
        self._reports: dict[tuple[str, int, int], int] = {}
        self._side, self._lane, self._has_gaps = 0, 0, False
        code.constants.call(arrays.table(code.constants), 1)

    def set_step(self, dt: float) -> None:
        """Write the time since the start of the horizon for constraints that depend on it  [s]"""
        if self.multipliers.shape[1]:
            self._arrays["goals"][:, self.problem.goal_size] = np.arange(len(self._arrays["goals"])) * dt

    def _gain_matrices(self, gains: Array) -> Array:
        """K of every stage (N + 1, m, C)"""
        m, columns = self.problem.sizes.command, self._code.layout.columns
        return gains[:, : m * columns].reshape(-1, m, columns)

    def _calls(self) -> _Calls:
        """Return the calls for the present nominal trajectory."""
        key = (self._has_gaps, self._side, self._lane)
        if key not in self._tables:
            self._tables[key] = self._build_calls(*key)
        return self._tables[key]

    def _build_calls(self, shooting: bool, side: int, lane: int) -> _Calls:
        phases = self._code.shooting if shooting else self._code.plain
        arrays, nominal, n = self._arrays, self._nominal[side][lane], self.horizon
        backward, rollout, choose = (
            arrays.table(phases.backward, nominal=nominal),
            arrays.table(phases.rollout, nominal=nominal, tried=self._tried[1 - side]),
            arrays.table(phases.choose),
        )
        derivatives = [(phases.derivatives, arrays.table(phases.derivatives, nominal=nominal), n)]
        if phases.gaps is not None:
            derivatives.append((phases.gaps, arrays.table(phases.gaps, nominal=nominal), n))
        calls = [(phases.backward, backward, n), (phases.rollout, rollout, n), (phases.choose, choose, 1)]
        return _Calls(
            CallChain(*derivatives), backward, rollout, choose, CallChain(*derivatives, *calls), CallChain(*calls)
        )

    def _call_report(self, name: str) -> None:
        """Call "evaluate" or "update" on the nominal trajectory."""
        loops = self._code.evaluate if name == "evaluate" else self._code.update
        key = (name, self._side, self._lane)
        if key not in self._reports:
            self._reports[key] = self._arrays.table(loops, nominal=self._nominal[self._side][self._lane])
        loops.call(self._reports[key], self.horizon)

    def solve(
        self,
        x: Sequence[float],
        previous: Sequence[float] | None = None,
        controls: Array | None = None,
        iterations: int = 12,
        tolerance: float = 1e-4,
    ) -> Solution | None:
        """Solve from a state; return None if even a cold start leads to no finite cost.

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
        if not cost < math.inf:
            return None
        solution = self.run(cost, iterations, tolerance, start_time)
        return solution if solution.cost < math.inf else None

    def _write_start(self, x: Sequence[float], previous: Sequence[float]) -> None:
        self._arrays["given"][:] = (*x, *previous)

    def begin(self, x: Sequence[float], previous: Sequence[float], controls: Array) -> float:
        """Roll out these inputs, or `problem.command` if that costs less; return the cost, NaN if neither has one."""
        self._write_start(x, previous)
        self._start_inputs[:] = controls
        np.subtract(self._level_input, controls, out=self._start_steps)
        self._code.plain.rollout.call(self._warm, self.horizon)
        return self.accept_start()

    def begin_chain(self, *calls: Call) -> CallChain:
        """Chain calls that write the arrays of `start_arrays` with the rollouts; `accept_start` follows."""
        return CallChain(*calls, (self._code.plain.rollout, self._warm, self.horizon))

    def accept_start(self) -> float:
        """Take the rollout of the warm-start inputs, or of `problem.command` if that costs less; return its cost."""
        warm, level = self._arrays["cost"][:2].tolist()
        self._side, self._lane, self._has_gaps = 0, 0 if warm <= level else 1, False
        return warm if warm <= level else level

    def begin_cold(self, x: Sequence[float], previous: Sequence[float]) -> float:
        """Start from the problem's guess, with gaps, or without one from the rollout of `command`; return the cost."""
        if self.problem.guess is None:
            self.reset_multipliers()
            return self.begin(x, previous, np.tile(self._level_input, (self.horizon, 1)))
        self._write_start(x, previous)
        return self.restart()

    @cached_property
    def initial_multipliers(self) -> Array:
        """Multipliers (N + 1, ·) of 0."""
        initial = np.zeros_like(self.multipliers)
        initial[:, :1] = INITIAL_PENALTY
        return initial

    def reset_multipliers(self) -> None:
        """Write the initial multipliers."""
        self.multipliers[:] = self.initial_multipliers

    def raise_penalty(self, growth: float) -> None:
        """Multiply the weight of the penalties, with the same multipliers."""
        self.multipliers[:, :1] *= growth
        self.multipliers[:, 1:] /= growth

    def restart(self) -> float:
        """Start from the problem's guess, for the state and previous input in "given"; return the cost."""
        self.reset_multipliers()
        self._side, self._lane, self._has_gaps = 0, 0, True
        guess = self._code.guess
        guess.call(self._guess_table, self.horizon)
        self._call_report("evaluate")
        return float(self._arrays["least"][0])

    @cached_property
    def _guess_table(self) -> int:
        return self._arrays.table(self._code.guess, nominal=self._nominal[0][0])

    def run(self, cost: float, iterations: int, tolerance: float, start_time: float = math.nan) -> Solution:
        """Iterate from the trajectory of `begin`: derivatives, backward pass, rollouts, and the choice of the best.

        If none is accepted the derivatives stay, and the next backward pass has more damping. Once the cost has settled, the
        multipliers of the constraints are updated.
        """
        n, is_constrained = self.horizon, self.problem.sizes.constraints > 0
        settling = max(tolerance, FIRST_TOLERANCE * cost) if is_constrained else tolerance
        self._reset(cost, settling)
        phases, calls = self._phases, self._calls()
        costs, steps, accepted, is_converged, iteration_count = [cost], [], 1.0, False, 0
        self._arrays["worst"][0] = math.inf
        in_derivatives = in_backward = in_rollouts = 0.0
        clock = loop_start = perf_counter()
        while iteration_count < iterations:
            iteration_count += 1
            if accepted:
                calls.derivatives()
                in_derivatives -= clock - (clock := perf_counter())
            phases.backward.call(calls.backward, n)
            in_backward -= clock - (clock := perf_counter())
            phases.rollout.call(calls.rollout, n)
            phases.choose.call(calls.choose, 1)
            in_rollouts -= clock - (clock := perf_counter())
            accepted, _, alpha, cost, damping, _, has_settled = self._accept_best()
            if accepted:
                phases, calls = self._phases, self._calls()
                costs.append(cost)
                steps.append(alpha)
            if not (has_settled or damping > MAX_DAMPING):
                continue
            is_converged = has_settled > 0.0
            if self._has_gaps:  # no step size closes them: go on from the rollout of the inputs
                start_values, size = self._arrays["given"].tolist(), self.problem.sizes.state
                cost, accepted = self.begin(start_values[:size], start_values[size:], self.controls.copy()), 1.0
                costs.append(cost)
                steps.append(0.0)
                if not cost < math.inf:
                    break
                self._reset(cost, settling)
                phases, calls = self._phases, self._calls()
                continue
            if not is_constrained:
                break
            self._call_report("evaluate")
            if settling <= tolerance and float(self._arrays["unsettled"][0]) <= MAX_VIOLATION:
                break
            is_converged, settling = False, max(tolerance, TOLERANCE_DECREASE * settling)
            self._call_report("update")
            self._call_report("evaluate")
            cost, accepted = float(self._arrays["least"][0]), 1.0
            self._reset(cost, settling)
        seconds = loop_start - start_time, in_derivatives, in_backward, in_rollouts
        return self._solution(costs, steps, iteration_count, is_converged, seconds)

    def _solution(
        self,
        costs: list[float],
        steps: list[float],
        iterations: int,
        converged: bool,
        seconds: tuple[float, float, float, float],
    ) -> Solution:
        arrays, gap = self._arrays.arrays, 0.0
        cost, violations = costs[-1], ()
        if self._has_gaps:
            cost = cost if float(arrays["least"][0]) < math.inf else math.inf
            gap = float(np.abs(arrays["gaps"][: self.horizon]).max()) * (1.0 - float(arrays["choice"][2]))
        if self.problem.sizes.constraints:
            self._call_report("evaluate")
            cost, violations = float(arrays["task"][0]), tuple(arrays["violation"].tolist())
            if not converged:  # a warm start from here makes use of the violations
                arrays["worst"][0] = math.inf
                self._call_report("update")
        feasible = gap <= MAX_CLOSED_GAP["float64"] and max(violations, default=0.0) <= MAX_VIOLATION
        gradient = float(arrays["sums"][2]) ** 0.5
        return Solution(
            cost,
            iterations,
            converged and feasible,
            feasible,
            tuple(costs),
            tuple(steps),
            gradient,
            gap,
            violations,
            seconds,
        )

    def iterate(self, cost: float, iterations: int, tolerance: float) -> float:
        """Do the same as `run`, with one call per iteration, without a history, and with one update of the multipliers; return
        the cost."""
        self._reset(cost, tolerance)
        accepted = 1.0
        for _ in range(iterations):
            calls = self._calls()
            (calls.iteration if accepted else calls.without_derivatives)()
            accepted, _, _, cost, damping, _, converged = self._accept_best()
            if converged or damping > MAX_DAMPING:
                break
        if self.problem.sizes.constraints:
            self._arrays["worst"][0] = math.inf
            self._call_report("update")
        return cost

    @property
    def _phases(self) -> Phases:
        return self._code.shooting if self._has_gaps else self._code.plain

    def _reset(self, cost: float, tolerance: float) -> None:
        arrays = self._arrays.arrays
        arrays["least"][0], arrays["damping"][0], arrays["gap_weight"][0], arrays["tolerance"][0] = (
            cost,
            0.0,
            0.0,
            tolerance,
        )

    def _accept_best(self) -> list[float]:
        """Return the values of the `RolloutChoice`; the accepted rollout, if any, becomes the nominal trajectory."""
        choice: list[float] = self._arrays["choice"].tolist()
        if choice[0]:
            self._side, self._lane = 1 - self._side, int(choice[1])
            self._has_gaps = self._has_gaps and choice[2] < 1.0
        return choice

    def start_arrays(self, **extra_arrays: Array) -> Arrays:
        """Return the arrays for compiled code that writes a start: "given", "start" (a nominal trajectory with the warm-start
        inputs) and "start_gains", whose k lead from them to `problem.command`; and others."""
        return self._arrays.extend(start=self._start, start_gains=self._start_gains, **extra_arrays)

    @property
    def is_plan_rejected(self) -> bool:
        """Whether the rollout of `command` cost less than that of the warm start."""
        return self._lane == 1

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
    def gains(self) -> Array:
        """(N, m, ·): the feedback of the last backward pass"""
        return self._gain_matrices(self._arrays["gains"])[: self.horizon, :, : self.problem.sizes.tangent]
