"""`samara.compile`: a vehicle, an integrator and optionally a controller as one fast function on a chosen backend."""

import math
import operator
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from samara.compiler.scan import CompiledScan
from samara.compiler.stepper import BACKENDS, REFERENCE, Scan, Stepper, compile_scan, require_backend
from samara.core.algebra import ZERO, Quat
from samara.core.integrate import FIXED_STEP_INTEGRATORS, find_integrator
from samara.core.tree import flatten, leaf_names, packer, unflatten, unpacker
from samara.physics.effect import Wrench
from samara.physics.inputs import (
    STABLE_TIME_CONSTANTS,
    check_components,
    check_state,
    check_time_step,
    check_unit_quaternion,
    fastest_time_constant,
    plausible_command_range,
    require_vehicle,
    state_error,
    warn_of_command,
)
from samara.physics.multirotor import require_command_size, state_at_rest, state_names, zero_command
from samara.physics.types import CALM, Command, Environment, State, Vehicle
from samara.vehicles.parameters import parameter

DTYPES = ("float64", "float32")


class _EnvironmentShape(NamedTuple):
    """The array lengths of an environment on which the code depends: hub winds, external wrenches, motor effectiveness."""

    hub_wind_W: int = 0
    external_wrenches: int = 0
    motor_effectiveness: int = 0


class SimulatedStates(NamedTuple):
    """Recorded states, component-first with time as the last axis but one, (records, N); and the final state."""

    time: Any
    states: State
    commands: Any
    final: State
    controller_state: Any


class TangentRollout(NamedTuple):
    """A rollout and its derivatives: leaves of `d_states` are (P, records, N), of `d_final` (P, N), for P directions."""

    time: Any
    states: State
    d_states: State
    final: State
    d_final: State


class Pullback(NamedTuple):
    """The final state of a rollout, and the cotangents of its inputs: of the initial state, of the commands, (K, rotors) or
    (K, rotors, N), of the varied parameters by name, and of the environment, if one was given.

    Leaves are numbers, or (N,).
    """

    final: State
    state: State
    commands: Any
    vehicle: dict[str, Any]
    environment: Environment | None


def compile(
    vehicle: Vehicle,
    backend: str = "auto",
    dtype: str = "float64",
    integrator: str = "rk4",
    effects: Sequence[str] | None = None,
    controller: Callable[..., Any] | None = None,
    fast: bool = False,
    vary: Sequence[str] = (),
    controller_state: Any = (),
) -> "Simulator":
    """Compile the equations of a vehicle into a function that computes x(t + dt) for one drone or N at once.

    Args:
        vehicle: the model; parameters not named in `vary` are folded into the code as constants.
        backend: "python", "numpy", "llvm", "jax", "pallas", or "auto" for LLVM.
        dtype: "float64" or "float32".
        integrator: a fixed-step method of `samara.core.integrate`, such as "rk4".
        effects: names of the effects to include; None includes all.
        controller: `controller(state, reference, vehicle, controller_state) → command, controller_state`, compiled into
        the loop of `rollout`. fast: allow fused multiply-adds on the CPU. Without it results are bitwise equal for one
        drone, any batch size and any
            position in the batch.
        vary: parameters that become inputs ("mass", "rotors.k_thrust", "drag.linear"), read from the `vehicle` of each call.
        controller_state: initial controller state; by default the controller's `initial_state`.

    Returns:
        The simulator. Code is compiled on first use of each method.

    Raises:
        ValueError: an unknown integrator, backend, dtype, effect or parameter.
    """
    require_vehicle(vehicle)
    find_integrator(integrator, FIXED_STEP_INTEGRATORS)
    require_backend(backend, ("auto", *BACKENDS))
    if dtype not in DTYPES:
        raise ValueError(f"dtype {dtype!r}: expected one of {', '.join(DTYPES)}")
    if effects is not None:
        for name in effects:
            if not vehicle.has(name):
                effect_names = ", ".join(effect.name for effect in vehicle.structure.effects)
                raise ValueError(f"effects names {name!r}; vehicle {vehicle.name!r} has {effect_names}")
        vehicle = vehicle.without_effect(*(e.name for e in vehicle.structure.effects if e.name not in effects))
    for path in vary:
        parameter(vehicle, path)
    backend = "llvm" if backend == "auto" else backend
    controller_state = controller_state or getattr(controller, "initial_state", ())
    return Simulator(vehicle, backend, dtype, integrator, controller, fast, tuple(vary), controller_state)


@dataclass(frozen=True)
class Simulator:
    """A compiled vehicle. Batches are component-first: a `State` of arrays of length N, or a flat (components, N) array."""

    vehicle: Vehicle
    backend: str
    dtype: str
    integrator: str
    controller: Callable[..., Any] | None
    fast: bool
    vary: tuple[str, ...]
    initial_controller_state: Any

    def __repr__(self) -> str:
        names = "+".join(effect.name for effect in self.vehicle.structure.effects)
        loop = " closed loop" if self.controller else ""
        return f"<samara {self.vehicle.name} {self.integrator} {self.dtype} on {self.backend}{loop}: {names}>"

    def __getstate__(self) -> dict[str, Any]:
        """Return the constructor arguments: machine code stays in its process and is recompiled on demand elsewhere."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    # One or more steps under a constant command ---------------------------------------------------------------------

    def step(
        self,
        state: State,
        command: Command,
        dt: float,
        steps: int = 1,
        environment: Environment | None = None,
        vehicle: Vehicle | None = None,
    ) -> State:
        """x(t + steps·dt) of one drone or N, with command and environment held constant.

        Args:
            state: state at time t; its leaves are numbers, or (N,) for a batch.
            command: one number per rotor and servo.
            dt: length of a step [s].
            steps: step count.
            environment: wind, air and external wrenches; calm air by default.
            vehicle: source of the parameters named in `vary`; by default the compiled vehicle.

        Raises:
            ValueError: an input is not finite.
            FloatingPointError: the resulting state is not finite.
        """
        steps = _require_count("steps", steps, 0)
        try:
            leaves = self._pack(state)
        except (TypeError, ValueError) as error:
            raise state_error(state, self.vehicle) from error
        held_inputs = self._held_inputs(command, dt, environment, vehicle)
        if {*map(type, leaves), *map(type, held_inputs)} <= _PYTHON_NUMBERS:
            return self._unpack(self._step_single_drone(leaves, held_inputs, steps, environment))
        n = _batch_size(leaves, held_inputs)
        if n is None:
            return self._unpack(
                self._step_single_drone([float(x) for x in leaves], [float(x) for x in held_inputs], steps, environment)
            )
        rows = self._rows(leaves, n)
        self._check_held_inputs(held_inputs, n, environment)
        final_rows, _ = self._step_scan(_environment_shape(environment))(rows, held_inputs, None, steps)
        self._check_final(final_rows, leaves)
        return self._unpack(final_rows)

    def _step_single_drone(
        self, leaves: list[Any], held_inputs: list[Any], steps: int, environment: Environment | None
    ) -> Sequence[float]:
        lowest, highest, max_dt, count = self._plausible_inputs
        total = sum(held_inputs)
        command_sum = total if len(held_inputs) == count + 1 else sum(held_inputs[:count])
        if not (lowest <= command_sum <= highest and math.isfinite(total)) or not 0.0 <= held_inputs[count] <= max_dt:
            self._check_held_numbers(held_inputs, environment)
        numbers: Sequence[float]
        if self.backend == "llvm":
            single_drone = self._single_drone_code(_environment_shape(environment))
            buffer = bytearray(single_drone.pack_state(*leaves))
            single_drone.advance(
                single_drone.view.from_buffer(buffer), single_drone.pack_held_inputs(*held_inputs), steps
            )
            numbers = single_drone.unpack_state(buffer)
        else:
            column = np.array(leaves, dtype=self.dtype).reshape(-1, 1)
            final_rows, _ = self._step_scan(_environment_shape(environment))(column, held_inputs, None, steps)
            numbers = np.asarray(final_rows).ravel().tolist()
        if not math.isfinite(sum(numbers)):
            check_unit_quaternion(Quat(*leaves[_ROTATION]))
            self._raise_not_finite(numbers, "state", self._component_names)
        return numbers

    @cached_property
    def _plausible_inputs(self) -> tuple[float, float, float, int]:
        """Bounds of the sum of a command, and of the sum with dt; the longest stable step [s]; the size of a command.

        One comparison finds commands that are far off, except some with opposite signs.
        """
        low, high = plausible_command_range(self.vehicle)
        rotors, margin = len(self.vehicle.rotors), len(self.vehicle.servos) + 1.0
        max_dt = STABLE_TIME_CONSTANTS * fastest_time_constant(self.vehicle)
        return rotors * low - margin, rotors * high + margin, max_dt, len(self._command)

    def _check_held_numbers(self, held_inputs: list[Any], environment: Environment | None) -> None:
        if not math.isfinite(sum(held_inputs)):
            self._raise_not_finite(held_inputs, "held input", self._held_input_names(environment))
        count = len(self._command)
        warn_of_command(tuple(held_inputs[:count]), self.vehicle)
        check_time_step(held_inputs[count], self.vehicle)

    def step_into(
        self,
        buffer: Any,
        command: Command,
        dt: float,
        steps: int = 1,
        environment: Environment | None = None,
        vehicle: Vehicle | None = None,
    ) -> None:
        """Advance a flat array of shape (components,) or (components, N) in place, without packing.

        The array is checked, because compiled code receives its bare address; the resulting values are not.
        """
        steps = _require_count("steps", steps, 0)
        if (
            not isinstance(buffer, np.ndarray)
            or buffer.dtype != self._dtype
            or not 1 <= buffer.ndim <= 2
            or not buffer.flags.carray  # row-major, aligned and writable: each can change between two calls
        ):
            raise self._buffer_error(buffer)
        if buffer.ndim == 1 and self.backend == "llvm":
            single_drone = self._single_drone_code(_environment_shape(environment))
            last_buffer, view = self._code_cache.get("last buffer", _NO_BUFFER)
            if last_buffer is not buffer:  # creating a view takes as long as the step: reuse the last one
                if len(buffer) != single_drone.components:
                    raise self._buffer_error(buffer)
                view = single_drone.view.from_buffer(buffer)
                self._code_cache["last buffer"] = (buffer, view)
            try:
                held_inputs = single_drone.pack_held_inputs(
                    *command, dt, *self._held_inputs_after_dt(environment, vehicle)
                )
            except struct.error:
                held_inputs = single_drone.pack_held_inputs(*self._held_inputs(command, dt, environment, vehicle))
            single_drone.advance(view, held_inputs, steps)
            return
        rows = buffer if buffer.ndim == 2 else buffer.reshape(-1, 1)
        if len(rows) != len(self._component_names):
            raise self._buffer_error(buffer)
        run = self._step_scan(_environment_shape(environment))
        final_rows, _ = run(rows, self._held_inputs(command, dt, environment, vehicle), None, steps)
        if final_rows is not rows:
            rows[:] = np.asarray(final_rows)

    # Several steps with an input for each ---------------------------------------------------------------------------

    def rollout(
        self,
        state: State,
        commands: Any = None,
        dt: float = 1e-3,
        environment: Environment | None = None,
        vehicle: Vehicle | None = None,
        reference: Any = None,
        controller_state: Any = None,
        record_every: int = 10,
    ) -> SimulatedStates:
        """Simulate one step per row of `commands`, or of `reference` if a controller is compiled in.

        Args:
            state: initial state; its leaves are numbers, or (N,) for a batch.
            commands: (K, rotors) or (K, rotors, N); without a controller.
            dt: length of a step [s].
            environment: constant environment; calm air by default.
            vehicle: source of the parameters named in `vary`; by default the compiled vehicle.
            reference: (K, 18) or (K, 18, N), in the order of `Reference`'s components; with a controller.
            controller_state: initial controller state; by default the one given to `compile`.
            record_every: every `record_every`-th state is recorded.
        """
        values = reference if self.controller else commands
        label = "reference" if self.controller else "commands"
        inputs = self._require_inputs(values, label)
        record_every = _require_count("record_every", record_every, 1)
        carry_tree = (
            (state, self.initial_controller_state if controller_state is None else controller_state)
            if self.controller
            else state
        )
        check_state(state, self.vehicle)
        check_components(state, self.vehicle)
        check_time_step(dt, self.vehicle)
        leaves = flatten(carry_tree)
        held_inputs = [dt, *self._held_inputs_after_dt(environment, vehicle)]
        n = self._batch_size(leaves, held_inputs, inputs, label)
        rows = self._rows(leaves, n)
        final_rows, recorded = self._rollout_scan(_environment_shape(environment))(
            rows, held_inputs, inputs, len(inputs), record_every
        )
        final_rows, recorded = np.asarray(final_rows), np.asarray(recorded)
        self._check_final(final_rows[: len(self._component_names)], leaves)
        return self._make_rollout(final_rows, recorded, dt, record_every, n)

    def _check_final(self, final_rows: Any, leaves: list[Any]) -> None:
        """Raise FloatingPointError if a state is not finite after a flight; ValueError if its quaternion was zero before."""
        try:
            self._check_finite(final_rows)
        except FloatingPointError:
            for rotation in np.stack(np.broadcast_arrays(*leaves[_ROTATION]), axis=-1).reshape(-1, 4):
                check_unit_quaternion(Quat(*rotation.tolist()))
            raise

    def _require_inputs(self, values: Any, label: str) -> Any:
        inputs = np.asarray(values, dtype=self.dtype) if values is not None else None
        expected = len(flatten(REFERENCE)) if self.controller else len(self._command)
        if inputs is None or inputs.ndim not in (2, 3) or inputs.shape[1] != expected:
            actual = "nothing" if inputs is None else f"shape {inputs.shape}"
            raise ValueError(f"{label}: expected shape (steps, {expected}) or (steps, {expected}, N); got {actual}")
        low, high = (float(inputs.min()), float(inputs.max())) if inputs.size else (0.0, 0.0)
        if not math.isfinite(high - low):
            k, i = (int(x) for x in np.argwhere(~np.isfinite(inputs))[0][:2])
            raise ValueError(f"{label}[{k}, {i}] is {inputs[k, i]}; expected finite numbers")
        lowest, highest = plausible_command_range(self.vehicle)
        if not self.controller and not lowest <= low <= high <= highest:
            k, _, *drone = np.argwhere((inputs < lowest) | (inputs > highest))[0]
            warn_of_command(tuple(inputs[(k, slice(None), *drone)].tolist()), self.vehicle)
        return inputs

    def _batch_size(self, leaves: list[Any], held_inputs: list[Any], inputs: Any, label: str) -> int | None:
        n = _batch_size(leaves, held_inputs) or (inputs.shape[2] if inputs.ndim == 3 else None)
        if inputs.ndim == 3 and inputs.shape[2] != n:
            raise ValueError(f"{label} is for {inputs.shape[2]} drones; the state has {n}")
        return n

    def _rows(self, leaves: list[Any], n: int | None) -> Any:
        rows = np.empty((len(leaves), n or 1), dtype=self.dtype)
        for row, leaf in zip(rows, leaves, strict=True):
            row[:] = leaf
        return rows

    def _make_rollout(
        self, final_rows: Any, recorded: Any, dt: float, record_every: int, n: int | None
    ) -> SimulatedStates:
        size = len(self._component_names)
        series = [recorded[:, k, 0] if n is None else recorded[:, k] for k in range(recorded.shape[1])]
        numbers = [float(x[0]) if n is None else x for x in final_rows]
        return SimulatedStates(
            time=dt * record_every * np.arange(1, len(recorded) + 1),
            states=self._unpack(series[:size]),
            commands=tuple(series[size:]),
            final=self._unpack(numbers[:size]),
            controller_state=unflatten(self.initial_controller_state, iter(numbers[size:])),
        )

    # Exact derivatives ----------------------------------------------------------------------------------------------

    def linearize(
        self, state: State, command: Command, dt: float, environment: Environment | None = None, tangent: bool = False
    ) -> tuple[Any, Any]:
        """Return A = ∂x'/∂x, B = ∂x'/∂u of one step, exact.

        With `tangent`, the attitude is a rotation vector in body axes, q = q₀ ⊗ exp(δθ): A has 12 rows and columns, and one
        for each rotor speed and each component of an effect's state.
        """
        environment = environment or CALM
        shape = _environment_shape(environment)
        key = "linearize", tangent, shape
        if key not in self._code_cache:
            from samara.compiler.derivatives.linearize import compile_linearization

            environment_template = _environment_template(shape) or CALM
            self._code_cache[key] = compile_linearization(
                self.vehicle, self.integrator, tangent, self.dtype, environment_template
            )
        return self._code_cache[key](state, tuple(command), dt, environment)

    def rollout_tangent(
        self,
        state: State,
        commands: Any,
        dt: float = 1e-3,
        environment: Environment | None = None,
        vehicle: Vehicle | None = None,
        *,
        d_state: State | None = None,
        d_commands: Any = None,
        d_vehicle: Mapping[str, Any] | None = None,
        d_environment: Environment | None = None,
        record_every: int = 10,
    ) -> TangentRollout:
        """Compute a rollout and its exact derivatives along P directions at once; on LLVM.

            dxₖ₊₁ = f_x dxₖ + f_u duₖ + f_h dh,   h: varied parameters and environment

        A tangent has the shape of its primal. Its leaves are numbers, (N,), (P, 1) or (P, N); without a batch numbers or (P,).
        `d_commands` is shaped like `commands`, or (P, K, rotors, N). `d_vehicle` maps names of `vary` to tangents, one leaf for
        all rotors or a tuple; omitted tangents are 0. The tangent of a quaternion is that of its components. The primal rollout
        is bit-identical to `rollout`, or equal to rounding with `fast`.
        """
        from samara.compiler.derivatives.forward import (
            TangentLanes,
            held_input_tangents,
            tangent_inputs,
            tangent_leaf_rows,
        )

        if self.backend != "llvm" or self.controller:
            unsupported = "a controller" if self.controller else f"backend {self.backend!r}"
            raise ValueError(f"rollout_tangent with {unsupported}: expected backend 'llvm' and commands")
        inputs, record_every = (
            self._require_inputs(commands, "commands"),
            _require_count("record_every", record_every, 1),
        )
        leaves, held_inputs = self._pack(state), [dt, *self._held_inputs_after_dt(environment, vehicle)]
        n = self._batch_size(leaves, held_inputs, inputs, "commands")
        counts = {path: len(flatten(parameter(self.vehicle, path))) for path in self.vary}
        environment_size = 0 if environment is None else len(flatten(environment))
        held_indices, held_tangents = held_input_tangents(d_environment, environment_size, d_vehicle or {}, counts, n)
        state_tangents = tangent_leaf_rows(
            (0.0,) * len(leaves) if d_state is None else d_state, "d_state", len(leaves), n
        )
        input_tangents = None if d_commands is None else tangent_inputs(d_commands, inputs, "d_commands", n)
        lanes = TangentLanes.from_tangents(
            [*state_tangents, *held_tangents, *([] if input_tangents is None else [input_tangents])], n, self.dtype
        )
        run = self._tangent_scan(
            _environment_shape(environment), held_indices, input_tangents is not None, lanes.directions_per_lane
        )
        arguments = (
            lanes.held_inputs(held_inputs, held_tangents),
            lanes.inputs(inputs, input_tangents),
            len(inputs),
            record_every,
        )
        end, records = run(lanes.carry(self._rows(leaves, n), state_tangents), *arguments)
        (final_rows, d_final_rows), (recorded, d_recorded) = lanes.split(end), lanes.split(records)
        self._check_finite(final_rows)
        for direction, rows in enumerate(d_final_rows):
            self._check_finite(rows, f"tangent {direction} of ")
        primal = self._make_rollout(final_rows, recorded, dt, record_every, n)
        drones = slice(None) if n else 0
        return TangentRollout(
            primal.time,
            primal.states,
            self._unpack([d_recorded[:, :, k, drones] for k in range(len(leaves))]),
            primal.final,
            self._unpack([d_final_rows[:, k, drones] for k in range(len(leaves))]),
        )

    def vjp(
        self,
        state: State,
        commands: Any,
        cotangent: State,
        dt: float = 1e-3,
        environment: Environment | None = None,
        vehicle: Vehicle | None = None,
        *,
        cotangents: State | None = None,
        record_every: int = 10,
    ) -> Pullback:
        """Compute the cotangents of all inputs of a rollout, exact, by reverse differentiation; on LLVM and NumPy.

            L(x_K):   x̄_K = ∂L/∂x_K,   x̄ₖ = f_xᵀ x̄ₖ₊₁,   ūₖ = f_uᵀ x̄ₖ₊₁,   h̄ = Σ f_hᵀ x̄ₖ₊₁   of   xₖ₊₁ = f(xₖ, uₖ, h)

        h are the varied parameters and the environment. `cotangent` is ∂L/∂x_K, a state whose leaves are numbers or (N,);
        `cotangents` are ∂L/∂x of the states that `rollout` records, with leaves (records,) or (records, N), if L depends on
        them too. Drones are independent: an input shared by N drones has one cotangent per drone, to be summed by the caller.
        The cotangent of a quaternion is that of its four components. The cost is a few rollouts, whatever the input count.
        """
        from samara.compiler.derivatives.reverse import cotangent_array, pull_back

        if self.backend not in ("llvm", "numpy", "python") or self.controller:
            unsupported = "a controller" if self.controller else f"backend {self.backend!r}"
            raise ValueError(f"vjp with {unsupported}: expected backend 'llvm' or 'numpy', and commands")
        inputs, record_every = (
            self._require_inputs(commands, "commands"),
            _require_count("record_every", record_every, 1),
        )
        leaves, held_inputs = self._pack(state), [dt, *self._held_inputs_after_dt(environment, vehicle)]
        n = self._batch_size(leaves, held_inputs, inputs, "commands")
        final_bar = cotangent_array(cotangent, "cotangent", len(leaves), (n or 1,), self.dtype)
        record_bars = None
        if cotangents is not None:
            records = len(inputs) // record_every
            record_bars = np.zeros((len(inputs), len(leaves), n or 1), dtype=self.dtype)
            rows = cotangent_array(cotangents, "cotangents", len(leaves), (records, n or 1), self.dtype)
            record_bars[record_every - 1 :: record_every] = rows
        forward, backward = (
            self._rollout_scan(_environment_shape(environment)),
            self._adjoint_scan(_environment_shape(environment), cotangents is not None),
        )
        cotangent_rows = pull_back(
            forward, backward, self._rows(leaves, n), held_inputs, inputs, final_bar, record_bars, len(held_inputs) - 1
        )
        self._check_finite(cotangent_rows.end)
        self._check_finite(cotangent_rows.carry, "the cotangent of ")
        held_bars = iter([float(x[0]) if n is None else x for x in cotangent_rows.held_inputs])
        environment_bar = None if environment is None else unflatten(environment, held_bars)
        return Pullback(
            self._unpack([float(x[0]) if n is None else x for x in cotangent_rows.end]),
            self._unpack([float(x[0]) if n is None else x for x in cotangent_rows.carry]),
            cotangent_rows.inputs if n else cotangent_rows.inputs[:, :, 0],
            {path: unflatten(parameter(self.vehicle, path), held_bars) for path in self.vary},
            environment_bar,
        )

    # Templates and compiled code, created once ----------------------------------------------------------------------

    @cached_property
    def _command(self) -> Command:
        return zero_command(self.vehicle)

    @cached_property
    def _dtype(self) -> Any:
        return np.dtype(self.dtype)

    @cached_property
    def _template(self) -> State:
        return state_at_rest(self.vehicle)

    @cached_property
    def _component_names(self) -> list[str]:
        return list(state_names(self.vehicle))

    @cached_property
    def _pack(self) -> Callable[[Any], list[Any]]:
        return packer(self._template)

    @cached_property
    def _unpack(self) -> Callable[[Any], State]:
        return unpacker(self._template)

    def _held_inputs(
        self, command: Command, dt: float, environment: Environment | None, vehicle: Vehicle | None
    ) -> list[Any]:
        require_command_size(command, self.vehicle)
        return [*command, dt, *self._held_inputs_after_dt(environment, vehicle)]

    def _held_inputs_after_dt(self, environment: Environment | None, vehicle: Vehicle | None) -> Sequence[Any]:
        if environment is None and not self.vary:
            return ()
        return [
            *(() if environment is None else flatten(environment)),
            *flatten(self.stepper.varied_parameters(vehicle)),
        ]

    def _held_input_names(self, environment: Environment | None) -> list[str]:
        names = [*(f"command[{i}]" for i in range(len(self._command))), "dt"]
        names += leaf_names(environment) if environment is not None else []
        return names + [name for path in self.vary for name in leaf_names(parameter(self.vehicle, path), path)]

    @cached_property
    def stepper(self) -> Stepper:
        """The step from which all functions are compiled."""
        return Stepper(self.vehicle, self.integrator, self.backend, self.vary)

    @cached_property
    def _code_cache(self) -> dict[Any, Any]:
        return {}

    def _step_scan(self, shape: _EnvironmentShape | None) -> CompiledScan:
        key = "step", shape
        if key not in self._code_cache:
            self._code_cache[key] = self._compile(self.stepper.step(_environment_template(shape)))
        return self._code_cache[key]

    def _single_drone_code(self, shape: _EnvironmentShape | None) -> Any:
        """Return the machine code for a single drone, without batch arrays."""
        key = "alone", shape
        code = self._code_cache.get(key)
        if code is None:
            from samara.compiler.compiled_step import compile_single_drone

            body, (carry, held_inputs, _), idle_path = self.stepper.step(_environment_template(shape))
            advance = lambda state, held_inputs: body(state, held_inputs, ())[0]  # noqa: E731
            code = compile_single_drone(advance, carry, held_inputs, idle_path, dtype=self.dtype, fast=self.fast)
            self._code_cache[key] = code
        return code

    def _rollout_scan(self, shape: _EnvironmentShape | None) -> CompiledScan:
        key = "roll", shape
        if key not in self._code_cache:
            environment = _environment_template(shape)
            self._code_cache[key] = self._compile(
                self.stepper.closed_loop(self.controller, self.initial_controller_state, environment)
                if self.controller
                else self.stepper.rollout(environment)
            )
        return self._code_cache[key]

    def _tangent_scan(
        self, shape: _EnvironmentShape | None, held_indices: tuple[int, ...], has_input_tangents: bool, directions: int
    ) -> CompiledScan:
        key = "tangent", shape, held_indices, has_input_tangents, directions
        if key not in self._code_cache:
            from samara.compiler.derivatives.forward import compile_tangent

            scan, input_indices = (
                self.stepper.rollout(_environment_template(shape)),
                range(len(self._command) if has_input_tangents else 0),
            )
            self._code_cache[key] = compile_tangent(
                scan, held_indices, input_indices, directions, dtype=self.dtype, fast=self.fast
            )
        return self._code_cache[key]

    def _adjoint_scan(self, shape: _EnvironmentShape | None, recorded: bool) -> CompiledScan:
        key = "vjp", shape, recorded
        if key not in self._code_cache:
            from samara.compiler.derivatives.reverse import compile_adjoint

            scan = self.stepper.rollout(_environment_template(shape))
            held_inputs = range(1, len(flatten(scan.templates.held_inputs)))
            self._code_cache[key] = compile_adjoint(
                self.backend, scan, held_inputs, recorded, dtype=self.dtype, fast=self.fast
            )
        return self._code_cache[key]

    def _compile(self, scan: Scan) -> CompiledScan:
        return compile_scan(self.backend, scan, dtype=self.dtype, fast=self.fast)

    # Checks ---------------------------------------------------------------------------------------------------------

    def _buffer_error(self, buffer: Any) -> ValueError:
        shape = f"({len(self._component_names)},) or ({len(self._component_names)}, N)"
        expected = f"expected {shape}, {self.dtype} in this machine's byte order, contiguous by rows, aligned, writable"
        if not isinstance(buffer, np.ndarray):
            return ValueError(f"buffer is of type {type(buffer).__name__}; expected a NumPy array: {expected[9:]}")
        missing_flags = [flag for flag in ("contiguous", "aligned", "writeable") if not getattr(buffer.flags, flag)]
        violations = "".join(f", not {flag.replace('eable', 'able')}" for flag in missing_flags)
        return ValueError(f"buffer has shape {buffer.shape} and dtype {buffer.dtype.str}{violations}; {expected}")

    def _check_held_inputs(self, held_inputs: list[Any], n: int, environment: Environment | None) -> None:
        for k, value in enumerate(held_inputs):
            if not np.isfinite(value).all():
                self._raise_not_finite(held_inputs, "held input", self._held_input_names(environment), k)

    def _check_finite(self, rows: Any, prefix: str = "") -> None:
        finite = np.isfinite(np.asarray(rows))
        if not finite.all():
            component, drone = (int(x) for x in np.argwhere(~finite)[0])
            value = np.asarray(rows)[component, drone]
            drone_label = f" of drone {drone}" if finite.shape[1] > 1 else ""
            raise FloatingPointError(
                f"{prefix}state {self._component_names[component]}{drone_label} is {value}; expected a finite number"
            )

    def _raise_not_finite(self, numbers: Sequence[Any], label: str, names: list[str], index: int | None = None) -> None:
        for k, value in enumerate(numbers):
            if not np.isfinite(value).all() and index in (None, k):
                error = FloatingPointError if label == "state" else ValueError
                raise error(f"{label} {names[k]} is {value}; expected a finite number")


_PYTHON_NUMBERS = {float, int}
_NO_BUFFER = (None, None)
_ROTATION = slice(6, 10)  # q_WB among the leaves of a state
_MAX_STEPS = 2**31 - 1  # steps of one call, which cannot be interrupted


def _require_count(name: str, value: Any, minimum: int) -> int:
    """Convert to an integer step count; ValueError if it is not an integer within [minimum, 2³¹ − 1]."""
    if type(value) is not int:
        if isinstance(value, bool) or not hasattr(value, "__index__"):
            raise ValueError(f"{name} is {value!r:.60}; expected a whole number")
        value = operator.index(value)
    if not minimum <= value <= _MAX_STEPS:
        quoted = value if abs(value) < 10**30 else "a number of many digits"
        raise ValueError(f"{name} is {quoted}; expected a whole number from {minimum} to {_MAX_STEPS}")
    return value


def _environment_shape(environment: Environment | None) -> _EnvironmentShape | None:
    if environment is None:
        return None
    return _EnvironmentShape(
        len(environment.hub_wind_W), len(environment.external_wrenches), len(environment.motor_effectiveness)
    )


def _environment_template(shape: _EnvironmentShape | None) -> Environment | tuple[()]:
    """Return an environment of that shape; () if none is given."""
    if shape is None:
        return ()
    return CALM._replace(
        hub_wind_W=(ZERO,) * shape.hub_wind_W,
        external_wrenches=(Wrench(),) * shape.external_wrenches,
        motor_effectiveness=(1.0,) * shape.motor_effectiveness,
    )


def _batch_size(leaves: list[Any], held_inputs: list[Any]) -> int | None:
    """Return the batch size, or None for a single drone given in plain numbers."""
    n = None
    for leaf in (*leaves, *held_inputs):
        if type(leaf) is float or np.ndim(leaf) == 0:
            continue
        shape = np.shape(leaf)
        if len(shape) != 1 or (n is not None and shape[0] != n):
            raise ValueError(f"a batch is arrays of one length; got shape {shape} beside length {n}")
        n = shape[0]
    return n
