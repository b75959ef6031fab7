"""Betaflight's diff: where its motors are, in arms, which way they turn, and what no vehicle has a number for."""

import math

import pytest

from samara import vehicle
from samara.vehicles.check import VehicleError
from samara.vehicles.exchange.betaflight import MIXERS, betaflight_diff
from samara.vehicles.exchange.imported_vehicle import built, sized
from samara.vehicles.parts.uncertain import Estimate
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
    ("mixer", "frame"), [("QUADX", "quad_x"), ("HEX6X", "hexa_x"), ("OCTOFLATX", "octo_x")], ids=lambda own: own
)
def test_mixers_are_numbered_as_the_table_of_numberings_has_them(mixer, frame):
    said = betaflight_diff(f"mixer {mixer}\n", "own.txt")
    for rotor, place in zip(said.rotors, NUMBERINGS[frame]["betaflight"].places, strict=True):
        x, y, _ = rotor.position.values
        assert math.degrees(math.atan2(y, x)) == pytest.approx(place.azimuth_deg, abs=0.01)
        assert rotor.spin == place.spin and math.hypot(x, y) == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize("mixer", MIXERS)
def test_every_mixer_is_balanced_and_turns_both_ways(mixer):
    rotors = betaflight_diff(f"mixer {mixer}\n", "own.txt").rotors
    for axis in (0, 1):
        assert sum(rotor.position.values[axis] for rotor in rotors) == pytest.approx(0.0, abs=1e-5)
    assert sum(rotor.spin for rotor in rotors) == 0
    assert len({rotor.position.values for rotor in rotors}) == len(rotors)


def test_a_diff_says_layout_direction_battery_and_name():
    said = betaflight_diff(OWN, "heron.txt")
    places = NUMBERINGS["quad_x"]["betaflight_props_out"].places
    assert [rotor.spin for rotor in said.rotors] == [place.spin for place in places]
    assert said.name == "heron_5" and said.arm_lengths and "arm" in said.lacking
    assert said.battery["capacity"].value == pytest.approx(4680.0)
    assert said.battery["table_voltage"].values[-1] == pytest.approx(25.2)
    assert "motor 1 on B00, motor 2 on B05" in said.notes[0]
    assert any(own.startswith("motor_poles = 12") for own in said.notes)


def test_with_an_arm_and_an_estimate_it_is_a_vehicle():
    made = built(sized(betaflight_diff(OWN, "heron.txt"), Estimate(0.11, 0.0, "given")), vehicle("iris"))
    assert tuple(made.rotors[0].r_B) == pytest.approx((-0.11 * math.sqrt(0.5), -0.11 * math.sqrt(0.5), 0.0), abs=1e-15)
    assert made["battery"][0].table_voltage[-1] == pytest.approx(25.2)
    with pytest.raises(VehicleError, match="does not contain arm"):
        built(betaflight_diff(OWN, "heron.txt"), vehicle("iris"))


def test_a_custom_mixer_is_read_row_by_row():
    rows = "mixer CUSTOM\nmmix reset\n" + "".join(
        f"mmix {i} 1.000 {roll} {pitch} {yaw}\n"
        for i, (roll, pitch, yaw) in enumerate([(-1, 0.8, -1), (-0.9, -0.8, 1), (1, 0.8, 1), (0.9, -0.8, -1)])
    )
    said = betaflight_diff(rows, "deadcat.txt")
    reach = math.hypot(1.0, 0.8)
    assert said.rotors[0].position.values == pytest.approx((-0.8 / reach, -1.0 / reach, 0.0), abs=1e-15)
    assert said.rotors[3].position.values == pytest.approx((0.8 / reach, 0.9 / reach, 0.0), abs=1e-15)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("hello\n", "has no Betaflight command"),
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
