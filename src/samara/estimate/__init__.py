"""Estimators of the state that a controller receives: true, delayed, noisy, or fused from sensors."""

from samara.core.lazy_import import lazy_attributes as _lazily
from samara.estimate.estimator import Estimate, Fusion
from samara.estimate.ideal import Delay, EstimateNoise, Estimator, Latency

__all__ = ["Delay", "Estimate", "EstimateNoise", "Estimator", "Fusion", "Latency"]

__getattr__, __dir__ = _lazily(__name__, __path__)
