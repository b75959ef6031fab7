"""Unpaired rotors: their angular momentum, which the controller has to rotate with the body."""

from dataclasses import replace

import numpy as np

import samara
from samara.control.disturbance_torque import gyroscopic_torque, modelled_acceleration
from samara.core.algebra import ZERO, Vec3, cross
from samara.physics.multirotor import derivative, tilt_rotors
from samara.vehicles.parts.assemble import assemble
from samara.vehicles.parts.parts_list import parts_list

SMALL = {"mass": 0.224, "diagonal": 0.13, "motors": "1506 2400KV", "props": "4.2x3.3", "battery": "3S990"}


def test_it_is_the_rate_times_the_angular_momentum():
    """h = Σ ± J_r Ω along the axes of the rotors, the third as tilted by its servo"""
    vehicle = assemble(parts_list(layout="tricopter", **SMALL))
    state = samara.hover(vehicle)[0]._replace(omega_B=Vec3(0.3, -0.2, 0.1))
    axes = [rotor.axis_B for rotor in tilt_rotors(state, vehicle).rotors]
    assert abs(axes[2].y) > 0.1
    h_B = ZERO
    for rotor, axis_B, speed in zip(vehicle.rotors, axes, state.rotor_speed, strict=True):
        h_B = h_B + axis_B * (rotor.spin * rotor.inertia * speed)
    assert np.allclose(gyroscopic_torque(state, vehicle), cross(state.omega_B, h_B), rtol=1e-12)


def test_the_modelled_angular_acceleration_is_that_of_the_equations_of_motion():
    """The lead closes its loops on ω̇: a model without ω × Σ h made a light tricopter with large propellers circle in hover."""
    vehicle = assemble(parts_list(layout="tricopter", **SMALL)).without_effect(
        "rotor_drag", "airspeed_moment", "translational_lift"
    )
    state, command = samara.hover(vehicle)
    state = state._replace(omega_B=Vec3(0.3, -0.2, 0.1))
    exact = derivative(state, command, vehicle).omega_B
    assert np.linalg.norm(exact) > 1.0
    assert np.allclose(modelled_acceleration(state, vehicle, None), exact, rtol=1e-9)


def test_a_small_tricopter_does_not_topple():
    """Without the gyroscopic torque of its third rotor it precesses until it falls."""
    vehicle = assemble(parts_list(layout="tricopter", **SMALL))
    scenario = samara.load_scenario("figure8")
    drones = tuple(replace(drone, vehicle=vehicle) for drone in scenario.drones)
    (track,) = samara.fly(replace(scenario, drones=drones, duration=8.0), controller="geometric").drone_records
    assert track.error.max() < 0.2
