"""The linear model of a vehicle about a state, δẋ = A δx + B δu: exact, and every row and column has a name.

linear = samara.linearize(samara.vehicle("iris"))
linear["v_W.x", "theta_B.y"]     # 9.81: leaning forward, it accelerates forward
"""

from dataclasses import dataclass
from typing import Any

import casadi
import numpy as np

from samara.compiler.derivatives.step_jacobian import in_tangent_space
from samara.core.algebra import Vec3
from samara.core.tree import flatten, leaf_names, unflatten
from samara.core.types import Array
from samara.physics.effect import Effect, Wrench
from samara.physics.multirotor import derivative
from samara.physics.types import CALM, Command, Environment, State, Vehicle
from samara.vehicles.trim import hover

STATES = ("rigid", "all")
RIGID = 12  # δp, δv, δθ, δω
TURNS = slice(6, 9)
PUSH = ("f_B.z", "tau_B.x", "tau_B.y", "tau_B.z")


@dataclass(frozen=True, eq=False)
class Linear:
    """δẋ = A δx + B δu about `state` and `command`, in SI units.

    `states` are the names of the rows and of A's columns, `inputs` those of B's. δθ (`theta_B`) is a rotation vector in body
    axes, q = q₀ ⊗ exp(δθ); all else is a difference of components.
    """

    A: Array
    B: Array
    states: tuple[str, ...]
    inputs: tuple[str, ...]
    state: State
    command: Command

    def __getitem__(self, names: tuple[str, str]) -> float:
        """∂(rate of one)/∂(another): `linear["v_W.x", "theta_B.y"]`"""
        row, column = names
        for known, name in ((self.states, row), ((*self.states, *self.inputs), column)):
            if name not in known:
                raise KeyError(f"no {name!r} here; there are {', '.join(known)}")
        if column in self.states:
            return float(self.A[self.states.index(row), self.states.index(column)])
        return float(self.B[self.states.index(row), self.inputs.index(column)])

    def __repr__(self) -> str:
        return f"Linear(A {self.A.shape}, B {self.B.shape}, states {', '.join(self.states)}; inputs {', '.join(self.inputs)})"


def linearize(
    vehicle: Vehicle,
    state: State | None = None,
    command: Command | None = None,
    environment: Environment = CALM,
    *,
    states: str = "rigid",
) -> Linear:
    """A = ∂f/∂x, B = ∂f/∂u of ẋ = f(x, u), in the tangent space: about hover in the air unless a state and command are given

    With `states` "rigid" x is (δp, δv, δθ, δω) and u a force along body z and a torque about the body's axes more than at that
    state, the rotors turning as there: the textbook's twelve states. With "all" the rotor speeds and the effects' own states
    follow, and u is the vehicle's command. Without a state the ground (`contact`) is left out.
    """
    if states not in STATES:
        raise ValueError(f"states = {states!r}: expected one of {', '.join(STATES)}")
    if (state is None) != (command is None):
        raise ValueError("a state without a command, or the other way round: expected both, or neither for hover")
    own = vehicle.without_effect("contact") if state is None and vehicle.has("contact") else vehicle
    about, given = hover(own, environment=environment) if state is None or command is None else (state, tuple(command))
    a, b = _slopes(own, about, given, environment, rigid=states == "rigid")
    names = _tangent_names(about)
    if states == "rigid":
        return Linear(a[:RIGID, :RIGID], b[:RIGID], names[:RIGID], PUSH, about, given)
    inputs = tuple(f"motor[{i}]" for i in range(len(own.rotors))) or ("thrust", *PUSH[1:])
    inputs += tuple(f"servo[{k}]" for k in range(len(own.servos)))
    return Linear(a, b, names, inputs, about, given)


def _tangent_names(state: State) -> tuple[str, ...]:
    """With `theta_B` in the place of the quaternion"""
    first, _, rest = leaf_names(state)[:6], leaf_names(state)[6:10], leaf_names(state)[10:]
    return (*first, *(f"theta_B.{axis}" for axis in "xyz"), *rest)


def _slopes(
    vehicle: Vehicle, state: State, command: Command, environment: Environment, rigid: bool
) -> tuple[Array, Array]:
    """∂f/∂x and ∂f/∂u in the tangent space, by CasADi; where it is to be rigid, u is a push on the body"""
    numbers = [float(leaf) for leaf in flatten(state)]
    x, u = casadi.SX.sym("x", len(numbers)), casadi.SX.sym("u", len(PUSH) if rigid else len(command))
    parts = tuple(u[i] for i in range(u.numel()))
    there = unflatten(state, iter(x[i] for i in range(len(numbers))))
    if rigid:
        push = Wrench(f_B=Vec3(0.0, 0.0, parts[0]), tau_B=Vec3(*parts[1:]))
        pushed = vehicle.with_effect(Effect("push of the linear model", wrench=lambda *_: push))
        at = there._replace(effects=(*there.effects, ()))
        rate = derivative(at, command, pushed, environment)
        rates = flatten(rate._replace(effects=rate.effects[:-1]))
    else:
        rates = flatten(derivative(there, parts, vehicle, environment))
    f: Any = casadi.vertcat(*rates)
    both: Any = casadi.Function("slopes", [x, u], [casadi.jacobian(f, x), casadi.jacobian(f, u)])
    f_x, f_u = (np.array(each) for each in both(numbers, [0.0] * len(PUSH) if rigid else list(command)))
    a, b = in_tangent_space(f_x, f_u, np.array(numbers), np.array(numbers))
    wx, wy, wz = (float(w) for w in state.omega_B)
    a[TURNS, TURNS] -= 0.5 * np.array(
        [[0.0, -wz, wy], [wz, 0.0, -wx], [-wy, wx, 0.0]]
    )  # the axes of δθ turn with the body
    return a, b
