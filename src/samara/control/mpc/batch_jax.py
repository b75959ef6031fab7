"""iLQR for thousands of problems in JAX: on whatever device JAX has, compiled for a horizon and a number of iterations.

Physics is elementwise on arrays of B problems: rollouts over (step sizes, B), derivatives over (columns, N, B) by forward
differentiation of the same step and residuals. The backward pass is batched matrix products, one stage after another.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
from jax import lax

from samara.compiler.jax.arrays import precision
from samara.compiler.jax.folding_scalar import Folded, folded, new_trace, unfolded
from samara.control.disturbance_torque import observer_for
from samara.control.mpc.flight import (
    ATTITUDE,
    NOTHING,
    Sensed,
    compensated_command,
    problem_start,
    shift_inputs,
    shift_of,
)
from samara.control.mpc.iteration import Choice, Inputs, Library, choose, smoothing, stage
from samara.control.mpc.iteration import Model as StageModel
from samara.control.mpc.options import Shaping
from samara.control.mpc.prediction_model import Model
from samara.control.mpc.problem import Problem, Residuals, feedback, is_zero, total
from samara.control.mpc.reference import PathPoint, Target, goal_of, shaped_step
from samara.control.mpc.solver import MAX_DAMPING
from samara.core.algebra import ZERO, Vec3
from samara.core.quantity import Scalar
from samara.core.tree import flatten, unflatten
from samara.physics.types import Reference, Vehicle
from samara.vehicles.trim import hover

if TYPE_CHECKING:
    from samara.control.mpc.controller import ILQR

Traced: TypeAlias = Scalar
"""An array of JAX, or a nested tuple of arrays"""

Rows: TypeAlias = list[Traced]  # one array for each component of a state, an input, a goal

JAX = Library(jnp.vstack, jnp.hstack, jnp.vstack)


class Batch(NamedTuple):
    """B problems: states (n, B), what their goals are made of, inputs before (m, B), first inputs (N, m, B).

    The first rollout gives these inputs and the feedback `start_gains` (m, · + m) of a cold start: 0 for a warm one.
    """

    states: Traced
    asked: Traced
    before: Traced
    controls: Traced
    start_gains: Traced


class Solved(NamedTuple):
    """Inputs (N, m, B), states (N + 1, n, B), costs and convergence (B,)."""

    controls: Traced
    states: Traced
    cost: Traced
    converged: Traced


@lru_cache(maxsize=8)
def jax_solver(
    problem: Problem,
    horizon: int,
    iterations: int,
    sizes: tuple[float, ...],
    dtype: str,
    goals: Callable[[Traced, Traced], Traced],
) -> Callable[[Batch, Traced, float], Solved]:
    """solve(batch, parameters, tolerance), parameters flat; compiled when first called with a number of problems

    `goals(states, asked)` are the goals (N + 1, ·, B) of a batch.
    """
    with precision(dtype), jax.default_matmul_precision("highest"):
        compiled = jax.jit(_Solver(problem, horizon, iterations, sizes, dtype, goals).solve)

    def solve(batch: Batch, parameters: Traced, tolerance: float) -> Solved:
        with precision(dtype), jax.default_matmul_precision("highest"):
            numbers = jnp.asarray(parameters, dtype)
            given = jax.tree.map(lambda x: jnp.asarray(x, dtype), (batch, tolerance))
            found: Solved = compiled(given[0], numbers, given[1])
            return found

    return solve


class PointTargets(NamedTuple):
    """Targets (3, B), yaws (B,), and how the way to them is shaped."""

    targets: Traced
    yaw: Traced
    shaping: Shaping


@lru_cache(maxsize=8)
def point_goals(model: Model, horizon: int) -> Callable[[Traced, PointTargets], Traced]:
    """The shaped ways from the states of a vehicle to `PointTargets`: goals (N + 1, 12, B)"""

    def goals(states: Traced, asked: PointTargets) -> Traced:
        start = Vec3(*states[:3])
        target = Target(Vec3(*asked.targets), start, asked.yaw)

        def body(carry: Rows, _: None) -> tuple[Rows, Traced]:
            way, goal = shaped_step(unflatten(PathPoint(start, start), iter(carry)), target, asked.shaping, model)
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
    goals: Callable[[Traced, Traced], Traced]

    def solve(self, batch: Batch, parameters: Traced, tolerance: Traced) -> Solved:
        numbers, goals = unflatten(self.problem.parameters, iter(parameters)), self.goals(batch.states, batch.asked)
        first = self._begin(batch, goals, numbers, 0.0)
        return self._iterate(batch, goals, numbers, first, tolerance, stop=False)

    def resume(self, batch: Batch, parameters: Traced, tolerance: Traced) -> Solved:
        """Solve from the cheaper of two rollouts, of the warm-start inputs and of `problem.command`, until each problem has
        converged; the cost is not finite if neither rollout's is"""
        numbers, goals = unflatten(self.problem.parameters, iter(parameters)), self.goals(batch.states, batch.asked)
        ends = jnp.array([0.0, 1.0], self.dtype)
        warm, level = zip(*jax.vmap(lambda end: self._begin(batch, goals, numbers, end))(ends), strict=True)
        first = tuple(jnp.where(warm[2] <= level[2], a, b) for a, b in zip(warm, level, strict=True))
        return self._iterate(batch, goals, numbers, first, tolerance, stop=True)

    def _begin(self, batch: Batch, goals: Traced, parameters: Traced, blend: Traced) -> Traced:
        """States, inputs and cost of the first rollout, its inputs `blend` of the way to `problem.command`"""
        gains = jnp.broadcast_to(batch.start_gains[..., None], (self.horizon, *batch.start_gains.shape, 1))
        start, nominal = (batch.states, batch.before), (self._start(batch.states), batch.controls)
        steps = jnp.array(self.problem.command, self.dtype)[:, None] - batch.controls
        return self._rollout(start, goals, parameters, nominal, gains, steps, blend)

    def _iterate(
        self, batch: Batch, goals: Traced, numbers: Traced, first: Traced, tolerance: Traced, stop: bool
    ) -> Solved:
        """Iterate from the first rollout; with `stop`, a problem that has converged stays as it is"""
        before, start = batch.before, (batch.states, batch.before)
        x, u, cost = first
        damping, converged = jnp.zeros_like(cost), jnp.zeros_like(cost)

        def iterate(_: Traced, carry: Traced) -> Traced:
            x, u, cost, damping, converged = carry
            nominal = (x[:-1], u)
            model = self._derivatives(nominal, before, goals, numbers)
            gains, steps, sums = self._backward((x[-1], u), model, goals, numbers, damping)

            def rollout(alpha: Traced) -> Traced:
                return self._rollout(start, goals, numbers, nominal, gains, steps, alpha)

            xs, us, costs = jax.vmap(rollout)(jnp.array(self.sizes, self.dtype))
            choice = choose([*costs], self.sizes, cost, sums[0], sums[1], damping, tolerance)
            x, u = (_taken(tried, kept, choice) for tried, kept in ((xs, x), (us, u)))
            after = (jnp.asarray(each, self.dtype) for each in (choice.cost, choice.damping, choice.converged))
            advanced = (x, u, *after)
            if not stop or self.iterations == 1:
                return advanced
            done = (converged > 0.0) | (damping > MAX_DAMPING)
            return tuple(jnp.where(done, old, new) for old, new in zip(carry, advanced, strict=True))

        x, u, cost, damping, converged = lax.fori_loop(0, self.iterations, iterate, (x, u, cost, damping, converged))
        return Solved(u, x, cost, converged > 0.0)

    def _start(self, states: Traced) -> Traced:
        """The nominal states of a cold start (N, n, B)"""
        start = self.problem.start
        nominal = flatten(self.problem.state) if start is None else start.nominal(states, jnp.hypot)
        rows = jnp.stack([jnp.broadcast_to(jnp.asarray(each, self.dtype), states.shape[1:]) for each in nominal])
        return jnp.broadcast_to(rows, (self.horizon, *rows.shape))

    def _state(self, rows: Sequence[Traced]) -> Traced:
        return unflatten(self.problem.state, iter(rows))

    def _goal(self, rows: Sequence[Traced]) -> Traced:
        return unflatten(self.problem.goal, iter([*rows]))

    def _folded(self, parameters: Traced, trace: Traced) -> Traced:
        return folded(self.problem.parameters, flatten(parameters), trace)

    def _rollout(
        self,
        given: Traced,
        goals: Traced,
        parameters: Traced,
        nominal: Traced,
        gains: Traced,
        steps: Traced,
        alpha: Traced,
    ) -> tuple[Traced, Traced, Traced]:
        """States (N + 1, n, B), inputs (N, m, B) and costs (B,) of the feedback around a nominal trajectory"""
        problem, (x0, before) = self.problem, given
        limits = problem.limits(parameters)

        def body(carry: Traced, row: Traced) -> Traced:
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

    def _derivatives(
        self, nominal: Traced, before: Traced, goals: Traced, parameters: Traced
    ) -> tuple[Traced, Traced, Traced]:
        """[A B] (N, B, ·, · + m), the cost's slope (N, B, · + m) and curvature (N, B, · + m, · + m)"""
        (x, u), problem, size = nominal, self.problem, self.problem.sizes
        earlier = jnp.concatenate([before[None], u[:-1]])
        rows, inputs = [x[:, i] for i in range(size.state)], [u[:, a] for a in range(size.command)]
        goal = self._goal([goals[:-1, i] for i in range(size.goal)])
        u_before = tuple(earlier[:, a] for a in range(size.command))

        def local(*delta: Traced) -> tuple[list[Traced], Residuals]:
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
        self, local: Callable[..., tuple[list[Traced], Residuals]], like: Traced, size: int
    ) -> tuple[Traced, Traced, Traced]:
        """The derivatives of (values, residuals) by so many numbers at 0: of the values, and Gauss and Newton's of the cost"""

        def weighed(*delta: Traced) -> tuple[list[Traced], list[Traced], list[Traced]]:
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
        self, nominal: Traced, model: Traced, goals: Traced, parameters: Traced, damping: Traced
    ) -> tuple[Traced, Traced, Traced]:
        """Gains (N, m, · + m, B), steps (N, m, B), and the sums over the horizon"""
        (x, u), problem, size = nominal, self.problem, self.problem.sizes
        m, count, weight = size.command, u.shape[-1], problem.smoothing(parameters)
        later = jnp.full((self.horizon,), weight, self.dtype).at[-1].set(0.0)
        following, limits = jnp.concatenate([u[1:], u[-1:]]), problem.limits(parameters)
        by_previous = -weight * jnp.eye(m, dtype=self.dtype)

        def one(value: Traced, model: Traced, here: Traced, next_u: Traced, damping: Traced, s: Traced) -> Traced:
            (V, v, K, k), (M, slope, H) = value, model
            change = None if is_zero(weight) else smoothing(s, K, [*k], [*here], [*next_u], JAX)
            inputs = Inputs(limits, [*here], damping)
            result = stage(StageModel(V, v, M, H, slope[:, None]), inputs, change, by_previous, JAX)
            symmetric, box = 0.5 * (result.V + result.V.T), result.box
            return (symmetric, result.v, result.gains, jnp.stack(box.step)), jnp.stack([box.linear, box.quadratic])

        def body(carry: Traced, row: Traced) -> Traced:
            (value, sums), (model, here, next_u, s) = carry, row
            value, added = jax.vmap(one, in_axes=(0, 0, 0, 0, 0, None))(value, model, here.T, next_u.T, damping, s)
            return (value, sums + added), value[2:]

        nothing = (jnp.zeros((count, *shape), self.dtype) for shape in ((m, size.width), (m,), (2,)))
        no_gains, no_steps, no_sums = nothing
        carry = ((*self._final(x, goals[-1], parameters), no_gains, no_steps), no_sums)
        (_, sums), (gains, steps) = lax.scan(body, carry, (model, u, following, later), reverse=True)
        return jnp.moveaxis(gains, 1, -1), jnp.moveaxis(steps, 1, -1), sums.T

    def _final(self, x: Traced, goal: Traced, parameters: Traced) -> tuple[Traced, Traced]:
        rows, problem = [*x], self.problem

        def local(*delta: Traced) -> tuple[list[Traced], Residuals]:
            near = problem.moved(self._state(rows), unflatten(problem.tangent, iter(delta)))
            return [], problem.final(near, self._goal(goal), parameters)

        _, slope, curvature = self._linearised(local, rows[0], problem.sizes.tangent)
        return curvature, slope[:, :, None]


def _gauss_newton(
    weights: Sequence[Traced], residuals: Sequence[Traced], slopes: Sequence[Traced]
) -> tuple[Traced, Traced]:
    """Σ w r ∇r (…, columns) and Σ w ∇r ∇rᵀ (…, columns, columns), elementwise: a batched product takes ten times as long"""
    slope, curvature = 0.0, 0.0
    for w, r, g in zip(weights, residuals, slopes, strict=True):
        slope = slope + (w * r)[..., None] * g
        curvature = curvature + w * g[..., :, None] * g[..., None, :]
    return slope, curvature


def _taken(tried: Traced, kept: Traced, choice: Choice) -> Traced:
    """Of the rollouts tried (sizes, ·, ·, B), each problem's best; or what it had, where none was accepted"""
    index = jnp.broadcast_to(jnp.asarray(choice.index, int), kept.shape[-1:])
    best = jnp.take_along_axis(tried, index[None, None, None], axis=0)[0]
    return jnp.where(choice.accepted > 0.5, best, kept)


# In flight -----------------------------------------------------------------------------------------------------------


class ControllerState(NamedTuple):
    """The state of n controllers between two ticks: in each field rows (·, n), or for one of them a tuple of scalars.

    The inputs of the last solution, the input applied and the command made of it, the disturbance observer and whether it has
    observed before (1 or 0), the torque observer of a vehicle that has one, the positions planned [m], and the number of
    ticks without a solution, at which the hover input was applied instead.
    """

    controls: Traced
    before: Traced
    command: Traced
    push_observer: Traced
    confirmed: Traced
    torque_observer: Traced
    prediction: Traced
    fallbacks: Traced


@dataclass(frozen=True, eq=False)
class FlightController:
    """`step(controller_state, states, ahead) → commands, controller_state`: pure, to be traced in a loop.

    States are rows (components, n), references `ahead` (N + 1, fields, n) at the instants `ILQR.look_ahead` from now, commands
    rows (channels, n), not limited to the vehicle's range. `start` is the state of one controller before its first tick.
    """

    start: ControllerState
    step: Callable[[ControllerState, Traced, Traced], tuple[Traced, ControllerState]]

    def initial(self, n: int, dtype: Traced = float) -> ControllerState:
        """Return the state of n controllers before their first tick."""
        return ControllerState(*(jnp.tile(jnp.array(flatten(field), dtype).reshape(-1, 1), n) for field in self.start))

    def __call__(
        self, state: Traced, ahead: Traced, vehicle: Traced, before: ControllerState
    ) -> tuple[Traced, ControllerState]:
        """`step` as stages call a controller, with `Folded` scalars, arrays of any shape → command, controller state

        `ahead` is a tuple of N + 1 references. The vehicle is the one the controller was made for, whatever is passed.
        """
        leaves = flatten((state, ahead, before))
        trace = next(leaf.trace for leaf in leaves if isinstance(leaf, Folded))
        shape = jnp.broadcast_shapes(*(jnp.shape(leaf) for leaf in unfolded(tuple(leaves))))
        n = math.prod(shape)

        def rows(tree: Traced) -> Traced:
            return _rows(tuple(jnp.broadcast_to(leaf, shape).reshape(n) for leaf in unfolded(tree)), n, trace.dtype)

        states, references, *fields = (rows(tree) for tree in (state, ahead, *before))
        command, after = self.step(ControllerState(*fields), states, references.reshape(len(ahead), -1, n))
        controls, leaves = ([x.reshape(shape) for row in own for x in row] for own in ([command], after))
        return folded(self.start.command, controls, trace), folded(self.start, leaves, trace)


def _rows(tree: Traced, n: int, dtype: Traced) -> Traced:
    """The leaves of a nested tuple of scalars as rows (leaves, n)"""
    leaves = [jnp.broadcast_to(jnp.asarray(leaf, dtype), (n,)) for leaf in unfolded(tree)]
    return jnp.stack(leaves) if leaves else jnp.zeros((0, n), dtype)


def flight_controller(controller: "ILQR", vehicle: Vehicle) -> FlightController:
    """Return `OnArrays.run` of a controller as a pure function of arrays, in the precision of the states

    A state or reference that is not finite, or a start without a finite cost, is answered with the hover input and counted in
    `fallbacks` (there with a warning, and for such a start after a cold start has failed, too). ValueError for a vehicle that
    the controller does not match.
    """
    if not controller.matches(vehicle):
        raise ValueError(
            f"{controller!r} for vehicle {vehicle.name!r}: expected an ILQR made for a vehicle with its state"
        )
    vehicle, model, horizon, period = controller.vehicle, controller.model, controller.horizon, controller.period
    (hover_state, hover_command), torque_start = hover(vehicle), observer_for(vehicle) or ()
    level, shift = model.hover_input, shift_of(period, model.dt, horizon)
    nowhere = (math.nan,) * len(ZERO) * (horizon + 1)
    start = ControllerState((level,) * horizon, level, hover_command, NOTHING, 0.0, torque_start, nowhere, 0.0)

    def step(before: ControllerState, states: Traced, ahead: Traced) -> tuple[Traced, ControllerState]:
        n, dtype = states.shape[1], states.dtype
        trace, is_finite = new_trace(dtype), jnp.isfinite(states.sum(axis=0))
        sound = jnp.where(is_finite, states, _rows(hover_state, n, dtype))
        norm = jnp.linalg.norm(sound[ATTITUDE], axis=0)
        known = jnp.where(is_finite, before.torque_observer, 0.0)
        fields = (sound, norm[None], before.command, before.push_observer, before.confirmed, known)
        templates = (hover_state, (0.0,), hover_command, NOTHING, (0.0,), torque_start)
        state, (size,), command, push, (confirmed,), torque = (
            folded(template, [*rows], trace) for template, rows in zip(templates, fields, strict=True)
        )
        sensed = Sensed(state, size, command, push, confirmed, torque)
        push, body = problem_start(sensed, vehicle, controller.observer_gain, period)
        push_W = push.push_W
        references = folded(Reference(ZERO), [*jnp.moveaxis(ahead, 1, 0)], trace)
        goals = [jnp.broadcast_to(leaf, (horizon + 1, n)) for leaf in unfolded(goal_of(references, model, push_W))]
        batch = Batch(
            _rows(body, n, dtype),
            jnp.stack(goals, axis=1),
            before.before,
            shift_inputs(before.controls.reshape(horizon, -1, n), *shift),
            jnp.zeros((model.inputs, controller.problem.sizes.width), dtype),
        )
        turns, sizes = controller.control_iterations, controller.line_search
        solver = _Solver(controller.problem, horizon, turns, sizes, dtype.name, lambda _, goals: goals)
        parameters = unfolded(controller.parameters._replace(push_W=push_W))
        with jax.default_matmul_precision("highest"):
            solved = solver.resume(batch, [jnp.asarray(x, dtype) for x in parameters], controller.tolerance)
        has_solution = is_finite & jnp.isfinite(ahead.sum(axis=(0, 1))) & (solved.cost < jnp.inf)
        controls = jnp.where(has_solution, solved.controls, jnp.asarray(level, dtype)[:, None])
        wrench = model.thrust_and_torque(folded(level, [*controls[0]], trace))
        allocated, torque = compensated_command(wrench, state, torque, vehicle, controller.allocation, period)
        planned = jnp.where(has_solution, solved.states[:, : len(ZERO)], 0.0)
        return (command := _rows(allocated, n, dtype)), ControllerState(
            controls.reshape(-1, n),
            controls[0],
            command,
            jnp.where(is_finite, _rows(push, n, dtype), 0.0),
            is_finite[None].astype(dtype),
            _rows(torque, n, dtype),
            planned.reshape(-1, n),
            before.fallbacks + ~has_solution,
        )

    return FlightController(start, step)
