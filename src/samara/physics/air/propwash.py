"""Propwash: a vehicle in the wake of its own rotors.

What stands below the rotors is blown at by their wake: a download in hover, and in a descent a drag that is not that of
still air. And in a descent the rotors meet their own wake. Between hover and windmill flow it does not get away from them
(the vortex ring), and their thrust fluctuates: by up to 95 % of its mean from peak to peak (J. Stack, F. X. Caradonna and
Ö. Savaş, "Flow visualizations and extended thrust time histories of rotor vortex wakes in descent", 2004), strongest at
descents near the induced velocity of hover and gone with forward speeds of that size (J. G. Leishman, "Principles of
helicopter aerodynamics", 2006).

The download is an effect. The fluctuation is a gust along each rotor's axis, with these functions for its size and time;
`samara.sim.stages.air` draws it and `environment.hub_wind_W` carries it to vehicles with `rotor_air`.
"""

from typing import Annotated, NamedTuple, TypeAlias

from samara.core.algebra import cross
from samara.core.ops import absolute, clamp, maximum, safe_divide, safe_norm
from samara.core.quantity import AirDensity, Quantity, Scalar
from samara.physics.effect import Effect, Wrench, add_wrenches
from samara.physics.rotors.blade_element import HubFlow, hub_flow
from samara.physics.rotors.inflow import ClimbRatio, ClimbSpeed, EdgeRatio, Induced, hover_induced, induced_velocity
from samara.physics.rotors.propulsion import rotor_loads
from samara.physics.rotors.rotor import Radius, RotorLoad
from samara.physics.types import Command, Environment, State, Vehicle

Distance: TypeAlias = Annotated[Scalar, Quantity("m", 0.0, 0.5)]
DragArea: TypeAlias = Annotated[Scalar, Quantity("m^2", 0.0, 0.1)]
Gusts: TypeAlias = Annotated[Scalar, Quantity("1", 0.0, 0.5)]
AirFlow: TypeAlias = Annotated[Scalar, Quantity("m/s", -30.0, 30.0)]

RING_CENTRE, RING_SIZE = -1.0, 1.0  # of V_c/v_h and of V_e/v_h: from hover to the windmill at −2, forward up to v_h
_TURNING = 0.5  # of v_h: slower through the disc, the wake is about to leave on the other side
_SLOWEST = 1e-3  # [m/s]: below this v_h no ratios are formed


class Propwash(NamedTuple):
    """What stands in the wake, and how strong the wake's gusts are.

    `drag_area` is C_D A of all that is below the rotors [m²], `distance` how far below them it is. `gusts` is the standard
    deviation of a gust at its strongest, of v_h: 0.16 lets a rotor with σa = 8 v_h/(ΩR), whose thrust follows the inflow one
    to one, fluctuate by ±3 · 16 %, the 95 % of Stack et al.
    """

    drag_area: DragArea = 0.0
    distance: Distance = 0.0
    gusts: Gusts = 0.16


def wake_flow(induced: Induced, climb: ClimbSpeed, at_hover: Induced, *, radius: Radius, distance: Distance) -> Scalar:
    """u = V_c + v (1 + s z/√(z² + R²)): the air past what is z below a disc, down is positive  [m/s]

    On the axis of a semi-infinite vortex tube: v in the disc, 2v far down the wake. s is the side on which the wake leaves:
    +1 in climb and hover, −1 for a windmill, between them a smooth step where the flow through the disc turns round.
    """
    side = clamp((climb + induced) / (_TURNING * maximum(at_hover, _SLOWEST)), -1.0, 1.0)
    grown = safe_divide(distance, safe_norm(distance, radius))
    return climb + induced * (1.0 + 0.5 * side * (3.0 - side * side) * grown)


def download(flow: AirFlow, climb: ClimbSpeed, air_density: AirDensity, *, drag_area: DragArea) -> Scalar:
    """D = ½ ρ C_D A (u|u| − V_c|V_c|): what the wake adds to the drag in still air, against the thrust  [N]"""
    return 0.5 * air_density * drag_area * (flow * absolute(flow) - climb * absolute(climb))


def ring_strength(climb: ClimbRatio, edge: EdgeRatio) -> Scalar:
    """b = (1 − (x + 1)² − μ²)² where that is positive, else 0;  x = V_c/v_h, μ = V_e/v_h

    1 in a descent at v_h; 0 in climb and hover, for a windmill (x ≤ −2), and with forward speed (μ ≥ 1).
    """
    across = (climb - RING_CENTRE) / RING_SIZE
    inside = maximum(1.0 - across * across - edge * edge / (RING_SIZE * RING_SIZE), 0.0)
    return inside * inside


def gust_deviation(load: RotorLoad, flow: HubFlow, air_density: AirDensity, *, radius: Radius, gusts: Gusts) -> Scalar:
    """σ = g v_h b(V_c/v_h, V_e/v_h)  [m/s]"""
    at_hover = hover_induced(load.thrust, air_density, radius)
    unit = maximum(at_hover, _SLOWEST)
    return gusts * at_hover * ring_strength(flow.climb / unit, safe_norm(*flow.across_B) / unit)


def gust_time(load: RotorLoad, air_density: AirDensity, *, radius: Radius) -> Scalar:
    """τ = R/v_h: the time in which the wake passes its rotor  [s]

    Stack et al. saw rings shed every 20 to 50 turns; 1/2π of such a period is 1 to 3 R/v_h at the usual v_h = 0.05 ΩR.
    """
    return radius / maximum(hover_induced(load.thrust, air_density, radius), _SLOWEST)


def _wrench(own: object, state: State, command: Command, vehicle: Vehicle, environment: Environment) -> Wrench:
    """Each rotor blows at its share of the surfaces, below its own hub."""
    wash: Propwash = vehicle["propwash"]
    density, share = environment.air_density, wash.drag_area / len(vehicle.rotors)
    total = Wrench()
    for load, rotor in zip(rotor_loads(state, vehicle, environment), vehicle.rotors, strict=True):
        flow = hub_flow(state.q_WB, state.v_W, state.omega_B, environment.wind_W, rotor)
        at_hover = hover_induced(load.thrust, density, rotor.radius)
        induced = induced_velocity(load.thrust, flow.climb, safe_norm(*flow.across_B), density, rotor.radius)
        past = wake_flow(induced, flow.climb, at_hover, radius=rotor.radius, distance=wash.distance)
        f_B = rotor.axis_B * -download(past, flow.climb, density, drag_area=share)
        total = add_wrenches(total, Wrench(f_B, cross(rotor.r_B, f_B)))
    return total


PROPWASH = Effect("propwash", wrench=_wrench, planned=False)
