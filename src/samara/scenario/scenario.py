"""A scenario: who flies what, where, in which air, and what happens meanwhile. Frozen; `scenario_file` reads it from TOML."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from samara.control.registry import Tuned
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
from samara.sensors.site import HOME, Place
from samara.wind.sources import NoWind, WindSource


class ScenarioError(ValueError):
    """A scenario with something wrong in it; the message is one sentence."""


@dataclass(frozen=True)
class Drone:
    """One drone: its vehicle, where it starts and faces, what it follows, who controls it and on what knowledge.

    It starts at rest on its feet at `start_W`, or hovering there when `airborne`; its batteries have `start_charge`, from 1 to
    0. A controller is a name, a name with numbers (`samara.control.registry.tuned`), or a function controller(state, reference,
    vehicle, memory) → command or (command, memory).
    An `autopilot` flies it in the place of both. `battery_failsafe` brings it home before its battery is empty. `model` is the
    vehicle that its controller is made for, where that is not quite the one that flies.
    """

    name: str
    vehicle: Vehicle
    task: Trajectory
    start_W: Vec3 = ZERO
    yaw: float = 0.0
    airborne: bool = False
    armed: bool = True
    controller: str | Tuned | Callable[..., Any] = "geometric"
    estimator: Estimator | Fusion = TRUTH
    motor_map: tuple[int, ...] = ()
    sensors: tuple[Sensor, ...] = ()
    autopilot: Autopilot | None = None
    battery_failsafe: BatteryFailsafe | None = None
    start_charge: float = 1.0
    model: Vehicle | None = None


@dataclass(frozen=True)
class Expect:
    """What must be true at the end of a flight, or on the way; None asks nothing. Lengths in m, angles in degrees."""

    final_position: Vec3 | None = None
    within: float = 0.2
    no_crash: bool = True
    landed: bool | None = None
    max_tilt_deg: float | None = None
    max_error: float | None = None
    min_height: float | None = None
    crashed: tuple[str, ...] = ()


@dataclass(frozen=True)
class Scenario:
    """Drones in one world for so many seconds. With `wind_at_hubs` a wind that depends on the place blows on every rotor as it
    is there. `text` is the file it was read from, `settings` what was changed of it, `files` the tables it names.
    `backend` is what the physics runs on, as `samara.fly` is told. `home` is where the world's origin is on Earth;
    `environment.air_density` is the density of the air there, and in a flight it follows the height (`environment_at`)."""

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
    expect: Expect = field(default_factory=Expect)
    description: str = ""
    world: World = field(default_factory=World)
    wind_at_hubs: bool = False
    files: Mapping[str, bytes] = field(default_factory=dict, compare=False)
    text: str = field(default="", compare=False)
    settings: Mapping[str, object] = field(default_factory=dict, compare=False)
    backend: str = "llvm"
    home: Place = HOME

    def __repr__(self) -> str:
        """Name, fleet, duration and seed, then the parts of the world that are not the default"""
        flown = Counter(drone.vehicle.name for drone in self.drones)
        fleet = ", ".join(f"{count} × {name}" if count > 1 else name for name, count in flown.most_common(3))
        parts = [f"{fleet}, …" if len(flown) > 3 else fleet, f"{self.duration:g} s", f"seed {self.seed}"]
        if not isinstance(self.wind, NoWind):
            parts.append(f"wind {type(self.wind).__name__}")
        parts += [f"home at {self.home.origin.altitude:g} m"] if self.home.origin.altitude else []
        for count, noun in ((len(self.events), "event"), (len(self.world.solids), "solid")):
            parts += [f"{count} {noun}{'s' if count > 1 else ''}"] if count else []
        return f"<Scenario {self.name!r}: {', '.join(parts)}>"

    def environment_at(self, height: Scalar) -> Environment:
        """The environment with the density of the air at a height above home: `density_at_height`"""
        density = density_at_height(
            height, home_density=self.environment.air_density, home_altitude=self.home.origin.altitude
        )
        return self.environment._replace(air_density=density)
