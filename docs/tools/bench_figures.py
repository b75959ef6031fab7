"""Write measured figures into README*.md and docs/**/*.md, from the results in bench/results/*.json.

    PYTHONPATH=docs python -m tools.bench_figures            rewrite every marked figure (part of `make gallery`)
    PYTHONPATH=docs python -m tools.bench_figures --list     print every KEY with its value

A page marks a figure like this; the text between the comments is replaced:

    <!-- bench: cpu:single rollout float64 strict, bench:steps_per_s:0.0 M -->9.4 M<!-- /bench --> steps/s

KEY = file:row:field:format

    file    a file of bench/results, without .json
    row     the `row` (or `name`) of an entry in any list of the file, or the name of a table such as `peers`. An entry with
            `"fast": true` whose name does not say so is called "NAME, fast". Of several with one name the fastest counts.
            `.` is the file itself: `cpu:.:machine`, `cpu:.:date` and `cpu:.:name` are text and need no format.
    field   a number of that row
    format  a pattern of the figure: decimals, and the unit it is shown in, as `0.0 M`, `0 k`, `0.00 s`, `0 ms`, `0 %`, `0×`,
            `0,000`. k, M and G divide; s, ms, µs and ns convert from the unit of the field (`us…`, `ns…`, `…_mb`; otherwise s);
            % multiplies by 100, unless the field's name ends in `percent`. `0,000~3` keeps three digits: 729,000.

Each file has a `name`, a `machine` and a `date`.
"""

import json
import math
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from samara.core.atomic_files import write_text

REPOSITORY = Path(__file__).resolve().parents[2]
RESULTS = REPOSITORY / "bench" / "results"
MARKED = re.compile(r"<!-- bench: (?P<key>.+?) -->(?P<shown>.*?)<!-- /bench -->", re.DOTALL)
FORMAT = re.compile(r"(?P<whole>0,000|0)(?:\.(?P<decimals>0+))?(?:~(?P<digits>\d))?(?P<space> ?)(?P<unit>\D*)")
SCALES = {
    "": 1.0,
    "k": 1e-3,
    "M": 1e-6,
    "G": 1e-9,
    "×": 1.0,
    "s": 1.0,
    "ms": 1e3,
    "µs": 1e6,
    "ns": 1e9,
    "%": 100.0,
    "MB": 1.0,
}
SECONDS = {"us": 1e-6, "ns": 1e-9, "ms": 1e-3}
SPEEDS = ("steps_per_s", "steps_per_second", "images_per_second", "flights_per_second")

NUMBER = r"(?<![\w.^])\d(?:[\d.,]*\d)?"
COUNTED = r"(?:steps?|images?|pictures?|flights?|solutions?|drones?|updates?)"
BENCHMARK = re.compile(
    rf"{NUMBER} ?(?:[kMG]|million|billion)? ?(?:env |physics )?{COUNTED} ?(?:/s\b|(?:a|per) second\b)"
    rf"|{NUMBER} ?[kMG]? ?/s\b|{NUMBER} [kMG]\b"
    rf"|(?:{NUMBER}(?: to {NUMBER})?|two|three|four|five|ten) ?(?:×|times) ?(?:as fast|as many|faster|slower)"
    r"|\btwice as fast(?! as the clock)"
)
"""What a measured speed looks like: "5 M steps/s", "120 000 /s", "9.4 M", "17 times as fast"."""
TRAINING = re.compile(r"\b(?:train|learn)\w*\b", re.IGNORECASE)
DURATION = re.compile(rf"{NUMBER} ?(?:ms|s|seconds|minutes)\b")
"""Together in one line: the time that a training takes."""

Row = dict[str, Any]


def pages(repository: Path = REPOSITORY) -> list[Path]:
    """Return the pages whose figures are generated."""
    return [*sorted(repository.glob("README*.md")), *sorted((repository / "docs").rglob("*.md"))]


def load_results(folder: Path = RESULTS) -> dict[str, dict[str, Row]]:
    """Return the rows by name, by file."""
    return {path.stem: _rows(json.loads(path.read_text(encoding="utf-8"))) for path in sorted(folder.glob("*.json"))}


def _rows(document: Row) -> dict[str, Row]:
    rows: dict[str, Row] = {
        ".": {key: value for key, value in document.items() if isinstance(value, (str, int, float))}
    }
    for key, value in document.items():
        if isinstance(value, dict):
            rows[key] = value
        for entry in value if isinstance(value, list) else ():
            name = str(entry.get("row") or entry.get("name"))
            if entry.get("fast") is True and "fast" not in name:
                name += ", fast"
            if name not in rows or _speed(entry) > _speed(rows[name]):
                rows[name] = entry
    return rows


def _speed(entry: Row) -> float:
    return max((float(entry[field]) for field in SPEEDS if field in entry), default=0.0)


def figure(key: str, results: dict[str, dict[str, Row]]) -> str:
    """Return the figure of a key as text; raise ValueError if a part of the key does not exist."""
    parts = key.split(":")
    if not 3 <= len(parts) <= 4:
        raise ValueError(f"bench: {key}: expected file:row:field:format")
    value: Any = results
    for part in parts[:3]:
        if part not in value:
            raise ValueError(f"bench: {key}: {part!r}: expected one of {', '.join(value)}")
        value = value[part]
    if len(parts) == 3:
        if not isinstance(value, str):
            raise ValueError(f"bench: {key}: a number: expected a format, as in {key}:0.0 M")
        return value
    if isinstance(value, (str, list, dict, bool)) or value is None:
        raise ValueError(f"bench: {key}: {parts[2]} is {type(value).__name__}: expected a number")
    return format_number(float(value), parts[2], parts[3])


def format_number(value: float, field: str, pattern: str) -> str:
    """Return a number as the pattern shows it: format_number(9363856.9, "steps_per_s", "0.0 M") is "9.4 M"."""
    match = FORMAT.fullmatch(pattern)
    if match is None or match["unit"] not in SCALES:
        raise ValueError(f"format {pattern!r}: expected one such as '0.0 M', '0,000' or '0.00 s'")
    unit = match["unit"]
    scale = SCALES[unit]
    if unit in ("s", "ms", "µs", "ns"):
        scale *= next((factor for name, factor in SECONDS.items() if name in re.split("[_ ]", field)), 1.0)
    elif unit == "%" and field.endswith("percent"):
        scale = 1.0
    number = value * scale
    if match["digits"] and number:
        number = round(number, int(match["digits"]) - 1 - math.floor(math.log10(abs(number))))
    separator = "," if match["whole"] == "0,000" else ""
    return f"{number:{separator}.{len(match['decimals'] or '')}f}{match['space']}{unit}"


def rewrite(text: str, results: dict[str, dict[str, Row]]) -> str:
    """Return a page with every marked figure replaced by the measured one."""

    def replace(match: re.Match[str]) -> str:
        return f"<!-- bench: {match['key']} -->{figure(match['key'], results)}<!-- /bench -->"

    return MARKED.sub(replace, text)


def unmarked_figures(text: str) -> Iterator[tuple[int, str]]:
    """Yield line number and text of what looks like a benchmark figure outside markers and code blocks."""
    for pattern in (MARKED, re.compile(r"```.*?```", re.DOTALL)):
        text = pattern.sub(lambda match: "\n" * match[0].count("\n"), text)
    for number, line in enumerate(text.splitlines(), 1):
        matches = [match[0] for match in BENCHMARK.finditer(line) if match[0] != "1/s"]
        if TRAINING.search(line):
            matches += [match[0] for match in DURATION.finditer(line)]
        yield from ((number, match.strip()) for match in matches)


def list_keys(results: dict[str, dict[str, Row]]) -> Iterator[str]:
    """List every key without its format, and the value."""
    for file, rows in results.items():
        for row, fields in rows.items():
            for field, value in fields.items():
                if isinstance(value, (int, float, str)) and not isinstance(value, bool):
                    yield f"{file}:{row}:{field} = {value if isinstance(value, str) else format(value, '.6g')}"


def main() -> None:
    """Rewrite the pages, or list the keys."""
    results = load_results()
    if sys.argv[1:] == ["--list"]:
        print("\n".join(list_keys(results)))
        return
    for page in pages():
        text = page.read_text(encoding="utf-8")
        try:
            rewritten = rewrite(text, results)
        except ValueError as error:
            sys.exit(f"{page.relative_to(REPOSITORY)}: {error}")
        if rewritten != text:
            write_text(page, rewritten)
            print(f"{page.relative_to(REPOSITORY)}: figures rewritten")


if __name__ == "__main__":
    main()
