"""The rigid body and its weight."""
