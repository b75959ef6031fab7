"""Integrators over any nested tuple of scalars: Euler, semi-implicit Euler, midpoint, RK4, Bogacki–Shampine, Dormand–Prince.

`rate(state)` returns the time derivative in the shape of the state; inputs are constant through the stages. Quaternions in the
state are normalised at the end of a step. `INTEGRATORS` lists all of them by name; `find_integrator` looks one up and checks
that the caller supports it.
"""

import math
from collections.abc import Callable
from typing import NamedTuple, TypeVar

from samara.core.algebra import Quat, angle_between, normalize
from samara.core.ops import absolute, maximum, safe_norm
from samara.core.quantity import Scalar
from samara.core.sanitise import quote_value

S = TypeVar("S")
Rate = Callable[[S], S]


class Tableau(NamedTuple):
    """Butcher's coefficients of an explicit method: stages, weights, and the weights of the embedded lower order."""

    stages: tuple[tuple[float, ...], ...]
    weights: tuple[float, ...]
    embedded: tuple[float, ...] = ()
    order: int = 1


EULER = Tableau(((),), (1.0,), order=1)
MIDPOINT = Tableau(((), (1 / 2,)), (0.0, 1.0), order=2)
RK4 = Tableau(((), (1 / 2,), (0.0, 1 / 2), (0.0, 0.0, 1.0)), (1 / 6, 1 / 3, 1 / 3, 1 / 6), order=4)
BOGACKI_SHAMPINE = Tableau(
    ((), (1 / 2,), (0.0, 3 / 4), (2 / 9, 1 / 3, 4 / 9)),
    (2 / 9, 1 / 3, 4 / 9, 0.0),
    (7 / 24, 1 / 4, 1 / 3, 1 / 8),
    order=3,
)
DORMAND_PRINCE = Tableau(
    (
        (),
        (1 / 5,),
        (3 / 40, 9 / 40),
        (44 / 45, -56 / 15, 32 / 9),
        (19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729),
        (9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656),
        (35 / 384, 0.0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84),
    ),
    (35 / 384, 0.0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84, 0.0),
    (5179 / 57600, 0.0, 7571 / 16695, 393 / 640, -92097 / 339200, 187 / 2100, 1 / 40),
    order=5,
)


class StageChain(NamedTuple):
    """A tableau in which each stage depends only on the previous one: bᵢ of each stage, and a of the next (0 for the last)."""

    weights: tuple[float, ...]
    next_coefficients: tuple[float, ...]


def stage_chain(tableau: Tableau | None) -> StageChain:
    """Return the coefficients of an explicit method for a loop; ValueError if a stage depends on more than the previous one."""
    if tableau is None or any(any(row[:-1]) for row in tableau.stages):
        raise ValueError("a stage depends on more than the one before it; expected Euler, the midpoint or RK4")
    return StageChain(tableau.weights, (*(row[-1] for row in tableau.stages[1:]), 0.0))


def _map(function: Callable[..., Scalar], *trees: Scalar) -> Scalar:
    """Apply a function to the leaves of nested tuples of equal shape; named tuples keep their type."""
    first = trees[0]
    if not isinstance(first, tuple):
        return function(*trees)
    parts = [_map(function, *branches) for branches in zip(*trees, strict=True)]
    return type(first)(*parts) if hasattr(first, "_fields") else tuple(parts)


def _leaves(tree: Scalar, stop: type | None = None) -> list[Scalar]:
    if not isinstance(tree, tuple) or (stop is not None and isinstance(tree, stop)):
        return [tree]
    return [leaf for branch in tree for leaf in _leaves(branch, stop)]


def _advance(state: S, dt: Scalar, weights: tuple[float, ...], rates: list[S]) -> S:
    """state + dt Σ bᵢ kᵢ"""
    terms = [(dt * weight, rate) for weight, rate in zip(weights, rates, strict=False) if weight != 0.0]
    if not terms:
        return state
    factors = [factor for factor, _ in terms]

    def leaf(x: Scalar, *slopes: Scalar) -> Scalar:
        for factor, slope in zip(factors, slopes, strict=True):
            x = x + factor * slope
        return x

    next_state: S = _map(leaf, state, *(rate for _, rate in terms))
    return next_state


def unit_quaternions(tree: Scalar) -> Scalar:
    """q / |q| for every quaternion in a nested tuple; other leaves are unchanged."""
    if isinstance(tree, Quat):
        return normalize(tree)
    if not isinstance(tree, tuple):
        return tree
    parts = [unit_quaternions(branch) for branch in tree]
    return type(tree)(*parts) if hasattr(tree, "_fields") else tuple(parts)


def runge_kutta(tableau: Tableau, rate: Rate[S], state: S, dt: Scalar) -> S:
    """kᵢ = f(x + dt Σ aᵢⱼ kⱼ),  x' = x + dt Σ bᵢ kᵢ: one step of any explicit method."""
    next_state: S = unit_quaternions(_advance(state, dt, tableau.weights, _stage_rates(tableau, rate, state, dt)))
    return next_state


def _stage_rates(tableau: Tableau, rate: Rate[S], state: S, dt: Scalar) -> list[S]:
    stage_count = len(tableau.stages) if tableau.embedded else max(i + 1 for i, b in enumerate(tableau.weights) if b)
    rates: list[S] = []
    for row in tableau.stages[:stage_count]:
        rates.append(rate(_advance(state, dt, row, rates)))
    return rates


def euler(rate: Rate[S], state: S, dt: Scalar) -> S:
    """x' = x + dt f(x)"""
    return runge_kutta(EULER, rate, state, dt)


def midpoint(rate: Rate[S], state: S, dt: Scalar) -> S:
    """x' = x + dt f(x + ½ dt f(x)): second order at half the cost of RK4."""
    return runge_kutta(MIDPOINT, rate, state, dt)


def rk4(rate: Rate[S], state: S, dt: Scalar) -> S:
    """The classical fourth-order step."""
    return runge_kutta(RK4, rate, state, dt)


def semi_implicit_euler(
    rate: Rate[Scalar], state: Scalar, dt: Scalar, positions: tuple[str, ...] = ("p_W", "q_WB")
) -> Scalar:
    """v' = v + dt a(x, v),  x' = x + dt ẋ(x, v'): velocities first, then positions with the new velocities."""
    updated = _advance(state, dt, (1.0,), [rate(state)])._replace(**{name: getattr(state, name) for name in positions})
    position_rates = rate(updated)
    new_positions = {
        name: _advance(getattr(state, name), dt, (1.0,), [getattr(position_rates, name)]) for name in positions
    }
    return unit_quaternions(updated._replace(**new_positions))


def rk23(rate: Rate[S], state: S, dt: float, rtol: float = 1e-6, atol: float = 1e-9) -> S:
    """Integrate over dt with adaptive Bogacki–Shampine 3(2) steps."""
    return integrate_adaptively(BOGACKI_SHAMPINE, rate, state, dt, rtol, atol)


def rk45(rate: Rate[S], state: S, dt: float, rtol: float = 1e-9, atol: float = 1e-12) -> S:
    """Integrate over dt with adaptive Dormand–Prince 5(4) steps."""
    return integrate_adaptively(DORMAND_PRINCE, rate, state, dt, rtol, atol)


def integrate_adaptively(tableau: Tableau, rate: Rate[S], state: S, dt: float, rtol: float, atol: float) -> S:
    """Take steps h from 0 to dt with ‖x' − x̂'‖ ≤ 1, h ← 0.9 h ‖·‖^(−1/order); attitudes are compared by their angle.

    The norm is the largest component error over atol + rtol |x|. All drones of a batch share the smallest step.
    """
    if not 0.0 <= dt < math.inf:
        raise ValueError(f"a step of {dt} s: expected a finite number that is not negative")
    time, h = 0.0, initial_step(rate(state), state, rtol, atol)
    min_step = 1e-12 * dt
    while time < dt:
        h = min(h, dt - time)
        next_state, error_estimate = embedded_step(tableau, rate, state, h, rtol, atol)
        error = _largest(error_estimate)
        if not math.isfinite(error):
            raise FloatingPointError(f"the rate of change is not finite at {time:.9g} s into a step of {dt:.9g} s")
        if error <= 1.0:
            state, time = next_state, (dt if h >= dt - time else time + h)
        elif h <= min_step:
            raise FloatingPointError(f"no step down to {h:.3g} s meets rtol {rtol:g}, atol {atol:g} at {time:.9g} s")
        h *= step_factor(error, tableau.order)
    return state


def embedded_step(tableau: Tableau, rate: Rate[S], state: S, h: Scalar, rtol: float, atol: float) -> tuple[S, Scalar]:
    """Return x' and ‖x' − x̂'‖, x̂' the embedded lower order; the step is accepted if the norm is at most 1."""
    rates = _stage_rates(tableau, rate, state, h)
    next_state: S = unit_quaternions(_advance(state, h, tableau.weights, rates))
    return next_state, _error(
        next_state, unit_quaternions(_advance(state, h, tableau.embedded, rates)), state, rtol, atol
    )


def step_factor(error: float, order: int) -> float:
    """h' / h = 0.9 ‖·‖^(−1/order), limited to [1/5, 5]."""
    return min(5.0, max(0.2, 0.9 * max(error, 1e-10) ** (-1.0 / order)))


def initial_step(slope: Scalar, state: Scalar, rtol: float, atol: float) -> float:
    """h = 0.01 ‖x‖ / ‖ẋ‖ in that norm (Hairer, Nørsett & Wanner, II.4): a small first step."""
    norms, rate_norms = [1.0], [0.0]
    for x, f in zip(_leaves(state, Quat), _leaves(slope, Quat), strict=True):
        magnitude, rate_magnitude = (1.0, safe_norm(*f)) if isinstance(x, Quat) else (absolute(x), absolute(f))
        norms.append(_largest(magnitude / (atol + rtol * magnitude)))
        rate_norms.append(_largest(rate_magnitude / (atol + rtol * magnitude)))
    return 0.01 * max(norms) / max(rate_norms) if max(rate_norms) > 0.0 else math.inf


def _error(high_order: Scalar, low_order: Scalar, previous: Scalar, rtol: float, atol: float) -> Scalar:
    largest: Scalar = 0.0
    for a, b, x in zip(_leaves(high_order, Quat), _leaves(low_order, Quat), _leaves(previous, Quat), strict=True):
        if isinstance(a, Quat):
            scaled_error = angle_between(a, b) / (atol + rtol)
        else:
            scaled_error = absolute(a - b) / (atol + rtol * maximum(absolute(a), absolute(x)))
        largest = maximum(largest, scaled_error)
    return largest


def _largest(x: Scalar) -> float:
    return float(x.max()) if hasattr(x, "max") else float(x)


class Integrator(NamedTuple):
    """advance(rate, state, dt) returns the state after dt; `tableau` is that of an explicit Runge–Kutta method, else None."""

    name: str
    advance: Callable[..., Scalar]
    tableau: Tableau | None = None

    @property
    def is_adaptive(self) -> bool:
        """Whether it chooses its steps within dt by the error of an embedded method."""
        return self.tableau is not None and bool(self.tableau.embedded)


INTEGRATORS = {
    integrator.name: integrator
    for integrator in (
        Integrator("euler", euler, EULER),
        Integrator("semi_implicit", semi_implicit_euler),
        Integrator("midpoint", midpoint, MIDPOINT),
        Integrator("rk4", rk4, RK4),
        Integrator("rk23", rk23, BOGACKI_SHAMPINE),
        Integrator("rk45", rk45, DORMAND_PRINCE),
    )
}
ALL_INTEGRATORS = tuple(INTEGRATORS)
FIXED_STEP_INTEGRATORS = tuple(name for name, integrator in INTEGRATORS.items() if not integrator.is_adaptive)
"""Integrators that take exactly one step of dt; these can be compiled into a loop."""
RUNGE_KUTTA_INTEGRATORS = tuple(name for name in FIXED_STEP_INTEGRATORS if INTEGRATORS[name].tableau)
"""Integrators that take one step by a tableau; these can be differentiated stage by stage."""
FLIGHT_INTEGRATORS = (*FIXED_STEP_INTEGRATORS, "rk45")
"""Integrators for a simulation: one step per physics period, or adaptive steps within it, as contact is stiff."""


def find_integrator(name: str, allowed: tuple[str, ...] = ALL_INTEGRATORS, label: str = "integrator") -> Integrator:
    """Return the integrator `name`; ValueError with the label `label` if it is not among `allowed`."""
    if name not in allowed:
        raise ValueError(f"{label} {quote_value(name)}: expected one of {', '.join(allowed)}")
    return INTEGRATORS[name]
