"""Coaxial rotors: the lower of two stands in the wake of the upper one.

The wake narrows as it speeds up, and covers a part c of the disc below. To the lower rotor it is a climb, as the air comes
down already, and a change of its own speed, as the air turns with the upper rotor: its load is that of a rotor which climbs by
Δ and turns by ϖ more,

    Δ = c (u − V_c),   u = V_c + v (1 + z/√(z² + R²)),   r² u = R² (V_c + v),   ϖ = ∓ √c 2Q/(ṁ R²),  ṁ = ρ πR² (V_c + v).

Mass: as long as an equal disc catches all of the wake, Δ = v at any distance. Angular momentum: Q = ½ ṁ r² ω turns the wake.

In hover at equal thrusts the pair then takes 1.31 of the induced power of two rotors apart, ½ (1 + (1 + √5)/2), where
Leishman's account of the same flow, which lets the lower wake mix, has 1.28; he has 1.41 for discs in one plane (J. G.
Leishman and S. Ananthan, "Aerodynamic optimization of a coaxial proprotor", AHS 62nd Annual Forum, 2006). That the lower rotor
draws air through the upper one, which counts for discs closer than about half a radius, is left out.
"""

import math
from typing import TYPE_CHECKING, Annotated, NamedTuple, TypeAlias

from samara.core.algebra import cross, dot, norm
from samara.core.ops import absolute, atan2, clamp, maximum, safe_divide, safe_norm, safe_sqrt, where
from samara.core.quantity import AirDensity, Quantity, RotorSpeed, Scalar
from samara.physics.air.propwash import wake_flow
from samara.physics.effect import Effect
from samara.physics.rotors.blade_element import HubFlow, RotorAir, air_load, blade_numbers, hub_flow
from samara.physics.rotors.inflow import ClimbSpeed, Induced, hover_induced, induced_velocity
from samara.physics.rotors.rotor import Radius, Rotor, RotorLoad

if TYPE_CHECKING:
    from samara.physics.types import Environment, State, Vehicle

Distance: TypeAlias = Annotated[Scalar, Quantity("m", 0.0, 1.0)]

NEAREST = 0.02  # of the radius: a disc closer below than this is in the same plane, and in no wake
NARROWEST = 0.5  # of the disc's area: what momentum theory leaves of a wake far down
_SLOWEST = 1e-3  # [m/s]: slower air takes no wake along
_BESIDE = 1e-3  # of the radius: centres are at least so far apart


class Coaxial(NamedTuple):
    """The blades of the rotors, as of `rotor_air`: their part of the disc, and the lift they gain with angle of attack."""

    solidity: Annotated[Scalar, Quantity("1", 0.03, 0.3)]
    lift_slope: Annotated[Scalar, Quantity("1/rad", 3.0, 6.5)] = 5.7


def wake_radius(induced: Induced, climb: ClimbSpeed, flow: ClimbSpeed, *, radius: Radius) -> Scalar:
    """r = R √((V_c + v)/u): as much air at every distance; from R at the disc to R/√2 far below it in hover  [m]"""
    return radius * safe_sqrt(clamp(safe_divide(climb + induced, flow), NARROWEST, 1.0))


def covered(apart: Distance, wake: Radius, disc: Radius) -> Scalar:
    """c = (r² α + R² β − r d sin α) / (πR²): the part of a disc inside a circle whose centre is d away

    cos α = (d² + r² − R²)/(2dr), cos β = (d² + R² − r²)/(2dR): the halves of the angles under which the two see their common
    chord. 1 where the disc is inside, r²/R² where the circle is, 0 where they are apart.
    """
    d = maximum(apart, _BESIDE * disc)
    wider = safe_divide((wake - disc) * (wake + disc), d)  # no digits are lost where both are alike
    cos_alpha = clamp(safe_divide(d + wider, 2.0 * wake), -1.0, 1.0)
    cos_beta = clamp(safe_divide(d - wider, 2.0 * disc), -1.0, 1.0)
    sin_alpha, sin_beta = safe_sqrt(1.0 - cos_alpha * cos_alpha), safe_sqrt(1.0 - cos_beta * cos_beta)
    sectors = wake * wake * atan2(sin_alpha, cos_alpha) + disc * disc * atan2(sin_beta, cos_beta)
    return safe_divide(sectors - wake * d * sin_alpha, math.pi * disc * disc)


class Wake(NamedTuple):
    """What stands below a rotor meets: air that comes down by so much faster, and turns, both as means over its disc."""

    down: Annotated[Scalar, Quantity("m/s", 0.0, 20.0)]
    swirl: Annotated[Scalar, Quantity("rad/s", -100.0, 100.0)]


def wake_on(
    load: RotorLoad, induced: Induced, flow: HubFlow, upper: Rotor, lower: Rotor, air_density: AirDensity
) -> Wake:
    """Δ = c (u − V_c) and ϖ = s √c 2Q/(ṁ R²) about the axis of the rotor below  [m/s, rad/s]

    Blades feel swirl with r²: what is within √c R counts c^{3/2}, and there it is 2Q/(ṁ c R²). The wake drifts back by
    z u_e/(V_c + v) on its way. A disc that is level with the rotor, or above it, is in no wake.
    """
    away_B = lower.r_B - upper.r_B
    below = -dot(away_B, upper.axis_B)
    distance = maximum(below, 0.0)
    at_hover = hover_induced(load.thrust, air_density, upper.radius)
    past = wake_flow(induced, flow.climb, at_hover, radius=upper.radius, distance=distance)
    radius = wake_radius(induced, flow.climb, past, radius=upper.radius)
    carried = maximum(maximum(flow.climb + induced, 0.5 * at_hover), _SLOWEST)
    beside_B = away_B + upper.axis_B * below + flow.across_B * (distance / carried)
    share = where(below > NEAREST * upper.radius, covered(norm(beside_B), radius, lower.radius), 0.0)
    mass_flow = air_density * math.pi * upper.radius * upper.radius * carried
    swirl = safe_divide(safe_sqrt(share) * 2.0 * load.torque, mass_flow * lower.radius * lower.radius)
    return Wake(share * (past - flow.climb), upper.spin * dot(upper.axis_B, lower.axis_B) * swirl)


def wake_loss(
    speed: RotorSpeed, wake: Wake, flow: HubFlow, rotor: Rotor, blades: RotorAir, air_density: AirDensity
) -> RotorLoad:
    """ΔT = T(Ω − s ϖ, V_c + Δ) − T(Ω, V_c), and the same of the torque, each at its own `axial_flow`  [N, N·m]"""
    free = _load(speed, flow, rotor, blades, air_density)
    faster = flow._replace(climb=flow.climb + wake.down)
    held = _load(absolute(speed) - rotor.spin * wake.swirl, faster, rotor, blades, air_density)
    return RotorLoad(held.thrust - free.thrust, held.torque - free.torque)


def axial_flow(speed: RotorSpeed, climb: ClimbSpeed, rotor: Rotor, blades: RotorAir) -> Scalar:
    """2W (W − V_c) = σaθU²/6 − σaUW/4: the air through a disc in hover and climb, momentum and blade elements in balance  [m/s]

    W = ½ (V_c − k + √((V_c − k)² + σaθU²/3)), k = σaU/8: what `rotor_air.balanced_inflow` finds by iteration. In a descent,
    too, it is one that goes down through the disc.
    """
    blade, tip = blade_numbers(rotor, blades), absolute(speed) * rotor.radius
    against = climb - 0.125 * blade.lift * tip
    return 0.5 * (against + safe_sqrt(against * against + blade.lift * blade.pitch * tip * tip / 3.0))


def _load(speed: Scalar, flow: HubFlow, rotor: Rotor, blades: RotorAir, air_density: Scalar) -> RotorLoad:
    induced = axial_flow(speed, flow.climb, rotor, blades) - flow.climb
    return air_load(speed, induced, flow, rotor, blades, air_density)


def _stands_below(upper: Rotor, lower: Rotor) -> bool:
    """Whether the disc of one is below that of the other and their circles overlap, seen along the axis of the upper

    Where a number is not known yet, as in a trace, they may.
    """
    numbers = (*upper.r_B, *upper.axis_B, *lower.r_B, upper.radius, lower.radius)
    if not all(isinstance(x, (int, float)) for x in numbers):
        return True
    away_B = lower.r_B - upper.r_B
    below = -dot(away_B, upper.axis_B)
    return bool(below > NEAREST * upper.radius and norm(cross(upper.axis_B, away_B)) < upper.radius + lower.radius)


def _pairs(vehicle: "Vehicle") -> tuple[tuple[int, int], ...]:
    """(upper, lower) of all rotors of which one stands below another"""
    rotors = list(enumerate(vehicle.rotors))
    return tuple((i, j) for i, upper in rotors for j, lower in rotors if i != j and _stands_below(upper, lower))


def _losses(own: object, state: "State", vehicle: "Vehicle", environment: "Environment") -> tuple[RotorLoad, ...]:
    blades = RotorAir(*vehicle["coaxial"])
    density, winds = environment.air_density, environment.hub_wind_W or (environment.wind_W,) * len(vehicle.rotors)
    flows = [
        hub_flow(state.q_WB, state.v_W, state.omega_B, wind_W, rotor)
        for wind_W, rotor in zip(winds, vehicle.rotors, strict=True)
    ]
    met: list[Wake | None] = [None] * len(vehicle.rotors)
    shed: dict[int, tuple[RotorLoad, Scalar]] = {}
    for i, j in _pairs(vehicle):
        upper, speed = vehicle.rotors[i], state.rotor_speed[i]
        if i not in shed:
            load, edge = _load(speed, flows[i], upper, blades, density), safe_norm(*flows[i].across_B)
            shed[i] = load, induced_velocity(load.thrust, flows[i].climb, edge, density, upper.radius)
        more, before = wake_on(*shed[i], flows[i], upper, vehicle.rotors[j], density), met[j]
        met[j] = more if before is None else Wake(before.down + more.down, before.swirl + more.swirl)
    return tuple(
        RotorLoad(0.0, 0.0) if wake is None else wake_loss(speed, wake, flow, rotor, blades, density)
        for wake, speed, flow, rotor in zip(met, state.rotor_speed, flows, vehicle.rotors, strict=True)
    )


COAXIAL = Effect("coaxial", more_loads=_losses, reads=("hub_wind_W",), planned=False, counted=True)
