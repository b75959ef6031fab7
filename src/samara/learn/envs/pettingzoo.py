"""A team of drones as a `ParallelEnv` of PettingZoo: every drone is an agent with its observation, action and reward.

    env = ParallelEnv("formation")
    observations, infos = env.reset(seed=0)
    observations, rewards, terminations, truncations, infos = env.step({agent: action for agent in env.agents})

It flies the flights of `VectorEnv` with the same task and seed, whose actions concatenate those of all drones.
"""

from typing import TypeAlias, Unpack

import numpy as np
from numpy.typing import ArrayLike

from samara.core.extras import missing_extra
from samara.core.types import Array
from samara.learn.compiled_episode import compile_episode, episode_keys, random_numbers
from samara.learn.env_config import SettingOptions, configure_environment, require_no_images
from samara.learn.task import Task
from samara.physics.types import Vehicle

try:
    import pettingzoo
    from gymnasium.spaces import Box
except ImportError as error:
    raise missing_extra("samara.learn.envs.pettingzoo", "PettingZoo", "pettingzoo") from error


StepResult: TypeAlias = tuple[
    dict[str, Array], dict[str, float], dict[str, bool], dict[str, bool], dict[str, dict[str, object]]
]


class ParallelEnv(pettingzoo.ParallelEnv):  # type: ignore[misc, unused-ignore]
    """A task for a team, or for one drone as a team of one; an episode that ends for one agent ends for all."""

    metadata = {"name": "samara", "render_modes": []}  # noqa: RUF012 (PettingZoo reads it from the class)

    def __init__(
        self,
        task: Task | str = "formation",
        vehicle: Vehicle | str = "crazyflie",
        *,
        dtype: str = "float64",
        **options: Unpack[SettingOptions],
    ) -> None:
        """Configure the environment; `options` are those of `VectorEnv`, without sensing."""
        self.setting = configure_environment(task, vehicle, **options)
        require_no_images(self.setting)
        self.program = compile_episode(self.setting, dtype, per_drone=True)
        drones = self.setting.task.drones
        self.metadata = {**self.metadata, "name": f"samara_{self.setting.task.name}"}
        self.possible_agents = [f"drone_{k}" for k in range(drones)]
        self.agents: list[str] = []
        self.render_mode = None
        self._action = Box(-1.0, 1.0, (self.setting.action_size // drones,), np.float32)
        self._observation = Box(-np.inf, np.inf, (self.program.observation_size // drones,), np.float32)
        self.action_spaces = dict.fromkeys(self.possible_agents, self._action)
        self.observation_spaces = dict.fromkeys(self.possible_agents, self._observation)
        self._key: Array | None = None
        self._episode_index = self._age = 0
        self._team = np.zeros((0, 1))

    def observation_space(self, agent: str) -> Box:
        """Return the observation space, the same for all agents."""
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> Box:
        """Return the action space, the same for all agents."""
        return self.action_spaces[agent]

    def reset(
        self, seed: int | None = None, options: dict[str, object] | None = None
    ) -> tuple[dict[str, Array], dict[str, dict[str, object]]]:
        """Start the next episode; with a seed, the first of that seed."""
        if seed is not None or self._key is None:
            seed = int(np.random.default_rng().integers(2**62)) if seed is None else seed
            self._key, self._episode_index = episode_keys([seed]), 0
        draws = random_numbers(self._key, np.array([self._episode_index]), 0, self.program.reset_draws)
        team, observations = self.program.reset(draws)
        self._team = np.ascontiguousarray(team)
        self._episode_index, self._age, self.agents = self._episode_index + 1, 0, list(self.possible_agents)
        return self._split_by_agent(observations), {agent: {} for agent in self.agents}

    def step(self, actions: dict[str, ArrayLike]) -> StepResult:
        """Advance one period: observations, rewards, terminations, truncations and infos of all agents."""
        action = np.concatenate([self._check_action(agent, actions.get(agent)) for agent in self.agents])
        observations, rewards, termination_rows = self.program.step(self._team, action[:, None])
        self._age += 1
        is_terminated, is_truncated = bool((termination_rows > 0.5).any()), self._age >= self.setting.task.steps
        agents = self.agents
        result: StepResult = (
            self._split_by_agent(observations),
            {agent: float(reward[0]) for agent, reward in zip(agents, rewards, strict=True)},
            dict.fromkeys(agents, is_terminated),
            dict.fromkeys(agents, is_truncated),
            {agent: {} for agent in agents},
        )
        if is_terminated or is_truncated:
            self.agents = []
        return result

    def _split_by_agent(self, observations: Array) -> dict[str, Array]:
        rows = observations[:, 0].astype(np.float32).reshape(len(self.possible_agents), -1)
        return dict(zip(self.possible_agents, rows, strict=True))

    def _check_action(self, agent: str, action: ArrayLike | None) -> Array:
        numbers = np.asarray(action, dtype=float) if action is not None else np.zeros(0)
        if numbers.shape != self._action.shape or not np.isfinite(numbers).all():
            raise ValueError(f"actions[{agent!r}] is {action!r:.60}; expected {self._action.shape[0]} finite numbers")
        return numbers
