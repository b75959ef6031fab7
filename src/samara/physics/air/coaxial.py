"""Coaxial rotors: the lower rotor works in the wake of the upper one.

The wake contracts as it accelerates, and covers a fraction c of the disc below. For the lower rotor it is a climb, because the
air already moves down, and a change of rotor speed, because the air rotates with the upper rotor. Its load is that of a rotor
with an additional climb Δ and an additional rotation ϖ,

    Δ = c (u − V_c),   u = V_c + v (1 + z/√(z² + R²)),   r² u = R² (V_c + v),   ϖ = ∓ √c 2Q/(ṁ R²),  ṁ = ρ πR² (V_c + v).

Mass: as long as an equal disc catches the complete wake, Δ = v at any distance. Angular momentum: Q = ½ ṁ r² ω turns the wake.

In hover at equal thrusts the pair needs 1.31 times the induced power of two isolated rotors, ½ (1 + (1 + √5)/2). Leishman's
model of the same flow, in which the lower wake mixes, gives 1.28, and 1.41 for discs in one plane (J. G. Leishman and
S. Ananthan, "Aerodynamic optimization of a coaxial proprotor", AHS 62nd Annual Forum, 2006). The inflow that the lower rotor
induces at the upper one, which matters for discs closer than about half a radius, is neglected.
"""

import math
from typing import TYPE_CHECKING, Annotated, NamedTuple, TypeAlias

from samara.core.algebra import cross, dot, norm
from samara.core.ops import absolute, atan2, clamp, maximum, safe_divide, safe_norm, safe_sqrt, where
from samara.core.quantity import AirDensity, Quantity, RotorSpeed, Scalar
from samara.physics.air.propwash import wake_flow
from samara.physics.effect import Effect
from samara.physics.rotors.blade_element import HubFlow, RotorAir, hub_flow, steady_load
from samara.physics.rotors.inflow import ClimbSpeed, Induced, hover_induced, induced_velocity
from samara.physics.rotors.rotor import Radius, Rotor, RotorLoad

if TYPE_CHECKING:
    from samara.physics.types import Environment, State, Vehicle

Distance: TypeAlias = Annotated[Scalar, Quantity("m", 0.0, 1.0)]

MIN_SEPARATION_RATIO = 0.02  # fraction of the radius: a disc that is less far below counts as level, outside the wake
MIN_WAKE_AREA_RATIO = 0.5  # fraction of the disc's area: the far wake of momentum theory
_MIN_CONVECTION_SPEED = 1e-3  # [m/s]: lower bound of the speed that carries the wake
_MIN_OFFSET_RATIO = 1e-3  # fraction of the radius: lower bound of the distance between centres


class Coaxial(NamedTuple):
    """Solidity and lift-curve slope of the blades, as in the effect `rotor_air`."""

    solidity: Annotated[Scalar, Quantity("1", 0.03, 0.3)]
    lift_slope: Annotated[Scalar, Quantity("1/rad", 3.0, 6.5)] = 5.7


def wake_radius(induced: Induced, climb: ClimbSpeed, flow: ClimbSpeed, *, radius: Radius) -> Scalar:
    """r = R √((V_c + v)/u): constant volume flow; from R at the disc to R/√2 far below it in hover  [m]"""
    return radius * safe_sqrt(clamp(safe_divide(climb + induced, flow), MIN_WAKE_AREA_RATIO, 1.0))


def overlap_fraction(offset: Distance, wake: Radius, disc: Radius) -> Scalar:
    """c = (r² α + R² β − r d sin α) / (πR²): the fraction of a disc inside a circle whose centre is d away

    cos α = (d² + r² − R²)/(2dr), cos β = (d² + R² − r²)/(2dR): half the angles that the common chord subtends at the two
    centres. 1 if the disc is inside the circle, r²/R² if the circle is inside the disc, 0 if they do not overlap.
    """
    d = maximum(offset, _MIN_OFFSET_RATIO * disc)
    radius_term = safe_divide((wake - disc) * (wake + disc), d)  # factored: no cancellation for nearly equal radii
    cos_alpha = clamp(safe_divide(d + radius_term, 2.0 * wake), -1.0, 1.0)
    cos_beta = clamp(safe_divide(d - radius_term, 2.0 * disc), -1.0, 1.0)
    sin_alpha, sin_beta = safe_sqrt(1.0 - cos_alpha * cos_alpha), safe_sqrt(1.0 - cos_beta * cos_beta)
    sectors = wake * wake * atan2(sin_alpha, cos_alpha) + disc * disc * atan2(sin_beta, cos_beta)
    return safe_divide(sectors - wake * d * sin_alpha, math.pi * disc * disc)


class Wake(NamedTuple):
    """Additional downward velocity and rotation of the air at a rotor below another, as means over its disc."""

    down: Annotated[Scalar, Quantity("m/s", 0.0, 20.0)]
    swirl: Annotated[Scalar, Quantity("rad/s", -100.0, 100.0)]


def incident_wake(
    load: RotorLoad, induced: Induced, flow: HubFlow, upper: Rotor, lower: Rotor, air_density: AirDensity
) -> Wake:
    """Δ = c (u − V_c) and ϖ = s √c 2Q/(ṁ R²) about the axis of the rotor below  [m/s, rad/s]

    The effect of swirl on blades grows with r²: the part within √c R counts c^{3/2}, and there the swirl is 2Q/(ṁ c R²). The
    wake drifts back by z u_e/(V_c + v) over the distance z. A disc level with the rotor, or above it, is outside the wake.
    """
    separation_B = lower.r_B - upper.r_B
    below = -dot(separation_B, upper.axis_B)
    distance = maximum(below, 0.0)
    v_hover = hover_induced(load.thrust, air_density, upper.radius)
    wake_velocity = wake_flow(induced, flow.climb, v_hover, radius=upper.radius, distance=distance)
    radius = wake_radius(induced, flow.climb, wake_velocity, radius=upper.radius)
    convection_speed = maximum(maximum(flow.climb + induced, 0.5 * v_hover), _MIN_CONVECTION_SPEED)
    offset_B = separation_B + upper.axis_B * below + flow.across_B * (distance / convection_speed)
    overlap = where(
        below > MIN_SEPARATION_RATIO * upper.radius, overlap_fraction(norm(offset_B), radius, lower.radius), 0.0
    )
    mass_flow = air_density * math.pi * upper.radius * upper.radius * convection_speed
    swirl = safe_divide(safe_sqrt(overlap) * 2.0 * load.torque, mass_flow * lower.radius * lower.radius)
    return Wake(overlap * (wake_velocity - flow.climb), upper.spin * dot(upper.axis_B, lower.axis_B) * swirl)


def wake_loss(
    speed: RotorSpeed, wake: Wake, flow: HubFlow, rotor: Rotor, blades: RotorAir, air_density: AirDensity
) -> RotorLoad:
    """ΔT = T(Ω − s ϖ, V_c + Δ) − T(Ω, V_c), ΔQ likewise, each a `steady_load`  [N, N·m]"""
    free = steady_load(speed, flow, rotor, blades, air_density)
    immersed_flow = flow._replace(climb=flow.climb + wake.down)
    immersed = steady_load(absolute(speed) - rotor.spin * wake.swirl, immersed_flow, rotor, blades, air_density)
    return RotorLoad(immersed.thrust - free.thrust, immersed.torque - free.torque)


def _is_below(upper: Rotor, lower: Rotor) -> bool:
    """Return whether one disc is below the other and their circles overlap, viewed along the upper rotor's axis.

    Returns True if a parameter is symbolic, as in a trace.
    """
    geometry = (*upper.r_B, *upper.axis_B, *lower.r_B, upper.radius, lower.radius)
    if not all(isinstance(x, (int, float)) for x in geometry):
        return True
    separation_B = lower.r_B - upper.r_B
    below = -dot(separation_B, upper.axis_B)
    return bool(
        below > MIN_SEPARATION_RATIO * upper.radius
        and norm(cross(upper.axis_B, separation_B)) < upper.radius + lower.radius
    )


def _coaxial_pairs(vehicle: "Vehicle") -> tuple[tuple[int, int], ...]:
    """Return the index pairs (upper, lower) of all rotors of which one is below another."""
    rotors = list(enumerate(vehicle.rotors))
    return tuple((i, j) for i, upper in rotors for j, lower in rotors if i != j and _is_below(upper, lower))


def _wake_losses(
    effect_state: object, state: "State", vehicle: "Vehicle", environment: "Environment"
) -> tuple[RotorLoad, ...]:
    blades = RotorAir(*vehicle["coaxial"])
    density, winds = environment.air_density, environment.hub_wind_W or (environment.wind_W,) * len(vehicle.rotors)
    flows = [
        hub_flow(state.q_WB, state.v_W, state.omega_B, wind_W, rotor)
        for wind_W, rotor in zip(winds, vehicle.rotors, strict=True)
    ]
    incident: list[Wake | None] = [None] * len(vehicle.rotors)
    wake_sources: dict[int, tuple[RotorLoad, Scalar]] = {}
    for i, j in _coaxial_pairs(vehicle):
        upper, speed = vehicle.rotors[i], state.rotor_speed[i]
        if i not in wake_sources:
            load, edge_speed = steady_load(speed, flows[i], upper, blades, density), safe_norm(*flows[i].across_B)
            wake_sources[i] = load, induced_velocity(load.thrust, flows[i].climb, edge_speed, density, upper.radius)
        increment, previous = incident_wake(*wake_sources[i], flows[i], upper, vehicle.rotors[j], density), incident[j]
        incident[j] = (
            increment if previous is None else Wake(previous.down + increment.down, previous.swirl + increment.swirl)
        )
    return tuple(
        RotorLoad(0.0, 0.0) if wake is None else wake_loss(speed, wake, flow, rotor, blades, density)
        for wake, speed, flow, rotor in zip(incident, state.rotor_speed, flows, vehicle.rotors, strict=True)
    )


COAXIAL = Effect(
    "coaxial", additional_loads=_wake_losses, reads=("hub_wind_W",), planned=False, scales_hover_loads=True
)
