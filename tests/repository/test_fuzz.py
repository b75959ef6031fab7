"""The fuzzer: every reader keeps its law, and the fuzzer sees when one does not."""

import math
import socket
import time
from pathlib import Path

import pytest
from fuzz import law
from fuzz import run as running
from fuzz.law import Case, Reader
from fuzz.readers import READERS, SLOW
from fuzz.run import judged, run
from fuzz.sandbox import sandbox

CASES = 2000


@pytest.mark.parametrize("reader", READERS, ids=lambda own: own.name)
def test_what_is_right_is_read(reader):
    """Else what is almost right would be refused for the wrong reason."""
    with sandbox() as folder:
        for case in reader.seeds():
            reader.read(case.given, folder)
            assert judged(reader, case, folder) == ""


@pytest.mark.long
@pytest.mark.parametrize("part", range(8))
def test_readers_keep_their_law(part):
    """One object without NaN or one sentence; an end; and nothing touched outside the folder."""
    failures = [ran.failure for ran in run(READERS, range(part * CASES // 8, (part + 1) * CASES // 8), seed=0)]
    assert not any(failures), "\n".join(str(own) for own in failures if own is not None)


@pytest.mark.long
@pytest.mark.parametrize("reader", SLOW, ids=lambda own: own.name)
def test_slow_readers_keep_their_law(reader):
    failures = [ran.failure for ran in run([reader], range(40), seed=7)]
    assert not any(failures), "\n".join(str(own) for own in failures if own is not None)


@pytest.fixture
def ours(monkeypatch):
    """What this file raises counts as Samara's own"""
    monkeypatch.setattr(law, "SOURCE", Path(__file__).parent)


def broken(read, errors=(ValueError,)):
    return Reader("broken", lambda: [], lambda rng: Case(b""), read, errors)


def raises(error):
    def read(given, folder):
        raise error

    return read


def opens(path, mode="r"):
    return lambda given, folder: open(path, mode)


@pytest.mark.parametrize(
    ("read", "problem"),
    [
        (raises(KeyError("x")), "KeyError"),
        (raises(ValueError("two\nlines")), "of 2 lines"),
        (raises(ValueError("raw \x1b[31m")), "with the letter"),
        (raises(ValueError("long " * 1000)), "of 5000 letters"),
        (raises(ValueError("")), "empty line"),
        (raises(RecursionError()), "RecursionError"),
        (lambda given, folder: {"x": [1.0, (math.nan,)]}, "NaN at ['x'][1][0]"),
        (opens("/etc/hostname"), "touched open /etc/hostname"),
        (opens("../outside", "w"), "touched open"),
        (lambda given, folder: Path(folder).parent.joinpath("made").mkdir(), "touched os.mkdir"),
        (lambda given, folder: socket.socket().bind(("127.0.0.1", 0)), "touched socket.bind"),
    ],
)
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_the_fuzzer_sees_what_breaks_the_law(read, problem, ours):
    with sandbox() as folder:
        assert problem in judged(broken(read), Case(b""), folder)


def test_the_fuzzer_ends_what_does_not(monkeypatch):
    monkeypatch.setattr(running, "PATIENCE", 0.05)
    with sandbox() as folder:
        assert "still at work" in judged(broken(lambda given, folder: time.sleep(60)), Case(b""), folder)


def test_an_error_that_python_raised_within_samara_is_no_sentence():
    """ValueError, as allowed, but by NumPy or a builtin: nobody wrote it for a person."""
    from samara.core.algebra import Vec3
    from samara.physics.frames import frd_from_flu

    with sandbox() as folder:
        reader = broken(lambda given, folder: frd_from_flu(Vec3("x", "y", "z")), errors=(TypeError,))
        assert "that nobody raised" in judged(reader, Case(b""), folder)


def test_a_case_depends_on_its_seed_and_its_number_alone():
    reader = next(own for own in READERS if own.name == "vehicle")
    alone = [ran.failure for ran in run([reader], range(5, 6), seed=3)]
    after = [ran.failure for ran in run([reader], range(6), seed=3)]
    assert alone == after[-1:]
    first, second = (running.case_of(reader, 3, number) for number in (5, 6))
    assert first == running.case_of(reader, 3, 5) != second
