"""Occurrences of a flight as numbers: the stream `occurrence` agrees with the status, the motors' power and the log."""

import re
from pathlib import Path

import numpy as np
import pytest

import samara
from samara.plan import trajectory
from samara.record.load import thin_tables
from samara.scenario import events
from samara.scenario.events import Event, at
from samara.scenario.flight_events import (
    OCCURRENCE_FIELDS,
    ContactTarget,
    Occurrence,
    OccurrenceType,
    PartType,
    describe_occurrence,
    parse_occurrence,
    status_change,
)
from samara.scenario.scenario import Drone, Scenario

QUAD = samara.vehicle("crazyflie_documented")


@pytest.fixture(scope="module")
def hop(tmp_path_factory):
    """Take off for a second, with a motor that loses power for 10 ms, and land."""
    task = trajectory.sequence(
        trajectory.take_off((0.0, 0.0, 0.0), height=0.3), trajectory.land((0.0, 0.0, 0.3), height=-0.05)
    )
    motor_events = (Event(at(0.5), events.degrade_motor(2, 0.9)), Event(at(0.51), events.restore_motor(2)))
    drone = Drone("quad", QUAD, task)
    path = tmp_path_factory.mktemp("facts") / "hop.mcap"
    return samara.fly(Scenario("hop", (drone,), 3.5, events=motor_events), out=path), path


def test_the_numbers_of_occurrences_never_change():
    assert [(member.name, int(member)) for member in OccurrenceType] == [
        ("TOOK_OFF", 1),
        ("LANDED", 2),
        ("CRASHED", 3),
        ("COLLIDED", 4),
        ("MOTOR_FAILED", 5),
        ("MOTOR_DEGRADED", 6),
        ("MOTOR_RESTORED", 7),
        ("AUTOPILOT_LOST", 8),
        ("STATE_NOT_FINITE", 9),
        ("COMMAND_NOT_FINITE", 10),
        ("COMMAND_OUT_OF_RANGE", 11),
    ]
    assert [member.name for member in PartType] == ["NONE", "BODY", "FOOT", "MOTOR", "PROPELLER"]
    assert [member.name for member in ContactTarget] == ["NOTHING", "GROUND", "OBSTACLE", "DRONE", "OTHER_DRONE"]
    assert OCCURRENCE_FIELDS == ("type", "part", "part_index", "target", "target_index", "speed", "value")
    for fact in OccurrenceType:
        event = Occurrence(7, 1, fact, PartType.PROPELLER, 3, ContactTarget.DRONE, 0, 1.25, 0.5)
        assert parse_occurrence(7, 1, event.row) == event
    with pytest.raises(ValueError, match="99"):
        parse_occurrence(0, 0, (99.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0))


def test_a_hop_is_a_take_off_and_a_landing_where_the_status_changes(hop):
    """A bounce counts as another landing."""
    run, _ = hop
    status, status_events = run.tables["status"], [event for event in run.occurrences if event.part_index < 0]
    assert [(event.time_us, event.type is OccurrenceType.LANDED) for event in status_events] == list(
        zip(status.times_us[1:].tolist(), status["landed"][1:] > 0.5, strict=True)
    )
    assert {event.type for event in status_events} == {OccurrenceType.TOOK_OFF, OccurrenceType.LANDED}
    assert status_events[0].type is OccurrenceType.TOOK_OFF and status_events[-1].type is OccurrenceType.LANDED
    assert run.tables["occurrence"].units == ("1",) * 5 + ("m/s", "1")


def test_a_motor_that_loses_and_regains_power_is_recorded_with_its_number(hop):
    run, _ = hop
    power, times = run.tables["environment"]["motor_effectiveness"], run.tables["environment"].times_us
    changed = np.argwhere(np.diff(power, axis=0))
    motors = [event for event in run.occurrences if event.part_index >= 0]
    assert [(event.time_us, event.part_index, event.value) for event in motors] == [
        (times[row + 1], motor, power[row + 1, motor]) for row, motor in changed
    ]
    assert [run.describe(event) for event in motors] == ["quad: motor 2 degraded to 0.9", "quad: motor 2 restored"]


def test_no_fact_is_thinned_away(hop):
    run, _ = hop
    track = run.drone_records[0]
    thinned_tables = thin_tables(track, 10_000_000)
    assert len(thinned_tables["state"].rows) < len(track.tables["state"].rows)
    np.testing.assert_array_equal(thinned_tables["occurrence"].rows, track.tables["occurrence"].rows)


@pytest.mark.parametrize(
    ("before", "after", "fact"),
    [
        ((True, False), (False, False), OccurrenceType.TOOK_OFF),
        ((False, False), (True, False), OccurrenceType.LANDED),
        ((True, False), (False, True), OccurrenceType.CRASHED),
        ((False, False), (False, True), OccurrenceType.CRASHED),
        ((False, True), (False, True), None),
        ((True, False), (True, False), None),
    ],
)
def test_a_change_of_status_has_one_name(before, after, fact):
    assert status_change(before, after) is fact


@pytest.mark.parametrize(
    ("event", "sentence"),
    [
        (
            Occurrence(0, 0, OccurrenceType.CRASHED, target=ContactTarget.GROUND, speed=4.04),
            "a crashed: touched the ground at 4.0 m/s",
        ),
        (
            Occurrence(0, 0, OccurrenceType.CRASHED, target=ContactTarget.GROUND, speed=0.2),
            "a crashed: touched the ground tilted over",
        ),
        (
            Occurrence(0, 0, OccurrenceType.COLLIDED, PartType.BODY, -1, ContactTarget.OBSTACLE, 1, 2.0),
            "a: body struck obstacle wall (box) at 2.0 m/s",
        ),
        (
            Occurrence(0, 0, OccurrenceType.COLLIDED, PartType.FOOT, 3, ContactTarget.DRONE, 1, 2.0),
            "a: foot 3 struck b at 2.0 m/s",
        ),
        (
            Occurrence(0, 1, OccurrenceType.CRASHED, PartType.PROPELLER, 2, ContactTarget.OTHER_DRONE, 0, 2.0),
            "b crashed: struck by a's propeller 2 at 2.0 m/s",
        ),
        (Occurrence(0, 1, OccurrenceType.CRASHED), "b: crashed"),
        (Occurrence(0, 1, OccurrenceType.MOTOR_FAILED, part_index=3), "b: motor 3 failed"),
        (Occurrence(0, 1, OccurrenceType.AUTOPILOT_LOST), "b: autopilot lost"),
        (
            Occurrence(0, 0, OccurrenceType.COMMAND_OUT_OF_RANGE, part_index=1, value=1.5),
            "a: the command of motor 1 was out of range: 1.5",
        ),
    ],
)
def test_every_fact_is_a_sentence(event, sentence):
    assert describe_occurrence(event, ("a", "b"), ("", "obstacle wall (box)")) == sentence


def test_a_command_that_is_out_of_range_is_a_fact():
    """Motor 3 is commanded to 1.5 of its range: one occurrence with the motor and the value."""

    def saturating(state, reference, vehicle, controller_state):
        return (0.2, 0.2, 0.2, 1.5), controller_state

    start = samara.Vec3(0.0, 0.0, 1.0)
    drone = Drone("greedy", QUAD, trajectory.hover(start), start, airborne=True, controller=saturating)
    with pytest.warns(RuntimeWarning, match="out of range|within"):
        run = samara.fly(Scenario("asks", (drone,), 0.05))
    (event,) = run.occurrences
    assert (event.type, event.part_index, event.value) == (OccurrenceType.COMMAND_OUT_OF_RANGE, 3, 1.5)


def test_no_code_parses_a_message_or_the_name_of_a_part():
    source = Path(samara.__file__).parent
    parsing = re.compile(r"(message|part\.name)(\.(split|startswith|endswith|partition)\(| ==)|in \w+\.message")
    offenders = [path.name for path in source.rglob("*.py") if parsing.search(path.read_text(encoding="utf-8"))]
    assert offenders == []
