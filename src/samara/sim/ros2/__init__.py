"""A flight on ROS 2 topics while it runs: published states, received commands, and the loop of both."""
