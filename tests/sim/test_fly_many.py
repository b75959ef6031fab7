"""A batch of flights: flight i is the single flight with its seed and parameters, independent of the others."""

from dataclasses import replace

import numpy as np
import pytest

import samara
from samara.compiler.batch_parameters import _parametric_code
from samara.control.registry import controller_spec
from samara.core.algebra import Vec3
from samara.core.tree import flatten
from samara.plan import trajectory as plan
from samara.scenario.events import Event, at, fail_motor, gust, when
from samara.wind.sources import Constant
from samara.wind.turbulence import Dryden

STORM = Dryden(Constant(Vec3(2.0, 0.5, 0.0)))
HOP = plan.sequence(
    plan.take_off(Vec3(0.0, 0.0, 0.0), height=0.4, speed=2.0), plan.land(Vec3(0.0, 0.0, 0.4), height=-0.05, speed=1.0)
)


def hop_scenario(**changes):
    base = samara.load_scenario(
        "waypoints", {"duration": 1.0, "drones.vehicle": "crazyflie", "drones.controller": "geometric"}
    )
    return replace(base, drones=(replace(base.drones[0], task=HOP),), wind=STORM, **changes)


def final(flights, i):
    return np.array([np.broadcast_to(leaf, (len(flights),))[i] for leaf in flatten(flights.final)])


def fly_single(scenario, seed):
    return samara.fly(replace(scenario, seed=int(seed))).drone_records[0].tables


@pytest.mark.parametrize("n", [1, 3, 11])
def test_a_flight_has_the_bits_of_its_seed_in_every_batch_size(n):
    seeds = np.array([7, 2**40, 3, 0, 1, 5, 6, 8, 9, 10, 11][:n])
    flights = samara.fly_many(hop_scenario(), seeds=seeds, record=0.1)
    for i in {0, n - 1}:
        single = fly_single(hop_scenario(), seeds[i])
        assert final(flights, i).tobytes() == single["state"].rows[-1].tobytes()
        recorded_rows = single["state"].rows[np.isin(single["state"].times_us, np.round(1e6 * flights.time))]
        assert flights.states[:, :, i].tobytes() == recorded_rows.tobytes()
        assert bool(flights.landed[i]) == bool(single["status"].rows[-1][0])


def test_flights_with_equal_seeds_are_equal_and_others_differ():
    flights = samara.fly_many(hop_scenario(), seeds=[4, 4, 5])
    assert final(flights, 0).tobytes() == final(flights, 1).tobytes() != final(flights, 2).tobytes()


def test_the_metrics_are_those_of_the_recording():
    """Worst and RMS error, tilt, height: equal to those that the recording code computes for the single flight."""
    flights = samara.fly_many(hop_scenario(), seeds=[3, 12])
    for i, seed in enumerate((3, 12)):
        metrics = samara.fly(replace(hop_scenario(), seed=seed)).drone_records[0].metrics
        assert flights.max_error[i] == metrics.max_error.value
        assert flights.rms_error[i] == metrics.metric("rms_error")
        assert (flights.metrics.max_height[i], flights.metrics.min_height[i]) == (
            metrics.max_height.value,
            metrics.min_height.value,
        )


def test_start_goal_and_parameters_of_each_flight_are_those_of_a_scenario_with_them():
    """Mass, start and goal of every flight: the same bits as the flight of a vehicle with these values."""
    mass, shift = 0.03 * np.array([1.0, 1.1, 0.95]), np.array([[0.0, 0.0, 0.0], [0.3, 0.0, 0.0], [0.0, -0.2, 0.1]])
    vary = {"mass": mass, "start_W": shift * [1.0, 1.0, 0.0], "goal_shift": shift}
    flights = samara.fly_many(hop_scenario(), seeds=[1, 2, 3], vary=vary)
    for i in range(3):
        drone = hop_scenario().drones[0]
        changed_drone = replace(
            drone,
            vehicle=drone.vehicle.replace(mass=float(mass[i])),
            start_W=Vec3(*(shift[i] * [1.0, 1.0, 0.0]).tolist()),
            task=drone.task.shift(Vec3(*shift[i].tolist())),
        )
        state_table = fly_single(replace(hop_scenario(), drones=(changed_drone,)), i + 1)["state"]
        assert final(flights, i).tobytes() == state_table.rows[-1].tobytes()


def test_each_flight_has_its_wind_parameters():
    """σ aloft of every flight: the same bits as the flight in that wind."""
    sigma = np.array([0.5, 1.5, 3.0])
    flights = samara.fly_many(hop_scenario(), seeds=[1, 2, 3], vary={"wind.sigma_aloft": sigma})
    for i in range(3):
        windy = replace(hop_scenario(), wind=replace(STORM, sigma_aloft=float(sigma[i])))
        assert final(flights, i).tobytes() == fly_single(windy, i + 1)["state"].rows[-1].tobytes()


def ten_parameters(n):
    """Parameters of the vehicle, its controller, its wind, its start and its goal, all varied at once."""
    vehicle, rng = hop_scenario().drones[0].vehicle, np.random.default_rng(4)
    factors = lambda: rng.uniform(0.93, 1.07, n)  # noqa: E731
    return {
        "mass": vehicle.mass * factors(),
        "inertia_B.xx": vehicle.inertia_B.xx * factors(),
        "rotors.k_thrust": vehicle.rotors[0].k_thrust * factors(),
        "rotors.k_torque": vehicle.rotors[0].k_torque * factors(),
        "rotors.motor.time_constant_up": vehicle.rotors[0].motor.time_constant_up * factors(),
        "drag.linear": np.array(vehicle["drag"].linear) * factors()[:, None],
        "controller.position": 2.0 * factors(),
        "wind.sigma_aloft": 1.5 * factors(),
        "wind.mean.wind_W": np.array([2.0, 0.5, 0.0]) * factors()[:, None],
        "start_W": np.array([0.1, -0.2, 0.0]) * factors()[:, None],
        "goal_shift": np.array([0.1, -0.2, 0.1]) * factors()[:, None],
    }


def apply_flight_values(scenario, vary, i):
    """Apply the values of flight i explicitly, without the code of fly_many."""
    drone, wind = scenario.drones[0], scenario.wind
    values_of_flight = {name: values[i].tolist() for name, values in vary.items()}
    changes = {
        name: values_of_flight[name]
        for name in ("mass", "rotors.k_thrust", "rotors.k_torque", "rotors.motor.time_constant_up")
        if name in values_of_flight
    }
    inertia = drone.vehicle.inertia_B
    changes["inertia_B"] = inertia._replace(xx=values_of_flight.get("inertia_B.xx", inertia.xx))
    if "drag.linear" in values_of_flight:
        changes["drag.linear"] = Vec3(*values_of_flight["drag.linear"])
    controller = (
        controller_spec("geometric", position=values_of_flight["controller.position"])
        if "controller.position" in values_of_flight
        else None
    )
    drone = replace(
        drone,
        vehicle=drone.vehicle.replace(changes),
        controller=controller or drone.controller,
        start_W=Vec3(*values_of_flight.get("start_W", drone.start_W)),
        task=drone.task.shift(Vec3(*values_of_flight.get("goal_shift", (0.0, 0.0, 0.0)))),
    )
    wind = replace(wind, sigma_aloft=values_of_flight.get("wind.sigma_aloft", wind.sigma_aloft))
    if "wind.mean.wind_W" in values_of_flight:
        wind = replace(wind, mean=Constant(Vec3(*values_of_flight["wind.mean.wind_W"])))
    return replace(scenario, drones=(drone,), wind=wind)


def test_ten_parameters_vary_at_once_and_are_traced_once():
    """Every flight has the bits of `samara.fly` with its values, and 24 flights need at most six new programs."""
    vary, initial_misses = ten_parameters(24), _parametric_code.cache_info().misses
    flights = samara.fly_many(hop_scenario(), 24, vary=vary)
    assert 0 < _parametric_code.cache_info().misses - initial_misses <= 6
    for i in (0, 5, 23):
        scenario = replace(hop_scenario(), seed=int(flights.seeds[i]))
        run = samara.fly(scenario, vary={name: values[i].tolist() for name, values in vary.items()})
        assert final(flights, i).tobytes() == run.drone_records[0].tables["state"].rows[-1].tobytes()
    repeated = samara.fly_many(hop_scenario(), 24, vary=vary)
    assert all(final(repeated, i).tobytes() == final(flights, i).tobytes() for i in range(24))


def test_flights_with_zero_or_equal_parameters_have_the_same_bits():
    """Zero drag, and an inertia equal to that of another axis: values that a single flight could fold."""
    vehicle = hop_scenario().drones[0].vehicle
    drag, inertia = np.array(vehicle["drag"].linear), vehicle.inertia_B
    vary = {
        "drag.linear": np.array([drag, 0.0 * drag, 1.1 * drag, drag]),
        "inertia_B.xx": np.array([1.1 * inertia.xx, inertia.xx, inertia.yy, inertia.zz]),
    }
    flights = samara.fly_many(hop_scenario(), 4, vary=vary)
    for i in range(4):
        scenario = apply_flight_values(hop_scenario(), vary, i)
        assert final(flights, i).tobytes() == fly_single(scenario, flights.seeds[i])["state"].rows[-1].tobytes()


def test_a_motor_fails_in_flights_with_different_parameters():
    """The controller is redesigned for each vehicle."""
    scenario = hop_scenario(events=(Event(at(0.62), fail_motor(1)),))
    vary = {"mass": 0.03 * np.array([1.0, 1.1]), "rotors.k_torque": 1.5e-10 * np.array([1.0, 1.3])}
    flights = samara.fly_many(scenario, 2, vary=vary)
    for i in range(2):
        state_table = fly_single(apply_flight_values(scenario, vary, i), flights.seeds[i])["state"]
        assert final(flights, i).tobytes() == state_table.rows[-1].tobytes()


def test_adaptive_steps_use_the_parameters_of_each_flight():
    """rk45 with another mass and lag: equal to rk4 with the same parameters to the tolerance of both integrators."""
    mass = samara.vehicle("crazyflie").mass
    vary = {"mass": [mass, 1.1 * mass], "rotors.motor.time_constant_up": [0.07, 0.08]}
    errors = {
        name: samara.fly_many("hover", 2, settings={"duration": 1.5, "integrator": name}, vary=vary).max_error
        for name in ("rk4", "rk45")
    }
    np.testing.assert_allclose(errors["rk45"], errors["rk4"], rtol=1e-5)


def test_an_invalid_value_of_one_flight_is_an_error_in_one_sentence():
    for name, words in (
        ("controller.position", "position = -1.0: expected a positive"),
        ("wind.sigma_aloft", "is -1.0"),
    ):
        with pytest.raises(ValueError, match=words):
            samara.fly_many(hop_scenario(), 3, vary={name: [1.0, 2.5, -1.0]})


def test_timed_events_happen_in_every_flight():
    scenario = hop_scenario(events=(Event(at(0.3), gust((1.0, 0.0, 0.0), 0.5)), Event(at(0.62), fail_motor(1))))
    flights = samara.fly_many(scenario, seeds=[2, 6])
    for i, seed in enumerate((2, 6)):
        assert final(flights, i).tobytes() == fly_single(scenario, seed)["state"].rows[-1].tobytes()


def test_a_condition_is_evaluated_for_each_flight():
    """In the gusts one drone reaches the error earlier than the other."""
    scenario = hop_scenario(events=(Event(when("error > 0.03"), fail_motor(0)),))
    flights = samara.fly_many(scenario, seeds=[2, 6])
    for i, seed in enumerate((2, 6)):
        assert final(flights, i).tobytes() == fly_single(scenario, seed)["state"].rows[-1].tobytes()


def test_in_single_precision_it_is_the_same_flight_to_rounding():
    double, single = (samara.fly_many(hop_scenario(), seeds=[1, 2, 3], dtype=dtype) for dtype in ("float64", "float32"))
    for a, b in zip(flatten(double.final)[:3], flatten(single.final)[:3], strict=True):
        assert a == pytest.approx(b, abs=2e-3)
    assert not np.array_equal(np.asarray(double.final.p_W.x), np.asarray(single.final.p_W.x))


def test_in_single_precision_recorded_states_and_delayed_sensors_agree_with_double_precision():
    """GPS readings arrive 0.1 s late and correct the filter: the same positions to rounding, at every recorded instant."""
    scenario = samara.load_scenario("sensors", {"duration": 1.0})
    assert any(sensor.delay for sensor in scenario.drones[0].sensors)
    double, single = (samara.fly_many(scenario, 2, dtype=dtype, record=0.25) for dtype in ("float64", "float32"))
    assert double.states[:, :3] == pytest.approx(single.states[:, :3], abs=0.02)
    assert np.isfinite(single.states).all()


def test_a_diverged_flight_is_reported_and_the_others_are_unaffected():
    """With a drag of −1e200 N s/m the air accelerates the drone until the state overflows."""
    drag = hop_scenario().drones[0].vehicle["drag"].linear
    drags = np.array([tuple(drag), (-1e200, -1e200, -1e200)])
    with pytest.warns(
        RuntimeWarning, match="1 of 2 flights ended in a state that is not finite; the first is flight 1"
    ):
        flights = samara.fly_many(hop_scenario(), seeds=[1, 2], vary={"drag.linear": drags})
    assert flights.lost.tolist() == [False, True]
    assert "1 lost: their states are not finite" in repr(flights)
    assert final(flights, 0).tobytes() == fly_single(hop_scenario(), 1)["state"].rows[-1].tobytes()


@pytest.mark.parametrize(
    ("call", "words"),
    [
        ({}, "n is None; expected a whole number of flights"),
        ({"n": 0}, "n is 0; expected a whole number of flights"),
        ({"seeds": [1.5]}, "expected as many whole numbers"),
        (
            {"n": 2, "vary": {"mass": [1.0]}},
            "'mass' has values of shape (1,); expected finite numbers, one for each of 2",
        ),
        ({"n": 1, "vary": {"colour": [1.0]}}, "colour"),
        (
            {"n": 1, "vary": {"wind.colour": [1.0]}},
            "'wind.colour' is not a parameter of this wind; expected one of mean",
        ),
        ({"n": 1, "record": 0.0123}, "expected a multiple of the log's 0.01 s"),
        ({"n": 1, "dtype": "float16"}, "dtype 'float16': expected one of float64, float32"),
        ({"n": 1, "settings": {"duration": 1.0}}, "settings apply to a scenario given by name or path"),
        ({"n": 1, "backend": "cuda"}, "backend 'cuda': expected one of llvm, jax, pallas"),
    ],
)
def test_an_invalid_call_is_an_error_in_one_sentence(call, words):
    with pytest.raises(ValueError) as caught:
        samara.fly_many(hop_scenario(), **call)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_unknown_argument_is_an_error():
    with pytest.raises(TypeError, match="fly_many got sead"):
        samara.fly_many(hop_scenario(), 1, sead=3)


def test_a_task_that_begins_later_is_flown_to_the_end():
    """The shipped hover lands after an event: from then on each flight has a separate task, tabulated in shorter blocks."""
    scenario = samara.load_scenario("hover", {})
    flights = samara.fly_many(scenario, 5)
    single = samara.fly(scenario).drone_records[0].tables["state"].rows[-1]
    assert flights.landed.all() and not flights.crashed.any()
    assert [x.tolist() for x in flatten(flights.final)] == [
        [x] * 5 for x in single[: len(flatten(flights.final))].tolist()
    ]
