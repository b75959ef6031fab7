"""The programs of iLQR: the derivatives of a problem along a trajectory, and passes of compiled loops over arrays in memory.

An entry of a matrix is a literal, or depends on the parameters (weights) alone, or changes from step to step. `Pattern`
separates them, so that each is computed and stored only as often as it changes. Rows of an array are steps of the horizon;
lanes are step sizes, columns of a matrix, or problems.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from samara.compiler.llvm.array_loop import ArrayLoop, ArraySpec, CompiledLoops, Pass
from samara.compiler.trace.folding_tape import trace_program
from samara.compiler.trace.program import Program
from samara.compiler.trace.symbolic import depends_on, jacobian, program_from_symbols, substitute, symbols
from samara.control.mpc.iteration import RolloutChoice, choose_rollout
from samara.control.mpc.options import MAX_STEP_SIZES
from samara.control.mpc.problem import Problem, Residuals, Scalars, Tree, apply_feedback, is_zero, total_cost
from samara.core.quantity import Scalar
from samara.core.tree import flatten, unflatten
from samara.core.types import Array

SUM_COUNT = 3  # qᵀk, kᵀQk and |q|² over the horizon

MatrixIndex = tuple[int, int]


class Pattern(NamedTuple):
    """The nonzero entries of a matrix by (row, column): those equal at every step, and those that vary."""

    shape: tuple[int, int]
    constant: dict[MatrixIndex, Scalar]
    varying: dict[MatrixIndex, Scalar]

    def matrix(self, varying: Scalars) -> Array:
        """Return the matrix of traced scalars: `varying` for its varying entries, in order, and the constants for the
        others."""
        matrix = np.zeros(self.shape, dtype=object)
        for place, entry in (*self.constant.items(), *zip(self.varying, varying, strict=True)):
            matrix[place] = entry
        return matrix


class Linearisation(NamedTuple):
    """[A B] of one step, gradient and Gauss–Newton Hessian of its cost by (δx, u); and those of the end by δx.

    `symbols` are x, u, the previous input, goal and parameters.
    """

    symbols: list[list[Scalar]]
    jacobian: Pattern
    slope: Scalars
    curvature: Pattern
    final_slope: Scalars
    final_curvature: dict[MatrixIndex, Scalar]
    is_smooth: bool  # whether the change of the inputs has a weight

    def step_program(self, places: Sequence[MatrixIndex]) -> Program:
        """(x, u, u₋, goal, parameters) → the varying entries of [A B], the gradient, and the entries of the Hessian at
        `places`."""
        curvature = {**self.curvature.constant, **self.curvature.varying}
        results = ([*self.jacobian.varying.values()], self.slope, [curvature[place] for place in places])
        return program_from_symbols(self.symbols, results)

    def constants_program(self, places: Sequence[MatrixIndex]) -> Program:
        """(parameters) → the constant entries of the Hessian at `places`."""
        return program_from_symbols(self.symbols[-1:], [[self.curvature.constant[place] for place in places]])

    def end_program(self) -> Program:
        """(x, goal, parameters) → V below its diagonal, v, and sums of 0."""
        x, _, _, goal, parameters = self.symbols
        V = [self.final_curvature.get(place, 0.0) for place in below_diagonal(len(self.final_slope))]
        return program_from_symbols([x, goal, parameters], [V, self.final_slope, [0.0] * SUM_COUNT])


def below_diagonal(size: int) -> list[MatrixIndex]:
    """Return the indices of the stored entries of a symmetric matrix."""
    return [(i, j) for i in range(size) for j in range(i + 1)]


def linearise(problem: Problem) -> Linearisation:
    """Return the exact derivatives of one step by (δx, δu) at 0, and the Gauss–Newton Hessian Σ w ∇r ∇rᵀ of the cost."""
    sizes, n = problem.sizes, problem.sizes.tangent
    templates = (problem.state, problem.command, problem.command, problem.goal, problem.parameters)
    *vectors, delta = symbols(*(len(flatten(template)) for template in templates), sizes.width)
    x, u, previous, goal, parameters = (
        unflatten(template, iter(vector)) for template, vector in zip(templates, vectors, strict=True)
    )
    displaced = problem.displace(x, unflatten(problem.tangent, iter(delta[:n])))
    displaced_u = tuple(a + b for a, b in zip(u, delta[n:], strict=True))
    next_displaced, next_nominal = problem.step(displaced, displaced_u, parameters), problem.step(x, u, parameters)
    residuals = problem.stage_residuals(displaced, displaced_u, previous, goal, parameters)
    _require_sizes(problem, len(flatten(next_displaced)), *map(len, problem.limits(parameters)))
    slope, curvature = _gauss_newton(residuals, delta)
    final_slope, final_curvature = _gauss_newton(problem.final(displaced, goal, parameters), delta)
    entries = jacobian(
        flatten(problem.difference(next_displaced, next_nominal)), delta, values=dict.fromkeys(range(sizes.width), 0.0)
    )
    return Linearisation(
        vectors,
        _sort_entries((n, sizes.width), entries, [leaf for vector in vectors for leaf in vector]),
        slope,
        _sort_entries((sizes.width, sizes.width), curvature, [leaf for vector in vectors[:-1] for leaf in vector]),
        final_slope[:n],
        {place: entry for place, entry in final_curvature.items() if max(place) < n},
        not is_zero(problem.smoothing(parameters)),
    )


def _require_sizes(problem: Problem, state: int, low: int, high: int) -> None:
    expected = problem.sizes
    if state != expected.state:
        raise ValueError(f"the problem's step gives {state} numbers; expected the {expected.state} of its state")
    if not low == high == expected.command:
        raise ValueError(f"the problem's limits are {low} and {high} numbers; expected {expected.command} of each")


def _gauss_newton(residuals: Residuals, delta: list[Scalar]) -> tuple[list[Scalar], dict[MatrixIndex, Scalar]]:
    """Σ w r ∇r and the entries of Σ w ∇r ∇rᵀ by δ at 0, column by column"""
    if any(not isinstance(residual, tuple) or len(residual) != 2 for residual in residuals):
        raise ValueError("a residual is not a pair: expected (weight, residual), each of which costs ½ w r²")
    zeros, weighted = [0.0] * len(delta), [(w, r) for w, r in residuals if not is_zero(w)]
    if not weighted:
        return zeros, {}
    r = [residual for _, residual in weighted]
    gradients, weighted_gradients = (np.zeros((len(r), len(delta)), dtype=object) for _ in range(2))
    for (i, j), entry in jacobian(r, delta, values=dict(enumerate(zeros))).items():
        gradients[i, j], weighted_gradients[i, j] = entry, weighted[i][0] * entry
    columns = substitute(list((weighted_gradients.T @ gradients).T.ravel()), delta, zeros)
    places = [(i, j) for j in range(len(delta)) for i in range(len(delta))]
    slope = substitute(list(weighted_gradients.T @ np.array(substitute(r, delta, zeros), dtype=object)), delta, zeros)
    return slope, dict(zip(places, columns, strict=True))


def _sort_entries(shape: tuple[int, int], entries: dict[MatrixIndex, Scalar], step: list[Scalar]) -> Pattern:
    """Sort the nonzero entries by whether they depend on the symbols of a step."""
    pattern = Pattern(shape, {}, {})
    for place, entry in entries.items():
        if not is_zero(entry):
            (pattern.varying if depends_on(entry, step) else pattern.constant)[place] = entry
    return pattern


LANES = MAX_STEP_SIZES  # step sizes tried at once, and steps of the horizon linearised at once


class StepArray(NamedTuple):
    """An array (steps, `row`, `width`): the values of a step in every lane. With `lane` 0 all lanes read the first."""

    name: str
    row: int
    width: int = 1
    lane: int = 0

    def _indices(self, count: int, first: int, later: int) -> tuple[int, ...]:
        start = (first + later * self.row) * self.width
        return tuple(range(start, start + count * self.width, self.width))

    def step_values(self, count: int, first: int = 0, later: int = 0) -> ArraySpec:
        """`count` values of a step, from index `first`, `later` steps ahead"""
        return ArraySpec(self.name, self._indices(count, first, later), self.row * self.width, self.lane)

    def lane_values(self, count: int, first: int = 0, later: int = 0) -> ArraySpec:
        """`count` values of a step, with one step of the horizon per lane"""
        step = self.row * self.width
        return ArraySpec(self.name, self._indices(count, first, later), LANES * step, step)

    def fixed_values(self, count: int = 1, first: int = 0) -> ArraySpec:
        """The same values at every step"""
        return ArraySpec(self.name, self._indices(count, first, 0), 0, self.lane)


def shared_spec(name: str, count: int = 1) -> ArraySpec:
    """Specify values that are the same for every step and lane."""
    return StepArray(name, count).fixed_values(count)


def index_spec(name: str, indices: Array, step: int = 0, lane: int = 0) -> ArraySpec:
    """Specify the values at these indices of an array."""
    return ArraySpec(name, tuple(np.ravel(indices).tolist()), step, lane)


def trace_pass(
    function: Callable[..., Tree],
    inputs: Sequence[ArraySpec | tuple[ArraySpec, Tree]],
    outputs: Sequence[ArraySpec],
    width: int = 1,
    when: ArraySpec | None = None,
) -> Pass:
    """Trace `function`, whose results fill the output arrays, one each.

    Its arguments are the values of the input arrays: a tuple of scalars, or shaped like the template given with the array.
    """
    pairs = [(item, None) if isinstance(item, ArraySpec) else item for item in inputs]
    arrays = [array for array, _ in pairs]
    templates = [(0.0,) * len(array.offsets) if template is None else template for array, template in pairs]
    return Pass(trace_program(function, *templates), tuple(arrays), tuple(outputs), width, when)


def copy_pass(source: ArraySpec, *targets: ArraySpec) -> Pass:
    """Copy values into other arrays."""
    return trace_pass(lambda values: (values,) * len(targets), (source,), targets)


def aligned_zeros(*shape: int, dtype: str = "float64") -> Array:
    """Return an array of zeros that begins at a cache line."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    raw = np.zeros(size + 64, dtype=np.uint8)
    start = -raw.ctypes.data % 64
    return raw[start : start + size].view(dtype).reshape(shape)


class Arrays:
    """Arrays of zeros by name, and tables of their addresses for compiled loops."""

    def __init__(self, dtype: str = "float64", **shapes: int | tuple[int, ...]) -> None:
        self.arrays = {
            name: aligned_zeros(*((shape,) if isinstance(shape, int) else shape), dtype=dtype)
            for name, shape in shapes.items()
        }
        self._referenced: list[object] = []  # compiled code holds addresses only

    def __getitem__(self, name: str) -> Array:
        return self.arrays[name]

    def extend(self, **extra_arrays: Array) -> "Arrays":
        """Return these arrays together with others; the tables live as long as the result."""
        combined = Arrays()
        combined.arrays = {**self.arrays, **extra_arrays}
        return combined

    def table(self, loops: CompiledLoops, **replaced: Array) -> int:
        """Return the address of a table for these loops, with some arrays replaced or added."""
        arrays = {**self.arrays, **replaced}
        table = np.array([arrays[name].ctypes.data for name in loops.names], dtype=np.int64)
        self._referenced.append((table, replaced))
        return int(table.ctypes.data)


class RolloutArrays(NamedTuple):
    """Arrays of rollouts: `rollouts` in their lanes, from the state and previous input `start`, around a `nominal`
    trajectory."""

    rollouts: StepArray
    nominal: StepArray
    goals: StepArray
    start: StepArray
    gains: tuple[ArraySpec, ArraySpec]  # K by rows, k


def rollout_loops(problem: Problem, arrays: RolloutArrays) -> tuple[ArrayLoop, ...]:
    """Roll out the feedback around a nominal trajectory, x' = step(x, u), and sum up the cost."""
    size, (tried, nominal, goals, start, gains) = problem.sizes, arrays
    n, m, width = size.state, size.command, size.width
    state, previous = tried.step_values(n, later=1), tried.step_values(m, n)
    cost, alpha = (StepArray(name, 1, tried.width, 1).fixed_values() for name in ("cost", "alpha"))
    goal, parameters = (
        (goals.step_values(size.goal), problem.goal),
        (shared_spec("parameters", size.parameters), problem.parameters),
    )

    def step(*arguments: Tree) -> Tree:
        x, u_before, x_nominal, u_before_nominal, u_nominal, K, k, alpha, goal, parameters, cost = arguments
        error = [
            *flatten(problem.difference(x, x_nominal)),
            *(a - b for a, b in zip(u_before, u_before_nominal, strict=True)),
        ]
        rows = [K[a * width : (a + 1) * width] for a in range(m)]
        u = tuple(apply_feedback(u_nominal, k, rows, error, alpha, problem.limits(parameters)))
        residuals = problem.stage_residuals(x, u, u_before, goal, parameters)
        return u, problem.step(x, u, parameters), cost + total_cost(residuals)

    step_pass = trace_pass(
        step,
        (
            (state, problem.state),
            previous,
            (nominal.step_values(n, later=1), problem.state),
            nominal.step_values(m, n),
            nominal.step_values(m, n, later=1),
            *gains,
            (alpha, 0.0),
            goal,
            parameters,
            (cost, 0.0),
        ),
        (tried.step_values(m, n, later=1), tried.step_values(n, later=2), cost),
        tried.width,
    )
    first_pass = trace_pass(
        lambda x, before: (x, before, 0.0),
        (start.fixed_values(n), start.fixed_values(m, n)),
        (state, previous, cost),
        tried.width,
    )
    final_pass = trace_pass(
        lambda x, goal, parameters, cost: (cost + total_cost(problem.final(x, goal, parameters)),),
        ((state, problem.state), goal, parameters, (cost, 0.0)),
        (cost,),
        tried.width,
    )
    return ArrayLoop((first_pass,), position="start"), ArrayLoop((step_pass,)), ArrayLoop((final_pass,), position="end")


def choose_loops(costs: ArraySpec, sizes: ArraySpec, width: int) -> tuple[ArrayLoop, ...]:
    """Choose the rollout that is the next nominal trajectory."""
    best_cost, damping = (StepArray(name, 1, width, 1).fixed_values() for name in ("least", "damping"))
    sums, fields = StepArray("sums", SUM_COUNT, width, 1).fixed_values(SUM_COUNT), len(RolloutChoice._fields)

    def choose_next(costs: Tree, sizes: Tree, cost: Tree, damping: Tree, tolerance: Tree, sums: Tree) -> Tree:
        choice = choose_rollout(costs, sizes, cost, sums[0], sums[1], damping, tolerance)
        return choice, choice.cost, choice.damping

    scalars = ((best_cost, 0.0), (damping, 0.0), (shared_spec("tolerance"), 0.0))
    outputs = (StepArray("choice", fields, width, 1).fixed_values(fields), best_cost, damping)
    return (ArrayLoop((trace_pass(choose_next, (costs, sizes, *scalars, sums), outputs, width),), position="start"),)
