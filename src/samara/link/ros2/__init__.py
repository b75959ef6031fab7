"""ROS 2 topics without a ROS installation, over Eclipse Cyclone DDS (the extra `ros2`)."""

from samara.core.lazy_import import lazy_attributes as _lazily

__getattr__, __dir__ = _lazily(__name__, __path__)
