"""A web page to fly a drone in: one HTML file with physics, stick controllers and graphics; it needs no server and no
network."""

from samara.core.lazy_import import lazy_attributes as _lazily

__getattr__, __dir__ = _lazily(__name__, __path__)
