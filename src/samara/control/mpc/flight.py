"""iLQR in flight: the disturbance observer, the warm start, and the command, for n drones on arrays, one column per drone.

The observer estimates the external acceleration, wind above all:

    d ← d + (1 − e^{−dt/τ}) ((v − v₋)/dt − ½ (a₋ + a) − d)

the mean acceleration between two ticks, less that of the equations of motion at the two states with the measured rotor speeds,
smoothed over τ. It is added to the prediction, so that a steady disturbance leaves no offset. A solution starts from the last
one, shifted by linear interpolation, u ← u_k (1 − part) + part u_{k+1}, with the last input repeated.

A tick of a drone is three calls of compiled code: everything before the first rollout, the iteration, and the evaluation of its
solution. `Parts.fallback` handles a state, reference or cost that is not finite.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple, Protocol

import numpy as np

from samara.compiler.llvm.array_loop import Call, Chain, Loop, Loops, compile_loops
from samara.control.allocation import Allocation, command_for_wrench
from samara.control.disturbance_torque import Turned, led, observer_for, opposed, seen
from samara.control.mpc.problem import Problem, Tree, is_zero
from samara.control.mpc.programs import LANES, Rows, copy_pass, shared, trace_pass
from samara.control.mpc.reference import Goals
from samara.control.mpc.solver import Solver, solver_code
from samara.core.algebra import ZERO, Quat, Vec3
from samara.core.ops import clamp, where
from samara.core.quantity import Scalar
from samara.core.tree import flatten, packer, unflatten, unpacker
from samara.core.types import Array
from samara.physics.multirotor import derivative
from samara.physics.types import BODY, Command, Reference, State, Vehicle
from samara.vehicles.trim import hover

PUSH, WRENCH = len(ZERO), 1 + len(ZERO)  # an acceleration; a thrust and three torques
ATTITUDE = slice(6, 10)
SENSED = ("state", "q_norm", "command", "observed", "confirmed", "turned")


class Observed(NamedTuple):
    """The disturbance d [m/s²], and the velocity and modelled acceleration of the previous tick."""

    push_W: Vec3
    v_W: Vec3
    a_W: Vec3


NOTHING = Observed(ZERO, ZERO, ZERO)
OBSERVED = len(flatten(NOTHING))


def observed(
    observer: Observed, state: State, command: Command, vehicle: Vehicle, gain: Scalar, dt: Scalar
) -> Observed:
    """d ← d + gain ((v − v₋)/dt − ½ (a₋ + a) − d), each component within ±g"""
    a_W, g = derivative(state, command, vehicle).v_W, vehicle["gravity"].acceleration
    residual = (state.v_W - observer.v_W) / dt - (observer.a_W + a_W) * 0.5
    push_W = observer.push_W + (residual - observer.push_W) * gain
    return Observed(Vec3(*(clamp(d, -g, g) for d in push_W)), state.v_W, a_W)


def body_of(state: State) -> State:
    """Reduce a state to p, v, q and ω."""
    return State(state.p_W, state.v_W, state.q_WB, state.omega_B, (), ())


def led_body(body: State, state: State, observer: Turned, vehicle: Vehicle) -> State:
    """Return the body's state as it would be without motor lag; `state` has the rotor speeds."""
    return body_of(led(body._replace(rotor_speed=state.rotor_speed, effects=state.effects), vehicle, observer))


class Sensed(NamedTuple):
    """The inputs of a tick: the estimated state with |q|, the last command, and the observers of acceleration and torque, () if
    the vehicle needs none. `confirmed` is 0 at the first tick, which has no earlier velocity to compare with, and 1 later."""

    state: State
    q_norm: Scalar
    command: Command
    observed: Observed
    confirmed: Scalar
    turned: Turned | tuple[()]


def problem_start(sensed: Sensed, vehicle: Vehicle, gain: Scalar, period: Scalar) -> tuple[Observed, State]:
    """Return the updated disturbance observer and the state from which a plan starts: |q| = 1, motor lag compensated.

    `gain` is that of the disturbance observer, the literal 0 for none.
    """
    state, observer = sensed.state, sensed.observed
    if not is_zero(gain):
        observer = observed(observer, state, sensed.command, vehicle, gain, period)
    push_W = Vec3(*(where(sensed.confirmed > 0.0, x, 0.0) for x in observer.push_W))
    body = body_of(state)._replace(q_WB=Quat(*(x / sensed.q_norm for x in state.q_WB)))
    if sensed.turned:
        body = led_body(body, state, sensed.turned, vehicle)
    return observer._replace(push_W=push_W), body


def compensated_command(
    wrench: Sequence[Scalar], state: State, observer: Tree, vehicle: Vehicle, allocation: Allocation, period: float
) -> tuple[Command, Tree]:
    """Return the command for (T, τ) plus the torque that compensates attitude disturbances, and the observer of torques.

    The plan already compensates the damping. Without an observer, (), only modelled torques are compensated.
    """
    collective_thrust, *torques = wrench
    next_observer = seen(state, vehicle, observer or None, period)
    tau_B = opposed(collective_thrust, Vec3(*torques), state, vehicle, next_observer, resisted=True)
    command = command_for_wrench(collective_thrust, tau_B, state, vehicle, allocation)
    return command, () if next_observer is None else next_observer


def shift_of(time: float, dt: float, horizon: int) -> tuple[int, float]:
    """Split a time into whole steps and a fraction of one."""
    steps = min(int(time / dt), horizon)
    return steps, time / dt - steps


def interpolate(u: Scalar, next_u: Scalar, fraction: Scalar) -> Scalar:
    """u (1 − part) + part u_later"""
    return where(fraction > 0.0, u * (1.0 - fraction) + fraction * next_u, u)


def shift_inputs(controls: Array, steps: int, fraction: float) -> Array:
    """Shift the inputs (N, …) of NumPy or JAX by `steps` and a fraction `part` of one; the last one is repeated."""
    index, last = np.arange(len(controls)) + steps, len(controls) - 1
    shifted: Array = interpolate(controls[np.minimum(index, last)], controls[np.minimum(index + 1, last)], fraction)
    return shifted


# Compiled code of a tick -------------------------------------------------------------------------------------------------


class TickCode(NamedTuple):
    """Compiled code before and after a solution."""

    before: Loops
    after: Loops


def tick_code(vehicle: Vehicle, allocation: Allocation, gain: float, period: float) -> TickCode:
    """Compile a tick: "state", "q_norm", "command" → "observed", "push", "confirmed", and "given" to the solver; then "wrench",
    "state", "turned" → "command", "turned". In strict IEEE, with the bits of the functions on floats."""
    (state, command), observer = hover(vehicle), observer_for(vehicle) or ()
    start = Sensed(state, 1.0, command, NOTHING, 1.0, observer)
    arrays = [shared(name, len(flatten(field))) for name, field in zip(SENSED, start, strict=True)]

    def begin(*fields: Tree) -> Tree:
        observer_after, body = problem_start(Sensed(*fields), vehicle, gain, period)
        return observer_after, observer_after.push_W, 1.0, body

    def allocate(wrench: Tree, x: State, torque_observer: Turned | tuple[()]) -> Tree:
        return compensated_command(wrench, x, torque_observer, vehicle, allocation, period)

    targets = (arrays[3], shared("push", PUSH), arrays[4], shared("given", BODY))
    begin_pass = trace_pass(begin, tuple(zip(arrays, start, strict=True)), targets)
    inputs = (shared("wrench", WRENCH), (arrays[0], state), (arrays[5], observer))
    finish_pass = trace_pass(allocate, inputs, (arrays[2], arrays[5]))
    codes = (compile_loops((Loop((loop_pass,), at="start"),), fast=False) for loop_pass in (begin_pass, finish_pass))
    return TickCode(*codes)


@lru_cache(maxsize=16)
def _plan_code(problem: Problem, repeated: int, drones: int) -> TickCode:
    """Before: the shifted plan into the start of the solver; after: its solution into the plan, the last input repeated

    "shown" has the positions of `drones` drones side by side. In strict IEEE, as NumPy rounds.
    """
    n, m, layout = problem.sizes.state, problem.sizes.command, solver_code(problem).layout
    plan, previous, start = Rows("plan", m), shared("previous", m), Rows("start", problem.sizes.step, LANES)
    nominal, steps = layout.nominal, layout.of_gains(layout.k)._replace(name="start_gains")
    predicted = Rows("shown", PUSH, drones).at(PUSH)

    def shift(u: Tree, next_u: Tree, hover: Tree, fraction: Scalar) -> Tree:
        shifted = tuple(interpolate(a, b, fraction) for a, b in zip(u, next_u, strict=True))
        return shifted, tuple(a - b for a, b in zip(hover, shifted, strict=True))

    shift_pass = trace_pass(
        shift,
        (plan.at(m), plan.at(m, later=1), shared("level", m), (shared("part"), 0.0)),
        (start.at(m, n, later=1), steps),
    )
    copy_previous = copy_pass(previous, Rows("given", problem.sizes.step).once(m, n))
    copy_position, copy_first = (
        copy_pass(nominal.at(PUSH, later=1), predicted),
        copy_pass(nominal.at(m, n, later=1), previous),
    )
    copy_input = copy_pass(nominal.at(m, n, later=1), plan.at(m))
    repeat_input = copy_pass(nominal.at(m, n), *(plan.at(m, later=k) for k in range(repeated)))
    return TickCode(
        compile_loops((Loop((copy_previous,), at="start"), Loop((shift_pass,))), fast=False),
        compile_loops(
            (
                Loop((copy_first,), at="start"),
                Loop((copy_position, copy_input)),
                Loop((copy_position, repeat_input), at="end"),
            ),
            fast=False,
        ),
    )


# Drones ------------------------------------------------------------------------------------------------------------------


class Memory(NamedTuple):
    """Controller state of an `ILQR`: the inputs (N, m) of the last solution, the applied input, the command computed from it,
    the time [s] and the disturbance observer; the predicted positions (N + 1, 3); and the observer of torques, if the vehicle
    needs one."""

    controls: Array
    before: tuple[float, ...]
    command: tuple[float, ...]
    time: float
    observed: Observed | None
    prediction: Array
    turned: Turned | None = None


class Plan(Protocol):
    """The inputs (N, m) and states (N + 1, ·) of a solution."""

    @property
    def controls(self) -> Array: ...

    @property
    def states(self) -> Array: ...


class Parts(NamedTuple):
    """The parts of an `ILQR` that drones in flight share.

    `wrench` is None if the inputs are (T, τ). `fallback(state, target, memory, push_W)` returns a plan, the command, and the
    observer of torques.
    """

    vehicle: Vehicle
    solver: Solver
    goals: Goals
    code: TickCode
    gain: float  # of the disturbance observer
    period: float
    wrench: Callable[[tuple[float, ...]], Command] | None
    dt: float
    iterations: int
    tolerance: float
    fallback: Callable[[State, object, Memory, Vec3], tuple[Plan, Command, Turned | None]]


class BatchController:
    """Controllers of n drones: call `run` at every tick; then read `command` (channels, n) and `prediction` (N + 1, 3, n)."""

    def __init__(self, parts: Parts, n: int) -> None:
        state, command = hover(parts.vehicle)
        solver, self._parts, hover_input = parts.solver, parts, np.array(parts.solver.problem.command)
        self._steps, fraction = shift_of(parts.period, parts.dt, solver.horizon)
        self._state_of, self._reference_of = unpacker(state), unpacker(Reference(ZERO))
        self._numbers_of = packer(state)
        self._torque_observer = observer_for(parts.vehicle)
        rows = self._rows = {
            "state": np.tile(flatten(state), (n, 1)),
            "command": np.tile(flatten(command), (n, 1)),
            "plan": np.tile(hover_input, (n, solver.horizon + 1 + self._steps, 1)),
            "previous": np.tile(hover_input, (n, 1)),
            "q_norm": np.zeros((n, 1)),
            "confirmed": np.zeros((n, 1)),
            "observed": np.zeros((n, OBSERVED)),
            "turned": np.zeros((n, len(flatten(self._torque_observer or ())))),
        }
        rows["wrench"] = rows["previous"] if parts.wrench is None else np.zeros((n, WRENCH))
        self.command, self.prediction = rows["command"].T, np.full((solver.horizon + 1, PUSH, n), np.nan)
        self._memory = solver.start_memory(
            push=solver.parameters[-PUSH:],
            level=hover_input,
            part=np.array([fraction]),
        )
        self._plan_code = _plan_code(solver.problem, 1 + self._steps, n)
        goals = parts.goals.call_ahead()
        observe_calls = [self._call(parts.code.before, drone) for drone in range(n)]
        self._after = [self._call(parts.code.after, drone) for drone in range(n)]
        begin_calls = [self._call(self._plan_code.before, i, solver.horizon, self._steps) for i in range(n)]
        self._observe = [Chain(call) for call in observe_calls]
        self._begin = [solver.begin_chain(call) for call in begin_calls]
        self._begin_ahead = [solver.begin_chain(a, goals, b) for a, b in zip(observe_calls, begin_calls, strict=True)]
        self._keep: dict[tuple[int, int, int], Chain] = {}

    def _call(
        self, code: Loops, drone: int, steps: int = 1, first: int = 0, others: Mapping[str, Array] | None = None
    ) -> Call:
        rows = {name: values[drone] for name, values in self._rows.items()}
        rows["plan"] = rows["plan"][first:]
        return code, self._memory.table(code, **rows, **(others or {})), steps

    def run(self, estimate: Array, ahead: Array) -> None:
        """Compute the commands from the estimated states (components, n) and the references ahead (N + 1, fields, n)."""
        self._rows["state"][:] = estimate.T
        goals = self._parts.goals
        for drone, state_values in enumerate(self._rows["state"].tolist()):
            references = ahead[:, :, drone]
            if math.isfinite(sum(state_values)):
                self._rows["q_norm"][drone] = math.hypot(*state_values[ATTITUDE])
                goals.ahead[:] = references
                self._begin_ahead[drone]()
                cost = self._parts.solver.accept_start()
                if cost < math.inf and goals.ahead_was_finite():
                    self._solve(drone, cost)
                    continue
            self._fall_back(drone, state_values, self._reference_of(references.T))

    def tick(self, state: State, target: object, controller_state: Memory) -> Memory:
        """Return the state of the first drone's controller after a tick, from the one before it."""
        self._load(controller_state)
        rows, goals = self._rows, self._parts.goals
        state_values = self._numbers_of(state)
        rows["state"][0] = state_values
        q_norm = math.hypot(*state_values[ATTITUDE])
        is_solved = False
        if math.isfinite(sum(state_values)):
            rows["q_norm"][0] = q_norm
            self._observe[0]()
            x = self._memory["given"][:BODY].tolist()
            if q_norm > 0.0 and goals.write(target, x, controller_state.time, 0.0) is None:
                self._begin[0]()
                cost = self._parts.solver.accept_start()
                if is_solved := cost < math.inf:
                    self._solve(0, cost)
        if not is_solved:
            self._fall_back(0, state_values, target, controller_state.time)
        return self._store(controller_state.time + self._parts.period)

    def _solve(self, drone: int, cost: float) -> None:
        """Iterate from the first rollout, store the plan and compute the command."""
        parts, solver = self._parts, self._parts.solver
        solver.iterate(cost, parts.iterations, parts.tolerance)
        key = (drone, *solver.nominal_index)
        if key not in self._keep:
            arrays = {"nominal": solver.nominal, "shown": self.prediction.reshape(-1)[drone:]}
            store = self._call(self._plan_code.after, drone, solver.horizon, others=arrays)
            self._keep[key] = Chain(store, *([self._after[drone]] if parts.wrench is None else []))
        self._keep[key]()
        if parts.wrench is not None:
            self._rows["wrench"][drone] = parts.wrench(tuple(self._rows["previous"][drone].tolist()))
            Chain(self._after[drone])()

    def _fall_back(self, drone: int, state_values: list[float], target: object, time: float = 0.0) -> None:
        rows = self._rows
        if not math.isfinite(sum(state_values)):
            rows["observed"][drone] = rows["confirmed"][drone] = rows["turned"][drone] = 0.0
        push_W = Vec3(*rows["observed"][drone, :PUSH].tolist())
        plan, rows["command"][drone], torque_observer = self._parts.fallback(
            self._state_of(state_values), target, self._store(time, drone), push_W
        )
        controls = plan.controls
        rows["turned"][drone] = flatten(torque_observer or ())
        rows["plan"][drone, : len(controls)], rows["plan"][drone, len(controls) :] = controls, controls[-1]
        rows["previous"][drone], self.prediction[:, :, drone] = controls[0], plan.states[:, :PUSH]

    def _load(self, controller_state: Memory) -> None:
        """Write the state of the first drone's controller into the arrays."""
        rows, horizon = self._rows, len(controller_state.controls)
        rows["plan"][0, :horizon], rows["plan"][0, horizon:] = controller_state.controls, controller_state.controls[-1]
        rows["previous"][0], rows["command"][0] = controller_state.before, controller_state.command
        rows["observed"][0] = flatten(controller_state.observed or NOTHING)
        rows["confirmed"][0] = controller_state.observed is not None
        rows["turned"][0] = flatten(controller_state.turned or self._torque_observer or ())

    def _store(self, time: float, drone: int = 0) -> Memory:
        """Return the state of a drone's controller."""
        rows = {name: values[drone] for name, values in self._rows.items()}
        observer, initial_observer = None, self._torque_observer
        if self._parts.gain and rows["confirmed"][0]:
            observer = unflatten(NOTHING, iter(rows["observed"].tolist()))
        torque_observer = (
            None if initial_observer is None else unflatten(initial_observer, iter(rows["turned"].tolist()))
        )
        controls, prediction = rows["plan"][: self._parts.solver.horizon].copy(), self.prediction[:, :, drone].copy()
        previous, command = (tuple(rows[name].tolist()) for name in ("previous", "command"))
        return Memory(controls, previous, command, time, observer, prediction, torque_observer)
