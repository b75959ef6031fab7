"""Where this repository is checked out, and what to do without a tool or file that a test needs."""

import os
from pathlib import Path

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
