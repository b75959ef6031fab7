"""Propwash: the wake of the rotors on surfaces below them, and the gusts of a descent."""

import math

import numpy as np
import pytest
from scipy.integrate import quad
from support.stage_runs import StageRun

import samara
from samara.core.algebra import IDENTITY, ZERO, Vec3
from samara.physics.air.propwash import Propwash, download, ring_strength, wake_flow
from samara.physics.multirotor import complete_environment, derivative, state_at_rest, wrench_breakdown
from samara.physics.rotors.blade_element import HubFlow, RotorAir, air_load
from samara.physics.rotors.inflow import hover_induced, induced_ratio, induced_velocity
from samara.physics.rotors.propulsion import rotor_loads
from samara.physics.rotors.rotor import Rotor
from samara.physics.types import CALM
from samara.plan import trajectory
from samara.scenario.scenario import Drone, Scenario
from samara.sim.fly import fly
from samara.sim.replay import replay
from samara.sim.stages.air import WAKE, WindStage, wake_gusts
from samara.vehicles.build import switch_on
from samara.vehicles.check import VehicleError
from samara.vehicles.loader import parse_vehicle
from samara.vehicles.writer import vehicle_toml
from samara.wind.sources import Constant

G, RHO, RADIUS = 9.80665, 1.225, 0.127
V_H = float(hover_induced(1.5 * G / 4.0, RHO, RADIUS))
FAR = 1e6 * RADIUS
WASHED = switch_on(switch_on(samara.vehicle("iris_documented"), "rotor_air"), "propwash")
ABOVE = Vec3(0.0, 0.0, 20.0)


# The wake below a rotor ---------------------------------------------------------------------------------------------


def test_the_wake_grows_to_twice_the_induced_velocity():
    """w = V_c + v in the disc, V_c + 2v far down: momentum theory, T = ρA (V_c + v) 2v."""
    for climb in (0.0, 2.0, 8.0):
        v = induced_velocity(3.0, climb, 0.0, RHO, RADIUS)
        v_h = hover_induced(3.0, RHO, RADIUS)
        far = wake_flow(v, climb, v_h, radius=RADIUS, distance=FAR)
        near = wake_flow(v, climb, v_h, radius=RADIUS, distance=0.0)
        assert RHO * math.pi * RADIUS**2 * near * (far - climb) == pytest.approx(3.0, rel=1e-11)


@pytest.mark.parametrize("distance", [0.0, 0.3, 1.0, 3.0])
def test_in_between_it_is_the_flow_on_the_axis_of_a_vortex_tube(distance):
    """Biot and Savart: every ring of the tube adds ½ γ R²/(R² + s²)^{3/2} ds; the tube begins at the disc."""
    ring, _ = quad(lambda s: 0.5 / (1.0 + s * s) ** 1.5, -distance, math.inf)
    in_disc, _ = quad(lambda s: 0.5 / (1.0 + s * s) ** 1.5, 0.0, math.inf)
    flow = wake_flow(V_H, 0.0, V_H, radius=RADIUS, distance=distance * RADIUS)
    assert flow / V_H == pytest.approx(ring / in_disc, rel=1e-9)


def test_below_a_windmill_the_air_is_undisturbed():
    """At V_c = −3 v_h the wake leaves upwards: far below, the air is undisturbed."""
    climb = -3.0 * V_H
    v = V_H * induced_ratio(-3.0, 0.0)
    assert wake_flow(v, climb, V_H, radius=RADIUS, distance=FAR) == pytest.approx(climb, rel=1e-12)


def test_the_force_on_what_is_below_turns_round_without_a_jump():
    """From a climb at 2 v_h to a descent at 4: the flow crosses zero once, and neither flow nor force jumps."""
    climbs = np.linspace(2.0, -4.0, 6001) * V_H
    v = induced_velocity(1.5 * G / 4.0, climbs, 0.0 * climbs, RHO, RADIUS)
    flow = wake_flow(v, climbs, V_H, radius=RADIUS, distance=0.25 * RADIUS)
    assert np.abs(np.diff(flow)).max() < 0.01 * V_H
    assert (np.diff(np.sign(flow)) != 0).sum() == 1
    added = download(flow, climbs, RHO, drag_area=0.003)
    total = added + 0.5 * RHO * 0.003 * climbs * np.abs(climbs)
    assert total == pytest.approx(0.5 * RHO * 0.003 * flow * np.abs(flow), abs=1e-12)
    assert added[climbs == 0.0] == pytest.approx(0.5 * RHO * 0.003 * flow[climbs == 0.0] ** 2)


def test_in_hover_the_rotors_carry_the_download_too():
    """D/T = C_D A / (πR²) in a fully grown wake; the trim has Σ T (1 − C_D A/ΣπR²) = m g."""
    area = 0.05 * 4.0 * math.pi * RADIUS**2
    vehicle = switch_on(samara.vehicle("iris_documented"), "propwash", drag_area=area, distance=FAR, gusts=0.0)
    state, command = samara.hover(vehicle)
    parts = wrench_breakdown(state, command, vehicle)
    thrust = parts["rotors"].f_B.z
    assert parts["propwash"].f_B.z == pytest.approx(-0.05 * thrust, rel=1e-10)
    assert thrust == pytest.approx(1.5 * G / 0.95, rel=1e-9)
    assert max(abs(x) for x in (*derivative(state, command, vehicle).v_W, *parts["propwash"].tau_B)) < 1e-9


def test_without_thrust_there_is_no_wake():
    """Stopped rotors: falling or climbing, the effect adds nothing to the drag of the vehicle."""
    vehicle = switch_on(samara.vehicle("iris_documented"), "propwash", gusts=0.0)
    for speed in (-20.0, 0.0, 7.0):
        state = state_at_rest(vehicle)._replace(v_W=Vec3(3.0, 0.0, speed))
        assert wrench_breakdown(state, (0.0,) * 4, vehicle)["propwash"].f_B == Vec3(0.0, 0.0, 0.0)


# Strength of the gusts ----------------------------------------------------------------------------------------------


def test_there_are_none_in_climb_hover_windmill_and_forward_flight():
    for climb, edge in (
        (0.0, 0.0),
        (0.5, 0.0),
        (3.0, 0.5),
        (-2.0, 0.0),
        (-3.5, 0.2),
        (-1.0, 1.0),
        (-0.5, 0.9),
        (0.0, 4.0),
    ):
        assert ring_strength(climb, edge) == 0.0


def test_they_are_strongest_in_a_descent_at_the_induced_velocity_of_hover():
    """1 at x = −1, above ½ from −0.5 to −1.5, never larger; value and slope are continuous at the edge."""
    x = np.linspace(-3.0, 1.0, 4001)
    strength = ring_strength(x, 0.0 * x)
    assert strength.max() == 1.0
    assert x[strength.argmax()] == pytest.approx(-1.0)
    assert (strength[(x > -1.5) & (x < -0.5)] > 0.5).all()
    assert np.abs(np.diff(strength, 2)).max() < 1e-5
    assert (np.diff(ring_strength(-1.0, np.linspace(0.0, 2.0, 100))) <= 0.0).all()


def test_the_usual_strength_is_the_peak_to_peak_thrust_that_was_measured():
    """±3σ of 0.16 v_h through a rotor with σa = 8 λ_h is 96 % of its thrust; Stack, Caradonna and Savaş: up to 95 %."""
    k_thrust, speed = 8e-6, 700.0
    v_h = hover_induced(k_thrust * speed**2, RHO, RADIUS)
    inflow = v_h / (speed * RADIUS)
    rotor = Rotor(ZERO, Vec3(0.0, 0.0, 1.0), 1.0, k_thrust, 1e-7, 0.0, RADIUS)
    air = RotorAir(8.0 * inflow / 5.7, 5.7)
    gust = 3.0 * Propwash().gusts * v_h
    low, middle, high = (
        air_load(speed, v_h, HubFlow(climb, ZERO), rotor, air, RHO).thrust for climb in (gust, 0.0, -gust)
    )
    assert (high - low) / middle == pytest.approx(0.96, rel=1e-9)


# Random gusts -------------------------------------------------------------------------------------------------------


def random_gusts(rise, ticks, drones, *, dt=0.01, seed=5, level=0.0):
    """Gusts along the axis of every rotor, (ticks, rotors, drones), for drones that hover in rising air."""
    run = StageRun(
        *(WindStage(), WAKE),
        **{"vehicle": WASHED, "state": samara.hover(WASHED)[0], "drones": drones, "seed": seed},
        period_us=round(1e6 * dt),
        wind=Constant(Vec3(level, 0.0, rise)),
    )
    (gusts_W,) = run.record(ticks, "wake")
    gusts_W = gusts_W.reshape(ticks, 4, 3, -1)
    assert np.abs(gusts_W[:, :, :2]).max() == 0.0
    return gusts_W[:, :, 2]


def test_deviation_time_and_independence_are_what_they_should_be():
    """σ = 0.16 v_h b(V_c/v_h), correlation e^{−dt v_h/R}, none between rotors: 4000 drones, within four standard errors."""
    state, _ = samara.hover(WASHED)
    air = CALM._replace(wind_W=Vec3(0.0, 0.0, V_H))
    thrust = rotor_loads(state, WASHED, air)[0].thrust
    v_h = math.sqrt(thrust / (2.0 * RHO * math.pi * RADIUS**2))
    before, after = random_gusts(V_H, 30, np.arange(4000), dt=0.01)[-2:]
    sigma = 0.16 * v_h * (1.0 - (1.0 - V_H / v_h) ** 2) ** 2
    assert sigma > 0.5
    assert after.std() == pytest.approx(sigma, rel=4.0 / math.sqrt(2 * after.size))
    assert abs(after.mean()) < 4.0 * sigma / math.sqrt(after.size)
    correlation = math.exp(-0.01 * v_h / RADIUS)
    assert np.corrcoef(before.ravel(), after.ravel())[0, 1] == pytest.approx(
        correlation, abs=4.0 / math.sqrt(after.size)
    )
    assert np.abs(np.corrcoef(after)[~np.eye(4, dtype=bool)]).max() < 4.0 / math.sqrt(4000)


def test_in_climb_and_hover_nothing_is_felt():
    drones = np.arange(50)
    for rise in (0.0, -0.5 * V_H):
        assert np.abs(random_gusts(rise, 5, drones)).max() == 0.0
    assert np.abs(random_gusts(V_H, 5, drones, level=3.0 * V_H)).max() == 0.0


def test_a_drone_feels_the_same_whoever_else_flies():
    many = random_gusts(V_H, 6, np.arange(20))
    single = random_gusts(V_H, 6, np.array([7]))
    assert np.array_equal(many[:, :, 7], single[:, :, 0])
    assert not np.array_equal(many, random_gusts(V_H, 6, np.arange(20), seed=6))


def test_no_gust_makes_the_next_stronger():
    """The gusts depend on the wind, not on the present gusts at the hubs."""
    state, _ = samara.hover(WASHED)
    gusts = []
    for gust in (0.0, 2.0):
        air = complete_environment(WASHED, CALM._replace(wind_W=Vec3(0.0, 0.0, V_H)))
        air = air._replace(hub_wind_W=tuple(Vec3(0.0, 0.0, V_H + gust) for _ in range(4)))
        gusts.append(wake_gusts((1.0,) * 4, 0.01, state, air, (0.5, -1.0, 0.3, 2.0), vehicle=WASHED))
    assert gusts[0] == gusts[1]
    assert np.abs(gusts[0][1]).max() > 0.1


# Flights ------------------------------------------------------------------------------------------------------------


def shaking(ratio, level=0.0, seconds=8.0):
    """Standard deviation of body rates and vertical acceleration in air that rises at a fraction of v_h, as in a descent."""
    drone = Drone("iris", WASHED, trajectory.hover(ABOVE), ABOVE, airborne=True)
    run = fly(Scenario("descent", (drone,), seconds, seed=1, wind=Constant(Vec3(level, 0.0, ratio * V_H))))
    table = run.drone_records[0].tables["state"]
    late = run.time > 3.0
    rates = np.stack([table[f"omega_B.{axis}"] for axis in "xy"])[:, late]
    jolts = np.diff(run.velocity[late, 2]) / np.diff(run.time[late])
    return float(rates.std(axis=1).max()), float(jolts.std()), run


@pytest.mark.long
def test_a_vertical_descent_shakes_and_a_slow_or_slanted_one_does_not():
    """Rates and thrust at 0.8 v_h are several times those at 0.2 v_h, and those at 0.8 v_h with a forward speed of v_h."""
    rate, jolt, _ = shaking(0.8)
    assert rate > 0.02
    for calm_rate, calm_jolt, _ in (shaking(0.2), shaking(0.8, V_H)):
        assert rate > 4.0 * calm_rate
        assert jolt > 4.0 * calm_jolt


def test_a_flight_through_its_wake_replays_bit_for_bit():
    """The gusts are recorded with the environment; a replay generates none."""
    run = shaking(1.0, seconds=3.5)[2]
    again = replay(run)
    assert np.array_equal(again.drone_records[0].tables["state"].rows, run.drone_records[0].tables["state"].rows)
    assert run.drone_records[0].tables["environment"]["hub_wind_W[2].z"].std() > 0.1


# Vehicle files ------------------------------------------------------------------------------------------------------


def test_a_file_keeps_it_and_what_cannot_be_felt_is_refused():
    again = parse_vehicle(vehicle_toml(WASHED), "iris.toml")
    assert again["propwash"] == WASHED["propwash"]
    assert again.structure == WASHED.structure
    with pytest.raises(VehicleError, match=r"propwash\.gusts = 0\.16 and rotor_air is off: expected rotor_air"):
        switch_on(samara.vehicle("iris_documented"), "propwash")
    with pytest.raises(VehicleError, match=r"propwash\.drag_area = -1.*expected a number that is not negative"):
        switch_on(samara.vehicle("iris_documented"), "propwash", drag_area=-1.0, gusts=0.0)


def test_the_usual_numbers_are_an_arm_under_every_disc():
    """C_D · (R/6) R for each rotor, R/4 below: in hover a download between 1 and 4 % of the thrust."""
    wash: Propwash = WASHED["propwash"]
    assert wash.drag_area == pytest.approx(4.0 * 1.17 * RADIUS**2 / 6.0)
    assert wash.distance == pytest.approx(RADIUS / 4.0)
    state, command = samara.hover(WASHED)
    parts = wrench_breakdown(state, command, WASHED)
    assert 0.01 < -parts["propwash"].f_B.z / parts["rotors"].f_B.z < 0.04
    assert state.q_WB == IDENTITY
