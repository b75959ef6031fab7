"""The iLQR document's controller: its derivatives, optimum, line search, limits and flights."""

import itertools
import math
import warnings

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.spatial.transform import Rotation
from support.nonlinear_programme import NonlinearProgramme

import samara
from samara.compiler.llvm.array_loop import ArrayLoop, ArraySpec, CallChain, Pass, compile_loops
from samara.compiler.trace.folding_tape import trace_program
from samara.control.mpc import MPC, default_torque_weight
from samara.control.mpc.cost import DEFAULT_TARGET, MpcTarget, cost_structure, final_residuals
from samara.control.mpc.flight import BatchController
from samara.control.mpc.iteration import NUMPY, Progress, StageInputs, StageModel, box_step, choose_rollout, solve_stage
from samara.control.mpc.options import CostWeights, MpcOptions
from samara.control.mpc.prediction_model import (
    DOCUMENTED_LIMITS,
    Tangent,
    build_prediction_model,
    difference,
    displace,
    thrust_axis,
    wrench_limits,
)
from samara.control.mpc.problem import InputLimits, StepData, total_cost
from samara.control.mpc.programs import linearise
from samara.control.mpc.reference import mpc_target
from samara.control.mpc.solver import ArrayLayout, FollowingStage, box_passes, solver_code
from samara.control.registry import create_controller
from samara.core.algebra import ZERO, Quat, Vec3, norm, quat_from_euler, rotate
from samara.core.tree import flatten, unflatten
from samara.physics.types import Reference, State
from samara.plan import trajectory
from samara.sim.plant import Plant, plant_state, set_plant_state
from samara.vehicles.trim import effectiveness

NO_DIFFERENCE = Tangent(ZERO, ZERO, ZERO, ZERO)
CRAZYFLIE = samara.vehicle("crazyflie_documented")
HOVER, HOVER_COMMAND = samara.hover(CRAZYFLIE)
HOVER_POSITION = np.array(HOVER.p_W)
DIRECTIONS = [np.array(d, dtype=float) for d in itertools.product((-1, 0, 1), repeat=3) if any(d)]


@pytest.fixture(scope="module")
def mpc():
    """The default controller for the Crazyflie."""
    return MPC(CRAZYFLIE)


@pytest.fixture(scope="module")
def converged_mpc():
    """The same, solved to convergence."""
    return MPC(CRAZYFLIE, tolerance=1e-11, max_iterations=200)


def offset_position(*offset):
    """Return a position relative to that of the hovering Crazyflie."""
    return HOVER_POSITION + np.array(offset)


def random_state(rng, tilt=0.6, speed=1.5, max_rate=3.0):
    """Return a random state near hover."""
    return HOVER._replace(
        v_W=Vec3(*rng.uniform(-speed, speed, 3)),
        q_WB=quat_from_euler(*rng.uniform(-tilt, tilt, 3)),
        omega_B=Vec3(*rng.uniform(-max_rate, max_rate, 3)),
    )


def state_vector(state):
    return np.array([float(x) for x in flatten(tuple(state[:4]))])


# Derivatives -------------------------------------------------------------------------------------------------------


def compiled_derivatives(solver, state, controls):
    """[A B] and the gradient of the cost along a rollout, from the compiled code."""
    solver.solve(state, offset_position(0.7, -0.4, 0.2), warm_start=controls, iterations=1)
    single_solver = solver._solver
    single_solver.begin(state_vector(state), solver.model.hover_input, controls)
    single_solver._calls().derivatives()
    layout, stages = single_solver._code.layout, single_solver._arrays["stages"][: single_solver.horizon]
    M = stages[:, : 12 * layout.columns].reshape(single_solver.horizon, 12, layout.columns)[:, :, : layout.sizes.width]
    return (
        single_solver.states.copy(),
        single_solver.controls.copy(),
        M.copy(),
        stages[:, layout.slope :][:, : layout.sizes.width].copy(),
    )


def local_step(model, x, u):
    """δ ↦ (x ⊕ δx, u + δu) one step later, relative to the step of (x, u); with NumPy."""
    start = unflatten(model.template, iter(x.tolist()))
    origin = model.step(start, tuple(u.tolist()))

    def step(delta):
        displaced = displace(start, unflatten(NO_DIFFERENCE, iter(delta[:12].tolist())))
        return np.array(flatten(difference(model.step(displaced, tuple((u + delta[12:]).tolist())), origin)))

    return step


@pytest.mark.parametrize("inputs", ["wrench", pytest.param("rotors", marks=pytest.mark.long)])
def test_jacobians_are_those_of_differences(inputs):
    """[A B] of the compiled trace against central differences of the step, at states far from hover."""
    rng = np.random.default_rng(0)
    solver = MPC(CRAZYFLIE, horizon=5, inputs=inputs)
    hover_input, half = (
        np.array(solver.model.hover_input),
        0.3 * (np.array(solver.model.limits.high) - solver.model.hover_input),
    )
    controls = hover_input + rng.uniform(-1, 1, (5, 4)) * half
    x, u, M, _ = compiled_derivatives(solver, random_state(rng), controls)
    scale = np.array([1.0] * 12 + [*half])
    for k in range(5):
        step = local_step(solver.model, x[k], u[k])
        for j in range(16):
            h = np.zeros(16)
            h[j] = 1e-5 * scale[j]
            slope = (step(h) - step(-h)) / (2e-5 * scale[j])
            assert M[k, :, j] == pytest.approx(slope, rel=1e-6, abs=1e-7 * max(1.0, np.abs(slope).max()))


def test_jacobians_are_those_of_jax(mpc):
    """[A B] of the compiled trace against forward differentiation in JAX, to rounding."""
    jax = pytest.importorskip("jax")
    rng = np.random.default_rng(1)
    solver = MPC(CRAZYFLIE, horizon=3)
    controls = np.array(solver.model.hover_input) + rng.uniform(-1, 1, (3, 4)) * (0.1, 4e-3, 4e-3, 2e-3)
    x, u, M, _ = compiled_derivatives(solver, random_state(rng), controls)
    model = solver.model
    for k in range(3):
        start = unflatten(model.template, iter(x[k].tolist()))
        origin = model.step(start, tuple(u[k].tolist()))

        def step(delta, start=start, origin=origin, u=u[k]):
            displaced = displace(start, unflatten(NO_DIFFERENCE, iter([delta[i] for i in range(12)])))
            next_state = model.step(displaced, tuple(u[a] + delta[12 + a] for a in range(4)))
            return jax.numpy.stack(flatten(difference(next_state, origin)))

        exact = np.array(jax.jacfwd(step)(jax.numpy.zeros(16)))
        assert M[k] == pytest.approx(exact, rel=1e-11, abs=1e-12 * np.abs(exact).max())


def test_jacobians_are_those_of_the_simulator():
    """The same [A B] as `samara.compile(...).linearize` in the tangent space, for a body driven by a wrench."""
    vehicle = samara.vehicle("rigid_body_quadrotor").without_effect("contact")
    solver = MPC(vehicle, horizon=1)
    state = samara.hover(vehicle)[0]._replace(q_WB=quat_from_euler(0.3, -0.2, 0.5), omega_B=Vec3(1.0, -2.0, 0.5))
    controls = np.array([[14.0, 0.3, -0.2, 0.1]])
    _, u, M, _ = compiled_derivatives(solver, state, controls)
    A, B = samara.compile(vehicle, backend="llvm").linearize(state, tuple(u[0]), 0.05, tangent=True)
    assert M[0] == pytest.approx(np.hstack([A, B]), rel=1e-11, abs=1e-12)


def test_ilqr_the_blocks_of_the_jacobians_are_the_documents():
    """Euler steps of a body without drag: dt on the v rows, −(T/m) dt R [e₃]ₓ, dt/m R e₃, dt/J, and the gyroscopic terms."""
    dt, bare = 0.02, CRAZYFLIE.without_effect("drag", "damping")
    model = build_prediction_model(bare, MpcOptions(dt=dt, integrator="euler"))
    q_WB, omega, T = quat_from_euler(0.3, -0.2, 0.7), np.array([0.4, -0.5, 0.6]), 0.3
    start = model.template._replace(q_WB=q_WB, omega_B=Vec3(*omega))
    step = local_step(model, state_vector(start), np.array([T, 1e-4, -2e-4, 1e-4]))
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


def test_the_slope_of_the_cost_is_that_of_differences(mpc):
    """∂/∂(δx, u) of the stage cost: tilt relative to b₃ of the reference in both value and gradient, smoothing included."""
    rng = np.random.default_rng(2)
    controls = np.array(mpc.model.hover_input) + rng.uniform(-1, 1, (20, 4)) * (0.05, 1e-3, 1e-3, 1e-3)
    x, u, _, slope = compiled_derivatives(mpc, random_state(rng), controls)
    goals = mpc._solver.goals.copy()
    scale = np.array([1.0] * 12 + [0.1, 1e-3, 1e-3, 1e-3])
    for k in (0, 7, 19):
        start, goal = (
            unflatten(mpc.model.template, iter(x[k].tolist())),
            unflatten(DEFAULT_TARGET, iter(goals[k].tolist())),
        )
        previous_input = tuple(u[k - 1].tolist()) if k else mpc.model.hover_input

        def cost(delta, start=start, goal=goal, previous_input=previous_input, u=u[k]):
            displaced = displace(start, unflatten(NO_DIFFERENCE, iter(delta[:12].tolist())))
            displaced_u = tuple((u + delta[12:]).tolist())
            data = StepData(goal)
            return total_cost(mpc.problem.stage_residuals(displaced, displaced_u, previous_input, data, mpc.parameters))

        for j in range(16):
            h = np.zeros(16)
            h[j] = 1e-5 * scale[j]
            expected = (cost(h) - cost(-h)) / (2e-5 * scale[j])
            assert slope[k, j] == pytest.approx(expected, rel=1e-6, abs=1e-6 * max(1.0, abs(expected)))


def test_ilqr_the_tilt_is_measured_from_the_references_b3_in_the_cost_and_in_its_gradient(mpc):
    """At the end of the horizon, too: thrust along b₃_ref has zero cost and gradient; thrust along e₃ has both.

    The code behind the document has e₃ in the terminal cost and b₃_ref in its gradient.
    """
    tilt = 0.4
    along, upright = quat_from_euler(0.0, tilt, 0.0), Quat(1.0, 0.0, 0.0, 0.0)
    goal = MpcTarget(HOVER.p_W, HOVER.v_W, rotate(along, Vec3(0.0, 0.0, 1.0)), Vec3(1.0, 0.0, 0.0))
    parameters, template = mpc.parameters, mpc.model.template._replace(p_W=HOVER.p_W)

    def cost(q_WB, rotation=0.0):
        displaced = displace(template._replace(q_WB=q_WB), NO_DIFFERENCE._replace(theta_B=Vec3(0.0, rotation, 0.0)))
        return total_cost(final_residuals(displaced, goal, parameters))

    assert cost(along) == pytest.approx(0.0, abs=1e-30)
    assert (cost(along, 1e-6) - cost(along, -1e-6)) / 2e-6 == pytest.approx(0.0, abs=1e-12)
    assert cost(upright) == pytest.approx(parameters.weights.terminal_tilt_weight * (1.0 - math.cos(tilt)), rel=1e-12)
    slope = (cost(upright, 1e-5) - cost(upright, -1e-5)) / 2e-5
    assert slope == pytest.approx(-parameters.weights.terminal_tilt_weight * math.sin(tilt), rel=1e-6)
    assert (CostWeights().tilt_weight, CostWeights().terminal_tilt_weight) == (4.0, 8.0)


def test_ilqr_terminal_weights_are_higher_than_those_of_a_stage():
    """Position, velocity and tilt, as in the document's list of the terminal cost."""
    weights = CostWeights()
    assert weights.terminal_position_weight > weights.position_weight
    assert weights.terminal_velocity_weight > weights.velocity_weight
    assert weights.terminal_tilt_weight > weights.tilt_weight


@pytest.mark.parametrize("inputs", [pytest.param("wrench", marks=pytest.mark.long), "rotors"])
def test_the_predicted_slope_is_that_of_the_rollouts(inputs):
    """J(α) = J + α qᵀk + O(α²): the slope of the cost along the step, summed backwards, is that of the rollouts.

    This requires all derivatives, their chain, and the terms between consecutive inputs to be correct.
    """
    small, wide = (2e-4, 1e-4, 5e-5), InputLimits((-9.0,) * 4, (9.0,) * 4)
    solver = MPC(CRAZYFLIE, line_search=small, inputs=inputs, limits=wide, smoothing_weight=20.0)
    rng = np.random.default_rng(3)
    single_solver = solver._solver
    for _ in range(5):
        state, target = random_state(rng, 0.3, 1.0, 1.0), HOVER_POSITION + rng.uniform(-1, 1, 3)
        first = solver.solve(state, target, warm_start=solver._hover, iterations=1)
        J, (linear, _, _) = first.cost_history[0], single_solver._arrays["sums"]
        costs = single_solver._arrays["cost"][:3]
        slopes = (costs - J) / np.array(small)
        extrapolated = 2.0 * slopes[1] - slopes[0]  # at α = 0
        assert linear < 0.0
        assert extrapolated == pytest.approx(linear, rel=1e-4)


# The optimum -------------------------------------------------------------------------------------------------------


def test_the_optimum_is_that_of_a_nonlinear_programme(converged_mpc):
    """Ten problems far from hover, some with active limits: IPOPT finds the same cost to 1e-6 and the same inputs."""
    programme, rng = NonlinearProgramme(converged_mpc), np.random.default_rng(1)
    at_limits = 0
    for _ in range(10):
        state = random_state(rng)
        result = converged_mpc.solve(state, HOVER_POSITION + rng.uniform(-3, 3, 3))
        cost, _, inputs = programme.solve(state_vector(state), result.goals)
        assert result.cost == pytest.approx(cost, rel=1e-6)
        input_range = np.array(converged_mpc.model.limits.high) - converged_mpc.model.limits.low
        assert np.abs((result.controls - inputs) / input_range).max() < 1e-4
        at_limits += int((result.controls == converged_mpc.model.limits.low).sum())
        at_limits += int((result.controls == converged_mpc.model.limits.high).sum())
    assert at_limits > 40


def test_no_small_change_of_the_inputs_costs_less(converged_mpc):
    """First-order optimality by rollouts alone: changing any free input either way costs more, or the same to second order."""
    rng = np.random.default_rng(4)
    state = random_state(rng)
    result = converged_mpc.solve(state, offset_position(1.0, 0.5, -0.3))
    single_solver, x = converged_mpc._solver, state_vector(state)
    low, high = (np.array(limit) for limit in converged_mpc.model.limits)

    def cost(controls):
        return single_solver.begin(x, converged_mpc.model.hover_input, controls)

    best = cost(result.controls)
    assert best == pytest.approx(result.cost, rel=1e-12)
    for k, a in itertools.product((0, 3, 11, 19), range(4)):
        for sign in (-1.0, 1.0):
            trial = result.controls.copy()
            trial[k, a] = np.clip(trial[k, a] + sign * 1e-4 * (high - low)[a], low[a], high[a])
            assert cost(trial) >= best - 1e-9 * best


def test_the_cost_never_rises_and_the_last_is_the_least(mpc):
    """In many problems, at limits and from tumbling states; from a cold start, as soon as a full step has closed the gaps."""
    rng = np.random.default_rng(5)
    for _ in range(50):
        state, target = random_state(rng, 1.2, 3.0, 8.0), HOVER_POSITION + rng.uniform(-5, 5, 3)
        for warm_start in (None, mpc._hover):
            result = mpc.solve(state, target, warm_start=warm_start)
            closed = 0 if warm_start is not None else result.step_sizes.index(1.0) + 1
            history = np.array(result.cost_history[closed:])
            assert (np.diff(history) < 0.0).all()
            assert result.cost == history[-1] == history.min()
            assert len(result.step_sizes) == len(result.cost_history) - 1 <= result.iterations <= 12
            assert result.feasible and result.gap == 0.0


def test_ilqr_the_lowest_cost_candidate_is_taken_not_the_first_that_improves(mpc):
    """In the first iteration the lowest cost of six is always taken; often the full step improves, but a shorter one more.

    The code behind the document took the first that improved.
    """
    rng, not_the_first = np.random.default_rng(15), 0
    for _ in range(50):
        state, target = random_state(rng), HOVER_POSITION + rng.uniform(-3, 3, 3)
        result = mpc.solve(state, target, warm_start=mpc._hover, iterations=1)
        costs = dict(zip(mpc.line_search, mpc._solver._arrays["cost"].tolist(), strict=False))
        before, after = result.cost_history
        assert after == costs[result.step_sizes[0]] == min(costs.values())
        not_the_first += costs[1.0] < before and result.step_sizes[0] < 1.0
    assert not_the_first >= 5


def test_the_line_search_accepts_the_lowest_cost():
    """The lowest cost, unless it rises, is not a number, or is only a tiny fraction of the predicted decrease."""
    sizes = (1.0, 0.5, 0.1)
    choice = choose_rollout((9.0, 7.0, 8.0), sizes, Progress(10.0, 0.0), -6.0, 6.0, 1e-4)
    assert (choice.accepted, choice.index, choice.alpha, choice.cost) == (1.0, 1.0, 0.5, 7.0)
    choice = choose_rollout((math.nan, math.inf, 8.0), sizes, Progress(10.0, 0.0), -6.0, 6.0, 1e-4)
    assert (choice.accepted, choice.index, choice.cost) == (1.0, 2.0, 8.0)
    for costs in ((11.0, 10.5, 10.0), (math.nan,) * 3, (10.0 - 1e-9,) * 3):
        rejected = choose_rollout(costs, sizes, Progress(10.0, 0.0), -6.0, 6.0, 1e-4)
        assert (rejected.accepted, rejected.alpha, rejected.cost, rejected.converged) == (0.0, 0.0, 10.0, 0.0)
        assert rejected.damping > 0.0
    assert choose_rollout((10.0 - 1e-5, 10.0, 10.0), sizes, Progress(10.0, 0.1), -2e-5, 2e-5, 1e-4).converged == 1.0
    assert choose_rollout((9.0, 9.5, 9.9), sizes, Progress(10.0, 0.1), -2.0, 2.0, 1e-4).damping < 0.1
    short = choose_rollout((11.0, 10.5, 10.0 - 5e-5), sizes, Progress(10.0, 0.0), -1e-1, 1e-1, 1e-4)
    assert (short.accepted, short.alpha, short.converged) == (1.0, 0.1, 0.0)  # the model promises a thousand times more


def test_the_box_step_is_the_best_within_the_box():
    """Four inputs, weakly coupled like those of a wrench: the best of all 81 active sets."""
    rng = np.random.default_rng(6)
    for _ in range(100):
        root = rng.normal(size=(4, 4))
        Q, q = np.eye(4) + 0.05 * root @ root.T, 3.0 * rng.normal(size=4)
        low, high = -rng.uniform(0, 1, 4), rng.uniform(0, 1, 4)
        low[rng.random(4) < 0.2] = 0.0
        step = np.array(box_step(Q.tolist(), q.tolist(), low.tolist(), high.tolist(), 0.0).step)
        assert (step >= low).all() and (step <= high).all()
        assert 0.5 * step @ Q @ step + q @ step == pytest.approx(best_in_box(Q, q, low, high), rel=1e-5)


def test_an_input_at_an_active_limit_is_fixed_from_the_start():
    """An input at its limit whose gradient points outwards is fixed in the first solution; the others are optimal."""
    Q, q = np.array([[2.0, 0.8, 0.0], [0.8, 1.5, 0.3], [0.0, 0.3, 1.0]]), np.array([4.0, -1.0, 0.5])
    low, high = [0.0, -9.0, -9.0], [9.0, 9.0, 9.0]
    step = box_step(Q.tolist(), q.tolist(), low, high, 0.0, iterations=1)
    assert step.factors.free == (0.0, 1.0, 1.0)
    assert np.array(step.step) == pytest.approx([0.0, *np.linalg.solve(Q[1:, 1:], -q[1:])], rel=1e-5)


def test_a_state_difference_ignores_the_sign_of_the_quaternion():
    """x ⊖ x₀ of q and of −q; (x₀ ⊕ δ) ⊖ x₀ = δ, and x₀ ⊕ (x ⊖ x₀) = x, up to the sign of q."""
    rng = np.random.default_rng(16)
    model = build_prediction_model(CRAZYFLIE, MpcOptions(dt=0.05))
    origin, state = (
        model.template._replace(q_WB=random_state(rng).q_WB, v_W=Vec3(*rng.normal(size=3))) for _ in range(2)
    )
    negated = state._replace(q_WB=-state.q_WB)
    assert flatten(difference(negated, origin)) == pytest.approx(flatten(difference(state, origin)), rel=1e-14)
    delta = unflatten(NO_DIFFERENCE, iter(rng.uniform(-1.1, 1.1, 12).tolist()))  # |δθ| < 2, half a turn
    assert flatten(difference(displace(origin, delta), origin)) == pytest.approx(flatten(delta), rel=1e-12, abs=1e-14)
    restored = displace(origin, difference(state, origin))
    sign = math.copysign(1.0, np.dot(restored.q_WB, state.q_WB))
    assert np.array(restored.q_WB) == pytest.approx(sign * np.array(state.q_WB), abs=1e-14)


def best_in_box(Q, q, low, high):
    best = np.inf
    for active_set in itertools.product((-1, 0, 1), repeat=4):
        x = np.where(np.array(active_set) < 0, low, np.where(np.array(active_set) > 0, high, 0.0))
        free, fixed = np.flatnonzero(np.array(active_set) == 0), np.flatnonzero(active_set)
        if len(free):
            x[free] = np.linalg.solve(Q[np.ix_(free, free)], -(q[free] + Q[np.ix_(free, fixed)] @ x[fixed]))
        if (x >= low).all() and (x <= high).all():
            best = min(best, 0.5 * x @ Q @ x + q @ x)
    return best


def test_a_stage_is_the_minimum_over_the_input():
    """V(x) and v of a stage against direct minimisation of the quadratic over u, without damping, smoothing, limits."""
    rng = np.random.default_rng(7)
    root, M, H_root = rng.normal(size=(12, 12)), rng.normal(size=(12, 16)), rng.normal(size=(16, 16))
    V, H, v, g = root @ root.T, H_root @ H_root.T, rng.normal(size=(12, 1)), rng.normal(size=(16, 1))
    limits, current = InputLimits([-1e6] * 4, [1e6] * 4), [0.0] * 4
    result = solve_stage(StageModel(V, v, M, H, g), StageInputs(limits, current, 0.0), None, np.zeros((4, 4)), NUMPY)
    Q, q = M.T @ V @ M + H, M.T @ v + g
    inverse = np.linalg.inv(Q[12:, 12:] + 1e-6 * np.eye(4))
    assert result.gains[:, :12] == pytest.approx(-inverse @ Q[12:, :12], rel=1e-9)
    without_u = Q[:12, 12:] @ np.linalg.inv(Q[12:, 12:])
    assert np.array(result.V) == pytest.approx(Q[:12, :12] - without_u @ Q[12:, :12], rel=1e-6)
    assert np.array(result.v) == pytest.approx(q[:12] - without_u @ q[12:], rel=1e-6)


# The reference -----------------------------------------------------------------------------------------------------


def test_ilqr_velocity_and_position_of_the_reference_are_propagated_along_the_horizon(mpc):
    """v_k = v_des − (v_des − v₀) (1 − g dt)ᵏ in closed form, p its integral; so a_ref lasts, and with it the tilt.

    The code behind the document overwrote v in every step: a_ref vanished after the first.
    """
    v0, offset = Vec3(0.2, -0.1, 0.0), np.array([0.9, 0.4, 0.3])
    result = mpc.solve(HOVER._replace(v_W=v0), HOVER_POSITION + offset)
    k, dt, gain = np.arange(21)[:, None], 0.05, 2.0
    v_desired = 1.4 * offset
    v = v_desired - (v_desired - np.array(v0)) * (1.0 - gain * dt) ** k
    a = gain * (v_desired - v)
    p = HOVER_POSITION + np.vstack([np.zeros(3), np.cumsum(v[:-1] * dt + 0.5 * a[:-1] * dt**2, axis=0)])
    assert result.goals[:, 3:6] == pytest.approx(v, abs=1e-13)
    assert result.goals[:, :3] == pytest.approx(p, abs=1e-13)
    force = a + (0.0, 0.0, 9.81) + np.array(CRAZYFLIE["drag"].linear) * v / CRAZYFLIE.mass
    b3 = force / np.linalg.norm(force, axis=1)[:, None]
    assert result.goals[:, 6:9] == pytest.approx(b3, abs=1e-13)
    assert (result.goals[:, 6:9] @ offset > 0.3).all()


def test_an_updated_reference_ends_at_its_target(mpc):
    """As documented, v_des is that of the start and 3 s of it overshoot; updated, p̈ = 2 (1.4 (p_t − p) − ṗ) converges."""
    ends = []
    for follow in (0.0, 1.0):
        solver = MPC(CRAZYFLIE, horizon=60, reference_follow=follow)
        ends.append(solver.solve(HOVER, offset_position(1.0, 0.0, 0.0)).goals[-1, 0])
    rate, turn = 1.0, math.sqrt(2.8 - 1.0)
    expected = 1.0 - math.exp(-rate * 3.0) * (math.cos(turn * 3.0) + rate / turn * math.sin(turn * 3.0))
    assert ends[0] > 3.0
    assert ends[1] == pytest.approx(expected, abs=0.01)


def test_the_references_speed_and_acceleration_are_limited(mpc):
    """Far away: |v| grows by no more than 8 m/s² and ends at 4 m/s."""
    goals = mpc.solve(HOVER, offset_position(30.0, -40.0, 0.0)).goals
    steps = np.linalg.norm(np.diff(goals[:, 3:6], axis=0), axis=1) / 0.05
    assert steps.max() == pytest.approx(8.0, rel=1e-12)
    assert np.linalg.norm(goals[:, 3:6], axis=1).max() <= 4.0


def test_without_drag_the_desired_thrust_is_that_of_the_document():
    """b₃ ∥ a + g e₃."""
    bare = build_prediction_model(CRAZYFLIE.without_effect("drag", "damping"), MpcOptions(dt=0.05))
    goal = mpc_target(Reference(HOVER.p_W, Vec3(3.0, 1.0, -2.0), Vec3(4.0, -2.0, 1.0)), bare)
    thrust = np.array([4.0, -2.0, 1.0 + 9.81])
    assert np.array(goal.b3_W) == pytest.approx(thrust / np.linalg.norm(thrust), rel=1e-14)


def test_a_trajectory_is_sampled_at_the_times_of_the_horizon(mpc):
    """p, v and b₃ of the goals are those of the trajectory at t + k dt, whether it can be traced (circle) or not (race)."""
    circle = trajectory.circle(HOVER_POSITION, radius=0.8, speed=1.0, laps=3.0, yaw="along")
    race = trajectory.race([(0, 0, 1), (1, 0, 1.5), (1, 1, 1)], speed=1.5)
    for path, time in ((circle, 1.3), (race, 0.4)):
        goals = mpc.solve(HOVER, path, time=time).goals
        for k in (0, 6, 20):
            expected = mpc_target(path.evaluate(time + 0.05 * k), mpc.model)
            assert goals[k] == pytest.approx(np.array(flatten(expected)), abs=1e-12)


def test_a_single_reference_is_extrapolated(mpc):
    """v + a t, and p by its integral; without velocity or acceleration it is a point to go to."""
    moving = Reference(HOVER.p_W, Vec3(1.0, 0.0, 0.0), Vec3(0.0, 1.5, 0.0))
    goals = mpc.solve(HOVER, moving).goals
    t = 0.05 * np.arange(21)[:, None]
    assert goals[:, 3:6] == pytest.approx(np.array([[1.0, 0, 0]]) + t * np.array([[0, 1.5, 0]]), abs=1e-14)
    assert goals[:, :3] == pytest.approx(
        HOVER_POSITION + t * np.array([[1.0, 0, 0]]) + t**2 / 2 * np.array([[0, 1.5, 0]]), abs=1e-14
    )
    point = mpc.solve(HOVER, Reference(Vec3(1.0, 0.0, 1.0)))
    assert point.goals == pytest.approx(mpc.solve(HOVER, (1.0, 0.0, 1.0)).goals, abs=0.0)


# Integrators -------------------------------------------------------------------------------------------------------


def exact_motion(x0, controls, dt):
    """The continuous motion under constant inputs, by SciPy's eighth-order integrator."""
    model, rows = build_prediction_model(CRAZYFLIE, MpcOptions(dt=dt)), [np.array(x0)]
    for u in controls:

        def rate(_, x, u=u):
            return np.array(flatten(model.rate(unflatten(model.template, iter(x.tolist())), tuple(u.tolist()))))

        rows.append(solve_ivp(rate, (0.0, dt), rows[-1], method="DOP853", rtol=1e-10, atol=1e-12).y[:, -1])
    return np.array(rows)


def test_ilqr_rk4_predicts_the_motion_and_euler_does_not(mpc):
    """The planned states against the exact motion under the planned inputs: Euler, the document's method, is far less accurate.

    The states of each solver are x + dt f(x) and RK4's step of the same equation of motion.
    """
    euler = MPC(CRAZYFLIE, integrator="euler")
    target = offset_position(1.0, 0.5, 0.0)
    errors = {}
    for name, solver in (("rk4", mpc), ("euler", euler)):
        result = solver.solve(HOVER, target)
        exact = exact_motion(result.states[0], result.controls[:10], 0.05)
        errors[name] = np.abs(result.states[:11, :3] - exact[:, :3]).max()
        x, u = unflatten(solver.model.template, iter(result.states[3].tolist())), tuple(result.controls[3].tolist())
        assert result.states[4] == pytest.approx(
            state_vector(samara.step(x, u, solver.model.body, 0.05, name)), abs=1e-13
        )
    assert errors["rk4"] < 5e-5
    assert errors["euler"] > 100.0 * errors["rk4"]


# Plans -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("direction", DIRECTIONS, ids=lambda d: "{:+.0f}{:+.0f}{:+.0f}".format(*d))
def test_from_hover_the_first_input_tilts_towards_the_waypoint(mpc, direction):
    """Hover is not a local minimum: the first torque tilts b₃ towards the waypoint; vertically, the thrust changes."""
    result = mpc.solve(HOVER, HOVER_POSITION + direction)
    thrust, *torque = result.controls[0]
    horizontal = np.array([*direction[:2], 0.0])
    assert np.cross(torque, (0.0, 0.0, 1.0)) @ horizontal > 1e-5 or not horizontal.any()
    b3 = np.array(thrust_axis(result.state(3)))
    if horizontal.any():
        assert b3 @ horizontal > 0.05
    else:
        assert np.abs(torque).max() < 1e-15
        assert (thrust - mpc.model.hover_input[0]) * direction[2] > 0.01
    assert (result.states[-1, :3] - HOVER_POSITION) @ direction > 0.5 * direction @ direction


def test_ilqr_every_knob_changes_the_plan(mpc):
    """Scaling any weight, gain or limit by 0.7 changes the plan to a near or a far target; the horizon is as requested."""
    state = HOVER._replace(v_W=Vec3(0.3, -0.2, 0.1), omega_B=Vec3(0.1, 0.2, 0.3))

    def plans(solver):
        return np.array(
            [
                solver.solve(state, offset_position(*offset), iterations=3).controls
                for offset in ((0.2, 0.3, 0.1), (9.0, -5.0, 2.0))
            ]
        )

    default_plans = plans(mpc)
    options = {**mpc.weights._asdict(), **mpc.shaping._asdict()}
    active = {name: value for name, value in options.items() if value}
    assert len(active) == 14
    for name, value in active.items():
        assert np.abs(plans(MPC(CRAZYFLIE, **{name: 0.7 * value})) - default_plans).max() > 1e-7, name
    assert plans(MPC(CRAZYFLIE, horizon=25)).shape == (2, 25, 4)


def test_at_the_target_it_hovers(mpc):
    """At the target the plan is the trim and costs nothing."""
    result = mpc.solve(HOVER, HOVER_POSITION)
    assert result.converged and result.cost == pytest.approx(0.0, abs=1e-20)
    assert result.controls == pytest.approx(np.tile(mpc.model.hover_input, (20, 1)), abs=1e-9)
    command, _ = mpc(HOVER, HOVER_POSITION, CRAZYFLIE, mpc.initial_state)
    assert command == pytest.approx(HOVER_COMMAND, abs=1e-9)


def test_the_sign_of_the_quaternion_makes_no_difference(mpc):
    """q and −q are one attitude."""
    state = random_state(np.random.default_rng(8))
    one, other = (mpc.solve(state._replace(q_WB=q), offset_position(1.0, 0.0, 0.5)) for q in (state.q_WB, -state.q_WB))
    assert one.controls == pytest.approx(other.controls, abs=1e-13)
    assert one.cost == pytest.approx(other.cost, rel=1e-12)


def test_the_solution_is_invariant_to_yaw(mpc):
    """Rotating the problem by a yaw, also beyond π, rotates the trajectory and leaves the inputs unchanged."""
    state, offset = random_state(np.random.default_rng(9)), np.array([1.0, -0.5, 0.3])
    plain = mpc.solve(state, HOVER_POSITION + offset)
    for yaw in (0.7, 3.0, -3.0, math.pi, 7.0):
        R = Rotation.from_euler("z", yaw)
        q = quat_from_euler(0.0, 0.0, yaw)
        rotated = state._replace(v_W=rotate(q, state.v_W), q_WB=q * state.q_WB)
        result = mpc.solve(rotated, HOVER_POSITION + R.apply(offset))
        assert result.controls == pytest.approx(plain.controls, abs=1e-11)
        assert result.states[:, :3] - HOVER_POSITION == pytest.approx(
            R.apply(plain.states[:, :3] - HOVER_POSITION), abs=1e-11
        )


@pytest.mark.long
def test_yaw_is_left_alone_unless_weighed():
    """With yaw_weight the nose turns to the desired yaw, in the shorter direction; without it only the yaw rate has a cost."""
    solver = MPC(CRAZYFLIE, horizon=40, yaw_weight=8.0)
    state = HOVER._replace(q_WB=quat_from_euler(0.0, 0.0, 3.0))
    near, wrapped = (solver.solve(state, HOVER_POSITION, yaw=yaw) for yaw in (-3.0, -3.0 + 2.0 * math.pi))
    assert near.controls == pytest.approx(wrapped.controls, abs=1e-12)
    assert near.controls[0, 3] > 1e-6  # 3 → −3 is 0.28 rad counter-clockwise
    nose = rotate(near.state(40).q_WB, Vec3(1.0, 0.0, 0.0))
    assert math.atan2(nose.y, nose.x) == pytest.approx(-3.0, abs=0.06)


def test_limits_are_never_exceeded():
    """Never, in a thousand plans between random states; nor with rotor thrusts as inputs."""
    rng = np.random.default_rng(10)
    for solver in (MPC(CRAZYFLIE), MPC(CRAZYFLIE, inputs="rotors"), MPC(CRAZYFLIE, limits=DOCUMENTED_LIMITS)):
        low, high = (np.array(limit) for limit in solver.model.limits)
        at_limit = 0
        for _ in range(100):
            result = solver.solve(
                random_state(rng, 1.5, 5.0, 10.0), HOVER_POSITION + rng.uniform(-8, 8, 3), iterations=6
            )
            assert (result.controls >= low).all() and (result.controls <= high).all()
            at_limit += int(((result.controls == low) | (result.controls == high)).sum())
        assert at_limit > 100


def test_damping_depends_on_the_accepted_step_size():
    """Times ten if no step is accepted, three after a small one, unchanged after a middling one, a fifth after a large one"""

    def next_damping(damping, alpha, decrease=0.1):
        return choose_rollout([1.0 - decrease], [alpha], Progress(1.0, damping), -0.1, 0.0, 1e-9).damping

    assert [next_damping(x, 1.0, decrease=-0.1) for x in (0.0, 1e-5, 0.02)] == pytest.approx(
        [1e-3, 1e-3, 0.2], rel=1e-12
    )
    assert [next_damping(x, 0.1) for x in (0.0, 0.02)] == pytest.approx([1e-3, 0.06], rel=1e-12)
    assert [next_damping(x, 0.3) for x in (0.0, 0.02)] == [0.0, 0.02]
    assert [next_damping(x, 0.5) for x in (0.02, 1.05e-6, 0.95e-6)] == pytest.approx([4e-3, 2.1e-7, 0.0], rel=1e-12)


def test_by_name_a_turned_nose_costs_what_a_tilt_does():
    """The iLQR document has no yaw weight; references of scenarios have a yaw."""
    assert create_controller("mpc", CRAZYFLIE).call.weights.yaw_weight == CostWeights().tilt_weight


def test_the_documented_limits_are_all_thrust_and_more_torque_than_there_is():
    """The document allows the thrust of the Crazyflie's rotors at top speed, 4 k Ω², and torques beyond those of its motors."""
    vehicle = samara.vehicle("crazyflie_documented")
    assert DOCUMENTED_LIMITS.high[0] == pytest.approx(4.0 * 2.88e-8 * 2500.0**2, rel=1e-12)
    assert DOCUMENTED_LIMITS.low == (0.0, *(-limit for limit in DOCUMENTED_LIMITS.high[1:]))
    assert all(
        documented > available
        for documented, available in zip(DOCUMENTED_LIMITS.high[1:], wrench_limits(vehicle).high[1:], strict=True)
    )


def test_the_limits_are_those_of_the_motors():
    """At the largest torque in hover, one of the rotors that give it is at a limit, none beyond."""
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
def test_rotor_inputs_give_the_wrench_of_the_rotors():
    """The predicted wrench is B T, and a hexarotor's plan stays within each rotor's thrust."""
    vehicle = samara.vehicle("hexarotor_tilted")
    solver = MPC(vehicle, inputs="rotors")
    thrusts = np.random.default_rng(11).uniform(1.0, 5.0, 6)
    predicted = solver.model.wrench(tuple(thrusts.tolist()))
    assert np.array([*predicted.f_B, *predicted.tau_B]) == pytest.approx(effectiveness(vehicle) @ thrusts, rel=1e-12)
    state, command = samara.hover(vehicle)
    result = solver.solve(state, np.array(state.p_W) + np.array([1.0, 0.5, 0.5]))
    assert result.controls.shape == (20, 6)
    assert result.states[-1, 0] > 0.4 and result.converged
    command_at_hover, _ = solver(state, state.p_W, vehicle, ())
    assert command_at_hover == pytest.approx(command, rel=1e-6)


def test_an_obstacle_is_flown_round():
    """A sphere in the path: without it the plan passes through, with it around; and a tilt limit is respected, both to 1e-3."""
    target = offset_position(2.0, 0.0, 0.0)
    centre, radius = offset_position(0.7, 0.05, 0.0), 0.3
    options = {"horizon": 40, "max_iterations": 200, "reference_follow": 1.0}
    plain = MPC(CRAZYFLIE, **options)
    avoiding = MPC(CRAZYFLIE, **options, obstacles=[(centre, radius)], max_tilt=math.radians(20.0))
    direct_plan, detour = (solver.solve(HOVER, target) for solver in (plain, avoiding))
    distance = [np.linalg.norm(plan.states[:, :3] - centre, axis=1).min() for plan in (direct_plan, detour)]
    assert distance[0] < 0.6 * radius
    assert distance[1] > 0.999 * radius and detour.converged
    tilts = [
        max(math.acos(min(1.0, thrust_axis(plan.state(k)).z)) for k in range(41)) for plan in (direct_plan, detour)
    ]
    assert tilts[0] > math.radians(25.0)
    assert tilts[1] < math.radians(20.0) * 1.001
    assert detour.states[-1, 0] > 1.7


# Flight ------------------------------------------------------------------------------------------------------------


def simulate(solver, vehicle, start, target, seconds, rate=100, controller=None):
    """Simulate the vehicle, with motor lag and ground, at 1 kHz under the controller; states (n, 13) at its rate."""
    plant = Plant(vehicle)
    state, command = samara.hover(vehicle, start)
    set_plant_state(plant, 0, state)
    plant.command[:, 0] = command
    controller_state, tick, rows = solver.initial_state, 1_000_000 // rate, []
    for k in range(int(seconds * rate)):
        state = plant_state(plant, 0)
        rows.append(state_vector(state))
        plant.command[:, 0], controller_state = solver(state, target, vehicle, controller_state)
        plant.advance(k * tick, (k + 1) * tick)
    return np.array(rows)


def test_it_flies_to_waypoints_in_all_directions_and_stays():
    """26 waypoints: within 5 cm after 6 s and for 2 s more, through motors with lag, one iteration 50 times a second."""
    solver, start = MPC(CRAZYFLIE, period=0.02), np.array([0.0, 0.0, 3.0])
    for direction in DIRECTIONS:
        path = simulate(solver, CRAZYFLIE, start, start + direction, 8.0, rate=50)
        position_error = np.linalg.norm(path[:, :3] - (start + direction), axis=1)
        assert position_error[300:].max() < 0.05, direction
        cross_track = (
            path[:, :3] - start - np.outer((path[:, :3] - start) @ direction, direction) / (direction @ direction)
        )
        # height changes at once, horizontal position after tilting: 84 mm beside the line at the tilt rate of the geometric
        # controller. The distance grows as 1/rate: 107 mm at 0.8 of it, which gives iris 37° of phase margin instead of 34°
        assert np.abs(cross_track).max() < 0.1 / 0.8, direction


@pytest.mark.long
@pytest.mark.parametrize("name", samara.vehicle_names())
def test_every_vehicle_flies_with_it(name):
    """With the default weights: 1 m and 5 m away within 5 cm after 7 s, at 50 and at 100 Hz."""
    vehicle, start = samara.vehicle(name), np.array([0.0, 0.0, 5.0])
    for rate, offset in itertools.product((50, 100), ((1.0, 1.0, 1.0), (5.0, 0.0, 0.0))):
        path = simulate(MPC(vehicle, period=1.0 / rate), vehicle, start, start + offset, 8.0, rate)
        assert np.linalg.norm(path[7 * rate :, :3] - start - offset, axis=1).max() < 0.05


@pytest.mark.long
def test_motor_lag_tumbles_a_plan_without_lead(monkeypatch):
    """torque_weight 5e-4 through the measured 72 ms of lag tumbles without the lead and arrives with it."""
    vehicle = samara.vehicle("crazyflie").without_effect("airspeed_moment", "damping", "rotor_momentum")
    start, offset = np.array([0.0, 0.0, 5.0]), np.array([1.0, 1.0, 1.0])

    def fastest_turn_and_error(weight):
        path = simulate(MPC(vehicle, torque_weight=weight), vehicle, start, start + offset, 6.0)
        return np.abs(path[:, 10:]).max(), np.linalg.norm(path[-1, :3] - start - offset)

    for weight in (5e-4, default_torque_weight(vehicle)):
        turn, error = fastest_turn_and_error(weight)
        assert turn < 5.0 and error < 0.05
    for module in ("controller", "flight"):
        monkeypatch.setattr(f"samara.control.mpc.{module}.initial_lead_observer", lambda vehicle: None)
    assert fastest_turn_and_error(5e-4)[0] > 30.0


@pytest.mark.long
def test_slow_motors_at_20_hz_do_not_turn_the_vehicle_over(monkeypatch):
    """Two starts of the comparison with other solvers, from which plans that turn over are flown unless they are replaced."""
    from mpc_compare import vehicle_flights
    from mpc_problems import draw_problems

    problems = [draw_problems("middle")[i] for i in (15, 49)]
    fly = vehicle_flights("crazyflie_documented", 40)
    assert max(fly(problem).tilt for problem in problems) < 60.0
    monkeypatch.setattr(BatchController, "_plan_turns_over", lambda self: False)
    assert max(fly(problem).tilt for problem in problems) > 90.0


def test_it_follows_a_figure_of_eight():
    """It previews the trajectory and tilts in time: the error is below 10 cm."""
    solver = MPC(CRAZYFLIE, position_weight=100.0)
    figure_eight = trajectory.figure8((0.0, 0.0, 2.0), half_length=1.0, speed=1.0, laps=2.0)
    path = simulate(solver, CRAZYFLIE, (0.0, 0.0, 2.0), figure_eight, 8.0)
    desired = np.array([figure_eight.evaluate(0.01 * k).p_W for k in range(len(path))])
    assert np.linalg.norm(path[:, :3] - desired, axis=1).max() < 0.1


def test_a_real_time_iteration_warm_started_keeps_up(mpc):
    """One iteration from the shifted plan of the previous step costs at most 1 % more than solving to convergence each time."""
    state = HOVER
    controller_state = mpc.initial_state
    model, worst = mpc.model, 0.0
    for _ in range(40):
        single_iteration = mpc.solve(
            state,
            offset_position(1.0, 0.5, 0.3),
            warm_start=controller_state.controls,
            shift=0.05,
            before=controller_state.previous_input,
            iterations=1,
        )
        converged = mpc.solve(
            state, offset_position(1.0, 0.5, 0.3), before=controller_state.previous_input, iterations=30
        )
        if controller_state is not mpc.initial_state and converged.cost > 1e-6:
            worst = max(worst, single_iteration.cost / converged.cost - 1.0) if controller_state.time > 0.1 else worst
        u = tuple(single_iteration.controls[0].tolist())
        controller_state = controller_state._replace(
            controls=single_iteration.controls, previous_input=u, time=controller_state.time + 0.05
        )
        state = unflatten(
            model.template,
            iter(state_vector(model.step(unflatten(model.template, iter(state_vector(state).tolist())), u)).tolist()),
        )
    assert worst < 0.01


def test_the_same_call_gives_the_same_answer(mpc):
    """Earlier calls have no effect: state, target and controller state in, command and controller state out."""
    state, controller_state = random_state(np.random.default_rng(12)), mpc.initial_state
    first = mpc(state, offset_position(1.0, 0.0, 0.0), CRAZYFLIE, controller_state)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        mpc.solve(state._replace(v_W=Vec3(math.nan, 0.0, 0.0)), HOVER_POSITION)
    mpc.solve(random_state(np.random.default_rng(13)), offset_position(-4.0, 3.0, 1.0))
    again = mpc(state, offset_position(1.0, 0.0, 0.0), CRAZYFLIE, controller_state)
    assert first[0] == again[0]
    assert (first[1].controls == again[1].controls).all() and first[1].previous_input == again[1].previous_input


# Failures ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("state", "target", "reason"),
    [
        (HOVER._replace(p_W=Vec3(math.nan, 0.0, 1.0)), (0.0, 0.0, 1.0), "the state is not finite"),
        (HOVER._replace(omega_B=Vec3(0.0, math.inf, 0.0)), (0.0, 0.0, 1.0), "the state is not finite"),
        (HOVER._replace(q_WB=Quat(0.0, 0.0, 0.0, 0.0)), (0.0, 0.0, 1.0), "the state is not finite"),
        (HOVER, (0.0, math.nan, 1.0), "the target is not finite"),
        (HOVER, Reference(HOVER.p_W, Vec3(math.nan, 0.0, 0.0)), "the reference is not finite"),
        (HOVER, Reference(HOVER.p_W, Vec3(1e200, 0.0, 0.0)), "the predicted cost is not finite"),
    ],
)
def test_an_unsolvable_problem_gives_hover_and_a_warning(mpc, state, target, reason):
    """NaN in the state or the target, or an enormous reference: the hover command, and a warning with the reason."""
    with pytest.warns(RuntimeWarning, match=reason):
        command, controller_state = mpc(state, target, CRAZYFLIE, mpc.initial_state)
    assert command == pytest.approx(HOVER_COMMAND, abs=1e-9)
    assert np.isfinite(controller_state.controls).all()
    next_command, _ = mpc(HOVER, HOVER_POSITION, CRAZYFLIE, controller_state)
    assert next_command == pytest.approx(HOVER_COMMAND, abs=1e-6)


def test_a_target_out_of_reach_is_flown_towards(mpc):
    """Towards an extremely distant point: a finite plan within the limits, tilted towards it, upright at all times."""
    for target in ((1e6, 0.0, 1.0), (0.0, 0.0, -1e9), (-1e12, 1e12, 1e12)):
        result = mpc.solve(HOVER, target)
        assert np.isfinite(result.states).all() and result.cost < math.inf
        assert (np.array(target) - HOVER_POSITION) @ (result.states[-1, :3] - HOVER_POSITION) > 0.0
        assert all(thrust_axis(result.state(k)).z > 0.0 for k in range(21))


def test_options_are_checked_in_one_sentence():
    """Messages contain the option, its value and the expected value."""
    for options, sentence in (
        ({"horizon": 0}, "horizon = 0: expected a whole number"),
        ({"dt": -0.1}, "dt = -0.1: expected a positive number"),
        ({"position_weight": -1.0}, "position_weight = -1.0: expected a number that is not negative"),
        ({"max_reference_velocity": 0.0}, "max_reference_velocity = 0.0: expected a positive number"),
        ({"line_search": (2.0,)}, "line_search = "),
        ({"integrator": "rk45"}, "integrator = 'rk45': expected one of euler, midpoint, rk4"),
        ({"inputs": "pwm"}, "inputs = 'pwm': expected one of wrench, rotors"),
        ({"obstacles": [((0.0, 0.0, 1.0), -1.0)]}, "obstacles"),
        ({"limits": InputLimits((0.0,), (1.0,))}, "limits = "),
        (
            {"limits": InputLimits((0.5, -1, -1, -1), (1.0, 1, 1, 1))},
            "the hover input 0.27468 is not between 0.5 and 1",
        ),
    ):
        with pytest.raises(ValueError, match=sentence.replace("(", r"\(")):
            MPC(CRAZYFLIE, **options)
    with pytest.raises(TypeError, match="MPC has no option 'positon_weight'; did you mean position_weight"):
        MPC(CRAZYFLIE, positon_weight=1.0)
    with pytest.raises(ValueError, match="has no rotors; expected 'wrench'"):
        MPC(samara.vehicle("rigid_body_quadrotor"), inputs="rotors")


def test_arguments_are_checked_in_one_sentence(mpc):
    """Messages about wrong shapes contain the expected ones."""
    with pytest.raises(ValueError, match="state has 4 numbers; expected a State, or the 13"):
        mpc.solve((0.0, 0.0, 1.0, 0.0), HOVER_POSITION, layout="wxyz")
    with pytest.raises(ValueError, match=r"warm_start has shape \(3, 4\); expected \(20, 4\)"):
        mpc.solve(HOVER, HOVER_POSITION, warm_start=np.zeros((3, 4)))
    with pytest.raises(ValueError, match=r"states have shape \(12, 3\)"):
        mpc.solve_batch(np.zeros((12, 3)), HOVER_POSITION, layout="wxyz")
    with pytest.raises(ValueError, match="expected llvm or jax"):
        mpc.solve_batch(np.zeros((13, 3)), HOVER_POSITION, backend="cuda")


def test_the_result_is_complete(mpc):
    """Shapes, names, and consistent durations; a layout converts to the document's order of the quaternion."""
    result = mpc.solve(HOVER, offset_position(1.0, 0.0, 0.0))
    assert result.controls.shape == (20, 4) and result.states.shape == (21, 13) and result.gains.shape == (20, 4, 12)
    assert result.goals.shape == (21, 12)
    assert result.states[0] == pytest.approx(state_vector(HOVER), abs=0.0)
    times = result.durations
    assert 0.0 < times.derivatives + times.backward + times.rollouts < times.total
    assert repr(result).startswith("Result(cost=") and "converged" in repr(result)
    xyzw = result.state(5).to_numpy("xyzw")
    assert xyzw[6:10] == pytest.approx(np.roll(result.states[5, 6:10], -1), abs=0.0)
    assert result.layout == "wxyz" and result.state(5).q_WB == tuple(result.states[5, 6:10])
    assert "crazyflie_documented" in repr(mpc)


@pytest.mark.filterwarnings("error")
def test_ilqr_the_quaternion_of_a_bare_array_has_its_order_stated(mpc):
    """The iLQR document's level attitude, (0, 0, 0, 1), read w first is yaw 180°, and the pitch towards +x changes sign.

    An array therefore needs a layout, and the result is in it; a state names its components and needs none.
    """
    document = HOVER.to_numpy("xyzw")[:13]
    assert list(document[6:10]) == [0.0, 0.0, 0.0, 1.0]
    target = offset_position(1.0, 0.0, 0.0)
    from_array, as_state = mpc.solve(document, target, layout="xyzw"), mpc.solve(HOVER, target)
    assert np.array_equal(from_array.controls, as_state.controls) and from_array.controls[0, 2] > 0.0
    assert np.array_equal(from_array.states[:, [*range(6), 9, 6, 7, 8, *range(10, 13)]], as_state.states)
    assert from_array.layout == "xyzw" and from_array.state(7) == as_state.state(7)
    assert np.array_equal(mpc.solve(HOVER, target, layout="xyzw").states, from_array.states)
    wrong = mpc.solve(document, target, layout="wxyz")
    assert wrong.controls[0, 2] < 0.0
    for solve, x in ((mpc.solve, document), (mpc.solve_batch, document[:, None])):
        with pytest.raises(ValueError, match="an array without a layout: expected layout= one of wxyz, xyzw"):
            solve(x, target)
    fleet = np.tile(document[:, None], (1, 3))
    batch = mpc.solve_batch(fleet, target, layout="xyzw", dtype="float64")
    named = mpc.solve_batch(State.from_numpy(fleet, "xyzw"), target, dtype="float64")
    assert np.array_equal(batch.states[0], fleet) and (batch.layout, named.layout) == ("xyzw", "wxyz")
    assert np.array_equal(batch.states[:, [9, 6, 7, 8]], named.states[:, 6:10])


def test_without_a_solution_the_states_are_in_the_layout_too(mpc):
    """The result is level hover, in the requested order."""
    invalid_state = np.full(13, np.nan)
    with pytest.warns(RuntimeWarning, match="the state is not finite"):
        assert mpc.solve(invalid_state, HOVER_POSITION, layout="xyzw").state(3).q_WB == (1.0, 0.0, 0.0, 0.0)


def test_feedback_gains_steer_the_plan_back(converged_mpc):
    """u + K δx from a state near the start costs less than the same inputs without feedback."""
    target = offset_position(1.0, 0.5, 0.2)
    plan = converged_mpc.solve(HOVER, target)
    deviation = np.array([0.05, -0.04, 0.02, 0.1, 0.1, -0.1, 0.05, -0.08, 0.0, 0.3, -0.2, 0.0])
    model = converged_mpc.model
    ends = []
    for feedback in (0.0, 1.0):
        state = displace(
            unflatten(model.template, iter(plan.states[0].tolist())), unflatten(NO_DIFFERENCE, iter(deviation.tolist()))
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


def random_problems(count):
    rng = np.random.default_rng(14)
    states = np.stack([state_vector(random_state(rng, 0.4, 1.0, 1.0)) for _ in range(count)], axis=1)
    return states, HOVER_POSITION[:, None] + rng.uniform(-1.5, 1.5, (3, count))


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [pytest.param("float64", 1e-9, marks=pytest.mark.long), ("float32", 1e-3)]
)
def test_problems_in_lanes_are_solved_as_alone(mpc, dtype, tolerance):
    """Every lane of full and partial tiles gets the costs and inputs of a single solution."""
    solver = MPC(CRAZYFLIE, tolerance=0.0)
    states, targets = random_problems(21)
    batch = solver.solve_batch(states, targets, layout="wxyz", iterations=8, dtype=dtype)
    assert batch.controls.shape == (20, 4, 21) and batch.states.shape == (21, 13, 21)
    assert batch.controls.dtype == dtype
    for i in range(21):
        single = solver.solve(states[:, i], targets[:, i], layout="wxyz", iterations=8)
        assert batch.cost[i] == pytest.approx(single.cost, rel=tolerance)
        scale = np.array(solver.model.limits.high)
        assert np.abs((batch.controls[:, :, i] - single.controls) / scale).max() < tolerance
    warm = solver.solve_batch(states, targets, layout="wxyz", warm_start=batch, iterations=1, dtype=dtype)
    assert (warm.cost <= batch.cost * (1.0 + tolerance)).all()


def test_a_bad_problem_spoils_only_itself(mpc):
    """NaN in one lane: hover for that one, a warning, and the others untouched."""
    states, targets = random_problems(5)
    valid = mpc.solve_batch(states, targets, layout="wxyz", dtype="float64")
    states[0, 2] = np.nan
    with pytest.warns(RuntimeWarning, match="1 of 5 problems have no finite cost"):
        batch = mpc.solve_batch(states, targets, layout="wxyz", dtype="float64")
    valid_lanes = [0, 1, 3, 4]
    assert (batch.controls[:, :, valid_lanes] == valid.controls[:, :, valid_lanes]).all()
    assert batch.controls[:, :, 2] == pytest.approx(np.tile(mpc.model.hover_input, (20, 1)), abs=0.0)
    assert not batch.converged[2]


def test_a_batch_of_states_is_a_state_of_arrays(mpc):
    """One target serves all."""
    states, _ = random_problems(4)
    fleet = State.from_numpy(states, "wxyz")
    target = offset_position(0.5, 0.0, 0.0)
    from_array, from_state = (
        mpc.solve_batch(x, target, layout="wxyz", dtype="float64", iterations=2) for x in (states, fleet)
    )
    assert (from_array.controls == from_state.controls).all()


@pytest.mark.long
@pytest.mark.parametrize(("dtype", "tolerance"), [("float64", 1e-9), ("float32", 2e-3)])
def test_jax_solves_what_the_lanes_solve(dtype, tolerance):
    """The same functions through XLA: costs and inputs agree."""
    pytest.importorskip("jax")
    solver = MPC(CRAZYFLIE, tolerance=0.0)
    states, targets = random_problems(6)
    by_llvm = solver.solve_batch(states, targets, layout="wxyz", iterations=4, dtype=dtype)
    by_jax = solver.solve_batch(states, targets, layout="wxyz", iterations=4, dtype=dtype, backend="jax")
    assert np.asarray(by_jax.cost) == pytest.approx(by_llvm.cost, rel=tolerance)
    scale = np.array(solver.model.limits.high)[:, None]
    assert np.abs((np.asarray(by_jax.controls) - by_llvm.controls) / scale).max() < tolerance


# Machine code ------------------------------------------------------------------------------------------------------


def test_loops_run_forwards_and_backwards_over_steps_and_lanes():
    """A running sum over rows, forwards and backwards, on lanes side by side and on lanes far apart."""
    add = trace_program(lambda x, y: (x + y,), 0.0, 0.0)
    values = np.arange(24.0).reshape(6, 4)
    for reverse, lane in itertools.product((False, True), (1, 6)):
        arranged = values.copy() if lane == 1 else np.ascontiguousarray(values.T)
        step = 4 if lane == 1 else 1
        sums, rows = np.zeros(4), np.zeros(24)
        sum_spec = ArraySpec("sums", (0,), 0, 1)
        add_pass = Pass(add, (sum_spec, ArraySpec("values", (0,), step, lane)), (sum_spec,), 4)
        copy_pass = Pass(trace_program(lambda x: (x,), 0.0), (sum_spec,), (ArraySpec("rows", (0,), 4, 1),), 4)
        loops = compile_loops((ArrayLoop((add_pass, copy_pass), reverse=reverse),))
        arrays = {"sums": sums, "values": arranged, "rows": rows}
        table = np.array([arrays[name].ctypes.data for name in loops.names])
        loops.call(table.ctypes.data, 6)
        expected = values[::-1].cumsum(axis=0)[::-1] if reverse else values.cumsum(axis=0)
        assert (rows.reshape(6, 4) == expected).all()
        assert (sums == values.sum(axis=0)).all()


def test_a_box_step_that_settles_in_one_iteration_is_final(mpc):
    """If the first iteration changes no active set, it has the bits of all iterations; otherwise all are run."""
    problem, single_solver, rng = mpc.problem, mpc._solver, np.random.default_rng(2)
    trace = linearise(problem)
    layout = ArrayLayout(problem, trace)
    first_pass, full_pass = box_passes(problem, layout, FollowingStage(problem, trace, layout))
    guarded = compile_loops((ArrayLoop((first_pass, full_pass), position="start"),))
    first = compile_loops((ArrayLoop((first_pass,), position="start"),))
    always = compile_loops((ArrayLoop((first_pass, full_pass._replace(condition=None)), position="start"),))
    arrays = single_solver.start_arrays(nominal=single_solver.nominal)
    scratch, gains, sums = (arrays[name] for name in ("scratch", "gains", "sums"))
    half = 0.5 * (np.array(mpc.model.limits.high) - mpc.model.limits.low)
    corner, is_unsettled, indices = layout.blocks["Q"][12:, 12:16], [], layout.blocks["q"][0, 12:16]
    for strength in np.geomspace(1e-3, 3.0, 60):
        root = rng.normal(size=(4, 4)) / half
        scratch[:], gains[:], sums[:] = 0.0, 0.01 * rng.normal(size=gains.shape) * half[0], rng.normal(size=3)
        scratch[corner], scratch[indices] = (
            root.T @ root + np.diag(0.1 / half**2),
            strength * rng.normal(size=4) / half,
        )
        saved = [array.copy() for array in (scratch, gains, sums)]
        results = []
        for loops in (first, guarded, always):
            for array, saved_array in zip((scratch, gains, sums), saved, strict=True):
                array[:] = saved_array
            loops.call(arrays.table(loops), 1)
            results.append(np.concatenate([scratch, gains.ravel(), sums]))
        is_unsettled.append(bool(scratch[layout.unsettled.offsets[0]]))
        np.testing.assert_array_equal(results[1], results[2])
        assert (results[0] == results[1]).all() or is_unsettled[-1]
    assert 10 < sum(is_unsettled) < 50


def test_a_chain_makes_its_calls_in_turn():
    """x + 1, doubled, doubled: 4 (x + 1); another order gives another result"""
    value = np.array([2.5])
    spec = ArraySpec("x", (0,))
    increment, double = (
        compile_loops((ArrayLoop((Pass(trace_program(lambda x, f=f: (f(x),), 0.0), (spec,), (spec,), 1),)),))
        for f in (lambda x: x + 1.0, lambda x: 2.0 * x)
    )
    table = np.array([value.ctypes.data])
    CallChain((increment, table.ctypes.data, 1), (double, table.ctypes.data, 2))()
    assert value[0] == 14.0


def test_the_code_is_compiled_once_per_cost_structure(mpc):
    """Another horizon or other weights use the same machine code; a weight that is off needs another one."""
    other = MPC(CRAZYFLIE, horizon=33, position_weight=11.0, reference_velocity_gain=2.0)
    assert solver_code(other.problem) is solver_code(mpc.problem)
    without_smoothing = mpc.parameters._replace(weights=CostWeights(smoothing_weight=0.0))
    assert cost_structure(without_smoothing) != cost_structure(mpc.parameters)


# External accelerations, failed rotors, and references ahead ----------------------------------------------------------


def test_an_external_acceleration_is_added_to_a_step():
    """Without drag, an external acceleration changes p and v after dt by ½ a dt² and a dt, whatever the body does."""
    model = build_prediction_model(CRAZYFLIE.without_effect("drag"), MpcOptions(dt=0.05))
    acceleration = Vec3(1.2, -0.7, 0.4)
    state = random_state(np.random.default_rng(3))._replace(rotor_speed=(), effects=model.template.effects)
    calm, accelerated = (
        model.step(state, (0.3, 1e-4, 0.0, 2e-5)),
        model.step(state, (0.3, 1e-4, 0.0, 2e-5), acceleration),
    )
    assert flatten(accelerated.v_W - calm.v_W) == pytest.approx(flatten(acceleration * 0.05), rel=1e-12)
    assert flatten(accelerated.p_W - calm.p_W) == pytest.approx(flatten(acceleration * (0.5 * 0.05**2)), rel=1e-12)
    assert accelerated.q_WB == calm.q_WB and accelerated.omega_B == calm.omega_B


def test_a_known_external_acceleration_is_balanced_by_tilt(converged_mpc):
    """In a horizontal external acceleration a, the plan at rest is tilted by atan(a/g) with the thrust m √(g² + a²)."""
    a, g = 2.0, CRAZYFLIE["gravity"].acceleration
    tilt = math.atan(a / g)
    tilted = HOVER._replace(q_WB=Quat(math.cos(tilt / 2), 0.0, -math.sin(tilt / 2), 0.0))
    result = converged_mpc.solve(tilted, HOVER.p_W, push_W=(a, 0.0, 0.0))
    assert result.controls[0, 0] == pytest.approx(CRAZYFLIE.mass * math.hypot(g, a), rel=1e-3)
    assert np.abs(result.states[:, :3] - HOVER_POSITION).max() < 1e-3


def hover_in_wind(solver, seconds=20.0, wind=1.5):
    """Return the position error and the controller state after hovering in a wind from the west."""
    plant, controller_state = Plant(CRAZYFLIE), solver.initial_state
    set_plant_state(plant, 0, HOVER)
    plant.environment[0] = wind
    for k in range(round(seconds / solver.period)):
        period_us = round(1e6 * solver.period)
        plant.command[:, 0], controller_state = solver(plant_state(plant, 0), HOVER.p_W, CRAZYFLIE, controller_state)
        plant.advance(period_us * k, period_us * (k + 1))
    return np.array(plant_state(plant, 0).p_W) - HOVER_POSITION, controller_state


def test_a_steady_wind_leaves_no_offset():
    """The observed acceleration is the drag of the wind, d w/m; without an observer, the wind causes a permanent error."""
    error, controller_state = hover_in_wind(MPC(CRAZYFLIE))
    error_without_observer, _ = hover_in_wind(MPC(CRAZYFLIE, disturbance_time_constant=0.0))
    expected = CRAZYFLIE["drag"].linear.x * 1.5 / CRAZYFLIE.mass
    assert controller_state.acceleration_observer.push_W.x == pytest.approx(expected, rel=1e-10)
    assert np.linalg.norm(error) < 1e-5
    assert error_without_observer[0] > 1.0


def test_references_ahead_are_the_trajectory_they_come_from(mpc):
    """A `Reference` of arrays at the instants of `look_ahead` is the trajectory itself."""
    figure_eight, time = trajectory.figure8((0, 0, 1), half_length=1.0, speed=1.5), 0.37
    along = mpc.solve(HOVER, figure_eight, time=time)
    sampled = mpc.solve(HOVER, figure_eight.evaluate(time + mpc.look_ahead))
    np.testing.assert_allclose(sampled.goals, along.goals, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(sampled.controls, along.controls, rtol=1e-9, atol=1e-12)
    invalid = figure_eight.evaluate(time + mpc.look_ahead)._replace(p_W=Vec3(np.full(21, np.nan), 0.0, 1.0))
    with pytest.warns(RuntimeWarning, match="the reference is not finite; hovering instead"):
        mpc.solve(HOVER, invalid)


def test_a_failed_rotor_removes_its_thrust_and_the_yaw_it_balanced():
    vehicle = samara.vehicle("hexarotor_x")
    intact, failed = wrench_limits(vehicle), wrench_limits(vehicle, (False, True, True, True, True, True))
    highest = samara.vehicles.limits.thrust_limits(vehicle)[0].high
    assert intact.high[0] - failed.high[0] == pytest.approx(highest, rel=1e-12)
    assert failed.low[3] == failed.high[3] == 0.0 < intact.high[3]
    assert failed.high[1:3] == intact.high[1:3]


def test_in_a_scenario_it_previews_references_and_its_plans_are_recorded():
    """At instants common to both streams, the first position of the plan is the position of the drone."""
    run = samara.fly("figure8", settings={"drones.controller": "mpc", "duration": 4.0})
    plan = run.tables["predicted_path"]
    assert plan.fields[:3] == ("p_W[0].x", "p_W[0].y", "p_W[0].z") and len(plan.fields) == 63
    assert set(plan.units) == {"m"}
    is_common = plan.times_us % 20_000 == 0
    np.testing.assert_array_equal(plan.rows[is_common][:, :3], run.position[is_common])
    ahead = np.searchsorted(plan.times_us, 2_000_000)
    later = np.searchsorted(plan.times_us, 2_500_000)
    assert np.linalg.norm(plan.rows[ahead].reshape(21, 3)[10] - run.position[later]) < 0.01  # half a second later


@pytest.mark.long
@pytest.mark.parametrize(("speed", "bound"), [(1.0, 0.008), (3.0, 0.042)])
def test_figure_of_eight_error_with_slow_motors(speed, bound):
    """Through measured drag and motors with lag: 6.9 mm at 1 m/s, 38 mm at 3 m/s."""
    from samara.comparison.controllers import compare_on_trajectory

    (entry,) = compare_on_trajectory(samara.vehicle("crazyflie"), ("mpc",), speed=speed)
    assert not entry.crashed and entry.rmse < bound
