"""Autopilots for tests: they imitate the observed behaviour of the real ones, with a small controller that can hold a height.

They use pymavlink and plain sockets, with independent frames, units and mixers: they share only the protocol with Samara.
"""

import fcntl
import json
import math
import socket
import struct
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest


@pytest.fixture(autouse=True)
def one_at_a_time() -> Iterator[None]:
    """Serialise tests that use the fixed ports of autopilots, across processes."""
    with open(Path(tempfile.gettempdir()) / "samara-autopilot-ports.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


class Hold:
    """Holds attitude, height and position as a flight controller does, in NED and FRD, with normalised torques and thrust."""

    def __init__(self, target_ned: tuple[float, float, float], hover: float, gains: tuple[float, float, float]) -> None:
        self.target, self.hover, self.gains = np.array(target_ned), hover, np.array(gains)

    def demand(self, p: Any, v: Any, q: Any, rates: Any) -> np.ndarray:
        """(thrust, roll, pitch, yaw): normalised thrust, and torques of a cascaded P controller."""
        return self.attitude(3.0 * np.clip(self.target - p, -2.0, 2.0) - 3.2 * np.asarray(v), q, rates)

    def attitude(self, a: Any, q: Any, rates: Any, yaw: float | None = None) -> np.ndarray:
        w, x, y, z = q
        roll = math.atan2(2.0 * (w * x + y * z), 1.0 - 2.0 * (x * x + y * y))
        pitch = math.asin(max(-1.0, min(1.0, 2.0 * (w * y - z * x))))
        heading = math.atan2(2.0 * (w * z + x * y), 1.0 - 2.0 * (y * y + z * z))
        forward = a[0] * math.cos(heading) + a[1] * math.sin(heading)
        right = -a[0] * math.sin(heading) + a[1] * math.cos(heading)
        max_tilt = 0.35
        desired = np.array(
            [np.clip(right / 9.81, -max_tilt, max_tilt), np.clip(-forward / 9.81, -max_tilt, max_tilt), 0.0]
        )
        error = desired - np.array([roll, pitch, heading - (heading if yaw is None else yaw)])
        torques = self.gains * (np.array([6.5, 6.5, 2.8]) * error - np.asarray(rates))
        thrust = self.hover * (9.81 - a[2]) / 9.81 / max(math.cos(roll) * math.cos(pitch), 0.5)
        return np.array([thrust, *torques])


def px4_mixer(parameters: dict[str, float]) -> np.ndarray:
    """PX4's mixer: the pseudo-inverse of its effectiveness, columns of roll and pitch scaled to √(n/2), yaw and thrust to 1."""
    columns = []
    for i in range(int(parameters["CA_ROTOR_COUNT"])):
        position = np.array([parameters[f"CA_ROTOR{i}_P{letter}"] for letter in "XYZ"])
        axis = np.array([parameters[f"CA_ROTOR{i}_A{letter}"] for letter in "XYZ"])
        torque = np.cross(position, axis) - parameters[f"CA_ROTOR{i}_KM"] * axis
        columns.append([-axis[2], *torque])
    inverse = np.linalg.pinv(np.array(columns).T)
    n = len(columns)
    inverse[:, 1:3] *= math.sqrt(n / 2) / np.linalg.norm(inverse[:, 1:3], axis=0)
    inverse[:, 3] /= np.abs(inverse[:, 3]).max()
    inverse[:, 0] /= inverse[:, 0].mean()
    return inverse


class Px4Peer(threading.Thread):
    """PX4 on its simulator port: silent until it has booted, then one answer for each HIL_SENSOR, with the same time."""

    def __init__(
        self,
        parameters: dict[str, float] | None = None,
        *,
        port: int = 4560,
        target: tuple[float, float, float] = (0.0, 0.0, -1.5),
        boot_us: int = 70_000,
        answers_every: int = 1,
        trouble: str = "",
        trouble_at: int = 100,
        barrier: threading.Barrier | None = None,
    ) -> None:
        """With the barrier `barrier` it answers an instant only when every other peer has received its sensors too."""
        super().__init__(daemon=True)
        from pymavlink.dialects.v20 import common

        self.common, self.parameters = common, parameters or {}
        self.mav = common.MAVLink(None, srcSystem=1, srcComponent=1)
        self.parser = common.MAVLink(None)
        self.parser.robust_parsing = True
        self.port, self.boot_us, self.answers_every = port, boot_us, answers_every
        self.trouble, self.trouble_at, self.barrier = trouble, trouble_at, barrier
        self.sensors: list[Any] = []
        self.fixes: list[Any] = []
        self.truths: list[Any] = []
        self.answered, self.problem, self.running = 0, "", True
        self.connected = threading.Event()
        if parameters:
            gains = [0.15 * parameters[f"MC_{axis}RATE_K"] for axis in ("ROLL", "PITCH", "YAW")]
            self.hold = Hold(target, parameters["MPC_THR_HOVER"], (gains[0], gains[1], gains[2] * 1.3))
            self.mixer = px4_mixer(parameters)
        self.start()

    def run(self) -> None:
        try:
            self._run()
        except OSError as error:
            if self.running:
                self.problem = f"{type(error).__name__}: {error}"
        except Exception as error:
            self.problem = f"{type(error).__name__}: {error}"

    def _run(self) -> None:
        with self._connect() as wire:
            self.connected.set()
            self._exchange(wire)

    def _exchange(self, wire: socket.socket) -> None:
        wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        wire.settimeout(60.0)
        wire.sendall(self.common.MAVLink_heartbeat_message(0, 0, 12, 0, 0, 3).pack(self.mav))
        request = self.common.MAVLink_command_long_message(0, 0, 511, 0, 115, 4000, 0, 0, 0, 0, 0)
        wire.sendall(request.pack(self.mav))
        truth = None
        while self.running:
            try:
                data = wire.recv(65536)
            except TimeoutError:
                continue
            if not data:
                break
            for message in self.parser.parse_buffer(data) or []:
                message_type = message.get_type()
                if message_type == "HIL_GPS":
                    self.fixes.append(message)
                elif message_type == "HIL_STATE_QUATERNION":
                    truth = message
                    self.truths.append(message)
                elif message_type == "HIL_SENSOR":
                    self.sensors.append(message)
                    due = message.time_usec >= self.boot_us and len(self.sensors) % self.answers_every == 0
                    if due and not self._answer(wire, message, truth):
                        return

    def _connect(self) -> socket.socket:
        deadline = time.monotonic() + 60.0
        while True:
            try:
                return socket.create_connection(("127.0.0.1", self.port), timeout=1.0)
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.01)

    def _answer(self, wire: socket.socket, sensor: Any, truth: Any) -> bool:
        controls = [0.0] * 16
        if self.barrier is not None:
            self.barrier.wait(5.0)
        if truth is not None and self.parameters:
            controls[: len(self.mixer)] = self.motors(truth).tolist()
        packet = self.common.MAVLink_hil_actuator_controls_message(sensor.time_usec, controls, 129, 1).pack(self.mav)
        if self.answered == self.trouble_at and self.trouble:
            if self.trouble == "dies":
                wire.close()
                return False
            if self.trouble == "hangs":
                while self.running:
                    time.sleep(0.02)
                return False
            if self.trouble == "late":
                time.sleep(0.7)
            if self.trouble == "garbage":
                packet = bytes(range(256)) * 3 + b"\xfd\x09\x00" + packet
        wire.sendall(packet)
        self.answered += 1
        return True

    def motors(self, truth: Any) -> np.ndarray:
        scale = math.radians(1e-7) * 6378137.0
        home = (473977420, 85455940, 0)
        north = (truth.lat - home[0]) * scale * 0.99857  # the meridian's radius here
        east = (truth.lon - home[1]) * scale * math.cos(math.radians(home[0] * 1e-7)) * 1.00183
        p = np.array([north, east, -(truth.alt - home[2]) / 1000.0])
        v = np.array([truth.vx, truth.vy, truth.vz]) / 100.0
        rates = [truth.rollspeed, truth.pitchspeed, truth.yawspeed]
        return np.clip(self.mixer @ self.hold.demand(p, v, truth.attitude_quaternion, rates), 0.0, 1.0)

    def stop(self) -> None:
        """End the thread; fail if an error occurred in it."""
        self.running = False
        self.join(6.0)
        assert self.problem == ""


class GroundPeer(threading.Thread):
    """The MAVLink port of a PX4: heartbeats, and orders that are refused at first and then executed."""

    def __init__(self, port: int = 14540, refusals: int = 2, origin: tuple[int, int, int] | None = None) -> None:
        super().__init__(daemon=True)
        from pymavlink.dialects.v20 import common

        self.common, self.mav = common, common.MAVLink(None, srcSystem=1, srcComponent=1)
        self.parser = common.MAVLink(None)
        self.address, self.refusals = ("127.0.0.1", port), refusals
        self.orders: list[Any] = []
        self.batteries: list[Any] = []
        self.origin, self.setpoints = origin, list[Any]()
        self.on_battery: Any = lambda message: None
        self.height, self.armed, self.mode, self.running = 0.0, False, 0, True
        self.start()

    def run(self) -> None:
        wire = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        wire.bind(("127.0.0.1", 0))
        wire.settimeout(0.02)
        while self.running:
            base = 1 | (128 if self.armed else 0)
            wire.sendto(
                self.common.MAVLink_heartbeat_message(2, 12, base, self.mode, 4, 3).pack(self.mav), self.address
            )
            if self.origin is not None:
                wire.sendto(self.common.MAVLink_gps_global_origin_message(*self.origin).pack(self.mav), self.address)
            try:
                for message in self.parser.parse_buffer(wire.recv(4096)) or []:
                    self._execute(wire, message)
            except OSError:
                continue
        wire.close()

    def _execute(self, wire: socket.socket, message: Any) -> None:
        message_type = message.get_type()
        if message_type == "BATTERY_STATUS":
            self.batteries.append(message)
            self.on_battery(message)
        if message_type == "SET_POSITION_TARGET_LOCAL_NED":
            self.setpoints.append(message)
        if message_type == "PARAM_SET":
            self.height = message.param_value if message.param_id == "MIS_TAKEOFF_ALT" else self.height
        if message_type not in ("COMMAND_LONG", "COMMAND_INT"):
            return
        self.orders.append(message)
        result = 0
        if message.command == 400 and self.refusals:
            self.refusals, result = self.refusals - 1, 1
            text = self.common.MAVLink_statustext_message(4, b"Preflight Fail: no fix")
            wire.sendto(text.pack(self.mav), self.address)
        elif message.command == 400:
            self.armed = message.param1 == 1.0
            if self.armed and self.origin is not None:
                self.mode = 4 << 16 | 3 << 24  # take-off is done: it holds its position
        elif message.command == 176:
            self.mode = int(message.param2) << 16 | int(message.param3) << 24
        wire.sendto(self.common.MAVLink_command_ack_message(message.command, result).pack(self.mav), self.address)

    def stop(self) -> None:
        self.running = False
        self.join(2.0)


X_MIXER = np.array([[1, -1, 1, 1], [1, 1, -1, 1], [1, 1, 1, -1], [1, -1, -1, -1]], dtype=float)
"""FR, RL, FL, RR of an X frame: thrust, roll right, nose up, clockwise. FR and RL turn counter-clockwise."""


class ArduPilotPeer(threading.Thread):
    """ArduPilot's JSON backend: 0 µs while it starts, 1000 µs disarmed, then flying; blocks until it gets a valid line."""

    def __init__(
        self,
        *,
        port: int = 9002,
        outputs: int = 16,
        hover: float = 0.5,
        gains: tuple[float, float, float] = (0.1, 0.1, 0.1),
        target: tuple[float, float, float] = (0.0, 0.0, -1.5),
        trouble: str = "",
        trouble_at: int = 300,
    ) -> None:
        super().__init__(daemon=True)
        self.address, self.layout = ("127.0.0.1", port), struct.Struct(f"<HHI{outputs}H")
        self.magic, self.outputs = (18458 if outputs == 16 else 29569), outputs
        self.hold, self.trouble, self.trouble_at = Hold(target, hover, gains), trouble, trouble_at
        self.lines: list[dict[str, Any]] = []
        self.on_line: Any = lambda line: None
        self.raw = b""
        self.count, self.resends, self.running, self.problem = 0, 0, True, ""
        self.start()

    def run(self) -> None:
        try:
            self._run()
        except Exception as error:
            self.problem = f"{type(error).__name__}: {error}"

    def _run(self) -> None:
        wire = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        wire.bind(("127.0.0.1", 0))
        wire.settimeout(0.2)
        pulses = [0] * self.outputs
        while self.running:
            if self.trouble == "restart" and len(self.lines) == self.trouble_at:
                self.trouble, self.count, pulses = "", 0, [0] * self.outputs
            if self.trouble == "dies" and len(self.lines) == self.trouble_at:
                break
            if self.trouble == "garbage" and len(self.lines) == self.trouble_at:
                wire.sendto(b"\x1a\x48garbage", self.address)
                wire.sendto(bytes(39), self.address)
                self.trouble = ""
            self.count += 1
            wire.sendto(self.layout.pack(self.magic, 1000, self.count, *pulses), self.address)
            line = self._line(wire, pulses)
            if line is not None:
                pulses = self._pulses(line)
        wire.close()

    def _line(self, wire: socket.socket, pulses: list[int]) -> dict[str, Any] | None:
        while self.running:
            try:
                self.raw = wire.recv(65536)
            except TimeoutError:
                wire.sendto(self.layout.pack(self.magic, 1000, self.count, *pulses), self.address)
                self.resends += 1
                continue
            if self.trouble == "lost line" and len(self.lines) == self.trouble_at:
                self.trouble = ""
                continue  # as if it had been lost
            assert self.raw[:1] == self.raw[-1:] == b"\n"
            line: dict[str, Any] = json.loads(self.raw)
            self.lines.append(line)
            self.on_line(line)
            return line
        return None

    def _pulses(self, line: dict[str, Any]) -> list[int]:
        if len(self.lines) < 50:
            return [0] * self.outputs
        if len(self.lines) < 100:
            return [1000] * self.outputs
        demand = self.hold.demand(np.array(line["position"]), line["velocity"], line["quaternion"], line["imu"]["gyro"])
        motors = np.clip(X_MIXER @ demand, 0.0, 1.0)
        return [round(1000 + 1000 * u) for u in motors] + [1000] * (self.outputs - 4)

    def stop(self) -> None:
        self.running = False
        self.join(3.0)
        assert self.problem == ""


class BetaflightPeer(threading.Thread):
    """Betaflight in angle mode: one packet of motors for each of state, sticks from the radio, attitude from the gyro."""

    def __init__(
        self,
        convention: str = "4.6",
        gains: tuple[float, float, float] = (0.1, 0.1, 0.1),
        *,
        arms: bool = True,
        dies_at: int = -1,
    ) -> None:
        super().__init__(daemon=True)
        self.convention, self.gains, self.arms, self.dies_at = convention, gains, arms, dies_at
        self.states: list[tuple[float, ...]] = []
        self.radio: list[tuple[float, ...]] = []
        self.arrivals: list[float] = []
        self.attitude, self.running, self.armed, self.problem = np.zeros(3), True, False, ""
        self.sockets = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(3)]
        for sock, port in zip(self.sockets, (9003, 9004, 0), strict=True):
            sock.bind(("127.0.0.1", port))
        self.start()

    def run(self) -> None:
        state, radio, out = self.sockets
        state.settimeout(0.2)
        radio.setblocking(False)
        try:
            while self.running and len(self.states) != self.dies_at:
                try:
                    numbers = struct.unpack("<18d", state.recv(4096))
                except TimeoutError:
                    continue
                self.arrivals.append(time.perf_counter())
                self.states.append(numbers)
                try:
                    while True:
                        self.radio.append(struct.unpack("<d16H", radio.recv(4096)))
                except BlockingIOError:
                    pass
                motors = self._motors()
                out.sendto(struct.pack("<Hxx16f", 4, *[1000.0] * 16), ("127.0.0.1", 9001))
                out.sendto(struct.pack("<4f", *motors), ("127.0.0.1", 9002))
        except Exception as error:
            self.problem = f"{type(error).__name__}: {error}"
        finally:
            for sock in self.sockets:
                sock.close()

    def _motors(self) -> list[float]:
        """Interpret the sticks as angles, with the version's signs of gyro and acceleration and its motor order."""
        numbers = self.states[-1]
        dt = numbers[0] - self.states[-2][0] if len(self.states) > 1 else 0.0
        rates = np.array(numbers[1:4])
        force = np.array([-numbers[4], numbers[5], numbers[6]])
        if self.convention == "2026.12":
            rates[2] = -rates[2]
        self.attitude = self.attitude + dt * rates
        if not self.radio:
            return [0.0] * 4
        roll, pitch, throttle, yaw, arm = ((self.radio[-1][1 + k] - 1500) / 500.0 for k in range(5))
        if arm < 0.0:
            self.armed = False
        elif throttle < -0.9 and force[2] < -5.0:
            self.armed = self.arms
        if not self.armed:
            self.attitude = np.zeros(3)
            return [0.0] * 4
        desired = np.radians([60.0 * roll, -60.0 * pitch])
        rate = np.array([*(6.5 * (desired - self.attitude[:2])), math.radians(200.0) * yaw])
        torque = np.array(self.gains) * (rate - rates)
        fr, rl, fl, rr = np.clip(X_MIXER @ np.array([max((throttle + 1.0) / 2.0, 0.05), *torque]), 0.01, 1.0)
        return [fr, rl, fl, rr] if self.convention == "4.6" else [rr, fr, rl, fl]

    def stop(self) -> None:
        self.running = False
        self.join(2.0)
        assert self.problem == ""
