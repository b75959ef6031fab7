"""Estimators by name: another one is a module with `TYPES`, and its entry in `MODULES`."""

from samara.estimate import complementary, ekf, ideal
from samara.estimate.estimator import EstimatorType

MODULES = (ideal, ekf, complementary)
ESTIMATORS: dict[str, EstimatorType] = {estimator.name: estimator for module in MODULES for estimator in module.TYPES}
"""Every type of estimator by the name that scenario files use"""
