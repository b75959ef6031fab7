"""Pickled scenarios and simulators, as sent to workers, fly the same bits, without machine code in the pickle."""

import pickle
from dataclasses import replace

import numpy as np
import pytest

import samara
from samara.estimate.ideal import delayed_estimator, noisy_estimator
from samara.plan import trajectory as plan
from samara.plan.reference import StraightLeg
from samara.scenario import events
from samara.scenario.file import load_scenario, scenario_names
from samara.sensors.registry import part, part_names
from samara.sim.fly import fingerprint


def again(thing):
    return pickle.loads(pickle.dumps(thing))


TRAJECTORIES = {
    "hover": lambda: plan.hover((0.0, 0.0, 1.0)),
    "legs": lambda: plan.legs((0.0, 0.0, 1.0), [StraightLeg("there", samara.Vec3(1.0, 0.0, 1.0), 2.0, 1.0)]),
    "waypoints": lambda: plan.waypoints([(0.0, 0.0, 1.0), (1.0, 0.0, 1.0)], speed=1.0),
    "line": lambda: plan.line((0.0, 0.0, 1.0), (1.0, 0.0, 1.0), speed=1.0),
    "circle": lambda: plan.circle((0.0, 0.0, 1.0), radius=1.0, speed=1.0),
    "figure8": lambda: plan.figure8((0.0, 0.0, 1.0), half_length=1.0, speed=1.0, yaw="along"),
    "race": lambda: plan.race([(0.0, 0.0, 1.0), (1.0, 0.0, 1.0), (1.0, 1.0, 1.0)], speed=2.0, closed=True, laps=2.0),
    "through": lambda: plan.minimum_snap([(0.0, 0.0, 1.0), (1.0, 0.0, 1.0)], [1.0]).shift(samara.Vec3(0.0, 1.0, 0.0)),
    "sequence": lambda: plan.sequence(
        plan.take_off((0.0, 0.0, 0.0), height=1.0, speed=0.5), plan.hover((0.0, 0.0, 1.0))
    ),
}


@pytest.mark.parametrize("name", TRAJECTORIES)
def test_a_trajectory_is_made_again(name):
    """The same position, speed, … yaw at every time, as floats and as arrays."""
    first = TRAJECTORIES[name]()
    second = again(first)
    time = np.linspace(0.0, min(first.duration, 5.0), 7)
    assert np.array_equal(np.array(first.evaluate(time)[:1]), np.array(second.evaluate(time)[:1]))
    assert first.evaluate(0.3) == second.evaluate(0.3) and (second.name, second.waypoints) == (
        first.name,
        first.waypoints,
    )


def test_shared_paths_stay_shared():
    """Drones of a swarm fly one figure, shifted; it is planned once for all of them, also after pickling."""
    drones = again(load_scenario("swarm")).drones
    assert len({id(drone.task.reference) for drone in drones}) == 1 < len({drone.task.shift_W for drone in drones})


@pytest.mark.parametrize("name", scenario_names())
def test_every_shipped_scenario_can_be_pickled(name):
    scenario = load_scenario(name)
    copy = again(scenario)
    assert [drone.name for drone in copy.drones] == [drone.name for drone in scenario.drones]
    assert [event.name for event in copy.events] == [event.name for event in scenario.events]
    assert b"<lambda>" not in pickle.dumps(scenario) and b"<locals>" not in pickle.dumps(scenario)


def test_sensors_estimators_and_events_are_made_again():
    for name in part_names():
        sensor = part(name).sensor()
        assert again(sensor).fields == sensor.fields
    estimator = delayed_estimator(0.02, 0.01, noisy_estimator())
    assert (
        again(estimator).update is estimator.update
    )  # one record for all drones with equal parameters, in this process
    condition, action = events.when("height > 5"), events.go_to((0.0, 0.0, 1.0))
    assert again(condition).text == condition.text and again(action).__name__ == action.__name__


def test_what_the_user_wrote_inside_a_function_is_refused_by_pickle():
    with pytest.raises((pickle.PicklingError, AttributeError)):
        pickle.dumps(events.when(lambda bus: True))


@pytest.mark.long
@pytest.mark.parametrize("name", ["wind", "sensors", "motor_failure"])
def test_a_pickled_scenario_flies_the_same_bits(name):
    scenario = replace(load_scenario(name), duration=1.0)
    assert fingerprint(samara.fly(again(scenario))) == fingerprint(samara.fly(scenario))


def test_a_used_simulator_is_pickled_without_its_code():
    """Singly, in a batch, linearised, into a buffer: then pickled. The copy compiles again, and flies the same bits."""
    vehicle = samara.vehicle("crazyflie_documented")
    simulator = samara.compile(vehicle)
    state, command = samara.hover(vehicle)
    after = simulator.step(state, command, 1e-3)
    buffer = np.array(samara.core.tree.flatten(state))
    simulator.step_into(buffer, command, 1e-3)
    data = pickle.dumps(simulator)
    assert len(data) < 20_000 and b"llvm_kernel" not in data
    copy = pickle.loads(data)
    assert copy == simulator and not copy._code_cache
    assert copy.step(state, command, 1e-3) == after
