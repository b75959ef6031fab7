"""Vehicles: load them from TOML files with a unit and a source on every value, build, check, trim and save them."""

from typing import TYPE_CHECKING

from samara.core.lazy_import import lazy_exports
from samara.vehicles.build import ContactShape, Provenance, build_vehicle, switch_on, with_effects
from samara.vehicles.check import VehicleError, check_vehicle
from samara.vehicles.controllability import HoverMode, controllability
from samara.vehicles.effects import EffectOption
from samara.vehicles.loader import parse_vehicle, vehicle, vehicle_names
from samara.vehicles.payload import Payload, with_payload
from samara.vehicles.trim import hover, thrust_to_weight
from samara.vehicles.writer import save_vehicle, vehicle_toml

if TYPE_CHECKING:
    from samara.vehicles.exchange import (
        ImportedVehicle,
        build_imported,
        read_aircraft,
        sdf_omissions,
        write_ardupilot,
        write_betaflight,
        write_px4,
        write_sdf,
    )
    from samara.vehicles.parts.assemble import assemble
    from samara.vehicles.parts.motor import motor
    from samara.vehicles.parts.operating_point import (
        drive_coefficients,
        full_throttle_propeller,
        hover_duty,
        operating_point,
    )
    from samara.vehicles.parts.parts_list import parts_list
    from samara.vehicles.parts.performance import performance_figures
    from samara.vehicles.parts.propeller import propeller
    from samara.vehicles.plausibility import controllable_axes, warnings
    from samara.vehicles.rotor_numbering import rotor_order
    from samara.vehicles.shape import Disc, shape_parts
else:
    __getattr__, __dir__ = lazy_exports(__name__)

__all__ = [
    "ContactShape",
    "Disc",
    "EffectOption",
    "HoverMode",
    "ImportedVehicle",
    "Payload",
    "Provenance",
    "VehicleError",
    "assemble",
    "build_imported",
    "build_vehicle",
    "check_vehicle",
    "controllability",
    "controllable_axes",
    "drive_coefficients",
    "full_throttle_propeller",
    "hover",
    "hover_duty",
    "motor",
    "operating_point",
    "parse_vehicle",
    "parts_list",
    "performance_figures",
    "propeller",
    "read_aircraft",
    "rotor_order",
    "save_vehicle",
    "sdf_omissions",
    "shape_parts",
    "switch_on",
    "thrust_to_weight",
    "vehicle",
    "vehicle_names",
    "vehicle_toml",
    "warnings",
    "with_effects",
    "with_payload",
    "write_ardupilot",
    "write_betaflight",
    "write_px4",
    "write_sdf",
]
