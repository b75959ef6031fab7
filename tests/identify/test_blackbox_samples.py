"""Real blackbox logs against two independent decoders (MIT or Apache): the same values, field by field.

SAMARA_BLACKBOX_LOGS, or `data/blackbox` of the shared folder, holds logs NAME, beside each NAME.snap of blackbox-log
(github.com/blackbox-log/blackbox-log, tests/snapshots) and NAME.counts of fc-blackbox (github.com/ilya-epifanov/fc-blackbox,
src/snapshots), whose logs they are.

The two differ because of an error of blackbox-log 0.4: after an I frame both predecessors of a P frame are that frame, but it
uses an older one for the average of two (its motors reach −61 and 2278 of 2047). Its statistics are compared with that error.
"""

import os
import re
from pathlib import Path

import numpy as np
import pytest

from samara.identify.readers.blackbox import read_sessions

SCALES = {"Voltage": 10.0, "Amperage": 10.0}  # raw hundredths to thousandths; g in cm/s² by the header
AVERAGE = 3
HISTORY = r"FieldSnapshot\(\s*min: (-?\d+),\s*max: (-?\d+),\s*unique: (\d+),(?:\s*histogram: \(([\d, ]+)\),)?"
FIELD = re.compile(r'name: "([^"]+)",\s*unit: (\w+),\s*history: ' + HISTORY)


@pytest.fixture(scope="module")
def logs(shared_folder) -> list[Path]:
    folder = Path(os.environ.get("SAMARA_BLACKBOX_LOGS", "") or shared_folder / "data" / "blackbox")
    paths = sorted(path for path in folder.glob("*") if Path(f"{path}.snap").is_file())
    if not paths:
        pytest.skip("no blackbox logs with what other decoders say of them in SAMARA_BLACKBOX_LOGS")
    return paths


def statistics(x: np.ndarray) -> tuple[int, int, int, tuple[int, ...] | None]:
    """Return least and largest value, 0 included; the count of distinct values; the count of each remainder by 16."""
    values = np.unique(x)
    counts = np.bincount(np.abs(x) % 16, minlength=16)
    return (
        min(0, int(values[0])),
        max(0, int(values[-1])),
        len(values),
        tuple(counts.tolist()) if len(values) > 1 else None,
    )


def apply_older_frame_error(x: np.ndarray, signed: bool, intra: np.ndarray) -> np.ndarray:
    """Add the same differences to the average that the wrong decoder uses."""
    values: list[int] = []
    last = second_last = wrong_last = wrong_second_last = 0
    for value, is_intra in zip(x.tolist(), intra.tolist(), strict=True):
        if is_intra:
            last = second_last = wrong_value = value
            wrong_second_last = wrong_last if values else value
        else:
            wrong_value = value - int((last + second_last) / 2) + int((wrong_last + wrong_second_last) / 2)
            wrong_value = (wrong_value + (1 << 31)) % (1 << 32) - (1 << 31)
            last, second_last, wrong_second_last = value, last, wrong_last
        wrong_last = wrong_value
        values.append(wrong_value)
    return np.array(values) if signed else np.array(values) & 0xFFFFFFFF


def test_every_field_has_the_statistics_that_blackbox_log_states(logs):
    fields = 0
    for path in logs:
        sessions, problems = read_sessions(path)
        assert problems == []
        for session, text in zip(sessions, Path(f"{path}.snap").read_text().split("Ok(Log(")[1:], strict=False):
            layout, tables = session.header.layouts["P"], session.frames.tables
            intra = tables["main"]["loopIteration"] % int(session.header.values["I interval"]) == 0
            g = 980.665 / session.header.number("acc_1G")
            parts = re.split(r"\n      (main|slow|gps): \w+\(", text)
            for table, body in zip(parts[1::2], parts[2::2], strict=True):
                time = re.search(r"time: " + HISTORY, body)
                fields_of_table = (
                    [("time", "Unitless", *time.groups()), *FIELD.findall(body)] if time else FIELD.findall(body)
                )
                for name, unit, low, high, unique, histogram in fields_of_table:
                    x = tables[table][name].astype(np.int64)
                    index = layout.names.index(name) if table == "main" else -1
                    if index >= 0 and layout.predictors[index] == AVERAGE:
                        x = apply_older_frame_error(x, layout.signed[index], intra)
                    scaled = x * (g if unit == "Acceleration" else SCALES.get(unit, 1.0))
                    x = (np.sign(scaled) * np.floor(np.abs(scaled) + 0.5)).astype(np.int64)
                    counts = tuple(map(int, histogram.split(", "))) if histogram else None
                    assert statistics(x) == (int(low), int(high), int(unique), counts), (path.name, table, name)
                    fields += 1
    assert fields >= 30 * len(logs)


def test_frames_and_gyro_are_as_fc_blackbox_counts_them(logs):
    """The count of frames of each type, and of values of gyroADC[0] by power of two. Of files with several logs the last is
    compared: it reads each to the end of the file. The end of a log counts as an event."""
    compared = 0
    for path in logs:
        counted = Path(f"{path}.counts")
        text = counted.read_text().split("\n- ")[-1] if counted.is_file() else ""
        if not text.startswith("Ok:"):
            continue
        frames = read_sessions(path)[0][-1].frames
        tables, gyro = frames.tables, frames.tables["main"]["gyroADC[0]"].astype(np.int64)
        stated = {name: int(number) for name, number in re.findall(r"(\w+): (\d+)", text)}
        sides = [list(map(int, re.findall(r"- (\d+)", part))) for part in text.partition("pos:")[::2]]
        powers = [np.frexp(np.abs(values))[1] - 1 for values in (gyro[gyro < 0], gyro[gyro > 0])]
        negative, positive = (np.bincount(exponents, minlength=32).tolist() for exponents in powers)
        assert (negative[::-1], np.sum(gyro == 0), positive) == (sides[0], stated["zero"], sides[1]), path.name
        assert len(gyro) == stated["main"] and len(tables["slow"]["flightModeFlags"]) == stated["slow"]
        assert len(tables.get("gps", {"time": ()})["time"]) == stated["gnss"]
        assert len(tables["event"]["event"]) + frames.ended == stated["event"]
        compared += 1
    assert compared
