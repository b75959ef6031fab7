"""One task, many environments: Gymnasium's rules are kept, and all give the same numbers."""

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from samara.compiler.llvm.random import drawing
from samara.core.ops import sin
from samara.core.random import normals_of, uniforms_of, words
from samara.core.tree import flatten
from samara.learn.compiled_episode import episode_keys, program_of
from samara.learn.domain_randomization import RAPTOR
from samara.learn.env_config import setting_for
from samara.learn.envs.gym import Env, VectorEnv, gymnasium_id
from samara.learn.episode import advance
from samara.learn.jax.env import environment
from samara.learn.observation_noise import L2F_NOISE, noisy
from samara.learn.tasks import BLIND, load_task

BRIEF = {"seconds": 0.2}  # 20 steps


def some_actions(steps, drones, size=4, seed=0):
    """(steps, N, size), the same for every call with the same seed"""
    return np.random.default_rng(seed).uniform(-1.0, 1.0, (steps, drones, size)).astype(np.float32)


def jitted(function):
    """Without XLA's fusion pass, which takes five times as long to compile on a CPU as all else"""
    return jax.jit(function, compiler_options={"xla_disable_hlo_passes": "fusion"})


# Gymnasium's rules -------------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:.*infinity.*:UserWarning")  # positions and speeds have no bounds
@pytest.mark.parametrize("task", BLIND)
def test_gymnasium_finds_nothing_wrong(task):
    """Its own checker: seeds, spaces, types, pictures, and that the same seed and action give the same step"""
    env = gymnasium.make(gymnasium_id(task), render_mode="rgb_array", **BRIEF)
    check_env(env.unwrapped)
    env.reset(seed=0)
    shown = env.render()
    assert shown.shape == (360, 480, 3) and shown.dtype == np.uint8 and len(np.unique(shown)) > 10
    assert Env(task, **BRIEF).render() is None


def test_make_vec_makes_the_compiled_one():
    env = gymnasium.make_vec("samara/Hover-v0", num_envs=3, vectorization_mode="vector_entry_point", **BRIEF)
    assert isinstance(env.unwrapped, VectorEnv) and env.num_envs == 3
    assert env.reset(seed=1)[0] in env.observation_space


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_ends_are_handled_as_gymnasium_handles_them(mode):
    """Its own vector environment around single ones, in each of its modes, through ends and new episodes: bit for bit

    With DISABLED both are told which to reset.
    """
    ours = VectorEnv("hover", 3, autoreset_mode=mode, **BRIEF)
    theirs = SyncVectorEnv([lambda: Env("hover", **BRIEF)] * 3, autoreset_mode=mode)
    seen, same = ours.reset(seed=7)[0], theirs.reset(seed=7)[0]
    assert (seen == same).all()
    ends = 0
    for action in some_actions(65, 3):
        here, there = ours.step(action), theirs.step(action)
        for one, other in zip(here[:4], there[:4], strict=True):
            assert (one == other).all() and one.dtype == other.dtype
        over = here[2] | here[3]
        ends += over.sum()
        if mode is AutoresetMode.SAME_STEP:
            assert set(here[4]) == set(there[4])
            if over.any():
                assert (here[4]["_final_obs"] == there[4]["_final_obs"]).all()
                one, other = (np.stack(info["final_obs"][over]) for info in (here[4], there[4]))
                assert (one == other).all()
        if mode is AutoresetMode.DISABLED and over.any():
            with pytest.raises(ResetNeeded, match="the episode of drone 0 is over"):
                ours.step(action)
            one, other = (env.reset(options={"reset_mask": over.copy()})[0] for env in (ours, theirs))
            assert (one == other).all()
    assert ends >= 9


def test_a_mask_and_seeds_of_ones_own():
    env = VectorEnv("hover", 3, **BRIEF)
    first = env.reset(seed=4)[0]
    for action in some_actions(5, 3):
        last = env.step(action)[0]
    kept = last.copy()
    again = env.reset(seed=[4, None, 99], options={"reset_mask": np.array([True, False, True])})[0]
    assert (again[0] == first[0]).all() and (again[1] == last[1]).all()
    assert (again[2] == Env("hover", **BRIEF).reset(seed=99)[0]).all()
    assert (last == kept).all()  # what was given away is not written to


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
    task = load_task("hover")._replace(reward=lambda situation, craft: 1.0)
    env = VectorEnv(task, 3, **BRIEF)
    env.reset(seed=0)
    env._episodes[4, 1] = np.nan
    with pytest.raises(
        FloatingPointError, match=r"situation\.state\.p_W\.x of drone 1 is nan; expected a finite number"
    ):
        env.step(np.zeros((3, 4)))


# The same numbers --------------------------------------------------------------------------------------------------


def test_draws_in_vector_code_are_those_of_numpy():
    """Whole tiles and what is left over, both kinds, and a step above 2³²"""
    kinds = ("uniform", "normal", "normal", "uniform", "normal", "uniform")
    keys, ticks = episode_keys(range(37)), np.arange(37, dtype=np.uint64) << np.uint64(31)
    drawn, found = drawing(kinds)(keys, ticks), words((keys[0], keys[1]), np.uint64(0), ticks, len(kinds))
    for row, word, kind in zip(drawn, found, kinds, strict=True):
        assert (row == (normals_of(word) if kind == "normal" else uniforms_of(word))).all()


def test_a_drone_flies_the_same_in_any_crowd():
    """Drone i of seed s is drone 0 of seed s + i: bit for bit, in lanes and in what is left over of them"""
    many = VectorEnv("recover", 37, **BRIEF)
    many.reset(seed=100)
    actions = some_actions(45, 37)
    together = [many.step(action)[:4] for action in actions]
    for drone in (0, 5, 36):
        alone = VectorEnv("recover", 1, **BRIEF)
        alone.reset(seed=100 + drone)
        for action, whole in zip(actions, together, strict=True):
            for one, all_of_them in zip(alone.step(action[drone : drone + 1])[:4], whole, strict=True):
                assert (one[0] == all_of_them[drone]).all()


@pytest.mark.parametrize("more", [{}, {"substeps": 3, "action": "thrust_and_rates"}], ids=["one", "three"])
def test_a_step_is_the_equations(more):
    """What Python computes of the same functions, number by number; with steps of physics within, in a loop of their own"""
    env = Env("hover", **BRIEF, **more)
    env.reset(seed=3)
    setting = env.many.setting
    for action in some_actions(5, 1)[:, 0].astype(float):
        wanted = advance(env.state, tuple(action.tolist()), setting.craft, setting.task)
        env.step(action)
        assert flatten(env.state) == pytest.approx(flatten(wanted), rel=1e-12, abs=1e-13)


def test_single_precision_is_right_to_single_precision():
    one, other = (VectorEnv("hover", 16, dtype=dtype, **BRIEF) for dtype in ("float64", "float32"))
    assert np.abs(one.reset(seed=1)[0] - other.reset(seed=1)[0]).max() < 1e-6
    for action in some_actions(15, 16):
        here, there = one.step(action), other.step(action)
    assert np.abs(here[0] - there[0]).max() < 1e-4
    assert np.abs(here[1] - there[1]).max() < 1e-5


def test_jax_has_the_same_numbers():
    """Through starts, steps, an end, and the next episode: to single precision"""
    env, same = environment("recover", **BRIEF), VectorEnv("recover", 5, **BRIEF)
    reset, step, restart = (jitted(jax.vmap(each)) for each in (env.reset, env.step, env.restart))
    flights, seen = reset(jnp.stack([env.key(20 + i) for i in range(5)]))
    assert np.abs(seen - same.reset(seed=20)[0]).max() < 2e-6
    for action in some_actions(20, 5):
        flights, there = step(flights, action)
        here = same.step(action)
        assert (np.asarray(there.terminated) == here[2]).all() and (np.asarray(there.truncated) == here[3]).all()
    assert here[3].all()
    assert np.abs(there.observation - here[0]).max() < 3e-4
    assert np.abs(there.reward - here[1]).max() < 1e-3
    flights, seen = restart(flights)
    assert np.abs(seen - same.step(np.zeros((5, 4)))[0]).max() < 2e-6
    assert isinstance(env.reset(jax.random.key(3))[0].episode.situation.time, jax.Array)


def test_jax_takes_the_same_steps_one_by_one():
    """Not compiled, one drone: what a debugger sees"""
    env, same = environment("hover", **BRIEF), Env("hover", **BRIEF)
    flight, seen = env.reset(env.key(8))
    assert np.abs(seen - same.reset(seed=8)[0]).max() < 2e-6
    for action in some_actions(2, 1)[:, 0]:
        flight, there = env.step(flight, action)
        here = same.step(action)
    assert np.abs(there.observation - here[0]).max() < 1e-5
    assert float(there.reward) == pytest.approx(here[1], abs=1e-5)
    assert not there.terminated and not there.truncated


def test_gradients_are_the_slopes():
    """d(sum of rewards)/d(action) of ten steps, against differences of the compiled environment"""
    env = environment("hover")
    flight, _ = env.reset(env.key(1))

    def gained(action):
        def one(carry, _):
            now, total = carry
            now, seen = env.step(now, action)
            return (now, total + seen.reward), None

        return jax.lax.scan(one, (flight, 0.0), None, length=10)[0][1]

    slopes = jitted(jax.grad(gained))(jnp.zeros(4))
    other = VectorEnv("hover", 8)
    other.reset(seed=[1] * 8)
    aside = 1e-4 * np.concatenate([np.eye(4), -np.eye(4)])
    total = sum(other.step(aside)[1] for _ in range(10))
    assert slopes == pytest.approx((total[:4] - total[4:]) / 2e-4, rel=2e-3, abs=1e-5)


# What lies between ---------------------------------------------------------------------------------------------------


def test_late_actions_arrive_later_and_are_seen_again():
    """A drone whose actions are two periods late flies as one that is given nothing twice and then those actions

    What was chosen is seen at once: newest first, behind what the task shows.
    """
    late, prompt = VectorEnv("hover", 4, delay=2, history=3, **BRIEF), VectorEnv("hover", 4, **BRIEF)
    assert (late.reset(seed=0)[0][:, 22:] == 0.0).all() and late.single_observation_space.shape == (22 + 12,)
    prompt.reset(seed=0)
    actions = some_actions(8, 4)
    for k, action in enumerate(actions):
        seen = late.step(action)[0]
        prompt.step(actions[k - 2] if k >= 2 else np.zeros((4, 4)))
    assert all((one == other).all() for one, other in zip(late.state.p_W, prompt.state.p_W, strict=True))
    for age in range(3):
        assert (seen[:, 22 + 4 * age : 26 + 4 * age] == actions[7 - age]).all()


def test_delays_that_are_drawn():
    """Each drone keeps to its own, from 0 to 2 periods, and all of them occur"""
    env = VectorEnv("hover", 64, delay=(0, 2), **BRIEF)
    env.reset(seed=0)
    late = env.episode.delay
    assert set(late.tolist()) == {0.0, 1.0, 2.0}
    start, push = env.state, np.ones((64, 4), dtype=np.float32)
    for step in range(3):
        env.step(push)
        faster = env.state.rotor_speed[0] > start.rotor_speed[0]
        assert (faster == (late <= step)).all()
    assert (env.episode.delay == late).all()


def test_a_function_of_ones_own_is_compiled_too():
    task = load_task("hover")._replace(observation=lambda situation, craft: (sin(situation.time),), name="mine")
    program = program_of(setting_for(task, "hexarotor_x"))
    assert (program.observations, len(program.reset_draws)) == (1, 13)


@pytest.mark.parametrize(
    "more",
    [
        {"randomization": RAPTOR, "sensing": noisy(L2F_NOISE, latency=0.01), "delay": (0, 2), "history": 2},
        {"task": "race"},
        {"task": "formation"},
    ],
    ids=["drawn", "race", "formation"],
)
def test_jax_has_the_same_numbers_of_whatever_lies_between(more):
    """Vehicles and delays that were drawn, noise at every step, steps of physics within, goals that change, teams"""
    own = {"task": "hover", **more}
    env, same = environment(**own), Env(**own)
    flight, seen = env.reset(env.key(8))
    assert np.abs(seen - same.reset(seed=8)[0]).max() < 1e-5
    for action in some_actions(3, 1, same.action_space.shape[0])[:, 0]:
        flight, there = env.step(flight, 0.3 * action)
        here = same.step(0.3 * action)
    assert np.abs(there.observation - here[0]).max() < 3e-4
    assert float(there.reward) == pytest.approx(here[1], abs=1e-3)
    assert bool(there.terminated) == here[2]
