"""Parsers for pages of the documentation: the rows of its tables, and the tests and names that it mentions."""

import ast
import importlib
import itertools
import re
from functools import cache

from support.repository import REPOSITORY

TEST_REFERENCE = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


@cache
def test_names(file: str) -> frozenset[str]:
    """Return the names of the test functions in a file, parsed and not executed."""
    path = REPOSITORY / file
    tree = ast.parse(path.read_text(encoding="utf-8")) if path.exists() else ast.Module([], [])
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef))


def missing_tests(text: str) -> list[str]:
    """Return the tests that a text mentions and no file has."""
    return [f"{file}::{name}" for file, name in TEST_REFERENCE.findall(text) if name not in test_names(file)]


def table_rows(text: str) -> list[str]:
    """Return the rows of a page's tables, without heads and rules."""
    lines = [*text.splitlines(), ""]
    return [
        line
        for previous, line in itertools.pairwise(lines)
        if line.startswith("|") and previous.startswith("|") and not line.startswith("|---")
    ]


def name_exists(name: str) -> bool:
    """Whether a dotted name exists: the longest part that is a module, then attributes."""
    parts = name.split(".")
    for split in range(len(parts), 0, -1):
        try:
            obj = importlib.import_module(".".join(parts[:split]))
        except ModuleNotFoundError:
            continue
        for attribute in parts[split:]:
            if not hasattr(obj, attribute):
                return False
            obj = getattr(obj, attribute)
        return True
    return False
