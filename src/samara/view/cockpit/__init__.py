"""A page to fly in: one HTML file with physics, pilots and pictures, that needs neither a server nor the network."""
