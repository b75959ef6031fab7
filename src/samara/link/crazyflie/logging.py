"""Log blocks: variables that a client has put together, sent to it every so many milliseconds."""

import errno
import math
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from samara.core.algebra import ZERO, Euler, Vec3, rotate
from samara.link.crazyflie.controller import Wanted
from samara.link.crazyflie.crtp import FLOAT, I8, LOGGED, MOST_DATA, U8, U16, U32, Contents, Entry, Kind, packed
from samara.link.crazyflie.setpoints import FULL_THRUST
from samara.link.crazyflie.supervisor import G
from samara.link.sensor_snapshot import Supply
from samara.physics.types import State

DELETE, START, STOP, RESET, CREATE, APPEND = 2, 3, 4, 5, 6, 7
MOST_BLOCKS, MOST_VARIABLES, MOST_BYTES = 16, 128, 26
TEN_MS = 10_000  # [µs]: the unit of a period
ITEM = struct.Struct("<BH")


class Variable(NamedTuple):
    """What can be logged: its type, its name in two parts, and how it is read from what is known at an instant."""

    kind: Kind
    group: str
    name: str
    read: Callable[[Any], float]


@dataclass
class Block:
    """Variables, each with the type it is sent as; every `period_us`, next at `due_us`, where it has been started."""

    items: list[tuple[Variable, Kind]] = field(default_factory=list)
    period_us: int = 0
    due_us: int = 0

    @property
    def size(self) -> int:
        """How many bytes it sends"""
        return sum(kind.layout.size for _, kind in self.items)


class Logs:
    """The table of variables, and the blocks that a client has made."""

    def __init__(self, variables: Sequence[Variable]) -> None:
        self._variables = tuple(variables)
        entries = [Entry(own.kind.log, own.group, own.name) for own in variables]
        self.contents = Contents(entries, bytes([MOST_BLOCKS, MOST_VARIABLES]))
        self.blocks: dict[int, Block] = {}

    def control(self, data: bytes, now_us: int) -> bytes | None:
        """The answer to an order about blocks: it, the block, and 0 or what is wrong"""
        if not data:
            return None
        command = data[0]
        if command == RESET:
            self.blocks.clear()
            return bytes([RESET, 0, 0])
        if len(data) < 2:
            return None
        number = data[1]
        if command in (CREATE, APPEND):
            problem = self._fill(number, data[2:], new=command == CREATE, full=len(data) == MOST_DATA)
        elif number not in self.blocks:
            problem = errno.ENOENT
        else:
            problem = self._change(command, number, data[2:], now_us)
        return bytes([command, number, problem])

    def _fill(self, number: int, data: bytes, *, new: bool, full: bool) -> int:
        if new and number in self.blocks:
            return errno.EEXIST
        if not new and number not in self.blocks:
            return errno.ENOENT
        if new and len(self.blocks) >= MOST_BLOCKS:
            return errno.ENOMEM
        left = len(data) % ITEM.size
        if left and not full:  # a client fills a packet to its last byte, and begins that item again in the next
            return errno.EINVAL
        items = []
        for code, variable in ITEM.iter_unpack(data[: len(data) - left]):
            kind = LOGGED.get(code & 0x0F)
            if kind is None or variable >= len(self._variables):
                return errno.ENOENT
            items.append((self._variables[variable], kind))
        if sum(len(own.items) for own in self.blocks.values()) + len(items) > MOST_VARIABLES:
            return errno.ENOMEM
        block = Block() if new else self.blocks[number]
        if block.size + sum(kind.layout.size for _, kind in items) > MOST_BYTES:
            return errno.E2BIG
        block.items += items
        self.blocks[number] = block
        return 0

    def _change(self, command: int, number: int, data: bytes, now_us: int) -> int:
        block = self.blocks[number]
        if command == DELETE:
            del self.blocks[number]
        elif command == STOP:
            block.period_us = 0
        elif command == START and len(data) == 1 and data[0]:
            block.period_us = data[0] * TEN_MS
            block.due_us = now_us + block.period_us
        else:
            return errno.ENOEXEC
        return 0

    def due(self, known: Any, now_us: int) -> Iterator[bytes]:
        """The data of every block whose time has come: number, milliseconds, values"""
        for number, block in self.blocks.items():
            if not block.period_us or now_us < block.due_us:
                continue
            # after a halt it goes on from now: it does not make up for what nobody has waited for
            block.due_us = max(block.due_us + block.period_us, now_us)
            values = b"".join(packed(own.read(known), kind) for own, kind in block.items)
            yield bytes([number]) + (now_us // 1000 & 0xFFFFFF).to_bytes(3, "little") + values


SETTLED = 1e-5  # [m²]: the variance of an estimate that is the truth
MOTORS = 4


class Known(NamedTuple):
    """An instant: the drone, its IMU, what is wanted of it, its rotors' outputs, its battery, the supervisor's bits."""

    time_us: int
    state: State
    euler: Euler
    specific_force_B: Vec3
    wanted: Wanted
    outputs: tuple[float, ...]
    supply: Supply
    status: int
    external_W: Vec3 = ZERO
    tester_errors: int = 0


Read = Callable[[Known], float]


def _vector(group: str, names: tuple[str, str, str], read: Callable[[Known], Vec3]) -> Iterator[Variable]:
    for axis, name in enumerate(names):
        yield Variable(FLOAT, group, name, lambda own, axis=axis: read(own)[axis])  # type: ignore[misc]


def _angles(group: str) -> Iterator[Variable]:
    yield Variable(FLOAT, group, "roll", lambda own: math.degrees(own.euler.roll))
    yield Variable(FLOAT, group, "pitch", lambda own: -math.degrees(own.euler.pitch))
    yield Variable(FLOAT, group, "yaw", lambda own: math.degrees(own.euler.yaw))


def _acceleration(own: Known) -> Vec3:
    """R f − g, in units of g: what the firmware logs beside the velocity"""
    return rotate(own.state.q_WB, own.specific_force_B) / G - Vec3(0.0, 0.0, 1.0)


def _same(group: str, names: tuple[str, ...], kind: Kind, value: float) -> Iterator[Variable]:
    for name in names:
        yield Variable(kind, group, name, lambda own: value)


def _thrust(own: Known) -> float:
    return FULL_THRUST * sum(own.outputs) / max(len(own.outputs), 1)


def _motor(index: int) -> Read:
    return lambda own: FULL_THRUST * own.outputs[index] if index < len(own.outputs) else 0.0


def _bit(number: int) -> Read:
    return lambda own: float(own.status >> number & 1)


XYZ = ("x", "y", "z")
VARIABLES: tuple[Variable, ...] = (
    *_vector("stateEstimate", XYZ, lambda own: own.state.p_W),
    *_vector("stateEstimate", ("vx", "vy", "vz"), lambda own: own.state.v_W),
    *_vector("stateEstimate", ("ax", "ay", "az"), _acceleration),
    *_angles("stateEstimate"),
    *_vector("stateEstimate", ("qx", "qy", "qz"), lambda own: Vec3(*own.state.q_WB[1:])),
    Variable(FLOAT, "stateEstimate", "qw", lambda own: own.state.q_WB.w),
    *_angles("stabilizer"),
    Variable(FLOAT, "stabilizer", "thrust", _thrust),
    *_vector("kalman", ("stateX", "stateY", "stateZ"), lambda own: own.state.p_W),
    *_same("kalman", ("varPX", "varPY", "varPZ"), FLOAT, SETTLED),
    *_vector("gyro", XYZ, lambda own: own.state.omega_B * math.degrees(1.0)),
    *_vector("acc", XYZ, lambda own: own.specific_force_B / G),
    *_vector("ctrltarget", XYZ, lambda own: own.wanted.reference.p_W),
    *_vector("ctrltarget", ("vx", "vy", "vz"), lambda own: own.wanted.reference.v_W),
    Variable(FLOAT, "ctrltarget", "yaw", lambda own: math.degrees(own.wanted.reference.yaw)),
    *_vector("locSrv", XYZ, lambda own: own.external_W),
    Variable(FLOAT, "pm", "vbat", lambda own: own.supply.voltage),
    Variable(U16, "pm", "vbatMV", lambda own: 1000.0 * own.supply.voltage),
    Variable(U8, "pm", "batteryLevel", lambda own: 100.0 * own.supply.charge),
    *_same("pm", ("state",), I8, 0.0),  # on battery
    *(Variable(U32, "motor", f"m{index + 1}", _motor(index)) for index in range(MOTORS)),
    Variable(U8, "sys", "armed", _bit(1)),
    Variable(U8, "sys", "canfly", _bit(3)),
    Variable(U8, "sys", "isFlying", _bit(4)),
    Variable(U8, "sys", "isTumbled", _bit(5)),
    Variable(U16, "supervisor", "info", lambda own: float(own.status)),
    Variable(U16, "range", "zrange", lambda own: 1000.0 * own.state.p_W.z),
    *_same("range", ("front", "back", "left", "right", "up"), U16, 32766.0),  # nothing in sight
    *_same("radio", ("rssi",), U8, 0.0),
    Variable(FLOAT, "controller", "cmd_thrust", _thrust),
    Variable(U32, "memTst", "errCntW", lambda own: float(own.tester_errors)),
)
