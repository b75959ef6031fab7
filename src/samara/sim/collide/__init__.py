"""Collisions of drones with solids and with each other."""
