"""Propellers from the shape of their blades: geometry, airfoils, blade-element momentum theory, and fits for simulation."""

from samara.core.lazy_import import lazy_attributes as _lazily
from samara.propeller.blade import Blade, BladeError, blade_names, parse_blade
from samara.propeller.fit import FITTED_ROTORS, RotorFit, fit_rotor, fitted_coefficients, rotor_constants

__all__ = [
    "FITTED_ROTORS", "Airfoil", "Blade", "BladeError", "RotorFit", "blade_names", "fit_rotor", "fitted_coefficients",
    "parse_blade", "rotor_coefficients", "rotor_constants",
]  # fmt: skip

_LAZY = {
    "Airfoil": "samara.propeller.airfoil",
    "rotor_coefficients": "samara.propeller.bem",
}
__getattr__, __dir__ = _lazily(__name__, __path__, _LAZY)
