"""Turbulence of MIL-HDBK-1797 as sources of wind: Dryden's and von Kármán's.

Each drone flies through turbulence of its own, frozen in the mean wind, at its own height and airspeed. Two drones side by
side do not feel the same gust: the handbook says how strong and how long gusts are, not how they look across.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

from samara.core.algebra import UP, ZERO, Vec3, cross, norm
from samara.core.coerce import Deviation, Height
from samara.core.ops import safe_divide, safe_norm, safe_sqrt, where
from samara.core.quantity import Scalar, Tree
from samara.core.random import gauss_markov
from samara.physics.air.turbulence import (
    DRYDEN,
    DRYDEN_ALOFT,
    REFERENCE_HEIGHT,
    VON_KARMAN,
    VON_KARMAN_ALOFT,
    Share,
    Transverse,
    flown,
    transverse_gust,
    transverse_step,
    turbulence_deviations,
    turbulence_lengths,
)
from samara.physics.frames import wind_enu_from_direction
from samara.wind.sources import Constant, Traced, wind_at
from samara.wind.validation import require_numbers

_PER_SHARE = 5  # normals: one along, two across, two up
_AT_REST = (0.0, Transverse(0.0, 0.0), Transverse(0.0, 0.0))


@dataclass(frozen=True)
class Turbulence(Traced):
    """w = w̄ + σ_u x e + σ_v y (ẑ × e) + σ_w z ẑ, e along the mean wind w̄: a sum of Dryden turbulences, by their shares

    Near the ground the mean wind at 6 m decides how strong it is; above 600 m `sigma_aloft` [m/s] does: 1.5 is light, 3
    moderate, 6 severe. `mean` is a wind, or a source of one that takes no normals. `sample`, for all drones alike, is
    what one that hovers `height` [m] above the `ground` [m] feels.
    """

    mean: Tree
    sigma_aloft: Deviation = 1.5
    height: Height = 10.0
    ground: Height = 0.0
    shares: ClassVar[tuple[Share, ...]]
    aloft: ClassVar[float]  # L_u above 2000 ft  [m]
    normals_needed: ClassVar[int]

    def __post_init__(self) -> None:
        if not hasattr(self.mean, "sample"):
            object.__setattr__(self, "mean", Constant(self.mean))
        if self.mean.normals_needed:
            raise ValueError(
                f"{type(self).__name__}.mean is {type(self.mean).__name__}, which is random; expected a wind that is not"
            )
        require_numbers(self, "sigma_aloft", negative=False)
        require_numbers(self, "height", positive=True)
        require_numbers(self, "ground")

    @classmethod
    def from_direction(
        cls,
        speed: Scalar,
        direction_from: Scalar,
        *,
        sigma_aloft: Deviation = 1.5,
        height: Height = 10.0,
        ground: Height = 0.0,
    ) -> Self:
        """By the mean's speed [m/s] and where it comes from, clockwise from north [rad]."""
        return cls(Constant(wind_enu_from_direction(speed, direction_from)), sigma_aloft, height, ground)

    def initial(self) -> Tree:
        """No gust yet."""
        return tuple(_AT_REST for _ in self.shares)

    def sample(self, time: Scalar, dt: Scalar, normals: Sequence[Scalar], memory: Tree) -> tuple[Vec3, Tree]:
        """What hovers at `height` feels"""
        return self.sample_at(time, dt, normals, memory, Vec3(0.0, 0.0, self.ground + self.height), ZERO)

    def sample_at(
        self, time: Scalar, dt: Scalar, normals: Sequence[Scalar], memory: Tree, p_W: Vec3, v_W: Vec3
    ) -> tuple[Vec3, Tree]:
        """Each filter steps through V dt, V the airspeed in the mean wind"""
        if len(normals) != self.normals_needed:
            raise ValueError(f"{type(self).__name__}.sample got {len(normals)} normals; expected {self.normals_needed}")
        mean_W = self._mean(time, p_W, v_W)
        below_W = self._mean(time, Vec3(p_W.x, p_W.y, self.ground + REFERENCE_HEIGHT), v_W)
        lengths = turbulence_lengths(p_W.z - self.ground, aloft=self.aloft)
        sigma = turbulence_deviations(p_W.z - self.ground, wind_6m=norm(below_W), aloft=self.sigma_aloft)
        distance = flown(norm(v_W - mean_W), dt)

        gust, kept = ZERO, []
        for i, (share, (along, across, up)) in enumerate(zip(self.shares, memory, strict=True)):
            n = normals[_PER_SHARE * i : _PER_SHARE * (i + 1)]
            along = gauss_markov(along, n[0], distance, sigma=1.0, tau=share.length * lengths.x)
            across = transverse_step(across, n[1], n[2], distance, length=share.length * lengths.y)
            up = transverse_step(up, n[3], n[4], distance, length=share.length * lengths.z)
            kept.append((along, across, up))
            gust = gust + Vec3(along, transverse_gust(across), transverse_gust(up)) * safe_sqrt(share.variance)

        speed = safe_norm(mean_W.x, mean_W.y)
        ahead = Vec3(where(speed > 0.0, safe_divide(mean_W.x, speed), 1.0), safe_divide(mean_W.y, speed), 0.0)
        beside = cross(UP, ahead)
        turbulence_W = ahead * (sigma.x * gust.x) + beside * (sigma.y * gust.y) + UP * (sigma.z * gust.z)
        return mean_W + turbulence_W, tuple(kept)

    def _mean(self, time: Scalar, p_W: Vec3, v_W: Vec3) -> Vec3:
        return wind_at(self.mean, time, 0.0, (), self.mean.initial(), p_W, v_W)[0]


@dataclass(frozen=True)
class Dryden(Turbulence):
    """w = w̄ + σ_u x e + σ_v y (ẑ × e) + σ_w z ẑ, e along the mean wind w̄, with Dryden's spectra: all as for `Turbulence`"""

    shares: ClassVar[tuple[Share, ...]] = DRYDEN
    aloft: ClassVar[float] = DRYDEN_ALOFT
    normals_needed: ClassVar[int] = _PER_SHARE * len(DRYDEN)


@dataclass(frozen=True)
class VonKarman(Turbulence):
    """w = w̄ + σ_u x e + σ_v y (ẑ × e) + σ_w z ẑ, e along the mean wind w̄, with von Kármán's spectra, to 0.13 dB

    All as for `Turbulence`; above 600 m the lengths are longer than Dryden's.
    """

    shares: ClassVar[tuple[Share, ...]] = VON_KARMAN
    aloft: ClassVar[float] = VON_KARMAN_ALOFT
    normals_needed: ClassVar[int] = _PER_SHARE * len(VON_KARMAN)
