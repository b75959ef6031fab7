"""What the stages of one drone are built from: the drone, and the flight it is in."""

from dataclasses import dataclass
from typing import Any, NamedTuple

from samara.control.named import as_tuned
from samara.control.tuning import Tuned
from samara.estimate.fusion import Fusion
from samara.estimate.simple import Estimator
from samara.physics.types import Environment, Vehicle
from samara.scenario.timeline import MICROSECONDS
from samara.scenario.world import World
from samara.sensors.sensor import Sensor
from samara.wind.sources import WindSource


@dataclass(frozen=True, eq=False)
class FlightSetup:
    """What all drones of a flight share: the environment at home, the air's source, the clocks' periods [µs]."""

    environment: Environment
    home_altitude: float
    wind: WindSource
    world: World
    periods: dict[str, int]
    integrator: str = "rk4"
    backend: str = "llvm"
    wind_at_hubs: bool = False
    is_frozen: bool = False  # some of the drones' estimates
    can_interrupt: bool = True  # a compiled flight may stop for Python

    def period(self, clock: str) -> float:
        """Between two ticks of a clock  [s]"""
        return self.periods[clock] / MICROSECONDS


class DroneSetup(NamedTuple):
    """One drone of a flight; drones of equal setups are computed together.

    `model` is the vehicle its controller is made for, where that is another; `motor_map` the controller's channel of each
    motor, () in their order.
    """

    vehicle: Vehicle
    controller: Any
    healthy: tuple[bool, ...]
    estimator: Estimator | Fusion
    sensors: tuple[Sensor, ...]
    model: Vehicle | None
    motor_map: tuple[int, ...]
    flight: FlightSetup

    @property
    def known_vehicle(self) -> Vehicle:
        """The vehicle as its controller knows it"""
        return self.vehicle if self.model is None else self.model

    @property
    def tuned(self) -> Tuned | None:
        """Its controller, if it has a name"""
        controller = as_tuned(self.controller)
        return controller if isinstance(controller, Tuned) else None


@dataclass(frozen=True, eq=False)
class Linked:
    """In place of a controller: the autopilot of one drone, its output at hover, and whether outputs are commands."""

    link: Any
    hover_output: float
    commands_motors: bool = False
