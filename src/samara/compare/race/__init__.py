"""Races on fixed tracks: what is drawn for a seed, the plan, the flights, and who went through which gates."""
