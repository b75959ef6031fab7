"""iLQR as a controller that scenarios name: its parameters and its horizon."""

from collections.abc import Mapping, Sequence
from typing import Any

from samara.control.controller_type import ANGLE, NOT_NEGATIVE, POSITIVE, SHARE, WHOLE, ControllerType, choice
from samara.control.mpc.cost import Weights
from samara.control.mpc.reference_shaping import Shaping
from samara.core.integrate import RUNGE_KUTTA
from samara.physics.types import Vehicle

HORIZON = 20  # steps
YAW_WEIGHT = 4.0  # as the iLQR document's tilt; the document has no weight of the yaw, and references have a yaw


def _build(vehicle: Vehicle, *, healthy: Sequence[bool], period: float, **chosen: Any) -> Any:
    from samara.control.mpc import ILQR  # which imports the compiler

    return ILQR(vehicle, healthy=healthy, period=period, **{"horizon": HORIZON, "yaw_weight": YAW_WEIGHT, **chosen})


def _instants_ahead(chosen: Mapping[str, Any]) -> int:
    return int(chosen.get("horizon", HORIZON)) + 1


TYPE = ControllerType(
    "ilqr",
    _build,
    {
        **dict.fromkeys((*Weights._fields, *Shaping._fields), NOT_NEGATIVE),
        "max_reference_velocity": POSITIVE,
        "max_reference_acceleration": POSITIVE,
        "reference_follow": SHARE,
        "horizon": WHOLE,
        "dt": POSITIVE,
        "control_iterations": WHOLE,
        "integrator": choice(*RUNGE_KUTTA),
        "inputs": choice("wrench", "rotors"),
        "max_tilt": ANGLE,
        "disturbance_time_constant": NOT_NEGATIVE,
    },
    instants_ahead=_instants_ahead,
)
