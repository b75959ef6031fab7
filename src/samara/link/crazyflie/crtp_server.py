"""The CRTP server of a simulated Crazyflie: answers packets, and sends console lines and log data when they are due.

It has no socket and no clock: time is that of the simulation.
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
    """The console: `print` queues a line; `due` yields the queued lines once."""

    def __init__(self) -> None:
        self._lines: list[str] = []

    def print(self, line: str) -> None:
        """Queue a line; characters outside ASCII become question marks, because a packet may end within a character."""
        if len(self._lines) < MOST_LINES:
            self._lines.append(line)

    def due(self) -> Iterator[Packet]:
        """Yield the queued lines in packets."""
        for line in self._lines:
            data = f"{line}\n".encode("ascii", "replace")
            for start in range(0, len(data), MOST_DATA):
                yield Packet(Port.CONSOLE, 0, data[start : start + MOST_DATA])
        self._lines.clear()


PROTOCOL = 12
NAME = b"Bitcraze Crazyflie"
"""The first thing that a client requests: without it, the client takes the firmware for an old one."""
STATES = 11  # bits of the supervisor
ANSWERED = 0x80  # flag in the answer to a supervisor command
FULL = Supply(4.1, 0.0, 1.0, 1, 900.0)  # for a vehicle without a battery model
EMERGENCY, WATCHDOG = 3, 4
NO_MORE_SETPOINTS = 0
TOLD = {Condition.CRASHED: "Crashed, recovery required", Condition.LOCKED: "Locked until the simulation is restarted"}
_EXTERNAL = {0: struct.Struct("<3f"), 1: struct.Struct("<B7f")}
EXTERNAL_POSE = 8


class Endpoint:
    """A simulated Crazyflie: `answers(packet)`, and `fly(readings)` at each instant; `known` is the latest log snapshot."""

    def __init__(self, vehicle: Vehicle, hover: float, period: float) -> None:
        self.parameters, self.logs, self.memory = Parameters(PARAMETERS), Logs(VARIABLES), Memory()
        self.commander = Commander(self.memory.content, self.parameters.values, standing(vehicle))
        self.console = Console()
        self._name = vehicle.name
        self._pilot, self._supply = Pilot(vehicle, hover, period), FULL
        self.known: Known | None = None
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
        if supervisor.condition is not previous_condition and supervisor.condition in TOLD:
            self.console.print(TOLD[supervisor.condition])
        outputs = tuple(self._pilot.outputs(state._replace(rotor_speed=readings.rotor_speed), controller_setpoint))
        self._supply = readings.supply or self._supply
        self.known = Known(
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

    def meet(self) -> None:
        """Greet a new client: delete the log blocks of the previous one and lock the thrust."""
        self.logs.blocks.clear()
        self.commander.lock()
        self.console.print(f"Samara flies {self._name}, the supervisor is {self.commander.supervisor.condition.value}")

    def due(self) -> Iterator[Packet]:
        """Yield the console lines and the log data that are due."""
        yield from self.console.due()
        if self.known is not None:
            for data in self.logs.due(self.known, self.known.time_us):
                yield Packet(Port.LOGS, 2, data)

    @property
    def status(self) -> int:
        """The supervisor's bits, lowest first.

        Can be armed, is armed, arms automatically, can fly, is flying, tumbled, locked, crashed, high-level commander is
        active, has finished, is disabled.
        """
        supervisor, trajectory = self.commander.supervisor, self.commander.planner.way
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
            trajectory is None or trajectory.ended(self.commander.now),
            False,
        )
        return sum(1 << index for index, bit in enumerate(bits) if bit)

    # Packets ---------------------------------------------------------------------------------------------------------

    def answers(self, packet: Packet) -> Iterator[Packet]:
        """Yield the answer to a packet; an invalid packet changes nothing and has no answer."""
        data = self._answer(packet)
        if data is not None:
            yield packet._replace(data=data)

    def _answer(self, packet: Packet) -> bytes | None:
        port, channel, data = packet
        if port == Port.LINK:
            return (
                data if channel == 0 else NAME if channel == 1 else None
            )  # echo, source; the sink channel has no answer
        if port == Port.PLATFORM:
            return self._platform(channel, data)
        if port == Port.LOGS:
            now_us = self.known.time_us if self.known else 0
            return (self.logs.contents.answer, lambda request: self.logs.control(request, now_us), _none, _none)[
                channel
            ](data)
        if port == Port.PARAMETERS:
            parameters = self.parameters
            return (parameters.contents.answer, parameters.read, parameters.write, parameters.other)[channel](data)
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
        """Execute a packet that has no answer."""
        if port == Port.ROLL_PITCH_YAW_THRUST and channel == 0:
            if (rpyt_setpoint := roll_pitch_yaw_thrust(data)) is not None:
                self.commander.ask_by_thrust(rpyt_setpoint)
        elif port == Port.SETPOINTS and channel == 0:
            if (generic_setpoint := setpoint(data)) is not None:
                self.commander.ask(generic_setpoint)
        elif port == Port.SETPOINTS and channel == 1:
            if len(data) == 5 and data[0] == NO_MORE_SETPOINTS:
                self.commander.relax()
        elif port == Port.LOCALISATION:
            self._localise(channel, data)

    def _platform(self, channel: int, data: bytes) -> bytes | None:
        """Answer requests for the protocol and firmware version; arm, as older clients request it."""
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
        is_ready = self.commander.supervisor.recover()
        return bytes([is_ready, is_ready])

    def _emergency(self, data: bytes) -> None:
        if data == bytes([EMERGENCY]):
            self.commander.supervisor.halt()
        elif data == bytes([WATCHDOG]):
            self.commander.supervisor.watch()

    def _localise(self, channel: int, data: bytes) -> None:
        """Store an external position, which is logged only because the true position is known; handle emergency stops."""
        if channel == 1 and len(data) == 1:
            self._emergency(data)
        layout = _EXTERNAL.get(channel)
        if layout is None or len(data) != layout.size or (channel == 1 and data[0] != EXTERNAL_POSE):
            return
        numbers = layout.unpack(data)[channel : channel + 3]
        if all(map(math.isfinite, numbers)):
            self.external_W = Vec3(*numbers)


def standing(vehicle: Vehicle) -> float:
    """Height of the centre of mass above level ground when the vehicle stands [m]; 0 without contact points."""
    return max(-float(point_B.z) for point_B in vehicle["contact"].points_B) if vehicle.has("contact") else 0.0


def _none(data: bytes) -> bytes | None:
    return None
