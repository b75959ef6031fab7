"""The command lines of README, CONTRIBUTING and docs: find them, parse them without running anything, and run them.

A code block with `title="NAME"` is a file of the reader: it is written as NAME before the commands below it run; a second block
with the same title is appended.
A block of `text` shows what the command above it prints: each line, except that `…` stands for anything.
"""

import re
import runpy
import shlex
import shutil
import sys
import tomllib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from samara import cli
from samara.cli import command_line
from support.repository import REPOSITORY

PAGES = sorted([*REPOSITORY.glob("README*.md"), REPOSITORY / "CONTRIBUTING.md", *(REPOSITORY / "docs").rglob("*.md")])
SHELLS = {"bash", "sh", "shell", "console", "powershell"}
PROGRAMS = ("samara", "make", "pip", "python", "python3")
FENCE = re.compile(r"^( *)(```+|~~~+) *(\w*)(.*)$")
TITLE = re.compile(r'title="([^"]+)"')
INLINE = re.compile(r"`(samara [a-z][^`\n]*)`")
OTHER_PROJECTS = r"make (px4_|cload|CRAZYFLIE_BASE)"
NOT_RUN: tuple[tuple[str, str], ...] = (
    (
        r"make (install|fly|test|check|bench|gallery|docs|verify|clean|help)\b.*",
        "installs packages or runs these tests",
    ),
    (rf"{OTHER_PROJECTS}.*", "builds PX4 or the Crazyflie's firmware in its own checkout"),
    (r"(python3? -m )?pip install .*", "installs packages; the extras that it names are checked"),
    (r"python3? -m venv .*", "makes an environment"),
    (r"(samara|python) .*\bFOLDER\b.*", "reads data of others that does not come with Samara"),
    (
        r"samara .*\bcrazyflie_(pid|mellinger|brescianini|lee|indi)\b.*",
        "needs the Crazyflie firmware's bindings; tests/control/test_firmware.py runs them",
    ),
    (r"python -m (figures|tools|studies)\b.*", "draws a picture or repeats a study of the documentation"),
    (r"python -m tests\.fuzz .*", "the fuzzer; tests/repository/test_fuzz.py runs it"),
    (r"python bench/\w+\.py.*", "a benchmark of the checkout; make bench and its own tests run it"),
    (r"python train_sb3\.py|samara .* sb3-policy\b.*", "needs PyTorch, which the tests do not install"),
    (
        r"samara (render|export pictures) look\.mcap.*",
        "reads the flight of the page's program; tests/view/test_camera_views.py renders and exports one",
    ),
    (r"python (square|motion_commander_demo)\.py", "needs cflib and a flight in another terminal"),
    (
        r"samara (train (race|navigate)|fly forest\.toml|race hall --controller policy/).*",
        "needs a GPU, or the policy trained on it",
    ),
    (r"python examples/\w+\.py.*", "tests/repository/test_examples.py runs it"),
    (r"samara (view|ros2|sticks)\b.*", "serves until Ctrl-C, or needs a device; tests/view and tests/link run it"),
    (r"samara .* --(view|sticks|autopilot|px4-sih|ray)\b.*", "needs a browser, a device, an autopilot or a cluster"),
    (r"samara --(install|show)-completion.*", "changes the user's shell"),
)
"""Patterns of command lines that no test executes, with the reason."""
READERS_FILES = {
    "flight.bbl": "tests/recordings/betaflight.bbl",
    "docs/lessons/02_rotors.ipynb": "docs/lessons/02_rotors.ipynb",
}
"""Files that a reader of the pages has, such as a flight log or the lessons of the checkout, and those in their place."""


class CommandLine(NamedTuple):
    """A command as the reader types it, and where it is."""

    page: Path
    line_number: int
    text: str

    def __str__(self) -> str:
        page = self.page.relative_to(REPOSITORY) if self.page.is_relative_to(REPOSITORY) else self.page
        return f"{page}:{self.line_number}: {self.text}"


class PageFile(NamedTuple):
    """A file that the reader writes: a code block with a title."""

    name: str
    text: str


class PageOutput(NamedTuple):
    """What the command above it prints."""

    line_number: int
    text: str


def command_lines(page: Path) -> list[CommandLine]:
    """Return the commands in the shell blocks and indented blocks of a page, with continuation lines joined."""
    return [step for step in page_steps(page) if isinstance(step, CommandLine)]


def page_steps(page: Path) -> list[CommandLine | PageFile | PageOutput]:
    """Return the commands, files and outputs of a page in their order."""
    lines, steps = page.read_text(encoding="utf-8").splitlines(), list[CommandLine | PageFile | PageOutput]()
    fence, language, file_name, content, after_blank, i = "", "", "", list[str](), True, 0
    while i < len(lines):
        line, number = lines[i], i + 1
        i += 1
        if match := FENCE.match(line):
            if not fence:
                fence, language, content = match[2], match[3], []
                file_name = title[1] if (title := TITLE.search(match[4])) else ""
            elif match[2].startswith(fence) and not match[3]:
                if file_name:
                    steps.append(PageFile(file_name, "\n".join(content) + "\n"))
                elif language == "text" and steps:
                    steps.append(PageOutput(number, "\n".join(content)))
                fence = file_name = ""
            continue
        content.append(line)
        indented = not fence and line.startswith("    ") and after_blank
        after_blank = not line.strip() or indented
        if file_name or not (indented or (fence and language in {"", *SHELLS})):
            continue
        while line.endswith("\\") and i < len(lines):
            line, i = line[:-1] + lines[i].strip(), i + 1
        text = line.strip().removeprefix("$ ").removeprefix("> ")
        for part in re.split(r" && ", re.split(r"\s+#\s", text)[0]):
            part = re.sub(r"^(\w+=\S+ )+", "", part.strip()).removeprefix(".venv/bin/").strip()
            if part.split(" ")[0] in PROGRAMS:
                steps.append(CommandLine(page, number, part))
    return steps


def inline_commands(page: Path) -> list[CommandLine]:
    """Return the commands of Samara within sentences, such as `samara check`; they may have placeholders."""
    lines = page.read_text(encoding="utf-8").splitlines()
    return [CommandLine(page, i + 1, text) for i, line in enumerate(lines) for text in INLINE.findall(line)]


def reason_not_run(text: str) -> str | None:
    """Return why no test executes a command, or None if one does."""
    return next((reason for pattern, reason in NOT_RUN if re.fullmatch(pattern, text)), None)


def run_page(page: Path, folder: Path, read_output: Callable[[], str]) -> None:
    """Write the files of a page into the current folder `folder` and run its commands, in their order.

    `read_output` returns what was printed since its last call.
    """
    for name, source in READERS_FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(REPOSITORY / source, folder / name)
    output = None
    for step in page_steps(page):
        if isinstance(step, PageFile):
            (folder / step.name).parent.mkdir(parents=True, exist_ok=True)
            with (folder / step.name).open("a", encoding="utf-8") as file:
                file.write(step.text)
        elif isinstance(step, PageOutput):
            if output is not None and (missing := missing_lines(step.text, output)):
                raise AssertionError(f"{page.name}:{step.line_number}: not printed: {missing[0]}\n{output}")
        elif reason_not_run(step.text) is None:
            if status := run_command(step.text):
                raise AssertionError(f"{step}: exit status {status}")
            output = read_output()
        else:
            output = None


def missing_lines(shown: str, output: str) -> list[str]:
    """Return the lines of a page that a command did not print; blanks count as one, `…` matches anything."""
    printed = [" ".join(line.split()) for line in output.splitlines()]
    lines = [" ".join(line.split()) for line in shown.splitlines()]
    patterns = {line: ".*".join(map(re.escape, line.split("…"))) for line in lines if line.strip("… ")}
    return [line for line, pattern in patterns.items() if not any(re.fullmatch(pattern, text) for text in printed)]


def run_command(text: str) -> int:
    """Run `samara …` or `python FILE …` in this process and return its exit status."""
    program, *words = shlex.split(text)
    arguments, sys.argv = sys.argv, ["samara", *words] if program == "samara" else words
    try:
        if program == "samara":
            cli.main()
        else:
            runpy.run_path(words[0], run_name="__main__")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    finally:
        sys.argv = arguments
    return 0


def problem_of(text: str) -> str | None:
    """Return what is wrong with a command line, or None: command, options and types of Samara; targets; extras; files."""
    try:
        program, *words = shlex.split(text)
    except ValueError as error:
        return str(error)
    if program == "samara":
        return parse_samara(words)
    if program == "make":
        targets = re.findall(r"^(\w+):", (REPOSITORY / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
        unknown = [word for word in words if "=" not in word and word not in targets]
        return f"no target {unknown[0]}" if unknown and not re.match(OTHER_PROJECTS, text) else None
    if program != "pip" and words[:1] and words[0].startswith("examples/"):
        return None if (REPOSITORY / words[0]).is_file() else f"no file {words[0]}"
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for name, extras in re.findall(r"(?:^|['\" ])(samara[\w-]*|\.)\[([\w,-]+)\]", text):
        if name not in (".", project["name"]):
            return f"the distribution is {project['name']}"
        if unknown := [extra for extra in extras.split(",") if extra not in project["optional-dependencies"]]:
            return f"no extra {unknown[0]}"
    return f"the distribution is {project['name']}" if "samara" in words and project["name"] != "samara" else None


def parse_samara(words: list[str]) -> str | None:
    """Parse the words after `samara` with the command line's own parser, without running the command."""
    command, context = command_tree(), None
    try:
        while True:
            context = command.make_context(command.name or "samara", list(words), parent=context)
            if not hasattr(command, "commands"):
                return None
            words = [*context._protected_args, *context.args]
            _, command, words = command.resolve_command(context, words)
    except SystemExit:
        return None
    except Exception as error:  # of the parser
        if type(error).__name__ in ("Exit", "NoArgsIsHelpError"):  # --help, --version; a group shows its help
            return None
        return f"{type(error).__name__}: {getattr(error, 'message', error)}"


def unknown_words(text: str) -> list[str]:
    """Return the commands and options in an inline command that Samara does not have; placeholders are ignored."""
    words, command = text.replace("…", " ").replace("[", " ").replace("]", " ").split()[1:], command_tree()
    while words and hasattr(command, "commands"):
        if words[0] in command.commands:
            command = command.commands[words.pop(0)]
        elif default := getattr(command, "default_command", None):
            command = command.commands[default]
        elif re.fullmatch(r"[a-z][a-z0-9-]*", words[0]):
            return [words[0]]
        else:  # a placeholder
            break
    names = {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)} | {"--help"}
    options = re.findall(r"(?<![\w-])--[a-z][\w-]*|(?<![\w-])-[a-z](?![\w-])", " ".join(words))
    return [option for option in options if option not in names]


@cache
def command_tree() -> Any:
    return command_line()
