"""The network ports of autopilots and simulators: bind them, check that they are free, and name the one that is in use."""

import socket
from collections.abc import Iterable
from contextlib import closing, suppress
from pathlib import Path
from typing import TypeAlias

Address: TypeAlias = tuple[str, int]
"""Host and port"""


def bind_socket(host: str, port: int, advice: str, *, stream: bool = False) -> socket.socket:
    """Bind a UDP or TCP socket to a port; raise ValueError with `advice` if the port is in use."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM if stream else socket.SOCK_DGRAM)
    try:
        if stream:  # ignore connections in TIME_WAIT
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((host, port))
    except OSError as error:
        sock.close()
        name = f"{'TCP' if stream else 'UDP'} {host}:{port}"
        raise ValueError(f"{name} cannot be used ({error.strerror or error}): {advice}") from None
    return sock


def require_free(host: str, advice: str, *, udp: Iterable[int] = (), tcp: Iterable[int] = ()) -> None:
    """Raise ValueError if a port that an autopilot will open is in use."""
    for ports, stream in ((udp, False), (tcp, True)):
        for port in ports:
            with closing(bind_socket(host, port, advice, stream=stream)):
                continue


def network_warning(title: str, *, udp: Iterable[int] = (), tcp: Iterable[int] = ()) -> str:
    """Name the ports that an autopilot has opened on all network interfaces, and how to close them; "" if there are none."""
    exposed = exposed_ports(udp=udp, tcp=tcp)
    if not exposed:
        return ""
    names = ", ".join(f"{protocol} {port}" for protocol, ports in exposed.items() for port in ports)
    rules = "; ".join(
        f"sudo iptables -I INPUT ! -i lo -p {protocol.lower()} -m multiport --dports {','.join(map(str, ports))} -j DROP"
        for protocol, ports in exposed.items()
    )
    return (
        f"{title} listens on all network interfaces ({names}): any machine that reaches this one can steer and reconfigure it; "
        f"to close these ports: {rules}"
    )


def exposed_ports(*, udp: Iterable[int] = (), tcp: Iterable[int] = ()) -> dict[str, list[int]]:
    """List the ports that a program has opened on all network interfaces, by protocol: {"TCP": [5761], …}.

    Linux lists them in /proc/net; on other systems the result is empty.
    """
    result: dict[str, list[int]] = {}
    for ports, name, listening in ((tcp, "TCP", "0A"), (udp, "UDP", "07")):
        lines: list[str] = []
        for file in (f"/proc/net/{name.lower()}", f"/proc/net/{name.lower()}6"):
            with suppress(OSError):
                lines += Path(file).read_text().splitlines()[1:]
        exposed = set()
        for line in lines:
            _, local, _, state, *_ = line.split()
            address, _, port = local.partition(":")
            if state == listening and not address.strip("0"):
                exposed.add(int(port, 16))
        if open_ports := [port for port in ports if port in exposed]:
            result[name] = open_ports
    return result


def other_flight_advice(instance: int) -> str:
    """Advice for a port of the simulator that another flight uses."""
    return f"is another flight there? End it, or fly with instance = {instance + 1}"


def other_process_advice(title: str, instance: int) -> str:
    """Advice for a port of the autopilot that another autopilot uses."""
    return f"{title} is already running for instance {instance}; end it, or fly with instance = {instance + 1}"
