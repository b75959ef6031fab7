"""The start of a scenario: its instants, and the initial state of each drone."""

from samara.core.algebra import Vec3, quat_from_euler
from samara.core.quantity import Scalar
from samara.physics.multirotor import at_rest
from samara.physics.types import CALM, Environment, State, Vehicle
from samara.scenario.events import Event, event_time_us
from samara.scenario.scenario import Drone, Scenario
from samara.scenario.timeline import Timeline, timeline
from samara.sim.stages.ground import plane_finder
from samara.sim.standing import PlaneBelow, standing
from samara.vehicles.ground import clearance
from samara.vehicles.trim import hover


def timeline_of(scenario: Scenario) -> Timeline:
    """Return the timeline of a scenario: its clocks, and the times of its events"""
    physics_us = scenario.rates.periods()["physics"]
    times = [time for time in (event_time_us(event, physics_us) for event in scenario.events) if time is not None]
    return timeline(scenario.rates, scenario.duration, times)


def timed_events(scenario: Scenario, physics_us: int) -> list[tuple[int, Event]]:
    """Return the timed events, latest first (and at equal times the last listed first), to be popped from the end."""
    times = [(event_time_us(event, physics_us), k, event) for k, event in enumerate(scenario.events)]
    timed = [(time, k, event) for time, k, event in times if time is not None]
    return [(time, event) for time, _, event in sorted(timed, key=lambda item: item[:2], reverse=True)]


def initial_state(drone: Drone, environment: Environment = CALM, below: PlaneBelow | None = None) -> State:
    """Return the initial state of a drone: at rest on its feet, or hovering; a slung load hangs at rest or lies on the ground

    `below` finds the ground plane under a position; by default it is the environment's.
    """
    return with_charge(_rest_or_hover(drone, environment, below), drone.vehicle, drone.start_charge)


def state_at_start(scenario: Scenario, drone: Drone) -> State:
    """The state a drone of a scenario starts in, on the ground or the solid below it or in the air"""
    world = scenario.world
    below = plane_finder(world, scenario.environment.ground) if world.solids or world.terrain is not None else None
    return initial_state(drone, scenario.environment_at(drone.start_W.z), below)


def with_charge(state: State, vehicle: Vehicle, charge: Scalar) -> State:
    """Return the state with its batteries at a state of charge from 0 to 1"""
    if not vehicle.has("battery"):
        return state
    index = vehicle.index("battery")
    charged = tuple(battery._replace(charge=charge) for battery in state.effects[index])
    return state._replace(effects=(*state.effects[:index], charged, *state.effects[index + 1 :]))


def _rest_or_hover(drone: Drone, environment: Environment, below: PlaneBelow | None) -> State:
    attitude = quat_from_euler(0.0, 0.0, drone.yaw)
    if drone.airborne:
        trim = hover(drone.vehicle, drone.start_W, environment)[0]
        if drone.vehicle.servos:  # tilted against the lateral force of its tilting rotors
            attitude = attitude * trim.q_WB
        return _settle_load(trim._replace(q_WB=attitude), drone, environment)
    state = at_rest(drone.vehicle, drone.start_W + Vec3(0.0, 0.0, clearance(drone.vehicle)), attitude)
    state = _settle_load(state, drone, environment)
    find = below or (lambda p_W, q_WB, vehicle: environment.ground)
    return _settle_load(standing(state, drone.start_W, drone.vehicle, environment, find), drone, environment)


def _settle_load(state: State, drone: Drone, environment: Environment) -> State:
    if not drone.vehicle.has("slung_load"):
        return state
    index = drone.vehicle.index("slung_load")
    load = drone.vehicle.structure.effects[index].settled(state.effects[index], state, (), drone.vehicle, environment)
    return state._replace(effects=(*state.effects[:index], load, *state.effects[index + 1 :]))
