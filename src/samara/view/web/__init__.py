"""The page in the browser: a running simulation or recorded flights, drawn with viser."""

from samara.extras import MissingExtraError

try:
    import viser as viser
except ImportError as error:
    raise MissingExtraError("the page in the browser needs viser: pip install 'samara[view]'") from error
