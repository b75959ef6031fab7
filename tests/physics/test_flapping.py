"""Flapping: textbook slopes, the differential equation of a blade, and the moments that reach the body."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import solve_ivp

import samara
from samara.core.algebra import ZERO, Vec3
from samara.core.tree import flatten
from samara.physics.multirotor import derivative
from samara.physics.rotors.blade_element import HarmonicInflow, HubFlow, RotorAir, blade_coefficients, in_plane_force
from samara.physics.rotors.flapping import (
    Flapping,
    coning,
    disc_tilt,
    flapping_force,
    hub_moment,
    hub_stiffness,
    lock_number,
)
from samara.physics.rotors.rotor import SEA_LEVEL_DENSITY
from samara.physics.rotors.rotor_air_effects import DYNAMIC_AIR_3, FLAPPING, MOMENTUM_AIR

CRAFT = samara.vehicle("hexarotor_x")
ROTOR = CRAFT.rotors[0]._replace(spin=1.0)
AIR = RotorAir(solidity=0.08, lift_slope=5.7)
RHO = SEA_LEVEL_DENSITY
SPEED, INDUCED = 600.0, 5.6
TIP = SPEED * ROTOR.radius
FREE = Flapping(blades=2.0, blade_inertia=2e-5)
FORWARD = Vec3(1.0, 0.0, 0.0)
PITCH = blade_coefficients(ROTOR, AIR).pitch
INFLOW = INDUCED / TIP


def tilt(mu=0.0, blades=FREE, omega_B=ZERO, gradient_B=ZERO, rotor=ROTOR, climb=0.0, direction=FORWARD):
    flow = HubFlow(climb, direction * (mu * TIP))
    return disc_tilt(SPEED, INDUCED, gradient_B, omega_B, flow, rotor, AIR, RHO, blades=blades)


# Against the books -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mu", [0.001, 0.01, 0.1])
def test_a_free_blade_leans_back_with_the_textbook_slope(mu):
    """a₁ = 2μ(4θ/3 − λ), b₁ = (4/3)μa₀ (Bramwell, for small μ): back, and to the advancing side.

    Forward is x, and a right-handed rotor advances on the right, −y.
    """
    gamma = lock_number(ROTOR, AIR, RHO, blades=FREE)
    cone = gamma / 8.0 * (PITCH - 4.0 / 3.0 * INFLOW)
    lean = tilt(mu)
    assert -lean.x == pytest.approx(2.0 * mu * (4.0 / 3.0 * PITCH - INFLOW), rel=1e-12)
    assert -lean.y == pytest.approx(4.0 / 3.0 * mu * cone, rel=1e-12)
    assert lean.z == 0.0


def test_the_lock_number_and_coning_are_the_textbooks():
    """γ = ρacR⁴/I with c = σπR/B; a₀ = (γ/8)(θ − 4λ/3)/ν²"""
    chord = AIR.solidity * math.pi * ROTOR.radius / 2.0
    gamma = RHO * AIR.lift_slope * chord * ROTOR.radius**4 / FREE.blade_inertia
    assert lock_number(ROTOR, AIR, RHO, blades=FREE) == pytest.approx(gamma, rel=1e-14)
    stiff = FREE._replace(hub_spring=3.0, hinge_offset=0.1)
    frequency = 1.0 + 1.5 * 0.1 / 0.9 + 3.0 / (FREE.blade_inertia * SPEED**2)
    expected = gamma / 8.0 * (PITCH - 4.0 / 3.0 * INFLOW) / frequency
    assert coning(SPEED, INDUCED, HubFlow(0.0, ZERO), ROTOR, AIR, RHO, blades=stiff) == pytest.approx(
        expected, rel=1e-13
    )
    assert hub_stiffness(SPEED, blades=stiff) == pytest.approx(
        (frequency - 1.0) * FREE.blade_inertia * SPEED**2, rel=1e-13
    )


def test_a_disc_lags_behind_a_body_that_pitches():
    """Nose up at q: a₁ = −16q/(γΩ), b₁ = −q/Ω (Bramwell); nose up is −y here."""
    q, gamma = 2.0, lock_number(ROTOR, AIR, RHO, blades=FREE)
    lean = tilt(omega_B=Vec3(0.0, -q, 0.0))
    assert -lean.x == pytest.approx(-16.0 * q / (gamma * SPEED), rel=1e-12)
    assert -lean.y == pytest.approx(-q / SPEED, rel=1e-12)


@given(
    mu=st.floats(0.0, 0.3),
    heading=st.floats(-3.0, 3.0),
    spring=st.floats(0.0, 20.0),
    omega=st.tuples(*[st.floats(-5.0, 5.0)] * 3),
)
def test_flapping_knows_no_direction_and_mirrors_with_the_spin(mu, heading, spring, omega):
    """Rotating flight and rates about the axis rotates the tilt; a left-handed rotor mirrors a right-handed one."""
    blades = FREE._replace(hub_spring=spring)
    c, s = math.cos(heading), math.sin(heading)

    def rotate_about_axis(v):
        return np.array([c * v[0] - s * v[1], s * v[0] + c * v[1], v[2]])

    plain = tilt(mu, blades, Vec3(*omega))
    other = tilt(mu, blades, Vec3(*rotate_about_axis(omega)), direction=Vec3(c, s, 0.0))
    assert np.array(other) == pytest.approx(rotate_about_axis(plain), abs=1e-12)
    mirrored = tilt(mu, blades, Vec3(-omega[0], omega[1], -omega[2]), rotor=ROTOR._replace(spin=-1.0))
    assert np.array(mirrored) == pytest.approx(np.array(plain) * [1.0, -1.0, 1.0], abs=1e-12)


# Against the differential equation of a blade -----------------------------------------------------------------------


def flap_harmonics(mu, blades, gradient=(0.0, 0.0)):
    """First harmonics of Iβ̈ + (IΩ² + K)β = M(ψ), integrated over 40 turns; ψ from the back, towards the advancing side.

    β = a₀ + β_c cos ψ + β_s sin ψ; the inflow has gradient (cos, sin) per tip radius.
    """
    chord = AIR.solidity * math.pi * ROTOR.radius / blades.blades
    x, weight = np.polynomial.legendre.leggauss(8)
    r, weight = 0.5 * (x + 1.0), 0.5 * weight
    inertia = blades.blade_inertia
    scale = 0.5 * RHO * AIR.lift_slope * chord * ROTOR.radius**2 * TIP**2 / (inertia * SPEED**2)
    stiff = 1.0 + float(hub_stiffness(SPEED, blades=blades)) / (inertia * SPEED**2)

    def rate(psi, y):
        flap, speed = y
        tangential = r + mu * math.sin(psi)
        through = INFLOW + r * (gradient[0] * math.cos(psi) + gradient[1] * math.sin(psi)) / TIP
        through = through + r * speed + mu * flap * math.cos(psi)
        moment = scale * (weight * r * (PITCH * tangential**2 - through * tangential)).sum()
        return [speed, moment - stiff * flap]

    turns = 40
    psi = 2.0 * math.pi * (turns - 1 + np.arange(64) / 64)
    solution = solve_ivp(rate, (0.0, psi[-1]), [0.0, 0.0], t_eval=psi, method="DOP853", rtol=1e-10, atol=1e-12).y[0]
    return solution.mean(), 2.0 * (solution * np.cos(psi)).mean(), 2.0 * (solution * np.sin(psi)).mean()


@pytest.mark.parametrize(
    "blades",
    [FREE, FREE._replace(hinge_offset=0.15), FREE._replace(hub_spring=5.0), FREE._replace(hub_spring=100.0)],
    ids=["free", "offset", "spring", "stiff"],
)
def test_a_blade_that_is_left_to_flap_settles_on_this_lean(blades):
    """t = (β_c, β_s) with x forward, the advancing side −y: t_x = β_c, t_y = β_s"""
    mu = 0.01
    cone, cosine, sine = flap_harmonics(mu, blades)
    lean = tilt(mu, blades)
    flow = HubFlow(0.0, FORWARD * (mu * TIP))
    size = math.hypot(cosine, sine)
    assert coning(SPEED, INDUCED, flow, ROTOR, AIR, RHO, blades=blades) == pytest.approx(cone, rel=3e-4)
    assert lean.x == pytest.approx(cosine, abs=3e-4 * size)
    assert lean.y == pytest.approx(sine, abs=3e-4 * size)


def test_air_that_is_drawn_at_the_back_tips_the_disc_sideways():
    """A gradient of the inflow acts as the flapping of the blades does: a quarter turn later"""
    gradient_B = Vec3(-0.8, 0.3, 0.0)  # more inflow at the back; e(ψ) is −x at ψ = 0 and −y at 90°
    _, cosine, sine = flap_harmonics(0.0, FREE, gradient=(0.8, -0.3))
    lean = tilt(0.0, FREE, gradient_B=gradient_B)
    assert (lean.x, lean.y) == pytest.approx((cosine, sine), rel=1e-6)


# Forces and moments ------------------------------------------------------------------------------------------------


def blade_sum(mu, flap, flap_rate):
    """In-plane force against the flight and hub moments, over all blade elements of a disc with the given flapping"""
    x, weight = np.polynomial.legendre.leggauss(12)
    r, weight = 0.5 * (x + 1.0)[:, None], 0.5 * weight
    psi = (2.0 * math.pi * np.arange(64) / 64)[None, :]
    blade, area = blade_coefficients(ROTOR, AIR), math.pi * ROTOR.radius**2
    tangential = TIP * (r + mu * np.sin(psi))
    through = INDUCED + TIP * (r * flap_rate(psi) + mu * flap(psi) * np.cos(psi))
    lift = 0.5 * RHO * area * blade.lift * (blade.pitch * tangential - through) * tangential
    along = (
        0.5
        * RHO
        * area
        * (blade.lift * (blade.pitch * tangential - through) * through + 8.0 * blade.profile * tangential**2)
    )

    def mean(element_values):
        return float(weight @ element_values.mean(axis=1))

    backwards = mean(along * np.sin(psi) - lift * flap(psi) * np.cos(psi))
    return backwards, ROTOR.radius * mean(r * lift * np.sin(psi)), ROTOR.radius * mean(r * lift * np.cos(psi))


def test_the_force_of_a_leaning_disc_is_the_sum_over_its_blade_elements():
    """H with the disc tilted back by a₁: lift tilts with the blades, and their flapping moves its point of action; small μ"""
    mu = 1e-4
    lean = tilt(mu)
    a1 = -lean.x
    backwards, _, _ = blade_sum(mu, lambda psi: -a1 * np.cos(psi), lambda psi: a1 * np.sin(psi))
    flow = HubFlow(0.0, FORWARD * (mu * TIP))
    rigid = in_plane_force(SPEED, INDUCED, flow, ROTOR, AIR, RHO)
    leaning = flapping_force(SPEED, INDUCED, lean, flow, ROTOR, AIR, RHO)
    assert -(rigid.x + leaning.x) == pytest.approx(backwards, rel=1e-6)
    assert leaning.x < 0.0


def test_rigid_blades_give_the_hub_the_whole_moment_of_the_air():
    """A spring of 10⁵ N·m/rad: the advancing side, −y, is lifted: a torque about −x, for any thrust; none about y"""
    mu, blades = 1e-3, FREE._replace(hub_spring=1e5)
    moment = hub_moment(SPEED, tilt(mu, blades), ROTOR, blades=blades)
    _, rolling, pitching = blade_sum(mu, lambda psi: 0.0 * psi, lambda psi: 0.0 * psi)
    assert rolling > 0.0
    assert moment.x == pytest.approx(-rolling, rel=1e-3)
    assert moment.y == pytest.approx(pitching, abs=1e-2 * rolling)


def test_a_hub_with_a_spring_is_turned_nose_up_in_forward_flight():
    """τ = (B/2) k_β a₁, nose up, −y: as flights of small quadrotors show"""
    blades = FREE._replace(hub_spring=0.05)
    lean = tilt(0.05, blades)
    moment = hub_moment(SPEED, lean, ROTOR, blades=blades)
    assert moment.y == pytest.approx(-0.05 * -lean.x, rel=1e-12)
    assert moment.y < 0.0


def test_a_free_hub_takes_no_moment():
    assert hub_moment(SPEED, tilt(0.1), ROTOR, blades=FREE) == (0.0, 0.0, 0.0)


def test_moments_and_forces_are_linear_in_the_advance_ratio():
    blades = FREE._replace(hub_spring=2.0, hinge_offset=0.05)
    small, large = tilt(0.01, blades), tilt(0.2, blades)
    assert np.array(large) == pytest.approx(20.0 * np.array(small), rel=1e-12)


# On a vehicle ------------------------------------------------------------------------------------------------------

BLADES = FREE._replace(hub_spring=1.0)


def flapping_vehicle(effect=MOMENTUM_AIR, rotors=CRAFT.rotors):
    return CRAFT.replace(rotors=rotors).with_effect(effect, AIR).with_effect(FLAPPING, BLADES)


def test_a_hovering_vehicle_does_not_flap():
    vehicle = flapping_vehicle()
    state, command = samara.hover(vehicle)
    assert np.abs(flatten(samara.wrench_breakdown(state, command, vehicle)["flapping"])).max() < 1e-15
    assert np.abs(flatten(derivative(state, command, vehicle))).max() < 1e-9


def test_a_vehicle_in_forward_flight_is_pushed_back_and_turned_nose_up_only():
    """Rotors turn both ways: their rolling moments and side forces cancel, blow-back and nose-up add"""
    vehicle = flapping_vehicle()
    state, command = samara.hover(vehicle)
    part = samara.wrench_breakdown(state._replace(v_W=Vec3(5.0, 0.0, 0.0)), command, vehicle)["flapping"]
    assert part.f_B.x < 0.0
    assert part.tau_B.y < 0.0
    assert (part.f_B.y, part.tau_B.x) == pytest.approx((0.0, 0.0), abs=1e-12)


def test_flapping_damps_roll_and_pitch():
    vehicle = flapping_vehicle()
    state, command = samara.hover(vehicle)
    still = [samara.wrench_breakdown(state, command, vehicle)["flapping"].tau_B]
    rolling = samara.wrench_breakdown(state._replace(omega_B=Vec3(1.0, 0.0, 0.0)), command, vehicle)["flapping"].tau_B
    pitching = samara.wrench_breakdown(state._replace(omega_B=Vec3(0.0, 1.0, 0.0)), command, vehicle)["flapping"].tau_B
    assert rolling.x < still[0].x
    assert pitching.y < still[0].y


def test_an_inflow_with_three_states_reaches_the_hub():
    vehicle = flapping_vehicle(DYNAMIC_AIR_3)
    state, command = samara.hover(vehicle)
    at = vehicle.index("rotor_air")
    uneven = tuple(HarmonicInflow(inflow.induced, -0.5, 0.0) for inflow in state.effects[at])
    changed = state._replace(effects=(*state.effects[:at], uneven, *state.effects[at + 1 :]))
    before, after = (samara.wrench_breakdown(candidate, command, vehicle)["flapping"] for candidate in (state, changed))
    assert abs(after.tau_B.y - before.tau_B.y) > 1e-4


def test_compiled_equals_written_with_all_of_it():
    """One rotor with dynamic inflow of three states and flapping, tumbling in a descent: LLVM's steps are Python's"""
    vehicle = flapping_vehicle(DYNAMIC_AIR_3, CRAFT.rotors[:1])
    hover, _ = samara.hover(flapping_vehicle(DYNAMIC_AIR_3))
    at = vehicle.index("rotor_air")
    effects = (*hover.effects[:at], hover.effects[at][:1], *hover.effects[at + 1 :])
    state = hover._replace(
        rotor_speed=hover.rotor_speed[:1], effects=effects, omega_B=Vec3(0.5, -0.3, 0.2), v_W=Vec3(1.0, -2.0, -4.5)
    )
    expected = samara.step(samara.step(state, (0.5,), vehicle, 1e-3), (0.5,), vehicle, 1e-3)
    actual = samara.compile(vehicle, backend="llvm").step(state, (0.5,), 1e-3, steps=2)
    assert np.array(flatten(actual)) == pytest.approx(np.array(flatten(expected)), rel=1e-12, abs=1e-12)
