"""Recordings: written during a flight, read back, compared, exported."""
