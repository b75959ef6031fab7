"""Train policies and evaluate them: tasks, environments (`samara.learn.envs`, `samara.learn.tasks`) and trainers."""

from typing import TYPE_CHECKING

from samara.core.lazy_import import lazy_attributes as _lazily

if TYPE_CHECKING:
    from samara.learn.domain_randomization import FOUR_DECADES, L2F, RAPTOR, ParameterRanges
    from samara.learn.env_config import EnvironmentSetting, configure_environment
    from samara.learn.evaluation import Evaluation, evaluator
    from samara.learn.fine_tune import adapt
    from samara.learn.observation_noise import L2F_NOISE, fused_sensing, noisy_sensing
    from samara.learn.training import build_trainer, save, train

__all__ = [
    "FOUR_DECADES",
    "L2F",
    "L2F_NOISE",
    "RAPTOR",
    "EnvironmentSetting",
    "Evaluation",
    "ParameterRanges",
    "adapt",
    "build_trainer",
    "configure_environment",
    "evaluator",
    "fused_sensing",
    "noisy_sensing",
    "save",
    "train",
]
_MODULES = {
    "domain_randomization": ("FOUR_DECADES", "L2F", "RAPTOR", "ParameterRanges"),
    "env_config": ("EnvironmentSetting", "configure_environment"),
    "evaluation": ("Evaluation", "evaluator"),
    "fine_tune": ("adapt",),
    "observation_noise": ("L2F_NOISE", "fused_sensing", "noisy_sensing"),
    "training": ("build_trainer", "save", "train"),
}
__getattr__, __dir__ = _lazily(
    __name__, __path__, {name: f"{__name__}.{module}" for module, names in _MODULES.items() for name in names}
)
