"""Read untrusted XML and parameter files without executing, fetching or expanding anything; report errors in one sentence.

Document types, and with them entities, are rejected (defusedxml), and so are files larger than 16 MB and numbers that
are not finite. An `XmlNode` is an element with its file name and its location in the file, for error messages.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element, ParseError

from samara.core.budget import MAX_TEXT_BYTES, Budget, read_bytes
from samara.core.quantity import MAX_MAGNITUDE
from samara.core.sanitise import quote_value
from samara.vehicles.check import VehicleError

MAX_XML_NODES = 200_000  # tags and attributes, summed over all files
MAX_XML_DEPTH = 40  # nested elements; real files have ten
MAX_INCLUDES = 100
MAX_LINKS = 2000  # rigid bodies of one aircraft


class XmlNode:
    """An element of an XML file, with the name of the file and its ancestors for error messages."""

    def __init__(self, element: Element, origin: str, ancestors: tuple[str, ...] = ()) -> None:
        self.element, self.origin = element, origin
        name = element.get("name")
        label = f"{element.tag} {quote_value(name)}" if name is not None else str(element.tag)
        self.ancestors = (*ancestors[-3:], label)

    @property
    def location(self) -> str:
        """Location in the file: the element and its three nearest ancestors."""
        return "/".join(self.ancestors)

    @property
    def tag(self) -> str:
        return str(self.element.tag)

    @property
    def name(self) -> str:
        """The attribute `name`; an error without one, because nothing could refer to the element."""
        return self.attribute("name")

    def attribute(self, key: str, default: str | None = None) -> str:
        value = self.element.get(key, default)
        if value is None:
            raise self.error(f"has no attribute {key}: expected one")
        return value

    def has(self, key: str) -> bool:
        return key in self.element.attrib

    def children(self, *tags: str) -> Iterator["XmlNode"]:
        """Iterate over the children with these tags, or over all, in the file's order."""
        return (
            XmlNode(element, self.origin, self.ancestors) for element in self.element if not tags or element.tag in tags
        )

    def child(self, tag: str) -> "XmlNode | None":
        return next(self.children(tag), None)

    def require_child(self, tag: str) -> "XmlNode":
        child = self.child(tag)
        if child is None:
            raise self.error(f"has no <{tag}>: expected one")
        return child

    def text(self, tag: str, default: str | None = None) -> str:
        """Return the text of a child."""
        child = self.child(tag)
        if child is None:
            if default is None:
                raise self.error(f"has no <{tag}>: expected one")
            return default
        return (child.element.text or "").strip()

    def number(self, tag: str, default: float | None = None) -> float:
        """Return the text of a child as a number."""
        child = self.child(tag)
        if child is None and default is not None:
            return default
        return self.require_child(tag).parse_numbers(self.text(tag), 1)[0]

    def attribute_number(self, key: str, default: float | None = None) -> float:
        if default is not None and not self.has(key):
            return default
        return self.parse_numbers(self.attribute(key), 1, key)[0]

    def parse_numbers(self, text: str, count: int, key: str = "") -> tuple[float, ...]:
        """Parse `count` finite numbers, separated by white space."""
        try:
            numbers = tuple(float(word) for word in text.split())
        except ValueError:
            numbers = ()
        if len(numbers) != count or "_" in text or not all(math.isfinite(value) for value in numbers):
            requirement = "a finite number" if count == 1 else f"{count} finite numbers"
            raise self.error(f"{f'{key} ' if key else ''}= {quote_value(text)}: expected {requirement}")
        return numbers

    def error(self, message: str) -> VehicleError:
        """Create an error with one sentence about this element."""
        return VehicleError(f"{self.origin}: {self.location} {message}")


def xml_budget(origin: object, max_nodes: int = MAX_XML_NODES) -> Budget:
    """Limits for one aircraft in XML, including the files it includes."""
    return Budget(
        origin,
        VehicleError,
        max_bytes=MAX_TEXT_BYTES,
        max_nodes=max_nodes,
        max_depth=MAX_XML_DEPTH,
        max_expansions=MAX_INCLUDES,
    )


def read_xml(path: Path, origin: str | None = None, budget: Budget | None = None) -> XmlNode:
    """Return the root of an XML file; the origin of a file called model.sdf includes its folder's name.

    An included file spends from the budget of the file that includes it.
    """
    file_label = f"{path.resolve().parent.name}/{path.name}" if path.stem == "model" else path.name
    if budget is not None:
        budget.expand(1, "included files")
    return parse_xml(read_limited(path), origin or file_label, budget)


def read_limited(path: Path) -> bytes:
    """Read a regular file of at most 16 MB; raise VehicleError for any other."""
    try:
        if path.is_file() and path.stat().st_size > MAX_TEXT_BYTES:
            raise OSError(f"it is larger than {MAX_TEXT_BYTES >> 20} MB")
        return read_bytes(path, MAX_TEXT_BYTES)
    except OSError as error:
        reason = error.strerror or str(error)
        raise VehicleError(f"{path}: cannot be read, {reason}: expected a file of at most 16 MB") from None


def parse_xml(data: bytes, origin: str, budget: Budget | None = None) -> XmlNode:
    """Return the root of an XML text; raise VehicleError if it is invalid or has a document type (entity expansion)."""
    from defusedxml import DefusedXmlException
    from defusedxml.ElementTree import fromstring

    budget = budget or xml_budget(origin)
    budget.spend_bytes(len(data))
    budget.spend_nodes(data.count(b"<") + data.count(b"="), "elements")
    try:
        root: Any = fromstring(data, forbid_dtd=True)
    except DefusedXmlException:
        raise VehicleError(
            f"{origin}: has a document type, whose entities can expand or fetch files: expected XML without one"
        ) from None
    except (ParseError, ValueError, LookupError) as error:
        raise VehicleError(f"{origin}: is not XML, {error}: expected a file that an XML parser reads") from None
    layer, depth = [root], 0
    while layer:
        layer, depth = [child for element in layer for child in element], depth + 1
        budget.require_depth(depth, "elements")
    return XmlNode(root, origin)


def read_utf8(path: str | Path) -> str:
    """Read a UTF-8 text file; raise VehicleError if it cannot be read, is too large or is not text."""
    try:
        text = read_limited(Path(path)).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise VehicleError(f"{path}: is not UTF-8 text (byte {error.start}); expected a list of parameters") from None
    if "\0" in text:
        raise VehicleError(f"{path}: contains a zero byte; expected a text")
    return text


def require_finite(value: object, path: str) -> float:
    """Return a finite number; raise VehicleError for NaN, infinity, texts and booleans."""
    if isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) <= MAX_MAGNITUDE:
        return float(value)
    raise VehicleError(
        f"{path} = {quote_value(value)}: expected a finite number, at most {MAX_MAGNITUDE:g} in magnitude"
    )


def parse_number(text: str, path: str) -> float:
    """Parse a finite number."""
    try:
        value = float(text) if text.isascii() and "_" not in text else math.nan
    except ValueError:
        value = math.nan
    if not abs(value) <= MAX_MAGNITUDE:
        raise VehicleError(
            f"{path} = {quote_value(text)}: expected a finite number, at most {MAX_MAGNITUDE:g} in magnitude"
        )
    return value


@contextmanager
def guard_arithmetic(origin: str) -> Iterator[None]:
    """Report overflow and underflow in arithmetic on a file's values as a VehicleError."""
    try:
        yield
    except ArithmeticError:
        raise VehicleError(
            f"{origin}: has values that overflow or divide by zero; expected those of an aircraft"
        ) from None


def require_positive(value: float, path: str, unit: str = "") -> float:
    """Return a positive number; raise VehicleError for any other."""
    if not value > 0.0:
        raise VehicleError(f"{path} = {value:g}{unit and f' {unit}'}: expected a positive number")
    return value
