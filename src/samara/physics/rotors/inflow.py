"""The air a rotor draws through its disc: momentum theory through every flow state, and how fast the flow follows.

Climb is positive: the hub moves along its thrust. Between hover-like flow and the windmill brake momentum theory has no
steady solution (the vortex ring); there the flow is Johnson's polynomial, joined in value and slope.
"""

import math
from typing import Annotated, NamedTuple, TypeAlias

from samara.core.ops import absolute, maximum, minimum, safe_divide, safe_norm, safe_sqrt, sqrt, where
from samara.core.quantity import AirDensity, Quantity, Scalar
from samara.physics.rotors.rotor import Radius

HALLEY_STEPS = 3  # leaves 1e-13 of the momentum balance (tests/physics/test_inflow.py)

RING_CENTRE, RING_HALF_WIDTH = -1.55, 0.55  # of V_c/v_h; its extent in V_e/v_h is 1
"""The vortex ring, V_c from −2.1 to −1: a tenth past −2, where the windmill's branch begins with infinite slope."""
JOHNSON = (0.373, 0.598, -1.991)
"""ν = x (0.373 x² + 0.598 μ² − 1.991): W. Johnson, Comprehensive Analytical Model of Rotorcraft, NASA TM-81182 (1980)"""

Thrust: TypeAlias = Annotated[Scalar, Quantity("N", -5.0, 20.0)]
ClimbSpeed: TypeAlias = Annotated[Scalar, Quantity("m/s", -15.0, 15.0)]
EdgeSpeed: TypeAlias = Annotated[Scalar, Quantity("m/s", 0.0, 20.0)]
Induced: TypeAlias = Annotated[Scalar, Quantity("m/s", 0.0, 20.0)]
ClimbRatio: TypeAlias = Annotated[Scalar, Quantity("1", -4.0, 4.0)]
EdgeRatio: TypeAlias = Annotated[Scalar, Quantity("1", 0.0, 4.0)]

_SLOWEST = 1e-3  # [m/s]: below this v_h the ratios V/v_h are not formed
_CENTRE = 0.05  # of the ring: in here no ray leads to its edge, and nothing is carried


class _Momentum(NamedTuple):
    value: Scalar
    by_climb: Scalar
    by_edge: Scalar


def hover_induced(thrust: Thrust, air_density: AirDensity, radius: Radius) -> Scalar:
    """v_h = √(|T| / (2ρA)),  A = πR²  [m/s]"""
    return safe_sqrt(safe_divide(absolute(thrust), 2.0 * math.pi * air_density * radius * radius))


def induced_ratio(climb: ClimbRatio, edge: EdgeRatio) -> Scalar:
    """ν √(μ² + (x + ν)²) = 1 outside the vortex ring, Johnson's polynomial inside;  ν = v/v_h, x = V_c/v_h, μ = V_e/v_h

    In the ring, ρ < 1 from its centre, the difference δ between both theories at the edge, and its slope δ' along the ray,
    is carried inwards: ν = ν_J + t³(4 − 3t) (δ + (ρ − 1) δ'), t = (ρ − 0.05)/0.95. Value and slope are continuous everywhere.
    """
    across = (climb - RING_CENTRE) / RING_HALF_WIDTH
    distance = safe_norm(across, edge)
    outwards = maximum(minimum(distance, 1.0), _CENTRE)
    edge_across, edge_edge = across / outwards, edge / outwards
    at_edge = _momentum(RING_CENTRE + RING_HALF_WIDTH * edge_across, edge_edge)
    ring_at_edge = _johnson(RING_CENTRE + RING_HALF_WIDTH * edge_across, edge_edge)
    gap = at_edge.value - ring_at_edge.value
    by_ray = RING_HALF_WIDTH * edge_across * (at_edge.by_climb - ring_at_edge.by_climb)
    by_ray = by_ray + edge_edge * (at_edge.by_edge - ring_at_edge.by_edge)
    part = (outwards - _CENTRE) / (1.0 - _CENTRE)
    weight = part * part * part * (4.0 - 3.0 * part)
    ring = _johnson(climb, edge).value + weight * (gap + (outwards - 1.0) * by_ray)
    return where(distance < 1.0, ring, at_edge.value)


def _momentum(climb: Scalar, edge: Scalar) -> _Momentum:
    """Halley's steps on f = ν² (μ² + (x + ν)²) − 1, which takes no root, and the slopes of its zero.

    Left of the ring from below, to the smallest of up to three roots (the windmill's); else from above, to the only one.
    """
    axial_root = sqrt(1.0 + 0.25 * climb * climb) - 0.5 * climb
    upwards = maximum(climb, 0.0)
    above = minimum(axial_root, 1.0 / sqrt(maximum(edge * edge + upwards * upwards, 0.25)))
    below = 1.0 / sqrt(maximum(climb * climb + edge * edge, 1.0))
    value = where(climb < RING_CENTRE, below, above)
    for _ in range(HALLEY_STEPS):
        through = climb + value
        square, lean = edge * edge + through * through, value * through
        excess, slope = value * value * square - 1.0, value * (square + lean)
        value = value - 2.0 * excess * slope / (4.0 * slope * slope - excess * (square + 4.0 * lean + value * value))
    through = climb + value
    slope = edge * edge + through * (through + value)
    return _Momentum(value, -value * through / slope, -value * edge / slope)


def _johnson(climb: Scalar, edge: Scalar) -> _Momentum:
    cubic, mixed, linear = JOHNSON
    value = climb * (cubic * climb * climb + mixed * edge * edge + linear)
    return _Momentum(value, 3.0 * cubic * climb * climb + mixed * edge * edge + linear, 2.0 * mixed * edge * climb)


def induced_velocity(
    thrust: Thrust, climb: ClimbSpeed, edge: EdgeSpeed, air_density: AirDensity, radius: Radius
) -> Scalar:
    """v = v_h ν(V_c / v_h, V_e / v_h), against the thrust; a rotor that pulls down is one that pushes up, upside down  [m/s]

    Below v_h = 1 mm/s the ratio is taken there and v falls with the thrust: 0 at none.
    """
    at_hover = hover_induced(thrust, air_density, radius)
    up = where(thrust < 0, -1.0, 1.0)
    unit = maximum(at_hover, _SLOWEST)
    return up * at_hover * at_hover / unit * induced_ratio(up * climb / unit, edge / unit)


def mass_flow_speed(induced: Induced, climb: ClimbSpeed, edge: EdgeSpeed, at_hover: Induced) -> Scalar:
    """V_m = (V_e² + (V_c + v)(V_c + 2v)) / √(V_e² + (V_c + v)²), at least v_h: the mass flow that carries a disturbance away

    2 v_h in hover, V in fast flight (Peters and HaQuang, 1988). In the vortex ring it vanishes, and
    the flow would never settle; half of its value in hover is kept.
    """
    through = climb + induced
    flow = safe_divide(edge * edge + through * (through + induced), safe_norm(edge, through))
    return maximum(maximum(flow, at_hover), _SLOWEST)


def wake_skew(induced: Induced, climb: ClimbSpeed, edge: EdgeSpeed) -> Scalar:
    """tan(χ/2) = V_e / (√(V_e² + (V_c + v)²) + |V_c + v|): 0 for a wake along the axis, 1 for one that leaves edgewise"""
    through = absolute(climb + induced)
    return safe_divide(edge, safe_norm(edge, through) + through)
