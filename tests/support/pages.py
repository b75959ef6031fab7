"""What tests read of a page of the documentation: the rows of its tables, and the tests and names that it names."""

import ast
import importlib
import itertools
import re
from functools import cache

from support.repository import REPOSITORY

NAMED = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


@cache
def names_in(file: str) -> frozenset[str]:
    """The names of the test functions in a file, read and not run."""
    path = REPOSITORY / file
    tree = ast.parse(path.read_text(encoding="utf-8")) if path.exists() else ast.Module([], [])
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef))


def not_there(text: str) -> list[str]:
    """The tests a text names that no file has."""
    return [f"{file}::{name}" for file, name in NAMED.findall(text) if name not in names_in(file)]


def rows_of(text: str) -> list[str]:
    """The rows of its tables, without heads and rules."""
    lines = [*text.splitlines(), ""]
    return [
        line
        for before, line in itertools.pairwise(lines)
        if line.startswith("|") and before.startswith("|") and not line.startswith("|---")
    ]


def leads_somewhere(name: str) -> bool:
    """Whether a dotted name is there: the longest part that is a module, then attributes."""
    parts = name.split(".")
    for split in range(len(parts), 0, -1):
        try:
            thing = importlib.import_module(".".join(parts[:split]))
        except ModuleNotFoundError:
            continue
        for attribute in parts[split:]:
            if not hasattr(thing, attribute):
                return False
            thing = getattr(thing, attribute)
        return True
    return False
