"""The iLQR document's model-predictive controller: iLQR on SE(3), within the motors' limits, to a point or along a trajectory.

    ilqr = ILQR(vehicle, horizon=20, dt=0.05)
    result = ilqr.solve(state, (1.0, 0.0, 1.5))        # result.controls (N, 4), result.states (N + 1, 13), result.cost
    command, memory = ilqr(state, (1.0, 0.0, 1.5), vehicle, ilqr.initial_memory)

Names of options are the document's. See docs/ilqr.md for the problem it solves and the shape of every array.
"""

import math
import warnings
from collections.abc import Sequence
from functools import cached_property
from numbers import Real
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from samara.compiler.compiled_step import CompiledStep, Machine
from samara.compiler.trace.flatten_code import packer
from samara.control.allocation import allocation_for
from samara.control.controller_type import suggestion
from samara.control.disturbance_torque import Turned, observer_for
from samara.control.geometric import gains_for
from samara.control.mpc.batch_flight import Code, OnArrays, Parts, arrays_code
from samara.control.mpc.buffers import LANES, aligned
from samara.control.mpc.cost import TRACKING, Cost, Parameters, Sphere, Weights, kind_of, vehicle_problem
from samara.control.mpc.disturbance import NOTHING, Observed, body_of, given_command, led_body, observer_code, share_of
from samara.control.mpc.horizon_reference import Goals, PointGoals
from samara.control.mpc.prediction_model import Model, model_of
from samara.control.mpc.problem import Limits, Problem
from samara.control.mpc.reference_shaping import Shaping
from samara.control.mpc.solver import LINE_SEARCH, Solver
from samara.control.mpc.warm_start import shift_inputs, shift_of
from samara.core.algebra import ZERO, Vec3
from samara.core.array_layout import quaternion_order
from samara.core.coerce import is_number
from samara.core.tree import flatten, leaf_names, unflatten
from samara.core.types import Array
from samara.physics.multirotor import at_rest, empty_command
from samara.physics.types import BODY, Command, State, Vehicle
from samara.vehicles.trim import hover

_LED = 2.0  # how much faster a tilt is undone where the motors' lag is made up for
_LAGGING = 0.8  # how much slower where it is not: the plan does not know of it
MOST = 10_000  # steps or iterations: what is more does not fit into memory or a day


class Times(NamedTuple):
    """Where the time of a solution went  [s]"""

    goals: float
    start: float
    derivatives: float
    backward: float
    rollouts: float
    total: float


class Memory(NamedTuple):
    """What a controller keeps from call to call: the last solution's inputs (N, m), the input given, the command made of it,
    the time [s], and what was seen of a push from outside; the positions it planned (N + 1, 3) are for those who look. Of a
    vehicle that the air turns, what was seen of that."""

    controls: Array
    before: tuple[float, ...]
    command: tuple[float, ...]
    time: float
    observed: Observed | None
    prediction: Array
    turned: Turned | None = None


class Result(NamedTuple):
    """A solution: N inputs, N + 1 states (p, v, q in the order of `layout`, ω), and how it came about.

    `gradient_norm` is √Σ|Q_u|² over the inputs that are free to follow it; `gains` (N, m, 12) is the feedback K of
    u = u_k + K (x ⊖ x_k); `goals` (N + 1, 12) are p, v, b₃, b₁ of the reference.
    """

    controls: Array
    states: Array
    cost: float
    iterations: int
    converged: bool
    cost_history: tuple[float, ...]
    step_sizes: tuple[float, ...]
    gradient_norm: float
    gains: Array
    goals: Array
    times: Times
    layout: str

    def __repr__(self) -> str:
        end = "converged" if self.converged else "not converged"
        return f"Result(cost={self.cost:.6g}, iterations={self.iterations}, {end}, controls {self.controls.shape})"

    def state(self, k: int) -> State:
        """State k of the horizon as a named tuple"""
        return State.from_numpy(self.states[k], self.layout)


class BatchResult(NamedTuple):
    """B solutions: inputs (N, m, B), states (N + 1, 13, B), costs and whether they converged (B,), iterations made; and the
    order of the quaternion in the states."""

    controls: Any
    states: Any
    cost: Any
    converged: Any
    iterations: int
    layout: str = "wxyz"


class ILQR:
    """iLQR for one vehicle. Compiling takes two seconds, once for each vehicle and kind of problem.

    Options are `horizon` steps of `dt` [s]; weights and reference shaping by the iLQR document's names (see `Weights`
    and `Shaping`); `inputs` "wrench" (T, τ) or "rotors" (a thrust for each); `limits` of the inputs, the motors' by default;
    `obstacles` as (centre, radius), the vehicle's own size included; `max_tilt` [rad]; `integrator` "rk4" or "euler". As a
    controller it is called every `period` seconds and makes `control_iterations` iterations each time; `healthy` says which
    rotors still work, and `disturbance_time_constant` [s] how long a push from outside is watched before it is believed, 0 for never.
    `cost` is the iLQR document's by default; see `Cost` for another one.
    """

    def __init__(
        self,
        vehicle: Vehicle,
        *,
        horizon: int = 20,
        dt: float = 0.05,
        max_iterations: int = 12,
        tolerance: float = 1e-4,
        line_search: Sequence[float] = LINE_SEARCH,
        integrator: str = "rk4",
        inputs: str = "wrench",
        limits: Limits | None = None,
        obstacles: Sequence[tuple[Any, float]] = (),
        max_tilt: float | None = None,
        period: float = 0.01,
        control_iterations: int = 1,
        healthy: Sequence[bool] | None = None,
        disturbance_time_constant: float = 0.3,
        cost: Cost = TRACKING,
        **tuning: float,
    ) -> None:
        if not isinstance(vehicle, Vehicle):
            raise ValueError(f"the vehicle is {vehicle!r:.60}; expected a Vehicle, as samara.vehicle makes")
        counts = {"horizon": horizon, "max_iterations": max_iterations, "control_iterations": control_iterations}
        for name, count in counts.items():
            _whole(name, count)
        for name, value in (("dt", dt), ("period", period)):
            if not is_number(value) or not value > 0.0:
                raise ValueError(f"{name} = {value!r:.60}: expected a positive number of seconds")
        for name, value in (("tolerance", tolerance), ("disturbance_time_constant", disturbance_time_constant)):
            if not is_number(value) or not value >= 0.0:
                raise ValueError(f"{name} = {value!r:.60}: expected a number that is not negative")
        if max_tilt is not None and not is_number(max_tilt):
            raise ValueError(f"max_tilt = {max_tilt!r:.60}: expected a finite number of radians")
        if not isinstance(cost, Cost):
            raise ValueError(f"cost = {cost!r:.60}: expected a samara.control.mpc.Cost of two functions")
        self.line_search = tuple(float(alpha) for alpha in line_search)
        if not 1 <= len(self.line_search) <= LANES or not all(0.0 < alpha <= 1.0 for alpha in self.line_search):
            raise ValueError(f"line_search = {line_search}: expected one to {LANES} step sizes in (0, 1]")
        self.vehicle, self.period, self.iterations = vehicle, float(period), max_iterations
        self.tolerance, self.control_iterations, self.horizon = tolerance, control_iterations, horizon
        self.model: Model = model_of(
            vehicle, dt=float(dt), integrator=integrator, inputs=inputs, limits=limits, healthy=healthy
        )
        self.allocation = allocation_for(vehicle, healthy)
        self.observer_gain = (
            share_of(self.period, disturbance_time_constant) if disturbance_time_constant > 0.0 else 0.0
        )
        weights, self.shaping = _tuned(tuning, vehicle, bool(obstacles), max_tilt is not None)
        self.parameters = Parameters(
            weights,
            self.model.hover_input,
            *self.model.limits,
            tuple(_sphere(i, *each) for i, each in enumerate(obstacles)),
            math.cos(max_tilt) if max_tilt is not None else -1.0,
        )
        self.problem: Problem = vehicle_problem(self.model, kind_of(self.parameters), cost)
        self._solver = Solver(self.problem, horizon, self.parameters, self.line_search)
        self._push = self._solver.parameters[-len(ZERO) :]
        self._goals = Goals(self.model, self.shaping, self._solver.goals, self._push)
        self._hover = np.tile(np.array(self.model.hover_input), (horizon, 1))
        self._tiles: dict[str, Any] = {}

    def __repr__(self) -> str:
        kind = "wrench" if self.model.takes_wrench else "rotors"
        return f"ILQR({self.vehicle.name!r}, horizon={self.horizon}, dt={self.model.dt:g}, inputs={kind!r})"

    @property
    def weights(self) -> Weights:
        """The weights in use"""
        return self.parameters.weights

    # Solving ---------------------------------------------------------------------------------------------------------

    def solve(
        self,
        state: State | Sequence[float],
        target: Any,
        *,
        layout: str | None = None,
        time: float = 0.0,
        yaw: float = 0.0,
        warm_start: "Result | Array | None" = None,
        shift: float = 0.0,
        before: Sequence[float] | None = None,
        iterations: int | None = None,
        push_W: Sequence[float] = ZERO,
        turned: Turned | None = None,
    ) -> Result:
        """The best inputs from a state to a target: a point (x, y, z), a `Trajectory` from `time` on, or a `Reference`

        `state` is a `State`, or its 13 numbers p, v, q, ω with the `layout` of q: "xyzw" is the document's order, "wxyz" that
        of `Quat`; `result.states` are in it too ("wxyz" by default). A `Reference` of arrays has what is asked at the N + 1
        instants `look_ahead` from now. A warm start is an earlier result, or inputs (N, m), `shift` seconds old. `before` is
        the input just given, hover by default. `iterations=1` is a real-time iteration. `push_W` is a steady acceleration from
        outside [m/s²], as a wind gives. With `turned`, what is seen to turn the body, the motors' lag is made up for. A state
        or target that is not finite, or has no finite cost, is answered with hover and a warning.
        """
        began = perf_counter()
        for name, value in (("time", time), ("yaw", yaw), ("shift", shift)):
            if not isinstance(value, (Real, np.ndarray)):
                raise ValueError(f"{name} is {value!r:.60}; expected a number")
        if iterations is not None:
            _whole("iterations", iterations)
        if isinstance(push_W, str) or not hasattr(push_W, "__len__") or len(push_W) != 3:
            raise ValueError(f"push_W is {push_W!r:.60}; expected three numbers")
        layout = _layout_of(state, layout)
        x = _numbers(state, layout)
        if x is None or not math.isfinite(sum(push_W)):
            return self._safe("the state is not finite", began, layout)
        if isinstance(state, State) and turned is not None:
            x = self._led(x, state, turned)
        self._push[:] = push_W
        why = self._goals.write(target, x, time, yaw)
        if why is not None:
            return self._safe(why, began, layout)
        ready = perf_counter()
        controls = None if warm_start is None else self._shifted(warm_start, shift)
        turns = self.iterations if iterations is None else iterations
        found = self._solver.solve(x, before, controls, turns, self.tolerance)
        if found is None:
            return self._safe("the predicted cost is not finite", began, layout)
        own, how = self._solver, found[:-1]
        times = Times(ready - began, *found.seconds, perf_counter() - began)
        states = _in_order(own.states, layout)
        return Result(own.controls.copy(), states, *how, own.gains.copy(), own.goals.copy(), times, layout)

    def _safe(self, why: str, began: float, layout: str) -> Result:
        """Hover, and a word about why."""
        warnings.warn(f"iLQR: {why}; hovering instead", RuntimeWarning, stacklevel=3)
        own, total = self._solver, perf_counter() - began
        level = np.tile(np.array(flatten(self.model.template)), (self.horizon + 1, 1))
        nothing = (np.zeros_like(own.gains), np.zeros_like(own.goals), Times(total, 0.0, 0.0, 0.0, 0.0, total))
        return Result(
            self._hover.copy(), _in_order(level, layout), math.inf, 0, False, (), (), math.inf, *nothing, layout
        )

    def _shifted(self, warm_start: "Result | Array", shift: float) -> Array:
        """The inputs some seconds later, straight between steps; the last one is held"""
        controls = np.asarray(warm_start.controls if isinstance(warm_start, Result) else warm_start, dtype=float)
        if controls.shape != self._hover.shape:
            raise ValueError(f"warm_start has shape {controls.shape}; expected {self._hover.shape}")
        shifted: Array = shift_inputs(controls, *shift_of(shift, self.model.dt, self.horizon))
        return shifted

    def solve_batch(
        self,
        states: Any,
        targets: Any,
        *,
        layout: str | None = None,
        yaw: Any = 0.0,
        warm_start: Any = None,
        before: Any = None,
        iterations: int | None = None,
        backend: str = "llvm",
        dtype: str = "float32",
    ) -> "BatchResult":
        """B problems at once: states (13, B) in a `layout` or a `State` of arrays, targets (3, B) or one point for all

        On this CPU with a problem in each lane of its vector registers ("llvm"), or wherever JAX is ("jax", which compiles
        anew for another number of problems or iterations). All make as many iterations; the warm start is an earlier result or
        inputs (N, m, B). A problem without a finite cost is answered with hover, and a warning says how many there are.
        """
        if backend not in ("llvm", "jax") or dtype not in ("float32", "float64"):
            raise ValueError(f"backend = {backend!r}, dtype = {dtype!r}: expected llvm or jax, float32 or float64")
        layout = _layout_of(states, layout)
        x = _batch_of(states, layout)
        count = x.shape[1]
        places = np.broadcast_to(np.reshape(np.asarray(targets, dtype=float), (3, -1)), (3, count))
        m, turns = self.model.inputs, self.iterations if iterations is None else iterations
        earlier = np.array(self.model.hover_input) if before is None else np.asarray(before, dtype=float)
        earlier = np.broadcast_to(earlier.reshape(m, -1), (m, count))
        facing = np.broadcast_to(np.asarray(yaw, dtype=float), (count,))
        cold = warm_start is None
        inputs = self._hover[:, :, None] if cold else getattr(warm_start, "controls", warm_start)
        given = (x, places, facing, earlier, np.broadcast_to(inputs, (self.horizon, m, count)))
        solve = self._solve_in_jax if backend == "jax" else self._solve_in_lanes
        found = solve(given, turns, dtype, cold)
        if layout != found.layout:
            found = found._replace(states=_in_order(found.states, layout), layout=layout)
        lost = ~np.isfinite(np.asarray(found.cost))
        if lost.any():
            warnings.warn(
                f"iLQR: {int(lost.sum())} of {count} problems have no finite cost; hovering instead",
                RuntimeWarning,
                stacklevel=2,
            )
            controls = np.where(lost, self._hover[:, :, None], np.asarray(found.controls))
            found = found._replace(controls=controls.astype(dtype), converged=np.asarray(found.converged) & ~lost)
        return found

    def _solve_in_lanes(self, given: Any, iterations: int, dtype: str, cold: bool) -> "BatchResult":
        from samara.control.mpc.batch_cpu import Tile

        if dtype not in self._tiles:
            gains = self._solver.start_gains
            tile = Tile(self.problem, self.horizon, self.parameters, self.line_search, gains, dtype)
            self._tiles[dtype] = tile, PointGoals(self.model, self.shaping, tile.goals, aligned(3, dtype=dtype))
        tile, goals = self._tiles[dtype]
        x, targets, yaw, before, inputs = given
        asked = np.vstack([targets, x[:3], yaw])
        n, m, width, count = self.horizon, self.model.inputs, tile.width, x.shape[1]
        controls, states = np.empty((n, m, count), dtype), np.empty((n + 1, BODY, count), dtype)
        cost, converged = np.empty(count, dtype), np.empty(count, dtype=bool)
        for first in range(0, count, width):
            lanes = slice(first, min(first + width, count))
            filled = slice(0, lanes.stop - first)
            tile.load(x[:, lanes], before[:, lanes], inputs[..., lanes])
            goals.write(x[:6, lanes], asked[:, lanes], filled)
            tile.run(iterations, self.tolerance, cold)
            controls[..., lanes], states[..., lanes] = tile.controls[..., filled], tile.states[..., filled]
            cost[lanes], converged[lanes] = tile.cost[filled], tile.converged[filled]
        return BatchResult(controls, states, cost, converged, iterations)

    def _solve_in_jax(self, given: Any, iterations: int, dtype: str, cold: bool) -> "BatchResult":
        from samara.control.mpc.batch_jax import Batch, PointTargets, jax_solver, point_goals

        x, targets, yaw, before, inputs = given
        solve = jax_solver(
            self.problem, self.horizon, iterations, self.line_search, dtype, point_goals(self.model, self.horizon)
        )
        gains = self._solver.start_gains if cold else np.zeros_like(self._solver.start_gains)
        batch = Batch(x, PointTargets(targets, yaw, self.shaping), before, inputs, gains)
        return BatchResult(*solve(batch, flatten(self.parameters), self.tolerance), iterations)

    # Controlling -----------------------------------------------------------------------------------------------------

    @cached_property
    def look_ahead(self) -> Array:
        """The instants of the horizon, from now  [s]"""
        return self._goals.look_ahead.copy()

    @cached_property
    def initial_memory(self) -> Memory:
        """Hover, at time 0, with no push seen"""
        nowhere = np.full((self.horizon + 1, 3), np.nan)
        unseen = observer_for(self.vehicle)
        return Memory(self._hover, self.model.hover_input, hover(self.vehicle)[1], 0.0, None, nowhere, unseen)

    def __call__(self, state: State, target: Any, vehicle: Vehicle, memory: Any = ()) -> tuple[Command, Memory]:
        """`controller(state, target, vehicle, memory) → command, memory`: real-time iterations, warm-started by shifting

        The target is a point, a `Reference` or a `Trajectory`, which is followed at the memory's time. The command is the
        vehicle's own; where there is no solution it is that of hover, with a warning.
        """
        kept: Memory = memory if memory != () else self.initial_memory
        watched = self._watch(state, kept)
        push_W = watched.push_W if watched is not None else ZERO
        result, command, turned = self._continued(
            state, target, kept.controls, kept.before, push_W, kept.turned, kept.time
        )
        now, time = tuple(result.controls[0].tolist()), kept.time + self.period
        return command, Memory(result.controls, now, command, time, watched, result.states[:, :3], turned)

    def _continued(
        self,
        state: State,
        target: Any,
        controls: Array,
        before: Any,
        push_W: Vec3,
        turned: Turned | None = None,
        time: float = 0.0,
    ) -> tuple[Result, Command, Turned | None]:
        """The solution a period after the one that had these inputs, the command of its first, and what turns the body"""
        result = self.solve(
            state,
            target,
            time=time,
            warm_start=controls,
            shift=self.period,
            before=before,
            iterations=self.control_iterations,
            push_W=push_W,
            turned=turned,
        )
        return result, *self._given(result.controls[0].tolist(), state, turned)

    def matches(self, vehicle: Vehicle) -> bool:
        """Whether batches of `vehicle` can be flown: its state has the fields of this one's, and no method is overridden"""
        expected, actual = (leaf_names((at_rest(v), empty_command(v))) for v in (self.vehicle, vehicle))
        return type(self) is ILQR and expected == actual

    def on_arrays(self, vehicle: Vehicle, n: int) -> OnArrays | None:
        """The same for n drones at once, each with a memory of its own, on arrays

        None for a subclass, which may do it otherwise, and for a vehicle whose state has other numbers than that of this one.
        """
        if not self.matches(vehicle):
            return None
        parts = Parts(
            self.vehicle,
            self._solver,
            self._goals,
            self._arrays_code,
            self.observer_gain,
            self.period,
            None if self.model.takes_wrench else self.model.thrust_and_torque,
            shift_of(self.period, self.model.dt, self.horizon),
            self.control_iterations,
            self.tolerance,
            self._continued,
        )
        return OnArrays(parts, n)

    def _watch(self, state: State, kept: Memory) -> Observed | None:
        """What the last period says of a push from outside; nothing at the first call, or where the state is not a number"""
        if not self.observer_gain:
            return None
        machine, pack = self._observer
        numbers = pack((state, kept.command))
        if not math.isfinite(sum(numbers)):
            return None
        seen = kept.observed
        machine.carry[:, 0] = flatten(seen or NOTHING)
        machine.held[:, 0] = (*numbers, self.observer_gain, self.period)
        machine.run(1)
        d_x, d_y, d_z, *rest = machine.carry[:, 0].tolist()
        push_W = Vec3(d_x, d_y, d_z) if seen else ZERO
        return Observed(push_W, Vec3(*rest[:3]), Vec3(*rest[3:]))

    def command(self, controls: Sequence[float], state: State) -> Command:
        """The vehicle's own command for an input: the rotors' speeds that give its thrust and torque, within their limits"""
        return self._given(controls, state, observer_for(self.vehicle))[0]

    def _given(self, controls: Sequence[float], state: State, turned: Turned | None) -> tuple[Command, Turned | None]:
        """The command, and what is seen of a turn"""
        machine, pack = self._allocator
        numbers, unseen = pack(state), observer_for(self.vehicle)
        if not math.isfinite(sum(numbers)):  # what is left of it to lean on: the state the vehicle hovers in
            numbers, turned = pack(hover(self.vehicle)[0]), unseen
        size = self.vehicle.command_size
        if unseen is not None:
            machine.carry[size:, 0] = flatten(turned or unseen)
        machine.held[:, 0] = (*self.model.thrust_and_torque(tuple(controls)), *numbers)
        machine.run(1)
        given = machine.carry[:, 0].tolist()
        return tuple(given[:size]), None if unseen is None else unflatten(unseen, iter(given[size:]))

    def _led(self, x: list[float], state: State, turned: Turned) -> list[float]:
        """The numbers of a body as it would be without its motors' lag"""
        machine, pack = self._leader
        machine.carry[:, 0] = x
        machine.held[:, 0] = (*pack(state), *flatten(turned))
        machine.run(1)
        led: list[float] = machine.carry[:, 0].tolist()
        return led

    @cached_property
    def _arrays_code(self) -> Code:
        return arrays_code(self.vehicle, self.allocation, self.observer_gain > 0.0, self.period)

    @cached_property
    def _allocator(self) -> tuple[Machine, Any]:
        """(T, τ, state) → command, and what turns the body, compiled; and what makes a list of a state"""
        vehicle, allocation, period = self.vehicle, self.allocation, self.period
        state, command = hover(vehicle)
        unseen = () if (own := observer_for(vehicle)) is None else own

        def allocate(own: Any, held: Any) -> Any:
            return given_command(held[0], held[1], own[1], vehicle, allocation, period)

        return CompiledStep(allocate, (command, unseen), ((0.0,) * 4, state)).machine(), packer(state)

    @cached_property
    def _leader(self) -> tuple[Machine, Any]:
        """The machine that makes up for the motors' lag; and what makes a list of a state"""
        state, vehicle = hover(self.vehicle)[0], self.vehicle
        code = CompiledStep(
            lambda own, held: led_body(own, held[0], held[1], vehicle), body_of(state), (state, observer_for(vehicle))
        )
        return code.machine(), packer(state)

    @cached_property
    def _observer(self) -> tuple[Machine, Any]:
        """The machine that watches for a push; and what makes a list of a state and a command"""
        return observer_code(self.vehicle).machine(), packer(hover(self.vehicle))


def _layout_of(given: Any, layout: str | None) -> str:
    """The order of the quaternion, given and answered: a `State` names its components, an array has to be told"""
    named = "wxyz" if layout is None and isinstance(given, State) else layout
    quaternion_order(named)
    assert named is not None
    return named


def _in_order(states: Any, layout: str) -> Array:
    """A copy of states (N + 1, 13, …) with w, x, y, z, their quaternions in the layout's order"""
    if layout == "wxyz":
        return np.array(states)
    return np.asarray(states)[:, [*range(6), *(6 + i for i in quaternion_order(layout)), *range(10, BODY)]]


def _numbers(state: State | Sequence[float], layout: str) -> list[float] | None:
    """(p, v, q as w, x, y, z, ω) with q of unit length, or None if anything is not finite"""
    if isinstance(state, State):
        x = [float(each) for each in (*state.p_W, *state.v_W, *state.q_WB, *state.omega_B)]
    else:
        x = [float(each) for each in state]
    if len(x) != BODY:
        raise ValueError(f"state has {len(x)} numbers; expected a State, or the {BODY} of p, v, q and ω")
    if not isinstance(state, State):
        x[6:10] = [x[6 + layout.index(letter)] for letter in "wxyz"]
    size = math.hypot(*x[6:10])
    if not (math.isfinite(sum(x)) and size > 0.0):
        return None
    x[6:10] = [each / size for each in x[6:10]]
    return x


def _batch_of(states: Any, layout: str) -> Array:
    """(13, B), quaternions as w, x, y, z, of unit length"""
    if isinstance(states, State):
        numbers = (*states.p_W, *states.v_W, *states.q_WB, *states.omega_B)
        x = np.stack(np.broadcast_arrays(*(np.atleast_1d(np.asarray(each, dtype=float)) for each in numbers)))
    else:
        x = np.array(states, dtype=float)
    if x.ndim != 2 or x.shape[0] != BODY:
        raise ValueError(f"states have shape {x.shape}; expected a State of arrays, or ({BODY}, B)")
    if not isinstance(states, State):
        x[6:10] = x[[6 + layout.index(letter) for letter in "wxyz"]]
    with np.errstate(invalid="ignore", divide="ignore"):  # what is no attitude has no cost either
        x[6:10] /= np.sqrt((x[6:10] ** 2).sum(axis=0))
    return x


def default_torque_weight(vehicle: Vehicle) -> float:
    """tilt_weight / (J ω²)²: a tilt is undone at the rate ω that the motors can follow, 0.8 of the geometric controller's

    min ∫ tilt_weight θ² + w τ² with J θ̈ = τ has the closed loop s⁴ = −tilt_weight / (w J²). The document's 5e-4 is
    1e9 times less for its Crazyflie: torque costs nothing, and without a lead such a plan tumbles one with 72 ms of lag.
    Where the lag is made up for, as for a vehicle with slow motors or one that the air turns, ω is twice that controller's
    without lead.
    """
    rate = gains_for(vehicle, lead=0.0).attitude.x * (_LAGGING if observer_for(vehicle) is None else _LED)
    return Weights().tilt_weight / (vehicle.inertia_B.xx * rate**2) ** 2


def _tuned(tuning: dict[str, float], vehicle: Vehicle, obstacles: bool, tilt: bool) -> tuple[Weights, Shaping]:
    """The iLQR document's numbers, but for those given, and for the torque's: see `default_torque_weight`"""
    usual = {
        "torque_weight": default_torque_weight(vehicle),
        "obstacle_weight": 1e5 if obstacles else 0.0,
        "tilt_limit_weight": 1e5 if tilt else 0.0,
    }
    names = (*Weights._fields, *Shaping._fields)
    for name, value in tuning.items():
        if name not in names:
            raise TypeError(f"ILQR has no option {name!r}; {suggestion(name, names)}")
        if not 0.0 <= value < math.inf:
            raise ValueError(f"{name} = {value}: expected a finite number that is not negative")
    given = {**usual, **{name: float(value) for name, value in tuning.items()}}
    weights = Weights(**{name: value for name, value in given.items() if name in Weights._fields})
    shaping = Shaping(**{name: value for name, value in given.items() if name in Shaping._fields})
    for name in ("max_reference_velocity", "max_reference_acceleration"):
        if getattr(shaping, name) == 0.0:
            raise ValueError(f"{name} = 0: expected a positive number")
    if shaping.reference_follow > 1.0:
        raise ValueError(f"reference_follow = {shaping.reference_follow}: expected a number from 0 to 1")
    return weights, shaping


def _sphere(i: int, centre: Any, radius: float) -> Sphere:
    place = Vec3(*(float(x) for x in centre))
    if not math.isfinite(sum(place)) or not 0.0 < radius < math.inf:
        raise ValueError(f"obstacles[{i}] = {(tuple(place), radius)}: expected a finite centre and a positive radius")
    return Sphere(place, float(radius))


def _whole(name: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MOST:
        too_many = isinstance(value, int) and value > MOST
        raise ValueError(
            f"{name} = {value!r:.60}: expected a whole number, {f'at most {MOST}' if too_many else 'at least 1'}"
        )
