"""The bus: a snapshot of the flight at one instant, in one frozen record.

Commands, wind and faults are constant from the instant that sets them until the next that does.
"""

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, Self

from samara.core.algebra import ZERO, Vec3
from samara.core.quantity import Scalar
from samara.physics.frames import ned_from_enu
from samara.physics.inputs import UNIT_RANGE
from samara.physics.types import Environment, Reference, State
from samara.scenario.actuators import ActuatorCommand, mask_effectiveness, motor_disable_mask
from samara.scenario.timeline import MICROSECONDS
from samara.sensors.registry import SENSOR_TYPES

BUS_SCHEMA_VERSION = 3
"""Increases when the meaning of a field or of a recorded stream changes; stored in every recording.

1: effects' states by number, settings as comments of the scenario, crashes and landings as sentences. 2: effects' states by
name, separate settings, and the streams `status` and `derived`. 3: occurrences as numbers, in the stream `occurrence`.
"""

SENSOR_FAULTS: dict[str, bool] = {
    fault: sensor.has_image for sensor in SENSOR_TYPES.values() for fault in (sensor.faults or (sensor.name,))
}
"""The sensors that can fail, by the names of their faults, and whether single pixels or beams can fail."""


class VisionFault(NamedTuple):
    """A fault of a drone's cameras or lidars: "blank" returns nothing, "occluded" nothing in a `fraction` of the image from its
    left edge, "dead" nothing in that fraction of single pixels or beams.
    """

    sensor: str
    mode: str
    fraction: float = 1.0


class Faults(NamedTuple):
    """The faults of a drone: the power of each physical propulsor's motor (1 healthy, 0 dead), battery, sensors, estimator."""

    motor_effectiveness: tuple[float, ...] = ()
    battery_connected: bool = True
    remaining_cells: float = 1.0
    sensors: frozenset[str] = frozenset()
    estimator_frozen: bool = False
    vision: tuple[VisionFault, ...] = ()

    @property
    def motor_disable_mask(self) -> int:
        """Bit i is set if physical propulsor i is dead."""
        return motor_disable_mask(*(i for i, power in enumerate(self.motor_effectiveness) if power == 0.0))

    @property
    def healthy(self) -> tuple[bool, ...]:
        """Rotors the controller allocates thrust to; all of them if none works, as its commands then have no effect."""
        working = tuple(power > 0.0 for power in self.motor_effectiveness)
        return working if any(working) else (True,) * len(working)


class FaultState(Faults):
    """`Faults` under the NED simulator's name, which can also be constructed from its mask of dead propulsors.

    `FaultState(motor_disable_mask=0b0100, propulsors=4)` is `Faults(motor_effectiveness=(1, 1, 0, 1))`: bit i of the mask is
    physical propulsor i. `propulsors` is the propulsor count; by default the highest one in the mask is the last.
    """

    __slots__ = ()

    def __new__(
        cls,
        motor_effectiveness: Sequence[float] = (),
        *fields: Any,
        motor_disable_mask: int | None = None,
        propulsors: int | None = None,
        **named: Any,
    ) -> Self:
        if motor_disable_mask is None:
            if propulsors is not None:
                raise ValueError(f"propulsors = {propulsors!r} without motor_disable_mask: expected both")
            return super().__new__(cls, tuple(motor_effectiveness), *fields, **named)
        if motor_effectiveness:
            raise ValueError("motor_effectiveness and motor_disable_mask were both given: expected one of them")
        return super().__new__(cls, mask_effectiveness(motor_disable_mask, propulsors), *fields, **named)


class AutopilotCommand(NamedTuple):
    """The command to the autopilot: whether the motors may turn, the task it follows, and the time the task began."""

    armed: bool = True
    task: str = ""
    since_us: int = 0


class BatteryStatus(NamedTuple):
    """Charge from 0 to 1, terminal voltage [V], current [A] (positive discharges), and whether it is connected."""

    charge: Scalar
    voltage: Scalar
    current: Scalar
    connected: Scalar


class DroneBus(NamedTuple):
    """One drone at one instant. `state` is the truth, `measurements` the last readings of its sensors, `estimate` the state
    that the controller uses.
    """

    name: str
    state: State
    estimate: State
    reference: Reference
    command: ActuatorCommand
    autopilot: AutopilotCommand
    faults: Faults
    landed: bool
    crashed: bool
    environment: Environment
    batteries: tuple[BatteryStatus, ...] = ()
    measurements: Mapping[str, tuple[float, ...]] = MappingProxyType({})


class Bus(NamedTuple):
    """The world at one instant; time in whole microseconds, wind in world axes [m/s]."""

    time_us: int
    drones: tuple[DroneBus, ...]
    wind_W: Vec3 = ZERO
    wind_disturbance_W: Vec3 = ZERO
    schema: int = BUS_SCHEMA_VERSION

    @property
    def time(self) -> float:
        """Flight time [s]."""
        return self.time_us / MICROSECONDS

    @property
    def wind_ned(self) -> Vec3:
        """Velocity of the air in NED [m/s]."""
        return ned_from_enu(self.wind_W)


def sanitize_command(
    values: Sequence[float], limits: tuple[float, float] | None = UNIT_RANGE
) -> tuple[tuple[float, ...], int]:
    """Replace values that are not finite by 0 and clip the others; return them and the count of changed values."""
    low, high = limits or (-math.inf, math.inf)
    clipped = tuple(min(max(float(x), low), high) if math.isfinite(x) else 0.0 for x in values)
    return clipped, sum(1 for a, b in zip(clipped, values, strict=True) if a != b)


def require_command(values: Sequence[Scalar], limits: tuple[float, float] | None, source: str, time_us: int) -> None:
    """Raise a ValueError with channel and time of the first value that is not finite, or out of range by more than 1e-6."""
    low, high = limits or (-math.inf, math.inf)
    for channel, value in enumerate(values):
        if not low - 1e-6 <= value <= high + 1e-6:
            bounds = f" within [{low:g}, {high:g}]" if limits else ""
            raise ValueError(
                f"{source}: command of motor {channel} is {value} at {time_us / MICROSECONDS:.6f} s; "
                f"expected a finite number{bounds}"
            )
