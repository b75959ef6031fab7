"""The location of this repository, and the policy for tools or files that a test needs and that are missing."""

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


def skip_or_fail(reason: str) -> None:
    """Skip the test because a tool or file is missing; with SAMARA_REQUIRE_ALL set, as in continuous integration, fail it."""
    if REQUIRE_ALL:
        pytest.fail(f"{reason}, and SAMARA_REQUIRE_ALL is set", pytrace=False)
    pytest.skip(reason)


def skip_lines(reports: Iterable[Any]) -> list[str]:
    """Return the total of skipped tests, and `reason: count` for each reason, the most frequent first."""
    counts = Counter(_reason(report.longrepr) for report in reports)
    if not counts:
        return []
    lines = [
        f"{reason}: {count}"
        for reason, count in sorted(counts.items(), key=lambda reason_count: (-reason_count[1], reason_count[0]))
    ]
    return [f"{counts.total()} tests skipped:", *lines]


def _reason(longrepr: Any) -> str:
    """Return the reason of a skipped report, whose `longrepr` is (file, line, "Skipped: reason"), or another description."""
    text = longrepr[2] if isinstance(longrepr, tuple) else str(longrepr)
    return " ".join(text.removeprefix("Skipped: ").split()) or "no reason given"
