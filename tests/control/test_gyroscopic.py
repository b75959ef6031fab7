"""Rotors that are not in pairs: their angular momentum, which a controller has to turn with the body."""

from dataclasses import replace

import numpy as np

import samara
from samara.control.opposing import gyroscopic
from samara.core.algebra import Vec3, cross
from samara.parts.assemble import assemble
from samara.parts.parts_list import parts_list

SMALL = {"mass": 0.224, "diagonal": 0.13, "motors": "1506 2400KV", "props": "4.2x3.3", "battery": "3S990"}


def test_it_is_the_rate_times_the_angular_momentum():
    vehicle = assemble(parts_list(layout="tricopter", **SMALL))
    state = samara.hover(vehicle)[0]._replace(omega_B=Vec3(0.3, -0.2, 0.1))
    h = sum(own.spin * own.inertia * speed for own, speed in zip(vehicle.rotors, state.rotor_speed, strict=True))
    assert np.allclose(gyroscopic(state, vehicle), cross(state.omega_B, Vec3(0.0, 0.0, h)), rtol=1e-12)


def test_a_small_tricopter_does_not_topple():
    """Its third rotor turns faster about its axis than its loops do about theirs: without this it precesses until it falls"""
    vehicle = assemble(parts_list(layout="tricopter", **SMALL))
    own = samara.load_scenario("figure8")
    drones = tuple(replace(drone, vehicle=vehicle) for drone in own.drones)
    (track,) = samara.fly(replace(own, drones=drones, duration=8.0), controller="geometric").tracks
    assert track.error.max() < 0.2
