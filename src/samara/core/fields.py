"""A record's fields as their annotations declare them: `mass: Annotated[Scalar, Quantity("kg", 0.02, 10.0)]`."""

from typing import Any, NamedTuple, get_args, get_origin, get_type_hints

from samara.core.algebra import Vec3
from samara.core.quantity import Quantity, Unit


class Field(NamedTuple):
    """How a record's field is written: 1 number, 3, or (0) any number of them; a direction has length 1."""

    numbers: int
    quantity: Any
    is_direction: bool = False


def fields_of(kind: type[Any]) -> dict[str, Field]:
    """The fields of a record as their annotations declare them."""
    found = {}
    for name, hint in get_type_hints(kind, include_extras=True).items():
        if get_origin(hint) is tuple:
            found[name] = Field(0, get_args(get_args(hint)[0])[1])
            continue
        base, quantity = get_args(hint)[:2]
        if isinstance(quantity, Unit):
            found[name] = Field(3, Quantity("1", -1.0, 1.0), True)
        else:
            found[name] = Field(3 if base is Vec3 else 0 if get_origin(base) is tuple else 1, quantity)
    return found
