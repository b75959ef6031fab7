"""Write policies for the autopilots that run them on board."""

from samara.core.lazy_import import lazily

__getattr__, __dir__ = lazily(__name__, __path__)
