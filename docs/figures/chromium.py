"""A headless Chromium, driven over its DevTools protocol: open a page, click what has a text, read what is on the screen."""

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
    """The browser on this machine, or None"""
    return next((path for path in map(shutil.which, NAMES) if path), None)


class Browser:
    """One browser; `page(address)` opens a page in it."""

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
            told = Path(self._folder.name) / "DevToolsActivePort"
            wait_for(lambda: told.is_file() and len(told.read_text().splitlines()) == 2, 30.0, "Chromium to start")
            port, path = told.read_text().splitlines()
            self._socket = connect(f"ws://127.0.0.1:{port}{path}", max_size=None)
        except BaseException:
            self.close()
            raise
        self._numbers = itertools.count(1)
        self.events: list[dict[str, Any]] = []

    def call(self, method: str, session: str | None = None, **parameters: Any) -> dict[str, Any]:
        """One command of the protocol and its answer"""
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
        """Opens an address in a page of its own"""
        return BrowserPage(self, address, size)

    def close(self) -> None:
        """Ends the browser"""
        self._process.terminate()
        try:
            self._process.wait(timeout=10.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._folder.cleanup()


class BrowserPage:
    """One page: what it logs, what it asks the network for, what is written on it."""

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
        """The value of a piece of JavaScript"""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{script}: {answer['exceptionDetails'].get('exception', answer['exceptionDetails'])}")
        return answer["result"].get("value")

    @property
    def text(self) -> str:
        """Everything written on the page"""
        return self.evaluate("document.body ? document.body.innerText : ''")

    def wait(self, what: str, seconds: float = 20.0) -> None:
        """Until a text is on the page"""
        wait_for(lambda: what in self.text, seconds, f"{what!r} on the page")

    def click_text(self, text: str, kind: str = "button, label, input, [role=option]") -> None:
        """Clicks the first element of a kind with exactly this text"""
        found = self.evaluate(
            "(() => { const own = [...document.querySelectorAll("
            f"{json.dumps(kind)})].find(e => e.textContent.trim() === {json.dumps(text)});"
            "if (!own) return false; own.scrollIntoView({block: 'center'}); own.click(); return true; })()"
        )
        assert found, f"there is no {text!r} to click on the page: {self.text!r}"

    def mouse(self, x: float, y: float) -> None:
        """A click of the left button at a place of the window  [pixels]"""
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            button = "none" if kind == "mouseMoved" else "left"
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button=button, clickCount=1)

    def key(self, name: str, code: int, place: str = "") -> None:
        """One key, on whatever has the focus; its name, its number, and what its place is called where that differs"""
        for kind in ("rawKeyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=name, code=place or name, windowsVirtualKeyCode=code)

    def picture(self, path: Path | None = None) -> bytes:
        """A PNG of what is seen"""
        data = base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"])
        if path is not None:
            path.write_bytes(data)
        return data

    def _own(self, method: str) -> list[dict[str, Any]]:
        self.evaluate("1")  # what was said before this answer has been read
        mine = [event for event in self._browser.events if event.get("sessionId") == self._session]
        return [event["params"] for event in mine if event["method"] == method]

    def complaints(self) -> list[str]:
        """Errors in the console, exceptions nobody caught"""
        said = [each["entry"] for each in self._own("Log.entryAdded")]
        errors = [each["text"] for each in said if each["level"] == "error"]
        calls = [each for each in self._own("Runtime.consoleAPICalled") if each["type"] == "error"]
        errors += [" ".join(str(part.get("value", part.get("description"))) for part in each["args"]) for each in calls]
        return errors + [each["exceptionDetails"]["text"] for each in self._own("Runtime.exceptionThrown")]

    def asked_for(self) -> list[str]:
        """Every address the page asked for"""
        opened = [each["url"] for each in self._own("Network.webSocketCreated")]
        return [each["request"]["url"] for each in self._own("Network.requestWillBeSent")] + opened

    def close(self) -> None:
        """Closes the page"""
        self._browser.call("Target.closeTarget", targetId=self._target)


def wait_for(true: Callable[[], Any], seconds: float, what: str) -> None:
    """Until something is true; an error that says what it waited for"""
    until = time.monotonic() + seconds
    while not true():
        if time.monotonic() > until:
            raise AssertionError(f"waited {seconds:g} s for {what}")
        time.sleep(0.05)
