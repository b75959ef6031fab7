"""Small worlds the tests share: long flights made fast by tracing the one source through CasADi."""

from collections.abc import Callable

import casadi
import numpy as np

from samara.arrays import flatten, unflatten
from samara.integrate import rk4
from samara.physics.multirotor import CALM, Environment, State, Vehicle, derivative


def traced_flight(
    vehicle: Vehicle,
    dt: float,
    steps: int,
    environment: Environment = CALM,
    method: Callable = rk4,
) -> Callable[[State, tuple], np.ndarray]:
    """fly(state, command) → (components, steps): every state of a flight under a constant command, by the same functions."""

    def fly(state: State, command: tuple) -> np.ndarray:
        n, m = len(flatten(state)), len(command)
        x, u = casadi.SX.sym("x", n), casadi.SX.sym("u", m)
        symbolic = unflatten(state, iter(x[i] for i in range(n)))
        inputs = tuple(u[i] for i in range(m))
        advanced = method(lambda s: derivative(s, inputs, vehicle, environment), symbolic, dt)
        step = casadi.Function("step", [x, u], [casadi.cse(casadi.vertcat(*flatten(advanced)))])
        fold = step.mapaccum("flight", steps, {"base": 100}) if steps > 1 else step
        result = fold(np.array(flatten(state), dtype=float), np.tile(np.array(command, dtype=float)[:, None], (1, steps)))
        return np.array(result)

    return fly
