"""Executors run the stages of a flight: in Python with floats, as one compiled schedule, or as one loop or kernel in JAX."""
