"""sin, cos, tan, asin, acos, atan, atan2, exp, log and power of NumPy arrays, by the compiled code's own formulas.

NumPy's own choose their code by the processor's vector registers, and differ in their last bits. Here the formulas of
`llvm_math` run on arrays instead of registers, with + − × ÷ √ alone: the same bits as in compiled code, on every processor.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from samara.core.llvm_math import FAR, FOR_DOUBLE, FOR_SINGLE, FUNCTIONS, TURNING, Lanes
from samara.core.types import Array

_BLOCK = 1 << 12  # numbers worked on at once: what is between them stays in the cache
_HALF_POWERS: dict[float, Callable[[Any], Any]] = {
    0.5: lambda x: np.sqrt(x),
    1.5: lambda x: x * np.sqrt(x),
    -0.5: lambda x: 1.0 / np.sqrt(x),
}


class Numbers(Lanes):
    """An array with the operators of `Lanes`: of doubles, of 64-bit integers or of conditions."""

    def __init__(self, value: Array) -> None:
        self.value = value

    def _made(self, value: Array) -> "Numbers":
        return Numbers(value)

    def like(self, x: Any) -> "Numbers":
        return x if isinstance(x, Numbers) else Numbers(self.value.dtype.type(x))

    def _either(self, on_doubles: str, on_integers: str, x: Any) -> "Numbers":
        return Numbers(self.value + self.like(x).value if on_integers == "add" else self.value - self.like(x).value)

    def __mul__(self, x: Any) -> "Numbers":
        return Numbers(self.value * self.like(x).value)

    def __truediv__(self, x: Any) -> "Numbers":
        return Numbers(self.value / self.like(x).value)

    def __and__(self, x: Any) -> "Numbers":
        return Numbers(self.value & self.like(x).value)

    def __or__(self, x: Any) -> "Numbers":
        return Numbers(self.value | self.like(x).value)

    def __xor__(self, x: Any) -> "Numbers":
        return Numbers(self.value ^ self.like(x).value)

    def __lshift__(self, places: int) -> "Numbers":
        return Numbers(self.value << self.like(places).value)

    def __rshift__(self, places: int) -> "Numbers":
        return Numbers(self.value >> self.like(places).value)

    def __lt__(self, x: Any) -> "Numbers":
        return Numbers(self.value < self.like(x).value)

    def __gt__(self, x: Any) -> "Numbers":
        return Numbers(self.value > self.like(x).value)

    def equals(self, x: Any) -> "Numbers":
        return Numbers(self.value == self.like(x).value)

    def is_nan(self) -> "Numbers":
        return Numbers(np.isnan(self.value))

    def where(self, a: Any, b: Any) -> "Numbers":
        return Numbers(np.where(self.value, a.value, a.like(b).value))

    def bits(self) -> "Numbers":
        return Numbers(np.asarray(self.value).view(np.uint64))

    def double(self) -> "Numbers":
        return Numbers(np.asarray(self.value).view(np.float64))

    def negative(self) -> "Numbers":
        return Numbers(np.signbit(self.value))

    def sqrt(self) -> "Numbers":
        return Numbers(np.sqrt(self.value))

    def floor(self) -> "Numbers":
        return Numbers(np.floor(self.value))


def elementary(name: str, *values: Any) -> Any:
    """f(values) of arrays or NumPy's numbers, of single precision where all arrays are"""
    kind = np.result_type(*values, np.float32)
    if kind not in (np.float32, np.float64):
        raise TypeError(f"{name} of {kind}: expected real numbers")
    if name == "power" and np.ndim(values[1]) == 0 and float(values[1]) in _HALF_POWERS:
        with np.errstate(all="ignore"):
            return _HALF_POWERS[float(values[1])](np.asarray(values[0], dtype=kind) + kind.type(0.0))[()]
    arrays = np.broadcast_arrays(*values)
    flat = [own.astype(np.float64).reshape(-1) for own in arrays]
    found = np.empty(arrays[0].size, dtype=kind)
    for first in range(0, found.size, _BLOCK):
        block = slice(first, first + _BLOCK)
        found[block] = _block(name, [own[block] for own in flat], kind)
    return found.reshape(arrays[0].shape)[()]


def _block(name: str, flat: list[Array], kind: Any) -> Array:
    with np.errstate(all="ignore"):
        found = FUNCTIONS[name](*map(Numbers, flat), FOR_SINGLE if kind == np.float32 else FOR_DOUBLE).value
        if name in TURNING:
            for at in np.flatnonzero(np.abs(flat[0]) > FAR):
                x = float(flat[0][at])
                found[at] = getattr(math, name)(x) if math.isfinite(x) else math.nan
        return np.asarray(found, dtype=kind)
