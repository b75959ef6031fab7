"""Models and measured flights: reading logs, and how well a model says what comes next."""

from samara.core.lazy import lazily as _lazily

__getattr__, __dir__ = _lazily(__name__, __path__)
