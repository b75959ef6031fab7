"""Wind sources, sampled once per step and constant through it.

A source is a frozen record of parameters with

    wind_state = wind.initial()
    wind_W, wind_state = wind.sample(time, dt, normals, wind_state)  # wind.normals_needed standard normals, components first

`sample` is pure. It returns the velocity of the air over the ground in world axes (ENU) [m/s], not the direction it
comes from; `from_direction` takes that direction. `time` is in seconds (µs / 1e6, so that a step at 0.3 s happens at
300 000 µs), `dt` the time since the last sample; with dt = ∞ the first sample of a random source has its stationary
distribution, with dt = 0 it is the mean. Parameters and normals may be arrays: then the wind is that of a batch.

A source whose wind depends on a drone's position or velocity also has

    wind_W, wind_state = wind.sample_at(time, dt, normals, wind_state, p_W, v_W)

with position and velocity of one drone, or of all as arrays, each with its own normals and state. `sample` is then the wind of
a drone that hovers at one position. `evaluate_wind` samples either type, and `is_local` distinguishes them. A source
that uses only `samara.core.ops` sets `traced`: a flight then compiles it.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Protocol, TypeGuard, runtime_checkable

import numpy as np

from samara.core.algebra import ZERO, Vec3
from samara.core.coerce import ScalarOrVectorLimits, Seconds
from samara.core.ops import clamp, cos, where
from samara.core.quantity import Scalar, Tree
from samara.core.random import gauss_markov
from samara.core.tree import flatten
from samara.physics.frames import wind_enu_from_direction
from samara.wind.validation import require_numbers, require_vector

Sigma = Annotated[Tree, ScalarOrVectorLimits("m/s", -100.0, 100.0)]
Tau = Annotated[Tree, ScalarOrVectorLimits("s", -1e5, 1e5)]


class WindSource(Protocol):
    """Interface of a wind source."""

    @property
    def normals_needed(self) -> int:
        """Count of standard normals that one sample uses."""

    def initial(self) -> Tree:
        """Return the state for the first sample: a nested tuple of scalars."""

    def sample(self, time: Scalar, dt: Scalar, normals: Sequence[Scalar], wind_state: Tree) -> tuple[Vec3, Tree]:
        """Return the wind in world axes [m/s] at a time [s], dt [s] after the last sample, and the state for the next."""


@runtime_checkable
class LocalWindSource(WindSource, Protocol):
    """A source whose wind differs between drones."""

    def sample_at(
        self, time: Scalar, dt: Scalar, normals: Sequence[Scalar], wind_state: Tree, p_W: Vec3, v_W: Vec3
    ) -> tuple[Vec3, Tree]:
        """Return the wind [m/s] at a position p_W [m], for a drone with velocity v_W [m/s], and the state for the next."""


def is_local(source: WindSource) -> bool:
    """Return whether the wind depends on a drone's position or velocity."""
    if isinstance(source, WindSum):
        return any(is_local(component) for component in source.sources)
    return _is_local_source(source)


def _is_local_source(source: WindSource) -> TypeGuard[LocalWindSource]:
    return hasattr(source, "sample_at")  # `isinstance` with a protocol takes 25 µs, at every tick of the wind


def is_traced(source: WindSource) -> bool:
    """Return whether the source can be compiled; a custom source that uses only `samara.core.ops` sets `traced`."""
    return bool(getattr(source, "traced", False))


def evaluate_wind(
    source: WindSource, time: Scalar, dt: Scalar, normals: Sequence[Scalar], wind_state: Tree, p_W: Vec3, v_W: Vec3
) -> tuple[Vec3, Tree]:
    """Sample any source at a drone's position; return the wind and the state for its next sample."""
    if _is_local_source(source):
        return source.sample_at(time, dt, normals, wind_state, p_W, v_W)
    return source.sample(time, dt, normals, wind_state)


class CompilableSource:
    """A source written with only `samara.core.ops`: it can be compiled, unless its parameters are arrays of a batch."""

    @property
    def traced(self) -> bool:
        """Whether the source and all sources in it can be compiled."""
        values = flatten(tuple(vars(self).values()))
        return not any(isinstance(x, np.ndarray) or (hasattr(x, "sample") and not is_traced(x)) for x in values)


class DeterministicSource(CompilableSource):
    """A wind without random numbers and without state."""

    normals_needed: ClassVar[int] = 0

    def initial(self) -> tuple[()]:
        """Return the empty state."""
        return ()


@dataclass(frozen=True)
class NoWind(DeterministicSource):
    """w = 0"""

    def sample(self, time: Scalar, dt: Scalar, normals: Sequence[Scalar], wind_state: Tree) -> tuple[Vec3, Tree]:
        """w = 0"""
        return ZERO, wind_state


@dataclass(frozen=True)
class Constant(DeterministicSource):
    """w(t) = w"""

    wind_W: Vec3

    def __post_init__(self) -> None:
        require_vector(self, "wind_W")

    @staticmethod
    def from_direction(speed: Scalar, direction_from: Scalar) -> "Constant":
        """Create from speed [m/s] and the direction the wind comes from, clockwise from north [rad]."""
        return Constant(wind_enu_from_direction(speed, direction_from))

    def sample(self, time: Scalar, dt: Scalar, normals: Sequence[Scalar], wind_state: Tree) -> tuple[Vec3, Tree]:
        """w(t) = w"""
        return self.wind_W, wind_state


@dataclass(frozen=True)
class WindStep(DeterministicSource):
    """w(t) = before for t < at, after for t ≥ at"""

    after_W: Vec3
    at: Seconds
    before_W: Vec3 = ZERO

    def __post_init__(self) -> None:
        require_vector(self, "before_W")
        require_vector(self, "after_W")
        require_numbers(self, "at")

    @staticmethod
    def from_direction(speed: Scalar, direction_from: Scalar, *, at: Seconds) -> "WindStep":
        """Create a step from calm to a speed [m/s], from a direction clockwise from north [rad]."""
        return WindStep(wind_enu_from_direction(speed, direction_from), at)

    def sample(self, time: Scalar, dt: Scalar, normals: Sequence[Scalar], wind_state: Tree) -> tuple[Vec3, Tree]:
        """w(t) = before for t < at, after for t ≥ at; NaN for a time that is NaN"""
        is_before, is_after = time < self.at, time >= self.at
        pairs = zip(self.before_W, self.after_W, strict=True)
        return Vec3(*(where(is_before, before, where(is_after, after, time)) for before, after in pairs)), wind_state


@dataclass(frozen=True)
class Gust(DeterministicSource):
    """w(t) = ½ A (1 − cos 2πx),  x = (t − start) / duration within [0, 1]: the 1-cosine gust with its peak A at x = ½"""

    amplitude_W: Vec3
    start: Seconds
    duration: Seconds

    def __post_init__(self) -> None:
        require_vector(self, "amplitude_W")
        require_numbers(self, "start")
        require_numbers(self, "duration", positive=True)

    @staticmethod
    def from_direction(speed: Scalar, direction_from: Scalar, *, start: Seconds, duration: Seconds) -> "Gust":
        """Create from its peak speed [m/s] and the direction it comes from, clockwise from north [rad]."""
        return Gust(wind_enu_from_direction(speed, direction_from), start, duration)

    def sample(self, time: Scalar, dt: Scalar, normals: Sequence[Scalar], wind_state: Tree) -> tuple[Vec3, Tree]:
        """w(t) = ½ A (1 − cos 2πx)"""
        x = clamp((time - self.start) / self.duration, 0.0, 1.0)
        return self.amplitude_W * (0.5 * (1.0 - cos(2.0 * math.pi * x))), wind_state


@dataclass(frozen=True)
class OrnsteinUhlenbeck(CompilableSource):
    """dw = (w̄ − w) dt/τ + σ √(2/τ) dW, axis by axis: mean w̄, standard deviation σ, correlation e^{−t/τ}

    σ [m/s] and τ [s] are one number for all axes, or a `Vec3`.
    """

    mean_W: Vec3
    sigma: Sigma
    tau: Tau
    normals_needed: ClassVar[int] = 3

    def __post_init__(self) -> None:
        for name in ("sigma", "tau"):
            value = getattr(self, name)
            object.__setattr__(self, name, value if isinstance(value, tuple) else Vec3(value, value, value))
        for name in ("mean_W", "sigma", "tau"):
            require_vector(self, name)
        require_numbers(self, "sigma", negative=False)
        require_numbers(self, "tau", positive=True)

    @staticmethod
    def from_direction(speed: Scalar, direction_from: Scalar, *, sigma: Sigma, tau: Tau) -> "OrnsteinUhlenbeck":
        """Create from the mean's speed [m/s] and the direction it comes from, clockwise from north [rad]."""
        return OrnsteinUhlenbeck(wind_enu_from_direction(speed, direction_from), sigma, tau)

    def initial(self) -> Vec3:
        """w − w̄ = 0"""
        return ZERO

    def sample(self, time: Scalar, dt: Scalar, normals: Sequence[Scalar], wind_state: Tree) -> tuple[Vec3, Tree]:
        """w = w̄ + x,  x' = e^{−dt/τ} x + σ √(1 − e^{−2dt/τ}) n: exact for any step"""
        if len(normals) != 3:
            raise ValueError(f"OrnsteinUhlenbeck.sample got {len(normals)} normals; expected 3")
        axes = zip(wind_state, normals, self.sigma, self.tau, strict=True)
        offset = Vec3(*(gauss_markov(x, n, dt, sigma=sigma, tau=tau) for x, n, sigma, tau in axes))
        return self.mean_W + offset, offset


@dataclass(frozen=True)
class WindSum(CompilableSource):
    """w = Σ wᵢ: for example a mean wind, a gust and turbulence"""

    sources: tuple[WindSource, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "sources", tuple(self.sources))

    @property
    def normals_needed(self) -> int:
        """Σ nᵢ; the sources use them in order."""
        return sum(source.normals_needed for source in self.sources)

    def initial(self) -> tuple[Tree, ...]:
        """Return the states of all sources."""
        return tuple(source.initial() for source in self.sources)

    def sample(self, time: Scalar, dt: Scalar, normals: Sequence[Scalar], wind_state: Tree) -> tuple[Vec3, Tree]:
        """w = Σ wᵢ"""
        return self._sum_sources(
            normals,
            wind_state,
            lambda source, source_normals, source_state: source.sample(time, dt, source_normals, source_state),
        )

    def sample_at(
        self, time: Scalar, dt: Scalar, normals: Sequence[Scalar], wind_state: Tree, p_W: Vec3, v_W: Vec3
    ) -> tuple[Vec3, Tree]:
        """w = Σ wᵢ, each at the drone's position"""
        return self._sum_sources(
            normals,
            wind_state,
            lambda source, source_normals, source_state: evaluate_wind(
                source, time, dt, source_normals, source_state, p_W, v_W
            ),
        )

    def _sum_sources(
        self, normals: Sequence[Scalar], wind_state: Tree, sample_source: Callable[..., tuple[Vec3, Tree]]
    ) -> tuple[Vec3, Tree]:
        total, next_states, used = ZERO, [], 0
        for source, source_state in zip(self.sources, wind_state, strict=True):
            wind_W, next_state = sample_source(source, normals[used : used + source.normals_needed], source_state)
            total, used = total + wind_W, used + source.normals_needed
            next_states.append(next_state)
        return total, tuple(next_states)
