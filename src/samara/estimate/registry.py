"""Estimators by name. To add one, write a module with `TYPES` and list it in `MODULES`."""

from samara.estimate import complementary, ekf, ideal
from samara.estimate.estimator import EstimatorType

MODULES = (ideal, ekf, complementary)
ESTIMATORS: dict[str, EstimatorType] = {estimator.name: estimator for module in MODULES for estimator in module.TYPES}
"""Every type of estimator by the name that scenario files use."""
