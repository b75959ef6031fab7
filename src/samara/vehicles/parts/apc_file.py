"""APC's performance file of a propeller (PER3_10x45MR.dat): blocks of text, one for each rpm.

          PROP RPM =        2000
          V          J           Pe         Ct         Cp  …
        (mph)     (Adv_Ratio)     -          -          -  …
         0.0        0.0000      0.0000     0.1117     0.0458  …

Only J, Ct and Cp are read, by the names above them; older files have no further columns.
"""

import math
import re
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from samara.core.safe_decompress import text_inside

_RPM = re.compile(r"\s*PROP\s+RPM\s*=\s*([\d.]+)\s*")
_COLUMNS = ("J", "Ct", "Cp")
LARGEST = 10.0  # a J, Ct or Cp


class ApcRun(NamedTuple):
    """One block: rpm, and CT and CP over J."""

    rpm: float
    advance: tuple[float, ...]
    ct: tuple[float, ...]
    cp: tuple[float, ...]


def read_apc(path: str | Path) -> tuple[ApcRun, ...]:
    """Every block of the file, by rpm; rows that hold no number (-NaN) are left out"""
    try:
        text = text_inside(Path(path))
    except OSError as error:
        raise ValueError(
            f"{path}: cannot be read ({error.strerror or error}); expected an APC performance file"
        ) from None
    runs: list[ApcRun] = []
    rpm, columns = 0.0, None
    rows: list[list[float]] = []
    for line in [*text.splitlines(), "PROP RPM = 0"]:
        start = _RPM.fullmatch(line)
        if start:
            if rows:
                runs.append(_run(path, rpm, rows))
            rpm, columns, rows = float(start[1]), None, []
            continue
        words = line.split()
        if all(name in words for name in _COLUMNS):
            columns = [words.index(name) for name in _COLUMNS]
        elif columns and rpm > 0.0 and len(words) > max(columns):
            numbers = [_number(words[k]) for k in columns]
            if all(math.isfinite(x) for x in numbers):
                rows.append(numbers)
    if not runs:
        raise ValueError(
            f"{path}: has no block 'PROP RPM = …' with columns J, Ct and Cp; expected an APC performance file"
        )
    return tuple(sorted(runs))


def _run(path: str | Path, rpm: float, rows: list[list[float]]) -> ApcRun:
    advance, ct, cp = zip(*rows, strict=True)
    if any(b <= a for a, b in pairwise(advance)) or ct[0] <= 0.0 or cp[0] <= 0.0:
        raise ValueError(f"{path}: PROP RPM = {rpm:g}: expected J that grows, and Ct and Cp above 0 at the first")
    if max(map(abs, (*advance, *ct, *cp))) > LARGEST:
        raise ValueError(f"{path}: PROP RPM = {rpm:g}: expected J, Ct and Cp below {LARGEST:g}")
    return ApcRun(rpm, advance, ct, cp)


def _number(word: str) -> float:
    try:
        return float(word)
    except ValueError:
        return math.nan
