"""Model-predictive control by iLQR: a controller (`ILQR`) with the iLQR document's cost or a custom one (`Cost`), and its
solver for problems of any type (`Problem`, `Solver`). See docs/explanation/mpc.md."""

from typing import TYPE_CHECKING as _TYPE_CHECKING

from samara.core.lazy_import import lazy_attributes as _lazily

if _TYPE_CHECKING:
    from samara.control.mpc.controller import ILQR, default_torque_weight
    from samara.control.mpc.cost import TRACKING_COST, Cost
    from samara.control.mpc.options import CostWeights, MpcOptions, Shaping
    from samara.control.mpc.problem import InputLimits, Problem
    from samara.control.mpc.solver import Solver

__all__ = [
    "ILQR",
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

_MODULES = {  # imported on demand: some of them import the compiler
    **dict.fromkeys(("ILQR", "default_torque_weight"), "controller"),
    **dict.fromkeys(("TRACKING_COST", "Cost"), "cost"),
    **dict.fromkeys(("MpcOptions", "Shaping", "CostWeights"), "options"),
    **dict.fromkeys(("InputLimits", "Problem"), "problem"),
    "Solver": "solver",
}
__getattr__, __dir__ = _lazily(__name__, __path__, {name: f"{__name__}.{module}" for name, module in _MODULES.items()})
