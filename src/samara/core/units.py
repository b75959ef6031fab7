"""Units that files may use beside SI's: each number becomes that of its quantity."""

import math
from collections.abc import Callable
from typing import Any

from samara.core.argument import UnfitError
from samara.core.quantity import expected

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


def units_for(unit: str) -> list[str]:
    """The units in which a quantity of this one may be given, itself first"""
    return [unit, *(other for other, into in CONVERSIONS if into == unit)]


def converted(value: Any, unit: str, quantity: Any) -> float:
    """A number given in a unit, in that of its quantity; UnfitError says what was expected"""
    if wanted := expected(value, quantity):
        raise UnfitError(wanted)
    return CONVERSIONS.get((unit, quantity.unit), float)(value)
