"""Tasks as pure functions: their initial states, the meaning of actions, and user-defined task files."""

import math

import jax.numpy as jnp
import numpy as np
import pytest
from support.casadi_function import casadi_function

from samara.compiler.jax import random as draws_jax
from samara.control.action_space import ACTION_SPACES, MAX_ANGLES, MAX_RATES, MAX_SPEED, MAX_YAW_RATE
from samara.core.algebra import Quat, Vec3, euler_from_quat, matrix_from_quat, norm
from samara.core.random import derive_key, normals, normals_from_words, uniforms_from_words, words
from samara.core.tree import flatten
from samara.learn.compiled_episode import episode_keys, random_numbers
from samara.learn.env_config import EnvironmentSetting
from samara.learn.episode import Episode, advance, reset, step
from samara.learn.task import Draw, Situation, reset_distributions, trim_drone
from samara.learn.tasks import SHIPPED, load_task
from samara.physics.multirotor import derivative
from samara.vehicles.loader import vehicle

DRONE = trim_drone("crazyflie")
TASK_FILE = """
from samara.core.algebra import norm

SECONDS = 2.0
def reset(draw, drone): return drone.trim, ()
def observation(situation, drone): return tuple(situation.state.p_W)
def reward(situation, drone): return 1.0 - norm(situation.state.p_W)
def termination(situation, drone): return norm(situation.state.p_W) > 1.0
"""


def starts(name, count=2000):
    """Return `count` initial states, as arrays."""
    task = load_task(name)
    rows = random_numbers(episode_keys(range(count)), np.zeros(count), 0, reset_distributions(task, DRONE))
    return task.reset(Draw(iter(rows)), DRONE)[0]


def first_situation(task, drone=DRONE):
    """Return the situation at the start of an episode without randomness."""
    return reset(Draw(), EnvironmentSetting(task, drone))[0].situation


def take_step(situation, action, task, drone=DRONE):
    """Take one step from a situation; return the situation after it, and the transition."""
    episode, transition = step(Episode(situation), action, Draw(), EnvironmentSetting(task, drone))
    return episode.situation, transition


# Random numbers ----------------------------------------------------------------------------------------------------


def test_words_make_the_normals_that_are_drawn():
    """A second implementation of the same address, for many keys at once."""
    pairs = np.array([derive_key(seed, "wind") for seed in (3, 4)], dtype=np.uint64).T
    from_words = normals_from_words(words((pairs[0], pairs[1]), 7, np.array([5, 2**40], dtype=np.uint64), 9))
    assert (from_words[:, 0] == normals(3, "wind", 7, 5, 9)).all()
    assert (from_words[:, 1] == normals(4, "wind", 7, 2**40, 9)).all()


def test_words_in_jax_are_the_same():
    pairs = episode_keys([1, 2, 3])
    episodes, steps = np.array([0, 8, 9], dtype=np.uint64), np.array([0, 0, 70], dtype=np.uint64)
    expected = words((pairs[0], pairs[1]), np.uint64(0), episodes | steps << np.uint64(32), 6)
    in_jax = draws_jax.words(tuple(jnp.asarray(pairs, jnp.uint32)), 0, episodes, steps, 6)
    assert (expected == np.asarray(in_jax)).all()
    assert np.abs(np.asarray(draws_jax.uniform(in_jax, jnp.float32)) - uniforms_from_words(expected)).max() < 1e-7


def test_uniforms_are_spread_evenly():
    """Kolmogorov–Smirnov test of 10 000 samples: below 1.95/√n in 999 of 1000."""
    samples = np.sort(random_numbers(episode_keys(range(10_000)), np.zeros(10_000), 0, ("uniform",))[0])
    assert samples[0] > 0.0 and samples[-1] < 1.0
    assert np.abs(samples - np.arange(0.5, 10_000) / 10_000).max() < 1.95 / 100.0


# Starts -------------------------------------------------------------------------------------------------------------


def test_hover_starts_where_it_says():
    start = starts("hover")
    for vector, size in ((start.p_W, 0.5), (start.v_W, 1.0), (start.omega_B, 1.0)):
        for component in vector:
            assert np.abs(component).max() <= size and np.abs(component).max() > 0.99 * size
    tilt = matrix_from_quat(start.q_WB).zz
    assert tilt.min() > -1e-12 and tilt.min() < 0.2
    assert start.rotor_speed == DRONE.trim.rotor_speed


def test_recover_starts_in_any_attitude():
    """R e₃ is spread evenly over the sphere: every component has mean 0 and variance 1/3"""
    start = starts("recover")
    up = matrix_from_quat(start.q_WB).columns[2]
    for component in up:
        assert abs(component.mean()) < 4.0 * math.sqrt(1.0 / 3.0 / 2000)
        assert np.square(component).mean() == pytest.approx(1.0 / 3.0, abs=0.03)
    assert np.abs(start.v_W.x).max() <= 5.0 and np.abs(start.omega_B.z).max() <= 15.0


@pytest.mark.parametrize("name", SHIPPED)
def test_a_quaternion_at_the_start_has_length_one(name):
    assert np.abs(norm(starts(name).q_WB) - 1.0).max() < 1e-15


# Actions -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("action", sorted(set(ACTION_SPACES) - {"throttle"}))  # which is independent of the trim
@pytest.mark.parametrize("name", ["crazyflie", "hexarotor_x", "crazyflie_brushless"])
def test_no_action_hovers(name, action):
    drone, task = trim_drone(name), load_task("hover")._replace(action=action, substeps=4)
    initial = first_situation(task, drone)._replace(state=drone.trim)
    final, transition = take_step(initial, initial.action, task, drone)
    rates = derivative(final.state, drone.command, drone.vehicle)
    assert max(map(abs, flatten(rates.v_W))) < 1e-6
    assert transition.reward == pytest.approx(1.99) and not transition.terminated
    assert final.time == task.period


def fly_action(action, name, seconds, drone=DRONE):
    """Return the state after `seconds` under one action, from hover."""
    task = load_task("hover")._replace(action=name, substeps=5)
    step = casadi_function(lambda state, applied: advance(state, applied, drone, task), drone.trim, action)
    state = drone.trim
    for _ in range(round(seconds / task.period)):
        state = step(state, action)
    return state


def test_rates_settle_at_the_action():
    omega_B = fly_action((0.0, 0.2, -0.1, 0.1), "thrust_and_rates", 0.5).omega_B
    assert omega_B.x == pytest.approx(0.2 * MAX_RATES.x, abs=0.1)
    assert omega_B.y == pytest.approx(-0.1 * MAX_RATES.y, abs=0.1)
    assert omega_B.z == pytest.approx(0.1 * MAX_RATES.z, abs=0.1)


@pytest.mark.parametrize("fraction", [0.1, -0.5])
def test_attitude_settles_at_the_action(fraction):
    """R(roll, pitch, yaw) after the rotation has settled; yaw takes longest."""
    drone = trim_drone(vehicle("crazyflie_brushless").without_effect("airspeed_moment"))
    state = fly_action((0.0, fraction, -0.5 * fraction, fraction), "thrust_and_attitude", 4.0, drone)
    expected = (fraction * MAX_ANGLES.x, -0.5 * fraction * MAX_ANGLES.y, fraction * MAX_ANGLES.z)
    assert euler_from_quat(state.q_WB) == pytest.approx(expected, abs=0.01)
    assert norm(state.omega_B) < 0.02


def test_no_thrust_falls():
    """ż = −g t, apart from drag and the decay of the rotor speeds."""
    vertical_speed = fly_action((-1.0, 0.0, 0.0, 0.0), "thrust_and_rates", 0.5).v_W.z
    assert -9.81 * 0.5 < vertical_speed < -9.81 * 0.3


def test_velocity_settles_at_the_action():
    drone, desired = trim_drone("hexarotor_x"), Vec3(0.2, -0.1, 0.1) * MAX_SPEED
    assert norm(fly_action((0.2, -0.1, 0.1, 0.0), "velocity", 6.0, drone).v_W - desired) < 2e-4
    assert fly_action((0.0, 0.0, 0.0, 0.25), "velocity", 2.0).omega_B.z == pytest.approx(0.25 * MAX_YAW_RATE, abs=0.01)


def test_full_rotors_are_as_far_above_hover_as_none_is_below():
    """u₀ + a min(u₀, 1 − u₀)"""
    command = ACTION_SPACES["rotors"].command
    up, down = (command((a,) * 4, DRONE.trim, DRONE.nominal, DRONE.command) for a in (1.0, -1.0))
    for high, low, at_hover in zip(up, down, DRONE.command, strict=True):
        assert high + low == pytest.approx(2.0 * at_hover)
        assert min(1.0 - high, low) == pytest.approx(0.0, abs=1e-15)


# A step ------------------------------------------------------------------------------------------------------------


def test_actions_are_cut_and_the_rest_is_remembered():
    task = load_task("hover")
    initial = first_situation(task)
    excessive, full = (take_step(initial, (a,) * 4, task) for a in (7.0, 1.0))
    assert excessive == full and excessive[0].action == (1.0,) * 4


def test_progress_chooses_the_next_goal():
    task = load_task("hover")._replace(progress=lambda initial, after, drone: initial.goal + after.time)
    initial = Situation(DRONE.trim, 3.0, 0.5, (0.0,) * 4)
    assert take_step(initial, initial.action, task)[0].goal == 3.51


def test_success_is_at_rest_at_the_origin():
    task = load_task("hover")
    is_successful = lambda **changes: task.success(Situation(DRONE.trim._replace(**changes)), DRONE)  # noqa: E731
    assert (
        is_successful() and not is_successful(p_W=Vec3(0.06, 0.0, 0.0)) and not is_successful(v_W=Vec3(0.0, 0.0, -0.06))
    )
    assert is_successful(q_WB=Quat(0.0, 1.0, 0.0, 0.0))


# Files -------------------------------------------------------------------------------------------------------------


def test_a_file_is_a_task(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(TASK_FILE)
    task = load_task(path)
    assert (task.name, task.seconds, task.action, task.progress) == ("mine", 2.0, "rotors", None)
    assert take_step(first_situation(task), (0.0,) * 4, task)[1].reward == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            ("def reward", "def worth"),
            "mine.py: reward is missing; a task has functions reset, observation, reward, term",
        ),
        (("2.0", "-1"), "mine.py: SECONDS = -1; expected a positive number of seconds"),
        (
            ("SECONDS = 2.0", "ACTION = 'wings'"),
            "mine.py: ACTION = 'wings'; expected one of rotors, throttle, thrust_and_rates, thr",
        ),
        (("SECONDS = 2.0", "SUBSTEPS = 0"), "mine.py: SUBSTEPS = 0; expected a whole number from 1 to 1000"),
    ],
)
def test_a_file_that_is_no_task_is_named(tmp_path, change, message):
    path = tmp_path / "mine.py"
    path.write_text(TASK_FILE.replace(*change))
    with pytest.raises(ValueError) as error:
        load_task(path)
    assert message in str(error.value)


def test_an_unknown_task_and_a_body_without_rotors_are_refused():
    with pytest.raises(ValueError, match="no task 'swim'; expected one of hover, recover"):
        load_task("swim")
    with pytest.raises(ValueError, match="has no rotors"):
        trim_drone(vehicle("rigid_body_quadrotor"))


def test_a_change_of_the_action_costs_its_square():
    """r' = r − c Σ(aₖ − aₖ₋₁)² with actions clipped to ±1: 0.5 (0.2² + 0.1² + 0² + (1 − 0.4)²) = 0.205"""
    task = load_task("hover")
    initial = first_situation(task)._replace(action=(0.1, -0.2, 0.3, 0.4))
    action = (0.3, -0.3, 0.3, 7.0)
    free, costly = (take_step(initial, action, task._replace(action_change_cost=cost))[1].reward for cost in (0.0, 0.5))
    assert free - costly == pytest.approx(0.205, rel=1e-12)
