"""A problem of optimal control: the step, the residuals along the horizon and at its end, limits and constraints.

    min Σ ½ w r(x, u, goal)² + Σ ½ s |u − u₋|² + Σ ½ w r(x_N, goal_N)²
    x' = step(x, u),   low ≤ u ≤ high,   |u − u₋| ≤ max_change,   g(x, u, t) ≤ 0

Its functions are of scalars, like the physics: `solver` traces them for one problem, `batch_cpu` for many on the CPU,
`batch_jax` for thousands. The residuals are the only place where a cost is written; gradient and Gauss–Newton Hessian are
their derivatives. A constraint g ≤ 0 is the residual max(g + y, 0) of weight ρ, an augmented Lagrangian with the multiplier
ρ y; see `update_multiplier`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

from samara.core.ops import clamp, logical_and, maximum, minimum, where
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


class Multipliers(NamedTuple):
    """The constraints' data of one step: time since the start of the horizon [s], the weight ρ, a shift y for each of them."""

    elapsed: Scalar
    penalty: Scalar
    shifts: tuple[Scalar, ...]


class StepData(NamedTuple):
    """What changes from step to step: the goal, and the multipliers, () for a problem without constraints."""

    goal: Tree
    multipliers: Multipliers | tuple[()] = ()


def add_trees(x: Tree, delta: Tree) -> Tree:
    """x + δ, component by component"""
    return unflatten(x, iter([a + b for a, b in zip(flatten(x), flatten(delta), strict=True)]))


def subtract_trees(x: Tree, origin: Tree) -> Tree:
    """x − x₀, component by component"""
    return unflatten(x, iter([a - b for a, b in zip(flatten(x), flatten(origin), strict=True)]))


class ProblemSizes(NamedTuple):
    """Component counts of states, tangents, commands, data of a step, parameters and constraints."""

    state: int
    tangent: int
    command: int
    data: int
    parameters: int
    constraints: int

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

    `parameters` are constant along the horizon; changing their values does not require new code. A residual whose weight is
    the literal 0 is dropped. `displace(x, δ)` and `difference(x, x₀)` are x ⊕ δ and x ⊖ x₀, for states that are not plain
    vectors; each is the inverse of the other.

    A cold start applies the constant input `command` along the states `guess(x₀, goal)`, which need not follow from each
    other: the solver closes the gaps. Without a guess it starts from the rollout of `command`.

    `constraints(x, u, elapsed, parameters)` returns g in units of its scale for each of `constraint_names`. Those of inputs
    hold at every input; those of states from the second state to the last, where `u` is `command`.
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
    guess: Callable[[Tree, Tree], Tree] | None = None
    constraint_names: tuple[str, ...] = ()
    constraints: Callable[[Tree, Tree, Scalar, Tree], Sequence[Scalar]] = lambda *_: ()
    on_inputs: tuple[bool, ...] = ()  # for each constraint, whether it is one of inputs rather than of states
    soft_residuals: Callable[[Tree, Tree, Scalar, Tree], Residuals] | None = None  # (x, u, elapsed, parameters)
    max_change: Callable[[Tree], Sequence[Scalar]] | None = None  # (parameters) → the largest |u − u₋|
    turns_over: Callable[[Tree, Tree], Scalar] | None = None  # (x₀, x): 1 if no good plan leads from x₀ to x, else 0

    @cached_property
    def tangent(self) -> Tree:
        """x ⊖ x: the template of a small difference of states."""
        return self.difference(self.state, self.state)

    @cached_property
    def sizes(self) -> ProblemSizes:
        count = len(self.constraint_names) + (0 if self.max_change is None else 2 * len(self.command))
        parts = (self.state, self.tangent, self.command, self.goal, self.parameters)
        state, tangent, command, goal, parameters = (len(flatten(template)) for template in parts)
        data = goal + (count + 2 if count or self.soft_residuals else 0)
        return ProblemSizes(state, tangent, command, data, parameters, count)

    @cached_property
    def data(self) -> StepData:
        """The template of a step's data; the shifts are its last leaves."""
        count = self.sizes.constraints
        has_multipliers = count or self.soft_residuals
        return StepData(self.goal, Multipliers(0.0, INITIAL_PENALTY, (0.0,) * count) if has_multipliers else ())

    @cached_property
    def goal_size(self) -> int:
        """Leaves of a goal, the first of a step's data."""
        return len(flatten(self.goal))

    def all_constraint_names(self) -> tuple[str, ...]:
        """The names of all constraints, the limits of the change of the inputs last."""
        rates = 0 if self.max_change is None else 2 * len(self.command)
        return (*self.constraint_names, *("input rate",) * rates)

    def stage_residuals(
        self, state: Tree, command: Tree, previous: Tree, data: StepData, parameters: Tree
    ) -> Residuals:
        """Return the residuals of one step, with those of the change of its inputs from the `previous` ones."""
        s = self.smoothing(parameters)
        change = [(s, u - u_before) for u, u_before in zip(command, previous, strict=True)]
        residuals = self.residuals(state, command, data.goal, parameters) + change
        if data.multipliers and self.soft_residuals is not None:
            residuals += self.soft_residuals(state, command, data.multipliers.elapsed, parameters)
        return residuals + penalties(self.stage_violations(state, command, previous, data, parameters), data)

    def final_residuals(self, state: Tree, data: StepData, parameters: Tree) -> Residuals:
        """Return the residuals at the end of the horizon."""
        residuals = self.final(state, data.goal, parameters)
        if data.multipliers and self.soft_residuals is not None:
            residuals = residuals + self.soft_residuals(state, self.command, data.multipliers.elapsed, parameters)
        return residuals + penalties(self.final_violations(state, data, parameters), data)

    def stage_violations(
        self, state: Tree, command: Tree, previous: Tree, data: StepData, parameters: Tree
    ) -> list[Scalar]:
        """Return g of one step, −1 for constraints that do not hold there."""
        if not data.multipliers:
            return []
        elapsed = data.multipliers.elapsed
        g = [
            x if on_inputs else where(elapsed > 0.0, x, -1.0)
            for x, on_inputs in zip(self.constraints(state, command, elapsed, parameters), self.on_inputs, strict=True)
        ]
        if self.max_change is not None:
            for u, u_before, change in zip(command, previous, self.max_change(parameters), strict=True):
                ratio = (u - u_before) / change
                g += [ratio - 1.0, -ratio - 1.0]
        return g

    def final_violations(self, state: Tree, data: StepData, parameters: Tree) -> list[Scalar]:
        """Return g at the end of the horizon, −1 for constraints of inputs."""
        if not data.multipliers:
            return []
        g = self.constraints(state, self.command, data.multipliers.elapsed, parameters)
        states = [-1.0 if on_inputs else x for x, on_inputs in zip(g, self.on_inputs, strict=True)]
        return states + [-1.0] * (self.sizes.constraints - len(states))

    def change_terms(
        self, command: Tree, previous: Tree, data: StepData, parameters: Tree
    ) -> tuple[list[Scalar], list[Scalar]]:
        """Second and first derivative of the cost of one step by the change u − u₋ of each input."""
        s = self.smoothing(parameters)
        weights, slopes = [s] * len(command), [s * (u - before) for u, before in zip(command, previous, strict=True)]
        if self.max_change is None or not data.multipliers:
            return weights, slopes
        penalty, shifts = data.multipliers.penalty, data.multipliers.shifts[-2 * len(command) :]
        for a, (u, before, change) in enumerate(zip(command, previous, self.max_change(parameters), strict=True)):
            ratio = (u - before) / change
            up, down = ratio - 1.0 + shifts[2 * a], -ratio - 1.0 + shifts[2 * a + 1]
            active = where(up > 0.0, 1.0, 0.0) + where(down > 0.0, 1.0, 0.0)
            weights[a] = weights[a] + penalty / (change * change) * active
            slopes[a] = slopes[a] + penalty / change * (maximum(up, 0.0) - maximum(down, 0.0))
        return weights, slopes


INITIAL_PENALTY, MAX_PENALTY, PENALTY_GROWTH = 1e2, 1e6, 4.0
FLIGHT_GROWTH = 5.0  # of ρ after the cold start of a flight, in whose real-time iterations it stays
MAX_SHIFT = 1e3
MAX_VIOLATION = 1e-3  # of its scale: a constraint counts as satisfied
MIN_VIOLATION_DECREASE = 0.25


def penalties(violations: Scalars, data: StepData) -> Residuals:
    """(ρ, max(g + y, 0)) of each constraint; nothing for one that is the literal −1."""
    if not data.multipliers:
        return []
    penalty, shifts = data.multipliers.penalty, data.multipliers.shifts
    return [
        (penalty, maximum(g + y, 0.0))
        for g, y in zip(violations, shifts, strict=True)
        if not (isinstance(g, float) and g == -1.0)
    ]


def penalty_growth(violation: Scalar, previous_violation: Scalar, penalty: Scalar) -> Scalar:
    """The factor of ρ: grow if the last update left more than a quarter of the violation."""
    is_slow = violation > maximum(MIN_VIOLATION_DECREASE * previous_violation, MAX_VIOLATION)
    return where(logical_and(is_slow, penalty < MAX_PENALTY), PENALTY_GROWTH, 1.0)


def multiplier_interval(iterations: int) -> int:
    """Return the iterations between updates of the multipliers of a batch: penalties of unsettled plans grow too fast."""
    return 5 if iterations <= 40 else 10


def update_multiplier(g: Scalar, shift: Scalar, growth: Scalar) -> Scalar:
    """y ← max(g + y, 0) / growth: the multiplier ρ y becomes ρ max(g + y, 0) while the weight ρ grows"""
    return minimum(maximum(g + shift, 0.0), MAX_SHIFT) / growth


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
