"""Controls of the page: monitoring of browsers, button states, the drawing thread, requests and keys."""

import sys
import threading
import time
import traceback
import warnings
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import Any, Generic, NamedTuple, TypeVar

import viser

from samara.vehicles.shape import GRID
from samara.view.web.gauges import ACTIVE_BUTTON_STYLE, STYLE

warnings.filterwarnings("ignore", "Queued a LocalStorageGetItemRequestMessage on a closed connection", UserWarning)

MAX_RESPONSE_TIME = 0.1  # [s]: a browser that takes longer to answer is behind
QUERY_TIMEOUT = 30.0  # [s] after which the query is repeated


class ResponseMonitor:
    """Monitors in a separate thread whether one browser keeps up: it queries the browser after each picture."""

    def __init__(self, client: viser.ClientHandle) -> None:
        self._client, self._wake = client, threading.Event()
        self._query_time: float | None = None
        self._stopped = False
        self.has_answered = False  # whether the browser has ever shown the page
        threading.Thread(target=self._run, name="samara pulse", daemon=True).start()

    def note_sent(self) -> None:
        """Note that a picture has been sent."""
        self._wake.set()

    def stop(self) -> None:
        """Stop monitoring: the browser is gone."""
        self._stopped = True
        self._wake.set()

    @property
    def is_behind(self) -> bool:
        """Whether an answer is overdue."""
        query_time = self._query_time
        return query_time is not None and time.perf_counter() - query_time > MAX_RESPONSE_TIME

    def _run(self) -> None:
        while True:
            self._wake.wait()
            self._wake.clear()
            if self._stopped:
                return
            self._query_time = time.perf_counter()
            try:
                self._client.local_storage.get_item("samara", timeout=QUERY_TIMEOUT)
                self.has_answered = True
            except TimeoutError:
                continue
            except (RuntimeError, UserWarning):  # disconnected, or without local storage: counts as an answer
                self.has_answered = True
            finally:
                self._query_time = None


class ActiveButtons:
    """Highlighting of the active buttons in one or more groups."""

    def __init__(self, gui: viser.GuiApi) -> None:
        self._html = gui.add_html("")
        self._groups: dict[str, tuple[viser.GuiButtonGroupHandle, tuple[str, ...]]] = {}

    def add(self, name: str, group: viser.GuiButtonGroupHandle) -> None:
        """Register a group under a name."""
        self._groups[name] = group, tuple(group.options)

    def show(self, states: Mapping[str, str | None]) -> None:
        """Highlight the active option of each group; None highlights none."""
        rules = []
        for name, option in states.items():
            group, options = self._groups[name]
            if option in options:
                rules.append(_button_rule(group._impl.uuid, options.index(option)))
        content = f"<style>{''.join(rules)}</style>"
        if content != self._html.content:
            self._html.content = content


def _button_rule(uuid: str, index: int) -> str:
    """Return the style rule for one button of a group."""
    return f'div:has(> div > p > label[for="{uuid}"]) > div button:nth-child({index + 1}) {{{ACTIVE_BUTTON_STYLE}}}'


T = TypeVar("T")
RETRY_PERIOD = 5e-3  # [s]


class DrawingThread(Generic[T]):
    """Drawing thread: `submit(job)` returns at once; `draw(job)` runs in the thread as soon as the page is ready. The first
    error is printed."""

    def __init__(self, draw: Callable[[T], None], is_ready: Callable[[], bool] = lambda: True) -> None:
        self._draw, self._is_ready = draw, is_ready
        self._latest: T | None = None
        self._wake, self._closed = threading.Condition(), False
        self.drawn_count, self.error_count = 0, 0
        self._thread = threading.Thread(target=self._run, name="samara drawer", daemon=True)
        self._thread.start()

    def submit(self, job: T) -> None:
        """Draw this job next; a pending job that has not started is dropped."""
        with self._wake:
            self._latest = job
            self._wake.notify()

    def close(self) -> None:
        """Stop drawing."""
        with self._wake:
            self._closed = True
            self._wake.notify()
        self._thread.join(timeout=5.0)

    def _run(self) -> None:
        while True:
            with self._wake:
                while self._latest is None and not self._closed:
                    self._wake.wait()
                if self._closed:
                    return
            if not self._is_ready():
                time.sleep(RETRY_PERIOD)
                continue
            with self._wake:
                job, self._latest = self._latest, None
            if job is None:
                continue
            try:
                self._draw(job)
                self.drawn_count += 1
            except Exception:  # whatever a browser has done to the page, the flight continues
                self.error_count += 1
                if self.error_count == 1:
                    print(f"samara: the page could not be drawn:\n{traceback.format_exc()}", file=sys.stderr)


MAX_REQUESTS = 256  # pending requests; further ones displace the oldest


class Request(NamedTuple):
    """A request of a visitor: 'pause', 'speed', 'go to', …, and its value."""

    name: str
    value: Any = None


class Requests:
    """Bounded queue between the server's thread and the simulation's."""

    def __init__(self) -> None:
        self._pending: deque[Request] = deque(maxlen=MAX_REQUESTS)
        self._available = threading.Event()

    def put(self, kind: str, value: Any = None) -> None:
        """Append a request."""
        self._pending.append(Request(kind, value))
        self._available.set()

    def take(self) -> list[Request]:
        """Remove and return all pending requests, oldest first."""
        if not self._pending:
            return []
        self._available.clear()
        requests = []
        while self._pending:
            requests.append(self._pending.popleft())
        return requests

    def wait(self, seconds: float) -> None:
        """Wait for a request, at most this long."""
        self._available.wait(seconds)


KEY_NAMES = {"space": "space", "pageup": "Page ↑", "pagedown": "Page ↓", "home": "Home"}


class KeyBinding(NamedTuple):
    """A key, its description, and its callback, which runs in the server's thread and only queues a request."""

    key: str
    description: str
    callback: Callable[[], None]


def add_keys(gui: viser.GuiApi, keys: Sequence[KeyBinding]) -> None:
    """Register the keys and list them on the page."""
    for binding in keys:
        hotkey: Any = binding.key
        gui.add_command(binding.description, hotkey=hotkey).on_trigger(_on_trigger(binding.callback))
    gui.add_html(keys_html(keys))


def _on_trigger(callback: Callable[[], None]) -> Callable[[Any], Any]:
    async def trigger(event: Any) -> None:
        callback()

    return trigger


def keys_html(keys: Sequence[KeyBinding]) -> str:
    """Format the keys and their descriptions as a table."""
    key_style = f"border:1px solid {GRID};border-bottom-width:2px;border-radius:4px;padding:0 6px;white-space:nowrap"
    rows = "".join(
        f'<tr><td style="padding:1px 10px 1px 0"><span style="{key_style}">'
        f"{escape(KEY_NAMES.get(binding.key, binding.key))}</span></td>"
        f'<td style="width:100%">{escape(binding.description)}</td></tr>'
        for binding in keys
    )
    return f'<div style="{STYLE}"><table style="width:100%;border-spacing:0">{rows}</table></div>'
