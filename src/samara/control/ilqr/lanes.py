"""iLQR for many problems on the CPU: one problem in each lane of the vector registers, tile after tile.

The programs are those of a single problem (`trace`), the stage of the backward pass is traced whole, with all the zeros of
[A B] left out. Arrays are (step, number, lane); a tile's stay in the cache from its first iteration to its last.
"""

from functools import lru_cache
from typing import Any, NamedTuple

import casadi
import numpy as np

from samara.algebra import ZERO
from samara.arrays import flatten, unflatten
from samara.backends.llvm_kernel import vector_width
from samara.backends.llvm_loop import Array, Loop, Loops, Pass, compile_loops
from samara.control.ilqr.backward import smoothing, stage
from samara.control.ilqr.columns import SUMS, span
from samara.control.ilqr.cost import Held, Kind, held_template
from samara.control.ilqr.goals import SHAPING, TARGET, WAY
from samara.control.ilqr.model import STATE, TANGENT, Model
from samara.control.ilqr.reference import Shaping, Target, Way, shaped_step
from samara.control.ilqr.search import Choice, choose
from samara.control.ilqr.solver import aligned
from samara.control.ilqr.trace import (
    GOAL,
    SX,
    Linearised,
    as_held,
    column,
    entries,
    linearised,
    rollout_programs,
    traced,
)

BELOW = tuple((i, j) for i in range(TANGENT) for j in range(i + 1))  # V, which is symmetric


class LaneCode(NamedTuple):
    """The calls of a tile, and how many numbers a stage has."""

    goals: Loops
    rollout: Loops
    derivatives: Loops
    backward: Loops
    choose: Loops
    width: int
    stage: int
    gains: int
    held: int
    sizes: int


class _Lanes:
    """Arrays of one width: numbers of a step side by side, each a vector long."""

    def __init__(self, width: int) -> None:
        self.width = width

    def each(self, name: str, count: int, first: int = 0, row: int | None = None, later: int = 0) -> Array:
        """`count` numbers of a step, from the first; a step has `row` of them in all; so many steps later"""
        whole = count if row is None else row
        return Array(name, span((first + later * whole) * self.width, count, self.width), whole * self.width, 1)

    def once(self, name: str, count: int, first: int = 0) -> Array:
        """The same at every step"""
        return Array(name, span(first * self.width, count, self.width), 0, 1)


@lru_cache(maxsize=8)
def lane_code(model: Model, kind: Kind, dtype: str, sizes: int) -> LaneCode:
    """The machine code for tiles of problems of a model and kind, with so many step sizes"""
    held, lanes = held_template(model, kind), _Lanes(vector_width(dtype))
    trace, m, numbers = linearised(model, held), model.inputs, len(flatten(held))
    bends = {(i, j): value for (i, j), value in trace.curvature.varying.items() if j <= i}
    stage_size = len(trace.jacobian.varying) + TANGENT + m + len(bends)
    loops = (
        _goals(model, lanes),
        _rollout(model, held, lanes, numbers),
        _derivatives(trace, bends, lanes, numbers, m, stage_size),
        _backward(trace, held, bends, lanes, numbers, m, stage_size),
        _choose(lanes, sizes),
    )
    goals, rollout, derivatives, backward, choice = (compile_loops(own, dtype) for own in loops)
    return LaneCode(
        goals, rollout, derivatives, backward, choice, lanes.width, stage_size, m * (TANGENT + m) + m, numbers, sizes
    )


def _goals(model: Model, lanes: _Lanes) -> tuple[Loop, ...]:
    symbols = [SX.sym("way", WAY), SX.sym("target", TARGET), SX.sym("shaping", SHAPING)]
    templates = (Way(ZERO, ZERO), Target(ZERO, ZERO, 0.0), Shaping())
    own = [unflatten(template, iter(entries(x))) for template, x in zip(templates, symbols, strict=True)]
    way, goal = shaped_step(own[0], own[1], own[2], model)
    arrays = (lanes.once("way", WAY), lanes.once("target", TARGET), Array("shaping", span(0, SHAPING)))
    outputs = (lanes.each("goals", GOAL), arrays[0])
    return (Loop((Pass(traced(symbols, [column(goal), column(way)]), arrays, outputs, lanes.width),)),)


def _rollout(model: Model, held: Held, lanes: _Lanes, numbers: int) -> tuple[Loop, ...]:
    m, programs = model.inputs, rollout_programs(model, held)
    row, K = STATE + m, m * (TANGENT + m)
    x, before = lanes.each("tried", STATE, 0, row, later=1), lanes.each("tried", m, STATE, row)
    goal, held_array, cost = lanes.each("goals", GOAL), Array("held", span(0, numbers)), lanes.once("cost", 1)
    each = Pass(
        programs.step,
        (
            x,
            before,
            lanes.each("nominal", STATE, 0, row, later=1),
            lanes.each("nominal", m, STATE, row),
            lanes.each("nominal", m, STATE, row, later=1),
            lanes.each("gains", K, 0, K + m),
            lanes.each("gains", m, K, K + m),
            lanes.once("alpha", 1),
            goal,
            held_array,
            cost,
        ),
        (lanes.each("tried", m, STATE, row, later=1), lanes.each("tried", STATE, 0, row, later=2), cost),
        lanes.width,
    )
    first = Pass(
        programs.first, (lanes.once("given", STATE), lanes.once("given", m, STATE)), (x, before, cost), lanes.width
    )
    last = Pass(programs.final, (x, goal, held_array, cost), (cost,), lanes.width)
    return Loop((first,), at="start"), Loop((each,)), Loop((last,), at="end")


def _derivatives(
    trace: Linearised, bends: dict[tuple[int, int], Any], lanes: _Lanes, numbers: int, m: int, size: int
) -> tuple[Loop, ...]:
    row = STATE + m
    results = casadi.vertcat(*trace.jacobian.varying.values(), trace.slope, *bends.values())
    each = Pass(
        traced(list(trace.symbols), [results]),
        (
            lanes.each("nominal", STATE, 0, row, later=1),
            lanes.each("nominal", m, STATE, row, later=1),
            lanes.each("nominal", m, STATE, row),
            lanes.each("goals", GOAL),
            Array("held", span(0, numbers)),
        ),
        (lanes.each("stages", size),),
        lanes.width,
    )
    return (Loop((each,)),)


def _backward(
    trace: Linearised,
    held: Held,
    bends: dict[tuple[int, int], Any],
    lanes: _Lanes,
    numbers: int,
    m: int,
    size: int,
) -> tuple[Loop, ...]:
    own, n, row, K = trace.symbols, TANGENT, STATE + m, m * (TANGENT + m)
    below, v = SX.sym("V", len(BELOW)), SX.sym("v", n)
    V = _symmetric(dict(zip(BELOW, entries(below), strict=True)), n)
    stored = iter(entries(given := SX.sym("stage", size)))
    M = trace.jacobian.matrix([next(stored) for _ in trace.jacobian.varying])
    slope = casadi.vertcat(*(next(stored) for _ in range(n + m)))
    H = _symmetric({**trace.curvature.held, **dict(zip(bends, stored, strict=True))}, n + m)
    damping, sums, later = SX.sym("damping"), SX.sym("sums", SUMS), SX.sym("later")
    next_gains, next_u = SX.sym("gains", K + m), SX.sym("u_next", m)
    rows = casadi.reshape(next_gains[:K], n + m, m).T
    held_numbers = as_held(own.held, held)
    smooth = held.weights.wSmooth != 0.0
    before = [[rows[a, n + b] for b in range(m)] for a in range(m)]
    change = smoothing(later, rows[:, :n], before, entries(next_gains[K:]), entries(own.u), entries(next_u))
    low, high = ([limit[a] - own.u[a] for a in range(m)] for limit in (held_numbers.low, held_numbers.high))
    found = stage(
        V,
        v,
        M,
        H,
        slope,
        low,
        high,
        damping,
        change if smooth else None,
        SX.eye(m) * -held_numbers.weights.wSmooth,
        lambda rows: casadi.vertcat(*rows),
        casadi.horzcat,
    )
    by_rows = casadi.vertcat(*(found.gains[a, :].T for a in range(m)), *found.box.step)
    each = Pass(
        traced(
            [below, v, given, own.held, damping, sums, own.u, next_u, next_gains, later],
            [
                casadi.vertcat(*(found.V[i, j] for i, j in BELOW)),
                found.v,
                by_rows,
                sums + casadi.vertcat(found.box.linear, found.box.quadratic, found.box.gradient),
            ],
        ),
        (
            lanes.once("V", len(BELOW)),
            lanes.once("v", n),
            lanes.each("stages", size),
            Array("held", span(0, numbers)),
            lanes.once("damping", 1),
            lanes.once("sums", SUMS),
            lanes.each("nominal", m, STATE, row, later=1),
            lanes.each("nominal", m, STATE, row, later=2),
            lanes.each("gains", K + m, later=1),
            Array("later", (0,), 1),
        ),
        (lanes.once("V", len(BELOW)), lanes.once("v", n), lanes.each("gains", K + m), lanes.once("sums", SUMS)),
        lanes.width,
    )
    final = Pass(
        traced(
            [own.x, own.goal, own.held],
            [casadi.vertcat(*(trace.final_curvature[i, j] for i, j in BELOW)), trace.final_slope, SX.zeros(SUMS)],
        ),
        (lanes.each("nominal", STATE, 0, row, later=1), lanes.each("goals", GOAL), Array("held", span(0, numbers))),
        (lanes.once("V", len(BELOW)), lanes.once("v", n), lanes.once("sums", SUMS)),
        lanes.width,
    )
    return Loop((final,), at="end"), Loop((each,), reverse=True)


def _symmetric(found: dict[tuple[int, int], Any], size: int) -> Any:
    matrix = SX(size, size)
    for (i, j), value in found.items():
        matrix[i, j] = matrix[j, i] = value
    return matrix


def _choose(lanes: _Lanes, sizes: int) -> tuple[Loop, ...]:
    costs, tried, sums = SX.sym("costs", sizes), SX.sym("sizes", sizes), SX.sym("sums", SUMS)
    cost, damping, tolerance = SX.sym("cost"), SX.sym("damping"), SX.sym("tolerance")
    linear, quadratic, _ = entries(sums)
    choice = choose(entries(costs), entries(tried), cost, linear, quadratic, damping, tolerance)
    once = Pass(
        traced(
            [costs, tried, cost, damping, tolerance, sums],
            [casadi.vertcat(*choice), choice.cost, choice.damping, choice.alpha],
        ),
        (
            lanes.once("costs", sizes),
            Array("sizes", span(0, sizes)),
            lanes.once("least", 1),
            lanes.once("damping", 1),
            Array("tolerance", (0,)),
            lanes.once("sums", SUMS),
        ),
        (
            lanes.once("choice", len(choice)),
            lanes.once("least", 1),
            lanes.once("damping", 1),
            lanes.once("chosen", 1),
        ),
        lanes.width,
    )
    return (Loop((once,), at="start"),)


# A tile ------------------------------------------------------------------------------------------------------------


class Tile:
    """The memory of one tile of problems and the iterations on it. `load` them, then `run`."""

    def __init__(
        self,
        code: LaneCode,
        horizon: int,
        held: Held,
        shaping: Shaping,
        step_sizes: tuple[float, ...],
        level_gains: np.ndarray,
        dtype: str,
    ) -> None:
        m, width = len(held.hover_input), code.width
        self.code, self.horizon, self._m = code, horizon, m
        row = STATE + m

        def zeros(*shape: int) -> np.ndarray:
            return aligned(*shape, dtype=dtype)

        self._tried = zeros(2, horizon + 2, row, width)
        self._start = zeros(horizon + 2, row, width)
        self._tried[:, :, 6] = self._start[:, 6] = 1.0
        self._alphas, self._costs = zeros(code.sizes + 1, width), zeros(code.sizes, width)
        self._alphas[: code.sizes] = np.array(step_sizes)[:, None]
        later = zeros(horizon)
        later[:-1] = held.weights.wSmooth
        self._arrays = {
            "given": zeros(row, width),
            "goals": zeros(horizon + 1, GOAL, width),
            "way": zeros(WAY, width),
            "target": zeros(TARGET, width),
            "shaping": zeros(SHAPING),
            "held": zeros(code.held),
            "stages": zeros(horizon, code.stage, width),
            "gains": zeros(horizon + 1, code.gains, width),
            "later": later,
            "V": zeros(len(BELOW), width),
            "v": zeros(TANGENT, width),
            "sums": zeros(SUMS, width),
            "damping": zeros(1, width),
            "least": zeros(1, width),
            "tolerance": zeros(1),
            "sizes": zeros(code.sizes),
            "costs": self._costs,
            "cost": zeros(1, width),
            "alpha": zeros(1, width),
            "chosen": self._alphas[code.sizes :],
            "choice": zeros(len(Choice._fields), width),
        }
        self._arrays["shaping"][:], self._arrays["held"][:] = shaping, flatten(held)
        self._arrays["sizes"][:] = step_sizes
        self._given, self._target = self._arrays["given"], self._arrays["target"]
        self._inputs = self._start[1 : horizon + 1, STATE:]  # (N, m, width)
        self._level_gains, self._no_gains = zeros(horizon + 1, code.gains, width), zeros(horizon + 1, code.gains, width)
        self._level_gains[:, : level_gains.size] = level_gains.reshape(-1)[:, None]
        self._tables: list[np.ndarray] = []
        self._set_goals, self._choose = self._table(code.goals), self._table(code.choose)
        self._begin = self._table(code.rollout, tried=self._tried[0], nominal=self._start, gains=self._no_gains)
        self._begin_level = self._table(
            code.rollout, tried=self._tried[0], nominal=self._start, gains=self._level_gains
        )
        self._ways = [self._ways_from(side) for side in (0, 1)]
        self._side = 0

    def _table(self, loops: Loops, **more: np.ndarray) -> int:
        arrays = {**self._arrays, **more}
        table = np.array([arrays[name].ctypes.data for name in loops.names], dtype=np.int64)
        self._tables.append(table)
        return int(table.ctypes.data)

    def _ways_from(self, side: int) -> tuple[int, int, list[int]]:
        """Tables of derivatives, backward pass, and a rollout for each step size and for the one chosen"""
        nominal, tried = self._tried[side], self._tried[1 - side]
        rollouts = [
            self._table(self.code.rollout, nominal=nominal, tried=tried, alpha=alpha, cost=cost)
            for alpha, cost in zip(self._alphas, (*self._costs, self._arrays["cost"]), strict=True)
        ]
        code = self.code
        return self._table(code.derivatives, nominal=nominal), self._table(code.backward, nominal=nominal), rollouts

    def load(self, states: Any, targets: Any, yaw: Any, before: Any, inputs: Any) -> None:
        """Problems for as many lanes as there are, and the shaped way from each state to its target

        Lanes that are left over keep what they had: nobody reads them.
        """
        lanes = slice(0, states.shape[1])
        self._given[:STATE, lanes], self._given[STATE:, lanes] = states, before
        self._target[:3, lanes], self._target[3:6, lanes], self._target[6, lanes] = targets, states[:3], yaw
        self._inputs[..., lanes] = inputs
        self._arrays["way"][:] = self._given[:WAY]
        self.code.goals.call(self._set_goals, self.horizon + 1)

    def run(self, iterations: int, tolerance: float, level: bool) -> None:
        """iLQR from the inputs given; a cold start levels out around them first"""
        code, n, arrays = self.code, self.horizon, self._arrays
        if level:
            w, z = self._given[6], self._given[9]
            size = np.hypot(w, z)
            sound = size > 1e-6
            size = np.where(sound, size, 1.0)
            self._start[:, 6], self._start[:, 9] = np.where(sound, w / size, 1.0), np.where(sound, z / size, 0.0)
        code.rollout.call(self._begin_level if level else self._begin, n)
        arrays["least"][:], arrays["damping"][:], arrays["tolerance"][:] = arrays["cost"], 0.0, tolerance
        self._side = 0
        for _ in range(iterations):
            derivatives, backward, rollouts = self._ways[self._side]
            code.derivatives.call(derivatives, n)
            code.backward.call(backward, n)
            for rollout in rollouts[:-1]:
                code.rollout.call(rollout, n)
            code.choose.call(self._choose, 1)
            code.rollout.call(rollouts[-1], n)
            self._side = 1 - self._side

    @property
    def states(self) -> np.ndarray:
        """(N + 1, 13, width)"""
        return self._tried[self._side, 1:, :STATE]

    @property
    def controls(self) -> np.ndarray:
        """(N, m, width)"""
        return self._tried[self._side, 1:-1, STATE:]

    @property
    def cost(self) -> np.ndarray:
        return self._arrays["least"][0]

    @property
    def converged(self) -> np.ndarray:
        return self._arrays["choice"][Choice._fields.index("converged")] > 0.0
