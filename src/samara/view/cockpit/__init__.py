"""A page to fly in: one HTML file with physics, stick controllers and graphics, without a server or the network."""

from samara.core.lazy_import import lazily as _lazily

__getattr__, __dir__ = _lazily(__name__, __path__)
