"""Plans: trajectories as functions of time, differential flatness, and time-optimal flight through points."""

from typing import TYPE_CHECKING

from samara.core.lazy_import import lazy_exports
from samara.physics.types import Reference
from samara.plan.reference import StraightLeg
from samara.plan.trajectory import (
    Trajectory,
    Waypoint,
    circle,
    figure8,
    helix,
    hover,
    land,
    legs,
    line,
    lissajous,
    minimum_snap,
    race,
    sequence,
    stop,
    take_off,
    transfer,
    waypoints,
)

if TYPE_CHECKING:
    from samara.plan.flatness import flat_motion, flat_output, flat_to_state
    from samara.plan.time_optimal import (
        PlanLimits,
        TimeOptimalPlan,
        equal_speed_durations,
        plan_fastest,
        scale_to_limits,
    )
    from samara.plan.waypoint_file import read_waypoints
else:
    __getattr__, __dir__ = lazy_exports(__name__)

__all__ = [
    "PlanLimits",
    "Reference",
    "StraightLeg",
    "TimeOptimalPlan",
    "Trajectory",
    "Waypoint",
    "circle",
    "equal_speed_durations",
    "figure8",
    "flat_motion",
    "flat_output",
    "flat_to_state",
    "helix",
    "hover",
    "land",
    "legs",
    "line",
    "lissajous",
    "minimum_snap",
    "plan_fastest",
    "race",
    "read_waypoints",
    "scale_to_limits",
    "sequence",
    "stop",
    "take_off",
    "transfer",
    "waypoints",
]
