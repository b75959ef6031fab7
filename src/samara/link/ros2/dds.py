"""Eclipse Cyclone DDS: network configuration, the IDL types of ROS 2 messages, and the sockets it opens."""

import os
import re
import socket
import stat
import sys
from contextlib import suppress
from functools import cache
from typing import Any

from samara.core.extras import import_extra
from samara.record.ros2.messages import NUMBER_FORMATS, message_fields, type_hash

LOOPBACK = """<CycloneDDS><Domain>
  <General><Interfaces><NetworkInterface address="127.0.0.1"/></Interfaces><AllowMulticast>false</AllowMulticast></General>
  <Discovery><ParticipantIndex>auto</ParticipantIndex><MaxAutoParticipantIndex>32</MaxAutoParticipantIndex>
    <Peers><Peer address="127.0.0.1"/></Peers></Discovery>
</Domain></CycloneDDS>"""
ON_INTERFACE = """<CycloneDDS><Domain>
  <General><Interfaces><NetworkInterface name="{}"/></Interfaces></General>
</Domain></CycloneDDS>"""
INTERFACE = re.compile(r"[\w.:-]{1,32}", re.ASCII)
LAST_DOMAIN = 232  # a higher domain would have no valid port
NODE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,254}", re.ASCII)
ENCLAVE = b"enclave=/;"
"""The user data by which ROS 2 recognises a participant as a ROS 2 context."""
LOG_FATAL = 1  # DDS_LC_FATAL of Cyclone DDS


def cyclonedds(module: str) -> Any:
    """Import a module of Cyclone DDS."""
    return import_extra(f"cyclonedds.{module}", "ROS 2", "Cyclone DDS", "ros2")


def silence_warnings() -> None:
    """Log only fatal errors of Cyclone DDS, in this process.

    Every malformed packet on its port is a warning of 300 bytes on stderr, and any program on this machine can send them. The
    configuration (Tracing/Verbosity) does not apply to warnings.
    """
    cyclonedds("internal").load_cyclonedds().dds_set_log_mask(LOG_FATAL)


def configuration(interface: str = "") -> str:
    """Return the configuration for one network interface, or for loopback with unicast discovery if `interface` is empty.

    The latter corresponds to ROS_AUTOMATIC_DISCOVERY_RANGE=LOCALHOST.
    """
    if not interface:
        return LOOPBACK
    if not INTERFACE.fullmatch(interface):
        raise ValueError(f"interface {interface!r}: expected the name of a network interface, as in 'eth0'")
    return ON_INTERFACE.format(interface)


def require_domain(domain: int) -> int:
    """Return a DDS domain id; raise ValueError if it is out of range."""
    if not 0 <= domain <= LAST_DOMAIN:
        raise ValueError(f"domain {domain}: expected a number from 0 to {LAST_DOMAIN}")
    return domain


def require_node_name(name: str) -> str:
    """Return a node name, empty for a participant that announces none; raise ValueError for a name that ROS 2 rejects."""
    if name and not NODE_NAME.fullmatch(name):
        raise ValueError(f"node {name!r}: expected letters, digits and '_', not beginning with a digit, as in 'samara'")
    return name


def endpoint_user_data(message_type: str) -> bytes:
    """Return the user data in which an endpoint publishes the hash of its type, as the middleware of ROS 2 does."""
    return f"typehash={type_hash(message_type)};".encode()


def dds_topic_name(topic: str) -> str:
    """Convert '/drone/imu' to 'rt/drone/imu', the DDS topic of a ROS 2 topic."""
    return f"rt{topic}"


def dds_type(message_type: str) -> str:
    """Convert 'sensor_msgs/Imu' to 'sensor_msgs::msg::dds_::Imu_', the DDS type of a ROS 2 type."""
    package, _, name = message_type.partition("/")
    return f"{package}::msg::dds_::{name}_"


@cache
def idl_type(message_type: str) -> Any:
    """Return the IDL class of a ROS 2 message type for Cyclone DDS."""
    idl, types = cyclonedds("idl"), cyclonedds("idl.types")
    python_types = {"bool": bool, "string": str}
    fields = {}
    for field in message_fields(message_type):
        if field.capacity:
            member = types.bounded_str[field.capacity]
        elif field.type_name in python_types:
            member = python_types[field.type_name]
        else:
            member = getattr(types, field.type_name) if field.type_name in NUMBER_FORMATS else idl_type(field.type_name)
        if field.is_array:
            member = types.sequence[member] if field.length is None else types.array[member, field.length]
        fields[field.name] = member
    return idl.make_idl_struct(f"{message_type.partition('/')[2]}_", dds_type(message_type), fields)


DESCRIPTOR_DIRECTORY = "/proc/self/fd" if sys.platform == "linux" else "/dev/fd"
WILDCARD_ADDRESSES = ("0.0.0.0", "::")
IP_BOUND_IF = 25  # macOS


def wildcard_sockets() -> set[int]:
    """List the UDP sockets of this process that are bound to all addresses; empty if the system does not list open files."""
    sockets: set[int] = set()
    with suppress(OSError):
        for descriptor in map(int, os.listdir(DESCRIPTOR_DIRECTORY)):
            with suppress(OSError):  # closed in the meantime
                if stat.S_ISSOCK(os.fstat(descriptor).st_mode) and _is_bound_to_all_addresses(descriptor):
                    sockets.add(descriptor)
    return sockets


def _is_bound_to_all_addresses(descriptor: int) -> bool:
    with socket.socket(fileno=os.dup(descriptor)) as sock:
        if sock.type != socket.SOCK_DGRAM or sock.family not in (socket.AF_INET, socket.AF_INET6):
            return False
        return sock.getsockname()[0] in WILDCARD_ADDRESSES


def confine_to_loopback(sockets: set[int]) -> bool:
    """Bind sockets to the loopback device; return whether that was possible."""
    try:
        for descriptor in sockets:
            with socket.socket(fileno=os.dup(descriptor)) as sock:
                if sys.platform == "linux":
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b"lo\0")
                elif sys.platform == "darwin":
                    sock.setsockopt(socket.IPPROTO_IP, IP_BOUND_IF, socket.if_nametoindex("lo0"))
                else:
                    return False
    except OSError:
        return False
    return bool(sockets)
