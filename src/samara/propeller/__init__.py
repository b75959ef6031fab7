"""Rotors from the shape of their blades: geometry, airfoil, blade element momentum theory, and a fit to fly with."""

from samara.core.lazy_import import lazily as _lazily

__getattr__, __dir__ = _lazily(__name__, __path__)
