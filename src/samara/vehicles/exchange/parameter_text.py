"""Files of other programs that are lists of parameters: text of a sensible size, and numbers that are numbers."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from samara.core.quantity import LARGEST
from samara.core.sanitise import shown
from samara.vehicles.check import VehicleError
from samara.vehicles.exchange.safe_xml import read_limited


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
