"""Write policies for the autopilots that run them on board."""
