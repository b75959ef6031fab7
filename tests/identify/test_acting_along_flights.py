"""The predicted wrench along a flight matches the equations of motion, sample by sample."""

import numpy as np
import pytest
from studies.synthetic import random_vehicle

from samara.core.algebra import Quat, Vec3, normalize
from samara.identify.parameters import identifiable_parameters, prepare_vehicle
from samara.identify.predicted_wrench import predict_wrench, required_body_torque
from samara.physics.effect import wrench_in_body_axes
from samara.physics.multirotor import state_at_rest, wrench
from samara.physics.rotors.actuator import command_from_speed
from samara.physics.types import CALM


def test_force_and_torque_are_the_sum_of_the_effects_without_gravity():
    """For a candidate that differs in every parameter, in wind: equal to `wrench` on floats."""
    draw = np.random.default_rng(3)
    vehicle = prepare_vehicle(random_vehicle(3, 2))
    for parameter in identifiable_parameters(vehicle):
        vehicle = parameter.displace_vehicle(vehicle, 0.3)
    body = draw.standard_normal((13, 5))
    body[6:10] /= np.linalg.norm(body[6:10], axis=0)
    speeds = draw.uniform(300.0, 900.0, (4, 5))
    predicted = predict_wrench(vehicle, body, speeds, 1.1 * speeds, Vec3(1.0, -2.0, 0.0))
    weightless = vehicle.without_effect("gravity")
    for k in range(5):
        state = state_at_rest(weightless)._replace(
            v_W=Vec3(*body[3:6, k].tolist()),
            q_WB=Quat(*body[6:10, k].tolist()),
            omega_B=Vec3(*body[10:, k].tolist()),
            rotor_speed=tuple(speeds[:, k].tolist()),
        )
        command = tuple(
            command_from_speed(1.1 * s, r.motor) for s, r in zip(state.rotor_speed, vehicle.rotors, strict=True)
        )
        total = wrench(state, command, weightless, CALM._replace(wind_W=Vec3(1.0, -2.0, 0.0)))
        expected = wrench_in_body_axes(total, normalize(state.q_WB))
        assert predicted.f_B[:, k] == pytest.approx(np.array(expected.f_B), rel=1e-11, abs=1e-13)
        assert predicted.tau_B[:, k] == pytest.approx(np.array(expected.tau_B), rel=1e-11, abs=1e-13)


def test_the_torque_needed_is_eulers_equation():
    """J ω̇ + ω × Jω by NumPy's cross product."""
    draw = np.random.default_rng(4)
    vehicle = random_vehicle(3, 2)
    body, omega_dot = draw.standard_normal((13, 7)), draw.standard_normal((3, 7))
    inertia = np.array(vehicle.inertia_B.rows)
    expected = inertia @ omega_dot + np.cross(body[10:].T, (inertia @ body[10:]).T).T
    assert required_body_torque(body, omega_dot, vehicle) == pytest.approx(expected, rel=1e-12)
