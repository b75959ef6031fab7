"""Vehicle files of other programs in XML: those of the tests, with elements, texts and attributes changed."""

from copy import deepcopy
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import Any, NamedTuple
from xml.etree.ElementTree import Element, fromstring, register_namespace, tostring

from samara import VehicleError, vehicle
from samara.core.lazy_import import MissingExtraError
from samara.vehicles.exchange.formats import read_aircraft
from samara.vehicles.exchange.imported_vehicle import built
from samara.vehicles.parts.parts_list import PartsError

from .law import Case, Reader
from .mutate import mutated_text
from .nasty import TEXTS

FILES = Path(__file__).parents[1] / "vehicles"
XACRO = "http://www.ros.org/wiki/xacro"
SETS = {  # what is read: the files that lie beside each other
    "heron/model.sdf": {own: FILES / "models" / own for own in ("heron/model.sdf", "heron_base/model.sdf")},
    "wren.xacro": {own: FILES / own for own in ("wren.xacro", "wren_rotor.xacro")},
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
    """Which file is read, and what lies beside it"""

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
    own = dict(texts(target))
    name = rng.choice(tuple(own))
    root, told = fromstring(own[name]), []
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        told.append(_change(root, rng))
    text = tostring(root, encoding="unicode")
    if rng.random() < 0.05:
        text, more = mutated_text(text, rng)
        told += more
    return Case(Files(target, {**own, name: text}), (f"{target}, {name}", *told))


def _change(root: Element, rng: Random) -> str:
    """An element away, again, or elsewhere; a text, an attribute or a tag that is another"""
    parents = [own for own in root.iter() if len(own)]
    parent = rng.choice(parents) if parents else root
    own = rng.choice(list(parent)) if len(parent) else parent
    change = rng.choice(
        ("away", "again", "elsewhere", "text", "text", "text", "attribute", "attribute", "attribute", "tag")
    )
    if change == "away" and own is not parent:
        parent.remove(own)
    elif change == "again" and own is not parent:
        parent.insert(rng.randrange(len(parent)), deepcopy(own))
    elif change == "elsewhere":
        rng.choice(list(root.iter())).append(deepcopy(own))
    elif change == "tag":
        own.tag = rng.choice(list(root.iter())).tag
    elif change == "text":
        leaf = rng.choice([each for each in root.iter() if (each.text or "").strip()] or [own])
        leaf.text = rng.choice((*NUMBERS, *WORDS, *TEXTS))
        return f"{leaf.tag} = {leaf.text[:40]!r}"
    else:
        bearer = rng.choice([each for each in root.iter() if each.attrib] or [own])
        key = rng.choice(tuple(bearer.attrib) or ("name",))
        bearer.set(key, rng.choice((*NUMBERS, *WORDS, *TEXTS)))
        return f"{bearer.tag} {key} = {bearer.attrib[key][:40]!r}"
    return f"{own.tag} {change}"


try:
    import mujoco as _mujoco  # noqa: F401 (once and outside the sandbox: its window library asks a child for its version)
except ImportError:
    del SETS["martin.xml"]


@lru_cache
def _iris() -> Any:
    return vehicle("iris")


def read(given: Files, folder: Path) -> Any:
    for name, text in given.texts.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8", errors="replace")
    return built(read_aircraft(folder / given.target), _iris())


FOREIGN = Reader("foreign", seeds, make, read, (VehicleError, PartsError, MissingExtraError), lines=True, share=3)
