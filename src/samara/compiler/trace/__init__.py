"""Trace functions of scalars into programs."""
