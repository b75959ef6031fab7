"""What a scenario begins with: its instants, and the state each drone starts in."""

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
    """The instants of a scenario: its axes, and the times its events name"""
    physics_us = scenario.rates.periods()["physics"]
    times = [time for time in (event_time_us(event, physics_us) for event in scenario.events) if time is not None]
    return timeline(scenario.rates, scenario.duration, times)


def timed_events(scenario: Scenario, physics_us: int) -> list[tuple[int, Event]]:
    """The events that have a time, last first; of those at one time the last listed first, to be popped from the end."""
    times = [(event_time_us(event, physics_us), k, event) for k, event in enumerate(scenario.events)]
    known = [(time, k, event) for time, k, event in times if time is not None]
    return [(time, event) for time, _, event in sorted(known, key=lambda item: item[:2], reverse=True)]


def initial_state(drone: Drone, environment: Environment = CALM, below: PlaneBelow | None = None) -> State:
    """At rest on its feet, or hovering, at its start; what hangs from it hangs at rest, or lies on the ground below

    `below` tells the ground under a place, where it is not the environment's.
    """
    return with_charge(_at_start(drone, environment, below), drone.vehicle, drone.start_charge)


def state_at_start(scenario: Scenario, drone: Drone) -> State:
    """The state a drone of a scenario starts in, on the ground or the solid below it or in the air"""
    world = scenario.world
    below = plane_finder(world, scenario.environment.ground) if world.solids or world.terrain is not None else None
    return initial_state(drone, scenario.environment_at(drone.start_W.z), below)


def with_charge(state: State, vehicle: Vehicle, charge: Scalar) -> State:
    """The state with its batteries charged so far, from 1 to 0"""
    if not vehicle.has("battery"):
        return state
    at = vehicle.index("battery")
    charged = tuple(own._replace(charge=charge) for own in state.effects[at])
    return state._replace(effects=(*state.effects[:at], charged, *state.effects[at + 1 :]))


def _at_start(drone: Drone, environment: Environment, below: PlaneBelow | None) -> State:
    attitude = quat_from_euler(0.0, 0.0, drone.yaw)
    if drone.airborne:
        trim = hover(drone.vehicle, drone.start_W, environment)[0]
        if drone.vehicle.servos:  # which leans against what its tilted rotors push sideways
            attitude = attitude * trim.q_WB
        return _with_load_at_rest(trim._replace(q_WB=attitude), drone, environment)
    state = at_rest(drone.vehicle, drone.start_W + Vec3(0.0, 0.0, clearance(drone.vehicle)), attitude)
    state = _with_load_at_rest(state, drone, environment)
    find = below or (lambda p_W, q_WB, vehicle: environment.ground)
    return _with_load_at_rest(standing(state, drone.start_W, drone.vehicle, environment, find), drone, environment)


def _with_load_at_rest(state: State, drone: Drone, environment: Environment) -> State:
    if not drone.vehicle.has("slung_load"):
        return state
    at = drone.vehicle.index("slung_load")
    rest = drone.vehicle.structure.effects[at].settled(state.effects[at], state, (), drone.vehicle, environment)
    return state._replace(effects=(*state.effects[:at], rest, *state.effects[at + 1 :]))
