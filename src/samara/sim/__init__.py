"""The runtime: what happens when, what flows where, and what is kept of it."""

from samara.core.lazy_import import lazily as _lazily

__getattr__, __dir__ = _lazily(__name__, __path__)
