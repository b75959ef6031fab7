"""Differentiate programs forward and in reverse."""
