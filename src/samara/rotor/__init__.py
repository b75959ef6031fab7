"""Rotors from the shape of their blades: geometry, airfoil, blade element momentum theory, and a fit to fly with."""
