"""One drone as a Gymnasium `Env`: the same program as `VectorEnv`, the same bits.

import gymnasium, samara.learn.envs.registration
env = gymnasium.make("samara/Hover-v0", vehicle="crazyflie")
"""

from typing import Any

import numpy as np

from samara.core.optional_dependencies import MissingExtraError
from samara.core.types import Array
from samara.learn.envs.gym_vector import VectorEnv
from samara.learn.render import picture
from samara.learn.task import Task
from samara.physics.types import State

try:
    import gymnasium
    from gymnasium.error import ResetNeeded
    from gymnasium.vector import AutoresetMode
except ImportError as error:
    raise MissingExtraError(
        "samara.learn.envs.gym_single needs Gymnasium 1.1 or newer: pip install 'samara[gym]'"
    ) from error


class Env(gymnasium.Env[Array, Array]):
    """A task flown by one drone; `render_mode="rgb_array"` draws it. Options are those of `VectorEnv`."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 50}  # noqa: RUF012 (Gymnasium reads it from the class)

    def __init__(self, task: Task | str = "hover", *, render_mode: str | None = None, **options: Any) -> None:
        if render_mode not in (None, *self.metadata["render_modes"]):
            raise ValueError(f"render_mode {render_mode!r}: expected rgb_array or None")
        self.many = VectorEnv(task, 1, autoreset_mode=AutoresetMode.DISABLED, **options)
        self.metadata = {**self.metadata, "render_fps": round(1.0 / self.many.setting.task.period)}
        self.observation_space, self.action_space = self.many.single_observation_space, self.many.single_action_space
        self.render_mode = render_mode
        self._path: list[State] = []

    @property
    def state(self) -> State:
        """The drone as it is now"""
        return State(*(_alone(part) for part in self.many.state))

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Array, dict[str, Any]]:
        """The next episode; with a seed, the first of that seed"""
        super().reset(seed=seed)
        if seed is None and not self._path:
            seed = int(self.np_random.integers(2**62))
        observations, info = self.many.reset(seed=seed)
        self._path = [self.state]
        return observations[0], info

    def step(self, action: Any) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        """One period under an action: observation, reward, terminated, truncated, info"""
        given = np.asarray(action)[None]
        observations, rewards, terminated, truncated, info = self.many.step(given)
        if self.render_mode:
            self._path.append(self.state)
        return observations[0], float(rewards[0]), bool(terminated[0]), bool(truncated[0]), info

    def render(self) -> Any:
        """The drone and the way it came, as (height, width, 3) bytes; None without a render mode"""
        if self.render_mode is None:
            return None
        if not self._path:
            raise ResetNeeded("the environment has not started: call reset() before render()")
        return picture(self._path, self.many.setting.craft.vehicle)


def _alone(part: Any) -> Any:
    if not isinstance(part, tuple):
        return float(part[0])
    own = [_alone(each) for each in part]
    return type(part)(*own) if hasattr(part, "_fields") else tuple(own)
