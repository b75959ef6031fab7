"""Campaigns of many flights: failure rates with confidence intervals, their causes, and the flights that show them."""

from samara.core.lazy_import import lazy_attributes as _lazily

__getattr__, __dir__ = _lazily(__name__, __path__)
