"""N drones as one Gymnasium `VectorEnv`: a step is one call of machine code, with the ends of episodes kept in arrays.

    env = VectorEnv("hover", num_envs=4096, dtype="float32")
    observations, info = env.reset(seed=0)
    observations, rewards, terminated, truncated, info = env.step(env.action_space.sample())

Drone i of seed s is the one of `samara.learn.envs.gym_single.Env` with seed s + i, bit for bit.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from samara.core.optional_dependencies import MissingExtraError
from samara.core.tree import unflatten
from samara.core.types import Array
from samara.learn.compiled_episode import episode_keys, program_of, random_numbers
from samara.learn.env_config import setting_for
from samara.learn.episode import Randomization, Sensing
from samara.learn.task import Task
from samara.physics.types import State, Vehicle

try:
    import gymnasium.vector
    from gymnasium.error import ResetNeeded
    from gymnasium.spaces import Box
    from gymnasium.vector import AutoresetMode
    from gymnasium.vector.utils import batch_space
except ImportError as error:
    raise MissingExtraError(
        "samara.learn.envs.gym_vector needs Gymnasium 1.1 or newer: pip install 'samara[gym]'"
    ) from error


class VectorEnv(gymnasium.vector.VectorEnv[Array, Array, Array]):
    """A task flown by N drones at once, each with its seed: what one does changes nothing for the others

    `autoreset_mode` is Gymnasium's: the step after the end starts the next episode ("NextStep"), the same step does
    ("SameStep", with `final_obs` in the info), or nobody but `reset(options={"reset_mask": ...})` ("Disabled").
    """

    def __init__(
        self,
        task: Task | str = "hover",
        num_envs: int = 64,
        vehicle: Vehicle | str = "crazyflie",
        *,
        dtype: str = "float64",
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        randomization: Randomization | None = None,
        sensing: Sensing | None = None,
        history: int = 0,
        delay: int | tuple[int, int] = 0,
        **changes: Any,
    ) -> None:
        """`changes` are fields of the task: seconds, period, substeps, action"""
        if isinstance(num_envs, bool) or not isinstance(num_envs, int) or num_envs < 1:
            raise ValueError(f"num_envs is {num_envs!r}; expected a whole number of at least 1")
        if dtype not in ("float64", "float32"):
            raise ValueError(f"dtype {dtype!r}: expected one of float64, float32")
        self.setting = setting_for(task, vehicle, randomization, sensing, history, delay, **changes)
        self.num_envs, self.autoreset_mode = num_envs, AutoresetMode(autoreset_mode)
        self.metadata = {"autoreset_mode": self.autoreset_mode, "render_modes": []}
        self.program = program_of(self.setting, dtype)
        self.single_action_space = Box(-1.0, 1.0, (self.setting.actions,), np.float32)
        self.single_observation_space = Box(-np.inf, np.inf, (self.program.observations,), np.float32)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self._keys: Array | None = None
        self._episodes = np.zeros((len(self.program.names), num_envs), dtype=dtype)
        self._seen = np.zeros((self.program.observations, num_envs), dtype=dtype)
        self._count, self._age = np.zeros((2, num_envs), dtype=np.int64)
        self._over = np.zeros(num_envs, dtype=bool)

    @property
    def episode(self) -> Any:
        """All episodes as they are now, a copy: an `Episode` of arrays of length N; of teams, one for each drone in a tuple"""
        return unflatten(self.program.template, iter(self._episodes.copy()))

    @property
    def state(self) -> State:
        """All drones as they are now, a copy: arrays of length N; of teams, those of the first of each"""
        own: State = (self.episode if self.setting.task.drones == 1 else self.episode[0]).situation.state
        return own

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Array, dict[str, Any]]:
        """Starts new episodes: of all drones, or those of `reset_mask`. A seed s begins drone i's first episode with s + i."""
        super().reset(seed=seed if isinstance(seed, int) else None)
        chosen = self._chosen(options)
        self._seed(seed, chosen)
        self._over[chosen] = False
        self._seen = self._seen.copy()  # what was given away is not written to
        self._start(chosen)
        return self._observations(), {}

    def step(self, actions: Any) -> tuple[Array, Array, Array, Array, dict[str, Any]]:
        """One period under the actions (N, size): observations, rewards, terminated, truncated, info"""
        if self._keys is None:
            raise ResetNeeded("the environment has not started: call reset() before step()")
        begins = self._over
        if self.autoreset_mode is AutoresetMode.DISABLED and begins.any():
            drone = int(np.argmax(begins))
            raise ResetNeeded(
                f"the episode of drone {drone} is over: call reset(), for some with options={{'reset_mask': ...}}"
            )
        self._seen, gained, ended = self.program.step(self._episodes, self._inputs(actions))
        self._age += 1
        terminated, truncated = ended[0] > 0.5, self._age >= self.setting.task.steps
        rewards = gained[0].astype(float)
        if begins.any():  # only in NEXT_STEP: their action is ignored
            self._start(np.flatnonzero(begins))
            terminated, truncated, rewards = terminated & ~begins, truncated & ~begins, np.where(begins, 0.0, rewards)
        over = terminated | truncated
        if self.autoreset_mode is not AutoresetMode.SAME_STEP:
            self._over = over
            return self._observations(), rewards, terminated, truncated, {}
        info = self._restarted(over) if over.any() else {}
        return self._observations(), rewards, terminated, truncated, info

    def _restarted(self, over: Array) -> dict[str, Any]:
        drones = np.flatnonzero(over)
        last = np.full(self.num_envs, None, dtype=object)  # as Gymnasium's own have it
        for drone, seen in zip(drones.tolist(), self._seen[:, drones].T.astype(np.float32), strict=True):
            last[drone] = seen
        self._start(drones)
        return {"final_obs": last, "_final_obs": over, "final_info": {}, "_final_info": over.copy()}

    def _start(self, drones: Array) -> None:
        assert self._keys is not None
        draws = random_numbers(self._keys[:, drones], self._count[drones], 0, self.program.reset_draws)
        self._episodes[:, drones], self._seen[:, drones] = self.program.reset(draws)
        self._count[drones] += 1
        self._age[drones] = 0

    def _inputs(self, actions: Any) -> Array:
        given = np.asarray(actions)
        if given.shape != self.action_space.shape or given.dtype.kind not in "fiu":
            raise ValueError(
                f"actions: expected numbers of shape {self.action_space.shape}; got {given.dtype} of {given.shape}"
            )
        if not np.isfinite(given).all():
            drone, k = (int(x) for x in np.argwhere(~np.isfinite(given))[0])
            raise ValueError(f"actions[{drone}, {k}] is {given[drone, k]}; expected a finite number")
        if not self.program.step_draws:
            return given.T
        assert self._keys is not None
        draws = random_numbers(self._keys, self._count - 1, self._age + 1, self.program.step_draws)
        return np.concatenate([given.T, draws])

    def _observations(self) -> Array:
        """(N, size), by columns in memory: what the machine code wrote, without a copy where the type is the same"""
        seen = self._seen.T
        return seen if seen.dtype == np.float32 else seen.astype(np.float32)

    def _chosen(self, options: dict[str, Any] | None) -> Array:
        if options is None or "reset_mask" not in options:
            return np.arange(self.num_envs)
        mask = options["reset_mask"]
        if not (isinstance(mask, np.ndarray) and mask.shape == (self.num_envs,) and mask.dtype == bool and mask.any()):
            raise ValueError(
                f"options['reset_mask'] is {mask!r:.60}; expected {self.num_envs} bools in an array, at least one True"
            )
        return np.flatnonzero(mask)

    def _seed(self, seed: int | Sequence[int | None] | None, chosen: Array) -> None:
        if self._keys is None:
            first = int(self.np_random.integers(2**62))
            self._keys = episode_keys([first + i for i in range(self.num_envs)])
        if seed is None:
            return
        each = [seed + i for i in range(self.num_envs)] if isinstance(seed, int) else list(seed)
        if len(each) != self.num_envs:
            raise ValueError(f"seed has {len(each)} numbers; expected {self.num_envs}, one for each drone")
        for drone in chosen.tolist():
            own = each[drone]
            if own is not None:
                self._keys[:, drone] = episode_keys([own])[:, 0]
                self._count[drone] = 0
