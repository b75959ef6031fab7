"""The policy that comes with Samara: one set of weights for every quadrotor."""

import numpy as np
import pytest

import samara
from samara.control.policy import shipped_policy
from samara.vehicles.limits import command_bounds


def test_a_throttle_is_all_that_a_motor_can_do():
    own = shipped_policy("universal").fitted(samara.vehicle("iris"))
    bounds = command_bounds(samara.vehicle("iris"))
    for (low, high), centre, reach in zip(bounds, own.trim.centre, own.trim.reach, strict=True):
        assert (centre - reach, centre + reach) == (low, high)


def test_the_shipped_policy_is_small_and_has_the_layers_of_raptor():
    own = shipped_policy("universal")
    assert [(kind.kind, kind.size) for kind in own.kinds] == [("dense", 16), ("gru", 16), ("dense", 4)]
    assert sum(len(data) for _, data in own.files) < 100_000 and not own.vehicle and own.inputs == 18
    with pytest.raises(ValueError, match="the policy is for 4 rotors; vehicle 'hexarotor_x' has 6"):
        own.fitted(samara.vehicle("hexarotor_x"))
    with pytest.raises(ValueError, match="wants the rotor front right to turn"):
        own.fitted(samara.vehicle("iris").replace({"rotors.spin": -1.0}))


QUADS = ("crazyflie", "crazyflie_brushless", "crazyflie_documented", "iris", "iris_documented", "hakoniwa")


@pytest.mark.parametrize("name", QUADS)
def test_one_policy_hovers_every_quadrotor(name):
    """27 g to 1.5 kg, motors with a lag and on a battery, in the order of each file: within 2 cm after five seconds"""
    run = samara.fly("hover", controller="universal", settings={"drones.vehicle": name})
    own = run.tracks[0].tables["state"]
    state, time = own.rows, own.time
    there = state[(time > 5.0) & (time < 6.0), :3]
    assert not run.problem and np.linalg.norm(there - (0.0, 0.0, 1.5), axis=1).max() < 0.02


RATES = (100, 250, 400)  # [Hz]: that of its training, that of our flights, that of PX4
HOVERING = [pytest.param(name, marks=() if name in ("crazyflie", "iris") else pytest.mark.long) for name in QUADS]


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("name", HOVERING)
def test_motor_commands_are_steady_in_hover(name, rate):
    """|u(k+1) − u(k)| ≤ 0.02 of the command range per tick, at the control rate of the training and above it"""
    rates = {"rates.autopilot": rate, "rates.log": rate, "rates.physics": 2000 if rate == 400 else 1000}
    run = samara.fly("hover", controller="universal", settings={"drones.vehicle": name, "duration": 8.0, **rates})
    low, high = np.array(command_bounds(samara.vehicle(name))).T
    command = run.command[(run.time > 6.0) & (run.time < 8.0)]
    assert len(command) > 1.9 * rate and np.abs(np.diff(command, axis=0) / (high - low)).max() <= 0.02
