"""Viewer in the browser for running simulations and recorded flights, drawn with viser."""

from samara.core.extras import missing_extra
from samara.core.lazy_import import lazy_attributes as _lazily

try:
    import viser as viser
except ImportError as error:
    raise missing_extra("the viewer", "viser", "view") from error

__getattr__, __dir__ = _lazily(__name__, __path__)
