"""Untrusted XML and parameter files, read without running, fetching or unpacking anything; one sentence about what is wrong.

No document types and so no entities (defusedxml), no file larger than 16 MB, no number that is not finite. A `Node` is an
element that knows its file and its place in it.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element, ParseError

from samara.core.budget import LARGEST_TEXT, Budget, read_bytes
from samara.core.quantity import LARGEST
from samara.core.sanitise import shown
from samara.vehicles.check import VehicleError

MAX_XML_NODES = 200_000  # tags and attributes, of all files together
MAX_XML_DEPTH = 40  # elements within elements; real files have ten
MAX_INCLUDES = 100
MAX_LINKS = 2000  # rigid bodies of one aircraft


class Node:
    """An element of an XML file, with the name of the file and the way to it for what is said about it"""

    def __init__(self, element: Element, origin: str, way: tuple[str, ...] = ()) -> None:
        self.element, self.origin = element, origin
        name = element.get("name")
        own = f"{element.tag} {shown(name)}" if name is not None else str(element.tag)
        self.way = (*way[-3:], own)

    @property
    def place(self) -> str:
        """Where it is in the file: itself and the three elements around it"""
        return "/".join(self.way)

    @property
    def tag(self) -> str:
        return str(self.element.tag)

    @property
    def name(self) -> str:
        """Its attribute `name`, without which nothing can refer to it"""
        return self.attribute("name")

    def attribute(self, key: str, default: str | None = None) -> str:
        value = self.element.get(key, default)
        if value is None:
            raise self.error(f"has no attribute {key}: expected one")
        return value

    def has(self, key: str) -> bool:
        return key in self.element.attrib

    def children(self, *tags: str) -> Iterator["Node"]:
        """Those of these tags in the file's order, or all of them"""
        return (Node(own, self.origin, self.way) for own in self.element if not tags or own.tag in tags)

    def child(self, tag: str) -> "Node | None":
        return next(self.children(tag), None)

    def need(self, tag: str) -> "Node":
        found = self.child(tag)
        if found is None:
            raise self.error(f"has no <{tag}>: expected one")
        return found

    def text(self, tag: str, default: str | None = None) -> str:
        """The text of a child"""
        found = self.child(tag)
        if found is None:
            if default is None:
                raise self.error(f"has no <{tag}>: expected one")
            return default
        return (found.element.text or "").strip()

    def number(self, tag: str, default: float | None = None) -> float:
        """The number that is the text of a child"""
        found = self.child(tag)
        if found is None and default is not None:
            return default
        return self.need(tag).numbers_of(self.text(tag), 1)[0]

    def attribute_number(self, key: str, default: float | None = None) -> float:
        if default is not None and not self.has(key):
            return default
        return self.numbers_of(self.attribute(key), 1, key)[0]

    def numbers_of(self, text: str, count: int, key: str = "") -> tuple[float, ...]:
        """So many finite numbers, apart by white space"""
        try:
            found = tuple(float(each) for each in text.split())
        except ValueError:
            found = ()
        if len(found) != count or "_" in text or not all(math.isfinite(own) for own in found):
            wanted = "a finite number" if count == 1 else f"{count} finite numbers"
            raise self.error(f"{f'{key} ' if key else ''}= {shown(text)}: expected {wanted}")
        return found

    def error(self, message: str) -> VehicleError:
        """One sentence about this element"""
        return VehicleError(f"{self.origin}: {self.place} {message}")


def xml_budget(origin: object, max_nodes: int = MAX_XML_NODES) -> Budget:
    """Limits for one aircraft in XML, including the files it includes."""
    return Budget(
        origin,
        VehicleError,
        max_bytes=LARGEST_TEXT,
        max_nodes=max_nodes,
        max_depth=MAX_XML_DEPTH,
        max_expansions=MAX_INCLUDES,
    )


def read_xml(path: Path, origin: str | None = None, budget: Budget | None = None) -> Node:
    """The root of an XML file; one that is called model.sdf, as most are, goes by its folder's name too

    An included file spends from the budget of the file that includes it.
    """
    named = f"{path.resolve().parent.name}/{path.name}" if path.stem == "model" else path.name
    if budget is not None:
        budget.expand(1, "included files")
    return parse_xml(read_limited(path), origin or named, budget)


def read_limited(path: Path) -> bytes:
    """What a plain file of at most 16 MB holds; VehicleError for any other"""
    try:
        if path.is_file() and path.stat().st_size > LARGEST_TEXT:
            raise OSError(f"it is larger than {LARGEST_TEXT >> 20} MB")
        return read_bytes(path, LARGEST_TEXT)
    except OSError as error:
        why = error.strerror or str(error)
        raise VehicleError(f"{path}: cannot be read, {why}: expected a file of at most 16 MB") from None


def parse_xml(data: bytes, origin: str, budget: Budget | None = None) -> Node:
    """The root of an XML text; VehicleError where it is none, or has a document type, which may unfold without end"""
    from defusedxml import DefusedXmlException
    from defusedxml.ElementTree import fromstring

    budget = budget or xml_budget(origin)
    budget.spend_bytes(len(data))
    budget.spend_nodes(data.count(b"<") + data.count(b"="), "elements")
    try:
        root: Any = fromstring(data, forbid_dtd=True)
    except DefusedXmlException:
        raise VehicleError(
            f"{origin}: has a document type, in which entities may unfold or fetch files: expected XML without one"
        ) from None
    except (ParseError, ValueError, LookupError) as error:
        raise VehicleError(f"{origin}: is no XML, {error}: expected a file that an XML parser reads") from None
    layer, depth = [root], 0
    while layer:
        layer, depth = [inner for own in layer for inner in own], depth + 1
        budget.require_depth(depth, "elements")
    return Node(root, origin)


def text_of(path: str | Path) -> str:
    """The text of a file, or a VehicleError with one sentence: it cannot be read, is too large, or no text"""
    try:
        text = read_limited(Path(path)).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise VehicleError(f"{path}: is no UTF-8 text (byte {error.start}); expected a list of parameters") from None
    if "\0" in text:
        raise VehicleError(f"{path}: holds a zero byte; expected a text")
    return text


def finite(value: object, where: str) -> float:
    """A number as such, or a VehicleError: NaN, infinity, a text and true are none"""
    if isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) <= LARGEST:
        return float(value)
    raise VehicleError(f"{where} = {shown(value)}: expected a finite number, at most {LARGEST:g} in size")


def number(text: str, where: str) -> float:
    """A number from its digits"""
    try:
        value = float(text) if text.isascii() and "_" not in text else math.nan
    except ValueError:
        value = math.nan
    if not abs(value) <= LARGEST:
        raise VehicleError(f"{where} = {shown(text)}: expected a finite number, at most {LARGEST:g} in size")
    return value


@contextmanager
def computable(origin: str) -> Iterator[None]:
    """Arithmetic on a file's numbers: what is too large or too small for it is one sentence"""
    try:
        yield
    except ArithmeticError:
        raise VehicleError(
            f"{origin}: has numbers that multiply to nothing or without end; expected an aircraft's"
        ) from None


def positive(value: float, where: str, unit: str = "") -> float:
    """A positive number, or a VehicleError"""
    if not value > 0.0:
        raise VehicleError(f"{where} = {value:g}{unit and f' {unit}'}: expected a positive number")
    return value
