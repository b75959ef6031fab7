"""Estimators: what a controller is told of the state."""
