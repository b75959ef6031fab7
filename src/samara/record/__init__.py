"""Recordings: written during a flight, read back, compared, exported."""

from samara.core.lazy_import import lazy_attributes as _lazily

__getattr__, __dir__ = _lazily(__name__, __path__)
