"""The examples run: each in an empty folder, and is short enough to read."""

import runpy

import pytest
from support.repository import REPOSITORY

EXAMPLES = sorted((REPOSITORY / "examples").glob("*.py"))
MAX_LINES = 40  # lines


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs(example, tmp_path, monkeypatch, capsys):
    """Its assertions hold; its output is on the screen, its plots in the folder it runs in."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    runpy.run_path(str(example), run_name="__main__")
    assert capsys.readouterr().out.strip()


def test_there_are_seven_and_all_are_short():
    """A first line that describes it, and no more than fits on a screen."""
    assert len(EXAMPLES) == 7
    for example in EXAMPLES:
        lines = example.read_text(encoding="utf-8").splitlines()
        assert len(lines) <= MAX_LINES, example.name
        assert lines[0].startswith('"""') and lines[0].endswith('."""'), example.name
