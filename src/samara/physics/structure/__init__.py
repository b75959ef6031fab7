"""Flexible structure: arms and slung loads."""
