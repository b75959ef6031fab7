"""A page to fly in: one HTML file with physics, pilots and pictures, that needs neither a server nor the network."""

from samara.core.lazy_import import lazily as _lazily

__getattr__, __dir__ = _lazily(__name__, __path__)
