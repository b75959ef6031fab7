"""System identification: log readers, log checks, fits of a vehicle to logs, cross-validation and flight planning.

from samara.identify import identify, read_logs

identification = identify(read_logs(["flight.ulg"]), samara.vehicle("iris"))
samara.save_vehicle(identification.physical.vehicle, "mine.toml")
"""

from typing import TYPE_CHECKING as _TYPE_CHECKING

from samara.core.lazy_import import lazily as _lazily

if _TYPE_CHECKING:
    from samara.identify.experiment_design import plan_flight as plan_flight
    from samara.identify.experiment_design import write_plan as write_plan
    from samara.identify.flight_log import FlightLog as FlightLog
    from samara.identify.flight_log import Signal as Signal
    from samara.identify.identification import Estimate as Estimate
    from samara.identify.identification import Identified as Identified
    from samara.identify.identification import Product as Product
    from samara.identify.identification import identify as identify
    from samara.identify.log_checks import check as check
    from samara.identify.manoeuvres import Room as Room
    from samara.identify.readers.registry import read_log as read_log
    from samara.identify.readers.registry import read_logs as read_logs
    from samara.identify.scores import held_out as held_out
    from samara.identify.scores import ratios as ratios
    from samara.identify.scores import together as together
    from samara.identify.scores import validate as validate

_LATER = {
    "check": "samara.identify.log_checks",
    "Estimate": "samara.identify.identification",
    "Identified": "samara.identify.identification",
    "Product": "samara.identify.identification",
    "identify": "samara.identify.identification",
    "FlightLog": "samara.identify.flight_log",
    "Signal": "samara.identify.flight_log",
    "Room": "samara.identify.manoeuvres",
    "plan_flight": "samara.identify.experiment_design",
    "write_plan": "samara.identify.experiment_design",
    "read_log": "samara.identify.readers.registry",
    "read_logs": "samara.identify.readers.registry",
    "held_out": "samara.identify.scores",
    "ratios": "samara.identify.scores",
    "together": "samara.identify.scores",
    "validate": "samara.identify.scores",
}

__getattr__, __dir__ = _lazily(__name__, __path__, _LATER)
