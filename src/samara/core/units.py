"""Quantities in files: the accepted units besides SI, and the fields of a record with the quantity of each."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple, get_args, get_origin, get_type_hints

from samara.core.algebra import Vec3
from samara.core.coerce import InvalidValueError
from samara.core.quantity import FileKey, Quantity, Unit, violated_requirement

_G, _DEGREE = 9.80665, math.pi / 180.0
CONVERSIONS: dict[tuple[str, str], Callable[[float], float]] = {
    ("g", "kg"): lambda x: x / 1e3,
    ("lb", "kg"): lambda x: 0.45359237 * x,
    ("mm", "m"): lambda x: x / 1e3,
    ("cm", "m"): lambda x: x / 1e2,
    ("inch", "m"): lambda x: 0.0254 * x,
    ("g mm^2", "kg m^2"): lambda x: x / 1e9,
    ("g cm^2", "kg m^2"): lambda x: x / 1e7,
    ("kg mm^2", "kg m^2"): lambda x: x / 1e6,
    ("kg cm^2", "kg m^2"): lambda x: x / 1e4,
    ("g m^2", "kg m^2"): lambda x: x / 1e3,
    ("g mm", "kg m"): lambda x: x / 1e6,
    ("g", "m/s^2"): lambda x: x * _G,
    ("mg", "m/s^2"): lambda x: x * (1e-3 * _G),
    ("ug", "m/s^2"): lambda x: x * (1e-6 * _G),
    ("ug/sqrt(Hz)", "m/s^2/sqrt(Hz)"): lambda x: x * (1e-6 * _G),
    ("deg", "rad"): math.radians,
    ("deg/s", "rad/s"): math.radians,
    ("deg/h", "rad/s"): lambda x: x * (_DEGREE / 3600.0),
    ("rpm", "rad/s"): lambda x: x * 2.0 * math.pi / 60.0,
    ("deg/s/sqrt(Hz)", "rad/s/sqrt(Hz)"): math.radians,
    ("mdeg/s/sqrt(Hz)", "rad/s/sqrt(Hz)"): lambda x: x * (1e-3 * _DEGREE),
    ("N/rpm^2", "N s^2/rad^2"): lambda x: x * (60.0 / (2.0 * math.pi)) ** 2,
    ("N m/rpm^2", "N m s^2/rad^2"): lambda x: x * (60.0 / (2.0 * math.pi)) ** 2,
    ("ms", "s"): lambda x: x / 1e3,
    ("A h", "C"): lambda x: 3600.0 * x,
    ("mA h", "C"): lambda x: 3.6 * x,
    ("mA", "A"): lambda x: x / 1e3,
    ("mV", "V"): lambda x: x / 1e3,
    ("mohm", "ohm"): lambda x: x / 1e3,
    ("rpm/V", "N m/A"): lambda kv: 60.0 / (2.0 * math.pi * kv),
    ("uT", "T"): lambda x: x * 1e-6,
    ("hPa", "Pa"): lambda x: x * 100.0,
    ("%", "1"): lambda x: x / 1e2,
}
SPELLINGS = {
    "in": "inch",
    '"': "inch",
    "mAh": "mA h",
    "Ah": "A h",
    "Ohm": "ohm",
    "mOhm": "mohm",
    "Ω": "ohm",
    "mΩ": "mohm",
    "°": "deg",
}


def accepted_units(unit: str) -> list[str]:
    """Return the units in which a quantity with this SI unit may be written, the SI unit first."""
    return [unit, *(alternative for alternative, target in CONVERSIONS if target == unit)]


def convert_to_si(value: Any, unit: str, quantity: Any) -> float:
    """Convert a number from `unit` to the unit of its quantity; InvalidValueError states the expected value."""
    if requirement := violated_requirement(value, quantity):
        raise InvalidValueError(requirement)
    return CONVERSIONS.get((unit, quantity.unit), float)(value)


class RecordField(NamedTuple):
    """The form of a record's field in a file: its key, and one number, a vector of 3, or (0) a list of any length."""

    length: int
    quantity: Any
    is_direction: bool = False
    key: str = ""


def record_fields(record_type: type[Any]) -> dict[str, RecordField]:
    """Return the fields of a record as their annotations declare them."""
    fields = {}
    for name, hint in get_type_hints(record_type, include_extras=True).items():
        if get_origin(hint) is tuple:
            fields[name] = RecordField(0, get_args(get_args(hint)[0])[1], key=name)
            continue
        base, quantity, *annotations = get_args(hint)
        key = next((note.name for note in annotations if isinstance(note, FileKey)), name)
        if isinstance(quantity, Unit):
            fields[name] = RecordField(3, Quantity("1", -1.0, 1.0), True, key)
        else:
            length = 3 if base is Vec3 else 0 if get_origin(base) is tuple else 1
            fields[name] = RecordField(length, quantity, key=key)
    return fields
