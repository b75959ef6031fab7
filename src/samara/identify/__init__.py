"""Models and measured flights: reading logs, and how well a model says what comes next."""
