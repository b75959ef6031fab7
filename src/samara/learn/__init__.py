"""Train policies and evaluate them: tasks, environments (`samara.learn.envs`, `samara.learn.tasks`) and trainers."""

from typing import TYPE_CHECKING

from samara.core.lazy_import import lazy_exports

if TYPE_CHECKING:
    from samara.learn.domain_randomization import FOUR_DECADES, L2F, RAPTOR, ParameterRanges
    from samara.learn.env_config import EnvironmentSetting, configure_environment
    from samara.learn.envs import Env, ParallelEnv, VecEnv, VectorEnv, environment
    from samara.learn.envs.gym import gymnasium_id
    from samara.learn.envs.sb3 import save_sb3_policy
    from samara.learn.evaluation import Evaluation, evaluator
    from samara.learn.fine_tune import adapt
    from samara.learn.observation_noise import L2F_NOISE, fused_sensing, noisy_sensing
    from samara.learn.task import CameraObservation, Draw, Situation, Task, TrimmedDrone, observe, trim_drone
    from samara.learn.tasks import load_task, navigate
    from samara.learn.tasks.race import race_task
    from samara.learn.training import build_trainer, save, train
else:
    __getattr__, __dir__ = lazy_exports(__name__)

__all__ = [
    "FOUR_DECADES",
    "L2F",
    "L2F_NOISE",
    "RAPTOR",
    "CameraObservation",
    "Draw",
    "Env",
    "EnvironmentSetting",
    "Evaluation",
    "ParallelEnv",
    "ParameterRanges",
    "Situation",
    "Task",
    "TrimmedDrone",
    "VecEnv",
    "VectorEnv",
    "adapt",
    "build_trainer",
    "configure_environment",
    "environment",
    "evaluator",
    "fused_sensing",
    "gymnasium_id",
    "load_task",
    "navigate",
    "noisy_sensing",
    "observe",
    "race_task",
    "save",
    "save_sb3_policy",
    "train",
    "trim_drone",
]
