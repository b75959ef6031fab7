"""Race: through gates in their order and past poles, on a track of `samara race`.

    VectorEnv(racing(level=1, track="hall"))

Level 0 is the track as it is known; at level 1 mass and inertia are not those of the vehicle's file, nor the start
exactly where it should be, and there is wind; at level 2 gates and poles are not either: they are seen where they were
said to be until the drone comes near them. There is no ground to stand on.
"""

from pathlib import Path
from typing import Any, NamedTuple

from samara.control.gate_observation import Knowledge, Standing, at_gate, sight
from samara.core.algebra import Vec3, dot
from samara.core.ops import cos, exp, floor, logical_and, logical_or, maximum, safe_norm, sin, where
from samara.core.quantity import Scalar
from samara.learn.domain_randomization import Inertial
from samara.learn.task import Craft, Draw, Situation, Task, Tree, add_action_cost, observe
from samara.physics.types import State
from samara.world.gates import (
    Course,
    Gate,
    chosen,
    crossing,
    in_gate,
    is_outside,
    known,
    reach_of,
    strikes_frame,
    strikes_pole,
)
from samara.world.track import Track, load_track, require_level

CONE = 0.7  # of the way ahead: how wide the cone before a gate opens
ASIDE = 0.25  # of the opening's width: as far from its middle as costs nothing
NEAR_POLE = 0.25  # [m]: nearer costs


class Goal(NamedTuple):
    """Where gates and poles are, which of them have been seen (1 or 0), how many gates are passed, whether something was
    struck, and how much nearer the last step came, a metre more for a gate passed  [m]"""

    gates: tuple[Gate, ...]
    poles: tuple[Vec3, ...]
    seen: tuple[Scalar, ...]
    passed: Scalar = 0.0
    struck: Scalar = 0.0
    gained: Scalar = 0.0


def racing(level: int = 2, track: Track | str | Path = "hall", **fields: Any) -> Task:
    """The race at a level, on any track; `fields` are other fields of the task"""
    require_level(level)
    own = track if isinstance(track, Track) else load_track(track)
    count, disturbed, uncertain = len(own.gates), own.disturbed, own.uncertain

    def knowledge(goal: Goal, craft: Craft) -> Knowledge:
        return Knowledge(
            own.course, Course(goal.gates, goal.poles), own.sizes, reach_of(craft.nominal), own.seen_within
        )

    def reset(draw: Draw, craft: Craft) -> tuple[State, Tree]:
        start = craft.trim._replace(p_W=own.start_W)
        if level >= 1:
            x, y, z = disturbed.start
            aside = Vec3(draw.uniform(-x, x), draw.uniform(-y, y), draw.uniform(0.0, z))
            start = start._replace(p_W=start.p_W + aside, q_WB=draw.turn(0.1))
        gates, poles = own.gates, own.poles
        if level == 2:
            gates = tuple(
                Gate(gate.p_W + _aside(draw, uncertain.gates), gate.yaw + draw.uniform(-uncertain.yaw, uncertain.yaw))
                for gate in gates
            )
            poles = tuple(pole + _aside(draw, uncertain.poles) for pole in poles)
        return start, Goal(gates, poles, (0.0,) * (count + len(poles)))

    def practice(draw: Draw, craft: Craft) -> tuple[State, Tree]:
        """Three of four episodes begin just before or behind a gate, on the way through it, so that all of the track is learnt
        at once; in one of six gates and poles are where they were said to be"""
        state, goal = reset(draw, craft)
        width, at = own.sizes.opening[0], draw.uniform(-count / 3.0, float(count))
        x, fast = draw.uniform(-2.0, 1.0) * width, draw.uniform(0.5, 3.0)
        aside_W, slip_W, as_said = draw.vector(0.25 * width), draw.vector(0.3), draw.uniform() < 1.0 / 6.0
        true = known(Course(goal.gates, goal.poles), own.course, (where(as_said, 0.0, 1.0),) * len(goal.seen))
        gate, elsewhere = chosen(true.gates, floor(at)), logical_and(at >= 0.0, logical_or(x < 0.0, at < count - 1.0))
        ahead_W = Vec3(cos(gate.yaw), sin(gate.yaw), 0.0)
        there_W, v_W = gate.p_W + ahead_W * x + aside_W, ahead_W * fast + slip_W
        state = state._replace(
            p_W=Vec3(*(where(elsewhere, a, b) for a, b in zip(there_W, state.p_W, strict=True))),
            v_W=Vec3(*(where(elsewhere, a, b) for a, b in zip(v_W, state.v_W, strict=True))),
        )
        passed = where(elsewhere, floor(at) + where(x < 0.0, 0.0, 1.0), 0.0)
        return state, Goal(true.gates, true.poles, goal.seen, passed)

    def progress(before: Situation, after: Situation, craft: Craft) -> Goal:
        goal: Goal = before.goal
        here, there, knows = before.state.p_W, after.state.p_W, knowledge(before.goal, craft)
        standing = knows.onward(Standing(goal.passed, goal.seen), here, there)
        struck = is_outside(there, own.low_W, own.high_W)
        for gate in goal.gates:
            struck = logical_or(struck, strikes_frame(crossing(here, there, gate), own.sizes, knows.reach))
        for pole in goal.poles:
            struck = logical_or(struck, strikes_pole(here, there, pole, own.pole_radius + knows.reach))
        gate = chosen(goal.gates, goal.passed)
        nearer = _way_left(here, gate, own) - _way_left(there, gate, own)
        return goal._replace(
            seen=standing.seen,
            passed=standing.passed,
            struck=where(struck, 1.0, goal.struck),
            gained=nearer + (standing.passed - goal.passed),
        )

    def observation(situation: Situation, craft: Craft) -> tuple[Scalar, ...]:
        """The full state relative to the next gate as it is known, and what is seen ahead of it"""
        goal: Goal = situation.goal
        standing = Standing(goal.passed, goal.seen)
        course = knowledge(goal, craft).course(standing)
        ahead = sight(situation.state.p_W, course, standing)
        return observe("race", situation, craft, at_gate(chosen(course.gates, goal.passed)), ahead)

    def reward(situation: Situation, craft: Craft) -> Scalar:
        """10 per metre nearer to the next gate and 10 per gate, less 0.05, what it costs to be near a frame or a pole,
        0.002 ω² + 0.01 a²; −5 for striking something"""
        goal, omega_B, p_W = situation.goal, situation.state.omega_B, situation.state.p_W
        cost = 0.05 + 0.002 * dot(omega_B, omega_B) + 5.0 * goal.struck
        cost = add_action_cost(cost, situation.action, 0.01)
        return 10.0 * goal.gained - cost - _in_the_way(p_W, goal, own)

    def done(situation: Situation, craft: Craft) -> Scalar:
        return situation.goal.passed > count - 0.5

    def termination(situation: Situation, craft: Craft) -> Scalar:
        return logical_or(situation.goal.struck > 0.5, done(situation, craft))

    drawn = Inertial(disturbed.mass, disturbed.inertia, disturbed.wind) if level >= 1 else None
    return Task(
        f"race_level_{level}" if own.name == "hall" else f"race_{own.name}_level_{level}",
        reset,
        observation,
        reward,
        termination,
        progress,
        success=lambda situation, craft: logical_and(done(situation, craft), situation.goal.struck < 0.5),
        practice=practice,
        period=0.02,
        substeps=4,
        seconds=own.seconds,
        action="thrust_and_rates",
        sees="race",
        randomization=drawn,
    )._replace(**fields)


def _way_left(p_W: Vec3, gate: Gate, track: Track) -> Scalar:
    """|r| + max(0, √(y² + z²) + 0.7 x − ¼ w), in the axes of a gate: more outside of a cone before it"""
    r = in_gate(p_W, gate)
    outside = safe_norm(r.y, r.z) + CONE * r.x - ASIDE * track.sizes.opening[0]
    return safe_norm(*r) + maximum(outside, 0.0)


def _in_the_way(p_W: Vec3, goal: Goal, track: Track) -> Scalar:
    """Smooth costs of being where a frame is, and near a pole: what the gradient of a flight sees of them"""
    cost: Scalar = 0.0
    width = track.sizes.opening[0]
    for gate in goal.gates:
        r = in_gate(p_W, gate)
        aside = safe_norm(r.y, r.z) - ASIDE * width
        in_frame = where(aside < track.sizes.frame[0], maximum(aside, 0.0), 0.0)
        cost = cost + in_frame * exp(-(r.x * r.x) / (0.1 * width * width))
    for pole in goal.poles:
        near = maximum(NEAR_POLE - safe_norm(p_W.x - pole.x, p_W.y - pole.y), 0.0)
        cost = cost + where(p_W.z < pole.z, 4.0 * near, 0.0)
    return cost


def _aside(draw: Draw, size: Vec3) -> Vec3:
    return Vec3(*(draw.uniform(-own, own) for own in size))


TASK = racing()
