"""The linear model of a vehicle about a state, δẋ = A δx + B δu, and of one step, x' = A x + B u: exact, by forward mode.

    linear = samara.linearize(samara.vehicle("iris"))
    linear["v_W.x", "theta_B.y"]     # 9.81: tilted forward, it accelerates forward

For a step the derivative and its Jacobian are traced and compiled once, and the sensitivities of the integrator's stages are
computed with them:

    Xᵢ = x + dt Σ aᵢⱼ kⱼ,  Sᵢ = 1 + dt Σ aᵢⱼ Kⱼ,  Kᵢ = f'(Xᵢ) Sᵢ,  ∂x'/∂x = N (1 + dt Σ bᵢ Kᵢ)

where N is the Jacobian of normalising the quaternion. Unrolled into one trace the Jacobians would become dense: 117,000
instructions for a vehicle on the ground, against 2,000 for its derivative with Jacobian.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from samara.compiler.derivatives.forward import evaluate_jacobian, jacobian_program
from samara.compiler.llvm.scan import compile_program
from samara.compiler.trace.folding_tape import trace_program
from samara.core.algebra import Quat, Vec3, conjugate
from samara.core.integrate import RUNGE_KUTTA_INTEGRATORS, find_integrator, unit_quaternions
from samara.core.portable_linalg import product
from samara.core.quantity import Scalar
from samara.core.tree import flatten, leaf_names
from samara.core.types import Array
from samara.physics.effect import Effect, Wrench
from samara.physics.inputs import check_state, require_vehicle
from samara.physics.multirotor import derivative, state_at_rest, zero_command
from samara.physics.types import CALM, Command, Environment, State, Vehicle
from samara.vehicles.trim import hover

ATTITUDE = slice(6, 10)  # the components of q_WB in a state
ROTATION = slice(6, 9)  # the components of the rotation vector in the tangent space
STATE_CHOICES = ("rigid", "all")
RIGID_STATE_COUNT = 12  # δp, δv, δθ, δω
WRENCH_NAMES = ("f_B.z", "tau_B.x", "tau_B.y", "tau_B.z")


@dataclass(frozen=True, eq=False)
class LinearModel:
    """δẋ = A δx + B δu about `state` and `command`, in SI units.

    `states` are the names of the rows and of A's columns, `inputs` those of B's. δθ (`theta_B`) is a rotation vector in body
    axes, q = q₀ ⊗ exp(δθ); all other entries are differences of components.
    """

    A: Array
    B: Array
    states: tuple[str, ...]
    inputs: tuple[str, ...]
    state: State
    command: Command

    def __getitem__(self, names: tuple[str, str]) -> float:
        """∂(rate of one state)/∂(another state or input): `linear["v_W.x", "theta_B.y"]`."""
        row, column = names
        for accepted, name in ((self.states, row), ((*self.states, *self.inputs), column)):
            if name not in accepted:
                raise KeyError(f"no {name!r} here; there are {', '.join(accepted)}")
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
) -> LinearModel:
    """A = ∂f/∂x, B = ∂f/∂u of ẋ = f(x, u), exact, in the tangent space of the attitude.

    Args:
        vehicle: the model.
        state: the state to linearise about; by default hover in the air, without the effect `contact`.
        command: the command at that state; required with `state`.
        environment: wind and air; calm air by default.
        states: "rigid" for x = (δp, δv, δθ, δω), the textbook's twelve states, and u an additional force along body z and
            torque about the body axes, at constant rotor speeds; "all" for x with rotor speeds and the states of the effects,
            and u the vehicle's command.

    Raises:
        ValueError: unknown `states`, or only one of state and command is given.
    """
    require_vehicle(vehicle)
    if state is not None:
        check_state(state, vehicle)
    if states not in STATE_CHOICES:
        raise ValueError(f"states = {states!r}: expected one of {', '.join(STATE_CHOICES)}")
    if (state is None) != (command is None):
        raise ValueError("only one of state and command is given: expected both, or neither for hover")
    model = vehicle.without_effect("contact") if state is None and vehicle.has("contact") else vehicle
    trim_state, trim_command = (
        hover(model, environment=environment) if state is None or command is None else (state, tuple(command))
    )
    a, b = _tangent_jacobians(model, trim_state, trim_command, environment, is_rigid=states == "rigid")
    names = _tangent_names(trim_state)
    if states == "rigid":
        return LinearModel(
            a[:RIGID_STATE_COUNT, :RIGID_STATE_COUNT],
            b[:RIGID_STATE_COUNT],
            names[:RIGID_STATE_COUNT],
            WRENCH_NAMES,
            trim_state,
            trim_command,
        )
    inputs = tuple(f"motor[{i}]" for i in range(len(model.rotors))) or ("thrust", *WRENCH_NAMES[1:])
    inputs += tuple(f"servo[{k}]" for k in range(len(model.servos)))
    return LinearModel(a, b, names, inputs, trim_state, trim_command)


def _tangent_names(state: State) -> tuple[str, ...]:
    """Return the names of the tangent components: `theta_B` instead of the quaternion."""
    motion_names, _, further_names = leaf_names(state)[:6], leaf_names(state)[6:10], leaf_names(state)[10:]
    return (*motion_names, *(f"theta_B.{axis}" for axis in "xyz"), *further_names)


def _tangent_jacobians(
    vehicle: Vehicle, state: State, command: Command, environment: Environment, is_rigid: bool
) -> tuple[Array, Array]:
    """∂f/∂x and ∂f/∂u in the tangent space; if `is_rigid`, u is an additional wrench on the body."""

    def rate(x: State, u: tuple[Scalar, ...]) -> State:
        if not is_rigid:
            return derivative(x, u, vehicle, environment)
        push = Wrench(f_B=Vec3(0.0, 0.0, u[0]), tau_B=Vec3(*u[1:]))
        pushed_vehicle = vehicle.with_effect(Effect("push of the linear model", wrench=lambda *_: push))
        rates = derivative(x._replace(effects=(*x.effects, ())), command, pushed_vehicle, environment)
        return rates._replace(effects=rates.effects[:-1])

    x = np.array([float(leaf) for leaf in flatten(state)])
    jacobian = evaluate_jacobian(rate, state, (0.0,) * len(WRENCH_NAMES) if is_rigid else tuple(command))
    a, b = project_to_tangent_space(jacobian[:, : len(x)], jacobian[:, len(x) :], x, x)
    wx, wy, wz = (float(w) for w in state.omega_B)
    a[ROTATION, ROTATION] -= 0.5 * np.array(
        [[0.0, -wz, wy], [wz, 0.0, -wx], [-wy, wx, 0.0]]
    )  # the axes of δθ rotate with the body
    return a, b


# One step -----------------------------------------------------------------------------------------------------------------


def compile_linearization(
    vehicle: Vehicle,
    integrator: str,
    tangent: bool = False,
    dtype: str = "float64",
    environment_template: Environment = CALM,
) -> Callable[[State, Command, float, Environment], tuple[Array, Array]]:
    """Return linearize(state, command, dt, environment) → A, B, dense; compiled once for one shape of environment."""
    tableau = find_integrator(integrator, RUNGE_KUTTA_INTEGRATORS, "linearize: integrator").tableau
    assert tableau is not None
    template = state_at_rest(vehicle)
    slope, normalise = (
        _compile_slope(vehicle, template, dtype, environment_template),
        _compile_jacobian(unit_quaternions, [template], (0,), dtype),
    )

    def linearize(state: State, command: Command, dt: float, environment: Environment) -> tuple[Array, Array]:
        x, further_inputs = np.array(flatten(state), dtype=dtype), [*command, *flatten(environment)]
        start = (x, np.eye(len(x), dtype=dtype), np.zeros((len(x), len(command)), dtype=dtype))
        rates: list[tuple[Array, Array, Array]] = []
        for row in tableau.stages:
            stage_state, by_x, by_u = _advance(start, dt, row, rates)
            f, f_x, f_u = slope([*stage_state, *further_inputs])
            rates.append((f, product(f_x, by_x), product(f_x, by_u) + f_u))
        unnormalised, a, b = _advance(start, dt, tableau.weights, rates)
        x_after, n = normalise(unnormalised.tolist())
        a, b = product(n, a), product(n, b)
        return project_to_tangent_space(a, b, x, x_after) if tangent else (a, b)

    return linearize


def _advance(
    start: Sequence[Array], dt: float, weights: tuple[float, ...], rates: Sequence[Sequence[Array]]
) -> list[Array]:
    terms = [(dt * weight, rate) for weight, rate in zip(weights, rates, strict=False) if weight]
    return [value + sum(factor * rate[i] for factor, rate in terms) for i, value in enumerate(start)]


def _compile_slope(
    vehicle: Vehicle, template: State, dtype: str, environment_template: Environment
) -> Callable[[Sequence[float]], tuple[Array, Array, Array]]:
    """(x, u, environment) → f, ∂f/∂x, ∂f/∂u."""
    templates = template, zero_command(vehicle), environment_template
    f = _compile_jacobian(lambda *x: derivative(x[0], x[1], vehicle, x[2]), templates, (0, 1), dtype)
    n = len(flatten(template))

    def slope(numbers: Sequence[float]) -> tuple[Array, Array, Array]:
        rate, jacobian = f(numbers)
        return rate, jacobian[:, :n], jacobian[:, n:]

    return slope


def _compile_jacobian(
    function: Callable[..., Scalar], templates: Sequence[Scalar], by: Sequence[int], dtype: str
) -> Callable[[Sequence[float]], tuple[Array, Array]]:
    """Compile a function of the leaves of all arguments that returns the leaves of the result, and its Jacobian by `by`."""
    sizes = [len(flatten(template)) for template in templates]
    jacobian = jacobian_program(trace_program(lambda *x: (function(*x),), *templates), sizes, by)
    values, entries = jacobian.program.outputs
    run = compile_program(jacobian.program._replace(outputs=((*values, *entries),)), sizes, dtype=dtype)

    def call(numbers: Sequence[float]) -> tuple[Array, Array]:
        results = run(numbers)
        return results[: len(values)], jacobian.dense(results[len(values) :])

    return call


def project_to_tangent_space(a: Array, b: Array, x: Array, x_after: Array) -> tuple[Array, Array]:
    """δx' = P(q') A E(q) δx with E: δθ → ½ q ⊗ (0, δθ) and P: dq → 2 vec(q* ⊗ dq)."""
    n = len(x)
    q, q_after = Quat(*x[ATTITUDE]), Quat(*x_after[ATTITUDE])
    expand, project = np.zeros((n, n - 1), dtype=a.dtype), np.zeros((n - 1, n), dtype=a.dtype)
    state_rows = [i for i in range(n) if not ATTITUDE.start <= i < ATTITUDE.stop]
    tangent_rows = [i for i in range(n - 1) if not ROTATION.start <= i < ROTATION.stop]
    expand[state_rows, tangent_rows], project[tangent_rows, state_rows] = 1.0, 1.0
    for i, axis in enumerate(np.eye(3)):
        expand[ATTITUDE, ROTATION.start + i] = q * Quat(0.0, *axis) * 0.5
    for i, basis in enumerate(np.eye(4)):
        project[ROTATION, ATTITUDE.start + i] = (conjugate(q_after) * Quat(*basis) * 2.0).vector
    return product(project, a, expand), product(project, b)
