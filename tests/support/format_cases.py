"""Synthetic cases whose logs went through a file: written as a format has them, and read back."""

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from studies.identification import Identify, work
from studies.synthetic import Case, cases, is_captured, scenario_of

import samara
from samara.identify.flight_log import MOTION_CAPTURE, FlightLog
from samara.identify.readers import read_log

from .log_files import KINDS

RECORDING = "samara"
FORMATS = (*(name for name in KINDS if name != "nanobench"), RECORDING)
"""All but NanoBench's: its PWM and voltage mean the speeds of one brushed motor, which no synthetic vehicle has."""


def numbers_for(name: str, first: int, count: int) -> list[int]:
    """The next so many vehicles whose truth such a log can hold: even ones have motion capture"""
    if name == RECORDING or len(KINDS[name].needs) == 2:
        return list(range(first, first + count))
    begin = first + (is_captured(first) != (KINDS[name].needs[0] == MOTION_CAPTURE))
    return list(range(begin, begin + 2 * count, 2))


def through_each(
    wanted: dict[str, Sequence[int]], numbers: Sequence[int], folder: Path, answered: Identify, seed: int = 1
) -> None:
    """These vehicles, flown once, through every format that wants them and has not had them: a folder of cases for each"""
    left = {
        name: [own for own in numbers if own in few and not (folder / name / f"case_{own:04d}.json").exists()]
        for name, few in wanted.items()
    }
    for case in cases([own for own in numbers if any(own in few for few in left.values())], seed, telemetry=True):
        for name, few in left.items():
            if case.number in few:
                (folder / name).mkdir(parents=True, exist_ok=True)
                work([case.number], folder / name, lambda _, case=case, name=name: _through(case, name, seed), answered)


def _through(case: Case, name: str, seed: int) -> Iterator[Case]:
    with tempfile.TemporaryDirectory() as folder:
        log = recorded(case, seed, Path(folder)) if name == RECORDING else written(case.log, name, Path(folder))
    yield case._replace(log=log)


def written(log: FlightLog, name: str, folder: Path) -> FlightLog:
    """A log as a file of a format gives it back"""
    path, columns = KINDS[name].write(KINDS[name].told(log), folder)
    (back,) = read_log(path, columns)
    return replace(back, name=log.name)


def recorded(case: Case, seed: int, folder: Path) -> FlightLog:
    """The same flight, recorded by ourselves"""
    captured = is_captured(case.number)
    scenario = scenario_of([case.truth], [case.task], [case.number], captured=captured, telemetry=False)
    samara.fly(replace(scenario, seed=seed * 1_000_000 + case.number), out=folder / "flight.mcap", whole=False)
    (back,) = read_log(folder / "flight.mcap")
    return back
