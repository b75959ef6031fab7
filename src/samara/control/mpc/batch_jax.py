"""The solver for thousands of problems in JAX, on any JAX device, compiled for a horizon and an iteration count.

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
from samara.control.disturbance_torque import initial_lead_observer, observe
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
    MAX_CLOSED_GAP,
    MAX_DAMPING,
    GapSums,
    MatrixLibrary,
    Progress,
    RolloutChoice,
    StageInputs,
    StageModel,
    choose_rollout,
    shift_value,
    smoothing_terms,
    solve_stage,
)
from samara.control.mpc.options import Shaping
from samara.control.mpc.prediction_model import PredictionModel
from samara.control.mpc.problem import (
    FLIGHT_GROWTH,
    INITIAL_PENALTY,
    MAX_VIOLATION,
    Problem,
    Residuals,
    StepData,
    apply_feedback,
    is_zero,
    multiplier_interval,
    penalty_growth,
    total_cost,
    update_multiplier,
)
from samara.control.mpc.reference import PathPoint, PathTarget, mpc_target, step_shaped_path
from samara.core.algebra import ZERO, Vec3
from samara.core.quantity import Scalar
from samara.core.tree import flatten, unflatten
from samara.physics.types import Reference, Vehicle
from samara.vehicles.trim import hover

if TYPE_CHECKING:
    from samara.control.mpc.controller import MPC

JaxTree: TypeAlias = Scalar
"""An array of JAX, or a nested tuple of arrays."""

Rows: TypeAlias = list[JaxTree]  # one array for each component of a state, an input, a goal

JAX = MatrixLibrary(jnp.vstack, jnp.hstack, jnp.vstack)


class ProblemBatch(NamedTuple):
    """B problems: states (n, B), targets for `goals`, previous inputs (m, B); inputs (N, m, B) and multipliers
    (N + 1, 1 + constraints, B) of a warm start, () for multipliers of 0."""

    states: JaxTree
    targets: JaxTree
    previous_inputs: JaxTree
    controls: JaxTree
    multipliers: JaxTree = ()


class BatchSolution(NamedTuple):
    """Inputs (N, m, B), states (N + 1, n, B), costs, convergence and the largest violation (B,), and multipliers."""

    controls: JaxTree
    states: JaxTree
    cost: JaxTree
    converged: JaxTree
    violation: JaxTree
    multipliers: JaxTree


class Iterate(NamedTuple):
    """The state of the iterations: trajectory, data of the steps, line search, convergence, and the last violation."""

    states: JaxTree
    controls: JaxTree
    data: JaxTree
    progress: Progress
    converged: JaxTree
    worst: JaxTree


@lru_cache(maxsize=8)
def jax_solver(
    problem: Problem,
    horizon: int,
    iterations: int,
    sizes: tuple[float, ...],
    dtype: str,
    goals: Callable[[JaxTree, JaxTree], JaxTree],
    dt: float = 0.0,
    cold: bool = False,
) -> Callable[[ProblemBatch, JaxTree, float], BatchSolution]:
    """Return solve(batch, parameters, tolerance), with flat parameters; it compiles at the first call with a batch size.

    Args:
        problem: the problem.
        horizon: steps of the prediction.
        iterations: iteration count.
        sizes: step sizes of the line search.
        dtype: "float32" or "float64".
        goals: function of states and targets that returns the goals (N + 1, ·, B) of a batch.
        dt: duration of a step [s], for constraints.
        cold: whether to start from the problem's guess, if it has one, rather than from the inputs of the batch.
    """

    @jax.jit
    def compiled_solve(batch: ProblemBatch, parameters: JaxTree, tolerance: JaxTree) -> BatchSolution:
        values = unflatten(problem.parameters, iter(parameters))
        multipliers = None if isinstance(batch.multipliers, tuple) else batch.multipliers
        data = step_data(problem, goals(batch.states, batch.targets), dt, multipliers)
        solver = _BatchSolver(problem, horizon, sizes, dtype, values, shooting=cold and problem.guess is not None)
        return solver.solve(batch, data, iterations, tolerance)

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


def step_data(problem: Problem, goals: JaxTree, dt: float, multipliers: JaxTree | None = None) -> JaxTree:
    """Append to the goals (N + 1, ·, B) the time of each step and the multipliers (N + 1, 1 + constraints, B), by default 0."""
    if problem.sizes.data == problem.goal_size:
        return goals
    steps, _, count = goals.shape
    elapsed = jnp.broadcast_to(jnp.arange(steps, dtype=goals.dtype)[:, None, None] * dt, (steps, 1, count))
    if multipliers is None:
        multipliers = jnp.zeros((steps, 1 + problem.sizes.constraints, count), goals.dtype)
        multipliers = multipliers.at[:, 0].set(INITIAL_PENALTY)
    return jnp.concatenate([goals, elapsed, multipliers], axis=1)


@dataclass(frozen=True)
class _BatchSolver:
    """The iterations on B problems; parameters are scalars or (B,). With `shooting` the states may have gaps."""

    problem: Problem
    horizon: int
    sizes: tuple[float, ...]
    dtype: str
    parameters: JaxTree
    shooting: bool

    def solve(self, batch: ProblemBatch, data: JaxTree, iterations: int, tolerance: JaxTree) -> BatchSolution:
        """Iterate from the guess, or from the inputs of the batch, with regular updates of the multipliers."""
        start = self._guess(batch, data) if self.shooting else self._rollout(batch, data, batch.controls)
        interval = multiplier_interval(iterations)

        def iterate(i: JaxTree, current: Iterate) -> Iterate:
            following = self._iterate(batch, current, tolerance)
            if not self.problem.sizes.constraints:
                return following
            is_due = i % interval == interval - 1
            updated: Iterate = lax.cond(is_due, lambda x: self.update_multipliers(batch, x), lambda x: x, following)
            return updated

        return self.finish(batch, lax.fori_loop(0, iterations, iterate, self._first(start, data)))

    def resume(
        self, batch: ProblemBatch, data: JaxTree, is_new: JaxTree, iterations: tuple[int, int], tolerance: JaxTree
    ) -> Iterate:
        """Solve from the rollout of the warm-start inputs until each problem has converged.

        A new problem, and one for which `problem.command` costs less than its warm start, starts from the guess; so does one
        whose plan turns over after its iterations. The numbers of `iterations` are those of warm and of cold starts.
        """
        hover = jnp.broadcast_to(jnp.array(self.problem.command, self.dtype)[:, None], batch.controls.shape)
        warm, level = (self._rollout(batch, data, inputs) for inputs in (batch.controls, hover))
        is_cold = is_new | ~(warm[2] <= level[2])
        cold_data = data
        if self.problem.sizes.constraints:
            first = self.problem.goal_size + 1
            cold_data = data.at[:, first].set(INITIAL_PENALTY).at[:, first + 1 :].set(0.0)
            data = jnp.where(is_cold, cold_data, data)
        guess = self._first(self._guess(batch, cold_data), cold_data)
        start = _select(is_cold, guess, self._first(warm, data))

        def remaining(current: Iterate, count: JaxTree) -> JaxTree:
            is_settled = (current.converged > 0.0) | (current.progress.damping > MAX_DAMPING)
            return jnp.where(is_settled, 0, count)

        def iterate(loop: tuple[Iterate, JaxTree, JaxTree]) -> tuple[Iterate, JaxTree, JaxTree]:
            current, count, is_cold = loop
            current = _select(count > 0, self._iterate(batch, current, tolerance), current)
            count = remaining(current, jnp.maximum(count - 1, 0))
            is_rejected = (count == 0) & ~is_cold & self._turns_over(batch, current)
            return (
                _select(is_rejected, guess, current),
                jnp.where(is_rejected, iterations[1], count),
                is_cold | is_rejected,
            )

        first_count = jnp.where(is_cold, iterations[1], iterations[0])
        last, _, is_cold = lax.while_loop(lambda loop: jnp.any(loop[1] > 0), iterate, (start, first_count, is_cold))
        if not self.problem.sizes.constraints:
            return last
        last = self.update_multipliers(batch, last, grow=False)
        growth = jnp.where(is_cold, FLIGHT_GROWTH, 1.0)
        data = last.data.at[:, first].multiply(growth).at[:, first + 1 :].divide(growth)
        return last._replace(data=data)

    def _turns_over(self, batch: ProblemBatch, current: Iterate) -> JaxTree:
        """Whether the plan of each problem turns over (B,)."""
        if self.problem.turns_over is None:
            return jnp.zeros(batch.states.shape[1], bool)
        states = current.states[1:]
        flags = self.problem.turns_over(
            self._state([*batch.states]), self._state([states[:, i] for i in range(states.shape[1])])
        )
        return jnp.any(jnp.asarray(flags) > 0.0, axis=0)

    def _first(self, start: Sequence[JaxTree], data: JaxTree) -> Iterate:
        zeros = jnp.zeros_like(start[2])
        return Iterate(start[0], start[1], data, Progress(start[2], zeros, zeros), zeros, zeros + jnp.inf)

    def _iterate(self, batch: ProblemBatch, current: Iterate, tolerance: JaxTree) -> Iterate:
        x, u, data, progress = current[:4]
        model, gaps = self._derivatives(x, u, data, batch.previous_inputs)
        gains, steps, sums, gap_sums = self._backward(x[-1], u, data, model, gaps, progress.damping)
        xs, us, costs = jax.vmap(lambda alpha: self._rollout(batch, data, u, (x, gains, steps, gaps), alpha))(
            jnp.array(self.sizes, self.dtype)
        )
        gap_terms = (gap_sums, MAX_CLOSED_GAP[self.dtype]) if self.shooting else ()
        choice = choose_rollout([*costs], self.sizes, progress, sums[0], sums[1], tolerance, *gap_terms)
        x, u = (_best(rollouts, before, choice) for rollouts, before in ((xs, x), (us, u)))
        values = (choice.cost, choice.damping, choice.gap_weight, choice.converged)
        *following, converged = (
            jnp.broadcast_to(jnp.asarray(value, self.dtype), progress.cost.shape) for value in values
        )
        return current._replace(states=x, controls=u, progress=Progress(*following), converged=converged)

    def finish(self, batch: ProblemBatch, last: Iterate) -> BatchSolution:
        """Return the solution, with its cost without penalties."""
        _, task, violations = self._evaluate(batch, last)
        violation = jnp.zeros_like(task)
        for g in violations:
            violation = jnp.maximum(violation, g)
        task = jnp.where(last.progress.cost < jnp.inf, task, jnp.inf)
        following = self.update_multipliers(batch, last, grow=False) if self.problem.sizes.constraints else last
        return BatchSolution(
            last.controls,
            last.states,
            task,
            (last.converged > 0.0) & (violation <= MAX_VIOLATION),
            violation,
            following.data[:, self.problem.goal_size + 1 :],
        )

    def update_multipliers(self, batch: ProblemBatch, current: Iterate, grow: bool = True) -> Iterate:
        """Update the multipliers, and the cost with them."""
        first, data = self.problem.goal_size + 1, current.data
        violations = self._violations(batch, current)
        largest = jnp.stack([jnp.max(g, axis=0) for g in violations]).max(axis=0)
        growth: JaxTree = penalty_growth(largest, current.worst, data[0, first]) if grow else 1.0
        shifts = [update_multiplier(g, data[:, first + 1 + i], growth) for i, g in enumerate(violations)]
        data = data.at[:, first].multiply(growth).at[:, first + 1 :].set(jnp.stack(shifts, axis=1))
        updated = current._replace(data=data, worst=largest)
        cost, _, _ = self._evaluate(batch, updated)
        return updated._replace(progress=current.progress._replace(cost=cost))

    def _stage_arguments(self, batch: ProblemBatch, current: Iterate) -> tuple[JaxTree, ...]:
        """x, u, u₋, data and parameters of all steps, with leaves (N, B)."""
        x, u = current.states, current.controls
        before = jnp.concatenate([batch.previous_inputs[None], u[:-1]])
        return (
            self._state([x[:-1, i] for i in range(x.shape[1])]),
            tuple(u[:, a] for a in range(u.shape[1])),
            tuple(before[:, a] for a in range(u.shape[1])),
            self._data(jnp.moveaxis(current.data[:-1], 1, 0)),
            self.parameters,
        )

    def _violations(self, batch: ProblemBatch, current: Iterate) -> list[JaxTree]:
        """g of each constraint (N + 1, B)."""
        stages = self.problem.stage_violations(*self._stage_arguments(batch, current))
        end = self.problem.final_violations(
            self._state([*current.states[-1]]), self._data(current.data[-1]), self.parameters
        )
        shape = current.data[:-1, 0].shape
        return [
            jnp.concatenate([jnp.broadcast_to(a, shape), jnp.broadcast_to(b, shape[1:])[None]])
            for a, b in zip(stages, end, strict=True)
        ]

    def _evaluate(self, batch: ProblemBatch, current: Iterate) -> tuple[JaxTree, JaxTree, list[JaxTree]]:
        """The costs with and without penalties, and the largest g of each constraint (B,)."""
        arguments = self._stage_arguments(batch, current)
        end = (self._state([*current.states[-1]]), self._data(current.data[-1]), self.parameters)
        least = jnp.sum(total_cost(self.problem.stage_residuals(*arguments)), axis=0)
        least = least + total_cost(self.problem.final_residuals(*end))
        if not self.problem.sizes.constraints:
            return least, least, []
        violations = self._violations(batch, current)
        penalty, shifts = current.data[:, self.problem.goal_size + 1], current.data[:, self.problem.goal_size + 2 :]
        excess = sum(jnp.maximum(g + shifts[:, i], 0.0) ** 2 for i, g in enumerate(violations))
        return least, least - jnp.sum(0.5 * penalty * excess, axis=0), [jnp.max(g, axis=0) for g in violations]

    def _guess(self, batch: ProblemBatch, data: JaxTree) -> tuple[JaxTree, JaxTree, JaxTree]:
        """States, inputs and cost of the problem's guess."""
        problem = self.problem
        assert problem.guess is not None
        start = self._state([*batch.states])
        rows = problem.guess(start, self._data(jnp.moveaxis(data[1:], 1, 0)).goal)
        shape = (self.horizon, batch.states.shape[1])
        states = jnp.stack([jnp.broadcast_to(jnp.asarray(x, self.dtype), shape) for x in flatten(rows)], axis=1)
        hover = jnp.array(problem.command, self.dtype)[:, None]
        inputs = jnp.broadcast_to(hover, (self.horizon, len(problem.command), shape[1]))
        x = jnp.concatenate([batch.states[None], states])
        zeros = jnp.zeros(shape[1:], self.dtype)
        current = Iterate(x, inputs, data, Progress(zeros, zeros, zeros), zeros, zeros)
        return x, inputs, self._evaluate(batch, current)[0]

    def _state(self, rows: Sequence[JaxTree]) -> JaxTree:
        return unflatten(self.problem.state, iter(rows))

    def _data(self, rows: JaxTree) -> StepData:
        return unflatten(self.problem.data, iter([*rows]))

    def _folded_parameters(self, trace: JaxTree) -> JaxTree:
        return fold_tree(self.problem.parameters, flatten(self.parameters), trace)

    def _rollout(
        self, batch: ProblemBatch, data: JaxTree, inputs: JaxTree, feedback: JaxTree = None, alpha: JaxTree = 0.0
    ) -> tuple[JaxTree, JaxTree, JaxTree]:
        """States (N + 1, n, B), inputs (N, m, B) and costs (B,) of inputs, and of feedback around a nominal trajectory

        `feedback` is the states, gains, steps and gaps of that trajectory; the part 1 − α of its gaps remains.
        """
        problem, parameters = self.problem, self.parameters
        limits = problem.limits(parameters)

        def body(carry: JaxTree, row: JaxTree) -> JaxTree:
            x, u_before, u_before_nominal, cost = carry
            stage_data, u_nominal, *around = row
            trace = new_trace(self.dtype)
            state = fold_tree(problem.state, x, trace)
            u = [*u_nominal]
            if around:
                x_nominal, K, k, gap = around
                nominal_state = fold_tree(problem.state, [*x_nominal], trace)
                change = (a - b for a, b in zip(u_before, u_before_nominal, strict=True))
                error = [*unfold_leaves(problem.difference(state, nominal_state)), *change]
                u = apply_feedback(u, [*k], [[*gain] for gain in K], error, alpha, limits)
            next_state = problem.step(state, fold_tree(tuple(u), u, trace), self._folded_parameters(trace))
            if around and self.shooting:
                remaining_gap = fold_tree(problem.tangent, [(alpha - 1.0) * d for d in gap], trace)
                next_state = problem.displace(next_state, remaining_gap)
            residuals = problem.stage_residuals(
                self._state(x), tuple(u), tuple(u_before), self._data(stage_data), parameters
            )
            next_x = [jnp.broadcast_to(leaf, jnp.shape(cost)) for leaf in unfold_leaves(next_state)]
            return (next_x, u, [*u_nominal], cost + total_cost(residuals)), (jnp.stack(next_x), jnp.stack(u))

        x0, before = batch.states, [*batch.previous_inputs]
        around = () if feedback is None else (feedback[0][:-1], *feedback[1:])
        carry = ([*x0], before, before, jnp.zeros_like(x0[0]))
        (x, _, _, cost), (states, controls) = lax.scan(body, carry, (data[:-1], inputs, *around))
        cost = cost + total_cost(problem.final_residuals(self._state(x), self._data(data[-1]), parameters))
        return jnp.concatenate([x0[None], states]), controls, cost

    def _derivatives(self, x: JaxTree, u: JaxTree, data: JaxTree, u_previous: JaxTree) -> tuple[JaxTree, JaxTree]:
        """[A B] (N, B, ·, · + m), the cost's gradient (N, B, · + m), its Hessian (N, B, · + m, · + m), its derivatives by the
        change of the inputs (N, 2 m, B); and the gaps (N, ·, B)"""
        problem, size = self.problem, self.problem.sizes
        previous_inputs = jnp.concatenate([u_previous[None], u[:-1]])
        rows, inputs = [x[:-1, i] for i in range(size.state)], [u[:, a] for a in range(size.command)]
        stage_data = self._data([data[:-1, i] for i in range(size.data)])
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
                plain_state, tuple(unfold_leaves(command)), u_before, stage_data, self.parameters
            )

        jacobian, slope, curvature = self._linearise(local, rows[0], size.width)
        weights, slopes = problem.change_terms(tuple(inputs), u_before, stage_data, self.parameters)
        change = jnp.stack([jnp.broadcast_to(value, rows[0].shape) for value in (*weights, *slopes)], axis=1)
        gaps = jnp.zeros((self.horizon, size.tangent, x.shape[-1]), self.dtype)
        if self.shooting:
            trace = new_trace(self.dtype)
            reached = problem.step(
                fold_tree(problem.state, rows, trace),
                fold_tree(tuple(inputs), inputs, trace),
                self._folded_parameters(trace),
            )
            following = fold_tree(problem.state, [x[1:, i] for i in range(size.state)], trace)
            leaves = unfold_leaves(problem.difference(reached, following))
            gaps = jnp.stack([jnp.broadcast_to(leaf, rows[0].shape) for leaf in leaves], axis=1)
        return (jnp.stack(jacobian, axis=-2), slope, curvature, change), gaps

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
        self, x_end: JaxTree, u: JaxTree, data: JaxTree, model: JaxTree, gaps: JaxTree, damping: JaxTree
    ) -> tuple[JaxTree, JaxTree, JaxTree, GapSums]:
        """Gains (N, m, · + m, B), steps (N, m, B), and the sums over the horizon"""
        problem, size = self.problem, self.problem.sizes
        m, count, limits = size.command, u.shape[-1], problem.limits(self.parameters)
        is_smooth = problem.max_change is not None or not is_zero(problem.smoothing(self.parameters))
        *matrices, change = model
        following = jnp.concatenate([change[1:], jnp.zeros_like(change[:1])])

        def one(value: JaxTree, model: JaxTree, current_u: JaxTree, change: JaxTree, damping: JaxTree) -> JaxTree:
            (V, v, K, k), (M, slope, H), (current_change, later, gap) = value, model, change
            gap_terms = GapSums(*jnp.zeros(3, self.dtype))
            if self.shooting:
                v, gap_terms = shift_value(V, v, gap[:, None])
            smoothing = (
                smoothing_terms(later[:m], later[m:], K, [*k], JAX, gap if self.shooting else None)
                if is_smooth
                else None
            )
            inputs = StageInputs(limits, [*current_u], damping)
            by_previous: JaxTree = -jnp.diag(current_change[:m])
            result = solve_stage(StageModel(V, v, M, H, slope[:, None]), inputs, smoothing, by_previous, JAX)
            symmetric, box = 0.5 * (result.V + result.V.T), result.box
            return (symmetric, result.v, result.gains, jnp.stack(box.step)), jnp.stack(
                [box.linear, box.quadratic, *gap_terms]
            )

        def body(carry: JaxTree, row: JaxTree) -> JaxTree:
            (value, sums), (model, current_u, change) = carry, row
            value, stage_sums = jax.vmap(one)(value, model, current_u.T, tuple(x.T for x in change), damping)
            return (value, sums + stage_sums), value[2:]

        gains, steps, sums = (jnp.zeros((count, *shape), self.dtype) for shape in ((m, size.width), (m,), (5,)))
        carry = ((*self._final(x_end, data[-1]), gains, steps), sums)
        (_, sums), (gains, steps) = lax.scan(body, carry, (tuple(matrices), u, (change, following, gaps)), reverse=True)
        return jnp.moveaxis(gains, 1, -1), jnp.moveaxis(steps, 1, -1), sums.T[:2], GapSums(*sums.T[2:])

    def _final(self, x: JaxTree, data: JaxTree) -> tuple[JaxTree, JaxTree]:
        """V and v at the end of the horizon"""

        def local(*delta: JaxTree) -> tuple[list[JaxTree], Residuals]:
            displaced = self.problem.displace(self._state([*x]), unflatten(self.problem.tangent, iter(delta)))
            return [], self.problem.final_residuals(displaced, self._data(data), self.parameters)

        _, slope, curvature = self._linearise(local, x[0], self.problem.sizes.tangent)
        return curvature, slope[:, :, None]


def _gauss_newton(
    weights: Sequence[JaxTree], residuals: Sequence[JaxTree], slopes: Sequence[JaxTree]
) -> tuple[JaxTree, JaxTree]:
    """Σ w r ∇r (…, columns) and Σ w ∇r ∇rᵀ (…, columns, columns), elementwise: a batched product takes ten times as long"""
    slope, curvature = 0.0, 0.0
    for w, r, g in zip(weights, residuals, slopes, strict=True):
        slope = slope + (w * r)[..., None] * g
        weight = jnp.asarray(w)[..., None, None]
        curvature = curvature + weight * g[..., :, None] * g[..., None, :]
    return slope, curvature


def _select(condition: JaxTree, chosen: Iterate, other: Iterate) -> Iterate:
    """Take the problems (·, B) of `chosen` where the condition (B,) holds, of `other` elsewhere."""
    selected: Iterate = jax.tree.map(lambda a, b: jnp.where(condition, a, b), chosen, other)
    return selected


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
    positions [m], the multipliers of the constraints, the time [s], and the count of ticks without a solution, at which the
    hover input was applied instead.
    """

    controls: JaxTree
    previous_input: JaxTree
    command: JaxTree
    push_observer: JaxTree
    has_observed: JaxTree
    torque_observer: JaxTree
    prediction: JaxTree
    multipliers: JaxTree
    time: JaxTree
    fallbacks: JaxTree


@dataclass(frozen=True, eq=False)
class FlightController:
    """`step(controller_state, states, ahead) → commands, controller_state`: pure, to be traced in a loop.

    States are rows (components, n), references `ahead` (N + 1, fields, n) at the instants `MPC.look_ahead` from now, commands
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
            ahead: tuple of N + 1 references, at the instants `MPC.look_ahead` from now.
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


def flight_controller(controller: "MPC", vehicle: Vehicle) -> FlightController:
    """Return `BatchController.run` of a controller as a pure function of arrays, in the precision of the states.

    A state or reference that is not finite, or a start without a finite cost, gives the hover input and is counted in
    `fallbacks`. (`BatchController` issues a warning, and tries a cold start first.)

    Args:
        controller: the controller.
        vehicle: vehicle of the flights; ValueError if the controller does not match it.
    """
    if not controller.matches(vehicle):
        raise ValueError(
            f"{controller!r} for vehicle {vehicle.name!r}: expected an MPC built for a vehicle with the same state"
        )
    vehicle, model, horizon, period = controller.vehicle, controller.model, controller.horizon, controller.period
    (hover_state, hover_command), torque_start = hover(vehicle), initial_lead_observer(vehicle) or ()
    hover_input, shift = model.hover_input, split_shift(period, model.dt, horizon)
    no_path = (math.nan,) * len(ZERO) * (horizon + 1)
    problem, delay = controller.problem, controller.options.delay
    multipliers = tuple(map(float, controller.initial_state.multipliers.ravel()))
    start = MpcBatchState(
        (hover_input,) * horizon,
        hover_input,
        hover_command,
        INITIAL_OBSERVER,
        0.0,
        torque_start,
        no_path,
        multipliers,
        0.0,
        0.0,
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
            controller_state.previous_input,
        )
        templates = (hover_state, (0.0,), hover_command, INITIAL_OBSERVER, (0.0,), torque_start, hover_input)
        state, (state_q_norm,), command, observer, (confirmed,), torque, previous = (
            fold_tree(template, [*rows], trace) for template, rows in zip(templates, fields, strict=True)
        )
        sensed = TickInputs(state, state_q_norm, command, observer, confirmed, torque, previous)
        observer, body = problem_start(sensed, vehicle, controller.observer_gain, period, controller.plan_models)
        push_W = observer.push_W
        references = fold_tree(Reference(ZERO), [*jnp.moveaxis(ahead, 1, 0)], trace)
        goals = [
            jnp.broadcast_to(leaf, (horizon + 1, n)) for leaf in unfold_leaves(mpc_target(references, model, push_W))
        ]
        shifted = shift_inputs(controller_state.controls.reshape(horizon, -1, n), *shift)
        batch = ProblemBatch(_rows(body, n, dtype), (), controller_state.previous_input, shifted)
        time = controller_state.time[0]
        torque_B = torque.disturbance_B if torque else ZERO
        values = controller.parameters._replace(push_W=push_W, time=time + delay, torque_B=torque_B)
        leaves = unfold_leaves(values)
        parameters = unflatten(problem.parameters, iter([jnp.asarray(x, dtype) for x in leaves]))
        saved = shift_inputs(controller_state.multipliers.reshape(horizon + 1, -1, n), *shift)
        data = step_data(problem, jnp.stack(goals, axis=1), model.dt, saved)
        solver = _BatchSolver(problem, horizon, controller.line_search, dtype.name, parameters, shooting=True)
        is_new = controller_state.has_observed[0] == 0.0
        iterations = controller.control_iterations, controller.options.max_iterations
        with jax.default_matmul_precision("highest"):
            solution = solver.resume(batch, data, is_new, iterations, controller.tolerance)
        has_solution = is_finite & jnp.isfinite(ahead.sum(axis=(0, 1))) & (solution.progress.cost < jnp.inf)
        controls = jnp.where(has_solution, solution.controls, jnp.asarray(hover_input, dtype)[:, None])
        allocated = inputs = fold_tree(hover_input, [*controls[0]], trace)
        if model.takes_commands:
            torque = observe(state, vehicle, torque or None, period) or ()
        else:
            wrench = model.thrust_and_torque(inputs)
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
            solution.data[:, problem.goal_size + 1 :].reshape(-1, n),
            (time + period)[None],
            controller_state.fallbacks + ~has_solution,
        )

    return FlightController(start, step)
