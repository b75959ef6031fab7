"""The programs of the solver: the derivatives of a problem along a trajectory, and passes of compiled loops over arrays.

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
from samara.control.mpc.iteration import MAX_CLOSED_GAP, NO_GAPS, GapSums, Progress, RolloutChoice, choose_rollout
from samara.control.mpc.options import MAX_STEP_SIZES
from samara.control.mpc.problem import (
    Problem,
    Residuals,
    Scalars,
    Tree,
    apply_feedback,
    is_zero,
    penalty_growth,
    total_cost,
    update_multiplier,
)
from samara.core.ops import maximum
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

    `symbols` are x, u, the previous input, the data of the step and parameters.
    """

    symbols: list[list[Scalar]]
    jacobian: Pattern
    slope: Scalars
    curvature: Pattern
    final_slope: Scalars
    final_curvature: dict[MatrixIndex, Scalar]
    is_smooth: bool  # whether the change of the inputs has a weight or a limit

    def step_program(self, places: Sequence[MatrixIndex]) -> Program:
        """(x, u, u₋, data, parameters) → the varying entries of [A B], the gradient, and the entries of the Hessian at
        `places`."""
        curvature = {**self.curvature.constant, **self.curvature.varying}
        results = ([*self.jacobian.varying.values()], self.slope, [curvature[place] for place in places])
        return program_from_symbols(self.symbols, results)

    def constants_program(self, places: Sequence[MatrixIndex]) -> Program:
        """(parameters) → the constant entries of the Hessian at `places`."""
        return program_from_symbols(self.symbols[-1:], [[self.curvature.constant[place] for place in places]])

    def end_program(self) -> Program:
        """(x, data, parameters) → V below its diagonal, v, and sums of 0."""
        x, _, _, data, parameters = self.symbols
        V = [self.final_curvature.get(place, 0.0) for place in below_diagonal(len(self.final_slope))]
        return program_from_symbols([x, data, parameters], [V, self.final_slope, [0.0] * SUM_COUNT])


def below_diagonal(size: int) -> list[MatrixIndex]:
    """Return the indices of the stored entries of a symmetric matrix."""
    return [(i, j) for i in range(size) for j in range(i + 1)]


def linearise(problem: Problem) -> Linearisation:
    """Return the exact derivatives of one step by (δx, δu) at 0, and the Gauss–Newton Hessian Σ w ∇r ∇rᵀ of the cost."""
    sizes, n = problem.sizes, problem.sizes.tangent
    templates = (problem.state, problem.command, problem.command, problem.data, problem.parameters)
    *vectors, delta = symbols(*(len(flatten(template)) for template in templates), sizes.width)
    x, u, previous, data, parameters = (
        unflatten(template, iter(vector)) for template, vector in zip(templates, vectors, strict=True)
    )
    displaced = problem.displace(x, unflatten(problem.tangent, iter(delta[:n])))
    displaced_u = tuple(a + b for a, b in zip(u, delta[n:], strict=True))
    next_displaced, next_nominal = problem.step(displaced, displaced_u, parameters), problem.step(x, u, parameters)
    residuals = problem.stage_residuals(displaced, displaced_u, previous, data, parameters)
    _require_sizes(problem, len(flatten(next_displaced)), *map(len, problem.limits(parameters)))
    slope, curvature = _gauss_newton(residuals, delta)
    final_slope, final_curvature = _gauss_newton(problem.final_residuals(displaced, data, parameters), delta)
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
        problem.max_change is not None or not is_zero(problem.smoothing(parameters)),
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
    trajectory; `gaps` of that trajectory, if it has any."""

    rollouts: StepArray
    nominal: StepArray
    goals: StepArray
    start: StepArray
    gains: tuple[ArraySpec, ArraySpec]  # K by rows, k
    gaps: StepArray | None = None


def rollout_loops(problem: Problem, arrays: RolloutArrays) -> tuple[ArrayLoop, ...]:
    """Roll out the feedback around a nominal trajectory, x' = step(x, u) ⊕ (α − 1) d, and sum up the cost."""
    size, (tried, nominal, goals, start, gains, gaps) = problem.sizes, arrays
    n, m, width = size.state, size.command, size.width
    state, previous = tried.step_values(n, later=1), tried.step_values(m, n)
    cost, alpha = (StepArray(name, 1, tried.width, 1).fixed_values() for name in ("cost", "alpha"))
    data, parameters = (
        (goals.step_values(size.data), problem.data),
        (shared_spec("parameters", size.parameters), problem.parameters),
    )

    def step(*arguments: Tree) -> Tree:
        x, u_before, x_nominal, u_before_nominal, u_nominal, K, k, alpha, data, parameters, cost, *gap = arguments
        error = [
            *flatten(problem.difference(x, x_nominal)),
            *(a - b for a, b in zip(u_before, u_before_nominal, strict=True)),
        ]
        rows = [K[a * width : (a + 1) * width] for a in range(m)]
        u = tuple(apply_feedback(u_nominal, k, rows, error, alpha, problem.limits(parameters)))
        residuals = problem.stage_residuals(x, u, u_before, data, parameters)
        next_x = problem.step(x, u, parameters)
        if gap:
            remaining_gap = [(alpha - 1.0) * d for d in gap[0]]
            next_x = problem.displace(next_x, unflatten(problem.tangent, iter(remaining_gap)))
        return u, next_x, cost + total_cost(residuals)

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
            data,
            parameters,
            (cost, 0.0),
            *([] if gaps is None else [gaps.step_values(size.tangent)]),
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
        lambda x, data, parameters, cost: (cost + total_cost(problem.final_residuals(x, data, parameters)),),
        ((state, problem.state), data, parameters, (cost, 0.0)),
        (cost,),
        tried.width,
    )
    return ArrayLoop((first_pass,), position="start"), ArrayLoop((step_pass,)), ArrayLoop((final_pass,), position="end")


def choose_loops(
    costs: ArraySpec, sizes: ArraySpec, width: int, has_gaps: bool = False, dtype: str = "float64"
) -> tuple[ArrayLoop, ...]:
    """Choose the rollout that is the next nominal trajectory."""
    progress = tuple(StepArray(name, 1, width, 1).fixed_values() for name in ("least", "damping", "gap_weight"))
    fields, gap_count = len(RolloutChoice._fields), len(GapSums._fields)
    sums = StepArray("sums", SUM_COUNT, width, 1).fixed_values(SUM_COUNT)
    gap_sums = StepArray("gap_sums", gap_count, width, 1).fixed_values(gap_count)

    def choose_next(
        costs: Tree, sizes: Tree, cost: Tree, damping: Tree, gap_weight: Tree, tolerance: Tree, sums: Tree, *gaps: Tree
    ) -> Tree:
        choice = choose_rollout(
            costs,
            sizes,
            Progress(cost, damping, gap_weight),
            sums[0],
            sums[1],
            tolerance,
            GapSums(*gaps[0]) if gaps else NO_GAPS,
            MAX_CLOSED_GAP[dtype],
        )
        return choice, choice.cost, choice.damping, choice.gap_weight

    inputs: tuple[ArraySpec | tuple[ArraySpec, Tree], ...] = (
        costs,
        sizes,
        *((array, 0.0) for array in progress),
        (shared_spec("tolerance"), 0.0),
        sums,
        *([gap_sums] if has_gaps else []),
    )
    outputs = (StepArray("choice", fields, width, 1).fixed_values(fields), *progress)
    return (ArrayLoop((trace_pass(choose_next, inputs, outputs, width),), position="start"),)


class TrajectoryArrays(NamedTuple):
    """Arrays of a trajectory: states and inputs of `nominal`, and the `goals`; one problem in each lane."""

    nominal: StepArray
    goals: StepArray
    width: int


def _stage_inputs(problem: Problem, arrays: TrajectoryArrays) -> tuple[tuple[ArraySpec, Tree], ...]:
    """x, u, u₋, data and parameters of a step."""
    size, nominal = problem.sizes, arrays.nominal
    return (
        (nominal.step_values(size.state, later=1), problem.state),
        (nominal.step_values(size.command, size.state, later=1), problem.command),
        (nominal.step_values(size.command, size.state), problem.command),
        (arrays.goals.step_values(size.data), problem.data),
        (shared_spec("parameters", size.parameters), problem.parameters),
    )


def evaluate_loops(problem: Problem, arrays: TrajectoryArrays) -> tuple[ArrayLoop, ...]:
    """Sum up the cost of a trajectory, "least" with and "task" without the penalties; the largest g of each constraint,
    "violation"; and the largest |max(g, −y)|, "unsettled", 0 if no update changes the multipliers."""
    count, width = problem.sizes.constraints, arrays.width
    least, task, unsettled = (StepArray(name, 1, width, 1).fixed_values() for name in ("least", "task", "unsettled"))
    violation = StepArray("violation", max(count, 1), width, 1).fixed_values(count)
    x, u, u_before, data, parameters = _stage_inputs(problem, arrays)
    totals = ((least, 0.0), (task, 0.0), violation, (unsettled, 0.0))

    def add(
        residuals: Residuals,
        g: list[Scalar],
        data: Tree,
        least: Scalar,
        task: Scalar,
        violation: Scalars,
        change: Scalar,
    ) -> Tree:
        plain = residuals[: len(residuals) - len([x for x in g if not (isinstance(x, float) and x == -1.0)])]
        largest = tuple(maximum(old, new) for old, new in zip(violation, g, strict=True))
        for x, shift in zip(g, data.multipliers.shifts if data.multipliers else (), strict=True):
            step = maximum(x, -shift)
            change = maximum(change, maximum(step, -step))
        return least + total_cost(residuals), task + total_cost(plain), largest, change

    def stage(x: Tree, u: Tree, u_before: Tree, data: Tree, parameters: Tree, *totals: Tree) -> Tree:
        residuals = problem.stage_residuals(x, u, u_before, data, parameters)
        return add(residuals, problem.stage_violations(x, u, u_before, data, parameters), data, *totals)

    def final(x: Tree, data: Tree, parameters: Tree, *totals: Tree) -> Tree:
        residuals = problem.final_residuals(x, data, parameters)
        return add(residuals, problem.final_violations(x, data, parameters), data, *totals)

    targets = (least, task, violation, unsettled)
    zero = trace_pass(lambda: (0.0, 0.0, (-1.0,) * count, 0.0), (), targets, width)
    stage_pass = trace_pass(stage, (x, u, u_before, data, parameters, *totals), targets, width)
    final_pass = trace_pass(final, (x, data, parameters, *totals), targets, width)
    return (
        ArrayLoop((zero,), position="start"),
        ArrayLoop((stage_pass,)),
        ArrayLoop((final_pass,), position="end"),
    )


def multiplier_loops(problem: Problem, arrays: TrajectoryArrays) -> tuple[ArrayLoop, ...]:
    """Update the multipliers of a trajectory after "violation" has been evaluated; "worst" is the largest violation before."""
    size, count, width, goals = problem.sizes, problem.sizes.constraints, arrays.width, arrays.goals
    growth, worst = (StepArray(name, 1, width, 1).fixed_values() for name in ("growth", "worst"))
    x, u, u_before, data, parameters = _stage_inputs(problem, arrays)
    target = goals.step_values(1 + count, size.data - count - 1)

    def grow(violation: Scalars, worst: Scalar, penalty: Scalar) -> Tree:
        largest = violation[0]
        for g in violation[1:]:
            largest = maximum(largest, g)
        return penalty_growth(largest, worst, penalty), largest

    def update(g: list[Scalar], data: Tree, growth: Scalar) -> Tree:
        penalty, shifts = data.multipliers.penalty, data.multipliers.shifts
        return ((penalty * growth, *(update_multiplier(*pair, growth) for pair in zip(g, shifts, strict=True))),)

    def stage(x: Tree, u: Tree, u_before: Tree, data: Tree, parameters: Tree, growth: Scalar) -> Tree:
        return update(problem.stage_violations(x, u, u_before, data, parameters), data, growth)

    def final(x: Tree, data: Tree, parameters: Tree, growth: Scalar) -> Tree:
        return update(problem.final_violations(x, data, parameters), data, growth)

    violation = StepArray("violation", count, width, 1).fixed_values(count)
    penalty = (goals.fixed_values(1, size.data - count - 1), 0.0)
    factor = (growth, 1.0)
    return (
        ArrayLoop((trace_pass(grow, (violation, (worst, 0.0), penalty), (growth, worst), width),), position="start"),
        ArrayLoop((trace_pass(stage, (x, u, u_before, data, parameters, factor), (target,), width),)),
        ArrayLoop((trace_pass(final, (x, data, parameters, factor), (target,), width),), position="end"),
    )


def guess_loops(problem: Problem, arrays: TrajectoryArrays, start: StepArray) -> tuple[ArrayLoop, ...]:
    """Write the problem's guess into the nominal trajectory: states that need not follow from each other, and its command."""
    assert problem.guess is not None
    size, nominal, goals = problem.sizes, arrays.nominal, arrays.goals
    n, m = size.state, size.command
    parts = [start.fixed_values(n), start.fixed_values(m, n)]
    first = trace_pass(
        lambda x, before: (x, before), parts, (nominal.step_values(n, later=1), nominal.step_values(m, n)), arrays.width
    )
    guess = problem.guess
    step = trace_pass(
        lambda x, data: (problem.command, guess(x, data.goal)),
        ((parts[0], problem.state), (goals.step_values(size.data, later=1), problem.data)),
        (nominal.step_values(m, n, later=1), nominal.step_values(n, later=2)),
        arrays.width,
    )
    return ArrayLoop((first,), position="start"), ArrayLoop((step,))


def gap_program(problem: Problem) -> Program:
    """(x, u, x', parameters) → d = step(x, u) ⊖ x'"""
    return trace_program(
        lambda x, u, next_x, parameters: (problem.difference(problem.step(x, u, parameters), next_x),),
        problem.state,
        problem.command,
        problem.state,
        problem.parameters,
    )


def change_pass(problem: Problem, arrays: Sequence[ArraySpec], target: ArraySpec, width: int) -> Pass:
    """(u, u₋, data, parameters) → second and first derivatives of the cost by the change of each input"""
    templates = (problem.command, problem.command, problem.data, problem.parameters)

    def change(*arguments: Tree) -> Tree:
        weights, slopes = problem.change_terms(*arguments)
        return ((*weights, *slopes),)

    return trace_pass(change, tuple(zip(arrays, templates, strict=True)), (target,), width)
