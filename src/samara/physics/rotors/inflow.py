"""Induced inflow of a rotor: momentum theory through all flow states, and the time scale of its changes.

Climb is positive: the hub moves along its thrust. Between hover-like flow and the windmill brake state, momentum theory has no
steady solution (the vortex ring); there the flow is Johnson's polynomial, joined with continuous value and slope.
"""

import math
from typing import Annotated, NamedTuple, TypeAlias

from samara.core.ops import absolute, maximum, minimum, safe_divide, safe_norm, safe_sqrt, sqrt, where
from samara.core.quantity import AirDensity, Quantity, Scalar
from samara.physics.rotors.rotor import Radius

HALLEY_STEPS = 3  # leaves 1e-13 of the momentum balance (tests/physics/test_inflow.py)

RING_CENTRE, RING_HALF_WIDTH = -1.55, 0.55  # in V_c/v_h; its extent in V_e/v_h is 1
"""The vortex ring, V_c from −2.1 to −1: it extends 0.1 past −2, where the windmill branch begins with infinite slope."""
JOHNSON = (0.373, 0.598, -1.991)
"""ν = x (0.373 x² + 0.598 μ² − 1.991): W. Johnson, Comprehensive Analytical Model of Rotorcraft, NASA TM-81182 (1980)"""

Thrust: TypeAlias = Annotated[Scalar, Quantity("N", -5.0, 20.0)]
ClimbSpeed: TypeAlias = Annotated[Scalar, Quantity("m/s", -15.0, 15.0)]
EdgeSpeed: TypeAlias = Annotated[Scalar, Quantity("m/s", 0.0, 20.0)]
Induced: TypeAlias = Annotated[Scalar, Quantity("m/s", 0.0, 20.0)]
ClimbRatio: TypeAlias = Annotated[Scalar, Quantity("1", -4.0, 4.0)]
EdgeRatio: TypeAlias = Annotated[Scalar, Quantity("1", 0.0, 4.0)]

_MIN_HOVER_INDUCED = 1e-3  # [m/s]: lower bound of v_h in the ratios V/v_h
_CORE_RADIUS = (
    0.05  # fraction of the ring's radius: inside, the direction to its edge is undefined, and no correction applies
)


class _InflowSlopes(NamedTuple):
    value: Scalar
    climb_slope: Scalar
    edge_slope: Scalar


def hover_induced(thrust: Thrust, air_density: AirDensity, radius: Radius) -> Scalar:
    """v_h = √(|T| / (2ρA)),  A = πR²  [m/s]"""
    return safe_sqrt(safe_divide(absolute(thrust), 2.0 * math.pi * air_density * radius * radius))


def induced_ratio(climb: ClimbRatio, edge: EdgeRatio) -> Scalar:
    """ν √(μ² + (x + ν)²) = 1 outside the vortex ring, Johnson's polynomial inside;  ν = v/v_h, x = V_c/v_h, μ = V_e/v_h

    In the ring, at ρ < 1 from its centre, the difference δ between both theories at the edge, and its slope δ' along the ray,
    extend inwards: ν = ν_J + t³(4 − 3t) (δ + (ρ − 1) δ'), t = (ρ − 0.05)/0.95. Value and slope are continuous everywhere.
    """
    ring_climb = (climb - RING_CENTRE) / RING_HALF_WIDTH
    distance = safe_norm(ring_climb, edge)
    ring_radius = maximum(minimum(distance, 1.0), _CORE_RADIUS)
    boundary_climb, boundary_edge = ring_climb / ring_radius, edge / ring_radius
    momentum = _momentum(RING_CENTRE + RING_HALF_WIDTH * boundary_climb, boundary_edge)
    johnson = _johnson(RING_CENTRE + RING_HALF_WIDTH * boundary_climb, boundary_edge)
    mismatch = momentum.value - johnson.value
    radial_slope = RING_HALF_WIDTH * boundary_climb * (momentum.climb_slope - johnson.climb_slope)
    radial_slope = radial_slope + boundary_edge * (momentum.edge_slope - johnson.edge_slope)
    blend = (ring_radius - _CORE_RADIUS) / (1.0 - _CORE_RADIUS)
    weight = blend * blend * blend * (4.0 - 3.0 * blend)
    ring_value = _johnson(climb, edge).value + weight * (mismatch + (ring_radius - 1.0) * radial_slope)
    return where(distance < 1.0, ring_value, momentum.value)


def _momentum(climb: Scalar, edge: Scalar) -> _InflowSlopes:
    """Halley's iteration on f = ν² (μ² + (x + ν)²) − 1, which is free of roots, and the slopes of its zero.

    Left of the ring it starts from below, to the smallest of up to three roots (the windmill's); else from above, to the only
    one.
    """
    axial_root = sqrt(1.0 + 0.25 * climb * climb) - 0.5 * climb
    positive_climb = maximum(climb, 0.0)
    upper_start = minimum(axial_root, 1.0 / sqrt(maximum(edge * edge + positive_climb * positive_climb, 0.25)))
    lower_start = 1.0 / sqrt(maximum(climb * climb + edge * edge, 1.0))
    value = where(climb < RING_CENTRE, lower_start, upper_start)
    for _ in range(HALLEY_STEPS):
        v_through = climb + value
        through_squared, product = edge * edge + v_through * v_through, value * v_through
        excess, slope = value * value * through_squared - 1.0, value * (through_squared + product)
        value = value - 2.0 * excess * slope / (
            4.0 * slope * slope - excess * (through_squared + 4.0 * product + value * value)
        )
    v_through = climb + value
    slope = edge * edge + v_through * (v_through + value)
    return _InflowSlopes(value, -value * v_through / slope, -value * edge / slope)


def _johnson(climb: Scalar, edge: Scalar) -> _InflowSlopes:
    cubic, mixed, linear = JOHNSON
    value = climb * (cubic * climb * climb + mixed * edge * edge + linear)
    return _InflowSlopes(value, 3.0 * cubic * climb * climb + mixed * edge * edge + linear, 2.0 * mixed * edge * climb)


def induced_velocity(
    thrust: Thrust, climb: ClimbSpeed, edge: EdgeSpeed, air_density: AirDensity, radius: Radius
) -> Scalar:
    """v = v_h ν(V_c / v_h, V_e / v_h), opposite to the thrust; negative thrust is the same flow upside down  [m/s]

    Below v_h = 1 mm/s the ratio is formed with 1 mm/s, and v vanishes with the thrust.
    """
    v_hover = hover_induced(thrust, air_density, radius)
    thrust_sign = where(thrust < 0, -1.0, 1.0)
    v_reference = maximum(v_hover, _MIN_HOVER_INDUCED)
    return (
        thrust_sign
        * v_hover
        * v_hover
        / v_reference
        * induced_ratio(thrust_sign * climb / v_reference, edge / v_reference)
    )


def mass_flow_speed(induced: Induced, climb: ClimbSpeed, edge: EdgeSpeed, v_hover: Induced) -> Scalar:
    """V_m = (V_e² + (V_c + v)(V_c + 2v)) / √(V_e² + (V_c + v)²), at least v_h: the mass flow that convects a disturbance

    2 v_h in hover, V in fast flight (Peters and HaQuang, 1988). In the vortex ring it vanishes, and the flow would never
    settle; half of its value in hover is the lower bound.
    """
    v_through = climb + induced
    flow = safe_divide(edge * edge + v_through * (v_through + induced), safe_norm(edge, v_through))
    return maximum(maximum(flow, v_hover), _MIN_HOVER_INDUCED)


def wake_skew(induced: Induced, climb: ClimbSpeed, edge: EdgeSpeed) -> Scalar:
    """tan(χ/2) = V_e / (√(V_e² + (V_c + v)²) + |V_c + v|): 0 for an axial wake, 1 for an edgewise one"""
    v_through = absolute(climb + induced)
    return safe_divide(edge, safe_norm(edge, v_through) + v_through)
