"""A problem for iLQR: the step, the residuals along the horizon and at its end, and the limits of the inputs.

    min Σ ½ w r(x, u, goal)² + Σ ½ s |u − u₋|² + Σ ½ w r(x_N, goal_N)²,   x' = step(x, u),   low ≤ u ≤ high

Its functions are of scalars, like the physics: `solver` traces them for one problem, `batch_cpu` for many on the CPU,
`batch_jax` for thousands. The residuals are the only place where a cost is written; gradient and Gauss–Newton Hessian are
their derivatives.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

from samara.core.ops import clamp
from samara.core.quantity import Scalar
from samara.core.tree import flatten, unflatten

Tree: TypeAlias = Any
"""A nested tuple of scalars."""

Scalars: TypeAlias = Sequence[Scalar]

Residuals = list[tuple[Scalar, Scalar]]
"""(w, r): each costs ½ w r²."""


class InputLimits(NamedTuple):
    """Lower and upper limit of every input."""

    low: tuple[Scalar, ...]
    high: tuple[Scalar, ...]


class ColdStart(NamedTuple):
    """The feedback of a cold start: towards `nominal(x, hypot)`, with `columns` of the gain at the problem's template state.

    `nominal` takes and returns the components of a state, scalars or arrays; `hypot(a, b)` is √(a² + b²) of such.
    """

    nominal: Callable[[Scalar, Callable[[Scalar, Scalar], Scalar]], list[Scalar]]
    columns: tuple[int, ...]


def add_trees(x: Tree, delta: Tree) -> Tree:
    """x + δ, component by component"""
    return unflatten(x, iter([a + b for a, b in zip(flatten(x), flatten(delta), strict=True)]))


def subtract_trees(x: Tree, origin: Tree) -> Tree:
    """x − x₀, component by component"""
    return unflatten(x, iter([a - b for a, b in zip(flatten(x), flatten(origin), strict=True)]))


class ProblemSizes(NamedTuple):
    """Component counts of states, tangents, commands, goals and parameters."""

    state: int
    tangent: int
    command: int
    goal: int
    parameters: int

    @property
    def width(self) -> int:
        """Size of (δx, u), and of (δx, the previous input)."""
        return self.tangent + self.command

    @property
    def step(self) -> int:
        """Size of a state and an input."""
        return self.state + self.command


@dataclass(frozen=True, eq=False)
class Problem:
    """The functions of one step, and templates of their arguments: nested tuples of scalars.

    A cold start applies the constant input `command`. `parameters` are constant along the horizon; changing their values does
    not require new code. A residual whose weight is the literal 0 is dropped. `displace(x, δ)` and `difference(x, x₀)` are
    x ⊕ δ and x ⊖ x₀, for states that are not plain vectors.
    """

    state: Tree
    command: tuple[float, ...]
    goal: Tree
    parameters: Tree
    step: Callable[[Tree, Tree, Tree], Tree]  # (x, u, parameters) → x'
    residuals: Callable[[Tree, Tree, Tree, Tree], Residuals]  # (x, u, goal, parameters)
    final: Callable[[Tree, Tree, Tree], Residuals]  # (x, goal, parameters)
    limits: Callable[[Tree], InputLimits]  # (parameters)
    smoothing: Callable[[Tree], Scalar] = lambda _: 0.0  # (parameters) → s
    displace: Callable[[Tree, Tree], Tree] = add_trees
    difference: Callable[[Tree, Tree], Tree] = subtract_trees
    start: ColdStart | None = None

    @cached_property
    def tangent(self) -> Tree:
        """x ⊖ x: the template of a small difference of states."""
        return self.difference(self.state, self.state)

    @cached_property
    def sizes(self) -> ProblemSizes:
        templates = (self.state, self.tangent, self.command, self.goal, self.parameters)
        return ProblemSizes(*(len(flatten(template)) for template in templates))

    def stage_residuals(self, state: Tree, command: Tree, previous: Tree, goal: Tree, parameters: Tree) -> Residuals:
        """Return the residuals of one step, with those of the change of its inputs from the `previous` ones."""
        s = self.smoothing(parameters)
        change = [(s, u - u_before) for u, u_before in zip(command, previous, strict=True)]
        return self.residuals(state, command, goal, parameters) + change


def total_cost(residuals: Residuals) -> Scalar:
    """Σ ½ w r²"""
    cost: Scalar = 0.0
    for weight, residual in residuals:
        cost = cost + 0.5 * weight * residual * residual
    return cost


def is_zero(weight: Scalar) -> bool:
    """Whether a weight is the literal 0, which no parameter can change."""
    return isinstance(weight, float) and weight == 0.0


def apply_feedback(
    nominal: Scalars, steps: Scalars, gains: Sequence[Scalars], error: Scalars, alpha: Scalar, limits: InputLimits
) -> list[Scalar]:
    """u = u_nom + α k + K (x ⊖ x_nom, u₋ − u₋nom), within the limits; K by rows"""
    inputs = []
    for u, k, row, low, high in zip(nominal, steps, gains, *limits, strict=True):
        desired = u + alpha * k
        for gain, e in zip(row, error, strict=True):
            desired = desired + gain * e
        inputs.append(clamp(desired, low, high))
    return inputs
