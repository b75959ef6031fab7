"""Campaigns of many flights: failure rates with confidence intervals, their causes, and the flights that show them."""

from typing import TYPE_CHECKING

from samara.campaigns.failure_curve import failure_curve
from samara.campaigns.falsify import falsify, shrink
from samara.campaigns.subset_simulation import subset_simulation
from samara.core.lazy_import import lazy_exports

if TYPE_CHECKING:
    from samara.campaigns.confidence import (
        Verdict,
        clopper_pearson,
        confidence_sequence,
        decide_requirement,
        parse_requirement,
        quantile_interval,
        upper_bound,
    )
    from samara.campaigns.rerun import rerun_row
    from samara.campaigns.samplers import uniforms
    from samara.campaigns.sensitivity import sobol_indices, sobol_rows
else:
    __getattr__, __dir__ = lazy_exports(__name__)

__all__ = [
    "Verdict",
    "clopper_pearson",
    "confidence_sequence",
    "decide_requirement",
    "failure_curve",
    "falsify",
    "parse_requirement",
    "quantile_interval",
    "rerun_row",
    "shrink",
    "sobol_indices",
    "sobol_rows",
    "subset_simulation",
    "uniforms",
    "upper_bound",
]
