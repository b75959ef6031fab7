"""What several tests need and none is about."""
