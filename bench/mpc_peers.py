"""Other solvers on the problems of `mpc_problems`; runs in bench/.venv, with those of them that are installed there.

    python bench/mpc_peers.py SOLVER < request.json      prints a line of JSON; SOLVER is a key of `SOLVERS`

A request names a tier, a horizon and a guess. Every solver has the same discrete model, residuals and weights from
`mpc_problems`, starts from the same guess, whose states do not follow from each other, and returns inputs (N, 4).
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

import casadi
import numpy as np
from mpc_problems import (
    DT,
    GOAL_SIZE,
    INPUTS,
    MAX_BODY_RATE,
    MAX_TILT,
    SPHERES,
    STATE_SIZE,
    WEIGHTS,
    Body,
    StartAndTarget,
    draw_problems,
    fly_model,
    level_guess,
    multiply,
    residuals,
    rollout,
    shaped_goals,
    stabilised_start,
    state_weights,
    step,
    thrust_axis,
)

Array = np.ndarray
STABILISED_GAINS = (6.0, 4.0, 90.0, 15.0)


class Guess(NamedTuple):
    """States (N + 1, 13) and inputs (N, 4)."""

    states: Array
    inputs: Array


class Plan(NamedTuple):
    """States and inputs, iteration count, reported convergence, and the time the solver reports [s]; 0 for none."""

    states: Array
    inputs: Array
    iterations: int
    converged: bool
    seconds: float = 0.0


def symbols(count: int, name: str) -> tuple[Any, list[Any]]:
    """Return a symbolic vector and its components."""
    vector = casadi.SX.sym(name, count)
    return vector, casadi.vertsplit(vector)


class Ipopt:
    """IPOPT on the multiple-shooting problem with exact Hessian; q is four variables of the step."""

    real_time = False

    def __init__(self, body: Body, horizon: int, constrained: bool = False) -> None:
        self.body, self.horizon = body, horizon
        x, u = casadi.SX.sym("x", STATE_SIZE, horizon + 1), casadi.SX.sym("u", INPUTS, horizon)
        goals, start = casadi.SX.sym("goals", GOAL_SIZE, horizon + 1), casadi.SX.sym("start", STATE_SIZE)
        cost, equalities, inequalities = 0.0, [x[:, 0] - start], []
        for k in range(horizon + 1):
            states, is_last = casadi.vertsplit(x[:, k]), k == horizon
            r = casadi.vertcat(*residuals(states, casadi.vertsplit(goals[:, k])))
            cost += 0.5 * casadi.dot(casadi.DM(state_weights(is_last)), r * r)
            if not is_last:
                controls = casadi.vertsplit(u[:, k])
                cost += 0.5 * WEIGHTS.thrust * casadi.sumsqr(u[:, k] - body.hover)
                equalities.append(x[:, k + 1] - casadi.vertcat(*step(states, controls, body)))
            if constrained and k > 0:
                inequalities += [np.cos(MAX_TILT) - thrust_axis(states[6:10])[2]]
                inequalities += [omega * omega - MAX_BODY_RATE**2 for omega in states[10:]]
                for centre, radius, velocity in SPHERES:
                    offset = x[:3, k] - casadi.DM(np.add(centre, np.multiply(velocity, k * DT)))
                    inequalities.append(radius**2 - casadi.sumsqr(offset))
        self._problem = {
            "x": casadi.veccat(x, u),
            "p": casadi.veccat(goals, start),
            "f": cost,
            "g": casadi.vertcat(*equalities, *inequalities),
        }
        self._bounds = {
            "lbg": [0.0] * STATE_SIZE * (horizon + 1) + [-np.inf] * len(inequalities),
            "ubg": 0.0,
            "lbx": [-np.inf] * STATE_SIZE * (horizon + 1) + [body.low] * INPUTS * horizon,
            "ubx": [np.inf] * STATE_SIZE * (horizon + 1) + [body.high] * INPUTS * horizon,
        }
        self._solvers: dict[int, Any] = {}

    def solve(self, goals: Array, start: Array, guess: Guess, iterations: int) -> Plan:
        """Solve from a guess."""
        if iterations not in self._solvers:
            options = {"ipopt.print_level": 0, "print_time": False, "ipopt.sb": "yes", "ipopt.max_iter": iterations}
            options |= {"calc_lam_p": False, "error_on_fail": False}
            self._solvers[iterations] = casadi.nlpsol("ipopt", "ipopt", self._problem, options)
        solver = self._solvers[iterations]
        initial = np.concatenate([guess.states.ravel(), guess.inputs.ravel()])
        solution = solver(x0=initial, p=np.concatenate([goals.ravel(), start]), **self._bounds)
        values, stats = np.array(solution["x"]).ravel(), solver.stats()
        split = STATE_SIZE * (self.horizon + 1)
        return Plan(
            values[:split].reshape(-1, STATE_SIZE),
            values[split:].reshape(-1, INPUTS),
            int(stats["iter_count"]),
            bool(stats["success"]),
        )


class Acados:
    """acados SQP with HPIPM, Gauss–Newton Hessian and merit-function line search; SQP_RTI in closed loop."""

    real_time = True

    def __init__(self, body: Body, horizon: int, real_time: bool = False) -> None:
        from acados_template import AcadosModel, AcadosOcp, AcadosOcpSolver

        self.horizon, self._real_time = horizon, real_time
        (x, xs), (u, us), model, ocp = symbols(STATE_SIZE, "x"), symbols(INPUTS, "u"), AcadosModel(), AcadosOcp()
        model.x, model.u, model.name = x, u, f"quadrotor_{horizon}_{int(real_time)}"
        model.disc_dyn_expr = casadi.vertcat(*step(xs, us, body))
        terms = casadi.vertcat(*residuals(xs, [0.0] * GOAL_SIZE))
        model.cost_y_expr, model.cost_y_expr_e = casadi.vertcat(terms, u), terms
        ocp.model = model
        ocp.cost.cost_type, ocp.cost.cost_type_e = "NONLINEAR_LS", "NONLINEAR_LS"
        ocp.cost.W = np.diag([*state_weights(), *[WEIGHTS.thrust] * INPUTS])
        ocp.cost.W_e = np.diag(state_weights(final=True))
        ocp.cost.yref, ocp.cost.yref_e = np.zeros(GOAL_SIZE + 1 + INPUTS), np.zeros(GOAL_SIZE + 1)
        ocp.constraints.lbu, ocp.constraints.ubu = np.full(INPUTS, body.low), np.full(INPUTS, body.high)
        ocp.constraints.idxbu, ocp.constraints.x0 = np.arange(INPUTS), np.zeros(STATE_SIZE)
        options = ocp.solver_options
        options.N_horizon, options.tf, options.integrator_type = horizon, horizon * DT, "DISCRETE"
        options.cost_scaling = np.ones(horizon + 1)
        options.hessian_approx, options.qp_solver = "GAUSS_NEWTON", "PARTIAL_CONDENSING_HPIPM"
        options.qp_solver_cond_N, options.qp_solver_iter_max = horizon // 4, 100
        options.nlp_solver_type = "SQP_RTI" if real_time else "SQP"
        if not real_time:
            options.nlp_solver_max_iter, options.globalization = 300, "MERIT_BACKTRACKING"
        options.print_level = 0
        folder = tempfile.mkdtemp()
        ocp.code_export_directory = f"{folder}/code"
        self._hover = body.hover
        self._solver = AcadosOcpSolver(ocp, json_file=f"{folder}/ocp.json", verbose=False)

    def solve(self, goals: Array, start: Array, guess: Guess, iterations: int) -> Plan:
        """Solve from a guess; one iteration in real time."""
        solver = self._solver
        if not self._real_time:
            solver.reset()
            solver.options_set("max_iter", iterations)
        for k, (goal, state) in enumerate(zip(goals, guess.states, strict=True)):
            is_last = k == self.horizon
            solver.set(k, "x", state)
            solver.set(k, "yref", np.concatenate([goal, [0.0], [] if is_last else [self._hover] * INPUTS]))
            if not is_last:
                solver.set(k, "u", guess.inputs[k])
        for bound in ("lbx", "ubx"):
            solver.set(0, bound, start)
        count, seconds = 0, 0.0
        for _ in range(iterations if self._real_time else 1):
            status = solver.solve()
            seconds += float(solver.get_stats("time_tot"))
            count += 1 if self._real_time else int(solver.get_stats("sqp_iter"))
        states = np.array([solver.get(k, "x") for k in range(self.horizon + 1)])
        inputs = np.array([solver.get(k, "u") for k in range(self.horizon)])
        return Plan(states, inputs, count, status == 0, seconds)


class Crocoddyl:
    """BoxFDDP on SE(3) with action models in Python, of compiled derivatives; default step sizes and regularisation."""

    real_time = True

    def __init__(self, body: Body, horizon: int) -> None:
        import crocoddyl
        import pinocchio

        model = pinocchio.Model()
        joint = model.addJoint(0, pinocchio.JointModelFreeFlyer(), pinocchio.SE3.Identity(), "root")
        inertia = pinocchio.Inertia(body.mass, np.zeros(3), np.diag(body.inertia))
        model.appendBodyToJoint(joint, inertia, pinocchio.SE3.Identity())
        self._crocoddyl, self._body, self._horizon = crocoddyl, body, horizon
        self._state, functions = crocoddyl.StateMultibody(model), _tangent_functions(body)

        class Node(crocoddyl.ActionModelAbstract):
            """A step, or the end of the horizon."""

            def __init__(self, state: Any, goal: Array, is_last: bool) -> None:
                super().__init__(state, INPUTS, GOAL_SIZE + 1)
                self.goal = goal
                self.evaluate, self.differentiate = functions["last" if is_last else "step"]
                self.u_lb, self.u_ub = np.full(INPUTS, body.low), np.full(INPUTS, body.high)
                self.hover = np.full(INPUTS, body.hover)

            def calc(self, data: Any, x: Array, u: Array | None = None) -> None:
                following, cost = self.evaluate(x, self.hover if u is None else u, self.goal)
                data.xnext, data.cost = following.full().ravel(), float(cost)

            def calcDiff(self, data: Any, x: Array, u: Array | None = None) -> None:
                values = self.differentiate(x, self.hover if u is None else u, self.goal)
                Fx, Fu, Lx, Lu, Lxx, Luu = (value.full() for value in values)
                data.Fx, data.Fu, data.Lx, data.Lu, data.Lxx, data.Luu = Fx, Fu, Lx.ravel(), Lu.ravel(), Lxx, Luu

        self._node = Node
        self._nodes: list[Any] = []

    def solve(self, goals: Array, start: Array, guess: Guess, iterations: int) -> Plan:
        """Solve from a guess, whose states may have gaps."""
        if not self._nodes:
            nodes = [self._node(self._state, goal, k == self._horizon) for k, goal in enumerate(goals)]
            self._nodes = nodes
            self._problem = self._crocoddyl.ShootingProblem(_to_body_axes(start), nodes[:-1], nodes[-1])
            self._solver = self._crocoddyl.SolverBoxFDDP(self._problem)
        for node, goal in zip(self._nodes, goals, strict=True):
            node.goal = goal
        self._problem.x0 = _to_body_axes(start)
        solver = self._solver
        converged = solver.solve([_to_body_axes(x) for x in guess.states], [*guess.inputs], iterations, False)
        states = np.array([_to_world_axes(x) for x in solver.xs])
        return Plan(states, np.array([*solver.us]), min(int(solver.iter) + 1, iterations), bool(converged))


def _rotation(q: Array) -> Array:
    w, (x, y, z) = q[0], q[1:]
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    )


def _to_body_axes(x: Array) -> Array:
    """(p, q as x, y, z, w, v in body axes, ω)"""
    return np.concatenate([x[:3], x[7:10], x[6:7], _rotation(x[6:10]).T @ x[3:6], x[10:]])


def _to_world_axes(x: Array) -> Array:
    q = np.concatenate([x[6:7], x[3:6]])
    return np.concatenate([x[:3], _rotation(q) @ x[7:10], q, x[10:]])


def _matrix(q: Any) -> Any:
    """R of a symbolic q (w, x, y, z)"""
    rows = _rotation(np.array(q, dtype=object))
    return casadi.vertcat(*(casadi.horzcat(*row) for row in rows))


def _tangent_functions(body: Body) -> dict[str, tuple[Any, Any]]:
    """Compile x', cost and their derivatives by (R δp, δθ, δv, δω) in body axes, with a Gauss–Newton Hessian."""
    (x, xs), (u, us), (goal, goals), (delta, ds) = (
        symbols(n, name) for n, name in ((STATE_SIZE, "x"), (INPUTS, "u"), (GOAL_SIZE, "goal"), (12, "delta"))
    )

    def displaced(values: list[Any], change: list[Any]) -> list[Any]:
        """World-axes state of values ⊕ δ to first order, with v from body axes."""
        q = [values[6], *values[3:6]]
        p = casadi.vertcat(*values[:3]) + _matrix(q) @ casadi.vertcat(*change[:3])
        w, (i, j, k), (a, b, c) = q[0], q[1:], (0.5 * part for part in change[3:6])
        q = [w - i * a - j * b - k * c, i + w * a + j * c - k * b, j + w * b + k * a - i * c, k + w * c + i * b - j * a]
        v = _matrix(q) @ casadi.vertcat(*(v + dv for v, dv in zip(values[7:10], change[6:9], strict=True)))
        omega = [o + d for o, d in zip(values[10:], change[9:], strict=True)]
        return [*casadi.vertsplit(p), *casadi.vertsplit(v), *q, *omega]

    world = displaced(xs, ds)
    following = step(world, us, body)
    q = following[6:10]
    body_velocity = _matrix(q).T @ casadi.vertcat(*following[3:6])
    result = casadi.vertcat(*following[:3], *q[1:], q[0], body_velocity, *following[10:])
    zero = casadi.DM.zeros(12)
    nominal, parts = symbols(STATE_SIZE, "nominal")  # x', held constant while it is differentiated
    w0, (i0, j0, k0) = parts[6], parts[3:6]
    w, i, j, k = q
    turn = [w0 * i - i0 * w - j0 * k + k0 * j, w0 * j - j0 * w - k0 * i + i0 * k, w0 * k - k0 * w - i0 * j + j0 * i]
    offset = _matrix([w0, *parts[3:6]]).T @ (result[:3] - nominal[:3])
    change = casadi.vertcat(offset, *(2.0 * part for part in turn), result[7:] - nominal[7:])
    values_at_zero = casadi.substitute(result, delta, zero)
    functions = {}
    generator = casadi.CodeGenerator("nodes")
    for name in ("step", "last"):
        r, weights = casadi.vertcat(*residuals(world, goals)), casadi.DM(state_weights(name == "last"))
        effort = u - body.hover if name == "step" else casadi.SX.zeros(INPUTS)
        cost = 0.5 * casadi.dot(weights, r * r) + 0.5 * WEIGHTS.thrust * casadi.sumsqr(effort)
        J = casadi.jacobian(r, delta)
        expressions = [
            casadi.jacobian(change, delta) if name == "step" else casadi.SX.zeros(12, 12),
            casadi.jacobian(change, u) if name == "step" else casadi.SX.zeros(12, INPUTS),
            J.T @ (weights * r),
            WEIGHTS.thrust * effort,
            J.T @ casadi.diag(weights) @ J,
            casadi.SX(WEIGHTS.thrust * casadi.DM.eye(INPUTS)) if name == "step" else casadi.SX.zeros(INPUTS, INPUTS),
        ]
        at_zero = [casadi.substitute(casadi.substitute(e, delta, zero), nominal, values_at_zero) for e in expressions]
        at_zero = [casadi.densify(expression) for expression in at_zero]
        values = [values_at_zero if name == "step" else x, casadi.substitute(cost, delta, zero)]
        generator.add(casadi.Function(f"{name}_values", [x, u, goal], values))
        generator.add(casadi.Function(f"{name}_slopes", [x, u, goal], at_zero))
    folder = Path(tempfile.mkdtemp())
    generator.generate(f"{folder}{os.sep}")
    subprocess.run(
        ["cc", "-O2", "-fPIC", "-shared", folder / "nodes.c", "-o", folder / "nodes.so"],
        check=True,
        capture_output=True,
    )
    for name in ("step", "last"):
        functions[name] = tuple(
            casadi.external(f"{name}_{kind}", str(folder / "nodes.so")) for kind in ("values", "slopes")
        )
    return functions


class TinyMpc:
    """TinyMPC: ADMM on the model linearised at hover in axes of the present heading, with limits of the inputs.

    Its terminal weight is the infinite-horizon one of its Riccati solution, and its weights of states are diagonal.
    """

    real_time = True

    def __init__(self, body: Body, horizon: int) -> None:
        import tinympc

        self._horizon, self._body = horizon, body
        (delta, ds), (u, us) = symbols(12, "delta"), symbols(INPUTS, "u")  # δp, δv, δθ, δω; u in units of hover thrust
        q = [1.0, *(0.5 * part for part in ds[6:9])]
        x = step([*ds[:6], *q, *ds[9:]], [part * body.hover for part in us], body)
        following = casadi.vertcat(*x[:6], *(2.0 * part for part in x[7:10]), *x[10:])
        at_hover = casadi.Function("f", [delta, u], [casadi.jacobian(following, delta), casadi.jacobian(following, u)])
        A, B = (np.array(matrix) for matrix in at_hover(0.0, 1.0))
        weights = np.repeat([WEIGHTS.position, WEIGHTS.velocity], 3)
        Q = np.diag([*weights, WEIGHTS.tilt, WEIGHTS.tilt, 0.0, 0.0, 0.0, WEIGHTS.yaw_rate])
        R = np.eye(INPUTS) * WEIGHTS.thrust * body.hover**2
        self._solver = tinympc.TinyMPC()
        self._solver.setup(
            A, B, Q, R, horizon + 1, rho=1.0, max_iter=100, abs_pri_tol=1e-4, abs_dua_tol=1e-4, verbose=False
        )
        self._solver.set_bound_constraints(
            np.full(12, -1e6),
            np.full(12, 1e6),
            np.full(INPUTS, body.low / body.hover - 1.0),
            np.full(INPUTS, body.high / body.hover - 1.0),
        )
        self._solver.set_u_ref(np.zeros((INPUTS, horizon)))

    def solve(self, goals: Array, start: Array, guess: Guess, iterations: int) -> Plan:
        """Solve the linear problem around the present heading and position."""
        w, z = start[6], start[9]
        length = max(np.hypot(w, z), 1e-9)
        heading = _rotation(np.array([w / length, 0.0, 0.0, z / length])).T
        q = np.array([w, *start[7:10]])
        level = np.array([w / length, 0.0, 0.0, -z / length])
        tilted = multiply(level, q)
        theta = 2.0 * tilted[1:] * (1.0 if tilted[0] >= 0.0 else -1.0)
        state = np.concatenate([np.zeros(3), heading @ start[3:6], theta, start[10:]])
        positions, velocities = (goals[:, :3] - start[:3]) @ heading.T, goals[:, 3:6] @ heading.T
        axes = goals[:, 6:] @ heading.T
        zeros = np.zeros((len(goals), 1))
        angles = np.column_stack([-axes[:, 1], axes[:, 0]])
        reference = np.hstack([positions, velocities, angles, zeros, zeros, zeros, zeros])
        self._solver.set_x0(state)
        self._solver.set_x_ref(np.ascontiguousarray(reference.T))
        solution = self._solver.solve()
        inputs = (np.array(solution["controls_all"])[: self._horizon] + 1.0) * self._body.hover
        return Plan(guess.states, inputs, 1, False)


SOLVERS = {"IPOPT": Ipopt, "acados": Acados, "Crocoddyl": Crocoddyl, "TinyMPC": TinyMpc}


def first_guess(body: Body, problem: StartAndTarget, goals: Array, name: str) -> Guess:
    """Return the guess "level", whose states have gaps, or "stabilised", a rollout with feedback."""
    horizon = len(goals) - 1
    if name == "stabilised":
        inputs = stabilised_start(body, problem, horizon, STABILISED_GAINS)
        return Guess(rollout(body, problem.start, inputs), inputs)
    return Guess(level_guess(problem.start, goals), np.full((horizon, INPUTS), body.hover))


def solve_tier(name: str, request: dict[str, Any]) -> list[dict[str, Any]]:
    """Solve the problems of a tier with each iteration limit, largest first; a solution that needed fewer is not repeated."""
    body = Body(**request["body"])
    options = {"constrained": True} if request.get("constrained") else {}
    solver, rows = SOLVERS[name](body, request["horizon"], **options), []
    first = draw_problems(request["tier"], 1)[0]
    goals = shaped_goals(first, request["horizon"])
    for limit in request["iterations"]:  # so that no solution includes the construction of a solver
        solver.solve(goals, first.start, first_guess(body, first, goals, "level"), limit)
    for problem in draw_problems(request["tier"], request["count"]):
        goals = shaped_goals(problem, request["horizon"])
        guess = first_guess(body, problem, goals, request["guess"])
        plans, seconds = [], 0.0
        for limit in sorted(request["iterations"], reverse=True):
            if not plans or plans[-1].iterations >= limit:
                timed = [_timed(solver, goals, problem.start, guess, limit) for _ in range(request.get("repeats", 1))]
                plans.append(timed[0][0])
                seconds = seconds or min(duration for _, duration in timed)
            else:
                plans.append(plans[-1])
        rows.append(
            {
                "controls": [plan.inputs.tolist() for plan in plans],
                "iterations": [plan.iterations for plan in plans],
                "converged": [plan.converged for plan in plans],
                "seconds": seconds,
            }
        )
    return rows


def _timed(solver: Any, *arguments: Any) -> tuple[Plan, float]:
    begin = time.perf_counter()
    plan = solver.solve(*arguments)
    return plan, plan.seconds or time.perf_counter() - begin


def fly_tier(name: str, request: dict[str, Any]) -> list[tuple[float, float]]:
    """Fly the problems of a tier: `cold` iterations at the first tick, `warm` from the shifted plan at the others."""
    body, horizon = Body(**request["body"]), request["horizon"]
    cold = SOLVERS[name](body, horizon)
    warm = Acados(body, horizon, real_time=True) if name == "acados" else cold
    flights = []
    for problem in draw_problems(request["tier"], request["count"]):
        plan: Plan | None = None

        def control(tick: int, x: Array, problem: StartAndTarget = problem) -> Array:
            nonlocal plan
            goals = shaped_goals(StartAndTarget(x, problem.target), horizon)
            if plan is None:
                guess = first_guess(body, StartAndTarget(x, problem.target), goals, "level")
                plan = cold.solve(goals, x, guess, request["cold"])
            else:
                states = np.vstack([x[None], plan.states[2:], plan.states[-1:]])
                guess = Guess(states, np.vstack([plan.inputs[1:], plan.inputs[-1:]]))
                plan = warm.solve(goals, x, guess, request["warm"])
            return plan.inputs[0]

        flights.append(tuple(fly_model(body, problem, control)))
    return flights


def main() -> None:
    """Answer the request on standard input."""
    name, request = sys.argv[1], json.loads(sys.stdin.read())
    if request.get("available"):
        module = {"IPOPT": "casadi", "acados": "acados_template", "Crocoddyl": "crocoddyl", "TinyMPC": "tinympc"}[name]
        __import__(module)
        try:
            answer: Any = version(module)
        except PackageNotFoundError:
            answer = "from its repository"
    else:
        answer = fly_tier(name, request) if "warm" in request else solve_tier(name, request)
    print("\n" + json.dumps(answer), flush=True)
    os._exit(0)  # or libraries would print after the answer


if __name__ == "__main__":
    main()
