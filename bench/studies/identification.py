"""Vehicles that nobody built, identified from their logs, and how near that came to the truth: one command.

    PYTHONPATH=bench python -m studies.identification --numbers 0-199            # each flies the 120 s that were planned for it
    PYTHONPATH=bench python -m studies.identification --numbers 0-39 --still     # the control group: hover alone

Every case is kept as a file of its own as soon as it is done; whoever starts the same campaign again goes on where it stopped.
"""

import argparse
import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from contextlib import contextmanager
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from samara.core.atomic_files import atomic_write
from samara.core.confined import end_with_parent
from studies.synthetic import Case, cases, is_captured

TOGETHER = 10  # cases that a process makes at once
BARS = (("k_thrust", 0.02), ("inertia.", 0.05), ("motor.", 0.10), ("drag.linear.", 0.10), ("airspeed_moment.", 0.10))
"""The median error that is aimed at, by how a parameter's name begins."""
TOLD_BY_HOVER = ("k_thrust",)
LOG_SECONDS = 1.0  # between two looks at how far it is

Made = Callable[[Sequence[int]], Iterable[Case]]
Identify = Callable[[Case], Sequence["Answer"]]


class Answer(NamedTuple):
    """A parameter of one case: what it is, what came out, and the size that an error is a part of"""

    name: str
    truth: float
    value: float
    error: float
    low: float
    high: float
    excited: bool
    size: float


class Result(NamedTuple):
    """A case that is done: `problem` says why there are no answers, "" where there are; identified in so many `seconds`"""

    number: int
    mass: float
    captured: bool
    seconds: float
    problem: str
    answers: tuple[Answer, ...]


def identified(case: Case) -> tuple[Answer, ...]:
    """The physical product of `samara.identify.identification` beside the truth"""
    from samara.identify.identification import identify
    from samara.identify.parameters import parameters_of, ready

    found = {own.name: own for own in identify([case.log], case.start, predictor=False).physical.estimates}
    truth = ready(case.truth)
    answers = []
    for own in parameters_of(truth):
        told, true = found[own.name], own.get(truth)
        size = abs(true) if true else abs(own.after(0.0, 1.0))
        answers.append(Answer(own.name, true, told.value, told.error, told.low, told.high, told.excited, size))
    return tuple(answers)


# Cases and their files --------------------------------------------------------------------------------------------------


def run(
    numbers: Sequence[int],
    folder: Path,
    made: Made = cases,
    answered: Identify = identified,
    processes: int = 2,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[Result]:
    """All cases, those that the folder does not hold yet made and identified by so many processes"""
    folder.mkdir(parents=True, exist_ok=True)
    left = [own for own in numbers if not _file(folder, own).exists()]
    some = [
        alike[first : first + TOGETHER]
        for alike in ([own for own in left if is_captured(own) == captured] for captured in (True, False))
        for first in range(0, len(alike), TOGETHER)
    ]
    if processes == 1:
        for own in some:
            work(own, folder, made, answered)
            progress(_done(folder, numbers), len(numbers))
    elif some:
        count, context = min(processes, len(some)), get_context("spawn")
        with ProcessPoolExecutor(count, context, initializer=end_with_parent, initargs=(os.getpid(),)) as pool:
            waiting = {pool.submit(work, own, folder, made, answered) for own in some}
            while waiting:
                finished, waiting = wait(waiting, LOG_SECONDS, FIRST_COMPLETED)
                progress(_done(folder, numbers), len(numbers))
                for each in finished:
                    each.result()
    return [read_result(_file(folder, own)) for own in numbers]


def work(numbers: Sequence[int], folder: Path, made: Made, answered: Identify) -> None:
    """Cases one after the other, each written when it is done; one that cannot be identified says why"""
    for case in made(numbers):
        began = time.monotonic()
        try:
            problem, answers = "", tuple(answered(case))
        except ValueError as error:
            problem, answers = str(error), ()
        seconds = time.monotonic() - began
        own = Result(case.number, float(case.truth.mass), is_captured(case.number), seconds, problem, answers)
        with atomic_write(_file(folder, case.number)) as temporary:
            temporary.write_text(json.dumps(own._asdict() | {"answers": [each._asdict() for each in answers]}))


def read_result(path: Path) -> Result:
    """One case as it was written"""
    held = json.loads(path.read_text(encoding="utf-8"))
    return Result(**held | {"answers": tuple(Answer(**own) for own in held["answers"])})


def _file(folder: Path, number: int) -> Path:
    return folder / f"case_{number:04d}.json"


def _done(folder: Path, numbers: Sequence[int]) -> int:
    return sum(_file(folder, own).exists() for own in numbers)


# What came out ----------------------------------------------------------------------------------------------------------


class Line(NamedTuple):
    """One parameter over all cases: errors as parts of the truth, the share of 95 % intervals that hold it, and how many cases
    say that it was not excited; `median` and `covered` are of all, `worst` of those that say it was"""

    name: str
    cases: int
    median: float
    worst: float
    worst_case: int
    covered: float
    flagged: int
    bar: float


def lines_of(results: Sequence[Result]) -> list[Line]:
    """The table, a line for each parameter"""
    found = []
    names = list(dict.fromkeys(own.name for each in results for own in each.answers))
    for name in names:
        rows = [(each.number, own) for each in results for own in each.answers if own.name == name]
        errors = np.array([abs(own.value - own.truth) / own.size for _, own in rows])
        told = np.array([own.excited for _, own in rows])
        most = np.where(told, errors, -1.0)
        at = int(np.argmax(most))
        bar = next((bar for begin, bar in BARS if name.startswith(begin)), np.nan)
        covered = float(np.mean([own.low <= own.truth <= own.high for _, own in rows]))
        worst = (float(most[at]), rows[at][0]) if told.any() else (np.nan, -1)
        found.append(Line(name, len(rows), float(np.median(errors)), *worst, covered, int((~told).sum()), bar))
    return found


def table(results: Sequence[Result], *, still: bool = False) -> str:
    """Errors in percent; of the control group how many of what hover does not excite were flagged"""
    lines = [
        f"{'':22s}{'cases':>6s}{'median':>9s}{'aim':>7s}{'worst':>9s}{'case':>6s}{'covered':>9s}{'not excited':>13s}"
    ]
    for own in lines_of(results):
        aim = f"{100.0 * own.bar:5.0f} %" if np.isfinite(own.bar) else ""
        worst = f"{100.0 * own.worst:7.1f} %{own.worst_case:6d}" if own.worst_case >= 0 else f"{'':15s}"
        lines.append(
            f"{own.name:22s}{own.cases:6d}{100.0 * own.median:7.1f} %{aim:>7s}{worst}"
            f"{100.0 * own.covered:7.1f} %{own.flagged:13d}"
        )
    if still:
        unexcited = [own for each in results for own in each.answers if own.name not in TOLD_BY_HOVER]
        flagged = sum(not own.excited for own in unexcited)
        lines.append(f"hover: {flagged} of {len(unexcited)} numbers that it does not excite are flagged")
    failed = [own for own in results if own.problem]
    lines += [f"case {own.number} was not identified: {own.problem}" for own in failed]
    done = [own.seconds for own in results if not own.problem]
    if done:
        lines.append(f"{len(done)} cases; each identified in {np.median(done):.1f} s, the slowest in {max(done):.1f} s")
    return "\n".join(lines)


# The command ------------------------------------------------------------------------------------------------------------


def numbers_in(text: str) -> list[int]:
    """`0-9,12` is 0 to 9 and 12"""
    found: list[int] = []
    for part in text.split(","):
        ends = part.split("-")
        if len(ends) > 2 or not all(own.isdecimal() for own in ends):
            raise argparse.ArgumentTypeError(f"numbers are {text!r}; expected such as 0-199 or 3,5,8-10")
        found += range(int(ends[0]), int(ends[-1]) + 1)
    return found


@contextmanager
def on_screen(total: int) -> Iterator[Callable[[int, int], None]]:
    """A bar that follows what is done"""
    from rich.progress import Progress, TimeElapsedColumn

    with Progress(*Progress.get_default_columns(), TimeElapsedColumn()) as bars:
        task = bars.add_task("identifying", total=total)
        yield lambda done, total: bars.update(task, completed=done)


def main(given: Sequence[str] | None = None, **more: Any) -> int:
    """The command; `more` goes to `run`"""
    parser = argparse.ArgumentParser(
        "PYTHONPATH=bench python -m studies.identification", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--numbers", type=numbers_in, default="0-199", help="which vehicles: 0-199, or 3,5,8-10")
    parser.add_argument("--seed", type=int, default=1, help="another seed, other vehicles")
    parser.add_argument("--duration", type=float, default=120.0, help="of each flight [s]")
    parser.add_argument(
        "--still", action="store_true", help="the control group: they hover instead of flying their plan"
    )
    parser.add_argument("--out", type=Path, default=Path("out/identify_synthetic"), help="where cases are kept")
    parser.add_argument("--processes", type=int, default=2)
    asked = parser.parse_args(given)
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ.setdefault(name, "1")  # of the processes that are started: each has its own work
    kind = f"seed_{asked.seed}_{asked.duration:g}s{'_still' if asked.still else ''}"
    made = partial(cases, seed=asked.seed, duration=asked.duration, still=asked.still)
    with on_screen(len(asked.numbers)) as progress:
        results = run(asked.numbers, asked.out / kind, made, processes=asked.processes, progress=progress, **more)
    print(table(results, still=asked.still))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
