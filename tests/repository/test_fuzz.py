"""The fuzzer: every reader obeys its contract, and the fuzzer detects violations."""

import math
import socket
import time
from pathlib import Path

import pytest
from fuzz import law
from fuzz import run as running
from fuzz.law import Case, Reader
from fuzz.readers import READERS, SLOW
from fuzz.run import check_case, run
from fuzz.sandbox import sandbox

CASES = 2000


@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.name)
def test_what_is_right_is_read(reader):
    """Otherwise an almost valid input would be refused for the wrong reason."""
    with sandbox() as folder:
        for case in reader.seeds():
            reader.read(case.given, folder)
            assert check_case(reader, case, folder) == ""


@pytest.mark.long
@pytest.mark.parametrize("part", range(8))
def test_readers_keep_their_law(part):
    """One object without NaN or one sentence; termination; and no access outside the folder."""
    failures = [ran.failure for ran in run(READERS, range(part * CASES // 8, (part + 1) * CASES // 8), seed=0)]
    assert not any(failures), "\n".join(str(failure) for failure in failures if failure is not None)


@pytest.mark.long
@pytest.mark.parametrize("reader", SLOW, ids=lambda reader: reader.name)
def test_slow_readers_keep_their_law(reader):
    failures = [ran.failure for ran in run([reader], range(40), seed=7)]
    assert not any(failures), "\n".join(str(failure) for failure in failures if failure is not None)


@pytest.fixture
def samara_source(monkeypatch):
    """Errors raised in this file count as Samara's"""
    monkeypatch.setattr(law, "SOURCE", Path(__file__).parent)


def broken(read, errors=(ValueError,)):
    return Reader("broken", lambda: [], lambda rng: Case(b""), read, errors)


def raises(error):
    def read(data, folder):
        raise error

    return read


def opens(path, mode="r"):
    return lambda data, folder: open(path, mode)


@pytest.mark.parametrize(
    ("read", "problem"),
    [
        (raises(KeyError("x")), "KeyError"),
        (raises(ValueError("two\nlines")), "of 2 lines"),
        (raises(ValueError("raw \x1b[31m")), "with the letter"),
        (raises(ValueError("long " * 1000)), "of 5000 letters"),
        (raises(ValueError("")), "empty line"),
        (raises(RecursionError()), "RecursionError"),
        (lambda data, folder: {"x": [1.0, (math.nan,)]}, "NaN at ['x'][1][0]"),
        (opens("/etc/hostname"), "touched open /etc/hostname"),
        (opens("../outside", "w"), "touched open"),
        (lambda data, folder: Path(folder).parent.joinpath("made").mkdir(), "touched os.mkdir"),
        (lambda data, folder: socket.socket().bind(("127.0.0.1", 0)), "touched socket.bind"),
    ],
)
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_the_fuzzer_sees_what_breaks_the_law(read, problem, samara_source):
    with sandbox() as folder:
        assert problem in check_case(broken(read), Case(b""), folder)


def test_the_fuzzer_ends_what_does_not(monkeypatch):
    monkeypatch.setattr(running, "TIME_LIMIT_S", 0.05)
    with sandbox() as folder:
        assert "still at work" in check_case(broken(lambda data, folder: time.sleep(60)), Case(b""), folder)


def test_an_error_that_python_raised_within_samara_is_no_sentence():
    """A ValueError, as allowed, but raised by NumPy or a builtin: its message was not written for users."""
    from samara.core.algebra import Vec3
    from samara.physics.frames import frd_from_flu

    with sandbox() as folder:
        reader = broken(lambda data, folder: frd_from_flu(Vec3("x", "y", "z")), errors=(TypeError,))
        assert "that nobody raised" in check_case(reader, Case(b""), folder)


def test_a_case_depends_on_its_seed_and_its_number_alone():
    reader = next(candidate for candidate in READERS if candidate.name == "vehicle")
    single = [case.failure for case in run([reader], range(5, 6), seed=3)]
    after = [case.failure for case in run([reader], range(6), seed=3)]
    assert single == after[-1:]
    first, second = (running.create_case(reader, 3, number) for number in (5, 6))
    assert first == running.create_case(reader, 3, 5) != second
