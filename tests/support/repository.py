"""Where this repository is checked out, and what to do without a tool or file that a test needs."""

import os
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
TESTS = REPOSITORY / "tests"
RECORDINGS = TESTS / "recordings"
REQUIRE_ALL = os.environ.get("SAMARA_REQUIRE_ALL", "0") not in ("", "0")


def do_without(what: str) -> None:
    """Skip the test for want of a tool or file; with SAMARA_REQUIRE_ALL set, as in continuous integration, fail it."""
    if REQUIRE_ALL:
        pytest.fail(f"{what}, and SAMARA_REQUIRE_ALL is set", pytrace=False)
    pytest.skip(what)


def skip_lines(reports: Iterable[Any]) -> list[str]:
    """The number of skipped tests in all, and `reason: count` for each reason, the most frequent first"""
    counts = Counter(_reason(report.longrepr) for report in reports)
    if not counts:
        return []
    each = [f"{reason}: {count}" for reason, count in sorted(counts.items(), key=lambda own: (-own[1], own[0]))]
    return [f"{counts.total()} tests skipped:", *each]


def _reason(where: Any) -> str:
    """The reason of a skipped report, whose `longrepr` is (file, line, "Skipped: reason"), or another description"""
    text = where[2] if isinstance(where, tuple) else str(where)
    return " ".join(text.removeprefix("Skipped: ").split()) or "no reason given"
