"""An aircraft from its parts list: every number with how it was made and how far it may be off."""

from samara.core.lazy_import import lazily as _lazily

__getattr__, __dir__ = _lazily(__name__, __path__)
