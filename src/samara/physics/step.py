"""One step of a vehicle through time, from Python: the plainest way to fly."""

from samara.core.integrate import integrator_named
from samara.core.quantity import Scalar
from samara.core.tree import require_finite
from samara.physics.multirotor import derivative, require_command_size
from samara.physics.types import CALM, Command, Environment, State, Vehicle


def step(
    state: State,
    command: Command,
    vehicle: Vehicle,
    dt: Scalar,
    method: str = "rk4",
    environment: Environment = CALM,
) -> State:
    """x(t + dt) from ẋ = derivative(x, command, vehicle, environment), command and environment held  [s]

    Methods: euler, semi_implicit, midpoint, rk4, rk23, rk45; the last two choose their own steps within dt.
    """
    own = integrator_named(method, what="method")
    require_command_size(command, vehicle)
    command = tuple(command)
    require_finite(command, "command")
    require_finite(state, "state")
    advanced: State = own.advance(lambda s: derivative(s, command, vehicle, environment), state, dt)
    require_finite(advanced, "state")
    return advanced
