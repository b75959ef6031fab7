"""Inputs of the stage builders: one drone, the flight it is in, and the slot values of its setting."""

from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np

from samara.control.registry import ControllerSpec, coerce_controller_spec
from samara.core.tree import flatten
from samara.estimate.estimator import Fusion
from samara.estimate.ideal import TRUTH, Estimator
from samara.physics.multirotor import state_at_rest
from samara.physics.types import Environment, Vehicle
from samara.scenario.batteries import reduce_cells
from samara.scenario.events import DroneSetting, FlightSettings
from samara.scenario.landing import landing_depth
from samara.scenario.scenario import Drone, Scenario
from samara.scenario.snapshot import Faults
from samara.scenario.timeline import MICROSECONDS
from samara.scenario.world import World
from samara.sensors.registry import attach_scene, fault_names
from samara.sensors.sensor import RayScene, Sensor
from samara.vehicles.defaults import release_load
from samara.vehicles.payload import with_payload
from samara.wind.sources import WindSource


@dataclass(frozen=True, eq=False)
class FlightSetup:
    """Data common to all drones of a flight: the environment at home, the wind source, the clocks' periods [µs]."""

    environment: Environment
    home_altitude: float
    wind: WindSource
    world: World
    periods: dict[str, int]
    integrator: str = "rk4"
    backend: str = "llvm"
    wind_per_rotor: bool = False
    is_frozen: bool = False  # a fault freezes estimates of at least one drone
    can_interrupt: bool = True  # a compiled flight may stop for Python
    drones: int = 1

    def is_same(self, other: "FlightSetup") -> bool:
        """Whether the stages built for another setup serve this one too."""
        pairs = ((getattr(self, field.name), getattr(other, field.name)) for field in fields(self))
        return all(a is b or (isinstance(a, (bool, int, float, str)) and a == b) for a, b in pairs)

    def period(self, clock: str) -> float:
        """Period of a clock [s]."""
        return self.periods[clock] / MICROSECONDS


class Variation(NamedTuple):
    """Drones of a fleet that differ only in parameters, which are inputs of their programs.

    `winds` has the wind of each drone, () if all have the scenario's. `references` are drones and winds of other parameters;
    they determine which leaves are inputs (`samara.compiler.batch_parameters`): () for those in which the drones differ.
    With `is_batch`, all drones have one vehicle, controller and wind, with BatchScalars for parameters that differ.
    """

    winds: tuple[WindSource, ...] = ()
    references: tuple[tuple[Drone, WindSource], ...] = ()
    is_batch: bool = False
    base_values: tuple[tuple[str, tuple[float, ...]], ...] = ()  # leaves of varied vehicle parameters in the scenario


class DroneSetup(NamedTuple):
    """One drone of a flight; drones of equal setups are computed together.

    `model` is the vehicle its controller is designed for, None if it is the same; `motor_map` has the controller's channel of
    each motor, () for the identity.
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
    def controller_vehicle(self) -> Vehicle:
        """The vehicle model that the controller uses."""
        return self.vehicle if self.model is None else self.model

    @property
    def tuned_controller(self) -> ControllerSpec | None:
        """The controller, if it is a named one; None for functions and autopilots."""
        controller = coerce_controller_spec(self.controller)
        return controller if isinstance(controller, ControllerSpec) else None


@dataclass(frozen=True, eq=False)
class LinkedAutopilot:
    """An external autopilot instead of a controller: its link, its output at hover, and whether outputs are motor commands."""

    link: Any
    hover_output: float
    commands_motors: bool = False


def initial_setting(scenario: Scenario) -> FlightSettings:
    """Return the setting at the start: the drones' tasks, without faults."""
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
    return FlightSettings(tuple(drones), scenario.wind)


def flight_setup(
    scenario: Scenario, setting: FlightSettings, periods: dict[str, int], *, can_interrupt: bool = True
) -> FlightSetup:
    """Collect the data common to all drones of a flight under a setting."""
    return FlightSetup(
        scenario.environment,
        scenario.home.origin.altitude,
        setting.wind,
        scenario.world,
        periods,
        scenario.integrator,
        scenario.backend,
        scenario.wind_per_rotor,
        any(drone.faults.estimator_frozen or drone.faults.sensors for drone in setting.drones),
        can_interrupt,
        len(setting.drones),
    )


def drone_setup(
    scenario: Scenario, drone: Drone, drone_setting: DroneSetting, flight: FlightSetup, controller: Any = None
) -> DroneSetup:
    """Set up one drone under a setting: with its load, its battery, and sensors that detect the world's solids."""
    world = scenario.world
    airframe = drone.vehicle if drone_setting.cable_attached else release_load(drone.vehicle)
    vehicle = with_payload(reduce_cells(airframe, drone_setting.faults.remaining_cells), drone_setting.payload)
    sensors = drone.sensors
    if world.obstacles or world.terrain is not None:
        # Rays hit the solids and the ground plane; above a height map, its tangent plane below the drone.
        ground = scenario.environment.ground if world.terrain is None else None
        scene = RayScene(tuple(solid.solid for solid in world.obstacles), ground)
        sensors = tuple(attach_scene(sensor, scene, world.terrain) for sensor in sensors)
    motor_map = tuple(np.argsort(drone.motor_map).tolist()) if drone.motor_map else ()
    drone_controller = drone.controller if controller is None else controller
    return DroneSetup(
        vehicle,
        drone_controller,
        drone_setting.faults.healthy,
        drone.estimator,
        sensors,
        drone.model,
        motor_map,
        flight,
    )


def setting_values(setup: DroneSetup, setting: DroneSetting) -> dict[str, tuple[float, ...]]:
    """Return the slot values of a drone's setting: arming, motor, battery and sensor faults, frozen components."""
    is_linked = isinstance(setup.controller, LinkedAutopilot)  # an external autopilot arms itself when ordered
    faults = setting.faults
    values: dict[str, tuple[float, ...]] = {
        "armed": (float(setting.armed or is_linked),),
        "environment.battery_connected": (float(faults.battery_connected),),
        "environment.motor_effectiveness": tuple(faults.motor_effectiveness) if setup.vehicle.rotors else (),
    }
    for sensor in setup.sensors:
        failed = fault_names(sensor) & faults.sensors
        values[f"{sensor.name}/silent"] = (float(bool(failed)),)
    if setup.flight.is_frozen and setup.estimator != TRUTH:
        size = len(flatten(state_at_rest(setup.vehicle)))
        frozen = set() if isinstance(setup.estimator, Fusion) else frozen_components(faults.sensors)
        frozen = set(range(size)) if faults.estimator_frozen else frozen
        values["frozen"] = tuple(float(k in frozen) for k in range(size))
    return values


def frozen_components(failed: frozenset[str]) -> set[int]:
    """Return the components of an estimate that freeze when sensors fail.

    These are p, v without GPS or vision, ω without gyro, q without magnetometer, and the height without barometer.
    """
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
