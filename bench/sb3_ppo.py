"""Hover learnt by Stable-Baselines3's PPO on the CPU: `pip install 'samara[sb3]'`, then `python bench/sb3_ppo.py [SEED]`.

Every 300 000 steps it is tried on 1000 starts that it is not trained on, until 99 % of them succeed: within 5 cm and 5 cm/s of
rest at the origin after 3 s. Printed are steps, seconds of training by the clock and of the processor, and the share.
"""

import sys
import time

import numpy as np
import torch
from stable_baselines3 import PPO

from samara.learn.envs.gym import VectorEnv
from samara.learn.envs.sb3 import VecEnv

STARTS, UNSEEN, MOST = 1000, 2**40, 3_000_000


def share_done(model: PPO) -> float:
    """Of starts that belong to other seeds than the training's"""
    env = VectorEnv("hover", STARTS, dtype="float32", autoreset_mode="Disabled")
    seen, _ = env.reset(seed=UNSEEN)
    lost = np.zeros(STARTS, dtype=bool)
    for step in range(env.setting.task.steps):
        seen, _, terminated, _, _ = env.step(model.predict(seen, deterministic=True)[0])
        lost |= terminated
        if terminated.any() and step + 1 < env.setting.task.steps:
            seen, _ = env.reset(options={"reset_mask": terminated})
    done = env.setting.task.success(env.episode.situation, env.setting.craft)
    return float((done & ~lost).mean())


def main(seed: int) -> None:
    """Trains in parts, and tries after each"""
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
    clock = processor = 0.0
    for part in range(10):
        before = time.perf_counter(), time.process_time()
        model.learn(MOST // 10, reset_num_timesteps=part == 0)
        clock, processor = clock + time.perf_counter() - before[0], processor + time.process_time() - before[1]
        share = share_done(model)
        print(
            f"{model.num_timesteps} steps, {clock:.1f} s, {processor:.1f} s of the processor: {share:.1%}", flush=True
        )
        if share >= 0.99:
            break


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
