"""Controllers: pure functions `controller(state, reference, vehicle, controller_state) → command, controller_state`."""

from typing import TYPE_CHECKING

from samara.control.default_gains import Gains, control_authority, default_gains
from samara.control.geometric import Geometric, geometric
from samara.control.indi import Indi, indi
from samara.control.lqr import Lqr, hover_design, lqr
from samara.control.mellinger import Mellinger, mellinger
from samara.control.pid import Pid, pid
from samara.core.lazy_import import lazy_exports

if TYPE_CHECKING:
    from samara.control.action_space import rotor_action, rotor_range
    from samara.control.allocation import Allocation, build_allocation, command_for_wrench, rotor_thrusts
    from samara.control.controller_type import Controller, ControllerSpec
    from samara.control.crazyflie_firmware.motors import THRUST_CURVES, pwm_from_thrust, thrust_from_pwm
    from samara.control.margins import hover_loop
    from samara.control.mpc import (
        MPC,
        TRACKING_COST,
        Constraint,
        Cost,
        CostWeights,
        InputLimits,
        MpcOptions,
        Problem,
        Shaping,
        Solver,
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
    from samara.control.policy_file import dense_tensors, load_policy, mlp_layers, save_policy
    from samara.control.registry import (
        CONTROLLERS,
        FIRMWARE,
        TRAINED,
        controller_spec,
        create_controller,
        required_rate,
    )
    from samara.control.stick_modes import StickLimits, StickPilot, Sticks, stick_limits, stick_pilot
else:
    __getattr__, __dir__ = lazy_exports(__name__)

__all__ = [
    "CONTROLLERS",
    "FIRMWARE",
    "MPC",
    "THRUST_CURVES",
    "TRACKING_COST",
    "TRAINED",
    "Allocation",
    "Constraint",
    "Controller",
    "ControllerSpec",
    "Cost",
    "CostWeights",
    "Gains",
    "Geometric",
    "Indi",
    "InputLimits",
    "Lqr",
    "Mellinger",
    "MpcOptions",
    "Pid",
    "Problem",
    "Shaping",
    "Solver",
    "StickLimits",
    "StickPilot",
    "Sticks",
    "altitude_limits",
    "build_allocation",
    "command_for_wrench",
    "control_authority",
    "controller_spec",
    "create_controller",
    "default_gains",
    "dense_tensors",
    "geometric",
    "half_space",
    "hover_design",
    "hover_loop",
    "indi",
    "keep_out_box",
    "keep_out_capsule",
    "keep_out_sphere",
    "load_policy",
    "lqr",
    "max_body_rate",
    "max_speed",
    "max_tilt",
    "mellinger",
    "mlp_layers",
    "pid",
    "position_box",
    "pwm_from_thrust",
    "required_rate",
    "rotor_action",
    "rotor_range",
    "rotor_thrusts",
    "save_policy",
    "stick_limits",
    "stick_pilot",
    "thrust_from_pwm",
]
