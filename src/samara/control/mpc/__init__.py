"""Model-predictive control: a controller (`MPC`) with the iLQR document's cost or a custom one (`Cost`) and with constraints
(`Constraint`), and its solver for problems of any type (`Problem`, `Solver`). See docs/explanation/mpc.md."""

from typing import TYPE_CHECKING

from samara.core.lazy_import import lazy_exports

if TYPE_CHECKING:
    from samara.control.mpc.constraints import (
        Constraint,
        altitude_limits,
        half_space,
        keep_out_box,
        keep_out_capsule,
        keep_out_sphere,
        max_body_rate,
        max_speed,
        max_tilt,
        position_box,
    )
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
    "Constraint",
    "Cost",
    "CostWeights",
    "InputLimits",
    "MpcOptions",
    "Problem",
    "Shaping",
    "Solver",
    "altitude_limits",
    "default_torque_weight",
    "half_space",
    "keep_out_box",
    "keep_out_capsule",
    "keep_out_sphere",
    "max_body_rate",
    "max_speed",
    "max_tilt",
    "position_box",
]
