"""Constraints, gaps and delays of the controller MPC, against IPOPT, least squares, exact integration and NumPy."""

import math
from typing import NamedTuple

import casadi as ca
import numpy as np
import pytest
from scipy.integrate import solve_ivp
from support.nonlinear_programme import NonlinearProgramme, thrust_axis_of

import samara
from samara.control.mpc import (
    MPC,
    Constraint,
    InputLimits,
    Problem,
    Solver,
    altitude_limits,
    half_space,
    keep_out_capsule,
    keep_out_sphere,
    max_body_rate,
    max_speed,
    max_tilt,
    position_box,
)
from samara.control.mpc.batch_cpu import ProblemTile
from samara.control.mpc.options import LINE_SEARCH_STEPS
from samara.control.mpc.prediction_model import difference
from samara.control.mpc.problem import StepData
from samara.core.algebra import Vec3, quat_from_euler
from samara.core.tree import flatten, unflatten

CRAZYFLIE = samara.vehicle("crazyflie_documented")
HOVER, _ = samara.hover(CRAZYFLIE)
START = np.array(HOVER.p_W)
CONVERGED = {"tolerance": 1e-9, "max_iterations": 400}
EULER = {"integrator": "euler"}  # RK4 takes three times as long to compile
TOLERANCE = 1e-3  # of a constraint's scale


def state_vector(state):
    return np.array([float(x) for x in flatten(tuple(state[:4]))])


# Constraints of every type, evaluated again -------------------------------------------------------------------------


def distance_to_segment(p, start, end):
    """By a search over points of the segment, to 1e-6 of its length"""
    points = np.linspace(0.0, 1.0, 1001)
    for _ in range(2):
        distances = np.linalg.norm(p - (start + points[:, None] * (end - start)), axis=1)
        best, width = points[np.argmin(distances)], points[1] - points[0]
        points = np.clip(np.linspace(best - width, best + width, 1001), 0.0, 1.0)
    return distances.min()


class Case(NamedTuple):
    """A constraint, the target, the violations of a state and input by NumPy in units of the scale, and g for IPOPT.

    `violation(x, u, time)` and `programme(x, u, time)`; u is None at the end, and both are () where nothing holds.
    """

    options: dict
    target: tuple
    violation: object
    programme: object
    on_inputs: bool = False


TIME, DT = 0.4, 0.05  # of the controller at the start of the horizon
SPHERE, POLE = (np.array([0.5, 0.06, 1.02]), 0.25), (np.array([0.5, 0.05, 0.0]), np.array([0.5, 0.05, 0.95]), 0.3)
MOVING, DRIFT = np.array([0.5, 0.5, 1.0]), np.array([0.0, -0.5, 0.0])
NORMAL = np.array([-1.0, -1.0, 0.0]) / math.sqrt(2.0)


def climb_thrust(state, command, time, values):
    """T ≤ T₀ − c v_z: less thrust is available the faster it climbs"""
    thrust, slope = values
    return command[0] + slope * state.v_W.z - thrust


CASES = {
    "tilt": Case(
        {"constraints": [max_tilt(0.2)]},
        (1.0, 0.4, 1.2),
        lambda x, u, t: [math.acos(1.0 - 2.0 * (x[7] ** 2 + x[8] ** 2)) / 0.2 - 1.0],
        lambda x, u, t: [math.cos(0.2) - thrust_axis_of(x[6:10])[2]],
    ),
    "body rate": Case(
        {"constraints": [max_body_rate((0.8, 0.9, 1.0))]},
        (1.0, 0.6, 1.2),
        lambda x, u, t: np.abs(x[10:]) / (0.8, 0.9, 1.0) - 1.0,
        lambda x, u, t: [x[10 + i] ** 2 - limit**2 for i, limit in enumerate((0.8, 0.9, 1.0))],
    ),
    "speed": Case(
        {"constraints": [max_speed(0.6)]},
        (1.0, 0.4, 1.2),
        lambda x, u, t: [math.hypot(*x[3:6]) / 0.6 - 1.0],
        lambda x, u, t: [ca.sumsqr(x[3:6]) - 0.36],
    ),
    "altitude": Case(
        {"constraints": [altitude_limits(0.97, 1.15)]},
        (1.0, 0.4, 1.4),
        lambda x, u, t: [0.97 - x[2], x[2] - 1.15],
        lambda x, u, t: [0.97 - x[2], x[2] - 1.15],
    ),
    "position box": Case(
        {"constraints": [position_box((-0.1, -0.2, 0.9), (0.5, 0.2, 1.1))]},
        (1.0, -0.5, 1.2),
        lambda x, u, t: [*((-0.1, -0.2, 0.9) - x[:3]), *(x[:3] - (0.5, 0.2, 1.1))],
        lambda x, u, t: [
            *(a - x[i] for i, a in enumerate((-0.1, -0.2, 0.9))),
            *(x[i] - b for i, b in enumerate((0.5, 0.2, 1.1))),
        ],
    ),
    "half-space": Case(
        {"constraints": [half_space(3.0 * NORMAL, -0.4)]},
        (1.0, 0.3, 1.1),
        lambda x, u, t: [-0.4 - NORMAL @ x[:3]],
        lambda x, u, t: [-0.4 - NORMAL[0] * x[0] - NORMAL[1] * x[1]],
    ),
    "sphere": Case(
        {"constraints": [keep_out_sphere(*SPHERE)]},
        (1.2, 0.0, 1.0),
        lambda x, u, t: [1.0 - np.linalg.norm(x[:3] - SPHERE[0]) / SPHERE[1]],
        lambda x, u, t: [SPHERE[1] ** 2 - ca.sumsqr(x[:3] - SPHERE[0])],
    ),
    "capsule": Case(
        {"constraints": [keep_out_capsule(*POLE)]},
        (1.2, 0.0, 0.9),
        lambda x, u, t: [1.0 - distance_to_segment(x[:3], POLE[0], POLE[1]) / POLE[2]],
        lambda x, u, t: [
            POLE[2] ** 2
            - ca.sumsqr(x[:3] - ca.vertcat(POLE[0][0], POLE[0][1], ca.fmin(ca.fmax(x[2], POLE[0][2]), POLE[1][2])))
        ],
    ),
    "moving sphere": Case(
        {"constraints": [keep_out_sphere(MOVING, 0.25, velocity=DRIFT)], "integrator": "rk4"},
        (1.2, 0.0, 1.0),
        lambda x, u, t: [1.0 - np.linalg.norm(x[:3] - MOVING - DRIFT * t) / 0.25],
        lambda x, u, t: [0.25**2 - ca.sumsqr(x[:3] - MOVING - DRIFT * t)],
    ),
    "user function": Case(
        {"constraints": [Constraint("climb", climb_thrust, (0.31, 0.05), scale=0.1, on_inputs=True)]},
        (0.3, 0.0, 1.8),
        lambda x, u, t: [(u[0] + 0.05 * x[5] - 0.31) / 0.1],
        lambda x, u, t: [u[0] + 0.05 * x[5] - 0.31],
        on_inputs=True,
    ),
}
RATE_LIMIT = np.array([0.5, 0.02, 0.02, 0.01])  # N/s and N·m/s


def largest_violation(case, result):
    """The largest violation of a plan, where its constraint holds, from its states and inputs"""
    worst = -math.inf
    for k, x in enumerate(result.states):
        if (k < len(result.controls)) if case.on_inputs else k > 0:
            u = result.controls[k] if case.on_inputs else None
            worst = max(worst, *case.violation(x, u, TIME + k * DT))
    return worst


@pytest.mark.long
@pytest.mark.parametrize("name", CASES)
def test_a_constraint_holds_and_the_optimum_is_that_of_a_nonlinear_programme(name):
    """The constraint is active, holds to 1e-3 of its scale, and IPOPT finds the same cost to 1e-4 and the same path."""
    case = CASES[name]
    options = {**CONVERGED, **EULER, **case.options}
    solver = MPC(CRAZYFLIE, **options)
    result = solver.solve(HOVER, case.target, time=TIME)
    free = MPC(CRAZYFLIE, **{**options, "constraints": ()}).solve(HOVER, case.target, time=TIME)
    assert largest_violation(case, free) > 0.05 and free.feasible
    assert result.converged and result.feasible and result.gap == 0.0
    assert -0.005 < largest_violation(case, result) < TOLERANCE
    assert max(result.violations.values()) == pytest.approx(largest_violation(case, result), abs=2e-3)

    def constraints(x, u, u_before, k):
        holds = u is not None if case.on_inputs else k > 0
        return case.programme(x, u, TIME + k * DT) if holds else []

    programme = NonlinearProgramme(solver, constraints)
    cost, states, _ = programme.solve(
        state_vector(HOVER), result.goals, result.states + np.random.default_rng(0).normal(0.0, 0.02, (21, 13))
    )
    assert result.cost == pytest.approx(cost, rel=1e-4)
    assert np.abs(result.states[:, :3] - states[:, :3]).max() < 5e-3
    assert result.cost > free.cost


@pytest.mark.long
def test_the_rate_of_the_inputs_is_limited():
    """|u − u₋| ≤ rate dt, also from the previous input on; IPOPT finds the same cost to 1e-4."""
    target, step = (0.8, 0.3, 1.5), RATE_LIMIT * DT
    solver = MPC(CRAZYFLIE, **CONVERGED, **EULER, max_input_rate=RATE_LIMIT.tolist())
    result, free = (mpc.solve(HOVER, target) for mpc in (solver, MPC(CRAZYFLIE, **CONVERGED, **EULER)))

    def excess(plan):
        changes = np.diff(np.vstack([solver.model.hover_input, plan.controls]), axis=0)
        return (np.abs(changes) / step).max() - 1.0

    assert excess(free) > 0.3 and result.converged
    assert -1e-4 < excess(result) < TOLERANCE
    programme = NonlinearProgramme(
        solver,
        lambda x, u, before, k: (
            [] if u is None else [*ca.vertsplit(u - before - step), *ca.vertsplit(before - u - step)]
        ),
    )
    cost, _, _ = programme.solve(state_vector(HOVER), result.goals)
    assert result.cost == pytest.approx(cost, rel=1e-4)


@pytest.mark.long
def test_several_constraints_at_once():
    """Tilt, body rate, speed and two obstacles, from a moving start: all hold, and IPOPT finds the same cost to 1e-4."""
    obstacles = [(np.array([0.6, 0.25, 1.05]), 0.3), (np.array([1.0, -0.35, 1.0]), 0.3)]
    solver = MPC(
        CRAZYFLIE,
        **CONVERGED,
        **EULER,
        horizon=30,
        obstacles=obstacles,
        max_tilt=0.3,
        constraints=[max_speed(1.2), max_body_rate(3.0)],
    )
    state = HOVER._replace(v_W=Vec3(0.3, 0.1, -0.1), q_WB=quat_from_euler(0.1, 0.05, 0.4), omega_B=Vec3(0.5, -0.4, 0.2))
    result = solver.solve(state, (1.8, 0.0, 1.1))
    assert result.converged
    x = result.states[1:]
    assert np.arccos(1.0 - 2.0 * (x[:, 7] ** 2 + x[:, 8] ** 2)).max() < 0.3 * (1.0 + TOLERANCE)
    assert np.linalg.norm(x[:, 3:6], axis=1).max() < 1.2 * (1.0 + TOLERANCE)
    assert np.abs(x[:, 10:]).max() < 3.0 * (1.0 + TOLERANCE)
    for centre, radius in obstacles:
        assert np.linalg.norm(x[:, :3] - centre, axis=1).min() > radius * (1.0 - TOLERANCE)

    def constraints(x, u, u_before, k):
        g = [
            math.cos(0.3) - thrust_axis_of(x[6:10])[2],
            ca.sumsqr(x[3:6]) - 1.44,
            *(x[i] ** 2 - 9.0 for i in (10, 11, 12)),
        ]
        return [*g, *(radius**2 - ca.sumsqr(x[:3] - centre) for centre, radius in obstacles)] if k else []

    cost, _, _ = NonlinearProgramme(solver, constraints).solve(
        state_vector(state), result.goals, result.states, result.controls
    )
    assert result.cost == pytest.approx(cost, rel=1e-4)


@pytest.mark.long
def test_an_infeasible_problem_names_its_constraint_and_violates_it_least():
    """Above 1.2 m and below 1.1 m, at rest in the middle: neither holds; staying in the middle violates both by 5 cm, others
    one of them by more. The result and its text name a constraint."""
    solver = MPC(
        CRAZYFLIE,
        **EULER,
        max_iterations=100,
        constraints=[altitude_limits(1.2, 2.0), half_space((0.0, 0.0, -1.0), -1.1)],
    )
    result = solver.solve(HOVER._replace(p_W=Vec3(0.0, 0.0, 1.15)), (0.0, 0.0, 1.15))
    assert not result.feasible and not result.converged and result.gap == 0.0
    assert set(result.violations) == {"altitude", "half-space"} and result.worst_constraint in result.violations
    below, above = 1.2 - result.states[1:, 2].min(), result.states[1:, 2].max() - 1.1
    assert result.violations == pytest.approx({"altitude": below, "half-space": above}, abs=1e-9)
    assert result.violation == pytest.approx(0.05, rel=0.05)
    assert f"not feasible, {result.worst_constraint}: 0.05" in repr(result)


@pytest.mark.long
def test_a_soft_constraint_trades_off_and_its_cost_is_the_stated_one():
    """½ w max(g, 0)² per step: with more weight the plan enters less and pays more; the cost is the sum of both."""
    depths, tracking = [], []
    free = MPC(CRAZYFLIE, **CONVERGED, **EULER).solve(HOVER, (1.2, 0.0, 1.0))
    hard = MPC(CRAZYFLIE, **CONVERGED, **EULER, constraints=[keep_out_sphere(*SPHERE)]).solve(HOVER, (1.2, 0.0, 1.0))
    weights = (1.0, 30.0, 1e3, 3e4)
    for weight in weights:
        result = MPC(CRAZYFLIE, **CONVERGED, **EULER, constraints=[keep_out_sphere(*SPHERE, weight=weight)]).solve(
            HOVER, (1.2, 0.0, 1.0)
        )
        g = np.maximum(1.0 - np.linalg.norm(result.states[:, :3] - SPHERE[0], axis=1) / SPHERE[1], 0.0)
        depths.append(g.max())
        tracking.append(result.cost - 0.5 * weight * float(g @ g))
        assert result.converged and result.feasible and not result.violations
    assert np.all(np.diff(depths) < 0.0) and np.all(np.diff(tracking) > 0.0)
    assert free.cost < tracking[0] and tracking[-1] < hard.cost
    assert tracking[-1] == pytest.approx(hard.cost, rel=0.01) and depths[-1] < 0.02


@pytest.mark.long
def test_a_moved_constraint_is_a_new_one():
    """`move_constraint` gives the bits of a controller with these values, and checks name and shape."""
    target, there = (1.2, 0.0, 1.0), (np.array([0.7, -0.05, 1.0]), 0.2)
    solver = MPC(CRAZYFLIE, **EULER, constraints=[keep_out_sphere(*SPHERE)])
    expected = MPC(CRAZYFLIE, **EULER, constraints=[keep_out_sphere(*there)]).solve(HOVER, target)
    before = solver.solve(HOVER, target)
    solver.move_constraint("sphere", keep_out_sphere(*there).values)
    moved = solver.solve(HOVER, target)
    assert np.array_equal(moved.controls, expected.controls) and not np.array_equal(moved.controls, before.controls)
    with pytest.raises(ValueError, match="there is no constraint 'spheer'; did you mean sphere"):
        solver.move_constraint("spheer", keep_out_sphere(*there).values)
    with pytest.raises(ValueError, match="expected numbers shaped like"):
        solver.move_constraint("sphere", (1.0, 2.0))


def test_constraints_are_checked_in_one_sentence():
    for build, sentence in (
        (lambda: max_tilt(0.0), "max_tilt = 0.0: expected a positive number below 3.142"),
        (lambda: max_tilt(4.0), "max_tilt = 4.0: expected a positive number below 3.142"),
        (lambda: max_body_rate((1.0, 2.0)), "expected one positive number or three"),
        (lambda: max_speed(-1.0), "max_speed = -1.0: expected a positive number"),
        (lambda: altitude_limits(2.0, 1.0), r"altitude_limits\(2.0, 1.0\): expected low < high"),
        (lambda: position_box((0, 0, 0), (1, 0, 1)), "expected low < high on each axis"),
        (lambda: half_space((0, 0, 0), 1.0), "half_space normal is 0; expected a direction"),
        (lambda: keep_out_sphere((0, 0, math.nan), 1.0), "sphere centre"),
        (lambda: keep_out_sphere((0, 0, 0), 0.0), "sphere radius = 0.0: expected a positive number"),
        (lambda: keep_out_capsule((1, 0, 0), (1, 0, 0), 0.1), "the capsule's ends are both"),
        (lambda: MPC(CRAZYFLIE, constraints=[3.0]), "constraints has 3.0; expected a samara.control.mpc.Constraint"),
        (lambda: MPC(CRAZYFLIE, max_input_rate=(1.0, 2.0)), "expected a positive number or 4 of them"),
        (lambda: MPC(CRAZYFLIE, constraints=[Constraint("odd", lambda *_: ())]), "'odd' returns no number"),
        (lambda: MPC(CRAZYFLIE, constraints=[Constraint("odd", lambda x: x)]), r"'odd': expected g\(state, command"),
    ):
        with pytest.raises(ValueError, match=sentence):
            build()


# A cart, by all three solvers ---------------------------------------------------------------------------------------

CART_DT, CART_STEPS = 0.1, 30


def cart_problem(guess=None, **options):
    """p' = p + v dt + ½ a dt², v' = v + a dt to rest at 2 m; |a| ≤ 4, v ≤ 0.9, |a − a₋| ≤ 0.5 per step, p ≥ −0.1 + 0.2 t"""
    return Problem(
        state=(0.0, 0.0),
        command=(0.0,),
        goal=(),
        parameters=(0.9, 0.5),
        step=lambda x, u, _: (x[0] + x[1] * CART_DT + 0.5 * u[0] * CART_DT**2, x[1] + u[0] * CART_DT),
        residuals=lambda x, u, _, __: [(1.0, x[0] - 2.0), (0.1, x[1]), (0.01, u[0])],
        final=lambda x, _, __: [(20.0, x[0] - 2.0), (5.0, x[1])],
        guess=guess,
        **{
            "limits": lambda _: InputLimits((-4.0,), (4.0,)),
            "constraint_names": ("speed", "start"),
            "constraints": lambda x, u, t, parameters: (x[1] - parameters[0], 0.2 * t - 0.1 - x[0]),
            "on_inputs": (False, False),
            "max_change": lambda parameters: (parameters[1],),
            **options,
        },
    )


def best_cart(start, before, max_change=0.5):
    """Optimal cost and accelerations of the cart by IPOPT, on accelerations alone"""
    a = ca.SX.sym("a", CART_STEPS)
    p, v, cost, g = start[0], start[1], 0, []
    for k in range(CART_STEPS):
        cost += 0.5 * ((p - 2.0) ** 2 + 0.1 * v**2 + 0.01 * a[k] ** 2)
        change = a[k] - (a[k - 1] if k else before)
        p, v = p + v * CART_DT + 0.5 * a[k] * CART_DT**2, v + a[k] * CART_DT
        g += [change - max_change, -change - max_change, v - 0.9, 0.2 * (k + 1) * CART_DT - 0.1 - p]
    cost += 0.5 * (20.0 * (p - 2.0) ** 2 + 5.0 * v**2)
    quiet = {
        "ipopt.print_level": 0,
        "print_time": 0,
        "ipopt.sb": "yes",
        "ipopt.tol": 1e-11,
        "ipopt.bound_relax_factor": 0.0,
    }
    programme = ca.nlpsol("cart", "ipopt", {"x": a, "f": cost, "g": ca.vertcat(*g)}, quiet)
    solution = programme(x0=0.0, lbx=-4.0, ubx=4.0, lbg=-np.inf, ubg=0.0)
    assert programme.stats()["success"]
    return float(solution["f"]), np.array(solution["x"])[:, 0]


CARTS = [((0.1, 0.4), 0.3), ((0.3, 0.85), 0.1), ((0.0, 0.7), 0.2)]
FREE_CARTS = [((0.0, 0.0), 0.0), *CARTS[1:]]


@pytest.fixture(scope="module")
def best_carts():
    return [best_cart(*cart) for cart in CARTS]


def test_a_linear_problem_with_constraints_has_the_optimum_of_a_quadratic_programme(best_carts):
    """Limits of speed, of a moving position and of the change of the input, all active: cost and inputs of IPOPT."""
    solver = Solver(cart_problem(), CART_STEPS)
    solver.set_step(CART_DT)
    for (start, before), (cost, inputs) in zip(CARTS, best_carts, strict=True):
        solution = solver.solve(start, (before,), iterations=300, tolerance=1e-10)
        assert solution.converged and solution.feasible
        assert solution.cost == pytest.approx(cost, rel=1e-4)
        assert np.abs(solver.controls[:, 0] - inputs).max() < 0.02
        speed, changes = solver.states[1:, 1], np.diff([before, *solver.controls[:, 0]])
        assert 0.9 * (1.0 - 1e-3) < speed.max() < 0.9 + 1e-3 and np.abs(changes).max() < 0.5 * (1.0 + 1e-3)


@pytest.fixture(scope="module")
def best_free_carts():
    """Without a limit of the change of the input, the first cart from rest"""
    return [best_cart(*cart, max_change=1e3) for cart in FREE_CARTS]


def test_problems_in_lanes_have_the_optimum_of_a_quadratic_programme(best_free_carts):
    """In lanes, with regular updates of the multipliers: limits of speed and of a moving position."""
    problem = cart_problem(max_change=None)
    tile = ProblemTile(problem, CART_STEPS, problem.parameters, LINE_SEARCH_STEPS, "float64")
    tile.set_step(CART_DT)
    states, before = np.array([start for start, _ in FREE_CARTS]).T, np.array([[u for _, u in FREE_CARTS]])
    tile.load(states, before, np.zeros((CART_STEPS, 1, 3)))
    tile.run(100, 1e-9, cold=True)
    for lane, (cost, inputs) in enumerate(best_free_carts):
        assert tile.cost[lane] == pytest.approx(cost, rel=1e-4) and tile.violation[lane] < TOLERANCE
        assert np.abs(tile.controls[:, 0, lane] - inputs).max() < 0.02


@pytest.mark.long
def test_problems_in_jax_have_the_optimum_of_a_quadratic_programme(best_free_carts):
    """The same by XLA."""
    pytest.importorskip("jax")
    from samara.control.mpc.batch_jax import ProblemBatch, jax_solver

    problem = cart_problem(max_change=None)
    solve = jax_solver(
        problem,
        CART_STEPS,
        100,
        LINE_SEARCH_STEPS,
        "float64",
        lambda states, _: np.zeros((CART_STEPS + 1, 0, 3)),
        CART_DT,
    )
    states, before = np.array([start for start, _ in FREE_CARTS]).T, np.array([[u for _, u in FREE_CARTS]])
    batch = ProblemBatch(states, (), before, np.zeros((CART_STEPS, 1, 3)))
    solution = solve(batch, flatten(problem.parameters), 1e-9)
    for lane, (cost, inputs) in enumerate(best_free_carts):
        assert float(solution.cost[lane]) == pytest.approx(cost, rel=1e-4)
        assert float(solution.violation[lane]) < TOLERANCE
        assert np.abs(np.asarray(solution.controls)[:, 0, lane] - inputs).max() < 0.02


# Gaps ---------------------------------------------------------------------------------------------------------------


def gaps_of(mpc, states, controls):
    """d = step(x, u) ⊖ x' of a plan, (N, 12)"""
    template, rows = mpc.model.template, []
    for x, u, following in zip(states[:-1], controls, states[1:], strict=True):
        reached = mpc.model.step(unflatten(template, iter(x.tolist())), tuple(u.tolist()))
        rows.append(flatten(difference(reached, unflatten(template, iter(following.tolist())))))
    return np.array(rows)


UNCONSTRAINED = {
    "constraint_names": (),
    "constraints": lambda *_: (),
    "on_inputs": (),
    "max_change": None,
    "smoothing": lambda _: 0.3,
    "limits": lambda _: InputLimits((-1e6,), (1e6,)),
}


def least_squares_cart(start, before):
    """Accelerations and cost of the cart without constraints: all residuals are linear in the inputs"""
    problem = cart_problem(**UNCONSTRAINED)

    def residuals(inputs):
        x, previous, r = start, before, []
        for u in inputs.tolist():
            r += problem.stage_residuals(x, (u,), (previous,), StepData(()), problem.parameters)
            x, previous = problem.step(x, (u,), problem.parameters), u
        return np.array([math.sqrt(w) * e for w, e in r + problem.final(x, (), problem.parameters)])

    at_zero = residuals(np.zeros(CART_STEPS))
    slopes = np.array([residuals(unit) - at_zero for unit in np.eye(CART_STEPS)]).T
    best = np.linalg.lstsq(slopes, -at_zero, rcond=None)[0]
    return best, 0.5 * float(np.sum((at_zero + slopes @ best) ** 2))


def test_from_any_guess_one_iteration_solves_a_linear_problem():
    """Gaps of metres change nothing: the first full step closes them and is the optimum of least squares, as predicted."""
    for position, velocity in ((2.0, 0.0), (-7.0, 30.0)):
        problem = cart_problem(lambda start, goal, p=position, v=velocity: (p + start[1], v), **UNCONSTRAINED)
        solver = Solver(problem, CART_STEPS, step_sizes=(1.0,))
        best, cost = least_squares_cart((0.3, 0.5), 0.2)
        solution = solver.solve((0.3, 0.5), (0.2,), iterations=1)
        arrays = solver._arrays
        predicted = arrays["sums"][0] + arrays["gap_sums"][0] + 0.5 * (arrays["sums"][1] + arrays["gap_sums"][1])
        assert solution.cost_history[1] - solution.cost_history[0] == pytest.approx(predicted, rel=1e-5)
        assert solution.step_sizes == (1.0,) and solution.gap == 0.0 and solution.feasible
        assert solution.cost == pytest.approx(cost, rel=1e-9)
        assert solver.controls[:, 0] == pytest.approx(best, abs=1e-4)
        x = np.array(solver.states)
        following = x[:-1, 0] + x[:-1, 1] * CART_DT + 0.5 * solver.controls[:, 0] * CART_DT**2
        assert x[1:, 0] == pytest.approx(following, abs=1e-12)


def test_in_lanes_one_iteration_from_a_guess_solves_a_linear_problem():
    problem = cart_problem(lambda start, goal: (2.0 + start[1], -1.0), **UNCONSTRAINED)
    tile = ProblemTile(problem, CART_STEPS, problem.parameters, (1.0,), "float64")
    states, before = np.array([start for start, _ in CARTS]).T, np.array([[u for _, u in CARTS]])
    tile.load(states, before, np.zeros((CART_STEPS, 1, 3)))
    tile.run(1, 1e-9, cold=True)
    for lane, (start, u) in enumerate(CARTS):
        best, cost = least_squares_cart(start, u)
        assert tile.cost[lane] == pytest.approx(cost, rel=1e-9)
        assert tile.controls[:, 0, lane] == pytest.approx(best, abs=1e-4)


def test_the_first_backward_pass_from_a_guess_predicts_the_change_of_the_cost():
    """J(1) − J(0) = qᵀk + dᵀv + ½ (kᵀQk + dᵀVd) at the full step, to higher order in the offset; the merit falls."""
    mpc, errors = MPC(CRAZYFLIE, line_search=(1.0,)), []
    for size in (1e-2, 1e-3):
        state = HOVER._replace(v_W=Vec3(0.3, -0.2, 0.4) * size, omega_B=Vec3(0.5, 0.4, -0.3) * size)
        result, arrays = mpc.solve(state, START + size * np.array([1.0, -0.7, 0.5]), iterations=1), mpc._solver._arrays
        (linear, quadratic, _), (by_gaps, of_gaps, gap_size) = arrays["sums"], arrays["gap_sums"]
        predicted = linear + by_gaps + 0.5 * (quadratic + of_gaps)
        before, after = result.cost_history
        errors.append(abs(predicted / (after - before) - 1.0))
        assert gap_size > size and abs(by_gaps) > 0.1 * abs(after - before) and result.step_sizes == (1.0,)
        assert after < before + arrays["gap_weight"][0] * gap_size
    assert errors[0] < 0.05 and errors[1] < 0.2 * errors[0]


def test_a_step_closes_its_part_of_the_gaps():
    """With step size α every gap keeps the part 1 − α, and none remains after a full step; computed with the model's step."""
    state = HOVER._replace(q_WB=quat_from_euler(0.3, -0.2, 0.4), v_W=Vec3(0.5, -0.3, 0.2))
    plans = [
        MPC(CRAZYFLIE, line_search=(alpha,)).solve(state, (0.5, 0.2, 1.1), iterations=1) for alpha in (0.3, 0.5, 1.0)
    ]
    mpc = MPC(CRAZYFLIE)
    parts = [gaps_of(mpc, plan.states, plan.controls) for plan in plans]
    assert [plan.step_sizes for plan in plans] == [(0.3,), (0.5,), (1.0,)]
    assert np.abs(parts[2]).max() < 1e-13 and plans[2].gap == 0.0 and plans[2].feasible
    assert parts[0] / 0.7 == pytest.approx(parts[1] / 0.5, abs=1e-12) and np.abs(parts[0]).max() > 0.1
    for plan, gaps in zip(plans[:2], parts[:2], strict=True):
        assert plan.gap == pytest.approx(np.abs(gaps).max(), rel=1e-9) and not plan.feasible
        assert repr(plan).count("not feasible") == 1


def test_without_full_steps_the_gaps_are_closed_by_a_rollout():
    """Step sizes of at most a half never close the gaps; the solution ends at the same optimum, with the cost of a rollout."""
    state, target = HOVER._replace(q_WB=quat_from_euler(0.3, -0.2, 0.4)), (0.8, 0.2, 1.1)
    expected = MPC(CRAZYFLIE, **CONVERGED, **EULER).solve(state, target)
    result = MPC(CRAZYFLIE, **CONVERGED, **EULER, line_search=(0.5, 0.25)).solve(state, target)
    assert result.converged and result.gap == 0.0 and 0.0 in result.step_sizes
    assert result.cost == result.cost_history[-1] == pytest.approx(expected.cost, rel=1e-6)


# Batches with constraints -------------------------------------------------------------------------------------------


def batch_problems(count):
    rng = np.random.default_rng(5)
    states = np.tile(state_vector(HOVER)[:, None], (1, count))
    states[3:6], states[10:] = rng.uniform(-0.4, 0.4, (3, count)), rng.uniform(-1.0, 1.0, (3, count))
    targets = np.array([[1.2], [0.0], [1.0]]) + rng.uniform(-0.2, 0.2, (3, count))
    return states, targets


CONSTRAINED = {"obstacles": [SPHERE], "max_tilt": 0.3, "constraints": [max_speed(1.0)], "max_input_rate": 2.0}


@pytest.fixture(scope="module")
def constrained_mpc():
    return MPC(CRAZYFLIE, **CONVERGED, **EULER, **{**CONSTRAINED, "max_input_rate": None})


@pytest.mark.long
@pytest.mark.parametrize(("dtype", "rel"), [("float64", 1e-3), ("float32", 3e-3)])
def test_lanes_with_constraints_find_what_a_single_solution_finds(constrained_mpc, dtype, rel):
    """The multipliers are updated in other iterations, but converge to the same plan, whose constraints hold."""
    states, targets = batch_problems(11)
    batch = constrained_mpc.solve_batch(states, targets, layout="wxyz", iterations=150, dtype=dtype)
    for lane in range(11):
        single = constrained_mpc.solve(states[:, lane], targets[:, lane], layout="wxyz")
        x = np.asarray(batch.states, float)[1:, :, lane]
        assert single.converged
        assert batch.violation[lane] < 2 * TOLERANCE
        assert np.linalg.norm(x[:, :3] - SPHERE[0], axis=1).min() > SPHERE[1] * (1.0 - 2 * TOLERANCE)
        assert np.linalg.norm(x[:, 3:6], axis=1).max() < 1.0 + 2 * TOLERANCE
        assert batch.cost[lane] == pytest.approx(single.cost, rel=rel)


@pytest.mark.long
def test_jax_with_constraints_does_what_the_lanes_do():
    """The same iterations: cold, and warm from its result; costs, violations and inputs to rounding."""
    pytest.importorskip("jax")
    mpc = MPC(CRAZYFLIE, tolerance=0.0, horizon=8, **CONSTRAINED)
    states, targets = batch_problems(4)
    cold = {}
    for backend in ("llvm", "jax"):
        cold[backend] = mpc.solve_batch(states, targets, layout="wxyz", iterations=7, dtype="float64", backend=backend)
    llvm, jax = cold["llvm"], cold["jax"]
    assert np.asarray(jax.cost) == pytest.approx(llvm.cost, rel=1e-8)
    assert np.asarray(jax.violation) == pytest.approx(llvm.violation, abs=1e-8) and llvm.violation.max() > 0.0
    scale = np.array(mpc.model.limits.high)[:, None]
    assert np.abs((np.asarray(jax.controls) - llvm.controls) / scale).max() < 1e-8


# Delay --------------------------------------------------------------------------------------------------------------


def exact_state(mpc, state, u, seconds):
    """Integrate the model's equations of motion under a constant input, by SciPy's eighth-order integrator."""
    template = mpc.model.template

    def rate(_, x):
        return np.array(flatten(mpc.model.rate(unflatten(template, iter(x.tolist())), u)))

    return solve_ivp(rate, (0.0, seconds), state_vector(state), method="DOP853", rtol=1e-12, atol=1e-13).y[:, -1]


def test_with_a_delay_the_plan_starts_where_the_previous_input_leads():
    """In `solve` and as a controller, whose look-ahead begins after the delay, too."""
    delay = 0.03
    mpc = MPC(CRAZYFLIE, delay=delay)
    state = HOVER._replace(v_W=Vec3(0.5, -0.3, 0.2), q_WB=quat_from_euler(0.2, -0.1, 0.4), omega_B=Vec3(0.8, -0.5, 0.3))
    before = (0.35, 5e-4, -4e-4, 1e-4)
    expected = exact_state(mpc, state, before, delay)
    plan = mpc.solve(state, (1.0, 0.0, 1.0), before=before)
    assert plan.states[0] == pytest.approx(expected, abs=1e-5)
    assert np.linalg.norm(plan.states[0, :3] - state_vector(state)[:3]) > 0.01
    assert mpc.look_ahead == pytest.approx(delay + 0.05 * np.arange(21), abs=1e-15)
    _, controller_state = mpc(state, (1.0, 0.0, 1.0), CRAZYFLIE, mpc.initial_state._replace(previous_input=before))
    assert controller_state.prediction[0] == pytest.approx(expected[:3], abs=1e-5)
