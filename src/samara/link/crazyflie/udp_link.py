"""A simulated Crazyflie on UDP, in real time: cflib connects to udp://127.0.0.1:19850, to 19851 for the next drone, and so on.

Scripts sleep and wait in real time, so the flight runs in real time too: it never runs ahead, and it does not make up for long
delays. It begins when a client connects to one of its drones.
"""

import select
import time
from collections.abc import Iterator, Sequence

from samara.link.crazyflie.crtp import NULL_PACKET, Packet, Port, datagram, parse
from samara.link.crazyflie.crtp_server import CrtpServer
from samara.link.link import POLL_PERIOD, AutopilotLostError, Link, LinkContext, LogMessage, OnceLog
from samara.link.ports import Address, bind_socket, other_flight_advice
from samara.link.sensor_snapshot import Readings
from samara.physics.types import Vehicle
from samara.scenario.autopilot import Autopilot
from samara.scenario.events import Order

PORT = 19850
MAX_DATAGRAMS = 256  # datagrams read in one instant, so that a flood does not delay the flight
CLIENT_TIMEOUT = 5.0  # [s, wall-clock]: after this another client may connect
MAX_CATCH_UP = 0.1  # [s]: longer delays are not made up
CONNECT_CHANNELS = {(Port.LINK, 1), (Port.PLATFORM, 1), (Port.LOGS, 0), (Port.PARAMETERS, 0)}
"""Ports and channels of a client's first packets: requests for the source, the protocol version and the TOCs."""


OLD_CFLIB_GREETING = b"\xc3\xbf\x01\x01\x01"
"""Greeting of cflib before 0.1.32, which appends a checksum to every packet; CRTP has none."""


def open_link(context: LinkContext) -> Link:
    """Open the link to one Crazyflie's client."""
    return Crazyflie(context.autopilot, context.vehicle, context.log_message, context.other_links)


class Crazyflie:
    """The link to the client that flies this drone by CRTP."""

    title = "a CRTP client"

    def __init__(
        self, autopilot: Autopilot, vehicle: Vehicle, log_message: LogMessage, other_links: Sequence[Link] = ()
    ) -> None:
        """Create the link; a client that connects to one of the links in `other_links` starts the flight."""
        self._other_links = other_links
        self._autopilot, self._log_message, self._once_log = autopilot, log_message, OnceLog(log_message)
        self._socket = bind_socket(autopilot.host, PORT + autopilot.instance, other_flight_advice(autopilot.instance))
        self._socket.setblocking(False)
        try:
            self.server = CrtpServer(vehicle, autopilot.hover, 1.0 / autopilot.sensor_rate)
        except BaseException:
            self._socket.close()
            raise
        self.uri = f"udp://{autopilot.host}:{PORT + autopilot.instance}"
        self._client: Address | None = None
        self._client_time = self._start_time = 0.0
        self._has_started = False
        self.sent = self.answered = self.skipped = 0

    # The interface ---------------------------------------------------------------------------------------------------

    def begin(self, readings: Readings) -> None:
        """Do nothing: the whole exchange is in `exchange`."""

    def exchange(self, readings: Readings) -> Sequence[float]:
        """Compute the outputs from the packets received until now; send answers and log data."""
        if not self._has_started:
            self._wait()
            self._has_started, self._start_time = True, time.monotonic() - readings.time_us / 1e6
        self._receive_until(self._start_time + readings.time_us / 1e6)
        outputs = self.server.fly(readings)
        if self._client is not None:
            for packet in self.server.due_packets():
                self._send(packet, self._client)
        return outputs

    def send_order(self, order: Order) -> None:
        """Do nothing: the CRTP client flies the drone, not the scenario."""

    def closing_report(self) -> Iterator[tuple[str, str]]:
        """Yield the packet count and the repeated messages."""
        yield "info", f"{self.uri}: {self.answered} packets, {self.skipped} skipped"
        yield from self._once_log.repetitions()

    def close(self) -> None:
        """Free the port."""
        self._socket.close()

    # The wire --------------------------------------------------------------------------------------------------------

    def _wait(self) -> None:
        """Wait until a client has connected to a drone of this flight."""
        start_time, is_logged = time.monotonic(), False
        links = [self, *(link for link in self._other_links if isinstance(link, Crazyflie) and link is not self)]
        while not any(link._client or link._has_started for link in links):
            if not is_logged:
                self._log_message("info", f"waiting for a CRTP client: let cflib connect to {self.uri}")
                is_logged = True
            if time.monotonic() - start_time > self._autopilot.wait:
                raise AutopilotLostError(f"no client connected to {self.uri} within {self._autopilot.wait:g} s")
            readable = select.select([link._socket for link in links], [], [], POLL_PERIOD)[0]
            for link in links:
                if link._socket in readable:
                    link._receive_datagram()

    def _receive_until(self, due: float) -> None:
        """Receive datagrams until the instant is due in real time."""
        if time.monotonic() - due > MAX_CATCH_UP:
            self._start_time += time.monotonic() - due
        for _ in range(MAX_DATAGRAMS):
            remaining = due - time.monotonic()
            if not select.select([self._socket], [], [], max(remaining, 0.0))[0]:
                return
            self._receive_datagram()
        if (remaining := due - time.monotonic()) > 0.0:
            self._once_log.log("warning", f"too many datagrams on {self.uri}; the excess is not read", "flood")
            time.sleep(remaining)

    def _receive_datagram(self) -> None:
        """Receive one datagram: answer a scan from any sender, and other packets of the client only."""
        try:
            data, source = self._socket.recvfrom(64)
        except OSError:
            return
        if data == NULL_PACKET:
            self._send_bytes(NULL_PACKET, source)
            return
        if data == OLD_CFLIB_GREETING:
            version = "cflib before 0.1.32, whose packets differ; expected cflib 0.1.32 or newer"
            self._once_log.log("warning", f"{self.uri}: the client is {version}", "old")
        packet = parse(data)
        if packet is None or not self._is_accepted(packet, source):
            self.skipped += 1
            return
        answers = list(self.server.answer_packet(packet))
        if source != self._client and not answers:
            self.skipped += 1
            return
        if source != self._client:
            self._client = source
            self.server.greet_client()
            self._once_log.log("info", f"{self.uri}: a client connected", "client")
        self._client_time = time.monotonic()
        self.sent, self.answered = self.sent + 1, self.answered + 1
        for answer in answers:
            self._send(answer, source)

    def _is_accepted(self, packet: Packet, source: Address) -> bool:
        """Whether to accept a packet: from the client, or from a sender that connects and may become the client."""
        connects = (packet.port, packet.channel) in CONNECT_CHANNELS
        if source == self._client or (connects and (packet.port == Port.LINK or self._client is None)):
            return True
        if self._client is None:
            return False
        if connects and time.monotonic() - self._client_time > CLIENT_TIMEOUT:
            return True
        self._once_log.log("warning", f"a second client sends to {self.uri}; its packets are ignored", "second")
        return False

    def _send(self, packet: Packet, source: Address) -> None:
        self._send_bytes(datagram(packet), source)

    def _send_bytes(self, data: bytes, source: Address) -> None:
        try:
            self._socket.sendto(data, source)
        except OSError:  # the client is gone or reads too slowly: a radio loses packets too
            self._once_log.log("info", f"{self.uri}: a packet could not be sent", "send")
