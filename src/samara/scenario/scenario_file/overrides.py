"""What is changed of a scenario's file from outside: `--set drones.vehicle=iris`, or {"drones.vehicle": "iris"}."""

import tomllib
from typing import Any

from samara.core.printable import shown
from samara.scenario.scenario import ScenarioError

BY_KIND = ("controller", "estimator", "autopilot")  # of a drone: a table, or the text that would be its `kind`


def parse_override(text: str) -> tuple[str, Any]:
    """'drones.vehicle=iris' as a key and a value; a value that is not TOML is a text"""
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise ScenarioError(f"--set {shown(text)}: expected key=value, such as duration=5 or drones.vehicle=iris")
    try:
        return key.strip(), tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        return key.strip(), value.strip()
    except (ValueError, RecursionError):  # digits by the thousand, brackets by the hundred
        raise ScenarioError(f"--set {shown(text)}: expected a value that can be read") from None


def apply_override(document: dict[str, Any], key: str, value: Any, origin: str) -> None:
    """Puts a value at a path such as 'drones[1].start'; a list without a number means all its entries"""
    places: list[Any] = [document]
    *way, last = key.split(".")
    for word in way:
        name, _, index = word.partition("[")
        found = []
        for place in places:
            inner = place.setdefault(name, {}) if isinstance(place, dict) else None
            if isinstance(inner, str) and name in BY_KIND:
                inner = place[name] = {"kind": inner}
            if isinstance(inner, list):
                found += [own for k, own in enumerate(inner) if not index or index == f"{k}]"]
            elif isinstance(inner, dict) and not index:
                found.append(inner)
        if not found:
            raise ScenarioError(f"{origin}: cannot set {shown(key)}: there is no {shown(word)}")
        places = found
    for place in places:
        if not isinstance(place, dict):
            raise ScenarioError(f"{origin}: cannot set {shown(key)}: {shown(place)} is no table")
        place[last] = value
