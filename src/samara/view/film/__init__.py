"""Films and still pictures of flights."""
