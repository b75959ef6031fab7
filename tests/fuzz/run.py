"""Cases one after the other, each judged by its reader's law."""

import signal
import threading
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from .law import Case, Reader, not_numbers, wrong_with_error
from .sandbox import TouchedError, sandbox, watched

PATIENCE = 60.0  # [s]: no case that works takes a hundredth of it


class Failure(NamedTuple):
    """A case that broke the law: what can be done to see it again"""

    reader: str
    seed: int
    number: int
    problem: str
    case: Case

    def __str__(self) -> str:
        done = "; ".join(self.case.told)[:400]
        again = f"python -m tests.fuzz --seed {self.seed} --only {self.reader} --case {self.number}"
        return f"{self.reader}: {self.problem}\n  made wrong: {done}\n  again: {again}"


class HangError(BaseException):
    """A case took longer than any should; no reader may catch it"""


class Ran(NamedTuple):
    """One case that was run: whose, which, how long it took [s], and what was wrong, if anything"""

    reader: str
    number: int
    seconds: float
    failure: Failure | None


def order(readers: Sequence[Reader]) -> list[Reader]:
    """The readers as cases go around them, each as often as its share"""
    return [reader for turn in range(max(own.share for own in readers)) for reader in readers if turn < reader.share]


def case_of(reader: Reader, seed: int, number: int) -> Case:
    """The case of that number: it depends on nothing else"""
    return reader.make(Random(f"{seed} {reader.name} {number}"))


def run(readers: Sequence[Reader], numbers: range, seed: int) -> Iterator[Ran]:
    """Cases of these numbers over all readers in turn"""
    around = order(readers)
    with sandbox() as folder:
        for number in numbers:
            reader = around[number % len(around)]
            begun = time.perf_counter()
            case = case_of(reader, seed, number)
            problem = judged(reader, case, folder)
            failure = Failure(reader.name, seed, number, problem, case) if problem else None
            yield Ran(reader.name, number, time.perf_counter() - begun, failure)


def judged(reader: Reader, case: Case, folder: Path) -> str:
    """What is wrong with a reader's answer; nothing where it keeps its law"""
    problem, result = "", None
    with watched(folder) as touched, warnings.catch_warnings():
        warnings.simplefilter("error")
        for kind in (
            RuntimeWarning,
            DeprecationWarning,
            ResourceWarning,
        ):  # of arithmetic; of others; of what is thrown away
            warnings.simplefilter("ignore", kind)
        try:
            with _patience():
                result = reader.read(case.given, folder)
        except HangError:
            problem = f"still at work after {PATIENCE:g} s"
        except TouchedError:
            pass
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            problem = wrong_with_error(reader, error)
    if touched:
        return f"touched {touched[0]}"
    missing = not_numbers(result)
    return problem or (f"NaN at {missing}" if missing else "")


@contextmanager
def _patience() -> Iterator[None]:
    """HangError after a time; signals are only there in the main thread of some systems"""
    if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        yield
        return

    def give_up(*_: Any) -> None:
        raise HangError

    before = signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, PATIENCE)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
