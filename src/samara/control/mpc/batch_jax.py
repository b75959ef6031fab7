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
    """B problems: states (n, B), targets for `goals`, previous inputs (m, B), first inputs (N, m, B).

    The first rollout applies these inputs and the feedback `start_gains` (m, · + m) of a cold start: 0 for a warm one.
    """

    states: Traced
    targets: Traced
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

    `goals(states, targets)` are the goals (N + 1, ·, B) of a batch.
    """

    @jax.jit
    def compiled(batch: Batch, parameters: Traced, tolerance: Traced) -> Solved:
        values = unflatten(problem.parameters, iter(parameters))
        solver = _Solver(problem, horizon, iterations, sizes, dtype, goals(batch.states, batch.targets), values)
        return solver.solve(batch, tolerance)

    def solve(batch: Batch, parameters: Traced, tolerance: float) -> Solved:
        with precision(dtype), jax.default_matmul_precision("highest"):
            arguments = jax.tree.map(lambda x: jnp.asarray(x, dtype), (batch, tolerance))
            solved: Solved = compiled(arguments[0], jnp.asarray(parameters, dtype), arguments[1])
            return solved

    return solve


class PointTargets(NamedTuple):
    """Positions (3, B), yaws (B,), and the shaping of the paths to them."""

    p_W: Traced
    yaw: Traced
    shaping: Shaping


@lru_cache(maxsize=8)
def point_goals(model: Model, horizon: int) -> Callable[[Traced, PointTargets], Traced]:
    """The shaped paths from the states of a vehicle to `PointTargets`: goals (N + 1, 12, B)"""

    def goals(states: Traced, targets: PointTargets) -> Traced:
        start = Vec3(*states[:3])
        target = Target(Vec3(*targets.p_W), start, targets.yaw)

        def body(carry: Rows, _: None) -> tuple[Rows, Traced]:
            path, goal = shaped_step(unflatten(PathPoint(start, start), iter(carry)), target, targets.shaping, model)
            return flatten(path), jnp.stack(flatten(goal))

        return lax.scan(body, [*states[:6]], None, length=horizon + 1)[1]

    return goals


@dataclass(frozen=True)
class _Solver:
    """The iterations on B problems with goals (N + 1, ·, B); parameters are scalars or (B,)."""

    problem: Problem
    horizon: int
    iterations: int
    sizes: tuple[float, ...]
    dtype: str
    goals: Traced
    parameters: Traced

    def solve(self, batch: Batch, tolerance: Traced) -> Solved:
        return self._iterate(batch, self._begin(batch, 0.0), tolerance, stop=False)

    def resume(self, batch: Batch, tolerance: Traced) -> Solved:
        """Solve from the cheaper of two rollouts, of the warm-start inputs and of `problem.command`, until each problem has
        converged; the cost is not finite if neither rollout's is"""
        ends = jnp.array([0.0, 1.0], self.dtype)
        warm, level = zip(*jax.vmap(lambda end: self._begin(batch, end))(ends), strict=True)
        first = tuple(jnp.where(warm[2] <= level[2], a, b) for a, b in zip(warm, level, strict=True))
        return self._iterate(batch, first, tolerance, stop=True)

    def _begin(self, batch: Batch, blend: Traced) -> Traced:
        """States, inputs and cost of the first rollout, its inputs `blend` of the way to `problem.command`"""
        gains = jnp.broadcast_to(batch.start_gains[..., None], (self.horizon, *batch.start_gains.shape, 1))
        steps = jnp.array(self.problem.command, self.dtype)[:, None] - batch.controls
        return self._rollout(batch, (self._start(batch.states), batch.controls), gains, steps, blend)

    def _iterate(self, batch: Batch, first: Traced, tolerance: Traced, stop: bool) -> Solved:
        """Iterate from the first rollout; with `stop`, a problem that has converged stays as it is"""

        def iterate(_: Traced, carry: Traced) -> Traced:
            x, u, cost, damping, converged = carry
            nominal = (x[:-1], u)
            gains, steps, sums = self._backward(x[-1], u, self._derivatives(nominal, batch.before), damping)
            xs, us, costs = jax.vmap(lambda alpha: self._rollout(batch, nominal, gains, steps, alpha))(
                jnp.array(self.sizes, self.dtype)
            )
            choice = choose([*costs], self.sizes, cost, sums[0], sums[1], damping, tolerance)
            x, u = (_best(tried, before, choice) for tried, before in ((xs, x), (us, u)))
            after = (jnp.asarray(value, self.dtype) for value in (choice.cost, choice.damping, choice.converged))
            advanced = (x, u, *after)
            if not stop or self.iterations == 1:
                return advanced
            done = (converged > 0.0) | (damping > MAX_DAMPING)
            return tuple(jnp.where(done, old, new) for old, new in zip(carry, advanced, strict=True))

        zeros = jnp.zeros_like(first[2])
        x, u, cost, _, converged = lax.fori_loop(0, self.iterations, iterate, (*first, zeros, zeros))
        return Solved(u, x, cost, converged > 0.0)

    def _start(self, states: Traced) -> Traced:
        """The nominal states of a cold start (N, n, B)"""
        start = self.problem.start
        nominal = flatten(self.problem.state) if start is None else start.nominal(states, jnp.hypot)
        rows = jnp.stack([jnp.broadcast_to(jnp.asarray(x, self.dtype), states.shape[1:]) for x in nominal])
        return jnp.broadcast_to(rows, (self.horizon, *rows.shape))

    def _state(self, rows: Sequence[Traced]) -> Traced:
        return unflatten(self.problem.state, iter(rows))

    def _goal(self, rows: Sequence[Traced]) -> Traced:
        return unflatten(self.problem.goal, iter([*rows]))

    def _folded_parameters(self, trace: Traced) -> Traced:
        return folded(self.problem.parameters, flatten(self.parameters), trace)

    def _rollout(
        self, batch: Batch, nominal: Traced, gains: Traced, steps: Traced, alpha: Traced
    ) -> tuple[Traced, Traced, Traced]:
        """States (N + 1, n, B), inputs (N, m, B) and costs (B,) of the feedback around a nominal trajectory"""
        problem, parameters = self.problem, self.parameters
        limits = problem.limits(parameters)

        def body(carry: Traced, row: Traced) -> Traced:
            x, u_before, u_before_nominal, cost = carry
            goal, x_nominal, u_nominal, K, k = row
            trace = new_trace(self.dtype)
            state, near = (folded(problem.state, rows, trace) for rows in (x, [*x_nominal]))
            change = (a - b for a, b in zip(u_before, u_before_nominal, strict=True))
            error = [*unfolded(problem.difference(state, near)), *change]
            u = feedback([*u_nominal], [*k], [[*gain] for gain in K], error, alpha, limits)
            after = unfolded(problem.step(state, folded(tuple(u), u, trace), self._folded_parameters(trace)))
            residuals = problem.stage_residuals(self._state(x), tuple(u), tuple(u_before), self._goal(goal), parameters)
            after = [jnp.broadcast_to(leaf, jnp.shape(cost)) for leaf in after]
            return (after, u, [*u_nominal], cost + total(residuals)), (jnp.stack(after), jnp.stack(u))

        x0, before = batch.states, [*batch.before]
        carry = ([*x0], before, before, jnp.zeros_like(x0[0]))
        (x, _, _, cost), (states, inputs) = lax.scan(body, carry, (self.goals[:-1], *nominal, gains, steps))
        cost = cost + total(problem.final(self._state(x), self._goal(self.goals[-1]), parameters))
        return jnp.concatenate([x0[None], states]), inputs, cost

    def _derivatives(self, nominal: Traced, before: Traced) -> tuple[Traced, Traced, Traced]:
        """[A B] (N, B, ·, · + m), the cost's gradient (N, B, · + m) and Hessian (N, B, · + m, · + m)"""
        (x, u), problem, size = nominal, self.problem, self.problem.sizes
        earlier = jnp.concatenate([before[None], u[:-1]])
        rows, inputs = [x[:, i] for i in range(size.state)], [u[:, a] for a in range(size.command)]
        goal = self._goal([self.goals[:-1, i] for i in range(size.goal)])
        u_before = tuple(earlier[:, a] for a in range(size.command))

        def local(*delta: Traced) -> tuple[list[Traced], Residuals]:
            trace = new_trace(self.dtype)
            state, parameters = folded(problem.state, rows, trace), self._folded_parameters(trace)
            nudges = zip(inputs, delta[size.tangent :], strict=True)
            command = tuple(folded((0.0,), [a + b], trace)[0] for a, b in nudges)
            near = problem.moved(state, folded(problem.tangent, delta[: size.tangent], trace))
            still = problem.step(state, folded(tuple(inputs), inputs, trace), parameters)
            after = unfolded(problem.difference(problem.step(near, command, parameters), still))
            plain = self._state([jnp.asarray(leaf) for leaf in unfolded(near)])
            return after, problem.stage_residuals(plain, tuple(unfolded(command)), u_before, goal, self.parameters)

        jacobian, slope, curvature = self._linearised(local, rows[0], size.width)
        return jnp.stack(jacobian, axis=-2), slope, curvature

    def _linearised(
        self, local: Callable[..., tuple[list[Traced], Residuals]], like: Traced, size: int
    ) -> tuple[Traced, Traced, Traced]:
        """The derivatives of (values, residuals) by `size` scalars at 0: of the values, and Gauss–Newton's of the cost"""

        def split(*delta: Traced) -> tuple[list[Traced], list[Traced], list[Traced]]:
            values, residuals = local(*delta)
            active = [(w, r) for w, r in residuals if not is_zero(w)]
            return values, [r for _, r in active], [w for w, _ in active]

        (_, r, weights), tangent = jax.linearize(split, *[jnp.zeros_like(like)] * size)
        basis, ones = jnp.eye(size, dtype=self.dtype), jnp.ones_like(like)
        values, slopes, _ = jax.vmap(lambda seed: tangent(*(seed[i] * ones for i in range(size))), out_axes=-1)(basis)
        if not weights:
            return values, jnp.zeros((*like.shape, size), self.dtype), jnp.zeros((*like.shape, size, size), self.dtype)
        return values, *_gauss_newton(weights, r, slopes)

    def _backward(self, x_end: Traced, u: Traced, model: Traced, damping: Traced) -> tuple[Traced, Traced, Traced]:
        """Gains (N, m, · + m, B), steps (N, m, B), and the sums over the horizon"""
        problem, size = self.problem, self.problem.sizes
        m, count, weight = size.command, u.shape[-1], problem.smoothing(self.parameters)
        later = jnp.full((self.horizon,), weight, self.dtype).at[-1].set(0.0)
        following, limits = jnp.concatenate([u[1:], u[-1:]]), problem.limits(self.parameters)
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

        gains, steps, sums = (jnp.zeros((count, *shape), self.dtype) for shape in ((m, size.width), (m,), (2,)))
        carry = ((*self._final(x_end), gains, steps), sums)
        (_, sums), (gains, steps) = lax.scan(body, carry, (model, u, following, later), reverse=True)
        return jnp.moveaxis(gains, 1, -1), jnp.moveaxis(steps, 1, -1), sums.T

    def _final(self, x: Traced) -> tuple[Traced, Traced]:
        """V and v at the end of the horizon"""

        def local(*delta: Traced) -> tuple[list[Traced], Residuals]:
            near = self.problem.moved(self._state([*x]), unflatten(self.problem.tangent, iter(delta)))
            return [], self.problem.final(near, self._goal(self.goals[-1]), self.parameters)

        _, slope, curvature = self._linearised(local, x[0], self.problem.sizes.tangent)
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


def _best(tried: Traced, before: Traced, choice: Choice) -> Traced:
    """Of the rollouts tried (sizes, ·, ·, B), the best of each problem; or the one before, if none was accepted"""
    index = jnp.broadcast_to(jnp.asarray(choice.index, int), before.shape[-1:])
    best = jnp.take_along_axis(tried, index[None, None, None], axis=0)[0]
    return jnp.where(choice.accepted > 0.5, best, before)


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
        shifted = shift_inputs(before.controls.reshape(horizon, -1, n), *shift)
        no_gains = jnp.zeros((model.inputs, controller.problem.sizes.width), dtype)
        batch = Batch(_rows(body, n, dtype), (), before.before, shifted, no_gains)
        leaves = unfolded(controller.parameters._replace(push_W=push_W))
        parameters = unflatten(controller.problem.parameters, iter([jnp.asarray(x, dtype) for x in leaves]))
        iterations, sizes = controller.control_iterations, controller.line_search
        solver = _Solver(
            controller.problem, horizon, iterations, sizes, dtype.name, jnp.stack(goals, axis=1), parameters
        )
        with jax.default_matmul_precision("highest"):
            solved = solver.resume(batch, controller.tolerance)
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
