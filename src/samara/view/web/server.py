"""A viser server that listens on the loopback address only and checks every request and message before viser does.

viser offers no hook for such checks: it opens its port by `websockets.asyncio.server.serve`. While the server starts, that
function is replaced by one that adds the checks and opens the port.
"""

import contextlib
import http
import io
import logging
import math
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any
from urllib.parse import urlsplit

import msgspec
import viser
import websockets.asyncio.server as asyncio_server
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Response

LOOPBACK = ("127.0.0.1", "localhost", "::1")
MAX_MESSAGE_BYTES = 1 << 16  # [bytes]
SECURITY_POLICY = (
    "default-src 'self' 'unsafe-inline' 'unsafe-eval' data: blob:; "
    "connect-src 'self' ws://127.0.0.1:* ws://localhost:* data: blob:; "
    "form-action 'none'; base-uri 'none'; frame-ancestors 'self' http://localhost:* http://127.0.0.1:*"
)
"""Content-Security-Policy: the page may load nothing from another address, even if a later client should try."""

Vector = tuple[float, float, float]


def refusal_reason(hosts: Sequence[str], origins: Sequence[str]) -> str:
    """Return the reason to refuse a request, from all its `Host` and `Origin` headers; empty if it is accepted.

    A browser states the requesting page in `Origin`, always when it opens a websocket. Other programs send no `Origin`.
    """
    if len(hosts) != 1 or _host_name(f"//{hosts[0]}") not in LOOPBACK:
        return f"the Host is {_quote_headers(hosts)}; expected one of {', '.join(LOOPBACK)}"
    if origins and tuple(origins) != (f"http://{hosts[0]}",):
        return f"the Origin is {_quote_headers(origins)}; expected http://{hosts[0]}"
    return ""


def _host_name(address: str) -> str | None:
    try:
        parts = urlsplit(address)
        _ = parts.port  # raises ValueError unless it is a number
    except ValueError:
        return None
    return parts.hostname if not (parts.username or parts.path or parts.query or parts.fragment) else None


def _quote_headers(values: Sequence[str]) -> str:
    return " and ".join(repr(value[:80]) for value in values) or "missing"


class ViewerCameraMessage(msgspec.Struct, tag=True, tag_field="type", forbid_unknown_fields=True):
    """The pose of a browser's camera."""

    wxyz: tuple[float, float, float, float]
    position: Vector
    fov: float
    near: float
    far: float
    image_height: float
    image_width: float
    look_at: Vector
    up_direction: Vector


class GuiUpdateMessage(msgspec.Struct, tag=True, tag_field="type", forbid_unknown_fields=True):
    """A pressed button, a moved slider or a selected entry."""

    uuid: str
    updates: dict[str, bool | int | float | str]


class ScenePointerMessage(msgspec.Struct, tag=True, tag_field="type", forbid_unknown_fields=True):
    """A click into the scene."""

    event_type: str
    ray_origin: Vector
    ray_direction: Vector
    screen_pos: tuple[tuple[float, float], ...]
    modifier: str | None


class CommandTriggerMessage(msgspec.Struct, tag=True, tag_field="type", forbid_unknown_fields=True):
    """A pressed key, or a command selected from the list."""

    uuid: str


class LocalStorageGetItemResponseMessage(msgspec.Struct, tag=True, tag_field="type", forbid_unknown_fields=True):
    """The answer of a browser, which has drawn everything sent before the query."""

    value: str | None
    error: str | None
    request_uuid: str


_DECODER = msgspec.msgpack.Decoder(
    ViewerCameraMessage
    | GuiUpdateMessage
    | ScenePointerMessage
    | CommandTriggerMessage
    | LocalStorageGetItemResponseMessage
)


def is_permitted(raw: object) -> bool:
    """Whether a message from a browser may pass."""
    if not isinstance(raw, bytes) or len(raw) > MAX_MESSAGE_BYTES:
        return False
    try:
        message = _DECODER.decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, OverflowError):
        return False
    if isinstance(message, GuiUpdateMessage):
        return set(message.updates) == {"value"} and _all_finite(message.updates.values())
    return _all_finite(getattr(message, name) for name in message.__struct_fields__)


def _all_finite(values: Iterable[object]) -> bool:
    return all(math.isfinite(number) for number in _numbers(values))


def _numbers(values: Iterable[object]) -> Iterator[float]:
    for value in values:
        if isinstance(value, tuple):
            yield from _numbers(value)
        elif isinstance(value, (int, float)):
            yield value if abs(value) < 1e12 else math.inf


HOST, PORT = "127.0.0.1", 8080
CLOSE_TIMEOUT = 0.5  # [s]: time for a browser to complete the closing handshake
MAX_FRAME_BYTES = 1 << 20  # [bytes]: far above any browser's message

_startup_lock = threading.Lock()


def open_server(port: int = PORT, label: str = "samara") -> viser.ViserServer:
    """Open a server on 127.0.0.1, on the next free port if `port` is taken, and on any free port for 0."""
    if isinstance(port, bool) or not isinstance(port, int) or not 0 <= port < 65536:
        raise ValueError(f"the port is {port!r}; expected a whole number from 0 to 65535")
    opened_hosts = []
    original_serve = asyncio_server.serve

    def serve(handler: Any, host: str, port: int, **options: Any) -> Any:
        opened_hosts.append(host)
        options["process_request"] = _check_request(options["process_request"])
        options |= {"max_size": MAX_FRAME_BYTES, "close_timeout": CLOSE_TIMEOUT}
        options["logger"] = _silent_logger()
        return original_serve(_check_handler(handler), host, port, **options)

    with _startup_lock, _suppress_banner():
        asyncio_server.serve = serve  # type: ignore[misc,assignment]
        try:
            server = viser.ViserServer(host=HOST, port=port, label=label, verbose=False)
        finally:
            asyncio_server.serve = original_serve  # type: ignore[misc]
    if not opened_hosts or set(opened_hosts) != {HOST}:
        server.stop()
        raise RuntimeError(f"viser {viser.__version__} opens its port in a way that cannot be checked; expected 1.1")
    server.get_event_loop().set_exception_handler(lambda loop, context: None)  # ignore messages that make no sense
    return server


def server_address(server: viser.ViserServer) -> str:
    """Return the address of the page."""
    return f"http://{HOST}:{server.get_port()}"


def close_server(server: viser.ViserServer) -> None:
    """Close the port and every connection."""
    with _suppress_banner():
        server.stop()


class _FilteredConnection:
    """A connection whose `recv` returns only permitted messages."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    async def recv(self) -> Any:
        while True:
            raw = await self._connection.recv()
            if is_permitted(raw):
                return raw


def _check_handler(handler: Callable[[Any], Any]) -> Callable[[Any], Any]:
    async def checked(connection: Any) -> None:
        if connection.subprotocol != f"viser-v{viser.__version__}":
            await connection.close(1002, "different version of the page: reload it")
            return
        with contextlib.suppress(ConnectionClosed):
            await handler(_FilteredConnection(connection))

    return checked


def _check_request(process_request: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def checked(connection: Any, request: Any) -> Any:
        headers = request.headers
        reason = refusal_reason(headers.get_all("Host"), headers.get_all("Origin"))
        if reason:
            refusal = connection.respond(http.HTTPStatus.FORBIDDEN, f"refused: {reason}\n")
            return refusal
        response = process_request(connection, request)
        if isinstance(response, Response):
            response.headers["Content-Security-Policy"] = SECURITY_POLICY
            response.headers["X-Content-Type-Options"] = "nosniff"
            response.headers["Cache-Control"] = "no-store"
        return response

    return checked


def _silent_logger() -> logging.Logger:
    """Return a logger that discards the messages of websockets about refused or broken connections."""
    logger = logging.getLogger("samara.view.web")
    logger.addHandler(logging.NullHandler())
    logger.propagate = False
    return logger


@contextlib.contextmanager
def _suppress_banner() -> Iterator[None]:
    with contextlib.redirect_stdout(io.StringIO()):
        yield
