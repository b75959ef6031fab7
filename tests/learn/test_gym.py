"""`samara.learn.gym.Hover` from a learner's side: Gymnasium's rules kept, the same physics, nothing shared between drones."""

import subprocess
import sys

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode
from gymnasium.wrappers.vector import RecordEpisodeStatistics
from scipy.spatial.transform import Rotation

import samara
from samara.control.geometric import geometric
from samara.core.algebra import ZERO, Quat, Vec3, matrix_from_quat
from samara.core.tree import flatten, unflatten
from samara.learn import gym
from samara.learn.gym import Hover
from samara.physics.multirotor import at_rest
from samara.physics.reference import Reference


def some_actions(env: Hover, steps: int, seed: int = 0) -> np.ndarray:
    """(steps, N, rotors), the same for every call with the same seed."""
    return np.random.default_rng(seed).uniform(-1.0, 1.0, size=(steps, *env.action_space.shape))


# Gymnasium's rules -------------------------------------------------------------------------------------------------


class Alone(gymnasium.Env):
    """One drone of a vector environment as a plain environment, so that Gymnasium can check it."""

    def __init__(self):
        self.many = Hover(1)
        self.observation_space = self.many.single_observation_space
        self.action_space = self.many.single_action_space

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        observations, info = self.many.reset(seed=seed, options=options)
        return observations[0], info

    def step(self, action):
        observation, reward, terminated, truncated, info = self.many.step(action[None])
        return observation[0], float(reward[0]), bool(terminated[0]), bool(truncated[0]), info


@pytest.mark.filterwarnings("ignore:.*infinity.*:UserWarning")  # positions and speeds have no bounds
@pytest.mark.filterwarnings("ignore:.*not having been registered.*:UserWarning")
def test_gymnasium_finds_nothing_wrong():
    """Its own checker: seeds, spaces, types, and that the same seed and action give the same step."""
    check_env(Alone(), skip_render_check=True)


@pytest.mark.parametrize("name", ["crazyflie_documented", "hexarotor_x"])
def test_what_comes_back_is_of_the_declared_spaces(name):
    env = Hover(5, name)
    rotors = len(env.vehicle.rotors)
    observations, info = env.reset(seed=3)
    assert (env.observation_space.shape, env.action_space.shape) == ((5, 18 + rotors), (5, rotors))
    assert observations in env.observation_space
    assert info == {}
    for action in some_actions(env, 20):
        observations, rewards, terminated, truncated, info = env.step(action)
        assert observations in env.observation_space
        assert observations.dtype == np.float32
        assert (rewards.shape, rewards.dtype) == ((5,), np.float64)
        assert {terminated.dtype, truncated.dtype} == {np.dtype(bool)}
        assert info == {}


def test_the_step_after_an_end_starts_the_next_episode():
    """`NEXT_STEP`: no reward, no end, the action ignored; elsewhere than before, and the others fly on."""
    assert Hover.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP
    one, other = Hover(2, seconds=0.05), Hover(2, seconds=0.05)
    first, _ = one.reset(seed=8)
    other.reset(seed=8)
    for k in range(1, 6):
        _, _, terminated, truncated, _ = one.step(np.zeros((2, 4)))
        other.step(np.zeros((2, 4)))
        assert truncated.all() == (k == 5)
        assert not terminated.any()
    second, rewards, terminated, truncated, _ = one.step(np.full((2, 4), 1.0))
    same, *_ = other.step(np.full((2, 4), -1.0))
    assert (second == same).all()
    assert (rewards == 0.0).all() and not (terminated | truncated).any()
    assert (second[:, :3] != first[:, :3]).all()
    assert (second[:, 18:] == 0.0).all()  # rotors at hover speed again
    assert (one.step(np.zeros((2, 4)))[1] > 0.0).all()


def test_a_reset_after_the_end_is_the_start():
    """Who resets by hand at an end flies the whole next episode; no step of it is ignored."""
    env = Hover(2, seconds=0.05)
    env.reset(seed=8)
    for _ in range(2):
        for k in range(1, 6):
            _, rewards, _, truncated, _ = env.step(np.zeros((2, 4)))
            assert (rewards > 0.0).all()
            assert truncated.all() == (k == 5)
        env.reset()


def test_gymnasium_counts_the_steps_of_an_episode():
    """Its recorder of statistics agrees about when an episode begins and ends: five, then five, each of return 5."""
    env = RecordEpisodeStatistics(Hover(3, spread=0.0, seconds=0.05))
    env.reset(seed=0)
    for _ in range(11):
        env.step(np.zeros((3, 4)))
    assert list(env.length_queue) == [5] * 6
    assert list(env.return_queue) == pytest.approx([5.0] * 6, rel=1e-12)


# Seeds -------------------------------------------------------------------------------------------------------------


def test_the_same_seed_flies_the_same_flight():
    """Also through resets without a seed, which go on to new starts, and across objects."""
    a, b = Hover(7), Hover(7)
    starts = []
    for seed in (11, None, None):
        (one, _), (two, _) = a.reset(seed=seed), b.reset(seed=seed)
        assert (one == two).all()
        starts.append(one)
    assert (starts[0][:, :3] != starts[1][:, :3]).all() and (starts[1][:, :3] != starts[2][:, :3]).all()
    for action in some_actions(a, 50):
        assert all((x == y).all() for x, y in zip(a.step(action)[:4], b.step(action)[:4], strict=True))
    assert (a.reset(seed=11)[0] == starts[0]).all()
    assert (Hover(7).reset()[0] != Hover(7).reset()[0]).any()


def test_an_environment_of_n_is_n_environments_of_one():
    """Bit for bit, through ends and new episodes: drone i of seed s is alone with seed s + i."""
    many = Hover(5, seconds=0.7)
    ones = [Hover(1, seconds=0.7) for _ in range(5)]
    seen, _ = many.reset(seed=100)
    assert (seen == np.concatenate([one.reset(seed=100 + i)[0] for i, one in enumerate(ones)])).all()
    ends = np.zeros(5, dtype=int)
    for action in some_actions(many, 200):
        together = many.step(action)[:4]
        apart = [one.step(action[i : i + 1])[:4] for i, one in enumerate(ones)]
        for k, x in enumerate(together):
            assert (x == np.concatenate([own[k] for own in apart])).all()
        ends += together[2] | together[3]
    assert flatten(many.state)[0].tolist() == [float(one.state.p_W.x[0]) for one in ones]
    assert ends.min() >= 2


def test_draws_are_those_published_for_splitmix64():
    """The first five for the seed 1234567, as the generator's users print them."""
    counter = np.uint64(1234567) + np.arange(5, dtype=np.uint64) * gym._GOLDEN
    assert gym.splitmix64(counter).tolist() == [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
        4593380528125082431,
        16408922859458223821,
    ]


def test_starts_are_uniform_and_unrelated():
    """Mean 0, variance 1/3, and no correlation between neighbouring seeds, episodes or components; five sigma."""
    n = 40_000
    seeds = np.arange(n, dtype=np.uint64)
    first, second = (gym.uniform(seeds, np.full(n, e, dtype=np.uint64), 12) for e in (0, 1))
    sigma = 1.0 / np.sqrt(n)
    assert np.abs(first.mean(axis=1)).max() < 5.0 * sigma / np.sqrt(3.0)
    assert np.abs((first**2).mean(axis=1) - 1.0 / 3.0).max() < 5.0 * sigma * np.sqrt(4.0 / 45.0)
    pairs = [(first, second), (first[:-1], first[1:]), (first[:, :-1], first[:, 1:]), (first[:, :-1], second[:, 1:])]
    for a, b in pairs:
        assert np.abs(3.0 * (a * b).mean(axis=1)).max() < 5.0 * sigma
    assert -1.0 <= first.min() < -0.9999 and 0.9999 < first.max() < 1.0


# The physics -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["crazyflie_documented", "hakoniwa", "hexarotor_tilted"])
def test_the_middle_of_the_action_space_hovers(name):
    """From the trim, action 0 for a second: no drift beyond rounding, and the full reward at every step.

    The iris is left out: its battery sags, and at constant duty it sinks 4 mm in that second.
    """
    env = Hover(2, name, spread=0.0)
    env.reset(seed=0)
    for _ in range(100):
        _, rewards, terminated, truncated, _ = env.step(np.zeros(env.action_space.shape))
        assert rewards == pytest.approx(1.0, rel=1e-12)
        assert not (terminated | truncated).any()
    assert np.abs(np.array(env.state.p_W)).max() < 1e-12
    assert np.abs(np.array(env.state.v_W)).max() < 1e-12


@pytest.mark.parametrize("backend", ["llvm", "numpy"])
def test_a_step_is_ten_milliseconds_of_the_equations(backend):
    """Five steps of 2 ms in Python floats, the command put together by hand: ±1 is full throttle and its mirror image."""
    env = Hover(3, "crazyflie_documented", backend=backend)
    env.reset(seed=5)
    before = env.state
    env.step(np.array([[1.0, -1.0, 0.5, 0.0], [0.0] * 4, [9.0, -9.0, 0.5, 0.0]]))
    u0 = (np.sqrt(0.028 * 9.81 / 4.0 / 2.88e-8) - 300.0) / 2200.0
    commands = ((1.0, 2.0 * u0 - 1.0, 0.5 * (1.0 + u0), u0), (u0,) * 4, (1.0, 2.0 * u0 - 1.0, 0.5 * (1.0 + u0), u0))
    vehicle = samara.vehicle("crazyflie_documented").without_effect("contact")
    for k, command in enumerate(commands):
        state = unflatten(before, iter(float(leaf[k]) for leaf in flatten(before)))
        for _ in range(5):
            state = samara.step(state, tuple(float(u) for u in command), vehicle, 2e-3)
        assert [leaf[k] for leaf in flatten(env.state)] == pytest.approx(flatten(state), rel=1e-12, abs=1e-13)


def test_an_observation_is_the_state_a_learner_can_read():
    """Place, velocity, SciPy's rotation matrix of the same quaternion, rates, and rotor speeds about hover."""
    env = Hover(4)
    env.reset(seed=6)
    for action in some_actions(env, 10):
        seen, *_ = env.step(action)
    state = env.state
    R_WB = Rotation.from_quat(np.array(state.q_WB).T, scalar_first=True).as_matrix().reshape(4, 9)
    still = np.sqrt(0.0293 * 9.80665 / 4.0 / 2.02e-8)
    rows = (np.array(state.p_W).T, np.array(state.v_W).T, R_WB, np.array(state.omega_B).T)
    expected = np.hstack([*rows, np.array(state.rotor_speed).T / still - 1.0])
    assert seen == pytest.approx(expected, rel=1e-6, abs=1e-7)


def test_reward_is_one_on_the_target_a_half_at_half_a_metre_and_never_negative():
    at = at_rest(samara.vehicle("crazyflie"))
    assert gym.reward(at) == 1.0
    assert gym.reward(at._replace(p_W=Vec3(0.3, 0.0, -0.4))) == pytest.approx(0.5, rel=1e-15)
    assert gym.reward(at._replace(v_W=Vec3(0.0, 1.0, 3.0))) == pytest.approx(0.5, rel=1e-15)
    assert gym.reward(at._replace(omega_B=Vec3(6.0, 8.0, 0.0))) == pytest.approx(0.5, rel=1e-15)
    assert 0.0 < gym.reward(at._replace(p_W=Vec3(100.0, 0.0, 0.0))) < 1e-4


def test_lost_is_two_metres_off_or_past_ninety_degrees():
    level, x, turned = matrix_from_quat(Quat(1.0, 0.0, 0.0, 0.0)), 2.0 / np.sqrt(3.0), Quat(0.0, 0.0, 0.0, 1.0)
    assert not gym.lost(Vec3(0.999 * x, -0.999 * x, 0.999 * x), level)
    assert gym.lost(Vec3(1.001 * x, -1.001 * x, 1.001 * x), level)
    for degrees, over in ((89.9, False), (90.1, True), (180.0, True)):
        half = np.radians(degrees) / 2.0
        tilt = Quat(np.cos(half), np.sin(half) * 0.6, np.sin(half) * 0.8, 0.0)
        assert gym.lost(ZERO, matrix_from_quat(turned * tilt)) == over


def test_a_controller_keeps_every_drone_in_the_air_and_doing_nothing_does_not():
    """Lee's controller through the actions: all 64 fly their 5 s and end within 1 cm; the trim alone loses nine in ten."""
    env, idle = (Hover(64, "crazyflie_documented") for _ in range(2))
    control = geometric(env.vehicle)
    env.reset(seed=1)
    idle.reset(seed=1)
    earned, earned_idle, lost_idle = np.zeros(64), np.zeros(64), np.zeros(64, dtype=bool)
    for _ in range(500):
        command, _ = control(env.state, Reference(ZERO), env.vehicle, ())
        seen, rewards, terminated, truncated, _ = env.step(env.action(command))
        assert not terminated.any()
        earned += rewards
        _, rewards, terminated, _, _ = idle.step(np.zeros((64, 4)))
        earned_idle += rewards
        lost_idle |= terminated
    assert truncated.all()
    assert np.linalg.norm(seen[:, :3], axis=1).max() < 0.01
    assert lost_idle.mean() > 0.9
    assert (earned > earned_idle).all() and earned.mean() > 450.0 > 200.0 > earned_idle.mean()


def test_no_thrust_falls_out_of_the_environment():
    """Action −1 turns the rotors at 588 rad/s, (588/1544)² = 15 % of the weight: terminated, not truncated, 2 m below."""
    env = Hover(1, spread=0.0)
    env.reset(seed=0)
    for _ in range(500):
        seen, _, terminated, truncated, _ = env.step(np.full((1, 4), -1.0))
        if terminated[0]:
            break
    assert terminated[0] and not truncated[0]
    assert -2.1 < seen[0, 2] < -2.0


# What is refused ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("actions", "sentence"),
    [
        (np.zeros(4), r"^actions: expected shape \(3, 4\); got \(4,\)$"),
        (np.zeros((4, 3)), r"^actions: expected shape \(3, 4\); got \(4, 3\)$"),
        (
            np.array([[0.0] * 4, [0.0, 0.0, np.nan, 0.0], [0.0] * 4]),
            r"^actions\[1, 2\] is nan; expected a finite number$",
        ),
        (np.full((3, 4), -np.inf), r"^actions\[0, 0\] is -inf; expected a finite number$"),
    ],
)
def test_a_bad_action_is_named_and_moves_nothing(actions, sentence):
    env = Hover(3)
    env.reset(seed=0)
    before = env.state
    with pytest.raises(ValueError, match=sentence):
        env.step(actions)
    assert all((a == b).all() for a, b in zip(flatten(before), flatten(env.state), strict=True))


def test_a_step_before_the_first_reset_is_refused():
    with pytest.raises(gymnasium.error.ResetNeeded, match=r"call reset\(\) before step\(\)"):
        Hover(1).step(np.zeros((1, 4)))


def test_a_bad_environment_is_refused():
    for wrong in ({"num_envs": 0}, {"spread": -1.0}, {"spread": float("nan")}, {"seconds": 0.0}):
        with pytest.raises(ValueError, match="expected num_envs >= 1, spread >= 0 and seconds > 0"):
            Hover(**wrong)
    with pytest.raises(ValueError, match=r"'rigid_body_quadrotor' has no rotors; Hover takes one action for each"):
        Hover(vehicle="rigid_body_quadrotor")
    with pytest.raises(ValueError, match="backend 'fortran'"):
        Hover(backend="fortran")


def test_without_gymnasium_one_sentence_says_what_to_install():
    program = "import sys; sys.modules['gymnasium'] = None; import samara.learn.gym"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        "samara.core.optional_dependencies.MissingExtraError: samara.learn.gym needs Gymnasium 1.1 or newer: "
        "pip install 'samara[gym]'"
    )
