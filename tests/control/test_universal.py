"""The shipped universal policy: one set of weights for every quadrotor."""

import numpy as np
import pytest

import samara
from samara.control.policy import bundled_policy
from samara.vehicles.limits import command_bounds


def test_a_throttle_covers_the_range_of_a_motor():
    policy = bundled_policy("universal").adapt(samara.vehicle("iris"))
    bounds = command_bounds(samara.vehicle("iris"))
    for (low, high), centre, amplitude in zip(bounds, policy.trim.offset, policy.trim.scale, strict=True):
        assert (centre - amplitude, centre + amplitude) == (low, high)


def test_the_shipped_policy_is_small_and_has_the_layers_of_raptor():
    policy = bundled_policy("universal")
    assert [(layer.type, layer.size) for layer in policy.layers] == [("dense", 16), ("gru", 16), ("dense", 4)]
    assert sum(len(data) for _, data in policy.files) < 100_000 and not policy.vehicle and policy.input_count == 18
    with pytest.raises(ValueError, match="the policy is for 4 rotors; vehicle 'hexarotor_x' has 6"):
        policy.adapt(samara.vehicle("hexarotor_x"))
    with pytest.raises(ValueError, match="expects the front right rotor to turn"):
        policy.adapt(samara.vehicle("iris").replace({"rotors.spin": -1.0}))


QUADS = ("crazyflie", "crazyflie_brushless", "crazyflie_documented", "iris", "iris_documented", "hakoniwa")


@pytest.mark.parametrize("name", QUADS)
def test_one_policy_hovers_every_quadrotor(name):
    """27 g to 1.5 kg, motors with lag and on a battery, any rotor order: within 2 cm after five seconds"""
    run = samara.fly("hover", controller="universal", settings={"drones.vehicle": name})
    table = run.drone_records[0].tables["state"]
    state, time = table.rows, table.time
    positions = state[(time > 5.0) & (time < 6.0), :3]
    assert not run.problem and np.linalg.norm(positions - (0.0, 0.0, 1.5), axis=1).max() < 0.02


RATES = (100, 250, 400)  # [Hz]: of its training, of Samara's flights, of PX4
HOVERING = [pytest.param(name, marks=() if name in ("crazyflie", "iris") else pytest.mark.long) for name in QUADS]


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("name", HOVERING)
def test_motor_commands_are_steady_in_hover(name, rate):
    """|u(k+1) − u(k)| ≤ 0.02 of the command range per tick, at the control rate of the training and above it"""
    rates = {"rates.control": rate, "rates.log": rate, "rates.physics": 2000 if rate == 400 else 1000}
    run = samara.fly("hover", controller="universal", settings={"drones.vehicle": name, "duration": 8.0, **rates})
    low, high = np.array(command_bounds(samara.vehicle(name))).T
    command = run.command[(run.time > 6.0) & (run.time < 8.0)]
    assert len(command) > 1.9 * rate and np.abs(np.diff(command, axis=0) / (high - low)).max() <= 0.02
