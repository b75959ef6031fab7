"""Sources of wind: constant, gusts, turbulence, shear, tables."""

from samara.core.lazy_import import lazily as _lazily
from samara.wind.sources import Constant, Gust, NoWind, OrnsteinUhlenbeck, Step, Sum, WindSource, is_local, wind_at

__all__ = [
    "Constant", "Dryden", "Field", "Gust", "LogLaw", "NoWind", "OrnsteinUhlenbeck", "PowerLaw", "Replay", "Step",
    "Sum", "VonKarman", "WindSource", "is_local", "wind_at",
]  # fmt: skip

_LAZY = {
    **dict.fromkeys(("LogLaw", "PowerLaw"), "samara.wind.shear"),
    **dict.fromkeys(("Dryden", "VonKarman"), "samara.wind.turbulence"),
    **dict.fromkeys(("Field", "Replay"), "samara.wind.wind_field"),
}
__getattr__, __dir__ = _lazily(__name__, __path__, _LAZY)
