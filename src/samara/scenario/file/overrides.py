"""What is changed of a scenario's file from outside: `--set drones.vehicle=iris`, or {"drones.vehicle": "iris"}."""

import tomllib
from typing import Any

from samara.core.sanitise import shown
from samara.scenario.scenario import ScenarioError

BY_KIND = ("controller", "estimator", "autopilot")  # of a drone: a table, or the text that would be its `kind`
MOST_DIGITS = 9  # of the number of an entry
BY_PART = "sensors"  # a list of tables, or of texts that would be their `part`


def parse_override(text: str) -> tuple[str, object]:
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


def apply_override(document: dict[str, object], key: str, value: object, origin: str) -> None:
    """Puts a value at a path such as 'drones[1].start' or 'events.0.at'; a list without a number means all its entries"""
    words = key.replace("]", "").replace("[", ".").split(".")
    places: list[Any] = [document]
    for before, word in zip(["", *words], words[:-1], strict=False):
        places = [inner for place in _entries(places, word) for inner in _entered(place, word, before)]
        if not places:
            named = f"{before}[{word}]" if word.isdecimal() else word
            raise ScenarioError(f"{origin}: cannot set {shown(key)}: there is no {shown(named)}")
    last = words[-1]
    for place in _entries(places, last):
        if isinstance(place, list) and _number(last) < len(place):
            place[_number(last)] = value
        elif isinstance(place, dict):
            place[last] = value
        else:
            raise ScenarioError(f"{origin}: cannot set {shown(key)}: {shown(place)} is no table")


def _entries(places: list[Any], word: str) -> list[Any]:
    """Where a word leads on from: all entries of a list, unless it is the number of one of them"""
    return [own for place in places for own in (place if isinstance(place, list) and not word.isdecimal() else [place])]


def _number(word: str) -> int:
    """The number of an entry; digits by the thousand are beyond every list, and more than Python reads"""
    return int(word) if len(word) <= MOST_DIGITS else 10**MOST_DIGITS


def _entered(place: Any, word: str, before: str) -> list[Any]:
    """What is there of that name or number: a table, made where there is none, or a list"""
    if isinstance(place, list):
        k = _number(word)
        if before == BY_PART and k < len(place) and isinstance(place[k], str):
            place[k] = {"part": place[k]}
        return place[k : k + 1]
    if not isinstance(place, dict):
        return []
    inner = place.setdefault(word, {})
    if isinstance(inner, str) and word in BY_KIND:
        inner = place[word] = {"kind": inner}
    return [inner] if isinstance(inner, (dict, list)) else []
