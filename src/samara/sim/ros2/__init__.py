"""A flight on ROS 2 topics while it runs: published states, received commands, and the loop of both."""

from samara.core.lazy_import import lazy_attributes as _lazily

__getattr__, __dir__ = _lazily(__name__, __path__)
