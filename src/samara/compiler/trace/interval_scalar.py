"""Intervals: the bounds of a function whose arguments lie between bounds.

    low ≤ x ≤ high  for every argument, then  f(x) ≤ f(Interval(low, high)).high

The bounds follow the function's own operations, + − ×, one by one. Rounding preserves order (a ≤ b gives fl(a) ≤ fl(b)), so
they hold to the last bit for what the function computes in floating point.
"""

from dataclasses import dataclass
from typing import Any

from samara.core.ops import where
from samara.core.tree import flatten, unflatten


@dataclass(frozen=True, eq=False)
class Interval:
    """All numbers from `low` to `high`, scalars of any kind."""

    low: Any
    high: Any

    def __neg__(self) -> "Interval":
        return Interval(-self.high, -self.low)

    def __add__(self, other: Any) -> "Interval":
        other = _interval(other)
        return Interval(self.low + other.low, self.high + other.high)

    def __radd__(self, other: Any) -> "Interval":
        return _interval(other) + self

    def __sub__(self, other: Any) -> "Interval":
        other = _interval(other)
        return Interval(self.low - other.high, self.high - other.low)

    def __rsub__(self, other: Any) -> "Interval":
        return _interval(other) - self

    def __mul__(self, other: Any) -> "Interval":
        if other is self:
            return self._square()
        if isinstance(other, (int, float)):
            ends = self.low * other, self.high * other
            return Interval(*ends) if other >= 0 else Interval(*reversed(ends))
        other = _interval(other)
        a, b, c, d = (x * y for x in (self.low, self.high) for y in (other.low, other.high))
        return Interval(_smaller(_smaller(a, b), _smaller(c, d)), _larger(_larger(a, b), _larger(c, d)))

    def __rmul__(self, other: Any) -> "Interval":
        return self * other

    def _square(self) -> "Interval":
        nearest = where(self.low > 0.0, self.low, where(self.high < 0.0, self.high, 0.0))
        return Interval(nearest * nearest, _larger(self.low * self.low, self.high * self.high))


def intervals(low: Any, high: Any) -> Any:
    """A nested tuple of intervals, between the leaves of two"""
    return unflatten(low, iter([Interval(a, b) for a, b in zip(flatten(low), flatten(high), strict=True)]))


def _interval(x: Any) -> Interval:
    return x if isinstance(x, Interval) else Interval(x, x)


def _smaller(a: Any, b: Any) -> Any:
    return where(a < b, a, b)


def _larger(a: Any, b: Any) -> Any:
    return where(a > b, a, b)
