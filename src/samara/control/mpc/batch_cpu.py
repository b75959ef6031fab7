"""iLQR for many problems on the CPU: one problem in each lane of the vector registers, tile after tile.

The programs are those of a single problem, and the stage of the backward pass is traced with all its columns, without the zeros
of [A B]. Arrays are (step, component, lane); those of a tile stay in the cache from its first iteration to its last.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from samara.compiler.llvm.array_loop import ArrayLoop, ArraySpec, CompiledLoops, Pass, compile_loops
from samara.compiler.llvm.codegen import vector_width
from samara.control.mpc.iteration import (
    TRACED,
    RolloutChoice,
    StageInputs,
    StageModel,
    smoothing_terms,
    solve_stage,
    traced_column,
)
from samara.control.mpc.problem import Problem, Tree
from samara.control.mpc.programs import (
    SUM_COUNT,
    Arrays,
    Linearisation,
    MatrixIndex,
    RolloutArrays,
    StepArray,
    aligned_zeros,
    below_diagonal,
    choose_loops,
    linearise,
    rollout_loops,
    shared_spec,
    trace_pass,
)
from samara.control.mpc.solver import symmetric_matrix
from samara.core.tree import flatten
from samara.core.types import Array


class BatchCode(NamedTuple):
    """The calls of a tile, its width, and the sizes of a stage, of its gains and of the constant part of the Hessian."""

    rollout: CompiledLoops
    derivatives: CompiledLoops
    backward: CompiledLoops
    choose: CompiledLoops
    constants: CompiledLoops
    width: int
    stage: int
    gains: int
    curvature: int


@lru_cache(maxsize=8)
def batch_code(problem: Problem, dtype: str, sizes: int) -> BatchCode:
    """Compile the code for tiles of a problem, with `sizes` step sizes."""
    size, trace, width = problem.sizes, linearise(problem), vector_width(dtype)
    constant, varying = ([(i, j) for i, j in entries if j <= i] for entries in trace.curvature[1:])
    stages = StepArray("stages", len(trace.jacobian.varying) + size.width + len(varying), width, 1)
    K = size.command * size.width
    gains = StepArray("gains", K + size.command, width, 1)
    tried, nominal, start = (StepArray(name, size.step, width, 1) for name in ("tried", "nominal", "given"))
    arrays = RolloutArrays(
        tried,
        nominal,
        StepArray("goals", size.goal, width, 1),
        start,
        (gains.step_values(K), gains.step_values(size.command, K)),
    )
    parameters, curvature = shared_spec("parameters", size.parameters), shared_spec("curvature", len(constant))
    trajectory = (
        nominal.step_values(size.state, later=1),
        nominal.step_values(size.command, size.state, later=1),
        nominal.step_values(size.command, size.state),
        arrays.goals.step_values(size.goal),
        parameters,
    )
    output_sizes = len(trace.jacobian.varying), size.width, len(varying)
    offsets = (0, output_sizes[0], output_sizes[0] + output_sizes[1])
    targets = tuple(stages.step_values(count, first) for count, first in zip(output_sizes, offsets, strict=True))
    derivatives = Pass(trace.step_program(varying), trajectory, targets, width)
    constants = Pass(trace.constants_program(constant), (parameters,), (curvature,), 1)
    costs = StepArray("costs", sizes, width, 1).fixed_values(sizes)
    return BatchCode(
        compile_loops(rollout_loops(problem, arrays), dtype),
        compile_loops((ArrayLoop((derivatives,)),), dtype),
        compile_loops(_backward(problem, trace, (varying, constant), arrays, stages), dtype),
        compile_loops(choose_loops(costs, shared_spec("sizes", sizes), width), dtype),
        compile_loops((ArrayLoop((constants,), position="start"),), dtype),
        width,
        stages.row,
        gains.row,
        len(constant),
    )


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

    def step(*arguments: Tree) -> Tree:
        V, v, stage_values, constant, parameters, damping, sums, u, K, k, u_next, smoothing_weight = arguments
        values = iter(stage_values)
        M = trace.jacobian.matrix([next(values) for _ in trace.jacobian.varying])
        slope = [next(values) for _ in range(n + m)]
        H = symmetric_matrix(dict(zip((*hessian[1], *hessian[0]), (*constant, *values), strict=True)), n + m)
        model = StageModel(
            symmetric_matrix(dict(zip(places, V, strict=True)), n), traced_column(v), M, H, traced_column(slope)
        )
        gains = np.array(K, dtype=object).reshape(m, n + m)
        change = smoothing_terms(smoothing_weight, gains, k, u, u_next, TRACED) if trace.is_smooth else None
        by_previous = TRACED.scale(np.eye(m).astype(object), -problem.smoothing(parameters))
        result = solve_stage(model, StageInputs(problem.limits(parameters), u, damping), change, by_previous, TRACED)
        box = result.box
        next_sums = (a + b for a, b in zip(sums, (box.linear, box.quadratic, box.gradient), strict=True))
        return (
            tuple(result.V[place] for place in places),
            tuple(result.v.ravel()),
            (*result.gains.ravel(), *box.step),
            tuple(next_sums),
        )

    def once(name: str, count: int = 1) -> ArraySpec:
        return StepArray(name, count, width, 1).fixed_values(count)

    K, gains = m * (n + m), StepArray("gains", m * (n + m + 1), width, 1)
    value, sums, parameters = (
        (once("V", len(places)), once("v", n)),
        once("sums", SUM_COUNT),
        shared_spec("parameters", size.parameters),
    )
    inputs = (
        *value,
        stages.step_values(stages.row),
        shared_spec("curvature", len(hessian[1])),
        (parameters, problem.parameters),
        (once("damping"), 0.0),
        sums,
        nominal.step_values(m, size.state, later=1),
        gains.step_values(K, later=1),
        gains.step_values(m, K, later=1),
        nominal.step_values(m, size.state, later=2),
        (StepArray("later", 1).step_values(1), 0.0),
    )
    step_pass = trace_pass(step, inputs, (*value, gains.step_values(K + m), sums), width)
    end_inputs = (nominal.step_values(size.state, later=1), arrays.goals.step_values(size.goal), parameters)
    return ArrayLoop((Pass(trace.end_program(), end_inputs, (*value, sums), width),), position="end"), ArrayLoop(
        (step_pass,), reverse=True
    )


class ProblemTile:
    """The arrays of one tile of problems and the iterations on it: `load` them, write their `goals`, then `run`."""

    def __init__(
        self,
        problem: Problem,
        horizon: int,
        parameters: Tree,
        step_sizes: Sequence[float],
        start_gains: Array,
        dtype: str,
    ) -> None:
        size, code = problem.sizes, batch_code(problem, dtype, len(step_sizes))
        self.problem, self.horizon, self.width, self._code = problem, horizon, code.width, code
        count, width = len(step_sizes), code.width
        arrays = self._arrays = Arrays(
            dtype,
            given=(size.step, width),
            goals=(horizon + 1, size.goal, width),
            parameters=size.parameters,
            curvature=code.curvature,
            stages=(horizon, code.stage, width),
            gains=(horizon + 1, code.gains, width),
            later=horizon,
            V=(len(below_diagonal(size.tangent)), width),
            v=(size.tangent, width),
            sums=(SUM_COUNT, width),
            damping=(1, width),
            least=(1, width),
            tolerance=1,
            sizes=count,
            costs=(count, width),
            cost=(1, width),
            alpha=(1, width),
            choice=(len(RolloutChoice._fields), width),
        )
        self.goals, arrays["parameters"][:], arrays["sizes"][:] = arrays["goals"], flatten(parameters), step_sizes
        arrays["later"][:-1] = problem.smoothing(parameters)
        code.constants.call(arrays.table(code.constants), 1)
        self._tried = aligned_zeros(2, horizon + 2, size.step, width, dtype=dtype)
        self._start = aligned_zeros(horizon + 2, size.step, width, dtype=dtype)
        self._tried[:, :, : size.state] = self._start[:, : size.state] = np.array(flatten(problem.state))[:, None]
        self._inputs = self._start[1 : horizon + 1, size.state :]  # (N, m, width)
        self._alphas = aligned_zeros(count, width, dtype=dtype)
        self._alphas[:] = np.array(step_sizes)[:, None]
        no_gains, level_gains = (aligned_zeros(horizon + 1, code.gains, width, dtype=dtype) for _ in range(2))
        level_gains[:, : start_gains.size] = start_gains.reshape(-1)[:, None]
        self._warm, self._cold = (
            arrays.table(code.rollout, tried=self._tried[0], nominal=self._start, gains=gains)
            for gains in (no_gains, level_gains)
        )
        self._choose = arrays.table(code.choose)
        self._calls = [self._build_calls(side) for side in (0, 1)]
        self._side = 0

    def _build_calls(self, side: int) -> tuple[int, int, list[int]]:
        """Build the tables of derivatives, backward pass, and a rollout for each step size and for the chosen one."""
        code, arrays, nominal, tried = self._code, self._arrays, self._tried[side], self._tried[1 - side]
        alphas = (*self._alphas, arrays["choice"][RolloutChoice._fields.index("alpha")])
        rollouts = [
            arrays.table(code.rollout, nominal=nominal, tried=tried, alpha=alpha, cost=cost)
            for alpha, cost in zip(alphas, (*arrays["costs"], arrays["cost"]), strict=True)
        ]
        return arrays.table(code.derivatives, nominal=nominal), arrays.table(code.backward, nominal=nominal), rollouts

    def load(self, states: Array, previous: Array, inputs: Array) -> None:
        """Write problems into the first lanes; the other lanes retain their values, which are not read."""
        lanes, n, start_values = slice(0, states.shape[1]), self.problem.sizes.state, self._arrays["given"]
        start_values[:n, lanes], start_values[n:, lanes] = states, previous
        self._inputs[..., lanes] = inputs

    def run(self, iterations: int, tolerance: float, cold: bool) -> None:
        """Iterate from the loaded inputs; a cold start applies the problem's feedback around them."""
        code, n, arrays, problem = self._code, self.horizon, self._arrays, self.problem
        if cold and problem.start is not None:
            for i, values in enumerate(problem.start.nominal(arrays["given"], np.hypot)):
                self._start[:, i] = values
        code.rollout.call(self._cold if cold else self._warm, n)
        arrays["least"][:], arrays["damping"][:], arrays["tolerance"][:] = arrays["cost"], 0.0, tolerance
        self._side = 0
        for _ in range(iterations):
            derivatives, backward, rollouts = self._calls[self._side]
            code.derivatives.call(derivatives, n)
            code.backward.call(backward, n)
            for rollout in rollouts[:-1]:
                code.rollout.call(rollout, n)
            code.choose.call(self._choose, 1)
            code.rollout.call(rollouts[-1], n)
            self._side = 1 - self._side

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
        return self._arrays["least"][0]

    @property
    def is_converged(self) -> Array:
        return self._arrays["choice"][RolloutChoice._fields.index("converged")] > 0.0
