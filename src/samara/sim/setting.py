"""What events change: each drone's task, arming, faults and load, and the wind. Frozen; an action makes a new one."""

from typing import Any, NamedTuple

from samara.algebra import ZERO, Vec3
from samara.plan.trajectory import Trajectory
from samara.sim.bus import Faults
from samara.vehicles.payload import Payload


class DroneSetting(NamedTuple):
    """What one drone is to do, and what is wrong with it. `since_us` is when its task began."""

    task: Trajectory
    since_us: int = 0
    armed: bool = True
    faults: Faults = Faults()
    payload: Payload = Payload()
    home_W: Vec3 = ZERO


class Setting(NamedTuple):
    """The drones' settings in their order, the wind's source and what disturbs it."""

    drones: tuple[DroneSetting, ...]
    wind: Any
    wind_disturbance_W: Vec3 = ZERO

    def with_drone(self, index: int, drone: DroneSetting) -> "Setting":
        """The setting with another one for this drone"""
        return self._replace(drones=(*self.drones[:index], drone, *self.drones[index + 1 :]))
