"""A headless Chromium, controlled over its DevTools protocol: open a page, click elements by text, read the screen."""

import base64
import itertools
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-extensions",
    "--use-gl=angle",
    "--use-angle=swiftshader",
    "--enable-unsafe-swiftshader",
    "--remote-debugging-port=0",
)
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def find_chromium() -> str | None:
    """Return the path of the browser on this machine, or None."""
    return next((path for path in map(shutil.which, NAMES) if path), None)


class Browser:
    """One browser process; `page(address)` opens a page."""

    def __init__(self, program: str, size: tuple[int, int] = (1280, 800)) -> None:
        from websockets.sync.client import connect

        self._folder = tempfile.TemporaryDirectory(prefix="samara-chromium-", ignore_cleanup_errors=True)
        command = [program, *FLAGS, f"--window-size={size[0]},{size[1]}", f"--user-data-dir={self._folder.name}"]
        self._process = subprocess.Popen(
            [*command, "about:blank"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "DBUS_SESSION_BUS_ADDRESS": "disabled:"},
        )
        try:
            port_file = Path(self._folder.name) / "DevToolsActivePort"
            wait_for(
                lambda: port_file.is_file() and len(port_file.read_text().splitlines()) == 2, 30.0, "Chromium to start"
            )
            port, path = port_file.read_text().splitlines()
            self._socket = connect(f"ws://127.0.0.1:{port}{path}", max_size=None)
        except BaseException:
            self.close()
            raise
        self._numbers = itertools.count(1)
        self.events: list[dict[str, Any]] = []

    def call(self, method: str, session: str | None = None, **parameters: Any) -> dict[str, Any]:
        """Send a command of the protocol and return its answer."""
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": parameters}
        self._socket.send(json.dumps(message if session is None else {**message, "sessionId": session}))
        while True:
            answer = json.loads(self._socket.recv(timeout=60.0))
            if answer.get("id") == number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
            self.events.append(answer)

    def page(self, address: str, size: tuple[int, int] = (1280, 800)) -> "BrowserPage":
        """Open an address in a new page."""
        return BrowserPage(self, address, size)

    def close(self) -> None:
        """Terminate the browser."""
        self._process.terminate()
        try:
            self._process.wait(timeout=10.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._folder.cleanup()


class BrowserPage:
    """One page: its console, its network requests and its text."""

    def __init__(self, browser: Browser, address: str, size: tuple[int, int]) -> None:
        self._browser = browser
        self._target = browser.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = browser.call("Target.attachToTarget", targetId=self._target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.call(
            "Emulation.setDeviceMetricsOverride", width=size[0], height=size[1], deviceScaleFactor=1, mobile=False
        )
        self.call("Page.navigate", url=address)

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        return self._browser.call(method, self._session, **parameters)

    def evaluate(self, script: str) -> Any:
        """Evaluate JavaScript and return its value."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{script}: {answer['exceptionDetails'].get('exception', answer['exceptionDetails'])}")
        return answer["result"].get("value")

    @property
    def text(self) -> str:
        """All text on the page."""
        return self.evaluate("document.body ? document.body.innerText : ''")

    def wait(self, text: str, seconds: float = 20.0) -> None:
        """Wait until a text is on the page."""
        wait_for(lambda: text in self.text, seconds, f"{text!r} on the page")

    def click_text(self, text: str, selector: str = "button, label, input, [role=option]") -> None:
        """Click the first element that matches a selector and has exactly this text."""
        clicked = self.evaluate(
            "(() => { const match = [...document.querySelectorAll("
            f"{json.dumps(selector)})].find(e => e.textContent.trim() === {json.dumps(text)});"
            "if (!match) return false; match.scrollIntoView({block: 'center'}); match.click(); return true; })()"
        )
        assert clicked, f"no element with the text {text!r} on the page: {self.text!r}"

    def mouse(self, x: float, y: float) -> None:
        """Click the left button at a position of the window [pixels]."""
        for event_type in ("mouseMoved", "mousePressed", "mouseReleased"):
            button = "none" if event_type == "mouseMoved" else "left"
            self.call("Input.dispatchMouseEvent", type=event_type, x=x, y=y, button=button, clickCount=1)

    def key(self, name: str, code: int, position_name: str = "") -> None:
        """Press one key on the focused element: its name, its key code, and the name of its position if that differs."""
        for event_type in ("rawKeyDown", "keyUp"):
            self.call(
                "Input.dispatchKeyEvent",
                type=event_type,
                key=name,
                code=position_name or name,
                windowsVirtualKeyCode=code,
            )

    def picture(self, path: Path | None = None) -> bytes:
        """Take a screenshot as PNG."""
        data = base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"])
        if path is not None:
            path.write_bytes(data)
        return data

    def _session_events(self, method: str) -> list[dict[str, Any]]:
        self.evaluate("1")  # reads the events sent before this answer
        session_events = [event for event in self._browser.events if event.get("sessionId") == self._session]
        return [event["params"] for event in session_events if event["method"] == method]

    def console_errors(self) -> list[str]:
        """Return errors in the console and uncaught exceptions."""
        entries = [event["entry"] for event in self._session_events("Log.entryAdded")]
        errors = [event["text"] for event in entries if event["level"] == "error"]
        console_errors = [
            event for event in self._session_events("Runtime.consoleAPICalled") if event["type"] == "error"
        ]
        errors += [
            " ".join(str(argument.get("value", argument.get("description"))) for argument in event["args"])
            for event in console_errors
        ]
        return errors + [event["exceptionDetails"]["text"] for event in self._session_events("Runtime.exceptionThrown")]

    def requested_addresses(self) -> list[str]:
        """Return every address that the page requested."""
        socket_urls = [event["url"] for event in self._session_events("Network.webSocketCreated")]
        return [event["request"]["url"] for event in self._session_events("Network.requestWillBeSent")] + socket_urls

    def close(self) -> None:
        """Close the page."""
        self._browser.call("Target.closeTarget", targetId=self._target)


def wait_for(condition: Callable[[], Any], seconds: float, description: str) -> None:
    """Wait until a condition is true; raise an AssertionError that names `what` after a timeout."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {seconds:g} s for {description}")
        time.sleep(0.05)
