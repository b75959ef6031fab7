"""A vehicle with DC motors is identified from its own flight, as one whose motors have a lag."""

import numpy as np
import pytest
from studies.synthetic import logs_of

import samara
from samara.core.algebra import Mat3
from samara.identify.experiment_design import plan_flight
from samara.identify.identification import identify
from samara.physics.rotors.actuator import Lag
from samara.vehicles.limits import with_lag_motors
from samara.vehicles.trim import hover


def test_an_iris_is_found_again_from_a_wrong_one():
    """Thrust, inertia, drag and yaw damping of the NED simulator's motors, though a lag and a straight line stand for them

    No voltage is logged, so that its sag of 3 % is in kF and, with kF, in J; motors that may not brake slow down slower.
    """
    iris = samara.vehicle("iris")
    wrong = {"inertia_B": Mat3(*(1.2 * x for x in iris.inertia_B)), "rotors.k_thrust": 1.1 * iris.rotors[0].k_thrust}
    start = iris.replace(wrong)
    (log,) = logs_of([iris], [plan_flight(start, 60.0).trajectory], [0], captured=True)
    told = identify([log], start, predictor=False).physical
    value = {own.name: own.value for own in told.estimates}
    assert value["k_thrust"] == pytest.approx(iris.rotors[0].k_thrust, rel=0.06)
    assert value["inertia.xx"] == pytest.approx(iris.inertia_B.xx, rel=0.10)
    assert value["inertia.zz"] == pytest.approx(iris.inertia_B.zz, rel=0.05)
    assert value["drag.linear.x"] == pytest.approx(iris["drag"].linear.x, rel=0.10)
    assert value["damping.yaw"] == pytest.approx(iris["damping"].linear.z, rel=0.10)
    assert value["motor.rise"] == pytest.approx(with_lag_motors(iris).rotors[0].motor.rise, rel=0.10)
    assert value["motor.fall"] > 1.5 * value["motor.rise"]
    assert told.vehicle.structure.actuation.name == "normalized" and isinstance(told.vehicle.rotors[0].motor, Lag)
    assert np.allclose(hover(told.vehicle)[1], hover(iris)[1], rtol=0.06)
