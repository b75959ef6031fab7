"""Inflow of a rotor: closed forms of momentum theory, one smooth curve through all flow states, dynamic inflow."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.spatial.transform import Rotation
from support.traced_flights import fly, record_states, rotation

import samara
from samara import Environment
from samara.core.algebra import Vec3, quat_from_euler
from samara.core.integrate import rk4
from samara.core.tree import flatten
from samara.physics.multirotor import derivative
from samara.physics.rotors import blade_element as rotor_air_file
from samara.physics.rotors import inflow as inflow_file
from samara.physics.rotors.blade_element import (
    HarmonicInflow,
    HubFlow,
    RotorAir,
    RotorDrag,
    air_load,
    balanced_inflow,
    blade_coefficients,
    gradient_rate,
    hub_flow,
    in_plane_force,
    inflow_gradient,
    inflow_rate,
    momentum_inflow,
)
from samara.physics.rotors.inflow import (
    RING_CENTRE,
    RING_HALF_WIDTH,
    hover_induced,
    induced_ratio,
    induced_velocity,
    mass_flow_speed,
    wake_skew,
)
from samara.physics.rotors.rotor import SEA_LEVEL_DENSITY
from samara.physics.rotors.rotor_air_effects import DYNAMIC_AIR, DYNAMIC_AIR_3, MOMENTUM_AIR, ROTOR_DRAG

CRAFT = samara.vehicle("hexarotor_x")
ROTOR = CRAFT.rotors[0]
AIR = RotorAir(solidity=0.08, lift_slope=5.7)
RHO = SEA_LEVEL_DENSITY
STILL = Vec3(0.0, 0.0, 0.0)
SPEED = samara.hover(CRAFT)[0].rotor_speed[0]
HOVER_INDUCED = hover_induced(ROTOR.k_thrust * SPEED**2, RHO, ROTOR.radius)


def moving(climb: float = 0.0, edge: float = 0.0) -> HubFlow:
    return HubFlow(climb, Vec3(edge, 0.0, 0.0))


# Momentum theory ---------------------------------------------------------------------------------------------------


@given(thrust=st.floats(0.01, 50.0), density=st.floats(0.5, 1.3), radius=st.floats(0.02, 0.5))
def test_a_hovering_rotor_induces_the_root_of_its_disc_loading(thrust, density, radius):
    """v = √(T/2ρA), and its induced power is T^1.5/√(2ρA)"""
    v = induced_velocity(thrust, 0.0, 0.0, density, radius)
    area = math.pi * radius**2
    assert v == pytest.approx(math.sqrt(thrust / (2.0 * density * area)), rel=1e-14)
    assert thrust * v == pytest.approx(thrust**1.5 / math.sqrt(2.0 * density * area), rel=1e-14)


@given(x=st.floats(-0.99, 10.0))
def test_climb_follows_the_root_of_its_quadratic(x):
    """ν = −x/2 + √(x²/4 + 1)"""
    assert induced_ratio(x, 0.0) == pytest.approx(-0.5 * x + math.sqrt(0.25 * x**2 + 1.0), rel=1e-13)


@given(x=st.floats(-10.0, -2.101))
def test_the_windmill_brake_follows_the_other_root(x):
    """ν = −x/2 − √(x²/4 − 1): the smaller root, of the windmill branch"""
    assert induced_ratio(x, 0.0) == pytest.approx(-0.5 * x - math.sqrt(0.25 * x**2 - 1.0), rel=1e-12)


@given(edge=st.floats(0.0, 10.0))
def test_level_flight_is_glauerts(edge):
    """ν⁴ + μ²ν² = 1: ν² = −μ²/2 + √(μ⁴/4 + 1); at high speed ν = 1/μ, a wing's downwash"""
    square = 2.0 / (edge**2 + math.sqrt(edge**4 + 4.0))
    assert induced_ratio(0.0, edge) == pytest.approx(math.sqrt(square), rel=1e-13)


def test_the_iterations_leave_nothing_of_the_momentum_balance():
    """ν √(μ² + (x + ν)²) = 1 at every climb and side wind outside the ring; with one step fewer it would not hold"""
    x, edge = np.meshgrid(np.linspace(-5.0, 5.0, 301), np.linspace(0.0, 5.0, 151))
    outside = np.hypot((x - RING_CENTRE) / RING_HALF_WIDTH, edge) >= 1.0

    def left_over():
        ratio = induced_ratio(x, edge)
        return np.abs(ratio * np.hypot(edge, x + ratio) - 1.0)[outside].max()

    assert left_over() < 1e-13
    steps = inflow_file.HALLEY_STEPS
    try:
        inflow_file.HALLEY_STEPS = steps - 1
        assert left_over() > 1e-13
    finally:
        inflow_file.HALLEY_STEPS = steps


@pytest.mark.parametrize("edge", [0.0, 0.2, 0.6, 0.95, 1.0, 1.3])
def test_value_and_slope_are_continuous_through_all_flow_states(edge):
    """Second differences of the sampled curve shrink with the sampling: a jump in slope would remain, one in value grow."""
    bends = []
    for n in (4001, 40001):
        x = np.linspace(-4.0, 2.0, n)
        slope = np.diff(induced_ratio(x, np.full_like(x, edge))) / np.diff(x)
        bends.append(np.abs(np.diff(slope)).max())
        assert np.abs(slope).max() < 3.0
    assert bends[1] < 0.15 * bends[0]


@pytest.mark.parametrize("x", [-2.05, -1.9, -1.55, -1.3, -1.05])
def test_value_and_slope_are_continuous_as_a_side_wind_blows_the_ring_away(x):
    bends = []
    for n in (2001, 20001):
        edge = np.linspace(0.0, 2.0, n)
        slope = np.diff(induced_ratio(np.full_like(edge, x), edge)) / np.diff(edge)
        bends.append(np.abs(np.diff(slope)).max())
    assert bends[1] < 0.15 * bends[0]


def test_johnsons_polynomial_meets_momentum_theory_around_its_ring():
    """At x = −1 the golden ratio, at x = −2 one, at (−1.5, 1) level flight's: to half a percent, as published"""
    for x, edge, book in ((-1.0, 0.0, 0.5 * (1.0 + math.sqrt(5.0))), (-2.0, 0.0, 1.0), (-1.5, 1.0, 0.8313)):
        cubic, mixed, linear = inflow_file.JOHNSON
        assert x * (cubic * x**2 + mixed * edge**2 + linear) == pytest.approx(book, rel=5e-3)
        assert book * math.hypot(edge, x + book) == pytest.approx(1.0, rel=1e-4)


def test_the_vortex_ring_is_near_johnsons_cubic_and_below_leishmans_quartic():
    """Within 9 % of the cubic except near the windmill; Leishman's fit of other measurements is up to 45 % above."""
    x = np.linspace(-1.8, -1.0, 50)
    actual = induced_ratio(x, np.zeros_like(x))
    assert np.abs(actual / (x * (0.373 * x**2 - 1.991)) - 1.0).max() < 0.09
    ratio = (1.0 - 1.125 * x - 1.372 * x**2 - 1.718 * x**3 - 0.655 * x**4) / actual
    assert ratio.min() > 1.1
    assert ratio.max() < 1.45


@given(thrust=st.floats(0.1, 10.0), climb=st.floats(-10.0, 10.0), edge=st.floats(0.0, 10.0))
def test_a_rotor_that_pulls_down_is_one_that_pushes_up_upside_down(thrust, climb, edge):
    up = induced_velocity(thrust, climb, edge, RHO, 0.127)
    assert induced_velocity(-thrust, -climb, edge, RHO, 0.127) == -up


def test_without_thrust_nothing_is_induced():
    assert induced_velocity(0.0, 3.0, 4.0, RHO, 0.127) == 0.0
    small = [induced_velocity(t, 3.0, 4.0, RHO, 0.127) for t in (1e-7, 2e-7)]
    area = math.pi * 0.127**2
    assert small == pytest.approx([t / (2.0 * RHO * area * 5.0) for t in (1e-7, 2e-7)], rel=1e-3)  # T = 2ρA V v


def test_the_mass_flow_is_two_v_in_hover_and_the_airspeed_in_fast_flight():
    assert mass_flow_speed(5.0, 0.0, 0.0, 5.0) == pytest.approx(10.0)
    assert mass_flow_speed(0.1, 0.0, 50.0, 5.0) == pytest.approx(50.0, rel=1e-4)
    h = 1e-6
    grown = [2.0 * v * math.hypot(4.0, 1.0 + v) for v in (3.0 - h, 3.0 + h)]  # T/ρA of momentum theory
    assert mass_flow_speed(3.0, 1.0, 4.0, 0.0) == pytest.approx((grown[1] - grown[0]) / (4.0 * h), rel=1e-8)


@given(chi=st.floats(0.0, 0.5 * math.pi))
def test_the_skew_of_the_wake_is_the_tangent_of_half_its_angle(chi):
    assert wake_skew(3.0, 7.0 * math.cos(chi) - 3.0, 7.0 * math.sin(chi)) == pytest.approx(
        math.tan(0.5 * chi), abs=1e-12
    )


# Blade elements ----------------------------------------------------------------------------------------------------


def quadrature(speed: float, induced: float, climb: float, edge: float) -> tuple[float, float, float]:
    """T, Q, H summed over radius and azimuth from lift and drag of each blade element, small angles (Bramwell, chapter 3)"""
    blade, R = blade_coefficients(ROTOR, AIR), ROTOR.radius
    x, weight = np.polynomial.legendre.leggauss(12)
    r, weight = 0.5 * (x + 1.0), 0.5 * weight
    psi = 2.0 * math.pi * np.arange(32) / 32
    r, psi = r[:, None], psi[None, :]
    tangential, through = speed * R * r + edge * np.sin(psi), climb + induced
    area = math.pi * R**2
    lift = 0.5 * RHO * area * blade.lift * (blade.pitch * tangential**2 - through * tangential)
    leaning = 0.5 * RHO * area * blade.lift * (blade.pitch * tangential - through) * through  # lift times u_P/u_T
    along = leaning + 0.5 * RHO * area * 8.0 * blade.profile * tangential**2

    def mean(element_values):
        return float(weight @ element_values.mean(axis=1))

    return mean(lift), R * mean(r * along), mean(along * np.sin(psi))


@given(climb=st.floats(-4.0, 6.0), edge=st.floats(0.0, 20.0), induced=st.floats(0.0, 8.0))
def test_thrust_torque_and_drag_are_the_sum_over_the_blade_elements(climb, edge, induced):
    """Any climb and inflow, and side winds up to 0.3 of the tip's speed"""
    thrust, torque, in_plane = quadrature(SPEED, induced, climb, edge)
    load = air_load(SPEED, induced, moving(climb, edge), ROTOR, AIR, RHO)
    assert load.thrust == pytest.approx(thrust, rel=1e-12, abs=1e-13)
    assert load.torque == pytest.approx(torque, rel=1e-12, abs=1e-14)
    force = in_plane_force(SPEED, induced, moving(climb, edge), ROTOR, AIR, RHO)
    assert force.x == pytest.approx(-in_plane, rel=1e-11, abs=1e-13)
    assert (force.y, force.z) == (0.0, 0.0)


@pytest.mark.parametrize("edge", [0.0, 4.0, 9.0])
def test_shaft_power_pays_for_climb_inflow_profile_and_drag(edge):
    """ΩQ = T(V_c + v) + P₀(1 + 3μ²) − H V_e: Leishman's balance in forward flight; P₀ = ρA U³ σcd/8"""
    induced, climb, tip = 4.0, 1.0, SPEED * ROTOR.radius
    load = air_load(SPEED, induced, moving(climb, edge), ROTOR, AIR, RHO)
    drag = -in_plane_force(SPEED, induced, moving(climb, edge), ROTOR, AIR, RHO).x
    profile = RHO * math.pi * ROTOR.radius**2 * tip**3 * blade_coefficients(ROTOR, AIR).profile
    spent = load.thrust * (climb + induced) + profile * (1.0 + 3.0 * (edge / tip) ** 2) - drag * edge
    assert load.torque * SPEED == pytest.approx(spent, rel=1e-13)


def test_the_in_plane_drag_has_the_textbook_slope_in_the_advance_ratio():
    """C_H = μ(σcd/4 + σaθλ/4), Leishman and Johnson, without flapping"""
    blade, tip, induced = blade_coefficients(ROTOR, AIR), SPEED * ROTOR.radius, 4.0
    unit = RHO * math.pi * ROTOR.radius**2 * tip**2
    slope = (8.0 * blade.profile + blade.lift * blade.pitch * induced / tip) / 4.0
    for mu in (0.01, 0.1, 0.3):
        force = in_plane_force(SPEED, induced, moving(0.0, mu * tip), ROTOR, AIR, RHO)
        assert -force.x / unit == pytest.approx(mu * slope, rel=1e-13)


@pytest.mark.parametrize("name", ["hexarotor_x", "octorotor_x"])
def test_in_hover_the_blades_do_what_the_vehicle_says(name):
    """T = kF Ω², Q = kM Ω² at v = v_h, for every solidity; and a figure of merit below one"""
    rotor = samara.vehicle(name).rotors[0]
    for solidity in (0.05, 0.2):
        air = RotorAir(solidity)
        v = balanced_inflow(400.0, HubFlow(0.0, STILL), rotor, air, RHO)
        assert v == pytest.approx(hover_induced(rotor.k_thrust * 400.0**2, RHO, rotor.radius), rel=1e-13)
        load = air_load(400.0, v, HubFlow(0.0, STILL), rotor, air, RHO)
        assert load == pytest.approx((rotor.k_thrust * 400.0**2, rotor.k_torque * 400.0**2), rel=1e-13)
        assert load.thrust * v / (load.torque * 400.0) < 1.0
        assert blade_coefficients(rotor, air).profile > 0.0


def test_translational_lift_and_the_cost_of_climb():
    """At the same speed: a side wind adds thrust, a climb reduces it, a descent adds some"""

    def thrust(climb, edge):
        flow = moving(climb, edge)
        return air_load(SPEED, balanced_inflow(SPEED, flow, ROTOR, AIR, RHO), flow, ROTOR, AIR, RHO).thrust

    still = thrust(0.0, 0.0)
    assert thrust(2.0, 0.0) < still < thrust(-1.0, 0.0)
    assert still < thrust(0.0, 3.0) < thrust(0.0, 6.0)


def test_the_balance_of_thrust_and_inflow_is_closed_in_every_flow_state():
    climb, edge = np.meshgrid(np.linspace(-13.0, 10.0, 47), np.linspace(0.0, 15.0, 16))
    flow = HubFlow(climb, Vec3(edge, 0.0 * edge, 0.0 * edge))
    v = balanced_inflow(SPEED, flow, ROTOR, AIR, RHO)
    assert np.abs(momentum_inflow(SPEED, v, flow, ROTOR, AIR, RHO) - v).max() < 2e-9
    root = brentq(lambda v: momentum_inflow(SPEED, v, moving(-8.0, 1.0), ROTOR, AIR, RHO) - v, 0.0, 30.0, xtol=1e-14)
    assert balanced_inflow(SPEED, moving(-8.0, 1.0), ROTOR, AIR, RHO) == pytest.approx(root, abs=1e-8)


def test_fewer_steps_would_leave_it_open(monkeypatch):
    monkeypatch.setattr(rotor_air_file, "INFLOW_ITERATIONS", rotor_air_file.INFLOW_ITERATIONS - 2)
    flow = HubFlow(np.linspace(-13.0, -5.0, 60), Vec3(np.full(60, 2.5), np.zeros(60), np.zeros(60)))
    v = balanced_inflow(SPEED, flow, ROTOR, AIR, RHO)
    assert np.abs(momentum_inflow(SPEED, v, flow, ROTOR, AIR, RHO) - v).max() > 2e-9


# Dynamic inflow ----------------------------------------------------------------------------------------------------


def test_the_inflow_settles_with_pitt_and_peters_time_constant():
    """In hover τ = (8/3π) R/(4 v_h) at constant thrust; the change of the blades' lift shortens it by 1 + σa/(16λ_h)"""
    h = 1e-4 * HOVER_INDUCED
    rates = [inflow_rate(SPEED, HOVER_INDUCED + d, moving(), ROTOR, AIR, RHO) for d in (-h, h)]
    book = 8.0 / (3.0 * math.pi) * ROTOR.radius / (4.0 * HOVER_INDUCED)
    deficiency = 1.0 + AIR.solidity * AIR.lift_slope * SPEED * ROTOR.radius / (16.0 * HOVER_INDUCED)
    assert -2.0 * h / (rates[1] - rates[0]) == pytest.approx(book / deficiency, rel=1e-6)


@pytest.mark.parametrize(
    ("climb", "edge"), [(0.0, 0.0), (3.0, 0.0), (-3.0, 2.0), (-8.0, 0.0), (-14.0, 1.0), (0.0, 9.0)]
)
def test_the_inflow_comes_to_rest_where_momentum_theory_is(climb, edge):
    """A quarter of a second from rest, in every flow state"""
    flow, v = moving(climb, edge), 0.5
    for _ in range(500):
        v = rk4(lambda inflow: (inflow_rate(SPEED, inflow[0], flow, ROTOR, AIR, RHO),), (v,), 1e-3)[0]
    assert v == pytest.approx(balanced_inflow(SPEED, flow, ROTOR, AIR, RHO), rel=1e-6)


def settled_gradient(flow, omega_B=STILL, induced=4.0, rotor=ROTOR):
    """The fixed point of a linear system: g = −M⁻¹ ġ(0)"""

    def rate(first, second):
        inflow = HarmonicInflow(induced, first, second)
        return np.array(gradient_rate(SPEED, inflow, omega_B, flow, rotor, AIR, RHO))

    start = rate(0.0, 0.0)
    matrix = np.stack([rate(1.0, 0.0) - start, rate(0.0, 1.0) - start], axis=1)[:2]
    first, second = -np.linalg.solve(matrix, start[:2])
    return np.array(inflow_gradient(HarmonicInflow(induced, first, second), rotor)), matrix


def test_a_gradient_settles_with_pitt_and_peters_second_time_constant():
    """In hover τ = (16/45π) R/v_h, shortened by the same lift deficiency, 1 + σaU/(8V_m)"""
    _, matrix = settled_gradient(moving(), induced=HOVER_INDUCED)
    book = 16.0 / (45.0 * math.pi) * ROTOR.radius / HOVER_INDUCED
    deficiency = 1.0 + AIR.solidity * AIR.lift_slope * SPEED * ROTOR.radius / (16.0 * HOVER_INDUCED)
    assert matrix == pytest.approx(-np.eye(2) * deficiency / book, rel=1e-10, abs=1e-9)


def test_in_forward_flight_more_air_is_drawn_at_the_back_and_on_the_advancing_side():
    """k_x = (15π/32) tan(χ/2), divided by the deficiency; the lift of the advancing side adds inflow; mirrored with the spin"""
    flow, induced, tip = moving(0.0, 6.0), 4.0, SPEED * ROTOR.radius
    gradient, _ = settled_gradient(flow, induced=induced)
    carried = mass_flow_speed(induced, 0.0, 6.0, HOVER_INDUCED)
    half = wake_skew(induced, 0.0, 6.0)
    opening = 1.0 + math.cos(2.0 * math.atan(half))
    deficiency = 1.0 + 4.0 / opening * AIR.solidity * AIR.lift_slope / 16.0 * tip / carried
    assert gradient[0] == pytest.approx(-15.0 * math.pi / 32.0 * half * induced / deficiency, rel=1e-10)
    assert gradient[1] * -ROTOR.spin > 0.0
    mirrored, _ = settled_gradient(flow, induced=induced, rotor=ROTOR._replace(spin=-ROTOR.spin))
    assert mirrored == pytest.approx(gradient * [1.0, -1.0, 1.0], rel=1e-12)


# On a vehicle ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("effect", [MOMENTUM_AIR, DYNAMIC_AIR, DYNAMIC_AIR_3], ids=["momentum", "dynamic", "dynamic_3"])
def test_a_vehicle_in_hover_does_not_notice(effect):
    """The trim is unchanged and remains a trim"""
    vehicle = CRAFT.with_effect(effect, AIR)
    state, command = samara.hover(vehicle)
    assert command == samara.hover(CRAFT)[1]
    rate = derivative(state, command, vehicle)
    assert np.abs(flatten(rate)).max() < 1e-9


def test_off_is_free_and_on_has_as_many_states_as_it_says():
    count = {len(flatten(samara.hover(CRAFT)[0]))}
    for effect, more in ((MOMENTUM_AIR, 0), (DYNAMIC_AIR, 6), (DYNAMIC_AIR_3, 18)):
        assert len(flatten(samara.hover(CRAFT.with_effect(effect, AIR))[0])) == min(count) + more
    assert not any(CRAFT.has(name) for name in ("rotor_air", "rotor_drag", "flapping"))


def test_an_inflow_factor_and_rotor_air_exclude_each_other():
    vehicle = samara.vehicle("iris_documented").with_effect(MOMENTUM_AIR, AIR)
    state, command = samara.hover(samara.vehicle("iris_documented"))
    with pytest.raises(ValueError, match="expected one of them"):
        samara.wrench_breakdown(state._replace(effects=(*state.effects, ())), command, vehicle)


def test_rotors_and_their_air_together_are_the_load_of_the_blades():
    """F = T a + H, τ = r × F − s Q a for one rotor in a climb with side wind: nothing counted twice"""
    rotor = ROTOR._replace(axis_B=Vec3(0.0, 0.6, 0.8), spin=-1.0)
    vehicle = CRAFT.replace(rotors=(rotor,)).with_effect(MOMENTUM_AIR, AIR)
    hover, _ = samara.hover(CRAFT)
    state = hover._replace(rotor_speed=(SPEED,), v_W=Vec3(4.0, 1.0, 2.0), effects=(*hover.effects, ()))
    parts = samara.wrench_breakdown(state, (0.5,), vehicle)
    flow = hub_flow(state.q_WB, state.v_W, state.omega_B, STILL, rotor)
    induced = balanced_inflow(SPEED, flow, rotor, AIR, RHO)
    load = air_load(SPEED, induced, flow, rotor, AIR, RHO)
    axis, side = np.array(rotor.axis_B), np.array(in_plane_force(SPEED, induced, flow, rotor, AIR, RHO))
    force = load.thrust * axis + side
    assert np.array(parts["rotors"].f_B) == pytest.approx(load.thrust * axis, rel=1e-12)
    assert np.array(parts["rotor_air"].f_B) == pytest.approx(side, rel=1e-12)
    torque = np.cross(rotor.r_B, force) + load.torque * axis
    assert np.array(parts["rotors"].tau_B + parts["rotor_air"].tau_B) == pytest.approx(torque, rel=1e-12)
    assert abs(load.torque / (ROTOR.k_torque * SPEED**2) - 1.0) > 0.005


def test_each_hub_meets_its_own_air():
    """u = v + ω × r − w at the hub: the rate of its position minus the local wind"""
    q_WB = quat_from_euler(0.3, -0.4, 1.0)
    v_W, omega_B, wind_W = Vec3(1.0, 2.0, -0.5), Vec3(2.0, -3.0, 1.0), Vec3(-1.0, 0.5, 0.2)
    rotor = ROTOR._replace(axis_B=Vec3(0.0, 0.6, 0.8))
    flow = hub_flow(q_WB, v_W, omega_B, wind_W, rotor)
    turn = rotation(q_WB)
    places = [
        np.array(v_W) * t + (turn * Rotation.from_rotvec(np.array(omega_B) * t)).apply(np.array(rotor.r_B))
        for t in (-1e-6, 1e-6)
    ]
    through_B = turn.inv().apply((places[1] - places[0]) / 2e-6 - np.array(wind_W))
    assert flow.climb == pytest.approx(through_B @ [0.0, 0.6, 0.8], abs=1e-8)
    assert np.array(flow.across_B) == pytest.approx(through_B - flow.climb * np.array(rotor.axis_B), abs=1e-8)


def test_a_gust_on_one_side_rolls_the_vehicle():
    """An environment with the wind at each hub: an updraught under the left rotors lifts the left side."""

    gusty = Environment(hub_wind_W=tuple(Vec3(0.0, 0.0, 1.0 if rotor.r_B.y > 0.0 else 0.0) for rotor in CRAFT.rotors))
    vehicle = CRAFT.with_effect(MOMENTUM_AIR, AIR)
    state, command = samara.hover(vehicle)
    calm, gust = (samara.wrench_breakdown(state, command, vehicle, air)["rotors"] for air in (Environment(), gusty))
    assert gust.tau_B.x > calm.tau_B.x + 0.01
    assert gust.f_B.z > calm.f_B.z


def test_turning_rotors_resist_a_roll():
    """ω × r: the side that moves down meets air from below and gains lift"""
    vehicle = CRAFT.with_effect(MOMENTUM_AIR, AIR)
    state, command = samara.hover(vehicle)
    rolling = samara.wrench_breakdown(state._replace(omega_B=Vec3(1.0, 0.0, 0.0)), command, vehicle)["rotors"]
    assert rolling.tau_B.x < -1e-3


def test_measured_rotor_drag_acts_at_the_hubs_and_takes_energy():
    """Foerster's form, f = −k Σ Ω v: with all rotors above the centre of mass it turns the nose up"""
    vehicle = CRAFT.with_effect(ROTOR_DRAG, RotorDrag(1e-5))
    raised = tuple(rotor._replace(r_B=rotor.r_B + Vec3(0.0, 0.0, 0.05)) for rotor in vehicle.rotors)
    vehicle = vehicle.replace(rotors=raised)
    state, command = samara.hover(vehicle)
    parts = samara.wrench_breakdown(state._replace(v_W=Vec3(4.0, 0.0, 0.0)), command, vehicle)["rotor_drag"]
    assert parts.f_B.x == pytest.approx(-1e-5 * sum(state.rotor_speed) * 4.0, rel=1e-12)
    assert parts.tau_B.y == pytest.approx(0.05 * parts.f_B.x, rel=1e-12)


def test_after_a_sudden_descent_the_inflow_follows():
    """A vehicle too heavy to be stopped: its thrust jumps, and settles as the inflow grows to momentum theory's."""
    still = CRAFT.with_effect(DYNAMIC_AIR, AIR)
    start, command = samara.hover(still)
    vehicle = still.without_effect("gravity").replace(mass=1e6)
    effect_states = tuple(start.effects[still.index(effect.name)] for effect in vehicle.structure.effects)
    flown = fly(vehicle, start._replace(v_W=Vec3(0.0, 0.0, -2.0), effects=effect_states), command, 0.3)
    induced = record_states(vehicle, flown).effects[vehicle.index("rotor_air")][0].induced
    assert induced[0] == pytest.approx(HOVER_INDUCED, rel=1e-9)
    assert induced[-1] == pytest.approx(balanced_inflow(SPEED, moving(-2.0), ROTOR, AIR, RHO), rel=1e-3)
    assert (np.diff(induced) >= -1e-7).all()  # its slow loss of speed
    assert induced[-1] > 1.02 * induced[0]
