"""A web page to fly a drone in: one HTML file with physics, stick controllers and graphics; it needs no server and no
network."""
