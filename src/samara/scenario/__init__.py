"""Scenarios: drones, tasks, events, world, and the TOML file that describes them."""

from samara.core.lazy_import import lazily as _lazily

__getattr__, __dir__ = _lazily(__name__, __path__)
