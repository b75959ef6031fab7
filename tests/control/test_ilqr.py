"""The iLQR controller of the iLQR document: its derivatives, its optimum, its line search, its limits, and what it flies."""

import itertools
import math
import warnings

import casadi as ca
import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.spatial.transform import Rotation

import samara
from samara.compiler.llvm.array_loop import ArraySpec, Chain, Loop, Pass, compile_loops
from samara.compiler.trace.program import program_of_expressions
from samara.control.mpc import ILQR, default_torque_weight
from samara.control.mpc.cost import ANY_GOAL, Goal, final_residuals, kind_of
from samara.control.mpc.iteration import NUMPY, Inputs, Model, box_step, choose, stage
from samara.control.mpc.options import MpcOptions, Weights
from samara.control.mpc.prediction_model import (
    DOCUMENTED_LIMITS,
    Tangent,
    difference,
    model_of,
    moved,
    thrust_axis,
    wrench_limits,
)
from samara.control.mpc.problem import Limits, total
from samara.control.mpc.programs import linearise
from samara.control.mpc.reference import goal_of
from samara.control.mpc.solver import FollowingStage, Layout, box_passes, solver_code
from samara.control.registry import controller_named
from samara.core.algebra import ZERO, Quat, Vec3, norm, quat_from_euler, rotate
from samara.core.tree import flatten, unflatten
from samara.physics.types import Reference, State
from samara.plan import trajectory
from samara.sim.plant import Plant, place, state_of
from samara.vehicles.trim import effectiveness

NO_DIFFERENCE = Tangent(ZERO, ZERO, ZERO, ZERO)
CRAZYFLIE = samara.vehicle("crazyflie_documented")
HOVER, HOVER_COMMAND = samara.hover(CRAZYFLIE)
HERE = np.array(HOVER.p_W)
DIRECTIONS = [np.array(d, dtype=float) for d in itertools.product((-1, 0, 1), repeat=3) if any(d)]


@pytest.fixture(scope="module")
def ilqr():
    """As it comes, for the Crazyflie."""
    return ILQR(CRAZYFLIE)


@pytest.fixture(scope="module")
def patient():
    """The same, solved until nothing is left to gain."""
    return ILQR(CRAZYFLIE, tolerance=1e-11, max_iterations=200)


def away(*by):
    """A place so far from where the Crazyflie hovers."""
    return HERE + np.array(by)


def tumbling(rng, tilt=0.6, speed=1.5, turn=3.0):
    """A state somewhere near hover."""
    return HOVER._replace(
        v_W=Vec3(*rng.uniform(-speed, speed, 3)),
        q_WB=quat_from_euler(*rng.uniform(-tilt, tilt, 3)),
        omega_B=Vec3(*rng.uniform(-turn, turn, 3)),
    )


def numbers(state):
    return np.array([float(x) for x in flatten(tuple(state[:4]))])


# Derivatives -------------------------------------------------------------------------------------------------------


def machine_derivatives(solver, state, controls):
    """[A B] and the cost's slope along a rollout, as the machine code left them."""
    solver.solve(state, away(0.7, -0.4, 0.2), warm_start=controls, iterations=1)
    alone = solver._solver
    alone.begin(numbers(state), solver.model.hover_input, controls)
    table = alone._calls[alone._side][alone._lane]
    alone._code.derivatives.call(table.derivatives, alone.horizon)
    layout, stages = alone._code.layout, alone._memory["stages"][: alone.horizon]
    M = stages[:, : 12 * layout.columns].reshape(alone.horizon, 12, layout.columns)[:, :, : layout.sizes.width]
    return (
        alone.states.copy(),
        alone.controls.copy(),
        M.copy(),
        stages[:, layout.slope :][:, : layout.sizes.width].copy(),
    )


def local_step(model, x, u):
    """δ ↦ (x ⊕ δx, u + δu) one step later, relative to where (x, u) goes; by NumPy."""
    start = unflatten(model.template, iter(x.tolist()))
    origin = model.step(start, tuple(u.tolist()))

    def step(delta):
        near = moved(start, unflatten(NO_DIFFERENCE, iter(delta[:12].tolist())))
        return np.array(flatten(difference(model.step(near, tuple((u + delta[12:]).tolist())), origin)))

    return step


@pytest.mark.parametrize("inputs", ["wrench", pytest.param("rotors", marks=pytest.mark.long)])
def test_jacobians_are_those_of_differences(inputs):
    """[A B] of the compiled trace against central differences of the step, at states far from hover."""
    rng = np.random.default_rng(0)
    solver = ILQR(CRAZYFLIE, horizon=5, inputs=inputs)
    level, half = (
        np.array(solver.model.hover_input),
        0.3 * (np.array(solver.model.limits.high) - solver.model.hover_input),
    )
    controls = level + rng.uniform(-1, 1, (5, 4)) * half
    x, u, M, _ = machine_derivatives(solver, tumbling(rng), controls)
    scale = np.array([1.0] * 12 + [*half])
    for k in range(5):
        step = local_step(solver.model, x[k], u[k])
        for j in range(16):
            h = np.zeros(16)
            h[j] = 1e-5 * scale[j]
            slope = (step(h) - step(-h)) / (2e-5 * scale[j])
            assert M[k, :, j] == pytest.approx(slope, rel=1e-6, abs=1e-7 * max(1.0, np.abs(slope).max()))


def test_jacobians_are_those_of_jax(ilqr):
    """[A B] of the compiled trace against forward differentiation in JAX, to rounding."""
    jax = pytest.importorskip("jax")
    rng = np.random.default_rng(1)
    solver = ILQR(CRAZYFLIE, horizon=3)
    controls = np.array(solver.model.hover_input) + rng.uniform(-1, 1, (3, 4)) * (0.1, 4e-3, 4e-3, 2e-3)
    x, u, M, _ = machine_derivatives(solver, tumbling(rng), controls)
    model = solver.model
    for k in range(3):
        start = unflatten(model.template, iter(x[k].tolist()))
        origin = model.step(start, tuple(u[k].tolist()))

        def step(delta, start=start, origin=origin, u=u[k]):
            near = moved(start, unflatten(NO_DIFFERENCE, iter([delta[i] for i in range(12)])))
            after = model.step(near, tuple(u[a] + delta[12 + a] for a in range(4)))
            return jax.numpy.stack(flatten(difference(after, origin)))

        exact = np.array(jax.jacfwd(step)(jax.numpy.zeros(16)))
        assert M[k] == pytest.approx(exact, rel=1e-11, abs=1e-12 * np.abs(exact).max())


def test_jacobians_are_those_of_the_simulator():
    """The same [A B] as `samara.compile(...).linearize` in the tangent space, for a body driven by a wrench."""
    vehicle = samara.vehicle("rigid_body_quadrotor").without_effect("contact")
    solver = ILQR(vehicle, horizon=1)
    state = samara.hover(vehicle)[0]._replace(q_WB=quat_from_euler(0.3, -0.2, 0.5), omega_B=Vec3(1.0, -2.0, 0.5))
    controls = np.array([[14.0, 0.3, -0.2, 0.1]])
    _, u, M, _ = machine_derivatives(solver, state, controls)
    A, B = samara.compile(vehicle, backend="llvm").linearize(state, tuple(u[0]), 0.05, tangent=True)
    assert M[0] == pytest.approx(np.hstack([A, B]), rel=1e-11, abs=1e-12)


def test_ilqr_the_blocks_of_the_jacobians_are_the_documents():
    """Euler steps of a body without drag: dt on the v rows, −(T/m) dt R [e₃]ₓ, dt/m R e₃, dt/J, and the gyroscopic terms."""
    dt, bare = 0.02, CRAZYFLIE.without_effect("drag", "damping")
    model = model_of(bare, MpcOptions(dt=dt, integrator="euler"))
    q_WB, omega, T = quat_from_euler(0.3, -0.2, 0.7), np.array([0.4, -0.5, 0.6]), 0.3
    start = model.template._replace(q_WB=q_WB, omega_B=Vec3(*omega))
    step = local_step(model, numbers(start), np.array([T, 1e-4, -2e-4, 1e-4]))
    M = np.array([(step(h) - step(-h)) / 2e-5 for h in 1e-5 * np.eye(16)]).T
    R, J = Rotation.from_quat([*q_WB.vector, q_WB.w]).as_matrix(), np.array(bare.inertia_B).reshape(3, 3)

    def skew(v):
        return np.cross(v, np.eye(3)).T

    p, v, theta, rate, thrust, torque = (slice(*ends) for ends in ((0, 3), (3, 6), (6, 9), (9, 12), (12, 13), (13, 16)))
    one, up = np.eye(3), np.array([0.0, 0.0, 1.0])
    assert M[p, p] == pytest.approx(one, abs=1e-9) and M[p, v] == pytest.approx(dt * one, abs=1e-9)
    assert M[v, theta] == pytest.approx(-T / bare.mass * dt * R @ skew(up), abs=1e-8)
    assert M[v, thrust][:, 0] == pytest.approx(dt / bare.mass * R @ up, abs=1e-8)
    assert M[theta, rate] == pytest.approx(dt * one, abs=0.01 * dt)  # Ω(ω), to second order in |ω| dt
    gyroscopic = np.linalg.solve(J, skew(J @ omega) - skew(omega) @ J)
    assert M[rate, rate] == pytest.approx(one + dt * gyroscopic, abs=1e-8)
    assert M[rate, torque] == pytest.approx(dt * np.linalg.inv(J), rel=1e-7, abs=1e-4)
    for rows, columns in ((p, theta), (p, rate), (v, rate), (v, torque), (rate, thrust), (rate, theta), (rate, v)):
        assert not M[rows, columns].any()


def test_the_slope_of_the_cost_is_that_of_differences(ilqr):
    """∂/∂(δx, u) of the stage's cost: tilt against b₃ of the reference in value and slope alike, smoothing included."""
    rng = np.random.default_rng(2)
    controls = np.array(ilqr.model.hover_input) + rng.uniform(-1, 1, (20, 4)) * (0.05, 1e-3, 1e-3, 1e-3)
    x, u, _, slope = machine_derivatives(ilqr, tumbling(rng), controls)
    goals = ilqr._solver.goals.copy()
    scale = np.array([1.0] * 12 + [0.1, 1e-3, 1e-3, 1e-3])
    for k in (0, 7, 19):
        start, goal = unflatten(ilqr.model.template, iter(x[k].tolist())), unflatten(ANY_GOAL, iter(goals[k].tolist()))
        before = tuple(u[k - 1].tolist()) if k else ilqr.model.hover_input

        def cost(delta, start=start, goal=goal, before=before, u=u[k]):
            near = moved(start, unflatten(NO_DIFFERENCE, iter(delta[:12].tolist())))
            nudged = tuple((u + delta[12:]).tolist())
            return total(ilqr.problem.stage_residuals(near, nudged, before, goal, ilqr.parameters))

        for j in range(16):
            h = np.zeros(16)
            h[j] = 1e-5 * scale[j]
            expected = (cost(h) - cost(-h)) / (2e-5 * scale[j])
            assert slope[k, j] == pytest.approx(expected, rel=1e-6, abs=1e-6 * max(1.0, abs(expected)))


def test_ilqr_the_tilt_is_measured_from_the_references_b3_in_the_cost_and_in_its_gradient(ilqr):
    """At the end of the horizon too: thrust along b₃_ref costs nothing and has no slope; thrust along e₃ costs, with its slope.

    The code behind the document has e₃ in the terminal cost and b₃_ref in its gradient.
    """
    lean = 0.4
    along, upright = quat_from_euler(0.0, lean, 0.0), Quat(1.0, 0.0, 0.0, 0.0)
    goal = Goal(HOVER.p_W, HOVER.v_W, rotate(along, Vec3(0.0, 0.0, 1.0)), Vec3(1.0, 0.0, 0.0))
    held, template = ilqr.parameters, ilqr.model.template._replace(p_W=HOVER.p_W)

    def cost(q_WB, turn=0.0):
        near = moved(template._replace(q_WB=q_WB), NO_DIFFERENCE._replace(theta_B=Vec3(0.0, turn, 0.0)))
        return total(final_residuals(near, goal, held))

    assert cost(along) == pytest.approx(0.0, abs=1e-30)
    assert (cost(along, 1e-6) - cost(along, -1e-6)) / 2e-6 == pytest.approx(0.0, abs=1e-12)
    assert cost(upright) == pytest.approx(held.weights.terminal_tilt_weight * (1.0 - math.cos(lean)), rel=1e-12)
    slope = (cost(upright, 1e-5) - cost(upright, -1e-5)) / 2e-5
    assert slope == pytest.approx(-held.weights.terminal_tilt_weight * math.sin(lean), rel=1e-6)
    assert (Weights().tilt_weight, Weights().terminal_tilt_weight) == (4.0, 8.0)


def test_ilqr_terminal_weights_are_higher_than_those_of_a_stage():
    """Position, velocity and tilt, as the document's list of the terminal cost says."""
    weights = Weights()
    assert weights.terminal_position_weight > weights.position_weight
    assert weights.terminal_velocity_weight > weights.velocity_weight
    assert weights.terminal_tilt_weight > weights.tilt_weight


@pytest.mark.parametrize("inputs", [pytest.param("wrench", marks=pytest.mark.long), "rotors"])
def test_what_the_backward_pass_promises_the_rollouts_keep(inputs):
    """J(α) = J + α qᵀk + O(α²): the slope of the cost along the step, summed backwards, is what rolling out by α shows.

    This needs every derivative right, the chain of them, and the terms between one input and the next.
    """
    small, wide = (2e-4, 1e-4, 5e-5), Limits((-9.0,) * 4, (9.0,) * 4)
    solver = ILQR(CRAZYFLIE, line_search=small, inputs=inputs, limits=wide, smoothing_weight=20.0)
    rng = np.random.default_rng(3)
    alone = solver._solver
    for _ in range(5):
        state, target = tumbling(rng, 0.3, 1.0, 1.0), HERE + rng.uniform(-1, 1, 3)
        first = solver.solve(state, target, iterations=1)
        J, (linear, _, _) = first.cost_history[0], alone._memory["sums"]
        found = alone._memory["cost"][:3]
        slopes = (found - J) / np.array(small)
        extrapolated = 2.0 * slopes[1] - slopes[0]  # at α = 0
        assert linear < 0.0
        assert extrapolated == pytest.approx(linear, rel=1e-4)


# The optimum -------------------------------------------------------------------------------------------------------


def nonlinear_programme(solver, n):
    """The same problem for IPOPT by multiple shooting; dynamics and cost written once more, from the document's text."""
    vehicle, w, dt = solver.vehicle, solver.weights, solver.model.dt
    m, g = vehicle.mass, vehicle["gravity"].acceleration
    J = ca.DM([vehicle.inertia_B.xx, vehicle.inertia_B.yy, vehicle.inertia_B.zz])
    drag, damping = ca.DM(list(vehicle["drag"].linear)), ca.DM(list(vehicle["damping"].linear))

    def thrust_axis_of(q):
        w, x, y, z = (q[i] for i in range(4))
        return ca.vertcat(2 * (x * z + w * y), 2 * (y * z - w * x), 1 - 2 * (x * x + y * y))

    def rate(x, u):
        v, q, omega = x[3:6], x[6:10], x[10:13]
        acceleration = ca.vertcat(0, 0, -g) + (thrust_axis_of(q) * u[0] - drag * v) / m
        p, r, s = (omega[i] for i in range(3))
        spin = ca.vertcat(
            ca.horzcat(0, -p, -r, -s), ca.horzcat(p, 0, s, -r), ca.horzcat(r, -s, 0, p), ca.horzcat(s, r, -p, 0)
        )
        return ca.vertcat(v, acceleration, spin @ q / 2, (u[1:] - damping * omega - ca.cross(omega, J * omega)) / J)

    def step(x, u):
        k1 = rate(x, u)
        k2 = rate(x + dt / 2 * k1, u)
        k3 = rate(x + dt / 2 * k2, u)
        k4 = rate(x + dt * k3, u)
        y = x + dt / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        return ca.vertcat(y[:6], y[6:10] / ca.norm_2(y[6:10]), y[10:])

    X, U = ca.SX.sym("X", 13, n + 1), ca.SX.sym("U", 4, n)
    goals, x0, before = ca.SX.sym("G", 12, n + 1), ca.SX.sym("x0", 13), ca.SX.sym("u", 4)
    cost, gaps = 0, [X[:, 0] - x0]
    for k in range(n + 1):
        x, goal, last = X[:, k], goals[:, k], k == n
        cost += (w.terminal_position_weight if last else w.position_weight) * ca.sumsqr(x[:3] - goal[:3]) / 2
        cost += (w.terminal_velocity_weight if last else w.velocity_weight) * ca.sumsqr(x[3:6] - goal[3:6]) / 2
        cost += (w.terminal_tilt_weight if last else w.tilt_weight) * ca.sumsqr(thrust_axis_of(x[6:10]) - goal[6:9]) / 2
        if not last:
            u, earlier = U[:, k], U[:, k - 1] if k else before
            cost += w.yaw_rate_weight * x[12] ** 2 / 2 + w.thrust_weight * (u[0] - m * g) ** 2 / 2
            cost += w.torque_weight * ca.sumsqr(u[1:]) / 2 + w.smoothing_weight * ca.sumsqr(u - earlier) / 2
            gaps.append(X[:, k + 1] - step(x, u))
    problem = {
        "x": ca.vertcat(ca.vec(X), ca.vec(U)),
        "f": cost,
        "g": ca.vertcat(*gaps),
        "p": ca.vertcat(ca.vec(goals), x0, before),
    }
    quiet = {"ipopt.print_level": 0, "print_time": 0, "ipopt.tol": 1e-10, "ipopt.bound_relax_factor": 0.0}
    return ca.nlpsol("solver", "ipopt", problem, {**quiet, "ipopt.sb": "yes"})


def test_the_optimum_is_that_of_a_nonlinear_programme(patient):
    """Ten problems far from hover, some against the limits: IPOPT finds the same cost to 1e-6 and the same inputs."""
    n, rng = patient.horizon, np.random.default_rng(1)
    programme = nonlinear_programme(patient, n)
    low = np.concatenate([np.full(13 * (n + 1), -np.inf), np.tile(patient.model.limits.low, n)])
    high = np.concatenate([np.full(13 * (n + 1), np.inf), np.tile(patient.model.limits.high, n)])
    at_limits = 0
    for _ in range(10):
        state = tumbling(rng)
        result = patient.solve(state, HERE + rng.uniform(-3, 3, 3))
        x0 = numbers(state)
        guess = np.concatenate([np.tile(x0, n + 1), np.tile(patient.model.hover_input, n)])
        given = np.concatenate([result.goals.ravel(), x0, patient.model.hover_input])
        found = programme(x0=guess, lbx=low, ubx=high, lbg=0, ubg=0, p=given)
        assert programme.stats()["success"]
        assert result.cost == pytest.approx(float(found["f"]), rel=1e-6)
        inputs = np.array(found["x"])[13 * (n + 1) :, 0].reshape(n, 4)
        range_ = np.array(patient.model.limits.high) - patient.model.limits.low
        assert np.abs((result.controls - inputs) / range_).max() < 1e-4
        at_limits += int((result.controls == patient.model.limits.low).sum())
        at_limits += int((result.controls == patient.model.limits.high).sum())
    assert at_limits > 40


def test_no_small_change_of_the_inputs_costs_less(patient):
    """First-order optimality by the rollout alone: moving any free input either way costs more, or the same to second order."""
    rng = np.random.default_rng(4)
    state = tumbling(rng)
    result = patient.solve(state, away(1.0, 0.5, -0.3))
    alone, x = patient._solver, numbers(state)
    low, high = (np.array(limit) for limit in patient.model.limits)

    def cost(controls):
        return alone.begin(x, patient.model.hover_input, controls)

    best = cost(result.controls)
    assert best == pytest.approx(result.cost, rel=1e-12)
    for k, a in itertools.product((0, 3, 11, 19), range(4)):
        for sign in (-1.0, 1.0):
            trial = result.controls.copy()
            trial[k, a] = np.clip(trial[k, a] + sign * 1e-4 * (high - low)[a], low[a], high[a])
            assert cost(trial) >= best - 1e-9 * best


def test_the_cost_never_rises_and_the_last_is_the_least(ilqr):
    """Over many problems, against the limits and from a tumble."""
    rng = np.random.default_rng(5)
    for _ in range(50):
        result = ilqr.solve(tumbling(rng, 1.2, 3.0, 8.0), HERE + rng.uniform(-5, 5, 3))
        history = np.array(result.cost_history)
        assert (np.diff(history) < 0.0).all()
        assert result.cost == history[-1] == history.min()
        assert len(result.step_sizes) == len(history) - 1 <= result.iterations <= 12


def test_ilqr_the_lowest_cost_candidate_is_taken_not_the_first_that_improves(ilqr):
    """The first iteration of many problems: always the lowest of all six; and often the full step improves, but a shorter more.

    The code behind the document took the first that improved.
    """
    rng, not_the_first = np.random.default_rng(15), 0
    for _ in range(50):
        result = ilqr.solve(tumbling(rng), HERE + rng.uniform(-3, 3, 3), iterations=1)
        costs = dict(zip(ilqr.line_search, ilqr._solver._memory["cost"].tolist(), strict=False))
        before, after = result.cost_history
        assert after == costs[result.step_sizes[0]] == min(costs.values())
        not_the_first += costs[1.0] < before and result.step_sizes[0] < 1.0
    assert not_the_first >= 5


def test_a_candidate_is_taken_by_merit():
    """The lowest cost; but none that rises, none that is not a number, and none that brings next to nothing of its promise."""
    sizes = (1.0, 0.5, 0.1)
    picked = choose((9.0, 7.0, 8.0), sizes, 10.0, -6.0, 6.0, 0.0, 1e-4)
    assert (picked.accepted, picked.index, picked.alpha, picked.cost) == (1.0, 1.0, 0.5, 7.0)
    picked = choose((math.nan, math.inf, 8.0), sizes, 10.0, -6.0, 6.0, 0.0, 1e-4)
    assert (picked.accepted, picked.index, picked.cost) == (1.0, 2.0, 8.0)
    for costs in ((11.0, 10.5, 10.0), (math.nan,) * 3, (10.0 - 1e-9,) * 3):
        refused = choose(costs, sizes, 10.0, -6.0, 6.0, 0.0, 1e-4)
        assert (refused.accepted, refused.alpha, refused.cost, refused.converged) == (0.0, 0.0, 10.0, 0.0)
        assert refused.damping > 0.0
    assert choose((10.0 - 1e-5, 10.0, 10.0), sizes, 10.0, -2e-5, 2e-5, 0.1, 1e-4).converged == 1.0
    assert choose((9.0, 9.5, 9.9), sizes, 10.0, -2.0, 2.0, 0.1, 1e-4).damping < 0.1


def test_the_box_step_is_the_best_within_the_box():
    """Four inputs, weakly coupled as a wrench's are: the best of all 81 choices of which are held where."""
    rng = np.random.default_rng(6)
    for _ in range(100):
        root = rng.normal(size=(4, 4))
        Q, q = np.eye(4) + 0.05 * root @ root.T, 3.0 * rng.normal(size=4)
        low, high = -rng.uniform(0, 1, 4), rng.uniform(0, 1, 4)
        low[rng.random(4) < 0.2] = 0.0
        found = np.array(box_step(Q.tolist(), q.tolist(), low.tolist(), high.tolist(), 0.0).step)
        assert (found >= low).all() and (found <= high).all()
        assert 0.5 * found @ Q @ found + q @ found == pytest.approx(best_in_box(Q, q, low, high), rel=1e-5)


def test_what_is_pushed_against_its_limit_is_held_from_the_start():
    """An input at its limit, with the slope pushing outwards: already the first solution has it there, and the others' best."""
    Q, q = np.array([[2.0, 0.8, 0.0], [0.8, 1.5, 0.3], [0.0, 0.3, 1.0]]), np.array([4.0, -1.0, 0.5])
    low, high = [0.0, -9.0, -9.0], [9.0, 9.0, 9.0]
    own = box_step(Q.tolist(), q.tolist(), low, high, 0.0, iterations=1)
    assert own.factors.free == (0.0, 1.0, 1.0)
    assert np.array(own.step) == pytest.approx([0.0, *np.linalg.solve(Q[1:, 1:], -q[1:])], rel=1e-5)


def test_a_small_difference_does_not_see_the_sign_of_the_quaternion():
    """x ⊖ x₀ of q and of −q; and (x₀ ⊕ δ) ⊖ x₀ = δ."""
    rng = np.random.default_rng(16)
    model = model_of(CRAZYFLIE, MpcOptions(dt=0.05))
    origin, state = (model.template._replace(q_WB=tumbling(rng).q_WB, v_W=Vec3(*rng.normal(size=3))) for _ in range(2))
    turned = state._replace(q_WB=-state.q_WB)
    assert flatten(difference(turned, origin)) == pytest.approx(flatten(difference(state, origin)), rel=1e-14)
    delta = unflatten(NO_DIFFERENCE, iter(rng.normal(size=12).tolist()))
    assert flatten(difference(moved(origin, delta), origin)) == pytest.approx(flatten(delta), rel=1e-12, abs=1e-14)


def best_in_box(Q, q, low, high):
    best = np.inf
    for held in itertools.product((-1, 0, 1), repeat=4):
        x = np.where(np.array(held) < 0, low, np.where(np.array(held) > 0, high, 0.0))
        free, fixed = np.flatnonzero(np.array(held) == 0), np.flatnonzero(held)
        if len(free):
            x[free] = np.linalg.solve(Q[np.ix_(free, free)], -(q[free] + Q[np.ix_(free, fixed)] @ x[fixed]))
        if (x >= low).all() and (x <= high).all():
            best = min(best, 0.5 * x @ Q @ x + q @ x)
    return best


def test_a_stage_is_the_minimum_over_the_input():
    """V(x) and v of a stage against minimising the quadratic over u directly, damping and smoothing off, limits far away."""
    rng = np.random.default_rng(7)
    root, M, H_root = rng.normal(size=(12, 12)), rng.normal(size=(12, 16)), rng.normal(size=(16, 16))
    V, H, v, g = root @ root.T, H_root @ H_root.T, rng.normal(size=(12, 1)), rng.normal(size=(16, 1))
    limits, here = Limits([-1e6] * 4, [1e6] * 4), [0.0] * 4
    own = stage(Model(V, v, M, H, g), Inputs(limits, here, 0.0), None, np.zeros((4, 4)), NUMPY)
    Q, q = M.T @ V @ M + H, M.T @ v + g
    inverse = np.linalg.inv(Q[12:, 12:] + 1e-6 * np.eye(4))
    assert own.gains[:, :12] == pytest.approx(-inverse @ Q[12:, :12], rel=1e-9)
    without_u = Q[:12, 12:] @ np.linalg.inv(Q[12:, 12:])
    assert np.array(own.V) == pytest.approx(Q[:12, :12] - without_u @ Q[12:, :12], rel=1e-6)
    assert np.array(own.v) == pytest.approx(q[:12] - without_u @ q[12:], rel=1e-6)


# The reference -----------------------------------------------------------------------------------------------------


def test_ilqr_velocity_and_position_of_the_reference_are_propagated_along_the_horizon(ilqr):
    """v_k = v_des − (v_des − v₀) (1 − g dt)ᵏ in closed form, p its integral; so a_ref lasts, and with it the lean.

    The code behind the document overwrote v in every step: a_ref vanished after the first.
    """
    v0, far = Vec3(0.2, -0.1, 0.0), np.array([0.9, 0.4, 0.3])
    result = ilqr.solve(HOVER._replace(v_W=v0), HERE + far)
    k, dt, gain = np.arange(21)[:, None], 0.05, 2.0
    wanted = 1.4 * far
    v = wanted - (wanted - np.array(v0)) * (1.0 - gain * dt) ** k
    a = gain * (wanted - v)
    p = HERE + np.vstack([np.zeros(3), np.cumsum(v[:-1] * dt + 0.5 * a[:-1] * dt**2, axis=0)])
    assert result.goals[:, 3:6] == pytest.approx(v, abs=1e-13)
    assert result.goals[:, :3] == pytest.approx(p, abs=1e-13)
    force = a + (0.0, 0.0, 9.81) + np.array(CRAZYFLIE["drag"].linear) * v / CRAZYFLIE.mass
    b3 = force / np.linalg.norm(force, axis=1)[:, None]
    assert result.goals[:, 6:9] == pytest.approx(b3, abs=1e-13)
    assert (result.goals[:, 6:9] @ far > 0.3).all()


def test_a_renewed_reference_ends_at_its_target(ilqr):
    """As written, v_des is that of the start and 3 s of it fly past; renewed, p̈ = 2 (1.4 (p_t − p) − ṗ) arrives."""
    ends = []
    for follow in (0.0, 1.0):
        solver = ILQR(CRAZYFLIE, horizon=60, reference_follow=follow)
        ends.append(solver.solve(HOVER, away(1.0, 0.0, 0.0)).goals[-1, 0])
    rate, turn = 1.0, math.sqrt(2.8 - 1.0)
    expected = 1.0 - math.exp(-rate * 3.0) * (math.cos(turn * 3.0) + rate / turn * math.sin(turn * 3.0))
    assert ends[0] > 3.0
    assert ends[1] == pytest.approx(expected, abs=0.01)


def test_the_references_speed_and_acceleration_are_limited(ilqr):
    """Far away: |v| grows by no more than 8 m/s² and ends at 4 m/s."""
    goals = ilqr.solve(HOVER, away(30.0, -40.0, 0.0)).goals
    steps = np.linalg.norm(np.diff(goals[:, 3:6], axis=0), axis=1) / 0.05
    assert steps.max() == pytest.approx(8.0, rel=1e-12)
    assert np.linalg.norm(goals[:, 3:6], axis=1).max() <= 4.0


def test_without_drag_the_wanted_thrust_is_that_of_the_document():
    """b₃ ∥ a + g e₃."""
    bare = model_of(CRAZYFLIE.without_effect("drag", "damping"), MpcOptions(dt=0.05))
    goal = goal_of(Reference(HOVER.p_W, Vec3(3.0, 1.0, -2.0), Vec3(4.0, -2.0, 1.0)), bare)
    wanted = np.array([4.0, -2.0, 1.0 + 9.81])
    assert np.array(goal.b3_W) == pytest.approx(wanted / np.linalg.norm(wanted), rel=1e-14)


def test_a_trajectory_is_sampled_at_the_times_of_the_horizon(ilqr):
    """p, v and b₃ of the goals are those of the trajectory at t + k dt, whether it can be traced (circle) or not (race)."""
    circle = trajectory.circle(HERE, radius=0.8, speed=1.0, laps=3.0, yaw="along")
    race = trajectory.race([(0, 0, 1), (1, 0, 1.5), (1, 1, 1)], speed=1.5)
    for way, time in ((circle, 1.3), (race, 0.4)):
        goals = ilqr.solve(HOVER, way, time=time).goals
        for k in (0, 6, 20):
            expected = goal_of(way.at(time + 0.05 * k), ilqr.model)
            assert goals[k] == pytest.approx(np.array(flatten(expected)), abs=1e-12)


def test_a_reference_of_one_instant_is_carried_on(ilqr):
    """v + a t, and p by its integral; without velocity or acceleration it is a point to go to."""
    moving = Reference(HOVER.p_W, Vec3(1.0, 0.0, 0.0), Vec3(0.0, 1.5, 0.0))
    goals = ilqr.solve(HOVER, moving).goals
    t = 0.05 * np.arange(21)[:, None]
    assert goals[:, 3:6] == pytest.approx(np.array([[1.0, 0, 0]]) + t * np.array([[0, 1.5, 0]]), abs=1e-14)
    assert goals[:, :3] == pytest.approx(
        HERE + t * np.array([[1.0, 0, 0]]) + t**2 / 2 * np.array([[0, 1.5, 0]]), abs=1e-14
    )
    point = ilqr.solve(HOVER, Reference(Vec3(1.0, 0.0, 1.0)))
    assert point.goals == pytest.approx(ilqr.solve(HOVER, (1.0, 0.0, 1.0)).goals, abs=0.0)


# Integrators -------------------------------------------------------------------------------------------------------


def exact_motion(x0, controls, dt):
    """The continuous motion under held inputs, by SciPy's eighth order."""
    model, rows = model_of(CRAZYFLIE, MpcOptions(dt=dt)), [np.array(x0)]
    for u in controls:

        def rate(_, x, u=u):
            return np.array(flatten(model.rate(unflatten(model.template, iter(x.tolist())), tuple(u.tolist()))))

        rows.append(solve_ivp(rate, (0.0, dt), rows[-1], method="DOP853", rtol=1e-10, atol=1e-12).y[:, -1])
    return np.array(rows)


def test_ilqr_rk4_predicts_the_motion_and_euler_does_not(ilqr):
    """The planned states under the planned inputs against the exact motion: Euler, the document's, is far further off.

    Each solver's own states are x + dt f(x) and RK4's step of the one equation of motion.
    """
    euler = ILQR(CRAZYFLIE, integrator="euler")
    target = away(1.0, 0.5, 0.0)
    errors = {}
    for name, solver in (("rk4", ilqr), ("euler", euler)):
        result = solver.solve(HOVER, target)
        exact = exact_motion(result.states[0], result.controls[:10], 0.05)
        errors[name] = np.abs(result.states[:11, :3] - exact[:, :3]).max()
        x, u = unflatten(solver.model.template, iter(result.states[3].tolist())), tuple(result.controls[3].tolist())
        assert result.states[4] == pytest.approx(numbers(samara.step(x, u, solver.model.body, 0.05, name)), abs=1e-13)
    assert errors["rk4"] < 5e-5
    assert errors["euler"] > 100.0 * errors["rk4"]


# What it asks for --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("direction", DIRECTIONS, ids=lambda d: "{:+.0f}{:+.0f}{:+.0f}".format(*d))
def test_from_hover_the_first_input_leans_towards_the_waypoint(ilqr, direction):
    """Hover is no local minimum: the first torque turns b₃ towards it; straight up or down it is thrust that moves."""
    result = ilqr.solve(HOVER, HERE + direction)
    thrust, *torque = result.controls[0]
    level = np.array([*direction[:2], 0.0])
    assert np.cross(torque, (0.0, 0.0, 1.0)) @ level > 1e-5 or not level.any()
    b3 = np.array(thrust_axis(result.state(3)))
    if level.any():
        assert b3 @ level > 0.05
    else:
        assert np.abs(torque).max() < 1e-15
        assert (thrust - ilqr.model.hover_input[0]) * direction[2] > 0.01
    assert (result.states[-1, :3] - HERE) @ direction > 0.5 * direction @ direction


def test_ilqr_every_knob_changes_the_plan(ilqr):
    """Seven tenths of any weight, gain or limit is another plan, to a near target or a far one; the horizon is as asked."""
    state = HOVER._replace(v_W=Vec3(0.3, -0.2, 0.1), omega_B=Vec3(0.1, 0.2, 0.3))

    def plans(solver):
        return np.array(
            [solver.solve(state, away(*by), iterations=3).controls for by in ((0.2, 0.3, 0.1), (9.0, -5.0, 2.0))]
        )

    usual = plans(ilqr)
    knobs = {**ilqr.weights._asdict(), **ilqr.shaping._asdict()}
    on = {name: value for name, value in knobs.items() if value}
    assert len(on) == 14
    for name, value in on.items():
        assert np.abs(plans(ILQR(CRAZYFLIE, **{name: 0.7 * value})) - usual).max() > 1e-7, name
    assert plans(ILQR(CRAZYFLIE, horizon=25)).shape == (2, 25, 4)


def test_where_it_should_be_it_hovers(ilqr):
    """At the target the plan is the trim and costs nothing."""
    result = ilqr.solve(HOVER, HERE)
    assert result.converged and result.cost == pytest.approx(0.0, abs=1e-20)
    assert result.controls == pytest.approx(np.tile(ilqr.model.hover_input, (20, 1)), abs=1e-9)
    command, _ = ilqr(HOVER, HERE, CRAZYFLIE, ilqr.initial_memory)
    assert command == pytest.approx(HOVER_COMMAND, abs=1e-9)


def test_the_sign_of_the_quaternion_makes_no_difference(ilqr):
    """q and −q are one attitude."""
    state = tumbling(np.random.default_rng(8))
    one, other = (ilqr.solve(state._replace(q_WB=q), away(1.0, 0.0, 0.5)) for q in (state.q_WB, -state.q_WB))
    assert one.controls == pytest.approx(other.controls, abs=1e-13)
    assert one.cost == pytest.approx(other.cost, rel=1e-12)


def test_the_whole_problem_may_be_turned_about_the_vertical(ilqr):
    """A yaw of everything, past π too, turns the trajectory and leaves the inputs as they are."""
    state, way = tumbling(np.random.default_rng(9)), np.array([1.0, -0.5, 0.3])
    plain = ilqr.solve(state, HERE + way)
    for yaw in (0.7, 3.0, -3.0, math.pi, 7.0):
        R = Rotation.from_euler("z", yaw)
        q = quat_from_euler(0.0, 0.0, yaw)
        turned = state._replace(v_W=rotate(q, state.v_W), q_WB=q * state.q_WB)
        result = ilqr.solve(turned, HERE + R.apply(way))
        assert result.controls == pytest.approx(plain.controls, abs=1e-11)
        assert result.states[:, :3] - HERE == pytest.approx(R.apply(plain.states[:, :3] - HERE), abs=1e-11)


@pytest.mark.long
def test_yaw_is_left_alone_unless_weighed():
    """With yaw_weight the nose turns to the yaw asked for, the short way round; without it only yaw rate is paid for."""
    solver = ILQR(CRAZYFLIE, horizon=40, yaw_weight=8.0)
    state = HOVER._replace(q_WB=quat_from_euler(0.0, 0.0, 3.0))
    near, wrapped = (solver.solve(state, HERE, yaw=yaw) for yaw in (-3.0, -3.0 + 2.0 * math.pi))
    assert near.controls == pytest.approx(wrapped.controls, abs=1e-12)
    assert near.controls[0, 3] > 1e-6  # 3 → −3 is 0.28 rad counter-clockwise
    nose = rotate(near.state(40).q_WB, Vec3(1.0, 0.0, 0.0))
    assert math.atan2(nose.y, nose.x) == pytest.approx(-3.0, abs=0.06)


def test_limits_are_never_passed():
    """Not by a hair, in a thousand plans from anywhere to anywhere; with thrusts for inputs neither."""
    rng = np.random.default_rng(10)
    for solver in (ILQR(CRAZYFLIE), ILQR(CRAZYFLIE, inputs="rotors"), ILQR(CRAZYFLIE, limits=DOCUMENTED_LIMITS)):
        low, high = (np.array(limit) for limit in solver.model.limits)
        touched = 0
        for _ in range(100):
            result = solver.solve(tumbling(rng, 1.5, 5.0, 10.0), HERE + rng.uniform(-8, 8, 3), iterations=6)
            assert (result.controls >= low).all() and (result.controls <= high).all()
            touched += int(((result.controls == low) | (result.controls == high)).sum())
        assert touched > 100


def test_damping_follows_how_large_a_step_was_good():
    """Ten times more after none, three after a small one, the same after a middling one, a fifth after a large one, then 0"""

    def after(damping, alpha, gained=0.1):
        return choose([1.0 - gained], [alpha], 1.0, -0.1, 0.0, damping, 1e-9).damping

    assert [after(x, 1.0, gained=-0.1) for x in (0.0, 1e-5, 0.02)] == pytest.approx([1e-3, 1e-3, 0.2], rel=1e-12)
    assert [after(x, 0.1) for x in (0.0, 0.02)] == pytest.approx([1e-3, 0.06], rel=1e-12)
    assert [after(x, 0.3) for x in (0.0, 0.02)] == [0.0, 0.02]
    assert [after(x, 0.5) for x in (0.02, 1.05e-6, 0.95e-6)] == pytest.approx([4e-3, 2.1e-7, 0.0], rel=1e-12)


def test_by_name_a_turned_nose_costs_what_a_tilt_does():
    """iLQR document weighs no yaw; a scenario's references have one."""
    assert controller_named("ilqr", CRAZYFLIE).call.weights.yaw_weight == Weights().tilt_weight


def test_the_documented_limits_are_all_thrust_and_more_torque_than_there_is():
    """The document allows what four rotors of the Crazyflie give at their top speed, 4 k Ω², and torques beyond its motors'."""
    vehicle = samara.vehicle("crazyflie_documented")
    assert DOCUMENTED_LIMITS.high[0] == pytest.approx(4.0 * 2.88e-8 * 2500.0**2, rel=1e-12)
    assert DOCUMENTED_LIMITS.low == (0.0, *(-most for most in DOCUMENTED_LIMITS.high[1:]))
    assert all(
        more > real for more, real in zip(DOCUMENTED_LIMITS.high[1:], wrench_limits(vehicle).high[1:], strict=True)
    )


def test_the_limits_are_the_motors():
    """At the largest torque the rotors that give it, and nothing else at hover, run at a limit: one of them, none beyond."""
    for name in ("crazyflie_documented", "iris_documented", "hexarotor_x"):
        vehicle = samara.vehicle(name)
        limits, effect = wrench_limits(vehicle), effectiveness(vehicle)[2:]
        weight = vehicle.mass * vehicle["gravity"].acceleration
        low, high = np.array(samara.vehicles.limits.thrust_limits(vehicle)).T
        for axis in (1, 2, 3):
            for torque in (limits.low[axis], limits.high[axis]):
                wrench = np.zeros(4)
                wrench[0], wrench[axis] = weight, torque
                thrusts = np.linalg.lstsq(effect, wrench, rcond=None)[0]
                slack = np.minimum(thrusts - low, high - thrusts) / high
                assert slack.min() == pytest.approx(0.0, abs=1e-9)
        assert limits.high[0] == pytest.approx((effect[0] * high).sum())


@pytest.mark.long
def test_thrusts_for_inputs_push_as_the_rotors_do():
    """The predicted wrench is B T, and a hexarotor's plan stays within each rotor's thrust."""
    vehicle = samara.vehicle("hexarotor_tilted")
    solver = ILQR(vehicle, inputs="rotors")
    thrusts = np.random.default_rng(11).uniform(1.0, 5.0, 6)
    push = solver.model.wrench(tuple(thrusts.tolist()))
    assert np.array([*push.f_B, *push.tau_B]) == pytest.approx(effectiveness(vehicle) @ thrusts, rel=1e-12)
    state, command = samara.hover(vehicle)
    result = solver.solve(state, np.array(state.p_W) + np.array([1.0, 0.5, 0.5]))
    assert result.controls.shape == (20, 6)
    assert result.states[-1, 0] > 0.4 and result.converged
    given, _ = solver(state, state.p_W, vehicle, ())
    assert given == pytest.approx(command, rel=1e-6)


def test_an_obstacle_is_flown_round():
    """A sphere in the way: without it the plan goes through, with it not; and a tilt limit is kept."""
    target = away(2.0, 0.0, 0.0)
    centre, radius = away(0.7, 0.05, 0.0), 0.3
    usual = {"horizon": 40, "max_iterations": 60, "reference_follow": 1.0}
    plain = ILQR(CRAZYFLIE, **usual)
    wary = ILQR(CRAZYFLIE, **usual, obstacles=[(centre, radius)], max_tilt=math.radians(20.0))
    through, round_ = (solver.solve(HOVER, target) for solver in (plain, wary))
    distance = [np.linalg.norm(own.states[:, :3] - centre, axis=1).min() for own in (through, round_)]
    assert distance[0] < 0.6 * radius
    assert distance[1] > 0.95 * radius
    tilts = [max(math.acos(min(1.0, thrust_axis(own.state(k)).z)) for k in range(41)) for own in (through, round_)]
    assert tilts[0] > math.radians(25.0)
    assert tilts[1] < math.radians(22.0)
    assert round_.states[-1, 0] > 1.7


# Flight ------------------------------------------------------------------------------------------------------------


def flown(solver, vehicle, start, target, seconds, rate=100, controller=None):
    """The whole vehicle, motors with lag and ground included, at 1 kHz under the controller; states (n, 13) at its rate."""
    plant = Plant(vehicle)
    state, command = samara.hover(vehicle, start)
    place(plant, 0, state)
    plant.command[:, 0] = command
    memory, tick, rows = solver.initial_memory, 1_000_000 // rate, []
    for k in range(int(seconds * rate)):
        state = state_of(plant, 0)
        rows.append(numbers(state))
        plant.command[:, 0], memory = solver(state, target, vehicle, memory)
        plant.advance(k * tick, (k + 1) * tick)
    return np.array(rows)


def test_it_flies_to_waypoints_in_all_directions_and_stays():
    """26 waypoints: within 5 cm after 6 s and for 2 s more, through motors with lag, one iteration 50 times a second."""
    solver, start = ILQR(CRAZYFLIE, period=0.02), np.array([0.0, 0.0, 3.0])
    for direction in DIRECTIONS:
        path = flown(solver, CRAZYFLIE, start, start + direction, 8.0, rate=50)
        away = np.linalg.norm(path[:, :3] - (start + direction), axis=1)
        assert away[300:].max() < 0.05, direction
        beside_it = (
            path[:, :3] - start - np.outer((path[:, :3] - start) @ direction, direction) / (direction @ direction)
        )
        # height changes at once, horizontal position after tilting: 84 mm beside the line at the tilt rate of the geometric
        # controller. The distance grows as 1/rate: 107 mm at 0.8 of it, which gives iris 37° of phase margin instead of 34°
        assert np.abs(beside_it).max() < 0.1 / 0.8, direction


@pytest.mark.long
@pytest.mark.parametrize("name", samara.vehicle_names())
def test_every_vehicle_flies_with_it(name):
    """With the weights it comes with: 1 m and 5 m away within 5 cm after 7 s, at 50 and at 100 Hz."""
    vehicle, start = samara.vehicle(name), np.array([0.0, 0.0, 5.0])
    for rate, way in itertools.product((50, 100), ((1.0, 1.0, 1.0), (5.0, 0.0, 0.0))):
        path = flown(ILQR(vehicle, period=1.0 / rate), vehicle, start, start + way, 8.0, rate)
        assert np.linalg.norm(path[7 * rate :, :3] - start - way, axis=1).max() < 0.05


@pytest.mark.long
def test_motor_lag_tumbles_a_plan_without_lead(monkeypatch):
    """torque_weight 5e-4 through the measured 72 ms of lag tumbles without the lead and arrives with it."""
    vehicle = samara.vehicle("crazyflie").without_effect("airspeed_moment", "damping", "rotor_momentum")
    start, way = np.array([0.0, 0.0, 5.0]), np.array([1.0, 1.0, 1.0])

    def fastest_turn_and_error(weight):
        path = flown(ILQR(vehicle, torque_weight=weight), vehicle, start, start + way, 6.0)
        return np.abs(path[:, 10:]).max(), np.linalg.norm(path[-1, :3] - start - way)

    for weight in (5e-4, default_torque_weight(vehicle)):
        turn, error = fastest_turn_and_error(weight)
        assert turn < 5.0 and error < 0.05
    for module in ("controller", "flight"):
        monkeypatch.setattr(f"samara.control.mpc.{module}.observer_for", lambda vehicle: None)
    assert fastest_turn_and_error(5e-4)[0] > 30.0


def test_it_follows_a_figure_of_eight():
    """Knowing the road ahead it leans in time: within 10 cm of it all the way, after the start."""
    solver = ILQR(CRAZYFLIE, position_weight=100.0)
    road = trajectory.figure8((0.0, 0.0, 2.0), reach=1.0, speed=1.0, laps=2.0)
    path = flown(solver, CRAZYFLIE, (0.0, 0.0, 2.0), road, 8.0)
    wanted = np.array([road.at(0.01 * k).p_W for k in range(len(path))])
    assert np.linalg.norm(path[:, :3] - wanted, axis=1).max() < 0.1


def test_a_real_time_iteration_warm_started_keeps_up(ilqr):
    """One iteration from the shifted plan of the step before costs at most 1 % more than solving to the end each time."""
    state = HOVER
    memory = ilqr.initial_memory
    model, worst = ilqr.model, 0.0
    for _ in range(40):
        quick = ilqr.solve(
            state, away(1.0, 0.5, 0.3), warm_start=memory.controls, shift=0.05, before=memory.before, iterations=1
        )
        whole = ilqr.solve(state, away(1.0, 0.5, 0.3), before=memory.before, iterations=30)
        if memory is not ilqr.initial_memory and whole.cost > 1e-6:
            worst = max(worst, quick.cost / whole.cost - 1.0) if memory.time > 0.1 else worst
        u = tuple(quick.controls[0].tolist())
        memory = memory._replace(controls=quick.controls, before=u, time=memory.time + 0.05)
        state = unflatten(
            model.template,
            iter(numbers(model.step(unflatten(model.template, iter(numbers(state).tolist())), u)).tolist()),
        )
    assert worst < 0.01


def test_the_same_call_gives_the_same_answer(ilqr):
    """What it computed before leaves no trace: state, target and memory in, command and memory out."""
    state, memory = tumbling(np.random.default_rng(12)), ilqr.initial_memory
    first = ilqr(state, away(1.0, 0.0, 0.0), CRAZYFLIE, memory)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ilqr.solve(state._replace(v_W=Vec3(math.nan, 0.0, 0.0)), HERE)
    ilqr.solve(tumbling(np.random.default_rng(13)), away(-4.0, 3.0, 1.0))
    again = ilqr(state, away(1.0, 0.0, 0.0), CRAZYFLIE, memory)
    assert first[0] == again[0]
    assert (first[1].controls == again[1].controls).all() and first[1].before == again[1].before


# What goes wrong ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("state", "target", "why"),
    [
        (HOVER._replace(p_W=Vec3(math.nan, 0.0, 1.0)), (0.0, 0.0, 1.0), "the state is not finite"),
        (HOVER._replace(omega_B=Vec3(0.0, math.inf, 0.0)), (0.0, 0.0, 1.0), "the state is not finite"),
        (HOVER._replace(q_WB=Quat(0.0, 0.0, 0.0, 0.0)), (0.0, 0.0, 1.0), "the state is not finite"),
        (HOVER, (0.0, math.nan, 1.0), "the target is not finite"),
        (HOVER, Reference(HOVER.p_W, Vec3(math.nan, 0.0, 0.0)), "the reference is not finite"),
        (HOVER, Reference(HOVER.p_W, Vec3(1e200, 0.0, 0.0)), "the predicted cost is not finite"),
    ],
)
def test_what_cannot_be_solved_hovers_with_a_word(ilqr, state, target, why):
    """NaN in the state or the target, or a reference beyond all numbers: the hover command, and a warning that says why."""
    with pytest.warns(RuntimeWarning, match=why):
        command, memory = ilqr(state, target, CRAZYFLIE, ilqr.initial_memory)
    assert command == pytest.approx(HOVER_COMMAND, abs=1e-9)
    assert np.isfinite(memory.controls).all()
    sound, _ = ilqr(HOVER, HERE, CRAZYFLIE, memory)
    assert sound == pytest.approx(HOVER_COMMAND, abs=1e-6)


def test_a_target_out_of_reach_is_flown_towards(ilqr):
    """A point at the end of the world: a finite plan within the limits, leaning towards it, upright all the way."""
    for far in ((1e6, 0.0, 1.0), (0.0, 0.0, -1e9), (-1e12, 1e12, 1e12)):
        result = ilqr.solve(HOVER, far)
        assert np.isfinite(result.states).all() and result.cost < math.inf
        assert (np.array(far) - HERE) @ (result.states[-1, :3] - HERE) > 0.0
        assert all(thrust_axis(result.state(k)).z > 0.0 for k in range(21))


def test_options_are_checked_in_one_sentence():
    """Which option, its value, and what was expected."""
    for options, sentence in (
        ({"horizon": 0}, "horizon = 0: expected a whole number"),
        ({"dt": -0.1}, "dt = -0.1: expected a positive number"),
        ({"position_weight": -1.0}, "position_weight = -1.0: expected a number that is not negative"),
        ({"max_reference_velocity": 0.0}, "max_reference_velocity = 0.0: expected a positive number"),
        ({"line_search": (2.0,)}, "line_search = "),
        ({"integrator": "rk45"}, "integrator = 'rk45': expected one of euler, midpoint, rk4"),
        ({"inputs": "pwm"}, "inputs = 'pwm': expected one of wrench, rotors"),
        ({"obstacles": [((0.0, 0.0, 1.0), -1.0)]}, "obstacles"),
        ({"limits": Limits((0.0,), (1.0,))}, "limits = "),
        ({"limits": Limits((0.5, -1, -1, -1), (1.0, 1, 1, 1))}, "the hover input 0.27468 is not between 0.5 and 1"),
    ):
        with pytest.raises(ValueError, match=sentence.replace("(", r"\(")):
            ILQR(CRAZYFLIE, **options)
    with pytest.raises(TypeError, match="ILQR has no option 'positon_weight'; did you mean position_weight"):
        ILQR(CRAZYFLIE, positon_weight=1.0)
    with pytest.raises(ValueError, match="has none; expected 'wrench'"):
        ILQR(samara.vehicle("rigid_body_quadrotor"), inputs="rotors")


def test_arguments_are_checked_in_one_sentence(ilqr):
    """Shapes that do not fit say what was expected."""
    with pytest.raises(ValueError, match="state has 4 numbers; expected a State, or the 13"):
        ilqr.solve((0.0, 0.0, 1.0, 0.0), HERE, layout="wxyz")
    with pytest.raises(ValueError, match=r"warm_start has shape \(3, 4\); expected \(20, 4\)"):
        ilqr.solve(HOVER, HERE, warm_start=np.zeros((3, 4)))
    with pytest.raises(ValueError, match=r"states have shape \(12, 3\)"):
        ilqr.solve_batch(np.zeros((12, 3)), HERE, layout="wxyz")
    with pytest.raises(ValueError, match="expected llvm or jax"):
        ilqr.solve_batch(np.zeros((13, 3)), HERE, backend="cuda")


def test_the_result_tells_what_happened(ilqr):
    """Shapes, names, and times that add up; the document's order of the quaternion is a layout away."""
    result = ilqr.solve(HOVER, away(1.0, 0.0, 0.0))
    assert result.controls.shape == (20, 4) and result.states.shape == (21, 13) and result.gains.shape == (20, 4, 12)
    assert result.goals.shape == (21, 12)
    assert result.states[0] == pytest.approx(numbers(HOVER), abs=0.0)
    times = result.times
    assert 0.0 < times.derivatives + times.backward + times.rollouts < times.total
    assert repr(result).startswith("Result(cost=") and "converged" in repr(result)
    xyzw = result.state(5).to_numpy("xyzw")
    assert xyzw[6:10] == pytest.approx(np.roll(result.states[5, 6:10], -1), abs=0.0)
    assert result.layout == "wxyz" and result.state(5).q_WB == tuple(result.states[5, 6:10])
    assert "crazyflie_documented" in repr(ilqr)


@pytest.mark.filterwarnings("error")
def test_ilqr_the_quaternion_of_a_bare_array_has_its_order_stated(ilqr):
    """The iLQR document's level, (0, 0, 0, 1), read w first is yaw 180°, and the pitch towards +x changes sign.

    So an array comes with its layout, and the answer is in it; a state names its components and needs none.
    """
    document = HOVER.to_numpy("xyzw")[:13]
    assert list(document[6:10]) == [0.0, 0.0, 0.0, 1.0]
    target = away(1.0, 0.0, 0.0)
    right, as_state = ilqr.solve(document, target, layout="xyzw"), ilqr.solve(HOVER, target)
    assert np.array_equal(right.controls, as_state.controls) and right.controls[0, 2] > 0.0
    assert np.array_equal(right.states[:, [*range(6), 9, 6, 7, 8, *range(10, 13)]], as_state.states)
    assert right.layout == "xyzw" and right.state(7) == as_state.state(7)
    assert np.array_equal(ilqr.solve(HOVER, target, layout="xyzw").states, right.states)
    wrong = ilqr.solve(document, target, layout="wxyz")
    assert wrong.controls[0, 2] < 0.0
    for solve, x in ((ilqr.solve, document), (ilqr.solve_batch, document[:, None])):
        with pytest.raises(ValueError, match="an array without a layout: expected layout= one of wxyz, xyzw"):
            solve(x, target)
    fleet = np.tile(document[:, None], (1, 3))
    batch = ilqr.solve_batch(fleet, target, layout="xyzw", dtype="float64")
    named = ilqr.solve_batch(State.from_numpy(fleet, "xyzw"), target, dtype="float64")
    assert np.array_equal(batch.states[0], fleet) and (batch.layout, named.layout) == ("xyzw", "wxyz")
    assert np.array_equal(batch.states[:, [9, 6, 7, 8]], named.states[:, 6:10])


def test_without_a_solution_the_states_are_in_the_layout_too(ilqr):
    """Hover, level, in the order that was asked for."""
    nowhere = np.full(13, np.nan)
    with pytest.warns(RuntimeWarning, match="the state is not finite"):
        assert ilqr.solve(nowhere, HERE, layout="xyzw").state(3).q_WB == (1.0, 0.0, 0.0, 0.0)


def test_feedback_gains_steer_the_plan_back(patient):
    """u + K δx from a state near the start costs less than the same inputs without feedback."""
    target = away(1.0, 0.5, 0.2)
    plan = patient.solve(HOVER, target)
    off = np.array([0.05, -0.04, 0.02, 0.1, 0.1, -0.1, 0.05, -0.08, 0.0, 0.3, -0.2, 0.0])
    model = patient.model
    ends = []
    for feedback in (0.0, 1.0):
        state = moved(
            unflatten(model.template, iter(plan.states[0].tolist())), unflatten(NO_DIFFERENCE, iter(off.tolist()))
        )
        state = state._replace(q_WB=state.q_WB / math.sqrt(sum(x * x for x in state.q_WB)))
        for k in range(20):
            nominal = unflatten(model.template, iter(plan.states[k].tolist()))
            error = np.array(flatten(difference(state, nominal)))
            u = plan.controls[k] + feedback * plan.gains[k] @ error
            state = model.step(state, tuple(np.clip(u, *model.limits).tolist()))
        ends.append(norm(state.p_W - Vec3(*plan.states[-1, :3])))
    assert ends[1] < 0.3 * ends[0]


# Batches -----------------------------------------------------------------------------------------------------------


def some_problems(count):
    rng = np.random.default_rng(14)
    states = np.stack([numbers(tumbling(rng, 0.4, 1.0, 1.0)) for _ in range(count)], axis=1)
    return states, HERE[:, None] + rng.uniform(-1.5, 1.5, (3, count))


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [pytest.param("float64", 1e-9, marks=pytest.mark.long), ("float32", 1e-3)]
)
def test_problems_in_lanes_are_solved_as_alone(ilqr, dtype, tolerance):
    """Every lane of full and part tiles gets what it would get alone: the same costs and inputs."""
    solver = ILQR(CRAZYFLIE, tolerance=0.0)
    states, targets = some_problems(21)
    batch = solver.solve_batch(states, targets, layout="wxyz", iterations=8, dtype=dtype)
    assert batch.controls.shape == (20, 4, 21) and batch.states.shape == (21, 13, 21)
    assert batch.controls.dtype == dtype
    for i in range(21):
        alone = solver.solve(states[:, i], targets[:, i], layout="wxyz", iterations=8)
        assert batch.cost[i] == pytest.approx(alone.cost, rel=tolerance)
        scale = np.array(solver.model.limits.high)
        assert np.abs((batch.controls[:, :, i] - alone.controls) / scale).max() < tolerance
    warm = solver.solve_batch(states, targets, layout="wxyz", warm_start=batch, iterations=1, dtype=dtype)
    assert (warm.cost <= batch.cost * (1.0 + tolerance)).all()


def test_a_bad_problem_spoils_only_itself(ilqr):
    """NaN in one lane: hover for that one, a warning, and the others untouched."""
    states, targets = some_problems(5)
    sound = ilqr.solve_batch(states, targets, layout="wxyz", dtype="float64")
    states[0, 2] = np.nan
    with pytest.warns(RuntimeWarning, match="1 of 5 problems have no finite cost"):
        batch = ilqr.solve_batch(states, targets, layout="wxyz", dtype="float64")
    others = [0, 1, 3, 4]
    assert (batch.controls[:, :, others] == sound.controls[:, :, others]).all()
    assert batch.controls[:, :, 2] == pytest.approx(np.tile(ilqr.model.hover_input, (20, 1)), abs=0.0)
    assert not batch.converged[2]


def test_a_batch_of_states_is_a_state_of_arrays(ilqr):
    """And one target serves all."""
    states, _ = some_problems(4)
    fleet = State.from_numpy(states, "wxyz")
    target = away(0.5, 0.0, 0.0)
    one, other = (ilqr.solve_batch(x, target, layout="wxyz", dtype="float64", iterations=2) for x in (states, fleet))
    assert (one.controls == other.controls).all()


@pytest.mark.long
@pytest.mark.parametrize(("dtype", "tolerance"), [("float64", 1e-9), ("float32", 2e-3)])
def test_jax_solves_what_the_lanes_solve(dtype, tolerance):
    """The same functions through XLA: costs and inputs agree."""
    pytest.importorskip("jax")
    solver = ILQR(CRAZYFLIE, tolerance=0.0)
    states, targets = some_problems(6)
    ours = solver.solve_batch(states, targets, layout="wxyz", iterations=4, dtype=dtype)
    theirs = solver.solve_batch(states, targets, layout="wxyz", iterations=4, dtype=dtype, backend="jax")
    assert np.asarray(theirs.cost) == pytest.approx(ours.cost, rel=tolerance)
    scale = np.array(solver.model.limits.high)[:, None]
    assert np.abs((np.asarray(theirs.controls) - ours.controls) / scale).max() < tolerance


# Machine code ------------------------------------------------------------------------------------------------------


def test_loops_run_forwards_and_backwards_over_steps_and_lanes():
    """A running sum over rows, forwards and backwards, on lanes side by side and on lanes far apart."""
    x, y = ca.SX.sym("x"), ca.SX.sym("y")
    add = program_of_expressions([x, y], [x + y])
    values = np.arange(24.0).reshape(6, 4)
    for reverse, lane in itertools.product((False, True), (1, 6)):
        laid = values.copy() if lane == 1 else np.ascontiguousarray(values.T)
        step = 4 if lane == 1 else 1
        sums, rows = np.zeros(4), np.zeros(24)
        one = ArraySpec("sums", (0,), 0, 1)
        each = Pass(add, (one, ArraySpec("values", (0,), step, lane)), (one,), 4)
        keep = Pass(program_of_expressions([x], [x]), (one,), (ArraySpec("rows", (0,), 4, 1),), 4)
        loops = compile_loops((Loop((each, keep), reverse=reverse),))
        arrays = {"sums": sums, "values": laid, "rows": rows}
        table = np.array([arrays[name].ctypes.data for name in loops.names])
        loops.call(table.ctypes.data, 6)
        expected = values[::-1].cumsum(axis=0)[::-1] if reverse else values.cumsum(axis=0)
        assert (rows.reshape(6, 4) == expected).all()
        assert (sums == values.sum(axis=0)).all()


def test_a_box_step_that_settles_at_once_is_left_there(ilqr):
    """Where the first iteration holds and releases nothing, it has the bits of all of them; where it does, all are made."""
    problem, own, rng = ilqr.problem, ilqr._solver, np.random.default_rng(2)
    trace = linearise(problem)
    layout = Layout(problem, trace)
    quick, whole = box_passes(problem, layout, FollowingStage(trace, layout))
    guarded = compile_loops((Loop((quick, whole), at="start"),))
    first = compile_loops((Loop((quick,), at="start"),))
    always = compile_loops((Loop((quick, whole._replace(when=None)), at="start"),))
    memory = own.start_memory(nominal=own.nominal)
    scratch, gains, sums = (memory[name] for name in ("scratch", "gains", "sums"))
    half = 0.5 * (np.array(ilqr.model.limits.high) - ilqr.model.limits.low)
    corner, met, places = layout.blocks["Q"][12:, 12:16], [], layout.blocks["q"][0, 12:16]
    for strength in np.geomspace(1e-3, 3.0, 60):
        root = rng.normal(size=(4, 4)) / half
        scratch[:], gains[:], sums[:] = 0.0, 0.01 * rng.normal(size=gains.shape) * half[0], rng.normal(size=3)
        scratch[corner], scratch[places] = (
            root.T @ root + np.diag(0.1 / half**2),
            strength * rng.normal(size=4) / half,
        )
        before = [each.copy() for each in (scratch, gains, sums)]
        found = []
        for loops in (first, guarded, always):
            for each, was in zip((scratch, gains, sums), before, strict=True):
                each[:] = was
            loops.call(memory.table(loops), 1)
            found.append(np.concatenate([scratch, gains.ravel(), sums]))
        met.append(bool(scratch[layout.unsettled.places[0]]))
        np.testing.assert_array_equal(found[1], found[2])
        assert (found[0] == found[1]).all() or met[-1]
    assert 10 < sum(met) < 50


def test_a_chain_makes_its_calls_in_turn():
    """x + 1, doubled, doubled: 4 (x + 1); the other way round it would be another number"""
    x, number = ca.SX.sym("x"), np.array([2.5])
    place = ArraySpec("x", (0,))
    more, double = (
        compile_loops((Loop((Pass(program_of_expressions([x], [after]), (place,), (place,), 1),)),))
        for after in (x + 1.0, 2.0 * x)
    )
    table = np.array([number.ctypes.data])
    Chain((more, table.ctypes.data, 1), (double, table.ctypes.data, 2))()
    assert number[0] == 14.0


def test_the_code_is_compiled_once_for_a_kind_of_problem(ilqr):
    """Another horizon, other weights: the same machine code. A weight that is off is another kind."""
    other = ILQR(CRAZYFLIE, horizon=33, position_weight=11.0, reference_velocity_gain=2.0)
    assert solver_code(other.problem) is solver_code(ilqr.problem)
    bare = ilqr.parameters._replace(weights=Weights(smoothing_weight=0.0))
    assert kind_of(bare) != kind_of(ilqr.parameters)


# A push from outside, rotors that fail, and references ahead ----------------------------------------------------------


def test_a_push_adds_its_own_motion_to_a_step():
    """Without drag, p and v after dt differ from those without it by ½ a dt² and a dt, whatever the body does."""
    model = model_of(CRAZYFLIE.without_effect("drag"), MpcOptions(dt=0.05))
    push = Vec3(1.2, -0.7, 0.4)
    state = tumbling(np.random.default_rng(3))._replace(rotor_speed=(), effects=model.template.effects)
    calm, pushed = model.step(state, (0.3, 1e-4, 0.0, 2e-5)), model.step(state, (0.3, 1e-4, 0.0, 2e-5), push)
    assert flatten(pushed.v_W - calm.v_W) == pytest.approx(flatten(push * 0.05), rel=1e-12)
    assert flatten(pushed.p_W - calm.p_W) == pytest.approx(flatten(push * (0.5 * 0.05**2)), rel=1e-12)
    assert pushed.q_WB == calm.q_WB and pushed.omega_B == calm.omega_B


def test_a_known_push_is_leaned_against(patient):
    """In a horizontal push a at rest the plan ends leaning by atan(a/g), thrust m √(g² + a²)."""
    a, g = 2.0, CRAZYFLIE["gravity"].acceleration
    lean = math.atan(a / g)
    leaning = HOVER._replace(q_WB=Quat(math.cos(lean / 2), 0.0, -math.sin(lean / 2), 0.0))
    result = patient.solve(leaning, HOVER.p_W, push_W=(a, 0.0, 0.0))
    assert result.controls[0, 0] == pytest.approx(CRAZYFLIE.mass * math.hypot(g, a), rel=1e-3)
    assert np.abs(result.states[:, :3] - HERE).max() < 1e-3


def held_in_wind(solver, seconds=20.0, wind=1.5):
    """Where it ends after hovering in a wind from the west, and its memory."""
    plant, memory = Plant(CRAZYFLIE), solver.initial_memory
    place(plant, 0, HOVER)
    plant.environment[0] = wind
    for k in range(round(seconds / solver.period)):
        at_us = round(1e6 * solver.period)
        plant.command[:, 0], memory = solver(state_of(plant, 0), HOVER.p_W, CRAZYFLIE, memory)
        plant.advance(at_us * k, at_us * (k + 1))
    return np.array(state_of(plant, 0).p_W) - HERE, memory


def test_a_steady_wind_leaves_no_offset():
    """The push that is seen is the drag of the wind, d w/m as documented; unseen, the same wind shifts it for good."""
    off, memory = held_in_wind(ILQR(CRAZYFLIE))
    blown, _ = held_in_wind(ILQR(CRAZYFLIE, disturbance_time_constant=0.0))
    expected = CRAZYFLIE["drag"].linear.x * 1.5 / CRAZYFLIE.mass
    assert memory.observed.push_W.x == pytest.approx(expected, rel=1e-10)
    assert np.linalg.norm(off) < 1e-5
    assert blown[0] > 1.0


def test_references_ahead_are_the_trajectory_they_come_from(ilqr):
    """A `Reference` of arrays at the instants of `look_ahead` is the trajectory itself."""
    way, time = trajectory.figure8((0, 0, 1), reach=1.0, speed=1.5), 0.37
    along = ilqr.solve(HOVER, way, time=time)
    sampled = ilqr.solve(HOVER, way.at(time + ilqr.look_ahead))
    np.testing.assert_allclose(sampled.goals, along.goals, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(sampled.controls, along.controls, rtol=1e-9, atol=1e-12)
    nowhere = way.at(time + ilqr.look_ahead)._replace(p_W=Vec3(np.full(21, np.nan), 0.0, 1.0))
    with pytest.warns(RuntimeWarning, match="the reference is not finite; hovering instead"):
        ilqr.solve(HOVER, nowhere)


def test_a_dead_rotor_takes_its_lift_and_the_yaw_it_balanced():
    vehicle = samara.vehicle("hexarotor_x")
    whole, broken = wrench_limits(vehicle), wrench_limits(vehicle, (False, True, True, True, True, True))
    highest = samara.vehicles.limits.thrust_limits(vehicle)[0].high
    assert whole.high[0] - broken.high[0] == pytest.approx(highest, rel=1e-12)
    assert broken.low[3] == broken.high[3] == 0.0 < whole.high[3]
    assert broken.high[1:3] == whole.high[1:3]


def test_in_a_scenario_it_sees_ahead_and_its_plans_are_recorded():
    """What it plans begins where it is: at instants of both axes the first place of the plan is the position."""
    run = samara.fly("figure8", settings={"drones.controller": "ilqr", "duration": 4.0})
    plan = run.tables["plan"]
    assert plan.fields[:3] == ("p_W[0].x", "p_W[0].y", "p_W[0].z") and len(plan.fields) == 63
    assert set(plan.units) == {"m"}
    both = plan.times_us % 20_000 == 0
    np.testing.assert_array_equal(plan.rows[both][:, :3], run.position[both])
    ahead = np.searchsorted(plan.times_us, 2_000_000)
    later = np.searchsorted(plan.times_us, 2_500_000)
    assert np.linalg.norm(plan.rows[ahead].reshape(21, 3)[10] - run.position[later]) < 0.01  # half a second on


@pytest.mark.long
@pytest.mark.parametrize(("speed", "bound"), [(1.0, 0.008), (3.0, 0.042)])
def test_figure_of_eight_error_with_slow_motors(speed, bound):
    """Through measured drag and motors with lag: 6.9 mm at 1 m/s, 38 mm at 3 m/s."""
    from samara.compare.controllers import contest

    (entry,) = contest(samara.vehicle("crazyflie"), ("ilqr",), speed=speed)
    assert not entry.crashed and entry.rmse < bound
