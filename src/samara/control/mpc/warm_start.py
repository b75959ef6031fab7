"""The plans of n drones that share one solver, by machine code: what each keeps of its solution, and begins the next from.

    u ← u_k (1 − part) + part u_{k+1}

The inputs some seconds later, straight between steps; the last one is held. In strict IEEE, as NumPy rounds it.
"""

from functools import lru_cache
from typing import Any, NamedTuple

import casadi
import numpy as np

from samara.compiler.llvm.array_loop import Call, Loop, Loops, Pass, compile_loops
from samara.control.mpc.buffers import LANES, Rows, shared
from samara.control.mpc.derivatives import SX, entries, traced
from samara.control.mpc.problem import Problem
from samara.control.mpc.solver import Solver, solver_code
from samara.core.ops import where
from samara.core.quantity import Scalar
from samara.core.types import Array

SHOWN = 3  # of a state's numbers: the position


def shift_of(seconds: float, dt: float, horizon: int) -> tuple[int, float]:
    """A time in whole steps and the part of one"""
    steps = min(int(seconds / dt), horizon)
    return steps, seconds / dt - steps


def interpolate(u: Scalar, later: Scalar, part: Scalar) -> Scalar:
    """u (1 − part) + part u_later"""
    return where(part > 0.0, u * (1.0 - part) + part * later, u)


def shift_inputs(controls: Any, steps: int, part: float) -> Any:
    """Return the inputs (N, …) of NumPy or JAX `steps` and a `part` of one step later; the last one is held."""
    at, last = np.arange(len(controls)) + steps, len(controls) - 1
    return interpolate(controls[np.minimum(at, last)], controls[np.minimum(at + 1, last)], part)


class _Code(NamedTuple):
    begin: Loops
    keep: Loops


@lru_cache(maxsize=16)
def _code(problem: Problem, held: int, drones: int) -> _Code:
    """For plans whose last input is there so many times more; what is shown of so many drones lies side by side"""
    n, m, layout = problem.sizes.state, problem.sizes.command, solver_code(problem).layout
    plan, before, start = Rows("plan", m), shared("before", m), Rows("start", problem.sizes.step, LANES)
    nominal, steps = layout.nominal, Rows("start_gains", layout.gains).at(m, m * layout.columns)
    u, later, level, part = SX.sym("u", m), SX.sym("later", m), SX.sym("level", m), SX.sym("part")
    mixed = casadi.vertcat(*(interpolate(a, b, part) for a, b in zip(entries(u), entries(later), strict=True)))
    shifted = Pass(
        traced([u, later, level, part], [mixed, level - mixed]),
        (plan.at(m), plan.at(m, later=1), shared("level", m), shared("part")),
        (start.at(m, n, later=1), steps),
        1,
    )
    position = SX.sym("p", SHOWN)
    shown = Rows("shown", SHOWN, drones).at(SHOWN)
    each = Pass(
        traced([position, u], [position, u]),
        (nominal.at(SHOWN, later=1), nominal.at(m, n, later=1)),
        (shown, plan.at(m)),
        1,
    )
    last = Pass(
        traced([position, u], [position, *(u,) * held]),
        (nominal.at(SHOWN, later=1), nominal.at(m, n)),
        (shown, *(plan.at(m, later=k) for k in range(held))),
        1,
    )
    given = Pass(traced([u], [u]), (before,), (Rows("given", problem.sizes.step).once(m, n),), 1)
    first = Pass(traced([u], [u]), (nominal.at(m, n, later=1),), (before,), 1)
    return _Code(
        compile_loops((Loop((given,), at="start"), Loop((shifted,))), fast=False),
        compile_loops((Loop((first,), at="start"), Loop((each,)), Loop((last,), at="end")), fast=False),
    )


class Plans:
    """For each of n drones: `before` (n, m), the input just given, and `shown` (N + 1, 3, n), where it plans to be."""

    def __init__(self, solver: Solver, n: int, shift: tuple[int, float]) -> None:
        problem, horizon, (self._steps, part) = solver.problem, solver.horizon, shift
        self._solver, self._code = solver, _code(problem, 1 + self._steps, n)
        level = np.array(problem.command)
        self._memory = solver.memory(level=level, part=np.array([part]))
        self._inputs = np.tile(level, (n, horizon + 1 + self._steps, 1))
        self.before, self.shown = np.tile(level, (n, 1)), np.full((horizon + 1, SHOWN, n), np.nan)

    def call_to_begin(self, drone: int) -> Call:
        """Gives the solver the drone's inputs, shifted, to begin with, and the one before them"""
        own = {"plan": self._inputs[drone, self._steps :], "before": self.before[drone]}
        return self._code.begin, self._memory.table(self._code.begin, **own), self._solver.horizon

    def call_to_keep(self, drone: int) -> Call:
        """Takes over what the solver has found; for as long as its `found` is the same"""
        own = {"plan": self._inputs[drone], "before": self.before[drone], "shown": self.shown.reshape(-1)[drone:]}
        table = self._memory.table(self._code.keep, nominal=self._solver.nominal, **own)
        return self._code.keep, table, self._solver.horizon

    def inputs(self, drone: int) -> Array:
        """(N, m): of the last solution, a copy"""
        return self._inputs[drone, : self._solver.horizon].copy()

    def put(self, drone: int, controls: Array, states: Array) -> None:
        """A solution that was found elsewhere"""
        self._inputs[drone, : len(controls)], self._inputs[drone, len(controls) :] = controls, controls[-1]
        self.before[drone], self.shown[:, :, drone] = controls[0], states[:, :SHOWN]
