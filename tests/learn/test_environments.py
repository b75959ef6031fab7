"""One task, many environments: they satisfy Gymnasium's rules, and all compute the same values."""

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from samara.compiler.llvm.random import compile_draw
from samara.core.ops import sin
from samara.core.random import normals_from_words, uniforms_from_words, words
from samara.core.tree import flatten
from samara.learn.compiled_episode import compile_episode, episode_keys
from samara.learn.domain_randomization import RAPTOR
from samara.learn.env_config import configure_environment
from samara.learn.envs.gym import Env, VectorEnv, gymnasium_id
from samara.learn.episode import advance
from samara.learn.jax.env import environment
from samara.learn.observation_noise import L2F_NOISE, noisy_sensing
from samara.learn.tasks import IMAGE_FREE_TASKS, load_task

BRIEF = {"seconds": 0.2}  # 20 steps


def random_actions(steps, drones, size=4, seed=0):
    """Return actions (steps, N, size), the same for every call with the same seed."""
    return np.random.default_rng(seed).uniform(-1.0, 1.0, (steps, drones, size)).astype(np.float32)


def jit_without_fusion(function):
    """Compile without XLA's fusion pass, which takes five times as long on a CPU as all other passes."""
    return jax.jit(function, compiler_options={"xla_disable_hlo_passes": "fusion"})


# Gymnasium's rules -------------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:.*infinity.*:UserWarning")  # positions and speeds have no bounds
@pytest.mark.parametrize("task", IMAGE_FREE_TASKS)
def test_gymnasium_finds_nothing_wrong(task):
    """Its checker: seeds, spaces, types, images, and that the same seed and action give the same step."""
    env = gymnasium.make(gymnasium_id(task), render_mode="rgb_array", **BRIEF)
    check_env(env.unwrapped)
    env.reset(seed=0)
    image = env.render()
    assert image.shape == (360, 480, 3) and image.dtype == np.uint8 and len(np.unique(image)) > 10
    assert Env(task, **BRIEF).render() is None


def test_make_vec_makes_the_compiled_one():
    env = gymnasium.make_vec("samara/Hover-v0", num_envs=3, vectorization_mode="vector_entry_point", **BRIEF)
    assert isinstance(env.unwrapped, VectorEnv) and env.num_envs == 3
    assert env.reset(seed=1)[0] in env.observation_space


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_ends_are_handled_as_gymnasium_handles_them(mode):
    """Against Gymnasium's vector environment of single ones, in each mode, through ends and new episodes: bit for bit.

    With DISABLED both get the mask of episodes to reset.
    """
    compiled = VectorEnv("hover", 3, autoreset_mode=mode, **BRIEF)
    reference = SyncVectorEnv([lambda: Env("hover", **BRIEF)] * 3, autoreset_mode=mode)
    observations, expected = compiled.reset(seed=7)[0], reference.reset(seed=7)[0]
    assert (observations == expected).all()
    ends = 0
    for action in random_actions(65, 3):
        result, expected_result = compiled.step(action), reference.step(action)
        for a, b in zip(result[:4], expected_result[:4], strict=True):
            assert (a == b).all() and a.dtype == b.dtype
        is_over = result[2] | result[3]
        ends += is_over.sum()
        if mode is AutoresetMode.SAME_STEP:
            assert set(result[4]) == set(expected_result[4])
            if is_over.any():
                assert (result[4]["_final_obs"] == expected_result[4]["_final_obs"]).all()
                a, b = (np.stack(info["final_obs"][is_over]) for info in (result[4], expected_result[4]))
                assert (a == b).all()
        if mode is AutoresetMode.DISABLED and is_over.any():
            with pytest.raises(ResetNeeded, match="the episode of drone 0 is over"):
                compiled.step(action)
            a, b = (env.reset(options={"reset_mask": is_over.copy()})[0] for env in (compiled, reference))
            assert (a == b).all()
    assert ends >= 9


def test_a_mask_and_seeds_of_ones_own():
    env = VectorEnv("hover", 3, **BRIEF)
    first = env.reset(seed=4)[0]
    for action in random_actions(5, 3):
        last = env.step(action)[0]
    copy = last.copy()
    again = env.reset(seed=[4, None, 99], options={"reset_mask": np.array([True, False, True])})[0]
    assert (again[0] == first[0]).all() and (again[1] == last[1]).all()
    assert (again[2] == Env("hover", **BRIEF).reset(seed=99)[0]).all()
    assert (last == copy).all()  # returned observations are not overwritten


def test_what_is_refused():
    env = VectorEnv("hover", 2, **BRIEF)
    with pytest.raises(ResetNeeded):
        env.step(np.zeros((2, 4)))
    env.reset(seed=0)
    with pytest.raises(ValueError, match=r"actions: expected numbers of shape \(2, 4\); got float64 of \(2, 3\)"):
        env.step(np.zeros((2, 3)))
    with pytest.raises(ValueError, match=r"actions\[1, 2\] is nan; expected a finite number"):
        env.step(np.array([[0.0] * 4, [0.0, 0.0, np.nan, 0.0]]))
    with pytest.raises(ValueError, match=r"options\['reset_mask'\] is array\(\[False"):
        env.reset(options={"reset_mask": np.zeros(2, dtype=bool)})
    with pytest.raises(ValueError, match="seed has 1 numbers; expected 2"):
        env.reset(seed=[1])
    with pytest.raises(TypeError, match="a task has no 'wind' to change; expected some of seconds, period"):
        VectorEnv("hover", 2, wind=3.0)
    with pytest.raises(ValueError, match="num_envs is 0; expected a whole number of at least 1"):
        VectorEnv("hover", 0)
    with pytest.raises(ValueError, match="delay is -1; expected a whole number from 0 to 1000"):
        VectorEnv("hover", 2, delay=-1)


def test_a_number_that_is_not_finite_is_named():
    task = load_task("hover")._replace(reward=lambda situation, drone: 1.0)
    env = VectorEnv(task, 3, **BRIEF)
    env.reset(seed=0)
    env._episodes[4, 1] = np.nan
    with pytest.raises(
        FloatingPointError, match=r"situation\.state\.p_W\.x of drone 1 is nan; expected a finite number"
    ):
        env.step(np.zeros((3, 4)))


# The same numbers --------------------------------------------------------------------------------------------------


def test_draws_in_vector_code_are_those_of_numpy():
    """Complete tiles and remainders, both distributions, and a step above 2³²."""
    distributions = ("uniform", "normal", "normal", "uniform", "normal", "uniform")
    keys, ticks = episode_keys(range(37)), np.arange(37, dtype=np.uint64) << np.uint64(31)
    compiled_draws, random_words = (
        compile_draw(distributions)(keys, ticks),
        words((keys[0], keys[1]), np.uint64(0), ticks, len(distributions)),
    )
    for row, word, distribution in zip(compiled_draws, random_words, distributions, strict=True):
        assert (row == (normals_from_words(word) if distribution == "normal" else uniforms_from_words(word))).all()


def test_a_drone_flies_the_same_in_any_crowd():
    """Drone i of seed s is drone 0 of seed s + i: bit for bit, in full vectors and in the remainder."""
    batch = VectorEnv("recover", 37, **BRIEF)
    batch.reset(seed=100)
    actions = random_actions(45, 37)
    batch_results = [batch.step(action)[:4] for action in actions]
    for drone in (0, 5, 36):
        single = VectorEnv("recover", 1, **BRIEF)
        single.reset(seed=100 + drone)
        for action, batch_result in zip(actions, batch_results, strict=True):
            for single_value, batch_values in zip(
                single.step(action[drone : drone + 1])[:4], batch_result, strict=True
            ):
                assert (single_value[0] == batch_values[drone]).all()


@pytest.mark.parametrize("options", [{}, {"substeps": 3, "action": "thrust_and_rates"}], ids=["one", "three"])
def test_a_step_is_the_equations(options):
    """Equal to the same functions in Python, value by value; also with a loop of physics steps."""
    env = Env("hover", **BRIEF, **options)
    env.reset(seed=3)
    setting = env.vector_env.setting
    for action in random_actions(5, 1)[:, 0].astype(float):
        expected = advance(env.state, tuple(action.tolist()), setting.drone, setting.task)
        env.step(action)
        assert flatten(env.state) == pytest.approx(flatten(expected), rel=1e-12, abs=1e-13)


def test_single_precision_is_right_to_single_precision():
    double, single = (VectorEnv("hover", 16, dtype=dtype, **BRIEF) for dtype in ("float64", "float32"))
    assert np.abs(double.reset(seed=1)[0] - single.reset(seed=1)[0]).max() < 1e-6
    for action in random_actions(15, 16):
        double_result, single_result = double.step(action), single.step(action)
    assert np.abs(double_result[0] - single_result[0]).max() < 1e-4
    assert np.abs(double_result[1] - single_result[1]).max() < 1e-5


def test_jax_has_the_same_numbers():
    """Through starts, steps, an end, and the next episode: to single precision."""
    env, vector_env = environment("recover", **BRIEF), VectorEnv("recover", 5, **BRIEF)
    reset, step, restart = (jit_without_fusion(jax.vmap(function)) for function in (env.reset, env.step, env.restart))
    flights, observations = reset(jnp.stack([env.key(20 + i) for i in range(5)]))
    assert np.abs(observations - vector_env.reset(seed=20)[0]).max() < 2e-6
    for action in random_actions(20, 5):
        flights, transition = step(flights, action)
        expected = vector_env.step(action)
        assert (np.asarray(transition.terminated) == expected[2]).all() and (
            np.asarray(transition.truncated) == expected[3]
        ).all()
    assert expected[3].all()
    assert np.abs(transition.observation - expected[0]).max() < 3e-4
    assert np.abs(transition.reward - expected[1]).max() < 1e-3
    flights, observations = restart(flights)
    assert np.abs(observations - vector_env.step(np.zeros((5, 4)))[0]).max() < 2e-6
    assert isinstance(env.reset(jax.random.key(3))[0].episode.situation.time, jax.Array)


def test_jax_takes_the_same_steps_one_by_one():
    """Not compiled, for one drone, as in a debugger."""
    env, gym_env = environment("hover", **BRIEF), Env("hover", **BRIEF)
    flight, observation = env.reset(env.key(8))
    assert np.abs(observation - gym_env.reset(seed=8)[0]).max() < 2e-6
    for action in random_actions(2, 1)[:, 0]:
        flight, transition = env.step(flight, action)
        expected = gym_env.step(action)
    assert np.abs(transition.observation - expected[0]).max() < 1e-5
    assert float(transition.reward) == pytest.approx(expected[1], abs=1e-5)
    assert not transition.terminated and not transition.truncated


def test_gradients_are_the_slopes():
    """d(sum of rewards)/d(action) of ten steps, against differences of the compiled environment."""
    env = environment("hover")
    flight, _ = env.reset(env.key(1))

    def total_reward(action):
        def body(carry, _):
            episode, total = carry
            episode, transition = env.step(episode, action)
            return (episode, total + transition.reward), None

        return jax.lax.scan(body, (flight, 0.0), None, length=10)[0][1]

    slopes = jit_without_fusion(jax.grad(total_reward))(jnp.zeros(4))
    vector_env = VectorEnv("hover", 8)
    vector_env.reset(seed=[1] * 8)
    offsets = 1e-4 * np.concatenate([np.eye(4), -np.eye(4)])
    total = sum(vector_env.step(offsets)[1] for _ in range(10))
    assert slopes == pytest.approx((total[:4] - total[4:]) / 2e-4, rel=2e-3, abs=1e-5)


# Delays, history and randomization -----------------------------------------------------------------------------------


def test_late_actions_arrive_later_and_are_seen_again():
    """A drone whose actions are delayed by two periods flies like one with two zero actions first.

    Chosen actions are observed at once: newest first, after the task's observation.
    """
    delayed, prompt = VectorEnv("hover", 4, delay=2, history=3, **BRIEF), VectorEnv("hover", 4, **BRIEF)
    assert (delayed.reset(seed=0)[0][:, 22:] == 0.0).all() and delayed.single_observation_space.shape == (22 + 12,)
    prompt.reset(seed=0)
    actions = random_actions(8, 4)
    for k, action in enumerate(actions):
        observations = delayed.step(action)[0]
        prompt.step(actions[k - 2] if k >= 2 else np.zeros((4, 4)))
    assert all((a == b).all() for a, b in zip(delayed.state.p_W, prompt.state.p_W, strict=True))
    for age in range(3):
        assert (observations[:, 22 + 4 * age : 26 + 4 * age] == actions[7 - age]).all()


def test_delays_that_are_drawn():
    """Each drone keeps its delay, from 0 to 2 periods, and all of them occur."""
    env = VectorEnv("hover", 64, delay=(0, 2), **BRIEF)
    env.reset(seed=0)
    delays = env.episode.delay
    assert set(delays.tolist()) == {0.0, 1.0, 2.0}
    start, actions = env.state, np.ones((64, 4), dtype=np.float32)
    for step in range(3):
        env.step(actions)
        faster = env.state.rotor_speed[0] > start.rotor_speed[0]
        assert (faster == (delays <= step)).all()
    assert (env.episode.delay == delays).all()


def test_a_function_of_ones_own_is_compiled_too():
    task = load_task("hover")._replace(observation=lambda situation, drone: (sin(situation.time),), name="mine")
    program = compile_episode(configure_environment(task, "hexarotor_x"))
    assert (program.observation_size, len(program.reset_draws)) == (1, 13)


@pytest.mark.parametrize(
    "options",
    [
        {"randomization": RAPTOR, "sensing": noisy_sensing(L2F_NOISE, latency=0.01), "delay": (0, 2), "history": 2},
        {"task": "race"},
        {"task": "formation"},
    ],
    ids=["drawn", "race", "formation"],
)
def test_jax_has_the_same_numbers_of_whatever_lies_between(options):
    """Random vehicles and delays, noise at every step, physics substeps, goals that change, teams."""
    arguments = {"task": "hover", **options}
    env, gym_env = environment(**arguments), Env(**arguments)
    flight, observation = env.reset(env.key(8))
    assert np.abs(observation - gym_env.reset(seed=8)[0]).max() < 1e-5
    for action in random_actions(3, 1, gym_env.action_space.shape[0])[:, 0]:
        flight, transition = env.step(flight, 0.3 * action)
        expected = gym_env.step(0.3 * action)
    assert np.abs(transition.observation - expected[0]).max() < 3e-4
    assert float(transition.reward) == pytest.approx(expected[1], abs=1e-3)
    assert bool(transition.terminated) == expected[2]
