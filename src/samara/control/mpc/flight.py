"""The controller in flight: the disturbance observer, the warm start, and the command, for n drones, one column of arrays each.

The observer estimates the external acceleration, wind above all:

    d ← d + (1 − e^{−dt/τ}) ((v − v₋)/dt − ½ (a₋ + a) − d)

the mean acceleration between two ticks, less that of the equations of motion at the two states with the measured rotor speeds,
smoothed over τ. It is added to the prediction, so that a steady disturbance leaves no offset. A solution starts from the last
one, shifted by linear interpolation, u ← u_k (1 − fraction) + fraction u_{k+1}, with the last input repeated.

The first tick is a cold start. So is one whose shifted plan costs more than hover does, and one whose new plan turns over: a
prediction that is far off, such as that of slow motors at 20 Hz, makes the shifted inputs tumble, and one iteration from there
ends in the local minimum of a flip, near which later ticks would stay.

A tick of a drone is four calls of compiled code: everything before the first rollout, the iteration, the check of its plan, and
the evaluation of its solution. `FlightParts.fallback` handles a state, reference or cost that is not finite.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple, Protocol

import numpy as np

from samara.compiler.llvm.array_loop import ArrayLoop, Call, CallChain, CompiledLoops, compile_loops
from samara.control.allocation import Allocation, command_for_wrench
from samara.control.disturbance_torque import (
    DisturbanceObserver,
    compensate,
    initial_lead_observer,
    lead_state,
    observe,
)
from samara.control.mpc.prediction_model import PredictionModel
from samara.control.mpc.problem import FLIGHT_GROWTH, INITIAL_PENALTY, Problem, Tree, is_zero
from samara.control.mpc.programs import LANES, StepArray, copy_pass, shared_spec, trace_pass
from samara.control.mpc.reference import GoalWriter
from samara.control.mpc.solver import Solver, solver_code
from samara.core.algebra import ZERO, Quat, Vec3
from samara.core.ops import clamp, maximum, where
from samara.core.quantity import Scalar
from samara.core.tree import flatten, packer, unflatten, unpacker
from samara.core.types import Array
from samara.physics.multirotor import derivative
from samara.physics.types import BODY_STATE_SIZE, Command, Reference, State, Vehicle
from samara.vehicles.trim import hover

VECTOR_SIZE, WRENCH_SIZE = len(ZERO), 1 + len(ZERO)  # an acceleration; a thrust and three torques
QUATERNION_SLICE = slice(6, 10)
PUSH, CLOCK, TORQUE = slice(-3, None), slice(-4, -3), slice(-7, -4)  # the last of the problem's parameters
TICK_ARRAYS = ("state", "q_norm", "command", "observed", "confirmed", "turned", "previous")


class AccelerationObserver(NamedTuple):
    """The disturbance d [m/s²], and the velocity and modelled acceleration of the previous tick."""

    push_W: Vec3
    v_W: Vec3
    a_W: Vec3


INITIAL_OBSERVER = AccelerationObserver(ZERO, ZERO, ZERO)
OBSERVER_SIZE = len(flatten(INITIAL_OBSERVER))


def observe_acceleration(
    observer: AccelerationObserver, state: State, command: Command, vehicle: Vehicle, gain: Scalar, dt: Scalar
) -> AccelerationObserver:
    """d ← d + gain ((v − v₋)/dt − ½ (a₋ + a) − d), each component within ±g"""
    a_W, g = derivative(state, command, vehicle).v_W, vehicle["gravity"].acceleration
    residual = (state.v_W - observer.v_W) / dt - (observer.a_W + a_W) * 0.5
    push_W = observer.push_W + (residual - observer.push_W) * gain
    return AccelerationObserver(Vec3(*(clamp(d, -g, g) for d in push_W)), state.v_W, a_W)


def rigid_body_state(state: State) -> State:
    """Reduce a state to p, v, q and ω."""
    return State(state.p_W, state.v_W, state.q_WB, state.omega_B, (), ())


def lead_body_state(body: State, state: State, observer: DisturbanceObserver, vehicle: Vehicle) -> State:
    """Return the body's state as it would be without motor lag; `state` has the rotor speeds."""
    return rigid_body_state(
        lead_state(body._replace(rotor_speed=state.rotor_speed, effects=state.effects), vehicle, observer)
    )


class PlanModels(NamedTuple):
    """The prediction model, and the same over the delay of the commands, if there is one; the previous input acts meanwhile."""

    model: PredictionModel
    delayed: PredictionModel | None = None


class TickInputs(NamedTuple):
    """The inputs of a tick: the estimated state with |q|, the last command, and the observers of acceleration and torque, () if
    the vehicle needs none. `has_observed` is 0 at the first tick, which has no earlier velocity to compare with,
    and 1 later."""

    state: State
    q_norm: Scalar
    command: Command
    acceleration_observer: AccelerationObserver
    has_observed: Scalar
    torque_observer: DisturbanceObserver | tuple[()]
    previous_input: tuple[Scalar, ...]


def problem_start(
    sensed: TickInputs, vehicle: Vehicle, gain: Scalar, period: Scalar, models: PlanModels
) -> tuple[AccelerationObserver, State]:
    """Return the updated disturbance observer and the state from which a plan starts: |q| = 1, motor lag compensated unless the
    motors are part of the prediction.

    Args:
        sensed: the inputs of the tick.
        vehicle: model of the vehicle.
        gain: gain of the disturbance observer, the literal 0 for none.
        period: time between ticks [s].
        models: the prediction models.
    """
    state, observer = sensed.state, sensed.acceleration_observer
    if not is_zero(gain):
        observer = observe_acceleration(observer, state, sensed.command, vehicle, gain, period)
    push_W = Vec3(*(where(sensed.has_observed > 0.0, x, 0.0) for x in observer.push_W))
    body = models.model.initial_state(state)._replace(q_WB=Quat(*(x / sensed.q_norm for x in state.q_WB)))
    if sensed.torque_observer and not models.model.takes_commands:
        body = lead_body_state(body, state, sensed.torque_observer, vehicle)
    if models.delayed is not None:
        body = body._replace(effects=models.model.template.effects)
        body = models.delayed.step(body, sensed.previous_input, push_W)
    return observer._replace(push_W=push_W), body


def compensated_command(
    wrench: Sequence[Scalar], state: State, observer: Tree, vehicle: Vehicle, allocation: Allocation, period: float
) -> tuple[Command, Tree]:
    """Return the command for (T, τ) plus the torque that compensates attitude disturbances, and the observer of torques.

    The plan already compensates the damping. Without an observer, (), only modelled torques are compensated.
    """
    collective_thrust, *torques = wrench
    next_observer = observe(state, vehicle, observer or None, period)
    tau_B = compensate(collective_thrust, Vec3(*torques), state, vehicle, next_observer, damping_included=True)
    command = command_for_wrench(collective_thrust, tau_B, state, vehicle, allocation)
    return command, () if next_observer is None else next_observer


def split_shift(time: float, dt: float, horizon: int) -> tuple[int, float]:
    """Split a time into whole steps and a fraction of a step."""
    steps = min(int(time / dt), horizon)
    return steps, time / dt - steps


def interpolate(u: Scalar, next_u: Scalar, fraction: Scalar) -> Scalar:
    """u (1 − fraction) + fraction next_u"""
    return where(fraction > 0.0, u * (1.0 - fraction) + fraction * next_u, u)


def shift_inputs(controls: Array, steps: int, fraction: float) -> Array:
    """Shift the inputs (N, …), of NumPy or JAX, by `steps` and a `fraction` of a step; the last input is repeated."""
    current, following = _shift_indices(len(controls), steps)
    shifted: Array = controls.take(current, axis=0) if steps else controls
    return shifted * (1.0 - fraction) + fraction * controls.take(following, axis=0) if fraction > 0.0 else shifted


@lru_cache(maxsize=64)
def _shift_indices(count: int, steps: int) -> tuple[Array, Array]:
    index = np.arange(count) + steps
    return np.minimum(index, count - 1), np.minimum(index + 1, count - 1)


# Compiled code of a tick -------------------------------------------------------------------------------------------------


class TickCode(NamedTuple):
    """Compiled code before and after a solution."""

    begin: CompiledLoops
    finish: CompiledLoops


def tick_code(vehicle: Vehicle, allocation: Allocation, gain: float, period: float, models: PlanModels) -> TickCode:
    """Compile a tick: "state", "q_norm", "command" → "observed", "push", "confirmed", and "given" to the solver; then "wrench",
    "state", "turned" → "command", "turned". In strict IEEE arithmetic, bit-identical to the functions on floats."""
    (state, command), observer = hover(vehicle), initial_lead_observer(vehicle) or ()
    template, takes_commands = flatten(models.model.template), models.model.takes_commands
    start = TickInputs(state, 1.0, command, INITIAL_OBSERVER, 1.0, observer, models.model.hover_input)
    arrays = [shared_spec(name, len(flatten(field))) for name, field in zip(TICK_ARRAYS, start, strict=True)]

    def begin(*fields: Tree) -> Tree:
        observer_after, body = problem_start(TickInputs(*fields), vehicle, gain, period, models)
        torque_B = fields[5].disturbance_B if fields[5] else ZERO
        return observer_after, observer_after.push_W, 1.0, body, torque_B

    def allocate(wrench: Tree, x: State, torque_observer: DisturbanceObserver | tuple[()]) -> Tree:
        if takes_commands:
            return tuple(wrench), observe(x, vehicle, torque_observer or None, period) or ()
        return compensated_command(wrench, x, torque_observer, vehicle, allocation, period)

    targets = (
        arrays[3],
        shared_spec("push", VECTOR_SIZE),
        arrays[4],
        shared_spec("given", len(template)),
        shared_spec("torque", VECTOR_SIZE),
    )
    begin_pass = trace_pass(begin, tuple(zip(arrays, start, strict=True)), targets)
    wrench_size = models.model.input_count if takes_commands else WRENCH_SIZE
    inputs = (shared_spec("wrench", wrench_size), (arrays[0], state), (arrays[5], observer))
    finish_pass = trace_pass(allocate, inputs, (arrays[2], arrays[5]))
    codes = (
        compile_loops((ArrayLoop((loop_pass,), position="start"),), fast=False)
        for loop_pass in (begin_pass, finish_pass)
    )
    return TickCode(*codes)


@lru_cache(maxsize=16)
def _plan_code(problem: Problem, repeated: int, drones: int) -> TickCode:
    """Compile the copies before and after a solution: the shifted plan and multipliers into the solver; and back

    The last input is repeated, and so are the last multipliers. "shown" has the positions of `drones` drones side by side. In
    strict IEEE arithmetic, which rounds as NumPy does.
    """
    n, m, layout = problem.sizes.state, problem.sizes.command, solver_code(problem).layout
    count = problem.sizes.data - problem.goal_size
    plan, previous, start = (
        StepArray("plan", m),
        shared_spec("previous", m),
        StepArray("start", problem.sizes.step, LANES),
    )
    nominal, steps = layout.nominal, layout.gain_spec(layout.k)._replace(name="start_gains")
    predicted = StepArray("shown", VECTOR_SIZE, drones).step_values(VECTOR_SIZE)
    fraction = (shared_spec("part"), 0.0)

    def shift(u: Tree, next_u: Tree, hover: Tree, fraction: Scalar) -> Tree:
        shifted = tuple(interpolate(a, b, fraction) for a, b in zip(u, next_u, strict=True))
        return shifted, tuple(a - b for a, b in zip(hover, shifted, strict=True))

    shift_pass = trace_pass(
        shift,
        (plan.step_values(m), plan.step_values(m, later=1), shared_spec("level", m), fraction),
        (start.step_values(m, n, later=1), steps),
    )
    copy_previous = copy_pass(previous, StepArray("given", problem.sizes.step).fixed_values(m, n))
    copy_position, copy_first = (
        copy_pass(nominal.step_values(VECTOR_SIZE, later=1), predicted),
        copy_pass(nominal.step_values(m, n, later=1), previous),
    )
    copy_input = copy_pass(nominal.step_values(m, n, later=1), plan.step_values(m))
    repeat_input = copy_pass(nominal.step_values(m, n), *(plan.step_values(m, later=k) for k in range(repeated)))
    begin: list[ArrayLoop] = [ArrayLoop((copy_previous,), position="start"), ArrayLoop((shift_pass,))]
    finish: list[ArrayLoop] = [
        ArrayLoop((copy_first,), position="start"),
        ArrayLoop((copy_position, copy_input)),
        ArrayLoop((copy_position, repeat_input), position="end"),
    ]
    if count:
        saved = StepArray("multipliers", count - 1)
        target = layout.goals.step_values(count - 1, problem.goal_size + 1)
        shift_multipliers = trace_pass(
            lambda a, b, fraction: (tuple(interpolate(*pair, fraction) for pair in zip(a, b, strict=True)),),
            (saved.step_values(count - 1), saved.step_values(count - 1, later=1), fraction),
            (target,),
        )
        begin += [
            ArrayLoop((copy_pass(shared_spec("time"), shared_spec("clock")),), position="start"),
            ArrayLoop((shift_multipliers,)),
            ArrayLoop((shift_multipliers,), position="end"),
        ]
        repeat = copy_pass(target, *(saved.step_values(count - 1, later=k) for k in range(repeated + 1)))
        finish += [ArrayLoop((copy_pass(target, saved.step_values(count - 1)),)), ArrayLoop((repeat,), position="end")]
    return TickCode(compile_loops(tuple(begin), fast=False), compile_loops(tuple(finish), fast=False))


@lru_cache(maxsize=16)
def _check_code(problem: Problem) -> CompiledLoops:
    """Compile nominal → "overturned": whether a plan turns over."""
    nominal, overturned, turns_over = solver_code(problem).layout.nominal, shared_spec("overturned"), problem.turns_over
    assert turns_over is not None
    first = (nominal.fixed_values(problem.sizes.state, problem.sizes.step), problem.state)
    later = (nominal.step_values(problem.sizes.state, later=2), problem.state)
    zero = trace_pass(lambda: (0.0,), (), (overturned,))
    check = trace_pass(
        lambda a, b, earlier: (maximum(earlier, turns_over(a, b)),), (first, later, (overturned, 0.0)), (overturned,)
    )
    return compile_loops((ArrayLoop((zero,), position="start"), ArrayLoop((check,))))


# Drones ------------------------------------------------------------------------------------------------------------------


NO_MULTIPLIERS = np.zeros((0, 0))


class MpcState(NamedTuple):
    """Controller state of an `MPC`: the inputs (N, m) of the last solution, the applied input, the command computed from it,
    the time [s] and the disturbance observer; the predicted positions (N + 1, 3); the observer of torques, if the vehicle needs
    one; and the multipliers of the constraints (N + 1, ·)."""

    controls: Array
    previous_input: tuple[float, ...]
    command: tuple[float, ...]
    time: float
    acceleration_observer: AccelerationObserver | None
    prediction: Array
    torque_observer: DisturbanceObserver | None = None
    multipliers: Array = NO_MULTIPLIERS


class PlannedMotion(Protocol):
    """The inputs (N, m), states (N + 1, ·) and multipliers (N + 1, ·) of a solution."""

    @property
    def controls(self) -> Array: ...

    @property
    def states(self) -> Array: ...

    @property
    def multipliers(self) -> Array: ...


class FlightParts(NamedTuple):
    """The parts of an `MPC` that drones in flight share.

    `wrench` is None if the inputs are (T, τ) or commands. `fallback(state, target, controller_state, push_W)` returns a
    plan, the command, and the observer of torques.
    """

    vehicle: Vehicle
    solver: Solver
    goals: GoalWriter
    code: TickCode
    period: float
    wrench: Callable[[tuple[float, ...]], Command] | None
    dt: float
    iterations: int
    cold_iterations: int
    tolerance: float
    fallback: Callable[[State, object, MpcState, Vec3], tuple[PlannedMotion, Command, DisturbanceObserver | None]]


class BatchController:
    """Controllers of n drones: call `run` at every tick; then read `command` (channels, n) and `prediction` (N + 1, 3, n)."""

    def __init__(self, parts: FlightParts, n: int) -> None:
        state, command = hover(parts.vehicle)
        solver, self._shared, hover_input = parts.solver, parts, np.array(parts.solver.problem.command)
        self._steps, fraction = split_shift(parts.period, parts.dt, solver.horizon)
        self._delay = float(parts.goals.look_ahead[0])
        self._unpack_state, self._unpack_reference = unpacker(state), unpacker(Reference(ZERO))
        self._pack_state = packer(state)
        self._torque_observer = initial_lead_observer(parts.vehicle)
        rows = self._rows = {
            "state": np.tile(flatten(state), (n, 1)),
            "command": np.tile(flatten(command), (n, 1)),
            "plan": np.tile(hover_input, (n, solver.horizon + 1 + self._steps, 1)),
            "previous": np.tile(hover_input, (n, 1)),
            "q_norm": np.zeros((n, 1)),
            "confirmed": np.zeros((n, 1)),
            "observed": np.zeros((n, OBSERVER_SIZE)),
            "turned": np.zeros((n, len(flatten(self._torque_observer or ())))),
            "time": np.full((n, 1), self._delay),  # of the start of the plan
            "multipliers": np.zeros((n, solver.horizon + 2 + self._steps, solver.multipliers.shape[1])),
        }
        rows["multipliers"][:, :, :1] = INITIAL_PENALTY
        rows["wrench"] = rows["previous"] if parts.wrench is None else np.zeros((n, WRENCH_SIZE))
        self.command, self.prediction = rows["command"].T, np.full((solver.horizon + 1, VECTOR_SIZE, n), np.nan)
        self._arrays = solver.start_arrays(
            push=solver.parameters[PUSH],
            clock=solver.parameters[CLOCK],
            torque=solver.parameters[TORQUE],
            level=hover_input,
            part=np.array([fraction]),
        )
        self._plan_code = _plan_code(solver.problem, 1 + self._steps, n)
        goals = parts.goals.ahead_call()
        observe_calls = [self._call(parts.code.begin, drone) for drone in range(n)]
        self._finish_calls = [self._call(parts.code.finish, drone) for drone in range(n)]
        begin_calls = [self._call(self._plan_code.begin, i, solver.horizon, self._steps) for i in range(n)]
        self._observe_chains = [CallChain(call) for call in observe_calls]
        self._begin_chains = [solver.begin_chain(call) for call in begin_calls]
        self._begin_look_ahead = [
            solver.begin_chain(a, goals, b) for a, b in zip(observe_calls, begin_calls, strict=True)
        ]
        self._store_chains: dict[tuple[int, int, int], CallChain] = {}
        self._overturned, self._check_chains = np.zeros(1), dict[tuple[int, int], CallChain]()

    def _call(
        self,
        code: CompiledLoops,
        drone: int,
        steps: int = 1,
        first: int = 0,
        extra_arrays: Mapping[str, Array] | None = None,
    ) -> Call:
        rows = {name: values[drone] for name, values in self._rows.items()}
        rows["plan"], rows["multipliers"] = rows["plan"][first:], rows["multipliers"][first:]
        return code, self._arrays.table(code, **rows, **(extra_arrays or {})), steps

    def run(self, estimate: Array, ahead: Array, time: float | None = None) -> None:
        """Compute the commands from the estimated states (components, n) and the references ahead (N + 1, fields, n).

        Args:
            estimate: estimated states.
            ahead: references over the horizon.
            time: time of the flight [s], by which obstacles move; None for that since the first call.
        """
        self._rows["state"][:] = estimate.T
        if time is not None:
            self._rows["time"][:] = time + self._delay
        goals = self._shared.goals
        for drone, state_values in enumerate(self._rows["state"].tolist()):
            references = ahead[:, :, drone]
            if math.isfinite(sum(state_values)):
                self._rows["q_norm"][drone] = math.hypot(*state_values[QUATERNION_SLICE])
                goals.ahead[:] = references
                is_first = not self._rows["confirmed"][drone, 0]
                self._begin_look_ahead[drone]()
                if goals.is_ahead_finite() and self._solve(drone, is_first):
                    self._rows["time"][drone] += self._shared.period
                    continue
            now = float(self._rows["time"][drone, 0]) - self._delay
            self._fall_back(drone, state_values, self._unpack_reference(references.T), now)
            self._rows["time"][drone] += self._shared.period

    def tick(self, state: State, target: object, controller_state: MpcState) -> MpcState:
        """Return the state of the first drone's controller after a tick, from the one before it."""
        self._load(controller_state)
        rows, goals = self._rows, self._shared.goals
        state_values = self._pack_state(state)
        rows["state"][0] = state_values
        q_norm = math.hypot(*state_values[QUATERNION_SLICE])
        is_solved, is_first = False, not rows["confirmed"][0, 0]
        if math.isfinite(sum(state_values)):
            rows["q_norm"][0] = q_norm
            self._observe_chains[0]()
            x = self._arrays["given"][:BODY_STATE_SIZE].tolist()
            if q_norm > 0.0 and goals.write(target, x, controller_state.time, 0.0) is None:
                self._begin_chains[0]()
                is_solved = self._solve(0, is_first)
        if not is_solved:
            self._fall_back(0, state_values, target, controller_state.time)
        return self._store(controller_state.time + self._shared.period)

    def _solve(self, drone: int, is_first: bool) -> bool:
        """Iterate from the first rollout, store the plan and compute the command; return whether the cost was finite.

        Without an earlier plan, or if it costs more than hover thrust does or leads to one that turns over, the solver starts
        cold.
        """
        parts, solver = self._shared, self._shared.solver
        cost, is_cold = solver.accept_start(), is_first or solver.is_plan_rejected
        if not is_cold and cost < math.inf:
            cost = solver.iterate(cost, parts.iterations, parts.tolerance)
            is_cold = self._plan_turns_over()
        if is_cold and (cost := solver.restart()) < math.inf:
            cost = solver.iterate(cost, parts.cold_iterations, parts.tolerance)
        if not cost < math.inf:
            return False
        if is_cold:
            solver.raise_penalty(FLIGHT_GROWTH)
        key = (drone, *solver.nominal_index)
        if key not in self._store_chains:
            arrays = {"nominal": solver.nominal, "shown": self.prediction.reshape(-1)[drone:]}
            store = self._call(self._plan_code.finish, drone, solver.horizon, extra_arrays=arrays)
            self._store_chains[key] = CallChain(store, *([self._finish_calls[drone]] if parts.wrench is None else []))
        self._store_chains[key]()
        if parts.wrench is not None:
            self._rows["wrench"][drone] = parts.wrench(tuple(self._rows["previous"][drone].tolist()))
            CallChain(self._finish_calls[drone])()
        return True

    def _plan_turns_over(self) -> bool:
        solver = self._shared.solver
        if solver.problem.turns_over is None:
            return False
        if (key := solver.nominal_index) not in self._check_chains:
            code = _check_code(solver.problem)
            table = self._arrays.table(code, nominal=solver.nominal, overturned=self._overturned)
            self._check_chains[key] = CallChain((code, table, solver.horizon))
        self._check_chains[key]()
        return self._overturned.item() > 0.0

    def _fall_back(self, drone: int, state_values: list[float], target: object, time: float) -> None:
        rows = self._rows
        if not math.isfinite(sum(state_values)):
            rows["observed"][drone] = rows["confirmed"][drone] = rows["turned"][drone] = 0.0
        push_W = Vec3(*rows["observed"][drone, :VECTOR_SIZE].tolist())
        plan, rows["command"][drone], torque_observer = self._shared.fallback(
            self._unpack_state(state_values), target, self._store(time, drone), push_W
        )
        controls = plan.controls
        rows["turned"][drone] = flatten(torque_observer or ())
        rows["plan"][drone, : len(controls)], rows["plan"][drone, len(controls) :] = controls, controls[-1]
        rows["previous"][drone], self.prediction[:, :, drone] = controls[0], plan.states[:, :VECTOR_SIZE]
        if plan.multipliers.size:
            rows["multipliers"][drone, : len(plan.multipliers)] = plan.multipliers
            rows["multipliers"][drone, len(plan.multipliers) :] = plan.multipliers[-1]

    def _load(self, controller_state: MpcState) -> None:
        """Write the state of the first drone's controller into the arrays."""
        rows, horizon = self._rows, len(controller_state.controls)
        rows["plan"][0, :horizon], rows["plan"][0, horizon:] = controller_state.controls, controller_state.controls[-1]
        rows["previous"][0], rows["command"][0] = controller_state.previous_input, controller_state.command
        rows["observed"][0] = flatten(controller_state.acceleration_observer or INITIAL_OBSERVER)
        rows["confirmed"][0] = controller_state.acceleration_observer is not None
        rows["turned"][0] = flatten(controller_state.torque_observer or self._torque_observer or ())
        rows["time"][0], multipliers = controller_state.time + self._delay, controller_state.multipliers
        if multipliers.size:
            rows["multipliers"][0, : horizon + 1], rows["multipliers"][0, horizon + 1 :] = multipliers, multipliers[-1]

    def _store(self, time: float, drone: int = 0) -> MpcState:
        """Return the state of a drone's controller."""
        rows, observer, torque_observer, multipliers = self._rows, None, None, NO_MULTIPLIERS
        if rows["confirmed"][drone, 0]:
            observer = unflatten(INITIAL_OBSERVER, iter(rows["observed"][drone].tolist()))
        if self._torque_observer is not None:
            torque_observer = unflatten(self._torque_observer, iter(rows["turned"][drone].tolist()))
        controls = rows["plan"][drone, : self._shared.solver.horizon].copy()
        previous, command = tuple(rows["previous"][drone].tolist()), tuple(rows["command"][drone].tolist())
        prediction = self.prediction[:, :, drone].copy()
        if rows["multipliers"].size:
            multipliers = rows["multipliers"][drone, : len(prediction)].copy()
        return MpcState(controls, previous, command, time, observer, prediction, torque_observer, multipliers)
