"""iLQR's problems: linear ones against Riccati's equation and least squares, by every solver; a vehicle's with a cost of
one's own; and the iLQR document's, whose solutions stay the same bits."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest
from scipy.linalg import solve_discrete_are
from support.recorded_flights import arithmetic, kept
from support.repository import RECORDINGS

import samara
from samara.control.mpc.batch_cpu import Tile
from samara.control.mpc.controller import ILQR
from samara.control.mpc.cost import TRACKING, Cost
from samara.control.mpc.problem import Limits, Problem, total
from samara.control.mpc.solver import LINE_SEARCH, Solver
from samara.core.algebra import Vec3, norm, quat_from_euler
from samara.core.tree import flatten, unflatten

BEFORE = RECORDINGS / "ilqr.npz"
CRAZYFLIE = samara.vehicle("crazyflie_documented")
HOVER, _ = samara.hover(CRAZYFLIE)
FAR = Limits((-1e9, -1e9), (1e9, 1e9))

# A linear problem --------------------------------------------------------------------------------------------------


class Linear(NamedTuple):
    """x' = A x + B u, ½ xᵀQx + ½ uᵀRu at every step, ½ xᵀPx at the end."""

    A: np.ndarray
    B: np.ndarray
    Q: np.ndarray
    R: np.ndarray
    P: np.ndarray


def two_coupled_masses():
    """Two masses and a spring between them, a force on each; Q and R dense, P that of an endless horizon."""
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


def applied(matrix, vector):
    return [sum(float(a) * x for a, x in zip(row, vector, strict=True)) for row in matrix]


def problem_of(own, smooth=0.0, limits=FAR):
    """States are tuples of four numbers; the parameters are the weight of smoothing and the limits"""
    return Problem(
        state=(0.0,) * 4,
        command=(0.0, 0.0),
        goal=(),
        parameters=(smooth, limits),
        step=lambda x, u, _: tuple(a + b for a, b in zip(applied(own.A, x), applied(own.B, u), strict=True)),
        residuals=lambda x, u, _, __: squares(own.Q, x) + squares(own.R, u),
        final=lambda x, _, __: squares(own.P, x),
        limits=lambda numbers: numbers[1],
        **({"smoothing": lambda numbers: numbers[0]} if smooth else {}),
    )


def rolled_out(problem, x, before, controls):
    """States and residuals √w r of a whole horizon, step by step in Python"""
    states, found = [tuple(x)], []
    for u in controls.tolist():
        found += problem.stage_residuals(states[-1], tuple(u), tuple(before), (), problem.parameters)
        states.append(problem.step(states[-1], tuple(u), problem.parameters))
        before = u
    found += problem.final(states[-1], (), problem.parameters)
    assert total(found) >= 0.0
    return np.array(states), np.array([np.sqrt(w) * r for w, r in found])


def least_squares(problem, x, before, horizon):
    """The best inputs (N, m) and their cost: all residuals are linear in all inputs, so one least-squares problem has it"""
    m = len(problem.command)
    at_zero = rolled_out(problem, x, before, np.zeros((horizon, m)))[1]
    units = np.eye(horizon * m).reshape(-1, horizon, m)
    slopes = np.array([rolled_out(problem, x, before, unit)[1] - at_zero for unit in units]).T
    best = np.linalg.lstsq(slopes, -at_zero, rcond=None)[0]
    return best.reshape(horizon, m), 0.5 * float(np.sum((at_zero + slopes @ best) ** 2))


START, BEFORE_IT = (1.0, -0.5, 0.3, 0.8), (0.4, -0.7)


def test_a_linear_problem_has_the_feedback_and_the_cost_of_riccatis_equation():
    """With P of the endless horizon at its end, u = −(R + BᵀPB)⁻¹BᵀPA x at every step, and J = ½ xᵀPx."""
    own = two_coupled_masses()
    solver = Solver(problem_of(own), horizon=11)
    found = solver.solve(START, iterations=3, tolerance=0.0)
    gain = np.linalg.solve(own.R + own.B.T @ own.P @ own.B, own.B.T @ own.P @ own.A)
    assert solver.gains == pytest.approx(np.tile(-gain, (11, 1, 1)), rel=1e-6)
    assert found.cost == pytest.approx(0.5 * np.array(START) @ own.P @ START, rel=1e-12)
    states = [np.array(START)]
    for _ in range(11):
        states.append((own.A - own.B @ gain) @ states[-1])
    assert solver.states == pytest.approx(np.array(states), abs=1e-8)


@pytest.mark.parametrize("smooth", [0.0, 30.0])
def test_one_iteration_solves_a_linear_problem(smooth):
    """The quadratic model of a linear problem is the problem: the first full step is the best there is, by least squares.

    With smoothing, this needs every term between one input and the next: −s K, s (1 − K₋) and its slope.
    """
    problem, horizon = problem_of(two_coupled_masses(), smooth), 9
    best, cost = least_squares(problem, START, BEFORE_IT, horizon)
    solver = Solver(problem, horizon)
    found = solver.solve(START, BEFORE_IT, iterations=1)
    assert found.step_sizes == (1.0,)
    assert solver.controls == pytest.approx(best, rel=1e-5, abs=1e-6)
    assert found.cost == pytest.approx(cost, rel=1e-10)
    assert solver.states == pytest.approx(rolled_out(problem, START, BEFORE_IT, best)[0], abs=1e-6)


@pytest.mark.parametrize("smooth", [0.0, 30.0])
def test_the_cost_along_the_step_is_the_quadratic_model(smooth):
    """J(α) − J(0) = α J'(0) + ½ α² J''(0) for every step size, slope and curvature by differences of J along the step."""
    problem, horizon = problem_of(two_coupled_masses(), smooth), 6
    costs = []
    for alpha in (0.1, 0.3, 0.5, 1.0):
        found = Solver(problem, horizon, step_sizes=(alpha,)).solve(START, BEFORE_IT, iterations=1)
        costs.append(found.cost_history[-1])
    none = found.cost_history[0]
    best, least = least_squares(problem, START, BEFORE_IT, horizon)
    along = [rolled_out(problem, START, BEFORE_IT, alpha * best)[1] for alpha in (0.1, 0.3, 0.5, 1.0)]
    assert costs == pytest.approx([0.5 * float(r @ r) for r in along], rel=1e-6)
    assert costs == pytest.approx([none + (2 * a - a * a) * (least - none) for a in (0.1, 0.3, 0.5, 1.0)], rel=1e-6)


@pytest.mark.parametrize("smooth", [0.0, 30.0])
def test_lanes_solve_a_linear_problem(smooth):
    """In every lane its own start: the best inputs by least squares after one iteration."""
    problem, horizon = problem_of(two_coupled_masses(), smooth), 5
    tile = Tile(problem, horizon, problem.parameters, LINE_SEARCH, np.zeros((2, 6)), "float64")
    starts = np.random.default_rng(3).normal(size=(4, 3))
    tile.load(starts, np.array(BEFORE_IT)[:, None], np.zeros((horizon, 2, 1)))
    tile.run(1, 1e-9, cold=True)
    for lane in range(3):
        best, cost = least_squares(problem, starts[:, lane].tolist(), BEFORE_IT, horizon)
        assert tile.controls[..., lane] == pytest.approx(best, rel=1e-5, abs=1e-6)
        assert tile.cost[lane] == pytest.approx(cost, rel=1e-10)


@pytest.mark.long
@pytest.mark.parametrize("smooth", [0.0, 30.0])
def test_jax_solves_a_linear_problem(smooth):
    """The same by XLA."""
    pytest.importorskip("jax")
    from samara.control.mpc.batch_jax import Batch, jax_solver

    problem, horizon = problem_of(two_coupled_masses(), smooth), 5
    solve = jax_solver(problem, horizon, 1, LINE_SEARCH, "float64", lambda states, _: np.zeros((horizon + 1, 0, 3)))
    starts = np.random.default_rng(3).normal(size=(4, 3))
    before, inputs = np.tile(np.array(BEFORE_IT)[:, None], (1, 3)), np.zeros((horizon, 2, 3))
    found = solve(Batch(starts, (), before, inputs, np.zeros((2, 6))), flatten(problem.parameters), 1e-9)
    for lane in range(3):
        best, cost = least_squares(problem, starts[:, lane].tolist(), BEFORE_IT, horizon)
        assert np.asarray(found.controls)[..., lane] == pytest.approx(best, rel=1e-5, abs=1e-6)
        assert float(found.cost[lane]) == pytest.approx(cost, rel=1e-10)


def test_limits_of_a_linear_problem_are_those_of_a_bounded_least_squares_problem():
    """SciPy's bounded least squares over all inputs at once finds the same, some of them at their limits."""
    from scipy.optimize import lsq_linear

    tight = Limits((-0.6, -0.9), (0.6, 0.9))
    problem, horizon = problem_of(two_coupled_masses(), 3.0, tight), 8
    solver = Solver(problem, horizon)
    found = solver.solve(START, BEFORE_IT, iterations=60, tolerance=1e-13)
    at_zero = rolled_out(problem, START, BEFORE_IT, np.zeros((horizon, 2)))[1]
    units = np.eye(2 * horizon).reshape(-1, horizon, 2)
    slopes = np.array([rolled_out(problem, START, BEFORE_IT, unit)[1] - at_zero for unit in units]).T
    low, high = (np.tile(ends, horizon) for ends in tight)
    best = lsq_linear(slopes, -at_zero, (low, high), method="bvls", tol=1e-14)
    assert found.cost == pytest.approx(best.cost, rel=1e-9)
    assert solver.controls.ravel() == pytest.approx(best.x, abs=1e-5)
    assert 2 <= np.isclose(np.abs(solver.controls), tight.high, atol=1e-12).sum() < 2 * horizon


def test_what_is_no_problem_is_said_in_one_sentence():
    problem = problem_of(two_coupled_masses())
    for instead, sentence in (
        ({"step": lambda x, u, _: x[:3]}, "the problem's step gives 3 numbers; expected the 4 of its state"),
        ({"limits": lambda _: Limits((0.0,), (1.0, 1.0))}, "limits are 1 and 2 numbers; expected 2 of each"),
        ({"final": lambda x, _, __: [x[0]]}, "a residual is not a pair: expected"),
    ):
        with pytest.raises(ValueError, match=sentence):
            Solver(replace(problem, **instead), 3)
    with pytest.raises(ValueError, match=r"cost = 5: expected a samara\.control\.mpc\.Cost"):
        ILQR(CRAZYFLIE, cost=5)


def test_without_a_cost_at_the_end_the_horizon_is_least_squares_too():
    """And the last input of all, which nothing comes after, is 0."""
    problem = replace(problem_of(two_coupled_masses()), final=lambda x, _, __: [])
    solver = Solver(problem, 4)
    found = solver.solve(START, iterations=1)
    best, cost = least_squares(problem, START, (0.0, 0.0), 4)
    assert found.cost == pytest.approx(cost, rel=1e-10)
    assert solver.controls == pytest.approx(best, abs=1e-6) and solver.controls[-1] == pytest.approx([0.0, 0.0])


# A vehicle's, with a cost of one's own -------------------------------------------------------------------------------


def test_ilqr_cost_given_by_name_is_the_default():
    """The same problem, and the same machine code."""
    assert ILQR(CRAZYFLIE, cost=TRACKING).problem is ILQR(CRAZYFLIE).problem


def test_a_residual_more_is_paid_for():
    """Keeping x² + y² at 1 beside the documented cost: the plan's cost is the sum of both, and the plan bends to the ring."""

    def on_a_ring(state, command, goal, parameters, model):
        ring = state.p_W.x * state.p_W.x + state.p_W.y * state.p_W.y - 1.0
        return [*TRACKING.residuals(state, command, goal, parameters, model), (200.0, ring)]

    plain, ringed = ILQR(CRAZYFLIE), ILQR(CRAZYFLIE, cost=Cost(on_a_ring, TRACKING.final), max_iterations=60)
    start = HOVER._replace(p_W=Vec3(1.0, 0.0, 1.0))
    one, other = (solver.solve(start, (0.0, 1.0, 1.0)) for solver in (plain, ringed))
    off = [np.abs(np.hypot(*plan.states[:-1, :2].T) - 1.0).max() for plan in (one, other)]
    assert off[1] < 0.3 * off[0] and off[0] > 0.1
    again = plain.solve(start, (0.0, 1.0, 1.0))
    assert np.array_equal(again.controls, one.controls)
    problem, before, cost = ringed.problem, ringed.model.hover_input, 0.0
    for k in range(21):
        state = unflatten(problem.state, iter(other.states[k].tolist()))
        goal = unflatten(problem.goal, iter(other.goals[k].tolist()))
        if k < 20:
            u = tuple(other.controls[k].tolist())
            cost += total(problem.stage_residuals(state, u, before, goal, ringed.parameters))
            before = u
        else:
            cost += total(problem.final(state, goal, ringed.parameters))
    assert other.cost == pytest.approx(cost, rel=1e-12)


def test_a_cost_without_a_slope_at_the_origin_starts_cold_all_the_same():
    """√(x² + y²) has no derivative where a cold start's feedback is learned; without that feedback there is still a plan."""

    def distance(state, command, goal, parameters, model):
        away = norm(state.p_W)
        return [*TRACKING.residuals(state, command, goal, parameters, model), (1.0, away - 1.0)]

    plan = ILQR(CRAZYFLIE, cost=Cost(distance, TRACKING.final)).solve(HOVER, (1.0, 0.0, 1.0))
    assert np.isfinite(plan.cost) and np.isfinite(plan.controls).all()


# The iLQR document's, as it was --------------------------------------------------------------------------------------


def solved():
    """Plans alone and in lanes: cold and warm, against obstacles, with a thrust for each rotor, without smoothing."""
    rng, found = np.random.default_rng(7), {}

    def tumbling():
        return HOVER._replace(
            v_W=Vec3(*rng.uniform(-1.5, 1.5, 3)),
            q_WB=quat_from_euler(*rng.uniform(-0.6, 0.6, 3)),
            omega_B=Vec3(*rng.uniform(-3.0, 3.0, 3)),
        )

    wary = {"obstacles": [((0.6, 0.05, 1.0), 0.3)], "max_tilt": 0.35, "yaw_weight": 4.0, "roll_pitch_rate_weight": 0.1}
    for name, options in {"usual": {}, "wary": wary, "rotors": {"inputs": "rotors", "smoothing_weight": 0.0}}.items():
        solver, state = ILQR(CRAZYFLIE, horizon=10, terminal_tilt_weight=4.0, **options), tumbling()
        cold = solver.solve(state, HOVER.p_W + Vec3(*rng.uniform(-2.0, 2.0, 3)), yaw=0.3)
        warm = solver.solve(state, HOVER.p_W, warm_start=cold, shift=0.013, iterations=1, push_W=(0.3, -0.2, 0.1))
        found[f"{name} cold"], found[f"{name} warm"] = cold.controls, warm.controls
        found[f"{name} gains"] = warm.gains
        states = np.stack([np.array(flatten(tumbling()[:4])) for _ in range(5)], axis=1)
        targets = np.array(HOVER.p_W)[:, None] + rng.uniform(-1.5, 1.5, (3, 5))
        for dtype in ("float32", "float64") if name == "usual" else ("float64",):
            batch = solver.solve_batch(states, targets, layout="wxyz", iterations=4, dtype=dtype)
            again = solver.solve_batch(
                states, targets + 0.1, layout="wxyz", iterations=1, dtype=dtype, warm_start=batch
            )
            found[f"{name} {dtype}"], found[f"{name} {dtype} warm"] = batch.controls, again.controls
    return found


@pytest.mark.long
def test_solutions_are_the_same_bits_as_before():
    """Where the processor and the C library round as theirs did; elsewhere to rounding."""
    now, before = solved(), np.load(BEFORE)
    assert set(before) == set(now)
    for name, numbers in before.items():
        if kept()["arithmetic"] == arithmetic():
            np.testing.assert_array_equal(now[name], numbers, err_msg=name)
        else:
            tolerance = 1e-3 if numbers.dtype == np.float32 else 1e-7
            np.testing.assert_allclose(now[name], numbers, rtol=tolerance, atol=tolerance * abs(numbers).max())
