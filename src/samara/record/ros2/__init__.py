"""Flights as ROS 2 data: message types, their CDR encoding, and a bag that its tools play and display."""

from samara.core.lazy_import import lazy_attributes as _lazily

__getattr__, __dir__ = _lazily(__name__, __path__)
