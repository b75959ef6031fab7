"""The command `samara`, within the process of the tests."""

import sys

import pytest

from samara import cli


def call(monkeypatch, capsys, *arguments: str, columns: int = 120) -> tuple[int, str, str]:
    """`samara …` within this process: exit status, stdout, stderr."""
    monkeypatch.setattr(sys, "argv", ["samara", *arguments])
    monkeypatch.setenv("COLUMNS", str(columns))
    with pytest.raises(SystemExit) as exit_info:
        cli.main()
    output = capsys.readouterr()
    return int(exit_info.value.code or 0), output.out, output.err
