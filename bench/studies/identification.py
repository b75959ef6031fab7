"""Identify synthetic vehicles from their logs and compare the results with the truth.

    PYTHONPATH=bench python -m studies.identification --numbers 0-199            # each flies the 120 s planned for it
    PYTHONPATH=bench python -m studies.identification --numbers 0-39 --still     # the control group: hover only
    PYTHONPATH=bench python -m studies.identification --numbers 0-79 --telemetry --model-error --seed 12

Every result is saved to a separate file when its case is done; the same command resumes an interrupted campaign.
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
from samara.core.confined_folder import kill_when_parent_ends
from studies.synthetic import Case, cases, is_captured

CASES_PER_TASK = 10  # cases per task of a worker process
BARS = (("k_thrust", 0.02), ("inertia.", 0.05), ("motor.", 0.10), ("drag.linear.", 0.10), ("airspeed_moment.", 0.10))
"""Target for the median error, by the prefix of the parameter's name."""
EXCITED_BY_HOVER = ("k_thrust",)
LOG_SECONDS = 1.0  # interval between two progress updates

CaseSource = Callable[[Sequence[int]], Iterable[Case]]
Identify = Callable[[Case], Sequence["Answer"]]


class Answer(NamedTuple):
    """A parameter of one case: truth, estimate, and the magnitude that errors are relative to."""

    name: str
    truth: float
    value: float
    error: float
    low: float
    high: float
    excited: bool
    size: float


class Result(NamedTuple):
    """A finished case: `problem` is the reason for missing answers, else ""; `seconds` is the time of the identification."""

    number: int
    mass: float
    captured: bool
    seconds: float
    problem: str
    answers: tuple[Answer, ...]


def identify_case(case: Case) -> tuple[Answer, ...]:
    """Return the physical product of `samara.identify.identification` beside the truth."""
    from samara.identify.identification import identify
    from samara.identify.parameters import identifiable_parameters, prepare_vehicle

    estimates = {
        estimate.name: estimate for estimate in identify([case.log], case.start, predictor=False).physical.estimates
    }
    truth = prepare_vehicle(case.truth)
    answers = []
    for parameter in identifiable_parameters(truth):
        estimate, true_value = estimates[parameter.name], parameter.get(truth)
        size = abs(true_value) if true_value else abs(parameter.displace_value(0.0, 1.0))
        values = estimate.value, estimate.error, estimate.low, estimate.high, estimate.excited
        answers.append(Answer(parameter.name, true_value, *values, size))
    return tuple(answers)


# Cases and their files --------------------------------------------------------------------------------------------------


def run(
    numbers: Sequence[int],
    folder: Path,
    case_source: CaseSource = cases,
    identify_answers: Identify = identify_case,
    processes: int = 2,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[Result]:
    """Return all results; create and identify the cases without a file in the folder with this many worker processes."""
    folder.mkdir(parents=True, exist_ok=True)
    remaining = [number for number in numbers if not _file(folder, number).exists()]
    tasks = [
        same_truth[first : first + CASES_PER_TASK]
        for same_truth in (
            [number for number in remaining if is_captured(number) == captured] for captured in (True, False)
        )
        for first in range(0, len(same_truth), CASES_PER_TASK)
    ]
    if processes == 1:
        for task_numbers in tasks:
            work(task_numbers, folder, case_source, identify_answers)
            progress(_done(folder, numbers), len(numbers))
    elif tasks:
        count, context = min(processes, len(tasks)), get_context("spawn")
        with ProcessPoolExecutor(count, context, initializer=kill_when_parent_ends, initargs=(os.getpid(),)) as pool:
            pending = {pool.submit(work, task_numbers, folder, case_source, identify_answers) for task_numbers in tasks}
            while pending:
                finished, pending = wait(pending, LOG_SECONDS, FIRST_COMPLETED)
                progress(_done(folder, numbers), len(numbers))
                for future in finished:
                    future.result()
    return [read_result(_file(folder, number)) for number in numbers]


def work(numbers: Sequence[int], folder: Path, case_source: CaseSource, identify_answers: Identify) -> None:
    """Identify cases one after the other and save each result; a case that cannot be identified records the reason."""
    for case in case_source(numbers):
        begin = time.monotonic()
        try:
            problem, answers = "", tuple(identify_answers(case))
        except ValueError as error:
            problem, answers = str(error), ()
        seconds = time.monotonic() - begin
        result = Result(case.number, float(case.truth.mass), is_captured(case.number), seconds, problem, answers)
        with atomic_write(_file(folder, case.number)) as temporary:
            temporary.write_text(json.dumps(result._asdict() | {"answers": [answer._asdict() for answer in answers]}))


def read_result(path: Path) -> Result:
    """Read the result of one case from its file."""
    document = json.loads(path.read_text(encoding="utf-8"))
    return Result(**document | {"answers": tuple(Answer(**answer) for answer in document["answers"])})


def _file(folder: Path, number: int) -> Path:
    return folder / f"case_{number:04d}.json"


def _done(folder: Path, numbers: Sequence[int]) -> int:
    return sum(_file(folder, number).exists() for number in numbers)


# Results ----------------------------------------------------------------------------------------------------------------


class Line(NamedTuple):
    """One parameter over all cases: errors relative to the truth, the fraction of 95 % intervals that contain it, and the
    count of cases that flag it as not excited. `median` and `covered` are of all cases, `worst` of the excited ones."""

    name: str
    cases: int
    median: float
    worst: float
    worst_case: int
    covered: float
    flagged: int
    bar: float


def parameter_lines(results: Sequence[Result]) -> list[Line]:
    """Summarise the results, one line per parameter."""
    lines = []
    names = list(dict.fromkeys(answer.name for result in results for answer in result.answers))
    for name in names:
        rows = [(result.number, answer) for result in results for answer in result.answers if answer.name == name]
        errors = np.array([abs(answer.value - answer.truth) / answer.size for _, answer in rows])
        is_excited = np.array([answer.excited for _, answer in rows])
        excited_errors = np.where(is_excited, errors, -1.0)
        worst_row = int(np.argmax(excited_errors))
        bar = next((bar for prefix, bar in BARS if name.startswith(prefix)), np.nan)
        covered = float(np.mean([answer.low <= answer.truth <= answer.high for _, answer in rows]))
        worst = (float(excited_errors[worst_row]), rows[worst_row][0]) if is_excited.any() else (np.nan, -1)
        lines.append(Line(name, len(rows), float(np.median(errors)), *worst, covered, int((~is_excited).sum()), bar))
    return lines


def table(results: Sequence[Result], *, still: bool = False) -> str:
    """Format errors in percent; for the control group, also the count of flags on parameters that hover does not excite."""
    lines = [
        f"{'':22s}{'cases':>6s}{'median':>9s}{'aim':>7s}{'worst':>9s}{'case':>6s}{'covered':>9s}{'not excited':>13s}"
    ]
    for line in parameter_lines(results):
        aim = f"{100.0 * line.bar:5.0f} %" if np.isfinite(line.bar) else ""
        worst = f"{100.0 * line.worst:7.1f} %{line.worst_case:6d}" if line.worst_case >= 0 else f"{'':15s}"
        lines.append(
            f"{line.name:22s}{line.cases:6d}{100.0 * line.median:7.1f} %{aim:>7s}{worst}"
            f"{100.0 * line.covered:7.1f} %{line.flagged:13d}"
        )
    if still:
        unexcited = [answer for result in results for answer in result.answers if answer.name not in EXCITED_BY_HOVER]
        flagged = sum(not answer.excited for answer in unexcited)
        lines.append(f"hover: {flagged} of {len(unexcited)} parameters that it does not excite are flagged")
    failed = [result for result in results if result.problem]
    lines += [f"case {result.number} was not identified: {result.problem}" for result in failed]
    done = [result.seconds for result in results if not result.problem]
    if done:
        lines.append(f"{len(done)} cases; each identified in {np.median(done):.1f} s, the slowest in {max(done):.1f} s")
    return "\n".join(lines)


# The command ------------------------------------------------------------------------------------------------------------


def parse_numbers(text: str) -> list[int]:
    """Parse numbers and ranges: `0-9,12` is 0 to 9 and 12."""
    numbers: list[int] = []
    for item in text.split(","):
        ends = item.split("-")
        if len(ends) > 2 or not all(end.isdecimal() for end in ends):
            raise argparse.ArgumentTypeError(f"numbers are {text!r}; expected such as 0-199 or 3,5,8-10")
        numbers += range(int(ends[0]), int(ends[-1]) + 1)
    return numbers


@contextmanager
def progress_bar(total: int) -> Iterator[Callable[[int, int], None]]:
    """Show a progress bar; yield the function that updates it."""
    from rich.progress import Progress, TimeElapsedColumn

    with Progress(*Progress.get_default_columns(), TimeElapsedColumn()) as bars:
        task = bars.add_task("identifying", total=total)
        yield lambda done, total: bars.update(task, completed=done)


def main(arguments: Sequence[str] | None = None, **more: Any) -> int:
    """Run the command; `more` goes to `run`."""
    parser = argparse.ArgumentParser(
        "PYTHONPATH=bench python -m studies.identification", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--numbers", type=parse_numbers, default="0-199", help="vehicle numbers: 0-199, or 3,5,8-10")
    parser.add_argument("--seed", type=int, default=1, help="seed of the vehicles")
    parser.add_argument("--duration", type=float, default=120.0, help="duration of each flight [s]")
    parser.add_argument(
        "--still", action="store_true", help="fly the control group: hover instead of the planned flight"
    )
    parser.add_argument("--telemetry", action="store_true", help="log rotor speeds, of motors that differ by 5 %%")
    parser.add_argument("--model-error", action="store_true", help="fly vehicles that have what the model lacks")
    parser.add_argument("--out", type=Path, default=Path("out/identify_synthetic"), help="folder for the results")
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args(arguments)
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ.setdefault(name, "1")  # for the worker processes: one thread each
    flags = {name: getattr(options, name) for name in ("still", "telemetry", "model_error")}
    folder_name = "_".join([f"seed_{options.seed}_{options.duration:g}s", *(name for name in flags if flags[name])])
    case_source = partial(cases, seed=options.seed, duration=options.duration, **flags)
    with progress_bar(len(options.numbers)) as progress:
        results = run(
            options.numbers,
            options.out / folder_name,
            case_source,
            processes=options.processes,
            progress=progress,
            **more,
        )
    print(table(results, still=options.still))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
