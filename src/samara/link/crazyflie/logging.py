"""Log blocks: sets of variables that a client chooses and receives periodically."""

import errno
import math
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from samara.core.algebra import ZERO, Euler, Vec3, rotate
from samara.link.crazyflie.controller import ControllerSetpoint
from samara.link.crazyflie.crtp import (
    FLOAT,
    I8,
    LOG_TYPES,
    MAX_DATA_BYTES,
    U8,
    U16,
    U32,
    NumberType,
    Toc,
    TocEntry,
    pack_number,
)
from samara.link.crazyflie.setpoints import FULL_THRUST
from samara.link.crazyflie.supervisor import G
from samara.link.sensor_snapshot import PowerModuleReading
from samara.physics.types import State

DELETE, START, STOP, RESET, CREATE, APPEND = 2, 3, 4, 5, 6, 7
MAX_BLOCKS, MAX_VARIABLES, MAX_BLOCK_BYTES = 16, 128, 26
TEN_MS = 10_000  # [µs]: the unit of a period
ITEM = struct.Struct("<BH")


class Variable(NamedTuple):
    """A loggable variable: number type, group, name, and the function that reads it from a log snapshot."""

    number_type: NumberType
    group: str
    name: str
    read: Callable[[Any], float]


@dataclass
class LogBlock:
    """Variables, each with the type it is sent as; sent every `period_us`, next at `due_us`; a period of 0 means stopped."""

    items: list[tuple[Variable, NumberType]] = field(default_factory=list)
    period_us: int = 0
    due_us: int = 0

    @property
    def size(self) -> int:
        """Bytes of data that it sends."""
        return sum(kind.layout.size for _, kind in self.items)


class LogBlocks:
    """The log TOC, and the log blocks that a client has created."""

    def __init__(self, variables: Sequence[Variable]) -> None:
        self._variables = tuple(variables)
        entries = [TocEntry(variable.number_type.log, variable.group, variable.name) for variable in variables]
        self.toc = Toc(entries, bytes([MAX_BLOCKS, MAX_VARIABLES]))
        self.blocks: dict[int, LogBlock] = {}

    def answer_control(self, data: bytes, now_us: int) -> bytes | None:
        """Answer a block command: the command, the block, and 0 or an error code."""
        if not data:
            return None
        command = data[0]
        if command == RESET:
            self.blocks.clear()
            return bytes([RESET, 0, 0])
        if len(data) < 2:
            return None
        block_id = data[1]
        if command in (CREATE, APPEND):
            problem = self._fill(block_id, data[2:], new=command == CREATE, full=len(data) == MAX_DATA_BYTES)
        elif block_id not in self.blocks:
            problem = errno.ENOENT
        else:
            problem = self._change(command, block_id, data[2:], now_us)
        return bytes([command, block_id, problem])

    def _fill(self, block_id: int, data: bytes, *, new: bool, full: bool) -> int:
        if new and block_id in self.blocks:
            return errno.EEXIST
        if not new and block_id not in self.blocks:
            return errno.ENOENT
        if new and len(self.blocks) >= MAX_BLOCKS:
            return errno.ENOMEM
        cut_bytes = len(data) % ITEM.size
        if (
            cut_bytes and not full
        ):  # a client fills a packet to its last byte, and repeats the cut item in the next packet
            return errno.EINVAL
        items = []
        for code, variable_id in ITEM.iter_unpack(data[: len(data) - cut_bytes]):
            number_type = LOG_TYPES.get(code & 0x0F)
            if number_type is None or variable_id >= len(self._variables):
                return errno.ENOENT
            items.append((self._variables[variable_id], number_type))
        if sum(len(log_block.items) for log_block in self.blocks.values()) + len(items) > MAX_VARIABLES:
            return errno.ENOMEM
        block = LogBlock() if new else self.blocks[block_id]
        if block.size + sum(number_type.layout.size for _, number_type in items) > MAX_BLOCK_BYTES:
            return errno.E2BIG
        block.items += items
        self.blocks[block_id] = block
        return 0

    def _change(self, command: int, block_id: int, data: bytes, now_us: int) -> int:
        block = self.blocks[block_id]
        if command == DELETE:
            del self.blocks[block_id]
        elif command == STOP:
            block.period_us = 0
        elif command == START and len(data) == 1 and data[0]:
            block.period_us = data[0] * TEN_MS
            block.due_us = now_us + block.period_us
        else:
            return errno.ENOEXEC
        return 0

    def due_data(self, snapshot: Any, now_us: int) -> Iterator[bytes]:
        """Yield the data of every block that is due: block id, milliseconds, values."""
        for block_id, block in self.blocks.items():
            if not block.period_us or now_us < block.due_us:
                continue
            # after a pause the period restarts now: missed blocks are not sent
            block.due_us = max(block.due_us + block.period_us, now_us)
            values = b"".join(
                pack_number(variable.read(snapshot), number_type) for variable, number_type in block.items
            )
            yield bytes([block_id]) + (now_us // 1000 & 0xFFFFFF).to_bytes(3, "little") + values


ESTIMATE_VARIANCE = 1e-5  # [m²]: the variance of an estimate that is the truth
MOTORS = 4


class LogSnapshot(NamedTuple):
    """The loggable data of an instant: state, IMU, controller setpoint, rotor outputs, battery, supervisor bits."""

    time_us: int
    state: State
    euler: Euler
    specific_force_B: Vec3
    controller_setpoint: ControllerSetpoint
    outputs: tuple[float, ...]
    supply: PowerModuleReading
    status: int
    external_W: Vec3 = ZERO
    tester_errors: int = 0


ReadFunction = Callable[[LogSnapshot], float]


def _vector(group: str, names: tuple[str, str, str], read: Callable[[LogSnapshot], Vec3]) -> Iterator[Variable]:
    for axis, name in enumerate(names):
        yield Variable(FLOAT, group, name, lambda snapshot, axis=axis: read(snapshot)[axis])  # type: ignore[misc]


def _angles(group: str) -> Iterator[Variable]:
    yield Variable(FLOAT, group, "roll", lambda snapshot: math.degrees(snapshot.euler.roll))
    yield Variable(FLOAT, group, "pitch", lambda snapshot: -math.degrees(snapshot.euler.pitch))
    yield Variable(FLOAT, group, "yaw", lambda snapshot: math.degrees(snapshot.euler.yaw))


def _acceleration(snapshot: LogSnapshot) -> Vec3:
    """R f − g, in units of g, as the firmware logs it."""
    return rotate(snapshot.state.q_WB, snapshot.specific_force_B) / G - Vec3(0.0, 0.0, 1.0)


def _constant_variables(
    group: str, names: tuple[str, ...], number_type: NumberType, value: float
) -> Iterator[Variable]:
    for name in names:
        yield Variable(number_type, group, name, lambda snapshot: value)


def _thrust(snapshot: LogSnapshot) -> float:
    return FULL_THRUST * sum(snapshot.outputs) / max(len(snapshot.outputs), 1)


def _motor(index: int) -> ReadFunction:
    return lambda snapshot: FULL_THRUST * snapshot.outputs[index] if index < len(snapshot.outputs) else 0.0


def _bit(index: int) -> ReadFunction:
    return lambda snapshot: float(snapshot.status >> index & 1)


XYZ = ("x", "y", "z")
VARIABLES: tuple[Variable, ...] = (
    *_vector("stateEstimate", XYZ, lambda snapshot: snapshot.state.p_W),
    *_vector("stateEstimate", ("vx", "vy", "vz"), lambda snapshot: snapshot.state.v_W),
    *_vector("stateEstimate", ("ax", "ay", "az"), _acceleration),
    *_angles("stateEstimate"),
    *_vector("stateEstimate", ("qx", "qy", "qz"), lambda snapshot: Vec3(*snapshot.state.q_WB[1:])),
    Variable(FLOAT, "stateEstimate", "qw", lambda snapshot: snapshot.state.q_WB.w),
    *_angles("stabilizer"),
    Variable(FLOAT, "stabilizer", "thrust", _thrust),
    *_vector("kalman", ("stateX", "stateY", "stateZ"), lambda snapshot: snapshot.state.p_W),
    *_constant_variables("kalman", ("varPX", "varPY", "varPZ"), FLOAT, ESTIMATE_VARIANCE),
    *_vector("gyro", XYZ, lambda snapshot: snapshot.state.omega_B * math.degrees(1.0)),
    *_vector("acc", XYZ, lambda snapshot: snapshot.specific_force_B / G),
    *_vector("ctrltarget", XYZ, lambda snapshot: snapshot.controller_setpoint.reference.p_W),
    *_vector("ctrltarget", ("vx", "vy", "vz"), lambda snapshot: snapshot.controller_setpoint.reference.v_W),
    Variable(FLOAT, "ctrltarget", "yaw", lambda snapshot: math.degrees(snapshot.controller_setpoint.reference.yaw)),
    *_vector("locSrv", XYZ, lambda snapshot: snapshot.external_W),
    Variable(FLOAT, "pm", "vbat", lambda snapshot: snapshot.supply.voltage),
    Variable(U16, "pm", "vbatMV", lambda snapshot: 1000.0 * snapshot.supply.voltage),
    Variable(U8, "pm", "batteryLevel", lambda snapshot: 100.0 * snapshot.supply.charge),
    *_constant_variables("pm", ("state",), I8, 0.0),  # on battery
    *(Variable(U32, "motor", f"m{index + 1}", _motor(index)) for index in range(MOTORS)),
    Variable(U8, "sys", "armed", _bit(1)),
    Variable(U8, "sys", "canfly", _bit(3)),
    Variable(U8, "sys", "isFlying", _bit(4)),
    Variable(U8, "sys", "isTumbled", _bit(5)),
    Variable(U16, "supervisor", "info", lambda snapshot: float(snapshot.status)),
    Variable(U16, "range", "zrange", lambda snapshot: 1000.0 * snapshot.state.p_W.z),
    *_constant_variables("range", ("front", "back", "left", "right", "up"), U16, 32766.0),  # no obstacle in range
    *_constant_variables("radio", ("rssi",), U8, 0.0),
    Variable(FLOAT, "controller", "cmd_thrust", _thrust),
    Variable(U32, "memTst", "errCntW", lambda snapshot: float(snapshot.tester_errors)),
)
