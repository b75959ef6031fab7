"""The components of a vehicle's state, command and environment, under names for languages without nested tuples."""

import re
from collections import namedtuple
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from samara.core.algebra import Vec3
from samara.core.tree import flatten, leaf_names
from samara.physics.multirotor import state_at_rest
from samara.physics.types import CALM, Command, Environment, State, Vehicle
from samara.vehicles.trim import hover

FIELD_DESCRIPTIONS = {
    "p_W": "position of the centre of mass, world axes",
    "v_W": "velocity, world axes",
    "q_WB": "attitude, body to world: Hamilton, scalar first, length 1",
    "omega_B": "angular velocity, body axes",
    "rotor_speed": "rotor speeds",
    "wind_W": "velocity of the air, world axes",
    "air_density": "density of the air",
    "battery_connected": "1, or 0 if the battery is disconnected",
}
COMMAND_DESCRIPTIONS = {
    "normalized": "one number per rotor from 0 to 1: from its lowest to its highest speed",
    "speed": "the desired speed of each rotor [rad/s]",
    "duty": "one number per rotor from 0 to 1: the fraction of the supply voltage applied to its motor",
    "wrench": "thrust along body z [N], and torque about the body axes [N m]",
}

Group = tuple[tuple[str, Any], ...]


class RecordNames(NamedTuple):
    """The vehicle's name in code, and the members of its three records: (name, template tree)."""

    prefix: str
    state: Group
    command: Group
    environment: Group


def vehicle_layout(vehicle: Vehicle, reserved: Collection[str], environment: Environment = CALM) -> RecordNames:
    """Return the layout of a vehicle in a language with these reserved words."""
    state = state_at_rest(vehicle)
    body = [(name, getattr(state, name)) for name in ("p_W", "v_W", "q_WB", "omega_B", "rotor_speed")]
    effects: dict[str, Any] = {}
    for effect, effect_state in zip(vehicle.structure.effects, state.effects, strict=True):
        name = identifier(effect.name, reserved)
        effects[f"{name}_" if name in effects else name] = _name_parts(effect_state)
    command: Group = (("rotor", tuple(0.0 for _ in vehicle.rotors)),)
    if vehicle.servos:
        command += (("servo", tuple(0.0 for _ in vehicle.servos)),)
    if not vehicle.rotors:
        command = (("thrust", 0.0), ("tau_B", Vec3(0.0, 0.0, 0.0)))
    return RecordNames(
        f"samara_{plain_name(vehicle.name.lower())}",
        tuple((name, tree) for name, tree in (*body, *effects.items()) if flatten(tree)),
        command,
        tuple((name, tree) for name, tree in zip(environment._fields, environment, strict=True) if flatten(tree)),
    )


def plain_name(name: str) -> str:
    """Replace all characters but letters, digits and underscores."""
    return re.sub(r"[^A-Za-z0-9_]+", "_", name).strip("_") or "unnamed"


def identifier(name: str, reserved: Collection[str]) -> str:
    """Turn a name into a member name that is valid in the language and does not clash with generated names."""
    plain = re.sub(r"^(?=\d)", "n", plain_name(name))
    return f"{plain}_" if plain in reserved or re.fullmatch(r"[ct]\d+", plain) else plain


def _name_parts(tree: Any) -> Any:
    """Name the parts of a tuple whose parts differ in shape, so that it cannot be an array: item0, item1, ..."""
    if not isinstance(tree, tuple):
        return tree
    parts = [_name_parts(branch) for branch in tree]
    if hasattr(tree, "_fields"):
        return type(tree)(*parts)
    if len({(type(part), tuple(leaf_names(part))) for part in parts}) <= 1:
        return tuple(parts)
    names = [f"item{i}" for i in range(len(parts))]
    return namedtuple("Items", names)(*parts)


def member_paths(group: Sequence[tuple[str, Any]]) -> list[str]:
    """Return the path of every leaf: 'p_W.x', 'rotor_speed[2]'."""
    return [path for name, tree in group for path in leaf_names(tree, name)]


def describe_command(vehicle: Vehicle) -> str:
    """Describe the components of a command."""
    actuation = vehicle.structure.actuation.name
    angles = "the angle [rad]" if actuation == "speed" else "one number from -1 (lower limit) to 1 (upper limit)"
    return COMMAND_DESCRIPTIONS.get(actuation, actuation) + (f"; and {angles} for each servo" if vehicle.servos else "")


def describe_vehicle(vehicle: Vehicle, prefix: str) -> list[str]:
    """Return the description of the vehicle in a generated file, by paragraphs."""
    structure = vehicle.structure
    sources = dict.fromkeys(source for _, source in structure.sources)
    source_text = "; ".join(sources) if sources else "built in Python"
    changes = (
        [f"Changed since: {', '.join(dict.fromkeys(structure.replaced_parameters))}."]
        if structure.replaced_parameters
        else []
    )
    return [
        f"{prefix}: the multirotor {vehicle.name!r}, {vehicle.mass:g} kg, {len(vehicle.rotors)} rotors. "
        f"{structure.description}",
        f"Effects: {', '.join(effect.name for effect in structure.effects)}.",
        f"Sources of its parameters: {source_text}.",
        *changes,
        "SI units, radians. World axes (_W) point east, north, up; body axes (_B) forward, left, up. The quaternion "
        "q_WB rotates body vectors into the world.",
    ]


def hover_or_none(vehicle: Vehicle) -> tuple[State, Command] | None:
    """Return hover 1 m above the origin, or None if the vehicle cannot hover."""
    try:
        return hover(vehicle)
    except ValueError:
        return None
