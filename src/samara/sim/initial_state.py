"""The start of a scenario: its instants, and the initial state of each drone."""

from collections.abc import Callable
from functools import reduce

import numpy as np

from samara.core.algebra import Quat, Vec3, dot, normalize, quat_exp, quat_from_euler, rotate
from samara.core.batch_scalar import float_or_batch_scalar, scalar_array
from samara.core.ops import maximum
from samara.core.portable_linalg import rank, solve
from samara.core.quantity import Scalar
from samara.core.types import Array
from samara.physics.ground.contact import Ground
from samara.physics.multirotor import state_at_rest, wrench, zero_command
from samara.physics.types import CALM, Environment, State, Vehicle
from samara.scenario.events import Event, event_time_us
from samara.scenario.scenario import Drone, Scenario
from samara.scenario.timeline import Timeline, timeline
from samara.sim.stages.ground import plane_finder
from samara.vehicles.defaults import clearance, standing_stiffness
from samara.vehicles.trim import hover

FindPlane = Callable[[Vec3, Quat, Vehicle], Ground]

MAX_STANDING_HEIGHT = (
    1e-3  # [m]: a vehicle that starts lower than this above the ground stands on it; a higher one falls
)
FOOT_HEIGHT_TOLERANCE = 1e-9  # [m]: feet within this height of the lowest foot carry load as well
MAX_ITERATIONS = 40
BALANCE_TOLERANCE = 1e-13  # fraction of the weight: residual at which the iteration stops
MAX_RESIDUAL = 1e-9  # fraction of the weight: largest residual of a vehicle at rest


def standing_state(
    state: State, start_W: Vec3, vehicle: Vehicle, environment: Environment, find_plane: FindPlane
) -> State:
    """Return the state with the feet at the start, aligned with the ground there and pressed into it by their load.

    The state is returned unchanged if the vehicle starts above the ground, would slide, or would fall over.
    """
    if not (vehicle.has("contact") and vehicle.has("gravity")):
        return state
    plane = find_plane(state.p_W, state.q_WB, vehicle)
    if not abs(dot(start_W - plane.point_W, plane.normal_W)) <= MAX_STANDING_HEIGHT:
        return state
    contact_state = _align_with_ground(state, start_W, vehicle, find_plane)
    contact, height = vehicle["contact"], clearance(vehicle)
    lowest_W = [
        rotate(contact_state.q_WB, point_B)
        for point_B in contact.points_B
        if point_B.z <= FOOT_HEIGHT_TOLERANCE - height
    ]
    stiffness = contact.surface.stiffness * standing_stiffness(tuple(lowest_W))
    if rank(stiffness) < len(stiffness):
        return state
    weight, displacement = vehicle.mass * vehicle["gravity"].acceleration, np.zeros(6)
    for _ in range(MAX_ITERATIONS):
        candidate = _displace(contact_state, displacement, vehicle, find_plane)
        residual = _residual_wrench(candidate, vehicle, environment, find_plane)
        error = reduce(maximum, map(abs, residual.tolist()))
        if error <= BALANCE_TOLERANCE * weight:
            break
        displacement = displacement + solve(stiffness, residual)
    return candidate if error <= MAX_RESIDUAL * weight else state


def _align_with_ground(state: State, start_W: Vec3, vehicle: Vehicle, find_plane: FindPlane) -> State:
    """Align the vehicle with the ground, its lowest feet just in contact; curved ground has a different plane per position."""
    height, p_W, q_WB = clearance(vehicle), state.p_W, state.q_WB
    for _ in range(MAX_ITERATIONS):
        plane = find_plane(p_W, q_WB, vehicle)
        n = plane.normal_W
        q_WB = normalize(Quat(1.0 + n.z, -n.y, n.x, 0.0)) * state.q_WB
        previous_p_W, foot_W = p_W, start_W - n * dot(start_W - plane.point_W, n)
        p_W = foot_W + n * height
        if max(abs(x) for x in p_W - previous_p_W) <= 1e-15:
            break
    return state._replace(p_W=p_W, q_WB=q_WB)


def _displace(contact_state: State, displacement: Array, vehicle: Vehicle, find_plane: FindPlane) -> State:
    """Translate and rotate the vehicle; stretch each foot's grip by the foot's displacement along the plane."""
    components = [float_or_batch_scalar(x) for x in displacement]
    p_W, q_WB = (
        contact_state.p_W + Vec3(*components[:3]),
        normalize(quat_exp(Vec3(*components[3:])) * contact_state.q_WB),
    )
    n = find_plane(p_W, q_WB, vehicle).normal_W
    grips = []
    for point_B in vehicle["contact"].points_B:
        foot_shift_W = p_W - contact_state.p_W + rotate(q_WB, point_B) - rotate(contact_state.q_WB, point_B)
        grips.append(foot_shift_W - n * dot(foot_shift_W, n))
    index = vehicle.index("contact")
    effects = (*contact_state.effects[:index], tuple(grips), *contact_state.effects[index + 1 :])
    return contact_state._replace(p_W=p_W, q_WB=q_WB, effects=effects)


def _residual_wrench(state: State, vehicle: Vehicle, environment: Environment, find_plane: FindPlane) -> Array:
    """Return the unbalanced force and torque in the world frame."""
    local_environment = environment._replace(ground=find_plane(state.p_W, state.q_WB, vehicle))
    total = wrench(state, zero_command(vehicle), vehicle, local_environment)
    return scalar_array([*(rotate(state.q_WB, total.f_B) + total.f_W), *rotate(state.q_WB, total.tau_B)])


def scenario_timeline(scenario: Scenario) -> Timeline:
    """Return the timeline of a scenario: its clocks, and the times of its events."""
    physics_us = scenario.rates.periods()["physics"]
    times = [time for time in (event_time_us(event, physics_us) for event in scenario.events) if time is not None]
    return timeline(scenario.rates, scenario.duration, times)


def timed_events(scenario: Scenario, physics_us: int) -> list[tuple[int, Event]]:
    """Return the timed events, latest first (and at equal times the last listed first), to be popped from the end."""
    times = [(event_time_us(event, physics_us), k, event) for k, event in enumerate(scenario.events)]
    timed = [(time, k, event) for time, k, event in times if time is not None]
    return [(time, event) for time, _, event in sorted(timed, key=lambda item: item[:2], reverse=True)]


def initial_state(drone: Drone, environment: Environment = CALM, find_plane: FindPlane | None = None) -> State:
    """Return the initial state of a drone: at rest on its feet, or hovering; a slung load hangs at rest or lies on the ground.

    `find_plane` returns the ground plane below a position; by default it is the environment's.
    """
    return set_charge(_rest_or_hover(drone, environment, find_plane), drone.vehicle, drone.initial_charge)


def drone_initial_state(scenario: Scenario, drone: Drone) -> State:
    """Return the initial state of a drone of a scenario: on the ground, on the solid below it, or in the air."""
    world = scenario.world
    find_plane = (
        plane_finder(world, scenario.environment.ground) if world.obstacles or world.terrain is not None else None
    )
    return initial_state(drone, scenario.environment_by_height(drone.start_W.z), find_plane)


def set_charge(state: State, vehicle: Vehicle, charge: Scalar) -> State:
    """Return the state with its batteries at a state of charge from 0 to 1."""
    if not vehicle.has("battery"):
        return state
    index = vehicle.index("battery")
    charged = tuple(battery._replace(charge=charge) for battery in state.effects[index])
    return state._replace(effects=(*state.effects[:index], charged, *state.effects[index + 1 :]))


def _rest_or_hover(drone: Drone, environment: Environment, find_plane: FindPlane | None) -> State:
    attitude = quat_from_euler(0.0, 0.0, drone.yaw)
    if drone.airborne:
        trim = hover(drone.vehicle, drone.start_W, environment)[0]
        if drone.vehicle.servos:  # its hover is tilted, against the lateral force of its tilting rotors
            attitude = attitude * trim.q_WB
        return _settle_load(trim._replace(q_WB=attitude), drone, environment)
    state = state_at_rest(drone.vehicle, drone.start_W + Vec3(0.0, 0.0, clearance(drone.vehicle)), attitude)
    state = _settle_load(state, drone, environment)
    plane_function = find_plane or (lambda p_W, q_WB, vehicle: environment.ground)
    return _settle_load(
        standing_state(state, drone.start_W, drone.vehicle, environment, plane_function), drone, environment
    )


def _settle_load(state: State, drone: Drone, environment: Environment) -> State:
    if not drone.vehicle.has("slung_load"):
        return state
    index = drone.vehicle.index("slung_load")
    load = drone.vehicle.structure.effects[index].steady_state(
        state.effects[index], state, (), drone.vehicle, environment
    )
    return state._replace(effects=(*state.effects[:index], load, *state.effects[index + 1 :]))
