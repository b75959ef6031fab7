"""Tasks that come with Samara, each in one file of pure functions."""
