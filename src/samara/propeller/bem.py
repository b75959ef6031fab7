"""Blade element momentum theory: thrust, power and in-plane force of a rotor from the shape of its blades.

The lift of the blade sections that sweep an annulus of the disc equals the momentum that the annulus gives the air.
Lengths are per R, speeds per ΩR, forces per ρ(ΩR)²R². Air comes from the front or from the side, not from behind:
`samara.physics.rotors.inflow` covers rotors that descend into their own wake.
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
ITERATIONS = 14  # leaves a residual of 1e-12 of an annulus' thrust (tests/propeller/test_bem.py)
AIR_VISCOSITY = 1.5e-5  # ν [m²/s] at 20 °C

InflowAngle: TypeAlias = Annotated[Scalar, Quantity("rad", -0.5, 1.5)]
TipReynolds: TypeAlias = Annotated[Scalar, Quantity("1", 1e4, 1e6)]
_MIN_SINE = 1e-9  # of the helix angle: at W_a = 0 the vortex sheets coincide, and the tip loss vanishes


class Section(NamedTuple):
    """A blade at one radius: r/R, c/R and twist; the hub's r/R, and the blade count."""

    radius: Annotated[Scalar, Quantity("1", 0.2, 0.98)]
    chord: Annotated[Scalar, Quantity("1", 0.02, 0.3)]
    twist: Annotated[Scalar, Quantity("rad", 0.05, 0.9)]
    hub: Annotated[Scalar, Quantity("1", 0.05, 0.15)]
    blades: Annotated[Scalar, Quantity("1", 2.0, 4.0)]


class Onset(NamedTuple):
    """The undisturbed air: along the axis, from the front, and perpendicular to it."""

    axial: Annotated[Scalar, Quantity("1", 0.0, 0.4)]
    edgewise: Annotated[Scalar, Quantity("1", 0.0, 0.3)] = 0.0


class Annulus(NamedTuple):
    """Loads of one annulus: dT/dr, dQ/dr, dH/dr, the velocities it induces, the power and thrust of profile drag, and the
    difference of the thrusts from momentum and from blades."""

    thrust: Scalar
    torque: Scalar
    in_plane: Scalar
    axial_induced: Scalar
    swirl: Scalar
    profile_power: Scalar
    profile_thrust: Scalar
    residual: Scalar


class PropellerCoefficients(NamedTuple):
    """CT = T/(ρ n² D⁴), CP = P/(ρ n³ D⁵), CH = H/(ρ n² D⁴) against the motion; n in revolutions per second."""

    thrust: Array
    power: Array
    in_plane: Array


class BemOptions(TypedDict, total=False):
    """Keyword arguments of `annuli`."""

    airfoil: Airfoil
    stations: int
    viscosity: float


def end_loss(section: Section, sine: Annotated[Scalar, Quantity("1", 0.01, 1.0)]) -> Scalar:
    """F = (2/π)² acos(e^{−B(1 − r)/(2 r sin φ)}) acos(e^{−B(r − r_h)/(2 r_h sin φ)})  (Prandtl, at tip and hub)"""
    exponent_scale = 0.5 * section.blades / maximum(sine, _MIN_SINE)
    tip = acos(exp(-exponent_scale * (1.0 - section.radius) / section.radius))
    hub = acos(exp(-exponent_scale * (section.radius - section.hub) / section.hub))
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
    the azimuth, along which W_t varies by V_e sin ψ_b; the side wind adds to the mass flow as in Glauert's rotor.
    """
    blade_speed = section.radius
    speed = safe_norm(onset.axial, blade_speed)
    axial = 0.5 * (onset.axial + speed * sin(psi))
    induced = axial - onset.axial
    swirl = 0.5 * (blade_speed - speed * cos(psi))
    sine = absolute(axial) / safe_norm(axial, blade_speed - swirl)
    momentum_thrust = (
        4.0 * math.pi * section.radius * end_loss(section, sine) * safe_norm(axial, onset.edgewise) * induced
    )
    lift_thrust: Scalar = 0.0
    drag_thrust: Scalar = 0.0
    tangential_force: Scalar = 0.0
    in_plane: Scalar = 0.0
    profile: Scalar = 0.0
    for k in range(azimuths):
        side = math.sin(2.0 * math.pi * (k + 0.5) / azimuths) if azimuths > 1 else 0.0
        tangential = blade_speed - swirl + onset.edgewise * side
        section_speed = safe_norm(axial, tangential)
        force = section_force(
            section.twist - atan2(axial, tangential),
            tip_reynolds * section.chord * section_speed,
            section.chord / section.radius,
            airfoil,
        )
        pressure = 0.5 * section.blades * section.chord * section_speed / azimuths
        section_drag = pressure * (force.lift * axial + force.drag * tangential)
        lift_thrust = lift_thrust + pressure * force.lift * tangential
        drag_thrust = drag_thrust - pressure * force.drag * axial
        tangential_force = tangential_force + section_drag
        in_plane = in_plane + section_drag * side
        profile = profile + pressure * force.drag * tangential
    return Annulus(
        thrust=lift_thrust + drag_thrust,
        torque=tangential_force * section.radius,
        in_plane=in_plane,
        axial_induced=induced,
        swirl=swirl,
        profile_power=profile * section.radius,
        profile_thrust=drag_thrust,
        residual=momentum_thrust - lift_thrust,
    )


def inflow_angle(
    section: Section, onset: Onset, tip_reynolds: TipReynolds, airfoil: Airfoil, azimuths: int = 1
) -> Scalar:
    """ψ at which blades and momentum agree, between −π/2 (air driven back) and π/2 (air driven on, lift reversed)  [rad]

    A fixed count of false-position iterations with the Illinois modification: the bracket never loses the root. In
    axial flow a root always exists; in a strong side wind the innermost annuli, where the side wind exceeds the blade
    speed, may have none and stay at an end of the bracket (this leaves a residual below 0.4 % of the static thrust,
    tests/propeller/test_bem.py).
    """
    low, high = -0.5 * math.pi, 0.5 * math.pi

    def annulus_residual(psi: Scalar) -> Scalar:
        return annulus(psi, section, onset, tip_reynolds, airfoil, azimuths).residual

    low_residual, high_residual = annulus_residual(low), annulus_residual(high)
    middle, was_below = low, low_residual < 0.0
    for _ in range(ITERATIONS):
        span = high_residual - low_residual
        middle = (low * high_residual - high * low_residual) / where(absolute(span) > 0.0, span, 1.0)
        residual = annulus_residual(middle)
        below = residual < 0.0
        halving = where(below, where(was_below, 0.5, 1.0), where(was_below, 1.0, 0.5))
        low, low_residual = where(below, middle, low), where(below, residual, halving * low_residual)
        high, high_residual = where(below, high, middle), where(below, halving * high_residual, residual)
        was_below = below
    return middle


def rotor_coefficients(
    blade: Blade, advance: "ArrayLike", rpm: "ArrayLike", incidence: "ArrayLike" = 0.0, **options: Unpack[BemOptions]
) -> PropellerCoefficients:
    """CT, CP, CH at J = V/(nD), rpm, and the angle between the axis and the air flow: 0 from the front, π/2 edgewise

    J, rpm and incidence may be arrays that broadcast. The radii r = ½(1 + r_h) − ½(1 − r_h) cos t, with midpoints in t, are
    denser towards both ends, where the loading falls off as a root.
    """
    J, N, angle = np.broadcast_arrays(*(np.asarray(values, dtype=float) for values in (advance, rpm, incidence)))
    if not (np.isfinite(J).all() and np.isfinite(N).all() and np.isfinite(angle).all()):
        raise ValueError(f"{blade.name}: advance, rpm or incidence is not finite; expected finite numbers")
    if (N <= 0.0).any():
        raise ValueError(f"{blade.name}: rpm = {float(N.min()):g}; expected a positive number")
    if (J * np.cos(angle) < -1e-12).any() or (J < 0.0).any():
        raise ValueError(
            f"{blade.name}: the air comes from behind; expected advance >= 0 and incidence within 90 degrees"
        )
    loads, width = annuli(blade, J, N, angle, **options)
    # ρ(ΩR)²R² = ρ n² D⁴ · 4π²/16
    scale = 0.25 * math.pi**2 * width
    thrust, torque, in_plane = (
        np.sum(scale * values, axis=0) for values in (loads.thrust, loads.torque, loads.in_plane)
    )
    return PropellerCoefficients(thrust, math.pi * torque, in_plane)


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
    """Return all annuli of a rotor along the first axis, and their widths dr/R."""
    J, N, angle = (np.asarray(values, dtype=float) for values in (advance, rpm, incidence))
    section, width = sections(blade, stations, J.ndim)
    onset = Onset(J * np.cos(angle) / math.pi, J * np.sin(angle) / math.pi)
    tip_reynolds = N * (2.0 * math.pi / 60.0) * blade.radius**2 / viscosity
    azimuths = AZIMUTHS if np.any(onset.edgewise > 1e-12) else 1
    psi = inflow_angle(section, onset, tip_reynolds, airfoil, azimuths)
    return annulus(psi, section, onset, tip_reynolds, airfoil, azimuths), width


def sections(blade: Blade, stations: int, extra_axes: int = 0) -> tuple[Section, Array]:
    """Return the blade at `stations` radii, each a column over `extra_axes` further axes, and the widths dr/R."""
    t = math.pi * (np.arange(stations) + 0.5) / stations
    t = t.reshape(-1, *(1,) * extra_axes)
    hub = blade.stations[0]
    radius = 0.5 * (1.0 + hub) - 0.5 * (1.0 - hub) * np.cos(t)
    chord, twist = blade.interpolate(radius)
    width = 0.5 * (1.0 - hub) * np.sin(t) * math.pi / stations
    return Section(radius, chord, twist, hub, float(blade.blades)), width
