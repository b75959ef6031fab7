"""Parts lists: their keys, and one sentence about each mistake."""

import math

import pytest

from samara.core.algebra import Vec3
from samara.vehicles.parts.parts_list import (
    OPTIONAL_KEYS,
    PartsError,
    frame_hubs,
    missing_keys,
    parts_list,
    read_parts_list,
)

RACER = {"mass": 0.65, "diagonal": 0.22, "motors": "2207 1950KV", "props": "5.1x4.3x3", "battery": "6S1300"}


def test_a_short_file_is_read_and_what_is_given_besides_goes_before_it(tmp_path):
    text = "\n".join(f"{key} = {value!r}" for key, value in RACER.items())
    (tmp_path / "racer.toml").write_text(f"{text}\nname = 'racer'\ninertia = [1e-3, 1e-3, 2e-3]\n")
    parts = read_parts_list(tmp_path / "racer.toml", mass=0.7)
    assert (parts.name, parts.mass, parts.diagonal, parts.layout) == ("racer", 0.7, 0.22, "quad_x")
    assert parts.optional_value("inertia") == Vec3(1e-3, 1e-3, 2e-3)
    assert parts.optional_value("k_thrust") is None
    assert len(frame_hubs(parts, 0.0)) == 4


def test_an_arm_is_half_a_diagonal():
    entries = {key: value for key, value in RACER.items() if key != "diagonal"}
    assert parts_list(**entries, arm=0.11).diagonal == 0.22
    with pytest.raises(PartsError, match=r"arm = 0\.11: expected either arm or diagonal"):
        parts_list(**RACER, arm=0.11)


def test_rotors_by_coordinates_say_the_size_themselves():
    entries = {key: value for key, value in RACER.items() if key != "diagonal"}
    rows = [[0.1, -0.1, 0.0, "ccw"], [-0.1, 0.1, 0.0, "ccw"], [0.1, 0.1, 0.0, "cw"], [-0.1, -0.1, 0.0, "cw"]]
    assert [hub.spin for hub in frame_hubs(parts_list(**entries, rotors=rows), 0.0)] == [1, 1, -1, -1]
    with pytest.raises(PartsError, match=r"diagonal = 0\.22: expected none beside rotors"):
        parts_list(**RACER, rotors=rows)
    with pytest.raises(PartsError, match=r"rotors\[2\] = .*: expected \[x, y, z, 'ccw' or 'cw'\]"):
        parts_list(**entries, rotors=[*rows[:2], [0.1, 0.1, math.nan, "cw"], rows[3]])


def test_what_is_missing_is_listed_in_the_order_of_the_questions():
    assert missing_keys({}) == ("mass", "diagonal", "motors", "props", "battery")
    assert missing_keys({"mass": 1.0, "rotors": []}) == ("motors", "props", "battery")
    assert missing_keys(RACER) == ()
    assert missing_keys({key: value for key, value in RACER.items() if key != "diagonal"}) == ("diagonal",)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"mass": -1.0}, "mass = -1.0: expected a number from 0.01 to 25 kg"),
        ({"mass": math.nan}, "mass = nan: expected a number from 0.01 to 25 kg"),
        ({"mass": 650.0}, "mass = 650.0: expected a number from 0.01 to 25 kg"),
        ({"mass": True}, "mass = True: expected a number"),
        ({"diagonal": 220.0}, "diagonal = 220.0: expected a number from 0.03 to 4 m"),
        ({"diagonal": None}, "diagonal is missing: expected a number from 0.03 to 4 m"),
        ({"motors": None}, "motors is missing: expected a text such as '2207 1950KV'"),
        ({"props": 5.1}, "props = 5.1: expected a text"),
        ({"layout": "penta"}, "layout = 'penta': expected one of quad_x"),
        ({"colour": "red"}, "colour = 'red': expected only the keys"),
        ({"inertia": [1e-3, 1e-3]}, "inertia = .*: expected 3 numbers, each a positive number"),
        ({"inertia": [1e-3, 1e-3, -1e-3]}, "inertia = .*: expected 3 numbers, each a positive number"),
        ({"k_thrust": 0.0}, "k_thrust = 0.0: expected a positive number"),
        ({"resistance": math.inf}, "resistance = inf: expected a positive number"),
        ({"battery_position": [0.0, 0.0, math.nan]}, "battery_position = .*: expected 3 numbers"),
        ({"payload": "much"}, "payload = 'much': expected a number that is not negative"),
    ],
)
def test_what_cannot_be_is_one_sentence(changes, message):
    with pytest.raises(PartsError, match=f"^parts list: {message}") as error:
        parts_list(**RACER | changes)
    assert "\n" not in str(error.value)


def test_a_file_that_is_none(tmp_path):
    with pytest.raises(PartsError, match="cannot be read"):
        read_parts_list(tmp_path / "none.toml")
    (tmp_path / "bad.toml").write_text("mass = = 1")
    with pytest.raises(PartsError, match=r"bad\.toml: is not TOML"):
        read_parts_list(tmp_path / "bad.toml")


def test_every_number_that_may_be_given_has_a_unit_and_words():
    for spec in OPTIONAL_KEYS.values():
        assert spec.unit and spec.description and spec.length in (1, 3)
