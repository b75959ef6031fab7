"""Compare MPC with IPOPT, acados, Crocoddyl and TinyMPC on the problems of `mpc_problems`, in closed loop and with constraints.

    PYTHONPATH=src python bench/mpc_compare.py             print the rows, for every solver that bench/.venv can import
    PYTHONPATH=src python bench/mpc_compare.py --update    and write them to bench/results/mpc.json

`make bench/.venv/installed` installs CasADi, whose IPOPT it uses, and Crocoddyl; TinyMPC needs
`bench/.venv/bin/pip install --no-deps tinympc`, acados its library and acados_template from the acados project. Rows of a
solver that is not installed stay as they are.

Every returned plan is evaluated by rolling its inputs out with the model and cost of `mpc_problems`. The best known cost of a
problem is the least of all solvers and starts, and of earlier runs. A solution that reports convergence is `false_converged` if
Samara lowers its cost by more than 1 % from there, and a local minimum if it stays more than 5 % above the best known.
"""

import argparse
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from mpc_problems import (
    COUNT,
    DT,
    INPUTS,
    MAX_BODY_RATE,
    MAX_TILT,
    SPHERES,
    TICKS,
    TIERS,
    WEIGHTS,
    Body,
    ClosedLoop,
    StartAndTarget,
    draw_problems,
    evaluate_flight,
    fly_model,
    rollout,
    rollout_cost,
    stabilised_start,
    worst_violation,
)
from peer_process import PYTHON, PeerError, run_peer
from timing import best, describe_results

import samara
from samara.control import MPC
from samara.control.mpc import Constraint, keep_out_sphere, max_body_rate, max_tilt
from samara.core.algebra import Quat, Vec3
from samara.core.atomic_files import write_text
from samara.physics.types import State

HERE = Path(__file__).resolve().parent
RESULTS, OUTPUT = HERE / "results" / "mpc.json", HERE.parent / "out" / "bench" / "mpc.json"
PEERS = ("IPOPT", "acados", "Crocoddyl", "TinyMPC")
REAL_TIME_PEERS = ("acados", "Crocoddyl", "TinyMPC")
HORIZONS, LIMITS = (20, 40), (12, 60, 300)
ABOVE, LOWERED, MISS, UPSIDE_DOWN = 1.05, 0.99, 0.1, 90.0
COLD_ITERATIONS = 12
HEIGHT = 100.0  # of the flights of vehicles above the problems, so that nothing hits the ground  [m]
VEHICLE_FLIGHTS: tuple[tuple[str, str, dict[str, float]], ...] = (
    ("crazyflie", "crazyflie", {}),
    ("crazyflie_documented", "crazyflie_documented", {}),
    ("crazyflie_documented without observer", "crazyflie_documented", {"disturbance_time_constant": 0.0}),
)
FEEDBACK_GAINS = ((2.0, 2.0, 25.0, 8.0), (6.0, 4.0, 25.0, 8.0), (2.0, 2.0, 90.0, 15.0), (6.0, 4.0, 90.0, 15.0))
VEHICLE = samara.vehicle("crazyflie_documented").without_effect("drag", "damping")
MIN_RATE_ITERATIONS = 3  # solutions with fewer iterations do not count for the time per iteration

Row = dict[str, Any]
Array = np.ndarray


def build_controller(horizon: int, constraints: Sequence[Constraint] = (), **options: Any) -> MPC:
    """Build the controller with the model and the weights of `mpc_problems`."""
    weights = {"thrust_weight": WEIGHTS.thrust, "torque_weight": 0.0, "smoothing_weight": 0.0}
    return MPC(VEHICLE, horizon=horizon, dt=DT, inputs="rotors", constraints=constraints, **weights, **options)


def problem_body() -> Body:
    """Return the body of the vehicle."""
    model, inertia = build_controller(1).model, VEHICLE.inertia_B
    torques = [model.wrench(tuple(float(i == j) for j in range(INPUTS))).tau_B.z for i in range(INPUTS)]
    rotors = tuple((rotor.r_B.x, rotor.r_B.y, torque) for rotor, torque in zip(VEHICLE.rotors, torques, strict=True))
    low, high = model.limits.low[0], model.limits.high[0]
    return Body(VEHICLE.mass, (inertia.xx, inertia.yy, inertia.zz), rotors, low, high)


BODY = problem_body()


class Solutions(NamedTuple):
    """Solutions of a tier: costs, iterations and reported convergence (limits, problems); times [s] (problems,) and
    inputs at the last limit."""

    cost: Array
    iterations: Array
    converged: Array
    seconds: Array
    inputs: list[Array]


# Cold starts ---------------------------------------------------------------------------------------------------------


def solve_ours(problems: list[StartAndTarget], horizon: int, repeats: int) -> Solutions:
    """Solve every problem with each iteration limit."""
    mpc = build_controller(horizon)
    costs, iterations, converged, inputs, seconds = [], [], [], [], []
    for problem in problems:
        results = [mpc.solve(*problem, layout="wxyz", iterations=limit) for limit in LIMITS]
        costs.append([rollout_cost(BODY, problem, result.controls) for result in results])
        iterations.append([result.iterations for result in results])
        converged.append([result.converged for result in results])
        inputs.append(results[-1].controls)
        call = lambda problem=problem: mpc.solve(*problem, layout="wxyz", iterations=LIMITS[-1])  # noqa: E731
        seconds.append(best(call, repeats))
    return Solutions(np.array(costs).T, np.array(iterations).T, np.array(converged).T, np.array(seconds), inputs)


def ask_peer(name: str, python: Path, **request: Any) -> Any:
    """Run a solver of `mpc_peers`."""
    text = json.dumps({"body": BODY._asdict(), **request})
    return run_peer(name, [HERE / "mpc_peers.py", name], python, text, OMP_NUM_THREADS="1", PYTHONWARNINGS="ignore")


def solve_with_peer(
    name: str, tier: str, horizon: int, count: int, python: Path, repeats: int = 1, guess: str = "level"
) -> Solutions:
    """Solve every problem with each iteration limit; the peer returns its plans with the largest limit first."""
    request = {"tier": tier, "horizon": horizon, "count": count, "guess": guess, "iterations": LIMITS}
    answers = ask_peer(name, python, **request, repeats=repeats)
    problems = draw_problems(tier, count)
    costs = [
        [rollout_cost(BODY, problem, np.array(inputs)) for inputs in reversed(answer["controls"])]
        for problem, answer in zip(problems, answers, strict=True)
    ]
    return Solutions(
        np.array(costs).T,
        np.array([answer["iterations"][::-1] for answer in answers]).T,
        np.array([answer["converged"][::-1] for answer in answers]).T,
        np.array([answer["seconds"] for answer in answers]),
        [np.array(answer["controls"][0]) for answer in answers],
    )


def search_costs(problems: list[StartAndTarget], horizon: int) -> Array:
    """Solve from rollouts with feedback, and from random inputs; return the least cost of each problem."""
    mpc, rng, costs = build_controller(horizon, tolerance=1e-6), np.random.default_rng(1), []
    for problem in problems:
        starts = [stabilised_start(BODY, problem, horizon, gains) for gains in FEEDBACK_GAINS]
        starts += [rng.uniform(BODY.low, BODY.high, (horizon, INPUTS)) for _ in range(4)]
        results = [mpc.solve(*problem, layout="wxyz", iterations=300, warm_start=start) for start in starts]
        results.append(mpc.solve(*problem, layout="wxyz", iterations=300))
        costs.append(min(rollout_cost(BODY, problem, result.controls) for result in results))
    return np.array(costs)


def lowered_costs(problems: list[StartAndTarget], horizon: int, solutions: Solutions) -> Array:
    """Continue from the plans with the largest limit; return the costs, unchanged where hovering costs less than the plan."""
    mpc, costs = build_controller(horizon, tolerance=1e-8), []
    hover = np.full((horizon, INPUTS), BODY.hover)
    for problem, inputs, cost in zip(problems, solutions.inputs, solutions.cost[-1], strict=True):
        if not cost < rollout_cost(BODY, problem, hover):
            costs.append(cost)
            continue
        result = mpc.solve(*problem, layout="wxyz", iterations=LIMITS[-1], warm_start=inputs)
        costs.append(min(cost, rollout_cost(BODY, problem, result.controls)))
    return np.array(costs)


def cold_starts(
    peers: Sequence[str], python: Path, count: int, repeats: int, known: dict[str, list[float]]
) -> list[Row]:
    """Measure cold starts; updates the best known costs in `known`, by "N tier"."""
    rows = []
    for horizon in HORIZONS:
        solutions: dict[str, list[Solutions]] = {}
        polished: dict[str, list[Array]] = {}
        for tier in TIERS:
            problems = draw_problems(tier, count)
            found = [search_costs(problems, horizon)]
            tier_solutions = {"ours": solve_ours(problems, horizon, repeats)}
            for name in peers:
                if name != "TinyMPC":
                    timed = 1 if name == "Crocoddyl" else repeats
                    tier_solutions[name] = solve_with_peer(name, tier, horizon, count, python, timed)
            if "IPOPT" in peers:
                second = solve_with_peer("IPOPT", tier, horizon, count, python, guess="stabilised")
                found.append(second.cost.min(axis=0))
            for name, result in tier_solutions.items():
                solutions.setdefault(name, []).append(result)
                polished.setdefault(name, []).append(lowered_costs(problems, horizon, result))
                found += [result.cost.min(axis=0), polished[name][-1]]
            key = f"{horizon} {tier}"
            if len(known.get(key, [])) >= count:
                found.append(np.array(known[key][:count]))
            least = np.minimum.reduce(found)
            known[key] = [*(round(float(cost), 6) for cost in least), *known.get(key, [])[count:]]
        least_costs = [np.array(known[f"{horizon} {tier}"][:count]) for tier in TIERS]
        rows += [_cold_row(name, horizon, solutions[name], polished[name], least_costs) for name in solutions]
        for row in rows[-len(solutions) :]:
            print(json.dumps(row), flush=True)
    return rows


def _cold_row(
    name: str, horizon: int, solutions: list[Solutions], polished: list[Array], least_costs: list[Array]
) -> Row:
    above = [
        (result.cost > ABOVE * least + 1e-9).sum(axis=1) for result, least in zip(solutions, least_costs, strict=True)
    ]
    row: Row = {"row": f"{name}, N = {horizon}"}
    for i, limit in enumerate(LIMITS):
        row[f"at_{limit}"] = "/".join(str(int(counts[i])) for counts in above)
    converged = np.concatenate([result.converged[-1] for result in solutions])
    cost = np.concatenate([result.cost[-1] for result in solutions])
    is_lowered = np.concatenate(polished) < LOWERED * cost
    iterations = np.concatenate([result.iterations[-1] for result in solutions])
    rates = np.concatenate([result.seconds for result in solutions])[iterations >= MIN_RATE_ITERATIONS]
    rates = rates / iterations[iterations >= MIN_RATE_ITERATIONS]
    row["false_converged"] = int((converged & is_lowered).sum())
    is_above = cost > ABOVE * np.concatenate(least_costs) + 1e-9
    row["local_minima"] = int((converged & is_above & ~is_lowered).sum())
    row["not_converged"] = int((~converged).sum())
    row["median_iterations"] = float(np.median(iterations))
    if name != "Crocoddyl":  # its action models are in Python here
        row["us_per_iteration"] = 1e6 * float(np.median(rates))
    return row


# Closed loop ---------------------------------------------------------------------------------------------------------


def state_of_body(template: State, x: Array) -> State:
    """Return the state with p, v, q and ω of x (13,)."""
    p, v, q, omega = np.split(np.asarray(x, dtype=float), [3, 6, 10])
    return template._replace(
        p_W=Vec3(*p.tolist()), v_W=Vec3(*v.tolist()), q_WB=Quat(*q.tolist()), omega_B=Vec3(*omega.tolist())
    )


def fly_ours_on_model(mpc: MPC, problem: StartAndTarget) -> ClosedLoop:
    """Fly the model itself with real-time iterations."""
    controller_state: Any = ()
    template = samara.hover(VEHICLE)[0]

    def control(tick: int, x: Array) -> Array:
        nonlocal controller_state
        _, controller_state = mpc(state_of_body(template, x), tuple(problem.target), VEHICLE, controller_state)
        return np.array(controller_state.previous_input)

    return fly_model(BODY, problem, control)


def vehicle_flights(name: str, horizon: int, **options: Any) -> Callable[[StartAndTarget], ClosedLoop]:
    """Return the function that flies a shipped vehicle high above the ground at 1 kHz, with default weights."""
    vehicle = samara.vehicle(name)
    mpc = MPC(vehicle, horizon=horizon, dt=DT, period=DT, **options)
    sim, template = samara.compile(vehicle), samara.hover(vehicle)[0]

    def fly(problem: StartAndTarget) -> ClosedLoop:
        start, target = problem.start.copy(), np.add(problem.target, [0.0, 0.0, HEIGHT])
        start[2] += HEIGHT
        state, controller_state, states = state_of_body(template, start), (), [start]
        for _ in range(TICKS):
            command, controller_state = mpc(state, tuple(target), vehicle, controller_state)
            values = state.to_numpy()
            sim.step_into(values, command, 1e-3, steps=round(DT / 1e-3))
            state = State.from_numpy(values, "wxyz", vehicle)
            states.append(values[: len(start)].copy())
        return evaluate_flight(np.array(states), target)

    return fly


def closed_loops(peers: Sequence[str], python: Path, count: int, horizon: int = 40, tier: str = "middle") -> list[Row]:
    """Fly the problems of a tier at 20 Hz."""
    problems = draw_problems(tier, count)
    mpc = build_controller(horizon, period=DT, disturbance_time_constant=0.0)  # the model has no motors to observe
    flights = {"ours": [fly_ours_on_model(mpc, problem) for problem in problems]}
    for label, name, options in VEHICLE_FLIGHTS:
        fly = vehicle_flights(name, horizon, **options)
        flights[f"ours, {label}"] = [fly(problem) for problem in problems]
    for name in peers:
        if name in REAL_TIME_PEERS:
            request = {"tier": tier, "horizon": horizon, "count": count, "cold": COLD_ITERATIONS, "warm": 1}
            flights[name] = [ClosedLoop(*flight) for flight in ask_peer(name, python, **request)]
    rows = []
    for name, results in flights.items():
        tilts, misses = np.array(results).T
        row = {
            "row": f"closed loop, {name}",
            "beyond_90": int((tilts > UPSIDE_DOWN).sum()),
            "missed": int((misses > MISS).sum()),
            "largest_tilt_deg": float(tilts.max()),
            "largest_miss": float(min(misses.max(), 1e6)),
        }
        rows.append(row)
        print(json.dumps(row), flush=True)
    return rows


# Constraints ---------------------------------------------------------------------------------------------------------


def constrained_cases(peers: Sequence[str], python: Path, count: int, horizon: int = 40) -> list[Row]:
    """Solve with limits of tilt and body rates and two spheres, one of which moves."""
    spheres = [keep_out_sphere(centre, radius, velocity=velocity) for centre, radius, velocity in SPHERES]
    mpc, rows = build_controller(horizon, [max_tilt(MAX_TILT), max_body_rate(MAX_BODY_RATE), *spheres]), []
    for tier in ("near", "middle"):
        problems = draw_problems(tier, count)
        results = [mpc.solve(*problem, layout="wxyz", iterations=LIMITS[-1]) for problem in problems]
        plans = {"ours": [(r.controls, r.converged, r.iterations) for r in results]}
        if "IPOPT" in peers:
            request = {"tier": tier, "horizon": horizon, "count": count, "guess": "level", "iterations": LIMITS[-1:]}
            answers = ask_peer("IPOPT", python, **request, constrained=True)
            plans["IPOPT"] = [
                (np.array(answer["controls"][0]), answer["converged"][0], answer["iterations"][0]) for answer in answers
            ]
        costs = {}
        for name, solutions in plans.items():
            pairs = list(zip(problems, solutions, strict=True))
            converged = np.array([solution[1] for solution in solutions])
            violation = np.array([worst_violation(rollout(BODY, p.start, inputs)) for p, (inputs, _, _) in pairs])
            cost = np.array([rollout_cost(BODY, p, inputs) for p, (inputs, _, _) in pairs])
            costs[name] = np.where(converged, cost, np.inf)
            rows.append(
                {
                    "row": f"constraints, {tier}, {name}",
                    "converged": int(converged.sum()),
                    "violation": float(max(violation[converged].max(initial=0.0), 0.0)),
                    "violation_not_converged": float(max(violation[~converged].max(initial=0.0), 0.0)),
                    "median_iterations": float(np.median([solution[2] for solution in solutions])),
                }
            )
        least = np.minimum.reduce([*costs.values()])
        for row, cost in zip(rows[-len(costs) :], costs.values(), strict=True):
            row["above"] = int((np.isfinite(least) & (cost > ABOVE * least)).sum())
            print(json.dumps(row), flush=True)
    return rows


def installed_peers(python: Path) -> dict[str, str]:
    """Return the versions of the peers that `python` can import; print why the others are missing."""
    versions = {}
    for name in PEERS:
        try:
            versions[name] = ask_peer(name, python, available=True)
        except PeerError as error:
            print(error)
    return versions


def main() -> None:
    """Measure, print, and write the results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--update", action="store_true", help="Write bench/results/mpc.json rather than out/bench/mpc.json."
    )
    parser.add_argument("--count", type=int, default=COUNT, help="Problems of each tier.")
    parser.add_argument("--repeats", type=int, default=3, help="Timed repetitions of each solution.")
    parser.add_argument("--python", type=Path, default=PYTHON, help="Python with the other solvers.")
    arguments = parser.parse_args()
    previous = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    known = previous.get("best", {})
    peers = installed_peers(arguments.python)
    rows = [
        *cold_starts([*peers], arguments.python, arguments.count, arguments.repeats, known),
        *closed_loops([*peers], arguments.python, arguments.count),
        *constrained_cases([*peers], arguments.python, arguments.count),
    ]
    header = describe_results("bench/mpc_compare.py: cold starts, closed loop and constraints, beside other solvers")
    rows = [{**row, "date": header["date"]} for row in rows]
    measured = {row["row"] for row in rows}
    rows += [row for row in previous.get("rows", []) if row["row"] not in measured]
    versions = {**previous.get("versions", {}), **peers}
    path = RESULTS if arguments.update else OUTPUT
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, json.dumps({**header, "versions": versions, "rows": rows, "best": known}, indent=1) + "\n")


if __name__ == "__main__":
    main()
