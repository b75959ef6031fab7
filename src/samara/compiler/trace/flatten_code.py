"""Nested tuples to flat lists and back, by code written for one shape: a microsecond where recursion takes twenty."""

from collections.abc import Callable
from typing import Any


def packer(template: Any) -> Callable[[Any], list[Any]]:
    """pack(tree) → the leaves of a tree shaped like the template, in order"""
    return eval(f"lambda tree: [{', '.join(_places(template, 'tree'))}]")


def unpacker(template: Any) -> Callable[[Any], Any]:
    """unpack(leaves) → a tree shaped like the template, from an indexable of leaves"""
    kinds: dict[str, Any] = {
        "new": tuple.__new__
    }  # a named tuple's own constructor is a Python function, twice as slow
    expression, _ = _rebuild(template, 0, kinds)
    return eval(f"lambda leaves: {expression}", kinds)


def _places(template: Any, at: str) -> list[str]:
    if not isinstance(template, tuple):
        return [at]
    return [place for i, branch in enumerate(template) for place in _places(branch, f"{at}[{i}]")]


def _rebuild(template: Any, first: int, kinds: dict[str, Any]) -> tuple[str, int]:
    if not isinstance(template, tuple):
        return f"leaves[{first}]", first + 1
    parts = []
    for branch in template:
        part, first = _rebuild(branch, first, kinds)
        parts.append(part)
    inside = "".join(f"{part}, " for part in parts)
    if not hasattr(template, "_fields"):
        return f"({inside})", first
    name = f"kind_{type(template).__name__}"
    kinds[name] = type(template)
    return f"new({name}, ({inside}))", first
