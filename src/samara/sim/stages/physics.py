"""The physics steps between two instants, each followed by a look at who came to the ground and how fast."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from samara.core.algebra import norm
from samara.core.block_ops import Grid
from samara.core.integrate import INTEGRATORS, integrator_named
from samara.core.ops import equal, logical_and, logical_or, maximum, where
from samara.core.quantity import Scalar
from samara.physics.idle_effects import all_idle
from samara.physics.multirotor import at_rest, derivative
from samara.physics.types import Command, Environment, State, Vehicle
from samara.scenario.events import disarm, fail_motor
from samara.scenario.flight_events import Fact, PartKind
from samara.scenario.landing import CRASH_SPEED
from samara.scenario.scenario import Scenario
from samara.scenario.timeline import MICROSECONDS
from samara.sim.setup import DroneSetup
from samara.sim.stage import PHYSICS, PythonStage, Stage, StageSet
from samara.vehicles.defaults import contact_depths
from samara.world.collision import Inertia, Obstacles, advance_with_impacts, obstacles_of, parts_table
from samara.world.drone_collision import Swarm, advance_drones_with_impacts

if TYPE_CHECKING:
    from samara.sim.collide.collisions import Colliding, Strike
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


class Touch(NamedTuple):
    """The status, whether the drone crashed at this tick, and the highest impact speed since the last tick [m/s]."""

    landed: Scalar = 0.0
    crashed: Scalar = 0.0
    crashed_now: Scalar = 0.0
    impact_speed: Scalar = 0.0


def update_status(
    state: State, environment: Environment, impact_speed: Scalar, status: Status, *, vehicle: Vehicle
) -> tuple[Status, Touch, Any]:
    """Update landed and crashed, and reset the impact speed to 0"""
    now = touchdown(
        state.v_W,
        state.q_WB,
        state.omega_B,
        clearance=ground_clearance(state, vehicle, environment),
        impact_speed=impact_speed,
        landed=status.landed,
        crashed=status.crashed,
    )
    return Status(now.landed, now.crashed), Touch(*now, impact_speed), 0.0


def _build(setup: DroneSetup) -> StageSet:
    reads = ("state", "environment", "contact.impact_speed", "status")
    writes = ("status", "touch", "contact.impact_speed")
    stage = Stage("contact", "scenario", update_status, reads, writes, (("vehicle", setup.vehicle),))
    return StageSet((stage,), {"status": Status(), "touch": Touch()})


CONTACT = StageFactory("contact", "scenario", _build)


HARDEST_PULL = 100.0  # [m/s²]: what may pull a drone to the ground before the next look
QUIET_US = MICROSECONDS // 2  # a part that touches the same thing again sooner is not reported again


class Contact(NamedTuple):
    """Whether a drone touched the ground after the last step (0 or 1), how fast it was then, and the fastest it came to the
    ground since this was last set to 0  [m/s]."""

    touched: Scalar = 1.0  # what is on the ground already does not come to it
    speed: Scalar = 0.0
    impact_speed: Scalar = 0.0


def observe_contact(before: Contact, state: State, vehicle: Vehicle, environment: Environment) -> Contact:
    """A touch of what did not touch before is an impact, with the speed that it had before"""
    first, *others = (depth > 0.0 for depth in contact_depths(state, vehicle, environment))
    touches = first
    for other in others:
        touches = logical_or(touches, other)
    came = logical_and(touches, equal(before.touched, 0.0))
    impact_speed = where(came, maximum(before.speed, before.impact_speed), before.impact_speed)
    return Contact(where(touches, 1.0, 0.0), norm(state.v_W), impact_speed)


def contact_after_step(
    contact: Contact, before: State, after: State, vehicle: Vehicle, environment: Environment
) -> Contact:
    """Observe contact before a step, as the drone or the ground may have been moved since the last one, and after it"""
    return observe_contact(observe_contact(contact, before, vehicle, environment), after, vehicle, environment)


def contact_in_the_air(contact: Contact, after: State) -> Contact:
    """Return the contact of a drone that cannot have touched the ground in a step"""
    return Contact(0.0, norm(after.v_W), contact.impact_speed)


def integrate(
    state: State,
    contact: Contact,
    command: Command,
    environment: Environment,
    dt: Scalar,
    *,
    vehicle: Vehicle,
    integrator: str | Callable[..., State] = "rk4",
) -> tuple[State, Contact]:
    """x(t + dt) under a constant command and environment, and the contact with the ground after it"""
    after = _advance(state, command, environment, dt, vehicle, integrator)
    if not vehicle.has("contact"):
        return after, contact
    return after, contact_after_step(contact, state, after, vehicle, environment)


def _advance(
    state: State,
    command: Command,
    environment: Environment,
    dt: Scalar,
    vehicle: Vehicle,
    integrator: str | Callable[..., State],
) -> State:
    advance = integrator_named(integrator).advance if isinstance(integrator, str) else integrator
    after: State = advance(lambda x: derivative(x, command, vehicle, environment), state, dt)
    return after


def integrate_quietly(
    state: State,
    contact: Contact,
    command: Command,
    environment: Environment,
    dt: Scalar,
    *,
    vehicle: Vehicle,
    integrator: str | Callable[..., State] = "rk4",
) -> tuple[State, Contact]:
    """x(t + dt) without the effects that may be idle, such as contact in the air: the same, while `is_busy` is false"""
    rests = [effect.idle is not None for effect in vehicle.structure.effects]
    idle = [effect.name for effect, at_rest in zip(vehicle.structure.effects, rests, strict=True) if at_rest]
    moving = tuple(effect for effect, at_rest in zip(state.effects, rests, strict=True) if not at_rest)
    brief, alone = vehicle.without_effect(*idle), state._replace(effects=moving)
    after, _ = integrate(alone, contact, command, environment, dt, vehicle=brief, integrator=integrator)
    moved = iter(after.effects)
    effects = tuple(effect if at_rest else next(moved) for effect, at_rest in zip(state.effects, rests, strict=True))
    return after._replace(effects=effects), contact_in_the_air(contact, after)


def is_busy(state: State, environment: Environment, *, vehicle: Vehicle, ahead: float) -> Scalar:
    """Whether an effect would not be idle, were the drone as low as it can come within `ahead` seconds"""
    reach = (norm(state.v_W) + HARDEST_PULL * ahead) * ahead
    lower = state._replace(p_W=state.p_W - environment.ground.normal_W * reach)
    return where(all_idle(lower, vehicle, environment), 0.0, 1.0) > 0.5


class CollisionGeometry(NamedTuple):
    """The parts of a drone, the solids around it, the index of its first propeller, and the other drones."""

    parts: Grid
    obstacles: Obstacles
    first_propeller: int
    swarm: Swarm | None = None


def integrate_among_solids(
    state: State,
    contact: Contact,
    status: Status,
    command: Command,
    environment: Environment,
    dt: Scalar,
    drone: Scalar,
    *,
    vehicle: Vehicle,
    collisions: CollisionGeometry,
    integrator: str | Callable[..., State] = "rk4",
) -> tuple[State, Contact, Status]:
    """x(t + dt) from impact to impact; a hard touch of a solid or another drone, and that of a propeller, is a crash

    `drone` is the index of the drone in its flight.
    """

    def fly(start: State, duration: Scalar, held: tuple[Command, Environment]) -> State:
        return _advance(start, *held, duration, vehicle, integrator)

    body: dict[str, Any] = {
        "parts": collisions.parts,
        "obstacles": collisions.obstacles,
        "ground": environment.ground,
        "inertia": Inertia(vehicle.mass, vehicle.inertia_B),
    }
    if collisions.swarm is None:
        after, impact = advance_with_impacts(fly, state, dt, (command, environment), **body)
    else:
        after, impact = advance_drones_with_impacts(
            fly, state, dt, (command, environment), index=drone, swarm=collisions.swarm, **body
        )
    by_propeller = impact.part > collisions.first_propeller - 0.5
    is_crash = logical_and(impact.count > 0.5, logical_or(by_propeller, impact.max_speed > CRASH_SPEED))
    status = Status(where(is_crash, 0.0, status.landed), where(is_crash, 1.0, status.crashed))
    if not vehicle.has("contact"):
        return after, contact, status
    return after, contact_after_step(contact, state, after, vehicle, environment), status


def physics_stage(setup: DroneSetup) -> Stage:
    """The step of a drone's physics"""
    parameters = (("vehicle", setup.vehicle), ("integrator", setup.flight.integrator))
    reads = ("state", "contact", "command", "environment", "dt")
    return Stage("physics", PHYSICS, integrate, reads, ("state", "contact"), parameters)


def _among_solids(setup: DroneSetup) -> StageSet:
    """The step of a drone among solids and other drones, on arrays of JAX"""
    from samara.sim.collide.parts import hull_of, part_shapes, parts_of

    parts, world = parts_of(setup.vehicle), setup.flight.world
    solids, swarm = world.solids, None
    if world.collisions and setup.flight.drones > 1:
        from samara.compiler.jax.folding_scalar import fold_over_others

        hull = hull_of(at_rest(setup.vehicle), parts).half
        swarm = Swarm(setup.flight.drones, hull, world.drone, fold_over_others)
    elif not solids:
        return build_physics(setup)
    propellers = [k for k, part in enumerate(parts) if part.kind is PartKind.PROPELLER]
    collisions = CollisionGeometry(
        parts_table(part_shapes(parts)),
        obstacles_of([obstacle.solid for obstacle in solids], [obstacle.material for obstacle in solids]),
        min(propellers, default=len(parts)),
        swarm,
    )
    parameters = (("vehicle", setup.vehicle), ("integrator", setup.flight.integrator), ("collisions", collisions))
    reads = ("state", "contact", "status", "command", "environment", "dt", "drone")
    stage = Stage("physics", PHYSICS, integrate_among_solids, reads, ("state", "contact", "status"), parameters)
    return StageSet((stage,), {"contact": Contact()})


def build_physics(setup: DroneSetup) -> StageSet:
    """The step of a drone's physics, and who has touched the ground"""
    return StageSet((physics_stage(setup),), {"contact": Contact()})


class PhysicsStage(PythonStage):
    """Moves the drones from one instant to the next; Python does so where they can collide, or choose their own steps.

    A hard touch, and that of a propeller, is a crash, and may break the propeller.
    """

    rate = PHYSICS

    def __init__(self, scenario: Scenario, status: "StatusReport | None" = None) -> None:
        self._status = status
        self._is_crowded = bool(scenario.world.solids or scenario.world.collisions)
        self.reason = "collisions" if self._is_crowded else "physics of another integrator or backend"
        self._colliding: Colliding | None = None
        self._groups: Sequence[object] = ()
        self._struck_us: dict[tuple[int, ...], int] = {}
        self._moved_us = 0

    def build(self, setup: DroneSetup) -> StageSet:
        """The steps of one drone, of a length that is known"""
        built = build_physics(setup)
        adaptive = INTEGRATORS[setup.flight.integrator].adaptive
        if not (self._is_crowded or adaptive or setup.flight.backend not in ("llvm", "python")):
            return built
        world = setup.flight.world
        if adaptive or world.propeller_strike == "break" or not self._is_crowded:
            return built._replace(stages=(), python=self.reason)
        return built._replace(stages=(), python=self.reason, on_arrays=partial(_among_solids, setup))

    def is_due(self, fleet: "Fleet", span: "Span", *, needed: bool) -> np.ndarray:
        """Wherever a step leads to"""
        self._moved_us = fleet.time_us
        return span.at(fleet.schedule.instant if needed else 0) & (span.times_us > fleet.time_us)

    def prepare(self, fleet: "Fleet") -> None:
        """The solids and the drones that are new"""
        if self._is_crowded and self._groups is not fleet.groups:
            from samara.sim.collide.collisions import Colliding

            self._groups, drones = fleet.groups, [group.drones for group in fleet.groups]
            self._colliding = Colliding(fleet.scenario.world, [group.plant for group in fleet.groups], drones)

    def update(self, fleet: "Fleet") -> None:
        before, self._moved_us = self._moved_us, fleet.time_us
        strikes: list[Strike] = []
        if self._colliding is not None:
            strikes = self._colliding.advance(before, fleet.time_us)
        else:
            for group in fleet.groups:
                group.plant.advance(before, fleet.time_us)
        if strikes:
            self._apply_strikes(fleet, strikes)
            assert self._status is not None
            self._status.report(fleet, fleet.time_us, np.array([fleet.landed, fleet.crashed], dtype=float))

    def _apply_strikes(self, fleet: "Fleet", strikes: "list[Strike]") -> None:
        from samara.sim.fleet_snapshot import bus_of

        world, after = fleet.scenario.world, fleet.setting
        for strike in strikes:
            index, part = strike.drone, strike.part
            touch = (index, part.kind, part.number, strike.solid, strike.other)
            before, self._struck_us[touch] = self._struck_us.get(touch, -QUIET_US), fleet.time_us
            if fleet.time_us - before < QUIET_US:
                continue
            for drone, own in strike.touches.items():
                struck = fleet.note(drone, Fact.STRUCK, **own._asdict())
                if drone == index:
                    fleet.warn(struck)
            propeller = part.kind is PartKind.PROPELLER
            for hurt, own in strike.touches.items() if propeller or strike.speed > CRASH_SPEED else ():
                if not fleet.crashed[hurt]:
                    fleet.warn(fleet.note(hurt, Fact.CRASHED, **own._asdict()))
                    fleet.wreck(hurt)
            if propeller and world.propeller_strike == "break":
                left = sum(power > 0.0 for power in after.drones[index].faults.motor_power)
                name = fleet.name_of(index)
                broken = fail_motor(part.number, name) if left > 1 else disarm(name)
                after = broken(after, bus_of(fleet))  # with its last propeller gone nobody steers it
        if after is not fleet.setting:
            fleet.apply(after)
