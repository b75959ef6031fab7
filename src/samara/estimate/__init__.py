"""Estimators of the state that a controller receives: true, delayed, noisy, or fused from sensors."""

from samara.estimate.estimator import Estimate, Fusion
from samara.estimate.ideal import Delay, EstimateNoise, Estimator, Latency

__all__ = ["Delay", "Estimate", "EstimateNoise", "Estimator", "Fusion", "Latency"]
