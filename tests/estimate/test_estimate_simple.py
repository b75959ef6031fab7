"""Estimators without sensors: what they add is what they say they add, and a delay is a delay."""

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
    Noise,
    delayed_estimator,
    noisy,
    noisy_estimator,
)
from samara.physics.types import State

TILTED = quat_from_euler(0.4, -0.3, 1.1)
FLYING = State(Vec3(1.0, -2.0, 3.0), Vec3(0.5, 4.0, -1.0), TILTED, Vec3(0.3, -0.2, 2.0), (500.0, 510.0), ((0.7,),))
MANY = 40000


def at(tick):
    """A state that tells its tick."""
    return FLYING._replace(p_W=Vec3(float(tick), -float(tick), 0.0), q_WB=quat_from_euler(0.1, 0.2, 0.01 * tick))


@pytest.fixture(scope="module")
def errors():
    """Estimate minus truth of 40 000 drones after one update from a settled bias: p, v, rotation in the world, ω."""
    draws = normals(1, "estimator", np.arange(MANY), 0, NOISY_NORMALS).T
    estimate, bias = noisy(FLYING, draws, ZERO, dt=math.inf)
    turn_W = quat_log(estimate.q_WB * conjugate(FLYING.q_WB))
    parts = (estimate.p_W - FLYING.p_W, estimate.v_W - FLYING.v_W, turn_W, estimate.omega_B - FLYING.omega_B, bias)
    return [np.stack(np.broadcast_arrays(*part)) for part in parts]


def spread(samples):
    """Root mean square, about zero."""
    return np.sqrt((samples**2).mean(axis=-1))


FOUR = 4.0 / math.sqrt(2.0 * MANY)  # four standard errors of a standard deviation, relative


# Truth and noise ---------------------------------------------------------------------------------------------------


def test_truth_is_the_state():
    assert TRUTH.normals_needed == 0
    estimate, memory = TRUTH.update(FLYING, (), TRUTH.initial(FLYING), 0.01)
    assert estimate is FLYING
    assert memory == ()


def test_the_noise_has_the_numbers_of_the_ned_simulator(errors):
    """σ of position .02 m, velocity .05 m/s, yaw .01 rad, rate √(.005² + .001²) rad/s, bias .001 rad/s; mean 0."""
    position, velocity, turn, rate, bias = errors
    assert spread(position) == pytest.approx(np.full(3, 0.02), rel=FOUR)
    assert spread(velocity) == pytest.approx(np.full(3, 0.05), rel=FOUR)
    assert spread(turn)[2] == pytest.approx(0.01, rel=FOUR)
    assert spread(rate) == pytest.approx(np.full(3, math.hypot(0.005, 0.001)), rel=FOUR)
    assert spread(rate - bias) == pytest.approx(np.full(3, 0.005), rel=FOUR)
    assert spread(bias) == pytest.approx(np.full(3, 0.001), rel=FOUR)
    for part in (position, velocity, turn[2:], rate):
        assert np.abs(part.mean(axis=-1) / spread(part)).max() < 4.0 / math.sqrt(MANY)


def test_no_error_is_borrowed_from_another(errors):
    """All thirteen normals are used once: the errors of all components are uncorrelated."""
    position, velocity, turn, rate, bias = errors
    all_of_them = np.concatenate([position, velocity, turn[2:], rate - bias, bias])
    assert len(all_of_them) == NOISY_NORMALS
    assert np.abs(np.corrcoef(all_of_them) - np.eye(NOISY_NORMALS)).max() < 4.5 / math.sqrt(MANY)  # the largest of 78


def test_the_attitude_turns_about_the_worlds_vertical(errors):
    """Roll and pitch stay true, however tilted; only the yaw errs."""
    _, _, turn, _, _ = errors
    assert np.abs(turn[:2]).max() < 1e-15
    drawn = np.zeros(NOISY_NORMALS)
    drawn[6] = 3.0
    estimate, _ = noisy(FLYING, drawn.tolist(), ZERO, dt=0.01)
    told, true = euler_from_quat(estimate.q_WB), euler_from_quat(FLYING.q_WB)
    assert (told.roll, told.pitch) == pytest.approx((true.roll, true.pitch), abs=1e-15)
    assert told.yaw - true.yaw == pytest.approx(0.03, rel=1e-12)


def test_the_quaternion_stays_a_unit():
    """Two thousand updates with errors of a radian, each from the truth: nothing adds up."""
    estimator, memory = noisy_estimator(Noise(yaw=1.0)), ZERO
    draws = normals(2, "estimator", 0, np.arange(2000), NOISY_NORMALS).tolist()
    for drawn in draws:
        estimate, memory = estimator.update(FLYING, drawn, memory, 0.01)
        assert math.hypot(*estimate.q_WB) == pytest.approx(1.0, abs=4e-16)


def test_what_is_not_measured_passes_through():
    estimate, _ = noisy(FLYING, [1.0] * NOISY_NORMALS, ZERO, dt=0.01)
    assert (estimate.rotor_speed, estimate.effects) == (FLYING.rotor_speed, FLYING.effects)


def test_the_bias_is_remembered_for_fifty_seconds():
    """Correlation e^{−t/τ} of the bias across drones, at the settled variance, sampled every 5 s and at once after 25 s."""
    n, estimator = 20000, noisy_estimator()
    draws = normals(3, "estimator", np.arange(n), np.arange(7)[:, None], NOISY_NORMALS)
    _, bias = estimator.update(FLYING, draws[0].T, ZERO, math.inf)
    first = np.stack(bias)
    for tick in range(1, 6):
        _, bias = estimator.update(FLYING, draws[tick].T, bias, 5.0)
    _, leapt = estimator.update(FLYING, draws[6].T, Vec3(*first), 25.0)
    for later in (np.stack(bias), np.stack(leapt)):
        assert spread(later) == pytest.approx(np.full(3, 0.001), rel=4.0 / math.sqrt(2.0 * n))
        correlation = (first * later).mean(axis=-1) / 0.001**2
        assert correlation == pytest.approx(np.full(3, math.exp(-0.5)), abs=4.0 * math.sqrt(2.0 / n))


def test_the_bias_starts_at_nothing():
    """As after a calibration: σ²(1 − e^{−2t/τ}) later; with no time passed, none."""
    assert noisy_estimator().initial(FLYING) == ZERO
    _, bias = noisy(FLYING, [1.0] * NOISY_NORMALS, ZERO, dt=0.0)
    assert bias == ZERO
    _, bias = noisy(FLYING, [1.0] * NOISY_NORMALS, ZERO, dt=10.0)
    assert bias.x == pytest.approx(0.001 * math.sqrt(-math.expm1(-0.4)), rel=1e-14)


def test_no_noise_is_the_truth():
    silent = noisy_estimator(Noise(0.0, 0.0, 0.0, 0.0, 0.0, 50.0))
    estimate, _ = silent.update(FLYING, normals(1, "estimator", 0, 0, NOISY_NORMALS).tolist(), ZERO, 0.01)
    assert np.array(flatten(estimate)) == pytest.approx(np.array(flatten(FLYING)), abs=1e-15)


# Delay -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ticks", [0, 1, 2, 7])
def test_delayed_is_the_state_so_many_ticks_ago(ticks):
    """Exactly; before that it is the first."""
    estimator = delayed_estimator(ticks * 0.02, 0.02)
    memory = estimator.initial(at(0))
    for tick in range(25):
        estimate, memory = estimator.update(at(tick), (), memory, 0.02)
        assert estimate == at(max(0, tick - ticks))


def test_noise_can_be_delayed():
    """The delayed estimator says now what the noisy one said three ticks ago."""
    noisy_one, late = noisy_estimator(), delayed_estimator(0.03, 0.01, noisy_estimator())
    assert (late.name, late.normals_needed) == ("delayed noisy", NOISY_NORMALS)
    said, memory, own = [], late.initial(at(0)), noisy_one.initial(at(0))
    for tick in range(20):
        drawn = normals(1, "estimator", 0, tick, NOISY_NORMALS).tolist()
        now, own = noisy_one.update(at(tick), drawn, own, 0.01)
        said.append(now)
        estimate, memory = late.update(at(tick), drawn, memory, 0.01)
        assert estimate == (said[tick - 3] if tick >= 3 else at(0))


@pytest.mark.parametrize(("delay", "period"), [(0.3, 0.1), (0.12, 0.004), (1.0, 1e-6 * 4000), (0.1, 1.0 / 240.0)])
def test_a_multiple_is_one_also_where_floats_are_not_exact(delay, period):
    assert len(delayed_estimator(delay, period).initial(FLYING)[1]) == round(delay / period)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (
            lambda: delayed_estimator(0.025, 0.01),
            r"^delay is 0.025 s; expected a multiple of the estimator's period of 0.01 s: the nearest are 0.02 s and 0.03 s$",
        ),
        (lambda: delayed_estimator(-0.01, 0.01), "^delay is -0.01 s; expected a number that is not negative$"),
        (lambda: delayed_estimator(math.nan, 0.01), "^delay is nan s; expected a number that is not negative$"),
        (lambda: delayed_estimator(0.01, 0.0), "^period is 0.0 s; expected a positive number$"),
        (
            lambda: noisy_estimator(Noise(position=-1.0)),
            "^noise.position is -1.0; expected a number that is not negative$",
        ),
        (lambda: noisy_estimator(Noise(rate=math.nan)), "^noise.rate is nan; expected a finite number"),
        (lambda: noisy_estimator(Noise(bias_time=0.0)), "^noise.bias_time is 0.0; expected a positive number$"),
        (lambda: noisy(FLYING, (0.0,) * 12, ZERO, 0.01), "^noisy got 12 normals; expected 13$"),
    ],
)
def test_what_cannot_be_is_refused_in_one_sentence(call, sentence):
    with pytest.raises(ValueError, match=sentence):
        call()


# Batches, compiled -------------------------------------------------------------------------------------------------


EVERY = [TRUTH, noisy_estimator(), delayed_estimator(0.05, 0.01), delayed_estimator(0.02, 0.01, noisy_estimator())]


@pytest.mark.parametrize("estimator", EVERY, ids=lambda estimator: estimator.name)
def test_a_batch_is_each_drone_alone(estimator):
    """Four drones as arrays, and one after the other: to the last bits of sine and cosine."""
    vehicle = samara.vehicle("crazyflie_documented")
    still, _ = samara.hover(vehicle)
    height = np.array([1.0, 2.0, 3.0, 4.0])
    fleet = unflatten(still, iter([height + 0.1 * leaf for leaf in flatten(still)]))
    ticks = 8
    draws = normals(5, "estimator", np.arange(4), np.arange(ticks)[:, None], estimator.normals_needed)
    memory, together = estimator.initial(fleet), []
    for tick in range(ticks):
        estimate, memory = estimator.update(moved(fleet, tick), draws[tick].T, memory, 0.01)
        together.append(np.stack(np.broadcast_arrays(*flatten(estimate))))
    for drone in range(4):
        alone = unflatten(still, iter([float(leaf[drone]) for leaf in flatten(fleet)]))
        memory = estimator.initial(alone)
        for tick in range(ticks):
            estimate, memory = estimator.update(moved(alone, tick), draws[tick, drone].tolist(), memory, 0.01)
            assert together[tick][:, drone] == pytest.approx(np.array(flatten(estimate)), rel=1e-15, abs=1e-15)


def moved(state, tick):
    return state._replace(p_W=state.p_W + Vec3(0.1 * tick, 0.0, 0.0), omega_B=Vec3(0.0, 0.1 * tick, 0.0))


@pytest.mark.parametrize("estimator", EVERY, ids=lambda estimator: estimator.name)
def test_it_can_be_traced(estimator):
    """On CasADi symbols, memory and period among them, it gives the same estimate and memory."""
    memory, drawn = estimator.initial(FLYING), normals(1, "estimator", 0, 0, estimator.normals_needed).tolist()
    tree = (FLYING, tuple(drawn), memory, 0.01)
    x = casadi.SX.sym("x", len(flatten(tree)))
    outcome = estimator.update(*unflatten(tree, iter(casadi.vertsplit(x))))
    code = casadi.Function("update", [x], [casadi.vertcat(*flatten(outcome))])
    direct = flatten(estimator.update(*tree))
    assert np.array(code(flatten(tree)))[:, 0] == pytest.approx(direct, rel=1e-15, abs=1e-15)


def test_equal_estimators_are_one():
    """Drones that share an estimator can be computed together: the same numbers give the same record."""
    assert noisy_estimator(Noise(yaw=0.02)) is noisy_estimator(Noise(yaw=0.02))
    assert noisy_estimator(Noise(yaw=0.02)) is not noisy_estimator()
    assert len({*EVERY, delayed_estimator(0.05, 0.01)}) == len(EVERY)
