"""Read and replace a vehicle's parameters by dotted name, so that any of them can become an input of a compiled step."""

from collections.abc import Sequence
from typing import Any

from samara.physics.types import Vehicle, replace_parameters


def parameter(vehicle: Vehicle, path: str) -> Any:
    """Look up the value at a dotted name: `mass`, `drag.linear`, `battery.0.capacity`.

    Without an index, a name inside a list gives a tuple with one value per element: `rotors.k_thrust`, `battery.capacity`.
    """
    root, _, subpath = path.partition(".")
    if not subpath and root in ("mass", "inertia_B"):
        return getattr(vehicle, root)
    if subpath and root in ("rotors", "inertia_B"):
        return _lookup(getattr(vehicle, root), subpath, path, vehicle)
    if subpath and vehicle.has(root):
        return _lookup(vehicle[root], subpath, path, vehicle)
    raise _unknown_parameter(path, vehicle)


def with_parameters(vehicle: Vehicle, paths: Sequence[str], values: Sequence[Any]) -> Vehicle:
    """Return the vehicle with new values at dotted names; each value has the shape that `parameter` returns."""
    for path, value in zip(paths, values, strict=True):
        root, _, subpath = path.partition(".")
        components = vehicle.rotors if root == "rotors" else vehicle[root] if vehicle.has(root) else ()
        if type(components) is tuple and components and not subpath.partition(".")[0].isdecimal():
            indices = range(len(components))
            changes = {f"{root}.{k}.{subpath}": component for k, component in zip(indices, value, strict=True)}
            vehicle = replace_parameters(vehicle, changes)
        else:
            vehicle = replace_parameters(vehicle, {path: value})
    return vehicle


def _lookup(record: Any, path: str, full_path: str, vehicle: Vehicle) -> Any:
    field, _, subpath = path.partition(".")
    if type(record) is tuple and record:
        if not field.isdecimal():
            return tuple(_lookup(component, path, full_path, vehicle) for component in record)
        if int(field) >= len(record):
            raise _unknown_parameter(full_path, vehicle)
        value = record[int(field)]
    elif field in getattr(record, "_fields", ()):
        value = getattr(record, field)
    else:
        raise _unknown_parameter(full_path, vehicle)
    return _lookup(value, subpath, full_path, vehicle) if subpath else value


def _unknown_parameter(path: str, vehicle: Vehicle) -> ValueError:
    names = ", ".join(("mass", "inertia_B", "rotors.…", *(f"{effect.name}.…" for effect in vehicle.structure.effects)))
    return ValueError(f"vehicle {vehicle.name!r} has no parameter {path!r}; expected one of {names}")
