"""Where the air goes: wind sources, sampled once per step and held through it.

A source is a frozen record of numbers with three things to ask of it:

    memory = wind.initial()
    wind_W, memory = wind.sample(time, dt, normals, memory)      # wind.normals_needed standard normals, components first

`sample` is pure. It gives the velocity of the air over the ground in world axes (ENU) [m/s], not where it blows from;
`from_direction` takes that. `time` is in seconds (µs / 1e6, so that a step at 0.3 s is met at 300 000 µs), `dt` the time
since the last sample; with dt = ∞ the first sample of a random source is drawn from its stationary distribution, with
dt = 0 it is the mean. Numbers and normals may be arrays: then the wind is that of a batch.

Where the wind depends on the place, or on how fast a drone flies through it, a source has also

    wind_W, memory = wind.sample_at(time, dt, normals, memory, p_W, v_W)

with position and velocity of one drone, or of all as arrays, each with normals and memory of its own. `sample` then is the
wind of a drone that hovers at one place. `wind_at` asks either kind, and `is_local` tells which it is. A source that uses
`samara.core.ops` alone says `traced`: a flight then compiles it.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Protocol, TypeGuard, runtime_checkable

import numpy as np

from samara.core.algebra import ZERO, Vec3
from samara.core.coerce import OneOrThree, Seconds
from samara.core.ops import clamp, cos, where
from samara.core.quantity import Scalar, Tree
from samara.core.random import gauss_markov
from samara.core.tree import flatten
from samara.physics.frames import wind_enu_from_direction
from samara.wind.validation import keep_vector, require_numbers

Sigma = Annotated[Tree, OneOrThree("m/s", -100.0, 100.0)]
Tau = Annotated[Tree, OneOrThree("s", -1e5, 1e5)]


class WindSource(Protocol):
    """What a source of wind can be asked."""

    @property
    def normals_needed(self) -> int:
        """How many standard normals one sample takes."""

    def initial(self) -> Tree:
        """The memory to give the first sample: a nested tuple of scalars."""

    def sample(self, time: Scalar, dt: Scalar, normals: Sequence[Scalar], memory: Tree) -> tuple[Vec3, Tree]:
        """The wind in world axes [m/s] at a time [s], dt [s] after the last sample, and the memory for the next."""


@runtime_checkable
class LocalWindSource(WindSource, Protocol):
    """A source whose wind is not the same for all drones."""

    def sample_at(
        self, time: Scalar, dt: Scalar, normals: Sequence[Scalar], memory: Tree, p_W: Vec3, v_W: Vec3
    ) -> tuple[Vec3, Tree]:
        """The wind [m/s] at a place p_W [m], for a drone that flies at v_W [m/s]."""


def is_local(source: WindSource) -> bool:
    """Whether drones at other places and speeds meet another wind"""
    if isinstance(source, Sum):
        return any(is_local(own) for own in source.sources)
    return _asks_where(source)


def _asks_where(source: WindSource) -> TypeGuard[LocalWindSource]:
    return hasattr(source, "sample_at")  # `isinstance` of a protocol takes 25 µs, at every tick of the wind


def is_traced(source: WindSource) -> bool:
    """Whether it can be compiled: it says so by `traced`, as a source of one's own may that uses only `samara.core.ops`"""
    return bool(getattr(source, "traced", False))


def wind_at(
    source: WindSource, time: Scalar, dt: Scalar, normals: Sequence[Scalar], memory: Tree, p_W: Vec3, v_W: Vec3
) -> tuple[Vec3, Tree]:
    """The wind of any source where a drone is, and the memory for its next sample"""
    if _asks_where(source):
        return source.sample_at(time, dt, normals, memory, p_W, v_W)
    return source.sample(time, dt, normals, memory)


class Traced:
    """A source written with `samara.core.ops` alone: it can be compiled, unless its numbers are those of a batch."""

    @property
    def traced(self) -> bool:
        """Whether it can be compiled, and all sources in it"""
        own = flatten(tuple(vars(self).values()))
        return not any(isinstance(x, np.ndarray) or (hasattr(x, "sample") and not is_traced(x)) for x in own)


class Deterministic(Traced):
    """A wind that nothing is drawn for and that remembers nothing."""

    normals_needed: ClassVar[int] = 0

    def initial(self) -> tuple[()]:
        """Nothing to remember."""
        return ()


@dataclass(frozen=True)
class NoWind(Deterministic):
    """w = 0"""

    def sample(self, time: Scalar, dt: Scalar, normals: Sequence[Scalar], memory: Tree) -> tuple[Vec3, Tree]:
        """w = 0"""
        return ZERO, memory


@dataclass(frozen=True)
class Constant(Deterministic):
    """w(t) = w"""

    wind_W: Vec3

    def __post_init__(self) -> None:
        keep_vector(self, "wind_W")

    @staticmethod
    def from_direction(speed: Scalar, direction_from: Scalar) -> "Constant":
        """By speed [m/s] and where it comes from, clockwise from north [rad]."""
        return Constant(wind_enu_from_direction(speed, direction_from))

    def sample(self, time: Scalar, dt: Scalar, normals: Sequence[Scalar], memory: Tree) -> tuple[Vec3, Tree]:
        """w(t) = w"""
        return self.wind_W, memory


@dataclass(frozen=True)
class Step(Deterministic):
    """w(t) = before for t < at, after for t ≥ at"""

    after_W: Vec3
    at: Seconds
    before_W: Vec3 = ZERO

    def __post_init__(self) -> None:
        keep_vector(self, "before_W")
        keep_vector(self, "after_W")
        require_numbers(self, "at")

    @staticmethod
    def from_direction(speed: Scalar, direction_from: Scalar, *, at: Seconds) -> "Step":
        """From calm to a speed [m/s], from a direction clockwise from north [rad]."""
        return Step(wind_enu_from_direction(speed, direction_from), at)

    def sample(self, time: Scalar, dt: Scalar, normals: Sequence[Scalar], memory: Tree) -> tuple[Vec3, Tree]:
        """w(t) = before for t < at, after for t ≥ at; a time that is not a number gives no wind that is one"""
        early, late = time < self.at, time >= self.at
        pairs = zip(self.before_W, self.after_W, strict=True)
        return Vec3(*(where(early, before, where(late, after, time)) for before, after in pairs)), memory


@dataclass(frozen=True)
class Gust(Deterministic):
    """w(t) = ½ A (1 − cos 2πx),  x = (t − start) / duration within [0, 1]: the 1-cosine gust, its peak A in the middle"""

    amplitude_W: Vec3
    start: Seconds
    duration: Seconds

    def __post_init__(self) -> None:
        keep_vector(self, "amplitude_W")
        require_numbers(self, "start")
        require_numbers(self, "duration", positive=True)

    @staticmethod
    def from_direction(speed: Scalar, direction_from: Scalar, *, start: Seconds, duration: Seconds) -> "Gust":
        """By its peak speed [m/s] and where it comes from, clockwise from north [rad]."""
        return Gust(wind_enu_from_direction(speed, direction_from), start, duration)

    def sample(self, time: Scalar, dt: Scalar, normals: Sequence[Scalar], memory: Tree) -> tuple[Vec3, Tree]:
        """w(t) = ½ A (1 − cos 2πx)"""
        x = clamp((time - self.start) / self.duration, 0.0, 1.0)
        return self.amplitude_W * (0.5 * (1.0 - cos(2.0 * math.pi * x))), memory


@dataclass(frozen=True)
class OrnsteinUhlenbeck(Traced):
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
            keep_vector(self, name)
        require_numbers(self, "sigma", negative=False)
        require_numbers(self, "tau", positive=True)

    @staticmethod
    def from_direction(speed: Scalar, direction_from: Scalar, *, sigma: Sigma, tau: Tau) -> "OrnsteinUhlenbeck":
        """By the mean's speed [m/s] and where it comes from, clockwise from north [rad]."""
        return OrnsteinUhlenbeck(wind_enu_from_direction(speed, direction_from), sigma, tau)

    def initial(self) -> Vec3:
        """w − w̄ = 0"""
        return ZERO

    def sample(self, time: Scalar, dt: Scalar, normals: Sequence[Scalar], memory: Tree) -> tuple[Vec3, Tree]:
        """w = w̄ + x,  x' = e^{−dt/τ} x + σ √(1 − e^{−2dt/τ}) n: exact, whatever the step"""
        if len(normals) != 3:
            raise ValueError(f"OrnsteinUhlenbeck.sample got {len(normals)} normals; expected 3")
        drives = zip(memory, normals, self.sigma, self.tau, strict=True)
        offset = Vec3(*(gauss_markov(x, n, dt, sigma=sigma, tau=tau) for x, n, sigma, tau in drives))
        return self.mean_W + offset, offset


@dataclass(frozen=True)
class Sum(Traced):
    """w = Σ wᵢ: a mean wind, a gust and turbulence at once"""

    sources: tuple[WindSource, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "sources", tuple(self.sources))

    @property
    def normals_needed(self) -> int:
        """Σ nᵢ, taken by the sources in their order."""
        return sum(source.normals_needed for source in self.sources)

    def initial(self) -> tuple[Tree, ...]:
        """Every source's own."""
        return tuple(source.initial() for source in self.sources)

    def sample(self, time: Scalar, dt: Scalar, normals: Sequence[Scalar], memory: Tree) -> tuple[Vec3, Tree]:
        """w = Σ wᵢ"""
        return self._added(normals, memory, lambda source, drawn, own: source.sample(time, dt, drawn, own))

    def sample_at(
        self, time: Scalar, dt: Scalar, normals: Sequence[Scalar], memory: Tree, p_W: Vec3, v_W: Vec3
    ) -> tuple[Vec3, Tree]:
        """w = Σ wᵢ, each where the drone is"""
        return self._added(normals, memory, lambda source, drawn, own: wind_at(source, time, dt, drawn, own, p_W, v_W))

    def _added(
        self, normals: Sequence[Scalar], memory: Tree, asked: Callable[..., tuple[Vec3, Tree]]
    ) -> tuple[Vec3, Tree]:
        total, memories, used = ZERO, [], 0
        for source, own in zip(self.sources, memory, strict=True):
            wind_W, kept = asked(source, normals[used : used + source.normals_needed], own)
            total, used = total + wind_W, used + source.normals_needed
            memories.append(kept)
        return total, tuple(memories)
