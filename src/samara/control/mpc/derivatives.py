"""The phases of iLQR as traced programs: a rollout's step, the derivatives along it, and the end of the horizon.

A matrix of a trace has entries that are literal numbers, entries that only the parameters (weights) decide, and entries that
change from step to step. `Pattern` tells them apart, so that each is computed and stored where it belongs.
"""

from typing import Any, NamedTuple

import casadi

from samara.compiler.trace.program import Program, program_of_expressions
from samara.control.mpc.backward import Join, Smoothing, smoothing
from samara.control.mpc.line_search import Choice, choose
from samara.control.mpc.problem import Problem, feedback, total
from samara.core.tree import flatten, unflatten

SX = casadi.SX
SUMS = 3  # qᵀk, kᵀQk and |q|² over the horizon
JOIN = Join(lambda parts: casadi.vertcat(*parts), lambda parts: casadi.horzcat(*parts))

Place = tuple[int, int]


class Symbols(NamedTuple):
    """State, input, the input before, goal and parameters of one step: vectors of symbols, or as a problem takes them."""

    x: Any
    u: Any
    before: Any
    goal: Any
    parameters: Any


class Pattern(NamedTuple):
    """The entries of a matrix by (row, column): those that are the same at every step, and expressions of the step.

    The former are literal numbers or expressions of the parameters.
    """

    shape: tuple[int, int]
    constant: dict[Place, Any]
    varying: dict[Place, Any]

    def matrix(self, varying: Any) -> Any:
        """The matrix with these for its varying entries, in order"""
        whole = SX(*self.shape)
        for found in (self.constant, dict(zip(self.varying, varying, strict=True))):
            for (i, j), entry in found.items():
                whole[i, j] = entry
        return whole


class Linearised(NamedTuple):
    """[A B], the cost's slope over (δx, u) and its curvature, of one step; and the slope and curvature at the end."""

    symbols: Symbols
    jacobian: Pattern
    slope: Any
    curvature: Pattern
    final_slope: Any
    final_curvature: Any


def entries(x: Any) -> list[Any]:
    """The numbers of a CasADi vector"""
    return [x[i] for i in range(x.numel())]


def column(tree: Any) -> Any:
    """A nested tuple as a CasADi vector"""
    return casadi.vertcat(*flatten(tree))


def traced(symbols: list[Any], results: list[Any]) -> Program:
    """The program of some expressions, their zeros written out"""
    return program_of_expressions(symbols, [casadi.densify(result) for result in results])


def tree(template: Any, x: Any) -> Any:
    """The numbers of a CasADi vector, shaped like the template"""
    return unflatten(template, iter(entries(x)))


def symbols_of(problem: Problem) -> tuple[Symbols, Symbols]:
    """Vectors, and the same numbers in the shapes of the problem's templates"""
    templates = (problem.state, problem.command, problem.command, problem.goal, problem.parameters)
    vectors = [SX.sym(name, len(flatten(own))) for name, own in zip(Symbols._fields, templates, strict=True)]
    return Symbols(*vectors), Symbols(*map(tree, templates, vectors))


def below_diagonal(size: int) -> list[Place]:
    """The places of a symmetric matrix that are kept"""
    return [(i, j) for i in range(size) for j in range(i + 1)]


def symmetric(found: dict[Place, Any], size: int) -> Any:
    """A symmetric matrix from its entries below the diagonal: rounding cannot make it lopsided"""
    matrix = SX(size, size)
    for (i, j), entry in found.items():
        matrix[i, j] = matrix[j, i] = entry
    return matrix


# Derivatives -------------------------------------------------------------------------------------------------------


def linearised(problem: Problem) -> Linearised:
    """The derivatives of one step by (δx, δu) at 0, exact, and Gauss and Newton's curvature Σ w ∇r ∇rᵀ of the cost"""
    (own, at), n = symbols_of(problem), problem.sizes.tangent
    delta = SX.sym("delta", problem.sizes.width)
    near = problem.moved(at.x, tree(problem.tangent, delta[:n]))
    nudged = tree(problem.command, own.u + delta[n:])
    after, still = (problem.step(x, u, at.parameters) for x, u in ((near, nudged), (at.x, at.u)))
    here = problem.stage_residuals(near, nudged, at.before, at.goal, at.parameters)
    _check(problem, after, problem.limits(at.parameters))
    slope, curvature = _gauss_newton(here, delta)
    final_slope, final_curvature = _gauss_newton(problem.final(near, at.goal, at.parameters), delta)
    jacobian = _at_zero(casadi.jacobian(column(problem.difference(after, still)), delta), delta)
    of_step = casadi.vertcat(own.x, own.u, own.before, own.goal)
    return Linearised(
        own,
        _pattern(jacobian, casadi.vertcat(of_step, own.parameters)),
        slope,
        _pattern(curvature, of_step),
        final_slope[:n],
        final_curvature[:n, :n],
    )


def _check(problem: Problem, after: Any, limits: Any) -> None:
    numbers, low, high = len(flatten(after)), *map(len, limits)
    if numbers != problem.sizes.state:
        raise ValueError(f"the problem's step gives {numbers} numbers; expected the {problem.sizes.state} of its state")
    if not low == high == problem.sizes.command:
        raise ValueError(f"the problem's limits are {low} and {high} numbers; expected {problem.sizes.command} of each")


def _gauss_newton(residuals: Any, delta: Any) -> tuple[Any, Any]:
    if not residuals:
        return SX.zeros(delta.numel()), SX(delta.numel(), delta.numel())
    if any(not isinstance(own, tuple) or len(own) != 2 for own in residuals):
        raise ValueError("a residual is not a pair: expected (weight, residual), each of which costs ½ w r²")
    weights, r = (casadi.vertcat(*each) for each in zip(*residuals, strict=True))
    slopes = _at_zero(casadi.jacobian(r, delta), delta)
    weighted = casadi.diag(weights) @ slopes
    return weighted.T @ _at_zero(r, delta), weighted.T @ slopes


def _at_zero(expression: Any, delta: Any) -> Any:
    return casadi.substitute(expression, delta, SX.zeros(delta.numel()))


def _pattern(matrix: Any, step: Any) -> Pattern:
    """Entries by whether they depend on the symbols of a step; those that are zero for good are left out"""
    matrix = casadi.sparsify(matrix)
    found = Pattern((matrix.size1(), matrix.size2()), {}, {})
    for i, j in zip(*matrix.sparsity().get_triplet(), strict=True):
        into = found.varying if casadi.depends_on(matrix[i, j], step) else found.constant
        into[i, j] = matrix[i, j]
    return found


def value_at_end(trace: Linearised) -> Program:
    """(x, goal, parameters) → V below its diagonal, v, and sums of 0"""
    own, places = trace.symbols, below_diagonal(trace.final_curvature.size1())
    V = casadi.vertcat(*(trace.final_curvature[i, j] for i, j in places))
    return traced([own.x, own.goal, own.parameters], [V, trace.final_slope, SX.zeros(SUMS)])


def change_to_next(problem: Problem, trace: Linearised) -> tuple[tuple[Any, Any, Any, Any], Smoothing]:
    """Symbols of the next stage's gains, step and input and of the weight of the change to it; what smoothing takes of them"""
    m, n, width = problem.sizes.command, problem.sizes.tangent, problem.sizes.width
    K, k, u, later = SX.sym("K_next", m * width), SX.sym("k_next", m), SX.sym("u_next", m), SX.sym("later")
    rows = casadi.reshape(K, width, m).T
    before = [[rows[a, n + b] for b in range(m)] for a in range(m)]
    return (K, k, u, later), smoothing(later, rows[:, :n], before, entries(k), entries(trace.symbols.u), entries(u))


# Rollouts ----------------------------------------------------------------------------------------------------------


class Rollout(NamedTuple):
    """To begin, (x, u₋) → x, u₋, 0; a step, (x, u₋, x_nom, u₋nom, u_nom, K, k, α, goal, parameters, cost) → u, x', cost; the
    end."""

    first: Program
    step: Program
    final: Program


def rollout_programs(problem: Problem) -> Rollout:
    """The feedback around a nominal trajectory, x' = step(x, u), and the cost so far; K by rows"""
    (own, at), m, width = symbols_of(problem), problem.sizes.command, problem.sizes.width
    nominal_x, nominal_u, nominal_before = (
        SX.sym("x_nom", problem.sizes.state),
        SX.sym("u_nom", m),
        SX.sym("before_nom", m),
    )
    gains, steps, alpha, cost = SX.sym("K", m * width), SX.sym("k", m), SX.sym("alpha"), SX.sym("cost")
    off = [
        *flatten(problem.difference(at.x, tree(problem.state, nominal_x))),
        *entries(own.before - nominal_before),
    ]
    rows = [entries(gains[a * width : (a + 1) * width]) for a in range(m)]
    limits = problem.limits(at.parameters)
    command = tuple(feedback(entries(nominal_u), entries(steps), rows, off, alpha, limits))
    here = total(problem.stage_residuals(at.x, command, at.before, at.goal, at.parameters))
    step = traced(
        [own.x, own.before, nominal_x, nominal_before, nominal_u, gains, steps, alpha, own.goal, own.parameters, cost],
        [casadi.vertcat(*command), column(problem.step(at.x, command, at.parameters)), cost + here],
    )
    at_end = total(problem.final(at.x, at.goal, at.parameters))
    final = traced([own.x, own.goal, own.parameters, cost], [cost + at_end])
    return Rollout(traced([own.x, own.before], [own.x, own.before, SX(0.0)]), step, final)


def choosing(count: int) -> Program:
    """(costs, step sizes, cost, damping, tolerance, sums) → choice, cost, damping"""
    costs, sizes, sums = SX.sym("costs", count), SX.sym("sizes", count), SX.sym("sums", SUMS)
    cost, damping, tolerance = SX.sym("cost"), SX.sym("damping"), SX.sym("tolerance")
    linear, quadratic, _ = entries(sums)
    choice: Choice = choose(entries(costs), entries(sizes), cost, linear, quadratic, damping, tolerance)
    return traced(
        [costs, sizes, cost, damping, tolerance, sums], [casadi.vertcat(*choice), choice.cost, choice.damping]
    )
