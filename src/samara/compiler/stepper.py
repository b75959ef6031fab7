"""The step of a vehicle, written once for flights, rollouts and closed loops, and its compilation on every backend.

    x(t + dt) = advance(x, u, Held(dt, environment, varied))

Each purpose has a body around that step (see `scan.py`), and a backend compiles a body: into a scan over the caller's arrays
(`compile_scan`), or into code with its own memory (`code_of`). A vehicle with effects that can be idle has an idle path beside
the full step, which leaves them out (`samara.physics.idle_effects`).
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from typing import TYPE_CHECKING, NamedTuple

from samara.compiler.scan import Quiet, Run, Templates, compile_scan_python
from samara.core.algebra import ZERO
from samara.core.integrate import embedded_step, integrator_named
from samara.core.lazy_import import MissingExtraError
from samara.core.quantity import Scalar
from samara.core.sanitise import shown
from samara.core.tree import Tree
from samara.physics.idle_effects import all_idle, has_idle, quiet, quieted, woken
from samara.physics.multirotor import at_rest, derivative, empty_command
from samara.physics.types import CALM, Command, Environment, Reference, State, Vehicle
from samara.vehicles.parameters import parameter, with_parameters

if TYPE_CHECKING:
    from samara.compiler.compiled_step import CompiledStep, ScanCode

BACKENDS = ("python", "numpy", "llvm", "jax", "pallas")
IN_FLIGHT = ("llvm", "python", "numpy", "jax")
"""Backends for the physics of a flight: a GPU kernel needs many drones and many steps at once, a flight has neither."""
GUARDED = ("llvm", "jax", "pallas")
"""Backends that support branches: a step takes the idle path if its guard holds."""
REFERENCE = Reference(ZERO)


class Held(NamedTuple):
    """The constant inputs of a step besides its command: dt, the environment or () for calm air, and the varied parameters."""

    dt: Scalar
    environment: Scalar
    varied: tuple[Scalar, ...] = ()


class Scan(NamedTuple):
    """A body, the templates of its arguments, and its idle path, if it has one: the input of a backend."""

    body: Callable[[Tree, Tree, Tree], tuple[Tree, Tree]]
    templates: Templates
    quiet: Quiet | None = None


@dataclass(frozen=True)
class Stepper:
    """A vehicle and its integrator as bodies for a backend; `vary` names the parameters that are inputs of the step.

    An `environment` argument is a template; () folds calm air into the code.
    """

    vehicle: Vehicle
    integrator: str = "rk4"
    backend: str = "llvm"
    vary: tuple[str, ...] = ()

    def advance(self, state: State, command: Command, held_inputs: Held) -> State:
        """x(t + dt), with command and environment constant through the stages."""
        vehicle, environment = self._vehicle(held_inputs), held_inputs.environment or CALM
        next_state: State = self._integrate(
            lambda x: derivative(x, command, vehicle, environment), state, held_inputs.dt
        )
        return next_state

    def advance_quietly(self, state: State, command: Command, held_inputs: Held) -> tuple[State, Scalar]:
        """x(t + dt) without the effects that can be idle, and the condition that they were idle."""
        vehicle, environment = self._vehicle(held_inputs), held_inputs.environment or CALM
        active_vehicle = quiet(vehicle)
        rate = lambda x: derivative(x, command, active_vehicle, environment)  # noqa: E731
        return woken(self._integrate(rate, quieted(state, vehicle), held_inputs.dt))

    def idle(self, state: State, held_inputs: Held) -> Scalar:
        """The condition that all effects that can be idle are idle in this state."""
        return all_idle(state, self._vehicle(held_inputs), held_inputs.environment or CALM)

    def step(self, environment: Environment | tuple[()] = ()) -> Scan:
        """Build the scan under a constant command: carry x, held (u, Held)."""

        def body(state: State, held_inputs: Tree, inputs: Tree) -> tuple[State, Scalar]:
            command, step_inputs = held_inputs
            return self.advance(state, command, step_inputs), ()

        def idle_body(state: State, held_inputs: Tree, inputs: Tree) -> tuple[State, Scalar, Scalar]:
            next_state, idle = self.advance_quietly(state, *held_inputs)
            return next_state, (), idle

        templates = Templates(self._state, (self._command, self._held(environment)), ())
        return Scan(
            body, templates, self._quiet(lambda state, held_inputs, inputs: self.idle(state, held_inputs[1]), idle_body)
        )

    def trial(self, environment: Environment | tuple[()], rtol: float, atol: float) -> Scan:
        """Build the scan of a trial step of an adaptive integrator: carry (x after it, its error), held (x, u, Held)."""
        tableau = integrator_named(self.integrator).tableau
        assert tableau is not None, self.integrator

        def body(carry: Tree, held_inputs: Tree, inputs: Tree) -> tuple[Tree, Tree]:
            state, command, step_inputs = held_inputs
            vehicle, air = self._vehicle(step_inputs), step_inputs.environment or CALM
            rate = lambda x: derivative(x, command, vehicle, air)  # noqa: E731
            return embedded_step(tableau, rate, state, step_inputs.dt, rtol, atol), ()

        return Scan(body, Templates((self._state, 0.0), (self._state, self._command, self._held(environment)), ()))

    def rollout(self, environment: Environment | tuple[()] = ()) -> Scan:
        """Build the scan with a command for each step: carry x, held Held, inputs u, outputs x."""

        def body(state: State, held_inputs: Held, command: Command) -> tuple[State, State]:
            next_state = self.advance(state, command, held_inputs)
            return next_state, next_state

        def idle_body(state: State, held_inputs: Held, command: Command) -> tuple[State, State, Scalar]:
            next_state, idle = self.advance_quietly(state, command, held_inputs)
            return next_state, next_state, idle

        templates = Templates(self._state, self._held(environment), self._command)
        return Scan(
            body, templates, self._quiet(lambda state, held_inputs, command: self.idle(state, held_inputs), idle_body)
        )

    def closed_loop(
        self, controller: Callable[..., Tree], initial_controller_state: Tree, environment: Environment | tuple[()] = ()
    ) -> Scan:
        """Build the scan with a reference for each step: carry (x, controller state), held Held, outputs (x, u)."""

        def body(carry: Tree, held_inputs: Held, reference: Reference) -> tuple[Tree, Tree]:
            state, controller_state = carry
            command, controller_state = controller(state, reference, self._vehicle(held_inputs), controller_state)
            next_state = self.advance(state, command, held_inputs)
            return (next_state, controller_state), (next_state, command)

        def idle_body(carry: Tree, held_inputs: Held, reference: Reference) -> tuple[Tree, Tree, Tree]:
            state, controller_state = carry
            command, controller_state = controller(state, reference, self._vehicle(held_inputs), controller_state)
            next_state, idle = self.advance_quietly(state, command, held_inputs)
            return (next_state, controller_state), (next_state, command), idle

        templates = Templates((self._state, initial_controller_state), self._held(environment), REFERENCE)
        return Scan(
            body,
            templates,
            self._quiet(lambda carry, held_inputs, reference: self.idle(carry[0], held_inputs), idle_body),
        )

    def varied(self, vehicle: Vehicle | None = None) -> tuple[Scalar, ...]:
        """Return the varied parameters of this vehicle or another."""
        return tuple(parameter(vehicle or self.vehicle, path) for path in self.vary)

    def _vehicle(self, held_inputs: Held) -> Vehicle:
        return with_parameters(self.vehicle, self.vary, held_inputs.varied)

    def _quiet(self, *bodies: Scalar) -> Quiet | None:
        return Quiet(*bodies) if has_idle(self.vehicle) else None

    @cached_property
    def _integrate(self) -> Callable[..., Tree]:
        if self.backend == "pallas" and self.integrator == "rk4":
            from samara.compiler.jax.folding_scalar import rk4_in_kernel

            return rk4_in_kernel
        return integrator_named(self.integrator).advance

    @property
    def _state(self) -> State:
        return at_rest(self.vehicle)

    @property
    def _command(self) -> Command:
        return empty_command(self.vehicle)

    def _held(self, environment: Environment | tuple[()]) -> Held:
        return Held(1e-3, environment, self.varied())


def require_backend(backend: str, kinds: tuple[str, ...] = BACKENDS) -> None:
    """Raise ValueError if the backend is not among `kinds`."""
    if backend not in kinds:
        raise ValueError(f"backend {shown(backend)}: expected one of {', '.join(kinds)}")


def compile_scan(backend: str, scan: Scan, *, dtype: str = "float64", fast: bool = False) -> Run:
    """Compile a scan over the caller's arrays."""
    body, templates, idle_path = scan
    options = {"idle_path": idle_path} if backend in GUARDED else {}
    return _compiler(backend)(body, templates, dtype=dtype, fast=fast, **options)


def _compiler(backend: str) -> Callable[..., Run]:
    if backend in ("jax", "pallas") and find_spec("jax") is None:
        raise MissingExtraError(f"backend {backend!r} needs jax: pip install 'samara[jax]'")
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


def code_of(backend: str, scan: Scan) -> "CompiledStep | ScanCode":
    """Compile a scan without inputs, with its own memory: `code_of(backend, scan).machine(n)`."""
    from samara.compiler.compiled_step import CompiledStep, ScanCode

    if backend == "llvm":
        return CompiledStep(
            lambda carry, held_inputs: scan.body(carry, held_inputs, ())[0], *scan.templates[:2], scan.quiet
        )
    return ScanCode(compile_scan(backend, scan), scan.templates, one_by_one=backend == "python")
