"""Vehicle files of other programs: SDF, URDF and xacro, MJCF, PX4, ArduPilot, Betaflight, RotorPy, drone-models."""

from samara.core.lazy_import import lazy_attributes as _lazily

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
]  # fmt: skip

_LAZY = {
    "write_ardupilot": "samara.vehicles.exchange.ardupilot",
    "write_betaflight": "samara.vehicles.exchange.betaflight",
    **dict.fromkeys(("estimate_from_parts", "read_aircraft"), "samara.vehicles.exchange.formats"),
    **dict.fromkeys(("ImportedVehicle", "build_imported"), "samara.vehicles.exchange.imported_vehicle"),
    "write_px4": "samara.vehicles.exchange.px4",
    **dict.fromkeys(("sdf_omissions", "write_sdf"), "samara.vehicles.exchange.sdf_write"),
}
__getattr__, __dir__ = _lazily(__name__, __path__, _LAZY)
