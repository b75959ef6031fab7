"""Many flights at once: flight i is the flight that is flown alone with its seed and numbers, and knows of no other."""

from dataclasses import replace

import numpy as np
import pytest

import samara
from samara.compiler.batch_parameters import _parametric_code
from samara.control.registry import tuned
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


def hopping(**more):
    own = samara.load_scenario(
        "waypoints", {"duration": 1.0, "drones.vehicle": "crazyflie", "drones.controller": "geometric"}
    )
    return replace(own, drones=(replace(own.drones[0], task=HOP),), wind=STORM, **more)


def final(flights, i):
    return np.array([np.broadcast_to(leaf, (len(flights),))[i] for leaf in flatten(flights.final)])


def alone(scenario, seed):
    return samara.fly(replace(scenario, seed=int(seed))).tracks[0].tables


@pytest.mark.parametrize("n", [1, 3, 11])
def test_a_flight_is_that_of_its_seed_bit_for_bit_however_many_fly_beside_it(n):
    seeds = np.array([7, 2**40, 3, 0, 1, 5, 6, 8, 9, 10, 11][:n])
    flights = samara.fly_many(hopping(), seeds=seeds, record=0.1)
    for i in {0, n - 1}:
        own = alone(hopping(), seeds[i])
        assert final(flights, i).tobytes() == own["state"].rows[-1].tobytes()
        kept = own["state"].rows[np.isin(own["state"].times_us, np.round(1e6 * flights.time))]
        assert flights.states[:, :, i].tobytes() == kept.tobytes()
        assert bool(flights.landed[i]) == bool(own["status"].rows[-1][0])


def test_flights_of_other_seeds_are_others_and_those_of_the_same_are_the_same():
    flights = samara.fly_many(hopping(), seeds=[4, 4, 5])
    assert final(flights, 0).tobytes() == final(flights, 1).tobytes() != final(flights, 2).tobytes()


def test_the_metrics_are_those_of_the_recording():
    """Worst and RMS error, tilt, height: by the code that reads recordings, from the flight alone"""
    flights = samara.fly_many(hopping(), seeds=[3, 12])
    for i, seed in enumerate((3, 12)):
        told = samara.fly(replace(hopping(), seed=seed)).tracks[0].metrics
        assert flights.worst_error[i] == told.worst_error.value
        assert flights.rms_error[i] == told.metric("rms_error")
        assert (flights.metrics.highest[i], flights.metrics.lowest[i]) == (told.highest.value, told.lowest.value)


def test_start_goal_and_numbers_of_each_flight_are_those_of_a_scenario_with_them():
    """Mass, drag, start and goal of every flight: the same bits as the flight of a vehicle with these numbers"""
    mass, shift = 0.03 * np.array([1.0, 1.1, 0.95]), np.array([[0.0, 0.0, 0.0], [0.3, 0.0, 0.0], [0.0, -0.2, 0.1]])
    vary = {"mass": mass, "start_W": shift * [1.0, 1.0, 0.0], "goal_shift": shift}
    flights = samara.fly_many(hopping(), seeds=[1, 2, 3], vary=vary)
    for i in range(3):
        drone = hopping().drones[0]
        own = replace(
            drone,
            vehicle=drone.vehicle.replace(mass=float(mass[i])),
            start_W=Vec3(*(shift[i] * [1.0, 1.0, 0.0]).tolist()),
            task=drone.task.moved(Vec3(*shift[i].tolist())),
        )
        told = alone(replace(hopping(), drones=(own,)), i + 1)["state"]
        assert final(flights, i).tobytes() == told.rows[-1].tobytes()


def test_the_wind_of_each_flight_is_its_own():
    """σ aloft of every flight: the same bits as the flight in that wind"""
    sigma = np.array([0.5, 1.5, 3.0])
    flights = samara.fly_many(hopping(), seeds=[1, 2, 3], vary={"wind.sigma_aloft": sigma})
    for i in range(3):
        own = replace(hopping(), wind=replace(STORM, sigma_aloft=float(sigma[i])))
        assert final(flights, i).tobytes() == alone(own, i + 1)["state"].rows[-1].tobytes()


def ten_numbers(n):
    """Of the vehicle, its controller, its wind, its start and its goal, all at once"""
    vehicle, draw = hopping().drones[0].vehicle, np.random.default_rng(4)
    near = lambda: draw.uniform(0.93, 1.07, n)  # noqa: E731
    return {
        "mass": vehicle.mass * near(),
        "inertia_B.xx": vehicle.inertia_B.xx * near(),
        "rotors.k_thrust": vehicle.rotors[0].k_thrust * near(),
        "rotors.k_torque": vehicle.rotors[0].k_torque * near(),
        "rotors.motor.rise": vehicle.rotors[0].motor.rise * near(),
        "drag.linear": np.array(vehicle["drag"].linear) * near()[:, None],
        "controller.position": 2.0 * near(),
        "wind.sigma_aloft": 1.5 * near(),
        "wind.mean.wind_W": np.array([2.0, 0.5, 0.0]) * near()[:, None],
        "start_W": np.array([0.1, -0.2, 0.0]) * near()[:, None],
        "goal_shift": np.array([0.1, -0.2, 0.1]) * near()[:, None],
    }


def with_the_numbers_of(scenario, vary, i):
    """Written out, not by the code of fly_many"""
    drone, wind = scenario.drones[0], scenario.wind
    own = {name: values[i].tolist() for name, values in vary.items()}
    changes = {
        name: own[name] for name in ("mass", "rotors.k_thrust", "rotors.k_torque", "rotors.motor.rise") if name in own
    }
    inertia = drone.vehicle.inertia_B
    changes["inertia_B"] = inertia._replace(xx=own.get("inertia_B.xx", inertia.xx))
    if "drag.linear" in own:
        changes["drag.linear"] = Vec3(*own["drag.linear"])
    controller = tuned("geometric", position=own["controller.position"]) if "controller.position" in own else None
    drone = replace(
        drone,
        vehicle=drone.vehicle.replace(changes),
        controller=controller or drone.controller,
        start_W=Vec3(*own.get("start_W", drone.start_W)),
        task=drone.task.moved(Vec3(*own.get("goal_shift", (0.0, 0.0, 0.0)))),
    )
    wind = replace(wind, sigma_aloft=own.get("wind.sigma_aloft", wind.sigma_aloft))
    if "wind.mean.wind_W" in own:
        wind = replace(wind, mean=Constant(Vec3(*own["wind.mean.wind_W"])))
    return replace(scenario, drones=(drone,), wind=wind)


def test_ten_numbers_vary_at_once_and_are_traced_once():
    """Every flight has the bits of `samara.fly` with its values, and 24 flights need no more programs than a few of them."""
    vary, traced = ten_numbers(24), _parametric_code.cache_info().misses
    flights = samara.fly_many(hopping(), 24, vary=vary)
    assert 0 < _parametric_code.cache_info().misses - traced <= 6
    for i in (0, 5, 23):
        scenario = replace(hopping(), seed=int(flights.seeds[i]))
        run = samara.fly(scenario, vary={name: values[i].tolist() for name, values in vary.items()})
        assert final(flights, i).tobytes() == run.tracks[0].tables["state"].rows[-1].tobytes()
    again = samara.fly_many(hopping(), 24, vary=vary)
    assert all(final(again, i).tobytes() == final(flights, i).tobytes() for i in range(24))


def test_flights_whose_numbers_are_nothing_or_alike_are_the_same_bits_too():
    """No drag at all, and an inertia that is the other axis's: what is folded in such a flight alone"""
    vehicle = hopping().drones[0].vehicle
    drag, inertia = np.array(vehicle["drag"].linear), vehicle.inertia_B
    vary = {
        "drag.linear": np.array([drag, 0.0 * drag, 1.1 * drag, drag]),
        "inertia_B.xx": np.array([1.1 * inertia.xx, inertia.xx, inertia.yy, inertia.zz]),
    }
    flights = samara.fly_many(hopping(), 4, vary=vary)
    for i in range(4):
        own = with_the_numbers_of(hopping(), vary, i)
        assert final(flights, i).tobytes() == alone(own, flights.seeds[i])["state"].rows[-1].tobytes()


def test_a_motor_fails_in_flights_whose_numbers_differ():
    """The controller is designed anew, for every vehicle by itself"""
    own = hopping(events=(Event(at(0.62), fail_motor(1)),))
    vary = {"mass": 0.03 * np.array([1.0, 1.1]), "rotors.k_torque": 1.5e-10 * np.array([1.0, 1.3])}
    flights = samara.fly_many(own, 2, vary=vary)
    for i in range(2):
        told = alone(with_the_numbers_of(own, vary, i), flights.seeds[i])["state"]
        assert final(flights, i).tobytes() == told.rows[-1].tobytes()


def test_steps_of_their_own_choice_are_taken_with_the_numbers_of_each_flight():
    """rk45 with another mass and lag: to the tolerance of both integrators the flights of rk4 with the same numbers"""
    mass = samara.vehicle("crazyflie").mass
    vary = {"mass": [mass, 1.1 * mass], "rotors.motor.rise": [0.07, 0.08]}
    flown = {
        name: samara.fly_many("hover", 2, settings={"duration": 1.5, "integrator": name}, vary=vary).worst_error
        for name in ("rk4", "rk45")
    }
    np.testing.assert_allclose(flown["rk45"], flown["rk4"], rtol=1e-5)


def test_a_number_of_one_flight_that_does_not_fit_is_one_sentence():
    for name, words in (
        ("controller.position", "position = -1.0: expected a positive"),
        ("wind.sigma_aloft", "is -1.0"),
    ):
        with pytest.raises(ValueError, match=words):
            samara.fly_many(hopping(), 3, vary={name: [1.0, 2.5, -1.0]})


def test_events_by_the_clock_happen_in_every_flight():
    own = hopping(events=(Event(at(0.3), gust((1.0, 0.0, 0.0), 0.5)), Event(at(0.62), fail_motor(1))))
    flights = samara.fly_many(own, seeds=[2, 6])
    for i, seed in enumerate((2, 6)):
        assert final(flights, i).tobytes() == alone(own, seed)["state"].rows[-1].tobytes()


def test_a_condition_is_met_in_each_flight_by_itself():
    """In the gusts one drone comes so far earlier than the other"""
    own = hopping(events=(Event(when("error > 0.03"), fail_motor(0)),))
    flights = samara.fly_many(own, seeds=[2, 6])
    for i, seed in enumerate((2, 6)):
        assert final(flights, i).tobytes() == alone(own, seed)["state"].rows[-1].tobytes()


def test_in_single_precision_it_is_the_same_flight_to_rounding():
    double, single = (samara.fly_many(hopping(), seeds=[1, 2, 3], dtype=dtype) for dtype in ("float64", "float32"))
    for a, b in zip(flatten(double.final)[:3], flatten(single.final)[:3], strict=True):
        assert a == pytest.approx(b, abs=2e-3)
    assert not np.array_equal(np.asarray(double.final.p_W.x), np.asarray(single.final.p_W.x))


def test_in_single_precision_kept_states_and_delayed_sensors_are_those_of_double_precision():
    """GPS is heard 0.1 s late and corrects the filter that flies: the same places to rounding, at every kept instant"""
    own = samara.load_scenario("sensors", {"duration": 1.0})
    assert any(sensor.delay for sensor in own.drones[0].sensors)
    double, single = (samara.fly_many(own, 2, dtype=dtype, record=0.25) for dtype in ("float64", "float32"))
    assert double.states[:, :3] == pytest.approx(single.states[:, :3], abs=0.02)
    assert np.isfinite(single.states).all()


def test_a_flight_that_is_lost_is_told_and_the_others_are_not():
    """With drag of −1e200 N s/m the air drives what it should brake: faster, until no number is large enough"""
    drag = hopping().drones[0].vehicle["drag"].linear
    driven = np.array([tuple(drag), (-1e200, -1e200, -1e200)])
    with pytest.warns(
        RuntimeWarning, match="1 of 2 flights ended in a state that is not finite, the first of them flight 1"
    ):
        flights = samara.fly_many(hopping(), seeds=[1, 2], vary={"drag.linear": driven})
    assert flights.lost.tolist() == [False, True]
    assert "1 lost: their states are not finite" in str(flights)
    assert final(flights, 0).tobytes() == alone(hopping(), 1)["state"].rows[-1].tobytes()


@pytest.mark.parametrize(
    ("call", "words"),
    [
        ({}, "n is None; expected how many flights"),
        ({"n": 0}, "n is 0; expected how many flights"),
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
        ({"n": 1, "settings": {"duration": 1.0}}, "settings change a scenario that is a name or a file"),
        ({"n": 1, "backend": "cuda"}, "backend 'cuda': expected one of llvm, jax, pallas"),
    ],
)
def test_what_cannot_be_flown_is_one_sentence(call, words):
    with pytest.raises(ValueError) as refused:
        samara.fly_many(hopping(), **call)
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)


def test_an_argument_that_nobody_takes_is_refused():
    with pytest.raises(TypeError, match="fly_many got sead"):
        samara.fly_many(hopping(), 1, sead=3)


def test_a_task_that_begins_later_is_flown_to_the_end():
    """The shipped hover lands at an event: after it each flight has a task of its own, to be asked for in shorter tables"""
    own = samara.load_scenario("hover", {})
    many = samara.fly_many(own, 5)
    alone = samara.fly(own).tracks[0].tables["state"].rows[-1]
    assert many.landed.all() and not many.crashed.any()
    assert [x.tolist() for x in flatten(many.final)] == [[x] * 5 for x in alone[: len(flatten(many.final))].tolist()]
