"""Numbers as parameters and logs have them: a type has a code in each of the two tables, and a layout."""

import math
import struct
from typing import NamedTuple


class Kind(NamedTuple):
    """A type of number: its code in the table of logs and in that of parameters (−1: not there), and its layout."""

    log: int
    parameter: int
    layout: struct.Struct
    least: float = -math.inf
    most: float = math.inf

    @property
    def whole(self) -> bool:
        """Whether it counts"""
        return math.isfinite(self.most)


def _whole(log: int, parameter: int, letter: str) -> Kind:
    layout = struct.Struct("<" + letter)
    bits = 8 * layout.size
    low, high = (0, 2**bits - 1) if letter.isupper() else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    return Kind(log, parameter, layout, low, high)


U8, U16, U32 = _whole(1, 0x08, "B"), _whole(2, 0x09, "H"), _whole(3, 0x0A, "I")
I8, I16, I32 = _whole(4, 0x00, "b"), _whole(5, 0x01, "h"), _whole(6, 0x02, "i")
FLOAT, HALF = Kind(7, 0x06, struct.Struct("<f")), Kind(8, 0x05, struct.Struct("<e"))
LOGGED = {kind.log: kind for kind in (U8, U16, U32, I8, I16, I32, FLOAT, HALF)}


def packed(value: float, kind: Kind) -> bytes:
    """The number's bytes; of a type that is too narrow the nearest it has, and 0 for one that is not a number"""
    if kind.whole:
        return kind.layout.pack(0 if math.isnan(value) else int(min(max(value, kind.least), kind.most)))
    try:
        return kind.layout.pack(value)
    except OverflowError:
        return kind.layout.pack(math.copysign(math.inf, value))
