"""Help, its examples, and the commands that list what comes with Samara or print a file to start from."""

import re
import shlex

import pytest
from support.command import call
from support.command_lines import parse_samara

import samara
from samara.cli import COMMANDS, GROUPS, command_line, walk_commands
from samara.cli.examples import EXAMPLES, FIRST_STEPS
from samara.control.registry import CONTROLLER_TYPES
from samara.learn.tasks import SHIPPED

PATHS = [path for path, _ in walk_commands(command_line())]


def test_every_command_has_two_examples_that_it_accepts():
    assert list(EXAMPLES) and sorted(EXAMPLES) == sorted(PATHS)
    for path, examples in EXAMPLES.items():
        assert len(set(examples)) == 2
        for example in examples:
            words = shlex.split(example.split(" | ")[0])
            name = path.removesuffix(" run").removesuffix(" logs")  # `samara sweep` is short for `samara sweep run`
            assert " ".join(words).startswith(f"samara {name}"), example
            assert parse_samara(words[1:]) is None, example
    for line in FIRST_STEPS.splitlines():
        if line.startswith("  samara"):
            assert parse_samara(shlex.split(line.strip().split("  ")[0])[1:]) is None, line


@pytest.mark.parametrize("path", ["fly", "vehicle new", "sweep"])
def test_the_help_ends_with_the_examples(path, monkeypatch, capsys):
    status, out, _ = call(monkeypatch, capsys, *path.split(), "--help", columns=200)
    assert status == 0
    lines = [line.strip() for line in out.splitlines() if line.strip()]
    assert lines[-3:] == ["Examples:", *EXAMPLES[path]]


@pytest.mark.parametrize("path", PATHS)
def test_72_columns_suffice_for_a_help(path, monkeypatch, capsys):
    """No word is cut, and descriptions are at least 18 characters wide; flags keep both names and their default."""
    _, out, _ = call(monkeypatch, capsys, *path.split(), "--help", columns=72)
    options = [line for line in out.split("Examples:")[0].splitlines() if line.startswith("│ ")]
    assert options and not re.search(r"[^\s,]…", "".join(options))
    assert max(map(len, out.splitlines())) <= 72
    assert min(72 - 2 - re.search(r"Show this message", line).start() for line in options if "--help" in line) >= 18
    if path == "fly":
        assert [line[2:17].strip() for line in options if "report" in line[:17]] == ["--report", "--no-report"]
        assert re.search(r"Default:[│\s]+--report\.", out) and "--out, -o" in out


def test_commands_are_grouped_and_ordered(monkeypatch, capsys):
    """Each command is in the panel of its group, in the order of the table."""
    _, out, _ = call(monkeypatch, capsys, "--help")
    lines = out.splitlines()
    listed = [line.split()[1] for line in lines if line.startswith("│ ") and line[2] != " "]
    assert [name for name in listed if name in COMMANDS] == list(COMMANDS)
    panels = [line.split("─ ")[1].split(" ─")[0] for line in lines if line.startswith("╭─")]
    assert panels == ["Options", *GROUPS]


@pytest.mark.parametrize("kind", ["vehicle", "scenario"])
def test_a_shipped_file_is_printed_and_copied(kind, monkeypatch, capsys, tmp_path):
    """The copy loads as the original does; an existing file is kept."""
    monkeypatch.chdir(tmp_path)
    name, load = {"vehicle": ("iris", samara.vehicle), "scenario": ("hover", samara.load_scenario)}[kind]
    status, text, _ = call(monkeypatch, capsys, kind, "show", name)
    assert status == 0
    assert call(monkeypatch, capsys, kind, "show", name, "-o", "mine.toml")[0] == 0
    assert (tmp_path / "mine.toml").read_text(encoding="utf-8") == text
    assert load("mine.toml").name == load(name).name
    status, _, err = call(monkeypatch, capsys, kind, "show", name, "-o", "mine.toml")
    assert (status, err) == (2, "samara: --out mine.toml: the file exists; expected a new name\n")
    status, _, err = call(monkeypatch, capsys, kind, "show", "none")
    assert status == 2 and f"no {kind} 'none'" in err


def test_controllers_and_tasks_are_listed_with_what_they_are(monkeypatch, capsys):
    _, out, _ = call(monkeypatch, capsys, "controllers", columns=200)
    named = {line.split()[0]: line for line in out.splitlines() if line.strip() and line.split()[0] in CONTROLLER_TYPES}
    assert list(named) == list(CONTROLLER_TYPES)
    for name, controller_type in CONTROLLER_TYPES.items():
        assert controller_type.description in named[name] or len(controller_type.description) > 60
    _, out, _ = call(monkeypatch, capsys, "tasks", columns=200)
    assert [line.split()[0] for line in out.splitlines() if line.split()[:1] and line.split()[0] in SHIPPED] == list(
        SHIPPED
    )
