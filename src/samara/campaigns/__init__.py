"""Campaigns of many flights: how often it fails, where, why, and the flight that shows it."""

from samara.core.lazy_import import lazily as _lazily

__getattr__, __dir__ = _lazily(__name__, __path__)
