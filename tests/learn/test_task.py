"""Tasks as pure functions: where they start, what actions mean, and what a file of one's own may hold."""

import math

import jax.numpy as jnp
import numpy as np
import pytest

from samara.compiler.jax import random as draws_jax
from samara.compiler.trace.symbolic import trace
from samara.control.action_space import ACTION_SPACES, ANGLES, RATES, SPEED, YAW_RATE
from samara.core.algebra import Quat, Vec3, euler_from_quat, matrix_from_quat, norm
from samara.core.random import key_of, normals, normals_of, uniforms_of, words
from samara.core.tree import flatten
from samara.learn.compiled_episode import episode_keys, random_numbers
from samara.learn.env_config import Setting
from samara.learn.episode import Episode, advance, reset, step
from samara.learn.task import Draw, Situation, craft_for, kinds_drawn
from samara.learn.tasks import SHIPPED, load_task
from samara.physics.multirotor import derivative
from samara.vehicles.loader import vehicle

CRAFT = craft_for("crazyflie")
OWN = """
from samara.core.algebra import norm

SECONDS = 2.0
def reset(draw, craft): return craft.trim, ()
def observation(situation, craft): return tuple(situation.state.p_W)
def reward(situation, craft): return 1.0 - norm(situation.state.p_W)
def termination(situation, craft): return norm(situation.state.p_W) > 1.0
"""


def starts(name, count=2000):
    """States of so many starts, as arrays"""
    task = load_task(name)
    rows = random_numbers(episode_keys(range(count)), np.zeros(count), 0, kinds_drawn(task, CRAFT))
    return task.reset(Draw(iter(rows)), CRAFT)[0]


def first_situation(task, craft=CRAFT):
    """The situation at the start of an episode with no spread"""
    return reset(Draw(), Setting(task, craft))[0].situation


def step_from(situation, action, task, craft=CRAFT):
    """One step from a situation: the situation after it, and the transition"""
    episode, transition = step(Episode(situation), action, Draw(), Setting(task, craft))
    return episode.situation, transition


# Random numbers ----------------------------------------------------------------------------------------------------


def test_words_make_the_normals_that_are_drawn():
    """A road of its own to the same address, for many keys at once"""
    pairs = np.array([key_of(seed, "wind") for seed in (3, 4)], dtype=np.uint64).T
    found = normals_of(words((pairs[0], pairs[1]), 7, np.array([5, 2**40], dtype=np.uint64), 9))
    assert (found[:, 0] == normals(3, "wind", 7, 5, 9)).all()
    assert (found[:, 1] == normals(4, "wind", 7, 2**40, 9)).all()


def test_words_in_jax_are_the_same():
    pairs = episode_keys([1, 2, 3])
    episodes, steps = np.array([0, 8, 9], dtype=np.uint64), np.array([0, 0, 70], dtype=np.uint64)
    here = words((pairs[0], pairs[1]), np.uint64(0), episodes | steps << np.uint64(32), 6)
    there = draws_jax.words(tuple(jnp.asarray(pairs, jnp.uint32)), 0, episodes, steps, 6)
    assert (here == np.asarray(there)).all()
    assert np.abs(np.asarray(draws_jax.uniform(there, jnp.float32)) - uniforms_of(here)).max() < 1e-7


def test_uniforms_are_spread_evenly():
    """Kolmogorov and Smirnov, of 10 000: below 1.95/√n in 999 of 1000"""
    drawn = np.sort(random_numbers(episode_keys(range(10_000)), np.zeros(10_000), 0, ("uniform",))[0])
    assert drawn[0] > 0.0 and drawn[-1] < 1.0
    assert np.abs(drawn - np.arange(0.5, 10_000) / 10_000).max() < 1.95 / 100.0


# Starts -------------------------------------------------------------------------------------------------------------


def test_hover_starts_where_it_says():
    start = starts("hover")
    for vector, size in ((start.p_W, 0.5), (start.v_W, 1.0), (start.omega_B, 1.0)):
        for component in vector:
            assert np.abs(component).max() <= size and np.abs(component).max() > 0.99 * size
    tilt = matrix_from_quat(start.q_WB).zz
    assert tilt.min() > -1e-12 and tilt.min() < 0.2
    assert start.rotor_speed == CRAFT.trim.rotor_speed


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


@pytest.mark.parametrize("action", sorted(set(ACTION_SPACES) - {"throttle"}))  # which knows of no trim
@pytest.mark.parametrize("name", ["crazyflie", "hexarotor_x", "crazyflie_brushless"])
def test_no_action_hovers(name, action):
    craft, task = craft_for(name), load_task("hover")._replace(action=action, substeps=4)
    before = first_situation(task, craft)._replace(state=craft.trim)
    after, transition = step_from(before, before.action, task, craft)
    rates = derivative(after.state, craft.command, craft.vehicle)
    assert max(map(abs, flatten(rates.v_W))) < 1e-6
    assert transition.reward == pytest.approx(1.99) and not transition.terminated
    assert after.time == task.period


def settled(action, name, seconds, craft=CRAFT):
    """The state after so long under one action, from hover"""
    task = load_task("hover")._replace(action=name, substeps=5)
    step = trace(lambda state, own: advance(state, own, craft, task), craft.trim, action)
    state = craft.trim
    for _ in range(round(seconds / task.period)):
        state = step(state, action)
    return state


def test_rates_are_what_was_asked_for():
    omega_B = settled((0.0, 0.2, -0.1, 0.1), "thrust_and_rates", 0.5).omega_B
    assert omega_B.x == pytest.approx(0.2 * RATES.x, abs=0.1)
    assert omega_B.y == pytest.approx(-0.1 * RATES.y, abs=0.1)
    assert omega_B.z == pytest.approx(0.1 * RATES.z, abs=0.1)


@pytest.mark.parametrize("share", [0.1, -0.5])
def test_attitude_is_what_was_asked_for(share):
    """R(roll, pitch, yaw), where the turn has come to rest; yaw takes longest"""
    craft = craft_for(vehicle("crazyflie_brushless").without_effect("airspeed_moment"))
    state = settled((0.0, share, -0.5 * share, share), "thrust_and_attitude", 4.0, craft)
    wanted = (share * ANGLES.x, -0.5 * share * ANGLES.y, share * ANGLES.z)
    assert euler_from_quat(state.q_WB) == pytest.approx(wanted, abs=0.01)
    assert norm(state.omega_B) < 0.02


def test_no_thrust_falls():
    """ż = −g t but for drag and for the rotors' spinning down"""
    fallen = settled((-1.0, 0.0, 0.0, 0.0), "thrust_and_rates", 0.5).v_W.z
    assert -9.81 * 0.5 < fallen < -9.81 * 0.3


def test_velocity_is_what_was_asked_for():
    craft, wanted = craft_for("hexarotor_x"), Vec3(0.2, -0.1, 0.1) * SPEED
    assert norm(settled((0.2, -0.1, 0.1, 0.0), "velocity", 6.0, craft).v_W - wanted) < 2e-4
    assert settled((0.0, 0.0, 0.0, 0.25), "velocity", 2.0).omega_B.z == pytest.approx(0.25 * YAW_RATE, abs=0.01)


def test_full_rotors_are_as_far_above_hover_as_none_is_below():
    """u₀ + a min(u₀, 1 − u₀)"""
    command = ACTION_SPACES["rotors"].command
    up, down = (command((a,) * 4, CRAFT.trim, CRAFT.nominal, CRAFT.command) for a in (1.0, -1.0))
    for high, low, still in zip(up, down, CRAFT.command, strict=True):
        assert high + low == pytest.approx(2.0 * still)
        assert min(1.0 - high, low) == pytest.approx(0.0, abs=1e-15)


# A step ------------------------------------------------------------------------------------------------------------


def test_actions_are_cut_and_the_rest_is_remembered():
    task = load_task("hover")
    before = first_situation(task)
    far, full = (step_from(before, (a,) * 4, task) for a in (7.0, 1.0))
    assert far == full and far[0].action == (1.0,) * 4


def test_progress_chooses_the_next_goal():
    task = load_task("hover")._replace(progress=lambda before, after, craft: before.goal + after.time)
    before = Situation(CRAFT.trim, 3.0, 0.5, (0.0,) * 4)
    assert step_from(before, before.action, task)[0].goal == 3.51


def test_success_is_at_rest_at_the_origin():
    task = load_task("hover")
    at = lambda **changes: task.success(Situation(CRAFT.trim._replace(**changes)), CRAFT)  # noqa: E731
    assert at() and not at(p_W=Vec3(0.06, 0.0, 0.0)) and not at(v_W=Vec3(0.0, 0.0, -0.06))
    assert at(q_WB=Quat(0.0, 1.0, 0.0, 0.0))


# Files -------------------------------------------------------------------------------------------------------------


def test_a_file_is_a_task(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(OWN)
    task = load_task(path)
    assert (task.name, task.seconds, task.action, task.progress) == ("mine", 2.0, "rotors", None)
    assert step_from(first_situation(task), (0.0,) * 4, task)[1].reward == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("change", "said"),
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
def test_a_file_that_is_no_task_is_named(tmp_path, change, said):
    path = tmp_path / "mine.py"
    path.write_text(OWN.replace(*change))
    with pytest.raises(ValueError) as error:
        load_task(path)
    assert said in str(error.value)


def test_an_unknown_task_and_a_body_without_rotors_are_refused():
    with pytest.raises(ValueError, match="no task 'swim'; expected one of hover, recover"):
        load_task("swim")
    with pytest.raises(ValueError, match="has no rotors"):
        craft_for(vehicle("rigid_body_quadrotor"))


def test_a_change_of_the_action_costs_its_square():
    """r' = r − c Σ(aₖ − aₖ₋₁)² with actions clipped to ±1: 0.5 (0.2² + 0.1² + 0² + (1 − 0.4)²) = 0.205"""
    task = load_task("hover")
    before = first_situation(task)._replace(action=(0.1, -0.2, 0.3, 0.4))
    action = (0.3, -0.3, 0.3, 7.0)
    free, costly = (step_from(before, action, task._replace(action_change_cost=cost))[1].reward for cost in (0.0, 0.5))
    assert free - costly == pytest.approx(0.205, rel=1e-12)
