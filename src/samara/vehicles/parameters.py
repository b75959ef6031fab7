"""A vehicle's numbers by name, so that some of them can become inputs of a compiled step."""

from collections.abc import Sequence
from typing import Any

from samara.physics.types import Vehicle


def parameter(vehicle: Vehicle, path: str) -> Any:
    """The value at a dotted name: `mass`, `drag.linear`, `battery.0.capacity`

    Of several things a tuple with one value for each: `rotors.k_thrust`, `battery.capacity`; by its number one of them.
    """
    head, _, rest = path.partition(".")
    if not rest and head in ("mass", "inertia_B"):
        return getattr(vehicle, head)
    if rest and head in ("rotors", "inertia_B"):
        return _inside(getattr(vehicle, head), rest, path, vehicle)
    if rest and vehicle.has(head):
        return _inside(vehicle[head], rest, path, vehicle)
    raise _unknown(path, vehicle)


def with_parameters(vehicle: Vehicle, paths: Sequence[str], values: Sequence[Any]) -> Vehicle:
    """The vehicle with other values at dotted names, of the shape `parameter` gives."""
    for path, value in zip(paths, values, strict=True):
        head, _, rest = path.partition(".")
        several = vehicle.rotors if head == "rotors" else vehicle[head] if vehicle.has(head) else ()
        if type(several) is tuple and several and not rest.partition(".")[0].isdecimal():
            each = range(len(several))
            vehicle = vehicle.replace({f"{head}.{k}.{rest}": own for k, own in zip(each, value, strict=True)})
        else:
            vehicle = vehicle.replace({path: value})
    return vehicle


def _inside(record: Any, path: str, whole: str, vehicle: Vehicle) -> Any:
    field, _, rest = path.partition(".")
    if type(record) is tuple and record:
        if not field.isdecimal():
            return tuple(_inside(each, path, whole, vehicle) for each in record)
        if int(field) >= len(record):
            raise _unknown(whole, vehicle)
        own = record[int(field)]
    elif field in getattr(record, "_fields", ()):
        own = getattr(record, field)
    else:
        raise _unknown(whole, vehicle)
    return _inside(own, rest, whole, vehicle) if rest else own


def _unknown(path: str, vehicle: Vehicle) -> ValueError:
    names = ", ".join(("mass", "inertia_B", "rotors.…", *(f"{effect.name}.…" for effect in vehicle.structure.effects)))
    return ValueError(f"vehicle {vehicle.name!r} has no parameter {path!r}; expected one of {names}")
