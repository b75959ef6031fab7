"""Three estimators that need no sensors: the truth, the truth with noise, and the truth of a while ago.

An estimator is a record of two functions and a count:

    memory = estimator.initial(state)
    estimate, memory = estimator.update(state, normals, memory, dt)      # estimator.normals_needed standard normals

`update` is pure and component-wise: it takes one drone or a batch, and every backend compiles it. `normals` are components
first; `dt` is the time since the last update [s].
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from samara.core.algebra import UP, ZERO, Vec3, quat_from_axis_angle
from samara.core.picklable import remade
from samara.core.quantity import Quantity, Scalar, Tree, expected
from samara.core.random import gauss_markov
from samara.estimate.estimator import EstimatorSetup, EstimatorType, Options
from samara.physics.types import State

NOISY_NORMALS = 13  # 3 position, 3 velocity, 1 yaw, 3 rate, 3 bias


@dataclass(frozen=True)
class Estimator:
    """`initial(state)` gives its memory, a nested tuple of scalars; `update(state, normals, memory, dt)` the estimate and
    the memory for the next."""

    name: str
    initial: Callable[[State], Tree]
    update: Callable[[State, Sequence[Scalar], Tree, Scalar], tuple[State, Tree]]
    normals_needed: int = 0


class Noise(NamedTuple):
    """Standard deviations of what the noisy estimator adds, and how long its rate bias remembers."""

    position: float = 0.02  # [m]
    velocity: float = 0.05  # [m/s]
    yaw: float = 0.01  # [rad]
    rate: float = 0.005  # [rad/s]
    rate_bias: float = 0.001  # [rad/s], once settled
    bias_time: float = 50.0  # [s]


DOCUMENT_003 = Noise()


# The three as functions ---------------------------------------------------------------------------------------------


def truth(state: State, normals: Sequence[Scalar], memory: Tree, dt: Scalar) -> tuple[State, Tree]:
    """x̂ = x"""
    return state, memory


def noisy(
    state: State, normals: Sequence[Scalar], memory: Vec3, dt: Scalar, *, noise: Noise = DOCUMENT_003
) -> tuple[State, Vec3]:
    """p̂ = p + σ_p n,  v̂ = v + σ_v n,  q̂ = q_z(σ_ψ n) ⊗ q,  ω̂ = ω + b + σ_ω n,  b' = α b + σ_b √(1 − α²) n,  α = e^{−dt/τ}

    The yaw error turns about the world's vertical: roll and pitch stay true. The memory is the rate bias b; it starts at 0, as
    after a calibration on the ground, and with dt = ∞ is drawn settled.
    """
    if len(normals) != NOISY_NORMALS:
        raise ValueError(f"noisy got {len(normals)} normals; expected {NOISY_NORMALS}")
    position, velocity, rate, drift = (Vec3(*(normals[i + k] for k in range(3))) for i in (0, 3, 7, 10))
    bias = Vec3(
        *(
            gauss_markov(b, n, dt, sigma=noise.rate_bias, tau=noise.bias_time)
            for b, n in zip(memory, drift, strict=True)
        )
    )
    estimate = state._replace(
        p_W=state.p_W + position * noise.position,
        v_W=state.v_W + velocity * noise.velocity,
        q_WB=quat_from_axis_angle(UP, normals[6] * noise.yaw) * state.q_WB,
        omega_B=state.omega_B + bias + rate * noise.rate,
    )
    return estimate, bias


def delayed(state: State, normals: Sequence[Scalar], memory: tuple[State, ...], dt: Scalar) -> tuple[State, Tree]:
    """x̂ₖ = xₖ₋ₙ: the memory holds the last n states, the oldest first"""
    line = (*memory, state)
    return line[0], line[1:]


# and as records -----------------------------------------------------------------------------------------------------


def _remembers_nothing(state: State) -> tuple[()]:
    return ()


TRUTH = Estimator("truth", _remembers_nothing, truth)


@cache
@remade
def noisy_estimator(noise: Noise = DOCUMENT_003) -> Estimator:
    """The truth with noise. Equal numbers give the same record, so that drones which share one are computed together."""
    for field, value in noise._asdict().items():
        lowest = 1.0 if field == "bias_time" else 0.0
        if wanted := expected(value, Quantity("", lowest, math.inf)):
            raise ValueError(f"noise.{field} is {value!r}; expected {wanted}")

    def update(state: State, normals: Sequence[Scalar], memory: Tree, dt: Scalar) -> tuple[State, Tree]:
        return noisy(state, normals, memory, dt, noise=noise)

    return Estimator("noisy", lambda state: ZERO, update, NOISY_NORMALS)


@cache
@remade
def delayed_estimator(delay: float, period: float, of: Estimator = TRUTH) -> Estimator:
    """What another estimator (the truth by default) said `delay` seconds ago; a multiple of the period of its updates [s]

    Until so much time has passed, its estimate is the first one.
    """
    if not (math.isfinite(period) and period > 0.0):
        raise ValueError(f"period is {period} s; expected a positive number")
    if not (math.isfinite(delay) and delay >= 0.0):
        raise ValueError(f"delay is {delay} s; expected a number that is not negative")
    ticks = round(delay / period)
    if abs(delay - ticks * period) > 1e-9 * period:
        below = math.floor(delay / period)
        raise ValueError(
            f"delay is {delay:g} s; expected a multiple of the estimator's period of {period:g} s: "
            f"the nearest are {below * period:g} s and {(below + 1) * period:g} s"
        )

    def initial(state: State) -> Tree:
        return of.initial(state), (state,) * ticks

    def update(state: State, normals: Sequence[Scalar], memory: Tree, dt: Scalar) -> tuple[State, Tree]:
        said, own = of.update(state, normals, memory[0], dt)
        estimate, line = delayed(said, (), memory[1], dt)
        return estimate, (own, line)

    name = "delayed" if of.name == "truth" else f"delayed {of.name}"
    return Estimator(name, initial, update, of.normals_needed)


class Delay(NamedTuple):
    """How old the estimate is; a multiple of the estimator's period."""

    delay: float  # [s]


class Latency(NamedTuple):
    """As `Delay`, none by default."""

    delay: float = 0.0  # [s]


NO_LATENCY = Latency()


def _build_truth(setup: EstimatorSetup) -> Estimator:
    return TRUTH


def _build_noisy(setup: EstimatorSetup, noise: Noise = DOCUMENT_003, latency: Latency = NO_LATENCY) -> Estimator:
    return _late(noisy_estimator(noise), latency.delay, setup.period)


def _build_delayed(setup: EstimatorSetup, latency: Delay) -> Estimator:
    return _late(TRUTH, latency.delay, setup.period)


def _late(source: Estimator, delay: float, period: float) -> Estimator:
    return delayed_estimator(delay, period, source) if delay else source


TYPES = (
    EstimatorType("truth", _build_truth, fuses=False),
    EstimatorType("noisy", _build_noisy, (Options("noise", Noise), Options("latency", Latency)), fuses=False),
    EstimatorType("delayed", _build_delayed, (Options("latency", Delay),), fuses=False),
)
