"""A visitor without a browser: speaks to the page's server as viser's client does, and says that it keeps up."""

import threading
import time
from typing import Any

import msgspec
import viser
import zstandard
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

CAMERA = {
    "type": "ViewerCameraMessage",
    "wxyz": [1.0, 0.0, 0.0, 0.0],
    "position": [0.0, 0.0, 5.0],
    "fov": 0.7,
    "near": 0.1,
    "far": 100.0,
    "image_height": 400,
    "image_width": 600,
    "look_at": [0.0, 0.0, 0.0],
    "up_direction": [0.0, 0.0, 1.0],
}


class Visitor:
    """Connects, reads everything, remembers the latest of each property of each node and element."""

    def __init__(self, port: int, **options: Any) -> None:
        self.socket = connect(
            f"ws://127.0.0.1:{port}",
            subprotocols=[f"viser-v{viser.__version__}"],
            max_size=None,
            close_timeout=1.0,
            **options,
        )
        self.messages, self.bytes, self.batches = 0, 0, 0
        self.latest: dict[tuple[str, str], Any] = {}
        self.created: dict[str, dict[str, Any]] = {}
        self.say(CAMERA)
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def say(self, message: dict[str, Any]) -> None:
        self.socket.send(msgspec.msgpack.encode(message))

    def press(self, label: str, value: Any = True) -> None:
        """Uses the element of the page that has this label"""
        for own in self.created.values():
            if own["props"].get("label") == label:
                return self.say({"type": "GuiUpdateMessage", "uuid": own["uuid"], "updates": {"value": value}})
        raise AssertionError(
            f"there is no {label!r}; there are {[o['props'].get('label') for o in self.created.values()]}"
        )

    def key(self, key: str) -> None:
        """Presses a key"""
        (command,) = (own["uuid"] for own in self.created.values() if own["props"].get("hotkey") == key)
        self.say({"type": "CommandTriggerMessage", "uuid": command})

    def text(self) -> str:
        """All HTML on the page, as it was last set"""
        return " ".join(str(value) for (_, name), value in self.latest.items() if name == "content")

    def _read(self) -> None:
        plain = zstandard.ZstdDecompressor()
        try:
            for raw in self.socket:
                size, packed = int.from_bytes(raw[:8], "little"), int.from_bytes(raw[8:16], "little")
                batch = msgspec.msgpack.decode(plain.decompress(raw[16 : 16 + packed], max_output_size=size))
                self.batches, self.bytes = self.batches + 1, self.bytes + len(raw)
                for message in batch["messages"]:
                    self._take(message)
        except ConnectionClosed:
            pass

    def _take(self, message: dict[str, Any]) -> None:
        self.messages += 1
        if message["type"] == "LocalStorageGetItemRequestMessage":
            answer = {"value": None, "error": None, "request_uuid": message["request_uuid"]}
            self.say({"type": "LocalStorageGetItemResponseMessage", **answer})
        elif "updates" in message:
            name = message.get("uuid", message.get("name"))
            self.latest |= {(name, key): value for key, value in message["updates"].items()}
        elif "uuid" in message and "props" in message:
            self.created[message["uuid"]] = message

    def close(self) -> None:
        self.socket.close()
        self._thread.join(timeout=5.0)


def wait_for(true: Any, seconds: float, what: str) -> None:
    """Until something is true; an error that says what it waited for"""
    until = time.monotonic() + seconds
    while not true():
        if time.monotonic() > until:
            raise AssertionError(f"waited {seconds:g} s for {what}")
        time.sleep(0.02)
