"""Interfaces of the five source documents under their names, as thin layers over the rest of the package."""

from samara.core.lazy_import import lazy_attributes as _lazily

__getattr__, __dir__ = _lazily(__name__, __path__)
