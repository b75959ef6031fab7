"""Viewer in the browser for running simulations and recorded flights, drawn with viser."""

from samara.core.extras import missing_extra

try:
    import viser as viser
except ImportError as error:
    raise missing_extra("the viewer", "viser", "view") from error
