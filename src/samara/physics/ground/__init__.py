"""Ground and obstacles: contact, impacts, solids."""
