"""Eclipse Cyclone DDS, the types of ROS 2 as it wants them declared, and where on the network it speaks."""

import os
import re
import socket
import stat
import sys
from contextlib import suppress
from functools import cache
from importlib import import_module
from typing import Any

from samara.core.lazy_import import MissingExtraError
from samara.record.ros2.messages import SIZES, fields_of, type_hash

LOOPBACK = """<CycloneDDS><Domain>
  <General><Interfaces><NetworkInterface address="127.0.0.1"/></Interfaces><AllowMulticast>false</AllowMulticast></General>
  <Discovery><ParticipantIndex>auto</ParticipantIndex><MaxAutoParticipantIndex>32</MaxAutoParticipantIndex>
    <Peers><Peer address="127.0.0.1"/></Peers></Discovery>
</Domain></CycloneDDS>"""
ON_INTERFACE = """<CycloneDDS><Domain>
  <General><Interfaces><NetworkInterface name="{}"/></Interfaces></General>
</Domain></CycloneDDS>"""
INTERFACE = re.compile(r"[\w.:-]{1,32}", re.ASCII)
LAST_DOMAIN = 232  # beyond it a port would have no number
NODE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,254}", re.ASCII)
ENCLAVE = b"enclave=/;"
"""The user data of a participant that ROS 2 counts as one of its own."""
FATAL = 1  # DDS_LC_FATAL of Cyclone DDS


def cyclonedds(module: str) -> Any:
    """A module of Cyclone DDS"""
    try:
        return import_module(f"cyclonedds.{module}")
    except ImportError as error:
        raise MissingExtraError("ROS 2 needs Cyclone DDS: pip install 'samara[ros2]'") from error


def silence_warnings() -> None:
    """Log fatal errors of Cyclone DDS alone, in this process.

    Every malformed packet on its port is a warning of 300 bytes on stderr, and any program on this machine can send them. The
    configuration (Tracing/Verbosity) does not apply to warnings.
    """
    cyclonedds("internal").load_cyclonedds().dds_set_log_mask(FATAL)


def configuration(interface: str = "") -> str:
    """On loopback alone, found without multicast, as ROS_AUTOMATIC_DISCOVERY_RANGE=LOCALHOST has it; or on an interface"""
    if not interface:
        return LOOPBACK
    if not INTERFACE.fullmatch(interface):
        raise ValueError(f"interface {interface!r}: expected the name of a network interface, as in 'eth0'")
    return ON_INTERFACE.format(interface)


def require_domain(domain: int) -> int:
    """The number of a DDS domain; ValueError where there is none such"""
    if not 0 <= domain <= LAST_DOMAIN:
        raise ValueError(f"domain {domain}: expected a number from 0 to {LAST_DOMAIN}")
    return domain


def require_node_name(name: str) -> str:
    """Return the name of a node, empty for a participant that announces none; ValueError for a name ROS 2 rejects."""
    if name and not NODE_NAME.fullmatch(name):
        raise ValueError(f"node {name!r}: expected letters, digits and '_', not beginning with a digit, as in 'samara'")
    return name


def endpoint_user_data(kind: str) -> bytes:
    """Return the user data in which an endpoint publishes the hash of its type, as the middleware of ROS 2 does."""
    return f"typehash={type_hash(kind)};".encode()


def wire_topic(topic: str) -> str:
    """'/drone/imu' as 'rt/drone/imu', as ROS 2 has it on the wire"""
    return f"rt{topic}"


def wire_type(kind: str) -> str:
    """'sensor_msgs/Imu' as 'sensor_msgs::msg::dds_::Imu_'"""
    package, _, name = kind.partition("/")
    return f"{package}::msg::dds_::{name}_"


@cache
def idl_type(kind: str) -> Any:
    """The class that Cyclone DDS declares a type of message by"""
    idl, types = cyclonedds("idl"), cyclonedds("idl.types")
    plain = {"bool": bool, "string": str}
    fields = {}
    for field in fields_of(kind):
        if field.capacity:
            member = types.bounded_str[field.capacity]
        elif field.kind in plain:
            member = plain[field.kind]
        else:
            member = getattr(types, field.kind) if field.kind in SIZES else idl_type(field.kind)
        if field.is_array:
            member = types.sequence[member] if field.length is None else types.array[member, field.length]
        fields[field.name] = member
    return idl.make_idl_struct(f"{kind.partition('/')[2]}_", wire_type(kind), fields)


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
