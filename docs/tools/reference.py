"""Write the generated tables of docs/reference: keys of files, commands, controllers and tasks, from the code.

    PYTHONPATH=docs python -m tools.reference        rewrite the tables (part of `make gallery`)

A page marks a table like this; the lines between the comments are replaced:

    <!-- generated: keys scenario rates -->
    <!-- /generated -->

`keys FILE TABLE` has a row for each key of a table of a file, `options CONTROLLER,…` for each option. Their last column, the
meaning, is written by hand on the page and retained; a row without one fails the test. `types FILE TABLE` has a row for each
type of a table, with the keys of that type, and `ranges FILE TABLE` the ranges of their units.
"""

import re
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import samara
from samara.cli import GROUPS, command_line
from samara.cli.examples import EXAMPLES
from samara.control.mpc.constraint_tables import CONSTRAINT_TYPES
from samara.control.mpc.options import DEFAULT_CLEARANCE, DEFAULT_YAW_WEIGHT, CostWeights, MpcOptions, Shaping
from samara.control.registry import CONTROLLER_TYPES
from samara.core.atomic_files import write_text
from samara.core.quantity import Quantity
from samara.estimate.registry import ESTIMATORS
from samara.learn.tasks import SHIPPED, load_task
from samara.scenario import events
from samara.scenario.file.environment import SHAPES
from samara.scenario.file.mission import ACTIONS, TASKS
from samara.sensors.registry import SENSOR_TYPES
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
    """Return the rows of the keys of one table, in the order of the page and with its meanings."""
    keys = FILES[file]()["" if name == "top" else name]
    order = [key for key in re.findall(r"^\| ?`([\w.]+)`", page_text, re.MULTILINE) if key in keys]
    rows = [
        (f"`{key}`", expected(keys[key]), default(keys[key]), meaning(key, page_text))
        for key in dict.fromkeys([*order, *keys])
    ]
    return table(("key", "value", "default", "meaning"), rows)


def meaning(key: str, page_text: str) -> str:
    """Return the last cell of a key's row on the page, or `NO_MEANING`."""
    row = re.search(rf"^\| ?`{key}` ?\|(?:.*\|)? ?(.*?) ?\|$", page_text, re.MULTILINE)
    return row[1] if row else NO_MEANING


def expected(entry: Key) -> str:
    """Return the values of a key as a cell: names as code, no article."""
    text = entry.expected
    if text.startswith("one of "):
        return ", ".join(f"`{name}`" for name in text.removeprefix("one of ").split(", "))
    text = text.replace("number that is not negative", "number ≥ 0")
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
        specific = {key: entry for key, entry in keys.items() if key not in shared}
        required = [f"`{key}`{_unit(entry)}" for key, entry in specific.items() if entry.default == REQUIRED]
        optional = [
            f"`{key}`{_unit(entry)}" + (f" = {entry.default}" if entry.default != NO_DEFAULT else "")
            for key, entry in specific.items()
            if entry.default != REQUIRED
        ]
        cells = [f"`{type_name}`", ", ".join(required) or "–", ", ".join(optional) or "–"]
        rows.append([*cells, *([_sentence(events.__dict__[type_name].__doc__)] if name == "events[]" else [])])
    return table((TYPE_KEYS[name], "required", "optional", *(["does"] if name == "events[]" else [])), rows)


NUMBERS = re.compile(r"(three )?numbers? from (\S+) to (\S+)(?: (\S+))?")


def _unit(entry: Key) -> str:
    """Return a key's unit and count: " [m]", " [3 × m]"; the range of a number without unit; nothing for texts."""
    numbers = NUMBERS.search(entry.expected)
    if numbers and not numbers[4]:
        return f" ({_range(float(numbers[2]), float(numbers[3]))})"
    label = " × ".join(filter(None, ("3" if entry.expected.startswith("three") else "", numbers[4] if numbers else "")))
    return f" [{label}]" if label else ""


def _range(low: float, high: float) -> str:
    """Return a range: "0.001 to 1000", "±1e6"."""
    texts = [f"{limit:g}".replace("e+0", "e") for limit in (low, high)]
    return f"±{texts[1]}" if low == -high else " to ".join(texts)


def ranges(file: str, name: str) -> str:
    """Return one sentence with the range of every unit in the tables of a type."""
    limits_by_unit: dict[str, set[str]] = {}
    for key, keys in FILES[file]().items():
        for entry in keys.values() if key.startswith(f"{name}:") else ():
            if (numbers := NUMBERS.search(entry.expected)) and numbers[4]:
                label = f"vectors in {numbers[4]}" if numbers[1] else numbers[4]
                limits_by_unit.setdefault(label, set()).add(_range(float(numbers[2]), float(numbers[3])))
    parts = [f"{label} {' or '.join(sorted(limits))}" for label, limits in sorted(limits_by_unit.items())]
    return f"Ranges: {'; '.join(parts)}."


def commands() -> str:
    """Return the commands of `samara` with two examples each, in the groups and the order of `samara --help`."""
    rows: dict[str, list[tuple[str, str, str]]] = {}

    def walk(command: Any, prefix: str, group: str) -> None:
        for name, child in command.commands.items():
            panel = group or next(title for title, names in GROUPS.items() if name in names)
            examples = "<br>".join(f"`{line}`" for line in EXAMPLES[prefix + name])
            rows.setdefault(panel, []).append((f"`{prefix}{name}`", _sentence(child.help), examples))
            if hasattr(child, "commands"):
                walk(child, f"{prefix}{name} ", panel)

    walk(command_line(), "", "")
    return "\n\n".join(f"## {title}\n\n{table(('command', 'does', 'examples'), rows[title])}" for title in GROUPS)


def _sentence(text: str) -> str:
    """Return the first paragraph of a help text for a table: without markup and with escaped bars."""
    return re.split(r"\n\s*\n", text.strip())[0].replace("\\[", "[").replace("|", "\\|").replace("\n", " ")


def controllers() -> str:
    """Return the controllers with the names of their options, from the registry."""
    rows = [
        (f"`{name}`", controller_type.description, _option_names(name))
        for name, controller_type in CONTROLLER_TYPES.items()
    ]
    return table(("controller", "does", "options"), rows)


def _option_names(name: str) -> str:
    """Return the options of a controller; those of `mpc` are in a separate table."""
    options = CONTROLLER_TYPES[name].option_parsers
    return "[weights and horizon](#mpc)" if name == "mpc" else ", ".join(f"`{option}`" for option in options) or "none"


def options(names: str, page_text: str) -> str:
    """Return the options of controllers, with the meanings of the page."""
    parsers = {
        key: parser for name in names.split(",") for key, parser in CONTROLLER_TYPES[name].option_parsers.items()
    }
    fixed = {
        **CostWeights()._asdict(),
        **Shaping()._asdict(),
        **vars(MpcOptions()),
        "yaw_weight": DEFAULT_YAW_WEIGHT,
        "torque_weight": None,
        "constraints": None,
        "clearance": DEFAULT_CLEARANCE,
    }
    rows = []
    for key, parser in parsers.items():
        value = fixed.get(key) if names == "mpc" else None
        text = NO_DEFAULT if value is None else f"`{value:g}`" if isinstance(value, (int, float)) else f"`{value}`"
        rows.append(
            (
                f"`{key}`",
                expected(Key(parser.expected, "")),
                *([text] if names == "mpc" else []),
                meaning(key, page_text),
            )
        )
    return table(("option", "value", *(["default"] if names == "mpc" else []), "meaning"), rows)


def constraints(page_text: str) -> str:
    """Return the types of constraints of a scenario file with their keys, and the meanings of the page."""
    rows = []
    for name, constraint_type in CONSTRAINT_TYPES.items():
        required, optional = (
            ", ".join(f"`{key}`" for key in keys) or NO_DEFAULT
            for keys in (constraint_type.required, constraint_type.optional)
        )
        rows.append((f"`{name}`", required, optional, meaning(name, page_text)))
    return table(("type", "required", "optional", "meaning"), rows)


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


def vehicles() -> str:
    """Return the shipped vehicles, as `samara vehicles` lists them."""
    rows = []
    for name in samara.vehicle_names():
        vehicle = samara.vehicle(name)
        mass = f"{1e3 * vehicle.mass:g} g" if vehicle.mass < 0.1 else f"{vehicle.mass:g} kg"
        speed = f"{samara.hover(vehicle)[0].rotor_speed[0]:.0f} rad/s" if vehicle.rotors else NO_DEFAULT
        ratio = f"{samara.thrust_to_weight(vehicle):.2f}" if vehicle.rotors else NO_DEFAULT
        structure = vehicle.structure
        figures = (f"`{name}`", mass, str(len(vehicle.rotors)), speed, ratio, f"`{structure.actuation.name}`")
        rows.append((*figures, structure.description))
    return table(("vehicle", "mass", "rotors", "hover", "thrust/weight", "command", "description"), rows)


def estimators() -> str:
    """Return the estimators with their options and defaults, from the registry."""
    rows = []
    for name, estimator_type in ESTIMATORS.items():
        groups = []
        for group in estimator_type.options:
            defaults = group.record._field_defaults
            cells = [f"`{key}`" + (f" = {defaults[key]:g}" if key in defaults else "") for key in group.record._fields]
            groups.append(f"`{group.table}`: {{ {', '.join(cells)} }}" if group.table else ", ".join(cells))
        rows.append((f"`{name}`", "; ".join(groups) or "none"))
    return table(("type", "options = default"), rows)


def sensor_parameters() -> str:
    """Return the parameters of every type of sensor, with their units."""
    rows = [(f"`{name}`", ", ".join(_parameters(sensor_type.part))) for name, sensor_type in SENSOR_TYPES.items()]
    return table(("type", "parameters"), rows)


def _parameters(record: Any) -> Iterator[str]:
    for name, hint in get_type_hints(record, include_extras=True).items():
        base = get_args(hint)[0] if get_origin(hint) is Annotated else hint
        units = [mark.unit for mark in get_args(hint)[1:] if isinstance(mark, Quantity)]
        if hasattr(base, "_fields") and not units:
            yield f"`{name}`: {{ {', '.join(_parameters(base))} }}"
        else:
            yield f"`{name}`" + (f" [{units[0]}]" if units and units[0] != "1" else "")


SECTIONS: dict[str, Callable[[], str]] = {
    "commands": commands,
    "controllers": controllers,
    "estimators": estimators,
    "sensors": sensor_parameters,
    "tasks": tasks,
    "vehicles": vehicles,
}


def section(name: str, page_text: str) -> str:
    """Return the text of a marked section."""
    words = name.split()
    if words[0] == "keys":
        return keys_table(words[1], words[2], page_text)
    if words[0] == "types":
        return types_table(words[1], words[2])
    if words[0] == "options":
        return options(words[1], page_text)
    if words[0] == "constraints":
        return constraints(page_text)
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
