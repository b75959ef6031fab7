"""Where to fly: references as functions of time."""

from samara.lazy import lazily as _lazily

__getattr__, __dir__ = _lazily(__name__, __path__)
