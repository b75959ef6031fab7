"""Properties that a Gazebo model can express are restored when the file is imported again."""

import numpy as np
import pytest
from vehicles.test_sdf import HERON, classic_model

import samara
from samara.physics.rotors.actuator import Lag
from samara.vehicles.exchange.imported_vehicle import build_imported
from samara.vehicles.exchange.sdf import read_sdf
from samara.vehicles.exchange.sdf_write import motor_dynamics, sdf_omissions, sdf_text, write_sdf

FLYING = [name for name in samara.vehicle_names() if samara.vehicle(name).rotors]


def reimport(vehicle, folder):
    write_sdf(vehicle, folder / "model.sdf")
    return build_imported(read_sdf(folder / "model.sdf"))


@pytest.mark.parametrize("name", FLYING)
def test_body_and_rotors_come_back(tmp_path, name):
    vehicle = samara.vehicle(name)
    read = reimport(vehicle, tmp_path)
    assert (read.name, read.mass) == (vehicle.name, pytest.approx(vehicle.mass, rel=1e-14))
    biggest = max(abs(x) for x in vehicle.inertia_B)
    assert np.array(read.inertia_B) == pytest.approx(np.array(vehicle.inertia_B), rel=1e-12, abs=1e-13 * biggest)
    for one, other, motor in zip(read.rotors, vehicle.rotors, motor_dynamics(vehicle), strict=True):
        assert np.array(one.r_B) == pytest.approx(np.array(other.r_B), abs=1e-14)
        assert np.array(one.axis_B) == pytest.approx(np.array(other.axis_B), abs=1e-14)
        assert (one.spin, one.k_thrust, one.radius) == (other.spin, other.k_thrust, other.radius)
        assert one.k_torque == pytest.approx(other.k_torque, rel=1e-15)
        assert one.inertia == pytest.approx(max(other.inertia, 1e-9), rel=1e-14)
        assert (one.motor.speed_max, one.motor.time_constant_up, one.motor.time_constant_down) == motor
        if isinstance(other.motor, Lag) and not vehicle.has("battery"):
            assert (one.motor.speed_max, one.motor.time_constant_up, one.motor.time_constant_down) == other.motor[1:4]
    feet = sorted(tuple(point) for point in vehicle["contact"].points_B)
    assert np.array(sorted(tuple(point) for point in read["contact"].points_B)) == pytest.approx(
        np.array(feet), abs=1e-12
    )


def test_an_imported_aircraft_is_the_same_again(tmp_path):
    """All parameters of Gazebo's motor plugin: lag, drag and rolling moment too."""
    vehicle = build_imported(read_sdf(HERON))
    assert sdf_omissions(vehicle) == []
    read = reimport(vehicle, tmp_path)
    assert read.structure == vehicle.structure and [r.motor for r in read.rotors] == [r.motor for r in vehicle.rotors]
    assert read["rotor_drag"] == vehicle["rotor_drag"] and read["rolling_moment"] == vehicle["rolling_moment"]


def test_one_of_gazebo_classic_is_written_in_its_tongue(tmp_path):
    vehicle = build_imported(read_sdf(classic_model(tmp_path / "classic")))
    assert "libgazebo_motor_model.so" in sdf_text(vehicle)
    read = reimport(vehicle, tmp_path)
    assert read.structure == vehicle.structure and read["thrust_fade"] == vehicle["thrust_fade"]


def test_a_folder_is_what_gazebo_looks_for(tmp_path):
    written = write_sdf(samara.vehicle("hexarotor_x"), tmp_path / "hexa")
    assert [path.name for path in written] == ["model.sdf", "model.config"]
    assert '<sdf version="1.9">model.sdf</sdf>' in written[1].read_text()
    assert build_imported(read_sdf(written[0])).name == "hexarotor_x"


def test_dc_motors_become_the_lag_that_they_show():
    """τ = J / (K²/R + b + 2 kM Ω) about hover, at a constant voltage"""
    iris = samara.switch_on(samara.vehicle("iris"), "battery", model="ideal", voltage=12.0)
    rotor, speed = iris.rotors[0], samara.hover(iris)[0].rotor_speed[0]
    motor = rotor.motor
    slope = motor.constant**2 / motor.resistance + motor.damping + 2.0 * rotor.k_torque * speed
    assert motor_dynamics(iris)[0].time_constant_up == pytest.approx(rotor.inertia / slope, rel=1e-6)


def test_what_sdf_has_no_word_for_is_listed():
    omissions = sdf_omissions(samara.vehicle("iris"))
    assert [sentence.split(":")[0] for sentence in omissions] == ["drag", "damping", "battery", "motor"]


def test_a_body_without_rotors_is_refused():
    with pytest.raises(samara.VehicleError, match="rotors has 0 entries: expected some"):
        sdf_text(samara.vehicle("rigid_body_quadrotor"))
