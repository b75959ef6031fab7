"""Turbulence of MIL-HDBK-1797 as wind sources: Dryden and von Kármán.

Each drone flies through its own turbulence, frozen in the mean wind, at its own height and airspeed. Two neighbouring drones do
not experience the same gust: the handbook specifies intensities and lengths of gusts, not their lateral correlation.
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
    DRYDEN_LENGTH_ALOFT,
    REFERENCE_HEIGHT,
    VON_KARMAN,
    VON_KARMAN_LENGTH_ALOFT,
    DrydenTerm,
    TransverseFilterState,
    flown_distance,
    transverse_gust,
    transverse_step,
    turbulence_deviations,
    turbulence_lengths,
)
from samara.physics.frames import wind_enu_from_direction
from samara.wind.sources import CompilableSource, Constant, evaluate_wind
from samara.wind.validation import require_numbers

_NORMALS_PER_COMPONENT = 5  # normals: one along, two across, two up
_CALM_FILTERS = (0.0, TransverseFilterState(0.0, 0.0), TransverseFilterState(0.0, 0.0))


@dataclass(frozen=True)
class Turbulence(CompilableSource):
    """w = w̄ + σ_u x e + σ_v y (ẑ × e) + σ_w z ẑ, e along the mean wind w̄: a sum of Dryden turbulences, weighted by `shares`

    Near the ground the mean wind at 6 m determines the intensity; above 600 m `sigma_aloft` [m/s] does: 1.5 is light, 3
    moderate, 6 severe. `mean` is a wind vector, or a source without random numbers. `sample`, the wind of a whole
    fleet, is the wind of a drone that hovers `height` [m] above the `ground` [m].
    """

    mean: Tree
    sigma_aloft: Deviation = 1.5
    height: Height = 10.0
    ground: Height = 0.0
    shares: ClassVar[tuple[DrydenTerm, ...]]
    aloft: ClassVar[float]  # L_u above 2000 ft  [m]
    normals_needed: ClassVar[int]

    def __post_init__(self) -> None:
        if not hasattr(self.mean, "sample"):
            object.__setattr__(self, "mean", Constant(self.mean))
        if self.mean.normals_needed:
            raise ValueError(
                f"{type(self).__name__}.mean is {type(self.mean).__name__}, which is random; expected a wind without "
                "random numbers"
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
        """Create from the mean's speed [m/s] and the direction it comes from, clockwise from north [rad]."""
        return cls(Constant(wind_enu_from_direction(speed, direction_from)), sigma_aloft, height, ground)

    def initial(self) -> Tree:
        """Return the state without a gust."""
        return tuple(_CALM_FILTERS for _ in self.shares)

    def sample(self, time: Scalar, dt: Scalar, normals: Sequence[Scalar], wind_state: Tree) -> tuple[Vec3, Tree]:
        """Wind of a drone that hovers at `height`."""
        return self.sample_at(time, dt, normals, wind_state, Vec3(0.0, 0.0, self.ground + self.height), ZERO)

    def sample_at(
        self, time: Scalar, dt: Scalar, normals: Sequence[Scalar], wind_state: Tree, p_W: Vec3, v_W: Vec3
    ) -> tuple[Vec3, Tree]:
        """Advance each filter by the distance V dt, V the airspeed in the mean wind."""
        if len(normals) != self.normals_needed:
            raise ValueError(f"{type(self).__name__}.sample got {len(normals)} normals; expected {self.normals_needed}")
        mean_W = self._mean(time, p_W, v_W)
        reference_W = self._mean(time, Vec3(p_W.x, p_W.y, self.ground + REFERENCE_HEIGHT), v_W)
        lengths = turbulence_lengths(p_W.z - self.ground, aloft=self.aloft)
        sigma = turbulence_deviations(p_W.z - self.ground, wind_6m=norm(reference_W), aloft=self.sigma_aloft)
        distance = flown_distance(norm(v_W - mean_W), dt)

        gust, next_state = ZERO, []
        for i, (component, (along, across, up)) in enumerate(zip(self.shares, wind_state, strict=True)):
            n = normals[_NORMALS_PER_COMPONENT * i : _NORMALS_PER_COMPONENT * (i + 1)]
            along = gauss_markov(along, n[0], distance, sigma=1.0, tau=component.length * lengths.x)
            across = transverse_step(across, n[1], n[2], distance, length=component.length * lengths.y)
            up = transverse_step(up, n[3], n[4], distance, length=component.length * lengths.z)
            next_state.append((along, across, up))
            gust = gust + Vec3(along, transverse_gust(across), transverse_gust(up)) * safe_sqrt(component.variance)

        speed = safe_norm(mean_W.x, mean_W.y)
        along_wind = Vec3(where(speed > 0.0, safe_divide(mean_W.x, speed), 1.0), safe_divide(mean_W.y, speed), 0.0)
        across_wind = cross(UP, along_wind)
        turbulence_W = along_wind * (sigma.x * gust.x) + across_wind * (sigma.y * gust.y) + UP * (sigma.z * gust.z)
        return mean_W + turbulence_W, tuple(next_state)

    def _mean(self, time: Scalar, p_W: Vec3, v_W: Vec3) -> Vec3:
        return evaluate_wind(self.mean, time, 0.0, (), self.mean.initial(), p_W, v_W)[0]


@dataclass(frozen=True)
class Dryden(Turbulence):
    """w = w̄ + σ_u x e + σ_v y (ẑ × e) + σ_w z ẑ, e along the mean wind w̄, with Dryden's spectra; see `Turbulence`"""

    shares: ClassVar[tuple[DrydenTerm, ...]] = DRYDEN
    aloft: ClassVar[float] = DRYDEN_LENGTH_ALOFT
    normals_needed: ClassVar[int] = _NORMALS_PER_COMPONENT * len(DRYDEN)


@dataclass(frozen=True)
class VonKarman(Turbulence):
    """w = w̄ + σ_u x e + σ_v y (ẑ × e) + σ_w z ẑ, e along the mean wind w̄, with von Kármán's spectra, to 0.13 dB

    See `Turbulence`; above 600 m the lengths are longer than Dryden's.
    """

    shares: ClassVar[tuple[DrydenTerm, ...]] = VON_KARMAN
    aloft: ClassVar[float] = VON_KARMAN_LENGTH_ALOFT
    normals_needed: ClassVar[int] = _NORMALS_PER_COMPONENT * len(VON_KARMAN)
