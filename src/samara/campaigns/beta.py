"""The beta distribution and, by it, tails of the binomial: to 12 digits for a million flights, without SciPy."""

import math

_ITERATIONS = 100_000  # some √n are needed
_TINY = 1e-300
_STIRLING = 15.0  # from here on the series below has all digits


def incomplete_beta(x: float, a: float, b: float) -> float:
    """I_x(a, b) = ∫₀ˣ t^(a−1) (1−t)^(b−1) dt / B(a, b), by its continued fraction (DLMF 8.17.22)"""
    if x <= 0.0 or x >= 1.0:
        return 0.0 if x <= 0.0 else 1.0
    if x > (a + 1.0) / (a + b + 2.0):
        return 1.0 - incomplete_beta(1.0 - x, b, a)
    return math.exp(log_beta_power(x, a, b)) / a / _fraction(x, a, b)


def _fraction(x: float, a: float, b: float) -> float:
    """1 + d₁/(1 + d₂/(1 + …)), by Lentz's method"""
    value, c, d = 1.0, 1.0, 0.0
    for i in range(1, _ITERATIONS):
        m = i // 2
        if i % 2:
            term = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1.0))
        else:
            term = m * (b - m) * x / ((a + 2 * m - 1.0) * (a + 2 * m))
        d = 1.0 / ((1.0 + term * d) or _TINY)
        c = (1.0 + term / c) or _TINY
        value *= c * d
        if abs(c * d - 1.0) < 1e-15:
            return value
    raise ArithmeticError(f"I_x(a, b) for x = {x}, a = {a}, b = {b} did not converge")


def log_beta_power(x: float, a: float, b: float) -> float:
    """ln( xᵃ (1−x)ᵇ / B(a, b) ), as deviances, so that nothing large is subtracted (C. Loader, 2000)"""
    n = a + b
    deviance = _deviance(a, n * x) + _deviance(b, n * (1.0 - x))
    rest = _stirling_error(n) - _stirling_error(a) - _stirling_error(b)
    return rest - deviance + 0.5 * math.log(a / n * b / (2.0 * math.pi))


def _stirling_error(z: float) -> float:
    """ln Γ(z) − ((z − ½) ln z − z + ½ ln 2π)"""
    if z < _STIRLING:
        return math.lgamma(z) - (z - 0.5) * math.log(z) + z - 0.5 * math.log(2.0 * math.pi)
    r = 1.0 / (z * z)
    return (1 / 12 - (1 / 360 - (1 / 1260 - (1 / 1680 - (1 / 1188 - r * 691 / 360360) * r) * r) * r) * r) / z


def _deviance(x: float, mean: float) -> float:
    """x ln(x/m) + m − x"""
    if abs(x - mean) >= 0.1 * (x + mean):
        return x * math.log(x / mean) + mean - x
    v = (x - mean) / (x + mean)
    total, power, k = (x - mean) * v, 2.0 * x * v, 1
    while True:
        power *= v * v
        more = total + power / (2 * k + 1)
        if more == total:
            return total
        total, k = more, k + 1


# The binomial --------------------------------------------------------------------------------------------------------


def at_least(k: int, n: int, p: float) -> float:
    """P(X ≥ k) = I_p(k, n − k + 1),  X binomial of n and p"""
    if k <= 0 or k > n:
        return 1.0 if k <= 0 else 0.0
    return incomplete_beta(p, float(k), n - k + 1.0)


def at_most(k: int, n: int, p: float) -> float:
    """P(X ≤ k) = I_{1−p}(n − k, k + 1)"""
    return at_least(n - k, n, 1.0 - p)


def rate_of_tail(k: int, n: int, tail: float) -> float:
    """The p at which P(X ≥ k) = tail, by Newton's method in ln p, which is nearly straight, within a bracket"""
    if k <= 0:
        return 0.0
    low, high, p = 0.0, 1.0, k / (n + 1.0)
    a, b = float(k), n - k + 1.0
    for _ in range(200):
        found = incomplete_beta(p, a, b)
        low, high = (p, high) if found < tail else (low, p)
        slope = math.exp(log_beta_power(p, a, b)) / (1.0 - p)  # dP/d ln p
        better = p * math.exp((math.log(tail) - math.log(found)) * found / slope) if found > 0.0 < slope else low
        if not low < better < high:
            better = 0.5 * (low + high)
        if abs(better - p) <= 2e-16 * p or better in (low, high):
            return better
        p = better
    return p
