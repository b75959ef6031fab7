"""Environments: Gymnasium, Stable-Baselines3, PettingZoo and JAX."""

from samara.core.lazy_import import lazily

__getattr__, __dir__ = lazily(__name__, __path__)
