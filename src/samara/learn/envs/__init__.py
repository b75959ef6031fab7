"""Environments for Gymnasium, Stable-Baselines3, PettingZoo and JAX; all simulate the same flights.

| name | interface | needs |
|---|---|---|
| `VectorEnv` | Gymnasium, N drones at once | `samara-flight[gym]` |
| `Env` | Gymnasium, one drone | `samara-flight[gym]` |
| `environment` | pure functions in JAX | `samara-flight[jax]` |
| `VecEnv` | Stable-Baselines3 | `samara-flight[sb3]` |
| `ParallelEnv` | PettingZoo | `samara-flight[pettingzoo]` |
"""

from typing import TYPE_CHECKING

from samara.core.lazy_import import lazy_exports

if TYPE_CHECKING:
    from samara.learn.envs.gym import Env, VectorEnv
    from samara.learn.envs.pettingzoo import ParallelEnv
    from samara.learn.envs.sb3 import VecEnv
    from samara.learn.jax.env import environment
else:
    __getattr__, __dir__ = lazy_exports(__name__)

__all__ = [
    "Env",
    "ParallelEnv",
    "VecEnv",
    "VectorEnv",
    "environment",
]
