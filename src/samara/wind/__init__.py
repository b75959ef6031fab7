"""Sources of wind: constant, gusts, turbulence, shear, tables."""

from samara.core.lazy_import import lazy_attributes as _lazily
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
]  # fmt: skip

_LAZY = {
    **dict.fromkeys(("LogLaw", "PowerLaw"), "samara.wind.shear"),
    **dict.fromkeys(("Dryden", "VonKarman"), "samara.wind.turbulence"),
    **dict.fromkeys(("WindField", "RecordedWind"), "samara.wind.wind_field"),
}
__getattr__, __dir__ = _lazily(__name__, __path__, _LAZY)
