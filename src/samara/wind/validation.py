"""Check the parameters of wind sources: finite and of the right sign. Traced symbols pass."""

import numpy as np

from samara.core.algebra import Vec3
from samara.core.batch_scalar import BatchScalar
from samara.core.quantity import MAX_MAGNITUDE
from samara.core.sanitise import quote_value
from samara.core.tree import flatten, leaf_names


def require_vector(record: object, name: str) -> None:
    """Convert a field to a Vec3 and require three finite components."""
    value = getattr(record, name)
    if not isinstance(value, (tuple, list)) or len(value) != 3:
        raise ValueError(f"{type(record).__name__}.{name} is {value!r}; expected three components")
    object.__setattr__(record, name, Vec3(*value))
    require_numbers(record, name)


def require_numbers(record: object, name: str, *, positive: bool = False, negative: bool = True) -> None:
    """Require finite values of the right sign; traced symbols pass."""
    requirement = (
        "a positive number" if positive else "a finite number" if negative else "a number that is not negative"
    )
    value = getattr(record, name)
    for path, leaf in zip(leaf_names(value, f"{type(record).__name__}.{name}"), flatten(value), strict=True):
        if leaf is None or isinstance(leaf, (str, bytes, list, dict)):
            raise ValueError(f"{path} is {quote_value(leaf)}; expected {requirement}")
        if isinstance(leaf, BatchScalar) and ((positive and leaf <= 0.0) or (not negative and leaf < 0.0)):
            raise ValueError(f"{path} is {leaf}; expected {requirement}")
        if not isinstance(leaf, (int, float, np.ndarray, np.generic)):
            continue
        if isinstance(leaf, int) and abs(leaf) > MAX_MAGNITUDE:
            raise ValueError(
                f"{path} is {quote_value(leaf)}; expected {requirement}, at most {MAX_MAGNITUDE:g} in magnitude"
            )
        numbers = np.asarray(leaf, dtype=float).reshape(-1)
        invalid = ~np.isfinite(numbers) | (positive & (numbers <= 0.0)) | ((not negative) & (numbers < 0.0))
        if invalid.any():
            raise ValueError(f"{path} is {numbers[invalid][0]}; expected {requirement}")
