"""Hover learnt by PPO of Stable-Baselines3 on two cores: pip install 'samara[sb3]'."""

# %%
import time

import numpy as np
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import VecNormalize

from samara.learn.sb3 import VecEnv
from samara.learn.vector import VectorEnv

drones, steps, updates = 512, 32, 250
torch.set_num_threads(1)  # as measured: 63 s of one core
env = VecEnv("hover", drones, dtype="float32")
env.seed(0)

# %% Many short batches; rewards are scaled, as a value of 100 would be learnt slowly
model = PPO(
    "MlpPolicy",
    VecNormalize(env, norm_obs=False, gamma=0.98),
    learning_rate=lambda left: 4e-3 * left,
    n_steps=steps,
    batch_size=1024,
    n_epochs=4,
    gamma=0.98,
    ent_coef=0.0,
    policy_kwargs={"net_arch": [32, 32], "log_std_init": np.log(0.3)},
    seed=0,
    device="cpu",
)
wall, cpu = time.perf_counter(), time.process_time()
model.learn(drones * steps * updates)
print(f"learnt in {time.perf_counter() - wall:.0f} s, {time.process_time() - cpu:.0f} s of the processor")

# %% Ten thousand starts that it has not seen, to the end of their three seconds
unseen = VectorEnv("hover", 10_000, dtype="float32")
seen, _ = unseen.reset(seed=10**6)
lost = np.zeros(10_000, dtype=bool)
for _ in range(unseen.setting.task.steps):
    seen, _, terminated, _, _ = unseen.step(model.predict(seen, deterministic=True)[0])
    lost |= terminated
p, v = (np.linalg.norm(seen[:, k : k + 3], axis=1) for k in (0, 3))
good = (p < 0.05) & (v < 0.05) & ~lost
print(f"{100 * good.mean():.1f} % within 5 cm and 5 cm/s; half are within {1e3 * np.median(p):.0f} mm")
