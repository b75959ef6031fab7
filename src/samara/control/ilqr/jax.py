"""iLQR for thousands of problems in JAX: on whatever device JAX has, compiled for a horizon and a number of iterations.

Physics is elementwise on arrays of B problems: rollouts over (step sizes, B), derivatives over (columns, N, B) by forward
differentiation of the same step and residuals. The backward pass is batched matrix products, one stage after another.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from samara.backends.folding import folded, new_trace, unfolded
from samara.backends.jax_scan import precision
from samara.control.ilqr.backward import Join, smoothing, stage
from samara.control.ilqr.model import Model
from samara.control.ilqr.problem import Problem, Residuals, feedback, is_zero, total
from samara.control.ilqr.reference import Shaping, Target, Way, shaped_step
from samara.control.ilqr.search import Choice, choose
from samara.core.algebra import Vec3
from samara.core.tree import flatten, unflatten

Rows = list[Any]  # one array for each number of a state, an input, a goal

JOIN = Join(jnp.vstack, jnp.hstack)


class Batch(NamedTuple):
    """B problems: states (n, B), what their goals are made of, inputs before (m, B), first inputs (N, m, B).

    The first rollout gives these inputs and the feedback `start_gains` (m, · + m) of a cold start: 0 for a warm one.
    """

    states: Any
    asked: Any
    before: Any
    controls: Any
    start_gains: Any


class Solved(NamedTuple):
    """Inputs (N, m, B), states (N + 1, n, B), costs and convergence (B,)."""

    controls: Any
    states: Any
    cost: Any
    converged: Any


@lru_cache(maxsize=8)
def jax_solver(
    problem: Problem,
    horizon: int,
    iterations: int,
    sizes: tuple[float, ...],
    dtype: str,
    goals: Callable[[Any, Any], Any],
) -> Callable[[Batch, Any, float], Solved]:
    """solve(batch, parameters, tolerance), parameters flat; compiled when first called with a number of problems

    `goals(states, asked)` are the goals (N + 1, ·, B) of a batch.
    """
    with precision(dtype), jax.default_matmul_precision("highest"):
        compiled = jax.jit(_Solver(problem, horizon, iterations, sizes, dtype, goals).solve)

    def solve(batch: Batch, parameters: Any, tolerance: float) -> Solved:
        with precision(dtype), jax.default_matmul_precision("highest"):
            numbers = jnp.asarray(parameters, dtype)
            given = jax.tree.map(lambda x: jnp.asarray(x, dtype), (batch, tolerance))
            found: Solved = compiled(given[0], numbers, given[1])
            return found

    return solve


class PointTargets(NamedTuple):
    """Targets (3, B), yaws (B,), and how the way to them is shaped."""

    targets: Any
    yaw: Any
    shaping: Shaping


@lru_cache(maxsize=8)
def point_goals(model: Model, horizon: int) -> Callable[[Any, PointTargets], Any]:
    """The shaped ways from the states of a vehicle to `PointTargets`: goals (N + 1, 12, B)"""

    def goals(states: Any, asked: PointTargets) -> Any:
        start = Vec3(*states[:3])
        target = Target(Vec3(*asked.targets), start, asked.yaw)

        def body(carry: Rows, _: None) -> tuple[Rows, Any]:
            way, goal = shaped_step(unflatten(Way(start, start), iter(carry)), target, asked.shaping, model)
            return flatten(way), jnp.stack(flatten(goal))

        return lax.scan(body, [*states[:6]], None, length=horizon + 1)[1]

    return goals


@dataclass(frozen=True)
class _Solver:
    problem: Problem
    horizon: int
    iterations: int
    sizes: tuple[float, ...]
    dtype: str
    goals: Callable[[Any, Any], Any]

    def solve(self, batch: Batch, parameters: Any, tolerance: Any) -> Solved:
        states, before, controls = batch.states, batch.before, batch.controls
        numbers, given = unflatten(self.problem.parameters, iter(parameters)), (states, before)
        goals = self.goals(states, batch.asked)
        gains = jnp.broadcast_to(batch.start_gains[..., None], (self.horizon, *batch.start_gains.shape, 1))
        x, u, cost = self._rollout(
            given, goals, numbers, (self._start(states), controls), gains, jnp.zeros_like(controls), 0.0
        )
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

    def _start(self, states: Any) -> Any:
        """The nominal states of a cold start (N, n, B)"""
        start = self.problem.start
        nominal = flatten(self.problem.state) if start is None else start.nominal(states, jnp.hypot)
        rows = jnp.stack([jnp.broadcast_to(jnp.asarray(each, self.dtype), states.shape[1:]) for each in nominal])
        return jnp.broadcast_to(rows, (self.horizon, *rows.shape))

    def _state(self, rows: Sequence[Any]) -> Any:
        return unflatten(self.problem.state, iter(rows))

    def _goal(self, rows: Sequence[Any]) -> Any:
        return unflatten(self.problem.goal, iter([*rows]))

    def _folded(self, parameters: Any, trace: Any) -> Any:
        return folded(self.problem.parameters, flatten(parameters), trace)

    def _rollout(
        self, given: Any, goals: Any, parameters: Any, nominal: Any, gains: Any, steps: Any, alpha: Any
    ) -> tuple[Any, Any, Any]:
        """States (N + 1, n, B), inputs (N, m, B) and costs (B,) of the feedback around a nominal trajectory"""
        problem, (x0, before) = self.problem, given
        limits = problem.limits(parameters)

        def body(carry: Any, row: Any) -> Any:
            x, u_before, u_before_nominal, cost = carry
            goal, x_nominal, u_nominal, K, k = row
            trace = new_trace(self.dtype)
            state, near = (folded(problem.state, rows, trace) for rows in (x, [*x_nominal]))
            off = [
                *unfolded(problem.difference(state, near)),
                *(a - b for a, b in zip(u_before, u_before_nominal, strict=True)),
            ]
            u = feedback([*u_nominal], [*k], [[*gain] for gain in K], off, alpha, limits)
            command = folded(tuple(u), u, trace)
            after = unfolded(problem.step(state, command, self._folded(parameters, trace)))
            here = problem.stage_residuals(self._state(x), tuple(u), tuple(u_before), self._goal(goal), parameters)
            shape = jnp.shape(cost)
            after = [jnp.broadcast_to(each, shape) for each in after]
            return (after, u, [*u_nominal], cost + total(here)), (jnp.stack(after), jnp.stack(u))

        carry = ([*x0], [*before], [*before], jnp.zeros_like(x0[0]))
        (x, _, _, cost), (states, inputs) = lax.scan(body, carry, (goals[:-1], *nominal, gains, steps))
        cost = cost + total(problem.final(self._state(x), self._goal(goals[-1]), parameters))
        return jnp.concatenate([x0[None], states]), inputs, cost

    def _derivatives(self, nominal: Any, before: Any, goals: Any, parameters: Any) -> tuple[Any, Any, Any]:
        """[A B] (N, B, ·, · + m), the cost's slope (N, B, · + m) and curvature (N, B, · + m, · + m)"""
        (x, u), problem, size = nominal, self.problem, self.problem.sizes
        earlier = jnp.concatenate([before[None], u[:-1]])
        rows, inputs = [x[:, i] for i in range(size.state)], [u[:, a] for a in range(size.command)]
        goal = self._goal([goals[:-1, i] for i in range(size.goal)])
        u_before = tuple(earlier[:, a] for a in range(size.command))

        def local(*delta: Any) -> tuple[list[Any], Residuals]:
            trace = new_trace(self.dtype)
            state = folded(problem.state, rows, trace)
            by = folded(problem.tangent, delta[: size.tangent], trace)
            nudges = zip(inputs, delta[size.tangent :], strict=True)
            command = tuple(folded((0.0,), [a + b], trace)[0] for a, b in nudges)
            near = problem.moved(state, by)
            numbers = self._folded(parameters, trace)
            still = problem.step(state, folded(tuple(inputs), inputs, trace), numbers)
            after = unfolded(problem.difference(problem.step(near, command, numbers), still))
            plain = self._state([jnp.asarray(each) for each in unfolded(near)])
            return after, problem.stage_residuals(plain, tuple(unfolded(command)), u_before, goal, parameters)

        jacobian, slope, curvature = self._linearised(local, rows[0], size.width)
        return jnp.stack(jacobian, axis=-2), slope, curvature

    def _linearised(
        self, local: Callable[..., tuple[list[Any], Residuals]], like: Any, size: int
    ) -> tuple[Any, Any, Any]:
        """The derivatives of (values, residuals) by so many numbers at 0: of the values, and Gauss and Newton's of the cost"""

        def weighed(*delta: Any) -> tuple[list[Any], list[Any], list[Any]]:
            values, residuals = local(*delta)
            on = [(w, r) for w, r in residuals if not is_zero(w)]
            return values, [r for _, r in on], [w for w, _ in on]

        (_, r, weights), push = jax.linearize(weighed, *[jnp.zeros_like(like)] * size)
        basis, ones = jnp.eye(size, dtype=self.dtype), jnp.ones_like(like)
        values, slopes, _ = jax.vmap(lambda seed: push(*(seed[i] * ones for i in range(size))), out_axes=-1)(basis)
        if not weights:
            return values, jnp.zeros((*like.shape, size), self.dtype), jnp.zeros((*like.shape, size, size), self.dtype)
        return values, *_gauss_newton(weights, r, slopes)

    def _backward(
        self, x_end: Any, u: Any, M: Any, slope: Any, H: Any, goals: Any, parameters: Any, damping: Any
    ) -> tuple[Any, Any, Any]:
        """Gains (N, m, · + m, B), steps (N, m, B), and the sums over the horizon"""
        V, v = self._final(x_end, goals[-1], parameters)
        m, n, count = self.problem.sizes.command, self.problem.sizes.tangent, x_end.shape[1]
        limits, weight = self.problem.limits(parameters), self.problem.smoothing(parameters)
        later = jnp.full((self.horizon,), weight, self.dtype).at[-1].set(0.0)
        following = jnp.concatenate([u[1:], u[-1:]])
        from_before = -weight * jnp.eye(m, dtype=self.dtype)

        def one(
            V: Any, v: Any, M: Any, slope: Any, H: Any, here: Any, next_u: Any, K: Any, k: Any, damping: Any, s: Any
        ) -> Any:
            change = None
            if not is_zero(weight):
                before = [[K[a, n + b] for b in range(m)] for a in range(m)]
                change = smoothing(s, K[:, :n], before, [*k], [*here], [*next_u])
            own = stage(V, v, M, H, slope[:, None], limits, [*here], damping, change, from_before, JOIN)
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

    def _final(self, x: Any, goal: Any, parameters: Any) -> tuple[Any, Any]:
        rows, problem = [*x], self.problem

        def local(*delta: Any) -> tuple[list[Any], Residuals]:
            near = problem.moved(self._state(rows), unflatten(problem.tangent, iter(delta)))
            return [], problem.final(near, self._goal(goal), parameters)

        _, slope, curvature = self._linearised(local, rows[0], problem.sizes.tangent)
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
