"""iLQR for one problem as machine code: three calls an iteration, and no Python between the steps of the horizon.

Lanes lie along the horizon where its steps are independent (derivatives), along the columns of a matrix where they are not
(backward pass), and along the step sizes of the line search (rollouts). Between the calls everything stays in these arrays:

    tried     2 × (N + 2, 13 + m, 8)   states and inputs of eight rollouts; row k + 1 is step k, row 0 holds the input before
    goals     (N + 1, 12)
    stages    (N, ·)                   [A B] by rows of C columns, the cost's slope, the rows of its curvature that vary
    gains     (N + 1, m C + m)         K by rows (of x, then of the input before), then k

The nominal trajectory is one lane of one `tried`; the next eight go into the other, and the best of them is the next nominal
by a change of address.
"""

from functools import lru_cache
from time import perf_counter
from typing import Any, NamedTuple

import casadi
import numpy as np

from samara.arrays import flatten
from samara.backends.llvm_loop import Array, Loop, Loops, Pass, compile_loops
from samara.control.ilqr.columns import LANES, SUMS, Layout, compile_backward, layout_of, span
from samara.control.ilqr.cost import ANY_GOAL, Held, Kind, held_template
from samara.control.ilqr.model import STATE, TANGENT, Model
from samara.control.ilqr.search import Choice, choose
from samara.control.ilqr.trace import GOAL, SX, Linearised, entries, linearised, rollout_programs, traced

MOST_DAMPING = 1e6  # a step that brings nothing even so is none


class Code(NamedTuple):
    """The calls of an iteration, and where their arrays have what."""

    rollout: Loops
    derivatives: Loops
    backward: Loops
    choose: Loops
    constants: Loops
    layout: Layout
    literal: tuple[tuple[int, float], ...]  # numbers of a stage that never change


@lru_cache(maxsize=16)
def alone_code(model: Model, kind: Kind) -> Code:
    """The machine code for problems of a model and kind; horizon, goals and held numbers are arguments"""
    held = held_template(model, kind)
    trace = linearised(model, held)
    layout = layout_of(model, len(flatten(held)), trace)
    literal = tuple((i * layout.columns + j, number) for (i, j), number in trace.jacobian.literal.items())
    return Code(
        _compile_rollout(model, held, layout),
        _compile_derivatives(trace, layout),
        compile_backward(model, held, trace, layout),
        _compile_choose(),
        _compile_constants(trace, layout),
        layout,
        literal,
    )


def _compile_rollout(model: Model, held: Held, layout: Layout) -> Loops:
    """Eight rollouts, one for each step size"""
    m, step, programs = layout.m, layout.step, rollout_programs(model, held)
    x_at, u_before_at, u_at = layout.step, STATE * LANES, layout.step + STATE * LANES
    goal, numbers, cost = (
        Array("goals", span(0, GOAL), GOAL),
        Array("held", span(0, layout.held)),
        Array("cost", (0,), 0, 1),
    )
    state = Array("tried", span(x_at, STATE, LANES), step, 1)
    each = Pass(
        programs.step,
        (
            state,
            Array("tried", span(u_before_at, m, LANES), step, 1),
            Array("nominal", span(x_at, STATE, LANES), step),
            Array("nominal", span(u_before_at, m, LANES), step),
            Array("nominal", span(u_at, m, LANES), step),
            Array("gains", layout.gain_places(), layout.gains),
            Array("gains", span(m * layout.columns, m), layout.gains),
            Array("alpha", (0,), 0, 1),
            goal,
            numbers,
            cost,
        ),
        (
            Array("tried", span(u_at, m, LANES), step, 1),
            Array("tried", span(x_at + step, STATE, LANES), step, 1),
            cost,
        ),
        LANES,
    )
    first = Pass(
        programs.first,
        (Array("given", span(0, STATE)), Array("given", span(STATE, m))),
        (state, Array("tried", span(u_before_at, m, LANES), step, 1), cost),
        LANES,
    )
    last = Pass(programs.final, (state, goal, numbers, cost), (cost,), LANES)
    return compile_loops((Loop((first,), at="start"), Loop((each,)), Loop((last,), at="end")))


def _compile_derivatives(trace: Linearised, layout: Layout) -> Loops:
    """[A B], slope and curvature of eight steps of the horizon at a time"""
    own, m, step, stage = trace.symbols, layout.m, layout.step, layout.stage
    bends = {
        place: value
        for place, value in {**trace.curvature.held, **trace.curvature.varying}.items()
        if place[0] in layout.varying_rows
    }
    jacobian = casadi.vertcat(*trace.jacobian.varying.values())
    each = Pass(
        traced(list(own), [jacobian, trace.slope, casadi.vertcat(*bends.values())]),
        (
            Array("nominal", span(step, STATE, LANES), LANES * step, step),
            Array("nominal", span(step + STATE * LANES, m, LANES), LANES * step, step),
            Array("nominal", span(STATE * LANES, m, LANES), LANES * step, step),
            Array("goals", span(0, GOAL), LANES * GOAL, GOAL),
            Array("held", span(0, layout.held)),
        ),
        (
            Array("stages", tuple(i * layout.columns + j for i, j in trace.jacobian.varying), LANES * stage, stage),
            Array("stages", span(layout.slope, TANGENT + m), LANES * stage, stage),
            Array("stages", tuple(layout.bend(i) + j for i, j in bends), LANES * stage, stage),
        ),
        LANES,
    )
    return compile_loops((Loop((each,), tile=LANES),))


def _compile_choose() -> Loops:
    """Which of the eight rollouts is the next nominal trajectory"""
    costs, sizes = SX.sym("costs", LANES), SX.sym("sizes", LANES)
    cost, damping, tolerance, sums = SX.sym("cost"), SX.sym("damping"), SX.sym("tolerance"), SX.sym("sums", SUMS)
    linear, quadratic, _ = entries(sums)
    choice = choose(entries(costs), entries(sizes), cost, linear, quadratic, damping, tolerance)
    once = Pass(
        traced([costs, sizes, cost, damping, tolerance, sums], [casadi.vertcat(*choice), choice.cost, choice.damping]),
        (
            Array("cost", span(0, LANES)),
            Array("alpha", span(0, LANES)),
            Array("least", (0,)),
            Array("damping", (0,)),
            Array("tolerance", (0,)),
            Array("sums", span(0, SUMS)),
        ),
        (Array("choice", span(0, len(choice))), Array("least", (0,)), Array("damping", (0,))),
        1,
    )
    return compile_loops((Loop((once,), at="start"),))


def _compile_constants(trace: Linearised, layout: Layout) -> Loops:
    """The rows of the cost's curvature that only the weights decide"""
    held = {place: value for place, value in trace.curvature.held.items() if place[0] not in layout.varying_rows}
    once = Pass(
        traced([trace.symbols.held], [casadi.vertcat(*held.values())]),
        (Array("held", span(0, layout.held)),),
        (Array("bends", tuple(i * layout.columns + j for i, j in held)),),
        1,
    )
    return compile_loops((Loop((once,), at="start"),))


# The memory of one problem -----------------------------------------------------------------------------------------


def aligned(*shape: int, dtype: str = "float64") -> np.ndarray:
    """Zeros that begin where a cache line does"""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    raw = np.zeros(size + 64, dtype=np.uint8)
    start = -raw.ctypes.data % 64
    return raw[start : start + size].view(dtype).reshape(shape)


class Solution(NamedTuple):
    """What a run of iterations leaves; the trajectory itself is in the memory until the next run."""

    cost: float
    converged: bool
    passes: int
    costs: tuple[float, ...]
    steps: tuple[float, ...]
    gradient: float
    seconds: tuple[float, float, float]  # derivatives, backward passes, rollouts


class _Tables(NamedTuple):
    """The addresses of the tables of the three calls when one lane of one side is the nominal trajectory."""

    derivatives: int
    backward: int
    rollout: int


class Alone:
    """The arrays of one problem and the iterations on them. `goals` (N + 1, 12) and `push` (3,) are written before `run`."""

    def __init__(self, code: Code, horizon: int, held: Held, step_sizes: tuple[float, ...]) -> None:
        layout, m = code.layout, code.layout.m
        self.horizon, self.held, self._code = horizon, held, code
        rows = -(-horizon // LANES) * LANES + LANES  # derivatives are taken of whole tiles
        self._tried = aligned(2, rows + 2, STATE + m, LANES)
        self._start = aligned(rows + 2, STATE + m, LANES)
        self._goals = aligned(rows + 1, GOAL)
        self.goals = self._goals[: horizon + 1]
        self._gains, self._cost = aligned(horizon + 1, layout.gains), aligned(LANES)
        self._no_gains = aligned(horizon + 1, layout.gains)
        self._damping, self._sums = aligned(1), aligned(SUMS)
        self._alpha, self._blend = aligned(LANES), aligned(LANES)
        self._alpha[:] = [*step_sizes, *(step_sizes[-1],) * (LANES - len(step_sizes))]
        self._blend[1:] = 1.0
        for each in (self._tried[0], self._tried[1], self._start):
            each[:, 6] = 1.0  # attitudes, where nothing else was written yet
        stages, later, masks = aligned(rows, layout.stage), aligned(horizon), aligned(1 + m, layout.columns)
        for place, number in code.literal:
            stages[:, place] = number
        later[:-1] = held.weights.wSmooth
        masks[0, :TANGENT] = 1.0
        masks[1:, TANGENT : TANGENT + m] = np.eye(m)
        self._arrays = {
            "goals": self._goals,
            "stages": stages,
            "gains": self._gains,
            "scratch": aligned(layout.scratch),
            "later": later,
            "alpha": self._alpha,
            "cost": self._cost,
            "held": aligned(layout.held),
            "bends": aligned(layout.width, layout.columns),
            "masks": masks,
            "damping": self._damping,
            "sums": self._sums,
            "given": aligned(STATE + m),
            "least": aligned(1),
            "tolerance": aligned(1),
            "choice": aligned(len(Choice._fields)),
        }
        self._least, self._tolerance, self._choice = (self._arrays[name] for name in ("least", "tolerance", "choice"))
        self._given, self._hover = self._arrays["given"], np.array(held.hover_input)
        self._arrays["held"][:] = flatten(held)
        self.push = self._arrays["held"][-3:]
        self._tables: list[np.ndarray] = []
        code.constants.call(self._table(code.constants), 1)
        self._choose = self._table(code.choose)
        self._begin = self._table(
            code.rollout, tried=self._tried[0], nominal=self._start, alpha=self._blend, gains=self._no_gains
        )
        self._start_inputs = self._start[1 : horizon + 1, STATE:, 0]
        self._start_steps = self._no_gains[:horizon, m * layout.columns :]
        self._level, self._level_gains = aligned(rows + 2, STATE + m, LANES), aligned(horizon + 1, layout.gains)
        self._level[1:, STATE:] = self._hover[:, None]
        self._begin_level = self._table(
            code.rollout, tried=self._tried[0], nominal=self._level, gains=self._level_gains
        )
        self._ways = [[self._ways_from(side, lane) for lane in range(LANES)] for side in (0, 1)]
        self._side, self._lane = 0, 0
        self._learn_to_level()

    def _learn_to_level(self) -> None:
        """The feedback of tilt and turn at hover, from a backward pass there: what a cold start levels out with"""
        m, columns, code = self._code.layout.m, self._code.layout.columns, self._code
        self._goals[:] = flatten(ANY_GOAL)
        self._tried[0, :, STATE:] = self._hover[:, None]
        code.derivatives.call(self._ways[0][0].derivatives, self.horizon)
        code.backward.call(self._ways[0][0].backward, self.horizon)
        K = self._gains[0, : m * columns].reshape(m, columns)
        kept = self._level_gains[:, : m * columns].reshape(-1, m, columns)
        kept[:, :, 6:TANGENT] = K[:, 6:TANGENT]

    def _ways_from(self, side: int, lane: int) -> "_Tables":
        nominal = self._tried[side].reshape(-1)[lane:]
        return _Tables(
            self._table(self._code.derivatives, nominal=nominal),
            self._table(self._code.backward, nominal=nominal),
            self._table(self._code.rollout, nominal=nominal, tried=self._tried[1 - side]),
        )

    def _table(self, loops: Loops, **more: np.ndarray) -> int:
        """The address of a table of addresses"""
        arrays = {**self._arrays, **more}
        table = np.array([arrays[name].ctypes.data for name in loops.names], dtype=np.int64)
        self._tables.append(table)
        return int(table.ctypes.data)

    def begin(self, x: Any, before: Any, controls: np.ndarray) -> float:
        """The rollout under given controls, or under hover where that costs less; its cost, NaN if neither has one"""
        self._given[:STATE] = x
        self._given[STATE:] = before
        self._start_inputs[:] = controls
        np.subtract(self._hover, controls, out=self._start_steps)
        self._code.rollout.call(self._begin, self.horizon)
        own, level = self._cost[:2].tolist()
        self._side, self._lane = 0, 0 if own <= level else 1
        return own if own <= level else level

    def begin_cold(self, x: list[float], before: Any) -> float:
        """The rollout that levels out, nose where it is, under hover thrust: open-loop, what turns would tumble; its cost"""
        self._given[:STATE] = x
        self._given[STATE:] = before
        w, z = x[6], x[9]
        size = (w * w + z * z) ** 0.5
        self._level[:, 6], self._level[:, 9] = (w / size, z / size) if size > 1e-6 else (1.0, 0.0)
        self._code.rollout.call(self._begin_level, self.horizon)
        self._side, self._lane = 0, 0
        return float(self._cost[0])

    def run(self, cost: float, iterations: int, tolerance: float) -> Solution:
        """iLQR from the trajectory that `begin` left: derivatives, backward pass, rollouts, and the best of them

        Where none is accepted the derivatives stay, and the next backward pass has more damping.
        """
        code, n, nominal = self._code, self.horizon, self._ways[self._side][self._lane]
        self._least[0], self._damping[0], self._tolerance[0] = cost, 0.0, tolerance
        costs, steps, fresh, converged, passes = [cost], [], True, 0.0, 0
        in_derivatives = in_backward = in_rollouts = 0.0
        clock = perf_counter()
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
            accepted, index, alpha, cost, damping, converged = self._choice.tolist()
            fresh = accepted > 0.0
            if fresh:
                self._side, self._lane = 1 - self._side, int(index)
                nominal = self._ways[self._side][self._lane]
                costs.append(cost)
                steps.append(alpha)
            if converged or damping > MOST_DAMPING:
                break
        seconds = in_derivatives, in_backward, in_rollouts
        gradient = float(self._sums[2]) ** 0.5
        return Solution(cost, converged > 0.0, passes, tuple(costs), tuple(steps), gradient, seconds)

    @property
    def states(self) -> np.ndarray:
        """(N + 1, 13) of the nominal trajectory"""
        return self._tried[self._side, 1 : self.horizon + 2, :STATE, self._lane]

    @property
    def controls(self) -> np.ndarray:
        """(N, m) of the nominal trajectory"""
        return self._tried[self._side, 1 : self.horizon + 1, STATE:, self._lane]

    @property
    def level_gains(self) -> np.ndarray:
        """(m, 12 + m): the feedback that a cold start levels out with"""
        m, layout = self._code.layout.m, self._code.layout
        return self._level_gains[0, : m * layout.columns].reshape(m, layout.columns)[:, : layout.width]

    @property
    def gains(self) -> np.ndarray:
        """(N, m, 12): the feedback of the last backward pass"""
        m, columns = self._code.layout.m, self._code.layout.columns
        return self._gains[: self.horizon, : m * columns].reshape(self.horizon, m, columns)[:, :, :TANGENT]
