"""Controller stage: the command of one drone, limited to the vehicle's range and mapped to the motors."""

from collections.abc import Callable
from functools import lru_cache, partial

from samara.control.registry import ControllerSpec, NamedController, create_controller
from samara.core.algebra import ZERO
from samara.core.ops import logical_and, where
from samara.core.quantity import Scalar, Tree
from samara.physics.rotors.rotor import SEA_LEVEL_DENSITY
from samara.physics.types import Command, Reference, State, Vehicle
from samara.sim.setup import DroneSetup
from samara.sim.stage import Stage, StageSet
from samara.sim.stages.estimator import estimate_slot
from samara.vehicles.limits import MAX_COMMAND, clamp_command
from samara.vehicles.trim import scale_to_density
from samara.world.obstacles import Solid

MAX_CACHED_CONTROLLERS = 64
REFERENCES_AHEAD = "references_ahead"


def control(
    estimate: State,
    reference: Reference,
    controller_state: Tree,
    invalid_commands: Scalar,
    armed: Scalar,
    *,
    controller: Callable[..., Tree],
    density: float = SEA_LEVEL_DENSITY,
    motor_map: tuple[int, ...] = (),
    vehicle: Vehicle | None = None,
    model: Vehicle | None = None,
) -> tuple[Command, Tree, Scalar]:
    """u = armed · clip(controller(x̂, r)); values that are not finite become 0 and are counted in `invalid_commands`.

    The controller uses the vehicle, or `model` if given, at the air density at home.
    """
    model_at_home = scale_to_density(vehicle if model is None else model, density)  # type: ignore[arg-type]
    command, controller_state = controller(estimate, reference, model_at_home, controller_state)
    finite_command = []
    for u in command:
        is_finite = logical_and(u > -MAX_COMMAND, u < MAX_COMMAND)
        finite_command.append(where(is_finite, u, 0.0))
        invalid_commands = invalid_commands + where(is_finite, 0.0, 1.0)
    limited = clamp_command(finite_command, model_at_home)
    if motor_map:
        limited = tuple(limited[channel] for channel in motor_map)
    return tuple(u * armed for u in limited), controller_state, invalid_commands


def build_controller(setup: DroneSetup) -> StageSet:
    """Build the stage of a named controller; Python calls functions and predictive controllers."""
    slots: dict[str, Tree] = {"armed": 1.0, "reference": Reference(ZERO)}
    named = named_controller(setup)
    if named is None:
        return StageSet(slots=slots, python_reason="controller in Python")
    if hasattr(named.call, "look_ahead"):
        reason = f"{named.name} solves a problem over its horizon"
        return StageSet(slots=slots, python_reason=reason, array_stages=partial(_build_predictive, setup, named))
    slots |= {"controller_state": named.initial_state, "invalid_commands": 0.0}
    return StageSet((_stage(setup, named.call, "reference"),), slots)


def _stage(setup: DroneSetup, controller: Callable[..., Tree], reference: str) -> Stage:
    reads = (estimate_slot(setup), reference, "controller_state", "invalid_commands", "armed")
    writes = ("command", "controller_state", "invalid_commands")
    vehicle_parameter = ("vehicle", setup.vehicle) if setup.model is None else ("model", setup.model)
    density = setup.flight.environment.air_density
    parameters = (("controller", controller), ("density", density), ("motor_map", setup.motor_map), vehicle_parameter)
    return Stage("controller", "control", control, reads, writes, parameters)


def _build_predictive(setup: DroneSetup, named: NamedController) -> StageSet:
    """Build the stage of a predictive controller on JAX arrays."""
    from samara.control.mpc.batch_jax import flight_controller

    predictive: Tree = named.call
    controller = flight_controller(
        predictive, scale_to_density(setup.controller_vehicle, setup.flight.environment.air_density)
    )
    ahead = (Reference(ZERO),) * len(predictive.look_ahead)
    slots = {"armed": 1.0, "invalid_commands": 0.0, "controller_state": controller.start, REFERENCES_AHEAD: ahead}
    reason = f"{named.name} plans over a horizon, for which a kernel has no arrays"
    return StageSet((_stage(setup, controller, REFERENCES_AHEAD),), slots, xla_only_reason=reason)


def named_controller(setup: DroneSetup) -> NamedController | None:
    """Create a drone's named controller for its vehicle at the air density at home; None for a function or an autopilot."""
    if setup.tuned_controller is None:
        return None
    vehicle = scale_to_density(setup.controller_vehicle, setup.flight.environment.air_density)
    avoids_obstacles = setup.tuned_controller.option_values.get("avoid_obstacles", False)
    solids = setup.flight.world.named_solids if avoids_obstacles else ()
    return _create_controller(setup.tuned_controller, vehicle, setup.healthy, setup.flight.period("control"), solids)


@lru_cache(maxsize=MAX_CACHED_CONTROLLERS)
def _create_controller(
    controller: ControllerSpec,
    vehicle: Vehicle,
    healthy: tuple[bool, ...],
    period: float,
    solids: tuple[tuple[str, Solid], ...],
) -> NamedController:
    return create_controller(
        controller.name, vehicle, healthy, period=period, solids=solids, **controller.option_values
    )
