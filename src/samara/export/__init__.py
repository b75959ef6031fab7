"""Write programs as C, C++ and JavaScript."""

from samara.core.lazy_import import lazily

__getattr__, __dir__ = lazily(__name__, __path__)
