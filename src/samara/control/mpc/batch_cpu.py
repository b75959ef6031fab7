"""The solver for many problems on the CPU: one problem in each lane of the vector registers, tile after tile.

The programs are those of a single problem, and the stage of the backward pass is traced with all its columns, without the zeros
of [A B]. Arrays are (step, component, lane); those of a tile stay in the cache from its first iteration to its last.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from samara.compiler.llvm.array_loop import ArrayLoop, ArraySpec, CallChain, CompiledLoops, Pass, compile_loops
from samara.compiler.llvm.codegen import vector_width
from samara.control.mpc.iteration import (
    TRACED,
    GapSums,
    RolloutChoice,
    StageInputs,
    StageModel,
    shift_value,
    smoothing_terms,
    solve_stage,
    traced_column,
)
from samara.control.mpc.problem import INITIAL_PENALTY, MAX_VIOLATION, Problem, Tree, multiplier_interval
from samara.control.mpc.programs import (
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
    linearise,
    multiplier_loops,
    rollout_loops,
    shared_spec,
    trace_pass,
)
from samara.control.mpc.solver import symmetric_matrix
from samara.core.tree import flatten
from samara.core.types import Array


class BatchLoops(NamedTuple):
    """The loops of a tile by name, and the sizes of a stage, of its gains and of the constant part of the Hessian."""

    loops: dict[str, tuple[ArrayLoop, ...]]
    stage: int
    gains: int
    curvature: int


class BatchCode(NamedTuple):
    """The calls of a tile, its width, and the sizes of a stage, of its gains and of the constant part of the Hessian."""

    rollout: CompiledLoops
    derivatives: CompiledLoops
    backward: CompiledLoops
    choose: CompiledLoops
    constants: CompiledLoops
    evaluate: CompiledLoops
    update: CompiledLoops | None
    guess: CompiledLoops | None
    gaps: CompiledLoops | None
    width: int
    stage: int
    gains: int
    curvature: int


@lru_cache(maxsize=8)
def batch_code(problem: Problem, dtype: str, sizes: int, shooting: bool, width: int | None = None) -> BatchCode:
    """Compile the code for tiles of a problem, with `sizes` step sizes; with `shooting` the states may have gaps.

    `width` counts the problems in a tile; None for that of the vector registers.
    """
    width = width or vector_width(dtype)
    traced = batch_loops(problem, sizes, shooting, width, dtype)
    compiled = {name: compile_loops(loop, dtype) for name, loop in traced.loops.items()}
    update, guess, gaps = (compiled.pop(name, None) for name in ("update", "guess", "gaps"))
    return BatchCode(
        **compiled,
        update=update,
        guess=guess,
        gaps=gaps,
        width=width,
        stage=traced.stage,
        gains=traced.gains,
        curvature=traced.curvature,
    )


def batch_loops(problem: Problem, sizes: int, shooting: bool, width: int, dtype: str) -> BatchLoops:
    """Trace the loops of tiles of a problem, `width` problems in each; the arguments are those of `batch_code`."""
    size, trace = problem.sizes, linearise(problem)
    constant, varying = ([(i, j) for i, j in entries if j <= i] for entries in trace.curvature[1:])
    stages = StepArray("stages", len(trace.jacobian.varying) + size.width + len(varying), width, 1)
    K = size.command * size.width
    gains, gaps = StepArray("gains", K + size.command, width, 1), StepArray("gaps", size.tangent, width, 1)
    tried, nominal, start = (StepArray(name, size.step, width, 1) for name in ("tried", "nominal", "given"))
    arrays = RolloutArrays(
        tried,
        nominal,
        StepArray("goals", size.data, width, 1),
        start,
        (gains.step_values(K), gains.step_values(size.command, K)),
        gaps if shooting else None,
    )
    parameters, curvature = shared_spec("parameters", size.parameters), shared_spec("curvature", len(constant))
    x, u, previous, data = (
        nominal.step_values(size.state, later=1),
        nominal.step_values(size.command, size.state, later=1),
        nominal.step_values(size.command, size.state),
        arrays.goals.step_values(size.data),
    )
    output_sizes = len(trace.jacobian.varying), size.width, len(varying)
    offsets = (0, output_sizes[0], output_sizes[0] + output_sizes[1])
    targets = tuple(stages.step_values(count, first) for count, first in zip(output_sizes, offsets, strict=True))
    derivatives = [Pass(trace.step_program(varying), (x, u, previous, data, parameters), targets, width)]
    if problem.max_change is not None:
        change = StepArray("change", 2 * size.command, width, 1).step_values(2 * size.command)
        derivatives.append(change_pass(problem, (u, previous, data, parameters), change, width))
    constants = Pass(trace.constants_program(constant), (parameters,), (curvature,), 1)
    costs = StepArray("costs", sizes, width, 1).fixed_values(sizes)
    trajectory = TrajectoryArrays(nominal, arrays.goals, width)
    loops = {
        "rollout": rollout_loops(problem, arrays),
        "derivatives": (ArrayLoop(tuple(derivatives)),),
        "backward": _backward(problem, trace, (varying, constant), arrays, stages),
        "choose": choose_loops(costs, shared_spec("sizes", sizes), width, shooting, dtype),
        "constants": (ArrayLoop((constants,), position="start"),),
        "evaluate": evaluate_loops(problem, trajectory),
    }
    if size.constraints:
        loops["update"] = multiplier_loops(problem, trajectory)
    if shooting:
        gap_inputs = (x, u, nominal.step_values(size.state, later=2), parameters)
        gap_pass = Pass(gap_program(problem), gap_inputs, (gaps.step_values(size.tangent),), width)
        loops["gaps"] = (ArrayLoop((gap_pass,)),)
    if problem.guess is not None:
        loops["guess"] = guess_loops(problem, trajectory, start)
    return BatchLoops(loops, stages.row, gains.row, len(constant))


def _backward(
    problem: Problem,
    trace: Linearisation,
    hessian: tuple[list[MatrixIndex], list[MatrixIndex]],
    arrays: RolloutArrays,
    stages: StepArray,
) -> tuple[ArrayLoop, ...]:
    """V and v at the end, then stage after stage from the last to the first"""
    size, places, width = problem.sizes, below_diagonal(problem.sizes.tangent), stages.width
    n, m, nominal = size.tangent, size.command, arrays.nominal
    is_limited = problem.max_change is not None

    def step(*arguments: Tree) -> Tree:
        V, v, stage_values, constant, parameters, damping, sums, u, K, k, following, later, *optional = arguments
        change_here, gap = (optional[0] if is_limited else None), (optional[-1] if arrays.gaps is not None else None)
        values = iter(stage_values)
        M = trace.jacobian.matrix([next(values) for _ in trace.jacobian.varying])
        slope = [next(values) for _ in range(n + m)]
        H = symmetric_matrix(dict(zip((*hessian[1], *hessian[0]), (*constant, *values), strict=True)), n + m)
        value, slope_of_value = symmetric_matrix(dict(zip(places, V, strict=True)), n), traced_column(v)
        if gap is not None:
            slope_of_value, gap_terms = shift_value(value, slope_of_value, traced_column(gap))
        model = StageModel(value, slope_of_value, M, H, traced_column(slope))
        change, weights = None, [problem.smoothing(parameters)] * m
        if trace.is_smooth:
            if change_here is not None:
                weights = change_here[:m]
                next_weights, next_slopes = ([x * later for x in half] for half in (following[:m], following[m:]))
            else:
                next_weights = [later] * m
                next_slopes = [later * (a - b) for a, b in zip(following, u, strict=True)]
            next_gains = np.array(K, dtype=object).reshape(m, n + m)
            change = smoothing_terms(next_weights, next_slopes, next_gains, k, TRACED, gap)
        by_previous = np.zeros((m, m), dtype=object)
        for a, weight in enumerate(weights):
            by_previous[a, a] = -weight
        result = solve_stage(model, StageInputs(problem.limits(parameters), u, damping), change, by_previous, TRACED)
        box = result.box
        next_sums = (a + b for a, b in zip(sums, (box.linear, box.quadratic, box.gradient), strict=True))
        return (
            tuple(result.V[place] for place in places),
            tuple(result.v.ravel()),
            (*result.gains.ravel(), *box.step),
            tuple(next_sums),
            *([] if gap is None else [tuple(a + b for a, b in zip(optional[-2], gap_terms, strict=True))]),
        )

    def once(name: str, count: int = 1) -> ArraySpec:
        return StepArray(name, count, width, 1).fixed_values(count)

    K, gains = m * (n + m), StepArray("gains", m * (n + m + 1), width, 1)
    changes, gap_sums = StepArray("change", 2 * m, width, 1), once("gap_sums", len(GapSums._fields))
    value, sums, parameters = (
        (once("V", len(places)), once("v", n)),
        once("sums", SUM_COUNT),
        shared_spec("parameters", size.parameters),
    )
    inputs: tuple[ArraySpec | tuple[ArraySpec, Tree], ...] = (
        *value,
        stages.step_values(stages.row),
        shared_spec("curvature", len(hessian[1])),
        (parameters, problem.parameters),
        (once("damping"), 0.0),
        sums,
        nominal.step_values(m, size.state, later=1),
        gains.step_values(K, later=1),
        gains.step_values(m, K, later=1),
        changes.step_values(2 * m, later=1) if is_limited else nominal.step_values(m, size.state, later=2),
        (StepArray("later", 1).step_values(1), 0.0),
        *([changes.step_values(2 * m)] if is_limited else []),
        *([] if arrays.gaps is None else [gap_sums, arrays.gaps.step_values(n)]),
    )
    outputs = (*value, gains.step_values(K + m), sums, *([] if arrays.gaps is None else [gap_sums]))
    end_inputs = (nominal.step_values(size.state, later=1), arrays.goals.step_values(size.data), parameters)
    end = [Pass(trace.end_program(), end_inputs, (*value, sums), width)]
    if arrays.gaps is not None:
        end.append(trace_pass(lambda: ((0.0,) * len(GapSums._fields),), (), (gap_sums,), width))
    return (
        ArrayLoop(tuple(end), position="end"),
        ArrayLoop((trace_pass(step, inputs, outputs, width),), reverse=True),
    )


class ProblemTile:
    """The arrays of one tile of problems and the iterations on it: `load` them, write their `goals`, then `run`."""

    def __init__(
        self, problem: Problem, horizon: int, parameters: Tree, step_sizes: Sequence[float], dtype: str
    ) -> None:
        size, count = problem.sizes, len(step_sizes)
        code = self._code = batch_code(problem, dtype, count, False)
        self.problem, self.horizon, self.width, self._dtype = problem, horizon, code.width, dtype
        width = code.width
        arrays = self._arrays = Arrays(
            dtype,
            given=(size.step, width),
            goals=(horizon + 1, size.data, width),
            parameters=size.parameters,
            curvature=code.curvature,
            stages=(horizon, code.stage, width),
            gains=(horizon + 1, code.gains, width),
            gaps=(horizon, size.tangent, width),
            change=(horizon + 1, 2 * size.command, width),
            later=horizon,
            V=(len(below_diagonal(size.tangent)), width),
            v=(size.tangent, width),
            sums=(SUM_COUNT, width),
            gap_sums=(len(GapSums._fields), width),
            damping=(1, width),
            gap_weight=(1, width),
            least=(1, width),
            task=(1, width),
            unsettled=(1, width),
            violation=(max(size.constraints, 1), width),
            growth=(1, width),
            worst=(1, width),
            tolerance=1,
            sizes=count,
            costs=(count, width),
            cost=(1, width),
            alpha=(1, width),
            choice=(len(RolloutChoice._fields), width),
        )
        self.goals, arrays["parameters"][:], arrays["sizes"][:] = arrays["goals"], flatten(parameters), step_sizes
        self.goals[:] = np.array(flatten(problem.data))[:, None]
        arrays["later"][:-1] = 1.0 if problem.max_change is not None else problem.smoothing(parameters)
        code.constants.call(arrays.table(code.constants), 1)
        self._tried = aligned_zeros(2, horizon + 2, size.step, width, dtype=dtype)
        self._start = aligned_zeros(horizon + 2, size.step, width, dtype=dtype)
        self._tried[:, :, : size.state] = self._start[:, : size.state] = np.array(flatten(problem.state))[:, None]
        self._inputs = self._start[1 : horizon + 1, size.state :]  # (N, m, width)
        self._alphas = aligned_zeros(count, width, dtype=dtype)
        self._alphas[:] = np.array(step_sizes)[:, None]
        no_gains = aligned_zeros(horizon + 1, code.gains, width, dtype=dtype)
        self._warm = arrays.table(code.rollout, tried=self._tried[0], nominal=self._start, gains=no_gains)
        self._iterations: dict[tuple[int, int], CallChain] = {}
        self._reports: dict[tuple[str, int], int] = {}
        self._side = 0

    def set_step(self, dt: float) -> None:
        """Write the time since the start of the horizon for constraints that depend on it  [s]"""
        if self.problem.sizes.data > self.problem.goal_size:
            self.goals[:, self.problem.goal_size] = (np.arange(self.horizon + 1) * dt)[:, None]

    def _build_iteration(self, code: BatchCode) -> CallChain:
        """Chain derivatives, gaps, backward pass, a rollout for each step size, the choice, and the rollout of the chosen."""
        arrays, nominal, tried = self._arrays, self._tried[self._side], self._tried[1 - self._side]
        alphas = (*self._alphas, arrays["choice"][RolloutChoice._fields.index("alpha")])
        rollouts = [
            arrays.table(code.rollout, nominal=nominal, tried=tried, alpha=alpha, cost=cost)
            for alpha, cost in zip(alphas, (*arrays["costs"], arrays["cost"]), strict=True)
        ]
        *tried_rollouts, chosen_rollout = ((code.rollout, table, self.horizon) for table in rollouts)
        phases = [phase for phase in (code.derivatives, code.gaps, code.backward) if phase is not None]
        return CallChain(
            *((phase, arrays.table(phase, nominal=nominal), self.horizon) for phase in phases),
            *tried_rollouts,
            (code.choose, arrays.table(code.choose, nominal=nominal), 1),
            chosen_rollout,
        )

    def load(self, states: Array, previous: Array, inputs: Array) -> None:
        """Write problems into the first lanes; the other lanes retain their values, which are not read."""
        lanes, n, start_values = slice(0, states.shape[1]), self.problem.sizes.state, self._arrays["given"]
        start_values[:n, lanes], start_values[n:, lanes] = states, previous
        self._inputs[..., lanes] = inputs

    def run(self, iterations: int, tolerance: float, cold: bool, multipliers: Array | None = None) -> None:
        """Iterate from the loaded inputs, or from the problem's guess if it is a cold start and there is one.

        `multipliers` (N + 1, 1 + constraints, lanes) are those of a warm start; None for 0.
        """
        problem, arrays, n = self.problem, self._arrays, self.horizon
        shooting, is_constrained = cold and problem.guess is not None, problem.sizes.constraints > 0
        code = batch_code(problem, self._dtype, len(arrays["sizes"]), True) if shooting else self._code
        self._side = 0
        if is_constrained:
            self.multipliers[:, :1], self.multipliers[:, 1:], arrays["worst"][:] = INITIAL_PENALTY, 0.0, np.inf
            if multipliers is not None:
                self.multipliers[..., : multipliers.shape[-1]] = multipliers
        if shooting:
            self._call("guess")
            self._call("evaluate")
        else:
            code.rollout.call(self._warm, n)
            arrays["least"][:] = arrays["cost"]
        arrays["damping"][:], arrays["gap_weight"][:], arrays["tolerance"][:] = 0.0, 0.0, tolerance
        interval = multiplier_interval(iterations)
        for i in range(iterations):
            key = (int(shooting), self._side)
            if key not in self._iterations:
                self._iterations[key] = self._build_iteration(code)
            self._iterations[key]()
            self._side = 1 - self._side
            if is_constrained and i % interval == interval - 1:
                self._call("evaluate")
                self._call("update")
                self._call("evaluate")
        if is_constrained:
            self._call("evaluate")
            arrays["worst"][:] = np.inf
            self._call("update")  # for a warm start from here

    def _call(self, name: str) -> None:
        """Call "guess", "evaluate" or "update" on the nominal trajectory."""
        loops: CompiledLoops = getattr(self._code, name)
        key = (name, self._side)
        if key not in self._reports:
            self._reports[key] = self._arrays.table(loops, nominal=self._tried[self._side])
        loops.call(self._reports[key], self.horizon)

    @property
    def multipliers(self) -> Array:
        """(N + 1, 1 + constraints, width): the weight of the penalties, and the shift of each constraint."""
        return self.goals[:, self.problem.goal_size + 1 :]

    @property
    def states(self) -> Array:
        """(N + 1, ·, width)"""
        return self._tried[self._side, 1:, : self.problem.sizes.state]

    @property
    def controls(self) -> Array:
        """(N, m, width)"""
        return self._tried[self._side, 1:-1, self.problem.sizes.state :]

    @property
    def cost(self) -> Array:
        """The costs without penalties; infinite where a start with gaps led to no finite one."""
        least = self._arrays["least"][0]
        return np.where(least < np.inf, self._arrays["task"][0], np.inf) if self.problem.sizes.constraints else least

    @property
    def violation(self) -> Array:
        """The largest violation of each problem's constraints, in units of their scales."""
        if not self.problem.sizes.constraints:
            return np.zeros(self.width, self._dtype)
        return np.maximum(self._arrays["violation"].max(axis=0), 0.0)

    @property
    def is_converged(self) -> Array:
        converged = self._arrays["choice"][RolloutChoice._fields.index("converged")] > 0.0
        return converged & (self.violation <= MAX_VIOLATION) if self.problem.sizes.constraints else converged
