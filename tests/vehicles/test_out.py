"""What is written for PX4, ArduPilot and Betaflight is read back as the same vehicle, as far as the format goes."""

import math

import numpy as np
import pytest

import samara
from samara.core.algebra import Vec3
from samara.vehicles.check import VehicleError
from samara.vehicles.exchange.ardupilot import (
    ardupilot_frame,
    ardupilot_json,
    ardupilot_parameters,
    ardupilot_text,
    write_ardupilot,
)
from samara.vehicles.exchange.betaflight import (
    betaflight_diff,
    betaflight_mixer,
    betaflight_text,
    thrust_linear,
    write_betaflight,
)
from samara.vehicles.exchange.formats import read_aircraft
from samara.vehicles.exchange.imported_vehicle import built, sized
from samara.vehicles.exchange.px4 import (
    agility,
    airframe_parameters,
    px4_numbers,
    px4_parameter_file,
    px4_text,
    write_px4,
)
from samara.vehicles.exchange.throttle import full_thrust, hover_throttle, sagged_hover, throttle_for, thrust_share
from samara.vehicles.parts.uncertain import given
from samara.vehicles.trim import effectiveness, hover

VEHICLES = ("iris", "iris_documented", "crazyflie", "hakoniwa", "hexarotor_x", "octorotor_x")
THIN = 2e-7  # the standard atmosphere has 1.22499998 kg/m³ at sea level, k_thrust is for 1.225
FRAME = (
    '{ "mass" : 2.1, "hoverThrOut" : 0.41, "propExpo" : 0.6, "refAlt" : 0, "disc_area" : 0.2, "battCapacityAh" : 5 }'
)


@pytest.mark.parametrize("name", VEHICLES)
def test_px4_places_moments_curve_and_hover_come_back(name, tmp_path):
    own = samara.vehicle(name)
    (path,) = write_px4(own, tmp_path / name)
    again = built(read_aircraft(path), own)
    assert path.name == f"{name}.params"
    assert [rotor.r_B for rotor in again.rotors] == [rotor.r_B for rotor in own.rotors]
    assert [rotor.axis_B for rotor in again.rotors] == [rotor.axis_B for rotor in own.rotors]
    assert [rotor.spin for rotor in again.rotors] == [rotor.spin for rotor in own.rotors]
    assert [rotor.k_torque for rotor in again.rotors] == pytest.approx(
        [rotor.k_torque for rotor in own.rotors], rel=1e-14
    )
    share = airframe_parameters(own)["MPC_THR_HOVER"]
    full = sum(rotor.k_thrust * rotor.motor.speed_max**2 for rotor in again.rotors)
    assert full == pytest.approx(own.mass * 9.80665 / share, rel=1e-12)
    assert np.allclose(effectiveness(again), effectiveness(own), rtol=1e-13)


def test_px4_knows_the_hover_throttle_of_the_motors_on_their_battery():
    """thrust over full thrust, by the curve PX4 is told, is the throttle at which the vehicle hovers"""
    own = samara.vehicle("iris")
    numbers = airframe_parameters(own)
    command = sum(hover(own)[1]) / 4.0
    e = numbers["THR_MDL_FAC"]
    assert (1.0 - e) * command + e * command**2 == pytest.approx(numbers["MPC_THR_HOVER"], rel=1e-12)
    assert hover_throttle(own).thrust < numbers["MPC_THR_HOVER"] == sagged_hover(own)  # it sags
    assert throttle_for(thrust_share(0.37, e), e) == pytest.approx(0.37, rel=1e-14)
    assert numbers["BAT1_N_CELLS"] == 3 and numbers["BAT1_CAPACITY"] == pytest.approx(3500.0)
    assert "1\t1\tBAT1_N_CELLS\t3\t6\n" in px4_text(own) and px4_numbers(px4_text(own), "own") == pytest.approx(numbers)


def test_px4s_gains_are_those_of_an_iris_over_how_hard_the_vehicle_turns():
    own = samara.vehicle("hexarotor_x")
    numbers = airframe_parameters(own)
    iris, ours = agility(samara.vehicle("iris_documented")), agility(own, numbers["MPC_THR_HOVER"])
    assert numbers["MC_ROLLRATE_K"] == pytest.approx(iris[0] / ours[0], rel=1e-12)
    assert full_thrust(own, numbers["MPC_THR_HOVER"]) * 6 == pytest.approx(
        own.mass * 9.80665 / numbers["MPC_THR_HOVER"], rel=1e-6
    )


def test_an_ardupilot_frame_comes_back_to_the_last_digits():
    own = built(ardupilot_frame(FRAME, "own.json"))
    again = built(ardupilot_frame(ardupilot_json(own), "own.json"))
    assert again.mass == own.mass and again.inertia_B == own.inertia_B
    for here, there in zip(own.rotors, again.rotors, strict=True):
        assert tuple(there.r_B) == pytest.approx(tuple(here.r_B), abs=1e-15) and there.spin == here.spin
        for field in ("k_thrust", "k_torque", "radius"):
            assert getattr(there, field) == pytest.approx(getattr(here, field), rel=THIN)
        for field in ("speed_min", "speed_max", "full_voltage", "efficiency"):
            assert getattr(there.motor, field) == pytest.approx(getattr(here.motor, field), rel=1e-6)
    assert tuple(again["drag"].quadratic) == pytest.approx(tuple(own["drag"].quadratic), rel=THIN)
    assert again["rotor_drag"] == pytest.approx(own["rotor_drag"], rel=THIN)
    assert tuple(again["damping"].linear) == pytest.approx(tuple(own["damping"].linear), rel=1e-12)
    assert again["battery"][0].capacity == pytest.approx(own["battery"][0].capacity, rel=1e-14)
    assert again["battery"][0].resistance == pytest.approx(own["battery"][0].resistance, rel=2e-3)


@pytest.mark.parametrize("name", VEHICLES)
def test_ardupilot_gets_the_same_thrust_places_and_drag_ahead(name, tmp_path):
    own = samara.vehicle(name)
    frame, parameters = write_ardupilot(own, tmp_path / name)
    again = built(read_aircraft(frame))
    found = hover_throttle(own)
    assert (frame.name, parameters.name) == (f"{name}.json", f"{name}.parm")
    assert hover_throttle(again).thrust == pytest.approx(found.thrust, rel=1e-6)
    assert sum(rotor.k_thrust * rotor.motor.speed_max**2 for rotor in again.rotors) == pytest.approx(
        own.mass * 9.80665 / found.thrust, rel=THIN
    )
    theirs = {tuple(round(x, 12) for x in rotor.r_B): rotor.spin for rotor in again.rotors}
    assert theirs == {tuple(round(x, 12) for x in rotor.r_B): rotor.spin for rotor in own.rotors}
    numbers = ardupilot_parameters(own)
    assert numbers["FRAME_CLASS"] == {4: 1, 6: 2, 8: 3}[len(own.rotors)] and numbers["FRAME_TYPE"] in (1, 18)
    assert f"MOT_THST_EXPO {numbers['MOT_THST_EXPO']!r}\n" in ardupilot_text(own) or numbers["MOT_THST_EXPO"] in (0, 1)


def test_a_frame_that_ardupilot_does_not_have_is_refused_in_a_sentence():
    own = samara.vehicle("iris_documented")
    turned = own.replace(rotors=tuple(rotor._replace(spin=1) for rotor in own.rotors))
    with pytest.raises(
        VehicleError, match="its 4 rotors match no frame of ArduPilot by position and spin: expected one of"
    ):
        ardupilot_json(turned)


@pytest.mark.parametrize("name", VEHICLES)
def test_betaflight_places_and_turns_come_back(name, tmp_path):
    own = samara.vehicle(name)
    (path,) = write_betaflight(own, tmp_path / name)
    mixer, order, _ = betaflight_mixer(own)
    arm = max(math.hypot(rotor.r_B.x, rotor.r_B.y) for rotor in own.rotors)
    said = sized(betaflight_diff(path.read_text(), path.name), given(arm))
    assert mixer == ("CUSTOM" if name.startswith("iris") else {4: "QUADX", 6: "HEX6X", 8: "OCTOFLATX"}[len(own.rotors)])
    for rotor, at in zip(said.rotors, order, strict=True):
        here = own.rotors[at]
        assert Vec3(*rotor.position.values)[:2] == pytest.approx(
            tuple(here.r_B)[:2], abs=1e-4 * arm
        )  # its rows have six digits
        assert rotor.spin == here.spin


def test_betaflight_is_told_the_battery_and_how_bent_the_thrust_is():
    own = samara.vehicle("iris")
    text, found = betaflight_text(own), hover_throttle(own)
    said = betaflight_diff(text, "own.txt")
    assert said.battery["capacity"].value == pytest.approx(own["battery"][0].capacity)
    assert said.battery["table_voltage"].values[-1] == pytest.approx(12.6)
    share = thrust_linear(own) / 100.0
    met = found.thrust * (1.0 + share * (1.0 - found.thrust) ** 2)
    assert share == 1.5 or met == pytest.approx(found.throttle, abs=0.005)


def test_reading_what_px4_is_told_without_an_estimate_names_what_it_cannot_say():
    with pytest.raises(VehicleError, match=r"does not contain body.mass, body.inertia, rotors.k_thrust, rotors.motor.rise"):
        built(px4_parameter_file(px4_text(samara.vehicle("iris")), "iris.params"))
