"""A vehicle in a few lines: mass, rotors, hover trim, effects and source."""

import math
from collections.abc import Iterable

import numpy as np

from samara.physics.types import Vehicle
from samara.vehicles.trim import hover, thrust_to_weight


def vehicle_text(vehicle: Vehicle) -> str:
    """Format the main properties as plain text, one per line; the source is that of the mass."""
    title = f"{vehicle.name}: {vehicle.structure.description}".removesuffix(": ")
    effects = ", ".join(effect.name for effect in vehicle.structure.effects)
    source = dict(vehicle.structure.sources).get("body.mass", "not given")
    rows = [*vehicle_properties(vehicle), ("effects", effects), ("source", source)]
    return "\n".join([title, *(f"  {name:16s} {value}" for name, value in rows)])


def vehicle_properties(vehicle: Vehicle) -> list[tuple[str, str]]:
    """List mass, inertia, rotors, thrust-to-weight ratio and hover trim: names, and values with units."""
    if any(np.ndim(quantity) for quantity in (vehicle.mass, *vehicle.inertia_B)):
        return [("batch of", f"{max(np.size(quantity) for quantity in (vehicle.mass, *vehicle.inertia_B))} vehicles")]
    if not isinstance(vehicle.mass, (int, float)):
        return [("parameters", f"of type {type(vehicle.mass).__name__}")]
    inertia = vehicle.inertia_B
    rows = [
        ("mass", mass_text(vehicle.mass)),
        ("inertia x, y, z", f"{inertia.xx:.3g}, {inertia.yy:.3g}, {inertia.zz:.3g} kg m²"),
        ("command", vehicle.structure.actuation.name),
    ]
    if not vehicle.rotors:
        return rows
    arms = [math.hypot(rotor.r_B.x, rotor.r_B.y) for rotor in vehicle.rotors]
    longest, shortest = max(arms), min(arms)
    arm = f"{longest:.3g} m" if longest - shortest < 1e-6 else f"{shortest:.3g} to {longest:.3g} m"
    rows.append(("rotors", f"{len(vehicle.rotors)}, arm {arm}"))
    try:
        state, command = hover(vehicle)
        rows += [
            ("thrust / weight", f"{thrust_to_weight(vehicle):.2f}"),
            ("hover", f"{_format_range(command, '')} at {_format_range(state.rotor_speed, ' rad/s')}"),
        ]
    except (ValueError, TypeError) as error:
        rows.append(("hover", str(error)))
    return rows


def mass_text(mass: float) -> str:
    """Format a mass, in g below a kilogram."""
    return f"{1e3 * mass:.4g} g" if mass < 1.0 else f"{mass:.4g} kg"


def _format_range(values: Iterable[float], unit: str) -> str:
    low, high = min(values), max(values)
    return f"{high:.4g}{unit}" if high - low <= 1e-3 * abs(high) else f"{low:.4g} to {high:.4g}{unit}"
