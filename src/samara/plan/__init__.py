"""Where to fly: references as functions of time."""
