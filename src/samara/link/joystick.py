"""Read a gamepad, or an RC transmitter in USB joystick mode, on Linux and map its axes and buttons to a pilot's sticks.

Linux's joystick device sends events of 8 bytes: time [ms], value −32767 … 32767, type (1 button, 2 axis, plus 128 for the state
at opening) and number. A `StickMap` assigns an axis and its range to each stick.
"""

import errno
import os
import re
import struct
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from samara.control.stick_modes import Sticks
from samara.core.atomic_files import atomic_write
from samara.core.toml import TomlFile, TomlTable, parse_document

EVENT = struct.Struct("<IhBB")
BUTTON, AXIS, INITIAL = 1, 2, 0x80
FULL_SCALE = 32767
MAX_AXES = 64
NAME_LENGTH = 128
READ_NAME = 0x80006A13 + (NAME_LENGTH << 16)  # JSIOCGNAME(128)
DEVICES = Path("/dev/input")
STICKS = ("roll", "pitch", "throttle", "yaw")
MAP_SCHEMA = 1
MAX_MAP_BYTES = 1 << 16
NO_DEVICE = (
    "no gamepad or RC transmitter is connected: expected one at {devices}/js*, a transmitter in its USB joystick mode; "
    "or fly with the keyboard in a browser: samara export web"
)
IGNORED_DEVICES = re.compile(r"motion sensor|accelerometer|touchpad|keyboard|mouse", re.IGNORECASE)
TRANSMITTERS = re.compile(
    r"opentx|edgetx|ethos|frsky|radiomaster|jumper|taranis|flysky|spektrum|betafpv|tbs", re.IGNORECASE
)


class JoystickError(ValueError):
    """No joystick, or an invalid stick map; the message is one sentence."""


class StickAxis(NamedTuple):
    """The axis of one stick, and its values at −1, 0 and 1. An inverted axis has `low` above `high`."""

    number: int
    low: float = -FULL_SCALE
    centre: float = 0.0
    high: float = FULL_SCALE

    def deflection(self, value: float) -> float:
        """Deflection from −1 to 1, linear on either side of the centre."""
        end = self.high if (value - self.centre) * (self.high - self.centre) >= 0.0 else self.low
        fraction = (value - self.centre) / (end - self.centre)
        return min(max(fraction if end == self.high else -fraction, -1.0), 1.0)


class StickMap(NamedTuple):
    """The axis of each stick. `arm_axis` is a switch, armed above its middle; each press of `arm_button` arms or disarms.

    With `springs` the throttle is self-centring and its centre is hover, as on a gamepad; else its lower end is zero thrust.
    """

    roll: StickAxis
    pitch: StickAxis
    throttle: StickAxis
    yaw: StickAxis
    arm_axis: int | None = None
    arm_button: int | None = None
    springs: bool = False
    deadband: float = 0.0


TRANSMITTER = StickMap(StickAxis(0), StickAxis(1), StickAxis(2), StickAxis(3), arm_axis=4)
"""EdgeTX, OpenTX: channels 1 … 8 are the axes: aileron, elevator, throttle, rudder, and the arm switch on channel 5."""
GAMEPAD = StickMap(
    StickAxis(3),
    StickAxis(4, FULL_SCALE, 0.0, -FULL_SCALE),
    StickAxis(1, FULL_SCALE, 0.0, -FULL_SCALE),
    StickAxis(0),
    arm_button=5,
    springs=True,
    deadband=0.08,
)
"""Xbox and PlayStation, mode 2: throttle and yaw left, pitch and roll right; down is positive there. RB or R1 arms."""
LAYOUTS = {"transmitter": TRANSMITTER, "gamepad": GAMEPAD}


class Joystick:
    """An open device. `axes` and `buttons` hold the latest values, `presses` the count of presses of each button."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        try:
            self._file = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
        except OSError as error:
            raise JoystickError(
                f"{path}: cannot be read ({error.strerror}); expected a joystick such as /dev/input/js0"
            ) from None
        self.name = _device_name(self._file)
        self.axes: dict[int, int] = {}
        self.buttons: dict[int, bool] = {}
        self.presses: dict[int, int] = {}
        self.is_lost = False
        self._incomplete_event = b""

    def poll(self) -> None:
        """Read the waiting events; set `is_lost` if the device is disconnected."""
        while not self.is_lost:
            try:
                data = os.read(self._file, 64 * EVENT.size)
            except OSError as error:
                self.is_lost = error.errno not in (errno.EAGAIN, errno.EINTR)
                return
            if not data:
                self.is_lost = True
                return
            data = self._incomplete_event + data
            complete = len(data) - len(data) % EVENT.size
            self._incomplete_event = data[complete:]
            for _, value, event_type, number in EVENT.iter_unpack(data[:complete]):
                self._handle_event(value, event_type, number)

    def _handle_event(self, value: int, event_type: int, number: int) -> None:
        if event_type & ~INITIAL == AXIS and number < MAX_AXES:
            self.axes[number] = value
        elif event_type & ~INITIAL == BUTTON:
            if value and not event_type & INITIAL and not self.buttons.get(number, False):
                self.presses[number] = self.presses.get(number, 0) + 1
            self.buttons[number] = bool(value)

    def close(self) -> None:
        """Close the device."""
        if self._file >= 0:
            os.close(self._file)
        self._file, self.is_lost = -1, True


def _device_name(file: int) -> str:
    """Return the name that the device reports; "" if it has none."""
    name = b""
    if sys.platform != "win32":
        from fcntl import ioctl

        with suppress(OSError):
            name = ioctl(file, READ_NAME, bytes(NAME_LENGTH))
    return name.split(b"\0")[0].decode(errors="replace")


class StickInput:
    """Stick positions from a joystick: `read` returns the sticks, or None if the device is lost; `is_armed` is the arm
    switch."""

    def __init__(self, joystick: Joystick, stick_map: StickMap | None = None) -> None:
        self.joystick = joystick
        self.stick_map = stick_map or (TRANSMITTER if TRANSMITTERS.search(joystick.name) else GAMEPAD)
        joystick.poll()

    def read(self) -> Sticks | None:
        """Read roll right, pitch forward, yaw clockwise, throttle up: −1 … 1; an axis without an event is at rest."""
        self.joystick.poll()
        if self.joystick.is_lost:
            return None
        stick_map = self.stick_map
        roll, pitch, throttle, yaw = (self._deflection(name) for name in STICKS)
        if not stick_map.springs and stick_map.throttle.number not in self.joystick.axes:
            throttle = -1.0
        return Sticks(roll=roll, pitch=pitch, yaw=yaw, throttle=throttle)

    def _deflection(self, name: str) -> float:
        axis: StickAxis = getattr(self.stick_map, name)
        if axis.number not in self.joystick.axes:
            return 0.0
        value, deadband = axis.deflection(self.joystick.axes[axis.number]), self.stick_map.deadband
        return (
            0.0
            if abs(value) <= deadband
            else (abs(value) - deadband) / (1.0 - deadband) * (1.0 if value > 0.0 else -1.0)
        )

    @property
    def is_armed(self) -> bool:
        """Whether the arm switch is high, or the last press of the arm button armed."""
        axis, button = self.stick_map.arm_axis, self.stick_map.arm_button
        by_axis = axis is not None and self.joystick.axes.get(axis, -FULL_SCALE) > 0
        by_button = button is not None and self.joystick.presses.get(button, 0) % 2 == 1
        return by_axis or by_button

    def close(self) -> None:
        """Close the device."""
        self.joystick.close()


def open_stick_input(device: str = "auto", devices: Path = DEVICES) -> StickInput:
    """Open the device of `--sticks`: `auto`, a layout (`transmitter`, `gamepad`), a device, or the file of a calibrated map.

    Raise JoystickError if no device is connected.
    """
    stick_map = LAYOUTS.get(device)
    if device.endswith(".toml"):
        stick_map = load_stick_map(device)
    elif device != "auto" and stick_map is None:
        return StickInput(Joystick(device))
    if sys.platform != "linux":
        raise JoystickError("gamepads are read on Linux only; expected Linux, or a browser: samara export web")
    return StickInput(_first_joystick(devices), stick_map)


def _first_joystick(devices: Path) -> Joystick:
    """Open the first device that has sticks: a gamepad's motion sensors are a joystick too."""
    paths = sorted(devices.glob("js*"), key=lambda path: (len(path.name), path.name))
    for path in paths:
        joystick = Joystick(path)
        if not IGNORED_DEVICES.search(joystick.name):
            return joystick
        joystick.close()
    raise JoystickError(NO_DEVICE.format(devices=devices))


# Maps in files ------------------------------------------------------------------------------------------------------


def load_stick_map(path: str | Path) -> StickMap:
    """Load a map that `samara sticks --calibrate` or a person wrote."""
    with open(path, "rb") as file:
        data = file.read(MAX_MAP_BYTES + 1)
    if len(data) > MAX_MAP_BYTES:
        raise JoystickError(f"{path}: is larger than {MAX_MAP_BYTES} bytes; expected the map of a joystick")
    table = TomlTable(
        parse_document(data.decode("utf-8", "replace"), str(path), JoystickError), TomlFile(str(path), JoystickError)
    )
    table.schema(MAP_SCHEMA)
    roll, pitch, throttle, yaw = (_stick_axis(table.table(name)) for name in STICKS)
    arm_axis, arm_button = (table.integer(key, -1, low=-1, high=255) for key in ("arm_axis", "arm_button"))
    springs, deadband = table.flag("springs", default=False), table.number("deadband", 0.0)
    if not 0.0 <= deadband < 0.5:
        raise table.error("deadband", deadband, "a number from 0 to below 0.5")
    table.finish()
    return StickMap(
        roll,
        pitch,
        throttle,
        yaw,
        arm_axis=arm_axis if arm_axis >= 0 else None,
        arm_button=arm_button if arm_button >= 0 else None,
        springs=springs,
        deadband=deadband,
    )


def _stick_axis(table: TomlTable) -> StickAxis:
    number = table.integer("axis", 0, low=0, high=MAX_AXES - 1)
    axis = StickAxis(
        number, table.number("low", -FULL_SCALE), table.number("centre", 0.0), table.number("high", FULL_SCALE)
    )
    if not (axis.low < axis.centre < axis.high or axis.low > axis.centre > axis.high):
        raise table.error("centre", axis.centre, f"a number between low = {axis.low:g} and high = {axis.high:g}")
    table.finish()
    return axis


def save_stick_map(stick_map: StickMap, path: str | Path) -> None:
    """Write a map that `load_stick_map` reads."""
    lines = [
        f"schema = {MAP_SCHEMA}",
        f"springs = {str(stick_map.springs).lower()}",
        f"deadband = {stick_map.deadband:g}",
    ]
    for key in ("arm_axis", "arm_button"):
        if getattr(stick_map, key) is not None:
            lines.append(f"{key} = {getattr(stick_map, key)}")
    for name in STICKS:
        axis: StickAxis = getattr(stick_map, name)
        lines += ["", f"[{name}]", f"axis = {axis.number}"]
        lines += [f"{key} = {getattr(axis, key):g}" for key in ("low", "centre", "high")]
    with atomic_write(path) as file:
        file.write_text("\n".join([*lines, ""]), encoding="utf-8")


def calibrate_stick_map(stick_map: StickMap, readings: Sequence[dict[int, int]]) -> StickMap:
    """Return the map with the ranges of readings taken while all sticks were moved to their ends and then released.

    The last reading is the centre, except for a throttle that is not self-centring: its centre is the middle of its range.
    """
    measured = []
    for name in STICKS:
        axis: StickAxis = getattr(stick_map, name)
        values = [reading[axis.number] for reading in readings if axis.number in reading]
        low, high = min(values, default=0), max(values, default=0)
        if high - low < FULL_SCALE // 2:
            raise JoystickError(
                f"{name}: axis {axis.number} moved from {low} to {high}; expected the stick to be moved from end to end"
            )
        centre = values[-1] if name != "throttle" or stick_map.springs else (low + high) / 2
        if not low < centre < high:
            raise JoystickError(
                f"{name}: axis {axis.number} rests at {centre:g}, its end; expected the stick to be released"
            )
        ends = (low, high) if axis.low < axis.high else (high, low)
        measured.append(StickAxis(axis.number, ends[0], centre, ends[1]))
    roll, pitch, throttle, yaw = measured
    return stick_map._replace(roll=roll, pitch=pitch, throttle=throttle, yaw=yaw)
