"""iLQR, model-predictive control: a vehicle flown by plans a second long (`ILQR`), with the iLQR document's cost or another one
(`Cost`); and the solver under it, for problems of any kind (`Problem`, `Solver`). docs/ilqr.md tells how."""

from typing import TYPE_CHECKING as _TYPE_CHECKING

from samara.core.lazy_import import lazily as _lazily

if _TYPE_CHECKING:
    from samara.control.mpc.controller import ILQR as ILQR
    from samara.control.mpc.controller import default_torque_weight as default_torque_weight
    from samara.control.mpc.cost import TRACKING as TRACKING
    from samara.control.mpc.cost import Cost as Cost
    from samara.control.mpc.problem import Limits as Limits
    from samara.control.mpc.problem import Problem as Problem
    from samara.control.mpc.solver import Solver as Solver

_LATER = {  # some of them bring the compiler along
    "ILQR": "controller",
    "default_torque_weight": "controller",
    "TRACKING": "cost",
    "Cost": "cost",
    "Limits": "problem",
    "Problem": "problem",
    "Solver": "solver",
}
__getattr__, __dir__ = _lazily(__name__, __path__, {name: f"{__name__}.{module}" for name, module in _LATER.items()})
