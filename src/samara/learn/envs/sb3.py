"""N drones as a `VecEnv` of Stable-Baselines3, on top of `VectorEnv`, and the policy folder of a trained model.

from stable_baselines3 import PPO
env = VecEnv("hover", 64)
model = PPO("MlpPolicy", env).learn(1_000_000)
save_sb3_policy(model, env, "policy/")
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from samara.control.policy_file import Policy, dense_tensors, mlp_layers
from samara.core.extras import missing_extra
from samara.core.types import Array
from samara.learn.evaluation import evaluator
from samara.learn.policies import Layers, require_flyable, save_network
from samara.learn.task import Task
from samara.physics.types import Vehicle

try:
    from stable_baselines3.common import vec_env
    from stable_baselines3.common.policies import ActorCriticPolicy
    from stable_baselines3.common.torch_layers import FlattenExtractor

    from samara.learn.envs.gym import VectorEnv
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
        for name, values in info.get("reward_terms", {}).items():
            for drone_info, value in zip(infos, values.tolist(), strict=True):
                drone_info[f"reward/{name}"] = value
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


def save_sb3_policy(model: Any, env: Any, folder: str | Path) -> Policy:
    """Save the policy of a Stable-Baselines3 model as a policy folder, evaluated on 10,000 unseen initial states.

    Args:
        model: a trained PPO, A2C, SAC, TD3 or DDPG with an "MlpPolicy".
        env: the `VecEnv` it was trained in, also within wrappers that do not change observations or actions.
        folder: folder to write.
    """
    while isinstance(env, vec_env.VecEnvWrapper):
        if isinstance(env, vec_env.VecNormalize) and env.norm_obs:
            raise ValueError("env normalizes observations (VecNormalize); expected norm_obs=False for a policy folder")
        env = env.venv
    if not isinstance(env, VecEnv):
        raise ValueError(f"env is a {type(env).__name__}; expected a samara.learn.VecEnv")
    setting = env.vector_env.setting
    require_flyable(setting)
    layers, hidden, output = _dense_layers(model.policy)
    evaluation: dict[str, str | float] = {
        "method": f"Stable-Baselines3 {type(model).__name__}",
        "steps": model.num_timesteps,
    }
    if setting.task.success is not None:
        outcome = evaluator(setting, activation=hidden, output=output)(layers)
        evaluation |= {"episodes": outcome.flights, "success_rate": outcome.success}
    sizes = [len(bias) for _, bias in layers]
    specs = mlp_layers(sizes[:-1], sizes[-1], hidden, output)
    return save_network(Path(folder), setting, (specs, dense_tensors(layers)), evaluation)


def _dense_layers(policy: Any) -> tuple[Layers, str, str]:
    """Return W and b of the layers of the deterministic policy, and the activations of hidden layers and of the last."""
    is_actor_critic = isinstance(policy, ActorCriticPolicy)
    actor = policy if is_actor_critic else policy.actor
    extractor = policy.pi_features_extractor if is_actor_critic else actor.features_extractor
    if is_actor_critic:
        modules, last = [*policy.mlp_extractor.policy_net, policy.action_net], ["linear"]
    else:
        modules, last = ([*actor.latent_pi, actor.mu], ["tanh"]) if hasattr(actor, "latent_pi") else ([*actor.mu], [])
    linear, activations = modules[::2], [type(module).__name__.lower() for module in modules[1::2]] + last
    *hidden, output = activations
    names = {type(module).__name__ for module in linear} - {"Linear"}
    names |= set(activations) - {"tanh", "relu", "linear"}
    if names or len(set(hidden)) > 1 or not isinstance(extractor, FlattenExtractor):
        raise ValueError(
            f"model has a network of {', '.join(type(module).__name__ for module in modules)} after a "
            f"{type(extractor).__name__}; expected an MlpPolicy with Tanh or ReLU, the same in all hidden layers"
        )
    arrays = tuple((module.weight.detach().cpu().numpy(), module.bias.detach().cpu().numpy()) for module in linear)
    return arrays, hidden[0] if hidden else "tanh", output
