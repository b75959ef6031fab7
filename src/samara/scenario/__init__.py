"""Scenarios: drones, tasks, events, world, and the TOML file that describes them."""

from samara.core.lazy_import import lazy_attributes as _lazily

__getattr__, __dir__ = _lazily(__name__, __path__)
