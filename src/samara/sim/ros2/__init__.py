"""A flight on ROS 2's topics while it flies: what is said, what is heard, and the loop of both."""

from samara.core.lazy_import import lazily as _lazily

__getattr__, __dir__ = _lazily(__name__, __path__)
