"""Model-predictive control by iLQR: a controller (`MPC`) with the iLQR document's cost or a custom one (`Cost`), and its
solver for problems of any type (`Problem`, `Solver`). See docs/explanation/mpc.md."""

from typing import TYPE_CHECKING

from samara.core.lazy_import import lazy_exports

if TYPE_CHECKING:
    from samara.control.mpc.controller import MPC, default_torque_weight
    from samara.control.mpc.cost import TRACKING_COST, Cost
    from samara.control.mpc.options import CostWeights, MpcOptions, Shaping
    from samara.control.mpc.problem import InputLimits, Problem
    from samara.control.mpc.solver import Solver
else:
    __getattr__, __dir__ = lazy_exports(__name__)

__all__ = [
    "MPC",
    "TRACKING_COST",
    "Cost",
    "CostWeights",
    "InputLimits",
    "MpcOptions",
    "Problem",
    "Shaping",
    "Solver",
    "default_torque_weight",
]
