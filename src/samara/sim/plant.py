"""The plant: the compiled physics of drones of one vehicle between two instants.

Command and environment are constant between instants. `rk4` takes the steps of the physics clock; `rk45` chooses smaller steps
within them, and stops at every touch-down and lift-off of a contact point, located to a microsecond. The backend `python` takes
the same steps drone by drone in plain floats, for debugging.
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
SMALLEST_STEP = 1e-8  # [s]: smaller steps would only resolve a jump of the force, as when a foot begins to slip
FIRST_STEP = 1e-4  # [s]
RTOL, ATOL = 1e-8, 1e-10
CODES = 16  # compiled vehicles to cache: compiling takes about a second


def _fixed_step(vehicle: Vehicle, integrator: str) -> StepFunction:
    return _step_function(_fixed_scan(vehicle, integrator, "llvm"))


def _fixed_scan(vehicle: Vehicle, integrator: str, backend: str) -> Scan:
    stepper, environment = Stepper(vehicle, integrator, backend), environment_of(vehicle)
    return observing_step(stepper, environment) if vehicle.has("contact") else stepper.step(environment)


def _depths_step(vehicle: Vehicle) -> StepFunction:
    return _step_function(_depths_scan(vehicle))


def _depths_scan(vehicle: Vehicle) -> Scan:
    state, environment = at_rest(vehicle), environment_of(vehicle)

    def body(depths: Tree, constants: Tree, inputs: Tree) -> tuple[Tree, Tree]:
        return contact_depths(constants[0], vehicle, constants[1]), ()

    return Scan(body, Templates(contact_depths(state, vehicle, environment), (state, environment), ()))


def _vehicle_code(
    step: Callable[..., StepFunction], vehicles: Sequence[Vehicle], references: Sequence[Vehicle] | None, *options: str
) -> CompiledStep:
    examples = None if references is None else [(vehicle, *options) for vehicle in references]
    return batch_code(step, [(vehicle, *options) for vehicle in vehicles], examples)


def _step_function(scan: Scan) -> StepFunction:
    carry, constants, _ = scan.templates
    return StepFunction(lambda carry, constants: scan.body(carry, constants, ())[0], carry, constants, scan.quiet)


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
    """Return `samara.sim.stages.physics.integrate` for a backend that branches: carry (x, `Contact`), with a quiet path."""
    vehicle = stepper.vehicle
    step, templates, quiet = stepper.step(environment)

    def body(carry: Tree, constants: Tree, inputs: Tree) -> tuple[Tree, Tree]:
        state, contact = carry
        step_environment = constants[1].environment
        next_state, _ = step(state, constants, inputs)
        return (next_state, contact_after_step(contact, state, next_state, vehicle, step_environment)), ()

    contact_templates = Templates((templates.carry, Contact()), templates.held, templates.inputs)
    if quiet is None:
        return Scan(body, contact_templates)

    def is_quiet(carry: Tree, constants: Tree, inputs: Tree) -> Scalar:
        return logical_and(quiet.idle(carry[0], constants, inputs), is_airborne(carry[0], constants))

    def quiet_body(carry: Tree, constants: Tree, inputs: Tree) -> tuple[Tree, Tree, Scalar]:
        state, contact = carry
        next_state, _, idle = quiet.body(state, constants, inputs)
        next_contact = contact_in_the_air(contact, next_state)
        return (
            (next_state, next_contact),
            (),
            logical_and(idle, logical_and(is_airborne(state, constants), is_airborne(next_state, constants))),
        )

    def is_airborne(state: State, constants: Tree) -> Scalar:
        return vehicle["contact"].is_out_of_reach(state.p_W, state.q_WB, constants[1].environment.ground)

    return Scan(body, contact_templates, Quiet(is_quiet, quiet_body))


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
        """Allocate the arrays of n drones and compile their physics.

        Args:
            vehicle: the vehicle, or the first of `vehicles`.
            n: drone count.
            integrator: "rk4" or an adaptive one.
            physics_us: period of the physics clock [µs].
            backend: of the compiled step.
            vehicles: those of the drones if they differ in parameters.
            references: vehicles that determine which parameters are inputs of the program, see
                `samara.compiler.batch_parameters`.
        """
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
        self.pace = [FIRST_STEP] * n  # [s]: the next step that each drone's error control would choose
        if not self.is_adaptive:
            code: Any = _scan_code(vehicle, integrator, backend) if not is_compiled else None
            if is_compiled:
                code = _vehicle_code(_fixed_step, vehicles, references, integrator)
            self._machine = code.machine(n)
            size = len(self.fields)
            self.state, inputs = self._machine.carry[:size], self._machine.held
            if vehicle.has("contact"):
                self.contact = self._machine.carry[size:]
        else:
            self._trial = _trial_code(vehicle, backend).machine()
            self.state = np.repeat(np.array(flatten(state), dtype=float)[:, None], n, axis=1)
            inputs = np.repeat(self._trial.held[len(self.state) :], n, axis=1)
        commands = vehicle.command_size
        self.command, self._dt, self.environment = inputs[:commands], inputs[commands], inputs[commands + 1 :]
        has_contact = vehicle.has("contact")
        self._depths: Tree = None
        if has_contact and is_compiled:
            self._depths = _vehicle_code(_depths_step, vehicles, references).machine(n)
        elif has_contact:
            self._depths = _depths_code(vehicle, backend).machine(n)
        self._one_depth = _depths_code(vehicle, backend).machine() if has_contact and self.is_adaptive else None
        self._held_us = 0

    @property
    def impact_speed(self) -> np.ndarray:
        """Maximum ground impact speed of each drone since this was last set to 0 [m/s]."""
        speeds: np.ndarray = self.contact[2]
        return speeds

    @property
    def touched(self) -> np.ndarray:
        """Whether each drone touched the ground after the last step, 1 or 0."""
        flags: np.ndarray = self.contact[0]
        return flags

    def single(self) -> "Plant":
        """Create a plant for one drone of the same vehicle, with the same steps."""
        options: dict[str, Any] = {
            "physics_us": self.physics_us,
            "backend": self.backend,
            "references": self.references,
        }
        return Plant(self.vehicle, integrator=self.integrator, **options)

    def row(self, name: str) -> int:
        """Return the row of `environment` that holds a field."""
        return self.environment_fields.index(name)

    def advance(self, start_us: int, end_us: int) -> None:
        """Integrate from one instant to the next."""
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
        """Return the steps as operations of a program; None if they are adaptive or another backend takes them."""
        if self.is_adaptive or self.backend != "llvm":
            return None
        return [Operation("step", due, (self._machine, self._dt))]

    def fly(self, start_us: int, duration: float) -> None:
        """Integrate over any duration [s]: a physics step, or the remainder of one after an impact."""
        if self.is_adaptive:
            for drone in range(self.n):
                self.pace[drone] = FIRST_STEP  # the result must not depend on earlier steps
                self._adapt(drone, start_us, duration)
            return
        self._dt[:] = duration
        self._held_us = 0
        self._machine.run()

    def _hold(self, dt_us: int) -> None:
        self._dt[:] = dt_us / MICROSECONDS
        self._held_us = dt_us

    # Ground contact --------------------------------------------------------------------------------------------------

    def depths(self) -> np.ndarray:
        """Return the depth of each contact point of each drone below the ground, (points, n) [m]."""
        if self._depths is None:
            return np.empty((0, self.n))
        components = len(self.fields)
        self._depths.held[:components] = self.state
        self._depths.held[components:] = self.environment
        self._depths.run()
        return self._depths.carry

    # Adaptive steps --------------------------------------------------------------------------------------------------

    def _adapt(self, drone: int, start_us: int, duration: float) -> None:
        """Integrate over the duration by Dormand–Prince steps, split at each touch-down and lift-off of a contact point."""
        machine, size = self._trial, len(self.fields)
        machine.held[:size, 0] = self.state[:, drone]
        commands = size + len(self.command)
        machine.held[size:commands, 0] = self.command[:, drone]
        machine.held[commands + 1 :, 0] = self.environment[:, drone]
        time, h = 0.0, self.pace[drone]
        contact_flags = self._touching(machine.held[:size])
        while time < duration:
            is_last = h >= duration - time
            step = min(h, duration - time)
            error = self._try(step)
            if not error < np.inf and step <= SMALLEST_STEP:
                raise FloatingPointError(f"the rate of change is not finite at {start_us / MICROSECONDS + time:.6f} s")
            factor = step_factor(error, DORMAND_PRINCE.order)
            if not error <= 1.0 and step > SMALLEST_STEP:
                h = max(step * factor, SMALLEST_STEP)
                continue
            next_flags = self._touching(machine.carry[:size])
            if next_flags != contact_flags:
                step, next_flags = self._first_change(step, contact_flags, next_flags)
                self.contact_times_us.append(start_us + (time + step) * MICROSECONDS)
                if not any(contact_flags):
                    speed = float(np.linalg.norm(machine.carry[3:6, 0]))
                    self.impact_speed[drone] = max(speed, self.impact_speed[drone])
                contact_flags, is_last, factor = next_flags, False, 1.0
            machine.held[:size] = machine.carry[:size]
            time = duration if is_last else time + step
            h = max(step * factor, h if is_last else 0.0) if factor >= 1.0 else step * factor
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
        self, h: float, initial_flags: tuple[bool, ...], final_flags: tuple[bool, ...]
    ) -> tuple[float, tuple[bool, ...]]:
        """Find the shortest step, to a microsecond, after which a contact flag has changed; the trial step ends there."""
        size, low = len(self.fields), 0.0
        while h - low > CONTACT_RESOLUTION:
            middle = 0.5 * (low + h)
            self._try(middle)
            flags = self._touching(self._trial.carry[:size])
            low, h, final_flags = (middle, h, final_flags) if flags == initial_flags else (low, middle, flags)
        self._try(h)
        return h, final_flags


def place(plant: Plant, drone: int, state: State) -> None:
    """Set the state of one drone of the plant."""
    plant.state[:, drone] = flatten(state)
    plant.touched[drone] = Contact().touched


def state_of(plant: Plant, drone: int) -> State:
    """Return the state of one drone, as a named tuple of floats."""
    state: State = unflatten(at_rest(plant.vehicle), iter(plant.state[:, drone].tolist()))
    return state
