"""Wind sources by name. To add one, write a module with its class and register it in `WINDS`.

A scenario file sets the parameters of the class or function by name. Some of them are special: `data` and `name` are the
content and the name of the `file` that the table names, `ground` defaults to the height of the ground, and a `mean` beside a
`height` is a wind vector or the table of another source.
"""

from collections.abc import Callable

from samara.wind.shear import LogLaw, PowerLaw
from samara.wind.sources import Constant, Gust, NoWind, OrnsteinUhlenbeck, WindSource, WindStep
from samara.wind.turbulence import Dryden, VonKarman
from samara.wind.wind_field import RecordedWind, WindField

WINDS: dict[str, Callable[..., WindSource]] = {
    "none": NoWind,
    "constant": Constant,
    "step": WindStep,
    "gust": Gust,
    "turbulence": OrnsteinUhlenbeck,
    "dryden": Dryden,
    "von_karman": VonKarman,
    "power_law": PowerLaw,
    "log_law": LogLaw,
    "field": WindField.from_bytes,
    "replay": RecordedWind.from_bytes,
}
