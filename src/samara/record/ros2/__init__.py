"""Flights as ROS 2 data: message types, their CDR encoding, and a bag that its tools play and display."""
