"""The ports where autopilots and simulators meet: each is one flight's at a time, and one that is taken is named."""

import socket
from collections.abc import Iterable
from contextlib import closing


def bound(host: str, port: int, advice: str, *, stream: bool = False) -> socket.socket:
    """A socket at this port, UDP or TCP; ValueError, with what to do, where it is taken"""
    own = socket.socket(socket.AF_INET, socket.SOCK_STREAM if stream else socket.SOCK_DGRAM)
    try:
        if stream:  # a connection that was closed a minute ago does not count
            own.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        own.bind((host, port))
    except OSError as error:
        own.close()
        name = f"{'TCP' if stream else 'UDP'} {host}:{port}"
        raise ValueError(f"{name} cannot be used ({error.strerror or error}): {advice}") from None
    return own


def require_free(host: str, advice: str, *, udp: Iterable[int] = (), tcp: Iterable[int] = ()) -> None:
    """ValueError where one of the ports is taken that an autopilot itself will open"""
    for ports, stream in ((udp, False), (tcp, True)):
        for port in ports:
            with closing(bound(host, port, advice, stream=stream)):
                continue


def other_flight(instance: int) -> str:
    """What to do where another flight has one of our ports"""
    return f"is another flight there? End it, or fly with instance = {instance + 1}"


def other_process(title: str, instance: int) -> str:
    """What to do where another autopilot has one of its ports"""
    return f"{title} is already running for instance {instance}; end it, or fly with instance = {instance + 1}"
