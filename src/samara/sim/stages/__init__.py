"""The stages of a flight, one module each."""
