"""The air: density, turbulence, drag, wakes."""
