"""Commands of the actuators by output channel, the wiring from channels to rotors, and which rotors have failed.

Channels and rotors are counted from 0.
"""

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass

MOTOR_CHANNELS, SERVO_CHANNELS = 12, 8
_MOTOR_RANGE, _SERVO_RANGE = (0.0, 1.0), (-1.0, 1.0)
_ROUNDING_TOLERANCE = 1e-6  # excess over a full command that single precision and unit conversion may cause


@dataclass(frozen=True)
class ActuatorCommand:
    """12 motor duties in [0, 1] and 8 servo deflections in [−1, 1], by output channel; those not given are 0."""

    motors: tuple[float, ...] = ()
    servos: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "motors", _channels("motors", self.motors, MOTOR_CHANNELS, _MOTOR_RANGE))
        object.__setattr__(self, "servos", _channels("servos", self.servos, SERVO_CHANNELS, _SERVO_RANGE))


def _channels(name: str, values: Sequence[float], count: int, limits: tuple[float, float]) -> tuple[float, ...]:
    if len(values) > count:
        raise ValueError(f"{name} has {len(values)} channels; expected at most {count}")
    low, high = limits
    for channel, value in enumerate(values):
        if not low <= value <= high:
            raise ValueError(f"{name}[{channel}] is {value}; expected a number within [{low:g}, {high:g}]")
    return tuple(float(value) for value in values) + (0.0,) * (count - len(values))


def px4_command(motors: Sequence[float], servos: Sequence[float] = ()) -> ActuatorCommand:
    """Convert the outputs that PX4 sends.

    NaN marks an unused channel and becomes 0; values out of range are an error, except for rounding up to 1e-6.
    """
    return ActuatorCommand(
        tuple(_clean_output(value, _MOTOR_RANGE) for value in motors),
        tuple(_clean_output(value, _SERVO_RANGE) for value in servos),
    )


def _clean_output(value: float, limits: tuple[float, float]) -> float:
    if math.isnan(value):
        return 0.0
    clamped = _clamp(value, limits)
    return clamped if abs(clamped - value) <= _ROUNDING_TOLERANCE else value


def sanitized_command(motors: Sequence[float], servos: Sequence[float] = ()) -> ActuatorCommand:
    """Return the nearest valid command: values that are not finite become 0, values out of range are clipped."""
    return ActuatorCommand(
        tuple(_clamp(value, _MOTOR_RANGE) if math.isfinite(value) else 0.0 for value in motors),
        tuple(_clamp(value, _SERVO_RANGE) if math.isfinite(value) else 0.0 for value in servos),
    )


def _clamp(value: float, limits: tuple[float, float]) -> float:
    return min(max(value, limits[0]), limits[1])


@dataclass(frozen=True)
class MotorMap:
    """Wiring: output channel c drives the physical propulsor `propulsor[c]`; None marks an unused channel.

    N used channels drive the propulsors 0 … N − 1, each once.
    """

    propulsor: tuple[int | None, ...]

    def __post_init__(self) -> None:
        wired = tuple(None if propulsor is None else operator.index(propulsor) for propulsor in self.propulsor)
        if len(wired) > MOTOR_CHANNELS:
            raise ValueError(f"the motor map has {len(wired)} channels; expected at most {MOTOR_CHANNELS}")
        count = len(wired) - wired.count(None)
        for channel, propulsor in enumerate(wired):
            if propulsor is not None and not 0 <= propulsor < count:
                raise ValueError(f"channel {channel} drives propulsor {propulsor}; expected one of 0 to {count - 1}")
            if propulsor is not None and propulsor in wired[:channel]:
                raise ValueError(
                    f"channels {wired.index(propulsor)} and {channel} both drive propulsor {propulsor}; expected one"
                )
        object.__setattr__(self, "propulsor", wired)

    @property
    def count(self) -> int:
        """Number of driven propulsors."""
        return len(self.propulsor) - self.propulsor.count(None)


def motor_disable_mask(*propulsors: int) -> int:
    """Σ 2ⁱ over the physical propulsors i that have failed: propulsors, not output channels."""
    mask = 0
    for propulsor in propulsors:
        if not 0 <= propulsor < MOTOR_CHANNELS:
            raise ValueError(f"propulsor {propulsor} cannot fail; expected one of 0 to {MOTOR_CHANNELS - 1}")
        mask |= 1 << propulsor
    return mask


def disabled_propulsors(mask: int) -> tuple[int, ...]:
    """Return the failed physical propulsors of a mask: the inverse of `motor_disable_mask`."""
    return tuple(propulsor for propulsor in range(mask.bit_length()) if mask >> propulsor & 1)


def mask_effectiveness(mask: int, propulsors: int | None = None) -> tuple[float, ...]:
    """Return the effectiveness of each physical propulsor's motor: 0 if its bit in the mask is set, else 1.

    `propulsors` is the propulsor count; by default the highest one in the mask is the last.
    """
    if isinstance(mask, bool) or not isinstance(mask, int) or not 0 <= mask < 1 << MOTOR_CHANNELS:
        raise ValueError(f"motor_disable_mask = {mask!r}: expected an integer from 0 to {(1 << MOTOR_CHANNELS) - 1:#b}")
    count = mask.bit_length() if propulsors is None else propulsors
    if not mask.bit_length() <= count <= MOTOR_CHANNELS:
        raise ValueError(
            f"motor_disable_mask = {mask:#b} of {count} propulsors: expected {mask.bit_length()} to {MOTOR_CHANNELS} propulsors"
        )
    return tuple(0.0 if mask >> propulsor & 1 else 1.0 for propulsor in range(count))


def propulsor_duties(command: ActuatorCommand, motor_map: MotorMap, mask: int = 0) -> tuple[float, ...]:
    """Return the duty of each physical propulsor: that of its channel, or 0 if its bit in the mask is set."""
    if mask < 0 or mask >> motor_map.count:
        raise ValueError(
            f"motor_disable_mask {mask:#b} names propulsors that do not exist; {motor_map.count} are driven"
        )
    duties = [0.0] * motor_map.count
    for channel, propulsor in enumerate(motor_map.propulsor):
        if propulsor is not None and not mask >> propulsor & 1:
            duties[propulsor] = command.motors[channel]
    return tuple(duties)
