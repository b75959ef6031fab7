"""Betaflight's diff: motor positions in arm lengths, spins, and settings without a vehicle parameter."""

import math

import pytest
from support.command import call

from samara import vehicle
from samara.scenario.file import load_scenario
from samara.vehicles.check import VehicleError
from samara.vehicles.exchange.betaflight import MIXERS, betaflight_diff
from samara.vehicles.exchange.imported_vehicle import build_imported, scale_positions
from samara.vehicles.parts.uncertain import UncertainValue
from samara.vehicles.rotor_numbering import NUMBERINGS

OWN = """# diff all

# version
# Betaflight / STM32F405 (S405) 4.5.1 Jul 27 2024 / 09:13:30 (77d01ba3b) MSP API: 1.46

batch start
defaults nosave
board_name SPEEDYBEEF405V4
mcu_id 0000
# name: heron
resource MOTOR 1 B00
resource MOTOR 2 B05
feature GPS
set motor_poles = 12
set yaw_motors_reversed = ON
set bat_capacity = 1300
set force_battery_cell_count = 6
set craft_name = heron 5
profile 0
set thrust_linear = 30
save
"""


@pytest.mark.parametrize(
    ("mixer", "frame"), [("QUADX", "quad_x"), ("HEX6X", "hexa_x"), ("OCTOFLATX", "octo_x")], ids=lambda name: name
)
def test_mixers_are_numbered_as_the_table_of_numberings_has_them(mixer, frame):
    diff = betaflight_diff(f"mixer {mixer}\n", "own.txt")
    for rotor, numbered in zip(diff.rotors, NUMBERINGS[frame]["betaflight"].rotors, strict=True):
        x, y, _ = rotor.position.values
        assert math.degrees(math.atan2(y, x)) == pytest.approx(numbered.azimuth_deg, abs=0.01)
        assert rotor.spin == numbered.spin and math.hypot(x, y) == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize("mixer", MIXERS)
def test_every_mixer_is_balanced_and_turns_both_ways(mixer):
    rotors = betaflight_diff(f"mixer {mixer}\n", "own.txt").rotors
    for axis in (0, 1):
        assert sum(rotor.position.values[axis] for rotor in rotors) == pytest.approx(0.0, abs=1e-5)
    assert sum(rotor.spin for rotor in rotors) == 0
    assert len({rotor.position.values for rotor in rotors}) == len(rotors)


def test_a_diff_says_layout_direction_battery_and_name():
    diff = betaflight_diff(OWN, "heron.txt")
    numbered = NUMBERINGS["quad_x"]["betaflight_props_out"].rotors
    assert [rotor.spin for rotor in diff.rotors] == [rotor_entry.spin for rotor_entry in numbered]
    assert diff.name == "heron_5" and diff.uses_arm_lengths and "arm" in diff.missing_fields
    assert diff.battery["capacity"].value == pytest.approx(4680.0)
    assert diff.battery["table_voltage"].values[-1] == pytest.approx(25.2)
    assert "motor 1 on B00, motor 2 on B05" in diff.notes[0]
    assert any(note.startswith("motor_poles = 12") for note in diff.notes)


TUNED = """# Betaflight / STM32F405 (S405) 4.5.1
set gyro_lpf1_static_hz = 0
set dyn_notch_count = 2
set rpm_filter_harmonics = 2
set motor_poles = 12
feature OSD
serial 0 64 115200
profile 0
set p_roll = 52
set iterm_relax = RPY
set dterm_lpf1_type = PT2
profile 1
set p_roll = 99
profile 0
rateprofile 1
set roll_srate = 80
rateprofile 0
set rates_type = ACTUAL
set roll_srate = 67
"""


def test_tuning_of_the_selected_profiles_is_imported_and_the_rest_is_listed():
    """PIDs, filters and rates keep their values; other profiles, settings and commands are named as ignored."""
    diff = betaflight_diff(TUNED, "tuned.txt")
    assert diff.autopilot_parameters == {
        "gyro_lpf1_static_hz": 0,
        "dyn_notch_count": 2,
        "p_roll": 52,
        "iterm_relax": "RPY",
        "dterm_lpf1_type": "PT2",
        "rates_type": "ACTUAL",
        "roll_srate": 67,
    }
    assert diff.notes[1:] == (
        "ignored settings: rpm_filter_harmonics",
        "ignored commands: feature, serial",
        "ignored profiles, which are not selected: profile 1, rateprofile 1",
    )


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("set d_roll = 42\nset d_min_roll = 32\n", {"d_roll": 32, "d_max_roll": 42}),
        ("# Betaflight / S405 (S405) 4.5.1\nset d_pitch = 50\n", {"d_pitch": 34, "d_max_pitch": 50}),
        ("set d_roll = 42\nset d_min_roll = 0\n", {"d_roll": 42, "d_max_roll": 42}),
        ("# Betaflight / S405 (S405) 2025.12.1\nset d_roll = 32\n", {"d_roll": 32}),
    ],
)
def test_d_is_split_as_from_betaflight_4_6_on(lines, expected):
    """Until 4.5 d_min was the base and d the peak; from 4.6 on d is the base and d_max the peak."""
    assert betaflight_diff(lines, "d.txt").autopilot_parameters == expected


def test_an_imported_tuning_is_a_scenario_of_the_simulated_betaflight(monkeypatch, capsys, tmp_path):
    """The import writes it beside the vehicle; its autopilot has the parameters of the file."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tuned.txt").write_text(TUNED)
    arguments = ("--diagonal", "0.22", "--mass", "0.65", "--motors", "2207 1950KV", "--props", "51433")
    code, output, _ = call(monkeypatch, capsys, "vehicle", "import", "tuned.txt", *arguments, "--battery", "6S1300")
    assert code == 0 and "ignored settings: rpm_filter_harmonics" in output
    assert "samara fly tuned_betaflight.toml" in output
    (drone,) = load_scenario(tmp_path / "tuned_betaflight.toml").drones
    assert drone.autopilot.type == "betaflight"
    assert dict(drone.autopilot.parameters) == betaflight_diff(TUNED, "tuned.txt").autopilot_parameters


def test_with_an_arm_and_an_estimate_it_is_a_vehicle():
    imported = build_imported(
        scale_positions(betaflight_diff(OWN, "heron.txt"), UncertainValue(0.11, 0.0, "given")), vehicle("iris")
    )
    assert tuple(imported.rotors[0].r_B) == pytest.approx(
        (-0.11 * math.sqrt(0.5), -0.11 * math.sqrt(0.5), 0.0), abs=1e-15
    )
    assert imported["battery"][0].table_voltage[-1] == pytest.approx(25.2)
    with pytest.raises(VehicleError, match="does not contain arm"):
        build_imported(betaflight_diff(OWN, "heron.txt"), vehicle("iris"))


def test_a_custom_mixer_is_read_row_by_row():
    rows = "mixer CUSTOM\nmmix reset\n" + "".join(
        f"mmix {i} 1.000 {roll} {pitch} {yaw}\n"
        for i, (roll, pitch, yaw) in enumerate([(-1, 0.8, -1), (-0.9, -0.8, 1), (1, 0.8, 1), (0.9, -0.8, -1)])
    )
    diff = betaflight_diff(rows, "deadcat.txt")
    arm = math.hypot(1.0, 0.8)
    assert diff.rotors[0].position.values == pytest.approx((-0.8 / arm, -1.0 / arm, 0.0), abs=1e-15)
    assert diff.rotors[3].position.values == pytest.approx((0.8 / arm, 0.9 / arm, 0.0), abs=1e-15)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("hello\n", "has no Betaflight command"),
        ("# INAV/MATEKF405 7.0.0\nset mc_p_pitch = 40\n", "is a diff of INAV, whose settings differ"),
        ("mixer TRI\n", "mixer TRI needs servos"),
        ("mixer FLYING_WING\n", "mixer 'FLYING_WING': expected one of CUSTOM, QUADX"),
        ("mixer CUSTOM\n", "mixer CUSTOM without mmix lines"),
        ("mixer CUSTOM\nmmix 0 1 1 nan 1\n", "mmix = 'nan': expected a finite number"),
        ("mixer CUSTOM\nmmix 0 1 1 1 0\n", "has no row with yaw"),
        ("mixer CUSTOM\nmmix 0 1 0 0 1\n", "has no row with roll or pitch"),
        ("mixer CUSTOM\nmmix 77 1 1 1 1\n", "expected a motor from 0"),
        ("set yaw_motors_reversed = MAYBE\n", "yaw_motors_reversed = 'MAYBE': expected ON or OFF"),
        ("set force_battery_cell_count = 4.5\n", "force_battery_cell_count = 4.5"),
        ("resource MOTOR x B00\n", "expected a motor from 1"),
    ],
)
def test_what_is_wrong_is_one_sentence(text, sentence):
    with pytest.raises(VehicleError, match=sentence) as error:
        betaflight_diff(text, "bad.txt")
    assert "\n" not in str(error.value) and str(error.value).startswith("bad.txt")
