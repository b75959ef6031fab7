"""Vehicle files of other programs in XML: those of the tests, with changed elements, texts and attributes."""

from copy import deepcopy
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import Any, NamedTuple
from xml.etree.ElementTree import Element, fromstring, register_namespace, tostring

from samara import VehicleError, vehicle
from samara.core.extras import MissingExtraError
from samara.vehicles.exchange.formats import read_aircraft
from samara.vehicles.exchange.imported_vehicle import build_imported
from samara.vehicles.parts.parts_list import PartsError

from .law import Case, Reader
from .mutate import mutate_text
from .nasty import TEXTS

FILES = Path(__file__).parents[1] / "vehicles"
XACRO = "http://www.ros.org/wiki/xacro"
SETS = {  # the file to read: the files beside each other
    "heron/model.sdf": {name: FILES / "models" / name for name in ("heron/model.sdf", "heron_base/model.sdf")},
    "wren.xacro": {name: FILES / name for name in ("wren.xacro", "wren_rotor.xacro")},
    "martin.xml": {"martin.xml": FILES / "martin.xml"},
}
NUMBERS = (
    "nan",
    "inf",
    "-1",
    "0",
    "1e308",
    "1e-308",
    "9" * 400,
    "1_0",
    "0x1",
    "1 2 3",
    "0 0 0",
    "1e400",
    "",
    "é",
    "-0",
)
WORDS = (
    "__model__",
    "::",
    "base_link",
    "rotor_0",
    "world",
    "${1/0}",
    "${arm}",
    "$(find x)",
    "$(eval 1)",
    "${x.y}",
    "true",
)


class Files(NamedTuple):
    """The file to read, and the files beside it."""

    target: str
    texts: dict[str, str]


@lru_cache
def texts(target: str) -> dict[str, str]:
    register_namespace("xacro", XACRO)
    return {name: path.read_text(encoding="utf-8") for name, path in SETS[target].items()}


def seeds() -> list[Case]:
    return [Case(Files(target, texts(target))) for target in SETS]


def make(rng: Random) -> Case:
    target = rng.choice(tuple(SETS))
    file_texts = dict(texts(target))
    name = rng.choice(tuple(file_texts))
    root, changes = fromstring(file_texts[name]), []
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        changes.append(_change(root, rng))
    text = tostring(root, encoding="unicode")
    if rng.random() < 0.05:
        text, further_changes = mutate_text(text, rng)
        changes += further_changes
    return Case(Files(target, {**file_texts, name: text}), (f"{target}, {name}", *changes))


def _change(root: Element, rng: Random) -> str:
    """Remove, duplicate or move an element; replace a text, an attribute or a tag."""
    parents = [element for element in root.iter() if len(element)]
    parent = rng.choice(parents) if parents else root
    element = rng.choice(list(parent)) if len(parent) else parent
    change = rng.choice(
        ("away", "again", "elsewhere", "text", "text", "text", "attribute", "attribute", "attribute", "tag")
    )
    if change == "away" and element is not parent:
        parent.remove(element)
    elif change == "again" and element is not parent:
        parent.insert(rng.randrange(len(parent)), deepcopy(element))
    elif change == "elsewhere":
        rng.choice(list(root.iter())).append(deepcopy(element))
    elif change == "tag":
        element.tag = rng.choice(list(root.iter())).tag
    elif change == "text":
        leaf = rng.choice([candidate for candidate in root.iter() if (candidate.text or "").strip()] or [element])
        leaf.text = rng.choice((*NUMBERS, *WORDS, *TEXTS))
        return f"{leaf.tag} = {leaf.text[:40]!r}"
    else:
        with_attributes = rng.choice([candidate for candidate in root.iter() if candidate.attrib] or [element])
        key = rng.choice(tuple(with_attributes.attrib) or ("name",))
        with_attributes.set(key, rng.choice((*NUMBERS, *WORDS, *TEXTS)))
        return f"{with_attributes.tag} {key} = {with_attributes.attrib[key][:40]!r}"
    return f"{element.tag} {change}"


try:
    import mujoco as _mujoco  # noqa: F401 (once and outside the sandbox: its window library asks a child for its version)
except ImportError:
    del SETS["martin.xml"]


@lru_cache
def _iris() -> Any:
    return vehicle("iris")


def read(case_input: Files, folder: Path) -> Any:
    for name, text in case_input.texts.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8", errors="replace")
    return build_imported(read_aircraft(folder / case_input.target), _iris())


FOREIGN = Reader("foreign", seeds, make, read, (VehicleError, PartsError, MissingExtraError), lines=True, share=3)
