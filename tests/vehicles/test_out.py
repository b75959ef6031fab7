"""Files for PX4, ArduPilot and Betaflight are read back as the same vehicle, as far as the format allows."""

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
from samara.vehicles.exchange.imported_vehicle import build_imported, scale_positions
from samara.vehicles.exchange.px4 import (
    agility,
    airframe_parameters,
    parse_px4_parameters,
    px4_parameter_file,
    px4_text,
    write_px4,
)
from samara.vehicles.exchange.throttle import (
    full_thrust,
    hover_throttle,
    loaded_hover_thrust,
    solve_throttle,
    thrust_fraction,
)
from samara.vehicles.parts.uncertain import exact_value
from samara.vehicles.trim import effectiveness, hover

VEHICLES = ("iris", "iris_documented", "crazyflie", "hakoniwa", "hexarotor_x", "octorotor_x")
THIN = 2e-7  # the standard atmosphere has 1.22499998 kg/m³ at sea level, k_thrust is for 1.225
FRAME = (
    '{ "mass" : 2.1, "hoverThrOut" : 0.41, "propExpo" : 0.6, "refAlt" : 0, "disc_area" : 0.2, "battCapacityAh" : 5 }'
)


@pytest.mark.parametrize("name", VEHICLES)
def test_px4_places_moments_curve_and_hover_come_back(name, tmp_path):
    original = samara.vehicle(name)
    (path,) = write_px4(original, tmp_path / name)
    reread = build_imported(read_aircraft(path), original)
    assert path.name == f"{name}.params"
    assert [rotor.r_B for rotor in reread.rotors] == [rotor.r_B for rotor in original.rotors]
    assert [rotor.axis_B for rotor in reread.rotors] == [rotor.axis_B for rotor in original.rotors]
    assert [rotor.spin for rotor in reread.rotors] == [rotor.spin for rotor in original.rotors]
    assert [rotor.k_torque for rotor in reread.rotors] == pytest.approx(
        [rotor.k_torque for rotor in original.rotors], rel=1e-14
    )
    hover_fraction = airframe_parameters(original)["MPC_THR_HOVER"]
    full = sum(rotor.k_thrust * rotor.motor.speed_max**2 for rotor in reread.rotors)
    assert full == pytest.approx(original.mass * 9.80665 / hover_fraction, rel=1e-12)
    assert np.allclose(effectiveness(reread), effectiveness(original), rtol=1e-13)


def test_px4_knows_the_hover_throttle_of_the_motors_on_their_battery():
    """The hover thrust over full thrust, by PX4's curve, is the throttle at which the vehicle hovers."""
    original = samara.vehicle("iris")
    numbers = airframe_parameters(original)
    command = sum(hover(original)[1]) / 4.0
    e = numbers["THR_MDL_FAC"]
    assert (1.0 - e) * command + e * command**2 == pytest.approx(numbers["MPC_THR_HOVER"], rel=1e-12)
    assert hover_throttle(original).thrust < numbers["MPC_THR_HOVER"] == loaded_hover_thrust(original)  # it sags
    assert solve_throttle(thrust_fraction(0.37, e), e) == pytest.approx(0.37, rel=1e-14)
    assert numbers["BAT1_N_CELLS"] == 3 and numbers["BAT1_CAPACITY"] == pytest.approx(3500.0)
    assert "1\t1\tBAT1_N_CELLS\t3\t6\n" in px4_text(original) and parse_px4_parameters(
        px4_text(original), "own"
    ) == pytest.approx(numbers)


def test_px4s_gains_are_those_of_an_iris_over_how_hard_the_vehicle_turns():
    original = samara.vehicle("hexarotor_x")
    numbers = airframe_parameters(original)
    iris_agility, hexarotor_agility = (
        agility(samara.vehicle("iris_documented")),
        agility(original, numbers["MPC_THR_HOVER"]),
    )
    assert numbers["MC_ROLLRATE_K"] == pytest.approx(iris_agility[0] / hexarotor_agility[0], rel=1e-12)
    assert full_thrust(original, numbers["MPC_THR_HOVER"]) * 6 == pytest.approx(
        original.mass * 9.80665 / numbers["MPC_THR_HOVER"], rel=1e-6
    )


def test_an_ardupilot_frame_comes_back_to_the_last_digits():
    original = build_imported(ardupilot_frame(FRAME, "own.json"))
    reread = build_imported(ardupilot_frame(ardupilot_json(original), "own.json"))
    assert reread.mass == original.mass and reread.inertia_B == original.inertia_B
    for rotor, reread_rotor in zip(original.rotors, reread.rotors, strict=True):
        assert tuple(reread_rotor.r_B) == pytest.approx(tuple(rotor.r_B), abs=1e-15) and reread_rotor.spin == rotor.spin
        for field in ("k_thrust", "k_torque", "radius"):
            assert getattr(reread_rotor, field) == pytest.approx(getattr(rotor, field), rel=THIN)
        for field in ("speed_min", "speed_max", "full_voltage", "efficiency"):
            assert getattr(reread_rotor.motor, field) == pytest.approx(getattr(rotor.motor, field), rel=1e-6)
    assert tuple(reread["drag"].quadratic) == pytest.approx(tuple(original["drag"].quadratic), rel=THIN)
    assert reread["rotor_drag"] == pytest.approx(original["rotor_drag"], rel=THIN)
    assert tuple(reread["damping"].linear) == pytest.approx(tuple(original["damping"].linear), rel=1e-12)
    assert reread["battery"][0].capacity == pytest.approx(original["battery"][0].capacity, rel=1e-14)
    assert reread["battery"][0].resistance == pytest.approx(original["battery"][0].resistance, rel=2e-3)


@pytest.mark.parametrize("name", VEHICLES)
def test_ardupilot_gets_the_same_thrust_places_and_drag_ahead(name, tmp_path):
    original = samara.vehicle(name)
    frame, parameters = write_ardupilot(original, tmp_path / name)
    reread = build_imported(read_aircraft(frame))
    hover_point = hover_throttle(original)
    assert (frame.name, parameters.name) == (f"{name}.json", f"{name}.parm")
    assert hover_throttle(reread).thrust == pytest.approx(hover_point.thrust, rel=1e-6)
    assert sum(rotor.k_thrust * rotor.motor.speed_max**2 for rotor in reread.rotors) == pytest.approx(
        original.mass * 9.80665 / hover_point.thrust, rel=THIN
    )
    reread_spins = {tuple(round(x, 12) for x in rotor.r_B): rotor.spin for rotor in reread.rotors}
    assert reread_spins == {tuple(round(x, 12) for x in rotor.r_B): rotor.spin for rotor in original.rotors}
    numbers = ardupilot_parameters(original)
    assert numbers["FRAME_CLASS"] == {4: 1, 6: 2, 8: 3}[len(original.rotors)] and numbers["FRAME_TYPE"] in (1, 18)
    assert f"MOT_THST_EXPO {numbers['MOT_THST_EXPO']!r}\n" in ardupilot_text(original) or numbers["MOT_THST_EXPO"] in (
        0,
        1,
    )


def test_a_frame_that_ardupilot_does_not_have_is_refused_in_a_sentence():
    original = samara.vehicle("iris_documented")
    reversed_spins = original.replace(rotors=tuple(rotor._replace(spin=1) for rotor in original.rotors))
    with pytest.raises(
        VehicleError, match="its 4 rotors match no frame of ArduPilot by position and spin: expected one of"
    ):
        ardupilot_json(reversed_spins)


@pytest.mark.parametrize("name", VEHICLES)
def test_betaflight_places_and_turns_come_back(name, tmp_path):
    original = samara.vehicle(name)
    (path,) = write_betaflight(original, tmp_path / name)
    mixer, order, _ = betaflight_mixer(original)
    arm = max(math.hypot(rotor.r_B.x, rotor.r_B.y) for rotor in original.rotors)
    diff = scale_positions(betaflight_diff(path.read_text(), path.name), exact_value(arm))
    assert mixer == (
        "CUSTOM" if name.startswith("iris") else {4: "QUADX", 6: "HEX6X", 8: "OCTOFLATX"}[len(original.rotors)]
    )
    for rotor, index in zip(diff.rotors, order, strict=True):
        vehicle_rotor = original.rotors[index]
        assert Vec3(*rotor.position.values)[:2] == pytest.approx(
            tuple(vehicle_rotor.r_B)[:2], abs=1e-4 * arm
        )  # its rows have six digits
        assert rotor.spin == vehicle_rotor.spin


def test_betaflight_is_told_the_battery_and_how_bent_the_thrust_is():
    original = samara.vehicle("iris")
    text, hover_point = betaflight_text(original), hover_throttle(original)
    diff = betaflight_diff(text, "own.txt")
    assert diff.battery["capacity"].value == pytest.approx(original["battery"][0].capacity)
    assert diff.battery["table_voltage"].values[-1] == pytest.approx(12.6)
    linearisation = thrust_linear(original) / 100.0
    throttle = hover_point.thrust * (1.0 + linearisation * (1.0 - hover_point.thrust) ** 2)
    assert linearisation == 1.5 or throttle == pytest.approx(hover_point.throttle, abs=0.005)


def test_reading_what_px4_is_told_without_an_estimate_names_what_it_cannot_say():
    with pytest.raises(
        VehicleError, match=r"does not contain body.mass, body.inertia, rotors.k_thrust, rotors.motor.time_constant_up"
    ):
        build_imported(px4_parameter_file(px4_text(samara.vehicle("iris")), "iris.params"))
