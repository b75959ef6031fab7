"""Sources of wind: constant, gusts, turbulence, shear, tables."""

from samara.core.lazy_import import lazily as _lazily
from samara.wind.sources import Constant, Gust, NoWind, OrnsteinUhlenbeck, Step, Sum, WindSource, is_local, wind_at

__all__ = [
    "Constant",
    "Dryden",
    "Field",
    "Gust",
    "LogLaw",
    "NoWind",
    "OrnsteinUhlenbeck",
    "PowerLaw",
    "Replay",
    "Step",
    "Sum",
    "VonKarman",
    "WindSource",
    "is_local",
    "wind_at",
]

_LAZY = {
    "LogLaw": "samara.wind.shear",
    "PowerLaw": "samara.wind.shear",
    "Dryden": "samara.wind.turbulence",
    "VonKarman": "samara.wind.turbulence",
    "Field": "samara.wind.wind_field",
    "Replay": "samara.wind.wind_field",
}
__getattr__, __dir__ = _lazily(__name__, __path__, _LAZY)
