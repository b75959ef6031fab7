"""Plans: trajectories as functions of time, differential flatness, and time-optimal flight through points."""

from samara.core.lazy_import import lazily as _lazily
from samara.physics.types import Reference
from samara.plan.reference import Leg
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
    race,
    sequence,
    stop,
    take_off,
    through,
    transfer,
    waypoints,
)

__all__ = [
    "Leg", "Limits", "Plan", "Reference", "Trajectory", "Waypoint", "at_pace", "circle", "equal_speed", "fastest",
    "figure8", "flat_motion", "flat_output", "flat_to_state", "helix", "hover", "land", "legs", "line", "lissajous",
    "race", "read_waypoints", "sequence", "stop", "take_off", "through", "transfer", "waypoints",
]  # fmt: skip

_LAZY = {
    **dict.fromkeys(("flat_motion", "flat_output", "flat_to_state"), "samara.plan.flatness"),
    **dict.fromkeys(("Limits", "Plan", "at_pace", "equal_speed", "fastest"), "samara.plan.time_optimal"),
    "read_waypoints": "samara.plan.waypoint_file",
}
__getattr__, __dir__ = _lazily(__name__, __path__, _LAZY)
