"""The meaning of a number: its unit, and the range it is declared for.

Arguments and parameters carry this once, beside the function or field, as `Annotated[Scalar, Quantity(...)]`. The vehicle
loader reads units and signs from it; the tests draw every argument of every physics function from it.
"""

from typing import Annotated, Any, NamedTuple, TypeAlias

Scalar: TypeAlias = Any
"""A Python float, a NumPy or JAX array, a CasADi or SymPy expression: any type that `samara.core.ops` supports."""

Tree: TypeAlias = Any
"""A scalar or a (named) tuple of trees: the state of an effect, a sensor or an estimator, a reading."""


class Quantity(NamedTuple):
    """A number, or every component of a vector, within [low, high] of a unit. low ≥ 0 means it may never be negative."""

    unit: str
    low: float
    high: float


class FileKey(NamedTuple):
    """The key of a field in files, where it is not the field's name."""

    name: str


MAX_MAGNITUDE = 1e12  # largest magnitude in any unit; larger numbers are typing errors


def violated_requirement(value: Any, quantity: Any) -> str | None:
    """Return the requirement that a number of this quantity violates, such as "a positive number", or None if it is valid."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) <= MAX_MAGNITUDE:
        return f"a finite number, at most {MAX_MAGNITUDE:g} in size"
    if quantity.low > 0.0 and value <= 0.0:
        return "a positive number"
    if quantity.low == 0.0 and value < 0.0:
        return "a number that is not negative"
    return None


class OneOf(NamedTuple):
    """One of a few values."""

    values: tuple[float, ...]


class Choices(NamedTuple):
    """One or more of a few names."""

    names: tuple[str, ...]


class Unit(NamedTuple):
    """A vector or quaternion of length one."""


class SymmetricPositive(NamedTuple):
    """A symmetric positive-definite matrix with eigenvalues within [low, high] of a unit."""

    unit: str
    low: float
    high: float


class Increasing(NamedTuple):
    """A tuple of strictly increasing numbers within [low, high] of a unit."""

    unit: str
    low: float
    high: float


Ratio: TypeAlias = Annotated[Scalar, Quantity("1", -10.0, 10.0)]
Angle: TypeAlias = Annotated[Scalar, Quantity("rad", -3.0, 3.0)]
Duration: TypeAlias = Annotated[Scalar, Quantity("s", 0.0, 0.1)]
TimeConstant: TypeAlias = Annotated[Scalar, Quantity("s", 0.01, 0.2)]
AirDensity: TypeAlias = Annotated[Scalar, Quantity("kg/m^3", 0.3, 1.3)]
Mass: TypeAlias = Annotated[Scalar, Quantity("kg", 0.02, 10.0)]
RotorSpeed: TypeAlias = Annotated[Scalar, Quantity("rad/s", 0.0, 3000.0)]
RotorAcceleration: TypeAlias = Annotated[Scalar, Quantity("rad/s^2", -1e4, 1e4)]
Voltage: TypeAlias = Annotated[Scalar, Quantity("V", 0.0, 25.0)]
Current: TypeAlias = Annotated[Scalar, Quantity("A", -20.0, 60.0)]
LoadTorque: TypeAlias = Annotated[Scalar, Quantity("N m", 0.0, 1.0)]
Duty: TypeAlias = Annotated[Scalar, Quantity("1", 0.0, 1.0)]
