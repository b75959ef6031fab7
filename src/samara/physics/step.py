"""One step of a vehicle through time, from Python: the plainest way to fly."""

from collections.abc import Callable
from typing import Any

from samara.core.integrate import euler, rk4, rk23, rk45, semi_implicit
from samara.core.quantity import Scalar
from samara.core.tree import require_finite
from samara.physics.multirotor import derivative
from samara.physics.types import CALM, Command, Environment, State, Vehicle

METHODS: dict[str, Callable[..., Any]] = {
    "euler": euler,
    "semi_implicit": semi_implicit,
    "rk4": rk4,
    "rk23": rk23,
    "rk45": rk45,
}


def step(
    state: State,
    command: Command,
    vehicle: Vehicle,
    dt: Scalar,
    method: str = "rk4",
    environment: Environment = CALM,
) -> State:
    """x(t + dt) from ẋ = derivative(x, command, vehicle, environment), command and environment held  [s]

    Methods: euler, semi_implicit, rk4, rk23, rk45; the last two choose their own steps within dt.
    """
    if method not in METHODS:
        raise ValueError(f"method {method!r}: expected one of {', '.join(METHODS)}")
    expected = len(vehicle.rotors) or 4
    if len(command) != expected:
        kind = vehicle.structure.actuation.name
        raise ValueError(f"command has {len(command)} numbers; vehicle {vehicle.name!r} ({kind}) takes {expected}")
    command = tuple(command)
    require_finite(command, "command")
    require_finite(state, "state")
    advanced: State = METHODS[method](lambda s: derivative(s, command, vehicle, environment), state, dt)
    require_finite(advanced, "state")
    return advanced
