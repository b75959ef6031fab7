"""The page in the browser: a running simulation or recorded flights, drawn with viser."""

try:
    import viser as viser
except ImportError as error:
    raise ImportError("the page in the browser needs viser: pip install 'samara[view]'") from error
