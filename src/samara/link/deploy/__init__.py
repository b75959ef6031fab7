"""Write policies for the autopilots that run them on board."""

from samara.core.lazy_import import lazy_attributes

__getattr__, __dir__ = lazy_attributes(__name__, __path__)
