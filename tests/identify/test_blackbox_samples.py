"""Real blackbox logs, and what two decoders by others (MIT or Apache) say of them: the same, field by field.

SAMARA_BLACKBOX_LOGS, or `data/blackbox` of the shared folder, holds logs NAME, beside each NAME.snap of blackbox-log
(github.com/blackbox-log/blackbox-log, tests/snapshots) and NAME.counts of fc-blackbox (github.com/ilya-epifanov/fc-blackbox,
src/snapshots), whose logs they are.

The two differ where blackbox-log 0.4 is wrong: after an I frame both of what P frames are predicted from are that frame, but it
keeps an older one for the average of two (its motors reach −61 and 2278 of 2047). So it is asked what it says with that error.
"""

import os
import re
from pathlib import Path

import numpy as np
import pytest

from samara.identify.readers.blackbox import sessions_in

SCALES = {"Voltage": 10.0, "Amperage": 10.0}  # raw hundredths to thousandths; g in cm/s² by the header
AVERAGE = 3
HISTORY = r"FieldSnapshot\(\s*min: (-?\d+),\s*max: (-?\d+),\s*unique: (\d+),(?:\s*histogram: \(([\d, ]+)\),)?"
FIELD = re.compile(r'name: "([^"]+)",\s*unit: (\w+),\s*history: ' + HISTORY)


@pytest.fixture(scope="module")
def logs(shared_folder) -> list[Path]:
    folder = Path(os.environ.get("SAMARA_BLACKBOX_LOGS", "") or shared_folder / "data" / "blackbox")
    found = sorted(path for path in folder.glob("*") if Path(f"{path}.snap").is_file())
    if not found:
        pytest.skip("no blackbox logs with what other decoders say of them in SAMARA_BLACKBOX_LOGS")
    return found


def statistics(x: np.ndarray) -> tuple[int, int, int, tuple[int, ...] | None]:
    """Least and most, 0 among them; how many values there are; how many of each remainder by 16"""
    values = np.unique(x)
    counts = np.bincount(np.abs(x) % 16, minlength=16)
    return (
        min(0, int(values[0])),
        max(0, int(values[-1])),
        len(values),
        tuple(counts.tolist()) if len(values) > 1 else None,
    )


def with_older_frame(x: np.ndarray, signed: bool, intra: np.ndarray) -> np.ndarray:
    """The same differences added to the average that the wrong decoder takes"""
    found: list[int] = []
    one = two = own_one = own_two = 0
    for value, alone in zip(x.tolist(), intra.tolist(), strict=True):
        if alone:
            one = two = own = value
            own_two = own_one if found else value
        else:
            own = value - int((one + two) / 2) + int((own_one + own_two) / 2)
            own = (own + (1 << 31)) % (1 << 32) - (1 << 31)
            one, two, own_two = value, one, own_one
        own_one = own
        found.append(own)
    return np.array(found) if signed else np.array(found) & 0xFFFFFFFF


def test_every_field_has_the_statistics_that_blackbox_log_states(logs):
    fields = 0
    for path in logs:
        sessions, problems = sessions_in(path)
        assert problems == []
        for session, text in zip(sessions, Path(f"{path}.snap").read_text().split("Ok(Log(")[1:], strict=False):
            layout, tables = session.header.layouts["P"], session.frames.tables
            intra = tables["main"]["loopIteration"] % int(session.header.values["I interval"]) == 0
            g = 980.665 / session.header.number("acc_1G")
            parts = re.split(r"\n      (main|slow|gps): \w+\(", text)
            for table, body in zip(parts[1::2], parts[2::2], strict=True):
                time = re.search(r"time: " + HISTORY, body)
                listed = [("time", "Unitless", *time.groups()), *FIELD.findall(body)] if time else FIELD.findall(body)
                for name, unit, low, high, unique, histogram in listed:
                    x = tables[table][name].astype(np.int64)
                    at = layout.names.index(name) if table == "main" else -1
                    if at >= 0 and layout.predictors[at] == AVERAGE:
                        x = with_older_frame(x, layout.signed[at], intra)
                    scaled = x * (g if unit == "Acceleration" else SCALES.get(unit, 1.0))
                    x = (np.sign(scaled) * np.floor(np.abs(scaled) + 0.5)).astype(np.int64)
                    counts = tuple(map(int, histogram.split(", "))) if histogram else None
                    assert statistics(x) == (int(low), int(high), int(unique), counts), (path.name, table, name)
                    fields += 1
    assert fields >= 30 * len(logs)


def test_frames_and_gyro_are_as_fc_blackbox_counts_them(logs):
    """How many frames of each kind, and of gyroADC[0] how many values of each power of two. Of files with several logs the last
    is compared: it reads each on to the end of the file. The end of a log counts as an event."""
    compared = 0
    for path in logs:
        counted = Path(f"{path}.counts")
        text = counted.read_text().split("\n- ")[-1] if counted.is_file() else ""
        if not text.startswith("Ok:"):
            continue
        frames = sessions_in(path)[0][-1].frames
        tables, gyro = frames.tables, frames.tables["main"]["gyroADC[0]"].astype(np.int64)
        stated = {name: int(number) for name, number in re.findall(r"(\w+): (\d+)", text)}
        sides = [list(map(int, re.findall(r"- (\d+)", part))) for part in text.partition("pos:")[::2]]
        powers = [np.frexp(np.abs(own))[1] - 1 for own in (gyro[gyro < 0], gyro[gyro > 0])]
        negative, positive = (np.bincount(own, minlength=32).tolist() for own in powers)
        assert (negative[::-1], np.sum(gyro == 0), positive) == (sides[0], stated["zero"], sides[1]), path.name
        assert len(gyro) == stated["main"] and len(tables["slow"]["flightModeFlags"]) == stated["slow"]
        assert len(tables.get("gps", {"time": ()})["time"]) == stated["gnss"]
        assert len(tables["event"]["event"]) + frames.ended == stated["event"]
        compared += 1
    assert compared
