"""Rotor drag in controllers: the force and torque of the effect, and flights that need its compensation."""

import math
from dataclasses import replace

import numpy as np
import pytest
from studies.parts import figure_of_eight
from support.tricopter import ARM, tricopter

import samara
from samara.control.disturbance_torque import rotor_drag_wrench
from samara.control.geometric import model_drag
from samara.core.algebra import ZERO, Quat, Vec3, rotate
from samara.physics.multirotor import tilt_angles, wrench
from samara.physics.rotors.blade_element import RotorDrag
from samara.physics.types import CALM
from samara.vehicles.parts.assemble import assemble
from samara.vehicles.parts.parts_list import parts_list


def raised_rotors(**drag):
    """An Iris whose rotors are 6 cm above its centre of mass, with rotor drag"""
    iris = samara.vehicle("iris")
    rotors = tuple(rotor._replace(r_B=rotor.r_B + Vec3(0.0, 0.0, 0.06)) for rotor in iris.rotors)
    return samara.switch_on(iris.replace(rotors=rotors), "rotor_drag", **drag)


def test_the_wrench_is_that_of_the_effect():
    vehicle = raised_rotors(coefficient=1e-4, axial=3e-4)
    state, command = samara.hover(vehicle, (0.0, 0.0, 50.0))
    q_WB = Quat(np.cos(0.1), 0.3 * np.sin(0.1), np.sqrt(1.0 - 0.09) * np.sin(0.1), 0.0)
    moving = state._replace(v_W=Vec3(3.0, -1.0, 0.5), q_WB=q_WB)
    moving_without = moving._replace(
        effects=moving.effects[: vehicle.index("rotor_drag")] + moving.effects[vehicle.index("rotor_drag") + 1 :]
    )
    without = vehicle.without_effect("rotor_drag", "rotor_momentum")
    index = vehicle.index("rotor_momentum")
    total_wrench = wrench(
        moving._replace(effects=moving.effects[:index] + moving.effects[index + 1 :]),
        command,
        vehicle.without_effect("rotor_momentum"),
        CALM,
    )
    wrench_without = wrench(
        moving_without._replace(effects=moving_without.effects[:index] + moving_without.effects[index + 1 :]),
        command,
        without,
        CALM,
    )
    drag_wrench = rotor_drag_wrench(moving.v_W, moving, vehicle)
    assert [*drag_wrench.f_B] == pytest.approx([*(total_wrench.f_B - wrench_without.f_B)], rel=1e-9, abs=1e-12)
    assert [*drag_wrench.tau_B] == pytest.approx([*(total_wrench.tau_B - wrench_without.tau_B)], rel=1e-9, abs=1e-12)
    airframe = model_drag(moving.v_W, moving, vehicle.without_effect("rotor_drag"))
    assert [*(model_drag(moving.v_W, moving, vehicle) - airframe)] == pytest.approx([*rotate(q_WB, drag_wrench.f_B)])


def test_a_tilted_tail_climbs_when_a_tricopter_flies_sideways():
    """ΔT = −k_a Ω v·a with a = (0, −sin δ, cos δ), at the tail's arm: τ_y = L ΔT cos δ"""
    vehicle = tricopter(effects={"rotor_drag": RotorDrag(coefficient=0.0, axial=3e-4)})
    state, _ = samara.hover(vehicle)
    (angle,) = tilt_angles(state, vehicle)
    sideways = state._replace(v_W=Vec3(0.0, 3.0, 0.0), q_WB=Quat(1.0, 0.0, 0.0, 0.0))
    thrust_loss = 3e-4 * state.rotor_speed[2] * 3.0 * math.sin(angle)
    drag_wrench = rotor_drag_wrench(sideways.v_W, sideways, vehicle)
    assert drag_wrench.tau_B.y == pytest.approx(ARM * thrust_loss * math.cos(angle), rel=1e-12)
    assert [*drag_wrench.f_B] == pytest.approx(
        [0.0, -thrust_loss * math.sin(angle), thrust_loss * math.cos(angle)], rel=1e-12
    )
    total_wrench = wrench(sideways, (0.0,) * 4, vehicle, CALM)
    hover_wrench = wrench(sideways._replace(v_W=ZERO), (0.0,) * 4, vehicle, CALM)
    assert [*drag_wrench.tau_B] == pytest.approx([*(total_wrench.tau_B - hover_wrench.tau_B)], rel=1e-9, abs=1e-12)


def test_without_rotor_drag_the_wrench_is_zero():
    iris = samara.vehicle("iris")
    state, _ = samara.hover(iris)
    drag_wrench = rotor_drag_wrench(Vec3(5.0, 0.0, 0.0), state, iris)
    assert (drag_wrench.f_B, drag_wrench.tau_B) == (ZERO, ZERO)


@pytest.mark.parametrize("controller", ["geometric", "pid"])
def test_a_light_drone_is_not_held_back_by_rotors_above_its_centre_of_mass(controller):
    """Their drag tilts it back against its motion; controllers without the compensation are 1.7 and 1.2 m off"""
    parts = {"mass": 0.0442, "diagonal": 0.0933, "motors": "0702 13000KV", "props": "2x1.6", "battery": "1S360"}
    eight = figure_of_eight(slowdown=1.5)
    drones = tuple(replace(drone, vehicle=assemble(parts_list(**parts))) for drone in eight.drones)
    (track,) = samara.fly(replace(eight, drones=drones, duration=24.0), controller=controller).drone_records
    assert track.error.max() < 0.5
