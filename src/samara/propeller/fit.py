"""Polynomial rotor model: CT, CP and CH of blade element momentum theory as polynomials, without an equation to solve.

    C = Σ cᵢⱼ xⁱ yʲ,   x = J cos α, the component of J along the axis;   y = (J sin α)², of the component across it

By symmetry, the polynomials are even in the side wind. CH is that polynomial times J sin α. Outside the range of the
fit x and y are clamped; in a descent, where the theory has no solution, x = 0.
"""

import math
from typing import TYPE_CHECKING, Annotated, NamedTuple

import numpy as np

from samara.core.algebra import Vec3, cross
from samara.core.ops import absolute, clamp, safe_divide, safe_norm
from samara.core.portable_linalg import least_squares, powers
from samara.core.quantity import AirDensity, Quantity, RotorSpeed, Scalar
from samara.physics.effect import Effect, Role, Wrench, add_wrenches
from samara.physics.rotors.blade_element import HubFlow, hub_flow
from samara.physics.rotors.rotor import SEA_LEVEL_DENSITY, Rotor, RotorLoad
from samara.propeller.airfoil import SMALL_PROPELLER, Airfoil
from samara.propeller.bem import PropellerCoefficients, rotor_coefficients
from samara.propeller.blade import Blade

if TYPE_CHECKING:
    from samara.physics.types import Command, Environment, State, Vehicle

DEGREE = 5
TERMS = tuple((i, j) for i in range(DEGREE + 1) for j in range(DEGREE + 1 - i))
_SAMPLES = 13  # along J and along the angle


class RotorFit(NamedTuple):
    """cᵢⱼ of CT, CP and CH/(J sin α) in the order of `TERMS`, and the largest fitted J along and across the axis."""

    thrust: tuple[Annotated[Scalar, Quantity("1", -0.1, 0.1)], ...]
    power: tuple[Annotated[Scalar, Quantity("1", -0.1, 0.1)], ...]
    in_plane: tuple[Annotated[Scalar, Quantity("1", -0.1, 0.1)], ...]
    largest: Annotated[Scalar, Quantity("1", 0.3, 1.5)]


def fit_rotor(
    blade: Blade, rpm: float, largest: float | None = None, *, airfoil: Airfoil = SMALL_PROPELLER
) -> RotorFit:
    """Fit by least squares over J from 0 to `largest` (default: the J of zero axial thrust) and α from 0 to 90°, at one
    speed."""
    if largest is None:
        largest = _zero_thrust(blade, rpm, airfoil)
    # denser towards the ends, where polynomials err most
    nodes = 0.5 - 0.5 * np.cos(math.pi * np.arange(_SAMPLES) / (_SAMPLES - 1))
    J, angle = (grid.ravel() for grid in np.meshgrid(largest * nodes, 0.5 * math.pi * nodes))
    model = rotor_coefficients(blade, J, rpm, angle, airfoil=airfoil)
    x, y = J * np.cos(angle), (J * np.sin(angle)) ** 2
    xs, ys = powers(x, DEGREE + 1).T, powers(y, DEGREE + 1).T
    columns = np.stack([xs[i] * ys[j] for i, j in TERMS], axis=1)
    side = J * np.sin(angle)
    has_side_wind = side > 1e-9
    solutions = [
        least_squares(columns, model.thrust),
        least_squares(columns, model.power),
        least_squares(columns[has_side_wind] * side[has_side_wind, None], model.in_plane[has_side_wind]),
    ]
    thrust, power, in_plane = (tuple(float(c) for c in coefficients) for coefficients in solutions)
    return RotorFit(thrust, power, in_plane, float(largest))


def _zero_thrust(blade: Blade, rpm: float, airfoil: Airfoil) -> float:
    J = np.linspace(0.05, 2.0, 40)
    thrust = rotor_coefficients(blade, J, rpm, airfoil=airfoil).thrust
    non_positive = np.flatnonzero(thrust <= 0.0)
    if not non_positive.size or non_positive[0] == 0:
        raise ValueError(
            f"{blade.name}: no thrust, or thrust beyond J = 2; set the argument largest, the J up to which to fit"
        )
    k = int(non_positive[0])
    return float(np.interp(0.0, [thrust[k], thrust[k - 1]], [J[k], J[k - 1]]))


def fitted_coefficients(
    axial: Annotated[Scalar, Quantity("1", -0.2, 1.0)],
    lateral: Annotated[Scalar, Quantity("1", 0.0, 1.0)],
    fit: RotorFit,
) -> PropellerCoefficients:
    """C = Σ cᵢⱼ xⁱ yʲ at J along the axis and across it"""
    x, side = clamp(axial, 0.0, fit.largest), clamp(lateral, 0.0, fit.largest)
    y = side * side
    powers_x, powers_y = [1.0, x], [1.0, y]
    for _ in range(DEGREE - 1):
        powers_x.append(powers_x[-1] * x)
        powers_y.append(powers_y[-1] * y)
    thrust: Scalar = 0.0
    power: Scalar = 0.0
    in_plane: Scalar = 0.0
    for k, (i, j) in enumerate(TERMS):
        term = powers_x[i] * powers_y[j]
        thrust, power = thrust + fit.thrust[k] * term, power + fit.power[k] * term
        in_plane = in_plane + fit.in_plane[k] * term
    return PropellerCoefficients(thrust, power, in_plane * side)


class FittedLoad(NamedTuple):
    """Thrust and torque of a rotor, and its in-plane force."""

    load: RotorLoad
    f_B: Vec3


def fitted_load(speed: RotorSpeed, flow: HubFlow, rotor: Rotor, fit: RotorFit, air_density: AirDensity) -> FittedLoad:
    """T = ρn²D⁴ CT,  Q = ρn²D⁵ CP/2π,  H = −ρn²D⁴ CH u_e/|u_e|;  n = Ω/2π  [N, N·m, N]"""
    diameter, revolutions = 2.0 * rotor.radius, absolute(speed) / (2.0 * math.pi)
    edgewise = safe_norm(*flow.across_B)
    reference_speed = revolutions * diameter
    coefficients = fitted_coefficients(
        safe_divide(flow.climb, reference_speed), safe_divide(edgewise, reference_speed), fit
    )
    force_scale = air_density * reference_speed * reference_speed * diameter * diameter
    load = RotorLoad(force_scale * coefficients.thrust, force_scale * diameter / (2.0 * math.pi) * coefficients.power)
    return FittedLoad(load, flow.across_B * safe_divide(-force_scale * coefficients.in_plane, edgewise))


def rotor_constants(fit: RotorFit, radius: float) -> tuple[float, float]:
    """kF = ρ₀ CT(0) D⁴/4π²,  kM = ρ₀ CP(0) D⁵/8π³: the coefficients of `Rotor` at rest  [N s²/rad², N m s²/rad²]"""
    diameter = 2.0 * radius
    k_thrust = SEA_LEVEL_DENSITY * fit.thrust[0] * diameter**4 / (4.0 * math.pi**2)
    return k_thrust, SEA_LEVEL_DENSITY * fit.power[0] * diameter**5 / (8.0 * math.pi**3)


def _fitted_loads(state: "State", vehicle: "Vehicle", environment: "Environment") -> tuple[FittedLoad, ...]:
    fit: RotorFit = vehicle["rotor_fit"]
    winds = environment.hub_wind_W or (environment.wind_W,) * len(vehicle.rotors)
    return tuple(
        fitted_load(
            speed,
            hub_flow(state.q_WB, state.v_W, state.omega_B, wind_W, rotor),
            rotor,
            fit,
            environment.air_density,
        )
        for speed, wind_W, rotor in zip(state.rotor_speed, winds, vehicle.rotors, strict=True)
    )


def _loads(
    effect_state: object, state: "State", vehicle: "Vehicle", environment: "Environment"
) -> tuple[RotorLoad, ...]:
    return tuple(fitted.load for fitted in _fitted_loads(state, vehicle, environment))


def _wrench(
    effect_state: object, state: "State", command: "Command", vehicle: "Vehicle", environment: "Environment"
) -> Wrench:
    """Sum the in-plane forces; thrust and torque of the fit act as loads of the rotors."""
    total = Wrench()
    for fitted, rotor in zip(_fitted_loads(state, vehicle, environment), vehicle.rotors, strict=True):
        total = add_wrenches(total, Wrench(fitted.f_B, cross(rotor.r_B, fitted.f_B)))
    return total


FITTED_ROTORS = Effect(
    "rotor_fit", wrench=_wrench, loads=_loads, role=Role.ROTOR_AIR, reads=("hub_wind_W",), planned=False
)
