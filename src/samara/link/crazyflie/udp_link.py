"""A Crazyflie on UDP, by the clock: cflib connects to udp://127.0.0.1:19850, the next drone's to 19851, and so on.

Scripts sleep and wait by the clock of the machine, so the flight keeps to it: it never runs ahead, and where it was late it
does not hurry. It begins when a client first asks one of its drones who it is.
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
MOST_AT_ONCE = 256  # datagrams that are looked at in one instant: a flood does not hold up the flight
SILENT = 5.0  # [s], by the clock: after this another client may speak without connecting anew
LATE = 0.1  # [s]: more is not made up for
CONNECTS = {(Port.LINK, 1), (Port.PLATFORM, 1), (Port.LOGS, 0), (Port.PARAMETERS, 0)}
"""Ports and channels with which a client begins: it asks who is there, and what there is."""


OLD_CFLIB = b"\xc3\xbf\x01\x01\x01"
"""What cflib before 0.1.32 greets with; after every packet it sends a checksum, which CRTP does not have."""


def open_link(context: LinkContext) -> Link:
    """Open the link to one Crazyflie's client."""
    return Crazyflie(context.autopilot, context.vehicle, context.say, context.beside)


class Crazyflie:
    """The link to whoever flies this drone by CRTP."""

    title = "a CRTP client"

    def __init__(self, autopilot: Autopilot, vehicle: Vehicle, say: Say, beside: Sequence[Link] = ()) -> None:
        """`beside` has the links of the same flight: whoever connects to one of them starts it."""
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
        """What the client has asked for until now decides the outputs; answers and log data go out"""
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
        """Nothing: whoever speaks CRTP flies it, not the scenario"""

    def ending(self) -> Iterator[tuple[str, str]]:
        """How many packets came, and what was said more than once"""
        yield "info", f"{self.uri}: {self.answered} packets, {self.skipped} skipped"
        yield from self._once.totals()

    def close(self) -> None:
        """The port is free again"""
        self._socket.close()

    # The wire --------------------------------------------------------------------------------------------------------

    def _wait(self) -> None:
        """Until somebody has connected to a drone of this flight"""
        begun, told = time.monotonic(), False
        there = [self, *(own for own in self._beside if isinstance(own, Crazyflie) and own is not self)]
        while not any(own._client or own._waited for own in there):
            if not told:
                self._say("info", f"waiting for a CRTP client: let cflib connect to {self.uri}")
                told = True
            if time.monotonic() - begun > self._autopilot.wait:
                raise AutopilotLostError(f"nobody spoke to {self.uri} within {self._autopilot.wait:g} s")
            spoken_to = select.select([own._socket for own in there], [], [], AT_ONCE)[0]
            for own in there:
                if own._socket in spoken_to:
                    own._take()

    def _listen(self, due: float) -> None:
        """Takes what has come, and what comes until the instant is due by the clock"""
        if time.monotonic() - due > LATE:
            self._started += time.monotonic() - due
        for _ in range(MOST_AT_ONCE):
            left = due - time.monotonic()
            if not select.select([self._socket], [], [], max(left, 0.0))[0]:
                return
            self._take()
        if (left := due - time.monotonic()) > 0.0:
            self._once.say("warning", f"a flood of datagrams on {self.uri}; what is too much is not read", "flood")
            time.sleep(left)

    def _take(self) -> None:
        """One datagram: a scan is answered to anybody, all else is for the one client"""
        try:
            data, source = self._socket.recvfrom(64)
        except OSError:
            return
        if data == NULL:
            self._put(NULL, source)
            return
        if data == OLD_CFLIB:
            words = "cflib before 0.1.32, which speaks otherwise; expected cflib 0.1.32 or newer"
            self._once.say("warning", f"{self.uri}: the client is {words}", "old")
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
            self._once.say("info", f"{self.uri}: a client is there", "client")
        self._heard_at = time.monotonic()
        self.sent, self.answered = self.sent + 1, self.answered + 1
        for answer in answers:
            self._send(answer, source)

    def _may_speak(self, packet: Packet, source: Address) -> bool:
        """The one client, or one that begins as clients do where there is none, or where it asks the drone anew who it is"""
        begins = (packet.port, packet.channel) in CONNECTS
        if source == self._client or (begins and (packet.port == Port.LINK or self._client is None)):
            return True
        if self._client is None:
            return False
        if begins and time.monotonic() - self._heard_at > SILENT:
            return True
        self._once.say("warning", f"somebody else speaks to {self.uri} too, and is not listened to", "second")
        return False

    def _send(self, packet: Packet, source: Address) -> None:
        self._put(datagram(packet), source)

    def _put(self, data: bytes, source: Address) -> None:
        try:
            self._socket.sendto(data, source)
        except OSError:  # nobody there any more, or too slow to read: a radio loses packets too
            self._once.say("info", f"{self.uri}: a packet could not be sent", "send")
