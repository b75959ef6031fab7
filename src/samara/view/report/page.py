"""A web page as one file: text is escaped where it is put in, pictures are inside, nothing is asked of any server.

element("p", "a < b & c")        # <p>a &lt; b &amp; c</p>
element("a", "here", href="#x")  # attributes are escaped too
"""

import base64
import io
from collections.abc import Iterable, Sequence
from functools import cache
from html import escape
from importlib import resources
from typing import TYPE_CHECKING

from samara.vehicles.shape import COLOURS, INK

if TYPE_CHECKING:
    from matplotlib.figure import Figure

EMPTY = ("img", "br", "meta")


class Html(str):
    """Text that is HTML already; any other text is escaped before it becomes part of a page."""

    __slots__ = ()


def element(name: str, /, *children: object, **attributes: object) -> Html:
    """<name attribute="…">children</name>; children that are not Html are escaped, None is left out, lists are joined

    An attribute whose name is a word of Python ends in an underscore: class_; one with a dash has an underscore for it.
    """
    told = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(str(value), quote=True)}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in EMPTY:
        return Html(f"<{name}{told}>")
    return Html(f"<{name}{told}>{joined(children)}</{name}>")


def joined(children: Iterable[object]) -> Html:
    """All of them in a row, escaped where they are not Html"""
    parts = []
    for child in children:
        if child is None:
            continue
        if isinstance(child, Html):
            parts.append(str(child))
        elif isinstance(child, (list, tuple)):
            parts.append(str(joined(child)))
        else:
            parts.append(escape(str(child)))
    return Html("".join(parts))


def table(headings: Sequence[object], rows: Iterable[Sequence[object]], class_: str | None = None) -> Html:
    """The first cell of each row names it"""
    head = element("thead", element("tr", [element("th", own) for own in headings])) if headings else None
    body = [element("tr", element("th", first), [element("td", own) for own in rest]) for first, *rest in rows]
    return element("div", element("table", head, element("tbody", body), class_=class_), class_="wide")


def picture(figure: "Figure", alternative: str, dpi: float = 110.0) -> Html:
    """A Matplotlib figure as a PNG inside the page"""
    from samara.view.plot.style import samara_style

    data = io.BytesIO()
    with samara_style():
        figure.savefig(data, format="png", dpi=dpi)
    return image(data.getvalue(), alternative)


def figure(drawn: "Figure", alternative: str) -> Html:
    """A Matplotlib figure in a frame"""
    return element("figure", picture(drawn, alternative))


def badge(text: str, good: bool) -> Html:
    """A short verdict"""
    return element("span", text, class_=f"badge {'good' if good else 'bad'}")


def faint(text: str) -> Html:
    """A paragraph of minor importance"""
    return element("p", text, class_="faint")


def limited(items: Sequence[object], most: int) -> list[Html]:
    """List items, and how many more there are than `most`"""
    more = [element("li", f"and {len(items) - most:,} more")] if len(items) > most else []
    return [*(element("li", item) for item in items[:most]), *more]


def image(data: bytes, alternative: str) -> Html:
    """A PNG inside the page"""
    return element("img", src=f"data:image/png;base64,{base64.b64encode(data).decode()}", alt=alternative)


def page(title: str, *body: object, script: str = "", script_hash: str = "") -> str:
    """The whole document: style inside, nothing fetched; no script runs but the one given, known by its hash"""
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element(
            "meta",
            http_equiv="Content-Security-Policy",
            content=f"{POLICY}; script-src '{script_hash}'" if script else POLICY,
        ),
        element("title", title),
        element("style", Html(style())),
    )
    program = element("script", Html(script)) if script else None
    return (
        "<!DOCTYPE html>\n" + element("html", head, element("body", element("main", *body), program), lang="en") + "\n"
    )


POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
"""A browser fetches nothing and runs nothing that a name in the page says."""


@cache
def style() -> str:
    """The style sheet, with the colours of the plots"""
    text = (resources.files("samara.view.report") / "page.css").read_text(encoding="utf-8")
    for name, colour in (("INK", INK), ("BLUE", COLOURS[0]), ("SKY", COLOURS[5])):
        text = text.replace(name, colour)
    return f"\n{text}"
