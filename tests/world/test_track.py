"""Track files: what they hold is what is flown, and what is wrong with one is a sentence."""

import math
import re

import pytest

from samara.core.algebra import Vec3
from samara.world.track import TrackError, load_track, parse_track, track_names

FILE = """
schema = 1
name = "mine"
start = [0.0, 0.0, 1.0]
low = [-5.0, -5.0, 0.0]
high = [5.0, 5.0, 3.0]
opening = [0.5, 0.4]
frame = [0.8, 0.7]
[[gates]]
at = [1.0, 0.0, 1.0]
yaw_deg = 90.0
[[poles]]
top = [2.0, 0.0, 2.0]
[disturbed]
mass = 0.1
[uncertain]
gates = [0.1, 0.2, 0.3]
"""


def test_a_file_as_it_is_read():
    own = parse_track(FILE, "mine.toml")
    assert own.gates[0].p_W == Vec3(1.0, 0.0, 1.0) and own.gates[0].yaw == math.radians(90.0)
    assert own.sizes.opening == (0.5, 0.4) and own.poles == (Vec3(2.0, 0.0, 2.0),)
    assert own.disturbed.mass == 0.1 and own.uncertain.gates == Vec3(0.1, 0.2, 0.3) and own.disturbed.wind == 0.0


@pytest.mark.parametrize("name", track_names())
def test_the_shipped_tracks_are_of_their_names(name):
    own = load_track(name)
    assert own.name == name and own.description and len(own.gates) >= 4 and len(own.via) == len(own.gates)


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (("schema = 1", "schema = 2"), "mine.toml: schema = 2: expected 1; a newer Samara wrote it"),
        (("start = [0.0, 0.0, 1.0]", ""), "mine.toml: start is missing: expected three finite numbers"),
        (
            ("start = [0.0, 0.0, 1.0]", "start = [0.0, 9.0, 1.0]"),
            "mine.toml: start = [0.0, 9.0, 1.0]: expected a place",
        ),
        (("[[gates]]\nat = [1.0, 0.0, 1.0]\nyaw_deg = 90.0", ""), "gates is missing: expected one [[gates]] at least"),
        (("yaw_deg = 90.0", ""), "gates[0].yaw is missing: expected a finite number"),
        (("yaw_deg = 90.0", "yaw_deg = nan"), "gates[0].yaw_deg = nan: expected a finite number"),
        (("at = [1.0, 0.0, 1.0]", "at = [1.0, 0.0]"), "gates[0].at = [1.0, 0.0]: expected three finite numbers"),
        (("at = [1.0, 0.0, 1.0]", "at = [1.0, 0.0, 9.0]"), "gates[0].at = [1.0, 0.0, 9.0]: expected a place between"),
        (("at = [1.0, 0.0, 1.0]", "via = 3\nat = [1.0, 0.0, 1.0]"), "gates[0].via = 3: expected a list of up to 20"),
        (
            ("opening = [0.5, 0.4]", "opening = [0.5]"),
            "opening = [0.5]: expected two positive numbers, width and height",
        ),
        (
            ("frame = [0.8, 0.7]", "frame = [0.8, 0.4]"),
            "frame = [0.8, 0.4]: expected more than the opening, [0.5, 0.4]",
        ),
        (
            ("high = [5.0, 5.0, 3.0]", "high = [5.0, 5.0, 0.0]"),
            "expected more than low, [-5.0, -5.0, 0.0], along every",
        ),
        (("mass = 0.1", "mass = 1.5"), "disturbed.mass = 1.5: expected a number from 0 to 0.9"),
        (("gates = [0.1, 0.2, 0.3]", "gates = [0.1, -0.2, 0.3]"), "uncertain.gates = [0.1, -0.2, 0.3]: expected three"),
        (("mass = 0.1", "mas = 0.1"), "disturbed.mas = 0.1: expected only the keys"),
        (("schema = 1", "schema = ["), "mine.toml: is not TOML"),
    ],
)
def test_what_is_wrong_is_one_sentence(wrong, sentence):
    assert wrong[0] in FILE
    with pytest.raises(TrackError, match=re.escape(sentence)) as found:
        parse_track(FILE.replace(*wrong), "mine.toml")
    assert "\n" not in str(found.value)


def test_a_track_that_is_not_there():
    with pytest.raises(TrackError, match=r"no track 'halls'; expected a \.toml file or one of hall, meadow"):
        load_track("halls")
    with pytest.raises(TrackError, match=r"nowhere\.toml: cannot be read"):
        load_track("nowhere.toml")
