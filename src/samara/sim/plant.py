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
from samara.compiler.scan import IdlePath, Templates
from samara.compiler.stepper import FLIGHT_BACKENDS as BACKENDS
from samara.compiler.stepper import Scan, Stepper, compile_code, require_backend
from samara.core.integrate import DORMAND_PRINCE, FLIGHT_INTEGRATORS, INTEGRATORS, find_integrator, step_factor
from samara.core.ops import logical_and
from samara.core.quantity import Scalar, Tree
from samara.core.tree import flatten, leaf_names, unflatten
from samara.physics.multirotor import complete_environment, state_at_rest, state_names
from samara.physics.types import Environment, State, Vehicle
from samara.scenario.timeline import MICROSECONDS, plant_steps
from samara.sim.stages.physics import ContactStatus, airborne_contact, contact_after_step
from samara.vehicles.defaults import contact_depths

CONTACT_RESOLUTION = 1e-6  # [s]
MIN_STEP = 1e-8  # [s]: smaller steps would only resolve a jump of the force, as when a foot begins to slip
INITIAL_STEP = 1e-4  # [s]
RTOL, ATOL = 1e-8, 1e-10
MAX_CACHED_CODES = 16  # compiled vehicles to cache: compiling takes about a second


def _fixed_step(vehicle: Vehicle, integrator: str) -> StepFunction:
    return _step_function(_fixed_scan(vehicle, integrator, "llvm"))


def _fixed_scan(vehicle: Vehicle, integrator: str, backend: str) -> Scan:
    stepper, environment = Stepper(vehicle, integrator, backend), complete_environment(vehicle)
    return contact_step(stepper, environment) if vehicle.has("contact") else stepper.step(environment)


def _depths_step(vehicle: Vehicle) -> StepFunction:
    return _step_function(_depths_scan(vehicle))


def _depths_scan(vehicle: Vehicle) -> Scan:
    state, environment = state_at_rest(vehicle), complete_environment(vehicle)

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
    return StepFunction(lambda carry, constants: scan.body(carry, constants, ())[0], carry, constants, scan.idle_path)


@lru_cache(maxsize=MAX_CACHED_CODES)
def _scan_code(vehicle: Vehicle, integrator: str, backend: str) -> CompiledStep | ScanCode:
    return compile_code(backend, _fixed_scan(vehicle, integrator, backend))


@lru_cache(maxsize=MAX_CACHED_CODES)
def _trial_code(vehicle: Vehicle, backend: str) -> CompiledStep | ScanCode:
    return compile_code(
        backend, Stepper(vehicle, "rk45", backend).trial_step(complete_environment(vehicle), RTOL, ATOL)
    )


@lru_cache(maxsize=MAX_CACHED_CODES)
def _depths_code(vehicle: Vehicle, backend: str) -> CompiledStep | ScanCode:
    return compile_code(backend, _depths_scan(vehicle))


def contact_step(stepper: Stepper, environment: Environment) -> Scan:
    """Return `samara.sim.stages.physics.integrate` for a backend that branches: carry (x, `ContactStatus`), and a quiet
    path."""
    vehicle = stepper.vehicle
    step, templates, quiet = stepper.step(environment)

    def body(carry: Tree, constants: Tree, inputs: Tree) -> tuple[Tree, Tree]:
        state, contact = carry
        step_environment = constants[1].environment
        next_state, _ = step(state, constants, inputs)
        return (next_state, contact_after_step(contact, state, next_state, vehicle, step_environment)), ()

    contact_templates = Templates((templates.carry, ContactStatus()), templates.held_inputs, templates.inputs)
    if quiet is None:
        return Scan(body, contact_templates)

    def is_quiet(carry: Tree, constants: Tree, inputs: Tree) -> Scalar:
        return logical_and(quiet.guard(carry[0], constants, inputs), is_airborne(carry[0], constants))

    def quiet_body(carry: Tree, constants: Tree, inputs: Tree) -> tuple[Tree, Tree, Scalar]:
        state, contact = carry
        next_state, _, idle = quiet.body(state, constants, inputs)
        next_contact = airborne_contact(contact, next_state)
        return (
            (next_state, next_contact),
            (),
            logical_and(idle, logical_and(is_airborne(state, constants), is_airborne(next_state, constants))),
        )

    def is_airborne(state: State, constants: Tree) -> Scalar:
        return vehicle["contact"].is_clear(state.p_W, state.q_WB, constants[1].environment.ground)

    return Scan(body, contact_templates, IdlePath(is_quiet, quiet_body))


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
            backend: backend of the compiled step.
            vehicles: those of the drones if they differ in parameters.
            references: vehicles that determine which parameters are inputs of the program, see
                `samara.compiler.batch_parameters`.
        """
        find_integrator(integrator, FLIGHT_INTEGRATORS)
        require_backend(backend, BACKENDS)
        self.vehicle, self.integrator, self.physics_us, self.n = vehicle, integrator, physics_us, n
        self.backend, self.references, vehicles = backend, references, vehicles or (vehicle,)
        self.is_adaptive = INTEGRATORS[integrator].is_adaptive
        is_compiled = backend == "llvm" and not self.is_adaptive
        if not is_compiled:
            require_equal(vehicles)
        state, environment = state_at_rest(vehicle), complete_environment(vehicle)
        self.fields = state_names(vehicle)
        self.environment_fields = tuple(leaf_names(environment))
        self.contact_times_us: list[float] = []
        self.contact = np.repeat(np.array(ContactStatus())[:, None], n, axis=1)  # rows are those of a `ContactStatus`
        self.step_sizes = [INITIAL_STEP] * n  # [s]: the next step that each drone's error control would choose
        if not self.is_adaptive:
            code: Any = _scan_code(vehicle, integrator, backend) if not is_compiled else None
            if is_compiled:
                code = _vehicle_code(_fixed_step, vehicles, references, integrator)
            self._machine = code.machine(n)
            size = len(self.fields)
            self.state, inputs = self._machine.carry[:size], self._machine.held_inputs
            if vehicle.has("contact"):
                self.contact = self._machine.carry[size:]
        else:
            self._trial = _trial_code(vehicle, backend).machine()
            self.state = np.repeat(np.array(flatten(state), dtype=float)[:, None], n, axis=1)
            inputs = np.repeat(self._trial.held_inputs[len(self.state) :], n, axis=1)
        commands = vehicle.command_size
        self.command, self._dt, self.environment = inputs[:commands], inputs[commands], inputs[commands + 1 :]
        has_contact = vehicle.has("contact")
        self._depths: Tree = None
        if has_contact and is_compiled:
            self._depths = _vehicle_code(_depths_step, vehicles, references).machine(n)
        elif has_contact:
            self._depths = _depths_code(vehicle, backend).machine(n)
        self._single_depths = _depths_code(vehicle, backend).machine() if has_contact and self.is_adaptive else None
        self._step_us = 0

    @property
    def impact_speed(self) -> np.ndarray:
        """Maximum ground impact speed of each drone since this was last set to 0 [m/s]."""
        speeds: np.ndarray = self.contact[2]
        return speeds

    @property
    def in_contact(self) -> np.ndarray:
        """Whether each drone touched the ground after the last step, 1 or 0."""
        flags: np.ndarray = self.contact[0]
        return flags

    def single_plant(self) -> "Plant":
        """Create a plant for one drone of the same vehicle, with the same steps."""
        options: dict[str, Any] = {
            "physics_us": self.physics_us,
            "backend": self.backend,
            "references": self.references,
        }
        return Plant(self.vehicle, integrator=self.integrator, **options)

    def environment_row(self, name: str) -> int:
        """Return the row of `environment` that holds a field."""
        return self.environment_fields.index(name)

    def advance(self, start_us: int, end_us: int) -> None:
        """Integrate from one instant to the next."""
        if self.is_adaptive:
            for drone in range(self.n):
                self._integrate_adaptively(drone, start_us, (end_us - start_us) / MICROSECONDS)
            return
        physics_us = self.physics_us
        if start_us % physics_us == 0 and (end_us - start_us) % physics_us == 0:
            if self._step_us != physics_us:
                self._set_step(physics_us)
            self._machine.run((end_us - start_us) // physics_us)
            return
        for dt_us, steps in plant_steps(start_us, end_us, physics_us):
            self._set_step(dt_us)
            self._machine.run(steps)

    def operations(self, due: int) -> list[Operation] | None:
        """Return the steps as operations of a program; None if they are adaptive or another backend takes them."""
        if self.is_adaptive or self.backend != "llvm":
            return None
        return [Operation("step", due, (self._machine, self._dt))]

    def integrate(self, start_us: int, duration: float) -> None:
        """Integrate over any duration [s]: a physics step, or the remainder of one after an impact."""
        if self.is_adaptive:
            for drone in range(self.n):
                self.step_sizes[drone] = INITIAL_STEP  # the result must not depend on earlier steps
                self._integrate_adaptively(drone, start_us, duration)
            return
        self._dt[:] = duration
        self._step_us = 0
        self._machine.run()

    def _set_step(self, dt_us: int) -> None:
        self._dt[:] = dt_us / MICROSECONDS
        self._step_us = dt_us

    # Ground contact --------------------------------------------------------------------------------------------------

    def depths(self) -> np.ndarray:
        """Return the depth of each contact point of each drone below the ground, (points, n) [m]."""
        if self._depths is None:
            return np.empty((0, self.n))
        components = len(self.fields)
        self._depths.held_inputs[:components] = self.state
        self._depths.held_inputs[components:] = self.environment
        self._depths.run()
        return self._depths.carry

    # Adaptive steps --------------------------------------------------------------------------------------------------

    def _integrate_adaptively(self, drone: int, start_us: int, duration: float) -> None:
        """Integrate over the duration by Dormand–Prince steps, split at each touch-down and lift-off of a contact point."""
        machine, size = self._trial, len(self.fields)
        machine.held_inputs[:size, 0] = self.state[:, drone]
        commands = size + len(self.command)
        machine.held_inputs[size:commands, 0] = self.command[:, drone]
        machine.held_inputs[commands + 1 :, 0] = self.environment[:, drone]
        time, h = 0.0, self.step_sizes[drone]
        contact_flags = self._contact_flags(machine.held_inputs[:size])
        while time < duration:
            is_last = h >= duration - time
            step = min(h, duration - time)
            error = self._trial_step(step)
            if not error < np.inf and step <= MIN_STEP:
                raise FloatingPointError(f"the rate of change is not finite at {start_us / MICROSECONDS + time:.6f} s")
            factor = step_factor(error, DORMAND_PRINCE.order)
            if not error <= 1.0 and step > MIN_STEP:
                h = max(step * factor, MIN_STEP)
                continue
            next_flags = self._contact_flags(machine.carry[:size])
            if next_flags != contact_flags:
                step, next_flags = self._locate_contact_change(step, contact_flags, next_flags)
                self.contact_times_us.append(start_us + (time + step) * MICROSECONDS)
                if not any(contact_flags):
                    speed = float(np.linalg.norm(machine.carry[3:6, 0]))
                    self.impact_speed[drone] = max(speed, self.impact_speed[drone])
                contact_flags, is_last, factor = next_flags, False, 1.0
            machine.held_inputs[:size] = machine.carry[:size]
            time = duration if is_last else time + step
            h = max(step * factor, h if is_last else 0.0) if factor >= 1.0 else step * factor
        self.step_sizes[drone] = h
        self.state[:, drone] = machine.held_inputs[:size, 0]

    def _trial_step(self, h: float) -> float:
        self._trial.held_inputs[len(self.fields) + len(self.command)] = h
        self._trial.run()
        return float(self._trial.carry[-1, 0])

    def _contact_flags(self, state: np.ndarray) -> tuple[bool, ...]:
        if self._single_depths is None:
            return ()
        components = len(self.fields)
        self._single_depths.held_inputs[:components] = state
        self._single_depths.held_inputs[components:] = self._trial.held_inputs[-len(self.environment_fields) :]
        self._single_depths.run()
        return tuple((self._single_depths.carry[:, 0] > 0.0).tolist())

    def _locate_contact_change(
        self, h: float, initial_flags: tuple[bool, ...], final_flags: tuple[bool, ...]
    ) -> tuple[float, tuple[bool, ...]]:
        """Find the shortest step, to a microsecond, after which a contact flag has changed; the trial step ends there."""
        size, low = len(self.fields), 0.0
        while h - low > CONTACT_RESOLUTION:
            middle = 0.5 * (low + h)
            self._trial_step(middle)
            flags = self._contact_flags(self._trial.carry[:size])
            low, h, final_flags = (middle, h, final_flags) if flags == initial_flags else (low, middle, flags)
        self._trial_step(h)
        return h, final_flags


def set_plant_state(plant: Plant, drone: int, state: State) -> None:
    """Set the state of one drone of the plant."""
    plant.state[:, drone] = flatten(state)
    plant.in_contact[drone] = ContactStatus().in_contact


def plant_state(plant: Plant, drone: int) -> State:
    """Return the state of one drone, as a named tuple of floats."""
    state: State = unflatten(state_at_rest(plant.vehicle), iter(plant.state[:, drone].tolist()))
    return state
