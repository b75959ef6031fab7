"""What scenarios, drones, solids and sensors may be called: topics and files carry these names."""

from collections.abc import Iterable

NAME = "letters, digits, - and _"


def is_name(text: str) -> bool:
    """Whether a scenario or a drone may be called so"""
    return bool(text) and all(letter.isalnum() or letter in "_-" for letter in text)


def first_twice(names: Iterable[str]) -> str | None:
    """The first name that is there before, in one pass; None where each is there once"""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None
