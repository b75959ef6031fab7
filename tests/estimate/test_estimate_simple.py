"""Estimators without sensors: their noise has the given distribution, and a delay is exact."""

import math

import casadi
import numpy as np
import pytest

import samara
from samara.core.algebra import ZERO, Vec3, conjugate, euler_from_quat, quat_from_euler, quat_log
from samara.core.random import normals
from samara.core.tree import flatten, unflatten
from samara.estimate.ideal import (
    NOISY_NORMALS,
    TRUTH,
    EstimateNoise,
    delayed_estimator,
    noisy_estimate,
    noisy_estimator,
)
from samara.physics.types import State

TILTED = quat_from_euler(0.4, -0.3, 1.1)
FLYING = State(Vec3(1.0, -2.0, 3.0), Vec3(0.5, 4.0, -1.0), TILTED, Vec3(0.3, -0.2, 2.0), (500.0, 510.0), ((0.7,),))
DRONE_COUNT = 40000


def state_for_tick(tick):
    """A state that encodes its tick."""
    return FLYING._replace(p_W=Vec3(float(tick), -float(tick), 0.0), q_WB=quat_from_euler(0.1, 0.2, 0.01 * tick))


@pytest.fixture(scope="module")
def errors():
    """Estimate minus truth of 40 000 drones after one update from a settled bias: p, v, rotation in the world, ω."""
    draws = normals(1, "estimator", np.arange(DRONE_COUNT), 0, NOISY_NORMALS).T
    estimate, bias = noisy_estimate(FLYING, draws, ZERO, dt=math.inf)
    rotation_W = quat_log(estimate.q_WB * conjugate(FLYING.q_WB))
    vectors = (
        estimate.p_W - FLYING.p_W,
        estimate.v_W - FLYING.v_W,
        rotation_W,
        estimate.omega_B - FLYING.omega_B,
        bias,
    )
    return [np.stack(np.broadcast_arrays(*vector)) for vector in vectors]


def root_mean_square(samples):
    """Root mean square, about zero."""
    return np.sqrt((samples**2).mean(axis=-1))


FOUR_STANDARD_ERRORS = 4.0 / math.sqrt(2.0 * DRONE_COUNT)  # four standard errors of a standard deviation, relative


# Truth and noise ---------------------------------------------------------------------------------------------------


def test_truth_is_the_state():
    assert TRUTH.normals_needed == 0
    estimate, estimator_state = TRUTH.update(FLYING, (), TRUTH.initial(FLYING), 0.01)
    assert estimate is FLYING
    assert estimator_state == ()


def test_the_noise_has_the_numbers_of_the_ned_simulator(errors):
    """σ of position .02 m, velocity .05 m/s, yaw .01 rad, rate √(.005² + .001²) rad/s, bias .001 rad/s; mean 0."""
    position, velocity, turn, rate, bias = errors
    assert root_mean_square(position) == pytest.approx(np.full(3, 0.02), rel=FOUR_STANDARD_ERRORS)
    assert root_mean_square(velocity) == pytest.approx(np.full(3, 0.05), rel=FOUR_STANDARD_ERRORS)
    assert root_mean_square(turn)[2] == pytest.approx(0.01, rel=FOUR_STANDARD_ERRORS)
    assert root_mean_square(rate) == pytest.approx(np.full(3, math.hypot(0.005, 0.001)), rel=FOUR_STANDARD_ERRORS)
    assert root_mean_square(rate - bias) == pytest.approx(np.full(3, 0.005), rel=FOUR_STANDARD_ERRORS)
    assert root_mean_square(bias) == pytest.approx(np.full(3, 0.001), rel=FOUR_STANDARD_ERRORS)
    for part in (position, velocity, turn[2:], rate):
        assert np.abs(part.mean(axis=-1) / root_mean_square(part)).max() < 4.0 / math.sqrt(DRONE_COUNT)


def test_errors_are_uncorrelated(errors):
    """All thirteen normals are used once: the errors of all components are uncorrelated."""
    position, velocity, turn, rate, bias = errors
    all_errors = np.concatenate([position, velocity, turn[2:], rate - bias, bias])
    assert len(all_errors) == NOISY_NORMALS
    assert np.abs(np.corrcoef(all_errors) - np.eye(NOISY_NORMALS)).max() < 4.5 / math.sqrt(
        DRONE_COUNT
    )  # the largest of 78


def test_the_attitude_error_is_about_the_vertical(errors):
    """Roll and pitch are exact at any tilt; only the yaw has an error."""
    _, _, rotation, _, _ = errors
    assert np.abs(rotation[:2]).max() < 1e-15
    normal_values = np.zeros(NOISY_NORMALS)
    normal_values[6] = 3.0
    estimate, _ = noisy_estimate(FLYING, normal_values.tolist(), ZERO, dt=0.01)
    estimated, true = euler_from_quat(estimate.q_WB), euler_from_quat(FLYING.q_WB)
    assert (estimated.roll, estimated.pitch) == pytest.approx((true.roll, true.pitch), abs=1e-15)
    assert estimated.yaw - true.yaw == pytest.approx(0.03, rel=1e-12)


def test_the_quaternion_stays_a_unit():
    """Two thousand updates with errors of a radian, each from the true state: rounding does not accumulate."""
    estimator, estimator_state = noisy_estimator(EstimateNoise(yaw=1.0)), ZERO
    draws = normals(2, "estimator", 0, np.arange(2000), NOISY_NORMALS).tolist()
    for normal_values in draws:
        estimate, estimator_state = estimator.update(FLYING, normal_values, estimator_state, 0.01)
        assert math.hypot(*estimate.q_WB) == pytest.approx(1.0, abs=4e-16)


def test_what_is_not_measured_passes_through():
    estimate, _ = noisy_estimate(FLYING, [1.0] * NOISY_NORMALS, ZERO, dt=0.01)
    assert (estimate.rotor_speed, estimate.effects) == (FLYING.rotor_speed, FLYING.effects)


def test_the_bias_has_a_correlation_time_of_fifty_seconds():
    """Correlation e^{−t/τ} of the bias across drones, at the stationary variance, sampled every 5 s and once after 25 s."""
    n, estimator = 20000, noisy_estimator()
    draws = normals(3, "estimator", np.arange(n), np.arange(7)[:, None], NOISY_NORMALS)
    _, bias = estimator.update(FLYING, draws[0].T, ZERO, math.inf)
    first = np.stack(bias)
    for tick in range(1, 6):
        _, bias = estimator.update(FLYING, draws[tick].T, bias, 5.0)
    _, bias_at_once = estimator.update(FLYING, draws[6].T, Vec3(*first), 25.0)
    for later in (np.stack(bias), np.stack(bias_at_once)):
        assert root_mean_square(later) == pytest.approx(np.full(3, 0.001), rel=4.0 / math.sqrt(2.0 * n))
        correlation = (first * later).mean(axis=-1) / 0.001**2
        assert correlation == pytest.approx(np.full(3, math.exp(-0.5)), abs=4.0 * math.sqrt(2.0 / n))


def test_the_bias_starts_at_zero():
    """As after a calibration: variance σ²(1 − e^{−2t/τ}) later; zero at dt = 0."""
    assert noisy_estimator().initial(FLYING) == ZERO
    _, bias = noisy_estimate(FLYING, [1.0] * NOISY_NORMALS, ZERO, dt=0.0)
    assert bias == ZERO
    _, bias = noisy_estimate(FLYING, [1.0] * NOISY_NORMALS, ZERO, dt=10.0)
    assert bias.x == pytest.approx(0.001 * math.sqrt(-math.expm1(-0.4)), rel=1e-14)


def test_no_noise_is_the_truth():
    silent = noisy_estimator(EstimateNoise(0.0, 0.0, 0.0, 0.0, 0.0, 50.0))
    estimate, _ = silent.update(FLYING, normals(1, "estimator", 0, 0, NOISY_NORMALS).tolist(), ZERO, 0.01)
    assert np.array(flatten(estimate)) == pytest.approx(np.array(flatten(FLYING)), abs=1e-15)


# Delay -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ticks", [0, 1, 2, 7])
def test_the_delayed_estimate_is_the_state_some_ticks_ago(ticks):
    """Exactly; before that it is the first."""
    estimator = delayed_estimator(ticks * 0.02, 0.02)
    estimator_state = estimator.initial(state_for_tick(0))
    for tick in range(25):
        estimate, estimator_state = estimator.update(state_for_tick(tick), (), estimator_state, 0.02)
        assert estimate == state_for_tick(max(0, tick - ticks))


def test_noise_can_be_delayed():
    """The delayed estimate is that of the noisy estimator three ticks ago."""
    noisy_one, delayed = noisy_estimator(), delayed_estimator(0.03, 0.01, noisy_estimator())
    assert (delayed.name, delayed.normals_needed) == ("delayed noisy", NOISY_NORMALS)
    noisy_estimates, delayed_state, noisy_state = (
        [],
        delayed.initial(state_for_tick(0)),
        noisy_one.initial(state_for_tick(0)),
    )
    for tick in range(20):
        normal_values = normals(1, "estimator", 0, tick, NOISY_NORMALS).tolist()
        noisy, noisy_state = noisy_one.update(state_for_tick(tick), normal_values, noisy_state, 0.01)
        noisy_estimates.append(noisy)
        estimate, delayed_state = delayed.update(state_for_tick(tick), normal_values, delayed_state, 0.01)
        assert estimate == (noisy_estimates[tick - 3] if tick >= 3 else state_for_tick(0))


@pytest.mark.parametrize(("delay", "period"), [(0.3, 0.1), (0.12, 0.004), (1.0, 1e-6 * 4000), (0.1, 1.0 / 240.0)])
def test_multiples_are_recognised_despite_rounding(delay, period):
    assert len(delayed_estimator(delay, period).initial(FLYING)[1]) == round(delay / period)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: delayed_estimator(0.025, 0.01),
            r"^delay is 0.025 s; expected a multiple of the estimator's period of 0.01 s: the nearest are 0.02 s and 0.03 s$",
        ),
        (lambda: delayed_estimator(-0.01, 0.01), "^delay is -0.01 s; expected a number that is not negative$"),
        (lambda: delayed_estimator(math.nan, 0.01), "^delay is nan s; expected a number that is not negative$"),
        (lambda: delayed_estimator(0.01, 0.0), "^period is 0.0 s; expected a positive number$"),
        (
            lambda: noisy_estimator(EstimateNoise(position=-1.0)),
            "^noise.position is -1.0; expected a number that is not negative$",
        ),
        (lambda: noisy_estimator(EstimateNoise(rate=math.nan)), "^noise.rate is nan; expected a finite number"),
        (lambda: noisy_estimator(EstimateNoise(bias_time=0.0)), "^noise.bias_time is 0.0; expected a positive number$"),
        (lambda: noisy_estimate(FLYING, (0.0,) * 12, ZERO, 0.01), "^noisy got 12 normals; expected 13$"),
    ],
)
def test_invalid_arguments_are_rejected_in_one_sentence(call, message):
    with pytest.raises(ValueError, match=message):
        call()


# Batches, compiled -------------------------------------------------------------------------------------------------


ESTIMATORS = [TRUTH, noisy_estimator(), delayed_estimator(0.05, 0.01), delayed_estimator(0.02, 0.01, noisy_estimator())]


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda estimator: estimator.name)
def test_a_batch_is_each_drone_alone(estimator):
    """Four drones as arrays, and one after the other: equal except for the last bits of sine and cosine."""
    vehicle = samara.vehicle("crazyflie_documented")
    hover_state, _ = samara.hover(vehicle)
    height = np.array([1.0, 2.0, 3.0, 4.0])
    fleet = unflatten(hover_state, iter([height + 0.1 * leaf for leaf in flatten(hover_state)]))
    ticks = 8
    draws = normals(5, "estimator", np.arange(4), np.arange(ticks)[:, None], estimator.normals_needed)
    estimator_state, batch_estimates = estimator.initial(fleet), []
    for tick in range(ticks):
        estimate, estimator_state = estimator.update(advance_state(fleet, tick), draws[tick].T, estimator_state, 0.01)
        batch_estimates.append(np.stack(np.broadcast_arrays(*flatten(estimate))))
    for drone in range(4):
        single = unflatten(hover_state, iter([float(leaf[drone]) for leaf in flatten(fleet)]))
        estimator_state = estimator.initial(single)
        for tick in range(ticks):
            estimate, estimator_state = estimator.update(
                advance_state(single, tick), draws[tick, drone].tolist(), estimator_state, 0.01
            )
            assert batch_estimates[tick][:, drone] == pytest.approx(np.array(flatten(estimate)), rel=1e-15, abs=1e-15)


def advance_state(state, tick):
    return state._replace(p_W=state.p_W + Vec3(0.1 * tick, 0.0, 0.0), omega_B=Vec3(0.0, 0.1 * tick, 0.0))


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda estimator: estimator.name)
def test_it_can_be_traced(estimator):
    """On CasADi symbols, estimator state and period among them, it gives the same results."""
    estimator_state, normal_values = (
        estimator.initial(FLYING),
        normals(1, "estimator", 0, 0, estimator.normals_needed).tolist(),
    )
    tree = (FLYING, tuple(normal_values), estimator_state, 0.01)
    x = casadi.SX.sym("x", len(flatten(tree)))
    outcome = estimator.update(*unflatten(tree, iter(casadi.vertsplit(x))))
    code = casadi.Function("update", [x], [casadi.vertcat(*flatten(outcome))])
    direct = flatten(estimator.update(*tree))
    assert np.array(code(flatten(tree)))[:, 0] == pytest.approx(direct, rel=1e-15, abs=1e-15)


def test_equal_estimators_are_the_same_object():
    """Drones that share an estimator can be computed together: equal parameters give the same record."""
    assert noisy_estimator(EstimateNoise(yaw=0.02)) is noisy_estimator(EstimateNoise(yaw=0.02))
    assert noisy_estimator(EstimateNoise(yaw=0.02)) is not noisy_estimator()
    assert len({*ESTIMATORS, delayed_estimator(0.05, 0.01)}) == len(ESTIMATORS)
