"""Coaxial rotors: the lower one in the wake of the upper one, by mass, momentum and angular momentum of that wake."""

import math

import numpy as np
import pytest
from support.coaxial_vehicles import RADIUS, coaxial_vehicle

import samara
from samara.control.registry import CONTROLLERS
from samara.core.algebra import ZERO, Vec3
from samara.core.tree import flatten
from samara.physics.air.coaxial import (
    Coaxial,
    Wake,
    incident_wake,
    overlap_fraction,
    wake_loss,
    wake_radius,
)
from samara.physics.air.propwash import wake_flow
from samara.physics.multirotor import derivative
from samara.physics.rotors.blade_element import HubFlow, RotorAir, air_load, axial_flow, balanced_inflow
from samara.physics.rotors.inflow import hover_induced, induced_velocity
from samara.physics.rotors.propulsion import rotor_loads
from samara.physics.rotors.rotor import Rotor, RotorLoad
from samara.physics.types import CALM
from samara.plan import trajectory
from samara.scenario.scenario import Drone, Scenario
from samara.sim.fly import fingerprint, fly
from samara.sim.replay import replay
from samara.vehicles.build import switch_on
from samara.vehicles.check import VehicleError
from samara.vehicles.loader import parse_vehicle
from samara.vehicles.plausibility import hover_power
from samara.vehicles.trim import hover, load_fractions, select_effective_rotors
from samara.vehicles.writer import vehicle_toml

RHO, UP = 1.225, Vec3(0.0, 0.0, 1.0)
BLADES = RotorAir(0.106)
UPPER = Rotor(ZERO, UP, 1.0, 1.5e-5, 2.4e-7, radius=RADIUS)
LOAD = RotorLoad(5.0, 0.08)
V_H = float(hover_induced(LOAD.thrust, RHO, RADIUS))
STILL = HubFlow(0.0, ZERO)


def below(distance, beside=0.0, radius=RADIUS, spin=-1.0):
    return UPPER._replace(r_B=Vec3(beside, 0.0, -distance), radius=radius, spin=spin)


# The wake ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("climb", [0.0, 2.0, 8.0])
@pytest.mark.parametrize("distance", [0.01, 0.1, 0.4, 50.0])
def test_what_goes_through_the_upper_disc_goes_through_every_section_of_its_wake(climb, distance):
    """r² u = R² (V_c + v): mass; and far down r = R √((V_c + v)/(V_c + 2v)), in hover R/√2."""
    v = induced_velocity(LOAD.thrust, climb, 0.0, RHO, RADIUS)
    u = wake_flow(v, climb, V_H, radius=RADIUS, distance=distance)
    r = wake_radius(v, climb, u, radius=RADIUS)
    assert r * r * u == pytest.approx(RADIUS**2 * (climb + v), rel=1e-12)
    if distance == 50.0:
        assert r == pytest.approx(RADIUS * math.sqrt((climb + v) / (climb + 2.0 * v)), rel=1e-5)


def test_the_part_of_a_disc_in_a_circle_is_that_of_points_thrown_at_it():
    """Against 10⁶ points, and exact if one contains the other or they do not overlap."""
    rng = np.random.default_rng(1)
    radial, angle = np.sqrt(rng.uniform(size=1_000_000)), rng.uniform(0.0, 2.0 * math.pi, 1_000_000)
    x, y = radial * np.cos(angle), radial * np.sin(angle)
    for offset, radius in ((0.3, 0.7), (0.5, 0.7), (0.9, 0.8), (1.2, 0.75), (0.2, 1.1)):
        hit = float((np.hypot(x - offset, y) < radius).mean())
        assert overlap_fraction(offset, radius, 1.0) == pytest.approx(hit, abs=2e-3)
    assert overlap_fraction(0.0, 0.7, 1.0) == pytest.approx(0.49, rel=1e-9)
    assert overlap_fraction(0.1, 2.0, 1.0) == pytest.approx(1.0, rel=1e-12)
    assert overlap_fraction(0.0, 1.0, 1.0) == pytest.approx(1.0, abs=1e-3)
    assert overlap_fraction(2.0, 0.9, 1.0) == 0.0


@pytest.mark.parametrize("distance", [0.02, 0.1, 0.4, 5.0])
def test_an_equal_disc_below_meets_the_induced_velocity_of_the_upper_one_on_the_mean(distance):
    """Δ πR² = v πR²: for every contraction of the wake, all of its air passes through the lower disc."""
    wake = incident_wake(LOAD, V_H, STILL, UPPER, below(distance), RHO)
    assert wake.down == pytest.approx(V_H, rel=1e-9)


@pytest.mark.parametrize("distance", [0.02, 0.1, 5.0])
def test_the_wake_carries_the_torque_of_the_rotor_as_angular_momentum(distance):
    """½ ṁ r² ω = Q with ω = ϖ/c^{3/2}, the rotation of the air within its radius r = √c R."""
    wake = incident_wake(LOAD, V_H, STILL, UPPER, below(distance), RHO)
    u = wake_flow(V_H, 0.0, V_H, radius=RADIUS, distance=distance)
    r = float(wake_radius(V_H, 0.0, u, radius=RADIUS))
    turn = wake.swirl / (r / RADIUS) ** 3
    mass_flow = RHO * math.pi * RADIUS**2 * V_H
    assert 0.5 * mass_flow * r * r * turn == pytest.approx(LOAD.torque, rel=1e-9)


def test_a_disc_in_no_wake_meets_none():
    """Beside the wake, above the rotor, in its plane, and below a stopped rotor."""
    for lower in (below(0.2, beside=2.0 * RADIUS + 1e-3), below(-0.2), below(0.0)):
        assert incident_wake(LOAD, V_H, STILL, UPPER, lower, RHO) == (0.0, 0.0)
    assert incident_wake(RotorLoad(0.0, 0.0), 0.0, STILL, UPPER, below(0.1), RHO) == (0.0, 0.0)


def test_a_wake_falls_with_climb_and_leaves_the_lower_disc_in_fast_flight():
    """Δ = 2v (V_c + v)/(V_c + 2v) far down; at V_e the wake drifts back by z V_e/v, past the lower disc at 2R."""
    met = []
    for climb in (0.0, 2.0, 6.0, 12.0, 40.0):
        v = induced_velocity(LOAD.thrust, climb, 0.0, RHO, RADIUS)
        met.append(incident_wake(LOAD, v, HubFlow(climb, ZERO), UPPER, below(50.0), RHO).down)
        assert met[-1] == pytest.approx(2.0 * v * (climb + v) / (climb + 2.0 * v), rel=1e-4)
    assert met == sorted(met, reverse=True) and met[-1] < 0.31 * met[0]
    away = 2.0 * RADIUS * V_H / 0.2
    assert incident_wake(LOAD, V_H, HubFlow(0.0, Vec3(1.01 * away, 0.0, 0.0)), UPPER, below(0.2), RHO).down == 0.0
    behind = below(0.2, beside=-0.5 * RADIUS)  # forward flight at this speed blows the wake right onto it
    drift = HubFlow(0.0, Vec3(0.5 * RADIUS * V_H / 0.2, 0.0, 0.0))
    assert incident_wake(LOAD, V_H, drift, UPPER, behind, RHO).down == pytest.approx(V_H, rel=1e-9)


@pytest.mark.parametrize("climb", [0.0, 1.0, 5.0, 12.0])
def test_in_climb_the_balance_of_blades_and_momentum_has_a_closed_form(climb):
    """Against the iteration of `rotor_air`, and T = 2ρA W (W − V_c) at the balance."""
    flow, speed = HubFlow(climb, ZERO), 600.0
    through = axial_flow(speed, climb, UPPER, BLADES)
    assert through == pytest.approx(climb + balanced_inflow(speed, flow, UPPER, BLADES, RHO), abs=1e-8)
    thrust = air_load(speed, through - climb, flow, UPPER, BLADES, RHO).thrust
    assert 2.0 * RHO * math.pi * RADIUS**2 * through * (through - climb) == pytest.approx(thrust, rel=1e-12)


# Losses --------------------------------------------------------------------------------------------------------------


def test_two_ideal_rotors_of_equal_thrust_take_a_golden_ratio_of_induced_power():
    """v_l (v_l + v) = v²: the lower one has (1 + √5)/2 of the upper's inflow, the pair ½ (1 + 1.618) = 1.309 of two isolated.

    Leishman's model has 1.281 here, 1.414 for two discs in one plane, and measured pairs take about 1.16 to 1.22 of it.
    """
    lower_induced = induced_velocity(LOAD.thrust, V_H, 0.0, RHO, RADIUS)
    golden = (1.0 + math.sqrt(5.0)) / 2.0
    assert (lower_induced + V_H) / V_H == pytest.approx(golden, rel=1e-9)
    assert 1.281 < 0.5 * (1.0 + golden) < math.sqrt(2.0)


def test_the_lower_rotor_is_one_that_climbs_in_still_air():
    """Without swirl its load is `air_load` at V_c = Δ, by blade elements and momentum theory without a wake."""
    lower, speed, down = below(0.1), 600.0, 5.0
    loss = wake_loss(speed, Wake(down, 0.0), STILL, lower, BLADES, RHO)
    climbing = HubFlow(down, ZERO)
    climbing_load = air_load(speed, balanced_inflow(speed, climbing, lower, BLADES, RHO), climbing, lower, BLADES, RHO)
    assert loss.thrust == pytest.approx(climbing_load.thrust - 1.5e-5 * speed**2, rel=1e-9)
    assert loss.torque == pytest.approx(climbing_load.torque - 2.4e-7 * speed**2, rel=1e-6)
    assert loss.thrust < 0.0


def test_an_opposite_spin_recovers_what_the_same_spin_loses():
    """Swirl against the lower rotor's spin adds to the speed of its blades."""
    losses = []
    for spin in (-1.0, 1.0):
        lower = below(0.1, spin=spin)
        wake = incident_wake(LOAD, V_H, STILL, UPPER, lower, RHO)
        losses.append(wake_loss(600.0, wake, STILL, lower, BLADES, RHO).thrust)
    assert losses[1] < losses[0] < 0.0


def test_an_x8_loses_what_was_measured():
    """Published: 20 to 28 % more power than eight isolated rotors, a lower rotor with 25 to 35 % less thrust at the same speed.

    Samara: 30 % and 32 %: the upper end, as expected of blade elements with a uniform wake.
    """
    pair, free = coaxial_vehicle(4), coaxial_vehicle(4, coaxial=False)
    assert 1.20 < hover_power(pair).shaft / hover_power(free).shaft < 1.31
    state = hover(free)[0]
    loads = rotor_loads(state._replace(effects=hover(pair)[0].effects), pair, CALM)
    assert 0.25 < 1.0 - loads[1].thrust / loads[0].thrust < 0.35


def test_the_part_that_is_left_is_the_same_at_every_speed():
    """Only the rotor speed moves the air: T_l/(kF Ω²) has no scale."""
    pair = coaxial_vehicle(4)
    state = hover(pair)[0]
    parts = []
    for factor in (0.5, 1.0, 1.5):
        turning = state._replace(rotor_speed=tuple(factor * speed for speed in state.rotor_speed))
        parts.append([load.thrust / factor**2 for load in rotor_loads(turning, pair, CALM)])
    np.testing.assert_allclose(parts, [parts[0]] * 3, rtol=1e-8)


def test_rotors_side_by_side_lose_nothing():
    """The effect on a hexarotor changes no bit of its motion."""
    plain = samara.vehicle("hexarotor_x")
    state, command = hover(plain)
    on = switch_on(plain, "coaxial")
    moving = state._replace(v_W=Vec3(3.0, 1.0, -1.0))
    with_it = derivative(moving._replace(effects=(*moving.effects, ())), command, on)
    assert flatten(with_it._replace(effects=())) == flatten(derivative(moving, command, plain)._replace(effects=()))


# In a vehicle ----------------------------------------------------------------------------------------------------------


def test_it_is_written_and_read_and_takes_the_blades_of_rotor_air():
    pair = coaxial_vehicle(4)
    assert parse_vehicle(vehicle_toml(pair), "x8") == pair
    aired = switch_on(switch_on(coaxial_vehicle(4, coaxial=False), "rotor_air", solidity=0.12), "coaxial")
    assert aired["coaxial"] == Coaxial(0.12, 5.7)
    with pytest.raises(VehicleError, match=r"rotors\[0\].radius = 0.0 m: expected a positive number, coaxial needs it"):
        switch_on(samara.vehicle("iris").replace({"rotors.radius": 0.0}), "coaxial")


def test_controllers_count_on_what_is_left():
    """B diag(T/kF Ω²) of the vehicle that controllers use trims the real one: its thrust is the weight, its torque 0."""
    pair = coaxial_vehicle(4)
    loads, effective_vehicle = load_fractions(pair), select_effective_rotors(pair)
    assert not effective_vehicle.has("coaxial") and loads[0].thrust == 1.0 and 0.6 < loads[1].thrust < 0.75
    share = pair.mass * 9.80665 / 8.0
    speeds = tuple(math.sqrt(share / rotor.k_thrust) for rotor in effective_vehicle.rotors)
    state = hover(pair)[0]._replace(rotor_speed=speeds)
    rate = derivative(state, samara.hover(pair)[1], pair)
    assert abs(rate.v_W.z) < 1e-9 and max(map(abs, rate.omega_B)) < 0.2


@pytest.mark.parametrize("controller", list(CONTROLLERS))
@pytest.mark.parametrize("arms", [3, 4])
def test_every_controller_holds_an_x8_and_a_y6(arms, controller):
    """Within a centimetre, although the lower rotors give a third less than kF Ω²."""
    place = Vec3(0.0, 0.0, 2.0)
    drone = Drone("d", coaxial_vehicle(arms), trajectory.hover(place), place, airborne=True, controller=controller)
    track = fly(Scenario("hold", (drone,), 2.0))["d"]
    assert np.abs(track.position - np.array(place)).max() < 0.01


def test_a_flight_of_an_x8_is_flown_again_bit_for_bit():
    place = Vec3(0.0, 0.0, 2.0)
    task = trajectory.line(place, Vec3(2.0, 0.0, 3.0), speed=2.0)
    run = fly(Scenario("x8", (Drone("d", coaxial_vehicle(4), task, place, airborne=True),), 2.0))
    assert fingerprint(replay(run)) == fingerprint(run)
