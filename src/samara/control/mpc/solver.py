"""iLQR for one problem as machine code: three calls an iteration, and no Python between the steps of the horizon.

Lanes lie along the horizon where its steps are independent (derivatives), along the columns of a matrix where they are not
(backward pass), and along the step sizes of the line search (rollouts). Between the calls everything stays in these arrays:

    tried     2 × (N + 2, n + m, 8)    states and inputs of eight rollouts; row k + 1 is step k, row 0 holds the input before
    goals     (N + 1, ·)
    stages    (N, ·)                   [A B] by rows of C columns, the cost's slope, the rows of its curvature that vary
    gains     (N + 1, m C + m)         K by rows (of x, then of the input before), then k

The nominal trajectory is one lane of one `tried`; the next eight go into the other, and the best of them is the next nominal
by a change of address.
"""

import math
from collections.abc import Sequence
from functools import lru_cache
from time import perf_counter
from typing import Any, NamedTuple

import casadi
import numpy as np

from samara.compiler.llvm.array_loop import ArraySpec, Call, Chain, Loop, Loops, Pass, compile_loops
from samara.control.mpc.backward_single import Layout, compile_backward, layout_of
from samara.control.mpc.buffers import LANES, Memory, Rows, aligned, shared
from samara.control.mpc.derivatives import SUMS, Linearised, choosing, linearised, rollout_programs, traced
from samara.control.mpc.line_search import Choice
from samara.control.mpc.problem import Problem
from samara.core.tree import flatten

LINE_SEARCH = (1.0, 0.7, 0.5, 0.3, 0.1, 0.05)
MOST_DAMPING = 1e6  # a step that brings nothing even so is none


class CompiledStep(NamedTuple):
    """The calls of an iteration, and where their arrays have what."""

    rollout: Loops
    derivatives: Loops
    backward: Loops
    choose: Loops
    constants: Loops
    layout: Layout
    literal: tuple[tuple[int, float], ...]  # numbers of a stage that never change


@lru_cache(maxsize=16)
def solver_code(problem: Problem) -> CompiledStep:
    """The machine code for a problem; horizon, goals and parameters are arguments"""
    trace = linearised(problem)
    layout, size = layout_of(problem, trace), problem.sizes
    literal = tuple((i * layout.columns + j, float(entry)) for (i, j), entry in trace.jacobian.constant.items())
    rollout = rollout_loops(
        problem,
        tried=Rows("tried", size.step, LANES, 1),
        nominal=layout.nominal,
        goals=layout.goals,
        given=Rows("given", size.step),
        gains=layout.gain_arrays(),
    )
    return CompiledStep(
        compile_loops(rollout),
        _compile_derivatives(trace, layout),
        compile_backward(problem, trace, layout),
        compile_loops(choose_loops(LANES, shared("cost", LANES), "alpha", 1)),
        _compile_constants(trace, layout),
        layout,
        literal,
    )


def rollout_loops(
    problem: Problem, tried: Rows, nominal: Rows, goals: Rows, given: Rows, gains: tuple[ArraySpec, ArraySpec]
) -> tuple[Loop, ...]:
    """Rollouts in the lanes of `tried`, from what is `given`, around a nominal trajectory; their costs"""
    size, width, programs = problem.sizes, tried.width, rollout_programs(problem)
    n, m = size.state, size.command
    state, before = tried.at(n, later=1), tried.at(m, n)
    goal, numbers, cost = goals.at(size.goal), shared("parameters", size.parameters), Rows("cost", 1, width, 1).once()
    each = Pass(
        programs.step,
        (
            state,
            before,
            nominal.at(n, later=1),
            nominal.at(m, n),
            nominal.at(m, n, later=1),
            *gains,
            Rows("alpha", 1, width, 1).once(),
            goal,
            numbers,
            cost,
        ),
        (tried.at(m, n, later=1), tried.at(n, later=2), cost),
        width,
    )
    first = Pass(programs.first, (given.once(n), given.once(m, n)), (state, before, cost), width)
    last = Pass(programs.final, (state, goal, numbers, cost), (cost,), width)
    return Loop((first,), at="start"), Loop((each,)), Loop((last,), at="end")


def choose_loops(count: int, costs: ArraySpec, sizes: str, width: int) -> tuple[Loop, ...]:
    """Which of the rollouts is the next nominal trajectory"""
    least, damping = (Rows(name, 1, width, 1).once() for name in ("least", "damping"))
    sums, choice = Rows("sums", SUMS, width, 1).once(SUMS), len(Choice._fields)
    once = Pass(
        choosing(count),
        (costs, shared(sizes, count), least, damping, shared("tolerance"), sums),
        (Rows("choice", choice, width, 1).once(choice), least, damping),
        width,
    )
    return (Loop((once,), at="start"),)


def _compile_derivatives(trace: Linearised, layout: Layout) -> Loops:
    """[A B], slope and curvature of eight steps of the horizon at a time"""
    own, size, columns, stage = trace.symbols, layout.sizes, layout.columns, Rows("stages", layout.stage)
    curvature = {
        place: entry
        for place, entry in {**trace.curvature.constant, **trace.curvature.varying}.items()
        if place[0] in layout.varying_rows
    }
    each = Pass(
        traced(
            list(own),
            [casadi.vertcat(*trace.jacobian.varying.values()), trace.slope, casadi.vertcat(*curvature.values())],
        ),
        (
            layout.nominal.tiled(size.state, later=1),
            layout.nominal.tiled(size.command, size.state, later=1),
            layout.nominal.tiled(size.command, size.state),
            layout.goals.tiled(size.goal),
            shared("parameters", size.parameters),
        ),
        (
            stage.tiled(0)._replace(places=tuple(i * columns + j for i, j in trace.jacobian.varying)),
            stage.tiled(size.width, layout.slope),
            stage.tiled(0)._replace(places=tuple(layout.curvature(i) + j for i, j in curvature)),
        ),
        LANES,
    )
    return compile_loops((Loop((each,), tile=LANES),))


def _compile_constants(trace: Linearised, layout: Layout) -> Loops:
    """The rows of the cost's curvature that only the parameters decide"""
    constant = {
        place: entry for place, entry in trace.curvature.constant.items() if place[0] not in layout.varying_rows
    }
    once = Pass(
        traced([trace.symbols.parameters], [casadi.vertcat(*constant.values())]),
        (shared("parameters", layout.sizes.parameters),),
        (ArraySpec("curvature", tuple(i * layout.columns + j for i, j in constant)),),
        1,
    )
    return compile_loops((Loop((once,), at="start"),))


# The memory of one problem -----------------------------------------------------------------------------------------


class Solution(NamedTuple):
    """How a solution came about; the trajectory itself is in the solver until the next.

    `gradient_norm` is √Σ|Q_u|² over the inputs that are free to follow it.
    """

    cost: float
    iterations: int
    converged: bool
    cost_history: tuple[float, ...]
    step_sizes: tuple[float, ...]
    gradient_norm: float
    seconds: tuple[float, float, float, float]  # the start, derivatives, backward passes, rollouts


class _Calls(NamedTuple):
    """The addresses of the tables of the three calls when one lane of one side is the nominal trajectory; and an iteration as
    one call, with derivatives or with those there are."""

    derivatives: int
    backward: int
    rollout: int
    iteration: Chain
    once_more: Chain


class Solver:
    """iLQR for one problem: `goals` (N + 1, ·) and `parameters` are written, then `solve` from a state

    Afterwards `states` (N + 1, ·), `controls` (N, m) and `gains` (N, m, ·) are those of the solution.
    """

    def __init__(
        self, problem: Problem, horizon: int, parameters: Any = None, step_sizes: Sequence[float] = LINE_SEARCH
    ) -> None:
        code, size = solver_code(problem), problem.sizes
        layout, n, m = code.layout, size.state, size.command
        numbers = problem.parameters if parameters is None else parameters
        self.problem, self.horizon, self._code = problem, horizon, code
        rows = -(-horizon // LANES) * LANES + LANES  # derivatives are taken of whole tiles
        own = self._memory = Memory(
            goals=(rows + 1, size.goal),
            stages=(rows, layout.stage),
            gains=(horizon + 1, layout.gains),
            scratch=layout.scratch,
            later=horizon,
            alpha=LANES,
            cost=LANES,
            parameters=size.parameters,
            curvature=(size.width, layout.columns),
            masks=(1 + m, layout.columns),
            damping=1,
            sums=SUMS,
            given=n + m,
            least=1,
            tolerance=1,
            choice=len(Choice._fields),
        )
        self.goals, self.parameters = own["goals"][: horizon + 1], own["parameters"]
        own["goals"][:], self.parameters[:] = flatten(problem.goal), flatten(numbers)
        own["alpha"][:] = [*step_sizes, *(step_sizes[-1],) * (LANES - len(step_sizes))]
        own["later"][:-1] = problem.smoothing(numbers)
        own["masks"][0, : size.tangent] = 1.0
        own["masks"][1:, size.tangent : size.width] = np.eye(m)
        for place, number in code.literal:
            own["stages"][:, place] = number
        self._inputs = np.array(problem.command)
        self._tried = aligned(2, rows + 2, n + m, LANES)
        self._start, self._level = (aligned(rows + 2, n + m, LANES) for _ in range(2))
        self._nominal = [[self._tried[side].reshape(-1)[lane:] for lane in range(LANES)] for side in (0, 1)]
        for each in (self._tried[0], self._tried[1], self._start, self._level):
            each[:, :n] = np.array(flatten(problem.state))[:, None]
        self._level[1:, n:] = self._inputs[:, None]
        self._start_gains, self._level_gains = (aligned(horizon + 1, layout.gains) for _ in range(2))
        blend = aligned(LANES)
        blend[1:] = 1.0
        self._start_inputs = self._start[1 : horizon + 1, n:, 0]
        self._start_steps = self._start_gains[:horizon, m * layout.columns :]
        begin = {"tried": self._tried[0], "nominal": self._start, "alpha": blend, "gains": self._start_gains}
        self._begin_with = own.table(code.rollout, **begin)
        self._begin_level = own.table(code.rollout, tried=self._tried[0], nominal=self._level, gains=self._level_gains)
        self._choose = own.table(code.choose)
        self._calls = [[self._calls_from(side, lane) for lane in range(LANES)] for side in (0, 1)]
        self._side, self._lane = 0, 0
        code.constants.call(own.table(code.constants), 1)
        if problem.start is not None:
            self._learn_to_level(list(problem.start.columns))

    def _learn_to_level(self, columns: list[int]) -> None:
        """Some columns of the feedback at the problem's own state and input, from a backward pass there"""
        code = self._code
        self._tried[0, :, self.problem.sizes.state :] = self._inputs[:, None]
        code.derivatives.call(self._calls[0][0].derivatives, self.horizon)
        code.backward.call(self._calls[0][0].backward, self.horizon)
        learned = self._by_rows(self._memory["gains"])[0][:, columns]
        if np.isfinite(learned).all():
            self._by_rows(self._level_gains)[:, :, columns] = learned

    def _by_rows(self, gains: np.ndarray) -> np.ndarray:
        """K of every stage (N + 1, m, C)"""
        m, columns = self.problem.sizes.command, self._code.layout.columns
        return gains[:, : m * columns].reshape(-1, m, columns)

    def _calls_from(self, side: int, lane: int) -> _Calls:
        code, own, nominal, n = self._code, self._memory, self._nominal[side][lane], self.horizon
        tables = (
            own.table(code.derivatives, nominal=nominal),
            own.table(code.backward, nominal=nominal),
            own.table(code.rollout, nominal=nominal, tried=self._tried[1 - side]),
        )
        phases = zip((code.derivatives, code.backward, code.rollout), tables, (n, n, n), strict=True)
        calls = [*phases, (code.choose, self._choose, 1)]
        return _Calls(*tables, Chain(*calls), Chain(*calls[1:]))

    def solve(
        self,
        x: Sequence[float],
        before: Sequence[float] | None = None,
        controls: np.ndarray | None = None,
        iterations: int = 12,
        tolerance: float = 1e-4,
    ) -> Solution | None:
        """From the numbers of a state, the input before it (`problem.command` by default) and inputs (N, m) to begin with

        Without inputs, or where they have no finite cost, the start is cold. None where that has no finite cost either.
        """
        began = perf_counter()
        earlier = self.problem.command if before is None else before
        cost = math.inf if controls is None else self.begin(x, earlier, controls)
        if not cost < math.inf:
            cost = self.begin_cold(x, earlier)
        return self.run(cost, iterations, tolerance, began) if cost < math.inf else None

    def _give(self, x: Sequence[float], before: Sequence[float]) -> None:
        given, n = self._memory["given"], self.problem.sizes.state
        given[:n], given[n:] = x, before

    def begin(self, x: Sequence[float], before: Sequence[float], controls: np.ndarray) -> float:
        """The rollout under given inputs, or under `problem.command` where that costs less; its cost, NaN if neither has one"""
        self._give(x, before)
        self._start_inputs[:] = controls
        np.subtract(self._inputs, controls, out=self._start_steps)
        self._code.rollout.call(self._begin_with, self.horizon)
        return self.begun()

    def chain_to_begin(self, *calls: Call) -> Chain:
        """Calls that write what is in `memory` and then the rollouts, as one: before `begun`"""
        return Chain(*calls, (self._code.rollout, self._begin_with, self.horizon))

    def begun(self) -> float:
        """Takes the rollout under the inputs given, or that under `problem.command` where it costs less; its cost"""
        own, level = self._memory["cost"][:2].tolist()
        self._side, self._lane = 0, 0 if own <= level else 1
        return own if own <= level else level

    def begin_cold(self, x: Sequence[float], before: Sequence[float]) -> float:
        """The rollout under `problem.command` with the problem's feedback: open-loop, what turns would tumble; its cost"""
        problem, n = self.problem, self.problem.sizes.state
        self._give(x, before)
        if problem.start is not None:
            self._level[:, :n] = np.array(problem.start.nominal(x, _length))[:, None]
        self._code.rollout.call(self._begin_level, self.horizon)
        self._side, self._lane = 0, 0
        return float(self._memory["cost"][0])

    def run(self, cost: float, iterations: int, tolerance: float, began: float = math.nan) -> Solution:
        """iLQR from the trajectory that `begin` left: derivatives, backward pass, rollouts, and the best of them

        Where none is accepted the derivatives stay, and the next backward pass has more damping.
        """
        code, n, nominal = self._code, self.horizon, self._calls[self._side][self._lane]
        self._compare_with(cost, tolerance)
        costs, steps, fresh, converged, passes = [cost], [], True, 0.0, 0
        in_derivatives = in_backward = in_rollouts = 0.0
        clock = started = perf_counter()
        while passes < iterations:
            passes += 1
            if fresh:
                code.derivatives.call(nominal.derivatives, n)
                in_derivatives -= clock - (clock := perf_counter())
            code.backward.call(nominal.backward, n)
            in_backward -= clock - (clock := perf_counter())
            code.rollout.call(nominal.rollout, n)
            code.choose.call(self._choose, 1)
            in_rollouts -= clock - (clock := perf_counter())
            fresh, _, alpha, cost, damping, converged = self._take_best()
            if fresh:
                nominal = self._calls[self._side][self._lane]
                costs.append(cost)
                steps.append(alpha)
            if converged or damping > MOST_DAMPING:
                break
        seconds = started - began, in_derivatives, in_backward, in_rollouts
        gradient = float(self._memory["sums"][2]) ** 0.5
        return Solution(cost, passes, converged > 0.0, tuple(costs), tuple(steps), gradient, seconds)

    def iterate(self, cost: float, iterations: int, tolerance: float) -> None:
        """`run` without an account of itself: every iteration is one call"""
        self._compare_with(cost, tolerance)
        fresh = 1.0
        for _ in range(iterations):
            nominal = self._calls[self._side][self._lane]
            (nominal.iteration if fresh else nominal.once_more)()
            fresh, _, _, _, damping, converged = self._take_best()
            if converged or damping > MOST_DAMPING:
                break

    def _compare_with(self, cost: float, tolerance: float) -> None:
        own = self._memory.arrays
        own["least"][0], own["damping"][0], own["tolerance"][0] = cost, 0.0, tolerance

    def _take_best(self) -> Any:
        """The numbers of the `Choice`; the rollout chosen, if any is, becomes the nominal trajectory"""
        chosen = self._memory["choice"].tolist()
        if chosen[0]:
            self._side, self._lane = 1 - self._side, int(chosen[1])
        return chosen

    def memory(self, **others: np.ndarray) -> Memory:
        """For machine code that writes what a solution begins with: "given", "start" (a nominal trajectory with the inputs to
        begin with) and "start_gains", whose k lead from them to `problem.command`; with other arrays beside them"""
        return self._memory.beside(start=self._start, start_gains=self._start_gains, **others)

    @property
    def found(self) -> tuple[int, int]:
        """Which of the rollouts is the nominal trajectory: its side and lane"""
        return self._side, self._lane

    @property
    def nominal(self) -> np.ndarray:
        """The nominal trajectory for machine code, as `Layout.nominal` has it"""
        return self._nominal[self._side][self._lane]

    @property
    def states(self) -> np.ndarray:
        """(N + 1, ·) of the nominal trajectory"""
        return self._tried[self._side, 1 : self.horizon + 2, : self.problem.sizes.state, self._lane]

    @property
    def controls(self) -> np.ndarray:
        """(N, m) of the nominal trajectory"""
        return self._tried[self._side, 1 : self.horizon + 1, self.problem.sizes.state :, self._lane]

    @property
    def start_gains(self) -> np.ndarray:
        """(m, · + m): the feedback of a cold start"""
        return self._by_rows(self._level_gains)[0, :, : self.problem.sizes.width]

    @property
    def gains(self) -> np.ndarray:
        """(N, m, ·): the feedback of the last backward pass"""
        return self._by_rows(self._memory["gains"])[: self.horizon, :, : self.problem.sizes.tangent]


def _length(a: float, b: float) -> float:
    return float((a * a + b * b) ** 0.5)
