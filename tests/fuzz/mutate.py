"""Documents and bytes that are almost right."""

import copy
import json
from collections.abc import Iterator
from datetime import date
from random import Random
from typing import Any

from .nasty import nasty_value

Path = tuple[Any, ...]

# Documents -----------------------------------------------------------------------------------------------------------


def document_paths(document: Any, path: Path = ()) -> Iterator[Path]:
    """Yield every path in a document except its root; of long lists the first few."""
    inside: Any = document.items() if isinstance(document, dict) else enumerate(document[:12])
    for key, value in inside:
        yield (*path, key)
        if isinstance(value, (dict, list)):
            yield from document_paths(value, (*path, key))


def mutate_document(document: Any, rng: Random) -> tuple[Any, list[str]]:
    """Return a copy with one to three errors, and their descriptions."""
    document = copy.deepcopy(document)
    changes = [_change(document, rng) for _ in range(rng.choice((1, 1, 1, 2, 3)))]
    return document, changes


def _change(document: Any, rng: Random) -> str:
    paths = list(document_paths(document))
    if not paths:
        return "nothing: it is empty"
    path = rng.choice(paths)
    holder = _inside(document, path[:-1])
    key, value = path[-1], holder[path[-1]]
    name = ".".join(map(str, path))
    change = rng.choice(
        (*["value"] * 6, *["number"] * 2, "drop", "misspell", "move", "wrap", "repeat", "extra", "copy")
    )
    if change == "drop":
        del holder[key]
    elif change == "misspell" and isinstance(holder, dict):
        new = rng.choice((f"{key}s", str(key)[1:], str(key).upper(), f"{key}_deg", str(nasty_value(rng))[:40], "type"))
        holder[new] = holder.pop(key)
        return f"{name} renamed to {new!r}"
    elif change == "move":
        other_path = rng.choice(paths)
        try:
            _inside(document, other_path[:-1])[other_path[-1]] = copy.deepcopy(value)
        except (LookupError, TypeError):
            return "nothing"
        return f"{name} copied to {'.'.join(map(str, other_path))}"
    elif change == "wrap":
        holder[key] = rng.choice(([value], {"value": value}, [value] * 3, str(value)))
    elif change == "repeat" and isinstance(value, list):
        holder[key] = (value * 1000)[: rng.choice((0, 1, 2, len(value) + 1, 2 * len(value), 1000))]
    elif change == "extra" and isinstance(value, dict):
        value[rng.choice(("type", "file", "name", "at", "x", ""))] = nasty_value(rng)
    elif change == "number" and isinstance(value, (int, float)) and not isinstance(value, bool):
        factor = rng.choice((-1, 0, 1e-9, 1e-3, 0.5, 1.0000001, 3, 1e3, 10**6, 1e9, 1e300))
        holder[key] = value * (factor if abs(value) < 1e300 else int(factor))
    else:
        holder[key] = nasty_value(rng)
    shown = _shown(holder[key]) if change != "drop" else "nothing"
    return f"{name} is {shown}"


def _inside(document: Any, path: Path) -> Any:
    for key in path:
        document = document[key]
    return document


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


# Texts ---------------------------------------------------------------------------------------------------------------


def toml(document: dict[str, Any]) -> str:
    """Format a document as TOML, with all tables inline."""
    return "".join(f"{_quoted(key)} = {_value(value)}\n" for key, value in document.items())


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_quoted(key)} = {_value(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_value, value)) + "]"
    return value.isoformat() if isinstance(value, date) else repr(value)


def _quoted(text: Any) -> str:
    escaped = json.dumps(str(text), ensure_ascii=False).replace("\x7f", "\\u007f")
    return "".join(f"\\u{ord(c):04x}" if 0xD800 <= ord(c) < 0xE000 else c for c in escaped)


def json_text(document: Any) -> str:
    """Format a document as JSON, dates as texts."""
    return json.dumps(document, default=str)


def mutate_text(text: str, rng: Random) -> tuple[str, list[str]]:
    """Truncate a text, duplicate or move lines, or replace letters."""
    lines = text.splitlines()
    change = rng.choice(("cut", "line again", "line away", "line elsewhere", "letter", "brackets", "digits", "ending"))
    at, other = rng.randrange(len(lines) + 1), rng.randrange(len(lines) + 1)
    if change == "cut":
        return text[: rng.randrange(len(text) + 1)], ["cut"]
    if change == "brackets":
        return f"x = {'[' * rng.choice((5, 500, 50_000))}\n{text}", ["endless brackets"]
    if change == "digits":
        return f"x = {'9' * rng.choice((400, 5000))}\n{text}", ["endless digits"]
    if change == "ending":
        return text.replace("\n", rng.choice(("\r\n", "\r", "\n\n", ""))), ["other ends of lines"]
    if change == "letter":
        place = rng.randrange(len(text) + 1)
        letter = rng.choice("\x00\x1b\r\n\t\"'[]{}=,.#-eE0 \\\ufeff\u2028é")
        return text[:place] + letter + text[place + rng.randrange(2) :], [f"{letter!r} at letter {place}"]
    line = lines[other : other + 1]
    if change == "line away":
        lines[other : other + 1] = []
    elif change == "line again":
        lines[other:other] = line
    else:
        lines[at:at] = line
    return "\n".join(lines), [f"{change}: {''.join(line)[:60]!r}"]


def mutate_toml(document: dict[str, Any], rng: Random) -> tuple[str, list[str]]:
    """Return the text of a document with errors in it, sometimes with textual errors too."""
    changed, changes = mutate_document(document, rng) if rng.random() < 0.93 else (document, [])
    text = toml(changed)
    if rng.random() < 0.05 or not changes:
        text, further_changes = mutate_text(text, rng)
        changes += further_changes
    return text, changes


# Tables --------------------------------------------------------------------------------------------------------------

CELLS = (
    *(
        "",
        "nan",
        "inf",
        "-inf",
        "1e308",
        "1e999",
        "-0.0",
        "x",
        "0x10",
        "1_000",
        "1,5",
        '"',
        '"1',
        "1 ",
        "9" * 400,
        "\x00",
    ),
    *("\x1b[31m", "é", "١", "True", "#", ";", "1e-300", "-1", "0", "1", "1e12"),
)


def mutate_table(text: str, rng: Random) -> tuple[str, list[str]]:
    """Replace cells, columns or rows of a table with commas."""
    if rng.random() < 0.15:
        return mutate_text(text, rng)
    rows = [line.split(",") for line in text.splitlines()]
    changes = []
    for _ in range(rng.choice((1, 1, 2, 3))):
        i = rng.choice((0, 1, rng.randrange(len(rows)))) % len(rows)
        row = rows[i]
        j = rng.randrange(len(row)) if row else 0
        change = rng.choice((*["cell"] * 5, "drop cell", "add cell", "drop row", "repeat row", "swap", "column away"))
        if change == "cell" and row:
            row[j] = rng.choice(CELLS)
        elif change == "drop cell":
            row[j : j + 1] = []
        elif change == "add cell":
            row.insert(j, rng.choice(CELLS))
        elif change == "drop row" and len(rows) > 1:
            del rows[i]
        elif change == "repeat row":
            rows[i:i] = [list(row)] * rng.choice((1, 2, 100))
        elif change == "swap":
            other = rng.randrange(len(rows))
            rows[i], rows[other] = rows[other], rows[i]
        elif change == "column away":
            rows = [[cell for k, cell in enumerate(row) if k != j] for row in rows]
        changes.append(f"{change} in row {i}, column {j}")
    return "\n".join(",".join(row) for row in rows) + "\n", changes


# Bytes ---------------------------------------------------------------------------------------------------------------

LENGTHS = (0, 1, 7, 8, 255, 256, 65535, 2**16, 2**31 - 1, 2**31, 2**32 - 1, 2**40, 2**63 - 1, 2**63, 2**64 - 1)


def mutate_bytes(data: bytes, rng: Random) -> tuple[bytes, list[str]]:
    """Flip bits, remove, insert or duplicate bytes, and overwrite numbers with typical lengths."""
    buffer, changes = bytearray(data), []
    for _ in range(rng.choice((1, 1, 1, 2, 4, 16))):
        position = rng.randrange(len(buffer) + 1)
        change = rng.choice(("bit", "bit", "byte", "cut", "away", "in", "again", "length", "length", "zeros"))
        if change == "bit" and position < len(buffer):
            buffer[position] ^= 1 << rng.randrange(8)
        elif change == "byte" and position < len(buffer):
            buffer[position] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
        elif change == "cut":
            del buffer[position:]
        elif change == "away":
            del buffer[position : position + rng.choice((1, 2, 8, 100))]
        elif change == "in":
            buffer[position:position] = rng.randbytes(rng.choice((1, 4, 64)))
        elif change == "again":
            buffer[position:position] = buffer[position : position + rng.choice((1, 8, 64, 1024))]
        elif change == "length":
            size = rng.choice((1, 2, 4, 8))
            buffer[position : position + size] = (rng.choice(LENGTHS) % 256**size).to_bytes(size, "little")
        elif change == "zeros":
            buffer[position : position + 32] = bytes(len(buffer[position : position + 32]))
        changes.append(f"{change} at byte {position}")
    return bytes(buffer), changes
