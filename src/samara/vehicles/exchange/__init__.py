"""Vehicle files of other programs: SDF, URDF and xacro, MJCF, PX4, ArduPilot, Betaflight, RotorPy, drone-models."""

from typing import TYPE_CHECKING

from samara.core.lazy_import import lazy_exports

if TYPE_CHECKING:
    from samara.vehicles.exchange.ardupilot import write_ardupilot
    from samara.vehicles.exchange.betaflight import write_betaflight
    from samara.vehicles.exchange.formats import estimate_from_parts, read_aircraft
    from samara.vehicles.exchange.imported_vehicle import ImportedVehicle, build_imported
    from samara.vehicles.exchange.px4 import write_px4
    from samara.vehicles.exchange.sdf_write import sdf_omissions, write_sdf
else:
    __getattr__, __dir__ = lazy_exports(__name__)

__all__ = [
    "ImportedVehicle",
    "build_imported",
    "estimate_from_parts",
    "read_aircraft",
    "sdf_omissions",
    "write_ardupilot",
    "write_betaflight",
    "write_px4",
    "write_sdf",
]
