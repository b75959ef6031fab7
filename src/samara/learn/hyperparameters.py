"""How a policy is trained by the gradient of the flight itself, wherever that runs."""

import math
from typing import Any, NamedTuple


class Recipe(NamedTuple):
    """How to learn: drones, steps of a horizon, updates, the learning rate at the start and at the end, the share of drones
    that start afresh, how slowly Adam forgets the size of gradients, the activation of hidden layers,
    and how the flights are integrated that a policy learns from; it is judged by RK4.

    With a `memory` of some recurrent units hidden layers have a ReLU, a gradient counts `fading` times as much for every step
    that it goes back, and that of the rewards' sum by one drone's state is cut to `largest`.
    """

    hidden: tuple[int, ...] = (64, 64)
    drones: int = 4096
    horizon: int = 50
    updates: int = 200
    rate: float = 2e-2
    last_rate: float = 1e-4
    afresh: float = 0.6
    forgetting: float = 0.99
    activation: str = "tanh"
    integrator: str = "rk4"
    memory: int = 0
    fading: float = 1.0
    largest: float = math.inf


RECIPES = {
    "hover": Recipe((32, 32), 4096, 50, 90, 6e-2, integrator="midpoint"),
    "recover": Recipe((64, 64), 4096, 100, 170, 6e-2, integrator="midpoint"),
    "track": Recipe((64, 64), 4096, 100, 600, 2e-2),
    "universal": Recipe((16,), 8192, 150, 6800, 6e-3, 1e-5, 0.1, memory=16, fading=0.997, largest=50.0),
    "navigate": Recipe((64,), 4096, 60, 600, 3e-3, 1e-5, 0.25, memory=48, fading=0.97, largest=50.0),
}
"""By the name of a task: what was found to do on an H200; any other learns by the default"""
FEW = 256  # drones that a CPU's few cores fly at once; more learn no quicker there
WITH_FEW: dict[str, dict[str, Any]] = {
    "universal": {"drones": 512, "integrator": "midpoint"},
    "recover": {"updates": 230, "rate": 4e-2, "integrator": "rk4"},
}
"""What else differs then: gradients of fewer drones are rougher"""


def recipe_with(task: str, gpu: bool) -> Recipe:
    """The recipe of a task, with as many drones as are worth their time"""
    own = RECIPES.get(task, Recipe())
    return own if gpu else own._replace(**{"drones": FEW, **WITH_FEW.get(task, {})})
