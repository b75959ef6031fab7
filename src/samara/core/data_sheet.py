"""Tables whose values stand as `{ value, unit, source, spread }`; source and spread may be left out.

The spread is one standard deviation as a fraction of the value, or of the largest of its numbers: 0.08 is ± 8 %.

What a table may hold, in which unit and of which sign, is read from the record it becomes: a named tuple of `Annotated` fields.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from samara.core.algebra import Vec3
from samara.core.argument import UnfitError
from samara.core.printable import shown
from samara.core.toml import Table
from samara.core.units import SPELLINGS, converted, fields_of, units_for

QUANTITY = "{ value, unit, source }"  # what most files have; a spread may stand beside them


class DataSheet(Table):
    """A table of values with their units, which notes their sources."""

    def noted(self, read: Callable[[], Any], otherwise: Any) -> Any:
        """What is read; or what is wrong noted, and reading goes on with something else"""
        try:
            return read()
        except self.file.error as error:
            self.file.note(error)
            return otherwise

    def quantity(self, key: str, unit: str) -> tuple[Any, str]:
        """The bare value and the unit it is given in: the one asked for or a convertible one"""
        whole = self.take(key, QUANTITY)
        if not isinstance(whole, dict):
            raise self.error(key, whole, QUANTITY)
        entry = Table(whole, self.file, self.name(key))
        value, given, source = entry.take("value", "a number or numbers"), entry.text("unit"), entry.text("source", "")
        if "spread" in entry:
            self.file.spreads.append((self.name(key), entry.number("spread", above=0.0)))
        entry.finish()
        given = SPELLINGS.get(given, given)
        if source:
            self.file.sources.append((self.name(key), source))
        if given not in units_for(unit):
            known = " or ".join(repr(each) for each in units_for(unit))
            raise self.wrong(f" has the unit {shown(given)}: expected {known}", key)
        return value, given

    def converted(self, key: str, value: Any, given: str, quantity: Any) -> float:
        """A number of a key's value, in SI units"""
        try:
            return converted(value, given, quantity)
        except UnfitError as error:
            unit = "" if given == "1" else f" {given}"
            raise self.wrong(f" = {shown(value)}{unit}: expected {error}", key) from None

    def value(self, key: str, quantity: Any) -> float:
        return self.converted(key, *self.quantity(key, quantity.unit), quantity)

    def values(self, key: str, quantity: Any, count: int | None = None) -> tuple[float, ...]:
        value, given = self.quantity(key, quantity.unit)
        if not isinstance(value, list) or (count is not None and len(value) != count):
            raise self.error(key, value, f"{count if count is not None else 'a list of'} numbers")
        return tuple(self.converted(key, each, given, quantity) for each in value)

    def three_values(self, key: str, quantity: Any) -> Vec3:
        return Vec3(*self.values(key, quantity, 3))

    def record(self, kind: type[Any]) -> Any:
        """A named tuple whose fields are the table's keys, each with the unit and sign its annotation declares"""
        values = self.fields(kind)
        self.finish()
        return kind(**values)

    def fields(self, kind: type[Any], lacking: bool = False) -> dict[str, Any]:
        """The fields of a record that the table has; the others must have defaults, unless some may be lacking"""
        values: dict[str, Any] = {}
        for key, own in fields_of(kind).items():
            if key not in self and (lacking or key in kind._field_defaults):
                continue
            read: Callable[..., Any] = (
                self.three_values if own.numbers == 3 else self.value if own.numbers else self.values
            )
            values[key] = self.noted(partial(read, key, own.quantity), None)
        return values
