"""Propellers from the shape of their blades: geometry, airfoils, blade-element momentum theory, and fits for simulation."""

from typing import TYPE_CHECKING

from samara.core.lazy_import import lazy_exports
from samara.propeller.blade import Blade, BladeError, blade_names, parse_blade
from samara.propeller.fit import FITTED_ROTORS, RotorFit, fit_rotor, fitted_coefficients, rotor_constants

if TYPE_CHECKING:
    from samara.propeller.airfoil import Airfoil
    from samara.propeller.bem import rotor_coefficients
else:
    __getattr__, __dir__ = lazy_exports(__name__)

__all__ = [
    "FITTED_ROTORS",
    "Airfoil",
    "Blade",
    "BladeError",
    "RotorFit",
    "blade_names",
    "fit_rotor",
    "fitted_coefficients",
    "parse_blade",
    "rotor_coefficients",
    "rotor_constants",
]
