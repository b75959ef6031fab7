"""Truncated Taylor series in time: scalars that carry their derivatives through any equation.

x(t + h) = x₀ + x₁ h + … + xₙ hⁿ + O(hⁿ⁺¹). `samara.core.ops` supports this scalar, so the physics evaluated on series gives the
series of its result: exact derivatives, of drag as of anything else, without a second version of the equation. A. Griewank,
A. Walther, "Evaluating Derivatives", SIAM 2008, chapter 13. Coefficients are floats or NumPy arrays.
"""

import math
from collections.abc import Sequence

from samara.core import ops
from samara.core.quantity import Scalar


class Series:
    """Taylor coefficients x₀, x₁, …; the result of an operation is as long as its shortest operand."""

    __slots__ = ("coefficients",)
    __array_ufunc__ = None  # `array * series` must reach __rmul__
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, coefficients: Sequence[Scalar]) -> None:
        self.coefficients = tuple(coefficients)

    def __len__(self) -> int:
        return len(self.coefficients)

    def __repr__(self) -> str:
        return f"Series({list(self.coefficients)})"

    @property
    def value(self) -> Scalar:
        """x(t)"""
        return self.coefficients[0]

    @property
    def rate(self) -> "Series":
        """ẋ: one coefficient fewer"""
        return Series([k * x for k, x in enumerate(self.coefficients[1:], start=1)])

    def derivative(self, order: int) -> Scalar:
        """dⁿx/dtⁿ at t"""
        return math.factorial(order) * self.coefficients[order]

    def __add__(self, other: Scalar) -> "Series":
        if not isinstance(other, Series):
            return Series((self.value + other, *self.coefficients[1:]))
        return Series([a + b for a, b in zip(self.coefficients, other.coefficients, strict=False)])

    def __radd__(self, other: Scalar) -> "Series":
        return self + other

    def __neg__(self) -> "Series":
        return Series([-x for x in self.coefficients])

    def __sub__(self, other: Scalar) -> "Series":
        return self + -other

    def __rsub__(self, other: Scalar) -> "Series":
        return -self + other

    def __mul__(self, other: Scalar) -> "Series":
        """cₖ = Σ aⱼ bₖ₋ⱼ"""
        if not isinstance(other, Series):
            return Series([x * other for x in self.coefficients])
        a, b = self.coefficients, other.coefficients
        return Series([_product(a, b, k) for k in range(min(len(a), len(b)))])

    def __rmul__(self, other: Scalar) -> "Series":
        return self * other

    def __truediv__(self, other: Scalar) -> "Series":
        """cₖ = (aₖ − Σⱼ₌₁ bⱼ cₖ₋ⱼ) / b₀"""
        if not isinstance(other, Series):
            return Series([x / other for x in self.coefficients])
        a, b = self.coefficients, other.coefficients
        c: list[Scalar] = []
        for k in range(min(len(a), len(b))):
            c.append((a[k] - _product(b, c, k, first=1)) / b[0])
        return Series(c)

    def __rtruediv__(self, other: Scalar) -> "Series":
        return _constant(other, len(self)) / self

    def __pow__(self, exponent: float) -> "Series":
        """k a₀ cₖ = Σⱼ₌₁ (r j − k + j) aⱼ cₖ₋ⱼ, for a₀ ≠ 0"""
        a = self.coefficients
        c: list[Scalar] = [ops.power(a[0], exponent)]
        for k in range(1, len(a)):
            total: Scalar = 0.0
            for j in range(1, k + 1):
                total = total + (exponent * j - (k - j)) * a[j] * c[k - j]
            c.append(total / (k * a[0]))
        return Series(c)

    def __lt__(self, other: Scalar) -> Scalar:
        return self.value < _value(other)

    def __le__(self, other: Scalar) -> Scalar:
        return self.value <= _value(other)

    def __gt__(self, other: Scalar) -> Scalar:
        return self.value > _value(other)

    def __ge__(self, other: Scalar) -> Scalar:
        return self.value >= _value(other)


def time_series(time: Scalar, order: int) -> Series:
    """t + h, to order n"""
    return Series([time, 1.0, *[0.0] * (order - 1)])


def series_from_derivatives(derivatives: Sequence[Scalar]) -> Series:
    """xₖ = x⁽ᵏ⁾ / k!"""
    return Series([x / math.factorial(k) for k, x in enumerate(derivatives)])


def compose_series(outer: Sequence[Scalar], inner: Series) -> Series:
    """Σ cₖ (s − s₀)ᵏ: the series of f(s(t)) from that of f about s₀"""
    step = Series((0.0, *inner.coefficients[1:]))
    total = _constant(outer[-1], len(inner))
    for coefficient in reversed(outer[:-1]):
        total = total * step + coefficient
    return total


def _product(a: Sequence[Scalar], b: Sequence[Scalar], k: int, first: int = 0) -> Scalar:
    """Σⱼ aⱼ bₖ₋ⱼ from j = first on; a literal 0 is skipped"""
    total: Scalar = 0.0
    for j in range(first, k + 1):
        if not (_is_zero(a[j]) or _is_zero(b[k - j])):
            total = total + a[j] * b[k - j]
    return total


def _is_zero(x: Scalar) -> bool:
    return type(x) is float and x == 0.0


def _value(x: Scalar) -> Scalar:
    return x.value if isinstance(x, Series) else x


def _constant(value: Scalar, length: int) -> Series:
    return Series((value, *[0.0] * (length - 1)))


# Operations required by `samara.core.ops` -------------------------------------------------------------------------------


def sqrt(x: Series) -> Series:
    """cₖ = (xₖ − Σ₀﹤ⱼ﹤ₖ cⱼ cₖ₋ⱼ) / 2c₀"""
    c: list[Scalar] = [ops.sqrt(x.value)]
    for k in range(1, len(x)):
        c.append((x.coefficients[k] - _product([*c, 0.0], c, k, first=1)) / (2.0 * c[0]))
    return Series(c)


def _sine_and_cosine(x: Series) -> tuple[Series, Series]:
    """k sₖ = Σ j xⱼ cₖ₋ⱼ,  k cₖ = −Σ j xⱼ sₖ₋ⱼ"""
    slope = [0.0, *(j * coefficient for j, coefficient in enumerate(x.coefficients[1:], start=1))]
    s, c = [ops.sin(x.value)], [ops.cos(x.value)]
    for k in range(1, len(x)):
        next_s, next_c = _product(slope, c, k, first=1) / k, -_product(slope, s, k, first=1) / k
        s.append(next_s)
        c.append(next_c)
    return Series(s), Series(c)


def sin(x: Series) -> Series:
    """sin x"""
    return _sine_and_cosine(x)[0]


def cos(x: Series) -> Series:
    """cos x"""
    return _sine_and_cosine(x)[1]


def exp(x: Series) -> Series:
    """k eₖ = Σ j xⱼ eₖ₋ⱼ"""
    slope = [0.0, *(j * coefficient for j, coefficient in enumerate(x.coefficients[1:], start=1))]
    e = [ops.exp(x.value)]
    for k in range(1, len(x)):
        e.append(_product(slope, e, k, first=1) / k)
    return Series(e)


def atan2(y: Scalar, x: Scalar) -> Series:
    """∠(x, y), its rate (x ẏ − y ẋ) / (x² + y²)"""
    length = min(len(operand) for operand in (y, x) if isinstance(operand, Series))
    y, x = (operand if isinstance(operand, Series) else _constant(operand, length) for operand in (y, x))
    rate = (x * y.rate - y * x.rate) / (x * x + y * y)
    return Series(
        (ops.atan2(y.value, x.value), *(operand / (k + 1) for k, operand in enumerate(rate.coefficients[: length - 1])))
    )


def floor(x: Series) -> Series:
    """⌊x⌋, a constant between its steps"""
    return _constant(ops.floor(x.value), len(x))


def equal(a: Scalar, b: Scalar) -> Scalar:
    """a = b at t"""
    return ops.equal(_value(a), _value(b))


def where(condition: Scalar, a: Scalar, b: Scalar) -> Series:
    """a if condition else b, coefficient by coefficient"""
    length = min(len(operand) for operand in (a, b) if isinstance(operand, Series))
    a, b = (operand if isinstance(operand, Series) else _constant(operand, length) for operand in (a, b))
    coefficients = (ops.where(condition, p, q) for p, q in zip(a.coefficients, b.coefficients, strict=False))
    return Series(list(coefficients))
