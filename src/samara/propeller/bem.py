"""Blade element momentum theory: thrust, power and in-plane force of a rotor from the shape of its blades.

Each annulus of the disc takes its lift from the blade sections that sweep it, and gives the same to the air as momentum.
Lengths are per R, speeds per ΩR, forces per ρ(ΩR)²R². Air that comes from the front or from the side, not from behind:
rotors that descend into their own wake are for `samara.physics.rotors.inflow`.
"""

import math
from typing import TYPE_CHECKING, Annotated, NamedTuple, TypeAlias, TypedDict, Unpack

import numpy as np

from samara.core.ops import absolute, acos, atan2, cos, exp, maximum, safe_norm, sin, where
from samara.core.quantity import Quantity, Scalar
from samara.core.types import Array
from samara.propeller.airfoil import SMALL_PROPELLER, Airfoil, section_force
from samara.propeller.blade import Blade

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

STATIONS = 24  # within 0.1 % of 400 stations (tests/propeller/test_bem.py)
AZIMUTHS = 12  # in oblique flow
ITERATIONS = 14  # leaves 1e-12 of the thrust of an annulus unbalanced (tests/propeller/test_bem.py)
AIR_VISCOSITY = 1.5e-5  # ν [m²/s] at 20 °C

InflowAngle: TypeAlias = Annotated[Scalar, Quantity("rad", -0.5, 1.5)]
TipReynolds: TypeAlias = Annotated[Scalar, Quantity("1", 1e4, 1e6)]
_LEAST_SLOPE = 1e-9  # of the helix: at W_a = 0 its vortex sheets coincide, and nothing is lost at the tip


class Section(NamedTuple):
    """A blade at one radius: r/R, c/R and twist; the hub's r/R, and the number of blades."""

    radius: Annotated[Scalar, Quantity("1", 0.2, 0.98)]
    chord: Annotated[Scalar, Quantity("1", 0.02, 0.3)]
    twist: Annotated[Scalar, Quantity("rad", 0.05, 0.9)]
    hub: Annotated[Scalar, Quantity("1", 0.05, 0.15)]
    blades: Annotated[Scalar, Quantity("1", 2.0, 4.0)]


class Onset(NamedTuple):
    """The undisturbed air: along the axis, from the front, and across it."""

    axial: Annotated[Scalar, Quantity("1", 0.0, 0.4)]
    edgewise: Annotated[Scalar, Quantity("1", 0.0, 0.3)] = 0.0


class Annulus(NamedTuple):
    """What one annulus does: dT/dr, dQ/dr, dH/dr, the velocities it induces, the part of the power that the profile drag takes,
    and the thrust by which blades and momentum disagree."""

    thrust: Scalar
    torque: Scalar
    in_plane: Scalar
    axial_induced: Scalar
    swirl: Scalar
    profile_power: Scalar
    profile_thrust: Scalar
    unbalanced: Scalar


class Coefficients(NamedTuple):
    """CT = T/(ρ n² D⁴), CP = P/(ρ n³ D⁵), CH = H/(ρ n² D⁴) against the motion; n in revolutions per second."""

    thrust: Array
    power: Array
    in_plane: Array


class Options(TypedDict, total=False):
    """What `annuli` may be told beside the flow: its keywords."""

    airfoil: Airfoil
    stations: int
    viscosity: float


def end_loss(section: Section, sine: Annotated[Scalar, Quantity("1", 0.01, 1.0)]) -> Scalar:
    """F = (2/π)² acos(e^{−B(1 − r)/(2 r sin φ)}) acos(e^{−B(r − r_h)/(2 r_h sin φ)})  (Prandtl, at tip and hub)"""
    half = 0.5 * section.blades / maximum(sine, _LEAST_SLOPE)
    tip = acos(exp(-half * (1.0 - section.radius) / section.radius))
    hub = acos(exp(-half * (section.radius - section.hub) / section.hub))
    return (2.0 / math.pi) ** 2 * tip * hub


def annulus(
    psi: InflowAngle,
    section: Section,
    onset: Onset,
    tip_reynolds: TipReynolds,
    airfoil: Airfoil,
    azimuths: int = 1,
) -> Annulus:
    """W_a = ½(U_a + U sin ψ),  W_t = ½(U_t + U cos ψ);   4πr F √(W_a² + V_e²)(W_a − U_a) = ½ B c ⟨W cl W_t⟩

    Drela's angle ψ (QPROP, 2006) makes the induced velocity normal to W for any thrust, hover included; ⟨⟩ is the mean over
    the azimuth, on which W_t gains V_e sin ψ_b; the side wind adds to the mass flow as in Glauert's rotor.
    """
    turning = section.radius
    speed = safe_norm(onset.axial, turning)
    axial = 0.5 * (onset.axial + speed * sin(psi))
    induced = axial - onset.axial
    swirl = 0.5 * (turning - speed * cos(psi))
    sine = absolute(axial) / safe_norm(axial, turning - swirl)
    pushed = 4.0 * math.pi * section.radius * end_loss(section, sine) * safe_norm(axial, onset.edgewise) * induced
    lifted: Scalar = 0.0
    dragged: Scalar = 0.0
    braked: Scalar = 0.0
    in_plane: Scalar = 0.0
    profile: Scalar = 0.0
    for k in range(azimuths):
        side = math.sin(2.0 * math.pi * (k + 0.5) / azimuths) if azimuths > 1 else 0.0
        tangential = turning - swirl + onset.edgewise * side
        wind = safe_norm(axial, tangential)
        force = section_force(
            section.twist - atan2(axial, tangential),
            tip_reynolds * section.chord * wind,
            section.chord / section.radius,
            airfoil,
        )
        pressed = 0.5 * section.blades * section.chord * wind / azimuths
        along = pressed * (force.lift * axial + force.drag * tangential)
        lifted = lifted + pressed * force.lift * tangential
        dragged = dragged - pressed * force.drag * axial
        braked = braked + along
        in_plane = in_plane + along * side
        profile = profile + pressed * force.drag * tangential
    return Annulus(
        thrust=lifted + dragged,
        torque=braked * section.radius,
        in_plane=in_plane,
        axial_induced=induced,
        swirl=swirl,
        profile_power=profile * section.radius,
        profile_thrust=dragged,
        unbalanced=pushed - lifted,
    )


def inflow_angle(
    section: Section, onset: Onset, tip_reynolds: TipReynolds, airfoil: Airfoil, azimuths: int = 1
) -> Scalar:
    """ψ at which blades and momentum agree, between −π/2 (air driven back) and π/2 (air driven on, lift reversed)  [rad]

    False position with Illinois' halving, a fixed number of times: the bracket never loses the root. In axial flow there
    always is one; in a strong side wind the innermost annuli, where blades meet more wind than they turn, may have none and
    stay at an end (less than 0.4 % of the standing thrust is left unbalanced by that, tests/propeller/test_bem.py).
    """
    low, high = -0.5 * math.pi, 0.5 * math.pi

    def unbalanced(psi: Scalar) -> Scalar:
        return annulus(psi, section, onset, tip_reynolds, airfoil, azimuths).unbalanced

    at_low, at_high = unbalanced(low), unbalanced(high)
    middle, was_below = low, at_low < 0.0
    for _ in range(ITERATIONS):
        span = at_high - at_low
        middle = (low * at_high - high * at_low) / where(absolute(span) > 0.0, span, 1.0)
        at_middle = unbalanced(middle)
        below = at_middle < 0.0
        twice = where(below, where(was_below, 0.5, 1.0), where(was_below, 1.0, 0.5))
        low, at_low = where(below, middle, low), where(below, at_middle, twice * at_low)
        high, at_high = where(below, high, middle), where(below, twice * at_high, at_middle)
        was_below = below
    return middle


def rotor_coefficients(
    blade: Blade, advance: "ArrayLike", rpm: "ArrayLike", incidence: "ArrayLike" = 0.0, **options: Unpack[Options]
) -> Coefficients:
    """CT, CP, CH at J = V/(nD), rpm, and the angle between the axis and the air's way: 0 from the front, π/2 edgewise

    J, rpm and incidence may be arrays that broadcast. Radii crowd towards both ends, r = ½(1 + r_h) − ½(1 − r_h) cos t with
    midpoints in t, where the loading falls off as a root.
    """
    J, N, angle = np.broadcast_arrays(*(np.asarray(each, dtype=float) for each in (advance, rpm, incidence)))
    if not (np.isfinite(J).all() and np.isfinite(N).all() and np.isfinite(angle).all()):
        raise ValueError(
            f"{blade.name}: advance, rpm and incidence have a value that is not finite; expected finite ones"
        )
    if (N <= 0.0).any():
        raise ValueError(f"{blade.name}: rpm = {float(N.min()):g}; expected positive")
    if (J * np.cos(angle) < -1e-12).any() or (J < 0.0).any():
        raise ValueError(
            f"{blade.name}: the air comes from behind; expected advance >= 0 and incidence within 90 degrees"
        )
    loads, width = annuli(blade, J, N, angle, **options)
    # ρ(ΩR)²R² = ρ n² D⁴ · 4π²/16
    share = 0.25 * math.pi**2 * width
    thrust, torque, in_plane = (np.sum(share * each, axis=0) for each in (loads.thrust, loads.torque, loads.in_plane))
    return Coefficients(thrust, math.pi * torque, in_plane)


def annuli(
    blade: Blade,
    advance: "ArrayLike",
    rpm: "ArrayLike",
    incidence: "ArrayLike" = 0.0,
    *,
    airfoil: Airfoil = SMALL_PROPELLER,
    stations: int = STATIONS,
    viscosity: float = AIR_VISCOSITY,
) -> tuple[Annulus, Array]:
    """All annuli of a rotor along the first axis, and their widths dr/R"""
    J, N, angle = (np.asarray(each, dtype=float) for each in (advance, rpm, incidence))
    section, width = sections(blade, stations, J.ndim)
    onset = Onset(J * np.cos(angle) / math.pi, J * np.sin(angle) / math.pi)
    tip_reynolds = N * (2.0 * math.pi / 60.0) * blade.radius**2 / viscosity
    azimuths = AZIMUTHS if np.any(onset.edgewise > 1e-12) else 1
    psi = inflow_angle(section, onset, tip_reynolds, airfoil, azimuths)
    return annulus(psi, section, onset, tip_reynolds, airfoil, azimuths), width


def sections(blade: Blade, stations: int, extra_axes: int = 0) -> tuple[Section, Array]:
    """The blade at as many radii, each a column over `extra_axes` further axes, and the widths dr/R"""
    t = math.pi * (np.arange(stations) + 0.5) / stations
    t = t.reshape(-1, *(1,) * extra_axes)
    hub = blade.stations[0]
    radius = 0.5 * (1.0 + hub) - 0.5 * (1.0 - hub) * np.cos(t)
    chord, twist = blade.at(radius)
    width = 0.5 * (1.0 - hub) * np.sin(t) * math.pi / stations
    return Section(radius, chord, twist, hub, float(blade.blades)), width
