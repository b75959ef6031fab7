"""Estimate a vehicle from its parts list: every parameter with its derivation and its uncertainty."""

from samara.core.lazy_import import lazy_attributes as _lazily

__getattr__, __dir__ = _lazily(__name__, __path__)
