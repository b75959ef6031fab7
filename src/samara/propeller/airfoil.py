"""One airfoil for every small propeller: attached lift, drag polar with Reynolds number, stall, and a flat plate beyond it.

Angles are in rad, measured from the chord line.
"""

import math
from typing import Annotated, NamedTuple, TypeAlias

from samara.core.ops import clamp, cos, exp, maximum, power, sin
from samara.core.quantity import Angle, Quantity, Scalar

Reynolds: TypeAlias = Annotated[Scalar, Quantity("1", 1e3, 1e6)]
ChordOverRadius: TypeAlias = Annotated[Scalar, Quantity("1", 0.0, 1.0)]

_MIN_REYNOLDS = 1.0  # avoids the infinite friction of the power law for a blade at rest
_MAX_SIGMOID_ARGUMENT = 60.0  # e^60 saturates the sigmoid


class Airfoil(NamedTuple):
    """Lift slope, zero-lift angle and stall; drag at Re = 10⁵, its power of Re, its bucket; and the flat plate's drag."""

    lift_slope: Annotated[Scalar, Quantity("1/rad", 4.0, 6.5)]
    zero_lift: Annotated[Scalar, Quantity("rad", -0.15, 0.0)]
    stall: Annotated[Scalar, Quantity("rad", 0.1, 0.3)]
    stall_width: Annotated[Scalar, Quantity("rad", 0.02, 0.1)]
    drag: Annotated[Scalar, Quantity("1", 0.005, 0.05)]
    reynolds_power: Annotated[Scalar, Quantity("1", 0.0, 0.5)]
    drag_rise: Annotated[Scalar, Quantity("1", 0.0, 0.2)]
    lift_of_least_drag: Annotated[Scalar, Quantity("1", 0.0, 0.8)]
    plate_drag: Annotated[Scalar, Quantity("1", 1.0, 2.1)]


SMALL_PROPELLER = Airfoil(
    lift_slope=5.7,  # 0.9 of 2π: measured low-Reynolds airfoils, Selig et al., Summary of Low-Speed Airfoil Data (1995-97)
    zero_lift=math.radians(-4.0),  # 4 % camber as in NACA 4412 and Clark Y, the sections propeller makers name
    stall=math.radians(13.0),  # chosen once for all propellers measured at UIUC (docs/explanation/rotor.md)
    stall_width=1.0 / 30.0,
    drag=0.027,  # at Re = 10⁵; chosen once, like the stall angle
    reynolds_power=0.2,  # skin friction of a turbulent boundary layer
    drag_rise=0.05,
    lift_of_least_drag=0.4,
    plate_drag=1.98,  # flat plate normal to the flow, Hoerner, Fluid-Dynamic Drag (1965)
)


class SectionForce(NamedTuple):
    """Lift and drag coefficient of a blade section."""

    lift: Annotated[Scalar, Quantity("1", -2.0, 2.0)]
    drag: Annotated[Scalar, Quantity("1", 0.0, 2.1)]


def stalled_fraction(alpha: Angle, airfoil: Airfoil) -> Scalar:
    """σ(α) = S((α − α_s)/w) + S((2α₀ − α_s − α)/w),  S(x) = 1/(1 + e⁻ˣ): 0 attached, 1 stalled, symmetric about α₀"""
    above_stall = alpha - airfoil.stall
    below_stall = 2.0 * airfoil.zero_lift - airfoil.stall - alpha
    return _sigmoid(above_stall / airfoil.stall_width) + _sigmoid(below_stall / airfoil.stall_width)


def _sigmoid(x: Scalar) -> Scalar:
    return 1.0 / (1.0 + exp(-clamp(x, -_MAX_SIGMOID_ARGUMENT, _MAX_SIGMOID_ARGUMENT)))


def section_force(
    alpha: Angle, reynolds: Reynolds, chord_over_radius: ChordOverRadius, airfoil: Airfoil
) -> SectionForce:
    """cl = (1 − σ̂) ½a sin 2(α − α₀) + σ̂ c₉₀ sin α cos α,   cd = c₀ (Re/10⁵)⁻ⁿ + (1 − σ) k (cl − cl₀)² + σ c₉₀ sin²α

    Rotation preserves the lift of a stalled blade near the hub: σ̂ = σ (1 − tanh 3(c/r)²), after Snel's 3(c/r)² (1993), bounded.
    """
    stalled = stalled_fraction(alpha, airfoil)
    attached = 0.5 * airfoil.lift_slope * sin(2.0 * (alpha - airfoil.zero_lift))
    sine = sin(alpha)
    delay = _tanh(3.0 * chord_over_radius * chord_over_radius)
    lift = attached + stalled * (1.0 - delay) * (airfoil.plate_drag * sine * cos(alpha) - attached)
    friction = airfoil.drag * power(maximum(reynolds, _MIN_REYNOLDS) / 1e5, -airfoil.reynolds_power)
    lift_offset = attached - airfoil.lift_of_least_drag
    bucket = (1.0 - stalled) * airfoil.drag_rise * lift_offset * lift_offset
    return SectionForce(lift, friction + bucket + stalled * airfoil.plate_drag * sine * sine)


def _tanh(x: Scalar) -> Scalar:
    decayed = exp(-2.0 * x)
    return (1.0 - decayed) / (1.0 + decayed)
