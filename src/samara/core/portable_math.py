"""sin, cos, tan, asin, acos, atan, atan2, exp, log and power, bit-identical everywhere and within 2 ulp of the exact value.

NumPy and C choose their code by the processor and differ in the last bits. Here every function is a range reduction and a
minimax polynomial (found by Remez exchange, relative error of the whole function) by + − × ÷ √ in strict IEEE double precision
without fused operations, so that a result has the same bits at every vector width and on every host. Single precision is
computed in double with shorter polynomials, and is correctly rounded in all but one result in a thousand.

The formulas are written for `SimdVector`, a vector of any backend. `elementary` computes them on NumPy arrays;
`samara.compiler.llvm.math` emits them as vector code.
"""

import math
import operator
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from samara.core.types import Array

MAX_REDUCED_ANGLE_RAD = 1e4  # beyond it n·π/2 in three parts would no longer be exact

SIGN = 1 << 63
MANTISSA = (1 << 52) - 1
UPPER_HALF = SIGN | 0x7FFFFFFFF8000000  # sign, exponent and 26 bits of the mantissa: their products are exact
ROUNDER = 1.5 * 2.0**52  # x + ROUNDER has the integer nearest to x in its low bits
SQRT_HALF_BITS = 0x3FE6A09E667F3BCD
ONE_BITS = 0x3FF0000000000000
EXPONENT_OF_2_52 = 0x4330000000000000

# π/2 is the sum of three parts, the first two so short that n times them is exact for n < 2¹³; single precision adds the last
# two first. Below, each angle is the nearest double and its rounding error.
TWO_OVER_PI = 0.6366197723675814
HALF_PI_PARTS = (1.5707963267941523, 7.443547480480255e-13, 6.36831716351095e-25)
QUARTER_PI = (0.7853981633974483, 3.061616997868383e-17)
HALF_PI = (1.5707963267948966, 6.123233995736766e-17)
THREE_QUARTER_PI = (2.356194490192345, 9.184850993605148e-17)
PI = (3.141592653589793, 1.2246467991473532e-16)
LOG2_E = 1.4426950408889634
LN_2 = (0.6931471805582987, 1.6465949582897082e-12)  # the first has 38 bits: n times it is exact
TWO_THIRDS = (0.6666666666666666, 3.700743415417188e-17)
TWO_FIFTHS = (0.4, -2.220446049250313e-17)


class PolynomialCoefficients(NamedTuple):
    """The polynomials, lowest power first; the comment is the largest error relative to the function approximated."""

    sin: tuple[float, ...]  # (sin r / r − 1) / r²  in r², |r| ≤ π/4
    cos: tuple[float, ...]  # (cos r − 1 + r²/2) / r⁴  in r², |r| ≤ π/4
    exp: tuple[float, ...]  # (eʳ − 1 − r) / r²  in r, |r| ≤ ln 2 / 2
    log: tuple[float, ...]  # (2 atanh s / s − 2) / s²  in s², |s| ≤ (√2 − 1)/(√2 + 1)
    asin: tuple[float, ...]  # (asin x / x − 1) / x²  in x², |x| ≤ ½
    atan: tuple[float, ...]  # (atan x / x − 1) / x²  in x², |x| ≤ ½


SINGLE_COEFFICIENTS = PolynomialCoefficients(
    sin=(-0.16666666641593417, 0.008333329381643554, -0.00019839333398295292, 2.7182973317313685e-06),  # 2^-37.6
    cos=(0.04166666662277375, -0.00138888837493761, 2.4799519017279066e-05, -2.721015689460446e-07),  # 2^-42.7
    exp=(
        *(0.5000000077842065, 0.1666666686336177, 0.04166627013743726),
        *(0.00833326376754467, 0.0013946060307079278, 0.00019918689249485074),
    ),  # 2^-34.3
    log=(0.6666666564571188, 0.40000335150736815, 0.28537310154477386, 0.23582134022422568),  # 2^-37.6
    asin=(
        *(0.16666659873961578, 0.07500510809773982, 0.04451573950831687),
        *(0.03181746388139877, 0.01440311174352232, 0.03756456534388646),
    ),  # 2^-31.7
    atan=(
        *(-0.33333327087321646, 0.19999499100420173, -0.1427224954701607),
        *(0.10942358621282429, -0.07989089838737211, 0.0387915341009115),
    ),  # 2^-31.9
)
DOUBLE_COEFFICIENTS = PolynomialCoefficients(
    sin=(
        *(-0.16666666666666632, 0.008333333333322403, -0.00019841269829798183),
        *(2.7557313688333966e-06, -2.505075752419975e-08, 1.589675992923586e-10),
    ),  # 2^-57.2
    cos=(
        *(0.0416666666666666, -0.0013888888888874112, 2.4801587289473897e-05),
        *(-2.7557314349813525e-07, 2.0875722915205194e-09, -1.1359628501755321e-11),
    ),  # 2^-59.4
    exp=(
        *(0.5, 0.16666666666666685, 0.04166666666666673, 0.008333333333316756),
        *(0.0013888888888858605, 0.00019841269897015996, 2.4801587373570963e-05, 2.755723427911997e-06),
        *(2.7557233430716344e-07, 2.5112225216027107e-08, 2.0926935120028014e-09),
    ),  # 2^-60.4
    log=(
        *(0.6666666666666734, 0.3999999999941461, 0.2857142874241855, 0.22222198569102655),
        *(0.18183564569527247, 0.1531404375603841, 0.14796021902244025),
    ),  # 2^-59.0
    asin=(
        *(0.16666666666666763, 0.07499999999970279, 0.04464285717510752, 0.030381942684161493),
        *(0.022372215646625525, 0.017351600317322424, 0.013980958923361082, 0.011397795581762132),
        *(0.010786424084349858, 0.003683423403318467, 0.021762602125511538, -0.02107606089708251),
        0.03267614092867424,
    ),  # 2^-58.7
    atan=(
        *(-0.33333333333332993, 0.19999999999905624, -0.14285714276588451, 0.1111111066777083),
        *(-0.09090896434567486, 0.07692076698826024, -0.06663837413201829, 0.05858470317157573),
        *(-0.05122728467381113, 0.041884338044254926, -0.02746451161403073, 0.010136646968241857),
    ),  # 2^-57.4
)
LOG_SEVENTH = (
    *(0.28571428571433155, 0.22222222220013993, 0.18181818605206107, 0.1538457291694868),
    *(0.13335762369414816, 0.11685057888128941, 0.11910833196013772),
)  # (2 atanh s / s − 2 − ⅔ s² − ⅖ s⁴) / s⁶ in s²: 2^-71.3 of the logarithm


class SimdVector:
    """A vector of doubles, 64-bit integers or conditions: the operand type of the formulas below.

    A subclass defines `broadcast`, which broadcasts a number to all lanes, and `apply`, which performs an operation:
    `ArrayLanes` computes with NumPy arrays, `samara.compiler.llvm.math.Vector` emits vector code.
    """

    __slots__ = ("value",)

    def __init__(self, value: object) -> None:
        self.value: Any = value

    def broadcast(self, x: "SimdVector | float") -> "SimdVector":
        """Broadcast a number to every lane."""
        raise NotImplementedError

    def apply(self, operation: str, *operands: "SimdVector") -> "SimdVector":
        """Perform an operation, named by the methods below, lane by lane."""
        raise NotImplementedError

    def __add__(self, x: "SimdVector | float") -> "SimdVector":
        return self.apply("add", self.broadcast(x))

    def __sub__(self, x: "SimdVector | float") -> "SimdVector":
        return self.apply("subtract", self.broadcast(x))

    def __mul__(self, x: "SimdVector | float") -> "SimdVector":
        return self.apply("multiply", self.broadcast(x))

    def __truediv__(self, x: "SimdVector | float") -> "SimdVector":
        return self.apply("divide", self.broadcast(x))

    def __radd__(self, x: float) -> "SimdVector":
        return self.broadcast(x) + self

    def __rsub__(self, x: float) -> "SimdVector":
        return self.broadcast(x) - self

    def __rmul__(self, x: float) -> "SimdVector":
        return self.broadcast(x) * self

    def __rtruediv__(self, x: float) -> "SimdVector":
        return self.broadcast(x) / self

    def __and__(self, x: "SimdVector | int") -> "SimdVector":
        return self.apply("and", self.broadcast(x))

    def __or__(self, x: "SimdVector | int") -> "SimdVector":
        return self.apply("or", self.broadcast(x))

    def __xor__(self, x: "SimdVector | int") -> "SimdVector":
        return self.apply("xor", self.broadcast(x))

    def __lshift__(self, bit_count: int) -> "SimdVector":
        return self.apply("shift_left", self.broadcast(bit_count))

    def __rshift__(self, bit_count: int) -> "SimdVector":
        return self.apply("shift_right", self.broadcast(bit_count))

    def __lt__(self, x: "SimdVector | float") -> "SimdVector":
        return self.apply("less", self.broadcast(x))

    def __gt__(self, x: "SimdVector | float") -> "SimdVector":
        return self.apply("greater", self.broadcast(x))

    def equals(self, x: "SimdVector | float") -> "SimdVector":
        return self.apply("equal", self.broadcast(x))

    def is_nan(self) -> "SimdVector":
        return self.apply("is_nan")

    def where(self, a: "SimdVector", b: "SimdVector | float") -> "SimdVector":
        """Select a in lanes in which this condition holds, else b."""
        return self.apply("select", a, a.broadcast(b))

    def bits(self) -> "SimdVector":
        """Reinterpret the bits of doubles as integers."""
        return self.apply("bits")

    def double(self) -> "SimdVector":
        """Reinterpret the bits of integers as doubles."""
        return self.apply("double")

    def convert_to_double(self) -> "SimdVector":
        """Convert integers below 2⁶³ to the nearest doubles."""
        return self.apply("converted")

    def is_negative(self) -> "SimdVector":
        """Whether the sign bit is set: true for −0, too."""
        return self.apply("negative")

    def sqrt(self) -> "SimdVector":
        return self.apply("sqrt")

    def floor(self) -> "SimdVector":
        return self.apply("floor")

    def sign(self) -> "SimdVector":
        return self.bits() & SIGN

    def __abs__(self) -> "SimdVector":
        return (self.bits() & (SIGN - 1)).double()

    def flip_sign(self, sign: "SimdVector") -> "SimdVector":
        """−x in lanes in which the sign bit is set."""
        return (self.bits() ^ sign).double()

    def upper_half(self) -> "SimdVector":
        return (self.bits() & UPPER_HALF).double()


def _polynomial(x: SimdVector, coefficients: tuple[float, ...]) -> SimdVector:
    """c₀ + c₁x + c₂x² + …, by Estrin's scheme: pairs, pairs of pairs; half the latency of Horner's scheme."""
    terms: list[SimdVector] = [x.broadcast(c) for c in coefficients]
    while len(terms) > 1:
        pairs = [a + x * b for a, b in zip(terms[::2], terms[1::2], strict=False)]
        terms = pairs + terms[2 * len(pairs) :]
        if len(terms) > 1:
            x = x * x
    return terms[0]


def _exact_product(a: SimdVector, b: SimdVector) -> tuple[SimdVector, SimdVector]:
    """a·b = p + e, both doubles (Dekker), to 2⁻¹⁰⁵."""
    a_upper, b_upper = a.upper_half(), b.upper_half()
    a_lower, b_lower = a - a_upper, b - b_upper
    p = a * b
    return p, ((a_upper * b_upper - p) + (a_upper * b_lower + a_lower * b_upper)) + a_lower * b_lower


def _multiply_sums(a: tuple[SimdVector, SimdVector], b: tuple[SimdVector, SimdVector]) -> tuple[SimdVector, SimdVector]:
    """(a + a')(b + b') as a sum of two, for small a', b'."""
    p, tail = _exact_product(a[0], b[0])
    return p, tail + (a[0] * b[1] + a[1] * b[0])


def _exact_sum(a: SimdVector, b: SimdVector) -> tuple[SimdVector, SimdVector]:
    """a + b = s + e exactly, for |a| ≥ |b| or a = 0."""
    s = a + b
    return s, (a - s) + b


class ReducedAngle(NamedTuple):
    """x = n·π/2 + r, |r| ≤ π/4: n in the low bits; sin r and cos r as sums of two, the second small."""

    n: SimdVector
    sin: tuple[SimdVector, SimdVector]
    cos: tuple[SimdVector, SimdVector]


def _reduce_angle(x: SimdVector, c: PolynomialCoefficients) -> ReducedAngle:
    """Reduce 0 ≤ x ≤ 10⁴. In double precision r = r₁ + r₂: a double near n·π/2 leaves an r as small as 10⁻¹⁷."""
    shifted = x * TWO_OVER_PI + ROUNDER
    n = shifted - ROUNDER
    first, second, third = HALF_PI_PARTS
    if c is SINGLE_COEFFICIENTS:
        r = (x - n * first) - n * (second + third)
        z = r * r
        half_z = 0.5 * z
        return ReducedAngle(
            shifted.bits(), (r, r * (z * _polynomial(z, c.sin))), (1.0 - half_z, z * z * _polynomial(z, c.cos))
        )
    leading, step = x - n * first, n * second
    r = leading - step
    r2 = ((leading - r) - step) - n * third
    z = r * r
    half_z = 0.5 * z
    cos_head = 1.0 - half_z
    sin_tail = r * (z * _polynomial(z, c.sin)) + r2 * cos_head
    cos_tail = ((1.0 - cos_head) - half_z) + (z * z * _polynomial(z, c.cos) - r * r2)
    return ReducedAngle(shifted.bits(), (r, sin_tail), (cos_head, cos_tail))


def _sin(x: SimdVector, c: PolynomialCoefficients) -> SimdVector:
    """sin(n·π/2 + r) = sin r, cos r, −sin r, −cos r for n = 0, 1, 2, 3."""
    n, sin, cos = _reduce_angle(abs(x), c)
    value = (n & 1).equals(0).where(sin[0] + sin[1], cos[0] + cos[1])
    return value.flip_sign(((n << 62) & SIGN) ^ x.sign())


def _cos(x: SimdVector, c: PolynomialCoefficients) -> SimdVector:
    """cos(n·π/2 + r) = cos r, −sin r, −cos r, sin r for n = 0, 1, 2, 3."""
    n, sin, cos = _reduce_angle(abs(x), c)
    value = (n & 1).equals(0).where(cos[0] + cos[1], sin[0] + sin[1])
    return value.flip_sign(((n + 1) << 62) & SIGN)


def _tan(x: SimdVector, c: PolynomialCoefficients) -> SimdVector:
    """tan(n·π/2 + r) = sin r / cos r, −cos r / sin r for even, odd n; the quotient of the sums of two."""
    n, sin_parts, cos_parts = _reduce_angle(abs(x), c)
    sin, sin_tail = _exact_sum(*sin_parts)
    cos, cos_tail = _exact_sum(*cos_parts)
    is_even = (n & 1).equals(0)
    numerator, denominator = is_even.where(sin, cos), is_even.where(cos, sin)
    quotient = numerator / denominator
    if c is DOUBLE_COEFFICIENTS:
        tail = is_even.where(sin_tail, cos_tail) - quotient * is_even.where(cos_tail, sin_tail)
        quotient = quotient + tail * (1.0 / denominator)
    return quotient.flip_sign((n << 63) ^ x.sign())


def _asin(x: SimdVector, c: PolynomialCoefficients) -> SimdVector:
    """asin x = s + s³A(s²) with s = x up to ½, then π/2 − 2 asin s with s = √((1 − x)/2)."""
    is_small, s, tail = _half_asin(abs(x), c)
    high, low = HALF_PI
    angle, rounding_error = _exact_sum(s.broadcast(high), -2.0 * s)
    value = is_small.where(s + tail, angle + ((rounding_error + low) - 2.0 * tail))
    return value.flip_sign(x.sign())


def _acos(x: SimdVector, c: PolynomialCoefficients) -> SimdVector:
    """acos x = π/2 − asin x for |x| < ½, then 2 asin s for positive x, π − 2 asin s for negative, s = √((1 − |x|)/2)."""
    is_small, s, tail = _half_asin(abs(x), c)
    s, tail = is_small.where(s, s + s), is_small.where(tail, tail + tail)
    is_negative = x.is_negative()
    zero = s.broadcast(0.0)
    high = is_small.where(s.broadcast(HALF_PI[0]), is_negative.where(s.broadcast(PI[0]), zero))
    low = is_small.where(s.broadcast(HALF_PI[1]), is_negative.where(s.broadcast(PI[1]), zero))
    sign = is_small.where(
        x.sign(), x.sign() ^ SIGN
    )  # subtracted with its sign for positive x below ½ and for negative x beyond −½
    s, tail = s.flip_sign(sign), tail.flip_sign(sign)
    angle = high - s
    return angle + (((high - angle) - s) + (low - tail))


def _half_asin(x: SimdVector, c: PolynomialCoefficients) -> tuple[SimdVector, SimdVector, SimdVector]:
    """Return x < ½, s and asin s − s, with s = x for x < ½, else √((1 − x)/2); NaN beyond 1."""
    is_small = x < 0.5
    z = is_small.where(x * x, 0.5 - 0.5 * x)
    s = is_small.where(x, z.sqrt())
    return is_small, s, s * (z * _polynomial(z, c.asin))


def _atan(x: SimdVector, c: PolynomialCoefficients) -> SimdVector:
    """atan x = π/2 − atan 1/x beyond 1."""
    magnitude = abs(x)
    is_steep = magnitude > 1.0
    one = magnitude.broadcast(1.0)
    return _angle(is_steep.where(one, magnitude), is_steep.where(magnitude, one), is_steep, None, c).flip_sign(x.sign())


def _atan2(y: SimdVector, x: SimdVector, c: PolynomialCoefficients) -> SimdVector:
    """The angle of (x, y) from the x-axis, −π to π: of the smaller to the larger of |x|, |y|, then by octant."""
    y_magnitude, x_magnitude = abs(y), abs(x)
    is_steep = y_magnitude > x_magnitude
    small, large = is_steep.where(x_magnitude, y_magnitude), is_steep.where(y_magnitude, x_magnitude)
    is_infinite = large.equals(float("inf"))
    small = is_infinite.where(small.equals(float("inf")).where(small.broadcast(1.0), small * 0.0), small)
    large = is_infinite.where(large.broadcast(1.0), large)
    large = large.equals(0.0).where(large.broadcast(1.0), large)  # the angle of (0, 0) is that of (1, 0)
    if c is DOUBLE_COEFFICIENTS:  # their sum must not overflow
        scale = (large > 2.0**1000).where(large.broadcast(2.0**-4), 1.0)
        small, large = small * scale, large * scale
    return _angle(small, large, is_steep, x.is_negative(), c).flip_sign(y.sign())


def _angle(
    small: SimdVector, large: SimdVector, is_steep: SimdVector, is_behind: SimdVector | None, c: PolynomialCoefficients
) -> SimdVector:
    """atan(small/large), measured from the y-axis if `is_steep`, from the negative x-axis if `is_behind`.

    Beyond ½ it is π/4 + atan((small − large)/(small + large)): there the difference is exact.
    """
    is_diagonal = small + small > large
    t = is_diagonal.where(small - large, small) / is_diagonal.where(small + large, large)
    z = t * t
    tail = t * (z * _polynomial(z, c.atan))

    def base(k: int) -> SimdVector:
        zero = t.broadcast(0.0)
        front = is_diagonal.where(t.broadcast(QUARTER_PI[k]), is_steep.where(t.broadcast(HALF_PI[k]), zero))
        if is_behind is None:
            return front
        back = is_diagonal.where(
            t.broadcast(THREE_QUARTER_PI[k]), is_steep.where(t.broadcast(HALF_PI[k]), t.broadcast(PI[k]))
        )
        return is_behind.where(back, front)

    is_reversed = is_steep if is_behind is None else is_steep ^ is_behind
    sign = is_reversed.where(t.broadcast(-0.0), 0.0).bits()
    t, tail = t.flip_sign(sign), tail.flip_sign(sign)
    if c is SINGLE_COEFFICIENTS:
        return base(0) + (t + tail)
    angle, rounding_error = _exact_sum(base(0), t)
    return angle + (rounding_error + (tail + base(1)))


def _exp(x: SimdVector, c: PolynomialCoefficients) -> SimdVector:
    return _exp_of_sum(x, None, c)


def _exp_of_sum(x: SimdVector, tail: SimdVector | None, c: PolynomialCoefficients) -> SimdVector:
    """eˣ⁺ᵗ = 2ⁿ eʳ with the tail t, r = x − n ln 2; 2ⁿ in two factors, so that an underflow is rounded once."""
    lowest, highest = (-746.0, 710.0) if c is DOUBLE_COEFFICIENTS else (-104.0, 89.0)
    if tail is not None:
        tail = ((x > lowest) & (x < highest)).where(tail, 0.0)
    x = (x > highest).where(x.broadcast(highest), x)
    x = (x < lowest).where(x.broadcast(lowest), x)
    n = (x * LOG2_E + ROUNDER) - ROUNDER
    high, low = x - n * LN_2[0], n * LN_2[1]
    if tail is None:
        r = high - low
        value = 1.0 + (r + r * r * _polynomial(r, c.exp))
    else:
        r, rounding_error = _exact_sum(high, tail - low)
        value = 1.0 + (r + (r * r * _polynomial(r, c.exp) + rounding_error))
    if c is SINGLE_COEFFICIENTS:
        return value * _power_of_two(n)
    half = (n * 0.5 + ROUNDER) - ROUNDER
    return value * _power_of_two(half) * _power_of_two(n - half)


def _power_of_two(n: SimdVector) -> SimdVector:
    """2ⁿ for integers −1022 ≤ n ≤ 1023."""
    return ((n + (ROUNDER + 1023.0)).bits() << 52).double()


def _log(x: SimdVector, c: PolynomialCoefficients) -> SimdVector:
    value = _log_of_positive(x, c)
    value = (x < float("inf")).where(value, x)
    return (x > 0.0).where(value, x.equals(0.0).where(x.broadcast(float("-inf")), float("nan")))


def _log_of_positive(x: SimdVector, c: PolynomialCoefficients) -> SimdVector:
    """ln x = k ln 2 + ln(1 + f) = k ln 2 + f − f²/2 + s (f²/2 + s²L(s²)), s = f/(2 + f)."""
    k, m = _split_exponent(x, c)
    f = m - 1.0
    s = f / (2.0 + f)
    z = s * s
    half_square = 0.5 * f * f
    small = s * (half_square + z * _polynomial(z, c.log)) + k * LN_2[1]
    return ((small - half_square) + f) + k * LN_2[0]


def _split_exponent(x: SimdVector, c: PolynomialCoefficients) -> tuple[SimdVector, SimdVector]:
    """x = 2ᵏ m, √½ ≤ m < √2, for positive x."""
    bias = x.broadcast(2.0**52 + 1023.0)
    if c is DOUBLE_COEFFICIENTS:  # a subnormal single is a normal double
        subnormal = x < 2.0**-1022
        x = subnormal.where(x * 2.0**54, x)
        bias = subnormal.where(bias + 54.0, bias)
    bits = x.bits() + (ONE_BITS - SQRT_HALF_BITS)
    k = ((bits >> 52) | EXPONENT_OF_2_52).double() - bias
    return k, ((bits & MANTISSA) + SQRT_HALF_BITS).double()


def _power(x: SimdVector, y: SimdVector, c: PolynomialCoefficients) -> SimdVector:
    """xʸ = exp(y ln x), with C's values for 0, ∞, negative x and integer y."""
    magnitude, infinity = abs(x), float("inf")
    if c is SINGLE_COEFFICIENTS:
        value = _exp_of_sum(y * _log_of_positive(magnitude, c), None, c)
    else:
        log, log_tail = _log_as_sum(magnitude)
        exponent, product_error = _exact_product(y, log)
        value = _exp_of_sum(exponent, product_error + y * log_tail, c)
    value = magnitude.equals(1.0).where(value.broadcast(1.0), value)
    vanishes = magnitude.equals(0.0) ^ (y < 0.0)
    limit = vanishes.where(x.broadcast(0.0), infinity)
    value = (magnitude.equals(0.0) | magnitude.equals(infinity)).where(limit, value)
    is_integer = y.floor().equals(y)
    is_odd = is_integer & ((y * 0.5).floor().equals(y * 0.5) ^ 1)
    value = is_odd.where(value.flip_sign(x.sign()), value)
    is_undefined = x.is_nan() | y.is_nan() | ((x < 0.0) & (x > -infinity) & (is_integer ^ 1))
    value = is_undefined.where(value.broadcast(float("nan")), value)
    return (y.equals(0.0) | x.equals(1.0)).where(value.broadcast(1.0), value)


def _log_as_sum(x: SimdVector) -> tuple[SimdVector, SimdVector]:
    """ln x with relative error 2⁻⁷⁰: y ln x may be as large as 745, and its absolute error is the relative error of xʸ.

    k ln 2 + 2s + s³(⅔ + s²(⅖ + s²Q(s²))), s = (m − 1)/(m + 1); all but Q as sums of two.
    """
    k, m = _split_exponent(x, DOUBLE_COEFFICIENTS)
    f, d = m - 1.0, m + 1.0
    d_tail = m - (d - 1.0)
    reciprocal = 1.0 / d
    s = f * reciprocal
    p, p_tail = _exact_product(s, d)
    s_tail = (((f - p) - p_tail) - s * d_tail) * reciprocal
    z = _multiply_sums((s, s_tail), (s, s_tail))
    fifth, rounding_error = _exact_sum(s.broadcast(TWO_FIFTHS[0]), z[0] * _polynomial(z[0], LOG_SEVENTH))
    fifth, fifth_tail = _multiply_sums(z, (fifth, rounding_error + TWO_FIFTHS[1]))
    third, rounding_error = _exact_sum(s.broadcast(TWO_THIRDS[0]), fifth)
    third, third_tail = _multiply_sums(
        (s, s_tail), _multiply_sums(z, (third, (rounding_error + fifth_tail) + TWO_THIRDS[1]))
    )
    high, rounding_error = _exact_sum(k * LN_2[0], s + s)
    high, second_error = _exact_sum(high, third)
    return _exact_sum(high, ((third_tail + (s_tail + s_tail)) + (rounding_error + second_error)) + k * LN_2[1])


FUNCTIONS: dict[str, Callable[..., SimdVector]] = {
    "sin": _sin,
    "cos": _cos,
    "tan": _tan,
    "asin": _asin,
    "acos": _acos,
    "atan": _atan,
    "atan2": _atan2,
    "exp": _exp,
    "log": _log,
    "power": _power,
}
ELEMENTARY = frozenset(FUNCTIONS)
ARGUMENT_COUNTS = {"atan2": 2, "power": 2}
TRIGONOMETRIC = ("sin", "cos", "tan")


# On NumPy arrays --------------------------------------------------------------------------------------------------------

_BLOCK_LENGTH = 1 << 12  # elements per block: intermediate results stay in the cache
_HALF_POWERS: dict[float, Callable[[Array], Array]] = {
    0.5: lambda x: np.sqrt(x),
    1.5: lambda x: x * np.sqrt(x),
    -0.5: lambda x: 1.0 / np.sqrt(x),
}
_OPERATIONS: dict[str, Callable[..., Any]] = {
    **{"add": operator.add, "subtract": operator.sub, "multiply": operator.mul, "divide": operator.truediv},
    **{"and": operator.and_, "or": operator.or_, "xor": operator.xor},
    **{"shift_left": operator.lshift, "shift_right": operator.rshift},
    **{"less": operator.lt, "greater": operator.gt, "equal": operator.eq},
    **{"is_nan": np.isnan, "select": np.where, "negative": np.signbit, "sqrt": np.sqrt, "floor": np.floor},
    "bits": lambda x: np.asarray(x).view(np.uint64),
    "double": lambda x: np.asarray(x).view(np.float64),
    "converted": lambda x: np.asarray(x).astype(np.float64),
}


class ArrayLanes(SimdVector):
    """A NumPy array of doubles, 64-bit integers or conditions."""

    __slots__ = ()

    def broadcast(self, x: SimdVector | float) -> SimdVector:
        return x if isinstance(x, SimdVector) else ArrayLanes(self.value.dtype.type(x))

    def apply(self, operation: str, *operands: SimdVector) -> SimdVector:
        return ArrayLanes(_OPERATIONS[operation](self.value, *(operand.value for operand in operands)))


def elementary(name: str, *values: Any) -> Any:
    """Evaluate a function on arrays or NumPy scalars; in single precision if all of them are."""
    dtype = np.result_type(*values, np.float32)
    if dtype not in (np.float32, np.float64):
        raise TypeError(f"{name} of {dtype}: expected real numbers")
    if name == "power" and np.ndim(values[1]) == 0 and float(values[1]) in _HALF_POWERS:
        with np.errstate(all="ignore"):
            return _HALF_POWERS[float(values[1])](np.asarray(values[0], dtype=dtype) + dtype.type(0.0))[()]
    arrays = np.broadcast_arrays(*values)
    flat = [array.astype(np.float64).reshape(-1) for array in arrays]
    results = np.empty(arrays[0].size, dtype=dtype)
    for start in range(0, results.size, _BLOCK_LENGTH):
        block = slice(start, start + _BLOCK_LENGTH)
        results[block] = _evaluate_block(name, [array[block] for array in flat], dtype)
    return results.reshape(arrays[0].shape)[()]


def _evaluate_block(name: str, flat: list[Array], dtype: Any) -> Array:
    with np.errstate(all="ignore"):
        results = FUNCTIONS[name](
            *map(ArrayLanes, flat), SINGLE_COEFFICIENTS if dtype == np.float32 else DOUBLE_COEFFICIENTS
        ).value
        if name in TRIGONOMETRIC:
            for index in np.flatnonzero(np.abs(flat[0]) > MAX_REDUCED_ANGLE_RAD):
                x = float(flat[0][index])
                results[index] = getattr(math, name)(x) if math.isfinite(x) else math.nan
        return np.asarray(results, dtype=dtype)
