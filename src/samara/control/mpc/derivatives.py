"""The derivatives of a problem along a trajectory, as traced programs.

An entry of a matrix is a literal number, or depends on the parameters (weights) alone, or changes from step to step.
`Pattern` separates them, so that each is computed and stored where it belongs.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from samara.compiler.trace.program import Program
from samara.compiler.trace.symbolic import depends_on, jacobian, program_of_symbols, substitute, symbols
from samara.control.mpc.problem import Numbers, Problem, Residuals, is_zero
from samara.core.quantity import Scalar
from samara.core.tree import flatten, unflatten
from samara.core.types import Array

SUMS = 3  # qᵀk, kᵀQk and |q|² over the horizon

Place = tuple[int, int]


class Pattern(NamedTuple):
    """The entries of a matrix by (row, column) that are not zero: those equal at every step, and those that vary."""

    shape: tuple[int, int]
    constant: dict[Place, Scalar]
    varying: dict[Place, Scalar]

    def matrix(self, varying: Numbers) -> Array:
        """Return the matrix of traced scalars with these for its varying entries, in order, and literals for the others."""
        matrix = np.zeros(self.shape, dtype=object)
        for place, entry in (*self.constant.items(), *zip(self.varying, varying, strict=True)):
            matrix[place] = entry
        return matrix


class Linearised(NamedTuple):
    """[A B] of one step, gradient and Gauss–Newton Hessian of its cost by (δx, u); and those of the end by δx.

    `symbols` are x, u, the previous input, goal and parameters.
    """

    symbols: list[list[Scalar]]
    jacobian: Pattern
    slope: Numbers
    curvature: Pattern
    final_slope: Numbers
    final_curvature: dict[Place, Scalar]
    is_smooth: bool  # whether the change of the inputs has a weight

    def step_program(self, places: Sequence[Place]) -> Program:
        """(x, u, u₋, goal, parameters) → the varying entries of [A B], the gradient, and these entries of the Hessian."""
        curvature = {**self.curvature.constant, **self.curvature.varying}
        results = ([*self.jacobian.varying.values()], self.slope, [curvature[place] for place in places])
        return program_of_symbols(self.symbols, results)

    def constants_program(self, places: Sequence[Place]) -> Program:
        """(parameters) → these constant entries of the Hessian."""
        return program_of_symbols(self.symbols[-1:], [[self.curvature.constant[place] for place in places]])

    def end_program(self) -> Program:
        """(x, goal, parameters) → V below its diagonal, v, and sums of 0."""
        x, _, _, goal, parameters = self.symbols
        V = [self.final_curvature.get(place, 0.0) for place in below_diagonal(len(self.final_slope))]
        return program_of_symbols([x, goal, parameters], [V, self.final_slope, [0.0] * SUMS])


def below_diagonal(size: int) -> list[Place]:
    """The entries of a symmetric matrix that are stored"""
    return [(i, j) for i in range(size) for j in range(i + 1)]


def linearise(problem: Problem) -> Linearised:
    """The exact derivatives of one step by (δx, δu) at 0, and the Gauss–Newton Hessian Σ w ∇r ∇rᵀ of the cost."""
    sizes, n = problem.sizes, problem.sizes.tangent
    templates = (problem.state, problem.command, problem.command, problem.goal, problem.parameters)
    vectors = [symbols(f"x{i}", len(flatten(template))) for i, template in enumerate(templates)]
    x, u, previous, goal, parameters = (
        unflatten(template, iter(vector)) for template, vector in zip(templates, vectors, strict=True)
    )
    delta = symbols("delta", sizes.width)
    near = problem.moved(x, unflatten(problem.tangent, iter(delta[:n])))
    nudged = tuple(a + b for a, b in zip(u, delta[n:], strict=True))
    after, still = problem.step(near, nudged, parameters), problem.step(x, u, parameters)
    residuals = problem.stage_residuals(near, nudged, previous, goal, parameters)
    _require_sizes(problem, len(flatten(after)), *map(len, problem.limits(parameters)))
    slope, curvature = _gauss_newton(residuals, delta)
    final_slope, final_curvature = _gauss_newton(problem.final(near, goal, parameters), delta)
    entries = jacobian(flatten(problem.difference(after, still)), delta, at=dict.fromkeys(range(sizes.width), 0.0))
    return Linearised(
        vectors,
        _pattern((n, sizes.width), entries, [leaf for vector in vectors for leaf in vector]),
        slope,
        _pattern((sizes.width, sizes.width), curvature, [leaf for vector in vectors[:-1] for leaf in vector]),
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


def _gauss_newton(residuals: Residuals, delta: list[Scalar]) -> tuple[list[Scalar], dict[Place, Scalar]]:
    """Σ w r ∇r and the entries of Σ w ∇r ∇rᵀ by δ at 0, column by column"""
    if any(not isinstance(residual, tuple) or len(residual) != 2 for residual in residuals):
        raise ValueError("a residual is not a pair: expected (weight, residual), each of which costs ½ w r²")
    zeros, weighted = [0.0] * len(delta), [(w, r) for w, r in residuals if not is_zero(w)]
    if not weighted:
        return zeros, {}
    r = [residual for _, residual in weighted]
    slopes, scaled = (np.zeros((len(r), len(delta)), dtype=object) for _ in range(2))
    for (i, j), entry in jacobian(r, delta, at=dict(enumerate(zeros))).items():
        slopes[i, j], scaled[i, j] = entry, weighted[i][0] * entry
    columns = substitute(list((scaled.T @ slopes).T.ravel()), delta, zeros)
    places = [(i, j) for j in range(len(delta)) for i in range(len(delta))]
    slope = substitute(list(scaled.T @ np.array(substitute(r, delta, zeros), dtype=object)), delta, zeros)
    return slope, dict(zip(places, columns, strict=True))


def _pattern(shape: tuple[int, int], entries: dict[Place, Scalar], step: list[Scalar]) -> Pattern:
    """Sort the entries that are not zero by whether they depend on the symbols of a step."""
    pattern = Pattern(shape, {}, {})
    for place, entry in entries.items():
        if not is_zero(entry):
            (pattern.varying if depends_on(entry, step) else pattern.constant)[place] = entry
    return pattern
