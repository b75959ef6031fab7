"""Race: through gates in order and past poles, on a track of `samara race`.

    VectorEnv(race_task(level=1, track="hall"))

Level 0 is the nominal track. At level 1 mass and inertia differ from the vehicle file, the start varies, and there is wind. At
level 2 gates and poles are displaced as well: the drone observes their nominal poses until it comes close.
The ground is not simulated.
"""

from pathlib import Path
from typing import Any, NamedTuple

from samara.control.gate_observation import CourseKnowledge, RaceProgress, gate_reference, observe_gates
from samara.core.algebra import Vec3, dot
from samara.core.ops import cos, exp, floor, logical_and, logical_or, maximum, safe_norm, sin, where
from samara.core.quantity import Scalar
from samara.learn.domain_randomization import InertiaRandomization
from samara.learn.task import CameraObservation, Draw, Situation, Task, Tree, TrimmedDrone, add_action_cost, observe
from samara.physics.ground.solids import Capsule
from samara.physics.types import State
from samara.sensors.camera import CameraModel, CameraPart
from samara.world.appearance import GATE_APPEARANCE, CameraSurface, gate_boxes
from samara.world.gates import (
    Course,
    Gate,
    collides_with_frame,
    collides_with_pole,
    gate_coordinates,
    hub_radius,
    is_outside,
    known_course,
    plane_crossing,
    select_next_gate,
)
from samara.world.track import Track, load_track, require_level

CONE_SLOPE = 0.7  # slope of the cone in front of a gate
FREE_OFFSET_FRACTION = 0.25  # of the opening's width: the offset from its centre without a cost
FRAME_DEPTH_M = 0.05  # [m]: thickness of the gates' frames for a camera
MIN_POLE_RADIUS_M = 0.01  # [m]: smallest radius of a pole for a camera
POLE_CLEARANCE_M = 0.25  # [m]: a smaller distance has a cost


class RaceGoal(NamedTuple):
    """Poses of gates and poles, which of them have been observed (1 or 0), the count of gates passed, whether the drone has
    collided, and the progress of the last step, with a metre added for a gate passed  [m]."""

    gates: tuple[Gate, ...]
    poles: tuple[Vec3, ...]
    observed: tuple[Scalar, ...]
    gates_passed: Scalar = 0.0
    collided: Scalar = 0.0
    progress: Scalar = 0.0


def race_task(
    level: int = 2, track: Track | str | Path = "hall", camera: CameraPart | None = None, **fields: Any
) -> Task:
    """Create the race at a level, on any track; with a camera its images are observed; `fields` replace fields of the task."""
    require_level(level)
    race_track = track if isinstance(track, Track) else load_track(track)
    count, disturbance, uncertainty = len(race_track.gates), race_track.disturbance, race_track.uncertainty

    def knowledge(goal: RaceGoal, drone: TrimmedDrone) -> CourseKnowledge:
        return CourseKnowledge(
            race_track.course,
            Course(goal.gates, goal.poles),
            race_track.sizes,
            hub_radius(drone.nominal),
            race_track.detection_range,
        )

    def reset(draw: Draw, drone: TrimmedDrone) -> tuple[State, Tree]:
        start = drone.trim._replace(p_W=race_track.start_W)
        if level >= 1:
            x, y, z = disturbance.start
            offset = Vec3(draw.uniform(-x, x), draw.uniform(-y, y), draw.uniform(0.0, z))
            start = start._replace(p_W=start.p_W + offset, q_WB=draw.rotation(0.1))
        gates, poles = race_track.gates, race_track.poles
        if level == 2:
            gates = tuple(
                Gate(
                    gate.p_W + _random_offset(draw, uncertainty.gates),
                    gate.yaw + draw.uniform(-uncertainty.yaw, uncertainty.yaw),
                )
                for gate in gates
            )
            poles = tuple(pole + _random_offset(draw, uncertainty.poles) for pole in poles)
        return start, RaceGoal(gates, poles, (0.0,) * (count + len(poles)))

    def practice(draw: Draw, drone: TrimmedDrone) -> tuple[State, Tree]:
        """Start three of four episodes just before or behind a gate, flying through it, so that training covers the complete
        track; in one of six, gates and poles are at their nominal poses."""
        state, goal = reset(draw, drone)
        width, position_on_track = race_track.sizes.opening_size[0], draw.uniform(-count / 3.0, float(count))
        x, speed = draw.uniform(-2.0, 1.0) * width, draw.uniform(0.5, 3.0)
        offset_W, velocity_noise_W, is_nominal = draw.vector(0.25 * width), draw.vector(0.3), draw.uniform() < 1.0 / 6.0
        true = known_course(
            Course(goal.gates, goal.poles), race_track.course, (where(is_nominal, 0.0, 1.0),) * len(goal.observed)
        )
        gate, starts_at_gate = (
            select_next_gate(true.gates, floor(position_on_track)),
            logical_and(position_on_track >= 0.0, logical_or(x < 0.0, position_on_track < count - 1.0)),
        )
        ahead_W = Vec3(cos(gate.yaw), sin(gate.yaw), 0.0)
        start_W, v_W = gate.p_W + ahead_W * x + offset_W, ahead_W * speed + velocity_noise_W
        state = state._replace(
            p_W=Vec3(*(where(starts_at_gate, a, b) for a, b in zip(start_W, state.p_W, strict=True))),
            v_W=Vec3(*(where(starts_at_gate, a, b) for a, b in zip(v_W, state.v_W, strict=True))),
        )
        passed = where(starts_at_gate, floor(position_on_track) + where(x < 0.0, 0.0, 1.0), 0.0)
        return state, RaceGoal(true.gates, true.poles, goal.observed, passed)

    def progress(before: Situation, after: Situation, drone: TrimmedDrone) -> RaceGoal:
        goal: RaceGoal = before.goal
        previous_W, current_W, course_knowledge = before.state.p_W, after.state.p_W, knowledge(before.goal, drone)
        standing = course_knowledge.advance(RaceProgress(goal.gates_passed, goal.observed), previous_W, current_W)
        struck = is_outside(current_W, race_track.bounds_min_W, race_track.bounds_max_W)
        for gate in goal.gates:
            struck = logical_or(
                struck,
                collides_with_frame(
                    plane_crossing(previous_W, current_W, gate), race_track.sizes, course_knowledge.drone_radius
                ),
            )
        for pole in goal.poles:
            struck = logical_or(
                struck,
                collides_with_pole(previous_W, current_W, pole, race_track.pole_radius + course_knowledge.drone_radius),
            )
        gate = select_next_gate(goal.gates, goal.gates_passed)
        approach = _remaining_distance(previous_W, gate, race_track) - _remaining_distance(current_W, gate, race_track)
        return goal._replace(
            observed=standing.is_observed,
            gates_passed=standing.gates_passed,
            collided=where(struck, 1.0, goal.collided),
            progress=approach + (standing.gates_passed - goal.gates_passed),
        )

    def observation(situation: Situation, drone: TrimmedDrone) -> tuple[Scalar, ...]:
        """The full state relative to the observed or else nominal pose of the next gate, and the course ahead."""
        goal: RaceGoal = situation.goal
        standing = RaceProgress(goal.gates_passed, goal.observed)
        course = knowledge(goal, drone).course(standing)
        ahead = observe_gates(situation.state.p_W, course, standing)
        return observe(
            "race", situation, drone, gate_reference(select_next_gate(course.gates, goal.gates_passed)), ahead
        )

    def reward(situation: Situation, drone: TrimmedDrone) -> Scalar:
        """10 per metre of progress to the next gate and 10 per gate, minus 0.05, the cost of being near a frame or a pole,
        0.002 ω² + 0.01 a²; −5 for a collision."""
        goal, omega_B, p_W = situation.goal, situation.state.omega_B, situation.state.p_W
        cost = 0.05 + 0.002 * dot(omega_B, omega_B) + 5.0 * goal.collided
        cost = add_action_cost(cost, situation.action, 0.01)
        return 10.0 * goal.progress - cost - _obstacle_cost(p_W, goal, race_track)

    def is_finished(situation: Situation, drone: TrimmedDrone) -> Scalar:
        return situation.goal.gates_passed > count - 0.5

    def termination(situation: Situation, drone: TrimmedDrone) -> Scalar:
        return logical_or(situation.goal.collided > 0.5, is_finished(situation, drone))

    def surfaces(goal: RaceGoal) -> tuple[CameraSurface, ...]:
        """Return what the camera sees: the bars of the gates, and the poles from below the ground."""
        bars = [
            CameraSurface(bar, GATE_APPEARANCE._replace(object_name=f"gate{k}"))
            for k, gate in enumerate(goal.gates)
            for bar in gate_boxes(gate, race_track.sizes, FRAME_DEPTH_M)
        ]
        radius = max(race_track.pole_radius, MIN_POLE_RADIUS_M)
        poles = [CameraSurface(Capsule(Vec3(pole.x, pole.y, -1.0), pole, radius)) for pole in goal.poles]
        return (*bars, *poles)

    disturbance_randomization = (
        InertiaRandomization(disturbance.mass, disturbance.inertia, disturbance.max_wind_speed) if level >= 1 else None
    )
    return Task(
        f"race_level_{level}" if race_track.name == "hall" else f"race_{race_track.name}_level_{level}",
        reset,
        observation,
        reward,
        termination,
        progress,
        success=lambda situation, drone: logical_and(is_finished(situation, drone), situation.goal.collided < 0.5),
        practice=practice,
        period=0.02,
        substeps=4,
        seconds=race_track.time_limit,
        action="thrust_and_rates",
        observation_name="race",
        randomization=disturbance_randomization,
        camera=CameraObservation(CameraModel(camera), surfaces) if camera is not None else None,
    )._replace(**fields)


def _remaining_distance(p_W: Vec3, gate: Gate, track: Track) -> Scalar:
    """|r| + max(0, √(y² + z²) + 0.7 x − ¼ w), in the gate frame: larger outside a cone in front of the gate."""
    r = gate_coordinates(p_W, gate)
    outside = safe_norm(r.y, r.z) + CONE_SLOPE * r.x - FREE_OFFSET_FRACTION * track.sizes.opening_size[0]
    return safe_norm(*r) + maximum(outside, 0.0)


def _obstacle_cost(p_W: Vec3, goal: RaceGoal, track: Track) -> Scalar:
    """Smooth costs of being inside a frame or near a pole, which make collisions visible to the gradient of a flight."""
    cost: Scalar = 0.0
    width = track.sizes.opening_size[0]
    for gate in goal.gates:
        r = gate_coordinates(p_W, gate)
        offset = safe_norm(r.y, r.z) - FREE_OFFSET_FRACTION * width
        in_frame = where(offset < track.sizes.frame_size[0], maximum(offset, 0.0), 0.0)
        cost = cost + in_frame * exp(-(r.x * r.x) / (0.1 * width * width))
    for pole in goal.poles:
        pole_penetration = maximum(POLE_CLEARANCE_M - safe_norm(p_W.x - pole.x, p_W.y - pole.y), 0.0)
        cost = cost + where(p_W.z < pole.z, 4.0 * pole_penetration, 0.0)
    return cost


def _random_offset(draw: Draw, max_offset: Vec3) -> Vec3:
    return Vec3(*(draw.uniform(-bound, bound) for bound in max_offset))


TASK = race_task()
