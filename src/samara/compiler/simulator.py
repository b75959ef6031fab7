"""`samara.compile`: a vehicle, an integrator and optionally a controller as one fast function on a chosen backend."""

import math
import operator
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from samara.compiler.scan import Run
from samara.compiler.stepper import BACKENDS, REFERENCE, Scan, Stepper, compile_scan, require_backend
from samara.core.algebra import ZERO
from samara.core.integrate import ONE_STEP, integrator_named
from samara.core.tree import flatten, leaf_names, packer, unflatten, unpacker
from samara.physics.effect import Wrench
from samara.physics.multirotor import at_rest, empty_command, require_command_size, state_names
from samara.physics.types import CALM, Command, Environment, State, Vehicle
from samara.vehicles.parameters import parameter

DTYPES = ("float64", "float32")


class _EnvironmentShape(NamedTuple):
    """The array lengths of an environment on which the code depends: hub winds, external wrenches, motor powers."""

    hub_wind_W: int = 0
    pushes: int = 0
    motor_power: int = 0


class Rollout(NamedTuple):
    """Recorded states, component-first with time as the last axis but one, (records, N); and the final state."""

    time: Any
    states: State
    commands: Any
    final: State
    memory: Any


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
    memory: Any = (),
) -> "Simulator":
    """Compile the equations of a vehicle into a function that computes x(t + dt) for one drone or N at once.

    Args:
        vehicle: the model; parameters not named in `vary` are folded into the code as constants.
        backend: "python", "numpy", "llvm", "jax", "pallas", or "auto" for LLVM.
        dtype: "float64" or "float32".
        integrator: a fixed-step method of `samara.core.integrate`, such as "rk4".
        effects: names of the effects to include; None includes all.
        controller: `controller(state, reference, vehicle, memory) → command, memory`, compiled into the loop of `rollout`.
        fast: allow fused multiply-adds on the CPU. Without it results are bitwise equal for one drone, any batch size and any
            position in the batch.
        vary: parameters that become inputs ("mass", "rotors.k_thrust", "drag.linear"), read from the `vehicle` of each call.
        memory: initial controller state; by default the controller's `initial_memory`.

    Returns:
        The simulator. Code is compiled on first use of each method.

    Raises:
        ValueError: an unknown integrator, backend, dtype, effect or parameter.
    """
    integrator_named(integrator, ONE_STEP)
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
    memory = memory or getattr(controller, "initial_memory", ())
    return Simulator(vehicle, backend, dtype, integrator, controller, fast, tuple(vary), memory)


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
    initial_memory: Any

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
        steps = _count("steps", steps, 0)
        leaves, held_inputs = self._pack(state), self._held(command, dt, environment, vehicle)
        if {*map(type, leaves), *map(type, held_inputs)} <= _PYTHON_NUMBERS:
            return self._unpack(self._step_alone(leaves, held_inputs, steps, environment))
        n = _batch_size(leaves, held_inputs)
        if n is None:
            return self._unpack(
                self._step_alone([float(x) for x in leaves], [float(x) for x in held_inputs], steps, environment)
            )
        rows = self._rows(leaves, n)
        self._check_held(held_inputs, n, environment)
        final_rows, _ = self._stepper(_shape(environment))(rows, held_inputs, None, steps)
        self._check_finite(final_rows)
        return self._unpack(final_rows)

    def _step_alone(
        self, leaves: list[Any], held_inputs: list[Any], steps: int, environment: Environment | None
    ) -> Sequence[float]:
        if not math.isfinite(sum(held_inputs)):
            self._name_the_bad(held_inputs, "held input", self._held_names(environment))
        numbers: Sequence[float]
        if self.backend == "llvm":
            single_drone = self._alone(_shape(environment))
            buffer = bytearray(single_drone.pack_state(*leaves))
            single_drone.advance(single_drone.view.from_buffer(buffer), single_drone.pack_held(*held_inputs), steps)
            numbers = single_drone.unpack_state(buffer)
        else:
            column = np.array(leaves, dtype=self.dtype).reshape(-1, 1)
            final_rows, _ = self._stepper(_shape(environment))(column, held_inputs, None, steps)
            numbers = np.asarray(final_rows).ravel().tolist()
        if not math.isfinite(sum(numbers)):
            self._name_the_bad(numbers, "state", self._names)
        return numbers

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
        steps = _count("steps", steps, 0)
        if (
            not isinstance(buffer, np.ndarray)
            or buffer.dtype != self._dtype
            or not 1 <= buffer.ndim <= 2
            or not buffer.flags.carray  # row-major, aligned and writable: each can change between two calls
        ):
            raise self._wrong_buffer(buffer)
        if buffer.ndim == 1 and self.backend == "llvm":
            single_drone = self._alone(_shape(environment))
            last_buffer, view = self._compiled.get("last buffer", _NO_BUFFER)
            if last_buffer is not buffer:  # creating a view takes as long as the step: reuse the last one
                if len(buffer) != single_drone.components:
                    raise self._wrong_buffer(buffer)
                view = single_drone.view.from_buffer(buffer)
                self._compiled["last buffer"] = (buffer, view)
            try:
                held_inputs = single_drone.pack_held(*command, dt, *self._held_after_dt(environment, vehicle))
            except struct.error:
                held_inputs = single_drone.pack_held(*self._held(command, dt, environment, vehicle))
            single_drone.advance(view, held_inputs, steps)
            return
        rows = buffer if buffer.ndim == 2 else buffer.reshape(-1, 1)
        if len(rows) != len(self._names):
            raise self._wrong_buffer(buffer)
        run = self._stepper(_shape(environment))
        final_rows, _ = run(rows, self._held(command, dt, environment, vehicle), None, steps)
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
        memory: Any = None,
        record_every: int = 10,
    ) -> Rollout:
        """Simulate one step per row of `commands`, or of `reference` if a controller is compiled in.

        Args:
            state: initial state; its leaves are numbers, or (N,) for a batch.
            commands: (K, rotors) or (K, rotors, N); without a controller.
            dt: length of a step [s].
            environment: constant environment; calm air by default.
            vehicle: source of the parameters named in `vary`; by default the compiled vehicle.
            reference: (K, 18) or (K, 18, N), in the order of `Reference`'s components; with a controller.
            memory: initial controller state; by default the one given to `compile`.
            record_every: every `record_every`-th state is recorded.
        """
        values = reference if self.controller else commands
        label = "reference" if self.controller else "commands"
        inputs = self._inputs(values, label)
        record_every = _count("record_every", record_every, 1)
        carry_tree = (state, self.initial_memory if memory is None else memory) if self.controller else state
        leaves = flatten(carry_tree)
        held_inputs = [dt, *self._held_after_dt(environment, vehicle)]
        n = self._drones(leaves, held_inputs, inputs, label)
        rows = self._rows(leaves, n)
        final_rows, recorded = self._roller(_shape(environment))(rows, held_inputs, inputs, len(inputs), record_every)
        final_rows, recorded = np.asarray(final_rows), np.asarray(recorded)
        self._check_finite(final_rows[: len(self._names)])
        return self._rollout(final_rows, recorded, dt, record_every, n)

    def _inputs(self, values: Any, label: str) -> Any:
        inputs = np.asarray(values, dtype=self.dtype) if values is not None else None
        expected = len(flatten(REFERENCE)) if self.controller else len(self._command)
        if inputs is None or inputs.ndim not in (2, 3) or inputs.shape[1] != expected:
            actual = "nothing" if inputs is None else f"shape {inputs.shape}"
            raise ValueError(f"{label}: expected shape (steps, {expected}) or (steps, {expected}, N); got {actual}")
        if not np.isfinite(inputs).all():
            k, i = (int(x) for x in np.argwhere(~np.isfinite(inputs))[0][:2])
            raise ValueError(f"{label}[{k}, {i}] is {inputs[k, i]}; expected finite numbers")
        return inputs

    def _drones(self, leaves: list[Any], held_inputs: list[Any], inputs: Any, label: str) -> int | None:
        n = _batch_size(leaves, held_inputs) or (inputs.shape[2] if inputs.ndim == 3 else None)
        if inputs.ndim == 3 and inputs.shape[2] != n:
            raise ValueError(f"{label} is for {inputs.shape[2]} drones; the state has {n}")
        return n

    def _rows(self, leaves: list[Any], n: int | None) -> Any:
        rows = np.empty((len(leaves), n or 1), dtype=self.dtype)
        for row, leaf in zip(rows, leaves, strict=True):
            row[:] = leaf
        return rows

    def _rollout(self, final_rows: Any, recorded: Any, dt: float, record_every: int, n: int | None) -> Rollout:
        size = len(self._names)
        series = [recorded[:, k, 0] if n is None else recorded[:, k] for k in range(recorded.shape[1])]
        numbers = [float(x[0]) if n is None else x for x in final_rows]
        return Rollout(
            time=dt * record_every * np.arange(1, len(recorded) + 1),
            states=self._unpack(series[:size]),
            commands=tuple(series[size:]),
            final=self._unpack(numbers[:size]),
            memory=unflatten(self.initial_memory, iter(numbers[size:])),
        )

    # Exact derivatives ----------------------------------------------------------------------------------------------

    def linearize(
        self, state: State, command: Command, dt: float, environment: Environment | None = None, tangent: bool = False
    ) -> tuple[Any, Any]:
        """Return A = ∂x'/∂x, B = ∂x'/∂u of one step, exact.

        With `tangent` in 12 + rotors + effects dimensions, the attitude as a rotation vector in body axes: δq = exp(δθ),
        q = q₀ ⊗ δq.
        """
        environment = environment or CALM
        shape = _shape(environment)
        key = "linearize", tangent, shape
        if key not in self._compiled:
            from samara.compiler.derivatives.linearize import linearizer

            environment_template = _template(shape) or CALM
            self._compiled[key] = linearizer(self.vehicle, self.integrator, tangent, self.dtype, environment_template)
        return self._compiled[key](state, tuple(command), dt, environment)

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
        from samara.compiler.derivatives.forward import Lanes, direction_inputs, direction_rows, held_directions

        if self.backend != "llvm" or self.controller:
            unsupported = "a controller" if self.controller else f"backend {self.backend!r}"
            raise ValueError(f"rollout_tangent with {unsupported}: expected backend 'llvm' and commands")
        inputs, record_every = self._inputs(commands, "commands"), _count("record_every", record_every, 1)
        leaves, held_inputs = self._pack(state), [dt, *self._held_after_dt(environment, vehicle)]
        n = self._drones(leaves, held_inputs, inputs, "commands")
        counts = {path: len(flatten(parameter(self.vehicle, path))) for path in self.vary}
        environment_size = 0 if environment is None else len(flatten(environment))
        held_indices, held_tangents = held_directions(d_environment, environment_size, d_vehicle or {}, counts, n)
        state_tangents = direction_rows((0.0,) * len(leaves) if d_state is None else d_state, "d_state", len(leaves), n)
        input_tangents = None if d_commands is None else direction_inputs(d_commands, inputs, "d_commands", n)
        lanes = Lanes.of(
            [*state_tangents, *held_tangents, *([] if input_tangents is None else [input_tangents])], n, self.dtype
        )
        run = self._tangent_roller(_shape(environment), held_indices, input_tangents is not None, lanes.at_once)
        arguments = (
            lanes.held(held_inputs, held_tangents),
            lanes.inputs(inputs, input_tangents),
            len(inputs),
            record_every,
        )
        end, records = run(lanes.carry(self._rows(leaves, n), state_tangents), *arguments)
        (final_rows, d_final_rows), (recorded, d_recorded) = lanes.apart(end), lanes.apart(records)
        self._check_finite(final_rows)
        for direction, rows in enumerate(d_final_rows):
            self._check_finite(rows, f"tangent {direction} of ")
        primal = self._rollout(final_rows, recorded, dt, record_every, n)
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
        from samara.compiler.derivatives.reverse import bar_rows, pulled_back

        if self.backend not in ("llvm", "numpy", "python") or self.controller:
            unsupported = "a controller" if self.controller else f"backend {self.backend!r}"
            raise ValueError(f"vjp with {unsupported}: expected backend 'llvm' or 'numpy', and commands")
        inputs, record_every = self._inputs(commands, "commands"), _count("record_every", record_every, 1)
        leaves, held_inputs = self._pack(state), [dt, *self._held_after_dt(environment, vehicle)]
        n = self._drones(leaves, held_inputs, inputs, "commands")
        final_bar = bar_rows(cotangent, "cotangent", len(leaves), (n or 1,), self.dtype)
        record_bars = None
        if cotangents is not None:
            records = len(inputs) // record_every
            record_bars = np.zeros((len(inputs), len(leaves), n or 1), dtype=self.dtype)
            rows = bar_rows(cotangents, "cotangents", len(leaves), (records, n or 1), self.dtype)
            record_bars[record_every - 1 :: record_every] = rows
        forward, backward = (
            self._roller(_shape(environment)),
            self._way_back(_shape(environment), cotangents is not None),
        )
        cotangent_rows = pulled_back(
            forward, backward, self._rows(leaves, n), held_inputs, inputs, final_bar, record_bars, len(held_inputs) - 1
        )
        self._check_finite(cotangent_rows.end)
        self._check_finite(cotangent_rows.carry, "the cotangent of ")
        held_bars = iter([float(x[0]) if n is None else x for x in cotangent_rows.held])
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
        return empty_command(self.vehicle)

    @cached_property
    def _dtype(self) -> Any:
        return np.dtype(self.dtype)

    @cached_property
    def _template(self) -> State:
        return at_rest(self.vehicle)

    @cached_property
    def _names(self) -> list[str]:
        return list(state_names(self.vehicle))

    @cached_property
    def _pack(self) -> Callable[[Any], list[Any]]:
        return packer(self._template)

    @cached_property
    def _unpack(self) -> Callable[[Any], State]:
        return unpacker(self._template)

    def _held(self, command: Command, dt: float, environment: Environment | None, vehicle: Vehicle | None) -> list[Any]:
        require_command_size(command, self.vehicle)
        return [*command, dt, *self._held_after_dt(environment, vehicle)]

    def _held_after_dt(self, environment: Environment | None, vehicle: Vehicle | None) -> Sequence[Any]:
        if environment is None and not self.vary:
            return ()
        return [*(() if environment is None else flatten(environment)), *flatten(self.stepper.varied(vehicle))]

    def _held_names(self, environment: Environment | None) -> list[str]:
        names = [*(f"command[{i}]" for i in range(len(self._command))), "dt"]
        names += leaf_names(environment) if environment is not None else []
        return names + [name for path in self.vary for name in leaf_names(parameter(self.vehicle, path), path)]

    @cached_property
    def stepper(self) -> Stepper:
        """The step from which all functions are compiled."""
        return Stepper(self.vehicle, self.integrator, self.backend, self.vary)

    @cached_property
    def _compiled(self) -> dict[Any, Any]:
        return {}

    def _stepper(self, shape: _EnvironmentShape | None) -> Run:
        key = "step", shape
        if key not in self._compiled:
            self._compiled[key] = self._compile(self.stepper.step(_template(shape)))
        return self._compiled[key]

    def _alone(self, shape: _EnvironmentShape | None) -> Any:
        """Return the machine code for a single drone, without batch arrays."""
        key = "alone", shape
        code = self._compiled.get(key)
        if code is None:
            from samara.compiler.compiled_step import alone

            body, (carry, held_inputs, _), idle_path = self.stepper.step(_template(shape))
            advance = lambda state, held_inputs: body(state, held_inputs, ())[0]  # noqa: E731
            code = alone(advance, carry, held_inputs, idle_path, dtype=self.dtype, fast=self.fast)
            self._compiled[key] = code
        return code

    def _roller(self, shape: _EnvironmentShape | None) -> Run:
        key = "roll", shape
        if key not in self._compiled:
            environment = _template(shape)
            self._compiled[key] = self._compile(
                self.stepper.closed_loop(self.controller, self.initial_memory, environment)
                if self.controller
                else self.stepper.rollout(environment)
            )
        return self._compiled[key]

    def _tangent_roller(
        self, shape: _EnvironmentShape | None, held_indices: tuple[int, ...], has_input_tangents: bool, directions: int
    ) -> Run:
        key = "tangent", shape, held_indices, has_input_tangents, directions
        if key not in self._compiled:
            from samara.compiler.derivatives.forward import compile_tangent

            scan, input_indices = (
                self.stepper.rollout(_template(shape)),
                range(len(self._command) if has_input_tangents else 0),
            )
            self._compiled[key] = compile_tangent(
                scan, held_indices, input_indices, directions, dtype=self.dtype, fast=self.fast
            )
        return self._compiled[key]

    def _way_back(self, shape: _EnvironmentShape | None, recorded: bool) -> Run:
        key = "vjp", shape, recorded
        if key not in self._compiled:
            from samara.compiler.derivatives.reverse import compile_adjoint

            scan = self.stepper.rollout(_template(shape))
            held_inputs = range(1, len(flatten(scan.templates.held)))
            self._compiled[key] = compile_adjoint(
                self.backend, scan, held_inputs, recorded, dtype=self.dtype, fast=self.fast
            )
        return self._compiled[key]

    def _compile(self, scan: Scan) -> Run:
        return compile_scan(self.backend, scan, dtype=self.dtype, fast=self.fast)

    # Checks ---------------------------------------------------------------------------------------------------------

    def _wrong_buffer(self, buffer: Any) -> ValueError:
        shape = f"({len(self._names)},) or ({len(self._names)}, N)"
        expected = f"expected {shape}, {self.dtype} in this machine's byte order, contiguous by rows, aligned, writable"
        if not isinstance(buffer, np.ndarray):
            return ValueError(f"buffer is of type {type(buffer).__name__}; expected a NumPy array: {expected[9:]}")
        missing_flags = [flag for flag in ("contiguous", "aligned", "writeable") if not getattr(buffer.flags, flag)]
        violations = "".join(f", not {flag.replace('eable', 'able')}" for flag in missing_flags)
        return ValueError(f"buffer has shape {buffer.shape} and dtype {buffer.dtype.str}{violations}; {expected}")

    def _check_held(self, held_inputs: list[Any], n: int, environment: Environment | None) -> None:
        for k, value in enumerate(held_inputs):
            if not np.isfinite(value).all():
                self._name_the_bad(held_inputs, "held input", self._held_names(environment), k)

    def _check_finite(self, rows: Any, prefix: str = "") -> None:
        finite = np.isfinite(np.asarray(rows))
        if not finite.all():
            component, drone = (int(x) for x in np.argwhere(~finite)[0])
            value = np.asarray(rows)[component, drone]
            drone_label = f" of drone {drone}" if finite.shape[1] > 1 else ""
            raise FloatingPointError(
                f"{prefix}state {self._names[component]}{drone_label} is {value}; expected a finite number"
            )

    def _name_the_bad(self, numbers: Sequence[Any], label: str, names: list[str], index: int | None = None) -> None:
        for k, value in enumerate(numbers):
            if not np.isfinite(value).all() and index in (None, k):
                error = FloatingPointError if label == "state" else ValueError
                raise error(f"{label} {names[k]} is {value}; expected a finite number")


_PYTHON_NUMBERS = {float, int}
_NO_BUFFER = (None, None)
_MAX_STEPS = 2**31 - 1  # of one call, which cannot be interrupted


def _count(name: str, value: Any, minimum: int) -> int:
    """Convert to an integer step count; ValueError if it is not an integer within [least, 2³¹ − 1]."""
    if type(value) is not int:
        if isinstance(value, bool) or not hasattr(value, "__index__"):
            raise ValueError(f"{name} is {value!r:.60}; expected a whole number")
        value = operator.index(value)
    if not minimum <= value <= _MAX_STEPS:
        quoted = value if abs(value) < 10**30 else "a number of many digits"
        raise ValueError(f"{name} is {quoted}; expected a whole number from {minimum} to {_MAX_STEPS}")
    return value


def _shape(environment: Environment | None) -> _EnvironmentShape | None:
    if environment is None:
        return None
    return _EnvironmentShape(len(environment.hub_wind_W), len(environment.pushes), len(environment.motor_power))


def _template(shape: _EnvironmentShape | None) -> Environment | tuple[()]:
    """Return an environment of that shape; () if none is given."""
    if shape is None:
        return ()
    return CALM._replace(
        hub_wind_W=(ZERO,) * shape.hub_wind_W,
        pushes=(Wrench(),) * shape.pushes,
        motor_power=(1.0,) * shape.motor_power,
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
