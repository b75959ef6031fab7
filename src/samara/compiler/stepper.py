"""The step of a vehicle, written once for flights, rollouts and closed loops, and the one door to every backend.

    x(t + dt) = advance(x, u, Held(dt, environment, varied))

Each purpose has its own body around that step (`scan.py` says what a body is), and a backend compiles a body: into a scan over
arrays that are handed in (`compile_scan`), or into code on memory of its own (`code_of`). A vehicle with effects that say when
they are idle has a quiet step beside the whole one, which leaves them out (`samara.physics.idle_effects`).
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
"""What a flight's physics can run on: a kernel on a GPU is for many drones and many steps at once, and a flight has neither"""
GUARDED = ("llvm", "jax", "pallas")
"""Those that branch: a step goes the quiet way where it may"""
REFERENCE = Reference(ZERO)


class Held(NamedTuple):
    """What a step holds beside its command: its length, the environment or () for calm air, and the parameters that vary."""

    dt: Scalar
    environment: Scalar
    varied: tuple[Scalar, ...] = ()


class Scan(NamedTuple):
    """A body, the shapes of its arguments, and a shorter way through it, if there is one: what a backend compiles."""

    body: Callable[[Tree, Tree, Tree], tuple[Tree, Tree]]
    templates: Templates
    quiet: Quiet | None = None


@dataclass(frozen=True)
class Stepper:
    """A vehicle and its integrator as bodies for a backend; `vary` names the parameters that are inputs of the step.

    `environment`, where one is taken, is a template; () folds calm air in.
    """

    vehicle: Vehicle
    integrator: str = "rk4"
    backend: str = "llvm"
    vary: tuple[str, ...] = ()

    def advance(self, state: State, command: Command, held: Held) -> State:
        """x(t + dt), command and environment held through the stages"""
        vehicle, environment = self._vehicle(held), held.environment or CALM
        advanced: State = self._integrate(lambda x: derivative(x, command, vehicle, environment), state, held.dt)
        return advanced

    def advance_quietly(self, state: State, command: Command, held: Held) -> tuple[State, Scalar]:
        """x(t + dt) without the effects that may be idle, and whether they were, as a condition"""
        vehicle, environment = self._vehicle(held), held.environment or CALM
        without = quiet(vehicle)
        rate = lambda x: derivative(x, command, without, environment)  # noqa: E731
        return woken(self._integrate(rate, quieted(state, vehicle), held.dt))

    def idle(self, state: State, held: Held) -> Scalar:
        """Whether all effects that may be idle are, in this state, as a condition"""
        return all_idle(state, self._vehicle(held), held.environment or CALM)

    def step(self, environment: Environment | tuple[()] = ()) -> Scan:
        """A command held as well: carry x, held (u, Held)"""

        def body(state: State, held: Tree, inputs: Tree) -> tuple[State, Scalar]:
            command, rest = held
            return self.advance(state, command, rest), ()

        def brief(state: State, held: Tree, inputs: Tree) -> tuple[State, Scalar, Scalar]:
            after, idle = self.advance_quietly(state, *held)
            return after, (), idle

        templates = Templates(self._state, (self._command, self._held(environment)), ())
        return Scan(body, templates, self._quiet(lambda state, held, inputs: self.idle(state, held[1]), brief))

    def trial(self, environment: Environment | tuple[()], rtol: float, atol: float) -> Scan:
        """A step of a length still to be found: carry (x after it, its error), held (x, u, Held)"""
        tableau = integrator_named(self.integrator).tableau
        assert tableau is not None, self.integrator

        def body(carry: Tree, held: Tree, inputs: Tree) -> tuple[Tree, Tree]:
            state, command, rest = held
            vehicle, around = self._vehicle(rest), rest.environment or CALM
            rate = lambda x: derivative(x, command, vehicle, around)  # noqa: E731
            return embedded_step(tableau, rate, state, rest.dt, rtol, atol), ()

        return Scan(body, Templates((self._state, 0.0), (self._state, self._command, self._held(environment)), ()))

    def rollout(self, environment: Environment | tuple[()] = ()) -> Scan:
        """A command for each step: carry x, held Held, inputs u, outputs x"""

        def body(state: State, held: Held, command: Command) -> tuple[State, State]:
            after = self.advance(state, command, held)
            return after, after

        def brief(state: State, held: Held, command: Command) -> tuple[State, State, Scalar]:
            after, idle = self.advance_quietly(state, command, held)
            return after, after, idle

        templates = Templates(self._state, self._held(environment), self._command)
        return Scan(body, templates, self._quiet(lambda state, held, command: self.idle(state, held), brief))

    def closed_loop(
        self, controller: Callable[..., Tree], memory: Tree, environment: Environment | tuple[()] = ()
    ) -> Scan:
        """A reference for each step: carry (x, memory), held Held, inputs a reference, outputs (x, u)"""

        def body(carry: Tree, held: Held, reference: Reference) -> tuple[Tree, Tree]:
            state, own = carry
            command, own = controller(state, reference, self._vehicle(held), own)
            after = self.advance(state, command, held)
            return (after, own), (after, command)

        def brief(carry: Tree, held: Held, reference: Reference) -> tuple[Tree, Tree, Tree]:
            state, own = carry
            command, own = controller(state, reference, self._vehicle(held), own)
            after, idle = self.advance_quietly(state, command, held)
            return (after, own), (after, command), idle

        templates = Templates((self._state, memory), self._held(environment), REFERENCE)
        return Scan(body, templates, self._quiet(lambda carry, held, reference: self.idle(carry[0], held), brief))

    def varied(self, vehicle: Vehicle | None = None) -> tuple[Scalar, ...]:
        """The parameters that vary, of this vehicle or another"""
        return tuple(parameter(vehicle or self.vehicle, path) for path in self.vary)

    def _vehicle(self, held: Held) -> Vehicle:
        return with_parameters(self.vehicle, self.vary, held.varied)

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
    """A ValueError about a backend that is none of those"""
    if backend not in kinds:
        raise ValueError(f"backend {shown(backend)}: expected one of {', '.join(kinds)}")


def compile_scan(backend: str, scan: Scan, *, dtype: str = "float64", fast: bool = False) -> Run:
    """The scan on arrays that are handed in, compiled by a backend"""
    body, templates, quiet = scan
    guarded = {"quiet": quiet} if backend in GUARDED else {}
    return _compiler(backend)(body, templates, dtype=dtype, fast=fast, **guarded)


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
    """A scan without inputs on memory of its own: `code_of(backend, scan).machine(n)`"""
    from samara.compiler.compiled_step import CompiledStep, ScanCode

    if backend == "llvm":
        return CompiledStep(lambda carry, held: scan.body(carry, held, ())[0], *scan.templates[:2], scan.quiet)
    return ScanCode(compile_scan(backend, scan), scan.templates, one_by_one=backend == "python")
