"""Environments with a camera: images of the episode's state, taken at the camera's rate and observed after its delay."""

import warnings

import numpy as np
import pytest

pytest.importorskip("gymnasium")

import gymnasium
from gymnasium.utils.env_checker import check_env

from samara.core.algebra import Vec3, rotate
from samara.core.tree import flatten, unflatten
from samara.learn.envs.gym import Env, VectorEnv
from samara.learn.episode_images import episode_model
from samara.learn.task import CameraObservation
from samara.learn.tasks import load_task, race_task
from samara.physics.ground.contact import Ground
from samara.physics.types import CALM, State
from samara.sensors.camera import CameraModel, render_camera
from samara.sensors.detector import DetectorPart
from samara.sensors.registry import part
from samara.world.appearance import GATE_APPEARANCE, Appearance, CameraScene, CameraSurface
from samara.world.obstacles import Sphere

CAMERA = part(
    "ov9281", width=32, height=24, rate=50.0, delay=0.0, full_well=0.0, outputs=["segmentation", "rgb"]
).parameters
SEGMENTATION = CAMERA._replace(outputs=("segmentation",))


def actions(env, seed=0):
    return np.random.default_rng(seed).uniform(-0.2, 0.2, env.action_space.shape).astype(np.float32)


def rendered(env, drone):
    """The images of a drone's camera, by the definition of the camera."""
    task, episode = env.setting.task, env.episode
    situation = unflatten(episode.situation, (leaf[drone] for leaf in flatten(episode.situation)))
    state = unflatten(situation.state, (float(x) for x in flatten(situation.state)))
    model = episode_model(task.camera, unflatten(situation.goal, (float(x) for x in flatten(situation.goal))))
    return render_camera(model, State(*state[:4]), CALM)


@pytest.fixture(scope="module")
def env():
    return VectorEnv(race_task(level=2, camera=CAMERA), 5)


def test_the_observation_has_a_space_for_each_image(env):
    space = env.single_observation_space
    assert set(space) == {"state", "segmentation", "rgb"}
    assert (space["segmentation"].shape, space["segmentation"].dtype) == ((24, 32), np.uint8)
    observations, _ = env.reset(seed=0)
    assert observations in env.observation_space and observations["rgb"].shape == (5, 24, 32, CAMERA.channels)


def test_images_are_those_of_each_drones_own_course(env):
    """Gates and poles are displaced in every episode; the state is that of the task without a camera, bit for bit."""
    plain = VectorEnv(race_task(level=2), 5)
    observations, _ = env.reset(seed=3)
    states, _ = plain.reset(seed=3)
    for step in range(4):
        assert np.array_equal(observations["state"], states)
        for drone in range(5):
            images = rendered(env, drone)
            for name in ("segmentation", "rgb"):
                assert np.array_equal(observations[name][drone], images[name]), (step, name)
        observations, *rest = env.step(actions(env, step))
        states, *plain_rest = plain.step(actions(env, step))
        assert all(np.array_equal(a, b) for a, b in zip(rest[:3], plain_rest[:3], strict=True))
    assert len({observations["segmentation"][drone].tobytes() for drone in range(5)}) == 5
    assert 3 in observations["segmentation"]  # a gate


def test_a_drone_has_the_same_images_alone(env):
    observations, _ = env.reset(seed=7)
    alone = Env(race_task(level=2, camera=CAMERA))
    single, _ = alone.reset(seed=9)
    for step in range(3):
        assert all(np.array_equal(single[name], observations[name][2]) for name in single)
        single, *_ = alone.step(actions(env, step)[2])
        observations, *_ = env.step(actions(env, step))


def test_images_have_the_rate_and_the_delay_of_the_camera():
    """25 Hz and 60 ms at 50 actions a second: every second step, three steps late; 0 before the first."""
    slow = VectorEnv(race_task(level=1, camera=SEGMENTATION._replace(rate=25.0, delay=0.06)), 2)
    fast = VectorEnv(race_task(level=1, camera=SEGMENTATION), 2)
    late, now = [slow.reset(seed=1)[0]["segmentation"]], [fast.reset(seed=1)[0]["segmentation"]]
    for step in range(8):
        late.append(slow.step(actions(slow, step))[0]["segmentation"])
        now.append(fast.step(actions(slow, step))[0]["segmentation"])
    assert not np.any(late[:3])
    for step in range(3, 9):
        assert np.array_equal(late[step], now[(step - 3) // 2 * 2]), step


def test_an_episode_that_ends_starts_with_a_new_image():
    """With a delay the first images of the next episode are 0, and the last of the one before is in final_obs."""
    task = race_task(level=1, camera=SEGMENTATION._replace(delay=0.02), seconds=0.1)
    env = VectorEnv(task, 3, autoreset_mode="SameStep")
    env.reset(seed=0)
    for step in range(5):
        before = rendered(env, 1)["segmentation"]
        observations, _, _, truncated, info = env.step(actions(env, step))
    assert truncated.all() and not np.any(observations["segmentation"])
    assert np.array_equal(info["final_obs"][1]["segmentation"], before)
    first = rendered(env, 1)["segmentation"]
    observations, *_ = env.step(actions(env))
    assert np.array_equal(observations["segmentation"][1], first)
    mask = np.array([False, True, False])
    manual = VectorEnv(task, 3, autoreset_mode="Disabled")
    manual.reset(seed=0)
    last, *_ = manual.step(actions(manual))
    observations, _ = manual.reset(options={"reset_mask": mask})
    assert not np.any(observations["segmentation"][1])
    assert np.array_equal(observations["segmentation"][[0, 2]], last["segmentation"][[0, 2]])


HOVER = load_task("hover")
SCENE = CameraScene(
    (CameraSurface(Sphere(Vec3(2.0, 0.0, 0.0), 0.4), Appearance(class_name="ball")),),
    Ground(Vec3(0.0, 0.0, -5.0)),  # the task has no ground
)


def reset_beside_a_ball(draw, drone):
    state, _ = HOVER.reset(draw, drone)
    ahead = rotate(state.q_WB, Vec3(3.0, draw.uniform(-1.0, 1.0), draw.uniform(-0.5, 0.5)))
    return state, state.p_W + ahead


def drawn_ball(goal):
    return (CameraSurface(Sphere(goal, 0.3)),)


def ball_task(**changes):
    """Hover beside a ball that every episode has, and one that each has elsewhere."""
    camera = CameraObservation(CameraModel(SEGMENTATION._replace(**changes), scene=SCENE), drawn_ball)
    return HOVER._replace(reset=reset_beside_a_ball, camera=camera)


def gate_task(**changes):
    """The same with a bar of a gate instead of the ball."""
    task = ball_task(**changes)
    return task._replace(camera=task.camera._replace(surfaces=drawn_gate))


def drawn_gate(goal):
    return (CameraSurface(Sphere(goal, 0.3), GATE_APPEARANCE._replace(object_name="gate")),)


def test_a_camera_can_be_added_to_any_task():
    env = VectorEnv(ball_task(), 8)
    observations, _ = env.reset(seed=0)
    for drone, image in enumerate(observations["segmentation"]):
        assert np.array_equal(image, rendered(env, drone)["segmentation"]) and 2 in image
    assert 5 in observations["segmentation"]  # the class after sky, ground, obstacle, gate and drone
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*Box observation space m..imum value is.*infinity.*")
        check_env(Env(ball_task()), skip_render_check=True)
    assert isinstance(Env(ball_task()).observation_space, gymnasium.spaces.Dict)


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"rate": 30.0}, "the camera has a rate of 30 Hz and the task 100 actions a second; expected a whole number"),
        ({"outputs": ("gate_corners",)}, r"camera.outputs = \['gate_corners'\]: expected images only"),
        ({"full_well": 100.0, "outputs": ("rgb",)}, "camera.full_well = 100: expected 0, no noise"),
    ],
)
def test_a_camera_that_does_not_fit_is_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        VectorEnv(ball_task(**changes), 2)


def test_trainers_refuse_images():
    from samara.learn.env_config import configure_environment, require_no_images

    with pytest.raises(
        ValueError, match="observes the images of a camera, which environments return and trainers do not"
    ):
        require_no_images(configure_environment(ball_task(), "crazyflie"))


DETECTOR = DetectorPart(miss_rate=0.3, miss_time=0.1, false_rate=0.2, false_time=0.1)


def test_a_detector_misses_gates_of_the_segmentation():
    """At its stationary rate from the first image on; the same for each drone alone, and in every run."""
    count = 200
    task = race_task(level=0, camera=SEGMENTATION._replace(detector=DETECTOR))
    perfect = VectorEnv(race_task(level=0, camera=SEGMENTATION._replace(outputs=("segmentation", "instance"))), 1)
    env = VectorEnv(task, count)
    truth, detected = perfect.reset(seed=0)[0], env.reset(seed=0)[0]["segmentation"]
    gate = np.repeat(truth["segmentation"] == 3, count, axis=0)  # level 0: all start at the same place
    gates_in_view = np.unique(truth["instance"][truth["segmentation"] == 3])
    unseen = ((detected == 3) & gate).sum(axis=(1, 2)) < gate.sum(axis=(1, 2))
    rate = 1.0 - (1.0 - DETECTOR.miss_rate) ** len(gates_in_view)
    assert abs(unseen.mean() - rate) < 4.0 * np.sqrt(rate * (1.0 - rate) / count)
    assert np.any((detected == 3) & ~gate)
    assert np.array_equal(detected, VectorEnv(task, count).reset(seed=0)[0]["segmentation"])
    single, _ = Env(task).reset(seed=5)
    assert np.array_equal(single["segmentation"], detected[5])
    assert set(single) == {"state", "segmentation"}


@pytest.mark.long
def test_the_environment_in_jax_sees_the_same():
    """Segmentations of the same flights, up to pixels on an edge; rate and delay too."""
    jax = pytest.importorskip("jax")
    from samara.learn.jax.env import environment

    task = gate_task(delay=0.01, detector=DETECTOR)
    cpu, env = VectorEnv(task, 2), environment(task)
    expected, _ = cpu.reset(seed=4)
    keys = jax.numpy.stack([env.key(4), env.key(5)])
    flights, observed = jax.jit(jax.vmap(env.reset))(keys)
    step = jax.jit(jax.vmap(env.step))
    for k in range(5):
        assert observed["segmentation"].dtype == np.uint8
        different = np.asarray(observed["segmentation"]) != expected["segmentation"]
        assert different.mean() < 5e-3 and np.allclose(observed["state"], expected["state"], atol=1e-3), k
        flights, transition = step(flights, actions(cpu, k))
        observed, (expected, *_) = transition.observation, cpu.step(actions(cpu, k))
    assert all(3 in image for image in np.asarray(observed["segmentation"]))


def test_stable_baselines_takes_the_images():
    pytest.importorskip("stable_baselines3")
    from samara.learn.envs.sb3 import VecEnv

    env = VecEnv(race_task(level=1, camera=SEGMENTATION, seconds=0.06), 3)
    observations = env.reset()
    assert observations["segmentation"].shape == (3, 24, 32)
    for step in range(3):
        env.step_async(actions(env.vector_env, step))
        observations, _, done, infos = env.step_wait()
    assert done.all() and infos[0]["terminal_observation"]["segmentation"].shape == (24, 32)
