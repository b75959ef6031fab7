"""Batches of flights on JAX and in kernels: each is the flight of `samara.fly` with its seed and parameters."""

import math
from dataclasses import replace

import numpy as np
import pytest

import samara
from samara.core.algebra import Vec3
from samara.core.integrate import FIXED_STEP_INTEGRATORS
from samara.core.tree import flatten, leaf_names
from samara.estimate.ekf import ekf
from samara.physics.ground.contact import Ground
from samara.physics.ground.solids import Box
from samara.plan.reference import StraightLeg
from samara.plan.trajectory import hover, legs
from samara.scenario.events import Event, add_payload, at, fail_motor, fail_sensor, go_to, gust, land, when, wind_step
from samara.scenario.scenario import Drone, Scenario, ScenarioError
from samara.scenario.timeline import Rates
from samara.scenario.world import Obstacle, World
from samara.sensors.registry import part
from samara.sim.fly_many_jax import compile_segments, fly_batch_jax, require_traceable, start_values
from samara.sim.simulation import Simulation
from samara.wind.sources import Gust
from samara.wind.turbulence import Dryden

STRICT = {"dtype": "float64", "fast": False}
UP = legs(
    Vec3(0.0, 0.0, 0.0),
    [StraightLeg("up", Vec3(0.3, 0.0, 0.5), 1.0, 0.5), StraightLeg("down", Vec3(0.3, 0.0, -0.5), 1.5, 1.0)],
)


def airborne_scenario() -> Scenario:
    """Hover in a gust, without ground contact."""
    vehicle = samara.vehicle("crazyflie").without_effect("contact")
    drone = Drone("drone", vehicle, hover(Vec3(0.1, 0.0, 2.0)), start_W=Vec3(0.0, 0.0, 2.0), airborne=True)
    return Scenario("gust", (drone,), 0.1, wind=Gust(Vec3(2.0, 1.0, 0.0), 0.0, 0.2), rates=Rates(log=50.0))


def ground_scenario(duration: float, *, filtered: bool = False) -> Scenario:
    """Climb and descend in turbulence, on the true state or on a filter of IMU and motion capture."""
    sensors = (part("bmi088").sensor(), part("vicon").sensor()) if filtered else ()
    estimation = {"estimator": ekf(sensors, 4e-3), "sensors": sensors} if filtered else {}
    plain = samara.vehicle("crazyflie").without_effect("airspeed_moment", "damping", "rotor_momentum")
    drone = Drone("drone", plain, UP, **estimation)
    rates = Rates(log=50.0, sensor=250.0)
    return Scenario("up and down", (drone,), duration, wind=Dryden(Vec3(1.5, 0.5, 0.0)), rates=rates)


def recorded(scenario: Scenario, times: np.ndarray):
    track = samara.fly(scenario).drone_records[0]
    table = track.tables["state"]
    return track, table.rows[np.searchsorted(table.times_us, np.round(times * 1e6))]


def assert_flown(scenario: Scenario, seeds: range, tolerance: float, **options):
    flights = fly_batch_jax(scenario, np.array(seeds), **STRICT, record=0.02, **options)
    for flight, seed in enumerate(seeds):
        track, rows = recorded(replace(scenario, seed=seed), flights.time)
        scale = np.maximum(1.0, np.abs(rows))
        assert np.abs((flights.states[:, :, flight] - rows) / scale).max() < tolerance
        last = track.tables["state"].rows[-1]
        np.testing.assert_allclose([x[flight] for x in flatten(flights.final)], last, atol=tolerance, rtol=tolerance)
        assert flights.landed[flight] == bool(track.status("landed")[-1])
        assert flights.max_error[flight] == pytest.approx(max(track.metrics.max_error.value, 0.0), abs=tolerance)
        if track.metrics.squared_error.samples:
            assert flights.rms_error[flight] == pytest.approx(track.metrics.metric("rms_error"), abs=tolerance)
    return flights


def test_a_flight_in_a_batch_is_the_single_flight():
    flights = assert_flown(airborne_scenario(), range(2), 1e-12, backend="jax")
    assert len(flights) == 2
    assert "2 flights: 0 landed, 0 crashed" in str(flights)
    assert flights.time.tolist() == pytest.approx([0.0, 0.02, 0.04, 0.06, 0.08, 0.1])


@pytest.mark.long
@pytest.mark.parametrize("backend", ["jax", "pallas"])
def test_take_off_and_landing_in_turbulence(backend):
    """Contact is skipped while no drone can reach the ground, and the results are the same to rounding."""
    flights = assert_flown(ground_scenario(4.0), range(3), 1e-6, backend=backend)
    assert flights.landed.any()
    assert (flights.max_touchdown_speed > 0.05).all()


@pytest.mark.long
@pytest.mark.parametrize("options", [{"backend": "jax"}, {"backend": "pallas"}])
def test_a_kalman_filter_in_the_loop(options):
    assert_flown(ground_scenario(0.6, filtered=True), range(2), 1e-9, **options)


@pytest.mark.long
def test_float32_flies_the_same_flights_to_a_tenth_of_a_millimetre():
    scenario, seeds = ground_scenario(2.0), np.arange(4)
    exact = fly_batch_jax(scenario, seeds, **STRICT)
    single = fly_batch_jax(scenario, seeds, dtype="float32", fast=True)
    np.testing.assert_allclose(single.max_error, exact.max_error, atol=1e-4)
    np.testing.assert_allclose(single.rms_error, exact.rms_error, atol=1e-4)


@pytest.mark.long
def test_each_flight_has_separate_parameters_start_and_goal():
    scenario = airborne_scenario()
    drone = scenario.drones[0]
    drag = drone.vehicle["drag"].linear
    shift = np.array([[0.0, 0.2], [0.0, 0.0], [0.0, 0.1]])
    varied = {"drag.linear": np.outer([1.0, 3.0], flatten(drag))}
    trim = samara.hover(drone.vehicle, Vec3(0.0, 0.0, 2.0), scenario.environment_by_height(2.0))[0]
    start = trim._replace(v_W=Vec3(0.0, np.array([0.0, 0.5]), 0.0))
    flights = fly_batch_jax(scenario, np.zeros(2, dtype=int), vary=varied, goal_shift=shift, start=start, **STRICT)
    plain = fly_batch_jax(scenario, np.zeros(1, dtype=int), **STRICT)
    assert flights.final.p_W.x[0] == pytest.approx(plain.final.p_W.x[0], abs=1e-12)
    heavier = replace(
        drone, vehicle=drone.vehicle.replace({"drag.linear": drag * 3.0}), task=drone.task.shift(Vec3(0.2, 0.0, 0.1))
    )
    single = fly_batch_jax(
        replace(scenario, drones=(heavier,)),
        np.zeros(1, dtype=int),
        start=start._replace(v_W=Vec3(0.0, 0.5, 0.0)),
        **STRICT,
    )
    np.testing.assert_allclose(
        [x[1] for x in flatten(flights.final)], [x[0] for x in flatten(single.final)], rtol=1e-12
    )


@pytest.mark.long
@pytest.mark.parametrize(
    ("scenario", "of_the_wind", "tolerance"),
    [
        (
            airborne_scenario(),
            {"wind.amplitude_W.x": np.array([0.5, 3.0]), "wind.duration": np.array([0.1, 0.3])},
            1e-12,
        ),
        (ground_scenario(1.0), {"wind.sigma_aloft": np.array([0.5, 3.0])}, 1e-6),
    ],
    ids=["gust", "turbulence"],
)
def test_each_flight_has_a_separate_wind_position_and_heading(scenario, of_the_wind, tolerance):
    """Against LLVM, whose flights are those of `samara.fly`."""
    starts = np.array([[0.2, -0.1, 0.0], [-0.3, 0.1, 0.0]]) + np.array(flatten(scenario.drones[0].start_W))
    vary = {**of_the_wind, "start_W": starts, "yaw": np.array([0.4, -1.0])}
    exact = samara.fly_many(scenario, 2, vary=vary)
    actual = samara.fly_many(scenario, 2, vary=vary, backend="jax", **STRICT)
    for actual_leaf, expected_leaf in zip(flatten(actual.final), flatten(exact.final), strict=True):
        np.testing.assert_allclose(actual_leaf, expected_leaf, atol=tolerance, rtol=tolerance)


def test_an_event_at_a_fixed_time_begins_another_segment_of_the_flight():
    """A motor fails in all flights; states before and after are those of the CPU, and so are the metrics."""
    scenario = replace(
        airborne_scenario(), events=(Event(at(0.04), fail_motor(1)), Event(at(0.064), gust((1.0, 2.0, 0.0), 0.1)))
    )
    exact = samara.fly_many(scenario, 2)
    actual = samara.fly_many(scenario, 2, backend="jax", **STRICT)
    assert_same(actual, exact, 1e-12)
    assert exact.final.omega_B.x[0] != samara.fly_many(airborne_scenario(), 1).final.omega_B.x[0]


def assert_same(actual, expected, tolerance):
    for name, actual_leaf, expected_leaf in zip(
        leaf_names(expected.final), flatten(actual.final), flatten(expected.final), strict=True
    ):
        np.testing.assert_allclose(actual_leaf, expected_leaf, atol=tolerance, rtol=tolerance, err_msg=name)
    for name, actual_leaf, expected_leaf in zip(
        expected.metrics._fields, actual.metrics, expected.metrics, strict=True
    ):
        np.testing.assert_allclose(actual_leaf, expected_leaf, atol=tolerance, rtol=tolerance, err_msg=name)
    assert (actual.landed == expected.landed).all() and (actual.crashed == expected.crashed).all()


def change_scenario(scenario, drone=None, **changes):
    return replace(scenario, drones=(replace(scenario.drones[0], **(drone or {})),), **changes)


def standing_scenario() -> Scenario:
    """From the ground in calm air."""
    return samara.load_scenario("hover", {"duration": 1.0})


WALL = World((Obstacle("wall", Box(Vec3(0.35, 0.0, 2.0), half=Vec3(0.05, 1.0, 1.0))),))
TILTED = Ground(Vec3(0.0, 0.0, 0.0), Vec3(0.1, 0.0, math.sqrt(0.99)))
STRONGER = samara.vehicle("crazyflie").replace({"rotors.k_thrust": 3e-8})
FLOWN_IN_JAX = {
    **{
        f"integrator {name}": (lambda name=name: replace(standing_scenario(), integrator=name), 1e-12)
        for name in FIXED_STEP_INTEGRATORS
    },
    "not armed": (lambda: change_scenario(standing_scenario(), {"armed": False}), 1e-12),
    "motor map": (lambda: change_scenario(standing_scenario(), {"motor_map": (1, 0, 3, 2)}, duration=0.3), 1e-9),
    "model of another vehicle": (lambda: change_scenario(standing_scenario(), {"model": STRONGER}), 1e-12),
    "sloped ground": (
        lambda: replace(standing_scenario(), environment=standing_scenario().environment._replace(ground=TILTED)),
        1e-12,
    ),
    "go to and land": (
        lambda: replace(standing_scenario(), events=(Event(at(0.5), go_to((1.0, 0.5, 1.0))), Event(at(0.8), land()))),
        1e-12,
    ),
    "wind step": (lambda: replace(ground_scenario(0.6), events=(Event(at(0.3), wind_step((1.0, 2.0, 0.0))),)), 1e-6),
    "gust on top of turbulence": (
        lambda: replace(
            ground_scenario(0.6),
            wind=Dryden.from_direction(3.0, 0.5, sigma_aloft=1.5),
            events=(Event(at(0.31), gust((1.0, 2.0, 0.0), 0.2)),),
        ),
        1e-6,
    ),
    "payload": (lambda: replace(standing_scenario(), events=(Event(at(0.5), add_payload(0.004)),)), 1e-12),
    "sensor failure": (
        lambda: replace(ground_scenario(0.4, filtered=True), events=(Event(at(0.2), fail_sensor("vision")),)),
        1e-9,
    ),
    "wall": (
        lambda: change_scenario(airborne_scenario(), {"task": hover(Vec3(1.0, 0.0, 2.0))}, world=WALL, duration=0.8),
        1e-4,
    ),
    "wind at the hubs": (lambda: replace(ground_scenario(0.4), wind_per_rotor=True), 1e-6),
}


@pytest.mark.long
@pytest.mark.parametrize("feature", FLOWN_IN_JAX)
def test_jax_supports_the_features_of_the_cpu(feature):
    create_scenario, tolerance = FLOWN_IN_JAX[feature]
    scenario = create_scenario()
    assert_same(samara.fly_many(scenario, 2, backend="jax", **STRICT), samara.fly_many(scenario, 2), tolerance)


@pytest.mark.long
def test_a_predictive_controller_flies_in_the_loop_of_xla_and_is_refused_in_a_kernel():
    scenario = samara.load_scenario("hover", {"duration": 0.4, "drones.controller": "mpc"})
    assert_same(samara.fly_many(scenario, 2, backend="jax", **STRICT), samara.fly_many(scenario, 2), 1e-9)
    with pytest.raises(ScenarioError, match=r"hover: mpc .*: expected the backend jax for it"):
        samara.fly_many(scenario, 2, backend="pallas")


def python_controller(state, reference, vehicle, controller_state):
    return (0.0,) * 4


UNSUPPORTED = {
    "Python": (
        lambda: change_scenario(airborne_scenario(), {"controller": python_controller}),
        "'controller' runs in Python: controller in Python",
    ),
    "adaptive steps": (lambda: replace(airborne_scenario(), integrator="rk45"), "'physics' runs in Python"),
    "conditions": (
        lambda: replace(airborne_scenario(), events=(Event(when("height > 3"), land()),)),
        "conditions of events, which each flight meets at its own time",
    ),
}


@pytest.mark.parametrize("feature", UNSUPPORTED)
def test_unsupported_features_on_jax_are_an_error_with_the_reason(feature):
    create_scenario, sentence = UNSUPPORTED[feature]
    with pytest.raises(ScenarioError, match=sentence):
        require_traceable(create_scenario())


def test_a_flight_from_the_top_of_a_solid_starts_at_rest_on_it():
    table = World((Obstacle("table", Box(Vec3(0.0, 0.0, 0.4), half=Vec3(1.0, 1.0, 0.05))),))
    scenario = change_scenario(standing_scenario(), {"start_W": Vec3(0.0, 0.0, 0.45)}, world=table)
    ((segment, _),) = compile_segments(replace(scenario, events=()), backend="jax", dtype="float64", fast=False)
    leaves = start_values(scenario, segment, np.arange(1), {}, None, None, "float64")["state"]
    (group,) = Simulation(scenario).fleet.groups
    assert [float(x[0]) for x in leaves] == group.slots["state"][:, 0].tolist()


def test_an_event_that_depends_on_each_flight_is_an_error():
    def follow_state(setting, bus):
        return setting if bus.drones[0].state.p_W.z > 1.0 else land()(setting, bus)

    with pytest.raises(ScenarioError, match="depends on the state of each flight"):
        require_traceable(replace(airborne_scenario(), events=(Event(at(0.04), follow_state, "own"),)))


def test_a_changed_task_with_shifted_goals_is_an_error():
    scenario = replace(airborne_scenario(), events=(Event(at(0.04), land()),))
    with pytest.raises(ScenarioError, match="an event changes the task, and goals are shifted"):
        samara.fly_many(scenario, 2, vary={"goal_shift": np.zeros((2, 3))}, backend="jax")


def test_a_record_between_two_ticks_is_an_error():
    with pytest.raises(ValueError, match=r"record is 0.003 s; expected a multiple of 0.004 s"):
        fly_batch_jax(airborne_scenario(), [0], record=0.003)
