"""Default gains fly 200 random vehicles without manual tuning."""

import numpy as np
import pytest
from support.random_vehicles import PERIOD, fly_all, fly_homogeneous_batch, mission, random_vehicles

import samara
from samara.plan.trajectory import take_off
from samara.scenario.scenario import Drone, Scenario
from samara.sim.simulation import Simulation
from samara.vehicles.defaults import clearance


def all_fly(verdict):
    """Take-off, hover at 1.5 m, a step of 2 m with less than 15 % overshoot within ten seconds, and a landing on the feet"""
    assert verdict.hover.max() < 0.02
    assert verdict.overshoot.max() < 0.15
    assert verdict.settling_time.max() < 10.0
    assert verdict.landed.all()


@pytest.mark.parametrize("name", ["geometric", "pid"])
@pytest.mark.parametrize("count", [50, pytest.param(200, marks=pytest.mark.long)])
def test_random_vehicles_take_off_step_aside_and_land(name, count):
    """20 g to 10 kg, 4, 6 or 8 rotors, thrust-to-weight ratios of 1.6 to 6, motors of 10 to 80 ms: none is lost"""
    all_fly(fly_all(random_vehicles(count, seed=0), name))


@pytest.mark.long
@pytest.mark.parametrize("name", ["geometric", "pid", "mellinger", "lqr", "indi"])
@pytest.mark.parametrize("seed", [1, 2])
def test_and_others(name, seed):
    """Other vehicles, and controllers with fewer features."""
    all_fly(fly_all(random_vehicles(60 if name == "lqr" else 200, seed), name))


def test_the_sampler_keeps_its_word():
    """The statements of docs/evidence/controllers.md about these vehicles, checked on the vehicles."""
    vehicles = random_vehicles(200, seed=0)
    mass = np.array([vehicle.mass for vehicle in vehicles])
    assert 0.02 <= mass.min() < 0.03 and 7.0 < mass.max() <= 10.0
    assert np.median(mass) == pytest.approx(np.sqrt(0.02 * 10.0), rel=0.5)  # uniform in its logarithm
    assert {len(vehicle.rotors) for vehicle in vehicles} == {4, 6, 8}
    lifts = [samara.thrust_to_weight(vehicle) for vehicle in vehicles]
    assert 1.6 <= min(lifts) < 1.8 and 5.8 < max(lifts) <= 6.0
    lags = np.array([vehicle.rotors[0].motor.time_constant_up for vehicle in vehicles])
    assert 0.010 <= lags.min() < 0.012 and 0.078 < lags.max() <= 0.080
    assert abs(np.corrcoef(lags, lifts)[0, 1]) < 0.2
    arm = np.array([np.hypot(v.rotors[0].r_B.x, v.rotors[0].r_B.y) for v in vehicles])
    for entry in ("xx", "yy"):
        shape = np.array([getattr(v.inertia_B, entry) for v in vehicles]) / (mass * arm**2)
        assert shape.min() >= 0.2 and shape.max() <= 0.6
    again = random_vehicles(3, seed=0)
    assert again == vehicles[:3]


def test_in_the_lanes_of_a_batch_each_flies_as_in_a_scenario():
    """The same vehicle, singly in the runtime: to the rounding of parameters that are constants there and inputs here"""
    four = [vehicle for vehicle in random_vehicles(30, seed=5) if len(vehicle.rotors) == 4][:3]
    ticks = 500
    batch_result = fly_homogeneous_batch(four, "pid", np.stack([mission(vehicle)[:ticks] for vehicle in four], axis=2))
    vehicle = four[1]
    trajectory = take_off((0.0, 0.0, clearance(vehicle)), height=1.5)
    simulation = Simulation(
        Scenario("alone", (Drone("it", vehicle, trajectory, controller="pid"),), duration=ticks * PERIOD)
    )
    simulation.run()
    single = simulation.groups[0].plant.state[:, 0]
    assert single[2] > 0.3
    assert batch_result.final[:, 1] == pytest.approx(single, rel=1e-7, abs=1e-9)
