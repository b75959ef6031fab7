"""Phase margins of a controller on a vehicle, cut at the plant input: thrust, roll, pitch and yaw, one at a time.

    c → motors, body → x → controller → c'        L(z) = −c'(z) / c(z)

The plant is the exact Jacobian of the vehicle's step over a control period, motors included, its input held in between. The
controller is the Jacobian of its code, controller state included. A computing time of whole periods may be added as a
delay.
"""

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from samara.control.allocation import build_allocation, command_for_wrench
from samara.core.algebra import ZERO, Quat, Vec3
from samara.core.portable_linalg import pseudoinverse
from samara.core.quantity import Scalar
from samara.core.tree import flatten, unflatten
from samara.core.types import Array
from samara.physics.types import Command, Reference, State, Vehicle
from samara.vehicles.trim import hover

AXES = ("thrust", "roll", "pitch", "yaw")
MIN_FREQUENCY = 0.02  # [rad/s]
FREQUENCY_COUNT = 800
SETTLING_CALLS = 4000  # calls after which observers and filters of a controller in hover have settled
_ROTATION = slice(6, 9)  # in the tangent space: a rotation vector in body axes
_MAX_GROWTH_RATE = 1e-2  # [1/s]: a discharging battery alone causes a growth rate of 1e-3


class Margin(NamedTuple):
    """Minimum phase margin of one axis [rad], the crossover at which it occurs [rad/s], and the delay margin [s]."""

    phase: float
    crossover: float
    delay: float


class ClosedLoop(NamedTuple):
    """x⁺ = A x + B c,  m⁺ = E x + F m,  c = C x + D m: a vehicle about hover, and its controller, every `period` [s]

    x is the state in the tangent space, m the controller's, c = (f, τx, τy, τz) the wrench commanded.
    """

    A: Array
    B: Array
    C: Array
    D: Array
    E: Array
    F: Array
    period: float

    def open_loop(self, frequency: Array, delay_periods: int = 1) -> Array:
        """T = −(C + D (z − F)⁻¹ E) (z − A)⁻¹ B z⁻ᵈ, z = exp(jω dt): (frequencies, 4, 4)"""
        z = np.exp(1j * frequency * self.period)
        plant = np.linalg.solve(z[:, None, None] * np.eye(len(self.A)) - self.A, self.B[None] + 0.0j)
        controller_response = np.linalg.solve(z[:, None, None] * np.eye(len(self.F)) - self.F, self.E[None] + 0.0j)
        return np.asarray(-(self.C + self.D @ controller_response) @ plant * z[:, None, None] ** -delay_periods)

    def poles(self, delay_periods: int = 1) -> Array:
        """Eigenvalues of the closed loop, per period"""
        n, m, d = len(self.A), len(self.F), 4 * delay_periods
        transition = np.zeros((n + m + d, n + m + d))
        transition[:n, :n], transition[n : n + m, :n], transition[n : n + m, n : n + m] = self.A, self.E, self.F
        output = np.hstack([self.C, self.D])
        if d == 0:
            transition[:n, : n + m] += self.B @ output
        else:
            transition[:n, -4:] = self.B
            transition[n + m : n + m + 4, : n + m] = output
            transition[n + m + 4 :, n + m : -4] = np.eye(d - 4)
        return np.linalg.eigvals(transition)

    def margins(self, delay_periods: int = 1) -> dict[str, Margin]:
        """Compute the margins of each axis with the other three closed; raise ValueError if the closed loop is unstable."""
        growth = math.log(float(np.abs(self.poles(delay_periods)).max())) / self.period
        if growth > _MAX_GROWTH_RATE:
            raise ValueError(f"the closed loop is unstable: its fastest mode grows at {growth:.3g} /s")
        frequency = np.geomspace(MIN_FREQUENCY, math.pi / self.period, FREQUENCY_COUNT)
        loops = self.open_loop(frequency, delay_periods)
        return {axis: _margin(frequency, _one_loop(loops, i)) for i, axis in enumerate(AXES)}


def hover_loop(vehicle: Vehicle, controller: Any, period: float) -> ClosedLoop:
    """Linearise a vehicle and its controller about hover at the reference.

    Args:
        vehicle: model of the vehicle; contact is left out.
        controller: `controller(state, reference, vehicle, controller_state) → command, controller_state`.
        period: time between calls of the controller [s].
    """
    airborne = vehicle.without_effect("contact") if vehicle.has("contact") else vehicle
    state, A, B, wrench = _plant(airborne, period)
    c, d, e, f = _controller_jacobians(airborne, controller, state)
    return ClosedLoop(A, B, wrench @ c, wrench @ d, e, f, period)


@lru_cache(maxsize=16)
def _plant(vehicle: Vehicle, period: float) -> tuple[State, Array, Array, Array]:
    """Hover state, A and B of one period with the commanded wrench as the input, and ∂(wrench)/∂(command)"""
    from samara.compiler.derivatives.forward import evaluate_jacobian
    from samara.compiler.simulator import compile

    state, command = hover(vehicle, p_W=(0.0, 0.0, 0.0))
    A, b = compile(vehicle, backend="llvm").linearize(state, command, period, tangent=True)
    allocation, weight = build_allocation(vehicle), float(vehicle.mass * vehicle["gravity"].acceleration)

    def commands(collective_thrust: Scalar, torque: Vec3) -> Command:
        return command_for_wrench(collective_thrust, torque, state, vehicle, allocation)

    command_jacobian = evaluate_jacobian(commands, weight, ZERO)
    return state, A, b @ command_jacobian, pseudoinverse(command_jacobian)


def _controller_jacobians(vehicle: Vehicle, controller: Any, state: State) -> tuple[Array, Array, Array, Array]:
    """∂u/∂x, ∂u/∂m, ∂m'/∂x, ∂m'/∂m of a controller whose observers have settled in hover"""
    from samara.compiler.derivatives.forward import evaluate_jacobian

    trim, size = flatten(state), len(flatten(state)) - 1

    def call(x: Sequence[Scalar], controller_state: Scalar) -> Scalar:
        q = state.q_WB * Quat(1.0, *(0.5 * angle for angle in x[_ROTATION]))
        first_part, last_part = zip(trim[:6], x[:6], strict=True), zip(trim[10:], x[9:], strict=True)
        components = [*(a + b for a, b in first_part), *q, *(a + b for a, b in last_part)]
        return controller(unflatten(state, iter(components)), Reference(ZERO), vehicle, controller_state)

    origin, settled = (0.0,) * size, controller.initial_state
    for _ in range(SETTLING_CALLS):
        _, next_state = call(origin, settled)
        if flatten(next_state) == flatten(settled):
            break
        settled = next_state
    command, _ = call(origin, settled)
    jacobian, rows = evaluate_jacobian(call, origin, settled), len(flatten(command))
    return jacobian[:rows, :size], jacobian[:rows, size:], jacobian[rows:, :size], jacobian[rows:, size:]


def _one_loop(loops: Array, i: int) -> Array:
    """Lᵢ = Tᵢᵢ − Tᵢⱼ (1 + Tⱼⱼ)⁻¹ Tⱼᵢ, j the other axes, which stay closed"""
    j = [k for k in range(len(AXES)) if k != i]
    closed = np.eye(len(j)) + loops[:, j][:, :, j]
    response = np.linalg.solve(closed, loops[:, j][:, :, [i]])
    return np.asarray((loops[:, [i]][:, :, [i]] - loops[:, [i]][:, :, j] @ response)[:, 0, 0])


def _margin(frequency: Array, loop: Array) -> Margin:
    """π + arg L at |L| = 1, the minimum over all crossovers; the delay is that phase lag over its frequency"""
    log_gain = np.log(np.abs(loop))
    crossings = [Margin(math.inf, math.nan, math.inf)]
    for k in np.flatnonzero(np.sign(log_gain[1:]) != np.sign(log_gain[:-1])):
        fraction = log_gain[k] / (log_gain[k] - log_gain[k + 1])
        crossover = frequency[k] * (frequency[k + 1] / frequency[k]) ** fraction
        value = loop[k] * (loop[k + 1] / loop[k]) ** fraction
        lag = float(np.angle(-value)) % (2.0 * math.pi)
        crossings.append(Margin(abs(float(np.angle(-value))), float(crossover), lag / float(crossover)))
    smallest = min(crossings, key=lambda crossing: crossing.phase)
    return smallest._replace(delay=min(crossing.delay for crossing in crossings))
