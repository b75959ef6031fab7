"""Names from files: which of them topics and files may carry."""

from collections.abc import Iterable

from samara.core.printable import shown

NAME = "letters, digits, - and _"
LONGEST_STEM = 200  # letters; file systems take 255 bytes


def is_name(text: str) -> bool:
    """Whether a scenario or a drone may be called so"""
    return bool(text) and all(letter.isalnum() or letter in "_-" for letter in text)


def as_name(text: str) -> str:
    """Return the text with every letter that no name may have as _."""
    return "".join(letter if is_name(letter) else "_" for letter in text[:LONGEST_STEM])


def file_stem(name: str) -> str:
    """Return the file name, without ending, for something that a file calls `name`: "APC 10x4.7" is "APC_10x4.7".

    ValueError for a name that would lead into another directory or that no directory can hold: with a slash or a control
    character, beginning with a dot, empty, or too long.
    """
    if not name.isprintable() or set(name) & {"/", "\\"} or name.startswith(".") or not 0 < len(name) <= LONGEST_STEM:
        raise ValueError(
            f"the name {shown(name)} cannot be that of a file; expected no slash, no control character, no dot in front and at "
            f"most {LONGEST_STEM} letters, or --out"
        )
    return "".join(letter if letter.isalnum() or letter in "-_." else "_" for letter in name)


def first_twice(names: Iterable[str]) -> str | None:
    """The first name that is there before, in one pass; None where each is there once"""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None
