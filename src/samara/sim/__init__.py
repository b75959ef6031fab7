"""The runtime: what happens when, what flows where, and what is kept of it."""
