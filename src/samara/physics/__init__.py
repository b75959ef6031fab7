"""The phenomena, one file each, and `multirotor`, which composes them. Pure functions of scalars; no backend, no clock."""

from samara.core.lazy_import import lazily as _lazily

__getattr__, __dir__ = _lazily(__name__, __path__)
