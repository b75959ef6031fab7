"""Vehicle files of other programs, read and written: what they say, what they cannot say, and what it became here."""

from samara.core.lazy_import import lazily as _lazily

__getattr__, __dir__ = _lazily(__name__, __path__)
