"""A scenario: drones, world, wind, events and expectations. Frozen; `samara.scenario.file` reads it from TOML."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from samara.control.registry import ControllerSpec, controller_name
from samara.core.algebra import ZERO, Vec3
from samara.core.quantity import Scalar
from samara.estimate.estimator import Fusion
from samara.estimate.ideal import TRUTH, Estimator
from samara.physics.air.atmosphere import density_at_height
from samara.physics.types import CALM, Environment, Vehicle
from samara.plan.trajectory import Trajectory
from samara.scenario.autopilot import Autopilot
from samara.scenario.batteries import BatteryFailsafe
from samara.scenario.events import Event
from samara.scenario.timeline import Rates
from samara.scenario.world import World, camera_scene
from samara.sensors.registry import attach_view
from samara.sensors.sensor import Sensor
from samara.sensors.site import HOME, Site
from samara.wind.sources import NoWind, WindSource


class ScenarioError(ValueError):
    """An error in a scenario; the message is one sentence."""


@dataclass(frozen=True, repr=False)
class Drone:
    """One drone: its vehicle, start, task, estimator and controller.

    It starts at rest on its feet at `start_W`, or hovering there when `airborne`; its batteries have `initial_charge`, from
    1 to 0. A controller is a name, a name with options (`samara.control.registry.controller_spec`), or a function
    controller(state, reference, vehicle[, controller_state]) → command or (command, controller_state). An `autopilot` replaces
    both estimator and controller. `battery_failsafe` makes it return before its battery is empty. `model` is the vehicle that
    its controller is designed for, if it differs from the one that flies. `tables` are those of its scenario file from which
    the vehicle's effects and the estimator are built.
    """

    name: str
    vehicle: Vehicle
    task: Trajectory
    start_W: Vec3 = ZERO
    yaw: float = 0.0
    airborne: bool = False
    armed: bool = True
    controller: str | ControllerSpec | Callable[..., Any] = "geometric"
    estimator: Estimator | Fusion = TRUTH
    motor_map: tuple[int, ...] = ()
    sensors: tuple[Sensor, ...] = ()
    autopilot: Autopilot | None = None
    battery_failsafe: BatteryFailsafe | None = None
    initial_charge: float = 1.0
    model: Vehicle | None = None
    tables: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)

    @property
    def controller_name(self) -> str:
        """The name of its controller or autopilot; for a function, the function's name."""
        return self.autopilot.type if self.autopilot else controller_name(self.controller)

    def __repr__(self) -> str:
        return f"Drone {self.name}: {self.vehicle.name}, {self.controller_name}, starts at {tuple(self.start_W)} m"


@dataclass(frozen=True)
class Expectations:
    """Conditions at the end of a flight, or during it; None is not checked. Lengths in m, angles in degrees."""

    final_position: Vec3 | None = None
    position_tolerance: float = 0.2
    no_crash: bool = True
    landed: bool | None = None
    max_tilt_deg: float | None = None
    max_error: float | None = None
    min_height: float | None = None
    crashed: tuple[str, ...] = ()


@dataclass(frozen=True, repr=False)
class Scenario:
    """Drones in one world for `duration` seconds.

    With `wind_per_rotor`, a wind that depends on the position acts on each rotor with its value at the hub. `text` is the file
    it was read from, `settings` the changes of that file, `files` the tables it names. `backend` is that of the physics, as in
    `samara.fly`. `home` is the location of the world's origin on Earth; `environment.air_density` is the air density there, and
    in a flight it follows the height (`environment_by_height`).
    """

    name: str
    drones: tuple[Drone, ...]
    duration: float
    seed: int = 0
    rates: Rates = field(default_factory=Rates)
    wind: WindSource = field(default_factory=NoWind)
    environment: Environment = CALM
    events: tuple[Event, ...] = ()
    integrator: str = "rk4"
    strict: bool = False
    expect: Expectations = field(default_factory=Expectations)
    description: str = ""
    world: World = field(default_factory=World)
    wind_per_rotor: bool = False
    files: Mapping[str, bytes] = field(default_factory=dict, compare=False)
    text: str = field(default="", compare=False)
    settings: Mapping[str, object] = field(default_factory=dict, compare=False)
    backend: str = "llvm"
    home: Site = HOME

    def __post_init__(self) -> None:
        """Attach the view of the world to the drones' cameras: their readings depend on its gates."""
        if any(sensor.images for drone in self.drones for sensor in drone.sensors):
            view = camera_scene(self.world, self.environment.ground)
            drones = (
                replace(drone, sensors=tuple(attach_view(sensor, view) for sensor in drone.sensors))
                for drone in self.drones
            )
            object.__setattr__(self, "drones", tuple(drones))

    def __repr__(self) -> str:
        """Name and description, then drones, duration, wind, sensors and what else there is, a line each."""
        fleet = Counter(f"{drone.vehicle.name}, {drone.controller_name}" for drone in self.drones).most_common()
        others = [f"{len(fleet) - 3} more types"] if len(fleet) > 3 else []
        altitude = self.home.origin.altitude
        parts = [
            *_count(self.events, "event"),
            *_count(self.world.obstacles, "obstacle"),
            *([f"home at {altitude:g} m"] if altitude else []),
        ]
        rows = {
            "drones": "; ".join([*(f"{count} × {name}" if count > 1 else name for name, count in fleet[:3]), *others]),
            "duration": f"{self.duration:g} s, seed {self.seed}",
            "wind": "none" if isinstance(self.wind, NoWind) else type(self.wind).__name__,
            "sensors": ", ".join(dict.fromkeys(sensor.name for drone in self.drones for sensor in drone.sensors))
            or "none",
            "world": ", ".join(parts),
        }
        title = f"Scenario {self.name}: {self.description}".removesuffix(": ")
        return "\n".join([title, *(f"  {name:9s} {text}" for name, text in rows.items() if text)])

    def environment_by_height(self, height: Scalar) -> Environment:
        """Return the environment with the air density at a height above home: `density_at_height`."""
        density = density_at_height(
            height, home_density=self.environment.air_density, home_altitude=self.home.origin.altitude
        )
        return self.environment._replace(air_density=density)


def _count(things: Sequence[object], noun: str) -> list[str]:
    """Return ["3 events"], ["1 event"] or []."""
    return [f"{len(things)} {noun}{'s' if len(things) > 1 else ''}"] if things else []
