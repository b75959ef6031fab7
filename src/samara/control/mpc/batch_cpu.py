"""iLQR for many problems on the CPU: one problem in each lane of the vector registers, tile after tile.

The programs are those of a single problem (`trace`), the stage of the backward pass is traced whole, with all the zeros of
[A B] left out. Arrays are (step, number, lane); a tile's stay in the cache from its first iteration to its last.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import casadi
import numpy as np

from samara.compiler.llvm.array_loop import Loop, Loops, Pass, compile_loops
from samara.compiler.llvm.codegen import vector_width
from samara.control.mpc.backward import stage
from samara.control.mpc.buffers import Memory, Rows, aligned, shared
from samara.control.mpc.derivatives import (
    JOIN,
    SUMS,
    SX,
    Linearised,
    below_diagonal,
    change_to_next,
    entries,
    linearised,
    symmetric,
    traced,
    tree,
    value_at_end,
)
from samara.control.mpc.line_search import Choice
from samara.control.mpc.problem import Problem, is_zero
from samara.control.mpc.solver import choose_loops, rollout_loops
from samara.core.tree import flatten


class LaneCode(NamedTuple):
    """The calls of a tile, its width, and how many numbers a stage and its gains have."""

    rollout: Loops
    derivatives: Loops
    backward: Loops
    choose: Loops
    width: int
    stage: int
    gains: int


class _Arrays:
    """Arrays of one width."""

    def __init__(self, problem: Problem, stage: int, width: int) -> None:
        size, self.width = problem.sizes, width
        self.tried, self.nominal, self.given = (
            Rows(name, size.step, width, 1) for name in ("tried", "nominal", "given")
        )
        self.goals, self.stages = Rows("goals", size.goal, width, 1), Rows("stages", stage, width, 1)
        self.gains = Rows("gains", size.command * (size.width + 1), width, 1)

    def once(self, name: str, count: int = 1) -> Any:
        return Rows(name, count, self.width, 1).once(count)


@lru_cache(maxsize=8)
def lane_code(problem: Problem, dtype: str, sizes: int) -> LaneCode:
    """The machine code for tiles of a problem, with so many step sizes"""
    size, trace = problem.sizes, linearised(problem)
    varying = [(i, j) for i, j in trace.curvature.varying if j <= i]
    arrays = _Arrays(problem, len(trace.jacobian.varying) + size.width + len(varying), vector_width(dtype))
    gains = size.command * size.width
    rollout = rollout_loops(
        problem,
        arrays.tried,
        arrays.nominal,
        arrays.goals,
        arrays.given,
        (arrays.gains.at(gains), arrays.gains.at(size.command, gains)),
    )
    return LaneCode(
        compile_loops(rollout, dtype),
        compile_loops(_derivatives(problem, trace, varying, arrays), dtype),
        compile_loops(_backward(problem, trace, varying, arrays), dtype),
        compile_loops(choose_loops(sizes, arrays.once("costs", sizes), "sizes", arrays.width), dtype),
        arrays.width,
        arrays.stages.row,
        arrays.gains.row,
    )


def _derivatives(
    problem: Problem, trace: Linearised, varying: list[tuple[int, int]], arrays: _Arrays
) -> tuple[Loop, ...]:
    size, curvature = problem.sizes, (trace.curvature.varying[place] for place in varying)
    each = Pass(
        traced(list(trace.symbols), [casadi.vertcat(*trace.jacobian.varying.values(), trace.slope, *curvature)]),
        (
            arrays.nominal.at(size.state, later=1),
            arrays.nominal.at(size.command, size.state, later=1),
            arrays.nominal.at(size.command, size.state),
            arrays.goals.at(size.goal),
            shared("parameters", size.parameters),
        ),
        (arrays.stages.at(arrays.stages.row),),
        arrays.width,
    )
    return (Loop((each,)),)


def _backward(problem: Problem, trace: Linearised, varying: list[tuple[int, int]], arrays: _Arrays) -> tuple[Loop, ...]:
    own, size, places = trace.symbols, problem.sizes, below_diagonal(problem.sizes.tangent)
    n, m, K = size.tangent, size.command, size.command * size.width
    below, v = SX.sym("V", len(places)), SX.sym("v", n)
    V = symmetric(dict(zip(places, entries(below), strict=True)), n)
    stored = iter(entries(given := SX.sym("stage", arrays.stages.row)))
    M = trace.jacobian.matrix([next(stored) for _ in trace.jacobian.varying])
    slope = casadi.vertcat(*(next(stored) for _ in range(n + m)))
    H = symmetric({**trace.curvature.constant, **dict(zip(varying, stored, strict=True))}, n + m)
    damping, sums = SX.sym("damping"), SX.sym("sums", SUMS)
    following, change = change_to_next(problem, trace)
    numbers = tree(problem.parameters, own.parameters)
    weight = problem.smoothing(numbers)
    found = stage(
        V,
        v,
        M,
        H,
        slope,
        problem.limits(numbers),
        entries(own.u),
        damping,
        None if is_zero(weight) else change,
        SX.eye(m) * -weight,
        JOIN,
    )
    by_rows = casadi.vertcat(*(found.gains[a, :].T for a in range(m)), *found.box.step)
    value = (arrays.once("V", len(places)), arrays.once("v", n))
    parameters, total = shared("parameters", size.parameters), arrays.once("sums", SUMS)
    each = Pass(
        traced(
            [below, v, given, own.parameters, damping, sums, own.u, *following],
            [
                casadi.vertcat(*(found.V[i, j] for i, j in places)),
                found.v,
                by_rows,
                sums + casadi.vertcat(found.box.linear, found.box.quadratic, found.box.gradient),
            ],
        ),
        (
            *value,
            arrays.stages.at(arrays.stages.row),
            parameters,
            arrays.once("damping"),
            total,
            arrays.nominal.at(m, size.state, later=1),
            arrays.gains.at(K, later=1),
            arrays.gains.at(m, K, later=1),
            arrays.nominal.at(m, size.state, later=2),
            Rows("later", 1).at(1),
        ),
        (*value, arrays.gains.at(K + m), total),
        arrays.width,
    )
    end = (arrays.nominal.at(size.state, later=1), arrays.goals.at(size.goal), parameters)
    final = Pass(value_at_end(trace), end, (*value, total), arrays.width)
    return Loop((final,), at="end"), Loop((each,), reverse=True)


# A tile ------------------------------------------------------------------------------------------------------------


class Tile:
    """The memory of one tile of problems and the iterations on it. `load` them, write their `goals`, then `run`."""

    def __init__(
        self,
        problem: Problem,
        horizon: int,
        parameters: Any,
        step_sizes: Sequence[float],
        start_gains: np.ndarray,
        dtype: str,
    ) -> None:
        size, code = problem.sizes, lane_code(problem, dtype, len(step_sizes))
        self.problem, self.horizon, self.width, self._code = problem, horizon, code.width, code
        count, width = len(step_sizes), code.width
        own = self._memory = Memory(
            dtype,
            given=(size.step, width),
            goals=(horizon + 1, size.goal, width),
            parameters=size.parameters,
            stages=(horizon, code.stage, width),
            gains=(horizon + 1, code.gains, width),
            later=horizon,
            V=(len(below_diagonal(size.tangent)), width),
            v=(size.tangent, width),
            sums=(SUMS, width),
            damping=(1, width),
            least=(1, width),
            tolerance=1,
            sizes=count,
            costs=(count, width),
            cost=(1, width),
            alpha=(1, width),
            choice=(len(Choice._fields), width),
        )
        self.goals, own["parameters"][:], own["sizes"][:] = own["goals"], flatten(parameters), step_sizes
        own["later"][:-1] = problem.smoothing(parameters)
        self._tried = aligned(2, horizon + 2, size.step, width, dtype=dtype)
        self._start = aligned(horizon + 2, size.step, width, dtype=dtype)
        self._tried[:, :, : size.state] = self._start[:, : size.state] = np.array(flatten(problem.state))[:, None]
        self._inputs = self._start[1 : horizon + 1, size.state :]  # (N, m, width)
        self._alphas = aligned(count, width, dtype=dtype)
        self._alphas[:] = np.array(step_sizes)[:, None]
        no_gains, level_gains = (aligned(horizon + 1, code.gains, width, dtype=dtype) for _ in range(2))
        level_gains[:, : start_gains.size] = start_gains.reshape(-1)[:, None]
        self._begin, self._begin_level = (
            own.table(code.rollout, tried=self._tried[0], nominal=self._start, gains=gains)
            for gains in (no_gains, level_gains)
        )
        self._choose = own.table(code.choose)
        self._calls = [self._calls_from(side) for side in (0, 1)]
        self._side = 0

    def _calls_from(self, side: int) -> tuple[int, int, list[int]]:
        """Tables of derivatives, backward pass, and a rollout for each step size and for the one chosen"""
        code, own, nominal, tried = self._code, self._memory, self._tried[side], self._tried[1 - side]
        alphas = (*self._alphas, own["choice"][Choice._fields.index("alpha")])
        rollouts = [
            own.table(code.rollout, nominal=nominal, tried=tried, alpha=alpha, cost=cost)
            for alpha, cost in zip(alphas, (*own["costs"], own["cost"]), strict=True)
        ]
        return own.table(code.derivatives, nominal=nominal), own.table(code.backward, nominal=nominal), rollouts

    def load(self, states: Any, before: Any, inputs: Any) -> None:
        """Problems for as many lanes as there are. Lanes that are left over keep what they had: nobody reads them"""
        lanes, n, given = slice(0, states.shape[1]), self.problem.sizes.state, self._memory["given"]
        given[:n, lanes], given[n:, lanes] = states, before
        self._inputs[..., lanes] = inputs

    def run(self, iterations: int, tolerance: float, cold: bool) -> None:
        """iLQR from the inputs given; a cold start has the problem's feedback around them"""
        code, n, own, problem = self._code, self.horizon, self._memory, self.problem
        if cold and problem.start is not None:
            for place, numbers in enumerate(problem.start.nominal(own["given"], np.hypot)):
                self._start[:, place] = numbers
        code.rollout.call(self._begin_level if cold else self._begin, n)
        own["least"][:], own["damping"][:], own["tolerance"][:] = own["cost"], 0.0, tolerance
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
    def states(self) -> np.ndarray:
        """(N + 1, ·, width)"""
        return self._tried[self._side, 1:, : self.problem.sizes.state]

    @property
    def controls(self) -> np.ndarray:
        """(N, m, width)"""
        return self._tried[self._side, 1:-1, self.problem.sizes.state :]

    @property
    def cost(self) -> np.ndarray:
        return self._memory["least"][0]

    @property
    def converged(self) -> np.ndarray:
        return self._memory["choice"][Choice._fields.index("converged")] > 0.0
