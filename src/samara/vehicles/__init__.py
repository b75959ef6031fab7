"""Vehicles: load them from TOML files with a unit and a source on every value, build, check, trim and save them."""

from samara.core.lazy_import import lazy_attributes as _lazily
from samara.vehicles.build import ContactShape, Provenance, build_vehicle, switch_on, with_effects
from samara.vehicles.check import VehicleError, check_vehicle
from samara.vehicles.effects import EffectOption
from samara.vehicles.loader import parse_vehicle, vehicle, vehicle_names
from samara.vehicles.payload import Payload, with_payload
from samara.vehicles.trim import hover, thrust_to_weight
from samara.vehicles.writer import save_vehicle, vehicle_toml

__all__ = [
    "ContactShape",
    "Disc",
    "EffectOption",
    "Payload",
    "Provenance",
    "VehicleError",
    "build_vehicle",
    "check_vehicle",
    "controllable_axes",
    "hover",
    "parse_vehicle",
    "rotor_order",
    "save_vehicle",
    "shape_parts",
    "switch_on",
    "thrust_to_weight",
    "vehicle",
    "vehicle_names",
    "vehicle_toml",
    "warnings",
    "with_effects",
    "with_payload",
]  # fmt: skip

_LAZY = {
    **dict.fromkeys(("controllable_axes", "warnings"), "samara.vehicles.plausibility"),
    "rotor_order": "samara.vehicles.rotor_numbering",
    **dict.fromkeys(("Disc", "shape_parts"), "samara.vehicles.shape"),
}
__getattr__, __dir__ = _lazily(__name__, __path__, _LAZY)
