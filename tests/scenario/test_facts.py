"""What happened in a flight, as numbers: the stream `event` says what the status, the motors' power and the log say."""

import re
from pathlib import Path

import numpy as np
import pytest

import samara
from samara.plan import trajectory
from samara.record.load import thinned
from samara.scenario import events
from samara.scenario.events import Event, at
from samara.scenario.flight_events import (
    EVENT_FIELDS,
    Against,
    Fact,
    Occurrence,
    PartKind,
    occurrence,
    sentence_of,
    status_change,
)
from samara.scenario.scenario import Drone, Scenario

QUAD = samara.vehicle("crazyflie_documented")


@pytest.fixture(scope="module")
def flown(tmp_path_factory):
    """Up from the ground for a second, with a motor that fails for one step of the physics, and down again."""
    way = trajectory.sequence(
        trajectory.take_off((0.0, 0.0, 0.0), height=0.3), trajectory.land((0.0, 0.0, 0.3), height=-0.05)
    )
    happening = (Event(at(0.5), events.degrade_motor(2, 0.9)), Event(at(0.51), events.restore_motor(2)))
    drone = Drone("quad", QUAD, way)
    path = tmp_path_factory.mktemp("facts") / "hop.mcap"
    return samara.fly(Scenario("hop", (drone,), 3.5, events=happening), out=path), path


def test_the_numbers_of_facts_are_those_that_recordings_hold():
    assert [(own.name, int(own)) for own in Fact] == [
        ("TOOK_OFF", 1),
        ("LANDED", 2),
        ("CRASHED", 3),
        ("STRUCK", 4),
        ("MOTOR_FAILED", 5),
        ("MOTOR_DEGRADED", 6),
        ("MOTOR_RESTORED", 7),
        ("AUTOPILOT_LOST", 8),
        ("STATE_NOT_FINITE", 9),
        ("COMMAND_NOT_FINITE", 10),
        ("COMMAND_OUT_OF_RANGE", 11),
    ]
    assert [own.name for own in PartKind] == ["NONE", "BODY", "FOOT", "MOTOR", "PROPELLER"]
    assert [own.name for own in Against] == ["NOTHING", "GROUND", "SOLID", "DRONE", "BY_DRONE"]
    assert EVENT_FIELDS == ("fact", "part", "number", "against", "other", "speed", "value")
    for fact in Fact:
        own = Occurrence(7, 1, fact, PartKind.PROPELLER, 3, Against.DRONE, 0, 1.25, 0.5)
        assert occurrence(7, 1, own.row) == own
    with pytest.raises(ValueError, match="99"):
        occurrence(0, 0, (99.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0))


def test_a_hop_is_a_take_off_and_a_landing_where_the_status_changes(flown):
    """It may bounce, and then it lands more than once."""
    run, _ = flown
    status, stood = run.tables["status"], [own for own in run.facts if own.number < 0]
    assert [(own.time_us, own.fact is Fact.LANDED) for own in stood] == list(
        zip(status.times_us[1:].tolist(), status["landed"][1:] > 0.5, strict=True)
    )
    assert {own.fact for own in stood} == {Fact.TOOK_OFF, Fact.LANDED}
    assert stood[0].fact is Fact.TOOK_OFF and stood[-1].fact is Fact.LANDED
    assert run.tables["event"].units == ("1",) * 5 + ("m/s", "1")


def test_a_motor_that_loses_power_and_gets_it_back_is_told_with_its_number(flown):
    run, _ = flown
    power, times = run.tables["environment"]["motor_power"], run.tables["environment"].times_us
    changed = np.argwhere(np.diff(power, axis=0))
    motors = [own for own in run.facts if own.number >= 0]
    assert [(own.time_us, own.number, own.value) for own in motors] == [
        (times[row + 1], motor, power[row + 1, motor]) for row, motor in changed
    ]
    assert [run.describe(own) for own in motors] == ["quad: motor 2 degraded to 0.9", "quad: motor 2 restored"]


def test_no_fact_is_thinned_away(flown):
    run, _ = flown
    track = run.tracks[0]
    few = thinned(track, 10_000_000)
    assert len(few["state"].rows) < len(track.tables["state"].rows)
    np.testing.assert_array_equal(few["event"].rows, track.tables["event"].rows)


@pytest.mark.parametrize(
    ("before", "after", "fact"),
    [
        ((True, False), (False, False), Fact.TOOK_OFF),
        ((False, False), (True, False), Fact.LANDED),
        ((True, False), (False, True), Fact.CRASHED),
        ((False, False), (False, True), Fact.CRASHED),
        ((False, True), (False, True), None),
        ((True, False), (True, False), None),
    ],
)
def test_a_change_of_status_has_one_name(before, after, fact):
    assert status_change(before, after) is fact


@pytest.mark.parametrize(
    ("own", "sentence"),
    [
        (
            Occurrence(0, 0, Fact.CRASHED, against=Against.GROUND, speed=4.04),
            "a crashed: touched the ground at 4.0 m/s",
        ),
        (
            Occurrence(0, 0, Fact.CRASHED, against=Against.GROUND, speed=0.2),
            "a crashed: touched the ground leaning over",
        ),
        (
            Occurrence(0, 0, Fact.STRUCK, PartKind.BODY, -1, Against.SOLID, 1, 2.0),
            "a: body struck solid wall (box) at 2.0 m/s",
        ),
        (Occurrence(0, 0, Fact.STRUCK, PartKind.FOOT, 3, Against.DRONE, 1, 2.0), "a: foot 3 struck b at 2.0 m/s"),
        (
            Occurrence(0, 1, Fact.CRASHED, PartKind.PROPELLER, 2, Against.BY_DRONE, 0, 2.0),
            "b crashed: struck by a's propeller 2 at 2.0 m/s",
        ),
        (Occurrence(0, 1, Fact.CRASHED), "b: crashed"),
        (Occurrence(0, 1, Fact.MOTOR_FAILED, number=3), "b: motor 3 failed"),
        (Occurrence(0, 1, Fact.AUTOPILOT_LOST), "b: autopilot lost"),
        (
            Occurrence(0, 0, Fact.COMMAND_OUT_OF_RANGE, number=1, value=1.5),
            "a: the command of motor 1 was out of range: 1.5",
        ),
    ],
)
def test_every_fact_is_a_sentence(own, sentence):
    assert sentence_of(own, ("a", "b"), ("", "solid wall (box)")) == sentence


def test_a_command_that_is_out_of_range_is_a_fact():
    """Motor 3 is asked for 1.5 of its range: the fact says which and how much, once."""

    def greedy(state, reference, vehicle, memory):
        return (0.2, 0.2, 0.2, 1.5), memory

    start = samara.Vec3(0.0, 0.0, 1.0)
    drone = Drone("greedy", QUAD, trajectory.hover(start), start, airborne=True, controller=greedy)
    with pytest.warns(RuntimeWarning, match="out of range|within"):
        run = samara.fly(Scenario("asks", (drone,), 0.05))
    (own,) = run.facts
    assert (own.fact, own.number, own.value) == (Fact.COMMAND_OUT_OF_RANGE, 3, 1.5)


def test_no_code_takes_a_message_or_the_name_of_a_part_to_pieces():
    source = Path(samara.__file__).parent
    reading = re.compile(r"(message|part\.name)(\.(split|startswith|endswith|partition)\(| ==)|in \w+\.message")
    own = [path.name for path in source.rglob("*.py") if reading.search(path.read_text(encoding="utf-8"))]
    assert own == []
