"""Gymnasium environments: `VectorEnv` with N drones, whose step is one compiled call, and `Env` with one.

    env = VectorEnv("hover", num_envs=4096, dtype="float32")
    observations, info = env.reset(seed=0)
    observations, rewards, terminated, truncated, info = env.step(env.action_space.sample())

Drone i of seed s flies like the drone of `Env` with seed s + i, bit for bit. Importing this module registers
`samara/Hover-v0` and the other tasks without images with Gymnasium.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, TypeAlias, Unpack

import numpy as np
from numpy.typing import ArrayLike

from samara.core.algebra import matrix_from_quat
from samara.core.extras import missing_extra
from samara.core.tree import flatten, unflatten
from samara.core.types import Array
from samara.learn.compiled_episode import compile_episode, episode_keys, random_numbers
from samara.learn.env_config import SettingOptions, configure_environment
from samara.learn.episode_images import DETECTOR_KEY, STATE, EpisodeImages
from samara.learn.task import Task, Tree
from samara.learn.tasks import IMAGE_FREE_TASKS
from samara.physics.types import State, Vehicle
from samara.sensors.sensor import ImageOutput

try:
    import gymnasium
    import gymnasium.vector
    from gymnasium.error import ResetNeeded
    from gymnasium.spaces import Box, Dict, Space
    from gymnasium.vector import AutoresetMode
    from gymnasium.vector.utils import batch_space
except ImportError as error:
    raise missing_extra("samara.learn.envs.gym", "Gymnasium 1.1 or newer", "gym") from error


IMAGE_SIZE = 480, 360  # pixels
MAX_DRONE_FRACTION = 0.35  # of the half width of the image
Info: TypeAlias = dict[str, Any]


class VectorEnv(gymnasium.vector.VectorEnv[Any, Array, Array]):
    """A task flown by N independent drones, each with its seed.

    `autoreset_mode` is Gymnasium's: the next episode starts in the step after the end ("NextStep"), in the same step
    ("SameStep", with `final_obs` in the info), or by `reset(options={"reset_mask": ...})` ("Disabled").
    """

    def __init__(
        self,
        task: Task | str = "hover",
        num_envs: int = 64,
        vehicle: Vehicle | str = "crazyflie",
        *,
        dtype: str = "float64",
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        **options: Unpack[SettingOptions],
    ) -> None:
        """Configure the environment.

        Args:
            task: a name, a file or a `Task`.
            num_envs: count of drones.
            vehicle: a vehicle, or the name of a shipped vehicle or file.
            dtype: "float64" or "float32".
            autoreset_mode: when the next episode starts, see the class.
            options: `randomization`, `sensing`, `history`, `delay`, `seconds`, `period`, `substeps` and `action`.
        """
        if isinstance(num_envs, bool) or not isinstance(num_envs, int) or num_envs < 1:
            raise ValueError(f"num_envs is {num_envs!r}; expected a whole number of at least 1")
        if dtype not in ("float64", "float32"):
            raise ValueError(f"dtype {dtype!r}: expected one of float64, float32")
        self.setting = configure_environment(task, vehicle, **options)
        self.num_envs, self.autoreset_mode = num_envs, AutoresetMode(autoreset_mode)
        self.metadata = {"autoreset_mode": self.autoreset_mode, "render_modes": []}
        self.program = compile_episode(self.setting, dtype)
        self.single_action_space = Box(-1.0, 1.0, (self.setting.action_size,), np.float32)
        self.single_observation_space: Space[Any] = Box(-np.inf, np.inf, (self.program.observation_size,), np.float32)
        self._images: EpisodeImages | None = None
        if self.setting.task.camera is not None:
            self._images = EpisodeImages(self.setting.task, _goal(self.program.template), num_envs)
            spaces: dict[str, Space[Any]] = {STATE: self.single_observation_space}
            spaces |= {image.name: _image_space(image) for image in self._images.model.images}
            self.single_observation_space = Dict(spaces)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self._keys: Array | None = None
        self._episodes = np.zeros((len(self.program.names), num_envs), dtype=dtype)
        self._last_observations = np.zeros((self.program.observation_size, num_envs), dtype=dtype)
        self._episode_index, self._age = np.zeros((2, num_envs), dtype=np.int64)
        self._is_over = np.zeros(num_envs, dtype=bool)

    @property
    def episode(self) -> Tree:
        """A copy of all episodes: an `Episode` of arrays of length N; for teams a tuple with one for each drone."""
        return unflatten(self.program.template, iter(self._episodes.copy()))

    @property
    def state(self) -> State:
        """A copy of the states: arrays of length N; for teams those of the first drone of each."""
        state: State = (self.episode if self.setting.task.drones == 1 else self.episode[0]).situation.state
        return state

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, object] | None = None
    ) -> tuple[Any, Info]:
        """Start new episodes of all drones, or of those in `reset_mask`; with a seed, drone i starts the first of seed + i."""
        super().reset(seed=seed if isinstance(seed, int) else None)
        selected = self._selected_drones(options)
        self._seed(seed, selected)
        self._is_over[selected] = False
        self._last_observations = self._last_observations.copy()  # do not overwrite observations already returned
        self._start(selected)
        return self._observations(), {}

    def step(self, actions: ArrayLike) -> tuple[Any, Array, Array, Array, Info]:
        """Advance one period under the actions (N, size): observations, rewards, terminated, truncated, info.

        The observations of a task with a camera are a dict: "state" (N, size), and images (N, rows, columns, …) by name.
        If the task's `reward` returns terms by name, `info["reward_terms"]` has an array of each.
        """
        if self._keys is None:
            raise ResetNeeded("the environment has not started: call reset() before step()")
        is_starting = self._is_over
        if self.autoreset_mode is AutoresetMode.DISABLED and is_starting.any():
            drone = int(np.argmax(is_starting))
            raise ResetNeeded(
                f"the episode of drone {drone} is over: call reset(), for some with options={{'reset_mask': ...}}"
            )
        self._last_observations, reward_rows, termination_rows, terms = self.program.step_with_terms(
            self._episodes, self._inputs(actions)
        )
        self._age += 1
        terminated, truncated = termination_rows[0] > 0.5, self._age >= self.setting.task.steps
        rewards = reward_rows[0].astype(float)
        self._take_images(None if self.autoreset_mode is AutoresetMode.SAME_STEP else ~is_starting)
        if is_starting.any():  # only in NEXT_STEP: their action is ignored
            self._start(np.flatnonzero(is_starting))
            terminated, truncated, rewards = (
                terminated & ~is_starting,
                truncated & ~is_starting,
                np.where(is_starting, 0.0, rewards),
            )
        is_over = terminated | truncated
        info: Info = {"reward_terms": terms, "_reward_terms": ~is_starting} if terms else {}
        if self.autoreset_mode is not AutoresetMode.SAME_STEP:
            self._is_over = is_over
            return self._observations(), rewards, terminated, truncated, info
        if is_over.any():
            info |= self._restart(is_over)
        return self._observations(), rewards, terminated, truncated, info

    def _restart(self, is_over: Array) -> Info:
        drones = np.flatnonzero(is_over)
        final_observations = np.full(self.num_envs, None, dtype=object)  # the layout of Gymnasium's vector environments
        observations = self._observations()
        for drone in drones.tolist():
            final_observations[drone] = _select(observations, drone, copy=True)
        self._start(drones)
        return {"final_obs": final_observations, "_final_obs": is_over, "final_info": {}, "_final_info": is_over.copy()}

    def _start(self, drones: Array) -> None:
        assert self._keys is not None
        draws = random_numbers(self._keys[:, drones], self._episode_index[drones], 0, self.program.reset_draws)
        self._episodes[:, drones], self._last_observations[:, drones] = self.program.reset(draws)
        self._episode_index[drones] += 1
        self._age[drones] = 0
        selected = np.zeros(self.num_envs, dtype=bool)
        selected[drones] = True
        self._take_images(selected)

    def _take_images(self, selected: Array | None) -> None:
        """Take the images that are due, of all drones or those selected."""
        if self._images is not None:
            self._images.update(self.episode.situation, self._age, selected, self._detector_numbers)

    def _detector_numbers(self, distributions: tuple[str, ...]) -> Array:
        """Draw the random numbers of a detector at this step, (distributions, N)."""
        assert self._keys is not None
        return random_numbers(self._keys ^ DETECTOR_KEY, self._episode_index - 1, self._age, distributions)

    def _inputs(self, actions: ArrayLike) -> Array:
        array = np.asarray(actions)
        if array.shape != self.action_space.shape or array.dtype.kind not in "fiu":
            raise ValueError(
                f"actions: expected numbers of shape {self.action_space.shape}; got {array.dtype} of {array.shape}"
            )
        if not np.isfinite(array).all():
            drone, k = (int(x) for x in np.argwhere(~np.isfinite(array))[0])
            raise ValueError(f"actions[{drone}, {k}] is {array[drone, k]}; expected a finite number")
        if not self.program.step_draws:
            return array.T
        assert self._keys is not None
        draws = random_numbers(self._keys, self._episode_index - 1, self._age + 1, self.program.step_draws)
        return np.concatenate([array.T, draws])

    def _observations(self) -> Any:
        """(N, size), by columns in memory: a view of the output of the compiled code, if that is float32.

        With a camera, a dict of these and the images.
        """
        observations = self._last_observations.T
        observations = observations if observations.dtype == np.float32 else observations.astype(np.float32)
        return observations if self._images is None else {STATE: observations, **self._images.observe(self._age)}

    def _selected_drones(self, options: dict[str, object] | None) -> Array:
        """Return the indices of the drones to reset."""
        if options is None or "reset_mask" not in options:
            return np.arange(self.num_envs)
        mask = options["reset_mask"]
        if not (isinstance(mask, np.ndarray) and mask.shape == (self.num_envs,) and mask.dtype == bool and mask.any()):
            raise ValueError(
                f"options['reset_mask'] is {mask!r:.60}; expected {self.num_envs} bools in an array, at least one True"
            )
        return np.flatnonzero(mask)

    def _seed(self, seed: int | Sequence[int | None] | None, selected: Array) -> None:
        """Set the random keys of the selected drones."""
        if self._keys is None:
            first = int(self.np_random.integers(2**62))
            self._keys = episode_keys([first + i for i in range(self.num_envs)])
        if seed is None:
            return
        seeds = [seed + i for i in range(self.num_envs)] if isinstance(seed, int) else list(seed)
        if len(seeds) != self.num_envs:
            raise ValueError(f"seed has {len(seeds)} numbers; expected {self.num_envs}, one for each drone")
        for drone in selected.tolist():
            drone_seed = seeds[drone]
            if drone_seed is not None:
                self._keys[:, drone] = episode_keys([drone_seed])[:, 0]
                self._episode_index[drone] = 0


def _goal(template: Tree) -> Tree:
    """Return the goal of the template of an episode, with numbers that no solid has by chance."""
    goal = template.situation.goal
    return unflatten(goal, iter([1.0 + 0.1 * k for k in range(len(flatten(goal)))]))


def _image_space(image: ImageOutput) -> Box:
    """Return the space of an image: bytes as they are, floats without limits."""
    if image.dtype == "float32":
        return Box(-np.inf, np.inf, image.shape, np.float32)
    return Box(0, np.iinfo(image.dtype).max, image.shape, np.dtype(image.dtype).type)


def _select(observations: Any, drone: int, *, copy: bool = False) -> Any:
    """Return the observation of one drone."""
    if isinstance(observations, dict):
        return {name: _select(values, drone, copy=copy) for name, values in observations.items()}
    return observations[drone].copy() if copy else observations[drone]


class Env(gymnasium.Env[Any, Array]):
    """A task flown by one drone; `render_mode="rgb_array"` draws it. The other options are those of `VectorEnv`."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 50}  # noqa: RUF012 (Gymnasium reads it from the class)

    def __init__(self, task: Task | str = "hover", *, render_mode: str | None = None, **options: Any) -> None:
        if render_mode not in (None, *self.metadata["render_modes"]):
            raise ValueError(f"render_mode {render_mode!r}: expected rgb_array or None")
        self.vector_env = VectorEnv(task, 1, autoreset_mode=AutoresetMode.DISABLED, **options)
        self.metadata = {**self.metadata, "render_fps": round(1.0 / self.vector_env.setting.task.period)}
        self.observation_space, self.action_space = (
            self.vector_env.single_observation_space,
            self.vector_env.single_action_space,
        )
        self.render_mode = render_mode
        self._path: list[State] = []

    @property
    def state(self) -> State:
        """The state of the drone."""
        state: State = unflatten(self.vector_env.state, (float(leaf[0]) for leaf in flatten(self.vector_env.state)))
        return state

    def reset(self, *, seed: int | None = None, options: dict[str, object] | None = None) -> tuple[Any, Info]:
        """Start the next episode; with a seed, the first of that seed."""
        super().reset(seed=seed)
        if seed is None and not self._path:
            seed = int(self.np_random.integers(2**62))
        observations, info = self.vector_env.reset(seed=seed)
        self._path = [self.state]
        return _select(observations, 0), info

    def step(self, action: ArrayLike) -> tuple[Any, float, bool, bool, Info]:
        """Advance one period under an action: observation, reward, terminated, truncated, info."""
        observations, rewards, terminated, truncated, info = self.vector_env.step(np.asarray(action)[None])
        if self.render_mode:
            self._path.append(self.state)
        if "reward_terms" in info:
            info = {"reward_terms": {name: float(values[0]) for name, values in info["reward_terms"].items()}}
        return _select(observations, 0), float(rewards[0]), bool(terminated[0]), bool(truncated[0]), info

    def render(self) -> Any:
        """Draw the drone and its path, (height, width, 3) bytes; None without a render mode."""
        if self.render_mode is None:
            return None
        if not self._path:
            raise ResetNeeded("the environment has not started: call reset() before render()")
        return draw_path(self._path, self.vector_env.setting.drone.vehicle)


def draw_path(path: Sequence[State], vehicle: Vehicle) -> Array:
    """Draw the last state and the path to it: (height, width, 3) bytes."""
    figure, axes = _canvas()
    axes.clear()
    axes.set_axis_off()
    last_state = path[-1]
    centre, R_WB = np.array(last_state.p_W), np.array(matrix_from_quat(last_state.q_WB)).reshape(3, 3)
    hubs = np.array([rotor.r_B for rotor in vehicle.rotors])
    drone_radius = float(np.linalg.norm(hubs, axis=1).max())
    half_width = max(drone_radius / MAX_DRONE_FRACTION, 0.75 * float(np.linalg.norm(centre)), 1.0)

    def draw(points_W: Array, **style: Any) -> None:
        axes.plot(*_project(points_W), **style)

    for k in np.linspace(-2.0, 2.0, 9) * half_width:
        ends = np.array([-2.0, 2.0]) * half_width
        draw(np.stack([ends, [k, k], [-half_width, -half_width]]), color="0.88", linewidth=0.6)
        draw(np.stack([[k, k], ends, [-half_width, -half_width]]), color="0.88", linewidth=0.6)
    draw(np.array([state.p_W for state in path]).T, color="tab:blue", linewidth=1.0, alpha=0.7)
    draw(np.zeros((3, 1)), color="tab:red", marker="+", markersize=10)
    scale = max(1.0, 0.12 * half_width / drone_radius)  # enlarge a drone of only a few pixels
    for hub, rotor in zip(hubs, vehicle.rotors, strict=True):
        tip = centre + R_WB @ hub * scale
        draw(np.stack([centre, tip], axis=1), color="0.2", linewidth=2.0)
        radius = scale * (rotor.radius or 0.4 * drone_radius)
        angle = np.linspace(0.0, 2.0 * np.pi, 25)
        disc = np.stack([np.cos(angle), np.sin(angle), np.zeros_like(angle)]) * radius
        draw(tip[:, None] + R_WB @ disc, color="tab:green" if hub[0] > 0.0 else "tab:gray", linewidth=1.4)
    width, height = IMAGE_SIZE
    axes.set_xlim(-1.2 * half_width, 1.2 * half_width)
    axes.set_ylim(-1.2 * half_width * height / width, 1.2 * half_width * height / width)
    figure.canvas.draw()
    return np.asarray(figure.canvas.buffer_rgba())[:, :, :3].copy()


def _project(points_W: Array) -> tuple[Array, Array]:
    """Project orthographically, viewed from the south-west and above."""
    x, y, z = points_W
    right = (x - y) / np.sqrt(2.0)
    depth = (x + y) / np.sqrt(2.0)
    return right, 0.94 * z + 0.34 * depth


@lru_cache(maxsize=1)
def _canvas() -> tuple[Any, Any]:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(IMAGE_SIZE[0] / 100, IMAGE_SIZE[1] / 100), dpi=100)
    FigureCanvasAgg(figure)
    return figure, figure.add_axes((0.0, 0.0, 1.0, 1.0))


def gymnasium_id(task: str) -> str:
    """Return `samara/Hover-v0` for "hover"."""
    return f"samara/{task.capitalize()}-v0"


for _task in IMAGE_FREE_TASKS:
    gymnasium.register(
        gymnasium_id(_task),
        entry_point="samara.learn.envs.gym:Env",
        vector_entry_point="samara.learn.envs.gym:VectorEnv",
        kwargs={"task": _task},
    )
