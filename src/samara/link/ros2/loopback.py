"""Keeps sockets to loopback: Cyclone DDS binds those it receives by to every address, whatever interface it was told.

A socket that is bound to the loopback device as well gets nothing that comes from elsewhere.
"""

import os
import socket
import stat
import sys
from contextlib import suppress

OPEN = "/proc/self/fd" if sys.platform == "linux" else "/dev/fd"
EVERY = ("0.0.0.0", "::")
IP_BOUND_IF = 25  # of macOS


def open_to_all() -> set[int]:
    """The UDP sockets of this process that are bound to every address; none where the system does not tell its files"""
    found: set[int] = set()
    with suppress(OSError):
        for number in map(int, os.listdir(OPEN)):
            with suppress(OSError):  # one that was closed meanwhile
                if stat.S_ISSOCK(os.fstat(number).st_mode) and _is_open_to_all(number):
                    found.add(number)
    return found


def _is_open_to_all(number: int) -> bool:
    with socket.socket(fileno=os.dup(number)) as own:
        if own.type != socket.SOCK_DGRAM or own.family not in (socket.AF_INET, socket.AF_INET6):
            return False
        return own.getsockname()[0] in EVERY


def confine(sockets: set[int]) -> bool:
    """Binds them to the loopback device; whether that was possible"""
    try:
        for number in sockets:
            with socket.socket(fileno=os.dup(number)) as own:
                if sys.platform == "linux":
                    own.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b"lo\0")
                elif sys.platform == "darwin":
                    own.setsockopt(socket.IPPROTO_IP, IP_BOUND_IF, socket.if_nametoindex("lo0"))
                else:
                    return False
    except OSError:
        return False
    return bool(sockets)
