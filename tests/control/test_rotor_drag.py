"""Drag of the rotors as controllers know it: the effect's own force and torque, and flights that they would spoil."""

import math
from dataclasses import replace

import numpy as np
import pytest
from studies.parts import figure_of_eight
from support.tricopter import ARM, tricopter

import samara
from samara.control.disturbance_torque import rotor_drag_wrench
from samara.control.geometric import drag_at
from samara.core.algebra import ZERO, Quat, Vec3, rotate
from samara.physics.multirotor import tilt_angles, wrench
from samara.physics.rotors.blade_element import RotorDrag
from samara.physics.types import CALM
from samara.vehicles.parts.assemble import assemble
from samara.vehicles.parts.parts_list import parts_list


def raised(**drag):
    """An Iris whose rotors are 6 cm above its centre of mass and feel their own drag"""
    iris = samara.vehicle("iris")
    rotors = tuple(own._replace(r_B=own.r_B + Vec3(0.0, 0.0, 0.06)) for own in iris.rotors)
    return samara.switch_on(iris.replace(rotors=rotors), "rotor_drag", **drag)


def test_it_is_what_the_effect_adds_to_all_that_acts():
    vehicle = raised(coefficient=1e-4, axial=3e-4)
    state, command = samara.hover(vehicle, (0.0, 0.0, 50.0))
    lean = Quat(np.cos(0.1), 0.3 * np.sin(0.1), np.sqrt(1.0 - 0.09) * np.sin(0.1), 0.0)
    there = state._replace(v_W=Vec3(3.0, -1.0, 0.5), q_WB=lean)
    bare = there._replace(
        effects=there.effects[: vehicle.index("rotor_drag")] + there.effects[vehicle.index("rotor_drag") + 1 :]
    )
    without = vehicle.without_effect("rotor_drag", "rotor_momentum")
    at = vehicle.index("rotor_momentum")
    whole = wrench(
        there._replace(effects=there.effects[:at] + there.effects[at + 1 :]),
        command,
        vehicle.without_effect("rotor_momentum"),
        CALM,
    )
    less = wrench(bare._replace(effects=bare.effects[:at] + bare.effects[at + 1 :]), command, without, CALM)
    known = rotor_drag_wrench(there.v_W, there, vehicle)
    assert [*known.f_B] == pytest.approx([*(whole.f_B - less.f_B)], rel=1e-9, abs=1e-12)
    assert [*known.tau_B] == pytest.approx([*(whole.tau_B - less.tau_B)], rel=1e-9, abs=1e-12)
    airframe = drag_at(there.v_W, there, vehicle.without_effect("rotor_drag"))
    assert [*(drag_at(there.v_W, there, vehicle) - airframe)] == pytest.approx([*rotate(lean, known.f_B)])


def test_a_tilted_tail_climbs_when_a_tricopter_flies_sideways():
    """ΔT = −k_a Ω v·a with a = (0, −sin δ, cos δ), at the tail's arm: τ_y = L ΔT cos δ"""
    vehicle = tricopter(effects={"rotor_drag": RotorDrag(coefficient=0.0, axial=3e-4)})
    state, _ = samara.hover(vehicle)
    (angle,) = tilt_angles(state, vehicle)
    sideways = state._replace(v_W=Vec3(0.0, 3.0, 0.0), q_WB=Quat(1.0, 0.0, 0.0, 0.0))
    lost = 3e-4 * state.rotor_speed[2] * 3.0 * math.sin(angle)
    own = rotor_drag_wrench(sideways.v_W, sideways, vehicle)
    assert own.tau_B.y == pytest.approx(ARM * lost * math.cos(angle), rel=1e-12)
    assert [*own.f_B] == pytest.approx([0.0, -lost * math.sin(angle), lost * math.cos(angle)], rel=1e-12)
    whole = wrench(sideways, (0.0,) * 4, vehicle, CALM)
    still = wrench(sideways._replace(v_W=ZERO), (0.0,) * 4, vehicle, CALM)
    assert [*own.tau_B] == pytest.approx([*(whole.tau_B - still.tau_B)], rel=1e-9, abs=1e-12)


def test_without_such_an_effect_there_is_nothing():
    iris = samara.vehicle("iris")
    state, _ = samara.hover(iris)
    own = rotor_drag_wrench(Vec3(5.0, 0.0, 0.0), state, iris)
    assert (own.f_B, own.tau_B) == (ZERO, ZERO)


@pytest.mark.parametrize("controller", ["geometric", "pid"])
def test_a_light_drone_is_not_held_back_by_rotors_above_its_centre_of_mass(controller):
    """Their drag leans it back against the way it flies; controllers that do not know of it are 1.7 and 1.2 m off"""
    parts = {"mass": 0.0442, "diagonal": 0.0933, "motors": "0702 13000KV", "props": "2x1.6", "battery": "1S360"}
    eight = figure_of_eight(slower=1.5)
    drones = tuple(replace(drone, vehicle=assemble(parts_list(**parts))) for drone in eight.drones)
    (track,) = samara.fly(replace(eight, drones=drones, duration=24.0), controller=controller).tracks
    assert track.error.max() < 0.5
