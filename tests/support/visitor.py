"""A client without a browser: uses the protocol of viser's client, and acknowledges all batches."""

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
    """Connects, reads everything, and stores the latest value of each property of each node and element."""

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
        self.send(CAMERA)
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def send(self, message: dict[str, Any]) -> None:
        self.socket.send(msgspec.msgpack.encode(message))

    def press(self, label: str, value: Any = True) -> None:
        """Use the element of the page that has this label."""
        for element in self.created.values():
            if element["props"].get("label") == label:
                return self.send({"type": "GuiUpdateMessage", "uuid": element["uuid"], "updates": {"value": value}})
        raise AssertionError(
            f"there is no {label!r}; there are {[o['props'].get('label') for o in self.created.values()]}"
        )

    def key(self, key: str) -> None:
        """Press a key."""
        (command,) = (element["uuid"] for element in self.created.values() if element["props"].get("hotkey") == key)
        self.send({"type": "CommandTriggerMessage", "uuid": command})

    def text(self) -> str:
        """Return all HTML on the page, as last set."""
        return " ".join(str(value) for (_, name), value in self.latest.items() if name == "content")

    def _read(self) -> None:
        decompressor = zstandard.ZstdDecompressor()
        try:
            for raw in self.socket:
                size, compressed_size = int.from_bytes(raw[:8], "little"), int.from_bytes(raw[8:16], "little")
                batch = msgspec.msgpack.decode(
                    decompressor.decompress(raw[16 : 16 + compressed_size], max_output_size=size)
                )
                self.batches, self.bytes = self.batches + 1, self.bytes + len(raw)
                for message in batch["messages"]:
                    self._handle_message(message)
        except ConnectionClosed:
            pass

    def _handle_message(self, message: dict[str, Any]) -> None:
        self.messages += 1
        if message["type"] == "LocalStorageGetItemRequestMessage":
            answer = {"value": None, "error": None, "request_uuid": message["request_uuid"]}
            self.send({"type": "LocalStorageGetItemResponseMessage", **answer})
        elif "updates" in message:
            name = message.get("uuid", message.get("name"))
            self.latest |= {(name, key): value for key, value in message["updates"].items()}
        elif "uuid" in message and "props" in message:
            self.created[message["uuid"]] = message

    def close(self) -> None:
        self.socket.close()
        self._thread.join(timeout=5.0)


def wait_until_true(condition: Any, seconds: float, description: str) -> None:
    """Wait until a condition is true; fail with its description after `seconds`."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {seconds:g} s for {description}")
        time.sleep(0.02)
