"""`samara.compile`: a vehicle, an integrator and perhaps a controller as one fast function on a backend of one's choice."""

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


class _Shape(NamedTuple):
    """What of an environment makes a difference to the code: how many hubs have a wind, pushes act, motors have a power."""

    hub_wind_W: int = 0
    pushes: int = 0
    motor_power: int = 0


class Rollout(NamedTuple):
    """Recorded states, component-first with time as the last axis but one, (records, N); and where it ended."""

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
    """Where a rollout ended, and the cotangents of all that led there: of the first state, of the commands, (K, rotors) or
    (K, rotors, N), of parameters that vary, by name, and of the environment, where one was given.

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
    """The equations of a vehicle, compiled: x(t + dt) for one drone or N at once

    `effects` keeps only the named ones. Parameters named in `vary` ("mass", "rotors.k_thrust", "drag.linear") become
    inputs, taken from the `vehicle` given to a call; all others are folded in. A `controller(state, reference, vehicle,
    memory) → command, memory` is compiled into the loop, and starts with `memory` or else its own `initial_memory`. `fast`
    lets the CPU contract multiply-adds; without it results are bitwise equal for one drone, any batch and any place in it.
    """
    integrator_named(integrator, ONE_STEP)
    require_backend(backend, ("auto", *BACKENDS))
    if dtype not in DTYPES:
        raise ValueError(f"dtype {dtype!r}: expected one of {', '.join(DTYPES)}")
    if effects is not None:
        for name in effects:
            if not vehicle.has(name):
                held = ", ".join(effect.name for effect in vehicle.structure.effects)
                raise ValueError(f"effects names {name!r}; vehicle {vehicle.name!r} has {held}")
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
        """What it was made of: machine code stays in its process, and is made again where it is asked for"""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    # One step or many under a held command --------------------------------------------------------------------------

    def step(
        self,
        state: State,
        command: Command,
        dt: float,
        steps: int = 1,
        environment: Environment | None = None,
        vehicle: Vehicle | None = None,
    ) -> State:
        """x(t + steps·dt), command and environment held; one drone or N"""
        steps = _count("steps", steps, 0)
        leaves, held = self._pack(state), self._held(command, dt, environment, vehicle)
        if {*map(type, leaves), *map(type, held)} <= _PLAIN:
            return self._unpack(self._step_alone(leaves, held, steps, environment))
        n = _batch(leaves, held)
        if n is None:
            return self._unpack(
                self._step_alone([float(x) for x in leaves], [float(x) for x in held], steps, environment)
            )
        rows = self._rows(leaves, n)
        self._check_held(held, n, environment)
        after, _ = self._stepper(_shape(environment))(rows, held, None, steps)
        self._check_finite(after)
        return self._unpack(after)

    def _step_alone(
        self, leaves: list[Any], held: list[Any], steps: int, environment: Environment | None
    ) -> Sequence[float]:
        if not math.isfinite(sum(held)):
            self._name_the_bad(held, "held input", self._held_names(environment))
        numbers: Sequence[float]
        if self.backend == "llvm":
            alone = self._alone(_shape(environment))
            buffer = bytearray(alone.pack_state(*leaves))
            alone.advance(alone.view.from_buffer(buffer), alone.pack_held(*held), steps)
            numbers = alone.unpack_state(buffer)
        else:
            column = np.array(leaves, dtype=self.dtype).reshape(-1, 1)
            after, _ = self._stepper(_shape(environment))(column, held, None, steps)
            numbers = np.asarray(after).ravel().tolist()
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
        """The same on a flat array of shape (components,) or (components, N), in place, without packing; what is written is
        not checked, where it is written to is: the machine code gets a bare address"""
        steps = _count("steps", steps, 0)
        if (
            not isinstance(buffer, np.ndarray)
            or buffer.dtype != self._dtype
            or not 1 <= buffer.ndim <= 2
            or not buffer.flags.carray  # by rows, aligned, and to be written to: each can change between two calls
        ):
            raise self._wrong_buffer(buffer)
        if buffer.ndim == 1 and self.backend == "llvm":
            alone = self._alone(_shape(environment))
            known, view = self._compiled.get("last buffer", _NO_BUFFER)
            if known is not buffer:  # making a view takes as long as the step: the last one is kept
                if len(buffer) != alone.components:
                    raise self._wrong_buffer(buffer)
                view = alone.view.from_buffer(buffer)
                self._compiled["last buffer"] = (buffer, view)
            try:
                held = alone.pack_held(*command, dt, *self._held_after_dt(environment, vehicle))
            except struct.error:
                held = alone.pack_held(*self._held(command, dt, environment, vehicle))
            alone.advance(view, held, steps)
            return
        rows = buffer if buffer.ndim == 2 else buffer.reshape(-1, 1)
        if len(rows) != len(self._names):
            raise self._wrong_buffer(buffer)
        run = self._stepper(_shape(environment))
        after, _ = run(rows, self._held(command, dt, environment, vehicle), None, steps)
        if after is not rows:
            rows[:] = np.asarray(after)

    # Many steps with an input for each ------------------------------------------------------------------------------

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
        """Steps through `commands` (K, rotors) or (K, rotors, N); with a controller through `reference`, an array of
        references (K, 18) or (K, 14, N) in the order of `Reference`'s components. Every `record_every`-th state is kept."""
        given = reference if self.controller else commands
        what = "reference" if self.controller else "commands"
        inputs = self._inputs(given, what)
        record_every = _count("record_every", record_every, 1)
        carry_tree = (state, self.initial_memory if memory is None else memory) if self.controller else state
        leaves = flatten(carry_tree)
        held = [dt, *self._held_after_dt(environment, vehicle)]
        n = self._drones(leaves, held, inputs, what)
        rows = self._rows(leaves, n)
        after, recorded = self._roller(_shape(environment))(rows, held, inputs, len(inputs), record_every)
        after, recorded = np.asarray(after), np.asarray(recorded)
        self._check_finite(after[: len(self._names)])
        return self._rollout(after, recorded, dt, record_every, n)

    def _inputs(self, given: Any, what: str) -> Any:
        inputs = np.asarray(given, dtype=self.dtype) if given is not None else None
        expected = len(flatten(REFERENCE)) if self.controller else len(self._command)
        if inputs is None or inputs.ndim not in (2, 3) or inputs.shape[1] != expected:
            shown = "nothing" if inputs is None else f"shape {inputs.shape}"
            raise ValueError(f"{what}: expected shape (steps, {expected}) or (steps, {expected}, N); got {shown}")
        if not np.isfinite(inputs).all():
            k, i = (int(x) for x in np.argwhere(~np.isfinite(inputs))[0][:2])
            raise ValueError(f"{what}[{k}, {i}] is {inputs[k, i]}; expected finite numbers")
        return inputs

    def _drones(self, leaves: list[Any], held: list[Any], inputs: Any, what: str) -> int | None:
        n = _batch(leaves, held) or (inputs.shape[2] if inputs.ndim == 3 else None)
        if inputs.ndim == 3 and inputs.shape[2] != n:
            raise ValueError(f"{what} is for {inputs.shape[2]} drones; the state has {n}")
        return n

    def _rows(self, leaves: list[Any], n: int | None) -> Any:
        rows = np.empty((len(leaves), n or 1), dtype=self.dtype)
        for row, leaf in zip(rows, leaves, strict=True):
            row[:] = leaf
        return rows

    def _rollout(self, after: Any, recorded: Any, dt: float, every: int, n: int | None) -> Rollout:
        size = len(self._names)
        series = [recorded[:, k, 0] if n is None else recorded[:, k] for k in range(recorded.shape[1])]
        numbers = [float(x[0]) if n is None else x for x in after]
        return Rollout(
            time=dt * every * np.arange(1, len(recorded) + 1),
            states=self._unpack(series[:size]),
            commands=tuple(series[size:]),
            final=self._unpack(numbers[:size]),
            memory=unflatten(self.initial_memory, iter(numbers[size:])),
        )

    # Exact derivatives ----------------------------------------------------------------------------------------------

    def linearize(
        self, state: State, command: Command, dt: float, environment: Environment | None = None, tangent: bool = False
    ) -> tuple[Any, Any]:
        """A = ∂x'/∂x, B = ∂x'/∂u of one step, exact; with `tangent` in 12 + rotors + effects dimensions, attitude as a
        rotation vector in body axes: δq = exp(δθ), q = q₀ ⊗ δq"""
        environment = environment or CALM
        shape = _shape(environment)
        key = "linearize", tangent, shape
        if key not in self._compiled:
            from samara.compiler.derivatives.linearize import linearizer

            held = _template(shape) or CALM
            self._compiled[key] = linearizer(self.vehicle, self.integrator, tangent, self.dtype, held)
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
        """The rollout, bit for bit, and its exact derivatives along P directions at once; on LLVM

            dxₖ₊₁ = f_x dxₖ + f_u duₖ + f_h dh,   h: parameters that vary, and the environment

        A tangent has the shape of what it belongs to. Its leaves are numbers, (N,), (P, 1) or (P, N); without a batch numbers
        or (P,). `d_commands` is shaped like `commands`, or (P, K, rotors, N). `d_vehicle` has tangents by names of `vary`, one
        leaf for all rotors or a tuple; what is left out has none. The tangent of a quaternion is that of its components. With
        `fast` the rollout is the same to rounding.
        """
        from samara.compiler.derivatives.forward import Lanes, direction_inputs, direction_rows, held_directions

        if self.backend != "llvm" or self.controller:
            own = "a controller" if self.controller else f"backend {self.backend!r}"
            raise ValueError(f"rollout_tangent with {own}: expected backend 'llvm' and commands")
        inputs, record_every = self._inputs(commands, "commands"), _count("record_every", record_every, 1)
        leaves, held = self._pack(state), [dt, *self._held_after_dt(environment, vehicle)]
        n = self._drones(leaves, held, inputs, "commands")
        counts = {path: len(flatten(parameter(self.vehicle, path))) for path in self.vary}
        around = 0 if environment is None else len(flatten(environment))
        moving, by_held = held_directions(d_environment, around, d_vehicle or {}, counts, n)
        by_state = direction_rows((0.0,) * len(leaves) if d_state is None else d_state, "d_state", len(leaves), n)
        by_input = None if d_commands is None else direction_inputs(d_commands, inputs, "d_commands", n)
        lanes = Lanes.of([*by_state, *by_held, *([] if by_input is None else [by_input])], n, self.dtype)
        run = self._tangent_roller(_shape(environment), moving, by_input is not None, lanes.at_once)
        given = lanes.held(held, by_held), lanes.inputs(inputs, by_input), len(inputs), record_every
        end, records = run(lanes.carry(self._rows(leaves, n), by_state), *given)
        (after, d_after), (recorded, d_recorded) = lanes.apart(end), lanes.apart(records)
        self._check_finite(after)
        for direction, rows in enumerate(d_after):
            self._check_finite(rows, f"tangent {direction} of ")
        plain = self._rollout(after, recorded, dt, record_every, n)
        drones = slice(None) if n else 0
        return TangentRollout(
            plain.time,
            plain.states,
            self._unpack([d_recorded[:, :, k, drones] for k in range(len(leaves))]),
            plain.final,
            self._unpack([d_after[:, k, drones] for k in range(len(leaves))]),
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
        """The slopes of one number by everything a rollout starts from, exact: its cotangents; on LLVM and NumPy

            L(x_K):   x̄_K = ∂L/∂x_K,   x̄ₖ = f_xᵀ x̄ₖ₊₁,   ūₖ = f_uᵀ x̄ₖ₊₁,   h̄ = Σ f_hᵀ x̄ₖ₊₁   of   xₖ₊₁ = f(xₖ, uₖ, h)

        h are the parameters that vary, and the environment. `cotangent` is ∂L/∂x_K, a state whose leaves are numbers or (N,);
        `cotangents` are ∂L/∂x of the states that `rollout` records, with leaves (records,) or (records, N), where L depends on
        them too. Drones do not meet: what N of them share has a cotangent for each, to be summed. The cotangent of a quaternion
        is that of its four components. However many inputs there are, it costs a few rollouts.
        """
        from samara.compiler.derivatives.reverse import bar_rows, pulled_back

        if self.backend not in ("llvm", "numpy", "python") or self.controller:
            own = "a controller" if self.controller else f"backend {self.backend!r}"
            raise ValueError(f"vjp with {own}: expected backend 'llvm' or 'numpy', and commands")
        inputs, record_every = self._inputs(commands, "commands"), _count("record_every", record_every, 1)
        leaves, held = self._pack(state), [dt, *self._held_after_dt(environment, vehicle)]
        n = self._drones(leaves, held, inputs, "commands")
        at_end = bar_rows(cotangent, "cotangent", len(leaves), (n or 1,), self.dtype)
        on_the_way = None
        if cotangents is not None:
            records = len(inputs) // record_every
            on_the_way = np.zeros((len(inputs), len(leaves), n or 1), dtype=self.dtype)
            found = bar_rows(cotangents, "cotangents", len(leaves), (records, n or 1), self.dtype)
            on_the_way[record_every - 1 :: record_every] = found
        forward, backward = (
            self._roller(_shape(environment)),
            self._way_back(_shape(environment), cotangents is not None),
        )
        back = pulled_back(forward, backward, self._rows(leaves, n), held, inputs, at_end, on_the_way, len(held) - 1)
        self._check_finite(back.end)
        self._check_finite(back.carry, "the cotangent of ")
        of_held = iter([float(x[0]) if n is None else x for x in back.held])
        around = None if environment is None else unflatten(environment, of_held)
        return Pullback(
            self._unpack([float(x[0]) if n is None else x for x in back.end]),
            self._unpack([float(x[0]) if n is None else x for x in back.carry]),
            back.inputs if n else back.inputs[:, :, 0],
            {path: unflatten(parameter(self.vehicle, path), of_held) for path in self.vary},
            around,
        )

    # The shapes of things, worked out once --------------------------------------------------------------------------

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
        """The step that all of it is compiled from"""
        return Stepper(self.vehicle, self.integrator, self.backend, self.vary)

    @cached_property
    def _compiled(self) -> dict[Any, Any]:
        return {}

    def _stepper(self, shape: _Shape | None) -> Run:
        key = "step", shape
        if key not in self._compiled:
            self._compiled[key] = self._compile(self.stepper.step(_template(shape)))
        return self._compiled[key]

    def _alone(self, shape: _Shape | None) -> Any:
        """One drone's own machine code, without a batch around it."""
        key = "alone", shape
        own = self._compiled.get(key)
        if own is None:
            from samara.compiler.compiled_step import alone

            body, (carry, held, _), quiet = self.stepper.step(_template(shape))
            once = lambda state, held: body(state, held, ())[0]  # noqa: E731
            own = alone(once, carry, held, quiet, dtype=self.dtype, fast=self.fast)
            self._compiled[key] = own
        return own

    def _roller(self, shape: _Shape | None) -> Run:
        key = "roll", shape
        if key not in self._compiled:
            around = _template(shape)
            self._compiled[key] = self._compile(
                self.stepper.closed_loop(self.controller, self.initial_memory, around)
                if self.controller
                else self.stepper.rollout(around)
            )
        return self._compiled[key]

    def _tangent_roller(self, shape: _Shape | None, held: tuple[int, ...], inputs: bool, directions: int) -> Run:
        key = "tangent", shape, held, inputs, directions
        if key not in self._compiled:
            from samara.compiler.derivatives.forward import compile_tangent

            scan, moved = self.stepper.rollout(_template(shape)), range(len(self._command) if inputs else 0)
            self._compiled[key] = compile_tangent(scan, held, moved, directions, dtype=self.dtype, fast=self.fast)
        return self._compiled[key]

    def _way_back(self, shape: _Shape | None, recorded: bool) -> Run:
        key = "vjp", shape, recorded
        if key not in self._compiled:
            from samara.compiler.derivatives.reverse import compile_adjoint

            scan = self.stepper.rollout(_template(shape))
            held = range(1, len(flatten(scan.templates.held)))
            self._compiled[key] = compile_adjoint(self.backend, scan, held, recorded, dtype=self.dtype, fast=self.fast)
        return self._compiled[key]

    def _compile(self, scan: Scan) -> Run:
        return compile_scan(self.backend, scan, dtype=self.dtype, fast=self.fast)

    # What is refused ------------------------------------------------------------------------------------------------

    def _wrong_buffer(self, buffer: Any) -> ValueError:
        shape = f"({len(self._names)},) or ({len(self._names)}, N)"
        expected = f"expected {shape}, {self.dtype} in this machine's byte order, contiguous by rows, aligned, writable"
        if not isinstance(buffer, np.ndarray):
            return ValueError(f"buffer is of type {type(buffer).__name__}; expected a NumPy array: {expected[9:]}")
        lacks = [what for what in ("contiguous", "aligned", "writeable") if not getattr(buffer.flags, what)]
        found = "".join(f", not {what.replace('eable', 'able')}" for what in lacks)
        return ValueError(f"buffer has shape {buffer.shape} and dtype {buffer.dtype.str}{found}; {expected}")

    def _check_held(self, held: list[Any], n: int, environment: Environment | None) -> None:
        for k, value in enumerate(held):
            if not np.isfinite(value).all():
                self._name_the_bad(held, "held input", self._held_names(environment), k)

    def _check_finite(self, rows: Any, what: str = "") -> None:
        finite = np.isfinite(np.asarray(rows))
        if not finite.all():
            component, drone = (int(x) for x in np.argwhere(~finite)[0])
            value = np.asarray(rows)[component, drone]
            of_drone = f" of drone {drone}" if finite.shape[1] > 1 else ""
            raise FloatingPointError(
                f"{what}state {self._names[component]}{of_drone} is {value}; expected a finite number"
            )

    def _name_the_bad(self, numbers: Sequence[Any], what: str, names: list[str], at: int | None = None) -> None:
        for k, value in enumerate(numbers):
            if not np.isfinite(value).all() and at in (None, k):
                error = FloatingPointError if what == "state" else ValueError
                raise error(f"{what} {names[k]} is {value}; expected a finite number")


_PLAIN = {float, int}
_NO_BUFFER = (None, None)
_MOST_STEPS = 2**31 - 1  # of one call, which nothing can interrupt


def _count(name: str, value: Any, least: int) -> int:
    """A number of steps: a whole one, and none that would never end"""
    if type(value) is not int:
        if isinstance(value, bool) or not hasattr(value, "__index__"):
            raise ValueError(f"{name} is {value!r:.60}; expected a whole number")
        value = operator.index(value)
    if not least <= value <= _MOST_STEPS:
        shown = value if abs(value) < 10**30 else "a number of many digits"
        raise ValueError(f"{name} is {shown}; expected a whole number from {least} to {_MOST_STEPS}")
    return value


def _shape(environment: Environment | None) -> _Shape | None:
    if environment is None:
        return None
    return _Shape(len(environment.hub_wind_W), len(environment.pushes), len(environment.motor_power))


def _template(shape: _Shape | None) -> Environment | tuple[()]:
    """An environment of that shape; () where none is given"""
    if shape is None:
        return ()
    return CALM._replace(
        hub_wind_W=(ZERO,) * shape.hub_wind_W,
        pushes=(Wrench(),) * shape.pushes,
        motor_power=(1.0,) * shape.motor_power,
    )


def _batch(leaves: list[Any], held: list[Any]) -> int | None:
    """The number of drones, or None for one given in plain numbers."""
    n = None
    for leaf in (*leaves, *held):
        if type(leaf) is float or np.ndim(leaf) == 0:
            continue
        size = np.shape(leaf)
        if len(size) != 1 or (n is not None and size[0] != n):
            raise ValueError(f"a batch is arrays of one length; got shape {size} beside length {n}")
        n = size[0]
    return n
