"""Vehicles: files with a value, a unit and a source on every line, and the code that reads, checks and writes them."""
