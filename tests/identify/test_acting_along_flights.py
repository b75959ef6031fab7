"""What acts along a flight is what the equations of motion say, sample by sample."""

import numpy as np
import pytest
from studies.synthetic import random_vehicle

from samara.core.algebra import Quat, Vec3, normalize
from samara.identify.parameters import parameters_of, ready
from samara.identify.predicted_wrench import acting, needed_torque
from samara.physics.effect import wrench_in_body_axes
from samara.physics.multirotor import at_rest, wrench
from samara.physics.rotors.actuator import command_from_speed
from samara.physics.types import CALM


def test_force_and_torque_are_the_sum_of_the_effects_without_gravity():
    """Of a candidate that is off in every number, in wind: equal to `wrench` on floats"""
    draw = np.random.default_rng(3)
    vehicle = ready(random_vehicle(3, 2))
    for own in parameters_of(vehicle):
        vehicle = own.moved(vehicle, 0.3)
    body = draw.standard_normal((13, 5))
    body[6:10] /= np.linalg.norm(body[6:10], axis=0)
    speeds = draw.uniform(300.0, 900.0, (4, 5))
    found = acting(vehicle, body, speeds, 1.1 * speeds, Vec3(1.0, -2.0, 0.0))
    felt = vehicle.without_effect("gravity")
    for k in range(5):
        state = at_rest(felt)._replace(
            v_W=Vec3(*body[3:6, k].tolist()),
            q_WB=Quat(*body[6:10, k].tolist()),
            omega_B=Vec3(*body[10:, k].tolist()),
            rotor_speed=tuple(speeds[:, k].tolist()),
        )
        told = tuple(
            command_from_speed(1.1 * s, r.motor) for s, r in zip(state.rotor_speed, vehicle.rotors, strict=True)
        )
        total = wrench(state, told, felt, CALM._replace(wind_W=Vec3(1.0, -2.0, 0.0)))
        own = wrench_in_body_axes(total, normalize(state.q_WB))
        assert found.f_B[:, k] == pytest.approx(np.array(own.f_B), rel=1e-11, abs=1e-13)
        assert found.tau_B[:, k] == pytest.approx(np.array(own.tau_B), rel=1e-11, abs=1e-13)


def test_the_torque_needed_is_eulers_equation():
    """J ω̇ + ω × Jω by NumPy's own cross product"""
    draw = np.random.default_rng(4)
    vehicle = random_vehicle(3, 2)
    body, turning = draw.standard_normal((13, 7)), draw.standard_normal((3, 7))
    inertia = np.array(vehicle.inertia_B.rows)
    expected = inertia @ turning + np.cross(body[10:].T, (inertia @ body[10:]).T).T
    assert needed_torque(body, turning, vehicle) == pytest.approx(expected, rel=1e-12)
