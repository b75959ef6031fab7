""""""

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
from samara.view.web.gauges import FILLED, STYLE

warnings.filterwarnings("ignore", "Queued a LocalStorageGetItemRequestMessage on a closed connection", UserWarning)

BEHIND = 0.1  # [s] without an answer
PATIENCE = 30.0  # [s] after which it is asked again


class Pulse:
    """One browser's answers, waited for in a thread of its own."""

    def __init__(self, client: viser.ClientHandle) -> None:
        self._client, self._sent = client, threading.Event()
        self._asked: float | None = None
        self._gone = False
        self.answered = False  # ever: it shows the page
        threading.Thread(target=self._run, name="samara pulse", daemon=True).start()

    def sent(self) -> None:
        """A picture is on its way"""
        self._sent.set()

    def end(self) -> None:
        """The browser is gone"""
        self._gone = True
        self._sent.set()

    @property
    def is_behind(self) -> bool:
        """Whether it has owed an answer for too long"""
        asked = self._asked
        return asked is not None and time.perf_counter() - asked > BEHIND

    def _run(self) -> None:
        while True:
            self._sent.wait()
            self._sent.clear()
            if self._gone:
                return
            self._asked = time.perf_counter()
            try:
                self._client.local_storage.get_item("samara", timeout=PATIENCE)
                self.answered = True
            except TimeoutError:
                continue
            except (RuntimeError, UserWarning):  # gone, or a browser that keeps nothing: it answered all the same
                self.answered = True
            finally:
                self._asked = None


class Pressed:
    """The buttons in force, of any number of groups."""

    def __init__(self, gui: viser.GuiApi) -> None:
        self._html = gui.add_html("")
        self._groups: dict[str, tuple[viser.GuiButtonGroupHandle, tuple[str, ...]]] = {}

    def add(self, name: str, group: viser.GuiButtonGroupHandle) -> None:
        """A group whose state is shown under this name"""
        self._groups[name] = group, tuple(group.options)

    def show(self, states: Mapping[str, str | None]) -> None:
        """The option in force of each group; None where there is none"""
        rules = []
        for name, option in states.items():
            group, options = self._groups[name]
            if option in options:
                rules.append(_rule(group._impl.uuid, options.index(option)))
        content = f"<style>{''.join(rules)}</style>"
        if content != self._html.content:
            self._html.content = content


def _rule(uuid: str, index: int) -> str:
    """The k-th button behind the label of a group"""
    return f'div:has(> div > p > label[for="{uuid}"]) > div button:nth-child({index + 1}) {{{FILLED}}}'


T = TypeVar("T")
SOON = 5e-3  # [s]


class Drawer(Generic[T]):
    """`hand(thing)` returns at once; `draw(thing)` runs in a thread of its own, when it is ready. What goes wrong there is
    said once."""

    def __init__(self, draw: Callable[[T], None], is_ready: Callable[[], bool] = lambda: True) -> None:
        self._draw, self._is_ready = draw, is_ready
        self._latest: T | None = None
        self._wake, self._closed = threading.Condition(), False
        self.drawn, self.troubles = 0, 0
        self._thread = threading.Thread(target=self._run, name="samara drawer", daemon=True)
        self._thread.start()

    def hand(self, thing: T) -> None:
        """Draw this next"""
        with self._wake:
            self._latest = thing
            self._wake.notify()

    def close(self) -> None:
        """Draws no more"""
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
                time.sleep(SOON)
                continue
            with self._wake:
                thing, self._latest = self._latest, None
            if thing is None:
                continue
            try:
                self._draw(thing)
                self.drawn += 1
            except Exception:  # whatever a browser has done to the page, the flight goes on
                self.troubles += 1
                if self.troubles == 1:
                    print(f"samara: the page could not be drawn:\n{traceback.format_exc()}", file=sys.stderr)


MOST = 256  # what is asked for beyond this pushes out the oldest


class Request(NamedTuple):
    """One wish: 'pause', 'speed', 'go to', …, and what belongs to it."""

    kind: str
    value: Any = None


class Requests:
    """A bounded queue between the server's thread and the simulation's."""

    def __init__(self) -> None:
        self._waiting: deque[Request] = deque(maxlen=MOST)
        self._some = threading.Event()

    def put(self, kind: str, value: Any = None) -> None:
        """Leaves a wish"""
        self._waiting.append(Request(kind, value))
        self._some.set()

    def take(self) -> list[Request]:
        """All wishes left so far, oldest first"""
        if not self._waiting:
            return []
        self._some.clear()
        taken = []
        while self._waiting:
            taken.append(self._waiting.popleft())
        return taken

    def wait(self, seconds: float) -> None:
        """Until there is one, or so long"""
        self._some.wait(seconds)


NAMES = {"space": "space", "pageup": "Page ↑", "pagedown": "Page ↓", "home": "Home"}


class Key(NamedTuple):
    """A key, what it does in words, and the deed: called on the server's thread, it only notes what is asked."""

    key: str
    words: str
    do: Callable[[], None]


def add_keys(gui: viser.GuiApi, keys: Sequence[Key]) -> None:
    """Registers the keys, and lists them on the page"""
    for own in keys:
        hotkey: Any = own.key
        gui.add_command(own.words, hotkey=hotkey).on_trigger(_on_trigger(own.do))
    gui.add_html(keys_html(keys))


def _on_trigger(do: Callable[[], None]) -> Callable[[Any], Any]:
    async def trigger(event: Any) -> None:
        do()

    return trigger


def keys_html(keys: Sequence[Key]) -> str:
    """The keys and what they do, as a table"""
    cap = f"border:1px solid {GRID};border-bottom-width:2px;border-radius:4px;padding:0 6px;white-space:nowrap"
    rows = "".join(
        f'<tr><td style="padding:1px 10px 1px 0"><span style="{cap}">{escape(NAMES.get(own.key, own.key))}</span></td>'
        f'<td style="width:100%">{escape(own.words)}</td></tr>'
        for own in keys
    )
    return f'<div style="{STYLE}"><table style="width:100%;border-spacing:0">{rows}</table></div>'
