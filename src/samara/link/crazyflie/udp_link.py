"""A simulated Crazyflie on UDP, in real time: cflib connects to udp://127.0.0.1:19850, to 19851 for the next drone, and so on.

Scripts sleep and wait in real time, so the flight runs in real time too: it never runs ahead, and it does not make up for long
delays. It begins when a client connects to one of its drones.
"""

import select
import time
from collections.abc import Iterator, Sequence

from samara.link.crazyflie.crtp import NULL, Packet, Port, datagram, parse
from samara.link.crazyflie.crtp_server import Endpoint
from samara.link.link import AT_ONCE, AutopilotLostError, Link, LinkContext, Repeated, Say
from samara.link.ports import Address, bound, other_flight
from samara.link.sensor_snapshot import Readings
from samara.physics.types import Vehicle
from samara.scenario.autopilot import Autopilot
from samara.scenario.events import Order

PORT = 19850
MOST_AT_ONCE = 256  # datagrams read in one instant, so that a flood does not delay the flight
SILENT = 5.0  # [s, wall-clock]: after this another client may connect
LATE = 0.1  # [s]: longer delays are not made up
CONNECTS = {(Port.LINK, 1), (Port.PLATFORM, 1), (Port.LOGS, 0), (Port.PARAMETERS, 0)}
"""Ports and channels of a client's first packets: requests for the source, the protocol version and the TOCs."""


OLD_CFLIB = b"\xc3\xbf\x01\x01\x01"
"""Greeting of cflib before 0.1.32, which appends a checksum to every packet; CRTP has none."""


def open_link(context: LinkContext) -> Link:
    """Open the link to one Crazyflie's client."""
    return Crazyflie(context.autopilot, context.vehicle, context.say, context.beside)


class Crazyflie:
    """The link to the client that flies this drone by CRTP."""

    title = "a CRTP client"

    def __init__(self, autopilot: Autopilot, vehicle: Vehicle, say: Say, beside: Sequence[Link] = ()) -> None:
        """Create the link; a client that connects to one of the links in `beside` starts the flight."""
        self._beside = beside
        self._autopilot, self._say, self._once = autopilot, say, Repeated(say)
        self._socket = bound(autopilot.host, PORT + autopilot.instance, other_flight(autopilot.instance))
        self._socket.setblocking(False)
        try:
            self.endpoint = Endpoint(vehicle, autopilot.hover, 1.0 / autopilot.sensor_rate)
        except BaseException:
            self._socket.close()
            raise
        self.uri = f"udp://{autopilot.host}:{PORT + autopilot.instance}"
        self._client: Address | None = None
        self._heard_at = self._started = 0.0
        self._waited = False
        self.sent = self.answered = self.skipped = 0

    # The interface ---------------------------------------------------------------------------------------------------

    def begin(self, readings: Readings) -> None:
        """Do nothing: the whole exchange is in `exchange`."""

    def exchange(self, readings: Readings) -> Sequence[float]:
        """Compute the outputs from the packets received until now; send answers and log data."""
        if not self._waited:
            self._wait()
            self._waited, self._started = True, time.monotonic() - readings.time_us / 1e6
        self._listen(self._started + readings.time_us / 1e6)
        outputs = self.endpoint.fly(readings)
        if self._client is not None:
            for packet in self.endpoint.due():
                self._send(packet, self._client)
        return outputs

    def obey(self, order: Order) -> None:
        """Do nothing: the CRTP client flies the drone, not the scenario."""

    def ending(self) -> Iterator[tuple[str, str]]:
        """Yield the packet count and the repeated messages."""
        yield "info", f"{self.uri}: {self.answered} packets, {self.skipped} skipped"
        yield from self._once.totals()

    def close(self) -> None:
        """Free the port."""
        self._socket.close()

    # The wire --------------------------------------------------------------------------------------------------------

    def _wait(self) -> None:
        """Wait until a client has connected to a drone of this flight."""
        start_time, is_logged = time.monotonic(), False
        links = [self, *(link for link in self._beside if isinstance(link, Crazyflie) and link is not self)]
        while not any(link._client or link._waited for link in links):
            if not is_logged:
                self._say("info", f"waiting for a CRTP client: let cflib connect to {self.uri}")
                is_logged = True
            if time.monotonic() - start_time > self._autopilot.wait:
                raise AutopilotLostError(f"no client connected to {self.uri} within {self._autopilot.wait:g} s")
            readable = select.select([link._socket for link in links], [], [], AT_ONCE)[0]
            for link in links:
                if link._socket in readable:
                    link._take()

    def _listen(self, due: float) -> None:
        """Receive datagrams until the instant is due in real time."""
        if time.monotonic() - due > LATE:
            self._started += time.monotonic() - due
        for _ in range(MOST_AT_ONCE):
            remaining = due - time.monotonic()
            if not select.select([self._socket], [], [], max(remaining, 0.0))[0]:
                return
            self._take()
        if (remaining := due - time.monotonic()) > 0.0:
            self._once.say("warning", f"too many datagrams on {self.uri}; the excess is not read", "flood")
            time.sleep(remaining)

    def _take(self) -> None:
        """Receive one datagram: answer a scan from any sender, and other packets of the client only."""
        try:
            data, source = self._socket.recvfrom(64)
        except OSError:
            return
        if data == NULL:
            self._put(NULL, source)
            return
        if data == OLD_CFLIB:
            version = "cflib before 0.1.32, whose packets differ; expected cflib 0.1.32 or newer"
            self._once.say("warning", f"{self.uri}: the client is {version}", "old")
        packet = parse(data)
        if packet is None or not self._may_speak(packet, source):
            self.skipped += 1
            return
        answers = list(self.endpoint.answers(packet))
        if source != self._client and not answers:
            self.skipped += 1
            return
        if source != self._client:
            self._client = source
            self.endpoint.meet()
            self._once.say("info", f"{self.uri}: a client connected", "client")
        self._heard_at = time.monotonic()
        self.sent, self.answered = self.sent + 1, self.answered + 1
        for answer in answers:
            self._send(answer, source)

    def _may_speak(self, packet: Packet, source: Address) -> bool:
        """Whether to accept a packet: from the client, or from a sender that connects and may become the client."""
        connects = (packet.port, packet.channel) in CONNECTS
        if source == self._client or (connects and (packet.port == Port.LINK or self._client is None)):
            return True
        if self._client is None:
            return False
        if connects and time.monotonic() - self._heard_at > SILENT:
            return True
        self._once.say("warning", f"a second client sends to {self.uri}; its packets are ignored", "second")
        return False

    def _send(self, packet: Packet, source: Address) -> None:
        self._put(datagram(packet), source)

    def _put(self, data: bytes, source: Address) -> None:
        try:
            self._socket.sendto(data, source)
        except OSError:  # the client is gone or reads too slowly: a radio loses packets too
            self._once.say("info", f"{self.uri}: a packet could not be sent", "send")
