"""Atmospheric turbulence of MIL-HDBK-1797: length scales and intensities by height, Dryden and von Kármán spectra, and the
filters that generate them from white noise.

The turbulence is frozen in the mean wind and the drone flies through it. The filters therefore step by the *distance* flown
through the air, V dt; for a drone that drifts with the wind, the wind is constant. The filter states have variance one;
multiplied by σ they are the gust. The longitudinal filter is `samara.core.random.gauss_markov`, with the length L for its
time constant.

Von Kármán's spectra are not rational. But (1 + x²)^(−5/6) is a sum of 1/(1 + (tx)²) with positive weights, and with the same
weights the transverse spectrum is a sum of Dryden's transverse spectra: the turbulence is a sum of independent Dryden
turbulences. Four of them (`VON_KARMAN`) stay within 0.13 dB of both formulas up to 1.339 L Ω = 1000, with exactly their
variance.
"""

import math
from typing import Annotated, NamedTuple, TypeAlias

from samara.core.algebra import Vec3
from samara.core.ops import clamp, exp, maximum, minimum, power, safe_divide, safe_sqrt, where
from samara.core.quantity import Quantity, Scalar

FOOT = 0.3048  # [m]
MIN_HEIGHT, LOW_ALTITUDE_LIMIT, MEDIUM_ALTITUDE_LIMIT = (
    10.0 * FOOT,
    1000.0 * FOOT,
    2000.0 * FOOT,
)  # [m]: bounds of the handbook's low and medium altitudes
REFERENCE_HEIGHT = 20.0 * FOOT  # [m]: height of the wind that sets the intensity near the ground
DRYDEN_LENGTH_ALOFT, VON_KARMAN_LENGTH_ALOFT = 1750.0 * FOOT, 2500.0 * FOOT  # L_u above 2000 ft [m]

Height: TypeAlias = Annotated[Scalar, Quantity("m", 0.0, 1500.0)]
Length: TypeAlias = Annotated[Scalar, Quantity("m", 1.0, 800.0)]
Distance: TypeAlias = Annotated[Scalar, Quantity("m", 0.0, 100.0)]
WaveNumber: TypeAlias = Annotated[Scalar, Quantity("rad/m", 0.0, 10.0)]
Deviation: TypeAlias = Annotated[Scalar, Quantity("m/s", 0.0, 10.0)]
WindSpeed: TypeAlias = Annotated[Scalar, Quantity("m/s", 0.0, 30.0)]
Normal: TypeAlias = Annotated[Scalar, Quantity("1", -4.0, 4.0)]


class DrydenTerm(NamedTuple):
    """One Dryden turbulence of a sum: its fraction of the variance, and its length as a multiple of L."""

    variance: Annotated[Scalar, Quantity("1", 0.01, 1.0)]
    length: Annotated[Scalar, Quantity("1", 0.01, 2.0)]


DRYDEN = (DrydenTerm(1.0, 1.0),)
VON_KARMAN = tuple(
    DrydenTerm(variance, 1.339 * t)
    for variance, t in ((0.82455, 0.87254), (0.13406, 0.1374), (0.0329, 0.01685), (0.00849, 0.002))
)


class TransverseFilterState(NamedTuple):
    """The state of a transverse filter: white noise after one lag and after two."""

    once: Annotated[Scalar, Quantity("1", -4.0, 4.0)]
    twice: Annotated[Scalar, Quantity("1", -4.0, 4.0)]


# Length scales and intensities -------------------------------------------------------------------------------------


def turbulence_lengths(height: Height, *, aloft: Length) -> Vec3:
    """Near the ground L_u = 2 L_v = h / (0.177 + 0.000823 h)^1.2, 2 L_w = h (h in feet); above 2000 ft L_u = 2 L_v = 2 L_w  [m]

    Linear between 1000 and 2000 ft; below 10 ft as at 10 ft. Components: along the mean wind, across it, and up.
    """
    h = clamp(height, MIN_HEIGHT, LOW_ALTITUDE_LIMIT) / FOOT
    up = 0.5 * FOOT * h
    along = up / (0.5 * power(0.177 + 0.000823 * h, 1.2))
    low = Vec3(along, 0.5 * along, up)
    return _interpolate_altitude(height, low, Vec3(aloft, 0.5 * aloft, 0.5 * aloft))


def turbulence_deviations(height: Height, *, wind_6m: WindSpeed, aloft: Deviation) -> Vec3:
    """Near the ground σ_w = 0.1 W₂₀, σ_u = σ_v = σ_w / (0.177 + 0.000823 h)^0.4 (h in feet); above 2000 ft all equal  [m/s]

    W₂₀ is the mean wind 20 ft (6.1 m) above the ground.
    """
    h = clamp(height, MIN_HEIGHT, LOW_ALTITUDE_LIMIT) / FOOT
    up = 0.1 * wind_6m
    along = up / power(0.177 + 0.000823 * h, 0.4)
    return _interpolate_altitude(height, Vec3(along, along, up), Vec3(aloft, aloft, aloft))


def _interpolate_altitude(height: Scalar, low: Vec3, aloft: Vec3) -> Vec3:
    fraction = clamp((height - LOW_ALTITUDE_LIMIT) / (MEDIUM_ALTITUDE_LIMIT - LOW_ALTITUDE_LIMIT), 0.0, 1.0)
    return low * (1.0 - fraction) + aloft * fraction


# Spectra: one-sided, of the wave number Ω = ω/V; their integral over Ω > 0 is σ² -----------------------------------


def dryden_longitudinal_spectrum(wave_number: WaveNumber, *, sigma: Deviation, length: Length) -> Scalar:
    """Φ_u = σ² (2L/π) / (1 + (LΩ)²)  [m³/s² per rad]"""
    x = length * wave_number
    return sigma * sigma * (2.0 * length / math.pi) / (1.0 + x * x)


def dryden_transverse_spectrum(wave_number: WaveNumber, *, sigma: Deviation, length: Length) -> Scalar:
    """Φ_v = σ² (2L/π) (1 + 12 (LΩ)²) / (1 + 4 (LΩ)²)²  [m³/s² per rad]"""
    x = 4.0 * (length * wave_number) * (length * wave_number)
    return sigma * sigma * (2.0 * length / math.pi) * (1.0 + 3.0 * x) / ((1.0 + x) * (1.0 + x))


def von_karman_longitudinal_spectrum(wave_number: WaveNumber, *, sigma: Deviation, length: Length) -> Scalar:
    """Φ_u = σ² (2L/π) / (1 + (1.339 LΩ)²)^(5/6)  [m³/s² per rad]"""
    x = 1.339 * length * wave_number
    return sigma * sigma * (2.0 * length / math.pi) / power(1.0 + x * x, 5.0 / 6.0)


def von_karman_transverse_spectrum(wave_number: WaveNumber, *, sigma: Deviation, length: Length) -> Scalar:
    """Φ_v = σ² (2L/π) (1 + 8/3 (2.678 LΩ)²) / (1 + (2.678 LΩ)²)^(11/6)  [m³/s² per rad]"""
    x = 2.678 * length * wave_number
    return sigma * sigma * (2.0 * length / math.pi) * (1.0 + 8.0 / 3.0 * x * x) / power(1.0 + x * x, 11.0 / 6.0)


# Filters -----------------------------------------------------------------------------------------------------------

_MAX_LENGTHS = 100.0  # distance in lengths after which the initial state has decayed


def transverse_step(
    filter_state: TransverseFilterState, normal: Normal, other_normal: Normal, distance: Distance, *, length: Length
) -> TransverseFilterState:
    """x₁' = e^{−k} x₁ + η₁,  x₂' = e^{−k} (x₂ + k x₁) + η₂,  k = s/2L: one and two passes through 1/(1 + 2Ls), exact

    The covariance of η, (P₁, ½P₂, ½P₃) at z = 2k, keeps the stationary covariance (1, ½, ½);
    Pₙ(z) = 1 − e^{−z} Σ_{j<n} zʲ/j!.
    """
    k = minimum(distance / (2.0 * length), _MAX_LENGTHS)
    decay = exp(-k)
    p1, p2, p3 = _poisson_tails(2.0 * k)
    first_gain = safe_sqrt(p1)
    cross_gain = safe_divide(0.5 * p2, first_gain)
    second_gain = safe_sqrt(0.5 * p3 - cross_gain * cross_gain)
    return TransverseFilterState(
        decay * filter_state.once + first_gain * normal,
        decay * (filter_state.twice + k * filter_state.once) + cross_gain * normal + second_gain * other_normal,
    )


def transverse_gust(filter_state: TransverseFilterState) -> Scalar:
    """y = (√3 x₁ + (1 − √3) x₂) / √2: the output of (1 + √3 τs)/(1 + τs)², with variance one"""
    return (math.sqrt(3.0) * filter_state.once + (1.0 - math.sqrt(3.0)) * filter_state.twice) / math.sqrt(2.0)


def _poisson_tails(z: Scalar) -> tuple[Scalar, Scalar, Scalar]:
    """Pₙ(z) = e^{−z} Σ_{j≥n} zʲ/j! for n = 1, 2, 3: by the series at small z, where 1 − … would lose digits"""
    small = z < 1.0
    x = where(small, z, 1.0)
    tail: Scalar = 1.0 / math.factorial(20)
    for j in range(19, 2, -1):
        tail = 1.0 / math.factorial(j) + x * tail
    decay, series_decay = exp(-z), exp(-x)
    by_series = (
        series_decay * x * (1.0 + x * (0.5 + x * tail)),
        series_decay * x * x * (0.5 + x * tail),
        series_decay * x * x * x * tail,
    )
    by_difference = (1.0 - decay, 1.0 - decay * (1.0 + z), 1.0 - decay * (1.0 + z + 0.5 * z * z))
    series, difference = by_series, by_difference
    return (
        where(small, series[0], difference[0]),
        where(small, series[1], difference[1]),
        where(small, series[2], difference[2]),
    )


def flown_distance(airspeed: WindSpeed, dt: Annotated[Scalar, Quantity("s", 0.0, 1.0)]) -> Scalar:
    """s = V dt; ∞ for dt = ∞, even at V = 0  [m]"""
    infinite = dt > 1e9
    return where(infinite, math.inf, maximum(airspeed, 0.0) * where(infinite, 1.0, dt))
