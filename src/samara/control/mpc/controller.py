"""The model-predictive controller: multiple-shooting DDP on SE(3), within limits and constraints, to a point or along a
trajectory. Its default configuration is the problem of the iLQR document.

    mpc = MPC(vehicle, horizon=20, dt=0.05)
    result = mpc.solve(state, (1.0, 0.0, 1.5))        # result.controls (N, 4), result.states (N + 1, 13), result.cost
    command, controller_state = mpc(state, (1.0, 0.0, 1.5), vehicle, mpc.initial_state)

See docs/explanation/mpc.md for the problem it solves and the shape of every array.
"""

import math
import warnings
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from numbers import Real
from time import perf_counter
from typing import NamedTuple

import numpy as np

from samara.control.allocation import build_allocation
from samara.control.controller_type import COUNT, suggest_names
from samara.control.disturbance_torque import DisturbanceObserver, initial_lead_observer, observe
from samara.control.geometric import default_gains
from samara.control.mpc.batch_cpu import ProblemTile
from samara.control.mpc.cost import TRACKING_COST, CostParameters, cost_structure, vehicle_problem
from samara.control.mpc.flight import (
    PUSH,
    TORQUE,
    BatchController,
    FlightParts,
    MpcState,
    PlanModels,
    compensated_command,
    lead_body_state,
    rigid_body_state,
    shift_inputs,
    split_shift,
    tick_code,
)
from samara.control.mpc.options import CostWeights, all_constraints, max_input_change, split_options
from samara.control.mpc.prediction_model import PredictionModel, build_prediction_model
from samara.control.mpc.problem import MAX_VIOLATION, Problem, Tree
from samara.control.mpc.programs import aligned_zeros
from samara.control.mpc.reference import GoalWriter, PointGoalWriter
from samara.control.mpc.solver import Solution, Solver
from samara.core.algebra import ZERO, Vec3
from samara.core.quantity import Scalar
from samara.core.tree import flatten, leaf_names, quaternion_order, require_finite, unflatten
from samara.core.types import Array
from samara.physics.inputs import require_vehicle
from samara.physics.multirotor import state_at_rest, zero_command
from samara.physics.types import BODY_STATE_SIZE, Command, State, Vehicle
from samara.vehicles.trim import hover

_BANDWIDTH_WITH_LEAD = 2.0  # ratio of the tilt loop's to the geometric controller's, if the motors' lag is compensated
_BANDWIDTH_WITHOUT_LEAD = 0.8  # the same if the lag is neither compensated nor part of the prediction


class SolveDurations(NamedTuple):
    """Duration of each phase of a solution  [s]."""

    goals: float
    start: float
    derivatives: float
    backward: float
    rollouts: float
    total: float


class MpcResult(NamedTuple):
    """A solution: N inputs, N + 1 states (p, v, q in the order of `layout`, ω), and its convergence history.

    Args:
        cost: cost of the plan, without the penalties that `cost_history` has.
        converged: whether the cost has settled and the plan is feasible.
        feasible: whether the states follow from each other and every constraint holds to 1e-3 of its scale.
        gap: largest component of step(x, u) ⊖ x'.
        violations: largest g of each constraint, in units of its scale; positive where it is violated.
        kkt_residual: √Σ|Q_u|² over the inputs that are not at a limit, before the last step.
        gains: (N, m, 12), the feedback K of u = u_k + K (x ⊖ x_k).
        goals: (N + 1, 12), p, v, b₃ and b₁ of the reference.
        multipliers: (N + 1, 1 + constraints), weight of the penalties and shifts, for a warm start.
    """

    controls: Array
    states: Array
    cost: float
    iterations: int
    converged: bool
    feasible: bool
    cost_history: tuple[float, ...]
    step_sizes: tuple[float, ...]
    kkt_residual: float
    gap: float
    violations: dict[str, float]
    gains: Array
    goals: Array
    multipliers: Array
    durations: SolveDurations
    layout: str

    def __repr__(self) -> str:
        end = "converged" if self.converged else "feasible" if self.feasible else "not feasible"
        worst = f", {self.worst_constraint}: {self.violation:.2g}" if self.violation > MAX_VIOLATION else ""
        return (
            f"Result(cost={self.cost:.6g}, iterations={self.iterations}, {end}{worst}, controls {self.controls.shape})"
        )

    @property
    def violation(self) -> float:
        """The largest violation of a constraint, in units of its scale; 0 if there is none."""
        return max(0.0, *self.violations.values()) if self.violations else 0.0

    @property
    def worst_constraint(self) -> str | None:
        """The name of the constraint with the largest violation; None if all hold."""
        return max(self.violations, key=lambda name: self.violations[name]) if self.violation > 0.0 else None

    def state(self, k: int) -> State:
        """Return state k of the horizon as a named tuple."""
        return State.from_numpy(self.states[k], self.layout)


class MpcBatchResult(NamedTuple):
    """B solutions: inputs (N, m, B), states (N + 1, 13, B), costs, convergence and the largest violation (B,), multipliers
    (N + 1, 1 + constraints, B) for a warm start, the iteration count, and the order of the quaternion in the states."""

    controls: Array
    states: Array
    cost: Array
    converged: Array
    violation: Array
    multipliers: Array
    iterations: int
    layout: str = "wxyz"


class SolveOptions(NamedTuple):
    """Options of `MPC.solve`.

    Args:
        layout: order of the quaternion in a state that is an array: "xyzw" in the iLQR document, "wxyz" in `Quat`.
        time: time on a trajectory [s].
        yaw: desired yaw at a point [rad].
        warm_start: an earlier result, or its inputs (N, m).
        shift: age of the warm start [s].
        before: previous input; None for hover.
        iterations: maximum iterations; 1 for a real-time iteration, None for `max_iterations`.
        push_W: steady external acceleration, such as that of wind [m/s²].
        turned: disturbance observer, with which the motors' lag is compensated.
    """

    layout: str | None = None
    time: float = 0.0
    yaw: float = 0.0
    warm_start: "MpcResult | Array | None" = None
    shift: float = 0.0
    before: Sequence[float] | None = None
    iterations: int | None = None
    push_W: Sequence[float] = ZERO
    turned: DisturbanceObserver | None = None

    def require_numbers(self) -> None:
        """Raise ValueError for an option that has to be a number and is not."""
        if not type(self.time) is type(self.yaw) is type(self.shift) is float:
            for name, value in (("time", self.time), ("yaw", self.yaw), ("shift", self.shift)):
                if not isinstance(value, (Real, np.ndarray)):
                    raise ValueError(f"{name} is {value!r:.60}; expected a number")
        if self.iterations is not None and self.iterations != 1 and COUNT.parse(self.iterations) is None:
            raise ValueError(f"iterations = {self.iterations!r:.60}: expected {COUNT.expected}")
        if isinstance(self.push_W, str) or not hasattr(self.push_W, "__len__") or len(self.push_W) != 3:
            raise ValueError(f"push_W is {self.push_W!r:.60}; expected three numbers")


class _Batch(NamedTuple):
    """B problems: states (13, B), targets (3, B), yaws (B,), previous inputs (m, B), inputs (N, m, B) and multipliers."""

    states: Array
    targets: Array
    yaw: Array
    before: Array
    inputs: Array
    multipliers: Array | None


class MPC:
    """Model-predictive controller for one vehicle.

    Compiling takes a second or two, once for each vehicle and type of problem.

    Args:
        vehicle: model of the vehicle.
        options: options by the names of `MpcOptions`, `CostWeights` and `Shaping`.
    """

    def __init__(self, vehicle: Vehicle, **options: Scalar) -> None:
        require_vehicle(vehicle)
        self.options, weights, self.shaping = split_options(options, default_torque_weight(vehicle))
        self.vehicle, mpc = vehicle, self.options
        self.horizon, self.period, self.tolerance = mpc.horizon, float(mpc.period), mpc.tolerance
        self.line_search = tuple(float(alpha) for alpha in mpc.line_search)
        self.control_iterations = mpc.control_iterations
        self.model: PredictionModel = build_prediction_model(vehicle, mpc)
        self.allocation = build_allocation(vehicle, mpc.healthy)
        smoothing = mpc.disturbance_time_constant
        self.observer_gain = -math.expm1(-self.period / smoothing) if smoothing > 0.0 else 0.0
        self.constraints = all_constraints(mpc)
        self.parameters = CostParameters(
            weights,
            self.model.hover_input,
            *self.model.limits,
            max_change=max_input_change(mpc, self.model.input_count),
            constraint_values=tuple(constraint.values for constraint in self.constraints),
            soft_weights=tuple(float(c.weight) for c in self.constraints if c.weight is not None),
        )
        structure = cost_structure(self.parameters, self.constraints, self.model)
        self.problem: Problem = vehicle_problem(self.model, structure, mpc.cost or TRACKING_COST)
        self._solver = Solver(self.problem, mpc.horizon, self.parameters, self.line_search)
        self._solver.set_step(mpc.dt)
        self._names = self.problem.all_constraint_names()
        self._instant = self._solver.parameters[TORQUE.start :]  # external torque, clock and external acceleration
        self._goals = GoalWriter(self.model, self.shaping, self._solver.goals, self._instant[PUSH], mpc.delay)
        self._hover = np.tile(np.array(self.model.hover_input), (mpc.horizon, 1))
        self._tiles: dict[str, tuple[ProblemTile, PointGoalWriter]] = {}

    def __repr__(self) -> str:
        mpc = self.options
        return f"MPC({self.vehicle.name!r}, horizon={mpc.horizon}, dt={mpc.dt:g}, inputs={mpc.inputs!r})"

    def move_constraint(self, name: str, values: Tree) -> None:
        """Replace the values of a constraint, such as the position of an obstacle, without compiling again.

        Args:
            name: name of the constraint.
            values: nested tuple shaped like `Constraint.values`.
        """
        names = [constraint.name for constraint in self.constraints]
        if name not in names:
            raise ValueError(f"there is no constraint {name!r}; {suggest_names(name, names)}")
        i = names.index(name)
        constraint = self.constraints[i]._replace(values=values)
        if constraint.structure != self.constraints[i].structure:
            raise ValueError(
                f"values of {name!r} are {values!r:.80}; expected numbers shaped like {self.constraints[i].values!r:.80}"
            )
        require_finite(values, f"values of {name!r}")
        self.constraints = (*self.constraints[:i], constraint, *self.constraints[i + 1 :])
        self.parameters = self.parameters._replace(constraint_values=tuple(c.values for c in self.constraints))
        self._solver.parameters[: TORQUE.start] = flatten(self.parameters)[: TORQUE.start]
        self._tiles.clear()

    @property
    def weights(self) -> CostWeights:
        """The weights in use."""
        return self.parameters.weights

    # Solving ---------------------------------------------------------------------------------------------------------

    def solve(self, state: State | Sequence[float] | Array, target: object, **options: Scalar) -> MpcResult:
        """Solve for the optimal inputs from a state to a target.

        A state or target that is not finite, or a problem without finite cost, gives hover and a warning.

        Args:
            state: a `State`, or its 13 components p, v, q, ω.
            target: a point (x, y, z), a `Trajectory`, or a `Reference`; a `Reference` of arrays has the references of the
                N + 1 instants `look_ahead` from now.
            options: fields of `SolveOptions`.
        """
        start_time = perf_counter()
        try:
            solve_options = SolveOptions(**options)
        except TypeError:
            name = next(name for name in options if name not in SolveOptions._fields)
            raise TypeError(f"solve has no option {name!r}; {suggest_names(name, SolveOptions._fields)}") from None
        solve_options.require_numbers()
        push_W, layout = solve_options.push_W, _quaternion_layout(state, solve_options.layout)
        x = _components(state, layout, self.problem.sizes.state)
        if x is None or not math.isfinite(sum(push_W)):
            return self._hover_result("the state is not finite", start_time, layout)
        if isinstance(state, State) and solve_options.turned is not None and not self.model.takes_commands:
            body = rigid_body_state(State.from_numpy(np.array(x[:BODY_STATE_SIZE]), "wxyz"))
            x = [float(leaf) for leaf in flatten(lead_body_state(body, state, solve_options.turned, self.vehicle))]
        if self.plan_models.delayed is not None:
            before = tuple(self.model.hover_input if solve_options.before is None else solve_options.before)
            x = flatten(self.plan_models.delayed.step(unflatten(self.model.template, iter(x)), before, Vec3(*push_W)))
        tau_B = ZERO if solve_options.turned is None else solve_options.turned.disturbance_B
        self._instant[:] = (*tau_B, solve_options.time + self.options.delay, *push_W)
        reason = self._goals.write(target, x, solve_options.time, solve_options.yaw)
        if reason is not None:
            return self._hover_result(reason, start_time, layout)
        goals_time = perf_counter()
        warm_start = solve_options.warm_start
        controls = None if warm_start is None else self._shift_warm_start(warm_start, solve_options.shift)
        iterations = self.options.max_iterations if solve_options.iterations is None else solve_options.iterations
        solution = self._solver.solve(x, solve_options.before, controls, iterations, self.tolerance)
        if solution is None:
            return self._hover_result("the predicted cost is not finite", start_time, layout)
        return self._result(solution, goals_time - start_time, start_time, layout)

    def _result(self, solution: Solution, goals_seconds: float, start_time: float, layout: str) -> MpcResult:
        solver = self._solver
        violations: dict[str, float] = {}
        for name, g in zip(self._names, solution.violations, strict=False):
            violations[name] = max(violations.get(name, g), g)
        return MpcResult(
            solver.controls.copy(),
            _reorder_quaternions(solver.states, layout),
            *solution[:6],
            solution.gradient_norm,
            solution.gap,
            violations,
            solver.gains.copy(),
            solver.goals[:, : self.problem.goal_size].copy(),
            solver.multipliers.copy(),
            SolveDurations(goals_seconds, *solution.seconds, perf_counter() - start_time),
            layout,
        )

    @cached_property
    def plan_models(self) -> PlanModels:
        """The prediction model, and the same over the delay of the commands."""
        delay = self.options.delay
        return PlanModels(self.model, replace(self.model, dt=delay) if delay > 0.0 else None)

    def _hover_result(self, reason: str, start_time: float, layout: str) -> MpcResult:
        """Return hover, and warn with the reason."""
        warnings.warn(f"MPC: {reason}; hovering instead", RuntimeWarning, stacklevel=3)
        solver, total = self._solver, perf_counter() - start_time
        solver.reset_multipliers()
        states = np.tile(np.array(flatten(self.model.template)), (self.horizon + 1, 1))
        no_goals = np.zeros((self.horizon + 1, self.problem.goal_size))
        return MpcResult(
            self._hover.copy(),
            _reorder_quaternions(states, layout),
            cost=math.inf,
            iterations=0,
            converged=False,
            feasible=False,
            cost_history=(),
            step_sizes=(),
            kkt_residual=math.inf,
            gap=0.0,
            violations={},
            gains=np.zeros_like(solver.gains),
            goals=no_goals,
            multipliers=solver.multipliers.copy(),
            durations=SolveDurations(total, 0.0, 0.0, 0.0, 0.0, total),
            layout=layout,
        )

    def _shift_warm_start(self, warm_start: "MpcResult | Array", shift: float) -> Array:
        """Shift the inputs, and the multipliers of a result, by `shift` seconds, linear between steps; the last ones are
        repeated."""
        steps, fraction = split_shift(shift, self.model.dt, self.horizon)
        if self._names and isinstance(warm_start, MpcResult):
            self._solver.multipliers[:] = shift_inputs(warm_start.multipliers, steps, fraction)
        elif self._names:
            self._solver.reset_multipliers()
        controls = warm_start.controls if isinstance(warm_start, MpcResult) else np.asarray(warm_start, dtype=float)
        if controls.shape != self._hover.shape:
            raise ValueError(f"warm_start has shape {controls.shape}; expected {self._hover.shape}")
        return controls if steps == 0 and fraction == 0.0 else shift_inputs(controls, steps, fraction)

    def solve_batch(
        self,
        states: State | Array,
        targets: Array | Sequence[float],
        *,
        layout: str | None = None,
        yaw: Array | float = 0.0,
        warm_start: MpcBatchResult | Array | None = None,
        before: Array | Sequence[float] | None = None,
        iterations: int | None = None,
        backend: str = "llvm",
        dtype: str = "float32",
    ) -> MpcBatchResult:
        """Solve B problems at once, all with the same iteration count.

        A problem without a finite cost gives hover; a warning states the count of such problems.

        Args:
            states: (13, B) in a `layout`, or a `State` of arrays.
            targets: (3, B), or one point for all.
            layout: order of the quaternion in an array, "xyzw" or "wxyz".
            yaw: desired yaw [rad], one or (B,).
            warm_start: an earlier result or inputs (N, m, B).
            before: previous inputs (m, B); None for hover.
            iterations: iteration count; None for `max_iterations`.
            backend: "llvm" for one problem per vector lane of this CPU, or "jax", which compiles again for another
                problem or iteration count.
            dtype: "float32" or "float64".
        """
        if backend not in ("llvm", "jax") or dtype not in ("float32", "float64"):
            raise ValueError(f"backend = {backend!r}, dtype = {dtype!r}: expected llvm or jax, float32 or float64")
        layout = _quaternion_layout(states, layout)
        x = _batch_states(states, layout, self.problem.sizes.state)
        m, count = self.model.input_count, x.shape[1]
        initial_inputs = self._hover[:, :, None]
        if warm_start is not None:
            initial_inputs = warm_start.controls if isinstance(warm_start, MpcBatchResult) else np.asarray(warm_start)
        previous = np.asarray(self.model.hover_input if before is None else before, dtype=float)
        batch = _Batch(
            x,
            np.broadcast_to(np.reshape(np.asarray(targets, dtype=float), (3, -1)), (3, count)),
            np.broadcast_to(np.asarray(yaw, dtype=float), (count,)),
            np.broadcast_to(previous.reshape(m, -1), (m, count)),
            np.broadcast_to(initial_inputs, (self.horizon, m, count)),
            np.asarray(warm_start.multipliers) if isinstance(warm_start, MpcBatchResult) and self._names else None,
        )
        solve = self._solve_with_jax if backend == "jax" else self._solve_on_cpu
        iteration_count = self.options.max_iterations if iterations is None else iterations
        result = solve(batch, iteration_count, dtype, warm_start is None)
        if layout != result.layout:
            result = result._replace(states=_reorder_quaternions(result.states, layout), layout=layout)
        is_invalid = ~np.isfinite(np.asarray(result.cost))
        if is_invalid.any():
            warnings.warn(
                f"MPC: {int(is_invalid.sum())} of {count} problems have no finite cost; hovering instead",
                RuntimeWarning,
                stacklevel=2,
            )
            controls = np.where(is_invalid, self._hover[:, :, None], np.asarray(result.controls))
            result = result._replace(
                controls=controls.astype(dtype), converged=np.asarray(result.converged) & ~is_invalid
            )
        return result

    def _solve_on_cpu(self, batch: _Batch, iterations: int, dtype: str, cold: bool) -> MpcBatchResult:
        if dtype not in self._tiles:
            tile = ProblemTile(self.problem, self.horizon, self.parameters, self.line_search, dtype)
            tile.set_step(self.model.dt)
            self._tiles[dtype] = (
                tile,
                PointGoalWriter(self.model, self.shaping, tile.goals, aligned_zeros(3, dtype=dtype)),
            )
        tile, goals = self._tiles[dtype]
        x, target = batch.states, np.vstack([batch.targets, batch.states[:3], batch.yaw])
        n, m, width, count = self.horizon, self.model.input_count, tile.width, x.shape[1]
        controls, states = np.empty((n, m, count), dtype), np.empty((n + 1, x.shape[0], count), dtype)
        cost, violation, converged = np.empty(count, dtype), np.zeros(count, dtype), np.empty(count, dtype=bool)
        multipliers = np.empty((n + 1, tile.multipliers.shape[1], count), dtype)
        for first in range(0, count, width):
            lanes = slice(first, min(first + width, count))
            filled = slice(0, lanes.stop - first)
            tile.load(x[:, lanes], batch.before[:, lanes], batch.inputs[..., lanes])
            goals.write_lanes(x[:6, lanes], target[:, lanes], filled)
            start = None if batch.multipliers is None else batch.multipliers[..., lanes]
            tile.run(iterations, self.tolerance, cold, start)
            controls[..., lanes], states[..., lanes] = tile.controls[..., filled], tile.states[..., filled]
            cost[lanes], converged[lanes] = tile.cost[filled], tile.is_converged[filled]
            if self._names:
                violation[lanes], multipliers[..., lanes] = tile.violation[filled], tile.multipliers[..., filled]
        return MpcBatchResult(controls, states, cost, converged, violation, multipliers, iterations)

    def _solve_with_jax(self, batch: _Batch, iterations: int, dtype: str, cold: bool) -> MpcBatchResult:
        from samara.control.mpc.batch_jax import PointTargets, ProblemBatch, jax_solver, point_goals

        goals = point_goals(self.model, self.horizon)
        solve = jax_solver(
            self.problem, self.horizon, iterations, self.line_search, dtype, goals, self.model.dt, cold=cold
        )
        targets = PointTargets(batch.targets, batch.yaw, self.shaping)
        solution = solve(
            ProblemBatch(
                batch.states,
                targets,
                batch.before,
                batch.inputs,
                () if batch.multipliers is None else batch.multipliers,
            ),
            flatten(self.parameters),
            self.tolerance,
        )
        return MpcBatchResult(*solution, iterations)

    # Controlling -----------------------------------------------------------------------------------------------------

    @cached_property
    def look_ahead(self) -> Array:
        """The instants of the horizon, from now  [s]"""
        return self._goals.look_ahead.copy()

    @cached_property
    def initial_state(self) -> MpcState:
        """Hover, at time 0, with zero observed disturbance."""
        no_path = np.full((self.horizon + 1, 3), np.nan)
        observer, multipliers = initial_lead_observer(self.vehicle), self._solver.initial_multipliers
        return MpcState(
            self._hover, self.model.hover_input, hover(self.vehicle)[1], 0.0, None, no_path, observer, multipliers
        )

    def __call__(
        self, state: State, target: object, vehicle: Vehicle, controller_state: MpcState | tuple[()] = ()
    ) -> tuple[Command, MpcState]:
        """Run real-time iterations, warm-started by shifting the previous inputs.

        Args:
            state: estimated state of the vehicle.
            target: a point, a `Reference`, or a `Trajectory`, which is followed at the controller state's time.
            vehicle: not used; the model is that of the constructor.
            controller_state: the state that the previous call returned; () at the first call.

        Returns:
            The command of the vehicle's actuators (hover, with a warning, if the solver fails), and the controller
            state for the next call.
        """
        previous_state = controller_state if isinstance(controller_state, MpcState) else self.initial_state
        next_state = self._single.tick(state, target, previous_state)
        return next_state.command, next_state

    def _fallback(
        self, state: State, target: object, controller_state: MpcState, push_W: Vec3
    ) -> tuple[MpcResult, Command, DisturbanceObserver | None]:
        """Solve in Python one period after `controller_state`; return the solution, its first command and the torque
        observer."""
        result = self.solve(
            state,
            target,
            time=controller_state.time,
            warm_start=controller_state.controls,
            shift=self.period,
            before=controller_state.previous_input,
            iterations=self.control_iterations,
            push_W=push_W,
            turned=controller_state.torque_observer,
        )
        return result, *self._compensate(result.controls[0].tolist(), state, controller_state.torque_observer)

    def matches(self, vehicle: Vehicle) -> bool:
        """Whether batches of `vehicle` are supported: its state has the same fields, and no method is overridden."""
        expected, actual = (leaf_names((state_at_rest(v), zero_command(v))) for v in (self.vehicle, vehicle))
        return type(self) is MPC and expected == actual

    def batch_controller(self, vehicle: Vehicle, n: int) -> BatchController | None:
        """Return controllers of n drones on arrays; None if `vehicle` does not match, or a subclass overrides a method."""
        return BatchController(self._parts, n) if self.matches(vehicle) else None

    @cached_property
    def _single(self) -> BatchController:
        return BatchController(self._parts, 1)

    @cached_property
    def _parts(self) -> FlightParts:
        return FlightParts(
            self.vehicle,
            self._solver,
            self._goals,
            tick_code(
                self.vehicle,
                self.allocation,
                self.observer_gain,
                self.period,
                self.plan_models,
            ),
            self.period,
            None if self.model.takes_wrench or self.model.takes_commands else self.model.thrust_and_torque,
            self.model.dt,
            self.control_iterations,
            self.options.max_iterations,
            self.tolerance,
            self._fallback,
        )

    def command(self, controls: Sequence[float], state: State) -> Command:
        """Return the vehicle's command for an input: the rotor speeds of its thrust and torque, within their limits."""
        return self._compensate(controls, state, initial_lead_observer(self.vehicle))[0]

    def _compensate(
        self, controls: Sequence[float], state: State, observer: DisturbanceObserver | None
    ) -> tuple[Command, DisturbanceObserver | None]:
        if not math.isfinite(sum(flatten(state))):
            state, observer = hover(self.vehicle)[0], initial_lead_observer(self.vehicle)
        if self.model.takes_commands:
            return tuple(controls), observe(state, self.vehicle, observer, self.period)
        observer_input = observer if initial_lead_observer(self.vehicle) is not None else ()
        wrench = self.model.thrust_and_torque(tuple(controls))
        command, next_observer = compensated_command(
            wrench, state, observer_input, self.vehicle, self.allocation, self.period
        )
        return tuple(float(u) for u in command), next_observer or None


def _quaternion_layout(state: object, layout: str | None) -> str:
    """Return the order of the quaternion in states: that of `State`, or `layout` for an array."""
    order = "wxyz" if layout is None and isinstance(state, State) else layout
    if order != "wxyz":
        quaternion_order(order)
    assert order is not None
    return order


def _reorder_quaternions(states: Array, layout: str) -> Array:
    """Copy states (N + 1, 13, …) in the order w, x, y, z to the order of `layout`."""
    if layout == "wxyz":
        return states.copy()
    order = [*range(6), *(6 + i for i in quaternion_order(layout)), *range(10, states.shape[1])]
    return np.asarray(states)[:, order]


def _components(state: State | Sequence[float] | Array, layout: str, size: int) -> list[float] | None:
    """(p, v, q as w, x, y, z, ω, rotor speeds) with q of unit length, or None if a component is not finite"""
    components = (*state[0], *state[1], *state[2], *state[3], *state[4])[:size] if isinstance(state, State) else state
    x = [*map(float, components)]
    if len(x) != size:
        parts = "p, v, q and ω" if size == BODY_STATE_SIZE else "p, v, q, ω and the rotor speeds"
        raise ValueError(f"state has {len(x)} numbers; expected a State, or the {size} of {parts}")
    if layout != "wxyz" and not isinstance(state, State):
        x[6:10] = [x[6 + layout.index(letter)] for letter in "wxyz"]
    length = math.hypot(*x[6:10])
    if not (math.isfinite(sum(x)) and length > 0.0):
        return None
    x[6:10] = [leaf / length for leaf in x[6:10]]
    return x


def _batch_states(states: State | Array, layout: str, size: int) -> Array:
    """(size, B), quaternions as w, x, y, z, of unit length"""
    if isinstance(states, State):
        leaves = (np.atleast_1d(np.asarray(leaf, dtype=float)) for leaf in flatten(tuple(states[:5]))[:size])
        x = np.stack(np.broadcast_arrays(*leaves))
    else:
        x = np.array(states, dtype=float)
    if x.ndim != 2 or x.shape[0] != size:
        raise ValueError(f"states have shape {x.shape}; expected a State of arrays, or ({size}, B)")
    if not isinstance(states, State):
        x[6:10] = x[[6 + layout.index(letter) for letter in "wxyz"]]
    with np.errstate(invalid="ignore", divide="ignore"):  # an invalid quaternion gives an infinite cost
        x[6:10] /= np.sqrt((x[6:10] ** 2).sum(axis=0))
    return x


def default_torque_weight(vehicle: Vehicle) -> float:
    """tilt_weight / (J ω²)²: a tilt error is corrected at the rate ω that the motors can follow, 0.8 of the geometric
    controller's

    min ∫ w_tilt θ² + w τ² with J θ̈ = τ has the closed loop s⁴ = −w_tilt / (w J²). The iLQR document's 5e-4 is 1e9 times less
    for its Crazyflie: torque costs nothing, and without a lead such a plan makes a Crazyflie with 72 ms of lag tumble.
    If the lag is compensated, as for a vehicle with slow motors or with a moment of airspeed, ω is twice that
    controller's without lead.
    """
    factor = _BANDWIDTH_WITHOUT_LEAD if initial_lead_observer(vehicle) is None else _BANDWIDTH_WITH_LEAD
    rate = default_gains(vehicle, lead=0.0).attitude.x * factor
    return float(CostWeights().tilt_weight / (vehicle.inertia_B.xx * rate**2) ** 2)
