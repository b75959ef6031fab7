"""Keys that do what the buttons do: viser's commands, which Ctrl-K lists too."""

from collections.abc import Callable, Sequence
from html import escape
from typing import Any, NamedTuple

import viser

from samara.vehicles.colours import GRID
from samara.view.web.gauges import STYLE

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
