"""Integrators over any nested tuple of scalars: Euler, semi-implicit Euler, midpoint, RK4, Bogacki–Shampine, Dormand–Prince.

`rate(state)` returns the time derivative in the shape of the state; inputs are held through the stages. Whatever is a
quaternion in the state is brought back to unit length at the end of a step. `INTEGRATORS` has all of them by name; who takes
one by its name says which kinds it takes, and gets it from `integrator_named`.
"""

import math
from collections.abc import Callable
from typing import NamedTuple, TypeVar

from samara.core.algebra import Quat, angle_between, normalize
from samara.core.ops import absolute, maximum, safe_norm
from samara.core.quantity import Scalar
from samara.core.sanitise import shown

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


class Chain(NamedTuple):
    """A tableau whose every stage depends on the one before alone: bᵢ of each, and a of the one after it (0 for the last)."""

    weights: tuple[float, ...]
    ahead: tuple[float, ...]


def chain_of(tableau: Tableau | None) -> Chain:
    """The weights of an explicit method as a loop goes through them; ValueError where a stage depends on others as well"""
    if tableau is None or any(any(row[:-1]) for row in tableau.stages):
        raise ValueError("a stage depends on more than the one before it; expected Euler, the midpoint or RK4")
    return Chain(tableau.weights, (*(row[-1] for row in tableau.stages[1:]), 0.0))


def _map(function: Callable[..., Scalar], *trees: Scalar) -> Scalar:
    """function over the leaves of equally shaped nested tuples, named ones kept."""
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
    used = [(dt * weight, rate) for weight, rate in zip(weights, rates, strict=False) if weight != 0.0]
    if not used:
        return state
    factors = [factor for factor, _ in used]

    def leaf(x: Scalar, *slopes: Scalar) -> Scalar:
        for factor, slope in zip(factors, slopes, strict=True):
            x = x + factor * slope
        return x

    advanced: S = _map(leaf, state, *(rate for _, rate in used))
    return advanced


def unit_quaternions(tree: Scalar) -> Scalar:
    """q / |q| for every quaternion in a nested tuple, all else unchanged"""
    if isinstance(tree, Quat):
        return normalize(tree)
    if not isinstance(tree, tuple):
        return tree
    parts = [unit_quaternions(branch) for branch in tree]
    return type(tree)(*parts) if hasattr(tree, "_fields") else tuple(parts)


def runge_kutta(tableau: Tableau, rate: Rate[S], state: S, dt: Scalar) -> S:
    """kᵢ = f(x + dt Σ aᵢⱼ kⱼ),  x' = x + dt Σ bᵢ kᵢ, one step of any explicit method"""
    advanced: S = unit_quaternions(_advance(state, dt, tableau.weights, _stage_rates(tableau, rate, state, dt)))
    return advanced


def _stage_rates(tableau: Tableau, rate: Rate[S], state: S, dt: Scalar) -> list[S]:
    needed = len(tableau.stages) if tableau.embedded else max(i + 1 for i, b in enumerate(tableau.weights) if b)
    rates: list[S] = []
    for row in tableau.stages[:needed]:
        rates.append(rate(_advance(state, dt, row, rates)))
    return rates


def euler(rate: Rate[S], state: S, dt: Scalar) -> S:
    """x' = x + dt f(x)"""
    return runge_kutta(EULER, rate, state, dt)


def midpoint(rate: Rate[S], state: S, dt: Scalar) -> S:
    """x' = x + dt f(x + ½ dt f(x)): second order for half the work of the classical step"""
    return runge_kutta(MIDPOINT, rate, state, dt)


def rk4(rate: Rate[S], state: S, dt: Scalar) -> S:
    """The classical fourth-order step."""
    return runge_kutta(RK4, rate, state, dt)


def semi_implicit(
    rate: Rate[Scalar], state: Scalar, dt: Scalar, positions: tuple[str, ...] = ("p_W", "q_WB")
) -> Scalar:
    """v' = v + dt a(x, v),  x' = x + dt ẋ(x, v'): velocities first, then positions with the new velocities"""
    moved = _advance(state, dt, (1.0,), [rate(state)])._replace(**{name: getattr(state, name) for name in positions})
    drift = rate(moved)
    placed = {name: _advance(getattr(state, name), dt, (1.0,), [getattr(drift, name)]) for name in positions}
    return unit_quaternions(moved._replace(**placed))


def rk23(rate: Rate[S], state: S, dt: float, rtol: float = 1e-6, atol: float = 1e-9) -> S:
    """Bogacki–Shampine 3(2), as many adaptive steps within dt as the tolerances ask for"""
    return adaptive(BOGACKI_SHAMPINE, rate, state, dt, rtol, atol)


def rk45(rate: Rate[S], state: S, dt: float, rtol: float = 1e-9, atol: float = 1e-12) -> S:
    """Dormand–Prince 5(4), as many adaptive steps within dt as the tolerances ask for"""
    return adaptive(DORMAND_PRINCE, rate, state, dt, rtol, atol)


def adaptive(tableau: Tableau, rate: Rate[S], state: S, dt: float, rtol: float, atol: float) -> S:
    """Steps h from 0 to dt with ‖x' − x̂'‖ ≤ 1, h ← 0.9 h ‖·‖^(−1/order); attitudes are compared by their angle

    The norm is the largest component error over atol + rtol |x|. All drones of a batch share the step of the worst.
    """
    if not 0.0 <= dt < math.inf:
        raise ValueError(f"a step of {dt} s: expected a finite number that is not negative")
    time, h = 0.0, first_step(rate(state), state, rtol, atol)
    smallest = 1e-12 * dt
    while time < dt:
        h = min(h, dt - time)
        advanced, estimated = embedded_step(tableau, rate, state, h, rtol, atol)
        error = _largest(estimated)
        if not math.isfinite(error):
            raise FloatingPointError(f"the rate of change is not finite at {time:.9g} s into a step of {dt:.9g} s")
        if error <= 1.0:
            state, time = advanced, (dt if h >= dt - time else time + h)
        elif h <= smallest:
            raise FloatingPointError(f"no step down to {h:.3g} s meets rtol {rtol:g}, atol {atol:g} at {time:.9g} s")
        h *= step_factor(error, tableau.order)
    return state


def embedded_step(tableau: Tableau, rate: Rate[S], state: S, h: Scalar, rtol: float, atol: float) -> tuple[S, Scalar]:
    """x' and ‖x' − x̂'‖, x̂' the embedded lower order: the step is good when that is at most 1"""
    rates = _stage_rates(tableau, rate, state, h)
    advanced: S = unit_quaternions(_advance(state, h, tableau.weights, rates))
    return advanced, _error(advanced, unit_quaternions(_advance(state, h, tableau.embedded, rates)), state, rtol, atol)


def step_factor(error: float, order: int) -> float:
    """h' / h = 0.9 ‖·‖^(−1/order), between a fifth and five"""
    return min(5.0, max(0.2, 0.9 * max(error, 1e-10) ** (-1.0 / order)))


def first_step(slope: Scalar, state: Scalar, rtol: float, atol: float) -> float:
    """h = 0.01 ‖x‖ / ‖ẋ‖ in that norm (Hairer, Nørsett & Wanner, II.4): the first trial stays near the state"""
    sizes, speeds = [1.0], [0.0]
    for x, f in zip(_leaves(state, Quat), _leaves(slope, Quat), strict=True):
        size, speed = (1.0, safe_norm(*f)) if isinstance(x, Quat) else (absolute(x), absolute(f))
        sizes.append(_largest(size / (atol + rtol * size)))
        speeds.append(_largest(speed / (atol + rtol * size)))
    return 0.01 * max(sizes) / max(speeds) if max(speeds) > 0.0 else math.inf


def _error(high: Scalar, low: Scalar, before: Scalar, rtol: float, atol: float) -> Scalar:
    worst: Scalar = 0.0
    for a, b, x in zip(_leaves(high, Quat), _leaves(low, Quat), _leaves(before, Quat), strict=True):
        if isinstance(a, Quat):
            scaled = angle_between(a, b) / (atol + rtol)
        else:
            scaled = absolute(a - b) / (atol + rtol * maximum(absolute(a), absolute(x)))
        worst = maximum(worst, scaled)
    return worst


def _largest(x: Scalar) -> float:
    return float(x.max()) if hasattr(x, "max") else float(x)


class Integrator(NamedTuple):
    """advance(rate, state, dt) → the state after dt; the tableau of its stages, where it is an explicit Runge–Kutta method"""

    name: str
    advance: Callable[..., Scalar]
    tableau: Tableau | None = None

    @property
    def adaptive(self) -> bool:
        """Whether it chooses its own steps within dt, by the error of an embedded method"""
        return self.tableau is not None and bool(self.tableau.embedded)


INTEGRATORS = {
    own.name: own
    for own in (
        Integrator("euler", euler, EULER),
        Integrator("semi_implicit", semi_implicit),
        Integrator("midpoint", midpoint, MIDPOINT),
        Integrator("rk4", rk4, RK4),
        Integrator("rk23", rk23, BOGACKI_SHAMPINE),
        Integrator("rk45", rk45, DORMAND_PRINCE),
    )
}
ANY = tuple(INTEGRATORS)
ONE_STEP = tuple(name for name, own in INTEGRATORS.items() if not own.adaptive)
"""One step of the length asked for: what can be compiled into a loop"""
RUNGE_KUTTA = tuple(name for name in ONE_STEP if INTEGRATORS[name].tableau)
"""One step by a tableau: what can be differentiated stage by stage"""
IN_FLIGHT = (*ONE_STEP, "rk45")
"""Steps of the physics axis, or its own within them: what a simulation flies with, as contact is stiff"""


def integrator_named(name: str, kinds: tuple[str, ...] = ANY, what: str = "integrator") -> Integrator:
    """The integrator of that name, if it is of those kinds; else a sentence about `what` was asked for"""
    if name not in kinds:
        raise ValueError(f"{what} {shown(name)}: expected one of {', '.join(kinds)}")
    return INTEGRATORS[name]
