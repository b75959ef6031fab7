"""Constants from publications, against the published values, and starts and ends of tasks against their descriptions."""

import math

import numpy as np
import pytest

from samara.core.algebra import Vec3, matrix_from_quat
from samara.learn.compiled_episode import episode_keys, random_numbers
from samara.learn.domain_randomization import L2F, RAPTOR
from samara.learn.env_config import EnvironmentSetting
from samara.learn.episode import reset_draws
from samara.learn.observation_noise import L2F_NOISE
from samara.learn.task import Draw, Situation, trim_drone
from samara.learn.tasks import load_task

DRONE = trim_drone("crazyflie")
DRAWS = 4000

# "Learning to fly in seconds", RA-L 2024. The code of the paper: github.com/arplaboratory/learning-to-fly, commit d07592d,
# src/config/parameters.h (observation noise, disturbances) and parameters/dynamics/crazy_flie.h (mass, rotor positions).
L2F_MASS, L2F_GRAVITY, L2F_ROTOR = 0.027, 9.81, 0.028  # [kg, m/s², m along x and along y]
L2F_FORCE = 0.027 * 9.81 / 20.0  # [N], standard deviation
L2F_TORQUE = 0.027 * 9.81 / 10000.0  # [N m], standard deviation
L2F_OBSERVATION_NOISE = {"position": 0.001, "yaw": 0.001, "velocity": 0.002, "rate": 0.002}  # [m, rad, m/s, rad/s]

# "RAPTOR: a foundation policy for quadrotor control", 2025. The first two ranges and the deviation of the size are also in
# github.com/rl-tools/rl-tools, commit 9acdf5c8, src/rl/environments/l2f (dr_sample.cpp, dr_sac); the others are not there.
RAPTOR_RANGES = {
    "thrust_to_weight": (1.5, 5.0),
    "mass": (0.02, 5.0),
    "torque_to_inertia": (40.0, 1200.0),
    "torque_to_thrust": (0.005, 0.05),
    "lag_rise": (0.03, 0.1),
    "lag_fall": (0.03, 0.3),
}


def test_the_disturbances_of_l2f_are_the_published_ones():
    """On its own Crazyflie: the force and torque drawn from unit normals are the published standard deviations"""
    weight, arm = L2F_MASS * L2F_GRAVITY, math.hypot(L2F_ROTOR, L2F_ROTOR)
    assert L2F.force * weight == pytest.approx(L2F_FORCE, rel=1e-12)
    assert L2F.torque * weight * arm == pytest.approx(L2F_TORQUE, rel=1e-12)
    assert L2F._replace(force=0.0, torque=0.0) == type(L2F)()  # it varies nothing else


def test_a_disturbance_has_the_published_size():
    """Drawn for many drones, on the Crazyflie of the vehicle's file: σ_F = W/20, σ_τ = W · 0.1 mm · arm / 39.6 mm"""
    draw = Draw(iter(normals(6)))
    force_W, torque_B = L2F.draw(draw, DRONE).disturbance
    weight = DRONE.nominal.mass * DRONE.nominal["gravity"].acceleration
    arm = math.hypot(DRONE.nominal.rotors[0].r_B.x, DRONE.nominal.rotors[0].r_B.y)
    tolerance = 4.0 / math.sqrt(2.0 * DRAWS)  # standard errors
    assert [np.std(component) for component in force_W] == pytest.approx([weight / 20.0] * 3, rel=tolerance)
    assert [np.std(component) for component in torque_B] == pytest.approx(
        [weight * 1e-4 * arm / 0.0395980] * 3, rel=tolerance
    )


def test_the_observation_noise_of_l2f_is_the_published_one():
    noise = L2F_NOISE._asdict()
    assert {name: noise[name] for name in L2F_OBSERVATION_NOISE} == L2F_OBSERVATION_NOISE
    assert L2F_NOISE.rate_bias == 0.0


def test_the_ranges_of_raptor_are_the_published_ones():
    assert {name: getattr(RAPTOR, name) for name in RAPTOR_RANGES} == RAPTOR_RANGES
    assert (RAPTOR.size_deviation, RAPTOR.force_headroom) == (0.1, 0.3)


# Starts ---------------------------------------------------------------------------------------------------------------


def starts(task):
    """Return the initial states of `DRAWS` episodes of a task, as arrays."""
    loaded = load_task(task)
    setting = EnvironmentSetting(loaded._replace(randomization=None), DRONE)
    random_rows = random_numbers(episode_keys([11] * DRAWS), np.arange(DRAWS), 0, reset_draws(setting))
    return loaded.reset(Draw(iter(random_rows)), DRONE)[0]


def normals(count):
    return random_numbers(episode_keys([11] * DRAWS), np.arange(DRAWS), 0, ("normal",) * count)


@pytest.mark.parametrize(
    ("task", "position", "velocity", "rate"),
    [("hover", 0.5, 1.0, 1.0), ("recover", 0.5, 5.0, 15.0), ("universal", 0.5, 1.0, 1.0)],
)
def test_starts_fill_the_ranges_that_a_task_describes(task, position, velocity, rate):
    """Uniform about 0 along every axis, up to the bound and not beyond; the axes are uncorrelated."""
    state = starts(task)
    for vector, bound in ((state.p_W, position), (state.v_W, velocity), (state.omega_B, rate)):
        for axis in vector:
            assert 0.99 * bound < np.abs(axis).max() <= bound
            assert np.mean(axis) == pytest.approx(0.0, abs=4.0 * bound / math.sqrt(3.0 * DRAWS))
            assert np.std(axis) == pytest.approx(bound / math.sqrt(3.0), rel=0.05)
    axes = np.array([*state.p_W, *state.v_W, *state.omega_B])
    assert np.abs(np.corrcoef(axes) - np.eye(9)).max() < 5.0 / math.sqrt(DRAWS)


def test_recover_starts_in_any_attitude_and_hover_within_ninety_degrees():
    """Uniform in SO(3): every entry of R has the mean 0 and the variance 1/3 (K. Shoemake, 1992)"""
    anywhere, tilted = (np.array(matrix_from_quat(starts(task).q_WB)) for task in ("recover", "hover"))
    assert np.abs(anywhere.mean(axis=1)).max() < 4.0 / math.sqrt(3.0 * DRAWS)
    assert (anywhere**2).mean(axis=1) == pytest.approx(np.full(9, 1.0 / 3.0), abs=0.03)
    assert -0.02 < tilted[8].min() < 0.02 and tilted[8].max() > 0.98


# Ends -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("task", "limit"), [("hover", 2.0), ("recover", 100.0), ("land", 4.0), ("universal", 5.0)])
@pytest.mark.parametrize("direction", [Vec3(1.0, 0.0, 0.0), Vec3(0.6, -0.64, 0.48)])
def test_an_episode_ends_beyond_its_distance_and_not_before(task, limit, direction):
    loaded = load_task(task)
    inside, beyond = (
        Situation(DRONE.trim._replace(p_W=direction * distance + Vec3(0.0, 0.0, 1e-9)))
        for distance in (0.999 * limit, 1.001 * limit)
    )
    assert not loaded.termination(inside, DRONE) and loaded.termination(beyond, DRONE)
