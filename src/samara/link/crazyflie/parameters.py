"""Parameters: named values that a client reads and writes; persistent ones can be stored while the simulation runs."""

import errno
import math
import struct
from collections.abc import Sequence
from typing import NamedTuple

from samara.link.crazyflie.crtp import FLOAT, U8, U16, U32, NumberType, Toc, TocEntry, pack_number

SET_BY_NAME, EXTENDED, STORE, STATE, CLEAR, DEFAULT, EXTENDED_2, DEFAULT_2 = 0, 2, 3, 4, 5, 6, 7, 8
EXTENDED_FLAG, READ_ONLY_FLAG, PERSISTENT = 0x10, 0x40, 1
_ID = struct.Struct("<H")


class FirmwareParameter(NamedTuple):
    """A parameter: number type, group, name and default value."""

    number_type: NumberType
    group: str
    name: str
    default: float = 0.0
    read_only: bool = False
    persistent: bool = False

    @property
    def entry(self) -> TocEntry:
        """Its entry in the TOC."""
        flags = READ_ONLY_FLAG * self.read_only | EXTENDED_FLAG * self.persistent
        return TocEntry(self.number_type.parameter | flags, self.group, self.name)


class ParameterToc:
    """The parameter TOC, and the values by "group.name"."""

    def __init__(self, parameters: Sequence[FirmwareParameter]) -> None:
        self._parameters = tuple(parameters)
        self._names = [f"{parameter.group}.{parameter.name}" for parameter in parameters]
        self.toc = Toc([parameter.entry for parameter in parameters])
        self.values = {name: parameter.default for name, parameter in zip(self._names, parameters, strict=True)}
        self._stored: dict[str, float] = {}

    def answer_read(self, data: bytes) -> bytes | None:
        """Answer a read request: id, 0 and value; or id and an error code."""
        if len(data) != _ID.size:
            return None
        (index,) = _ID.unpack(data)
        return data + (b"\0" + self._value_bytes(index) if index < len(self._names) else bytes([errno.ENOENT]))

    def answer_write(self, data: bytes) -> bytes | None:
        """Answer a write request: id and the resulting value; a value of another length or a non-finite one is ignored."""
        if len(data) < _ID.size:
            return None
        (index,) = _ID.unpack_from(data)
        if index >= len(self._names):
            return data[: _ID.size] + bytes([errno.ENOENT])
        self._set(index, data[_ID.size :])
        return data[: _ID.size] + self._value_bytes(index)

    def answer_misc(self, data: bytes) -> bytes | None:
        """Answer the requests of the misc channel: set by name, store, clear, and the properties of a parameter."""
        if data[:1] == bytes([SET_BY_NAME]):
            return self._set_by_name(data)
        if len(data) != 1 + _ID.size:
            return None
        command, index = data[0], _ID.unpack_from(data, 1)[0]
        answer = self._misc_answer(command, index) if index < len(self._names) else bytes([errno.ENOENT])
        return None if answer is None else data + answer

    def _misc_answer(self, command: int, index: int) -> bytes | None:
        parameter, name = self._parameters[index], self._names[index]
        if command in (EXTENDED, EXTENDED_2):
            return b"\0" * (command == EXTENDED_2) + bytes([PERSISTENT * parameter.persistent])
        if command in (DEFAULT, DEFAULT_2):
            return b"\0" * (command == DEFAULT_2) + pack_number(parameter.default, parameter.number_type)
        if command not in (STORE, STATE, CLEAR):
            return None
        if not parameter.persistent:
            return bytes([errno.ENOENT])
        if command == STATE:
            stored = pack_number(self._stored[name], parameter.number_type) if name in self._stored else b""
            return bytes([bool(stored)]) + pack_number(parameter.default, parameter.number_type) + stored
        if command == STORE:
            self._stored[name] = self.values[name]
        else:
            self._stored.pop(name, None)
        return b"\0"

    def _set_by_name(self, data: bytes) -> bytes | None:
        group, _, payload = data[1:].partition(b"\0")
        name, zero, payload = payload.partition(b"\0")
        full_name = f"{group.decode('latin-1')}.{name.decode('latin-1')}"
        if not zero or not payload:
            return None
        problem = errno.ENOENT
        if full_name in self.values:
            index = self._names.index(full_name)
            is_set = payload[0] == self._parameters[index].number_type.parameter and self._set(index, payload[1:])
            problem = 0 if is_set else errno.EINVAL
        return data[: len(data) - len(payload)] + bytes([problem])

    def _set(self, index: int, value: bytes) -> bool:
        parameter = self._parameters[index]
        if parameter.read_only or len(value) != parameter.number_type.layout.size:
            return False
        (new_value,) = parameter.number_type.layout.unpack(value)
        if not math.isfinite(new_value):
            return False
        self.values[self._names[index]] = new_value
        return True

    def _value_bytes(self, index: int) -> bytes:
        return pack_number(self.values[self._names[index]], self._parameters[index].number_type)


GROUP_MASK, TAKE_OFF_SPEED, LANDING_SPEED = "hlCommander.groupmask", "hlCommander.vtoff", "hlCommander.vland"
STOP, RESET_TESTER = "stabilizer.stop", "memTst.resetW"
DECKS = ("bcFlow2", "bcLighthouse4", "bcLoco", "bcMultiranger", "bcZRanger2", "bcLedRing", "bcAI", "bcBuzzer", "bcUSD")
ATTACHED_DECKS = ("bcFlow2", "bcZRanger2", "bcLedRing")
"""The attached decks: the drone's position and height are known, and scripts may set its lights."""


def _floats(group: str, **values: float) -> tuple[FirmwareParameter, ...]:
    return tuple(FirmwareParameter(FLOAT, group, name, value) for name, value in values.items())


PARAMETERS: tuple[FirmwareParameter, ...] = (
    FirmwareParameter(U8, "commander", "enHighLevel", 1),
    *_floats("hlCommander", vtoff=0.5, vland=0.5),
    FirmwareParameter(U8, "hlCommander", "groupmask", 0),
    FirmwareParameter(U8, "stabilizer", "estimator", 2),
    FirmwareParameter(U8, "stabilizer", "controller", 1),
    FirmwareParameter(U8, "stabilizer", "stop", 0),
    FirmwareParameter(U8, "kalman", "resetEstimation", 0),
    *_floats("kalman", initialX=0.0, initialY=0.0, initialZ=0.0, initialYaw=0.0),
    *(FirmwareParameter(U8, "deck", name, float(name in ATTACHED_DECKS), read_only=True) for name in DECKS),
    *(FirmwareParameter(U8, "flightmode", name, value) for name, value in
      {"althold": 0, "poshold": 0, "stabModeRoll": 1, "stabModePitch": 1, "stabModeYaw": 0}.items()),
    *_floats("pid_attitude", roll_kp=6.0, roll_ki=3.0, roll_kd=0.0, pitch_kp=6.0, pitch_ki=3.0, pitch_kd=0.0),
    *_floats("pid_attitude", yaw_kp=6.0, yaw_ki=1.0, yaw_kd=0.35),
    *_floats("posCtlPid", xVelMax=1.0, yVelMax=1.0, zVelMax=1.0),
    *_floats("locSrv", extPosStdDev=0.01, extQuatStdDev=0.0045),
    FirmwareParameter(U8, "led", "bitmask", 0),
    FirmwareParameter(U8, "ring", "effect", 6, persistent=True),
    FirmwareParameter(U32, "ring", "neffect", 18, read_only=True),
    *(FirmwareParameter(U8, "ring", name, 20) for name in ("solidRed", "solidGreen", "solidBlue")),
    FirmwareParameter(U8, "ring", "headlightEnable", 0),
    *_floats("ring", emptyCharge=3.1, fullCharge=4.2, fadeTime=0.5),
    FirmwareParameter(U32, "ring", "fadeColor", 0),
    FirmwareParameter(U8, "memTst", "resetW", 0),
    FirmwareParameter(U8, "sound", "effect", 0),
    FirmwareParameter(U8, "motorPowerSet", "enable", 0),
    *(FirmwareParameter(U16, "motorPowerSet", f"m{index}", 0) for index in (1, 2, 3, 4)),
    FirmwareParameter(U8, "system", "selftestPassed", 1, read_only=True),
    FirmwareParameter(U16, "cpu", "flash", 1024, read_only=True),
    *(FirmwareParameter(U32, "cpu", f"id{index}", 0, read_only=True) for index in range(3)),
    *(FirmwareParameter(U32, "firmware", f"revision{index}", 0, read_only=True) for index in range(2)),
)  # fmt: skip
