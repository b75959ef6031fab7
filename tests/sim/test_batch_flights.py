"""Many flights in the lanes of JAX and of kernels: each is the flight that `samara.fly` flies with its seed and numbers."""

from dataclasses import replace

import numpy as np
import pytest

import samara
from samara.core.algebra import Vec3
from samara.core.tree import flatten
from samara.estimate.ekf import ekf
from samara.plan.reference import Leg
from samara.plan.trajectory import hover, legs
from samara.scenario.events import Event, at, wind_step
from samara.scenario.scenario import Drone, Scenario, ScenarioError
from samara.scenario.timeline import Rates
from samara.sensors.loader import part
from samara.sim.batch_jax import fly_batch_jax
from samara.wind.sources import Gust
from samara.wind.turbulence import Dryden

STRICT = {"dtype": "float64", "fast": False}
UP = legs(Vec3(0.0, 0.0, 0.0), [Leg("up", Vec3(0.3, 0.0, 0.5), 1.0, 0.5), Leg("down", Vec3(0.3, 0.0, -0.5), 1.5, 1.0)])


def in_the_air() -> Scenario:
    """Hovering in a gust, with nothing to touch"""
    vehicle = samara.vehicle("crazyflie").without_effect("contact")
    drone = Drone("drone", vehicle, hover(Vec3(0.1, 0.0, 2.0)), start_W=Vec3(0.0, 0.0, 2.0), airborne=True)
    return Scenario("gust", (drone,), 0.1, wind=Gust(Vec3(2.0, 1.0, 0.0), 0.0, 0.2), rates=Rates(log=50.0))


def from_the_ground(duration: float, *, filtered: bool = False) -> Scenario:
    """Up and down again in turbulence, on the truth or on what an IMU and cameras say"""
    sensors = (part("bmi088").sensor(), part("vicon").sensor()) if filtered else ()
    known = {"estimator": ekf(sensors, 4e-3), "sensors": sensors} if filtered else {}
    plain = samara.vehicle("crazyflie").without_effect("airspeed_moment", "damping", "rotor_momentum")
    drone = Drone("drone", plain, UP, **known)
    rates = Rates(log=50.0, sensor=250.0)
    return Scenario("up and down", (drone,), duration, wind=Dryden(Vec3(1.5, 0.5, 0.0)), rates=rates)


def recorded(scenario: Scenario, times: np.ndarray):
    track = samara.fly(scenario).tracks[0]
    table = track.tables["state"]
    return track, table.rows[np.searchsorted(table.times_us, np.round(times * 1e6))]


def assert_flown(scenario: Scenario, seeds: range, tolerance: float, **how):
    flights = fly_batch_jax(scenario, np.array(seeds), **STRICT, record=0.02, **how)
    for lane, seed in enumerate(seeds):
        track, rows = recorded(replace(scenario, seed=seed), flights.time)
        scale = np.maximum(1.0, np.abs(rows))
        assert np.abs((flights.states[:, :, lane] - rows) / scale).max() < tolerance
        last = track.tables["state"].rows[-1]
        np.testing.assert_allclose([x[lane] for x in flatten(flights.final)], last, atol=tolerance, rtol=tolerance)
        assert flights.landed[lane] == bool(track.status("landed")[-1])
        assert flights.worst_error[lane] == pytest.approx(max(track.figures.worst.value, 0.0), abs=tolerance)
        if track.figures.error.count:
            assert flights.rms_error[lane] == pytest.approx(track.figures.error.root, abs=tolerance)
    return flights


def test_a_flight_in_a_lane_is_the_flight():
    flights = assert_flown(in_the_air(), range(2), 1e-12, backend="jax")
    assert len(flights) == 2
    assert "2 flights: 0 landed, 0 crashed" in str(flights)
    assert flights.time.tolist() == pytest.approx([0.0, 0.02, 0.04, 0.06, 0.08, 0.1])


@pytest.mark.long
@pytest.mark.parametrize("backend", ["jax", "pallas"])
def test_take_off_and_landing_in_turbulence(backend):
    """Contact is left out while nobody can come to the ground, and so the numbers are the same to rounding"""
    flights = assert_flown(from_the_ground(4.0), range(3), 1e-6, backend=backend)
    assert flights.landed.any()
    assert (flights.touchdown_speed > 0.05).all()


@pytest.mark.long
@pytest.mark.parametrize("how", [{"backend": "jax"}, {"backend": "pallas"}])
def test_a_kalman_filter_in_the_loop(how):
    assert_flown(from_the_ground(0.6, filtered=True), range(2), 1e-9, **how)


@pytest.mark.long
def test_float32_flies_the_same_flights_to_a_tenth_of_a_millimetre():
    scenario, seeds = from_the_ground(2.0), np.arange(4)
    exact = fly_batch_jax(scenario, seeds, **STRICT)
    single = fly_batch_jax(scenario, seeds, dtype="float32", fast=True)
    np.testing.assert_allclose(single.worst_error, exact.worst_error, atol=1e-4)
    np.testing.assert_allclose(single.rms_error, exact.rms_error, atol=1e-4)


@pytest.mark.long
def test_each_flight_has_numbers_a_start_and_a_goal_of_its_own():
    scenario = in_the_air()
    drone = scenario.drones[0]
    drag = drone.vehicle["drag"].linear
    shift = np.array([[0.0, 0.2], [0.0, 0.0], [0.0, 0.1]])
    varied = {"drag.linear": np.outer([1.0, 3.0], flatten(drag))}
    trim = samara.hover(drone.vehicle, Vec3(0.0, 0.0, 2.0), scenario.environment_at(2.0))[0]
    start = trim._replace(v_W=Vec3(0.0, np.array([0.0, 0.5]), 0.0))
    flights = fly_batch_jax(scenario, np.zeros(2, dtype=int), vary=varied, goal_shift=shift, start=start, **STRICT)
    plain = fly_batch_jax(scenario, np.zeros(1, dtype=int), **STRICT)
    assert flights.final.p_W.x[0] == pytest.approx(plain.final.p_W.x[0], abs=1e-12)
    heavier = replace(
        drone, vehicle=drone.vehicle.replace({"drag.linear": drag * 3.0}), task=drone.task.moved(Vec3(0.2, 0.0, 0.1))
    )
    alone = fly_batch_jax(
        replace(scenario, drones=(heavier,)),
        np.zeros(1, dtype=int),
        start=start._replace(v_W=Vec3(0.0, 0.5, 0.0)),
        **STRICT,
    )
    np.testing.assert_allclose([x[1] for x in flatten(flights.final)], [x[0] for x in flatten(alone.final)], rtol=1e-12)


@pytest.mark.long
@pytest.mark.parametrize(
    ("scenario", "of_the_wind", "tolerance"),
    [
        (in_the_air(), {"wind.amplitude_W.x": np.array([0.5, 3.0]), "wind.duration": np.array([0.1, 0.3])}, 1e-12),
        (from_the_ground(1.0), {"wind.sigma_aloft": np.array([0.5, 3.0])}, 1e-6),
    ],
    ids=["gust", "turbulence"],
)
def test_each_flight_has_a_wind_a_place_and_a_heading_of_its_own(scenario, of_the_wind, tolerance):
    """As LLVM flies them, whose flights are those of `samara.fly`"""
    moved = np.array([[0.2, -0.1, 0.0], [-0.3, 0.1, 0.0]]) + np.array(flatten(scenario.drones[0].start_W))
    vary = {**of_the_wind, "start_W": moved, "yaw": np.array([0.4, -1.0])}
    exact = samara.fly_many(scenario, 2, vary=vary)
    found = samara.fly_many(scenario, 2, vary=vary, backend="jax", **STRICT)
    for one, other in zip(flatten(found.final), flatten(exact.final), strict=True):
        np.testing.assert_allclose(one, other, atol=tolerance, rtol=tolerance)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            {"events": (Event(at(1.0), wind_step((1.0, 0.0, 0.0))),)},
            "gust: events: expected a flight of arithmetic alone",
        ),
        ({"integrator": "rk45"}, "the integrator rk45"),
        ({"drones": in_the_air().drones * 2}, "2 drones"),
    ],
)
def test_what_only_python_can_do_is_refused(change, sentence):
    with pytest.raises(ScenarioError, match=sentence):
        fly_batch_jax(replace(in_the_air(), **change), [0])


def test_a_record_between_two_ticks_is_refused():
    with pytest.raises(ValueError, match=r"record is 0.003 s; expected a multiple of 0.004 s"):
        fly_batch_jax(in_the_air(), [0], record=0.003)
