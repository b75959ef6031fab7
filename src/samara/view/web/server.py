"""A viser server that listens on the loopback address alone and looks at every request and message before viser does.

viser has no place to hang such a check: it opens its port by `websockets.asyncio.server.serve`. While the server starts, that
function is ours; it adds the check and opens the port.
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
LARGEST_MESSAGE = 1 << 16  # [bytes]
POLICY = (
    "default-src 'self' 'unsafe-inline' 'unsafe-eval' data: blob:; "
    "connect-src 'self' ws://127.0.0.1:* ws://localhost:* data: blob:; "
    "form-action 'none'; base-uri 'none'; frame-ancestors 'self' http://localhost:* http://127.0.0.1:*"
)
"""What the page may load: nothing from another address, even if a later version of the client should want to."""

Vector = tuple[float, float, float]


def objection(hosts: Sequence[str], origins: Sequence[str]) -> str:
    """Why a request is refused, from all its `Host` and `Origin` headers; empty when it is not

    A browser names the page that asks in `Origin`, and always does so when it opens a websocket. A program that is no browser
    names none.
    """
    if len(hosts) != 1 or _name(f"//{hosts[0]}") not in LOOPBACK:
        return f"the Host is {_shown(hosts)}; expected one of {', '.join(LOOPBACK)}"
    if origins and tuple(origins) != (f"http://{hosts[0]}",):
        return f"the Origin is {_shown(origins)}; expected http://{hosts[0]}"
    return ""


def _name(address: str) -> str | None:
    try:
        parts = urlsplit(address)
        _ = parts.port  # raises where it is not a number
    except ValueError:
        return None
    return parts.hostname if not (parts.username or parts.path or parts.query or parts.fragment) else None


def _shown(values: Sequence[str]) -> str:
    return " and ".join(repr(value[:80]) for value in values) or "missing"


class ViewerCameraMessage(msgspec.Struct, tag=True, tag_field="type", forbid_unknown_fields=True):
    """Where a browser's camera is."""

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
    """A button was pressed, a slider moved, a choice made."""

    uuid: str
    updates: dict[str, bool | int | float | str]


class ScenePointerMessage(msgspec.Struct, tag=True, tag_field="type", forbid_unknown_fields=True):
    """Somebody clicked into the scene."""

    event_type: str
    ray_origin: Vector
    ray_direction: Vector
    screen_pos: tuple[tuple[float, float], ...]
    modifier: str | None


class CommandTriggerMessage(msgspec.Struct, tag=True, tag_field="type", forbid_unknown_fields=True):
    """A key was pressed, or a command chosen from their list."""

    uuid: str


class LocalStorageGetItemResponseMessage(msgspec.Struct, tag=True, tag_field="type", forbid_unknown_fields=True):
    """A browser answers: it has drawn what it was sent before it was asked."""

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
    """Whether a message from a browser may pass"""
    if not isinstance(raw, bytes) or len(raw) > LARGEST_MESSAGE:
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
GOODBYE = 0.5  # [s] a browser has to say that it goes
LARGEST_FRAME = 1 << 20  # [bytes]: no browser's message comes near it

_opening = threading.Lock()


def open_server(port: int = PORT, label: str = "samara") -> viser.ViserServer:
    """A server on 127.0.0.1; on the next free port where that one is taken, and on any with 0"""
    if isinstance(port, bool) or not isinstance(port, int) or not 0 <= port < 65536:
        raise ValueError(f"the port is {port!r}; expected a whole number from 0 to 65535")
    opened = []
    original = asyncio_server.serve

    def serve(handler: Any, host: str, port: int, **options: Any) -> Any:
        opened.append(host)
        options["process_request"] = _checked_request(options["process_request"])
        options |= {"max_size": LARGEST_FRAME, "close_timeout": GOODBYE}
        options["logger"] = _silent_logger()
        return original(_checked_handler(handler), host, port, **options)

    with _opening, _no_banner():
        asyncio_server.serve = serve  # type: ignore[misc,assignment]
        try:
            server = viser.ViserServer(host=HOST, port=port, label=label, verbose=False)
        finally:
            asyncio_server.serve = original  # type: ignore[misc]
    if not opened or set(opened) != {HOST}:
        server.stop()
        raise RuntimeError(f"viser {viser.__version__} opens its port in a way that cannot be guarded; expected 1.1")
    server.get_event_loop().set_exception_handler(lambda loop, context: None)  # a message that makes no sense
    return server


def address_of(server: viser.ViserServer) -> str:
    """What to type into a browser"""
    return f"http://{HOST}:{server.get_port()}"


def close_server(server: viser.ViserServer) -> None:
    """Closes the port and every connection"""
    with _no_banner():
        server.stop()


class _Checked:
    """A connection whose `recv` gives only what a browser may say."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    async def recv(self) -> Any:
        while True:
            raw = await self._connection.recv()
            if is_permitted(raw):
                return raw


def _checked_handler(handler: Callable[[Any], Any]) -> Callable[[Any], Any]:
    async def checked(connection: Any) -> None:
        if connection.subprotocol != f"viser-v{viser.__version__}":
            await connection.close(1002, "another version of the page: load it again")
            return
        with contextlib.suppress(ConnectionClosed):
            await handler(_Checked(connection))

    return checked


def _checked_request(process: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def checked(connection: Any, request: Any) -> Any:
        headers = request.headers
        why = objection(headers.get_all("Host"), headers.get_all("Origin"))
        if why:
            refusal = connection.respond(http.HTTPStatus.FORBIDDEN, f"refused: {why}\n")
            return refusal
        response = process(connection, request)
        if isinstance(response, Response):
            response.headers["Content-Security-Policy"] = POLICY
            response.headers["X-Content-Type-Options"] = "nosniff"
            response.headers["Cache-Control"] = "no-store"
        return response

    return checked


def _silent_logger() -> logging.Logger:
    """What websockets would print about every connection that is refused or breaks."""
    logger = logging.getLogger("samara.view.web")
    logger.addHandler(logging.NullHandler())
    logger.propagate = False
    return logger


@contextlib.contextmanager
def _no_banner() -> Iterator[None]:
    with contextlib.redirect_stdout(io.StringIO()):
        yield
