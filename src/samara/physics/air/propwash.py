"""Propwash: the effect of the rotors' wake on the same vehicle.

The wake presses on the surfaces below the rotors: a download in hover, and in a descent a drag that differs from that in still
air. In a descent the rotors also meet their wake. Between hover and windmill flow the wake recirculates (the vortex ring), and
the thrust fluctuates: by up to 95 % of its mean from peak to peak (J. Stack, F. X. Caradonna and
Ö. Savaş, "Flow visualizations and extended thrust time histories of rotor vortex wakes in descent", 2004), strongest at
descents near the induced velocity of hover and absent at forward speeds above it (J. G. Leishman, "Principles of
helicopter aerodynamics", 2006).

The download is an effect. The fluctuation is a gust along each rotor's axis; this module gives its standard deviation and time
constant. `samara.sim.stages.air` generates it, and `environment.hub_wind_W` carries it to vehicles with the effect `rotor_air`.
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

RING_CENTRE, RING_SIZE = -1.0, 1.0  # in V_c/v_h and V_e/v_h: from hover to the windmill at −2, forward up to v_h
_REVERSAL_RATIO = 0.5  # fraction of v_h: at lower flow through the disc, the wake reverses
_MIN_HOVER_INDUCED = 1e-3  # [m/s]: lower bound of v_h in ratios


class Propwash(NamedTuple):
    """Surfaces in the wake, and strength of the wake's gusts.

    `drag_area` is C_D A of all surfaces below the rotors [m²], `distance` their distance below the rotors. `gusts` is the
    largest standard deviation of a gust, as a fraction of v_h: with 0.16, a rotor with σa = 8 v_h/(ΩR), whose thrust follows
    the inflow one to one, fluctuates by ±3 · 16 %, the 95 % of Stack et al.
    """

    drag_area: DragArea = 0.0
    distance: Distance = 0.0
    gusts: Gusts = 0.16


def wake_flow(induced: Induced, climb: ClimbSpeed, v_hover: Induced, *, radius: Radius, distance: Distance) -> Scalar:
    """u = V_c + v (1 + s z/√(z² + R²)): the air velocity at a distance z below a disc, down is positive  [m/s]

    On the axis of a semi-infinite vortex tube: v in the disc, 2v far down the wake. s is the side on which the wake leaves:
    +1 in climb and hover, −1 for a windmill, with a smooth step between them where the flow through the disc reverses.
    """
    side = clamp((climb + induced) / (_REVERSAL_RATIO * maximum(v_hover, _MIN_HOVER_INDUCED)), -1.0, 1.0)
    contraction = safe_divide(distance, safe_norm(distance, radius))
    return climb + induced * (1.0 + 0.5 * side * (3.0 - side * side) * contraction)


def download(flow: AirFlow, climb: ClimbSpeed, air_density: AirDensity, *, drag_area: DragArea) -> Scalar:
    """D = ½ ρ C_D A (u|u| − V_c|V_c|): additional drag in the wake over that in still air, against the thrust  [N]"""
    return 0.5 * air_density * drag_area * (flow * absolute(flow) - climb * absolute(climb))


def ring_strength(climb: ClimbRatio, edge: EdgeRatio) -> Scalar:
    """b = max(0, 1 − (x + 1)² − μ²)²;  x = V_c/v_h, μ = V_e/v_h

    1 in a descent at v_h; 0 in climb and hover, for a windmill (x ≤ −2), and with forward speed (μ ≥ 1).
    """
    climb_offset = (climb - RING_CENTRE) / RING_SIZE
    inside = maximum(1.0 - climb_offset * climb_offset - edge * edge / (RING_SIZE * RING_SIZE), 0.0)
    return inside * inside


def gust_deviation(load: RotorLoad, flow: HubFlow, air_density: AirDensity, *, radius: Radius, gusts: Gusts) -> Scalar:
    """σ = g v_h b(V_c/v_h, V_e/v_h)  [m/s]"""
    v_hover = hover_induced(load.thrust, air_density, radius)
    v_reference = maximum(v_hover, _MIN_HOVER_INDUCED)
    return gusts * v_hover * ring_strength(flow.climb / v_reference, safe_norm(*flow.across_B) / v_reference)


def gust_time(load: RotorLoad, air_density: AirDensity, *, radius: Radius) -> Scalar:
    """τ = R/v_h: the time in which the wake passes its rotor  [s]

    Stack et al. saw rings shed every 20 to 50 turns; 1/2π of such a period is 1 to 3 R/v_h at the usual v_h = 0.05 ΩR.
    """
    return radius / maximum(hover_induced(load.thrust, air_density, radius), _MIN_HOVER_INDUCED)


def _wrench(effect_state: object, state: State, command: Command, vehicle: Vehicle, environment: Environment) -> Wrench:
    """Each rotor blows on an equal part of the surfaces, below its hub."""
    propwash: Propwash = vehicle["propwash"]
    density, rotor_drag_area = environment.air_density, propwash.drag_area / len(vehicle.rotors)
    total = Wrench()
    for load, rotor in zip(rotor_loads(state, vehicle, environment), vehicle.rotors, strict=True):
        flow = hub_flow(state.q_WB, state.v_W, state.omega_B, environment.wind_W, rotor)
        v_hover = hover_induced(load.thrust, density, rotor.radius)
        induced = induced_velocity(load.thrust, flow.climb, safe_norm(*flow.across_B), density, rotor.radius)
        wake_velocity = wake_flow(induced, flow.climb, v_hover, radius=rotor.radius, distance=propwash.distance)
        f_B = rotor.axis_B * -download(wake_velocity, flow.climb, density, drag_area=rotor_drag_area)
        total = add_wrenches(total, Wrench(f_B, cross(rotor.r_B, f_B)))
    return total


PROPWASH = Effect("propwash", wrench=_wrench, planned=False)
