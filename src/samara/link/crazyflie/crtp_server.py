"""The CRTP server of a simulated Crazyflie: answers packets, and sends console lines and log data when they are due.

It has no socket and no clock: time is that of the simulation.
"""

import math
import struct
from collections.abc import Iterator

from samara.core.algebra import ZERO, Vec3, euler_from_quat
from samara.link.crazyflie.commander import Commander
from samara.link.crazyflie.controller import CrazyflieLinkController
from samara.link.crazyflie.crtp import MAX_DATA_BYTES, Packet, Port
from samara.link.crazyflie.logging import VARIABLES, LogBlocks, LogSnapshot
from samara.link.crazyflie.parameters import PARAMETERS, RESET_TESTER, STOP, ParameterToc
from samara.link.crazyflie.setpoints import decode_rpyt, decode_setpoint
from samara.link.crazyflie.supervisor import Condition
from samara.link.crazyflie.trajectory_memory import MemoryRegions
from samara.link.sensor_snapshot import PowerModuleReading, Readings
from samara.physics.types import Vehicle

MAX_LINES = 32  # console lines that wait to be sent


class Console:
    """The console: `print` queues a line; `due_packets` yields the queued lines once."""

    def __init__(self) -> None:
        self._lines: list[str] = []

    def print(self, line: str) -> None:
        """Queue a line; characters outside ASCII become question marks, because a packet may end within a character."""
        if len(self._lines) < MAX_LINES:
            self._lines.append(line)

    def due_packets(self) -> Iterator[Packet]:
        """Yield the queued lines in packets."""
        for line in self._lines:
            data = f"{line}\n".encode("ascii", "replace")
            for start in range(0, len(data), MAX_DATA_BYTES):
                yield Packet(Port.CONSOLE, 0, data[start : start + MAX_DATA_BYTES])
        self._lines.clear()


PROTOCOL_VERSION = 12
LINK_SOURCE = b"Bitcraze Crazyflie"
"""The first thing that a client requests: without it, the client takes the firmware for an old one."""
STATUS_BITS = 11  # bits of the supervisor
ANSWER_FLAG = 0x80  # flag in the answer to a supervisor command
FULL_BATTERY = PowerModuleReading(4.1, 0.0, 1.0, 1, 900.0)  # for a vehicle without a battery model
EMERGENCY_STOP, WATCHDOG = 3, 4
NO_MORE_SETPOINTS = 0
CONDITION_MESSAGES = {
    Condition.CRASHED: "Crashed, recovery required",
    Condition.LOCKED: "Locked until the simulation is restarted",
}
_EXTERNAL = {0: struct.Struct("<3f"), 1: struct.Struct("<B7f")}
EXTERNAL_POSE = 8


class CrtpServer:
    """A simulated Crazyflie: `answer_packet(packet)`, and `fly(readings)` at each instant; `log_snapshot` is the latest
    log snapshot."""

    def __init__(self, vehicle: Vehicle, hover: float, period: float) -> None:
        self.parameters, self.logs, self.memory = ParameterToc(PARAMETERS), LogBlocks(VARIABLES), MemoryRegions()
        self.commander = Commander(self.memory.content, self.parameters.values, standing_height(vehicle))
        self.console = Console()
        self._name = vehicle.name
        self._controller, self._supply = CrazyflieLinkController(vehicle, hover, period), FULL_BATTERY
        self.log_snapshot: LogSnapshot | None = None
        self.external_W = ZERO

    def fly(self, readings: Readings) -> tuple[float, ...]:
        """Compute the rotor outputs at this instant."""
        state = readings.state
        euler, force_B = euler_from_quat(state.q_WB), readings.specific_force_B
        supervisor = self.commander.supervisor
        if self.parameters.values[STOP]:
            supervisor.halt()
        previous_condition = supervisor.condition
        controller_setpoint = self.commander.update(readings.time_us / 1e6, state, euler.yaw, force_B)
        if supervisor.condition is not previous_condition and supervisor.condition in CONDITION_MESSAGES:
            self.console.print(CONDITION_MESSAGES[supervisor.condition])
        outputs = tuple(self._controller.outputs(state._replace(rotor_speed=readings.rotor_speed), controller_setpoint))
        self._supply = readings.supply or self._supply
        self.log_snapshot = LogSnapshot(
            readings.time_us,
            state,
            euler,
            force_B,
            controller_setpoint,
            outputs,
            self._supply,
            self.status,
            self.external_W,
            self.memory.tester.errors,
        )
        return outputs

    def greet_client(self) -> None:
        """Greet a new client: delete the log blocks of the previous one and lock the thrust."""
        self.logs.blocks.clear()
        self.commander.lock_thrust()
        self.console.print(f"Samara flies {self._name}, the supervisor is {self.commander.supervisor.condition.value}")

    def due_packets(self) -> Iterator[Packet]:
        """Yield the console lines and the log data that are due."""
        yield from self.console.due_packets()
        if self.log_snapshot is not None:
            for data in self.logs.due_data(self.log_snapshot, self.log_snapshot.time_us):
                yield Packet(Port.LOGS, 2, data)

    @property
    def status(self) -> int:
        """The supervisor's bits, lowest first.

        Can be armed, is armed, arms automatically, can fly, is flying, tumbled, locked, crashed, high-level commander is
        active, has finished, is disabled.
        """
        supervisor, trajectory = self.commander.supervisor, self.commander.planner.planned_curve
        can_be_armed = supervisor.condition not in (Condition.LOCKED, Condition.CRASHED) and not supervisor.tumbled
        bits = (
            can_be_armed,
            supervisor.armed,
            True,
            supervisor.may_fly,
            supervisor.condition in (Condition.FLYING, Condition.LEVEL),
            supervisor.tumbled,
            supervisor.condition is Condition.LOCKED,
            supervisor.condition is Condition.CRASHED,
            trajectory is not None,
            trajectory is None or trajectory.is_finished(self.commander.now),
            False,
        )
        return sum(1 << index for index, bit in enumerate(bits) if bit)

    # Packets ---------------------------------------------------------------------------------------------------------

    def answer_packet(self, packet: Packet) -> Iterator[Packet]:
        """Yield the answer to a packet; an invalid packet changes nothing and has no answer."""
        data = self._answer_data(packet)
        if data is not None:
            yield packet._replace(data=data)

    def _answer_data(self, packet: Packet) -> bytes | None:
        port, channel, data = packet
        if port == Port.LINK:
            return (
                data if channel == 0 else LINK_SOURCE if channel == 1 else None
            )  # echo, source; the sink channel has no answer
        if port == Port.PLATFORM:
            return self._platform(channel, data)
        if port == Port.LOGS:
            now_us = self.log_snapshot.time_us if self.log_snapshot else 0
            return (
                self.logs.toc.answer,
                lambda request: self.logs.answer_control(request, now_us),
                _no_answer,
                _no_answer,
            )[channel](data)
        if port == Port.PARAMETERS:
            parameters = self.parameters
            return (parameters.toc.answer, parameters.answer_read, parameters.answer_write, parameters.answer_misc)[
                channel
            ](data)
        if port == Port.MEMORY:
            return (self.memory.answer_info, self.memory.answer_read, self._write_memory, _no_answer)[channel](data)
        if port == Port.SUPERVISOR:
            return self._supervisor(channel, data)
        if port == Port.HIGH_LEVEL and channel == 0 and data:
            return (data[:3] + b"\0\0\0")[:3] + bytes([self.commander.execute_order(data)])
        self._execute(port, channel, data)
        return None

    def _write_memory(self, data: bytes) -> bytes:
        """Write to memory; the tester counts its errors from 0 after `memTst.resetW`."""
        if self.parameters.values[RESET_TESTER]:
            self.parameters.values[RESET_TESTER] = 0.0
            self.memory.tester.errors = 0
        return self.memory.answer_write(data)

    def _execute(self, port: int, channel: int, data: bytes) -> None:
        """Execute a packet that has no answer."""
        if port == Port.ROLL_PITCH_YAW_THRUST and channel == 0:
            if (rpyt_setpoint := decode_rpyt(data)) is not None:
                self.commander.set_rpyt_setpoint(rpyt_setpoint)
        elif port == Port.SETPOINTS and channel == 0:
            if (generic_setpoint := decode_setpoint(data)) is not None:
                self.commander.set_setpoint(generic_setpoint)
        elif port == Port.SETPOINTS and channel == 1:
            if len(data) == 5 and data[0] == NO_MORE_SETPOINTS:
                self.commander.release_setpoint()
        elif port == Port.LOCALISATION:
            self._store_external_position(channel, data)

    def _platform(self, channel: int, data: bytes) -> bytes | None:
        """Answer requests for the protocol and firmware version; arm, as older clients request it."""
        if channel == 1 and data == b"\0":
            return data + bytes([PROTOCOL_VERSION])
        if channel == 1 and data == b"\1":
            return data + b"samara\0"
        if channel == 0 and len(data) == 2 and data[0] == 1:
            return data + self._arm(bool(data[1]))
        if channel == 0 and data == b"\2":
            return data + self._recover()
        return None

    def _supervisor(self, channel: int, data: bytes) -> bytes | None:
        if channel == 0 and data == b"\x0c":
            return bytes([data[0] | ANSWER_FLAG]) + struct.pack("<H", self.status)
        if channel == 0 and len(data) == 1 and 1 <= data[0] <= STATUS_BITS:
            return bytes([data[0] | ANSWER_FLAG, self.status >> data[0] - 1 & 1])
        if channel == 1 and len(data) == 2 and data[0] == 1:
            return bytes([data[0] | ANSWER_FLAG]) + self._arm(bool(data[1]))
        if channel == 1 and data == b"\2":
            return bytes([data[0] | ANSWER_FLAG]) + self._recover()
        if channel == 1:
            self._emergency(data)
        return None

    def _arm(self, armed: bool) -> bytes:
        self.commander.supervisor.armed = armed
        return bytes([True, armed])

    def _recover(self) -> bytes:
        is_ready = self.commander.supervisor.recover()
        return bytes([is_ready, is_ready])

    def _emergency(self, data: bytes) -> None:
        if data == bytes([EMERGENCY_STOP]):
            self.commander.supervisor.halt()
        elif data == bytes([WATCHDOG]):
            self.commander.supervisor.reset_watchdog()

    def _store_external_position(self, channel: int, data: bytes) -> None:
        """Store an external position for the log (control uses the true position); handle emergency stops."""
        if channel == 1 and len(data) == 1:
            self._emergency(data)
        layout = _EXTERNAL.get(channel)
        if layout is None or len(data) != layout.size or (channel == 1 and data[0] != EXTERNAL_POSE):
            return
        numbers = layout.unpack(data)[channel : channel + 3]
        if all(map(math.isfinite, numbers)):
            self.external_W = Vec3(*numbers)


def standing_height(vehicle: Vehicle) -> float:
    """Height of the centre of mass above level ground when the vehicle stands [m]; 0 without contact points."""
    return max(-float(point_B.z) for point_B in vehicle["contact"].points_B) if vehicle.has("contact") else 0.0


def _no_answer(data: bytes) -> bytes | None:
    return None
