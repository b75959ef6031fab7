"""N drones as a `VecEnv` of Stable-Baselines3, on top of `VectorEnv`.

from stable_baselines3 import PPO
model = PPO("MlpPolicy", VecEnv("hover", 64)).learn(1_000_000)
"""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from samara.core.extras import missing_extra
from samara.core.types import Array
from samara.learn.envs.gym import VectorEnv
from samara.learn.task import Task
from samara.physics.types import Vehicle

try:
    from stable_baselines3.common import vec_env
except ImportError as error:
    raise missing_extra("samara.learn.envs.sb3", "Stable-Baselines3", "sb3") from error


class VecEnv(vec_env.VecEnv):  # type: ignore[misc, unused-ignore]
    """A task flown by N drones; the step that ends an episode starts the next, and its info has `terminal_observation`."""

    def __init__(
        self, task: Task | str = "hover", num_envs: int = 64, vehicle: Vehicle | str = "crazyflie", **options: Any
    ) -> None:
        """Configure the environment; `options` are those of `VectorEnv`."""
        self.vector_env = VectorEnv(task, num_envs, vehicle, autoreset_mode="SameStep", **options)
        self.render_mode = None
        self._actions = np.zeros(0)
        super().__init__(num_envs, self.vector_env.single_observation_space, self.vector_env.single_action_space)

    def reset(self) -> Array:
        """Start new episodes of all drones; after `seed(s)`, drone i starts the first episode of s + i."""
        observations, _ = self.vector_env.reset(seed=None if self._seeds[0] is None else self._seeds)
        self._reset_seeds()
        self._reset_options()
        return observations

    def step_async(self, actions: Array) -> None:
        """Store the actions for `step_wait`."""
        self._actions = actions

    def step_wait(self) -> tuple[Array, Array, Array, list[dict[str, object]]]:
        """Advance one period: observations, rewards, ends of episodes, and an info for each drone."""
        observations, rewards, terminated, truncated, info = self.vector_env.step(self._actions)
        infos: list[dict[str, object]] = [{} for _ in range(self.num_envs)]
        is_over = terminated | truncated
        for drone in np.flatnonzero(is_over).tolist():
            is_truncated = bool(truncated[drone] and not terminated[drone])
            infos[drone] = {"terminal_observation": info["final_obs"][drone], "TimeLimit.truncated": is_truncated}
        return observations, rewards.astype(np.float32), is_over, infos

    def close(self) -> None:
        """Do nothing: the environment holds no resources."""

    def get_attr(self, attr_name: str, indices: int | Iterable[int] | None = None) -> list[object]:
        """Return an attribute of this environment, the same for every drone."""
        if not hasattr(self, attr_name):
            raise AttributeError(f"{type(self).__name__} has no {attr_name!r}")
        return [getattr(self, attr_name) for _ in self._get_indices(indices)]

    def set_attr(self, attr_name: str, value: object, indices: int | Iterable[int] | None = None) -> None:
        """Raise AttributeError: the drones share one program."""
        raise AttributeError(f"{attr_name!r} cannot be set: the drones of one program differ in their seeds alone")

    def env_method(self, method_name: str, *args: object, indices: object = None, **kwargs: object) -> list[object]:
        """Raise AttributeError: the drones share one program."""
        raise AttributeError(f"{method_name!r} cannot be called: the drones of one program are not objects")

    def env_is_wrapped(self, wrapper_class: object, indices: int | Iterable[int] | None = None) -> Sequence[bool]:
        """Return False for every drone."""
        return [False for _ in self._get_indices(indices)]
