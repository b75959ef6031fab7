"""What events change: each drone's task, arming, faults and load, and the wind. Frozen; an action makes a new one."""

from typing import Any, NamedTuple

from samara.core.algebra import ZERO, Vec3
from samara.plan.trajectory import Trajectory
from samara.scenario.bus import Faults
from samara.scenario.landing import BELOW_GROUND
from samara.vehicles.payload import Payload


class Order(NamedTuple):
    """What an autopilot that flies a drone is asked: arm, disarm, take_off, go_to, reach or land.

    A place in the world [m], and a speed [m/s; 0: its own]. To reach a place is to be there before anything else is asked.
    """

    kind: str
    p_W: Vec3 = ZERO
    speed: float = 0.0


class DroneSetting(NamedTuple):
    """What one drone is to do, and what is wrong with it. `since_us` is when its task began; `orders` are all its autopilot
    was asked so far. `landing_depth` is how far below the ground its landings aim [m]."""

    task: Trajectory
    since_us: int = 0
    armed: bool = True
    faults: Faults = Faults()
    payload: Payload = Payload()
    cable_holds: bool = True
    home_W: Vec3 = ZERO
    orders: tuple[Order, ...] = ()
    landing_depth: float = BELOW_GROUND

    def ordered(self, kind: str, p_W: Vec3 = ZERO, speed: float = 0.0) -> "DroneSetting":
        """The setting with one order more"""
        return self._replace(orders=(*self.orders, Order(kind, p_W, speed)))


class Setting(NamedTuple):
    """The drones' settings in their order, the wind's source and what disturbs it."""

    drones: tuple[DroneSetting, ...]
    wind: Any
    wind_disturbance_W: Vec3 = ZERO

    def with_drone(self, index: int, drone: DroneSetting) -> "Setting":
        """The setting with another one for this drone"""
        return self._replace(drones=(*self.drones[:index], drone, *self.drones[index + 1 :]))
