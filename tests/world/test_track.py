"""Track files: parsed values match the file, and an invalid file is reported in one sentence."""

import math
import re

import pytest

from samara.core.algebra import Vec3
from samara.world.track import TrackError, load_track, parse_track, track_names

FILE = """
schema = 1
name = "mine"
start = [0.0, 0.0, 1.0]
bounds_min = [-5.0, -5.0, 0.0]
bounds_max = [5.0, 5.0, 3.0]
opening_size = [0.5, 0.4]
frame_size = [0.8, 0.7]
[[gates]]
position = [1.0, 0.0, 1.0]
yaw_deg = 90.0
[[poles]]
top = [2.0, 0.0, 2.0]
[disturbance]
mass = 0.1
[uncertainty]
gates = [0.1, 0.2, 0.3]
"""


def test_a_file_as_it_is_read():
    track = parse_track(FILE, "mine.toml")
    assert track.gates[0].p_W == Vec3(1.0, 0.0, 1.0) and track.gates[0].yaw == math.radians(90.0)
    assert track.sizes.opening_size == (0.5, 0.4) and track.poles == (Vec3(2.0, 0.0, 2.0),)
    assert (
        track.disturbance.mass == 0.1
        and track.uncertainty.gates == Vec3(0.1, 0.2, 0.3)
        and track.disturbance.max_wind_speed == 0.0
    )


@pytest.mark.parametrize("name", track_names())
def test_the_shipped_tracks_are_of_their_names(name):
    track = load_track(name)
    assert track.name == name and track.description and len(track.gates) >= 4 and len(track.via) == len(track.gates)


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (("schema = 1", "schema = 2"), "mine.toml: schema = 2: expected 1; a newer Samara wrote it"),
        (("start = [0.0, 0.0, 1.0]", ""), "mine.toml: start is missing: expected three finite numbers"),
        (
            ("start = [0.0, 0.0, 1.0]", "start = [0.0, 9.0, 1.0]"),
            "mine.toml: start = [0.0, 9.0, 1.0]: expected a position",
        ),
        (
            ("[[gates]]\nposition = [1.0, 0.0, 1.0]\nyaw_deg = 90.0", ""),
            "gates is missing: expected at least one [[gates]]",
        ),
        (("yaw_deg = 90.0", ""), "gates[0].yaw is missing: expected a finite number"),
        (("yaw_deg = 90.0", "yaw_deg = nan"), "gates[0].yaw_deg = nan: expected a finite number"),
        (
            ("position = [1.0, 0.0, 1.0]", "position = [1.0, 0.0]"),
            "gates[0].position = [1.0, 0.0]: expected three finite numbers",
        ),
        (
            ("position = [1.0, 0.0, 1.0]", "position = [1.0, 0.0, 9.0]"),
            "gates[0].position = [1.0, 0.0, 9.0]: expected a position between",
        ),
        (
            ("position = [1.0, 0.0, 1.0]", "via = 3\nposition = [1.0, 0.0, 1.0]"),
            "gates[0].via = 3: expected a list of up to 20",
        ),
        (
            ("opening_size = [0.5, 0.4]", "opening_size = [0.5]"),
            "opening_size = [0.5]: expected two positive numbers, width and height",
        ),
        (
            ("frame_size = [0.8, 0.7]", "frame_size = [0.8, 0.4]"),
            "frame_size = [0.8, 0.4]: expected more than opening_size, [0.5, 0.4]",
        ),
        (
            ("bounds_max = [5.0, 5.0, 3.0]", "bounds_max = [5.0, 5.0, 0.0]"),
            "expected more than bounds_min, [-5.0, -5.0, 0.0], along every",
        ),
        (("mass = 0.1", "mass = 1.5"), "disturbance.mass = 1.5: expected a number from 0 to 0.9"),
        (
            ("gates = [0.1, 0.2, 0.3]", "gates = [0.1, -0.2, 0.3]"),
            "uncertainty.gates = [0.1, -0.2, 0.3]: expected three",
        ),
        (("mass = 0.1", "mas = 0.1"), "disturbance.mas = 0.1: expected only the keys"),
        (("schema = 1", "schema = ["), "mine.toml: is not TOML"),
    ],
)
def test_what_is_wrong_is_one_sentence(wrong, sentence):
    assert wrong[0] in FILE
    with pytest.raises(TrackError, match=re.escape(sentence)) as error:
        parse_track(FILE.replace(*wrong), "mine.toml")
    assert "\n" not in str(error.value)


def test_a_track_that_is_not_there():
    with pytest.raises(TrackError, match=r"no track 'halls'; expected a \.toml file or one of hall, meadow"):
        load_track("halls")
    with pytest.raises(TrackError, match=r"nowhere\.toml: cannot be read"):
        load_track("nowhere.toml")
