"""Campaigns over synthetic vehicles: what the table says, that a campaign goes on where it stopped, and twenty vehicles."""

import json
from argparse import ArgumentTypeError
from functools import partial

import numpy as np
import pytest
from studies.identification import BARS, Answer, Result, lines_of, main, numbers_in, read_result, run, table, work
from studies.synthetic import Case, random_vehicle
from support.format_cases import numbers_for

from samara.identify.flight_log import FlightLog, Signal
from samara.plan.trajectory import hover


def made(numbers, kept):
    """Cases that nobody flew; says which were asked for"""
    log = FlightLog("none", "synthetic", "samara", Signal(np.zeros(1), np.zeros((4, 1))))
    for number in numbers:
        with kept.open("a") as file:
            file.write(f"{number}\n")
        truth = random_vehicle(1, number)
        yield Case(number, truth, truth, log, hover((0.0, 0.0, 1.0)))


def answered(case):
    if case.number == 3:
        raise ValueError("this log makes no sense")
    off = 0.01 * case.number
    return [
        Answer("k_thrust", 2.0, 2.0 * (1.0 + off), 0.05, 1.9, 2.1, True, 2.0),
        Answer("damping.tilt", 0.0, off, 0.1, -0.2, 0.2, case.number != 4, 0.5),
    ]


def test_a_campaign_goes_on_where_it_stopped(tmp_path):
    """Each case is a file; what is there is not made again; progress counts what is there"""
    kept, seen = tmp_path / "asked", []
    ask = partial(made, kept=kept)
    (tmp_path / "out").mkdir()
    work([1], tmp_path / "out", ask, answered)
    results = run(range(6), tmp_path / "out", ask, answered, 1, lambda done, total: seen.append((done, total)))
    assert sorted(map(int, kept.read_text().split())) == [0, 1, 2, 3, 4, 5]
    assert [own.number for own in results] == [0, 1, 2, 3, 4, 5]
    assert seen == [(4, 6), (6, 6)]  # 1 was there; 0, 2, 4 have motion capture, then 3, 5
    assert results[5].mass == random_vehicle(1, 5).mass and results[4].captured and not results[5].captured
    assert results[3].problem == "this log makes no sense" and results[3].answers == ()
    run(range(6), tmp_path / "out", ask, answered, 1)
    assert len(kept.read_text().split()) == 6
    assert read_result(tmp_path / "out" / "case_0002.json") == results[2]


@pytest.mark.long
def test_two_processes_give_the_same(tmp_path):
    kept = tmp_path / "asked"
    both = [run(range(4), tmp_path / str(n), partial(made, kept=kept), answered, n) for n in (1, 2)]
    assert [own._replace(seconds=0.0) for own in both[0]] == [own._replace(seconds=0.0) for own in both[1]]


def results():
    return [
        Result(n, 1.0, n % 2 == 0, 1.0, "", tuple(answered(Case(n, None, None, None, None)))) for n in (0, 1, 2, 4, 9)
    ]


def test_the_table_is_of_errors_coverage_and_flags():
    """Errors 0, 1, 2, 4 and 9 %: the median is 2; the worst is 9 of case 9; 1.9 to 2.1 holds the truth in all"""
    thrust, damping = lines_of(results())
    assert (thrust.cases, thrust.worst_case, thrust.covered, thrust.flagged) == (5, 9, 1.0, 0)
    assert (thrust.median, thrust.worst, thrust.bar) == pytest.approx((0.02, 0.09, 0.02))
    assert (damping.flagged, damping.worst_case) == (1, 9) and np.isnan(damping.bar)
    assert damping.median == pytest.approx(0.04)  # of its size, where the truth is 0
    for changed in ({"low": 2.01}, {"high": 1.99}):
        off = [own._replace(answers=tuple(each._replace(**changed) for each in own.answers)) for own in results()]
        assert lines_of(off)[0].covered == 0.0
    shy = [
        own._replace(answers=tuple(each._replace(excited=own.number < 3) for each in own.answers)) for own in results()
    ]
    assert (lines_of(shy)[0].worst, lines_of(shy)[0].worst_case) == pytest.approx(
        (0.02, 2)
    )  # of those that say they know
    lines = table(results(), still=True).splitlines()
    assert lines[1].split() == ["k_thrust", "5", "2.0", "%", "2", "%", "9.0", "%", "9", "100.0", "%", "0"]
    assert "hover: 1 of 5 numbers that it does not excite are flagged" in lines
    assert "5 cases; each identified in 1.0 s" in lines[-1]
    broken = [Result(7, 1.0, False, 0.1, "no motors", ())]
    assert "case 7 was not identified: no motors" in table(broken)


def test_numbers_are_ranges():
    assert numbers_in("0-3,7") == [0, 1, 2, 3, 7]
    for text in ("", "a", "3-", "-3", "1-b", "1,,2"):
        with pytest.raises(ArgumentTypeError, match="expected such as 0-199"):
            numbers_in(text)


def test_formats_take_the_vehicles_they_can_tell_of():
    assert numbers_for("csv", 200, 3) == [200, 201, 202]
    assert numbers_for("ardupilot", 200, 3) == [201, 203, 205]
    assert numbers_for("nanobench", 200, 3) == [200, 202, 204]


def test_the_command(tmp_path, capsys):
    """Its cases are kept by seed, length and kind"""
    folder = tmp_path / "seed_1_120s"
    folder.mkdir()
    for own in results()[:2]:
        text = json.dumps(own._asdict() | {"answers": [each._asdict() for each in own.answers]})
        (folder / f"case_{own.number:04d}.json").write_text(text)
    assert main(["--numbers", "0-1", "--out", str(tmp_path)]) == 0
    assert "k_thrust" in capsys.readouterr().out


@pytest.mark.long
def test_twenty_vehicles_come_out_as_they_are(tmp_path):
    """Medians within their bars, in wind of which no log tells; the command flies 200"""
    found = run(range(20), tmp_path)
    assert [own.problem for own in found] == [""] * 20
    for line in lines_of(found):
        for begin, bar in BARS:
            if line.name.startswith(begin):
                assert line.median <= bar, line
        if not line.name.startswith(("damping", "drag.isotropic")):
            assert line.covered >= 0.8, line  # of 20: 16
