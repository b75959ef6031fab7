"""Write the generated tables of docs/reference: keys of files, commands, controllers and tasks, from the code.

    PYTHONPATH=docs python -m tools.reference        rewrite the tables (part of `make gallery`)

A page marks a table like this; the lines between the comments are replaced:

    <!-- generated: keys scenario rates -->
    <!-- /generated -->

`keys FILE TABLE` has a row for each key of a table of a file. Its last column, the meaning, is written by hand on the page and
kept; a key without one fails the test. `types FILE TABLE` has a row for each type of a table, with the keys of that type.
"""

import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from samara.cli import command_line
from samara.control.registry import CONTROLLER_TYPES
from samara.core.atomic_files import write_text
from samara.learn.tasks import SHIPPED, load_task
from samara.scenario import events
from samara.scenario.file.environment import SHAPES
from samara.scenario.file.mission import ACTIONS, TASKS
from samara.wind.registry import WINDS
from tools.file_keys import FILES, NO_DEFAULT, REQUIRED, TYPE_KEYS, Key

PAGES = Path(__file__).resolve().parents[1] / "reference"
BLOCK = re.compile(r"<!-- generated: (?P<name>.+?) -->\n(?P<text>.*?)<!-- /generated -->", re.DOTALL)
NO_MEANING = "?"
REGISTRIES: dict[str, Iterable[str]] = {
    "drones[].tasks[]": TASKS,
    "events[]": (*ACTIONS, "follow"),
    "wind[]": WINDS,
    "obstacles[]": SHAPES,
}


def table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a Markdown table, without padding."""
    head = list(header)
    lines = [head, ["-"] * len(head), *rows]
    return "\n".join(f"|{'|'.join(cells)}|" for cells in lines)


def keys_table(file: str, name: str, page_text: str) -> str:
    """Return the rows of the keys of one table, with the meanings of the page."""
    meanings = dict(re.findall(r"^\| ?`([\w.]+)` ?\|.*\| ?(.*?) ?\|$", page_text, re.MULTILINE))
    rows = [
        (f"`{key}`", expected(entry), default(entry), meanings.get(key, NO_MEANING))
        for key, entry in FILES[file]()["" if name == "top" else name].items()
    ]
    return table(("key", "value", "default", "meaning"), rows)


def expected(entry: Key) -> str:
    """Return the values of a key as a cell: names as code, no article."""
    text = entry.expected
    if text.startswith("one of "):
        return ", ".join(f"`{name}`" for name in text.removeprefix("one of ").split(", "))
    return re.sub(r"^(a|an) ", "", text) if text else "see below"


def default(entry: Key) -> str:
    """Return the default of a key as a cell."""
    text = entry.default
    return text if text in (REQUIRED, NO_DEFAULT) or re.search(r"[` ]\w", text) else f"`{text}`"


def types_table(file: str, name: str) -> str:
    """Return a row for each type of a table: its required keys, and the others with their defaults."""
    tables = {key.partition(":")[2]: keys for key, keys in FILES[file]().items() if key.startswith(f"{name}:")}
    tables = {key: tables[key] for key in REGISTRIES[name]}
    shared = set.intersection(*(set(keys) for keys in tables.values())) | {TYPE_KEYS[name]}
    shared |= {"speed", "from_deg"} if name == "wind[]" else set()  # of every wind that has a direction
    rows = []
    for type_name, keys in tables.items():
        own = {key: entry for key, entry in keys.items() if key not in shared}
        required = [f"`{key}`{_unit(entry)}" for key, entry in own.items() if entry.default == REQUIRED]
        optional = [
            f"`{key}`{_unit(entry)}" + (f" = {entry.default}" if entry.default != NO_DEFAULT else "")
            for key, entry in own.items()
            if entry.default != REQUIRED
        ]
        cells = [f"`{type_name}`", ", ".join(required) or "–", ", ".join(optional) or "–"]
        rows.append([*cells, *([_sentence(events.__dict__[type_name].__doc__)] if name == "events[]" else [])])
    return table((TYPE_KEYS[name], "required", "optional", *(["does"] if name == "events[]" else [])), rows)


def _unit(entry: Key) -> str:
    """Return a key's unit and count: " [m]", " [3 × m]"; nothing for texts and plain numbers."""
    numbers = re.search(r"(three numbers|number) from (\S+) to (\S+)(?: (\S+))?", entry.expected)
    count = "3" if entry.expected.startswith("three") else ""
    unit = numbers[4] or "" if numbers else ""
    label = " × ".join(filter(None, (count, unit)))
    return f" [{label}]" if label else ""


def ranges(file: str, name: str) -> str:
    """Return one sentence with the range of every unit in the tables of a type."""
    found: dict[str, set[tuple[float, float]]] = {}
    for key, keys in FILES[file]().items():
        for entry in keys.values() if key.startswith(f"{name}:") else ():
            if numbers := re.search(r"numbers? from (\S+) to (\S+)(?: (m\S*|rad|s|kg))?(?: |$)", entry.expected):
                found.setdefault(numbers[3] or "without unit", set()).add((float(numbers[1]), float(numbers[2])))
    parts = [
        f"{unit} {' or '.join(f'{low:g} to {high:g}' for low, high in sorted(limits))}" for unit, limits in found.items()
    ]
    return f"Ranges: {'; '.join(parts)}." if parts else ""


def commands() -> str:
    """Return the commands of `samara`, in the order of `samara --help`."""
    rows = []

    def walk(command: object, prefix: str) -> None:
        for name, child in getattr(command, "commands", {}).items():
            if not child.hidden:
                rows.append((f"`{prefix}{name}`", _sentence(child.help or "")))
                walk(child, f"{prefix}{name} ")

    walk(command_line(), "")
    return table(("`samara …`", "does"), rows)


def _sentence(text: str) -> str:
    """Return the first paragraph of a help text for a table: without markup and with escaped bars."""
    return re.split(r"\n\s*\n", text.strip())[0].replace("\\[", "[").replace("|", "\\|").replace("\n", " ")


def controllers() -> str:
    """Return the controllers with their options, from the registry."""
    rows = []
    for name, controller_type in CONTROLLER_TYPES.items():
        groups: dict[str, list[str]] = {}
        for option, parser in controller_type.option_parsers.items():
            groups.setdefault(re.sub(r"^(a|an) ", "", parser.expected), []).append(f"`{option}`")
        options = "; ".join(f"{', '.join(names)}: {text}" for text, names in groups.items())
        rows.append((f"`{name}`", options or "none"))
    return table(("controller", "options"), rows)


def tasks() -> str:
    """Return the constants of the learning tasks."""
    rows = []
    for name in SHIPPED:
        task = load_task(name)
        rows.append(
            (
                f"`{name}`",
                f"{task.seconds:g} s",
                f"{1.0 / task.period:g} Hz",
                f"`{task.action}`",
                f"`{task.observation_name}`" if task.observation_name else "its own",
            )
        )
    return table(("task", "episode", "actions", "action", "observation"), rows)


SECTIONS: dict[str, Callable[[], str]] = {"commands": commands, "controllers": controllers, "tasks": tasks}


def section(name: str, page_text: str) -> str:
    """Return the text of a marked section."""
    words = name.split()
    if words[0] == "keys":
        return keys_table(words[1], words[2], page_text)
    if words[0] == "types":
        return types_table(words[1], words[2])
    if words[0] == "ranges":
        return ranges(words[1], words[2])
    return SECTIONS[name]()


def rewrite(text: str) -> str:
    """Return a page with every marked section replaced."""

    def replace(match: re.Match[str]) -> str:
        return f"<!-- generated: {match['name']} -->\n\n{section(match['name'], match['text'])}\n\n<!-- /generated -->"

    return BLOCK.sub(replace, text)


def main() -> None:
    """Rewrite the pages."""
    for page in sorted(PAGES.glob("*.md")):
        text = page.read_text(encoding="utf-8")
        if (rewritten := rewrite(text)) != text:
            write_text(page, rewritten)
            print(f"{page.name}: tables rewritten", file=sys.stderr)


if __name__ == "__main__":
    main()
