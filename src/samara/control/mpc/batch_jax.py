"""iLQR for thousands of problems in JAX, on any JAX device, compiled for a horizon and an iteration count.

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
from samara.compiler.jax.folding_scalar import FoldingScalar, fold_tree, new_trace, unfold_leaves
from samara.control.disturbance_torque import initial_lead_observer
from samara.control.mpc.flight import (
    INITIAL_OBSERVER,
    QUATERNION_SLICE,
    TickInputs,
    compensated_command,
    problem_start,
    shift_inputs,
    split_shift,
)
from samara.control.mpc.iteration import (
    MatrixLibrary,
    RolloutChoice,
    StageInputs,
    choose_rollout,
    smoothing_terms,
    solve_stage,
)
from samara.control.mpc.iteration import StageModel as StageModel
from samara.control.mpc.options import Shaping
from samara.control.mpc.prediction_model import PredictionModel
from samara.control.mpc.problem import Problem, Residuals, apply_feedback, is_zero, total_cost
from samara.control.mpc.reference import PathPoint, PathTarget, mpc_target, step_shaped_path
from samara.control.mpc.solver import MAX_DAMPING
from samara.core.algebra import ZERO, Vec3
from samara.core.quantity import Scalar
from samara.core.tree import flatten, unflatten
from samara.physics.types import Reference, Vehicle
from samara.vehicles.trim import hover

if TYPE_CHECKING:
    from samara.control.mpc.controller import ILQR

JaxTree: TypeAlias = Scalar
"""An array of JAX, or a nested tuple of arrays."""

Rows: TypeAlias = list[JaxTree]  # one array for each component of a state, an input, a goal

JAX = MatrixLibrary(jnp.vstack, jnp.hstack, jnp.vstack)


class ProblemBatch(NamedTuple):
    """B problems: states (n, B), targets for `goals`, previous inputs (m, B), initial inputs (N, m, B).

    The first rollout applies these inputs and the feedback `start_gains` (m, · + m) of a cold start; for a warm start
    it is 0.
    """

    states: JaxTree
    targets: JaxTree
    previous_inputs: JaxTree
    controls: JaxTree
    start_gains: JaxTree


class BatchSolution(NamedTuple):
    """Inputs (N, m, B), states (N + 1, n, B), costs and convergence (B,)."""

    controls: JaxTree
    states: JaxTree
    cost: JaxTree
    converged: JaxTree


@lru_cache(maxsize=8)
def jax_solver(
    problem: Problem,
    horizon: int,
    iterations: int,
    sizes: tuple[float, ...],
    dtype: str,
    goals: Callable[[JaxTree, JaxTree], JaxTree],
) -> Callable[[ProblemBatch, JaxTree, float], BatchSolution]:
    """Return solve(batch, parameters, tolerance), with flat parameters; it compiles at the first call with a batch size.

    `goals(states, targets)` are the goals (N + 1, ·, B) of a batch.
    """

    @jax.jit
    def compiled_solve(batch: ProblemBatch, parameters: JaxTree, tolerance: JaxTree) -> BatchSolution:
        values = unflatten(problem.parameters, iter(parameters))
        solver = _BatchSolver(problem, horizon, iterations, sizes, dtype, goals(batch.states, batch.targets), values)
        return solver.solve(batch, tolerance)

    def solve(batch: ProblemBatch, parameters: JaxTree, tolerance: float) -> BatchSolution:
        with precision(dtype), jax.default_matmul_precision("highest"):
            arguments = jax.tree.map(lambda x: jnp.asarray(x, dtype), (batch, tolerance))
            solution: BatchSolution = compiled_solve(arguments[0], jnp.asarray(parameters, dtype), arguments[1])
            return solution

    return solve


class PointTargets(NamedTuple):
    """Positions (3, B), yaws (B,), and the shaping of the paths to them."""

    p_W: JaxTree
    yaw: JaxTree
    shaping: Shaping


@lru_cache(maxsize=8)
def point_goals(model: PredictionModel, horizon: int) -> Callable[[JaxTree, PointTargets], JaxTree]:
    """Return the function that computes the shaped paths from states to `PointTargets`: goals (N + 1, 12, B)."""

    def goals(states: JaxTree, targets: PointTargets) -> JaxTree:
        start = Vec3(*states[:3])
        target = PathTarget(Vec3(*targets.p_W), start, targets.yaw)

        def body(carry: Rows, _: None) -> tuple[Rows, JaxTree]:
            path, goal = step_shaped_path(
                unflatten(PathPoint(start, start), iter(carry)), target, targets.shaping, model
            )
            return flatten(path), jnp.stack(flatten(goal))

        return lax.scan(body, [*states[:6]], None, length=horizon + 1)[1]

    return goals


@dataclass(frozen=True)
class _BatchSolver:
    """The iterations on B problems with goals (N + 1, ·, B); parameters are scalars or (B,)."""

    problem: Problem
    horizon: int
    iterations: int
    sizes: tuple[float, ...]
    dtype: str
    goals: JaxTree
    parameters: JaxTree

    def solve(self, batch: ProblemBatch, tolerance: JaxTree) -> BatchSolution:
        return self._iterate(batch, self._begin(batch, 0.0), tolerance, stop=False)

    def resume(self, batch: ProblemBatch, tolerance: JaxTree) -> BatchSolution:
        """Solve from the rollout of the warm-start inputs or of `problem.command`, whichever costs less, until each
        problem has converged; the cost is not finite if neither rollout has a finite cost."""
        blends = jnp.array([0.0, 1.0], self.dtype)
        warm, hover = zip(*jax.vmap(lambda blend: self._begin(batch, blend))(blends), strict=True)
        initial = tuple(jnp.where(warm[2] <= hover[2], a, b) for a, b in zip(warm, hover, strict=True))
        return self._iterate(batch, initial, tolerance, stop=True)

    def _begin(self, batch: ProblemBatch, blend: JaxTree) -> JaxTree:
        """States, inputs and cost of the first rollout, its inputs interpolated by `blend` towards `problem.command`"""
        gains = jnp.broadcast_to(batch.start_gains[..., None], (self.horizon, *batch.start_gains.shape, 1))
        steps = jnp.array(self.problem.command, self.dtype)[:, None] - batch.controls
        return self._rollout(batch, (self._start(batch.states), batch.controls), gains, steps, blend)

    def _iterate(self, batch: ProblemBatch, first: JaxTree, tolerance: JaxTree, stop: bool) -> BatchSolution:
        """Iterate from the first rollout; with `stop`, a converged problem does not change any more."""

        def iterate(_: JaxTree, carry: JaxTree) -> JaxTree:
            x, u, cost, damping, converged = carry
            nominal = (x[:-1], u)
            gains, steps, sums = self._backward(x[-1], u, self._derivatives(nominal, batch.previous_inputs), damping)
            xs, us, costs = jax.vmap(lambda alpha: self._rollout(batch, nominal, gains, steps, alpha))(
                jnp.array(self.sizes, self.dtype)
            )
            choice = choose_rollout([*costs], self.sizes, cost, sums[0], sums[1], damping, tolerance)
            x, u = (_best(rollouts, nominal_before, choice) for rollouts, nominal_before in ((xs, x), (us, u)))
            next_values = (jnp.asarray(value, self.dtype) for value in (choice.cost, choice.damping, choice.converged))
            advanced = (x, u, *next_values)
            if not stop or self.iterations == 1:
                return advanced
            is_done = (converged > 0.0) | (damping > MAX_DAMPING)
            return tuple(jnp.where(is_done, old, new) for old, new in zip(carry, advanced, strict=True))

        zeros = jnp.zeros_like(first[2])
        x, u, cost, _, converged = lax.fori_loop(0, self.iterations, iterate, (*first, zeros, zeros))
        return BatchSolution(u, x, cost, converged > 0.0)

    def _start(self, states: JaxTree) -> JaxTree:
        """Nominal states of a cold start (N, n, B)"""
        start = self.problem.start
        nominal = flatten(self.problem.state) if start is None else start.nominal(states, jnp.hypot)
        rows = jnp.stack([jnp.broadcast_to(jnp.asarray(x, self.dtype), states.shape[1:]) for x in nominal])
        return jnp.broadcast_to(rows, (self.horizon, *rows.shape))

    def _state(self, rows: Sequence[JaxTree]) -> JaxTree:
        return unflatten(self.problem.state, iter(rows))

    def _goal(self, rows: Sequence[JaxTree]) -> JaxTree:
        return unflatten(self.problem.goal, iter([*rows]))

    def _folded_parameters(self, trace: JaxTree) -> JaxTree:
        return fold_tree(self.problem.parameters, flatten(self.parameters), trace)

    def _rollout(
        self, batch: ProblemBatch, nominal: JaxTree, gains: JaxTree, steps: JaxTree, alpha: JaxTree
    ) -> tuple[JaxTree, JaxTree, JaxTree]:
        """States (N + 1, n, B), inputs (N, m, B) and costs (B,) of the feedback around a nominal trajectory"""
        problem, parameters = self.problem, self.parameters
        limits = problem.limits(parameters)

        def body(carry: JaxTree, row: JaxTree) -> JaxTree:
            x, u_before, u_before_nominal, cost = carry
            goal, x_nominal, u_nominal, K, k = row
            trace = new_trace(self.dtype)
            state, nominal_state = (fold_tree(problem.state, rows, trace) for rows in (x, [*x_nominal]))
            change = (a - b for a, b in zip(u_before, u_before_nominal, strict=True))
            error = [*unfold_leaves(problem.difference(state, nominal_state)), *change]
            u = apply_feedback([*u_nominal], [*k], [[*gain] for gain in K], error, alpha, limits)
            next_x = unfold_leaves(problem.step(state, fold_tree(tuple(u), u, trace), self._folded_parameters(trace)))
            residuals = problem.stage_residuals(self._state(x), tuple(u), tuple(u_before), self._goal(goal), parameters)
            next_x = [jnp.broadcast_to(leaf, jnp.shape(cost)) for leaf in next_x]
            return (next_x, u, [*u_nominal], cost + total_cost(residuals)), (jnp.stack(next_x), jnp.stack(u))

        x0, before = batch.states, [*batch.previous_inputs]
        carry = ([*x0], before, before, jnp.zeros_like(x0[0]))
        (x, _, _, cost), (states, inputs) = lax.scan(body, carry, (self.goals[:-1], *nominal, gains, steps))
        cost = cost + total_cost(problem.final(self._state(x), self._goal(self.goals[-1]), parameters))
        return jnp.concatenate([x0[None], states]), inputs, cost

    def _derivatives(self, nominal: JaxTree, u_previous: JaxTree) -> tuple[JaxTree, JaxTree, JaxTree]:
        """[A B] (N, B, ·, · + m), the cost's gradient (N, B, · + m) and Hessian (N, B, · + m, · + m)"""
        (x, u), problem, size = nominal, self.problem, self.problem.sizes
        previous_inputs = jnp.concatenate([u_previous[None], u[:-1]])
        rows, inputs = [x[:, i] for i in range(size.state)], [u[:, a] for a in range(size.command)]
        goal = self._goal([self.goals[:-1, i] for i in range(size.goal)])
        u_before = tuple(previous_inputs[:, a] for a in range(size.command))

        def local(*delta: JaxTree) -> tuple[list[JaxTree], Residuals]:
            trace = new_trace(self.dtype)
            state, parameters = fold_tree(problem.state, rows, trace), self._folded_parameters(trace)
            pairs = zip(inputs, delta[size.tangent :], strict=True)
            command = tuple(fold_tree((0.0,), [a + b], trace)[0] for a, b in pairs)
            displaced = problem.displace(state, fold_tree(problem.tangent, delta[: size.tangent], trace))
            next_nominal = problem.step(state, fold_tree(tuple(inputs), inputs, trace), parameters)
            difference = unfold_leaves(problem.difference(problem.step(displaced, command, parameters), next_nominal))
            plain_state = self._state([jnp.asarray(leaf) for leaf in unfold_leaves(displaced)])
            return difference, problem.stage_residuals(
                plain_state, tuple(unfold_leaves(command)), u_before, goal, self.parameters
            )

        jacobian, slope, curvature = self._linearise(local, rows[0], size.width)
        return jnp.stack(jacobian, axis=-2), slope, curvature

    def _linearise(
        self, local: Callable[..., tuple[list[JaxTree], Residuals]], like: JaxTree, size: int
    ) -> tuple[JaxTree, JaxTree, JaxTree]:
        """Derivatives of (values, residuals) by `size` scalars at 0: of the values, and Gauss–Newton's of the cost"""

        def split(*delta: JaxTree) -> tuple[list[JaxTree], list[JaxTree], list[JaxTree]]:
            values, residuals = local(*delta)
            active = [(w, r) for w, r in residuals if not is_zero(w)]
            return values, [r for _, r in active], [w for w, _ in active]

        (_, r, weights), tangent = jax.linearize(split, *[jnp.zeros_like(like)] * size)
        basis, ones = jnp.eye(size, dtype=self.dtype), jnp.ones_like(like)
        values, slopes, _ = jax.vmap(lambda seed: tangent(*(seed[i] * ones for i in range(size))), out_axes=-1)(basis)
        if not weights:
            return values, jnp.zeros((*like.shape, size), self.dtype), jnp.zeros((*like.shape, size, size), self.dtype)
        return values, *_gauss_newton(weights, r, slopes)

    def _backward(
        self, x_end: JaxTree, u: JaxTree, model: JaxTree, damping: JaxTree
    ) -> tuple[JaxTree, JaxTree, JaxTree]:
        """Gains (N, m, · + m, B), steps (N, m, B), and the sums over the horizon"""
        problem, size = self.problem, self.problem.sizes
        m, count, weight = size.command, u.shape[-1], problem.smoothing(self.parameters)
        smoothing_weights = jnp.full((self.horizon,), weight, self.dtype).at[-1].set(0.0)
        following, limits = jnp.concatenate([u[1:], u[-1:]]), problem.limits(self.parameters)
        by_previous = -weight * jnp.eye(m, dtype=self.dtype)

        def one(
            value: JaxTree, model: JaxTree, current_u: JaxTree, next_u: JaxTree, damping: JaxTree, s: JaxTree
        ) -> JaxTree:
            (V, v, K, k), (M, slope, H) = value, model
            change = None if is_zero(weight) else smoothing_terms(s, K, [*k], [*current_u], [*next_u], JAX)
            inputs = StageInputs(limits, [*current_u], damping)
            result = solve_stage(StageModel(V, v, M, H, slope[:, None]), inputs, change, by_previous, JAX)
            symmetric, box = 0.5 * (result.V + result.V.T), result.box
            return (symmetric, result.v, result.gains, jnp.stack(box.step)), jnp.stack([box.linear, box.quadratic])

        def body(carry: JaxTree, row: JaxTree) -> JaxTree:
            (value, sums), (model, current_u, next_u, s) = carry, row
            value, stage_sums = jax.vmap(one, in_axes=(0, 0, 0, 0, 0, None))(
                value, model, current_u.T, next_u.T, damping, s
            )
            return (value, sums + stage_sums), value[2:]

        gains, steps, sums = (jnp.zeros((count, *shape), self.dtype) for shape in ((m, size.width), (m,), (2,)))
        carry = ((*self._final(x_end), gains, steps), sums)
        (_, sums), (gains, steps) = lax.scan(body, carry, (model, u, following, smoothing_weights), reverse=True)
        return jnp.moveaxis(gains, 1, -1), jnp.moveaxis(steps, 1, -1), sums.T

    def _final(self, x: JaxTree) -> tuple[JaxTree, JaxTree]:
        """V and v at the end of the horizon"""

        def local(*delta: JaxTree) -> tuple[list[JaxTree], Residuals]:
            displaced = self.problem.displace(self._state([*x]), unflatten(self.problem.tangent, iter(delta)))
            return [], self.problem.final(displaced, self._goal(self.goals[-1]), self.parameters)

        _, slope, curvature = self._linearise(local, x[0], self.problem.sizes.tangent)
        return curvature, slope[:, :, None]


def _gauss_newton(
    weights: Sequence[JaxTree], residuals: Sequence[JaxTree], slopes: Sequence[JaxTree]
) -> tuple[JaxTree, JaxTree]:
    """Σ w r ∇r (…, columns) and Σ w ∇r ∇rᵀ (…, columns, columns), elementwise: a batched product takes ten times as long"""
    slope, curvature = 0.0, 0.0
    for w, r, g in zip(weights, residuals, slopes, strict=True):
        slope = slope + (w * r)[..., None] * g
        curvature = curvature + w * g[..., :, None] * g[..., None, :]
    return slope, curvature


def _best(rollouts: JaxTree, previous: JaxTree, choice: RolloutChoice) -> JaxTree:
    """Return the best of the rollouts (sizes, ·, ·, B) of each problem, or the previous one if none was accepted."""
    index = jnp.broadcast_to(jnp.asarray(choice.index, int), previous.shape[-1:])
    best = jnp.take_along_axis(rollouts, index[None, None, None], axis=0)[0]
    return jnp.where(choice.accepted > 0.5, best, previous)


# In flight -----------------------------------------------------------------------------------------------------------


class MpcBatchState(NamedTuple):
    """The state of n controllers between two ticks: each field has rows (·, n), or, for a single controller, a tuple of
    scalars.

    The fields are the inputs of the last solution, the applied input and the command computed from it, the disturbance
    observer and whether it has observed before (1 or 0), the torque observer of a vehicle that has one, the predicted
    positions [m], and the count of ticks without a solution, at which the hover input was applied instead.
    """

    controls: JaxTree
    previous_input: JaxTree
    command: JaxTree
    push_observer: JaxTree
    has_observed: JaxTree
    torque_observer: JaxTree
    prediction: JaxTree
    fallbacks: JaxTree


@dataclass(frozen=True, eq=False)
class FlightController:
    """`step(controller_state, states, ahead) → commands, controller_state`: pure, to be traced in a loop.

    States are rows (components, n), references `ahead` (N + 1, fields, n) at the instants `ILQR.look_ahead` from now, commands
    rows (channels, n), not limited to the vehicle's range. `start` is the state of one controller before its first tick.
    """

    start: MpcBatchState
    step: Callable[[MpcBatchState, JaxTree, JaxTree], tuple[JaxTree, MpcBatchState]]

    def initial_state(self, n: int, dtype: JaxTree = float) -> MpcBatchState:
        """Return the state of n controllers before their first tick."""
        return MpcBatchState(*(jnp.tile(jnp.array(flatten(field), dtype).reshape(-1, 1), n) for field in self.start))

    def __call__(
        self, state: JaxTree, ahead: JaxTree, vehicle: JaxTree, controller_state: MpcBatchState
    ) -> tuple[JaxTree, MpcBatchState]:
        """Apply `step` with the interface of controllers, to `FoldingScalar` scalars of arrays of any shape.

        Args:
            state: estimated states.
            ahead: tuple of N + 1 references, at the instants `ILQR.look_ahead` from now.
            vehicle: not used; the controller was built for its vehicle.
            controller_state: the state that the previous call returned; `start` at the first call.

        Returns:
            The commands and the controller states for the next call.
        """
        leaves = flatten((state, ahead, controller_state))
        trace = next(leaf.trace for leaf in leaves if isinstance(leaf, FoldingScalar))
        shape = jnp.broadcast_shapes(*(jnp.shape(leaf) for leaf in unfold_leaves(tuple(leaves))))
        n = math.prod(shape)

        def rows(tree: JaxTree) -> JaxTree:
            return _rows(
                tuple(jnp.broadcast_to(leaf, shape).reshape(n) for leaf in unfold_leaves(tree)), n, trace.dtype
            )

        states, references, *fields = (rows(tree) for tree in (state, ahead, *controller_state))
        command, next_state = self.step(MpcBatchState(*fields), states, references.reshape(len(ahead), -1, n))
        controls, leaves = (
            [x.reshape(shape) for row in fields_out for x in row] for fields_out in ([command], next_state)
        )
        return fold_tree(self.start.command, controls, trace), fold_tree(self.start, leaves, trace)


def _rows(tree: JaxTree, n: int, dtype: JaxTree) -> JaxTree:
    """Stack the leaves of a nested tuple of scalars as rows (leaves, n)."""
    leaves = [jnp.broadcast_to(jnp.asarray(leaf, dtype), (n,)) for leaf in unfold_leaves(tree)]
    return jnp.stack(leaves) if leaves else jnp.zeros((0, n), dtype)


def flight_controller(controller: "ILQR", vehicle: Vehicle) -> FlightController:
    """Return `BatchController.run` of a controller as a pure function of arrays, in the precision of the states.

    A state or reference that is not finite, or a start without a finite cost, gives the hover input and is counted in
    `fallbacks`. (`BatchController` issues a warning, and tries a cold start first.)

    Args:
        controller: the controller.
        vehicle: vehicle of the flights; ValueError if the controller does not match it.
    """
    if not controller.matches(vehicle):
        raise ValueError(
            f"{controller!r} for vehicle {vehicle.name!r}: expected an ILQR built for a vehicle with the same state"
        )
    vehicle, model, horizon, period = controller.vehicle, controller.model, controller.horizon, controller.period
    (hover_state, hover_command), torque_start = hover(vehicle), initial_lead_observer(vehicle) or ()
    hover_input, shift = model.hover_input, split_shift(period, model.dt, horizon)
    no_path = (math.nan,) * len(ZERO) * (horizon + 1)
    start = MpcBatchState(
        (hover_input,) * horizon, hover_input, hover_command, INITIAL_OBSERVER, 0.0, torque_start, no_path, 0.0
    )

    def step(controller_state: MpcBatchState, states: JaxTree, ahead: JaxTree) -> tuple[JaxTree, MpcBatchState]:
        n, dtype = states.shape[1], states.dtype
        trace, is_finite = new_trace(dtype), jnp.isfinite(states.sum(axis=0))
        valid_states = jnp.where(is_finite, states, _rows(hover_state, n, dtype))
        q_norm = jnp.linalg.norm(valid_states[QUATERNION_SLICE], axis=0)
        torque_values = jnp.where(is_finite, controller_state.torque_observer, 0.0)
        fields = (
            valid_states,
            q_norm[None],
            controller_state.command,
            controller_state.push_observer,
            controller_state.has_observed,
            torque_values,
        )
        templates = (hover_state, (0.0,), hover_command, INITIAL_OBSERVER, (0.0,), torque_start)
        state, (state_q_norm,), command, observer, (confirmed,), torque = (
            fold_tree(template, [*rows], trace) for template, rows in zip(templates, fields, strict=True)
        )
        sensed = TickInputs(state, state_q_norm, command, observer, confirmed, torque)
        observer, body = problem_start(sensed, vehicle, controller.observer_gain, period)
        push_W = observer.push_W
        references = fold_tree(Reference(ZERO), [*jnp.moveaxis(ahead, 1, 0)], trace)
        goals = [
            jnp.broadcast_to(leaf, (horizon + 1, n)) for leaf in unfold_leaves(mpc_target(references, model, push_W))
        ]
        shifted = shift_inputs(controller_state.controls.reshape(horizon, -1, n), *shift)
        no_gains = jnp.zeros((model.input_count, controller.problem.sizes.width), dtype)
        batch = ProblemBatch(_rows(body, n, dtype), (), controller_state.previous_input, shifted, no_gains)
        leaves = unfold_leaves(controller.parameters._replace(push_W=push_W))
        parameters = unflatten(controller.problem.parameters, iter([jnp.asarray(x, dtype) for x in leaves]))
        iterations, sizes = controller.control_iterations, controller.line_search
        solver = _BatchSolver(
            controller.problem, horizon, iterations, sizes, dtype.name, jnp.stack(goals, axis=1), parameters
        )
        with jax.default_matmul_precision("highest"):
            solution = solver.resume(batch, controller.tolerance)
        has_solution = is_finite & jnp.isfinite(ahead.sum(axis=(0, 1))) & (solution.cost < jnp.inf)
        controls = jnp.where(has_solution, solution.controls, jnp.asarray(hover_input, dtype)[:, None])
        wrench = model.thrust_and_torque(fold_tree(hover_input, [*controls[0]], trace))
        allocated, torque = compensated_command(wrench, state, torque, vehicle, controller.allocation, period)
        predicted = jnp.where(has_solution, solution.states[:, : len(ZERO)], 0.0)
        return (command := _rows(allocated, n, dtype)), MpcBatchState(
            controls.reshape(-1, n),
            controls[0],
            command,
            jnp.where(is_finite, _rows(observer, n, dtype), 0.0),
            is_finite[None].astype(dtype),
            _rows(torque, n, dtype),
            predicted.reshape(-1, n),
            controller_state.fallbacks + ~has_solution,
        )

    return FlightController(start, step)
