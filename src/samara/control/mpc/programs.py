"""Arrays of a solver in memory, and passes of compiled loops over them: rollouts and the choice among them.

Rows of an array are steps of the horizon; lanes are step sizes, columns of a matrix, or problems.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from samara.compiler.llvm.array_loop import ArraySpec, Loop, Loops, Pass
from samara.compiler.trace.program import program_of
from samara.control.mpc.derivatives import SUMS
from samara.control.mpc.iteration import Choice, choose
from samara.control.mpc.options import MAX_STEP_SIZES
from samara.control.mpc.problem import Problem, Tree, feedback, total
from samara.core.tree import flatten
from samara.core.types import Array

LANES = MAX_STEP_SIZES  # step sizes tried at once, and steps of the horizon linearised at once


class Rows(NamedTuple):
    """An array (steps, `row`, `width`): the numbers of a step, each in every lane. With `lane` 0 all lanes read the first."""

    name: str
    row: int
    width: int = 1
    lane: int = 0

    def _indices(self, count: int, first: int, later: int) -> tuple[int, ...]:
        start = (first + later * self.row) * self.width
        return tuple(range(start, start + count * self.width, self.width))

    def at(self, count: int, first: int = 0, later: int = 0) -> ArraySpec:
        """`count` numbers of a step, from the `first`, `later` steps ahead"""
        return ArraySpec(self.name, self._indices(count, first, later), self.row * self.width, self.lane)

    def tiled(self, count: int, first: int = 0, later: int = 0) -> ArraySpec:
        """The same with a step of the horizon in each lane"""
        step = self.row * self.width
        return ArraySpec(self.name, self._indices(count, first, later), LANES * step, step)

    def once(self, count: int = 1, first: int = 0) -> ArraySpec:
        """The same numbers at every step"""
        return ArraySpec(self.name, self._indices(count, first, 0), 0, self.lane)


def shared(name: str, count: int = 1) -> ArraySpec:
    """Numbers that are the same for every step and lane"""
    return Rows(name, count).once(count)


def indexed(name: str, indices: Array, step: int = 0, lane: int = 0) -> ArraySpec:
    """The numbers at these indices of an array"""
    return ArraySpec(name, tuple(np.ravel(indices).tolist()), step, lane)


def trace_pass(
    function: Callable[..., Tree],
    inputs: Sequence[ArraySpec | tuple[ArraySpec, Tree]],
    outputs: Sequence[ArraySpec],
    width: int = 1,
    when: ArraySpec | None = None,
) -> Pass:
    """Trace `function`, whose results fill the output arrays, one each

    Its arguments are the numbers of the input arrays: a tuple of scalars, or shaped like the template given with the array.
    """
    pairs = [(item, None) if isinstance(item, ArraySpec) else item for item in inputs]
    arrays = [array for array, _ in pairs]
    templates = [(0.0,) * len(array.places) if template is None else template for array, template in pairs]
    return Pass(program_of(function, *templates), tuple(arrays), tuple(outputs), width, when)


def copy_pass(source: ArraySpec, *targets: ArraySpec) -> Pass:
    """Copy numbers into other arrays."""
    return trace_pass(lambda numbers: (numbers,) * len(targets), (source,), targets)


def aligned(*shape: int, dtype: str = "float64") -> Array:
    """Return zeros that begin at a cache line."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    raw = np.zeros(size + 64, dtype=np.uint8)
    start = -raw.ctypes.data % 64
    return raw[start : start + size].view(dtype).reshape(shape)


class Memory:
    """Arrays of zeros by name, and tables of their addresses for compiled loops."""

    def __init__(self, dtype: str = "float64", **shapes: int | tuple[int, ...]) -> None:
        self.arrays = {
            name: aligned(*((shape,) if isinstance(shape, int) else shape), dtype=dtype)
            for name, shape in shapes.items()
        }
        self._referenced: list[object] = []  # compiled code holds addresses only

    def __getitem__(self, name: str) -> Array:
        return self.arrays[name]

    def extended(self, **others: Array) -> "Memory":
        """Return the same arrays with others; its tables live as long as it does."""
        both = Memory()
        both.arrays = {**self.arrays, **others}
        return both

    def table(self, loops: Loops, **replaced: Array) -> int:
        """Return the address of a table for these loops, with some arrays replaced or added."""
        arrays = {**self.arrays, **replaced}
        table = np.array([arrays[name].ctypes.data for name in loops.names], dtype=np.int64)
        self._referenced.append((table, replaced))
        return int(table.ctypes.data)


class RolloutArrays(NamedTuple):
    """Where rollouts are: `tried` in their lanes, from the state and previous input `given`, around a `nominal` trajectory."""

    tried: Rows
    nominal: Rows
    goals: Rows
    given: Rows
    gains: tuple[ArraySpec, ArraySpec]  # K by rows, k


def rollout_loops(problem: Problem, arrays: RolloutArrays) -> tuple[Loop, ...]:
    """Roll out the feedback around a nominal trajectory, x' = step(x, u), and sum up the cost."""
    size, (tried, nominal, goals, given, gains) = problem.sizes, arrays
    n, m, span = size.state, size.command, size.width
    state, previous = tried.at(n, later=1), tried.at(m, n)
    cost, alpha = (Rows(name, 1, tried.width, 1).once() for name in ("cost", "alpha"))
    goal, parameters = (goals.at(size.goal), problem.goal), (shared("parameters", size.parameters), problem.parameters)

    def step(*arguments: Tree) -> Tree:
        x, before, x_nominal, before_nominal, u_nominal, K, k, alpha, goal, parameters, cost = arguments
        off = [
            *flatten(problem.difference(x, x_nominal)),
            *(a - b for a, b in zip(before, before_nominal, strict=True)),
        ]
        rows = [K[a * span : (a + 1) * span] for a in range(m)]
        u = tuple(feedback(u_nominal, k, rows, off, alpha, problem.limits(parameters)))
        residuals = problem.stage_residuals(x, u, before, goal, parameters)
        return u, problem.step(x, u, parameters), cost + total(residuals)

    each = trace_pass(
        step,
        (
            (state, problem.state),
            previous,
            (nominal.at(n, later=1), problem.state),
            nominal.at(m, n),
            nominal.at(m, n, later=1),
            *gains,
            (alpha, 0.0),
            goal,
            parameters,
            (cost, 0.0),
        ),
        (tried.at(m, n, later=1), tried.at(n, later=2), cost),
        tried.width,
    )
    first = trace_pass(
        lambda x, before: (x, before, 0.0), (given.once(n), given.once(m, n)), (state, previous, cost), tried.width
    )
    last = trace_pass(
        lambda x, goal, parameters, cost: (cost + total(problem.final(x, goal, parameters)),),
        ((state, problem.state), goal, parameters, (cost, 0.0)),
        (cost,),
        tried.width,
    )
    return Loop((first,), at="start"), Loop((each,)), Loop((last,), at="end")


def choose_loops(costs: ArraySpec, sizes: ArraySpec, width: int) -> tuple[Loop, ...]:
    """Choose the rollout that is the next nominal trajectory."""
    least, damping = (Rows(name, 1, width, 1).once() for name in ("least", "damping"))
    sums, fields = Rows("sums", SUMS, width, 1).once(SUMS), len(Choice._fields)

    def chosen(costs: Tree, sizes: Tree, cost: Tree, damping: Tree, tolerance: Tree, sums: Tree) -> Tree:
        choice = choose(costs, sizes, cost, sums[0], sums[1], damping, tolerance)
        return choice, choice.cost, choice.damping

    scalars = ((least, 0.0), (damping, 0.0), (shared("tolerance"), 0.0))
    outputs = (Rows("choice", fields, width, 1).once(fields), least, damping)
    return (Loop((trace_pass(chosen, (costs, sizes, *scalars, sums), outputs, width),), at="start"),)
