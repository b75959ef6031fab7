"""Measure MPC: one iteration, real-time iterations, a cold solution, batches; and Crocoddyl's FDDP on the same problem.

    python bench/mpc.py                 the rows for this CPU, and Crocoddyl's in bench/.venv
    python bench/mpc.py --gpu FILE      batches in JAX on its default device, written to FILE; needs NumPy and JAX only

The problem shared with Crocoddyl: a Crazyflie without drag, from hover to a point 1 m ahead and 0.5 m up, one thrust per rotor,
40 steps of 0.05 s, the same goals, weights and step sizes. Crocoddyl's cost uses its own residuals of state and control, in
body axes and with the tilt as an angle, so the two final costs are close but not equal. The second integrator is the explicit
midpoint method, which both have: Crocoddyl's Euler is semi-implicit, ours is not. Crocoddyl also integrates the cost, so with
the midpoint method it weighs the states half a step later.
`mpc_compare.py` compares solutions of the same problems.
"""

import json
import math
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import MagicMock

import numpy as np
from peer_process import PYTHON, run_peer
from timing import best, describe_results

HORIZON, DT, ITERATIONS = 40, 0.05, 10
REPEATS = 200


def rows(python: Path = PYTHON) -> list[dict[str, Any]]:
    """Measure the rows of the bench."""
    return [*single_problems(), *constrained_problems(), *batches(), *against_crocoddyl(python)]


def bench_constraints() -> list[Any]:
    """Return limits of tilt and body rates and two spheres, one of which moves."""
    from samara.control.mpc import keep_out_sphere, max_body_rate, max_tilt

    spheres = [
        keep_out_sphere((0.5, 1.0, 1.0), 0.4),
        keep_out_sphere((-0.7, -0.2, 1.0), 0.3, velocity=(0.2, 0.0, 0.0)),
    ]
    return [max_tilt(1.0), max_body_rate(8.0), *spheres]


def single_problems() -> list[dict[str, Any]]:
    """Measure one problem on one core."""
    import samara
    from samara.control.mpc import MPC

    vehicle = samara.vehicle("crazyflie_documented")
    state, _ = samara.hover(vehicle)
    target = (1.0, 0.3, 1.5)
    begin = time.perf_counter()
    long_horizon = MPC(vehicle, horizon=HORIZON, tolerance=0.0)
    long_horizon.solve(state, target)
    compile_seconds = time.perf_counter() - begin
    short_horizon = MPC(vehicle, tolerance=0.0)
    warm_start = short_horizon.solve(state, target)
    _, controller_state = short_horizon(state, target, vehicle, short_horizon.initial_state)  # a cold start
    solver = long_horizon._solver

    def one_iteration() -> float:
        """Time the second iteration: the first starts at hover, where many terms are zero."""
        result = long_horizon.solve(state, target, iterations=2)
        begin_iteration = time.perf_counter()
        solver.run(result.cost, 1, 0.0)
        return time.perf_counter() - begin_iteration

    return [
        _row("MPC, one iteration, N = 40", min(one_iteration() for _ in range(REPEATS)), compile_s=compile_seconds),
        _row(
            "MPC, real-time iteration, N = 20",
            best(lambda: short_horizon.solve(state, target, warm_start=warm_start, shift=0.01, iterations=1), REPEATS),
        ),
        _row(
            "MPC as a controller, N = 20",
            best(lambda: short_horizon(state, target, vehicle, controller_state), REPEATS),
        ),
        _row(
            "MPC as a controller on arrays, N = 20",
            min(flight_seconds(short_horizon, state, target) for _ in range(20)),
        ),
        _row("MPC, 12 iterations from cold, N = 20", best(lambda: short_horizon.solve(state, target), REPEATS)),
    ]


def flight_seconds(mpc: Any, state: Any, target: tuple[float, float, float], ticks: int = 100) -> float:
    """Time a tick of the controller on arrays, in a flight of the prediction model, after the cold start."""
    from samara.core.algebra import Vec3
    from samara.core.tree import flatten, unflatten
    from samara.physics.types import Reference

    model = replace(mpc.model, dt=mpc.period)
    controller, body = mpc.batch_controller(mpc.vehicle, 1), unflatten(model.template, iter(flatten(state)))
    references = np.repeat(np.array(flatten(Reference(Vec3(*target))))[None, :, None], mpc.horizon + 1, axis=0)
    seconds = 0.0
    for tick in range(ticks + 1):
        columns = np.array(flatten((*body[:4], *state[4:])))[:, None]
        begin = time.perf_counter()
        controller.run(columns, references)
        seconds += time.perf_counter() - begin if tick else 0.0
        body = model.step(body, tuple(controller._rows["previous"][0].tolist()))
    return seconds / ticks


def constrained_problems() -> list[dict[str, Any]]:
    """Measure real-time iterations with and without constraints, and what `solve` adds to its compiled calls."""
    import samara
    from samara.control.mpc import MPC

    vehicle = samara.vehicle("crazyflie_documented")
    state, _ = samara.hover(vehicle)
    target, measurements = (1.0, 0.3, 1.5), []
    for horizon in (20, 40):
        calls, seconds = [], [math.inf, math.inf]
        for constraints in ((), bench_constraints()):
            mpc = MPC(vehicle, horizon=horizon, tolerance=0.0, constraints=constraints)
            warm_start = mpc.solve(state, target)
            calls.append(
                lambda mpc=mpc, warm_start=warm_start: mpc.solve(
                    state, target, warm_start=warm_start, shift=0.01, iterations=1
                )
            )
            if not constraints:
                overhead = _python_overhead(mpc, calls[0])
        for _ in range(REPEATS // 10):  # alternately, so that other load affects both
            seconds = [min(before, best(call, 20)) for before, call in zip(seconds, calls, strict=True)]
        plain, constrained = seconds
        measurements += [
            _row(f"MPC, Python overhead of solve, N = {horizon}", overhead),
            _row(
                f"MPC, real-time iteration with tilt, rate and two obstacles, N = {horizon}",
                constrained,
                ratio=constrained / plain,
                unconstrained_us=1e6 * plain,
            ),
        ]
    return measurements


def _python_overhead(mpc: Any, solve: Any) -> float:
    """Time of `solve` minus that of its compiled calls: goals, the first rollouts, and one iteration."""
    solver, goals = mpc._solver, mpc._goals._point_goals
    solve()
    iteration = solver._calls().iteration
    return best(solve, 10 * REPEATS) - sum(
        best(call, 10 * REPEATS)
        for call in (
            lambda: goals._loops.call(goals._table, goals._steps),
            lambda: solver._code.plain.rollout.call(solver._warm, solver.horizon),
            iteration,
        )
    )


def batches(count: int = 4096) -> list[dict[str, Any]]:
    """Measure problems in the SIMD lanes of one core."""
    import samara
    from samara.control.mpc import MPC

    vehicle, measurements = samara.vehicle("crazyflie_documented"), []
    states, targets = some_problems(count)
    for label, dtype, constraints in (
        ("", "float32", ()),
        ("", "float64", ()),
        (" with constraints", "float32", bench_constraints()),
    ):
        mpc = MPC(vehicle, constraints=constraints)
        warm_start = mpc.solve_batch(states, targets, layout="wxyz", dtype=dtype)
        solve_again = lambda mpc=mpc, dtype=dtype, warm_start=warm_start: mpc.solve_batch(  # noqa: E731
            states, targets, layout="wxyz", dtype=dtype, warm_start=warm_start, iterations=1
        )
        seconds = best(solve_again, 10)
        measurements.append(
            _row(
                f"MPC, real-time iterations of {count} problems in lanes{label}, N = 20, {dtype}",
                seconds / count,
                per_s=count / seconds,
            )
        )
    return measurements


def some_problems(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw states (13, B) around hover, and targets (3, B) within a metre or two."""
    rng = np.random.default_rng(0)
    states = np.zeros((13, count))
    states[2], states[6] = 1.0, 1.0
    states[:6] += rng.uniform(-0.3, 0.3, (6, count))
    return states, states[:3] + rng.uniform(-1.0, 1.0, (3, count))


# Crocoddyl ----------------------------------------------------------------------------------------------------------


def against_crocoddyl(python: Path) -> list[dict[str, Any]]:
    """Measure the same problem with Samara and with Crocoddyl."""
    import samara
    from samara.control.mpc import MPC

    vehicle = samara.vehicle("crazyflie_documented").without_effect("drag", "damping")
    state, _ = samara.hover(vehicle)
    target, weights = (1.0, 0.0, 1.5), {"thrust_weight": 300.0, "torque_weight": 0.0, "smoothing_weight": 0.0}
    measurements = []
    for integrator in ("rk4", "midpoint"):
        mpc = MPC(
            vehicle,
            horizon=HORIZON,
            dt=DT,
            inputs="rotors",
            integrator=integrator,
            tolerance=0.0,
            **weights,
        )
        measurements += _compare_with_crocoddyl(mpc, state, target, python)
    return measurements


def _compare_with_crocoddyl(mpc: Any, state: Any, target: Any, python: Path) -> list[dict[str, Any]]:
    vehicle, integrator = mpc.vehicle, mpc.model.integrator
    result = mpc.solve(state, target, iterations=ITERATIONS)
    measurement = _row(
        f"MPC, an iteration of a cold solution, rotor thrusts, N = 40, {integrator}",
        best(lambda: mpc.solve(state, target, iterations=ITERATIONS), REPEATS) / result.iterations,
        cost=result.cost,
        iterations=result.iterations,
    )
    problem = {
        "integrator": integrator,
        "mass": vehicle.mass,
        "inertia": [vehicle.inertia_B.xx, vehicle.inertia_B.yy, vehicle.inertia_B.zz],
        "gravity": vehicle["gravity"].acceleration,
        "rotors": [
            {"r_B": list(rotor.r_B), "spin": rotor.spin, "ratio": rotor.k_torque / rotor.k_thrust}
            for rotor in vehicle.rotors
        ],
        "hover": list(mpc.model.hover_input),
        "low": list(mpc.model.limits.low),
        "high": list(mpc.model.limits.high),
        "start": result.states[0].tolist(),
        "goals": result.goals.tolist(),
        "weights": mpc.weights._asdict(),
        "alphas": list(mpc.line_search),
    }
    crocoddyl_measurements = run_peer(
        "Crocoddyl", [Path(__file__).resolve(), "--crocoddyl"], python, json.dumps(problem), OMP_NUM_THREADS="1"
    )
    return [measurement, *({**row, "times_ours": row["us"] / measurement["us"]} for row in crocoddyl_measurements)]


def crocoddyl_rows(problem: dict[str, Any]) -> list[dict[str, Any]]:
    """Measure FDDP without and with limits; runs in bench/.venv."""
    import crocoddyl
    import pinocchio as pin

    model = pin.Model()
    model.gravity.linear = np.array([0.0, 0.0, -problem["gravity"]])
    joint = model.addJoint(0, pin.JointModelFreeFlyer(), pin.SE3.Identity(), "root_joint")
    model.appendBodyToJoint(
        joint, pin.Inertia(problem["mass"], np.zeros(3), np.diag(problem["inertia"])), pin.SE3.Identity()
    )
    state = crocoddyl.StateMultibody(model)
    spin_types = crocoddyl.ThrusterType
    thrusters = [
        crocoddyl.Thruster(
            pin.SE3(np.eye(3), np.array(rotor["r_B"])),
            rotor["ratio"],
            spin_types.CCW if rotor["spin"] > 0 else spin_types.CW,
            low,
            high,
        )
        for rotor, low, high in zip(problem["rotors"], problem["low"], problem["high"], strict=True)
    ]
    actuation = crocoddyl.ActuationModelFloatingBaseThrusters(state, thrusters)
    w, nu = problem["weights"], actuation.nu

    def node(goal: np.ndarray, terminal: bool) -> Any:
        attitude = pin.Quaternion.FromTwoVectors(np.array([0.0, 0.0, 1.0]), goal[6:9])
        reference = np.concatenate(
            [goal[:3], attitude.coeffs(), attitude.toRotationMatrix().T @ goal[3:6], np.zeros(3)]
        )
        weight_names = (
            ("terminal_position_weight", "terminal_velocity_weight", "terminal_tilt_weight")
            if terminal
            else ("position_weight", "velocity_weight", "tilt_weight")
        )
        position, velocity, tilt = (w[name] for name in weight_names)
        rate = 0.0 if terminal else w["yaw_rate_weight"]
        state_weights = np.array([position] * 3 + [tilt, tilt, 0.0] + [velocity] * 3 + [0.0, 0.0, rate])
        costs = crocoddyl.CostModelSum(state, nu)
        scale = 1.0 if terminal else 1.0 / DT  # its running costs are rates
        costs.addCost(
            "state",
            crocoddyl.CostModelResidual(
                state,
                crocoddyl.ActivationModelWeightedQuad(state_weights),
                crocoddyl.ResidualModelState(state, reference, nu),
            ),
            scale,
        )
        if not terminal:
            hover = np.array(problem["hover"])
            costs.addCost(
                "inputs",
                crocoddyl.CostModelResidual(state, crocoddyl.ResidualModelControl(state, hover)),
                scale * w["thrust_weight"],
            )
        dynamics = crocoddyl.DifferentialActionModelFreeFwdDynamics(state, actuation, costs)
        if terminal:
            return crocoddyl.IntegratedActionModelEuler(dynamics, 0.0)
        order = crocoddyl.RKType.four if problem["integrator"] == "rk4" else crocoddyl.RKType.two
        action = crocoddyl.IntegratedActionModelRK(dynamics, order, DT)
        action.u_lb, action.u_ub = np.array(problem["low"]), np.array(problem["high"])
        return action

    goals = np.array(problem["goals"])
    x = problem["start"]
    x0 = np.array([*x[:3], *x[7:10], x[6], *x[3:6], *x[10:]])  # at rest, so body and world axes give the same velocity
    shooting = crocoddyl.ShootingProblem(x0, [node(goal, False) for goal in goals[:-1]], node(goals[-1], True))
    xs, us = [x0] * (HORIZON + 1), [np.array(problem["hover"])] * HORIZON
    measurements = []
    for name, solver_type in (("FDDP", crocoddyl.SolverFDDP), ("BoxFDDP", crocoddyl.SolverBoxFDDP)):
        solver = solver_type(shooting)
        solver.alphas = problem["alphas"]
        solver.th_stop = 1e-12
        times = []
        for _ in range(30):
            begin = time.perf_counter()
            solver.solve(xs, us, ITERATIONS, False)
            iterations = min(solver.iter + 1, ITERATIONS)
            times.append((time.perf_counter() - begin) / iterations)
        measurements.append(
            {
                "row": f"Crocoddyl {crocoddyl.__version__} {name}, the same, {problem['integrator']}",
                "us": 1e6 * min(times),
                "iterations": iterations,
                "cost": float(solver.cost),
            }
        )
    return measurements


# JAX -----------------------------------------------------------------------------------------------------------------


class GpuBatch(NamedTuple):
    """A batch to measure: from the guess or from the solution of 12 iterations, with or without constraints."""

    dtype: str
    iterations: int
    count: int
    start: str = "hover"  # "hover" rolls hover thrust out, "cold" starts from the guess, "warm" from a solution
    constrained: bool = False

    @property
    def name(self) -> str:
        """The name of the row."""
        start = {"hover": "", "cold": " from cold", "warm": " from a solution"}[self.start]
        constraints = " with constraints" if self.constrained else ""
        return f"{self.iterations} iterations of {self.count} problems{start}{constraints}, N = 20, {self.dtype}"


GPU_BATCHES = (
    *(
        GpuBatch("float32", iterations, 65536, start, constrained)
        for constrained in (False, True)
        for iterations, start in ((12, "cold"), (1, "warm"))
    ),
    GpuBatch("float32", 5, 65536),
    GpuBatch("float32", 5, 4096),
    GpuBatch("float64", 5, 65536),
)


def gpu(path: Path, batches: Sequence[GpuBatch] = GPU_BATCHES, repeats: int = 10) -> None:
    """Measure batches in JAX, with the limits of the iLQR document, so that only JAX is needed."""
    import jax

    import samara

    if find_spec("llvmlite") is None:  # imported by the modules of the solver, and not used here
        for module in ("llvmlite", "llvmlite.ir", "llvmlite.binding"):
            sys.modules[module] = MagicMock()
    from samara.control.mpc.batch_jax import PointTargets, ProblemBatch, jax_solver, point_goals
    from samara.control.mpc.cost import CostParameters, cost_structure, vehicle_problem
    from samara.control.mpc.options import CostWeights, MpcOptions, Shaping
    from samara.control.mpc.prediction_model import DOCUMENTED_LIMITS, build_prediction_model
    from samara.core.atomic_files import write_text
    from samara.core.tree import flatten

    vehicle = samara.vehicle("crazyflie_documented")
    model = build_prediction_model(vehicle, MpcOptions(dt=DT, limits=DOCUMENTED_LIMITS))
    step_sizes, horizon, goals = (1.0, 0.7, 0.5, 0.3, 0.1, 0.05), 20, point_goals(model, 20)
    hover, measurements, cold_controls = np.array(model.hover_input), [], {}
    for batch in batches:
        constraints = bench_constraints() if batch.constrained else []
        parameters = CostParameters(
            CostWeights(torque_weight=5.3e5),
            model.hover_input,
            *model.limits,
            max_change=(),
            constraint_values=tuple(constraint.values for constraint in constraints),
            soft_weights=(),
        )
        problem = vehicle_problem(model, cost_structure(parameters, constraints, model))
        states, targets = some_problems(batch.count)
        key = (batch.dtype, batch.count, batch.constrained)
        controls = np.broadcast_to(hover[:, None], (horizon, len(hover), batch.count))
        if batch.start == "warm":
            controls = cold_controls[key]
        arguments = jax.device_put(
            ProblemBatch(
                states,
                PointTargets(targets, np.zeros(batch.count), Shaping()),
                np.broadcast_to(hover[:, None], (len(hover), batch.count)),
                controls,
            )
        )
        solve = jax_solver(
            problem, horizon, batch.iterations, step_sizes, batch.dtype, goals, model.dt, cold=batch.start == "cold"
        )

        def call(solve: Any = solve, arguments: Any = arguments, parameters: Any = parameters) -> Any:
            return jax.block_until_ready(solve(arguments, flatten(parameters), 1e-4))

        begin = time.perf_counter()
        result = call()
        compile_seconds = time.perf_counter() - begin
        if batch.start == "cold":
            cold_controls[key] = np.asarray(result.controls)
        seconds = best(call, repeats)
        measurements.append(
            _row(
                f"MPC in JAX, {batch.name}",
                seconds / batch.count,
                per_s=batch.count / seconds,
                compile_s=compile_seconds,
                median_cost=float(np.median(np.asarray(result.cost))),
                converged_fraction=float(np.mean(np.asarray(result.converged))),
                largest_violation=float(np.max(np.asarray(result.violation))),
            )
        )
        print(json.dumps(measurements[-1]), flush=True)
        header = describe_results("bench/mpc.py: batches of problems on a GPU", jax.devices()[0].device_kind)
        write_text(path, json.dumps({**header, "rows": measurements}, indent=1) + "\n")


def _row(name: str, seconds: float, **extra: Any) -> dict[str, Any]:
    return {"row": name, "us": 1e6 * seconds, **extra}


if __name__ == "__main__":
    if "--crocoddyl" in sys.argv:
        print(json.dumps(crocoddyl_rows(json.loads(sys.stdin.read()))))
    elif "--gpu" in sys.argv:
        gpu(Path(sys.argv[2]))
    else:
        for row in rows():
            print(json.dumps(row))
