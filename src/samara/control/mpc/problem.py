"""A problem for iLQR: the step, the residuals along the horizon and at its end, and the limits of the inputs.

    min Σ ½ w r(x, u, goal)² + Σ ½ s |u − u₋|² + Σ ½ w r(x_N, goal_N)²,   x' = step(x, u),   low ≤ u ≤ high

Its functions are of scalars, like the physics: `solver` traces them for one problem, `lanes` for many on the CPU, `jax` for
thousands. The residuals are the only place a cost is written; slopes and Gauss–Newton curvatures are their derivatives.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from samara.core.ops import clamp
from samara.core.quantity import Scalar
from samara.core.tree import flatten, unflatten

Residuals = list[tuple[Scalar, Scalar]]
"""(w, r): each costs ½ w r²"""


class Limits(NamedTuple):
    """From the least to the most of every input."""

    low: tuple[Scalar, ...]
    high: tuple[Scalar, ...]


class Start(NamedTuple):
    """The feedback of a cold start: towards `nominal(x, length)`, by some columns of the gain at the problem's own state.

    Both are lists of a state's numbers, or of arrays of them; `length(a, b)` is √(a² + b²) of such.
    """

    nominal: Callable[[Any, Callable[[Any, Any], Any]], list[Any]]
    columns: tuple[int, ...]


def plus(x: Any, by: Any) -> Any:
    """x + δ, number by number"""
    return unflatten(x, iter([a + b for a, b in zip(flatten(x), flatten(by), strict=True)]))


def minus(x: Any, origin: Any) -> Any:
    """x − x₀, number by number"""
    return unflatten(x, iter([a - b for a, b in zip(flatten(x), flatten(origin), strict=True)]))


@dataclass(frozen=True, eq=False)
class Problem:
    """Functions of one step, and templates of what they take: nested tuples of numbers.

    A cold start gives the input `command` all along. `parameters` are numbers that do not change along the horizon; another
    value of them needs no other code. A residual whose weight is the literal 0 is dropped. `moved(x, δ)` and
    `difference(x, x₀)` are x ⊕ δ and x ⊖ x₀, for states that are not plain vectors.
    """

    state: Any
    command: tuple[float, ...]
    goal: Any
    parameters: Any
    step: Callable[[Any, Any, Any], Any]  # (x, u, parameters) → x'
    residuals: Callable[[Any, Any, Any, Any], Residuals]  # (x, u, goal, parameters)
    final: Callable[[Any, Any, Any], Residuals]  # (x, goal, parameters)
    limits: Callable[[Any], Limits]  # (parameters)
    smoothing: Callable[[Any], Scalar] = lambda _: 0.0  # (parameters) → s
    moved: Callable[[Any, Any], Any] = plus
    difference: Callable[[Any, Any], Any] = minus
    start: Start | None = None

    @cached_property
    def tangent(self) -> Any:
        """x ⊖ x: what a small difference of states is made of"""
        return self.difference(self.state, self.state)

    @cached_property
    def sizes(self) -> "Sizes":
        return Sizes(
            *(len(flatten(own)) for own in (self.state, self.tangent, self.command, self.goal, self.parameters))
        )

    def stage_residuals(self, state: Any, command: Any, before: Any, goal: Any, parameters: Any) -> Residuals:
        """The residuals of one step, the change of its inputs from those before included"""
        s = self.smoothing(parameters)
        change = [(s, u - earlier) for u, earlier in zip(command, before, strict=True)]
        return self.residuals(state, command, goal, parameters) + change


class Sizes(NamedTuple):
    """How many numbers there are of each."""

    state: int
    tangent: int
    command: int
    goal: int
    parameters: int

    @property
    def width(self) -> int:
        """(δx, u), or (δx, the input before)"""
        return self.tangent + self.command

    @property
    def step(self) -> int:
        """A state and an input"""
        return self.state + self.command


def total(residuals: Residuals) -> Scalar:
    """Σ ½ w r²"""
    cost: Scalar = 0.0
    for weight, residual in residuals:
        cost = cost + 0.5 * weight * residual * residual
    return cost


def is_zero(weight: Any) -> bool:
    """Whether a weight is the literal 0: off for good"""
    return isinstance(weight, float) and weight == 0.0


def feedback(
    nominal: Sequence[Any],
    steps: Sequence[Any],
    gains: Sequence[Sequence[Any]],
    off: Sequence[Any],
    alpha: Any,
    limits: Limits,
) -> list[Any]:
    """u = u_nom + α k + K (x ⊖ x_nom, u₋ − u₋nom), within the limits; K by rows"""
    found = []
    for u, k, row, low, high in zip(nominal, steps, gains, *limits, strict=True):
        wanted = u + alpha * k
        for gain, error in zip(row, off, strict=True):
            wanted = wanted + gain * error
        found.append(clamp(wanted, low, high))
    return found
