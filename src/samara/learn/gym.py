"""Learning to hover: N drones as one Gymnasium `VectorEnv`, advanced by one call of the compiled equations."""

import math
from typing import Any

import numpy as np

from samara.compiler.simulator import compile
from samara.core.algebra import Mat3, Quat, Vec3, dot, matrix_from_quat, norm
from samara.core.optional_dependencies import MissingExtraError
from samara.core.quantity import Scalar
from samara.core.tree import flatten, require_finite, unflatten
from samara.core.types import Array
from samara.physics.types import Command, State, Vehicle
from samara.vehicles.loader import vehicle as load_vehicle
from samara.vehicles.trim import hover

try:
    from gymnasium.error import ResetNeeded
    from gymnasium.spaces import Box
    from gymnasium.vector import AutoresetMode, VectorEnv
    from gymnasium.vector.utils import batch_space
except ImportError as error:
    raise MissingExtraError("samara.learn.gym needs Gymnasium 1.1 or newer: pip install 'samara[gym]'") from error


PHYSICS_STEP = 2e-3  # [s]
STEPS_PER_ACTION = 5  # the policy acts at 100 Hz
FAR = 2.0  # [m] from the target: lost
START = np.repeat([0.5, 0.5, 0.2, 1.0], 3)  # largest p [m], v [m/s], tan(half the angle), ω [rad/s] about each axis


class Hover(VectorEnv[Array, Array, Array]):
    """Stay at the origin, from places, speeds and attitudes at random, with one number in [−1, 1] for each rotor

    Action a gives the command u = u₀ + a min(u₀, u_max − u₀) about the trim u₀, held for 10 ms. `spread` scales the random
    start; at 0 every episode starts in the trim. An episode ends 2 m off or past 90° of tilt, and is cut after `seconds`;
    the step after that ignores its action and starts the next (`AutoresetMode.NEXT_STEP`).
    """

    metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP}  # noqa: RUF012 (Gymnasium's wrappers read it from the class)

    def __init__(
        self,
        num_envs: int = 64,
        vehicle: Vehicle | str = "crazyflie",
        backend: str = "auto",
        dtype: str = "float64",
        spread: float = 1.0,
        seconds: float = 5.0,
    ) -> None:
        if not (num_envs >= 1 and 0.0 <= spread < math.inf and 0.0 < seconds < math.inf):
            given = f"{num_envs}, {spread} and {seconds}"
            raise ValueError(f"expected num_envs >= 1, spread >= 0 and seconds > 0, finite; got {given}")
        self.num_envs, self.spread = num_envs, spread
        self.steps = max(1, round(seconds / (PHYSICS_STEP * STEPS_PER_ACTION)))
        self.vehicle = in_free_air(load_vehicle(vehicle) if isinstance(vehicle, str) else vehicle)
        self.trim, command = hover(self.vehicle, p_W=(0.0, 0.0, 0.0))
        self.trim_command = np.array(command)[:, None]
        self.authority = np.minimum(self.trim_command, largest_command(self.vehicle) - self.trim_command)
        self.single_action_space = Box(-1.0, 1.0, (len(command),), np.float32)
        self.single_observation_space = Box(-np.inf, np.inf, (18 + len(command),), np.float32)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self._sim = compile(self.vehicle, backend=backend, dtype=dtype)
        self._rows = np.empty((len(flatten(self.trim)), num_envs), dtype=dtype)
        self._seeds: Array | None = None
        self._episode, self._age = np.zeros((2, num_envs), dtype=np.uint64)
        self._over = np.zeros(num_envs, dtype=bool)

    @property
    def state(self) -> State:
        """All drones as they are now, a copy: arrays of length N."""
        return unflatten(self.trim, iter(self._rows.copy()))

    def action(self, command: Command) -> Array:
        """a = (u − u₀) / min(u₀, u_max − u₀), cut to [−1, 1]: the actions (N, rotors) for a command"""
        each = np.array([np.broadcast_to(u, self.num_envs) for u in command])
        return np.clip((each - self.trim_command) / self.authority, -1.0, 1.0).T.astype(np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Array, dict[str, Any]]:
        """All drones start again. Drone i flies, in all its episodes, as the one of `Hover(1)` does with seed + i."""
        super().reset(seed=seed)
        if seed is not None or self._seeds is None:
            first = int(self.np_random.integers(2**62)) if seed is None else seed
            self._seeds = np.array([(first + i) % 2**64 for i in range(self.num_envs)], dtype=np.uint64)
            self._episode[:] = 0
        self._over = np.zeros(self.num_envs, dtype=bool)
        self._start(np.arange(self.num_envs))
        state = self.state
        return observe(state, matrix_from_quat(state.q_WB), self.trim), {}

    def step(self, actions: Any) -> tuple[Array, Array, Array, Array, dict[str, Any]]:
        """10 ms under the actions (N, rotors): observations, rewards, terminated, truncated, and an empty info"""
        if self._seeds is None:
            raise ResetNeeded("Hover has not started: call reset() before step()")
        command = self.trim_command + self.authority * np.clip(self._checked(actions).T, -1.0, 1.0)
        self._sim.step_into(self._rows, tuple(command), PHYSICS_STEP, STEPS_PER_ACTION)
        self._age += 1
        begins = self._over
        if begins.any():
            self._start(np.flatnonzero(begins))
        state = self.state
        require_finite(state, "state")
        R_WB = matrix_from_quat(state.q_WB)
        terminated, truncated = ~begins & lost(state.p_W, R_WB), ~begins & (self._age >= self.steps)
        self._over = terminated | truncated
        return observe(state, R_WB, self.trim), np.where(begins, 0.0, reward(state)), terminated, truncated, {}

    def _start(self, drones: Array) -> None:
        assert self._seeds is not None
        draws = uniform(self._seeds[drones], self._episode[drones], len(START))
        self._rows[:, drones] = start(self.trim, self.spread * START[:, None] * draws)
        self._episode[drones] += 1
        self._age[drones] = 0

    def _checked(self, actions: Any) -> Array:
        given = np.asarray(actions, dtype=float)
        if given.shape != self.action_space.shape:
            raise ValueError(f"actions: expected shape {self.action_space.shape}; got {given.shape}")
        if not np.isfinite(given).all():
            drone, rotor = (int(x) for x in np.argwhere(~np.isfinite(given))[0])
            raise ValueError(f"actions[{drone}, {rotor}] is {given[drone, rotor]}; expected a finite number")
        return given


# The task, as pure functions ----------------------------------------------------------------------------------------


def observe(state: State, R_WB: Mat3, trim: State) -> Array:
    """p_W, v_W, R_WB by rows, ω_B and Ω/Ω₀ − 1 of every drone: (N, 18 + rotors), float32, SI units"""
    speeds = (speed / still - 1.0 for speed, still in zip(state.rotor_speed, trim.rotor_speed, strict=True))
    return np.stack([*state.p_W, *state.v_W, *R_WB, *state.omega_B, *speeds], axis=-1).astype(np.float32)


def reward(state: State) -> Scalar:
    """1 / (1 + 4|p|² + 0.1|v|² + 0.01|ω|²): 1 at rest on the target, and above 0, so that no drone gains by crashing"""
    p_W, v_W, omega_B = state.p_W, state.v_W, state.omega_B
    return 1.0 / (1.0 + 4.0 * dot(p_W, p_W) + 0.1 * dot(v_W, v_W) + 0.01 * dot(omega_B, omega_B))


def lost(p_W: Vec3, R_WB: Mat3) -> Any:
    """|p| > 2 m, or e₃ · R e₃ < 0: the thrust points down"""
    return (norm(p_W) > FAR) | (R_WB.zz < 0.0)


def start(trim: State, offset: Array) -> Array:
    """The trim with p, v, g and ω of an offset (12, N), q = (1, g)/√(1 + |g|²): all components, (components, N)"""
    p_W, v_W, g, omega_B = (Vec3(*three) for three in offset.reshape(4, 3, -1))
    size = np.sqrt(1.0 + dot(g, g))
    state = trim._replace(p_W=p_W, v_W=v_W, q_WB=Quat(1.0 / size, *(g / size)), omega_B=omega_B)
    return np.array([np.broadcast_to(leaf, size.shape) for leaf in flatten(state)])


def uniform(seeds: Array, episodes: Array, count: int) -> Array:
    """(count, N) numbers in [−1, 1) that depend on a drone's seed and episode alone: counters, hashed by SplitMix64

    G. L. Steele, D. Lea, C. H. Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014.
    """
    key = splitmix64(splitmix64(seeds) + episodes)
    counter = np.arange(count, dtype=np.uint64)[:, None] * _GOLDEN
    return (splitmix64(key + counter) >> np.uint64(11)).astype(float) * 2.0**-52 - 1.0


_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def splitmix64(x: Array) -> Array:
    """One output of the generator for each 64-bit counter"""
    x = x + _GOLDEN
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def in_free_air(vehicle: Vehicle) -> Vehicle:
    """The vehicle with no ground to meet; one without rotors has nothing to act with and is refused"""
    if not vehicle.rotors:
        raise ValueError(f"vehicle {vehicle.name!r} has no rotors; Hover takes one action for each")
    return vehicle.without_effect("contact") if vehicle.has("contact") else vehicle


def largest_command(vehicle: Vehicle) -> Array:
    """u_max of each rotor: its motor's limit where commands are speeds [rad/s], else 1"""
    in_speeds = vehicle.structure.actuation.name == "speed"
    return np.array([[rotor.motor.speed_max if in_speeds else 1.0] for rotor in vehicle.rotors])
