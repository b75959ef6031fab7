"""What the stages of one drone are built from: the drone, and the flight it is in; and which slots its setting fills."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from samara.control.named import as_tuned
from samara.control.tuning import Tuned
from samara.core.tree import flatten
from samara.estimate.fusion import Fusion
from samara.estimate.simple import TRUTH, Estimator
from samara.physics.multirotor import at_rest
from samara.physics.types import Environment, Vehicle
from samara.scenario.batteries import with_cells
from samara.scenario.bus import Faults
from samara.scenario.landing import landing_depth
from samara.scenario.scenario import Scenario
from samara.scenario.setting import DroneSetting, Setting
from samara.scenario.timeline import MICROSECONDS
from samara.scenario.world import World
from samara.sensors.range_finder import Sees
from samara.sensors.registry import faults_of, seeing
from samara.sensors.sensor import Sensor
from samara.vehicles.payload import with_payload
from samara.vehicles.slung_load import cut
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
    drones: int = 1

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


def initial_setting(scenario: Scenario) -> Setting:
    """What the drones do at the start, with nothing wrong"""
    drones = (
        DroneSetting(
            drone.task,
            armed=drone.armed,
            faults=Faults(tuple(1.0 for _ in drone.vehicle.rotors)),
            home_W=drone.start_W,
            landing_depth=landing_depth(drone.vehicle),
        )
        for drone in scenario.drones
    )
    return Setting(tuple(drones), scenario.wind)


def flight_setup(
    scenario: Scenario, setting: Setting, periods: dict[str, int], *, can_interrupt: bool = True
) -> FlightSetup:
    """What all drones of a flight share under a setting"""
    return FlightSetup(
        scenario.environment,
        scenario.home.origin.altitude,
        setting.wind,
        scenario.world,
        periods,
        scenario.integrator,
        scenario.backend,
        scenario.wind_at_hubs,
        any(drone.faults.estimator_frozen or drone.faults.sensors for drone in setting.drones),
        can_interrupt,
        len(setting.drones),
    )


def drone_setup(
    scenario: Scenario, setting: Setting, index: int, flight: FlightSetup, controller: Any = None
) -> DroneSetup:
    """One drone under a setting: with its load, its battery, and sensors that see the world's solids"""
    drone, own, world = scenario.drones[index], setting.drones[index], scenario.world
    whole = drone.vehicle if own.cable_holds else cut(drone.vehicle)
    vehicle = with_payload(with_cells(whole, own.faults.cells_left), own.payload)
    sensors = drone.sensors
    if world.solids or world.terrain is not None:
        # Rays meet the solids, and the ground's plane, or of a height map the plane below the drone.
        ground = scenario.environment.ground if world.terrain is None else None
        sees = Sees(tuple(solid.solid for solid in world.solids), ground)
        sensors = tuple(seeing(sensor, sees, world.terrain) for sensor in sensors)
    motor_map = tuple(np.argsort(drone.motor_map).tolist()) if drone.motor_map else ()
    known = drone.controller if controller is None else controller
    return DroneSetup(vehicle, known, own.faults.healthy, drone.estimator, sensors, drone.model, motor_map, flight)


def setting_values(setup: DroneSetup, setting: DroneSetting) -> dict[str, tuple[float, ...]]:
    """The slots that a drone's setting fills: arming, faults of motors, battery and sensors, components that are frozen"""
    is_linked = isinstance(setup.controller, Linked)  # an autopilot arms itself, when it is told to
    faults = setting.faults
    values: dict[str, tuple[float, ...]] = {
        "armed": (float(setting.armed or is_linked),),
        "environment.battery_connected": (float(faults.battery_connected),),
        "environment.motor_power": tuple(faults.motor_power) if setup.vehicle.rotors else (),
    }
    for sensor in setup.sensors:
        failed = faults_of(sensor) & faults.sensors
        values[f"{sensor.name}/silent"] = (float(bool(failed)),)
    if setup.flight.is_frozen and setup.estimator != TRUTH:
        size = len(flatten(at_rest(setup.vehicle)))
        frozen = set() if isinstance(setup.estimator, Fusion) else frozen_components(faults.sensors)
        frozen = set(range(size)) if faults.estimator_frozen else frozen
        values["frozen"] = tuple(float(k in frozen) for k in range(size))
    return values


def frozen_components(failed: frozenset[str]) -> set[int]:
    """The components of an estimate that no longer change when sensors fail: p, v without GPS or vision, ω without gyro, q
    without magnetometer, the height without barometer"""
    rows: set[int] = set()
    if failed & {"gps", "vision"}:
        rows |= set(range(6))
    if "barometer" in failed:
        rows |= {2, 5}
    if "magnetometer" in failed:
        rows |= set(range(6, 10))
    if "gyro" in failed:
        rows |= set(range(10, 13))
    return rows
