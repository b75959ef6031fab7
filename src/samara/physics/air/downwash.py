"""Downwash: the air that holds one drone up, and presses on those below it.

What leaves a drone's rotors becomes one turbulent jet. It carries the thrust as momentum, and keeps it: it spreads and slows
down, and the momentum through every cross-section stays T. Across it the momentum flux is Gaussian, which makes jets add
(Reichardt's hypothesis: momentum flux, not velocity, spreads as heat does). The jet is straight, along the thrust: it is that
of a drone that hovers or flies slowly.

A rotor in the stream of others takes a share of the momentum that passes it, as a plate does. Vehicles feel such external
forces through the effect `PUSHED`, held through one step.
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


def pushed_wrench(pushes: tuple[Wrench, ...]) -> Wrench:
    """Σ of all pushes; without any it is 0  [N, N·m]"""
    total = Wrench()
    for push in pushes:
        total = add_wrenches(total, push)
    return total


def _pushed(own: object, state: "State", command: "Command", vehicle: "Vehicle", environment: "Environment") -> Wrench:
    return pushed_wrench(environment.pushes)


PUSHED = Effect("pushed", wrench=_pushed, reads=("pushes",), planned=False)


Place: TypeAlias = Annotated[Vec3, Quantity("m", -3.0, 3.0)]
Flux: TypeAlias = Annotated[Vec3, Quantity("Pa", -50.0, 50.0)]
Axis: TypeAlias = Annotated[Vec3, Unit()]
Radius: TypeAlias = Annotated[Scalar, Quantity("m", 0.02, 0.5)]
Spread: TypeAlias = Annotated[Scalar, Quantity("1", 0.05, 0.3)]


class Jet(NamedTuple):
    """The air below one drone: where it leaves, where it goes, the thrust it carries, and how wide it is at first."""

    p_W: Annotated[Vec3, Quantity("m", -3.0, 3.0)]
    direction_W: Annotated[Vec3, Unit()]
    thrust: Annotated[Scalar, Quantity("N", 0.0, 30.0)]
    radius: Annotated[Scalar, Quantity("m", 0.02, 0.5)]


class Downwash(NamedTuple):
    """How jets spread, and what a drone in one takes of their momentum.

    `spread` is how the jet's width grows with distance: 0.113 for a free round jet, whose half-width grows by 0.094
    (S. B. Pope, "Turbulent flows", 2000). `drag` is the drag coefficient of a rotor's disc in the stream: 1.17 for a plate.
    `body_area` is that of the body between the rotors, which feels the stream too.
    """

    spread: Annotated[Scalar, Quantity("1", 0.05, 0.3)] = 0.113
    drag: Annotated[Scalar, Quantity("1", 0.1, 3.0)] = 1.17
    body_area: Annotated[Scalar, Quantity("m^2", 0.0, 0.1)] = 0.0


def jet_width(distance: Annotated[Scalar, Quantity("m", 0.0, 5.0)], *, radius: Radius, spread: Spread) -> Scalar:
    """b² = R² + (k s)²  [m]"""
    return safe_sqrt(radius * radius + spread * spread * distance * distance)


def jet_flux(p_W: Place, jet: Jet, *, downwash: Downwash) -> Vec3:
    """ρw² d = 2T/(πb²) e^{−2r²/b²} d, s along and r across the jet: the momentum flux where p is  [Pa]

    Its integral over any cross-section is T, from one radius below the rotors on, where the wake has formed; at the rotors it
    is 0.
    """
    away = p_W - jet.p_W
    s = dot(away, jet.direction_W)
    beside = away - jet.direction_W * s
    width = jet_width(s, radius=jet.radius, spread=downwash.spread)
    square = width * width
    flux = 2.0 * jet.thrust / (math.pi * square) * exp(-2.0 * dot(beside, beside) / square)
    return jet.direction_W * (flux * clamp(s / jet.radius, 0.0, 1.0))


def air_speed(flux_W: Flux, *, air_density: AirDensity) -> Vec3:
    """w = √(|ρw²| / ρ) d: how fast the air of a momentum flux is  [m/s]"""
    size = norm(flux_W)
    return flux_W * safe_divide(1.0, safe_sqrt(size * air_density))


def disc_force(flux_W: Flux, axis_W: Axis, *, radius: Radius, downwash: Downwash) -> Vec3:
    """F = ½ C_D πR² (ρw²·a) a: a rotor's disc takes the momentum that comes along its axis, from either side  [N]"""
    return axis_W * (0.5 * downwash.drag * math.pi * radius * radius * dot(flux_W, axis_W))


def body_force(flux_W: Flux, *, downwash: Downwash) -> Vec3:
    """F = ½ C_D A ρw² d  [N]"""
    return flux_W * (0.5 * downwash.drag * downwash.body_area)


def jet_of(state: State, vehicle: Vehicle, environment: Environment) -> Jet:
    """The jet of a drone: it carries Σ Tᵢ aᵢ turned round, from where the thrust acts, as wide as all discs together"""
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


class Exposed(NamedTuple):
    """Where others blow at a drone: its place and attitude."""

    p_W: Annotated[Vec3, Quantity("m", -3.0, 3.0)]
    q_WB: Attitude


def downwash_wrench(exposed: Exposed, jet: Jet, vehicle: Vehicle, downwash: Downwash) -> Wrench:
    """Σ over rotors and body of what one jet does to a drone: linear in its momentum, so that of several jets adds  [N, N·m]"""
    f_W = body_force(jet_flux(exposed.p_W, jet, downwash=downwash), downwash=downwash)
    tau_W = Vec3(0.0, 0.0, 0.0)
    for rotor in vehicle.rotors:
        r_W, axis_W = rotate(exposed.q_WB, rotor.r_B), rotate(exposed.q_WB, rotor.axis_B)
        flux_W = jet_flux(exposed.p_W + r_W, jet, downwash=downwash)
        push_W = disc_force(flux_W, axis_W, radius=rotor.radius, downwash=downwash)
        f_W, tau_W = f_W + push_W, tau_W + cross(r_W, push_W)
    return Wrench(tau_B=rotate_inverse(exposed.q_WB, tau_W), f_W=f_W)


DOWNWASH = Effect("downwash", wrench=PUSHED.wrench, reads=PUSHED.reads, planned=False)
"""What others press on a drone with: their sum is in `environment.pushes`, its own numbers are a `Downwash`."""
