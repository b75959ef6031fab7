"""The runtime: the schedule of a flight, its stages and slots, the executors that run them, and the recorded results."""

from samara.core.lazy_import import lazy_attributes as _lazily

__getattr__, __dir__ = _lazily(__name__, __path__)
