"""Train policies and evaluate them: tasks, environments (`samara.learn.envs`, `samara.learn.tasks`) and trainers."""

from typing import TYPE_CHECKING

from samara.core.lazy_import import lazily as _lazily

if TYPE_CHECKING:
    from samara.learn.domain_randomization import FOUR_DECADES, L2F, RAPTOR, Ranges
    from samara.learn.env_config import Setting, setting_for
    from samara.learn.evaluation import Evaluation, evaluator
    from samara.learn.fine_tune import adapt
    from samara.learn.observation_noise import L2F_NOISE, fused, noisy
    from samara.learn.training import save, train, trainer_for

__all__ = [
    "FOUR_DECADES",
    "L2F",
    "L2F_NOISE",
    "RAPTOR",
    "Evaluation",
    "Ranges",
    "Setting",
    "adapt",
    "evaluator",
    "fused",
    "noisy",
    "save",
    "setting_for",
    "train",
    "trainer_for",
]
_MODULES = {
    "domain_randomization": ("FOUR_DECADES", "L2F", "RAPTOR", "Ranges"),
    "env_config": ("Setting", "setting_for"),
    "evaluation": ("Evaluation", "evaluator"),
    "fine_tune": ("adapt",),
    "observation_noise": ("L2F_NOISE", "fused", "noisy"),
    "training": ("save", "train", "trainer_for"),
}
__getattr__, __dir__ = _lazily(
    __name__, __path__, {name: f"{__name__}.{module}" for module, names in _MODULES.items() for name in names}
)
