"""From the equations to fast code: the only place that knows a backend."""
