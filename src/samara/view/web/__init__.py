"""The page in the browser: a running simulation or recorded flights, drawn with viser."""

from samara.core.lazy_import import MissingExtraError
from samara.core.lazy_import import lazily as _lazily

try:
    import viser as viser
except ImportError as error:
    raise MissingExtraError("the page in the browser needs viser: pip install 'samara[view]'") from error

__getattr__, __dir__ = _lazily(__name__, __path__)
