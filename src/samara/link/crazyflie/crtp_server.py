"""A Crazyflie at the end of a wire: a packet in, the answers to it; and what is due without being asked for.

No socket and no clock are in here: time is that of the simulation.
"""

import math
import struct
from collections.abc import Iterator

from samara.core.algebra import ZERO, Vec3, euler_from_quat
from samara.link.crazyflie.commander import Commander
from samara.link.crazyflie.controller import Pilot
from samara.link.crazyflie.crtp import MOST_DATA, Packet, Port
from samara.link.crazyflie.logging import VARIABLES, Known, Logs
from samara.link.crazyflie.parameters import PARAMETERS, RESET_TESTER, STOP, Parameters
from samara.link.crazyflie.setpoints import roll_pitch_yaw_thrust, setpoint
from samara.link.crazyflie.supervisor import Condition
from samara.link.crazyflie.trajectory_memory import Memory
from samara.link.sensor_snapshot import Readings, Supply
from samara.physics.types import Vehicle

MOST_LINES = 32  # that wait to be sent


class Console:
    """`print` what is to be said; `due` has it once."""

    def __init__(self) -> None:
        self._lines: list[str] = []

    def print(self, sentence: str) -> None:
        """Says it; what is not ASCII becomes a question mark, for a packet may end within a letter"""
        if len(self._lines) < MOST_LINES:
            self._lines.append(sentence)

    def due(self) -> Iterator[Packet]:
        """What has been said since"""
        for line in self._lines:
            data = f"{line}\n".encode("ascii", "replace")
            for start in range(0, len(data), MOST_DATA):
                yield Packet(Port.CONSOLE, 0, data[start : start + MOST_DATA])
        self._lines.clear()


PROTOCOL = 12
NAME = b"Bitcraze Crazyflie"
"""What a client asks for before anything else: without it, it takes the firmware for one too old."""
STATES = 11  # bits of the supervisor
ANSWERED = 0x80  # beside the number of a supervisor's order
FULL = Supply(4.1, 0.0, 1.0, 1, 900.0)  # a battery that does not empty
EMERGENCY, WATCHDOG = 3, 4
NO_MORE_SETPOINTS = 0
TOLD = {Condition.CRASHED: "Crashed, recovery required", Condition.LOCKED: "Locked until the simulation is restarted"}
_EXTERNAL = {0: struct.Struct("<3f"), 1: struct.Struct("<B7f")}
EXTERNAL_POSE = 8


class Endpoint:
    """`answers(packet)` and, at each instant, `fly(readings)`; `known` is what it knows then."""

    def __init__(self, vehicle: Vehicle, hover: float, period: float) -> None:
        self.parameters, self.logs, self.memory = Parameters(PARAMETERS), Logs(VARIABLES), Memory()
        self.commander = Commander(self.memory.content, self.parameters.values, standing(vehicle))
        self.console = Console()
        self._name = vehicle.name
        self._pilot, self._supply = Pilot(vehicle, hover, period), FULL
        self.known: Known | None = None
        self.external_W = ZERO

    def fly(self, readings: Readings) -> tuple[float, ...]:
        """The rotors' outputs at this instant"""
        state = readings.state
        euler, force_B = euler_from_quat(state.q_WB), readings.specific_force_B
        own = self.commander.supervisor
        if self.parameters.values[STOP]:
            own.halt()
        before = own.condition
        wanted = self.commander.update(readings.time_us / 1e6, state, euler.yaw, force_B)
        if own.condition is not before and own.condition in TOLD:
            self.console.print(TOLD[own.condition])
        outputs = tuple(self._pilot.outputs(state._replace(rotor_speed=readings.rotor_speed), wanted))
        self._supply = readings.supply or self._supply
        self.known = Known(
            readings.time_us,
            state,
            euler,
            force_B,
            wanted,
            outputs,
            self._supply,
            self.status,
            self.external_W,
            self.memory.tester.errors,
        )
        return outputs

    def meet(self) -> None:
        """Another client is there: the blocks of the one before are gone, and thrust is locked again"""
        self.logs.blocks.clear()
        self.commander.lock()
        self.console.print(f"Samara flies {self._name}, the supervisor is {self.commander.supervisor.condition.value}")

    def due(self) -> Iterator[Packet]:
        """What there is to say on the console, and log data whose time has come"""
        yield from self.console.due()
        if self.known is not None:
            for data in self.logs.due(self.known, self.known.time_us):
                yield Packet(Port.LOGS, 2, data)

    @property
    def status(self) -> int:
        """The supervisor's bits, lowest first: can be armed, armed, arms itself, can fly, flies, tumbled, locked, crashed,
        the high-level commander flies, has finished, is off"""
        own, way = self.commander.supervisor, self.commander.planner.way
        fit = own.condition not in (Condition.LOCKED, Condition.CRASHED) and not own.tumbled
        bits = (
            fit,
            own.armed,
            True,
            own.may_fly,
            own.condition in (Condition.FLYING, Condition.LEVEL),
            own.tumbled,
            own.condition is Condition.LOCKED,
            own.condition is Condition.CRASHED,
            way is not None,
            way is None or way.ended(self.commander.now),
            False,
        )
        return sum(1 << number for number, bit in enumerate(bits) if bit)

    # Packets ---------------------------------------------------------------------------------------------------------

    def answers(self, packet: Packet) -> Iterator[Packet]:
        """What there is to say to a packet: nothing to one that makes no sense, and nothing has changed then"""
        data = self._answer(packet)
        if data is not None:
            yield packet._replace(data=data)

    def _answer(self, packet: Packet) -> bytes | None:
        port, channel, data = packet
        if port == Port.LINK:
            return data if channel == 0 else NAME if channel == 1 else None  # echo, source; a sink swallows all
        if port == Port.PLATFORM:
            return self._platform(channel, data)
        if port == Port.LOGS:
            now_us = self.known.time_us if self.known else 0
            return (self.logs.contents.answer, lambda own: self.logs.control(own, now_us), _none, _none)[channel](data)
        if port == Port.PARAMETERS:
            own = self.parameters
            return (own.contents.answer, own.read, own.write, own.other)[channel](data)
        if port == Port.MEMORY:
            return (self.memory.about, self.memory.read, self._write_memory, _none)[channel](data)
        if port == Port.SUPERVISOR:
            return self._supervisor(channel, data)
        if port == Port.HIGH_LEVEL and channel == 0 and data:
            return (data[:3] + b"\0\0\0")[:3] + bytes([self.commander.order(data)])
        self._command(port, channel, data)
        return None

    def _write_memory(self, data: bytes) -> bytes:
        """Write to memory; the tester counts its errors from 0 after `memTst.resetW`."""
        if self.parameters.values[RESET_TESTER]:
            self.parameters.values[RESET_TESTER] = 0.0
            self.memory.tester.errors = 0
        return self.memory.write(data)

    def _command(self, port: int, channel: int, data: bytes) -> None:
        """What is obeyed and not answered"""
        if port == Port.ROLL_PITCH_YAW_THRUST and channel == 0:
            if (tilt := roll_pitch_yaw_thrust(data)) is not None:
                self.commander.ask_by_thrust(tilt)
        elif port == Port.SETPOINTS and channel == 0:
            if (asked := setpoint(data)) is not None:
                self.commander.ask(asked)
        elif port == Port.SETPOINTS and channel == 1:
            if len(data) == 5 and data[0] == NO_MORE_SETPOINTS:
                self.commander.relax()
        elif port == Port.LOCALISATION:
            self._localise(channel, data)

    def _platform(self, channel: int, data: bytes) -> bytes | None:
        """The version of the protocol and of the firmware; arming, as older clients ask for it"""
        if channel == 1 and data == b"\0":
            return data + bytes([PROTOCOL])
        if channel == 1 and data == b"\1":
            return data + b"samara\0"
        if channel == 0 and len(data) == 2 and data[0] == 1:
            return data + self._armed(bool(data[1]))
        if channel == 0 and data == b"\2":
            return data + self._recovered()
        return None

    def _supervisor(self, channel: int, data: bytes) -> bytes | None:
        if channel == 0 and data == b"\x0c":
            return bytes([data[0] | ANSWERED]) + struct.pack("<H", self.status)
        if channel == 0 and len(data) == 1 and 1 <= data[0] <= STATES:
            return bytes([data[0] | ANSWERED, self.status >> data[0] - 1 & 1])
        if channel == 1 and len(data) == 2 and data[0] == 1:
            return bytes([data[0] | ANSWERED]) + self._armed(bool(data[1]))
        if channel == 1 and data == b"\2":
            return bytes([data[0] | ANSWERED]) + self._recovered()
        if channel == 1:
            self._emergency(data)
        return None

    def _armed(self, armed: bool) -> bytes:
        self.commander.supervisor.armed = armed
        return bytes([True, armed])

    def _recovered(self) -> bytes:
        done = self.commander.supervisor.recover()
        return bytes([done, done])

    def _emergency(self, data: bytes) -> None:
        if data == bytes([EMERGENCY]):
            self.commander.supervisor.halt()
        elif data == bytes([WATCHDOG]):
            self.commander.supervisor.watch()

    def _localise(self, channel: int, data: bytes) -> None:
        """Where another system sees the drone: kept and logged, and no more, for it knows its place; an emergency stop"""
        if channel == 1 and len(data) == 1:
            self._emergency(data)
        layout = _EXTERNAL.get(channel)
        if layout is None or len(data) != layout.size or (channel == 1 and data[0] != EXTERNAL_POSE):
            return
        numbers = layout.unpack(data)[channel : channel + 3]
        if all(map(math.isfinite, numbers)):
            self.external_W = Vec3(*numbers)


def standing(vehicle: Vehicle) -> float:
    """How high its centre of mass is above level ground [m]; 0 for one without feet"""
    return max(-float(point_B.z) for point_B in vehicle["contact"].points_B) if vehicle.has("contact") else 0.0


def _none(data: bytes) -> bytes | None:
    return None
