"""Who may talk to the page's server, and what a browser may say to it.

The server listens on the loopback address, which keeps other machines out but not other web pages: any page open in the same
browser can try to reach it, under its own name (`Origin`) or, after its name was made to point to 127.0.0.1, as if it were
ours (`Host`). Both headers are looked at before anything is served. Of the messages only five kinds are let through, with the
fields and types they have; everything else is dropped before viser sees it.
"""

import math
from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import urlsplit

import msgspec

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


def is_permitted(raw: Any) -> bool:
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


def _all_finite(values: Any) -> bool:
    return all(math.isfinite(number) for number in _numbers(values))


def _numbers(values: Any) -> Iterator[float]:
    for value in values:
        if isinstance(value, tuple):
            yield from _numbers(value)
        elif isinstance(value, (int, float)):
            yield value if abs(value) < 1e12 else math.inf
