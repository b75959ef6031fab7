"""Flights as ROS 2 has them: its types of messages, their bytes, and a bag that its tools play and draw."""

from samara.core.lazy_import import lazily as _lazily

__getattr__, __dir__ = _lazily(__name__, __path__)
