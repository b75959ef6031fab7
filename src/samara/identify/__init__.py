"""System identification: log readers, log checks, fits of a vehicle to logs, cross-validation and flight planning.

from samara.identify import identify, read_logs

identification = identify(read_logs(["flight.ulg"]), samara.vehicle("iris"))
samara.save_vehicle(identification.physical.vehicle, "mine.toml")
"""

from typing import TYPE_CHECKING

from samara.core.lazy_import import lazy_exports

if TYPE_CHECKING:
    from samara.identify.detector_fit import DetectionLog, fit_detector
    from samara.identify.experiment_design import plan_flight, write_plan
    from samara.identify.flight_log import FlightLog, Signal
    from samara.identify.identification import Identification, IdentifiedVehicle, ParameterEstimate, identify
    from samara.identify.log_checks import check
    from samara.identify.log_run import load_flight
    from samara.identify.manoeuvres import FlightVolume
    from samara.identify.readers import read_log, read_logs
    from samara.identify.scores import cross_validate, error_ratios, pool_scores, validate
else:
    __getattr__, __dir__ = lazy_exports(__name__)

__all__ = [
    "DetectionLog",
    "FlightLog",
    "FlightVolume",
    "Identification",
    "IdentifiedVehicle",
    "ParameterEstimate",
    "Signal",
    "check",
    "cross_validate",
    "error_ratios",
    "fit_detector",
    "identify",
    "load_flight",
    "plan_flight",
    "pool_scores",
    "read_log",
    "read_logs",
    "validate",
    "write_plan",
]
