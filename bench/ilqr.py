"""iLQR: one iteration, a real-time iteration, a cold solution, batches; and Crocoddyl's FDDP on the same problem.

    python bench/ilqr.py                 the rows for this CPU, and Crocoddyl's in bench/.venv
    python bench/ilqr.py --gpu           batches in JAX on whatever device it has; needs NumPy and JAX only

The problem shared with Crocoddyl: a Crazyflie without drag, from hover to a point 1 m ahead and 0.5 m up, a thrust for each
rotor, 40 steps of 0.05 s, the same goals, weights and step sizes. Crocoddyl's cost is written in its own residuals of state and
control, in body axes and with the tilt as an angle, so the two final costs are near each other and not the same. Its "euler" is
semi-implicit, and its RK4 also integrates the cost.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from ask import PYTHON, ask
from timing import best

HORIZON, DT, ITERATIONS = 40, 0.05, 10
REPEATS = 200


def rows(python: Path = PYTHON) -> list[dict[str, Any]]:
    """The rows of the bench"""
    return [*alone(), *batches(), *against_crocoddyl(python)]


def alone() -> list[dict[str, Any]]:
    """One problem, one core."""
    import samara
    from samara.control.mpc import ILQR
    from samara.core.algebra import Vec3
    from samara.core.tree import flatten
    from samara.physics.types import Reference

    vehicle = samara.vehicle("crazyflie_documented")
    state, _ = samara.hover(vehicle)
    target = (1.0, 0.3, 1.5)
    begun = time.perf_counter()
    far = ILQR(vehicle, horizon=HORIZON, tolerance=0.0)
    far.solve(state, target)
    compiling = time.perf_counter() - begun
    near = ILQR(vehicle, tolerance=0.0)
    warm = near.solve(state, target)
    near(state, target, vehicle, near.initial_memory)
    memory = near.initial_memory._replace(controls=warm.controls)
    solver, flown = far._solver, near.on_arrays(vehicle, 1)
    known = np.array(flatten(state))[:, None]
    asked = np.repeat(np.array(flatten(Reference(Vec3(*target))))[None, :, None], 21, axis=0)

    def one_iteration() -> float:
        """Of the second: the first begins from hover, where much is zero"""
        result = far.solve(state, target, iterations=2)
        before = time.perf_counter()
        solver.run(result.cost, 1, 0.0)
        return time.perf_counter() - before

    return [
        _row("iLQR, one iteration, N = 40", min(one_iteration() for _ in range(REPEATS)), compile_s=compiling),
        _row(
            "iLQR, real-time iteration, N = 20",
            best(lambda: near.solve(state, target, warm_start=warm, shift=0.01, iterations=1), REPEATS),
        ),
        _row("iLQR as a controller, N = 20", best(lambda: near(state, target, vehicle, memory), REPEATS)),
        _row("iLQR as a controller on arrays, N = 20", best(lambda: flown.run(known, asked), REPEATS)),
        _row("iLQR, 12 iterations from cold, N = 20", best(lambda: near.solve(state, target), REPEATS)),
    ]


def batches(count: int = 4096) -> list[dict[str, Any]]:
    """Problems in the lanes of one core's registers."""
    import samara
    from samara.control.mpc import ILQR

    ilqr = ILQR(samara.vehicle("crazyflie_documented"))
    states, targets = some_problems(count)
    found = []
    for dtype in ("float32", "float64"):
        warm = ilqr.solve_batch(states, targets, layout="wxyz", dtype=dtype)
        again = lambda dtype=dtype, warm=warm: ilqr.solve_batch(  # noqa: E731
            states, targets, layout="wxyz", dtype=dtype, warm_start=warm, iterations=1
        )
        seconds = best(again, 10)
        found.append(
            _row(
                f"iLQR, real-time iterations of {count} problems in lanes, N = 20, {dtype}",
                seconds / count,
                per_s=count / seconds,
            )
        )
    return found


def some_problems(count: int) -> tuple[np.ndarray, np.ndarray]:
    """States (13, B) around hover, and targets (3, B) within a metre or two"""
    rng = np.random.default_rng(0)
    states = np.zeros((13, count))
    states[2], states[6] = 1.0, 1.0
    states[:6] += rng.uniform(-0.3, 0.3, (6, count))
    return states, states[:3] + rng.uniform(-1.0, 1.0, (3, count))


# Crocoddyl ----------------------------------------------------------------------------------------------------------


def against_crocoddyl(python: Path) -> list[dict[str, Any]]:
    """The same problem here and there"""
    import samara
    from samara.control.mpc import ILQR

    vehicle = samara.vehicle("crazyflie_documented").without_effect("drag", "damping")
    state, _ = samara.hover(vehicle)
    target, weights = (1.0, 0.0, 1.5), {"thrust_weight": 300.0, "torque_weight": 0.0, "smoothing_weight": 0.0}
    found = []
    for integrator in ("rk4", "euler"):
        ilqr = ILQR(
            vehicle,
            horizon=HORIZON,
            dt=DT,
            inputs="rotors",
            integrator=integrator,
            tolerance=0.0,
            **weights,
        )
        found += _both(ilqr, state, target, python)
    return found


def _both(ilqr: Any, state: Any, target: Any, python: Path) -> list[dict[str, Any]]:
    vehicle, integrator = ilqr.vehicle, ilqr.model.integrator
    result = ilqr.solve(state, target, iterations=ITERATIONS)
    ours = _row(
        f"iLQR, an iteration of a cold solution, rotor thrusts, N = 40, {integrator}",
        best(lambda: ilqr.solve(state, target, iterations=ITERATIONS), REPEATS) / result.iterations,
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
        "hover": list(ilqr.model.hover_input),
        "low": list(ilqr.model.limits.low),
        "high": list(ilqr.model.limits.high),
        "start": result.states[0].tolist(),
        "goals": result.goals.tolist(),
        "weights": ilqr.weights._asdict(),
        "alphas": list(ilqr.line_search),
    }
    theirs = ask(
        "Crocoddyl", [Path(__file__).resolve(), "--crocoddyl"], python, json.dumps(problem), OMP_NUM_THREADS="1"
    )
    return [ours, *({**own, "times_ours": own["us"] / ours["us"]} for own in theirs)]


def crocoddyl_rows(problem: dict[str, Any]) -> list[dict[str, Any]]:
    """Run in bench/.venv: FDDP, without limits and with them"""
    import crocoddyl
    import pinocchio as pin

    model = pin.Model()
    model.gravity.linear = np.array([0.0, 0.0, -problem["gravity"]])
    joint = model.addJoint(0, pin.JointModelFreeFlyer(), pin.SE3.Identity(), "root_joint")
    model.appendBodyToJoint(
        joint, pin.Inertia(problem["mass"], np.zeros(3), np.diag(problem["inertia"])), pin.SE3.Identity()
    )
    state = crocoddyl.StateMultibody(model)
    kinds = crocoddyl.ThrusterType
    thrusters = [
        crocoddyl.Thruster(
            pin.SE3(np.eye(3), np.array(rotor["r_B"])),
            rotor["ratio"],
            kinds.CCW if rotor["spin"] > 0 else kinds.CW,
            low,
            high,
        )
        for rotor, low, high in zip(problem["rotors"], problem["low"], problem["high"], strict=True)
    ]
    actuation = crocoddyl.ActuationModelFloatingBaseThrusters(state, thrusters)
    w, nu = problem["weights"], actuation.nu

    def node(goal: np.ndarray, terminal: bool) -> Any:
        turn = pin.Quaternion.FromTwoVectors(np.array([0.0, 0.0, 1.0]), goal[6:9])
        reference = np.concatenate([goal[:3], turn.coeffs(), turn.toRotationMatrix().T @ goal[3:6], np.zeros(3)])
        kind = (
            ("terminal_position_weight", "terminal_velocity_weight", "terminal_tilt_weight")
            if terminal
            else ("position_weight", "velocity_weight", "tilt_weight")
        )
        position, velocity, tilt = (w[name] for name in kind)
        rate = 0.0 if terminal else w["yaw_rate_weight"]
        of_state = np.array([position] * 3 + [tilt, tilt, 0.0] + [velocity] * 3 + [0.0, 0.0, rate])
        costs = crocoddyl.CostModelSum(state, nu)
        scale = 1.0 if terminal else 1.0 / DT  # its running costs are rates
        costs.addCost(
            "state",
            crocoddyl.CostModelResidual(
                state,
                crocoddyl.ActivationModelWeightedQuad(of_state),
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
        free = crocoddyl.DifferentialActionModelFreeFwdDynamics(state, actuation, costs)
        if terminal:
            return crocoddyl.IntegratedActionModelEuler(free, 0.0)
        if problem["integrator"] == "rk4":
            own = crocoddyl.IntegratedActionModelRK(free, crocoddyl.RKType.four, DT)
        else:
            own = crocoddyl.IntegratedActionModelEuler(free, DT)
        own.u_lb, own.u_ub = np.array(problem["low"]), np.array(problem["high"])
        return own

    goals = np.array(problem["goals"])
    x = problem["start"]
    x0 = np.array([*x[:3], *x[7:10], x[6], *x[3:6], *x[10:]])  # at rest: body axes or the world's, all one
    shooting = crocoddyl.ShootingProblem(x0, [node(goal, False) for goal in goals[:-1]], node(goals[-1], True))
    xs, us = [x0] * (HORIZON + 1), [np.array(problem["hover"])] * HORIZON
    found = []
    for name, make in (("FDDP", crocoddyl.SolverFDDP), ("BoxFDDP", crocoddyl.SolverBoxFDDP)):
        solver = make(shooting)
        solver.alphas = problem["alphas"]
        solver.th_stop = 1e-12
        times = []
        for _ in range(30):
            before = time.perf_counter()
            solver.solve(xs, us, ITERATIONS, False)
            made = min(solver.iter + 1, ITERATIONS)
            times.append((time.perf_counter() - before) / made)
        found.append(
            {
                "row": f"Crocoddyl {crocoddyl.__version__} {name}, the same, {problem['integrator']}",
                "us": 1e6 * min(times),
                "iterations": made,
                "cost": float(solver.cost),
            }
        )
    return found


# JAX -----------------------------------------------------------------------------------------------------------------


GPU_BATCHES = (
    ("float32", 5, 65536),
    ("float32", 1, 65536),
    ("float32", 12, 65536),
    ("float32", 5, 4096),
    ("float64", 5, 65536),
)


def gpu(batches: tuple[tuple[str, int, int], ...] = GPU_BATCHES) -> list[dict[str, Any]]:
    """Batches in JAX from cold; the iLQR document's limits, so that nothing but JAX is needed"""
    import jax

    import samara
    from samara.control.mpc.batch_jax import Batch, PointTargets, jax_solver, point_goals
    from samara.control.mpc.cost import Parameters, kind_of, vehicle_problem
    from samara.control.mpc.options import MpcOptions, Shaping, Weights
    from samara.control.mpc.prediction_model import DOCUMENTED_LIMITS, model_of
    from samara.core.tree import flatten

    vehicle = samara.vehicle("crazyflie_documented")
    model = model_of(vehicle, MpcOptions(dt=DT, limits=DOCUMENTED_LIMITS))
    numbers = Parameters(Weights(torque_weight=5.3e5), model.hover_input, *model.limits, (), -1.0)
    problem = vehicle_problem(model, kind_of(numbers))
    sizes = (1.0, 0.7, 0.5, 0.3, 0.1, 0.05)
    found = []
    for dtype, iterations, count in batches:
        states, targets = some_problems(count)
        hover = np.array(model.hover_input)
        controls = np.broadcast_to(hover[:, None], (20, 4, count))
        asked = PointTargets(targets, np.zeros(count), Shaping())
        batch = Batch(states, asked, np.broadcast_to(hover[:, None], (4, count)), controls, np.zeros((4, 16)))
        solve = jax_solver(problem, 20, iterations, sizes, dtype, point_goals(model, 20))
        batch = jax.device_put(batch)

        def call(solve: Any = solve, batch: Any = batch) -> Any:
            return jax.block_until_ready(solve(batch, flatten(numbers), 1e-4))

        begun = time.perf_counter()
        result = call()
        compiling = time.perf_counter() - begun
        seconds = best(call, 10)
        found.append(
            _row(
                f"iLQR in JAX, {iterations} iterations of {count} problems, N = 20, {dtype}",
                seconds / count,
                per_s=count / seconds,
                compile_s=compiling,
                device=str(jax.devices()[0]),
                median_cost=float(np.median(np.asarray(result.cost))),
            )
        )
        print(json.dumps(found[-1]), flush=True)
    return found


def _row(name: str, seconds: float, **more: Any) -> dict[str, Any]:
    return {"row": name, "us": 1e6 * seconds, **more}


if __name__ == "__main__":
    if "--crocoddyl" in sys.argv:
        print(json.dumps(crocoddyl_rows(json.loads(sys.stdin.read()))))
    elif "--gpu" in sys.argv:
        gpu()
    else:
        for each in rows():
            print(json.dumps(each))
