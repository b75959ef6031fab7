"""System identification: log readers, log checks, fits of a vehicle to logs, cross-validation and flight planning.

from samara.identify import identify, read_logs

identification = identify(read_logs(["flight.ulg"]), samara.vehicle("iris"))
samara.save_vehicle(identification.physical.vehicle, "mine.toml")
"""

from typing import TYPE_CHECKING as _TYPE_CHECKING

from samara.core.lazy_import import lazy_attributes as _lazily

if _TYPE_CHECKING:
    from samara.identify.experiment_design import plan_flight as plan_flight
    from samara.identify.experiment_design import write_plan as write_plan
    from samara.identify.flight_log import FlightLog as FlightLog
    from samara.identify.flight_log import Signal as Signal
    from samara.identify.identification import Identification as Identification
    from samara.identify.identification import IdentifiedVehicle as IdentifiedVehicle
    from samara.identify.identification import ParameterEstimate as ParameterEstimate
    from samara.identify.identification import identify as identify
    from samara.identify.log_checks import check as check
    from samara.identify.manoeuvres import FlightVolume as FlightVolume
    from samara.identify.readers.registry import read_log as read_log
    from samara.identify.readers.registry import read_logs as read_logs
    from samara.identify.scores import cross_validate as cross_validate
    from samara.identify.scores import error_ratios as error_ratios
    from samara.identify.scores import pool_scores as pool_scores
    from samara.identify.scores import validate as validate

_LATER = {
    "check": "samara.identify.log_checks",
    "ParameterEstimate": "samara.identify.identification",
    "Identification": "samara.identify.identification",
    "IdentifiedVehicle": "samara.identify.identification",
    "identify": "samara.identify.identification",
    "FlightLog": "samara.identify.flight_log",
    "Signal": "samara.identify.flight_log",
    "FlightVolume": "samara.identify.manoeuvres",
    "plan_flight": "samara.identify.experiment_design",
    "write_plan": "samara.identify.experiment_design",
    "read_log": "samara.identify.readers.registry",
    "read_logs": "samara.identify.readers.registry",
    "cross_validate": "samara.identify.scores",
    "error_ratios": "samara.identify.scores",
    "pool_scores": "samara.identify.scores",
    "validate": "samara.identify.scores",
}

__getattr__, __dir__ = _lazily(__name__, __path__, _LATER)
