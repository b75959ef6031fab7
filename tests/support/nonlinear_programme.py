"""The problem of the controller MPC for IPOPT by multiple shooting, written again from the iLQR document's text."""

from collections.abc import Callable
from typing import Any

import casadi as ca
import numpy as np


def thrust_axis_of(q: Any) -> Any:
    """R(q) e₃"""
    w, x, y, z = (q[i] for i in range(4))
    return ca.vertcat(2 * (x * z + w * y), 2 * (y * z - w * x), 1 - 2 * (x * x + y * y))


def step_function(solver: Any) -> Callable[[Any, Any], Any]:
    """RK4 or Euler's method for m v̇ = T b₃ − D v − m g e₃, J ω̇ = τ − C ω − ω × J ω"""
    vehicle, dt = solver.vehicle, solver.model.dt
    m, g = vehicle.mass, vehicle["gravity"].acceleration
    J = ca.DM([vehicle.inertia_B.xx, vehicle.inertia_B.yy, vehicle.inertia_B.zz])
    drag, damping = ca.DM(list(vehicle["drag"].linear)), ca.DM(list(vehicle["damping"].linear))

    def rate(x: Any, u: Any) -> Any:
        v, q, omega = x[3:6], x[6:10], x[10:13]
        acceleration = ca.vertcat(0, 0, -g) + (thrust_axis_of(q) * u[0] - drag * v) / m
        p, r, s = (omega[i] for i in range(3))
        spin = ca.vertcat(
            ca.horzcat(0, -p, -r, -s), ca.horzcat(p, 0, s, -r), ca.horzcat(r, -s, 0, p), ca.horzcat(s, r, -p, 0)
        )
        return ca.vertcat(v, acceleration, spin @ q / 2, (u[1:] - damping * omega - ca.cross(omega, J * omega)) / J)

    def step(x: Any, u: Any) -> Any:
        k1 = rate(x, u)
        if solver.model.integrator == "euler":
            y = x + dt * k1
            return ca.vertcat(y[:6], y[6:10] / ca.norm_2(y[6:10]), y[10:])
        k2 = rate(x + dt / 2 * k1, u)
        k3 = rate(x + dt / 2 * k2, u)
        k4 = rate(x + dt * k3, u)
        y = x + dt / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        return ca.vertcat(y[:6], y[6:10] / ca.norm_2(y[6:10]), y[10:])

    return step


class NonlinearProgramme:
    """The cost of a controller with wrench inputs, and constraints.

    Args:
        solver: the `MPC`: vehicle, weights, limits and horizon.
        constraints: function of a state, its input, the previous input (None at the end) and the step, which returns
            expressions ≤ 0.
    """

    def __init__(self, solver: Any, constraints: Callable[..., list[Any]] = lambda x, u, u_before, k: []) -> None:
        vehicle, w, n = solver.vehicle, solver.weights, solver.horizon
        hover_thrust, step = vehicle.mass * vehicle["gravity"].acceleration, step_function(solver)
        X, U = ca.SX.sym("X", 13, n + 1), ca.SX.sym("U", 4, n)
        goals, x0, before = ca.SX.sym("G", 12, n + 1), ca.SX.sym("x0", 13), ca.SX.sym("u", 4)
        cost, gaps, g = 0, [X[:, 0] - x0], []
        for k in range(n + 1):
            x, goal, is_last = X[:, k], goals[:, k], k == n
            position, velocity, tilt = (
                (w.terminal_position_weight, w.terminal_velocity_weight, w.terminal_tilt_weight)
                if is_last
                else (w.position_weight, w.velocity_weight, w.tilt_weight)
            )
            cost += position * ca.sumsqr(x[:3] - goal[:3]) / 2 + velocity * ca.sumsqr(x[3:6] - goal[3:6]) / 2
            cost += tilt * ca.sumsqr(thrust_axis_of(x[6:10]) - goal[6:9]) / 2
            u, u_before = (None, None) if is_last else (U[:, k], U[:, k - 1] if k else before)
            if not is_last:
                cost += w.yaw_rate_weight * x[12] ** 2 / 2 + w.thrust_weight * (u[0] - hover_thrust) ** 2 / 2
                cost += w.torque_weight * ca.sumsqr(u[1:]) / 2 + w.smoothing_weight * ca.sumsqr(u - u_before) / 2
                gaps.append(X[:, k + 1] - step(x, u))
            g += constraints(x, u, u_before, k)
        self._count, self._gap_count, self._inequalities = n, 13 * (n + 1), len(g)
        problem = {
            "x": ca.vertcat(ca.vec(X), ca.vec(U)),
            "f": cost,
            "g": ca.vertcat(*gaps, *g),
            "p": ca.vertcat(ca.vec(goals), x0, before),
        }
        quiet = {"ipopt.print_level": 0, "print_time": 0, "ipopt.tol": 1e-10, "ipopt.bound_relax_factor": 0.0}
        self._solve = ca.nlpsol("solver", "ipopt", problem, {**quiet, "ipopt.sb": "yes"})
        self._hover, limits = np.array(solver.model.hover_input), solver.model.limits
        free = np.full(13 * (n + 1), np.inf)
        self._low = np.concatenate([-free, np.tile(limits.low, n)])
        self._high = np.concatenate([free, np.tile(limits.high, n)])

    def solve(
        self, x0: np.ndarray, goals: np.ndarray, states: np.ndarray | None = None, controls: np.ndarray | None = None
    ) -> tuple[float, np.ndarray, np.ndarray]:
        """Return the optimal cost, states (N + 1, 13) and inputs (N, 4), from a guess or from the state and hover."""
        n = self._count
        guess = np.concatenate(
            [
                np.tile(x0, n + 1) if states is None else states.ravel(),
                np.tile(self._hover, n) if controls is None else controls.ravel(),
            ]
        )
        solution = self._solve(
            x0=guess,
            lbx=self._low,
            ubx=self._high,
            lbg=np.concatenate([np.zeros(self._gap_count), np.full(self._inequalities, -np.inf)]),
            ubg=0,
            p=np.concatenate([goals.ravel(), x0, self._hover]),
        )
        assert self._solve.stats()["success"], self._solve.stats()["return_status"]
        values = np.array(solution["x"])[:, 0]
        return float(solution["f"]), values[: 13 * (n + 1)].reshape(n + 1, 13), values[13 * (n + 1) :].reshape(n, 4)
