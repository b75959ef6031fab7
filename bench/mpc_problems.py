"""Optimal-control problems of a quadrotor on which solvers are compared, stated in NumPy: starts, goals, model and cost.

    for problem in draw_problems("middle"):
        plan.goals = shaped_goals(problem, horizon)        # (N + 1, 9): p, v and b₃ of the reference
        rollout_cost(body, problem, controls)              # of inputs (N, 4), one thrust per rotor

67 problems of each tier start at (0, 0, 1): velocity and body rate uniform in a ball, tilt about a uniform azimuth, uniform
yaw, and a target uniform in a box of 4 × 4 × 2 m around the start. The cost is that of the iLQR document for rotor thrusts,
the goals are its shaped path. `derivative`, `step` and `residuals` take numbers or the symbols of CasADi.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

DT, GRAVITY, TICKS = 0.05, 9.81, 120
COUNT, SEED = 67, 0
STATE_SIZE, GOAL_SIZE, INPUTS = 13, 9, 4

Array = np.ndarray
Symbols = Sequence[Any]
"""Numbers or symbols."""


class Tier(NamedTuple):
    """Largest tilt [deg], speed [m/s] and body rate [rad/s] of the starts."""

    tilt: float
    speed: float
    rate: float


TIERS = {"near": Tier(20.0, 0.3, 0.5), "middle": Tier(60.0, 2.0, 4.0), "hard": Tier(180.0, 4.0, 12.0)}


class StartAndTarget(NamedTuple):
    """A start (p, v, q as w, x, y, z, ω) and the point to reach."""

    start: Array
    target: Array


class Weights(NamedTuple):
    """Weights w of ½ w r²: position, velocity, thrust axis, yaw rate, thrusts, and those at the end of the horizon."""

    position: float = 30.0
    velocity: float = 8.0
    tilt: float = 4.0
    yaw_rate: float = 0.2
    thrust: float = 300.0
    final_position: float = 60.0
    final_velocity: float = 15.0
    final_tilt: float = 8.0


WEIGHTS = Weights()

MAX_TILT, MAX_BODY_RATE = 1.2, 8.0  # of the problems with constraints  [rad, rad/s]
SPHERES = (((0.7, 0.2, 1.0), 0.4, (0.0, 0.0, 0.0)), ((-0.7, -0.2, 1.0), 0.3, (0.2, 0.0, 0.0)))
"""Obstacles: centre [m], radius [m] and velocity [m/s]."""


class Body(NamedTuple):
    """A quadrotor without drag: mass [kg], principal inertia [kg m²], rotors (x, y, yaw torque per thrust), limits [N]."""

    mass: float
    inertia: tuple[float, float, float]
    rotors: tuple[tuple[float, float, float], ...]
    low: float
    high: float

    @property
    def hover(self) -> float:
        """Thrust of each rotor at hover  [N]"""
        return self.mass * GRAVITY / len(self.rotors)


def draw_problems(tier: str, count: int = COUNT, seed: int = SEED) -> list[StartAndTarget]:
    """Draw the problems of a tier."""
    limits, rng = TIERS[tier], np.random.default_rng([seed, list(TIERS).index(tier)])

    def draw_in_ball(radius: float) -> Array:
        axis = rng.normal(size=3)
        return axis / np.linalg.norm(axis) * radius * rng.uniform() ** (1 / 3)

    problems = []
    for _ in range(count):
        tilt, azimuth, yaw = (
            np.radians(limits.tilt) * rng.uniform(),
            rng.uniform(0, 2 * np.pi),
            rng.uniform(-np.pi, np.pi),
        )
        tilted = np.array(
            [np.cos(tilt / 2), np.sin(tilt / 2) * np.cos(azimuth), np.sin(tilt / 2) * np.sin(azimuth), 0.0]
        )
        turned = np.array([np.cos(yaw / 2), 0.0, 0.0, np.sin(yaw / 2)])
        start = np.concatenate(
            [[0, 0, 1], draw_in_ball(limits.speed), multiply(tilted, turned), draw_in_ball(limits.rate)]
        )
        problems.append(StartAndTarget(start, start[:3] + rng.uniform(-2, 2, 3) * [1.0, 1.0, 0.5]))
    return problems


def multiply(q: Symbols, r: Symbols) -> Array:
    """q ⊗ r"""
    (w, x, y, z), (a, b, c, d) = q, r
    return np.array(
        [
            w * a - x * b - y * c - z * d,
            w * b + x * a + y * d - z * c,
            w * c - x * d + y * a + z * b,
            w * d + x * c - y * b + z * a,
        ]
    )


# Goals and first guess -----------------------------------------------------------------------------------------------


def limit_norm(v: Array, largest: float) -> Array:
    """v, scaled down to the length `largest` if it is longer"""
    return v * (largest / max(float(np.linalg.norm(v)), largest))


def shaped_goals(problem: StartAndTarget, horizon: int) -> Array:
    """p, v and b₃ of the path with v_des = 1.4 (p_target − p₀), at most 4 m/s, and a = 2 (v_des − v), at most 8 m/s²"""
    start, target = problem
    p, v, rows = start[:3].copy(), start[3:6].copy(), []
    desired = limit_norm(1.4 * (np.asarray(target) - start[:3]), 4.0)
    for _ in range(horizon + 1):
        a = limit_norm(2.0 * (desired - v), 8.0)
        thrust = np.array([a[0], a[1], max(a[2] + GRAVITY, 0.2 * GRAVITY)])
        rows.append(np.concatenate([p, v, thrust / np.linalg.norm(thrust)]))
        p, v = p + v * DT + 0.5 * a * DT**2, v + a * DT
    return np.array(rows)


def level_guess(start: Array, goals: Array) -> Array:
    """The goals' positions and velocities, level with the heading of the start; states with gaps"""
    length = np.hypot(start[6], start[9])
    q = np.array([start[6], 0.0, 0.0, start[9]]) / length if length > 1e-6 else np.array([1.0, 0.0, 0.0, 0.0])
    states = np.hstack([goals[:, :6], np.tile(q, (len(goals), 1)), np.zeros((len(goals), 3))])
    states[0] = start
    return states


# Model and cost ------------------------------------------------------------------------------------------------------


def thrust_axis(q: Symbols) -> list[Any]:
    """b₃ = R e₃"""
    w, x, y, z = q
    return [2.0 * (x * z + w * y), 2.0 * (y * z - w * x), 1.0 - 2.0 * (x * x + y * y)]


def derivative(x: Symbols, u: Symbols, body: Body) -> list[Any]:
    """ẋ of the rigid body: v̇ = T b₃/m − g e₃,  q̇ = ½ q ⊗ ω,  J ω̇ = τ − ω × J ω"""
    (vx, vy, vz), (w, i, j, k), (p, q, r) = x[3:6], x[6:10], x[10:13]
    specific = sum(u) / body.mass
    axis, (jx, jy, jz) = thrust_axis(x[6:10]), body.inertia
    torques = [
        sum(rotor[1] * thrust for rotor, thrust in zip(body.rotors, u, strict=True)),
        sum(-rotor[0] * thrust for rotor, thrust in zip(body.rotors, u, strict=True)),
        sum(rotor[2] * thrust for rotor, thrust in zip(body.rotors, u, strict=True)),
    ]
    return [
        *(vx, vy, vz),
        *(axis[0] * specific, axis[1] * specific, axis[2] * specific - GRAVITY),
        0.5 * (-i * p - j * q - k * r),
        0.5 * (w * p + j * r - k * q),
        0.5 * (w * q - i * r + k * p),
        0.5 * (w * r + i * q - j * p),
        (torques[0] - (jz - jy) * q * r) / jx,
        (torques[1] - (jx - jz) * r * p) / jy,
        (torques[2] - (jy - jx) * p * q) / jz,
    ]


def step(x: Symbols, u: Symbols, body: Body) -> list[Any]:
    """x' by RK4, with q of unit length"""
    x = list(x)
    slopes = [derivative(x, u, body)]
    for factor in (0.5 * DT, 0.5 * DT, DT):
        slopes.append(derivative([a + factor * b for a, b in zip(x, slopes[-1], strict=True)], u, body))
    following = [a + DT / 6.0 * (b + 2.0 * c + 2.0 * d + e) for a, b, c, d, e in zip(x, *slopes, strict=True)]
    length = sum(part * part for part in following[6:10]) ** 0.5
    return [*following[:6], *(part / length for part in following[6:10]), *following[10:]]


def residuals(x: Symbols, goal: Symbols) -> list[Any]:
    """p − p_r, v − v_r, b₃ − b₃r, ω_z"""
    desired = [*x[:6], *thrust_axis(x[6:10])]
    return [*(a - b for a, b in zip(desired, goal, strict=True)), x[12]]


def state_weights(final: bool = False) -> Array:
    """The weight of each residual of a state"""
    w = WEIGHTS
    rows = (w.final_position, w.final_velocity, w.final_tilt, 0.0) if final else w[:4]
    return np.repeat(rows, [3, 3, 3, 1])


def rollout(body: Body, start: Array, controls: Array) -> Array:
    """Return the states (N + 1, 13) of inputs (N, 4)."""
    states = [np.asarray(start, dtype=float).tolist()]
    for u in np.asarray(controls, dtype=float).tolist():
        states.append(step(states[-1], u, body))
    return np.array(states)


def plan_cost(body: Body, states: Array, controls: Array, goals: Array) -> float:
    """Σ ½ w r² of states and inputs"""
    r = np.array([residuals(x, goal) for x, goal in zip(states, goals, strict=True)])
    cost = 0.5 * (r[:-1] ** 2 @ state_weights()).sum() + 0.5 * float(r[-1] ** 2 @ state_weights(final=True))
    return float(cost + 0.5 * WEIGHTS.thrust * ((controls - body.hover) ** 2).sum())


def rollout_cost(body: Body, problem: StartAndTarget, controls: Array) -> float:
    """The cost of inputs (N, 4), clipped to their limits and rolled out; infinite if a state is not finite."""
    inputs = np.clip(controls, body.low, body.high)
    with np.errstate(all="ignore"):
        states = rollout(body, problem.start, inputs) if np.isfinite(inputs).all() else np.array([np.nan])
        if not np.isfinite(states).all():
            return float("inf")
        return plan_cost(body, states, inputs, shaped_goals(problem, len(inputs)))


def stabilised_start(
    body: Body, problem: StartAndTarget, horizon: int, gains: tuple[float, float, float, float]
) -> Array:
    """Inputs (N, 4) of a rollout with feedback of position, velocity, attitude and rate; `gains` k_p, k_v, k_R, k_ω."""
    x, (k_p, k_v, k_R, k_omega), inputs = problem.start, gains, []
    mixing = np.array([[1.0, y, -px, yaw] for px, y, yaw in body.rotors]).T
    allocation = np.linalg.inv(mixing)
    for _ in range(horizon):
        desired = k_p * (problem.target - x[:3]) - k_v * x[3:6] + [0.0, 0.0, GRAVITY]
        desired[2] = max(desired[2], 0.2 * GRAVITY)
        axis, (w, i, j, k) = np.array(thrust_axis(x[6:10])), x[6:10]
        rotation = np.array(
            [
                [1 - 2 * (j * j + k * k), 2 * (i * j - w * k), 2 * (i * k + w * j)],
                [2 * (i * j + w * k), 1 - 2 * (i * i + k * k), 2 * (j * k - w * i)],
                [2 * (i * k - w * j), 2 * (j * k + w * i), 1 - 2 * (i * i + j * j)],
            ]
        )
        error_B = rotation.T @ np.cross(axis, desired / np.linalg.norm(desired))
        torque = np.array(body.inertia) * (k_R * error_B - k_omega * x[10:13])
        u = np.clip(allocation @ [body.mass * max(float(axis @ desired), 0.0), *torque], body.low, body.high)
        inputs.append(u)
        x = np.array(step(x.tolist(), u.tolist(), body))
    return np.array(inputs)


def worst_violation(states: Array) -> float:
    """The largest g of tilt, body rates and spheres from the second state on, in units of its scale; positive if violated."""
    elapsed = DT * np.arange(1, len(states))[:, None]
    p, q, omega = states[1:, :3], states[1:, 6:10], states[1:, 10:]
    vertical = 1.0 - 2.0 * (q[:, 1] ** 2 + q[:, 2] ** 2)
    violations = [(np.cos(MAX_TILT) - vertical).max() / (MAX_TILT * np.sin(MAX_TILT))]
    violations.append(0.5 * ((omega / MAX_BODY_RATE) ** 2 - 1.0).max())
    for centre, radius, velocity in SPHERES:
        distance = np.linalg.norm(p - (np.array(centre) + elapsed * velocity), axis=1)
        violations.append((1.0 - distance / radius).max())
    return float(max(violations))


# Closed loop ---------------------------------------------------------------------------------------------------------


class ClosedLoop(NamedTuple):
    """A flight: the largest tilt after the first second [deg], and the final distance from the target [m]."""

    tilt: float
    miss: float


def evaluate_flight(states: Array, target: Array) -> ClosedLoop:
    """Evaluate the states (TICKS + 1, 13) of a flight."""
    late = states[round(1.0 / DT) :]
    if not np.isfinite(states).all():
        return ClosedLoop(180.0, float("inf"))
    tilts = np.degrees(np.arccos(np.clip(1.0 - 2.0 * (late[:, 7] ** 2 + late[:, 8] ** 2), -1.0, 1.0)))
    return ClosedLoop(float(tilts.max()), float(np.linalg.norm(states[-1, :3] - target)))


def fly_model(body: Body, problem: StartAndTarget, control: Callable[[int, Array], Array]) -> ClosedLoop:
    """Fly the model itself with `control(tick, state)`, which returns the inputs of a step."""
    states = [problem.start]
    for tick in range(TICKS):
        u = np.clip(control(tick, states[-1]), body.low, body.high)
        states.append(np.array(step(states[-1].tolist(), u.tolist(), body)))
        if not np.isfinite(states[-1]).all():
            break
    return evaluate_flight(np.array(states), problem.target)
