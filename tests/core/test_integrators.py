"""Laws of the integrators: exact solutions, observed orders, conserved quantities, and equal results for one drone or many."""

import math
from collections.abc import Callable
from functools import cache, partial
from typing import Any, NamedTuple

import casadi
import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.spatial.transform import Rotation
from scipy.special import ellipk
from support.traced_flights import make_body, rotation
from support.vehicle_parameters import shipped_vehicle_parameters

import samara
from samara.core.algebra import (
    IDENTITY,
    ZERO,
    Mat3,
    Quat,
    Vec3,
    diagonal,
    dot,
    norm,
    quat_exp,
    quat_from_euler,
    rotate_inverse,
)
from samara.core.integrate import (
    FIXED_STEP_INTEGRATORS,
    FLIGHT_INTEGRATORS,
    INTEGRATORS,
    RUNGE_KUTTA_INTEGRATORS,
    euler,
    find_integrator,
    rk4,
    rk23,
    rk45,
    runge_kutta,
    semi_implicit_euler,
    stage_chain,
)
from samara.core.tree import flatten, unflatten
from samara.physics.motion.body import (
    angular_acceleration,
    angular_momentum,
    attitude_rate,
    kinetic_energy,
    translational_acceleration,
)
from samara.physics.multirotor import derivative, state_at_rest
from samara.physics.types import State

FIXED: dict[str, Callable[..., Any]] = {
    name: partial(runge_kutta, integrator.tableau)
    if integrator.tableau and integrator.is_adaptive
    else integrator.advance
    for name, integrator in INTEGRATORS.items()
}
ORDER = {name: integrator.tableau.order if integrator.tableau else 1 for name, integrator in INTEGRATORS.items()}
"""As each declares it; an integrator without a tableau is of first order."""
every_method = pytest.mark.parametrize("name", FIXED)


def distance(result: Any, expected: Any) -> float:
    return float(np.abs(np.asarray(result, dtype=float) - np.asarray(expected, dtype=float)).max())


def repeat(method: Callable[..., Any], rate: Callable[..., Any], state: Any, dt: float, steps: int) -> Any:
    for _ in range(steps):
        state = method(rate, state, dt)
    return state


def compile_steps(
    method: Callable[..., Any], rate: Callable[..., Any], template: Any, dt: float, steps: int = 1
) -> Any:
    """Return the same step, or several, as one CasADi function from components to components, for long runs."""
    x = casadi.SX.sym("x", len(flatten(template)))
    state = repeat(method, rate, unflatten(template, iter(casadi.vertsplit(x))), dt, steps)
    return casadi.Function("steps", [x], [casadi.vertcat(*flatten(state))])


class Oscillator(NamedTuple):
    """A mass on a spring, or a pendulum: any ẍ = a(x)."""

    x: Any
    v: Any


def spring(s: Oscillator) -> Oscillator:
    """ẍ = −(2π)² x: one swing a second."""
    return Oscillator(s.v, -((2.0 * math.pi) ** 2) * s.x)


class Spin(NamedTuple):
    """A body that only rotates."""

    q_WB: Quat
    omega_B: Vec3


def spin_rate(inertia_B: Mat3) -> Callable[[Spin], Spin]:
    return lambda s: Spin(attitude_rate(s.q_WB, s.omega_B), angular_acceleration(s.omega_B, ZERO, inertia_B=inertia_B))


# The NED simulator's verification cases ------------------------------------------------------------------------------


def test_ned_simulator_harmonic_oscillator():
    """x = cos 2πt, dt 0.01, 1 s: 1e-6 m required; RK4 loses (ωh)⁶/144 of amplitude and (ωh)⁵/120 of phase a step."""
    end = repeat(rk4, spring, Oscillator(1.0, 0.0), 0.01, 100)
    omega = 2.0 * math.pi
    assert 1.0 - end.x == pytest.approx(100 * (omega * 0.01) ** 6 / 144, rel=1e-3)
    assert end.v == pytest.approx(omega * 100 * (omega * 0.01) ** 5 / 120, rel=2e-3)


def test_ned_simulator_pendulum_keeps_its_elliptic_period():
    """T = 4 √(L/g) K(sin² θ₀/2) = 2.0076640 s for L 1 m, θ₀ 0.1, g 9.80665: to 1e-7 s and better at dt 0.01."""
    g, amplitude = 9.80665, 0.1
    period = 4.0 / math.sqrt(g) * float(ellipk(math.sin(0.5 * amplitude) ** 2))
    assert period == pytest.approx(2.0076640, abs=5e-8)

    def swing(s: Oscillator) -> Oscillator:
        return Oscillator(s.v, -g * math.sin(s.x))

    end = repeat(rk4, swing, Oscillator(amplitude, 0.0), 0.01, 200)
    end = rk4(swing, end, period - 2.0)
    late = end.v / (g * math.sin(amplitude))  # seconds until, or since, it stands still
    assert abs(late) < 2e-8
    assert abs(end.x - amplitude) < 2e-10


class Orbit(NamedTuple):
    p: Vec3
    v: Vec3


def test_ned_simulator_kepler_circle():
    """p = (cos t, sin t), dt 0.01, 628 steps: position, velocity 1e-5; energy, momentum 1e-6; and better."""

    def attracted(s: Orbit) -> Orbit:
        return Orbit(s.v, s.p * (-1.0 / norm(s.p) ** 3))

    end = repeat(rk4, attracted, Orbit(Vec3(1.0, 0.0, 0.0), Vec3(0.0, 1.0, 0.0)), 0.01, 628)
    c, s = math.cos(6.28), math.sin(6.28)
    assert distance(end, ((c, s, 0.0), (-s, c, 0.0))) < 2e-9
    assert abs(0.5 * dot(end.v, end.v) - 1.0 / norm(end.p) + 0.5) < 1e-11
    assert abs(end.p.x * end.v.y - end.p.y * end.v.x - 1.0) < 1e-11


def test_ned_simulator_torque_free_body():
    """I (2, 1, 0.5), ω (1, 2, 3), 2 s at 1 ms: energy 1e-6, momentum (world) 1e-4, ||q| − 1| 1e-10; and better."""
    J = diagonal(Vec3(2.0, 1.0, 0.5))
    start = Spin(IDENTITY, Vec3(1.0, 2.0, 3.0))
    end = repeat(rk4, spin_rate(J), start, 1e-3, 2000)
    energy, momentum = (
        [kinetic_energy(ZERO, s.omega_B, mass=1.0, inertia_B=J) for s in (start, end)],
        [angular_momentum(s.q_WB, s.omega_B, inertia_B=J) for s in (start, end)],
    )
    assert energy[1] == pytest.approx(energy[0], rel=1e-13)
    assert distance(momentum[1], momentum[0]) < 5e-12
    assert abs(math.hypot(*end.q_WB) - 1.0) < 4e-16


def test_ned_simulator_constant_rate():
    """π rad/s about z for 1 s is half a turn: 1e-6 rad required, and the error of each method is that of its truncated series.

    q̇ = iνq, ν = π/2: a step multiplies q by 1 + iνh + … + (iνh)ᵖ/p!. RK4 lacks (νh)⁵/120 of turning. Order 3 lacks
    (νh)⁴/24 of length, which normalisation restores and which turns q by (νh)⁵/24 the other way. In order 5 it is below
    rounding.
    """
    start, h = Spin(IDENTITY, Vec3(0.0, 0.0, math.pi)), 0.01
    turn = 2.0 * 100 * (0.5 * math.pi * h) ** 5
    for name, expected in (("rk23", turn * (1 / 24 - 1 / 120)), ("rk4", turn / 120), ("rk45", 0.0)):
        end = repeat(FIXED[name], lambda s: Spin(attitude_rate(s.q_WB, s.omega_B), ZERO), start, h, 100)
        off = (rotation(end.q_WB) * Rotation.from_rotvec([0.0, 0.0, -math.pi])).magnitude()
        assert off == pytest.approx(expected, rel=2e-4, abs=5e-14)


@pytest.mark.parametrize("method", ["rk4", "rk23", "rk45"])
def test_ned_simulator_free_fall(method):
    """z = z₀ + v₀t − ½gt², v = v₀ − gt, exact for every method of order two and more: 1e-9 required, rounding achieved."""
    vehicle = make_body()
    state = state_at_rest(vehicle, Vec3(0.0, 0.0, 100.0))._replace(v_W=Vec3(3.0, -2.0, 5.0))
    for _ in range(200):
        state = samara.step(state, (0.0, 0.0, 0.0, 0.0), vehicle, 0.01, method=method)
    assert distance(state.v_W, (3.0, -2.0, 5.0 - 9.80665 * 2.0)) < 1e-12
    assert distance(state.p_W, (6.0, -4.0, 100.0 + 5.0 * 2.0 - 0.5 * 9.80665 * 4.0)) < 1e-12


# Order of convergence, on a tumbling body under torque -------------------------------------------------------------

MASS = 1.3
INERTIA = np.array([[0.012, 0.001, -0.002], [0.001, 0.017, 0.0015], [-0.002, 0.0015, 0.021]])
F_B, F_W = np.array([0.3, -0.2, 11.0]), np.array([0.5, 0.0, -MASS * 9.81])
TAU_B, TAU_W = np.array([0.02, -0.03, 0.01]), np.array([0.03, 0.02, -0.04])
START = State(Vec3(1.0, -2.0, 3.0), Vec3(2.0, 1.0, -1.0), quat_from_euler(0.4, -0.7, 1.9), Vec3(1.5, -2.0, 2.5))
SECONDS = 1.0


def rigid_body_rate(s: State) -> State:
    """Thrust and weight; a torque fixed to the body and one to the world: attitude and rates drive each other."""
    tau_B = Vec3(*TAU_B) + rotate_inverse(s.q_WB, Vec3(*TAU_W))
    return State(
        s.v_W,
        translational_acceleration(s.q_WB, Vec3(*F_B), Vec3(*F_W), mass=MASS),
        attitude_rate(s.q_WB, s.omega_B),
        angular_acceleration(s.omega_B, tau_B, inertia_B=Mat3(*INERTIA.ravel())),
    )


class Reference(NamedTuple):
    p_W: np.ndarray
    v_W: np.ndarray
    R_WB: Rotation
    omega_B: np.ndarray


@cache
def reference(seconds: float = SECONDS) -> Reference:
    """The same motion written independently: rotation matrices, Ṙ = R [ω]ₓ, NumPy, and SciPy's eighth-order method."""

    def rate(_t: float, y: np.ndarray) -> np.ndarray:
        v, R, omega = y[3:6], y[6:15].reshape(3, 3), y[15:18]
        x, y_, z = omega
        skew = np.array([[0.0, -z, y_], [z, 0.0, -x], [-y_, x, 0.0]])
        alpha = np.linalg.solve(INERTIA, TAU_B + R.T @ TAU_W - np.cross(omega, INERTIA @ omega))
        return np.concatenate([v, (R @ F_B + F_W) / MASS, (R @ skew).ravel(), alpha])

    start = np.concatenate([START.p_W, START.v_W, rotation(START.q_WB).as_matrix().ravel(), START.omega_B])
    end = solve_ivp(rate, (0.0, seconds), start, method="DOP853", rtol=3e-14, atol=1e-15).y[:, -1]
    return Reference(end[0:3], end[3:6], Rotation.from_matrix(end[6:15].reshape(3, 3)), end[15:18])


def errors(state: State, seconds: float = SECONDS) -> np.ndarray:
    """Distances from the reference: attitude [rad], rates, velocity, position."""
    truth = reference(seconds)
    attitude_error = (rotation(state.q_WB) * truth.R_WB.inv()).magnitude()
    pairs = ((state.omega_B, truth.omega_B), (state.v_W, truth.v_W), (state.p_W, truth.p_W))
    differences = [np.array(value) - expected for value, expected in pairs]
    return np.array([attitude_error, *(np.linalg.norm(x) for x in differences)])


STEPS = {"euler": 2000, "semi_implicit": 2000, "midpoint": 200, "rk4": 40, "rk23": 100, "rk45": 80}


@every_method
def test_observed_order_of_convergence(name):
    """Halving the step divides the error by 2ᵖ, p = 1, 1, 2, 4, 3, 5: for attitude, rates, velocity and position."""
    error_rows = []
    for steps in (STEPS[name] * 2**k for k in range(3)):
        advance = compile_steps(FIXED[name], rigid_body_rate, START, SECONDS / steps)
        x = casadi.DM(flatten(START))
        for _ in range(steps):
            x = advance(x)
        error_rows.append(errors(unflatten(START, iter(np.array(x).ravel()))))
    orders = np.log2(np.array(error_rows[:-1]) / np.array(error_rows[1:]))
    assert np.abs(orders - ORDER[name]).max() < 0.2


@pytest.mark.parametrize(("method", "order", "bound"), [(rk23, 3, 20.0), (rk45, 5, 3.0)])
def test_adaptive_methods_meet_their_tolerance_at_the_cost_their_order_predicts(method, order, bound):
    """The error after 1 s stays within a few tolerances, and 1000 times less of it costs 1000^(1/p) times the steps."""
    calls, worst = [], []
    for tolerance in (1e-5, 1e-8) if order == 3 else (1e-8, 1e-11):
        count = [0]

        def counted(s: State, count: list[int] = count) -> State:
            count[0] += 1
            return rigid_body_rate(s)

        end = method(counted, START, SECONDS, rtol=tolerance, atol=tolerance)
        calls.append(count[0])
        worst.append(errors(end).max() / tolerance)
    assert max(worst) < bound
    assert calls[1] / calls[0] == pytest.approx(1000.0 ** (1.0 / order), rel=0.1)


# Conserved quantities ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["euler", "semi_implicit", pytest.param("rk4", marks=pytest.mark.long)])
def test_a_unit_quaternion_stays_one_for_a_million_steps(name):
    """||q| − 1| ≤ 1e-12 after every one of 10⁶ steps of a tumbling body."""
    start = Spin(quat_from_euler(0.4, -0.7, 1.9), Vec3(3.0, -4.0, 2.0))
    method = partial(semi_implicit_euler, positions=("q_WB",)) if name == "semi_implicit" else FIXED[name]
    steps_per_call = 10
    advance = compile_steps(method, spin_rate(Mat3(*INERTIA.ravel())), start, 1e-4, 1)
    x = casadi.SX.sym("x", 7)
    state, off = x, 0.0
    for _ in range(steps_per_call):
        state = advance(state)
        off = casadi.fmax(off, casadi.fabs(casadi.norm_2(state[:4]) - 1.0))
    fold = casadi.Function("fold", [x], [state, off])
    buffer, evaluate = fold.buffer()
    state_in, state_out, norm_error = np.array(flatten(start), dtype=float), np.empty(7), np.empty(1)
    buffer.set_arg(0, memoryview(state_in))
    buffer.set_res(0, memoryview(state_out))
    buffer.set_res(1, memoryview(norm_error))
    worst = 0.0
    for _ in range(1_000_000 // steps_per_call):
        evaluate()
        state_in[:] = state_out
        worst = max(worst, norm_error[0])
    assert worst <= 1e-12
    assert np.isfinite(state_in).all()


def test_semi_implicit_falls():
    """After n steps v = −n g dt and z = −½ n(n+1) g dt²: gravity acts (a peer's symplectic Euler forgot it)."""
    vehicle = make_body(effects={"gravity": {"acceleration": 9.81}})
    state = state_at_rest(vehicle)
    for _ in range(100):
        state = samara.step(state, (0.0, 0.0, 0.0, 0.0), vehicle, 0.01, method="semi_implicit")
    assert state.v_W.z == pytest.approx(-100 * 9.81 * 0.01, rel=1e-14)
    assert state.p_W.z == pytest.approx(-0.5 * 100 * 101 * 9.81 * 0.01**2, rel=1e-14)


def test_semi_implicit_keeps_the_energy_of_an_oscillator_where_euler_gains():
    """v² + ω²x² − ω²dt x v is constant, so the energy stays within ωdt/2; Euler's grows by 1 + (ωdt)² a step."""
    dt, steps, square = 0.005, 20_000, (2.0 * math.pi) ** 2
    phase = 2.0 * math.pi * dt
    advance = compile_steps(partial(semi_implicit_euler, positions=("x",)), spring, Oscillator(1.0, 0.0), dt)
    states = np.array(advance.mapaccum(steps)(casadi.DM([1.0, 0.0])))
    x, v = states
    energy = v**2 + square * x**2
    assert distance((energy - square * dt * x * v) / square, 1.0) < 1e-11
    assert np.abs(energy / square - 1.0).max() < 0.5 * phase / (1.0 - 0.5 * phase)
    grown = repeat(euler, spring, Oscillator(1.0, 0.0), dt, 100)
    assert (grown.v**2 + square * grown.x**2) / square == pytest.approx((1.0 + phase**2) ** 100, rel=1e-12)


def test_the_sign_of_a_quaternion_does_not_matter_to_the_step():
    """q and −q are one attitude: adaptive methods take the same steps and preserve the sign."""
    plus = rk45(rigid_body_rate, START, 0.3)
    minus = rk45(rigid_body_rate, START._replace(q_WB=-START.q_WB), 0.3)
    assert minus == plus._replace(q_WB=-plus.q_WB)


def test_a_long_step_is_divided_and_never_leaves_the_motion():
    """One call over 40 s is as good as forty over 1 s: a first trial of 40 s, 150 radians, would overflow every stage."""
    rate, start = spin_rate(diagonal(Vec3(0.5, 1.0, 2.0))), Spin(IDENTITY, Vec3(1.0, 2.0, 3.0))
    method = partial(rk45, rtol=1e-7, atol=1e-7)
    once = method(rate, start, 40.0)
    assert distance(once.omega_B, repeat(method, rate, start, 1.0, 40).omega_B) < 5e-7


# Values that are not finite ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", [rk23, rk45])
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_rate_that_is_not_finite_is_refused(method, bad):
    """From the start, or when the motion reaches it; for one number, or for one drone of a batch."""
    with pytest.raises(FloatingPointError, match="not finite at 0 s"):
        method(lambda s: Oscillator(bad, 0.0), Oscillator(1.0, 0.0), 0.1)
    with pytest.raises(FloatingPointError, match="not finite"):
        method(lambda s: Oscillator(1.0 if s.x < 0.5 else bad, 0.0), Oscillator(0.0, 0.0), 1.0)
    with pytest.raises(FloatingPointError), np.errstate(invalid="ignore"):
        method(lambda s: Oscillator(np.array([0.0, bad, 0.0]), 0.0 * s.v), Oscillator(np.ones(3), np.ones(3)), 0.1)


@pytest.mark.parametrize("method", [rk23, rk45])
def test_a_motion_that_ends_before_the_step_does_is_refused(method):
    """ẋ = x² reaches infinity at t = 1/x₀: no step can pass it."""
    with pytest.raises(FloatingPointError):
        method(lambda s: Oscillator(s.x * s.x, 0.0), Oscillator(1.0, 0.0), 2.0)


@pytest.mark.parametrize("dt", [math.nan, math.inf, -0.1])
def test_an_adaptive_step_goes_forwards(dt):
    """A backward step is refused, instead of returning the state unchanged."""
    with pytest.raises(ValueError, match="expected a finite number"):
        rk45(spring, Oscillator(1.0, 0.0), dt)
    assert rk45(spring, Oscillator(1.0, 0.0), 0.0) == Oscillator(1.0, 0.0)


def test_find_integrator_accepts_only_the_allowed_names():
    """A loop takes any one-step method, a Jacobian one with stages, and a flight those that handle contact."""
    assert {"euler", "semi_implicit", "midpoint", "rk4"} <= set(FIXED_STEP_INTEGRATORS) and not {"rk23", "rk45"} & set(
        FIXED_STEP_INTEGRATORS
    )
    assert set(FIXED_STEP_INTEGRATORS) - set(RUNGE_KUTTA_INTEGRATORS) == {
        name for name in FIXED_STEP_INTEGRATORS if INTEGRATORS[name].tableau is None
    }
    assert {"rk4", "rk45"} <= set(FLIGHT_INTEGRATORS) <= set(INTEGRATORS)
    assert find_integrator("rk45", FLIGHT_INTEGRATORS).advance is rk45
    with pytest.raises(ValueError, match=rf"^integrator 'rk45': expected one of {', '.join(RUNGE_KUTTA_INTEGRATORS)}$"):
        find_integrator("rk45", RUNGE_KUTTA_INTEGRATORS)


def test_a_loop_needs_stages_that_depend_only_on_the_previous_one():
    assert stage_chain(INTEGRATORS["midpoint"].tableau) == ((0.0, 1.0), (0.5, 0.0))
    assert stage_chain(INTEGRATORS["rk4"].tableau) == ((1 / 6, 1 / 3, 1 / 3, 1 / 6), (0.5, 0.5, 1.0, 0.0))
    for name in ("semi_implicit", "rk45"):
        with pytest.raises(
            ValueError, match="depends on more than the one before it; expected Euler, the midpoint or RK4"
        ):
            stage_chain(INTEGRATORS[name].tableau)


@pytest.mark.parametrize("method", ["euler", "semi_implicit", "rk4"])
def test_a_step_to_a_value_that_is_not_finite_names_the_component(method):
    """Fixed steps do not check; `step` checks the result."""
    vehicle = make_body()
    with pytest.raises(ValueError, match=r"state [pv]_W\.z is -inf"):
        samara.step(
            state_at_rest(vehicle)._replace(v_W=Vec3(0.0, 0.0, -1.7e308)),
            (-1e308, 0, 0, 0),
            vehicle,
            10.0,
            method=method,
        )


# Any shape, one drone or many --------------------------------------------------------------------------------------


@every_method
def test_nested_tuples_are_integrated_leaf_by_leaf_and_keep_their_shape(name):
    """Independent equations in one nested state evolve as each would alone."""
    method = partial(semi_implicit_euler, positions=("x",)) if name == "semi_implicit" else FIXED[name]

    class Nested(NamedTuple):
        x: Any
        inner: Any
        nothing: tuple = ()

    def decay(s: Nested) -> Nested:
        (a, b), q = s.inner
        return Nested(-s.x, ((-2.0 * a, -3.0 * b), attitude_rate(q, Vec3(0.0, 0.0, 1.0))))

    class Alone(NamedTuple):
        x: Any
        v: Any = 0.0

    start = Nested(1.0, ((1.0, 1.0), IDENTITY))
    end = repeat(method, decay, start, 0.1, 5)
    assert (type(end), type(end.inner), type(end.inner[1]), end.nothing) == (Nested, tuple, Quat, ())
    for value, k in ((end.x, 1.0), (end.inner[0][0], 2.0), (end.inner[0][1], 3.0)):
        expected = repeat(method, lambda s, k=k: Alone(-k * s.x), Alone(1.0), 0.1, 5)
        assert value == expected.x
    assert norm(Vec3(*end.inner[1][1:])) == pytest.approx(math.sin(0.25), rel=0.05)


def disturbed_batch(state: State, count: int) -> State:
    """A batch of disturbed states, component by component."""
    rng = np.random.default_rng(5)
    leaves = iter([leaf + 0.1 * rng.normal(size=count) for leaf in flatten(state)])
    batch = unflatten(state, leaves)
    return batch._replace(q_WB=quat_exp(Vec3(*rng.normal(size=(3, count)))))


def drone_state(tree: Any, i: int) -> Any:
    return unflatten(tree, iter([float(np.broadcast_to(leaf, 6)[i]) for leaf in flatten(tree)]))


@every_method
def test_a_batch_is_its_drones_one_by_one_to_the_last_bit(name):
    """The free body: NumPy's arithmetic on six bodies is Python's on each."""
    batch = disturbed_batch(START, 6)
    batch_result = repeat(FIXED[name], rigid_body_rate, batch, 0.01, 20)
    for i in range(6):
        assert repeat(FIXED[name], rigid_body_rate, drone_state(batch, i), 0.01, 20) == drone_state(batch_result, i)


@pytest.mark.parametrize("name", shipped_vehicle_parameters())
def test_a_batch_of_every_vehicle_is_its_drones_one_by_one_to_the_last_bit(name):
    """The complete vehicle with motors and battery, through RK4."""
    vehicle = samara.vehicle(name)
    state, command = samara.hover(vehicle)
    batch = disturbed_batch(state, 6)
    batch_result = repeat(rk4, lambda s: derivative(s, command, vehicle), batch, 0.001, 3)
    for i in range(6):
        single_result = repeat(rk4, lambda s: derivative(s, command, vehicle), drone_state(batch, i), 0.001, 3)
        assert single_result == drone_state(batch_result, i)


@pytest.mark.long
def test_an_adaptive_batch_serves_its_worst_drone():
    """All share one step, chosen for the fastest: each is at least as accurate as alone, and within the tolerance."""
    batch = disturbed_batch(START, 6)
    batch_result = rk45(rigid_body_rate, batch, 0.5, rtol=1e-9, atol=1e-9)
    for i in range(6):
        truth = rk45(rigid_body_rate, drone_state(batch, i), 0.5, rtol=1e-12, atol=1e-12)
        assert distance(flatten(drone_state(batch_result, i)), flatten(truth)) < 1e-9
