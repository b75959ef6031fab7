"""A vehicle with DC motors is identified from its own flight, as one whose motors have a lag."""

import numpy as np
import pytest
from studies.synthetic import simulate_logs

import samara
from samara.core.algebra import Mat3
from samara.identify.experiment_design import plan_flight
from samara.identify.identification import identify
from samara.physics.rotors.actuator import Lag
from samara.vehicles.limits import replace_dc_motors
from samara.vehicles.trim import hover


def test_an_iris_is_found_again_from_a_wrong_one():
    """Thrust, inertia, drag and yaw damping are identified although a lag and a linear command replace the DC motors.

    No voltage is logged, so its sag of 3 % is part of kF and, with kF, of J; motors without braking decelerate more slowly than
    the lag of one hover, which J takes up too.
    """
    iris = samara.vehicle("iris")
    wrong = {"inertia_B": Mat3(*(1.2 * x for x in iris.inertia_B)), "rotors.k_thrust": 1.1 * iris.rotors[0].k_thrust}
    start = iris.replace(wrong)
    (log,) = simulate_logs([iris], [plan_flight(start, 60.0).trajectory], [0], captured=True)
    identified = identify([log], start, predictor=False).physical
    value = {estimate.name: estimate.value for estimate in identified.estimates}
    assert value["k_thrust"] == pytest.approx(iris.rotors[0].k_thrust, rel=0.06)
    assert value["inertia.xx"] == pytest.approx(iris.inertia_B.xx, rel=0.15)
    assert value["inertia.zz"] == pytest.approx(iris.inertia_B.zz, rel=0.05)
    assert value["drag.linear.x"] == pytest.approx(iris["drag"].linear.x, rel=0.10)
    assert value["damping.yaw"] == pytest.approx(iris["damping"].linear.z, rel=0.10)
    assert value["motor.time_constant_up"] == pytest.approx(
        replace_dc_motors(iris).rotors[0].motor.time_constant_up, rel=0.10
    )
    assert value["motor.time_constant_down"] > 1.5 * value["motor.time_constant_up"]
    assert identified.vehicle.structure.actuation.name == "normalized" and isinstance(
        identified.vehicle.rotors[0].motor, Lag
    )
    assert np.allclose(hover(identified.vehicle)[1], hover(iris)[1], rtol=0.06)
