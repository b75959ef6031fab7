"""PX4's parameters in three formats: the same rotors, and ratios that become parameters with a mass and a thrust."""

import math

import pytest

from samara import vehicle
from samara.core.algebra import Vec3
from samara.physics.rotors.actuator import Lag
from samara.vehicles.check import VehicleError
from samara.vehicles.exchange.formats import read_aircraft
from samara.vehicles.exchange.imported_vehicle import build_imported
from samara.vehicles.exchange.px4 import px4_parameter_file
from samara.vehicles.exchange.throttle import hover_throttle
from samara.vehicles.trim import thrust_to_weight
from samara.vehicles.writer import valid_spreads

NUMBERS = {
    "CA_AIRFRAME": 0,
    "CA_ROTOR_COUNT": 4,
    **{"CA_ROTOR0_PX": 0.13, "CA_ROTOR0_PY": 0.22, "CA_ROTOR0_KM": 0.06},
    **{"CA_ROTOR1_PX": -0.13, "CA_ROTOR1_PY": -0.2, "CA_ROTOR1_PZ": 0.02, "CA_ROTOR1_KM": 0.06},
    **{"CA_ROTOR2_PX": 0.13, "CA_ROTOR2_PY": -0.22, "CA_ROTOR2_KM": -0.06},
    **{"CA_ROTOR3_PX": -0.13, "CA_ROTOR3_PY": 0.2, "CA_ROTOR3_KM": -0.06, "CA_ROTOR3_AY": 0.6, "CA_ROTOR3_AZ": -0.8},
    "MPC_THR_HOVER": 0.4,
    "THR_MDL_FAC": 0.7,
    "MC_ROLL_P": 6.5,
}
QGROUNDCONTROL = "# Onboard parameters for Vehicle 1\n#\n# Vehicle-Id Component-Id Name Value Type\n" + "".join(
    f"1\t1\t{name}\t{value:.18g}\t{6 if isinstance(value, int) else 9}\n" for name, value in NUMBERS.items()
)
SHOWN = "Symbols: x = used, + = saved, * = unsaved\n" + "".join(
    f"x + {name} [{i},{900 + i}] : {value:.4f}\n" for i, (name, value) in enumerate(NUMBERS.items())
)
SCRIPT = "#!/bin/sh\n. ${R}etc/init.d/rc.mc_defaults\n" + "".join(
    f"param set-default {name} {value}   # so\n" for name, value in NUMBERS.items()
)


@pytest.mark.parametrize("text", [QGROUNDCONTROL, SHOWN, SCRIPT], ids=["qgroundcontrol", "show", "script"])
def test_rotors_are_where_every_spelling_has_them(text):
    read = px4_parameter_file(text, "own.params")
    assert [rotor.position.values for rotor in read.rotors] == [
        *((0.13, -0.22, 0.0), (-0.13, 0.2, -0.02), (0.13, 0.22, 0.0), (-0.13, -0.2, 0.0))
    ]
    assert [rotor.spin for rotor in read.rotors] == [1, 1, -1, -1]
    assert read.rotors[3].axis.values == pytest.approx((0.0, -0.6, 0.8), abs=1e-15)
    assert read.rotors[0].axis.values == (0.0, 0.0, 1.0)
    assert read.missing_fields == (
        "body.mass",
        "body.inertia",
        "rotors.k_thrust",
        "rotors.motor.time_constant_up",
        "rotors.motor.time_constant_down",
    )


def level():
    return px4_parameter_file(
        SCRIPT.replace("CA_ROTOR3_AY 0.6", "CA_ROTOR3_AY 0").replace("_AZ -0.8", "_AZ -3"), "own.sh"
    )


def test_moments_hover_and_curve_become_numbers_with_the_estimated_mass_and_thrust():
    estimated = vehicle("iris_documented")
    imported = build_imported(level(), estimated)
    assert imported.mass == estimated.mass and imported.rotors[2].k_thrust == estimated.rotors[2].k_thrust
    assert [rotor.k_torque / rotor.k_thrust for rotor in imported.rotors] == pytest.approx([0.06] * 4, rel=1e-14)
    full = sum(rotor.k_thrust * rotor.motor.speed_max**2 for rotor in imported.rotors)
    assert full == pytest.approx(imported.mass * 9.80665 / 0.4, rel=1e-12)
    assert imported.structure.actuation.name == "normalized" and isinstance(imported.rotors[0].motor, Lag)
    assert hover_throttle(imported).expo == pytest.approx(0.7, abs=0.01)  # four rotors that differ in hover
    assert (
        dict(imported.structure.sources)["rotors[0].motor.speed_max"] == "own.sh: MPC_THR_HOVER; with mass and k_thrust"
    )
    assert dict(imported.structure.sources)["body.mass"].startswith("not in the file")


def test_dc_motors_of_an_estimate_become_lags_that_follow_as_fast():
    estimated = vehicle("iris")
    imported = build_imported(level(), estimated)
    motor, lag_motor = estimated.rotors[0].motor, imported.rotors[0].motor
    hover_speed = lag_motor.speed_max * math.sqrt(0.4)
    slope = motor.constant**2 / motor.resistance + motor.damping + 2.0 * estimated.rotors[0].k_torque * hover_speed
    assert lag_motor.time_constant_up == pytest.approx(estimated.rotors[0].inertia / slope, rel=1e-12)
    assert valid_spreads(imported)["rotors[0].motor.time_constant_up"] == 0.3
    assert thrust_to_weight(imported) < 2.5  # 1/0.4, less the sag of the battery


def test_a_battery_is_as_many_cells_as_the_file_says():
    more = "param set BAT1_N_CELLS 4\nparam set BAT1_CAPACITY 5000\nparam set BAT1_R_INTERNAL 0.005\n"
    battery = px4_parameter_file(SCRIPT + more, "own.sh").battery
    assert battery["capacity"].value == 18000.0 and battery["resistance"].value == pytest.approx(0.02)
    assert battery["table_voltage"].values[-1] == pytest.approx(16.8)


def without(name):
    return "".join(line for line in SCRIPT.splitlines(True) if f" {name} " not in line)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("hello\n", "has no parameter in any line"),
        (without("CA_ROTOR_COUNT"), "CA_ROTOR_COUNT is missing"),
        (without("CA_ROTOR2_PY"), "CA_ROTOR2_PY is missing"),
        (SCRIPT + "param set CA_ROTOR_COUNT 40\n", "CA_ROTOR_COUNT = 40: expected a whole number from 1 to 12"),
        (SCRIPT + "param set CA_AIRFRAME 2\n", "CA_AIRFRAME = 2: expected 0"),
        (SCRIPT + "param set CA_ROTOR1_PX nan\n", "CA_ROTOR1_PX = 'nan': expected a finite number"),
        (SCRIPT + "param set CA_ROTOR1_PX 1e400\n", "expected a finite number"),
        (SCRIPT + "param set CA_ROTOR1_PX left\n", "CA_ROTOR1_PX = 'left': expected a finite number"),
        (SCRIPT + "param set CA_ROTOR1_KM 0\n", "CA_ROTOR1_KM = 0: expected a nonzero moment"),
        (SCRIPT + "param set CA_ROTOR0_AZ 0\n", "CA_ROTOR0_AX, _AY, _AZ = 0, 0, 0: expected a direction"),
        (SCRIPT + "param set MPC_THR_HOVER 1.4\n", "MPC_THR_HOVER = 1.4: expected a number between 0 and 1"),
        (SCRIPT + "param set BAT1_N_CELLS 2.5\n", "BAT1_N_CELLS = 2.5"),
    ],
)
def test_what_is_wrong_is_one_sentence(text, sentence):
    with pytest.raises(VehicleError, match=sentence) as error:
        px4_parameter_file(text, "bad.params")
    assert "\n" not in str(error.value) and str(error.value).startswith("bad.params")


def test_a_file_that_is_huge_binary_a_folder_or_not_there_is_one_sentence(tmp_path):
    huge, binary, zeros = tmp_path / "huge.params", tmp_path / "binary.params", tmp_path / "zeros.params"
    with huge.open("wb") as file:
        file.truncate(10_000_000_000)  # a hole: it takes no room
    binary.write_bytes(b"\xff\xfe\x00CA_ROTOR")
    zeros.write_bytes(b"1\t1\tCA_ROTOR_COUNT\t4\t6\n\0")
    for path, sentence in (
        (huge, "it is larger than 16 MB"),
        (binary, "is not UTF-8 text"),
        (zeros, "contains a zero byte"),
        (tmp_path, "cannot be read"),
        (tmp_path / "none.params", "cannot be read"),
    ):
        with pytest.raises(VehicleError, match=sentence):
            read_aircraft(path)


def test_a_rotor_that_says_no_moment_is_as_px4_has_it():
    read = px4_parameter_file(without("CA_ROTOR1_KM"), "own.sh")
    assert read.rotors[1].torque_ratio.value == 0.05 and "rotors 1:" in read.notes[0]
    assert Vec3(*read.rotors[1].position.values).z == -0.02
