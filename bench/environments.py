"""Measure training environments: `environments.py NAME` prints the steps per second of all drones together, on the CPU.

    python bench/environments.py samara                       # 4096 drones hovering, float32, actions at random
    bench/.venv/bin/python bench/environments.py crazyflow    # 4096 worlds of its DroneReachPos-v0
    bench/.venv/bin/python bench/environments.py gym_pybullet_drones

A step is one action, with observation, reward, end of episode, and a reset where an episode ended. The peers run at their own
rates: Crazyflow with 50 actions per 500 physics steps a second, gym-pybullet-drones with 30 per 240. Samara has 100 per 100
RK4 steps, and `samara_500` 50 per 500.
"""

import sys
import time

import numpy as np

DRONES = 4096


def steps_per_second(step, actions, repeats: int = 200) -> float:
    """Return the drone count over the shortest mean time of a step: other load only adds time; each mean includes resets."""
    times = []
    for repeat in range(repeats):
        begin = time.perf_counter()
        for action in actions:
            step(action)
        times.append((time.perf_counter() - begin) / len(actions))
        if repeat > 10 and sum(times) * len(actions) > 20.0:
            break
    return actions.shape[1] / min(times)


def samara(**changes) -> float:
    from samara.learn.envs.gym import VectorEnv

    env = VectorEnv("hover", DRONES, dtype="float32", **changes)
    env.reset(seed=0)
    return steps_per_second(env.step, np.random.default_rng(0).uniform(-0.3, 0.3, (10, DRONES, 4)).astype(np.float32))


def crazyflow() -> float:
    import crazyflow  # noqa: F401 (registers its environments)
    import gymnasium
    import jax

    env = gymnasium.make_vec("DroneReachPos-v0", num_envs=DRONES, freq=50, device="cpu")
    env.reset(seed=0)

    def step(action) -> None:
        jax.block_until_ready(env.step(action)[0])

    low, high = env.action_space.low, env.action_space.high
    fractions = np.random.default_rng(0).uniform(0.4, 0.6, (10, *env.action_space.shape))
    actions = (low + fractions * (high - low)).astype(np.float32)
    step(actions[0])
    return steps_per_second(step, actions, repeats=20)


def gym_pybullet_drones() -> float:
    from gym_pybullet_drones.envs.HoverAviary import HoverAviary

    env = HoverAviary()
    env.reset(seed=0)

    def step(action) -> None:
        if any(env.step(action)[2:4]):
            env.reset()

    return steps_per_second(
        step, np.random.default_rng(0).uniform(-0.3, 0.3, (10, *env.action_space.shape)), repeats=20
    )


ROWS = {
    "samara": samara,
    "samara_500": lambda: samara(period=0.02, substeps=10),
    "crazyflow": crazyflow,
    "gym_pybullet_drones": gym_pybullet_drones,
}

if __name__ == "__main__":
    print(f"{ROWS[sys.argv[1]]():.4g}")
