"""Compare controllers: on the same flight, or in a race on a track."""
