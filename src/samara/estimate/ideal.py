"""Three estimators that need no sensors: the true state, the true state with noise, and the delayed true state.

An estimator is a record of two functions and a count:

    estimator_state = estimator.initial(state)
    estimate, estimator_state = estimator.update(state, normals, estimator_state, dt)   # normals: `normals_needed` of them

`update` is pure and component-wise: it takes one drone or a batch, and every backend compiles it. `normals` are standard
normals, components first; `dt` is the time since the last update [s].
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from samara.core.algebra import UP, ZERO, Vec3, quat_from_axis_angle
from samara.core.picklable import picklable_factory
from samara.core.quantity import Quantity, Scalar, Tree, violated_requirement
from samara.core.random import gauss_markov
from samara.estimate.estimator import EstimatorOptions, EstimatorSetup, EstimatorType
from samara.physics.types import State

NOISY_NORMALS = 13  # 3 position, 3 velocity, 1 yaw, 3 rate, 3 bias


@dataclass(frozen=True)
class Estimator:
    """An estimator without sensors: `initial(state)` returns its state, a nested tuple of scalars, and `update(state, normals,
    estimator_state, dt)` the estimate and the next estimator state."""

    name: str
    initial: Callable[[State], Tree]
    update: Callable[[State, Sequence[Scalar], Tree, Scalar], tuple[State, Tree]]
    normals_needed: int = 0


class EstimateNoise(NamedTuple):
    """Standard deviations of the noise, and the correlation time of the rate bias."""

    position: float = 0.02  # [m]
    velocity: float = 0.05  # [m/s]
    yaw: float = 0.01  # [rad]
    rate: float = 0.005  # [rad/s]
    rate_bias: float = 0.001  # [rad/s], of the stationary distribution
    bias_time: float = 50.0  # [s]


DEFAULT_NOISE = EstimateNoise()


# The three as functions ---------------------------------------------------------------------------------------------


def true_estimate(state: State, normals: Sequence[Scalar], estimator_state: Tree, dt: Scalar) -> tuple[State, Tree]:
    """x̂ = x"""
    return state, estimator_state


def noisy_estimate(
    state: State, normals: Sequence[Scalar], bias_before: Vec3, dt: Scalar, *, noise: EstimateNoise = DEFAULT_NOISE
) -> tuple[State, Vec3]:
    """p̂ = p + σ_p n,  v̂ = v + σ_v n,  q̂ = q_z(σ_ψ n) ⊗ q,  ω̂ = ω + b + σ_ω n,  b' = α b + σ_b √(1 − α²) n,  α = e^{−dt/τ}

    The yaw error is a rotation about the world's vertical: roll and pitch are exact. The estimator state is the rate bias b; it
    starts at 0, as after a calibration on the ground, and dt = ∞ draws it from its stationary distribution.
    """
    if len(normals) != NOISY_NORMALS:
        raise ValueError(f"noisy got {len(normals)} normals; expected {NOISY_NORMALS}")
    position, velocity, rate, bias_normals = (Vec3(*(normals[i + k] for k in range(3))) for i in (0, 3, 7, 10))
    bias = Vec3(
        *(
            gauss_markov(b, n, dt, sigma=noise.rate_bias, tau=noise.bias_time)
            for b, n in zip(bias_before, bias_normals, strict=True)
        )
    )
    estimate = state._replace(
        p_W=state.p_W + position * noise.position,
        v_W=state.v_W + velocity * noise.velocity,
        q_WB=quat_from_axis_angle(UP, normals[6] * noise.yaw) * state.q_WB,
        omega_B=state.omega_B + bias + rate * noise.rate,
    )
    return estimate, bias


def delayed_estimate(
    state: State, normals: Sequence[Scalar], previous_states: tuple[State, ...], dt: Scalar
) -> tuple[State, Tree]:
    """x̂ₖ = xₖ₋ₙ: the estimator state contains the last n states, the oldest first"""
    delay_line = (*previous_states, state)
    return delay_line[0], delay_line[1:]


# The estimators -----------------------------------------------------------------------------------------------------


def _empty_state(state: State) -> tuple[()]:
    return ()


TRUTH = Estimator("truth", _empty_state, true_estimate)


@cache
@picklable_factory
def noisy_estimator(noise: EstimateNoise = DEFAULT_NOISE) -> Estimator:
    """Build the noisy estimator. Equal parameters give the same record, so that drones which share it are computed together."""
    for field, value in noise._asdict().items():
        lower_bound = 1.0 if field == "bias_time" else 0.0
        if expected_value := violated_requirement(value, Quantity("", lower_bound, math.inf)):
            raise ValueError(f"noise.{field} is {value!r}; expected {expected_value}")

    def update(state: State, normals: Sequence[Scalar], estimator_state: Tree, dt: Scalar) -> tuple[State, Tree]:
        return noisy_estimate(state, normals, estimator_state, dt, noise=noise)

    return Estimator("noisy", lambda state: ZERO, update, NOISY_NORMALS)


@cache
@picklable_factory
def delayed_estimator(delay: float, period: float, source: Estimator = TRUTH) -> Estimator:
    """Delay another estimator, the true state by default; until `delay` has passed, the estimate is the first one.

    Args:
        delay: delay [s], a multiple of the period.
        period: time between updates [s].
        source: the estimator to delay.
    """
    if not (math.isfinite(period) and period > 0.0):
        raise ValueError(f"period is {period} s; expected a positive number")
    if not (math.isfinite(delay) and delay >= 0.0):
        raise ValueError(f"delay is {delay} s; expected a number that is not negative")
    ticks = round(delay / period)
    if abs(delay - ticks * period) > 1e-9 * period:
        ticks_below = math.floor(delay / period)
        raise ValueError(
            f"delay is {delay:g} s; expected a multiple of the estimator's period of {period:g} s: "
            f"the nearest are {ticks_below * period:g} s and {(ticks_below + 1) * period:g} s"
        )

    def initial(state: State) -> Tree:
        return source.initial(state), (state,) * ticks

    def update(state: State, normals: Sequence[Scalar], estimator_state: Tree, dt: Scalar) -> tuple[State, Tree]:
        source_estimate, source_state = source.update(state, normals, estimator_state[0], dt)
        estimate, delay_line = delayed_estimate(source_estimate, (), estimator_state[1], dt)
        return estimate, (source_state, delay_line)

    name = "delayed" if source.name == "truth" else f"delayed {source.name}"
    return Estimator(name, initial, update, source.normals_needed)


class Delay(NamedTuple):
    """Age of the estimate; a multiple of the estimator's period."""

    delay: float  # [s]


class Latency(NamedTuple):
    """Like `Delay`, 0 by default."""

    delay: float = 0.0  # [s]


NO_LATENCY = Latency()


def _build_truth(setup: EstimatorSetup) -> Estimator:
    return TRUTH


def _build_noisy(
    setup: EstimatorSetup, noise: EstimateNoise = DEFAULT_NOISE, latency: Latency = NO_LATENCY
) -> Estimator:
    return _add_delay(noisy_estimator(noise), latency.delay, setup.period)


def _build_delayed(setup: EstimatorSetup, latency: Delay) -> Estimator:
    return _add_delay(TRUTH, latency.delay, setup.period)


def _add_delay(source: Estimator, delay: float, period: float) -> Estimator:
    return delayed_estimator(delay, period, source) if delay else source


TYPES = (
    EstimatorType("truth", _build_truth, uses_sensors=False),
    EstimatorType(
        "noisy",
        _build_noisy,
        (EstimatorOptions("noise", EstimateNoise), EstimatorOptions("latency", Latency)),
        uses_sensors=False,
    ),
    EstimatorType("delayed", _build_delayed, (EstimatorOptions("latency", Delay),), uses_sensors=False),
)
