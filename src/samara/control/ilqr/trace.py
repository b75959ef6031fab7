"""The phases of iLQR as traced programs: a rollout's step, the derivatives along it, and the end of the horizon.

A matrix of a trace has entries that are literal numbers, entries that only the held numbers (weights) decide, and entries that
change from step to step. `Pattern` tells them apart, so that each is computed and stored where it belongs.
"""

from typing import Any, NamedTuple

import casadi

from samara.arrays import flatten, unflatten
from samara.backends.program import Program, program_of_expressions
from samara.control.ilqr.cost import (
    ANY_GOAL,
    Goal,
    Held,
    Weights,
    final_residuals,
    input_residuals,
    step_residuals,
    total,
)
from samara.control.ilqr.model import NO_DIFFERENCE, STATE, TANGENT, Model, difference, moved
from samara.ops import clamp
from samara.physics.multirotor import State

SX = casadi.SX
GOAL = len(flatten(ANY_GOAL))

Place = tuple[int, int]


class Symbols(NamedTuple):
    """The symbols of one step: state, input, the input before, goal, held numbers."""

    x: Any
    u: Any
    before: Any
    goal: Any
    held: Any


class Pattern(NamedTuple):
    """The entries of a matrix by (row, column): literal numbers, expressions of the held, expressions of the step."""

    shape: tuple[int, int]
    literal: dict[Place, float]
    held: dict[Place, Any]
    varying: dict[Place, Any]

    def matrix(self, varying: Any) -> Any:
        """The matrix with these for its varying entries, in order"""
        whole = SX(*self.shape)
        for found in (self.literal, self.held, dict(zip(self.varying, varying, strict=True))):
            for (i, j), value in found.items():
                whole[i, j] = value
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


def symbols_of(model: Model, held: Held) -> Symbols:
    sizes = (STATE, model.inputs, model.inputs, GOAL, len(flatten(held)))
    return Symbols(*(SX.sym(name, size) for name, size in zip(Symbols._fields, sizes, strict=True)))


def as_state(x: Any, model: Model) -> State:
    own: State = unflatten(model.template, iter(entries(x)))
    return own


def as_goal(g: Any) -> Goal:
    own: Goal = unflatten(ANY_GOAL, iter(entries(g)))
    return own


def as_held(h: Any, held: Held) -> Held:
    """The held numbers as symbols; a weight that is 0 stays the number 0, and what it weighs drops out of the trace"""
    own: Held = unflatten(held, iter(entries(h)))
    weights = (0.0 if number == 0.0 else symbol for number, symbol in zip(held.weights, own.weights, strict=True))
    return own._replace(weights=Weights(*weights))


# Derivatives -------------------------------------------------------------------------------------------------------


def linearised(model: Model, held: Held) -> Linearised:
    """The derivatives of one step by (δx, δu) at 0, exact, and Gauss and Newton's curvature Σ w ∇r ∇rᵀ of the cost"""
    own = symbols_of(model, held)
    delta = SX.sym("delta", TANGENT + model.inputs)
    state, goal, numbers = as_state(own.x, model), as_goal(own.goal), as_held(own.held, held)
    near = moved(state, unflatten(NO_DIFFERENCE, iter(entries(delta[:TANGENT]))))
    nudged = tuple(entries(own.u + delta[TANGENT:]))
    after = difference(
        model.step(near, nudged, numbers.push_W), model.step(state, tuple(entries(own.u)), numbers.push_W)
    )
    here = step_residuals(near, goal, numbers) + input_residuals(nudged, tuple(entries(own.before)), numbers, model)
    slope, curvature = _gauss_newton(here, delta)
    final_slope, final_curvature = _gauss_newton(final_residuals(near, goal, numbers), delta)
    return Linearised(
        own,
        _pattern(_at_zero(casadi.jacobian(column(after), delta), delta), own),
        slope,
        _pattern(curvature, own),
        final_slope[:TANGENT],
        final_curvature[:TANGENT, :TANGENT],
    )


def _gauss_newton(residuals: Any, delta: Any) -> tuple[Any, Any]:
    weights, r = (casadi.vertcat(*each) for each in zip(*residuals, strict=True))
    slopes = _at_zero(casadi.jacobian(r, delta), delta)
    weighted = casadi.diag(weights) @ slopes
    return weighted.T @ _at_zero(r, delta), weighted.T @ slopes


def _at_zero(expression: Any, delta: Any) -> Any:
    return casadi.substitute(expression, delta, SX.zeros(delta.numel()))


def _pattern(matrix: Any, own: Symbols) -> Pattern:
    """Entries by what they depend on; those that are zero for good are left out"""
    matrix = casadi.sparsify(matrix)
    found = Pattern((matrix.size1(), matrix.size2()), {}, {}, {})
    step = casadi.vertcat(own.x, own.u, own.before, own.goal)
    for i, j in zip(*matrix.sparsity().get_triplet(), strict=True):
        entry = matrix[i, j]
        if entry.is_constant():
            found.literal[i, j] = float(entry)
        elif casadi.depends_on(entry, step):
            found.varying[i, j] = entry
        else:
            found.held[i, j] = entry
    return found


# Rollouts ----------------------------------------------------------------------------------------------------------


class Rollout(NamedTuple):
    """To begin, (x, u₋) → x, u₋, 0; a step, (x, u₋, x_nom, u₋nom, u_nom, K, k, α, goal, held, cost) → u, x', cost; the end."""

    first: Program
    step: Program
    final: Program


def rollout_programs(model: Model, held: Held) -> Rollout:
    """u = u_nom + α k + K (x ⊖ x_nom, u₋ − u₋nom) within the limits, x' = step(x, u), and the cost so far; K by rows"""
    own, m = symbols_of(model, held), model.inputs
    width = TANGENT + m
    nominal_x, nominal_u, nominal_before = SX.sym("x_nom", STATE), SX.sym("u_nom", m), SX.sym("before_nom", m)
    gains, steps, alpha, cost = SX.sym("K", m * width), SX.sym("k", m), SX.sym("alpha"), SX.sym("cost")
    state, goal, numbers = as_state(own.x, model), as_goal(own.goal), as_held(own.held, held)
    off = [*flatten(difference(state, as_state(nominal_x, model))), *entries(own.before - nominal_before)]
    command = []
    for a in range(m):
        u = nominal_u[a] + alpha * steps[a]
        for j in range(width):
            u = u + gains[a * width + j] * off[j]
        command.append(clamp(u, numbers.low[a], numbers.high[a]))
    effort = input_residuals(tuple(command), tuple(entries(own.before)), numbers, model)
    here = total(step_residuals(state, goal, numbers) + effort)
    step = traced(
        [own.x, own.before, nominal_x, nominal_before, nominal_u, gains, steps, alpha, own.goal, own.held, cost],
        [casadi.vertcat(*command), column(model.step(state, tuple(command), numbers.push_W)), cost + here],
    )
    at_end = total(final_residuals(state, goal, numbers))
    final = traced([own.x, own.goal, own.held, cost], [cost + at_end])
    return Rollout(traced([own.x, own.before], [own.x, own.before, SX(0.0)]), step, final)
