"""Races as a table: who came through how often, and how fast."""

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

from samara.compare.race.race import Race
from samara.compare.race.score import Ending

HEADINGS = ("controller", "level", "success", "mean time [s]", "fastest [s]", "the others")


def table_rows(races: Sequence[Race]) -> list[tuple[str, ...]]:
    """Text for a table, a row for each race"""
    return [_row(own) for own in races]


def _row(own: Race) -> tuple[str, ...]:
    score = own.score
    times = score.time[score.finished]
    others = Counter(str(each) for each in score.ending if each is not Ending.FINISHED)
    return (
        own.controller,
        str(own.level),
        f"{int(score.finished.sum())} of {len(own.seeds)}",
        "" if math.isnan(score.mean_time) else f"{score.mean_time:.3f}",
        f"{times.min():.3f}" if len(times) else "",
        ", ".join(f"{count} {what}" for what, count in others.most_common()),
    )


def as_markdown(races: Sequence[Race]) -> str:
    """The table as Markdown"""
    rows: list[Any] = [HEADINGS, tuple("---" for _ in HEADINGS), *table_rows(races)]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)
