"""The linear model of a vehicle about a state, δẋ = A δx + B δu, and of one step, x' = A x + B u: exact, by forward mode.

    linear = samara.linearize(samara.vehicle("iris"))
    linear["v_W.x", "theta_B.y"]     # 9.81: leaning forward, it accelerates forward

For a step the derivative and its Jacobian are traced and compiled once, and the sensitivities of the integrator's stages are
computed along with them:

    Xᵢ = x + dt Σ aᵢⱼ kⱼ,  Sᵢ = 1 + dt Σ aᵢⱼ Kⱼ,  Kᵢ = f'(Xᵢ) Sᵢ,  ∂x'/∂x = N (1 + dt Σ bᵢ Kᵢ)

where N is the Jacobian of normalising the quaternion. Unrolled into one trace the products would fill in: 117,000 instructions
for a vehicle on the ground, against 2,000 for its derivative with Jacobian.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from samara.compiler.derivatives.forward import jacobian_at, jacobian_of
from samara.compiler.llvm.scan import compile_program
from samara.compiler.trace.program import program_of
from samara.core.algebra import Quat, Vec3, conjugate
from samara.core.integrate import RUNGE_KUTTA, integrator_named, unit_quaternions
from samara.core.portable_linalg import product
from samara.core.quantity import Scalar
from samara.core.tree import flatten, leaf_names
from samara.core.types import Array
from samara.physics.effect import Effect, Wrench
from samara.physics.multirotor import at_rest, derivative, empty_command
from samara.physics.types import CALM, Command, Environment, State, Vehicle
from samara.vehicles.trim import hover

ATTITUDE = slice(6, 10)  # the components of q_WB in a state
TURNS = slice(6, 9)  # those of its rotation vector in the tangent space
STATES = ("rigid", "all")
RIGID = 12  # δp, δv, δθ, δω
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
    """∂f/∂x and ∂f/∂u in the tangent space; where it is to be rigid, u is a push on the body"""

    def rate(x: State, u: tuple[Scalar, ...]) -> State:
        if not rigid:
            return derivative(x, u, vehicle, environment)
        push = Wrench(f_B=Vec3(0.0, 0.0, u[0]), tau_B=Vec3(*u[1:]))
        pushed = vehicle.with_effect(Effect("push of the linear model", wrench=lambda *_: push))
        rates = derivative(x._replace(effects=(*x.effects, ())), command, pushed, environment)
        return rates._replace(effects=rates.effects[:-1])

    x = np.array([float(leaf) for leaf in flatten(state)])
    jacobian = jacobian_at(rate, state, (0.0,) * len(PUSH) if rigid else tuple(command))
    a, b = in_tangent_space(jacobian[:, : len(x)], jacobian[:, len(x) :], x, x)
    wx, wy, wz = (float(w) for w in state.omega_B)
    a[TURNS, TURNS] -= 0.5 * np.array(
        [[0.0, -wz, wy], [wz, 0.0, -wx], [-wy, wx, 0.0]]
    )  # the axes of δθ turn with the body
    return a, b


# One step -----------------------------------------------------------------------------------------------------------------


def linearizer(
    vehicle: Vehicle, integrator: str, tangent: bool = False, dtype: str = "float64", held: Environment = CALM
) -> Callable[[State, Command, float, Environment], tuple[Array, Array]]:
    """linearize(state, command, dt, environment) → A, B, dense; compiled once, for environments shaped like `held`"""
    tableau = integrator_named(integrator, RUNGE_KUTTA, "linearize: integrator").tableau
    assert tableau is not None
    template = at_rest(vehicle)
    slope, unit = (
        _compiled_slope(vehicle, template, dtype, held),
        _compiled_jacobian(unit_quaternions, [template], (0,), dtype),
    )

    def linearize(state: State, command: Command, dt: float, environment: Environment) -> tuple[Array, Array]:
        x, given = np.array(flatten(state), dtype=dtype), [*command, *flatten(environment)]
        start = (x, np.eye(len(x), dtype=dtype), np.zeros((len(x), len(command)), dtype=dtype))
        rates: list[tuple[Array, Array, Array]] = []
        for row in tableau.stages:
            at, by_x, by_u = _advance(start, dt, row, rates)
            f, f_x, f_u = slope([*at, *given])
            rates.append((f, product(f_x, by_x), product(f_x, by_u) + f_u))
        before, a, b = _advance(start, dt, tableau.weights, rates)
        after, n = unit(before.tolist())
        a, b = product(n, a), product(n, b)
        return in_tangent_space(a, b, x, after) if tangent else (a, b)

    return linearize


def _advance(
    start: Sequence[Array], dt: float, weights: tuple[float, ...], rates: Sequence[Sequence[Array]]
) -> list[Array]:
    used = [(dt * weight, rate) for weight, rate in zip(weights, rates, strict=False) if weight]
    return [own + sum(factor * rate[i] for factor, rate in used) for i, own in enumerate(start)]


def _compiled_slope(
    vehicle: Vehicle, template: State, dtype: str, held: Environment
) -> Callable[[Sequence[float]], tuple[Array, Array, Array]]:
    """(x, u, environment) → f, ∂f/∂x, ∂f/∂u"""
    templates = template, empty_command(vehicle), held
    f = _compiled_jacobian(lambda *x: derivative(x[0], x[1], vehicle, x[2]), templates, (0, 1), dtype)
    n = len(flatten(template))

    def slope(numbers: Sequence[float]) -> tuple[Array, Array, Array]:
        rate, by = f(numbers)
        return rate, by[:, :n], by[:, n:]

    return slope


def _compiled_jacobian(
    function: Callable[..., Scalar], templates: Sequence[Scalar], by: Sequence[int], dtype: str
) -> Callable[[Sequence[float]], tuple[Array, Array]]:
    """The leaves of all arguments → the leaves of a function, and its Jacobian by some of the arguments"""
    sizes = [len(flatten(template)) for template in templates]
    jacobian = jacobian_of(program_of(lambda *x: (function(*x),), *templates), sizes, by)
    values, entries = jacobian.program.outputs
    run = compile_program(jacobian.program._replace(outputs=((*values, *entries),)), sizes, dtype=dtype)

    def call(numbers: Sequence[float]) -> tuple[Array, Array]:
        found = run(numbers)
        return found[: len(values)], jacobian.dense(found[len(values) :])

    return call


def in_tangent_space(a: Array, b: Array, x: Array, x_after: Array) -> tuple[Array, Array]:
    """δx' = P(q') A E(q) δx with E: δθ → ½ q ⊗ (0, δθ) and P: dq → 2 vec(q* ⊗ dq)"""
    n = len(x)
    q, q_after = Quat(*x[ATTITUDE]), Quat(*x_after[ATTITUDE])
    into, out_of = np.zeros((n, n - 1), dtype=a.dtype), np.zeros((n - 1, n), dtype=a.dtype)
    kept = [i for i in range(n) if not ATTITUDE.start <= i < ATTITUDE.stop]
    among = [i for i in range(n - 1) if not TURNS.start <= i < TURNS.stop]
    into[kept, among], out_of[among, kept] = 1.0, 1.0
    for i, axis in enumerate(np.eye(3)):
        into[ATTITUDE, TURNS.start + i] = q * Quat(0.0, *axis) * 0.5
    for i, unit in enumerate(np.eye(4)):
        out_of[TURNS, ATTITUDE.start + i] = (conjugate(q_after) * Quat(*unit) * 2.0).vector
    return product(out_of, a, into), product(out_of, b)
