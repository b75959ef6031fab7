"""What a scenario begins with: its instants, and the state each drone starts in."""

from samara.algebra import Vec3, quat_from_euler
from samara.physics.multirotor import CALM, Environment, State, Vehicle, at_rest
from samara.sim.events import Event, event_time_us
from samara.sim.scenario import Drone, Scenario
from samara.sim.timeline import Timeline, timeline
from samara.trim import hover


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


def clearance(vehicle: Vehicle) -> float:
    """How high the centre of mass is when the vehicle stands on level ground  [m]"""
    return -min((point.z for point in vehicle["contact"].points_B), default=0.0) if vehicle.has("contact") else 0.0


def initial_state(drone: Drone, environment: Environment = CALM) -> State:
    """At rest on its feet, or hovering, at its start; what hangs from it hangs at rest, or lies on the ground below"""
    attitude = quat_from_euler(0.0, 0.0, drone.yaw)
    if drone.airborne:
        state = hover(drone.vehicle, drone.start_W)[0]._replace(q_WB=attitude)
    else:
        state = at_rest(drone.vehicle, drone.start_W + Vec3(0.0, 0.0, clearance(drone.vehicle)), attitude)
    if not drone.vehicle.has("slung_load"):
        return state
    at = drone.vehicle.index("slung_load")
    rest = drone.vehicle.structure.effects[at].settled(state.effects[at], state, (), drone.vehicle, environment)
    return state._replace(effects=(*state.effects[:at], rest, *state.effects[at + 1 :]))
