"""A vehicle's numbers by name, so that some of them can become inputs of a compiled step."""

from collections.abc import Sequence
from typing import Any

from samara.physics.types import Vehicle


def parameter(vehicle: Vehicle, path: str) -> Any:
    """The value at a dotted name: `mass`, `drag.linear`; for `rotors.k_thrust` a tuple with one value per rotor."""
    head, _, rest = path.partition(".")
    if head == "rotors" and rest:
        return tuple(_inside(rotor, rest, path, vehicle) for rotor in vehicle.rotors)
    if head == "inertia_B" and rest:
        return _inside(vehicle.inertia_B, rest, path, vehicle)
    if not rest and head in ("mass", "inertia_B"):
        return getattr(vehicle, head)
    if rest and vehicle.has(head):
        return _inside(vehicle[head], rest, path, vehicle)
    raise _unknown(path, vehicle)


def with_parameters(vehicle: Vehicle, paths: Sequence[str], values: Sequence[Any]) -> Vehicle:
    """The vehicle with other values at dotted names, of the shape `parameter` gives."""
    for path, value in zip(paths, values, strict=True):
        head, _, rest = path.partition(".")
        if head == "rotors":
            rotors = tuple(
                _put(rotor, rest, own, path, vehicle) for rotor, own in zip(vehicle.rotors, value, strict=True)
            )
            vehicle = vehicle.replace(rotors=rotors)
        else:
            vehicle = vehicle.replace({path: value})
    return vehicle


def _inside(record: Any, path: str, whole: str, vehicle: Vehicle) -> Any:
    for field in path.split("."):
        if field not in getattr(record, "_fields", ()):
            raise _unknown(whole, vehicle)
        record = getattr(record, field)
    return record


def _put(record: Any, path: str, value: Any, whole: str, vehicle: Vehicle) -> Any:
    head, _, rest = path.partition(".")
    if head not in getattr(record, "_fields", ()):
        raise _unknown(whole, vehicle)
    return record._replace(**{head: _put(getattr(record, head), rest, value, whole, vehicle) if rest else value})


def _unknown(path: str, vehicle: Vehicle) -> ValueError:
    names = ", ".join(("mass", "inertia_B", "rotors.…", *(f"{effect.name}.…" for effect in vehicle.structure.effects)))
    return ValueError(f"vehicle {vehicle.name!r} has no parameter {path!r}; expected one of {names}")
