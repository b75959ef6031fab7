"""Overrides of a scenario file: `--set drones.vehicle=iris`, or {"drones.vehicle": "iris"}."""

import tomllib
from typing import Any

from samara.core.sanitise import quote_value
from samara.scenario.scenario import ScenarioError

TYPE_TABLES = ("controller", "estimator", "autopilot")  # keys of a drone: a table, or a text that stands for its `type`
MAX_INDEX_DIGITS = 9  # digits of the index of an entry
PART_LIST = "sensors"  # key of a list of tables, or of texts that stand for their `part`


def parse_override(text: str) -> tuple[str, object]:
    """Parse 'drones.vehicle=iris' into a key and a value; a value that is not TOML is a text."""
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise ScenarioError(f"--set {quote_value(text)}: expected key=value, such as duration=5 or drones.vehicle=iris")
    try:
        return key.strip(), tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        return key.strip(), value.strip()
    except (ValueError, RecursionError):  # too many digits or nested brackets
        raise ScenarioError(f"--set {quote_value(text)}: expected a value that can be read") from None


def apply_override(document: dict[str, object], key: str, value: object, origin: str) -> None:
    """Set the value at a path such as 'drones[1].start' or 'events.0.at'; a list without an index means all its entries."""
    words = key.replace("]", "").replace("[", ".").split(".")
    nodes: list[Any] = [document]
    for parent, word in zip(["", *words], words[:-1], strict=False):
        nodes = [child for node in _entries(nodes, word) for child in _descend(node, word, parent)]
        if not nodes:
            entry_name = f"{parent}[{word}]" if word.isdecimal() else word
            raise ScenarioError(f"{origin}: cannot set {quote_value(key)}: there is no {quote_value(entry_name)}")
    last_word = words[-1]
    for node in _entries(nodes, last_word):
        if isinstance(node, list) and _entry_index(last_word) < len(node):
            node[_entry_index(last_word)] = value
        elif isinstance(node, dict):
            node[last_word] = value
        else:
            raise ScenarioError(f"{origin}: cannot set {quote_value(key)}: {quote_value(node)} is not a table")


def _entries(nodes: list[Any], word: str) -> list[Any]:
    """Return the nodes to look a word up in: all entries of a list, unless the word is an index."""
    return [entry for node in nodes for entry in (node if isinstance(node, list) and not word.isdecimal() else [node])]


def _entry_index(word: str) -> int:
    """Parse the index of an entry; very long digit strings exceed every list, and Python's limit for int()."""
    return int(word) if len(word) <= MAX_INDEX_DIGITS else 10**MAX_INDEX_DIGITS


def _descend(node: Any, word: str, parent: str) -> list[Any]:
    """Return the child of that name or index: a list, or a table, which is created if missing."""
    if isinstance(node, list):
        k = _entry_index(word)
        if parent == PART_LIST and k < len(node) and isinstance(node[k], str):
            node[k] = {"part": node[k]}
        return node[k : k + 1]
    if not isinstance(node, dict):
        return []
    child = node.setdefault(word, {})
    if isinstance(child, str) and word in TYPE_TABLES:
        child = node[word] = {"type": child}
    return [child] if isinstance(child, (dict, list)) else []
