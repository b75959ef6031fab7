"""Viewer in the browser for running simulations and recorded flights, drawn with viser."""

from samara.core.lazy_import import MissingExtraError
from samara.core.lazy_import import lazy_attributes as _lazily

try:
    import viser as viser
except ImportError as error:
    raise MissingExtraError("the viewer needs viser: pip install 'samara[view]'") from error

__getattr__, __dir__ = _lazily(__name__, __path__)
