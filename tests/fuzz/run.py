"""Run cases one after the other, each checked against its reader's law."""

import signal
import threading
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from .law import Case, Reader, describe_wrong_error, find_nan
from .sandbox import TouchedError, sandbox, watch_accesses

TIME_LIMIT_S = 60.0  # [s]; a valid case takes less than a hundredth of it


class Failure(NamedTuple):
    """A case that broke the law, with the command that reproduces it."""

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
    """A case exceeded the time limit; no reader may catch it."""


class CaseRun(NamedTuple):
    """A case that was run: its reader, its number, its time [s], and its failure, if any."""

    reader: str
    number: int
    seconds: float
    failure: Failure | None


def order(readers: Sequence[Reader]) -> list[Reader]:
    """Return the readers in the order of cases, each repeated by its share."""
    return [
        reader
        for turn in range(max(candidate.share for candidate in readers))
        for reader in readers
        if turn < reader.share
    ]


def create_case(reader: Reader, seed: int, number: int) -> Case:
    """Return the case of that number: it depends on nothing else."""
    return reader.make(Random(f"{seed} {reader.name} {number}"))


def run(readers: Sequence[Reader], numbers: range, seed: int) -> Iterator[CaseRun]:
    """Run the cases of these numbers over all readers in turn."""
    around = order(readers)
    with sandbox() as folder:
        for number in numbers:
            reader = around[number % len(around)]
            begun = time.perf_counter()
            case = create_case(reader, seed, number)
            problem = check_case(reader, case, folder)
            failure = Failure(reader.name, seed, number, problem, case) if problem else None
            yield CaseRun(reader.name, number, time.perf_counter() - begun, failure)


def check_case(reader: Reader, case: Case, folder: Path) -> str:
    """Describe the violation of a reader's law; "" if there is none."""
    problem, result = "", None
    with watch_accesses(folder) as touched, warnings.catch_warnings():
        warnings.simplefilter("error")
        for kind in (
            RuntimeWarning,
            DeprecationWarning,
            ResourceWarning,
        ):  # arithmetic warnings; other warnings; messages that are discarded
            warnings.simplefilter("ignore", kind)
        try:
            with _time_limit():
                result = reader.read(case.given, folder)
        except HangError:
            problem = f"still at work after {TIME_LIMIT_S:g} s"
        except TouchedError:
            pass
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            problem = describe_wrong_error(reader, error)
    if touched:
        return f"touched {touched[0]}"
    missing = find_nan(result)
    return problem or (f"NaN at {missing}" if missing else "")


@contextmanager
def _time_limit() -> Iterator[None]:
    """Raise HangError after a time limit; signals work only in the main thread of some systems."""
    if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        yield
        return

    def give_up(*_: Any) -> None:
        raise HangError

    before = signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, TIME_LIMIT_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
