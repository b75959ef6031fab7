"""Train hover with Stable-Baselines3's PPO on the CPU: `python bench/sb3_ppo.py [SEED]`, with the extra `sb3`.

Every 300,000 steps the policy is evaluated on 1000 unseen initial states, until 99 % of them succeed: within 5 cm and 5 cm/s of
rest at the origin after 3 s. The script prints the steps, the training time (wall-clock and CPU) and the success rate.
"""

import sys
import time

import numpy as np
import torch
from stable_baselines3 import PPO

from samara.learn.envs.gym import VectorEnv
from samara.learn.envs.sb3 import VecEnv

STARTS, EVALUATION_SEED, MAX_STEPS = 1000, 2**40, 3_000_000


def success_rate_unseen(model: PPO) -> float:
    """Return the fraction of successful episodes on initial states of seeds that the training does not use."""
    env = VectorEnv("hover", STARTS, dtype="float32", autoreset_mode="Disabled")
    observation, _ = env.reset(seed=EVALUATION_SEED)
    has_terminated = np.zeros(STARTS, dtype=bool)
    for step in range(env.setting.task.steps):
        observation, _, terminated, _, _ = env.step(model.predict(observation, deterministic=True)[0])
        has_terminated |= terminated
        if terminated.any() and step + 1 < env.setting.task.steps:
            observation, _ = env.reset(options={"reset_mask": terminated})
    succeeded = env.setting.task.success(env.episode.situation, env.setting.drone)
    return float((succeeded & ~has_terminated).mean())


def main(seed: int) -> None:
    """Train in parts and evaluate after each."""
    torch.set_num_threads(1)
    model = PPO(
        "MlpPolicy",
        VecEnv("hover", 256, dtype="float32"),
        n_steps=64,
        batch_size=2048,
        n_epochs=4,
        gamma=0.97,
        learning_rate=6e-4,
        policy_kwargs={"net_arch": [64, 64], "log_std_init": -1.0},
        seed=seed,
        device="cpu",
    )
    wall_seconds = cpu_seconds = 0.0
    for part in range(10):
        begin = time.perf_counter(), time.process_time()
        model.learn(MAX_STEPS // 10, reset_num_timesteps=part == 0)
        wall_seconds, cpu_seconds = (
            wall_seconds + time.perf_counter() - begin[0],
            cpu_seconds + time.process_time() - begin[1],
        )
        success_rate = success_rate_unseen(model)
        print(
            f"{model.num_timesteps} steps, {wall_seconds:.1f} s, {cpu_seconds:.1f} s of CPU time: {success_rate:.1%}",
            flush=True,
        )
        if success_rate >= 0.99:
            break


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
