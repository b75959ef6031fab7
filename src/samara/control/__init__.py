"""Controllers: `controller(state, reference, vehicle, memory) → command, memory`, pure and component-wise."""
