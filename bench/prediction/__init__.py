"""Real flights predicted: one script per public data set."""
