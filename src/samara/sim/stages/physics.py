"""The physics steps between two instants, and the ground contact and impact speed after each."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from samara.core.algebra import norm
from samara.core.block_ops import ConstantTable
from samara.core.integrate import INTEGRATORS, find_integrator
from samara.core.ops import equal, logical_and, logical_or, maximum, where
from samara.core.quantity import Scalar
from samara.physics.idle_effects import is_idle
from samara.physics.multirotor import derivative, state_at_rest
from samara.physics.types import Command, Environment, State, Vehicle
from samara.scenario.events import disarm, fail_motor
from samara.scenario.flight_events import OccurrenceType, PartType
from samara.scenario.landing import CRASH_SPEED
from samara.scenario.scenario import Scenario
from samara.scenario.timeline import MICROSECONDS
from samara.sim.setup import DroneSetup
from samara.sim.stage import PHYSICS, PythonStage, Stage, StageSet
from samara.vehicles.defaults import contact_depths
from samara.world.collision import CollisionInertia, Obstacles, advance_with_impacts, build_obstacles, parts_table
from samara.world.drone_collision import Swarm, advance_drones_with_impacts

if TYPE_CHECKING:
    from samara.sim.collide.collisions import Collision, CollisionWorld
    from samara.sim.fleet import Fleet
    from samara.sim.log import StatusReport
    from samara.sim.schedule import Span
from samara.scenario.landing import touchdown
from samara.sim.stage import StageFactory
from samara.vehicles.defaults import ground_clearance


class Status(NamedTuple):
    """Whether a drone has landed and crashed, 1 or 0."""

    landed: Scalar = 0.0
    crashed: Scalar = 0.0


class ContactReport(NamedTuple):
    """The status, whether the drone crashed at this tick, and the highest impact speed since the last tick [m/s]."""

    landed: Scalar = 0.0
    crashed: Scalar = 0.0
    crashed_now: Scalar = 0.0
    impact_speed: Scalar = 0.0


def update_status(
    state: State, environment: Environment, impact_speed: Scalar, status: Status, *, vehicle: Vehicle
) -> tuple[Status, ContactReport, Any]:
    """Update landed and crashed, and reset the impact speed to 0."""
    status_update = touchdown(
        state.v_W,
        state.q_WB,
        state.omega_B,
        clearance=ground_clearance(state, vehicle, environment),
        impact_speed=impact_speed,
        landed=status.landed,
        crashed=status.crashed,
    )
    return Status(status_update.landed, status_update.crashed), ContactReport(*status_update, impact_speed), 0.0


def _build(setup: DroneSetup) -> StageSet:
    reads = ("state", "environment", "contact.impact_speed", "status")
    writes = ("status", "impact_status", "contact.impact_speed")
    stage = Stage("contact", "scenario", update_status, reads, writes, (("vehicle", setup.vehicle),))
    return StageSet((stage,), {"status": Status(), "impact_status": ContactReport()})


CONTACT = StageFactory("contact", "scenario", _build)


MAX_DOWNWARD_ACCELERATION = 100.0  # [m/s²]: bound on the downward acceleration before the next contact check
MIN_REPORT_INTERVAL_US = (
    MICROSECONDS // 2
)  # a repeated contact of a part with the same object within this time is not reported


class ContactStatus(NamedTuple):
    """Whether a drone touched the ground after the last step (0 or 1), its speed then, and its maximum impact speed since that
    was last set to 0 [m/s].
    """

    in_contact: Scalar = 1.0  # a drone that starts on the ground has no impact
    speed: Scalar = 0.0
    impact_speed: Scalar = 0.0


def observe_contact(previous: ContactStatus, state: State, vehicle: Vehicle, environment: Environment) -> ContactStatus:
    """Update the contact: a new touch is an impact at the speed before it."""
    first_depth, *other_depths = (depth > 0.0 for depth in contact_depths(state, vehicle, environment))
    is_touching = first_depth
    for is_deep in other_depths:
        is_touching = logical_or(is_touching, is_deep)
    is_impact = logical_and(is_touching, equal(previous.in_contact, 0.0))
    impact_speed = where(is_impact, maximum(previous.speed, previous.impact_speed), previous.impact_speed)
    return ContactStatus(where(is_touching, 1.0, 0.0), norm(state.v_W), impact_speed)


def contact_after_step(
    contact: ContactStatus, start_state: State, end_state: State, vehicle: Vehicle, environment: Environment
) -> ContactStatus:
    """Observe contact before a step, as drone or ground may have been displaced since the last step, and after it."""
    return observe_contact(observe_contact(contact, start_state, vehicle, environment), end_state, vehicle, environment)


def airborne_contact(contact: ContactStatus, end_state: State) -> ContactStatus:
    """Return the contact of a drone that cannot have touched the ground in a step."""
    return ContactStatus(0.0, norm(end_state.v_W), contact.impact_speed)


def integrate(
    state: State,
    contact: ContactStatus,
    command: Command,
    environment: Environment,
    dt: Scalar,
    *,
    vehicle: Vehicle,
    integrator: str | Callable[..., State] = "rk4",
) -> tuple[State, ContactStatus]:
    """x(t + dt) under a constant command and environment, and the ground contact after it."""
    next_state = _advance(state, command, environment, dt, vehicle, integrator)
    if not vehicle.has("contact"):
        return next_state, contact
    return next_state, contact_after_step(contact, state, next_state, vehicle, environment)


def _advance(
    state: State,
    command: Command,
    environment: Environment,
    dt: Scalar,
    vehicle: Vehicle,
    integrator: str | Callable[..., State],
) -> State:
    advance = find_integrator(integrator).advance if isinstance(integrator, str) else integrator
    next_state: State = advance(lambda x: derivative(x, command, vehicle, environment), state, dt)
    return next_state


def integrate_quietly(
    state: State,
    contact: ContactStatus,
    command: Command,
    environment: Environment,
    dt: Scalar,
    *,
    vehicle: Vehicle,
    integrator: str | Callable[..., State] = "rk4",
) -> tuple[State, ContactStatus]:
    """x(t + dt) without the effects that may be idle, such as contact in the air; equal to `integrate` unless `is_busy`."""
    may_idle = [effect.idle is not None for effect in vehicle.structure.effects]
    idle_names = [effect.name for effect, is_idle in zip(vehicle.structure.effects, may_idle, strict=True) if is_idle]
    active_effects = tuple(effect for effect, is_idle in zip(state.effects, may_idle, strict=True) if not is_idle)
    reduced_vehicle, reduced_state = vehicle.without_effect(*idle_names), state._replace(effects=active_effects)
    next_state, _ = integrate(
        reduced_state, contact, command, environment, dt, vehicle=reduced_vehicle, integrator=integrator
    )
    next_effects = iter(next_state.effects)
    effects = tuple(
        effect if is_idle else next(next_effects) for effect, is_idle in zip(state.effects, may_idle, strict=True)
    )
    return next_state._replace(effects=effects), airborne_contact(contact, next_state)


def is_busy(state: State, environment: Environment, *, vehicle: Vehicle, ahead: float) -> Scalar:
    """Whether an effect would be active if the drone were at the lowest height it can reach within `ahead` seconds."""
    max_descent = (norm(state.v_W) + MAX_DOWNWARD_ACCELERATION * ahead) * ahead
    lowest_state = state._replace(p_W=state.p_W - environment.ground.normal_W * max_descent)
    return where(is_idle(lowest_state, vehicle, environment), 0.0, 1.0) > 0.5


class CollisionGeometry(NamedTuple):
    """The parts of a drone, the solids around it, the index of its first propeller, and the other drones."""

    parts: ConstantTable
    obstacles: Obstacles
    first_propeller: int
    swarm: Swarm | None = None


def integrate_among_solids(
    state: State,
    contact: ContactStatus,
    status: Status,
    command: Command,
    environment: Environment,
    dt: Scalar,
    drone: Scalar,
    *,
    vehicle: Vehicle,
    collisions: CollisionGeometry,
    integrator: str | Callable[..., State] = "rk4",
) -> tuple[State, ContactStatus, Status]:
    """x(t + dt) from impact to impact; a hard impact on a solid or another drone, and any by a propeller, is a crash.

    `drone` is the index of the drone in its flight.
    """

    def advance(start: State, duration: Scalar, inputs: tuple[Command, Environment]) -> State:
        return _advance(start, *inputs, duration, vehicle, integrator)

    body: dict[str, Any] = {
        "parts": collisions.parts,
        "obstacles": collisions.obstacles,
        "ground": environment.ground,
        "inertia": CollisionInertia(vehicle.mass, vehicle.inertia_B),
    }
    if collisions.swarm is None:
        next_state, impact = advance_with_impacts(advance, state, dt, (command, environment), **body)
    else:
        next_state, impact = advance_drones_with_impacts(
            advance, state, dt, (command, environment), index=drone, swarm=collisions.swarm, **body
        )
    by_propeller = impact.part > collisions.first_propeller - 0.5
    is_crash = logical_and(impact.count > 0.5, logical_or(by_propeller, impact.max_speed > CRASH_SPEED))
    status = Status(where(is_crash, 0.0, status.landed), where(is_crash, 1.0, status.crashed))
    if not vehicle.has("contact"):
        return next_state, contact, status
    return next_state, contact_after_step(contact, state, next_state, vehicle, environment), status


def physics_stage(setup: DroneSetup) -> Stage:
    """Build the stage that integrates a drone's physics."""
    parameters = (("vehicle", setup.vehicle), ("integrator", setup.flight.integrator))
    reads = ("state", "contact", "command", "environment", "dt")
    return Stage("physics", PHYSICS, integrate, reads, ("state", "contact"), parameters)


def _build_solid_stages(setup: DroneSetup) -> StageSet:
    """Build the step of a drone among solids and other drones, on JAX arrays."""
    from samara.sim.collide.parts import collision_parts, hull_box, part_shapes

    parts, world = collision_parts(setup.vehicle), setup.flight.world
    solids, swarm = world.obstacles, None
    if world.collisions and setup.flight.drones > 1:
        from samara.compiler.jax.folding_scalar import fold_over_others

        hull = hull_box(state_at_rest(setup.vehicle), parts).half
        swarm = Swarm(setup.flight.drones, hull, world.drone, fold_over_others)
    elif not solids:
        return build_physics(setup)
    propellers = [k for k, part in enumerate(parts) if part.kind is PartType.PROPELLER]
    collisions = CollisionGeometry(
        parts_table(part_shapes(parts)),
        build_obstacles([obstacle.solid for obstacle in solids], [obstacle.material for obstacle in solids]),
        min(propellers, default=len(parts)),
        swarm,
    )
    parameters = (("vehicle", setup.vehicle), ("integrator", setup.flight.integrator), ("collisions", collisions))
    reads = ("state", "contact", "status", "command", "environment", "dt", "drone")
    stage = Stage("physics", PHYSICS, integrate_among_solids, reads, ("state", "contact", "status"), parameters)
    return StageSet((stage,), {"contact": ContactStatus()})


def build_physics(setup: DroneSetup) -> StageSet:
    """Build the physics stage of a drone, with its contact slot."""
    return StageSet((physics_stage(setup),), {"contact": ContactStatus()})


class PhysicsStage(PythonStage):
    """Integrates the drones from one instant to the next; Python does so if they can collide, or choose their steps adaptively.

    A hard impact, and any by a propeller, is a crash, and may break the propeller.
    """

    rate = PHYSICS

    def __init__(self, scenario: Scenario, status: "StatusReport | None" = None) -> None:
        self._status = status
        self._can_collide = bool(scenario.world.obstacles or scenario.world.collisions)
        self.reason = "collisions" if self._can_collide else "physics of another integrator or backend"
        self._collider: CollisionWorld | None = None
        self._groups: Sequence[object] = ()
        self._last_reported_us: dict[tuple[int, ...], int] = {}
        self._integrated_us = 0

    def build(self, setup: DroneSetup) -> StageSet:
        """Build the traced physics of one drone; Python integrates if drones can collide or steps are adaptive."""
        stage_set = build_physics(setup)
        is_adaptive = INTEGRATORS[setup.flight.integrator].is_adaptive
        if not (self._can_collide or is_adaptive or setup.flight.backend not in ("llvm", "python")):
            return stage_set
        world = setup.flight.world
        if is_adaptive or world.propeller_strike == "break" or not self._can_collide:
            return stage_set._replace(stages=(), python_reason=self.reason)
        return stage_set._replace(
            stages=(), python_reason=self.reason, array_stages=partial(_build_solid_stages, setup)
        )

    def is_due(self, fleet: "Fleet", span: "Span", *, needed: bool) -> np.ndarray:
        """Mark the instants that physics steps lead to."""
        self._integrated_us = fleet.time_us
        return span.due_rows(fleet.schedule.instant_bit if needed else 0) & (span.times_us > fleet.time_us)

    def prepare(self, fleet: "Fleet") -> None:
        """Create the collision solver for new groups."""
        if self._can_collide and self._groups is not fleet.groups:
            from samara.sim.collide.collisions import CollisionWorld

            self._groups, drones = fleet.groups, [group.drones for group in fleet.groups]
            self._collider = CollisionWorld(fleet.scenario.world, [group.plant for group in fleet.groups], drones)

    def update(self, fleet: "Fleet") -> None:
        start_us, self._integrated_us = self._integrated_us, fleet.time_us
        collisions: list[Collision] = []
        if self._collider is not None:
            collisions = self._collider.advance(start_us, fleet.time_us)
        else:
            for group in fleet.groups:
                group.plant.advance(start_us, fleet.time_us)
        if collisions:
            self._apply_collisions(fleet, collisions)
            assert self._status is not None
            self._status.report(fleet, fleet.time_us, np.array([fleet.landed, fleet.crashed], dtype=float))

    def _apply_collisions(self, fleet: "Fleet", collisions: "list[Collision]") -> None:
        from samara.sim.fleet_snapshot import fleet_bus

        world, new_setting = fleet.scenario.world, fleet.setting
        for collision in collisions:
            index, part = collision.drone, collision.part
            contact_key = (index, part.kind, part.number, collision.solid, collision.other)
            last_us, self._last_reported_us[contact_key] = (
                self._last_reported_us.get(contact_key, -MIN_REPORT_INTERVAL_US),
                fleet.time_us,
            )
            if fleet.time_us - last_us < MIN_REPORT_INTERVAL_US:
                continue
            for drone, details in collision.touches_by_drone.items():
                occurrence = fleet.record_occurrence(drone, OccurrenceType.COLLIDED, **details._asdict())
                if drone == index:
                    fleet.log_warning(occurrence)
            is_propeller = part.kind is PartType.PROPELLER
            for crashed_drone, details in (
                collision.touches_by_drone.items() if is_propeller or collision.speed > CRASH_SPEED else ()
            ):
                if not fleet.crashed[crashed_drone]:
                    fleet.log_warning(
                        fleet.record_occurrence(crashed_drone, OccurrenceType.CRASHED, **details._asdict())
                    )
                    fleet.mark_crashed(crashed_drone)
            if is_propeller and world.propeller_strike == "break":
                working_motors = sum(power > 0.0 for power in new_setting.drones[index].faults.motor_effectiveness)
                name = fleet.drone_name(index)
                action = fail_motor(part.number, name) if working_motors > 1 else disarm(name)
                new_setting = action(
                    new_setting, fleet_bus(fleet)
                )  # without its last propeller a drone cannot be controlled
        if new_setting is not fleet.setting:
            fleet.apply_setting(new_setting)
