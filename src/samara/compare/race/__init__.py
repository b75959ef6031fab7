"""Races on fixed tracks: what is drawn for a seed, the plan, the flights, and who went through which gates."""

from samara.core.lazy_import import lazily as _lazily

__getattr__, __dir__ = _lazily(__name__, __path__)
