"""The plant: drones of one vehicle between two instants, as machine code.

Command and environment are held from instant to instant. `rk4` takes the steps of the physics axis; `rk45` chooses its own
within them, and stops at every touch-down and lift-off of a contact point, found to a microsecond. On the backend `python`
the same steps are taken one drone after the other in plain floats, for whoever wants to look at them in a debugger.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from samara.compiler.batch_parameters import StepFunction, batch_code, require_equal
from samara.compiler.compiled_step import CompiledStep, ScanCode
from samara.compiler.llvm.flight_loop import Operation
from samara.compiler.scan import Quiet, Templates
from samara.compiler.stepper import IN_FLIGHT as BACKENDS
from samara.compiler.stepper import Scan, Stepper, code_of, require_backend
from samara.core.integrate import DORMAND_PRINCE, IN_FLIGHT, INTEGRATORS, integrator_named, step_factor
from samara.core.ops import logical_and
from samara.core.quantity import Scalar, Tree
from samara.core.tree import flatten, leaf_names, unflatten
from samara.physics.multirotor import at_rest, environment_of, state_names
from samara.physics.types import Environment, State, Vehicle
from samara.scenario.timeline import MICROSECONDS, plant_steps
from samara.sim.stages.physics import Contact, contact_after_step, contact_in_the_air
from samara.vehicles.defaults import contact_depths

CONTACT_RESOLUTION = 1e-6  # [s]
SMALLEST_STEP = (
    1e-8  # [s]: what asks for less is a jump of the force, as where a foot begins to slip, and is stepped over
)
FIRST_STEP = 1e-4  # [s]
RTOL, ATOL = 1e-8, 1e-10
CODES = 16  # vehicles whose machine code is kept: compiling takes a second, and flying it again none


def _fixed_step(vehicle: Vehicle, integrator: str) -> StepFunction:
    return _step_function(_fixed_scan(vehicle, integrator, "llvm"))


def _fixed_scan(vehicle: Vehicle, integrator: str, backend: str) -> Scan:
    stepper, environment = Stepper(vehicle, integrator, backend), environment_of(vehicle)
    return observing_step(stepper, environment) if vehicle.has("contact") else stepper.step(environment)


def _depths_step(vehicle: Vehicle) -> StepFunction:
    return _step_function(_depths_scan(vehicle))


def _depths_scan(vehicle: Vehicle) -> Scan:
    state, environment = at_rest(vehicle), environment_of(vehicle)

    def body(depths: Tree, held: Tree, inputs: Tree) -> tuple[Tree, Tree]:
        return contact_depths(held[0], vehicle, held[1]), ()

    return Scan(body, Templates(contact_depths(state, vehicle, environment), (state, environment), ()))


def _vehicle_code(
    step: Callable[..., StepFunction], vehicles: Sequence[Vehicle], references: Sequence[Vehicle] | None, *options: str
) -> CompiledStep:
    examples = None if references is None else [(vehicle, *options) for vehicle in references]
    return batch_code(step, [(vehicle, *options) for vehicle in vehicles], examples)


def _step_function(scan: Scan) -> StepFunction:
    carry, held, _ = scan.templates
    return StepFunction(lambda carry, held: scan.body(carry, held, ())[0], carry, held, scan.quiet)


@lru_cache(maxsize=CODES)
def _scan_code(vehicle: Vehicle, integrator: str, backend: str) -> CompiledStep | ScanCode:
    return code_of(backend, _fixed_scan(vehicle, integrator, backend))


@lru_cache(maxsize=CODES)
def _trial_code(vehicle: Vehicle, backend: str) -> CompiledStep | ScanCode:
    return code_of(backend, Stepper(vehicle, "rk45", backend).trial(environment_of(vehicle), RTOL, ATOL))


@lru_cache(maxsize=CODES)
def _depths_code(vehicle: Vehicle, backend: str) -> CompiledStep | ScanCode:
    return code_of(backend, _depths_scan(vehicle))


def observing_step(stepper: Stepper, environment: Environment) -> Scan:
    """`samara.sim.stages.physics.integrate` for a backend that branches: carry (x, `Contact`), and a quiet way through it"""
    vehicle = stepper.vehicle
    once, templates, quiet = stepper.step(environment)

    def body(carry: Tree, held: Tree, inputs: Tree) -> tuple[Tree, Tree]:
        state, contact = carry
        around = held[1].environment
        after, _ = once(state, held, inputs)
        return (after, contact_after_step(contact, state, after, vehicle, around)), ()

    both = Templates((templates.carry, Contact()), templates.held, templates.inputs)
    if quiet is None:
        return Scan(body, both)

    def worth_it(carry: Tree, held: Tree, inputs: Tree) -> Scalar:
        return logical_and(quiet.idle(carry[0], held, inputs), is_free(carry[0], held))

    def brief(carry: Tree, held: Tree, inputs: Tree) -> tuple[Tree, Tree, Scalar]:
        state, contact = carry
        after, _, idle = quiet.body(state, held, inputs)
        free = contact_in_the_air(contact, after)
        return (after, free), (), logical_and(idle, logical_and(is_free(state, held), is_free(after, held)))

    def is_free(state: State, held: Tree) -> Scalar:
        return vehicle["contact"].is_out_of_reach(state.p_W, state.q_WB, held[1].environment.ground)

    return Scan(body, both, Quiet(worth_it, brief))


class Plant:
    """n drones of one vehicle: `state` (components, n), `command` and `environment` are arrays to be read and written.

    `fields` and `environment_fields` name the rows.
    """

    def __init__(
        self,
        vehicle: Vehicle,
        *,
        n: int = 1,
        integrator: str = "rk4",
        physics_us: int = 1000,
        backend: str = "llvm",
        vehicles: Sequence[Vehicle] = (),
        references: Sequence[Vehicle] | None = None,
    ) -> None:
        """`vehicles` are those of the drones if they differ in parameters, with `vehicle` the first of them; `references`
        determine which parameters are inputs of the program, see `samara.compiler.batch_parameters`"""
        integrator_named(integrator, IN_FLIGHT)
        require_backend(backend, BACKENDS)
        self.vehicle, self.integrator, self.physics_us, self.n = vehicle, integrator, physics_us, n
        self.backend, self.references, vehicles = backend, references, vehicles or (vehicle,)
        self.is_adaptive = INTEGRATORS[integrator].adaptive
        is_compiled = backend == "llvm" and not self.is_adaptive
        if not is_compiled:
            require_equal(vehicles)
        state, environment = at_rest(vehicle), environment_of(vehicle)
        self.fields = state_names(vehicle)
        self.environment_fields = tuple(leaf_names(environment))
        self.contact_times_us: list[float] = []
        self.contact = np.repeat(np.array(Contact())[:, None], n, axis=1)  # rows are those of a `Contact`
        self.pace = [FIRST_STEP] * n  # [s]: the next step that each drone would choose
        if not self.is_adaptive:
            code: Any = _scan_code(vehicle, integrator, backend) if not is_compiled else None
            if is_compiled:
                code = _vehicle_code(_fixed_step, vehicles, references, integrator)
            self._machine = code.machine(n)
            size = len(self.fields)
            self.state, held = self._machine.carry[:size], self._machine.held
            if vehicle.has("contact"):
                self.contact = self._machine.carry[size:]
        else:
            self._trial = _trial_code(vehicle, backend).machine()
            self.state = np.repeat(np.array(flatten(state), dtype=float)[:, None], n, axis=1)
            held = np.repeat(self._trial.held[len(self.state) :], n, axis=1)
        commands = vehicle.command_size
        self.command, self._dt, self.environment = held[:commands], held[commands], held[commands + 1 :]
        touches = vehicle.has("contact")
        self._depths: Tree = None
        if touches and is_compiled:
            self._depths = _vehicle_code(_depths_step, vehicles, references).machine(n)
        elif touches:
            self._depths = _depths_code(vehicle, backend).machine(n)
        self._one_depth = _depths_code(vehicle, backend).machine() if touches and self.is_adaptive else None
        self._held_us = 0

    @property
    def impact_speed(self) -> np.ndarray:
        """The fastest each came to the ground, since this was last set to 0  [m/s]"""
        own: np.ndarray = self.contact[2]
        return own

    @property
    def touched(self) -> np.ndarray:
        """Whether each touched the ground after the last step, 1 or 0"""
        own: np.ndarray = self.contact[0]
        return own

    def single(self) -> "Plant":
        """A plant for one drone of the same vehicle, with the same steps"""
        options: dict[str, Any] = {
            "physics_us": self.physics_us,
            "backend": self.backend,
            "references": self.references,
        }
        return Plant(self.vehicle, integrator=self.integrator, **options)

    def row(self, name: str) -> int:
        """The row of `environment` that a field is in"""
        return self.environment_fields.index(name)

    def advance(self, start_us: int, end_us: int) -> None:
        """From one instant to the next"""
        if self.is_adaptive:
            for drone in range(self.n):
                self._adapt(drone, start_us, (end_us - start_us) / MICROSECONDS)
            return
        physics_us = self.physics_us
        if start_us % physics_us == 0 and (end_us - start_us) % physics_us == 0:
            if self._held_us != physics_us:
                self._hold(physics_us)
            self._machine.run((end_us - start_us) // physics_us)
            return
        for dt_us, steps in plant_steps(start_us, end_us, physics_us):
            self._hold(dt_us)
            self._machine.run(steps)

    def operations(self, due: int) -> list[Operation] | None:
        """Its steps as part of a program; None where it chooses them itself, or another backend takes them"""
        if self.is_adaptive or self.backend != "llvm":
            return None
        return [Operation("step", due, (self._machine, self._dt))]

    def fly(self, start_us: int, duration: float) -> None:
        """One step of any length  [s]: a physics step, or what is left of one after an impact"""
        if self.is_adaptive:
            for drone in range(self.n):
                self.pace[drone] = FIRST_STEP  # as if it began here: what was flown before must not matter
                self._adapt(drone, start_us, duration)
            return
        self._dt[:] = duration
        self._held_us = 0
        self._machine.run()

    def _hold(self, dt_us: int) -> None:
        self._dt[:] = dt_us / MICROSECONDS
        self._held_us = dt_us

    # Touching the ground ---------------------------------------------------------------------------------------------

    def depths(self) -> np.ndarray:
        """How deep each contact point of each drone is below the ground, (points, n)  [m]"""
        if self._depths is None:
            return np.empty((0, self.n))
        components = len(self.fields)
        self._depths.held[:components] = self.state
        self._depths.held[components:] = self.environment
        self._depths.run()
        return self._depths.carry

    # Steps of its own choice -----------------------------------------------------------------------------------------

    def _adapt(self, drone: int, start_us: int, duration: float) -> None:
        """Dormand and Prince's step through the duration, split where a contact point touches down or lifts off."""
        machine, size = self._trial, len(self.fields)
        machine.held[:size, 0] = self.state[:, drone]
        commands = size + len(self.command)
        machine.held[size:commands, 0] = self.command[:, drone]
        machine.held[commands + 1 :, 0] = self.environment[:, drone]
        time, h = 0.0, self.pace[drone]
        touching = self._touching(machine.held[:size])
        while time < duration:
            last = h >= duration - time
            tried = min(h, duration - time)
            error = self._try(tried)
            if not error < np.inf and tried <= SMALLEST_STEP:
                raise FloatingPointError(f"the rate of change is not finite at {start_us / MICROSECONDS + time:.6f} s")
            factor = step_factor(error, DORMAND_PRINCE.order)
            if not error <= 1.0 and tried > SMALLEST_STEP:
                h = max(tried * factor, SMALLEST_STEP)
                continue
            now = self._touching(machine.carry[:size])
            if now != touching:
                tried, now = self._first_change(tried, touching, now)
                self.contact_times_us.append(start_us + (time + tried) * MICROSECONDS)
                if not any(touching):
                    speed = float(np.linalg.norm(machine.carry[3:6, 0]))
                    self.impact_speed[drone] = max(speed, self.impact_speed[drone])
                touching, last, factor = now, False, 1.0
            machine.held[:size] = machine.carry[:size]
            time = duration if last else time + tried
            h = max(tried * factor, h if last else 0.0) if factor >= 1.0 else tried * factor
        self.pace[drone] = h
        self.state[:, drone] = machine.held[:size, 0]

    def _try(self, h: float) -> float:
        self._trial.held[len(self.fields) + len(self.command)] = h
        self._trial.run()
        return float(self._trial.carry[-1, 0])

    def _touching(self, state: np.ndarray) -> tuple[bool, ...]:
        if self._one_depth is None:
            return ()
        components = len(self.fields)
        self._one_depth.held[:components] = state
        self._one_depth.held[components:] = self._trial.held[-len(self.environment_fields) :]
        self._one_depth.run()
        return tuple((self._one_depth.carry[:, 0] > 0.0).tolist())

    def _first_change(
        self, h: float, before: tuple[bool, ...], after: tuple[bool, ...]
    ) -> tuple[float, tuple[bool, ...]]:
        """The shortest step, to a microsecond, after which a contact point's touch has changed; it is left in place."""
        size, low = len(self.fields), 0.0
        while h - low > CONTACT_RESOLUTION:
            middle = 0.5 * (low + h)
            self._try(middle)
            now = self._touching(self._trial.carry[:size])
            low, h, after = (middle, h, after) if now == before else (low, middle, now)
        self._try(h)
        return h, after


def place(plant: Plant, drone: int, state: State) -> None:
    """Puts a drone of the plant into a state"""
    plant.state[:, drone] = flatten(state)
    plant.touched[drone] = Contact().touched


def state_of(plant: Plant, drone: int) -> State:
    """The state of one drone, as a named tuple of floats"""
    own: State = unflatten(at_rest(plant.vehicle), iter(plant.state[:, drone].tolist()))
    return own
