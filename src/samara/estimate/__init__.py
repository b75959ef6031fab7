"""Estimators: the state as a controller receives it: true, delayed, noisy, or fused from sensors."""

from samara.core.lazy_import import lazily as _lazily
from samara.estimate.estimator import Estimate, Fusion
from samara.estimate.ideal import Delay, Estimator, Latency, Noise

__all__ = ["Delay", "Estimate", "Estimator", "Fusion", "Latency", "Noise"]

__getattr__, __dir__ = _lazily(__name__, __path__)
