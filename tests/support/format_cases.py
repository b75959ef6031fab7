"""Synthetic cases whose logs went through a file: written as a format has them, and read back."""

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import samara
from samara.identify.log import MOTION_CAPTURE, FlightLog
from samara.identify.readers import read_log
from samara.identify.synthetic import Case, cases, is_captured, scenario_of

from .log_files import KINDS

RECORDING = "samara"
FORMATS = (*KINDS, RECORDING)


def numbers_for(name: str, first: int, count: int) -> list[int]:
    """The next so many vehicles whose truth such a log can hold: even ones have motion capture"""
    if name == RECORDING or len(KINDS[name].needs) == 2:
        return list(range(first, first + count))
    begin = first + (is_captured(first) != (KINDS[name].needs[0] == MOTION_CAPTURE))
    return list(range(begin, begin + 2 * count, 2))


def through(numbers: Sequence[int], name: str, seed: int = 1, duration: float = 120.0) -> Iterator[Case]:
    """Each case with the log that its file gives back"""
    telemetry = name != RECORDING and "rotor_speed" in KINDS[name].rates
    for case in cases(numbers, seed, duration, telemetry=telemetry):
        with tempfile.TemporaryDirectory() as folder:
            log = _recorded(case, seed, Path(folder)) if name == RECORDING else _written(case.log, name, Path(folder))
        yield case._replace(log=log)


def _written(log: FlightLog, name: str, folder: Path) -> FlightLog:
    path, columns = KINDS[name].write(KINDS[name].told(log), folder)
    (back,) = read_log(path, columns)
    return replace(back, name=log.name)


def _recorded(case: Case, seed: int, folder: Path) -> FlightLog:
    scenario = scenario_of([case.truth], [case.task], [case.number], captured=is_captured(case.number), telemetry=False)
    samara.fly(replace(scenario, seed=seed * 1_000_000 + case.number), out=folder / "flight.mcap", whole=False)
    (back,) = read_log(folder / "flight.mcap")
    return back
