"""Race: through gates in their order and past poles, as in the course that levels 0 to 2 of lsy_drone_racing share.

    VectorEnv(racing(level=1))

Level 0 is the course as it is known; at level 1 mass and inertia are not those of the vehicle's file, nor the start exactly
where it should be; at level 2 gates and poles are not either: they are seen where they were said to be until the drone comes
within 0.7 m of them. A course, its sizes and what is drawn are those of U. of Toronto's and TU Munich's competition
(github.com/utiasDSL/lsy_drone_racing). Here drones start in the air, and there is no ground to stand on.
"""

import math
from typing import Any, NamedTuple

from samara.core.algebra import Vec3, dot, norm
from samara.core.ops import absolute, cos, logical_and, logical_or, safe_divide, safe_norm, sin, where
from samara.core.quantity import Scalar
from samara.learn.observations import full_state
from samara.learn.randomize import Inertial
from samara.learn.task import Craft, Draw, Situation, Task
from samara.physics.types import State

OPENING, FRAME = 0.4, 0.72  # [m]: the sides of a gate's hole and of its frame
POLE, TALL = 0.015, 1.55  # [m]: radius and height
SENSED = 0.7  # [m]: from here on a gate or pole is seen where it is
LOW, HIGH = Vec3(-3.0, -3.0, 0.0), Vec3(3.0, 3.0, 2.5)  # [m]: the hall
LEVELS = (0, 1, 2)


class Gate(NamedTuple):
    """Its centre [m], and the heading in which it is flown through [rad]"""

    p_W: Vec3
    yaw: Scalar


class Course(NamedTuple):
    """Gates in their order, poles by their tops, and the start  [m]"""

    gates: tuple[Gate, ...]
    poles: tuple[Vec3, ...]
    start_W: Vec3


COURSE = Course(
    (
        Gate(Vec3(0.5, 0.25, 0.7), -0.78),
        Gate(Vec3(1.05, 0.75, 1.2), 2.35),
        Gate(Vec3(-1.0, -0.25, 0.7), 3.14),
        Gate(Vec3(0.0, -0.75, 1.2), 0.0),
    ),
    (Vec3(0.0, 0.75, TALL), Vec3(1.0, 0.25, TALL), Vec3(-1.5, -0.25, TALL), Vec3(-0.5, -0.75, TALL)),
    Vec3(-1.5, 0.75, 0.3),
)


class Goal(NamedTuple):
    """Where gates and poles are, which of them have been seen (1 or 0), how many gates are passed, whether something was
    struck, and how much nearer the last step came, a metre more for a gate passed  [m]"""

    gates: tuple[Gate, ...]
    poles: tuple[Vec3, ...]
    seen: tuple[Scalar, ...]
    passed: Scalar = 0.0
    struck: Scalar = 0.0
    gained: Scalar = 0.0


def racing(level: int = 2, course: Course = COURSE, **more: Any) -> Task:
    """The race at a level, over any course; `more` are other fields of the task"""
    if level not in LEVELS:
        raise ValueError(f"level is {level!r}; expected one of {', '.join(map(str, LEVELS))}")
    count = len(course.gates)

    def reset(draw: Draw, craft: Craft) -> tuple[State, Any]:
        start = craft.trim._replace(p_W=course.start_W)
        if level >= 1:
            aside = Vec3(draw.uniform(-0.1, 0.1), draw.uniform(-0.1, 0.1), draw.uniform(0.0, 0.02))
            start = start._replace(p_W=start.p_W + aside, q_WB=draw.turn(0.1))
        gates, poles = course.gates, course.poles
        if level == 2:
            gates = tuple(Gate(gate.p_W + _aside(draw, 0.1), gate.yaw + draw.uniform(-0.2, 0.2)) for gate in gates)
            poles = tuple(pole + _aside(draw, 0.05) for pole in poles)
        return start, Goal(gates, poles, (0.0,) * (count + len(poles)))

    def progress(before: Situation, after: Situation, craft: Craft) -> Goal:
        goal: Goal = before.goal
        here, there = before.state.p_W, after.state.p_W
        reach = max(math.hypot(*rotor.r_B) for rotor in craft.nominal.rotors)
        through: Scalar = False
        struck: Scalar = outside(there)
        for k, gate in enumerate(goal.gates):
            crossed, aside = crossing(here, there, gate)
            clear = aside < 0.5 * OPENING - reach
            own = logical_and(logical_and(crossed, clear), _is(goal.passed, k))
            beside = logical_and(aside >= 0.5 * OPENING - reach, aside < 0.5 * FRAME + reach)
            struck = logical_or(struck, logical_and(crossed, beside))
            through = own if through is False else logical_or(through, own)
        for pole in goal.poles:
            near = safe_norm(there.x - pole.x, there.y - pole.y) < POLE + reach
            struck = logical_or(struck, logical_and(near, there.z < pole.z))
        target = chosen(goal.gates, goal.passed)
        nearer = norm(here - target.p_W) - norm(there - target.p_W)
        objects = (*(gate.p_W for gate in goal.gates), *goal.poles)
        seen = tuple(
            where(_within(there, each, k < count), 1.0, old)
            for k, (each, old) in enumerate(zip(objects, goal.seen, strict=True))
        )
        return goal._replace(
            seen=seen,
            passed=goal.passed + where(through, 1.0, 0.0),
            struck=where(struck, 1.0, goal.struck),
            gained=nearer + where(through, 1.0, 0.0),
        )

    def observation(situation: Situation, craft: Craft) -> tuple[Scalar, ...]:
        """The full state; the next gate from here, and its heading; each gate and pole as it is known, and whether it has been
        seen; which gate is next"""
        goal: Goal = situation.goal
        gates = tuple(
            Gate(_known(own.p_W, said.p_W, seen), where(seen > 0.5, own.yaw, said.yaw))
            for own, said, seen in zip(goal.gates, course.gates, goal.seen, strict=False)
        )
        poles = (
            _known(own, said, seen) for own, said, seen in zip(goal.poles, course.poles, goal.seen[count:], strict=True)
        )
        target = chosen(gates, goal.passed)
        numbers = [*full_state(situation, craft), *(target.p_W - situation.state.p_W), cos(target.yaw), sin(target.yaw)]
        for gate in gates:
            numbers += [*gate.p_W, cos(gate.yaw), sin(gate.yaw)]
        for pole in poles:
            numbers += [pole.x, pole.y]
        numbers += goal.seen
        numbers += [where(_is(goal.passed, k), 1.0, 0.0) for k in range(count)]
        return tuple(numbers)

    def reward(situation: Situation, craft: Craft) -> Scalar:
        """10 per metre nearer to the next gate and 10 per gate, less 0.002 ω² + 0.01 a²; −10 for striking something"""
        omega_B = situation.state.omega_B
        cost = 0.002 * dot(omega_B, omega_B) + 10.0 * situation.goal.struck
        for a in situation.action:
            cost = cost + 0.01 * a * a
        return 10.0 * situation.goal.gained - cost

    def done(situation: Situation, craft: Craft) -> Scalar:
        return situation.goal.passed > count - 0.5

    def termination(situation: Situation, craft: Craft) -> Scalar:
        return logical_or(situation.goal.struck > 0.5, done(situation, craft))

    fields = {"period": 0.02, "substeps": 4, "seconds": 20.0, "action": "thrust_and_rates"}
    drawn = Inertial(mass=0.12, inertia=0.05) if level >= 1 else None
    return Task(
        f"race_level_{level}",
        reset,
        observation,
        reward,
        termination,
        progress,
        success=lambda situation, craft: logical_and(done(situation, craft), situation.goal.struck < 0.5),
        **{**fields, "randomization": drawn, **more},
    )


def crossing(here_W: Vec3, there_W: Vec3, gate: Gate) -> tuple[Scalar, Scalar]:
    """Whether the way from here to there goes through the plane of a gate, forwards; and how far from its centre, along the
    axis that is farther [m]"""
    c, s = cos(gate.yaw), sin(gate.yaw)
    one, other = (_in_gate(p_W - gate.p_W, c, s) for p_W in (here_W, there_W))
    crossed = logical_and(one.x < 0.0, other.x >= 0.0)
    share = safe_divide(-one.x, other.x - one.x)
    y, z = (absolute(a + share * (b - a)) for a, b in ((one.y, other.y), (one.z, other.z)))
    return crossed, where(y > z, y, z)


def chosen(gates: tuple[Gate, ...], passed: Scalar) -> Gate:
    """The gate that is next; after the last one, that"""
    found = gates[-1]
    for k in range(len(gates) - 2, -1, -1):
        here = passed < k + 0.5
        found = Gate(
            Vec3(*(where(here, a, b) for a, b in zip(gates[k].p_W, found.p_W, strict=True))),
            where(here, gates[k].yaw, found.yaw),
        )
    return found


def outside(p_W: Vec3) -> Scalar:
    """Beyond the walls, the floor or the ceiling"""
    beyond: Scalar = p_W.x < LOW.x
    for value, low, high in zip(p_W, LOW, HIGH, strict=True):
        beyond = logical_or(beyond, logical_or(value < low, value > high))
    return beyond


def _in_gate(r_W: Vec3, c: Scalar, s: Scalar) -> Vec3:
    return Vec3(c * r_W.x + s * r_W.y, c * r_W.y - s * r_W.x, r_W.z)


def _is(passed: Scalar, k: int) -> Scalar:
    return logical_and(passed > k - 0.5, passed < k + 0.5)


def _within(p_W: Vec3, place_W: Vec3, with_height: bool) -> Scalar:
    aside = p_W - place_W
    return safe_norm(aside.x, aside.y, *((aside.z,) if with_height else ())) < SENSED


def _known(own_W: Vec3, said_W: Vec3, seen: Scalar) -> Vec3:
    return Vec3(*(where(seen > 0.5, a, b) for a, b in zip(own_W, said_W, strict=True)))


def _aside(draw: Draw, up: float) -> Vec3:
    return Vec3(draw.uniform(-0.15, 0.15), draw.uniform(-0.15, 0.15), draw.uniform(-up, up))


TASK = racing()
