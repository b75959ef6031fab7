"""Differentiate programs forward and in reverse."""

from samara.core.lazy_import import lazy_attributes

__getattr__, __dir__ = lazy_attributes(__name__, __path__)
