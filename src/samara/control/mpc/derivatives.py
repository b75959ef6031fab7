"""The derivatives of a problem along a trajectory, as traced programs.

An entry of a matrix is a literal number, or depends on the parameters (weights) alone, or changes from step to step.
`Pattern` separates them, so that each is computed and stored where it belongs.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import casadi
import numpy as np

from samara.compiler.trace.program import Program, program_of_expressions
from samara.control.mpc.problem import Problem, Residuals, is_zero
from samara.core.quantity import Scalar
from samara.core.tree import flatten, unflatten
from samara.core.types import Array

SX = casadi.SX
SUMS = 3  # qᵀk, kᵀQk and |q|² over the horizon

Place = tuple[int, int]


class Pattern(NamedTuple):
    """The entries of a matrix by (row, column) that are not zero: those equal at every step, and those that vary."""

    shape: tuple[int, int]
    constant: dict[Place, SX]
    varying: dict[Place, SX]

    def matrix(self, varying: Sequence[Scalar]) -> Array:
        """Return the matrix of traced scalars with these for its varying entries, in order, and literals for the others."""
        matrix = np.zeros(self.shape, dtype=object)
        for place, entry in self.constant.items():
            matrix[place] = float(entry)
        for place, entry in zip(self.varying, varying, strict=True):
            matrix[place] = entry
        return matrix


class Linearised(NamedTuple):
    """[A B] of one step, gradient and Gauss–Newton Hessian of its cost by (δx, u); and those of the end by δx.

    `symbols` are x, u, the previous input, goal and parameters.
    """

    symbols: tuple[SX, ...]
    jacobian: Pattern
    slope: SX
    curvature: Pattern
    final_slope: SX
    final_curvature: SX
    is_smooth: bool  # whether the change of the inputs has a weight

    def step_program(self, places: Sequence[Place]) -> Program:
        """(x, u, u₋, goal, parameters) → the varying entries of [A B], the gradient, and these entries of the Hessian."""
        curvature = {**self.curvature.constant, **self.curvature.varying}
        results = [_vector(self.jacobian.varying.values()), self.slope, _vector(curvature[place] for place in places)]
        return _program(self.symbols, results)

    def constants_program(self, places: Sequence[Place]) -> Program:
        """(parameters) → these constant entries of the Hessian."""
        return _program(self.symbols[-1:], [_vector(self.curvature.constant[place] for place in places)])

    def end_program(self) -> Program:
        """(x, goal, parameters) → V below its diagonal, v, and sums of 0."""
        x, _, _, goal, parameters = self.symbols
        V = _vector(self.final_curvature[i, j] for i, j in below_diagonal(self.final_curvature.size1()))
        return _program((x, goal, parameters), [V, self.final_slope, SX.zeros(SUMS)])


def below_diagonal(size: int) -> list[Place]:
    """The entries of a symmetric matrix that are stored"""
    return [(i, j) for i in range(size) for j in range(i + 1)]


def linearise(problem: Problem) -> Linearised:
    """The exact derivatives of one step by (δx, δu) at 0, and the Gauss–Newton Hessian Σ w ∇r ∇rᵀ of the cost."""
    sizes, n = problem.sizes, problem.sizes.tangent
    lengths = (sizes.state, sizes.command, sizes.command, sizes.goal, sizes.parameters)
    symbols = tuple(SX.sym(f"x{i}", length) for i, length in enumerate(lengths))
    templates = (problem.state, problem.command, problem.command, problem.goal, problem.parameters)
    x, u, previous, goal, parameters = (
        unflatten(template, iter(_entries(vector))) for template, vector in zip(templates, symbols, strict=True)
    )
    delta = SX.sym("delta", sizes.width)
    near = problem.moved(x, unflatten(problem.tangent, iter(_entries(delta[:n]))))
    nudged = unflatten(problem.command, iter(_entries(symbols[1] + delta[n:])))
    after, still = problem.step(near, nudged, parameters), problem.step(x, u, parameters)
    residuals = problem.stage_residuals(near, nudged, previous, goal, parameters)
    _require_sizes(problem, len(flatten(after)), *map(len, problem.limits(parameters)))
    slope, curvature = _gauss_newton(residuals, delta)
    final_slope, final_curvature = _gauss_newton(problem.final(near, goal, parameters), delta)
    jacobian = _at_zero(casadi.jacobian(_vector(flatten(problem.difference(after, still))), delta), delta)
    return Linearised(
        symbols,
        _pattern(jacobian, casadi.vertcat(*symbols)),
        slope,
        _pattern(curvature, casadi.vertcat(*symbols[:-1])),
        final_slope[:n],
        final_curvature[:n, :n],
        not is_zero(problem.smoothing(parameters)),
    )


def _require_sizes(problem: Problem, state: int, low: int, high: int) -> None:
    expected = problem.sizes
    if state != expected.state:
        raise ValueError(f"the problem's step gives {state} numbers; expected the {expected.state} of its state")
    if not low == high == expected.command:
        raise ValueError(f"the problem's limits are {low} and {high} numbers; expected {expected.command} of each")


def _gauss_newton(residuals: Residuals, delta: SX) -> tuple[SX, SX]:
    if not residuals:
        return SX.zeros(delta.numel()), SX(delta.numel(), delta.numel())
    if any(not isinstance(residual, tuple) or len(residual) != 2 for residual in residuals):
        raise ValueError("a residual is not a pair: expected (weight, residual), each of which costs ½ w r²")
    weights, r = (casadi.vertcat(*column) for column in zip(*residuals, strict=True))
    slopes = _at_zero(casadi.jacobian(r, delta), delta)
    weighted = casadi.diag(weights) @ slopes
    return weighted.T @ _at_zero(r, delta), weighted.T @ slopes


def _at_zero(expression: SX, delta: SX) -> SX:
    return casadi.substitute(expression, delta, SX.zeros(delta.numel()))


def _pattern(matrix: SX, step: SX) -> Pattern:
    """Sort the nonzero entries by whether they depend on the symbols of a step."""
    matrix = casadi.sparsify(matrix)
    pattern = Pattern((matrix.size1(), matrix.size2()), {}, {})
    for i, j in zip(*matrix.sparsity().get_triplet(), strict=True):
        group = pattern.varying if casadi.depends_on(matrix[i, j], step) else pattern.constant
        group[i, j] = matrix[i, j]
    return pattern


def _entries(vector: SX) -> list[SX]:
    return [vector[i] for i in range(vector.numel())]


def _vector(entries: Iterable[SX]) -> SX:
    return casadi.vertcat(*entries)


def _program(symbols: Sequence[SX], results: list[SX]) -> Program:
    return program_of_expressions(list(symbols), [casadi.densify(result) for result in results])
