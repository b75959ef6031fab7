"""A BatchScalar computes what floats compute in each flight, bit for bit; diverging branches are detected."""

import math
from random import Random

import numpy as np
import pytest

import samara
from samara.control.registry import create_controller
from samara.core import ops
from samara.core.batch_scalar import BatchScalar, BranchError, map_batch
from samara.core.tree import flatten
from samara.physics.multirotor import state_at_rest
from samara.physics.rotors.battery import Thevenin
from samara.physics.types import CALM
from samara.vehicles.build import with_effects
from samara.vehicles.limits import thrust_limits
from samara.vehicles.trim import hover


def expression(x, y):
    """Arithmetic, elementary functions, selections, minima and maxima."""
    z = (x * y - 3.0 / (1.0 + x * x)) ** 2 + abs(x - y) - (-x)
    z = ops.where(ops.logical_and(x < y, x > 0.0), ops.sin(z), ops.atan2(x, y)) + ops.maximum(x, 0.3) * ops.minimum(
        x, y
    )
    return ops.safe_sqrt(ops.absolute(z)) + ops.exp(-x * x) * ops.clamp(y, -0.5, 0.5) + ops.floor(4.0 * x) + 0.0 * x


def test_every_operation_has_the_bits_of_floats():
    random = Random(1)
    x, y = ([random.uniform(-1.0, 1.0) for _ in range(101)] for _ in range(2))
    batch = expression(BatchScalar(np.array(x)), BatchScalar(np.array(y)))
    assert batch.values.tolist() == [expression(*pair) for pair in zip(x, y, strict=True)]


def test_a_branch_that_some_flights_take_names_them():
    x = BatchScalar(np.array([1.0, -2.0, 3.0]))
    with pytest.raises(BranchError) as branch:
        bool(x > 0.0)
    assert branch.value.mask.tolist() == [True, False, True]
    assert bool(x * x > 0.0) and not bool(x > 3.0)
    with pytest.raises(BranchError):
        1.0 / (x - 1.0)
    with pytest.raises(ZeroDivisionError):
        1.0 / (x * 0.0 + BatchScalar(np.zeros(3)))
    with pytest.raises(BranchError):
        ops.sqrt(x)
    with pytest.raises(TypeError):
        math.sin(x)


def root(tree):
    """√x and the count of Newton steps; a loop whose length depends on x."""
    (x,), rounds = tree, 0.0
    y = x
    while abs(y * y - x) > 1e-12 * x:
        y, rounds = 0.5 * (y + x / y), rounds + 1.0
    if x > 50.0:
        raise ValueError("too large")
    return y, rounds


def test_iterations_run_for_each_flight():
    roots, rounds = map_batch("root", root, (BatchScalar(np.array([2.0, 9.0, 49.0])),))
    for k, x in enumerate((2.0, 9.0, 49.0)):
        assert (roots.values[k], rounds.values[k]) == root((x,))
    with pytest.raises(BranchError) as branch:
        map_batch("root", root, (BatchScalar(np.array([2.0, 64.0])),))
    assert branch.value.mask.tolist() == [False, True]
    with pytest.raises(ValueError, match="too large"):
        map_batch("root", root, (BatchScalar(np.array([64.0, 65.0])),))
    assert map_batch("root", root, (9.0,)) == root((9.0,))


def battery_vehicle() -> samara.Vehicle:
    """A Crazyflie, whose motors have a lag, on a cell whose voltage drops under load."""
    cell = Thevenin(864.0, (0.0, 0.5, 1.0), (3.0, 3.8, 4.2), 0.1, 0.02, 500.0)
    return with_effects(samara.vehicle("crazyflie_documented"), {"battery": {"model": "thevenin", **cell._asdict()}})


VEHICLES = pytest.mark.parametrize("vehicle", [samara.vehicle("iris"), battery_vehicle()], ids=["dc", "lag"])


@VEHICLES
def test_trim_and_controllers_of_a_batch_are_those_of_each_vehicle(vehicle):
    factors = np.array([0.97, 1.0, 1.03])
    masses, thrusts = vehicle.mass * factors, vehicle.rotors[0].k_thrust * factors[::-1]
    batch = vehicle.replace({"mass": BatchScalar(masses), "rotors.k_thrust": BatchScalar(thrusts)})
    results = flatten((hover(batch), create_controller("geometric", batch).call.allocation.base))
    for k, (mass, thrust) in enumerate(zip(masses.tolist(), thrusts.tolist(), strict=True)):
        single_vehicle = vehicle.replace({"mass": mass, "rotors.k_thrust": thrust})
        expected = flatten((hover(single_vehicle), create_controller("geometric", single_vehicle).call.allocation.base))
        assert [leaf.values[k] if isinstance(leaf, BatchScalar) else leaf for leaf in results] == expected


@VEHICLES
def test_thrust_limits_of_a_batch_are_found_at_once_with_the_bits_of_each(vehicle):
    """kF, R of the battery and motor parameters: iterations stop as they would for each vehicle alone."""
    paths = ["rotors.k_thrust", "battery.resistance", "rotors.1.k_torque", "rotors.motor.efficiency"]
    nominal = np.array([vehicle.rotors[0].k_thrust, 0.1, vehicle.rotors[1].k_torque, 0.8])
    values = nominal[:, None] * np.random.default_rng(3).uniform(0.7, 1.25, (4, 9))
    limits = thrust_limits(vehicle.replace(dict(zip(paths, map(BatchScalar, values), strict=True))))
    for k, numbers in enumerate(values.T.tolist()):
        single_limits = thrust_limits(vehicle.replace(dict(zip(paths, numbers, strict=True))))
        assert [limit.high.values[k] for limit in limits] == [limit.high for limit in single_limits]


def test_at_the_fastest_that_dc_motors_turn_nothing_accelerates_at_full_duty():
    """Ω̇ = 0 there on a full battery, and it is steep: a thousandth slower they accelerate, a thousandth faster they slow."""
    iris = samara.vehicle("iris")
    iris = iris.without_effect("actuator") if iris.has("actuator") else iris
    fastest = [
        math.sqrt(limit.high / rotor.k_thrust) for limit, rotor in zip(thrust_limits(iris), iris.rotors, strict=True)
    ]

    def rates(share):
        state = state_at_rest(iris)._replace(rotor_speed=tuple(share * speed for speed in fastest))
        return np.array(iris.structure.actuation.rotor_acceleration(state, (1.0,) * iris.command_size, iris, CALM))

    steep = 0.5 * (rates(0.999) - rates(1.001))
    assert (steep > 1.0).all() and (np.abs(rates(1.0)) < 1e-6 * steep).all()
