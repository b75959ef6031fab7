"""iLQR for thousands of problems in JAX: on whatever device JAX has, compiled for a horizon and a number of iterations.

Physics is elementwise on arrays of B problems: rollouts over (step sizes, B), derivatives over (columns, N, B) by forward
differentiation of the same step and residuals. The backward pass is batched matrix products, one stage after another.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from samara.algebra import Vec3
from samara.arrays import flatten, unflatten
from samara.backends.folding import folded, new_trace, unfolded
from samara.backends.jax_scan import precision
from samara.control.ilqr.backward import smoothing, stage
from samara.control.ilqr.cost import (
    ANY_GOAL,
    Goal,
    Held,
    Kind,
    Weights,
    final_residuals,
    held_template,
    input_residuals,
    step_residuals,
    total,
)
from samara.control.ilqr.model import NO_DIFFERENCE, STATE, TANGENT, Model, difference, moved
from samara.control.ilqr.reference import Shaping, Target, Way, shaped_step
from samara.control.ilqr.search import Choice, choose
from samara.ops import clamp

Rows = list[Any]  # one array for each number of a state, an input, a goal


class Problems(NamedTuple):
    """B problems: states (13, B), targets (3, B), yaws (B,), inputs before (m, B), first inputs (N, m, B).

    The first rollout gives these inputs and the feedback `level_gains` (m, 12 + m) around level flight: 0 for a warm start.
    """

    states: Any
    targets: Any
    yaw: Any
    before: Any
    controls: Any
    level_gains: Any


class Solved(NamedTuple):
    """Inputs (N, m, B), states (N + 1, 13, B), costs and convergence (B,)."""

    controls: Any
    states: Any
    cost: Any
    converged: Any


@lru_cache(maxsize=8)
def jax_solver(
    model: Model, kind: Kind, horizon: int, iterations: int, sizes: tuple[float, ...], dtype: str
) -> Callable[[Problems, Any, Any, float], Solved]:
    """solve(problems, held, shaping, tolerance), held and shaping flat; compiled when first called with a number of problems"""
    with precision(dtype), jax.default_matmul_precision("highest"):
        compiled = jax.jit(_Solver(model, kind, horizon, iterations, sizes, dtype).solve)

    def solve(problems: Problems, held: Any, shaping: Any, tolerance: float) -> Solved:
        with precision(dtype), jax.default_matmul_precision("highest"):
            given = Problems._make(jnp.asarray(x, dtype) for x in problems)
            found: Solved = compiled(given, *(jnp.asarray(x, dtype) for x in (held, shaping, tolerance)))
            return found

    return solve


class _Solver:
    def __init__(
        self, model: Model, kind: Kind, horizon: int, iterations: int, sizes: tuple[float, ...], dtype: str
    ) -> None:
        self.model, self.horizon, self.iterations, self.sizes, self.dtype = model, horizon, iterations, sizes, dtype
        self.template = held_template(model, kind)
        self.smooth = self.template.weights.wSmooth != 0.0

    def solve(self, problems: Problems, held: Any, shaping: Any, tolerance: Any) -> Solved:
        states, before, controls = problems.states, problems.before, problems.controls
        numbers, given = self._held(held), (states, before)
        goals = self._goals(states, problems.targets, problems.yaw, shaping)
        level = jnp.broadcast_to(_levelled(states), (self.horizon, *states.shape))
        gains = jnp.broadcast_to(problems.level_gains[..., None], (self.horizon, *problems.level_gains.shape, 1))
        x, u, cost = self._rollout(given, goals, numbers, (level, controls), gains, jnp.zeros_like(controls), 0.0)
        damping, converged = jnp.zeros_like(cost), jnp.zeros_like(cost)

        def iterate(_: Any, carry: Any) -> Any:
            x, u, cost, damping, _ = carry
            nominal = (x[:-1], u)
            M, slope, H = self._derivatives(nominal, before, goals, numbers)
            gains, steps, sums = self._backward(x[-1], u, M, slope, H, goals, numbers, damping)

            def rollout(alpha: Any) -> Any:
                return self._rollout(given, goals, numbers, nominal, gains, steps, alpha)

            xs, us, costs = jax.vmap(rollout)(jnp.array(self.sizes, self.dtype))
            choice = choose([*costs], self.sizes, cost, sums[0], sums[1], damping, tolerance)
            x, u = (_taken(tried, kept, choice) for tried, kept in ((xs, x), (us, u)))
            after = (jnp.asarray(each, self.dtype) for each in (choice.cost, choice.damping, choice.converged))
            return x, u, *after

        x, u, cost, damping, converged = lax.fori_loop(0, self.iterations, iterate, (x, u, cost, damping, converged))
        return Solved(u, x, cost, converged > 0.0)

    def _held(self, numbers: Any) -> Held:
        """The held numbers; weights that are off stay the number 0"""
        own: Held = unflatten(self.template, iter([numbers[i] for i in range(numbers.shape[0])]))
        weights = (0.0 if off == 0.0 else w for off, w in zip(self.template.weights, own.weights, strict=True))
        return own._replace(weights=Weights(*weights))

    def _goals(self, states: Any, targets: Any, yaw: Any, shaping: Any) -> Any:
        """(N + 1, 12, B)"""
        limits = Shaping(*(shaping[i] for i in range(shaping.shape[0])))
        start = Vec3(*states[:3])
        target = Target(Vec3(*targets), start, yaw)

        def body(carry: Rows, _: None) -> tuple[Rows, Any]:
            way, goal = shaped_step(unflatten(Way(start, start), iter(carry)), target, limits, self.model)
            return flatten(way), jnp.stack(flatten(goal))

        return lax.scan(body, [*states[:6]], None, length=self.horizon + 1)[1]

    def _state(self, rows: Sequence[Any]) -> Any:
        return unflatten(self.model.template, iter(rows))

    def _rollout(
        self, given: Any, goals: Any, held: Held, nominal: Any, gains: Any, steps: Any, alpha: Any
    ) -> tuple[Any, Any, Any]:
        """States (N + 1, 13, B), inputs (N, m, B) and costs (B,) of u = u_nom + α k + K (…) within the limits"""
        m, (x0, before) = self.model.inputs, given

        def body(carry: Any, row: Any) -> Any:
            x, u_before, u_before_nominal, cost = carry
            goal, x_nominal, u_nominal, K, k = row
            trace = new_trace(self.dtype)
            state, near = (folded(self.model.template, rows, trace) for rows in (x, [*x_nominal]))
            off = [
                *unfolded(difference(state, near)),
                *(a - b for a, b in zip(u_before, u_before_nominal, strict=True)),
            ]
            u = []
            for a in range(m):
                wanted = u_nominal[a] + alpha * k[a]
                for j, error in enumerate(off):
                    wanted = wanted + K[a, j] * error
                u.append(clamp(wanted, held.low[a], held.high[a]))
            command = folded(tuple(u), u, trace)
            after = unfolded(self.model.step(state, command))
            residuals = step_residuals(self._state(x), _goal(goal), held)
            effort = input_residuals(tuple(u), tuple(u_before), held, self.model)
            shape = jnp.shape(cost)
            after = [jnp.broadcast_to(each, shape) for each in after]
            return (after, u, [*u_nominal], cost + total(residuals + effort)), (jnp.stack(after), jnp.stack(u))

        start = [*x0]
        carry = (start, [*before], [*before], jnp.zeros_like(x0[0]))
        (x, _, _, cost), (states, inputs) = lax.scan(body, carry, (goals[:-1], *nominal, gains, steps))
        cost = cost + total(final_residuals(self._state(x), _goal(goals[-1]), held))
        return jnp.concatenate([x0[None], states]), inputs, cost

    def _derivatives(self, nominal: Any, before: Any, goals: Any, held: Held) -> tuple[Any, Any, Any]:
        """[A B] (N, B, 12, 12 + m), the cost's slope (N, B, 12 + m) and curvature (N, B, 12 + m, 12 + m)"""
        x, u = nominal
        m, size = self.model.inputs, TANGENT + self.model.inputs
        earlier = jnp.concatenate([before[None], u[:-1]])
        rows, inputs = [x[:, i] for i in range(STATE)], [u[:, a] for a in range(m)]
        goal, u_before = _goal([goals[:-1, i] for i in range(goals.shape[1])]), [earlier[:, a] for a in range(m)]

        def local(*delta: Any) -> tuple[list[Any], list[Any]]:
            trace = new_trace(self.dtype)
            state = folded(self.model.template, rows, trace)
            by = folded(NO_DIFFERENCE, delta[:TANGENT], trace)
            command = tuple(folded((0.0,), [a + b], trace)[0] for a, b in zip(inputs, delta[TANGENT:], strict=True))
            near = moved(state, by)
            still = self.model.step(state, folded(tuple(inputs), inputs, trace))
            after = unfolded(difference(self.model.step(near, command), still))
            plain = self._state([jnp.asarray(each) for each in unfolded(near)])
            nudged = tuple(unfolded(command))
            residuals = step_residuals(plain, goal, held) + input_residuals(nudged, tuple(u_before), held, self.model)
            return after, [r for w, r in residuals if not _is_zero(w)]

        zeros = [jnp.zeros_like(rows[0])] * size
        (_, r), push = jax.linearize(local, *zeros)
        basis = jnp.eye(size, dtype=self.dtype)
        ones = jnp.ones_like(rows[0])
        jacobian, slopes = jax.vmap(lambda seed: push(*(seed[i] * ones for i in range(size))), out_axes=-1)(basis)
        slope, curvature = _gauss_newton(self._residual_weights(held), r, slopes)
        return jnp.stack(jacobian, axis=-2), slope, curvature

    def _residual_weights(self, held: Held) -> list[Any]:
        template = self.model.template
        inputs = self.model.hover_input
        residuals = step_residuals(template, ANY_GOAL, held) + input_residuals(inputs, inputs, held, self.model)
        return [w for w, _ in residuals if not _is_zero(w)]

    def _backward(
        self, x_end: Any, u: Any, M: Any, slope: Any, H: Any, goals: Any, held: Held, damping: Any
    ) -> tuple[Any, Any, Any]:
        """Gains (N, m, 12 + m, B), steps (N, m, B), and the sums over the horizon"""
        V, v = self._final(x_end, goals[-1], held)
        m, n, count = self.model.inputs, TANGENT, x_end.shape[1]
        later = jnp.full((self.horizon,), held.weights.wSmooth, self.dtype).at[-1].set(0.0)
        following = jnp.concatenate([u[1:], u[-1:]])
        from_before = -held.weights.wSmooth * jnp.eye(m, dtype=self.dtype)

        def one(
            V: Any, v: Any, M: Any, slope: Any, H: Any, here: Any, next_u: Any, K: Any, k: Any, damping: Any, s: Any
        ) -> Any:
            change = None
            if self.smooth:
                before = [[K[a, n + b] for b in range(m)] for a in range(m)]
                change = smoothing(s, K[:, :n], before, [*k], [*here], [*next_u])
            low, high = ([limit[a] - here[a] for a in range(m)] for limit in (held.low, held.high))
            own = stage(V, v, M, H, slope[:, None], low, high, damping, change, from_before, _stack, _beside)
            value = 0.5 * (own.V + own.V.T)
            return value, own.v, own.gains, jnp.stack(own.box.step), jnp.stack([own.box.linear, own.box.quadratic])

        every = jax.vmap(one, in_axes=(0,) * 10 + (None,))

        def body(carry: Any, row: Any) -> Any:
            V, v, K, k, sums = carry
            M, slope, H, here, next_u, s = row
            V, v, K, k, more = every(V, v, M, slope, H, here.T, next_u.T, K, k, damping, s)
            return (V, v, K, k, sums + more), (K, k)

        carry = (
            V,
            v,
            jnp.zeros((count, m, n + m), self.dtype),
            jnp.zeros((count, m), self.dtype),
            jnp.zeros((count, 2), self.dtype),
        )
        (_, _, _, _, sums), (gains, steps) = lax.scan(body, carry, (M, slope, H, u, following, later), reverse=True)
        return jnp.moveaxis(gains, 1, -1), jnp.moveaxis(steps, 1, -1), sums.T

    def _final(self, x: Any, goal: Any, held: Held) -> tuple[Any, Any]:
        rows = [*x]

        def local(*delta: Any) -> list[Any]:
            near = moved(self._state(rows), unflatten(NO_DIFFERENCE, iter(delta)))
            return [r for w, r in final_residuals(near, _goal(goal), held) if not _is_zero(w)]

        r, push = jax.linearize(local, *[jnp.zeros_like(rows[0])] * TANGENT)
        basis, ones = jnp.eye(TANGENT, dtype=self.dtype), jnp.ones_like(rows[0])
        slopes = jax.vmap(lambda seed: push(*(seed[i] * ones for i in range(TANGENT))), out_axes=-1)(basis)
        weights = [w for w, _ in final_residuals(self.model.template, ANY_GOAL, held) if not _is_zero(w)]
        slope, curvature = _gauss_newton(weights, r, slopes)
        return curvature, slope[:, :, None]


def _gauss_newton(weights: Sequence[Any], residuals: Sequence[Any], slopes: Sequence[Any]) -> tuple[Any, Any]:
    """Σ w r ∇r (…, columns) and Σ w ∇r ∇rᵀ (…, columns, columns), elementwise: a batched product takes ten times as long"""
    slope, curvature = 0.0, 0.0
    for w, r, g in zip(weights, residuals, slopes, strict=True):
        slope = slope + (w * r)[..., None] * g
        curvature = curvature + w * g[..., :, None] * g[..., None, :]
    return slope, curvature


def _taken(tried: Any, kept: Any, choice: Choice) -> Any:
    """Of the rollouts tried (sizes, ·, ·, B), each problem's best; or what it had, where none was accepted"""
    index = jnp.broadcast_to(jnp.asarray(choice.index, int), kept.shape[-1:])
    best = jnp.take_along_axis(tried, index[None, None, None], axis=0)[0]
    return jnp.where(choice.accepted > 0.5, best, kept)


def _levelled(states: Any) -> Any:
    """At rest and level, the nose where it is (13, B)"""
    w, z = states[6], states[9]
    size = jnp.hypot(w, z)
    sound = size > 1e-6
    safe = jnp.where(sound, size, 1.0)
    level = jnp.zeros_like(states)
    return level.at[6].set(jnp.where(sound, w / safe, 1.0)).at[9].set(jnp.where(sound, z / safe, 0.0))


def _goal(rows: Sequence[Any]) -> Goal:
    own: Goal = unflatten(ANY_GOAL, iter([*rows]))
    return own


def _stack(rows: Sequence[Any]) -> Any:
    """Rows into a matrix, numbers into a column"""
    return jnp.concatenate([jnp.reshape(row, (1, -1)) for row in rows])


def _beside(a: Any, b: Any) -> Any:
    return jnp.concatenate([a, b], axis=1)


def _is_zero(weight: Any) -> bool:
    return isinstance(weight, float) and weight == 0.0
