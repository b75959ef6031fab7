"""Problems: linear ones against Riccati's equation and least squares, by every solver; a vehicle's with a custom cost; and
the iLQR document's, whose solutions stay bit-identical."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest
from scipy.linalg import solve_discrete_are
from support.recorded_flights import arithmetic, stored_hashes
from support.repository import RECORDINGS

import samara
from samara.control.mpc.batch_cpu import ProblemTile
from samara.control.mpc.controller import MPC
from samara.control.mpc.cost import TRACKING_COST, Cost
from samara.control.mpc.problem import InputLimits, Problem, StepData, total_cost
from samara.control.mpc.solver import LINE_SEARCH_STEPS, Solver
from samara.core.algebra import Vec3, norm, quat_from_euler
from samara.core.tree import flatten, unflatten

RECORDED = RECORDINGS / "mpc.npz"
CRAZYFLIE = samara.vehicle("crazyflie_documented")
HOVER, _ = samara.hover(CRAZYFLIE)
NO_LIMITS = InputLimits((-1e9, -1e9), (1e9, 1e9))

# A linear problem --------------------------------------------------------------------------------------------------


class Linear(NamedTuple):
    """x' = A x + B u, ½ xᵀQx + ½ uᵀRu at every step, ½ xᵀPx at the end."""

    A: np.ndarray
    B: np.ndarray
    Q: np.ndarray
    R: np.ndarray
    P: np.ndarray


def two_coupled_masses():
    """Two masses and a spring between them, a force on each; Q and R dense, P that of an infinite horizon."""
    rng, dt = np.random.default_rng(21), 0.1
    spring = np.array([[-2.0, 2.0], [1.0, -1.0]])
    A = np.block([[np.eye(2), dt * np.eye(2)], [dt * spring, np.eye(2) - 0.02 * np.eye(2)]])
    B = np.vstack([np.zeros((2, 2)), dt * np.array([[1.0, 0.2], [0.0, 1.5]])])
    roots = rng.normal(size=(4, 4)), rng.normal(size=(2, 2))
    Q, R = 10.0 * roots[0] @ roots[0].T, 5.0 * (roots[1] @ roots[1].T + np.eye(2))
    return Linear(A, B, Q, R, solve_discrete_are(A, B, Q, R))


def squares(weight, vector):
    """½ vᵀWv as residuals: W = L Lᵀ, r = Lᵀv"""
    lower = np.linalg.cholesky(weight)
    return [(1.0, sum(float(lower[i, j]) * vector[i] for i in range(j, len(lower)))) for j in range(len(lower))]


def multiply(matrix, vector):
    return [sum(float(a) * x for a, x in zip(row, vector, strict=True)) for row in matrix]


def linear_problem(system, smooth=0.0, limits=NO_LIMITS):
    """States are tuples of four numbers; the parameters are the weight of smoothing and the limits"""
    return Problem(
        state=(0.0,) * 4,
        command=(0.0, 0.0),
        goal=(),
        parameters=(smooth, limits),
        step=lambda x, u, _: tuple(a + b for a, b in zip(multiply(system.A, x), multiply(system.B, u), strict=True)),
        residuals=lambda x, u, _, __: squares(system.Q, x) + squares(system.R, u),
        final=lambda x, _, __: squares(system.P, x),
        limits=lambda parameters: parameters[1],
        **({"smoothing": lambda parameters: parameters[0]} if smooth else {}),
    )


def roll_out(problem, x, previous_input, controls):
    """States and residuals √w r of a horizon, step by step in Python"""
    states, residuals = [tuple(x)], []
    for u in controls.tolist():
        data = StepData(())
        residuals += problem.stage_residuals(states[-1], tuple(u), tuple(previous_input), data, problem.parameters)
        states.append(problem.step(states[-1], tuple(u), problem.parameters))
        previous_input = u
    residuals += problem.final(states[-1], (), problem.parameters)
    assert total_cost(residuals) >= 0.0
    return np.array(states), np.array([np.sqrt(w) * r for w, r in residuals])


def least_squares(problem, x, previous_input, horizon):
    """Optimal inputs (N, m) and their cost: all residuals are linear in the inputs, so this is one least-squares problem"""
    m = len(problem.command)
    at_zero = roll_out(problem, x, previous_input, np.zeros((horizon, m)))[1]
    units = np.eye(horizon * m).reshape(-1, horizon, m)
    slopes = np.array([roll_out(problem, x, previous_input, unit)[1] - at_zero for unit in units]).T
    best = np.linalg.lstsq(slopes, -at_zero, rcond=None)[0]
    return best.reshape(horizon, m), 0.5 * float(np.sum((at_zero + slopes @ best) ** 2))


START, PREVIOUS_INPUT = (1.0, -0.5, 0.3, 0.8), (0.4, -0.7)


def test_a_linear_problem_has_the_feedback_and_the_cost_of_riccatis_equation():
    """With P of the infinite horizon at its end, u = −(R + BᵀPB)⁻¹BᵀPA x at every step, and J = ½ xᵀPx."""
    system = two_coupled_masses()
    solver = Solver(linear_problem(system), horizon=11)
    solution = solver.solve(START, iterations=3, tolerance=0.0)
    gain = np.linalg.solve(system.R + system.B.T @ system.P @ system.B, system.B.T @ system.P @ system.A)
    assert solver.gains == pytest.approx(np.tile(-gain, (11, 1, 1)), rel=1e-6)
    assert solution.cost == pytest.approx(0.5 * np.array(START) @ system.P @ START, rel=1e-12)
    states = [np.array(START)]
    for _ in range(11):
        states.append((system.A - system.B @ gain) @ states[-1])
    assert solver.states == pytest.approx(np.array(states), abs=1e-8)


@pytest.mark.parametrize("smooth", [0.0, 30.0])
def test_one_iteration_solves_a_linear_problem(smooth):
    """The quadratic model of a linear problem is exact: the first full step is the optimum, by least squares.

    With smoothing, this needs every term between consecutive inputs: −s K, s (1 − K₋) and its slope.
    """
    problem, horizon = linear_problem(two_coupled_masses(), smooth), 9
    best, cost = least_squares(problem, START, PREVIOUS_INPUT, horizon)
    solver = Solver(problem, horizon)
    solution = solver.solve(START, PREVIOUS_INPUT, iterations=1)
    assert solution.step_sizes == (1.0,)
    assert solver.controls == pytest.approx(best, rel=1e-5, abs=1e-6)
    assert solution.cost == pytest.approx(cost, rel=1e-10)
    assert solver.states == pytest.approx(roll_out(problem, START, PREVIOUS_INPUT, best)[0], abs=1e-6)


@pytest.mark.parametrize("smooth", [0.0, 30.0])
def test_the_cost_along_the_step_is_the_quadratic_model(smooth):
    """J(α) − J(0) = α J'(0) + ½ α² J''(0) for every step size, slope and curvature by differences of J along the step."""
    problem, horizon = linear_problem(two_coupled_masses(), smooth), 6
    costs = []
    for alpha in (0.1, 0.3, 0.5, 1.0):
        solution = Solver(problem, horizon, step_sizes=(alpha,)).solve(START, PREVIOUS_INPUT, iterations=1)
        costs.append(solution.cost_history[-1])
    initial_cost = solution.cost_history[0]
    best, optimal_cost = least_squares(problem, START, PREVIOUS_INPUT, horizon)
    residuals = [roll_out(problem, START, PREVIOUS_INPUT, alpha * best)[1] for alpha in (0.1, 0.3, 0.5, 1.0)]
    assert costs == pytest.approx([0.5 * float(r @ r) for r in residuals], rel=1e-6)
    assert costs == pytest.approx(
        [initial_cost + (2 * a - a * a) * (optimal_cost - initial_cost) for a in (0.1, 0.3, 0.5, 1.0)], rel=1e-6
    )


@pytest.mark.parametrize("smooth", [0.0, 30.0])
def test_lanes_solve_a_linear_problem(smooth):
    """Different starts in every lane: the optimal inputs by least squares after one iteration."""
    problem, horizon = linear_problem(two_coupled_masses(), smooth), 5
    tile = ProblemTile(problem, horizon, problem.parameters, LINE_SEARCH_STEPS, "float64")
    starts = np.random.default_rng(3).normal(size=(4, 3))
    tile.load(starts, np.array(PREVIOUS_INPUT)[:, None], np.zeros((horizon, 2, 1)))
    tile.run(1, 1e-9, cold=True)
    for lane in range(3):
        best, cost = least_squares(problem, starts[:, lane].tolist(), PREVIOUS_INPUT, horizon)
        assert tile.controls[..., lane] == pytest.approx(best, rel=1e-5, abs=1e-6)
        assert tile.cost[lane] == pytest.approx(cost, rel=1e-10)


@pytest.mark.long
@pytest.mark.parametrize("smooth", [0.0, 30.0])
def test_jax_solves_a_linear_problem(smooth):
    """The same by XLA."""
    pytest.importorskip("jax")
    from samara.control.mpc.batch_jax import ProblemBatch, jax_solver

    problem, horizon = linear_problem(two_coupled_masses(), smooth), 5
    solve = jax_solver(
        problem, horizon, 1, LINE_SEARCH_STEPS, "float64", lambda states, _: np.zeros((horizon + 1, 0, 3))
    )
    starts = np.random.default_rng(3).normal(size=(4, 3))
    previous_inputs, inputs = np.tile(np.array(PREVIOUS_INPUT)[:, None], (1, 3)), np.zeros((horizon, 2, 3))
    solution = solve(ProblemBatch(starts, (), previous_inputs, inputs), flatten(problem.parameters), 1e-9)
    for lane in range(3):
        best, cost = least_squares(problem, starts[:, lane].tolist(), PREVIOUS_INPUT, horizon)
        assert np.asarray(solution.controls)[..., lane] == pytest.approx(best, rel=1e-5, abs=1e-6)
        assert float(solution.cost[lane]) == pytest.approx(cost, rel=1e-10)


def test_limits_of_a_linear_problem_are_those_of_a_bounded_least_squares_problem():
    """SciPy's bounded least squares over all inputs at once finds the same, some of them at their limits."""
    from scipy.optimize import lsq_linear

    tight = InputLimits((-0.6, -0.9), (0.6, 0.9))
    problem, horizon = linear_problem(two_coupled_masses(), 3.0, tight), 8
    solver = Solver(problem, horizon)
    solution = solver.solve(START, PREVIOUS_INPUT, iterations=60, tolerance=1e-13)
    at_zero = roll_out(problem, START, PREVIOUS_INPUT, np.zeros((horizon, 2)))[1]
    units = np.eye(2 * horizon).reshape(-1, horizon, 2)
    slopes = np.array([roll_out(problem, START, PREVIOUS_INPUT, unit)[1] - at_zero for unit in units]).T
    low, high = (np.tile(bounds, horizon) for bounds in tight)
    best = lsq_linear(slopes, -at_zero, (low, high), method="bvls", tol=1e-14)
    assert solution.cost == pytest.approx(best.cost, rel=1e-9)
    assert solver.controls.ravel() == pytest.approx(best.x, abs=1e-5)
    assert 2 <= np.isclose(np.abs(solver.controls), tight.high, atol=1e-12).sum() < 2 * horizon


def test_an_invalid_problem_is_rejected():
    problem = linear_problem(two_coupled_masses())
    for changes, message in (
        ({"step": lambda x, u, _: x[:3]}, "the problem's step gives 3 numbers; expected the 4 of its state"),
        ({"limits": lambda _: InputLimits((0.0,), (1.0, 1.0))}, "limits are 1 and 2 numbers; expected 2 of each"),
        ({"final": lambda x, _, __: [x[0]]}, "a residual is not a pair: expected"),
    ):
        with pytest.raises(ValueError, match=message):
            Solver(replace(problem, **changes), 3)
    with pytest.raises(ValueError, match=r"cost = 5: expected a samara\.control\.mpc\.Cost"):
        MPC(CRAZYFLIE, cost=5)


def test_without_a_cost_at_the_end_the_horizon_is_least_squares_too():
    """The last input, which affects nothing, is 0."""
    problem = replace(linear_problem(two_coupled_masses()), final=lambda x, _, __: [])
    solver = Solver(problem, 4)
    solution = solver.solve(START, iterations=1)
    best, cost = least_squares(problem, START, (0.0, 0.0), 4)
    assert solution.cost == pytest.approx(cost, rel=1e-10)
    assert solver.controls == pytest.approx(best, abs=1e-6) and solver.controls[-1] == pytest.approx([0.0, 0.0])


# A vehicle's problem with a custom cost ------------------------------------------------------------------------------


def test_ilqr_cost_given_by_name_is_the_default():
    """The same problem, and the same machine code."""
    assert MPC(CRAZYFLIE, cost=TRACKING_COST).problem is MPC(CRAZYFLIE).problem


def test_an_additional_residual_adds_to_the_cost():
    """A penalty on x² + y² − 1 added to the documented cost: the plan's cost is the sum, and the plan bends to the ring."""

    def ring_residuals(state, command, goal, parameters, model):
        ring = state.p_W.x * state.p_W.x + state.p_W.y * state.p_W.y - 1.0
        return [*TRACKING_COST.residuals(state, command, goal, parameters, model), (200.0, ring)]

    default_solver, ring_solver = (
        MPC(CRAZYFLIE),
        MPC(CRAZYFLIE, cost=Cost(ring_residuals, TRACKING_COST.final), max_iterations=60),
    )
    start = HOVER._replace(p_W=Vec3(1.0, 0.0, 1.0))
    plain_plan, ringed_plan = (solver.solve(start, (0.0, 1.0, 1.0)) for solver in (default_solver, ring_solver))
    deviations = [np.abs(np.hypot(*plan.states[:-1, :2].T) - 1.0).max() for plan in (plain_plan, ringed_plan)]
    assert deviations[1] < 0.3 * deviations[0] and deviations[0] > 0.1
    repeated = default_solver.solve(start, (0.0, 1.0, 1.0))
    assert np.array_equal(repeated.controls, plain_plan.controls)
    problem, previous_input, cost = ring_solver.problem, ring_solver.model.hover_input, 0.0
    for k in range(21):
        state = unflatten(problem.state, iter(ringed_plan.states[k].tolist()))
        goal = unflatten(problem.goal, iter(ringed_plan.goals[k].tolist()))
        if k < 20:
            u = tuple(ringed_plan.controls[k].tolist())
            data = StepData(goal)
            cost += total_cost(problem.stage_residuals(state, u, previous_input, data, ring_solver.parameters))
            previous_input = u
        else:
            cost += total_cost(problem.final(state, goal, ring_solver.parameters))
    assert ringed_plan.cost == pytest.approx(cost, rel=1e-12)


def test_a_cost_without_a_gradient_at_the_origin_still_starts_cold():
    """√(x² + y² + z²) has no derivative at the origin, where the unused rows of the arrays are; the plan needs none of it."""

    def distance(state, command, goal, parameters, model):
        radius = norm(state.p_W)
        return [*TRACKING_COST.residuals(state, command, goal, parameters, model), (1.0, radius - 1.0)]

    plan = MPC(CRAZYFLIE, cost=Cost(distance, TRACKING_COST.final)).solve(HOVER, (1.0, 0.0, 1.0))
    assert np.isfinite(plan.cost) and np.isfinite(plan.controls).all()


# Solutions of the iLQR document's problem, recorded ------------------------------------------------------------------


def solve_recorded_problems():
    """Single and batch plans: cold and warm, with obstacles, with rotor thrusts as inputs, without smoothing."""
    rng, solutions = np.random.default_rng(7), {}

    def random_state():
        return HOVER._replace(
            v_W=Vec3(*rng.uniform(-1.5, 1.5, 3)),
            q_WB=quat_from_euler(*rng.uniform(-0.6, 0.6, 3)),
            omega_B=Vec3(*rng.uniform(-3.0, 3.0, 3)),
        )

    avoiding = {
        "obstacles": [((0.6, 0.05, 1.0), 0.3)],
        "max_tilt": 0.35,
        "yaw_weight": 4.0,
        "roll_pitch_rate_weight": 0.1,
    }
    for name, options in {
        "usual": {},
        "wary": avoiding,
        "rotors": {"inputs": "rotors", "smoothing_weight": 0.0},
    }.items():
        solver, state = MPC(CRAZYFLIE, horizon=10, terminal_tilt_weight=4.0, **options), random_state()
        cold = solver.solve(state, HOVER.p_W + Vec3(*rng.uniform(-2.0, 2.0, 3)), yaw=0.3)
        warm = solver.solve(state, HOVER.p_W, warm_start=cold, shift=0.013, iterations=1, push_W=(0.3, -0.2, 0.1))
        solutions[f"{name} cold"], solutions[f"{name} warm"] = cold.controls, warm.controls
        solutions[f"{name} gains"] = warm.gains
        states = np.stack([np.array(flatten(random_state()[:4])) for _ in range(5)], axis=1)
        targets = np.array(HOVER.p_W)[:, None] + rng.uniform(-1.5, 1.5, (3, 5))
        for dtype in ("float32", "float64") if name == "usual" else ("float64",):
            batch = solver.solve_batch(states, targets, layout="wxyz", iterations=4, dtype=dtype)
            warm_batch = solver.solve_batch(
                states, targets + 0.1, layout="wxyz", iterations=1, dtype=dtype, warm_start=batch
            )
            solutions[f"{name} {dtype}"], solutions[f"{name} {dtype} warm"] = batch.controls, warm_batch.controls
    return solutions


@pytest.mark.long
def test_solutions_are_bit_identical_to_the_recorded_ones():
    """Equal if processor and C library round as at the recording; otherwise to rounding."""
    solutions, recorded = solve_recorded_problems(), np.load(RECORDED)
    assert set(recorded) == set(solutions)
    for name, expected in recorded.items():
        if stored_hashes()["arithmetic"] == arithmetic():
            np.testing.assert_array_equal(solutions[name], expected, err_msg=name)
        else:
            tolerance = 1e-3 if expected.dtype == np.float32 else 1e-7
            np.testing.assert_allclose(solutions[name], expected, rtol=tolerance, atol=tolerance * abs(expected).max())
