"""Batches of flights of several drones: results (drones, flights); on the CPU the bits of `samara.fly`, on JAX to rounding."""

from dataclasses import replace

import numpy as np
import pytest

import samara
from samara.core.algebra import Vec3
from samara.core.tree import flatten, leaf_names
from samara.estimate.ekf import ekf
from samara.physics.ground.impact import Material
from samara.plan.trajectory import hover
from samara.scenario.events import Event, at, disarm, fail_motor, go_to
from samara.scenario.scenario import Drone, Expectations, Scenario, ScenarioError
from samara.scenario.timeline import Rates
from samara.scenario.world import World
from samara.sensors.registry import part
from samara.sim.fly_many_jax import compile_segments, fly_batch_jax, require_traceable, start_values
from samara.sim.simulation import Simulation
from samara.wind.sources import OrnsteinUhlenbeck, WindSum
from samara.wind.turbulence import Dryden

STRICT = {"dtype": "float64", "fast": False}
SIMPLE = samara.vehicle("crazyflie").without_effect("contact", "airspeed_moment", "damping", "rotor_momentum")
STARTS = (Vec3(-0.09, 0.0, 2.0), Vec3(0.09, 0.01, 2.0), Vec3(0.0, 3.0, 2.0))
GOALS = (Vec3(1.0, 0.0, 2.0), Vec3(-1.0, 0.0, 2.0), Vec3(0.3, 3.0, 2.0))
GUSTS = WindSum((OrnsteinUhlenbeck(Vec3(0.5, 0.0, 0.0), 1.0, 0.5), Dryden(Vec3(1.5, 0.5, 0.0))))


def team(duration: float = 0.2, drone=None, **changes) -> Scenario:
    """Three drones in the air; the first two fly towards each other."""
    drones = tuple(
        Drone(f"d{k}", SIMPLE, hover(goal), start_W=start, airborne=True, **(drone or {}))
        for k, (start, goal) in enumerate(zip(STARTS, GOALS, strict=True))
    )
    return replace(Scenario("team", drones, duration, rates=Rates(log=50.0, sensor=250.0)), **changes)


def assert_same(actual_flights, expected_flights, tolerance):
    for tree, other in (
        (expected_flights.final, actual_flights.final),
        (expected_flights.metrics, actual_flights.metrics),
    ):
        for name, expected, actual in zip(leaf_names(tree), flatten(tree), flatten(other), strict=True):
            assert np.shape(actual) == np.shape(expected), name
            # JAX computes no command at the last instant, so its minimum voltage is that of the command before
            leaf_tolerance = 1e-6 if name == "min_voltage" else tolerance
            np.testing.assert_allclose(actual, expected, atol=leaf_tolerance, rtol=leaf_tolerance, err_msg=name)
    np.testing.assert_allclose(actual_flights.states, expected_flights.states, atol=tolerance, rtol=tolerance)
    assert (actual_flights.landed == expected_flights.landed).all() and (
        actual_flights.crashed == expected_flights.crashed
    ).all()
    for actual, expected in zip(actual_flights.outcomes, expected_flights.outcomes, strict=True):
        assert (actual.field, actual.drone) == (expected.field, expected.drone)
        assert (actual.satisfied == expected.satisfied).all()


# CPU -------------------------------------------------------------------------------------------------------------------


def test_each_flight_of_a_team_is_the_flight_of_its_seed():
    scenario = team(wind=GUSTS, expect=Expectations(max_error=1.0))
    flights = samara.fly_many(scenario, seeds=[3, 8], record=0.1)
    assert flights.final.p_W.x.shape == flights.crashed.shape == flights.rms_error.shape == flights.lost.shape == (3, 2)
    assert flights.states.shape == (3, len(flatten(flights.final)), 3, 2)
    for k, seed in enumerate((3, 8)):
        tracks = samara.fly(replace(scenario, seed=seed)).drone_records
        for drone, track in enumerate(tracks):
            table = track.tables["state"]
            assert [x[drone, k] for x in flatten(flights.final)] == table.rows[-1].tolist()
            assert (flights.states[:, :, drone, k] == table.rows[np.isin(table.times_us, (0, 100_000, 200_000))]).all()
    assert [(outcome.field, outcome.drone) for outcome in flights.outcomes] == [
        ("no_crash", ""),
        *(("max_error", f"d{k}") for k in range(3)),
    ]
    assert all(outcome.satisfied.shape == (2,) for outcome in flights.outcomes)
    assert str(flights).startswith("2 flights of 3 drones: 0 landed, 0 crashed, largest error")


def test_vehicles_with_different_states_are_an_error():
    scenario = team()
    mixed = replace(scenario, drones=(scenario.drones[0], replace(scenario.drones[1], vehicle=samara.vehicle("iris"))))
    with pytest.raises(ScenarioError, match="the states of drones 'd0' and 'd1' have different components: expected"):
        samara.fly_many(mixed, 2)


@pytest.mark.parametrize("backend", ["llvm", "jax", "pallas"])
def test_varied_parameters_of_several_drones_are_an_error(backend):
    with pytest.raises(ScenarioError, match="team: 3 drones: expected one drone where parameters vary"):
        samara.fly_many(team(), 2, vary={"mass": [0.03, 0.04]}, backend=backend)


# JAX -------------------------------------------------------------------------------------------------------------------


def other_mass() -> Scenario:
    scenario = team()
    heavier = replace(scenario.drones[2], vehicle=SIMPLE.replace({"mass": 0.04}))
    return replace(scenario, drones=(*scenario.drones[:2], heavier))


REFUSED = {
    "another vehicle": (
        other_mass,
        "drones 'd0' and 'd2' differ: vehicle: expected drones that differ in start and task",
    ),
    "a motor of one drone": (
        lambda: team(events=(Event(at(0.1), fail_motor(1, "d1")),)),
        "drones 'd0' and 'd1' differ: motors fail",
    ),
    "propellers that break": (
        lambda: team(world=World(collisions=True, propeller_strike="break")),
        "'physics' runs in Python: collisions",
    ),
    "an autopilot": (
        lambda: samara.load_scenario("hover", {"duration": 0.5, "drones.autopilot": "px4"}),
        "an autopilot controls 'drone': expected controllers that can be traced",
    ),
}


@pytest.mark.parametrize("feature", REFUSED)
def test_unsupported_features_on_jax_are_an_error_with_the_reason(feature):
    create_scenario, sentence = REFUSED[feature]
    with pytest.raises(ScenarioError, match=sentence):
        require_traceable(create_scenario())


def test_a_kernel_takes_one_drone():
    with pytest.raises(ScenarioError, match=r"team: 3 drones, whose arrays .*: expected the backend jax for it"):
        samara.fly_many(team(), 2, backend="pallas")
    with pytest.raises(ScenarioError, match="3 drones: expected one drone where parameters vary"):
        fly_batch_jax(team(), [0], goal_shift=np.zeros(3))


def test_every_drone_has_separate_initial_values():
    """States, and the biases of sensors that are drawn at the start, in both flights."""
    sensors = part("bmi088").sensor(), part("vicon").sensor()
    scenario = team(drone={"estimator": ekf(sensors, 4e-3), "sensors": sensors})
    ((segment, _),) = compile_segments(scenario, backend="jax", **STRICT)
    values_by_slot = start_values(scenario, segment, np.array([5, 6]), {}, None, None, "float64")
    differing_slots = set()
    for flight, seed in enumerate((5, 6)):
        (group,) = Simulation(replace(scenario, seed=seed)).fleet.groups
        for name in ("state", "status", *segment.sets["sensors"].slots, *segment.sets["estimator"].slots):
            for leaf, row in zip(values_by_slot[name], group.slots[name], strict=True):
                values = np.broadcast_to(leaf, (3, 2))[:, flight]
                np.testing.assert_allclose(values, row, rtol=1e-9, atol=1e-12, err_msg=name)
                differing_slots |= {name} if len(set(values.tolist())) == 3 and name != "state" else set()
    assert differing_slots


FEATURES = {
    "downwash": (lambda: samara.load_scenario("stack", {"duration": 1.0}), {}, 1e-9),
    "swarm": (
        lambda: samara.load_scenario("swarm", {"duration": 1.0, "drones.count": 4, "drones.columns": 2}),
        {},
        1e-9,
    ),
    "collision": (lambda: team(0.4, world=World(collisions=True, drone=Material(0.5, 0.3))), {"record": 0.02}, 1e-9),
    "gusts": (
        lambda: team(wind=GUSTS, events=(Event(at(0.1), disarm("d1")), Event(at(0.1), go_to(GOALS[0], drone="d2")))),
        {"record": 0.02},
        1e-9,
    ),
}


@pytest.mark.long
@pytest.mark.parametrize("feature", FEATURES)
def test_jax_flies_the_drones_of_the_cpu(feature):
    create_scenario, options, tolerance = FEATURES[feature]
    scenario = create_scenario()
    exact = samara.fly_many(scenario, 2, **options)
    assert_same(samara.fly_many(scenario, 2, backend="jax", **STRICT, **options), exact, tolerance)
    if feature == "downwash":  # the lowest is pushed down most
        assert exact.max_error[0, 0] > exact.max_error[1, 0] + 0.05 > exact.max_error[2, 0] + 0.1
    if feature == "collision":
        assert exact.crashed.tolist() == [[True, True], [True, True], [False, False]]
    if feature == "gusts":
        assert (exact.final.v_W.z[1] < -0.3).all() and (np.abs(exact.final.v_W.z[[0, 2]]) < 0.2).all()
