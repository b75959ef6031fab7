"""Synthetic cases whose logs are written in a format and read back."""

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from studies.identification import Identify, work
from studies.synthetic import Case, cases, is_captured, logging_scenario

import samara
from samara.identify.flight_log import MOTION_CAPTURE, FlightLog
from samara.identify.readers import read_log

from .log_files import LOG_FORMATS

RECORDING = "samara"
FORMATS = (*(name for name in LOG_FORMATS if name != "nanobench"), RECORDING)
"""All but NanoBench's: its PWM and voltage imply the speeds of one brushed motor, which no synthetic vehicle has."""


def format_case_numbers(name: str, first: int, count: int) -> list[int]:
    """Return the next `count` vehicles whose truth such a log can hold: even ones have motion capture."""
    if name == RECORDING or len(LOG_FORMATS[name].needs) == 2:
        return list(range(first, first + count))
    begin = first + (is_captured(first) != (LOG_FORMATS[name].needs[0] == MOTION_CAPTURE))
    return list(range(begin, begin + 2 * count, 2))


def run_formats(
    numbers_by_format: dict[str, Sequence[int]], numbers: Sequence[int], folder: Path, identify: Identify, seed: int = 1
) -> None:
    """Fly these vehicles once and pass them through every format that needs them: a folder of cases for each format."""
    remaining = {
        name: [
            number
            for number in numbers
            if number in format_numbers and not (folder / name / f"case_{number:04d}.json").exists()
        ]
        for name, format_numbers in numbers_by_format.items()
    }
    for case in cases(
        [number for number in numbers if any(number in format_numbers for format_numbers in remaining.values())],
        seed,
        telemetry=True,
    ):
        for name, format_numbers in remaining.items():
            if case.number in format_numbers:
                (folder / name).mkdir(parents=True, exist_ok=True)
                work(
                    [case.number],
                    folder / name,
                    lambda _, case=case, name=name: _format_case(case, name, seed),
                    identify,
                )


def _format_case(case: Case, name: str, seed: int) -> Iterator[Case]:
    with tempfile.TemporaryDirectory() as folder:
        log = (
            record_and_read(case, seed, Path(folder))
            if name == RECORDING
            else write_and_read(case.log, name, Path(folder))
        )
    yield case._replace(log=log)


def write_and_read(log: FlightLog, name: str, folder: Path) -> FlightLog:
    """Write a log in a format and read it back."""
    path, columns = LOG_FORMATS[name].write(LOG_FORMATS[name].select_signals(log), folder)
    (log_read,) = read_log(path, columns)
    return replace(log_read, name=log.name)


def record_and_read(case: Case, seed: int, folder: Path) -> FlightLog:
    """Return the log of the same flight recorded by Samara."""
    has_motion_capture = is_captured(case.number)
    scenario = logging_scenario([case.truth], [case.task], [case.number], captured=has_motion_capture, telemetry=False)
    samara.fly(
        replace(scenario, seed=seed * 1_000_000 + case.number), out=folder / "flight.mcap", full_resolution=False
    )
    (log_read,) = read_log(folder / "flight.mcap")
    return log_read
