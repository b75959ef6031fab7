"""The step of a vehicle, written once for flights, rollouts and closed loops, and its compilation on every backend.

    x(t + dt) = advance(x, u, HeldInputs(dt, environment, varied))

Each purpose has a body around that step (see `scan.py`), and a backend compiles a body: into a scan over the caller's arrays
(`compile_scan`), or into code with its own memory (`compile_code`). A vehicle with effects that can be idle has an idle
path beside the full step, which leaves them out (`samara.physics.idle_effects`).
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from typing import TYPE_CHECKING, NamedTuple

from samara.compiler.scan import CompiledScan, IdlePath, Templates, compile_scan_python
from samara.core.algebra import ZERO
from samara.core.extras import missing_extra
from samara.core.integrate import embedded_step, find_integrator
from samara.core.quantity import Scalar
from samara.core.sanitise import quote_value
from samara.core.tree import Tree
from samara.physics.idle_effects import (
    has_idle_conditions,
    is_idle,
    resume_effect_states,
    suspend_effect_states,
    suspend_idle_effects,
)
from samara.physics.multirotor import derivative, state_at_rest, zero_command
from samara.physics.types import CALM, Command, Environment, Reference, State, Vehicle
from samara.vehicles.parameters import parameter, with_parameters

if TYPE_CHECKING:
    from samara.compiler.compiled_step import CompiledStep, ScanCode

BACKENDS = ("python", "numpy", "llvm", "jax", "pallas")
FLIGHT_BACKENDS = ("llvm", "python", "numpy", "jax")
"""Backends for the physics of a flight: a GPU kernel needs many drones and many steps at once, a flight has neither."""
BRANCHING_BACKENDS = ("llvm", "jax", "pallas")
"""Backends that support branches: a step takes the idle path if its guard holds."""
REFERENCE = Reference(ZERO)


class HeldInputs(NamedTuple):
    """The constant inputs of a step besides its command: dt, the environment or () for calm air, and the varied parameters."""

    dt: Scalar
    environment: Scalar
    varied: tuple[Scalar, ...] = ()


class Scan(NamedTuple):
    """A body, the templates of its arguments, and its idle path, if it has one: the input of a backend."""

    body: Callable[[Tree, Tree, Tree], tuple[Tree, Tree]]
    templates: Templates
    idle_path: IdlePath | None = None


@dataclass(frozen=True)
class Stepper:
    """A vehicle and its integrator as bodies for a backend; `vary` names the parameters that are inputs of the step.

    An `environment` argument is a template; () folds calm air into the code.
    """

    vehicle: Vehicle
    integrator: str = "rk4"
    backend: str = "llvm"
    vary: tuple[str, ...] = ()

    def advance(self, state: State, command: Command, held_inputs: HeldInputs) -> State:
        """x(t + dt), with command and environment constant through the stages."""
        vehicle, environment = self._vehicle(held_inputs), held_inputs.environment or CALM
        next_state: State = self._integrate(
            lambda x: derivative(x, command, vehicle, environment), state, held_inputs.dt
        )
        return next_state

    def advance_idle(self, state: State, command: Command, held_inputs: HeldInputs) -> tuple[State, Scalar]:
        """x(t + dt) without the effects that can be idle, and the condition that they were idle."""
        vehicle, environment = self._vehicle(held_inputs), held_inputs.environment or CALM
        active_vehicle = suspend_idle_effects(vehicle)
        rate = lambda x: derivative(x, command, active_vehicle, environment)  # noqa: E731
        return resume_effect_states(self._integrate(rate, suspend_effect_states(state, vehicle), held_inputs.dt))

    def idle_condition(self, state: State, held_inputs: HeldInputs) -> Scalar:
        """The condition that all effects that can be idle are idle in this state."""
        return is_idle(state, self._vehicle(held_inputs), held_inputs.environment or CALM)

    def step(self, environment: Environment | tuple[()] = ()) -> Scan:
        """Build the scan under a constant command: carry x, held inputs (u, HeldInputs)."""

        def body(state: State, held_inputs: Tree, inputs: Tree) -> tuple[State, Scalar]:
            command, step_inputs = held_inputs
            return self.advance(state, command, step_inputs), ()

        def idle_body(state: State, held_inputs: Tree, inputs: Tree) -> tuple[State, Scalar, Scalar]:
            next_state, idle = self.advance_idle(state, *held_inputs)
            return next_state, (), idle

        templates = Templates(self._state, (self._command, self._held_inputs(environment)), ())
        return Scan(
            body,
            templates,
            self._idle_path(lambda state, held_inputs, inputs: self.idle_condition(state, held_inputs[1]), idle_body),
        )

    def trial_step(self, environment: Environment | tuple[()], rtol: float, atol: float) -> Scan:
        """Build the scan of a trial step of an adaptive integrator: carry (x', its error), held inputs (x, u, HeldInputs)."""
        tableau = find_integrator(self.integrator).tableau
        assert tableau is not None, self.integrator

        def body(carry: Tree, held_inputs: Tree, inputs: Tree) -> tuple[Tree, Tree]:
            state, command, step_inputs = held_inputs
            vehicle, air = self._vehicle(step_inputs), step_inputs.environment or CALM
            rate = lambda x: derivative(x, command, vehicle, air)  # noqa: E731
            return embedded_step(tableau, rate, state, step_inputs.dt, rtol, atol), ()

        return Scan(
            body, Templates((self._state, 0.0), (self._state, self._command, self._held_inputs(environment)), ())
        )

    def rollout(self, environment: Environment | tuple[()] = ()) -> Scan:
        """Build the scan with a command for each step: carry x, HeldInputs, inputs u, outputs x."""

        def body(state: State, held_inputs: HeldInputs, command: Command) -> tuple[State, State]:
            next_state = self.advance(state, command, held_inputs)
            return next_state, next_state

        def idle_body(state: State, held_inputs: HeldInputs, command: Command) -> tuple[State, State, Scalar]:
            next_state, idle = self.advance_idle(state, command, held_inputs)
            return next_state, next_state, idle

        templates = Templates(self._state, self._held_inputs(environment), self._command)
        return Scan(
            body,
            templates,
            self._idle_path(lambda state, held_inputs, command: self.idle_condition(state, held_inputs), idle_body),
        )

    def closed_loop(
        self, controller: Callable[..., Tree], initial_controller_state: Tree, environment: Environment | tuple[()] = ()
    ) -> Scan:
        """Build the scan with a reference for each step: carry (x, controller state), HeldInputs, outputs (x, u)."""

        def body(carry: Tree, held_inputs: HeldInputs, reference: Reference) -> tuple[Tree, Tree]:
            state, controller_state = carry
            command, controller_state = controller(state, reference, self._vehicle(held_inputs), controller_state)
            next_state = self.advance(state, command, held_inputs)
            return (next_state, controller_state), (next_state, command)

        def idle_body(carry: Tree, held_inputs: HeldInputs, reference: Reference) -> tuple[Tree, Tree, Tree]:
            state, controller_state = carry
            command, controller_state = controller(state, reference, self._vehicle(held_inputs), controller_state)
            next_state, idle = self.advance_idle(state, command, held_inputs)
            return (next_state, controller_state), (next_state, command), idle

        templates = Templates((self._state, initial_controller_state), self._held_inputs(environment), REFERENCE)
        return Scan(
            body,
            templates,
            self._idle_path(
                lambda carry, held_inputs, reference: self.idle_condition(carry[0], held_inputs), idle_body
            ),
        )

    def varied_parameters(self, vehicle: Vehicle | None = None) -> tuple[Scalar, ...]:
        """Return the varied parameters of this vehicle or another."""
        return tuple(parameter(vehicle or self.vehicle, path) for path in self.vary)

    def _vehicle(self, held_inputs: HeldInputs) -> Vehicle:
        return with_parameters(self.vehicle, self.vary, held_inputs.varied)

    def _idle_path(self, *bodies: Scalar) -> IdlePath | None:
        return IdlePath(*bodies) if has_idle_conditions(self.vehicle) else None

    @cached_property
    def _integrate(self) -> Callable[..., Tree]:
        if self.backend == "pallas" and self.integrator == "rk4":
            from samara.compiler.jax.folding_scalar import rk4_in_kernel

            return rk4_in_kernel
        return find_integrator(self.integrator).advance

    @property
    def _state(self) -> State:
        return state_at_rest(self.vehicle)

    @property
    def _command(self) -> Command:
        return zero_command(self.vehicle)

    def _held_inputs(self, environment: Environment | tuple[()]) -> HeldInputs:
        return HeldInputs(1e-3, environment, self.varied_parameters())


def require_backend(backend: str, allowed: tuple[str, ...] = BACKENDS) -> None:
    """Raise ValueError if the backend is not among `allowed`."""
    if backend not in allowed:
        raise ValueError(f"backend {quote_value(backend)}: expected one of {', '.join(allowed)}")


def compile_scan(backend: str, scan: Scan, *, dtype: str = "float64", fast: bool = False) -> CompiledScan:
    """Compile a scan over the caller's arrays."""
    body, templates, idle_path = scan
    options = {"idle_path": idle_path} if backend in BRANCHING_BACKENDS else {}
    return _compiler(backend)(body, templates, dtype=dtype, fast=fast, **options)


def _compiler(backend: str) -> Callable[..., CompiledScan]:
    if backend in ("jax", "pallas") and find_spec("jax") is None:
        raise missing_extra(f"backend {backend!r}", "JAX", "jax")
    if backend == "llvm":
        from samara.compiler.llvm.scan import compile_scan_llvm

        return compile_scan_llvm
    if backend == "jax":
        from samara.compiler.jax.scan import compile_scan_jax

        return compile_scan_jax
    if backend == "pallas":
        from samara.compiler.jax.scan import compile_scan_pallas

        return compile_scan_pallas
    return compile_scan_python


def compile_code(backend: str, scan: Scan) -> "CompiledStep | ScanCode":
    """Compile a scan without inputs, with its own memory: `compile_code(backend, scan).machine(n)`."""
    from samara.compiler.compiled_step import CompiledStep, ScanCode

    if backend == "llvm":
        return CompiledStep(
            lambda carry, held_inputs: scan.body(carry, held_inputs, ())[0], *scan.templates[:2], scan.idle_path
        )
    return ScanCode(compile_scan(backend, scan), scan.templates, one_by_one=backend == "python")
