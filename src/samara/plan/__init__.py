"""Plans: trajectories as functions of time, differential flatness, and time-optimal flight through points."""

from samara.core.lazy_import import lazy_attributes as _lazily
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
]  # fmt: skip

_LAZY = {
    **dict.fromkeys(("flat_motion", "flat_output", "flat_to_state"), "samara.plan.flatness"),
    **dict.fromkeys(
        ("PlanLimits", "TimeOptimalPlan", "scale_to_limits", "equal_speed_durations", "plan_fastest"),
        "samara.plan.time_optimal",
    ),
    "read_waypoints": "samara.plan.waypoint_file",
}
__getattr__, __dir__ = _lazily(__name__, __path__, _LAZY)
