"""Sensors: what a drone can know of itself, as records of one function each."""
