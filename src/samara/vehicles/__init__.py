"""Aircraft as TOML files: a unit and a source on every value, and the code that reads, checks and writes them."""

from samara.core.lazy_import import lazily as _lazily

__getattr__, __dir__ = _lazily(__name__, __path__)
