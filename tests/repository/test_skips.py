"""Skipped tests are counted by their reason at the end of a run, also when they ran in several processes."""

import os
import subprocess
import sys
from types import SimpleNamespace

from support.repository import REPOSITORY, skip_lines

MODULE = """
import pytest

@pytest.mark.parametrize("k", range(3))
def test_data(k):
    pytest.skip("no data")

@pytest.mark.skipif(True, reason="no browser")
def test_page():
    pass

def test_runs():
    pass
"""


def test_reasons_are_counted_and_the_most_frequent_comes_first():
    reports = [SimpleNamespace(longrepr=("a.py", 3, f"Skipped: {why}")) for why in ("b", "a", "c\n d", "b")]
    assert skip_lines(reports) == ["4 tests skipped:", "b: 2", "a: 1", "c d: 1"]
    assert skip_lines([]) == []


def test_a_run_in_two_processes_ends_with_the_reasons(tmp_path):
    (tmp_path / "test_some.py").write_text(MODULE)
    (tmp_path / "conftest.py").write_text((REPOSITORY / "tests" / "conftest.py").read_text())
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-n",
        "2",
        "-c",
        os.devnull,
        "-p",
        "no:cacheprovider",
        str(tmp_path),
    ]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(["tests", *sys.path]),
        "GITHUB_STEP_SUMMARY": str(tmp_path / "summary"),
    }
    environment = {name: value for name, value in environment.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(command, cwd=REPOSITORY, env=environment, capture_output=True, text=True)
    expected = ["4 tests skipped:", "no data: 3", "no browser: 1"]
    lines = done.stdout.splitlines()
    at = lines.index(expected[0])
    assert lines[at : at + 3] == expected and done.returncode == 0
    assert (tmp_path / "summary").read_text() == "- 4 tests skipped:\n- no data: 3\n- no browser: 1\n"
