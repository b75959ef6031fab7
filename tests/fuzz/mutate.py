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


def places(document: Any, path: Path = ()) -> Iterator[Path]:
    """Every place in a document but its root; of long lists the first few"""
    inside: Any = document.items() if isinstance(document, dict) else enumerate(document[:12])
    for key, value in inside:
        yield (*path, key)
        if isinstance(value, (dict, list)):
            yield from places(value, (*path, key))


def mutated(document: Any, rng: Random) -> tuple[Any, list[str]]:
    """A copy with one to three things wrong with it, and what they are"""
    document = copy.deepcopy(document)
    told = [_change(document, rng) for _ in range(rng.choice((1, 1, 1, 2, 3)))]
    return document, told


def _change(document: Any, rng: Random) -> str:
    found = list(places(document))
    if not found:
        return "nothing: it is empty"
    path = rng.choice(found)
    holder = _inside(document, path[:-1])
    key, value = path[-1], holder[path[-1]]
    name = ".".join(map(str, path))
    change = rng.choice(
        (*["value"] * 6, *["number"] * 2, "drop", "misspell", "move", "wrap", "repeat", "extra", "copy")
    )
    if change == "drop":
        del holder[key]
    elif change == "misspell" and isinstance(holder, dict):
        new = rng.choice((f"{key}s", str(key)[1:], str(key).upper(), f"{key}_deg", str(nasty_value(rng))[:40], "kind"))
        holder[new] = holder.pop(key)
        return f"{name} renamed to {new!r}"
    elif change == "move":
        other = rng.choice(found)
        try:
            _inside(document, other[:-1])[other[-1]] = copy.deepcopy(value)
        except (LookupError, TypeError):
            return "nothing"
        return f"{name} copied to {'.'.join(map(str, other))}"
    elif change == "wrap":
        holder[key] = rng.choice(([value], {"value": value}, [value] * 3, str(value)))
    elif change == "repeat" and isinstance(value, list):
        holder[key] = (value * 1000)[: rng.choice((0, 1, 2, len(value) + 1, 2 * len(value), 1000))]
    elif change == "extra" and isinstance(value, dict):
        value[rng.choice(("kind", "file", "name", "at", "x", ""))] = nasty_value(rng)
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
    """A document as TOML, every table of it inline"""
    return "".join(f"{_quoted(key)} = {_value(value)}\n" for key, value in document.items())


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_quoted(key)} = {_value(own)}" for key, own in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_value, value)) + "]"
    return value.isoformat() if isinstance(value, date) else repr(value)


def _quoted(text: Any) -> str:
    escaped = json.dumps(str(text), ensure_ascii=False).replace("\x7f", "\\u007f")
    return "".join(f"\\u{ord(c):04x}" if 0xD800 <= ord(c) < 0xE000 else c for c in escaped)


def json_text(document: Any) -> str:
    """A document as JSON, dates as texts"""
    return json.dumps(document, default=str)


def mutated_text(text: str, rng: Random) -> tuple[str, list[str]]:
    """A text cut, with lines again or elsewhere, or with other letters in it"""
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


def mutated_toml(document: dict[str, Any], rng: Random) -> tuple[str, list[str]]:
    """The text of a document with something wrong in it, now and then with a text's mistakes too"""
    changed, told = mutated(document, rng) if rng.random() < 0.93 else (document, [])
    text = toml(changed)
    if rng.random() < 0.05 or not told:
        text, more = mutated_text(text, rng)
        told += more
    return text, told


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


def mutated_table(text: str, rng: Random) -> tuple[str, list[str]]:
    """A table of commas with other cells, columns or rows"""
    if rng.random() < 0.15:
        return mutated_text(text, rng)
    rows = [line.split(",") for line in text.splitlines()]
    told = []
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
            rows = [[cell for k, cell in enumerate(own) if k != j] for own in rows]
        told.append(f"{change} in row {i}, column {j}")
    return "\n".join(",".join(row) for row in rows) + "\n", told


# Bytes ---------------------------------------------------------------------------------------------------------------

LENGTHS = (0, 1, 7, 8, 255, 256, 65535, 2**16, 2**31 - 1, 2**31, 2**32 - 1, 2**40, 2**63 - 1, 2**63, 2**64 - 1)


def mutated_bytes(data: bytes, rng: Random) -> tuple[bytes, list[str]]:
    """Bits flipped, bytes cut, put in or again, and numbers that look like lengths written over others"""
    own, told = bytearray(data), []
    for _ in range(rng.choice((1, 1, 1, 2, 4, 16))):
        at = rng.randrange(len(own) + 1)
        change = rng.choice(("bit", "bit", "byte", "cut", "away", "in", "again", "length", "length", "zeros"))
        if change == "bit" and at < len(own):
            own[at] ^= 1 << rng.randrange(8)
        elif change == "byte" and at < len(own):
            own[at] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
        elif change == "cut":
            del own[at:]
        elif change == "away":
            del own[at : at + rng.choice((1, 2, 8, 100))]
        elif change == "in":
            own[at:at] = rng.randbytes(rng.choice((1, 4, 64)))
        elif change == "again":
            own[at:at] = own[at : at + rng.choice((1, 8, 64, 1024))]
        elif change == "length":
            size = rng.choice((1, 2, 4, 8))
            own[at : at + size] = (rng.choice(LENGTHS) % 256**size).to_bytes(size, "little")
        elif change == "zeros":
            own[at : at + 32] = bytes(len(own[at : at + 32]))
        told.append(f"{change} at byte {at}")
    return bytes(own), told
