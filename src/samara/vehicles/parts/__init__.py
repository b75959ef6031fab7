"""Estimate a vehicle from its parts list: every parameter with its derivation and its uncertainty."""
