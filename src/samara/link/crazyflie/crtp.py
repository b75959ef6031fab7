"""CRTP packets: a byte that says port and channel, and up to 30 bytes of data; one datagram is one packet."""

from typing import NamedTuple

MOST_DATA = 30
NULL = b"\xff"
"""What a scan sends, and what is answered to it."""


class Port:
    """Which part of a Crazyflie is meant."""

    CONSOLE = 0
    PARAMETERS = 2
    ROLL_PITCH_YAW_THRUST = 3
    MEMORY = 4
    LOGS = 5
    LOCALISATION = 6
    SETPOINTS = 7
    HIGH_LEVEL = 8
    SUPERVISOR = 9
    PLATFORM = 13
    LINK = 15


class Packet(NamedTuple):
    """Port 0 … 15, channel 0 … 3, data."""

    port: int
    channel: int
    data: bytes


def parse(datagram: bytes) -> Packet | None:
    """The packet of a datagram; None for one that is empty or too long"""
    if not 1 <= len(datagram) <= 1 + MOST_DATA:
        return None
    return Packet(datagram[0] >> 4, datagram[0] & 0b11, bytes(datagram[1:]))


def datagram(packet: Packet) -> bytes:
    """port << 4 | channel, and the data"""
    if len(packet.data) > MOST_DATA:
        raise ValueError(f"a packet's data has {len(packet.data)} bytes; expected {MOST_DATA} at most")
    return bytes([packet.port << 4 | packet.channel]) + packet.data
