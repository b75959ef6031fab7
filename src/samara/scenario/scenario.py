"""A scenario: drones, world, wind, events and expectations. Frozen; `samara.scenario.file` reads it from TOML."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from samara.control.registry import ControllerSpec
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
from samara.scenario.world import World
from samara.sensors.sensor import Sensor
from samara.sensors.site import HOME, Site
from samara.wind.sources import NoWind, WindSource


class ScenarioError(ValueError):
    """An error in a scenario; the message is one sentence."""


@dataclass(frozen=True)
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


@dataclass(frozen=True)
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

    def __repr__(self) -> str:
        """Name, fleet, duration and seed, then the parts of the world that differ from the defaults."""
        vehicle_counts = Counter(drone.vehicle.name for drone in self.drones)
        fleet = ", ".join(f"{count} × {name}" if count > 1 else name for name, count in vehicle_counts.most_common(3))
        parts = [f"{fleet}, …" if len(vehicle_counts) > 3 else fleet, f"{self.duration:g} s", f"seed {self.seed}"]
        if not isinstance(self.wind, NoWind):
            parts.append(f"wind {type(self.wind).__name__}")
        parts += [f"home at {self.home.origin.altitude:g} m"] if self.home.origin.altitude else []
        for count, noun in ((len(self.events), "event"), (len(self.world.obstacles), "obstacle")):
            parts += [f"{count} {noun}{'s' if count > 1 else ''}"] if count else []
        return f"<Scenario {self.name!r}: {', '.join(parts)}>"

    def environment_by_height(self, height: Scalar) -> Environment:
        """Return the environment with the air density at a height above home: `density_at_height`."""
        density = density_at_height(
            height, home_density=self.environment.air_density, home_altitude=self.home.origin.altitude
        )
        return self.environment._replace(air_density=density)
