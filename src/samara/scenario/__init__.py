"""What is to be flown: drones, tasks, events, world, and the file it is read from."""

from samara.core.lazy_import import lazily as _lazily

__getattr__, __dir__ = _lazily(__name__, __path__)
