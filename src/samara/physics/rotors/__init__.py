"""Rotors, motors, batteries and inflow."""
