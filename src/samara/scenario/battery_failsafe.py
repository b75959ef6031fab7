"""What a drone does when its battery runs low: it returns, then lands. One setting, whoever flies the drone."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from samara.scenario.events import Event, disarm, land, return_home, when, when_charge_below

if TYPE_CHECKING:
    from samara.scenario.scenario import Drone


@dataclass(frozen=True)
class BatteryFailsafe:
    """Below `return_below` of its charge a drone returns to where it started, below `land_below` it lands and disarms.

    Autopilots with a battery failsafe of their own get it as parameters (`AutopilotType.failsafe_parameters`). For other
    autopilots that take orders, and for Samara's controllers, it is events.
    """

    return_below: float = 0.2
    land_below: float = 0.1

    def __post_init__(self) -> None:
        if not 0.0 < self.land_below < self.return_below < 1.0:
            raise ValueError(
                f"land_below = {self.land_below!r} and return_below = {self.return_below!r}: "
                "expected 0 < land_below < return_below < 1"
            )


def failsafe_events(drone: "Drone") -> tuple[Event, ...]:
    """To return, to land and then to disarm, unless its autopilot sees to that or nothing is set"""
    own, autopilot, name = drone.battery_failsafe, drone.autopilot, drone.name
    if own is None or (autopilot is not None and not autopilot.type.has_failsafe_events):
        return ()
    return (
        Event(when_charge_below(own.return_below, name), return_home(drone=name)),
        Event(when_charge_below(own.land_below, name), land(drone=name)),
        Event(when(f"charge < {own.land_below} and landed == 1", name), disarm(name)),
    )
