"""What happens at an instant of a flight: one file for each stage."""

from samara.core.lazy import lazily as _lazily

__getattr__, __dir__ = _lazily(__name__, __path__)
