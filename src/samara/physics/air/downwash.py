"""Downwash: the rotor jet of one drone, and its force on the drones below.

The flow below a drone's rotors becomes one turbulent jet. Its momentum is the thrust and stays constant: the jet spreads and
slows down, and the momentum through every cross-section remains T. Across the jet the momentum flux is Gaussian, which makes
jets add (Reichardt's hypothesis: momentum flux, not velocity, spreads as heat does). The jet is straight, along the thrust: the
model is for a drone that hovers or flies slowly.

A rotor in the jets of others absorbs a part of the passing momentum, as a plate does. Vehicles feel such external forces
through the effect `EXTERNAL_WRENCH`; they are constant during one step.
"""

import math
from typing import TYPE_CHECKING, Annotated, NamedTuple, TypeAlias

from samara.core.algebra import Attitude, Vec3, cross, direction, dot, norm, rotate, rotate_inverse
from samara.core.ops import clamp, exp, safe_divide, safe_sqrt
from samara.core.quantity import AirDensity, Quantity, Scalar, Unit
from samara.physics.effect import Effect, Wrench, add_wrenches
from samara.physics.rotors.propulsion import rotor_loads
from samara.physics.types import Command, Environment, State, Vehicle

if TYPE_CHECKING:
    from samara.physics.types import Environment, State, Vehicle


def sum_wrenches(wrenches: tuple[Wrench, ...]) -> Wrench:
    """F = Σ Fᵢ,  τ = Σ τᵢ; 0 for an empty tuple  [N, N·m]"""
    total = Wrench()
    for external in wrenches:
        total = add_wrenches(total, external)
    return total


def _external_wrench(
    effect_state: object, state: "State", command: "Command", vehicle: "Vehicle", environment: "Environment"
) -> Wrench:
    return sum_wrenches(environment.external_wrenches)


EXTERNAL_WRENCH = Effect("external_wrench", wrench=_external_wrench, reads=("external_wrenches",), planned=False)


NearbyPosition: TypeAlias = Annotated[Vec3, Quantity("m", -3.0, 3.0)]
Flux: TypeAlias = Annotated[Vec3, Quantity("Pa", -50.0, 50.0)]
Axis: TypeAlias = Annotated[Vec3, Unit()]
Radius: TypeAlias = Annotated[Scalar, Quantity("m", 0.02, 0.5)]
Spread: TypeAlias = Annotated[Scalar, Quantity("1", 0.05, 0.3)]


class Jet(NamedTuple):
    """The jet below one drone: origin, direction, thrust it carries and initial radius."""

    p_W: Annotated[Vec3, Quantity("m", -3.0, 3.0)]
    direction_W: Annotated[Vec3, Unit()]
    thrust: Annotated[Scalar, Quantity("N", 0.0, 30.0)]
    radius: Annotated[Scalar, Quantity("m", 0.02, 0.5)]


class Downwash(NamedTuple):
    """Spreading of jets, and the drag of a drone in one.

    `spread` is the growth of the jet's width with distance: 0.113 for a free round jet, whose half-width grows by 0.094
    (S. B. Pope, "Turbulent flows", 2000). `drag` is the drag coefficient of a rotor's disc in the jet: 1.17 for a plate.
    `body_area` is the area of the body between the rotors, which is also exposed to the jet.
    """

    spread: Annotated[Scalar, Quantity("1", 0.05, 0.3)] = 0.113
    drag: Annotated[Scalar, Quantity("1", 0.1, 3.0)] = 1.17
    body_area: Annotated[Scalar, Quantity("m^2", 0.0, 0.1)] = 0.0


def jet_width(distance: Annotated[Scalar, Quantity("m", 0.0, 5.0)], *, radius: Radius, spread: Spread) -> Scalar:
    """b² = R² + (k s)²  [m]"""
    return safe_sqrt(radius * radius + spread * spread * distance * distance)


def jet_flux(p_W: NearbyPosition, jet: Jet, *, downwash: Downwash) -> Vec3:
    """ρw² d = 2T/(πb²) e^{−2r²/b²} d, s along and r across the jet: the momentum flux at p  [Pa]

    Its integral over any cross-section is T at distances above one radius, where the wake has formed; it is 0 at the rotors.
    """
    offset = p_W - jet.p_W
    s = dot(offset, jet.direction_W)
    radial = offset - jet.direction_W * s
    width = jet_width(s, radius=jet.radius, spread=downwash.spread)
    width_squared = width * width
    flux = 2.0 * jet.thrust / (math.pi * width_squared) * exp(-2.0 * dot(radial, radial) / width_squared)
    return jet.direction_W * (flux * clamp(s / jet.radius, 0.0, 1.0))


def flux_velocity(flux_W: Flux, *, air_density: AirDensity) -> Vec3:
    """w = √(|ρw²| / ρ) d: the air velocity of a momentum flux  [m/s]"""
    flux = norm(flux_W)
    return flux_W * safe_divide(1.0, safe_sqrt(flux * air_density))


def disc_force(flux_W: Flux, axis_W: Axis, *, radius: Radius, downwash: Downwash) -> Vec3:
    """F = ½ C_D πR² (ρw²·a) a: a rotor's disc absorbs the momentum along its axis, from either side  [N]"""
    return axis_W * (0.5 * downwash.drag * math.pi * radius * radius * dot(flux_W, axis_W))


def body_force(flux_W: Flux, *, downwash: Downwash) -> Vec3:
    """F = ½ C_D A ρw² d  [N]"""
    return flux_W * (0.5 * downwash.drag * downwash.body_area)


def rotor_jet(state: State, vehicle: Vehicle, environment: Environment) -> Jet:
    """Return the jet of a drone: −Σ Tᵢ aᵢ, from the centre of thrust, with the area of all discs together."""
    thrust_B, moment_B = Vec3(0.0, 0.0, 0.0), Vec3(0.0, 0.0, 0.0)
    total: Scalar = 0.0
    area: Scalar = 0.0
    for load, rotor in zip(rotor_loads(state, vehicle, environment), vehicle.rotors, strict=True):
        thrust_B = thrust_B + rotor.axis_B * load.thrust
        moment_B = moment_B + rotor.r_B * load.thrust
        total, area = total + load.thrust, area + rotor.radius * rotor.radius
    centre_B = moment_B * safe_divide(1.0, total)
    return Jet(
        state.p_W + rotate(state.q_WB, centre_B),
        rotate(state.q_WB, -direction(thrust_B)),
        norm(thrust_B),
        safe_sqrt(area),
    )


class DownwashReceiver(NamedTuple):
    """Position and attitude of a drone in the downwash of others."""

    p_W: Annotated[Vec3, Quantity("m", -3.0, 3.0)]
    q_WB: Attitude


def downwash_wrench(receiver: DownwashReceiver, jet: Jet, vehicle: Vehicle, downwash: Downwash) -> Wrench:
    """F, τ of one jet on a drone: sum over rotors and body; linear in the momentum, so that several jets add  [N, N·m]"""
    f_W = body_force(jet_flux(receiver.p_W, jet, downwash=downwash), downwash=downwash)
    tau_W = Vec3(0.0, 0.0, 0.0)
    for rotor in vehicle.rotors:
        r_W, axis_W = rotate(receiver.q_WB, rotor.r_B), rotate(receiver.q_WB, rotor.axis_B)
        flux_W = jet_flux(receiver.p_W + r_W, jet, downwash=downwash)
        force_W = disc_force(flux_W, axis_W, radius=rotor.radius, downwash=downwash)
        f_W, tau_W = f_W + force_W, tau_W + cross(r_W, force_W)
    return Wrench(tau_B=rotate_inverse(receiver.q_WB, tau_W), f_W=f_W)


DOWNWASH = Effect("downwash", wrench=EXTERNAL_WRENCH.wrench, reads=EXTERNAL_WRENCH.reads, planned=False)
"""The sum of the downwash of other drones, from `environment.external_wrenches`; its parameters are a `Downwash`."""
