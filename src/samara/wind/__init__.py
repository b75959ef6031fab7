"""Sources of wind: constant, gusts, turbulence, shear, tables."""

from typing import TYPE_CHECKING

from samara.core.lazy_import import lazy_exports
from samara.wind.sources import (
    Constant,
    Gust,
    NoWind,
    OrnsteinUhlenbeck,
    WindSource,
    WindStep,
    WindSum,
    evaluate_wind,
    is_local,
)

if TYPE_CHECKING:
    from samara.wind.shear import LogLaw, PowerLaw
    from samara.wind.turbulence import Dryden, VonKarman
    from samara.wind.wind_field import RecordedWind, WindField
else:
    __getattr__, __dir__ = lazy_exports(__name__)

__all__ = [
    "Constant",
    "Dryden",
    "Gust",
    "LogLaw",
    "NoWind",
    "OrnsteinUhlenbeck",
    "PowerLaw",
    "RecordedWind",
    "VonKarman",
    "WindField",
    "WindSource",
    "WindStep",
    "WindSum",
    "evaluate_wind",
    "is_local",
]
